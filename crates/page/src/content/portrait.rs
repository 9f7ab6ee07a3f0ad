//! What sort of page does it look like, as numbers?
//!
//! The features that the page type is judged by: how its words are spread over blocks, lists,
//! tables and links, which words its classes use, what its address, its OpenGraph type and its
//! JSON-LD say, and how its largest group of records looks.

use std::collections::HashMap;

use url::Url;

use crate::content::blocks::Blocks;
use crate::content::context::{Contexts, flag};
use crate::content::element::Element;
use crate::content::lexicon::{class_words, hash};
use crate::content::tree::Tree;

/// Words of classes that are counted.
const CLASS_WORDS: &[&str] = &[
    "cart",
    "product",
    "price",
    "review",
    "forum",
    "post",
    "thread",
    "reply",
    "comment",
    "topic",
    "user",
    "listing",
    "grid",
    "card",
    "category",
    "shop",
    "doc",
    "docs",
    "api",
    "sidebar",
    "toc",
    "article",
    "blog",
    "author",
    "date",
    "hero",
    "cta",
    "pricing",
    "testimonial",
    "faq",
    "job",
    "event",
    "filter",
    "pagination",
    "breadcrumb",
    "sku",
    "variant",
    "message",
    "avatar",
    "vote",
    "answer",
    "question",
    "code",
    "highlight",
    "entry",
    "story",
    "service",
    "team",
    "feature",
    "banner",
    "slider",
    "collection",
    "item",
    "result",
    "quantity",
    "rating",
    "swatch",
    "tag",
];

/// Words of the address that are looked for.
const URL_WORDS: &[&str] = &[
    "blog",
    "news",
    "article",
    "articles",
    "product",
    "products",
    "shop",
    "store",
    "category",
    "categories",
    "collection",
    "collections",
    "forum",
    "forums",
    "thread",
    "threads",
    "topic",
    "t",
    "questions",
    "community",
    "discussion",
    "viewtopic",
    "docs",
    "doc",
    "documentation",
    "guide",
    "reference",
    "api",
    "help",
    "manual",
    "tutorial",
    "services",
    "service",
    "solutions",
    "about",
    "search",
    "tag",
    "tags",
    "p",
    "dp",
    "item",
    "jobs",
    "events",
    "listing",
    "list",
    "c",
    "post",
    "showthread",
    "wiki",
    "learn",
    "en",
    "archive",
    "author",
    "directory",
    "real",
    "index",
];

/// Types in JSON-LD, and the OpenGraph type, as they stand in the page.
const TYPES: &[&str] = &[
    "Article\"",
    "NewsArticle\"",
    "BlogPosting\"",
    "\"Product\"",
    "ProductGroup\"",
    "ItemList\"",
    "CollectionPage\"",
    "DiscussionForumPosting\"",
    "QAPage\"",
    "FAQPage\"",
    "TechArticle\"",
    "\"LocalBusiness\"",
    "\"Organization\"",
    "\"Service\"",
    "BreadcrumbList\"",
    "\"WebSite\"",
    "\"WebPage\"",
    "JobPosting\"",
    "\"Event\"",
    "\"Person\"",
    "\"Recipe\"",
    "\"Offer\"",
    "AggregateRating\"",
    "SoftwareApplication\"",
    "\"Blog\"",
    "\"Comment\"",
    "\"ImageObject\"",
];

const OPEN_GRAPH: &[&str] = &["article", "product", "website", "profile", "blog"];

/// Words of `<meta name=generator>`.
const GENERATORS: &[&str] = &[
    "wordpress",
    "woocommerce",
    "discourse",
    "vbulletin",
    "phpbb",
    "xenforo",
    "docusaurus",
    "sphinx",
    "mkdocs",
    "shopify",
    "mediawiki",
    "drupal",
    "wix",
    "hugo",
    "vitepress",
    "ghost",
    "joomla",
    "elementor",
    "doxygen",
    "javadoc",
];

const SHAPES: usize = 34;
/// Depth of the path, and hyphens and digits of its last part.
const ADDRESS: usize = 3;

pub const PAGE_FEATURES: usize = SHAPES
    + CLASS_WORDS.len()
    + URL_WORDS.len()
    + ADDRESS
    + TYPES.len()
    + OPEN_GRAPH.len()
    + GENERATORS.len();

/// JSON-LD beyond this adds nothing to what a page is.
const DATA_BYTES_MAX: usize = 200_000;

pub(crate) fn portrait(
    tree: &Tree<'_>,
    blocks: &Blocks,
    contexts: &Contexts,
    url: Option<&Url>,
) -> Vec<f32> {
    let mut features = Vec::with_capacity(PAGE_FEATURES);
    shapes(&mut features, tree, blocks, contexts);
    features.extend(class_counts(tree).map(|count| (1.0 + count as f32).ln()));
    address(&mut features, url);
    marks(&mut features, tree);
    features
}

