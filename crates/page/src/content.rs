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
pub(crate) mod element;
pub(crate) mod tree;

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
pub(crate) mod structured;

pub mod study;

use std::fmt;

use serde_json::Value;
use url::Url;

use crate::formats::Reading;
use crate::links::resolve;
use crate::state::{self, Mined};

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
    /// For each link of the document, in its order: where it stands. Empty for what is no page.
    pub places: Vec<LinkPlace>,
    /// Addresses in the state that the page keeps for its scripts, absolute, if
    /// [`crate::Limits::state`] asks for them.
    pub state_links: Vec<Url>,
}

/// Where in a page a link stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkPlace {
    /// In or around what was taken for main content.
    Content,
    /// In a menu, a header, a footer or a column beside it.
    Navigation,
    Other,
}

impl LinkPlace {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Navigation => "navigation",
            Self::Other => "other",
        }
    }
}

/// What is asked beside the content itself.
#[derive(Debug, Default)]
pub(crate) struct Wish<'w> {
    pub(crate) base: Option<&'w Url>,
    /// Where in the page the attributes of each link's tag begin.
    pub(crate) links: Vec<usize>,
    /// Whether addresses in the state are.
    pub(crate) state: bool,
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
pub(crate) fn read(page: &str, xml: bool, url: Option<&Url>, wish: &Wish<'_>) -> Content {
    read_with(&SHIPPED, page, xml, url, wish).0
}

/// How sure of a block, and whether it was taken.
pub(crate) type Verdicts = Vec<(f32, bool)>;

pub(crate) fn read_with(
    model: &Model,
    page: &str,
    xml: bool,
    url: Option<&Url>,
    wish: &Wish<'_>,
) -> (Content, Verdicts) {
    let base = wish.base;
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
    let expected = expected_words(&blocks, &taken);
    let is_empty = expected < EXPECTED_WORDS_MIN;
    let mined = if wish.state || is_empty { state::of_page(&tree) } else { Mined::default() };
    let instead = instead(expected, &structured_data).or_else(|| {
        let texts = mined.texts.join("\n\n");
        (is_empty && blocks::count_words(&texts) >= STATE_WORDS_MIN).then_some(texts)
    });
    let (text, markdown) = match instead {
        Some(text) => (text.clone(), text),
        None => (chosen.text(), chosen.markdown()),
    };
    let wanted = mined.addresses.iter().filter(|_| wish.state);
    let places = Places { tree: &tree, case: &case, taken: &taken };
    let content = Content {
        page_type: PageType::of(&types, case.blocks.list.iter().map(|block| block.words).sum()),
        language: language::language(&tree, &text),
        markdown,
        word_count: blocks::count_words(&text),
        text,
        metadata,
        outline: Outline::of(&tree, base),
        structured_data,
        places: wish.links.iter().map(|&at| places.of(at)).collect(),
        state_links: wanted.filter_map(|href| resolve(base?, href)).collect(),
    };
    (content, judged.into_iter().zip(taken).collect())
}

/// Words that the blocks are taken to hold at least when they are compared with structured data.
const EXPECTED_WORDS_MIN: f32 = 12.0;

/// Sentences in the state of a page that shows nothing are its text from so many words on; below are
/// labels of buttons.
const STATE_WORDS_MIN: u32 = 60;

fn expected_words(blocks: &[(f32, u32)], taken: &[bool]) -> f32 {
    let pairs = blocks.iter().zip(taken).filter(|(_, taken)| **taken);
    pairs.map(|((p, words), _)| p * *words as f32).sum()
}

/// The text to give when the page itself shows next to nothing of what its structured data has:
/// pages that a script fills are like that. A description is not enough: it stands in the metadata,
/// and what a page says about itself is not what it says.
fn instead(expected: f32, items: &[Value]) -> Option<String> {
    let body = structured::body(items)?;
    let is_more = blocks::count_words(&body) as f32 > 3.0 * expected.max(EXPECTED_WORDS_MIN);
    is_more.then_some(body)
}

/// Finds out where links stand.
struct Places<'p> {
    tree: &'p Tree<'p>,
    case: &'p Case<'p>,
    taken: &'p [bool],
}

impl Places<'_> {
    /// `at`: where in the page the attributes of its tag begin.
    fn of(&self, at: usize) -> LinkPlace {
        let Some(node) = self.tree.node_at(at) else { return LinkPlace::Other };
        let end = self.tree.nodes[node].end();
        let list = &self.case.blocks.list;
        let first = list.partition_point(|block| block.nodes.end <= node);
        let within = list[first..].iter().zip(&self.taken[first..]);
        // A card that is one link holds a few blocks.
        let mut within = within.take(BLOCKS_OF_LINK_MAX).take_while(|(b, _)| b.nodes.start < end);
        if within.any(|(_, taken)| *taken) {
            return LinkPlace::Content;
        }
        use context::flag::{ASIDE, FOOTER, HEADER, NAV};
        let flags = self.case.contexts.list[node].flags;
        let apart = flags & (NAV | HEADER | FOOTER | ASIDE) != 0;
        if apart { LinkPlace::Navigation } else { LinkPlace::Other }
    }
}

const BLOCKS_OF_LINK_MAX: usize = 16;

/// The content of a document that is no page.
pub(crate) fn of_reading(reading: Reading) -> Content {
    let metadata = Metadata {
        title: reading.title,
        description: reading.description,
        author: reading.author,
        published: reading.published,
        modified: reading.modified,
        site_name: None,
    };
    Content {
        page_type: PageType::Other,
        metadata,
        outline: Outline { headings: reading.headings, ..Outline::default() },
        language: language::of_text(reading.language.as_deref(), &reading.text),
        markdown: reading.markdown.unwrap_or_else(|| reading.text.clone()),
        word_count: blocks::count_words(&reading.text),
        structured_data: reading.about.into_iter().collect(),
        text: reading.text,
        state_links: Vec::new(),
        places: Vec::new(),
    }
}
