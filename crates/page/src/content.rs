//! What does a page say, and what belongs to it?
//!
//! The tree pass, for pages whose content is wanted. The page becomes a tree (`tree`), its text
//! falls into blocks (`blocks`), each block is judged by what it is, where it stands and what
//! simple methods think of it (`judge` with `features`, `candidates`, `context`; `model` holds the
//! weights), the best set is taken (`select`) and written as text and as markdown.
//!
//! Always: any page is read without a panic and without recursion, in time and memory linear in its
//! length.

mod blocks;
mod element;
mod tree;

mod candidates;
mod context;
mod features;
mod judge;
mod lexicon;
mod likeness;
mod model;
mod portrait;
mod select;

mod dates;
mod language;
mod metadata;
mod outline;
mod render;
mod structured;

pub mod study;

use std::fmt;

use serde_json::Value;
use url::Url;

use judge::{Case, Hints};
use model::{Model, SHIPPED};
use render::Chosen;
use tree::Tree;

pub use metadata::Metadata;
pub use outline::{Alternate, Heading, Image, Outline};

/// What a page says.
#[derive(Clone, Debug)]
pub struct Content {
    pub page_type: PageType,
    /// The main content as plain text; paragraphs, headings, items and rows on lines of their own.
    pub text: String,
    /// The same as markdown.
    pub markdown: String,
    pub metadata: Metadata,
    /// Headings, pictures, other languages.
    pub outline: Outline,
    /// BCP 47, two letters where they exist.
    pub language: Option<String>,
    /// JSON-LD, microdata, RDFa, OpenGraph and Twitter cards in one form.
    pub structured_data: Vec<Value>,
    /// Words of the text.
    pub word_count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageType {
    Article,
    Forum,
    Product,
    Collection,
    Listing,
    Documentation,
    Service,
    Other,
}

impl PageType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Article => "article",
            Self::Forum => "forum",
            Self::Product => "product",
            Self::Collection => "collection",
            Self::Listing => "listing",
            Self::Documentation => "documentation",
            Self::Service => "service",
            Self::Other => "other",
        }
    }

    /// The likeliest; a page without words is of no type.
    fn of(shares: &[f32], words: u32) -> Self {
        use PageType::*;
        // In the order of `model::TYPES`.
        let types = [Article, Forum, Product, Collection, Listing, Documentation, Service];
        let best = shares.iter().zip(types).max_by(|a, b| a.0.total_cmp(b.0));
        best.filter(|_| words > 0).map_or(Other, |(_, page_type)| page_type)
    }
}

impl fmt::Display for PageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reads the content of a page in HTML.
pub(crate) fn read(page: &str, xml: bool, url: Option<&Url>, base: Option<&Url>) -> Content {
    read_with(&SHIPPED, page, xml, url, base).0
}

/// How sure of a block, and whether it was taken.
pub(crate) type Verdicts = Vec<(f32, bool)>;

pub(crate) fn read_with(
    model: &Model,
    page: &str,
    xml: bool,
    url: Option<&Url>,
    base: Option<&Url>,
) -> (Content, Verdicts) {
    let tree = Tree::parse(page, xml);
    let linked = structured::linked_data(&tree);
    let hints = Hints::of(&tree, &linked);
    let structured_data = structured::items(&tree, linked);
    let case = Case::new(&tree, url, &model.lexicon);
    let metadata = metadata::metadata(&tree, &case.blocks, &structured_data);
    let types = model.type_shares(&case.portrait);
    let judged = case.judge(&hints, &types, model);
    let blocks: Vec<(f32, u32)> =
        judged.iter().zip(&case.blocks.list).map(|(&p, block)| (p, block.words)).collect();
    let taken = select::select(&blocks);
    let chosen = Chosen { tree: &tree, blocks: &case.blocks, taken: &taken, base };
    let (text, markdown) = match instead(&blocks, &taken, &structured_data) {
        Some(text) => (text.clone(), text),
        None => (chosen.text(), chosen.markdown()),
    };
    let content = Content {
        page_type: PageType::of(&types, case.blocks.list.iter().map(|block| block.words).sum()),
        language: language::language(&tree, &text),
        markdown,
        word_count: blocks::count_words(&text),
        text,
        metadata,
        outline: Outline::of(&tree, base),
        structured_data,
    };
    (content, judged.into_iter().zip(taken).collect())
}

/// Words that the blocks are taken to hold at least when they are compared with structured data.
const EXPECTED_WORDS_MIN: f32 = 12.0;

/// The text to give when the page itself shows next to nothing of what its structured data has:
/// pages that a script fills are like that. A description is not enough: it stands in the metadata,
/// and what a page says about itself is not what it says.
fn instead(blocks: &[(f32, u32)], taken: &[bool], items: &[Value]) -> Option<String> {
    let pairs = blocks.iter().zip(taken).filter(|(_, taken)| **taken);
    let expected: f32 = pairs.map(|((p, words), _)| p * *words as f32).sum();
    let body = structured::body(items)?;
    let is_more = blocks::count_words(&body) as f32 > 3.0 * expected.max(EXPECTED_WORDS_MIN);
    is_more.then_some(body)
}

/// The content of plain text: all of it.
pub(crate) fn plain(text: &str) -> Content {
    let text = text.trim().to_owned();
    Content {
        page_type: PageType::Other,
        metadata: Metadata::default(),
        outline: Outline::default(),
        language: language::language(&Tree::parse("", false), &text),
        markdown: text.clone(),
        word_count: blocks::count_words(&text),
        structured_data: Vec::new(),
        text,
    }
}