fn shapes(features: &mut Vec<f32>, tree: &Tree<'_>, blocks: &Blocks, contexts: &Contexts) {
    let words = blocks.list.iter().map(|block| block.words).sum::<u32>().max(1) as f32;
    let links = blocks.list.iter().map(|block| block.link_words).sum::<u32>() as f32;
    let count = blocks.list.len().max(1) as f32;
    features.extend([count.ln(), words.ln(), links / words, words / count]);
    let share = |of: &dyn Fn(usize) -> bool| -> f32 {
        let of = blocks.list.iter().enumerate().filter(|(at, _)| of(*at));
        of.map(|(_, block)| block.words).sum::<u32>() as f32 / words
    };
    let block = |at: usize| &blocks.list[at];
    let holder = |at: usize| tree.element(block(at).holder);
    features.extend([
        share(&|at| block(at).words >= 20),
        share(&|at| block(at).words >= 60),
        share(&|at| block(at).words <= 5),
        share(&|at| holder(at) == Element::P),
        share(&|at| holder(at).heading_level().is_some()),
        share(&|at| block(at).preformatted),
        share(&|at| block(at).words >= 20 && block(at).link_words * 4 < block(at).words),
    ]);
    for flag in [
        flag::MAIN,
        flag::ARTICLE,
        flag::NAV,
        flag::LIST,
        flag::TABLE,
        flag::FORM,
        flag::BODY,
        flag::COMMENT,
        flag::FOOTER,
        flag::ASIDE,
    ] {
        features.push(share(&|at| contexts.list[block(at).holder].flags & flag != 0));
    }
    counts(features, tree);
    let prices = blocks
        .list
        .iter()
        .filter(|block| block.words <= 8 && blocks.text_of(block).contains(['$', '€', '£', '¥']));
    features.push((1.0 + prices.count() as f32).ln());
    let largest = contexts.groups.iter().max_by_key(|group| group.words);
    match largest {
        Some(group) => features.extend([
            (group.records as f32).ln(),
            group.words as f32 / words,
            group.words as f32 / group.records as f32,
        ]),
        None => features.extend([0.0; 3]),
    }
    debug_assert_eq!(features.len(), SHAPES);
}

fn counts(features: &mut Vec<f32>, tree: &Tree<'_>) {
    use Element::*;
    let elements = [H1, H2, H3, P, Article, Img, Time, Table, Input];
    let mut counts = [0_u32; 9];
    for node in &tree.nodes {
        if let Some(place) = elements.iter().position(|&element| element == node.element) {
            counts[place] += 1;
        }
    }
    features.extend(counts.map(|count| (1.0 + count as f32).ln()));
}

fn class_counts(tree: &Tree<'_>) -> impl Iterator<Item = u32> {
    let places: HashMap<u32, usize> =
        CLASS_WORDS.iter().enumerate().map(|(place, word)| (hash(word), place)).collect();
    let mut counts = vec![0; CLASS_WORDS.len()];
    for id in 1..tree.nodes.len() {
        for (name, value) in tree.attributes(id).take(6) {
            if name == "class" || name == "id" {
                for word in class_words(value).take(12) {
                    let hash = hash(word.strip_suffix('s').unwrap_or(word));
                    if let Some(&place) = places.get(&hash) {
                        counts[place] += 1;
                    }
                }
            }
        }
    }
    counts.into_iter()
}

fn address(features: &mut Vec<f32>, url: Option<&Url>) {
    let path = url.map_or("/", Url::path);
    let host = url.and_then(Url::host_str).unwrap_or("");
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let last = parts.last().copied().unwrap_or("");
    let spoken = |word: &&str| -> f32 {
        let in_path = parts.iter().take(parts.len().saturating_sub(1).max(1));
        let in_path = in_path.flat_map(|part| part.split(['-', '.', '_']));
        let found = in_path.chain(host.split('.')).any(|part| part.eq_ignore_ascii_case(word));
        f32::from(u8::from(found))
    };
    features.extend(URL_WORDS.iter().map(spoken));
    features.extend([
        parts.len() as f32,
        last.matches('-').count() as f32,
        last.bytes().filter(u8::is_ascii_digit).count() as f32,
    ]);
}

/// What the head and the structured data call the page.
fn marks(features: &mut Vec<f32>, tree: &Tree<'_>) {
    let mut types = vec![0.0; TYPES.len()];
    let mut open_graph = vec![0.0; OPEN_GRAPH.len()];
    let mut generators = vec![0.0; GENERATORS.len()];
    for id in 1..tree.nodes.len() {
        match tree.element(id) {
            Element::Script if is_linked_data(tree, id) => {
                let data = tree.raw_text(id);
                let data = &data[..data.floor_char_boundary(DATA_BYTES_MAX)];
                for (place, name) in TYPES.iter().enumerate() {
                    if data.contains(name) {
                        types[place] = 1.0;
                    }
                }
            }
            Element::Meta => {
                let content = tree.attribute(id, "content").unwrap_or_default().to_lowercase();
                let name = tree.attribute(id, "property").or_else(|| tree.attribute(id, "name"));
                match name.as_deref().unwrap_or("") {
                    "og:type" => mark(OPEN_GRAPH, &mut open_graph, &content),
                    "generator" => mark(GENERATORS, &mut generators, &content),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    features.extend(types);
    features.extend(open_graph);
    features.extend(generators);
}

fn mark(names: &[&str], marks: &mut [f32], content: &str) {
    for (name, mark) in names.iter().zip(marks) {
        if content.contains(name) {
            *mark = 1.0;
        }
    }
}

pub(crate) fn is_linked_data(tree: &Tree<'_>, id: usize) -> bool {
    tree.attribute(id, "type")
        .is_some_and(|kind| kind.trim().to_ascii_lowercase().starts_with("application/ld+json"))
}
