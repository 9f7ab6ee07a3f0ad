//! What the trainer needs to see of a page.
//!
//! `examples/content` learns the weights from pages with known main text. It works with the same
//! blocks and features as [`crate::extract`], so that what is learnt is what is used.

use url::Url;

use crate::content::features::SHORT_WORDS_MAX;
use crate::content::judge::{Case, Hints};
use crate::content::lexicon::{class_words, hash, text_words};
use crate::content::tree::Tree;
use crate::content::{self, Content, Wish, structured};

pub use crate::content::features::Rows;
pub use crate::content::judge::probabilities;
pub use crate::content::lexicon::{Lexicon, Tables};
pub use crate::content::model::{Branch, DecisionTree, Forest, Model, TYPES, logistic};
pub use crate::content::portrait::PAGE_FEATURES;

/// A page taken apart, before any judgement.
#[derive(Debug)]
pub struct Page {
    pub portrait: Vec<f32>,
    pub blocks: Vec<PageBlock>,
}

#[derive(Debug)]
pub struct PageBlock {
    pub text: String,
    pub words: u32,
    /// Hashes of the class words of all elements around it.
    pub classes: Vec<u32>,
    /// Hashes of its words, if it is a short line.
    pub line: Vec<u32>,
}

/// Takes a page apart.
pub fn page(url: &str, html: &str) -> Page {
    let tree = Tree::parse(html, false);
    let case = Case::new(&tree, Url::parse(url).ok().as_ref(), &Tables::default());
    let blocks = case.blocks.list.iter().map(|block| {
        let text = case.blocks.text_of(block).to_owned();
        let mut classes = Vec::new();
        let mut node = block.holder;
        while node > 0 {
            for (name, value) in tree.attributes(node) {
                if name.eq_ignore_ascii_case("class") || name.eq_ignore_ascii_case("id") {
                    classes.extend(class_words(value).map(hash));
                }
            }
            node = tree.nodes[node].parent();
        }
        classes.sort_unstable();
        classes.dedup();
        let mut line = Vec::new();
        if block.words <= SHORT_WORDS_MAX {
            line.extend(text_words(&text).map(hash));
            line.sort_unstable();
            line.dedup();
        }
        PageBlock { text, words: block.words, classes, line }
    });
    Page { blocks: blocks.collect(), portrait: case.portrait.clone() }
}

/// The features of all blocks; and again, once `thought` is known of them.
pub fn rows(
    url: &str,
    html: &str,
    types: &[f32],
    lexicon: &dyn Lexicon,
    thought: &dyn Fn(&Rows) -> Option<Vec<f32>>,
) -> (Rows, Option<Rows>) {
    let tree = Tree::parse(html, false);
    let case = Case::new(&tree, Url::parse(url).ok().as_ref(), lexicon);
    let hints = Hints::of(&tree, &structured::linked_data(&tree));
    let rows = case.rows(&hints, types, lexicon);
    let second = thought(&rows).map(|thought| case.second_rows(&rows, &thought));
    (rows, second)
}

/// What a model finds in a page: the content, and for each block how sure it is and whether it
/// was taken.
pub fn read(model: &Model, url: &str, html: &str) -> (Content, Vec<(f32, bool)>) {
    let url = Url::parse(url).ok();
    let wish = Wish { base: url.as_ref(), ..Wish::default() };
    content::read_with(model, html, false, url.as_ref(), &wish)
}
