//! Where in the page's structure does a node stand?
//!
//! One walk from the root down: each element takes over what holds for its parent (in a `nav`, in
//! the footer, hidden) and adds its own. Siblings of one shape, three or more, are records of a
//! group: posts of a forum, items of a shop, results of a search.

use crate::content::element::Element;
use crate::content::lexicon::{Lexicon, class_words, hash};
use crate::content::tree::{NodeId, Tree};

/// Fewer siblings of one shape are chance.
const RECORDS_MIN: u32 = 3;

/// Words of a class attribute that are looked at: some frameworks write hundreds.
const CLASS_WORDS_MAX: usize = 24;

pub(crate) mod flag {
    pub(crate) const NAV: u32 = 1;
    pub(crate) const HEADER: u32 = 1 << 1;
    pub(crate) const FOOTER: u32 = 1 << 2;
    pub(crate) const ASIDE: u32 = 1 << 3;
    pub(crate) const MAIN: u32 = 1 << 4;
    pub(crate) const ARTICLE: u32 = 1 << 5;
    pub(crate) const FORM: u32 = 1 << 6;
    pub(crate) const TABLE: u32 = 1 << 7;
    pub(crate) const LIST: u32 = 1 << 8;
    pub(crate) const FIGURE: u32 = 1 << 9;
    pub(crate) const QUOTE: u32 = 1 << 10;
    pub(crate) const PRE: u32 = 1 << 11;
    pub(crate) const TERMS: u32 = 1 << 12;
    pub(crate) const DETAILS: u32 = 1 << 13;
    pub(crate) const DIALOG: u32 = 1 << 14;
    pub(crate) const BUTTON: u32 = 1 << 15;
    pub(crate) const HIDDEN: u32 = 1 << 16;
    pub(crate) const LINK: u32 = 1 << 17;
    /// `itemprop=articleBody` and its like.
    pub(crate) const BODY: u32 = 1 << 18;
    pub(crate) const COMMENT: u32 = 1 << 19;
    pub(crate) const SECTION: u32 = 1 << 20;
    pub(crate) const DESCRIPTION: u32 = 1 << 21;
    pub(crate) const ITEM: u32 = 1 << 22;
    pub(crate) const NOSCRIPT: u32 = 1 << 23;
    pub(crate) const COUNT: u32 = 24;
}

/// No group.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) flags: u32,
    /// Scores of the classes from the root down: their sum, least, most, and the nearest.
    pub(crate) sum: f32,
    pub(crate) least: f32,
    pub(crate) most: f32,
    pub(crate) nearest: f32,
    pub(crate) own: f32,
    /// The groups of records around it.
    pub(crate) outer_group: u32,
    pub(crate) inner_group: u32,
    /// Its element and first class: what is alike in this has one shape.
    pub(crate) shape: u32,
}

/// Records of one shape below one parent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) records: u32,
    pub(crate) parent: NodeId,
    pub(crate) words: u32,
    pub(crate) link_words: u32,
    /// Blocks that show a price, and that show a date.
    pub(crate) prices: u32,
    pub(crate) dates: u32,
}

#[derive(Debug)]
pub(crate) struct Contexts {
    /// One for each node; of text nodes that of their parent.
    pub(crate) list: Vec<Context>,
    pub(crate) groups: Vec<Group>,
}

impl Contexts {
    pub(crate) fn of(tree: &Tree<'_>, lexicon: &dyn Lexicon) -> Self {
        let root = Context {
            flags: 0,
            sum: 0.0,
            least: 0.0,
            most: 0.0,
            nearest: 0.0,
            own: 0.0,
            outer_group: NONE,
            inner_group: NONE,
            shape: 0,
        };
        let mut list = Vec::with_capacity(tree.nodes.len());
        list.push(root);
        for id in 1..tree.nodes.len() {
            let above = list[tree.nodes[id].parent()];
            let own = if tree.element(id).is_text() {
                above
            } else {
                read_element(tree, id, &above, lexicon)
            };
            list.push(own);
        }
        let mut contexts = Self { list, groups: Vec::new() };
        contexts.find_groups(tree);
        contexts
    }

    /// Parents come before their children, so groups are handed down as they are found.
    fn find_groups(&mut self, tree: &Tree<'_>) {
        let mut shapes: Vec<(u32, u32)> = Vec::new();
        for id in 0..tree.nodes.len() {
            let element = tree.element(id);
            if element.is_text() {
                continue;
            }
            let above = self.list[id];
            shapes.clear();
            for child in tree.children(id).filter(|&child| may_be_record(tree.element(child))) {
                let shape = self.list[child].shape;
                // Siblings of one shape mostly follow each other.
                match shapes.iter_mut().rev().take(8).find(|known| known.0 == shape) {
                    Some(known) => known.1 += 1,
                    None => shapes.push((shape, 1)),
                }
            }
            shapes.retain(|known| known.1 >= RECORDS_MIN);
            let first_group = self.groups.len() as u32;
            for &(_, records) in &shapes {
                self.groups.push(Group {
                    records,
                    parent: id,
                    words: 0,
                    link_words: 0,
                    prices: 0,
                    dates: 0,
                });
            }
            for child in tree.children(id) {
                let context = &mut self.list[child];
                context.outer_group = above.outer_group;
                context.inner_group = above.inner_group;
                let place = shapes.iter().take(8).position(|known| known.0 == context.shape);
                if let Some(place) = place.filter(|_| may_be_record(tree.element(child))) {
                    context.inner_group = first_group + place as u32;
                    if context.outer_group == NONE {
                        context.outer_group = context.inner_group;
                    }
                }
            }
        }
    }
}

fn may_be_record(element: Element) -> bool {
    use Element::*;
    matches!(
        element,
        Div | Li | Article | Section | Tr | A | Unknown | Table | Dl | Tbody | Details
    )
}

fn read_element(tree: &Tree<'_>, id: NodeId, above: &Context, lexicon: &dyn Lexicon) -> Context {
    let element = tree.element(id);
    let mut context = *above;
    context.flags |= element_flag(element);
    context.own = 0.0;
    context.shape = element as u32;
    let mut words = 0;
    for (name, value) in tree.attributes(id) {
        if value.is_empty() && !name.eq_ignore_ascii_case("hidden") {
            continue;
        }
        match name {
            "class" | "id" | "CLASS" | "ID" => {
                if name.eq_ignore_ascii_case("class") {
                    let first = value.split_ascii_whitespace().next().unwrap_or("");
                    context.shape = context.shape.wrapping_mul(31).wrapping_add(hash(first));
                }
                for word in class_words(value).take(CLASS_WORDS_MAX) {
                    context.own += lexicon.class(hash(word));
                    words += 1;
                }
            }
            "role" => context.flags |= role_flag(value),
            "itemprop" => context.flags |= property_flag(value),
            "itemscope" => context.flags |= flag::ITEM,
            "hidden" => context.flags |= flag::HIDDEN,
            "aria-hidden" if value == "true" => context.flags |= flag::HIDDEN,
            "style" if hides(value) => context.flags |= flag::HIDDEN,
            _ => {}
        }
    }
    if words > 0 {
        context.own = (context.own / (words as f32).sqrt()).clamp(-6.0, 6.0);
    }
    if context.own != 0.0 {
        context.sum += context.own;
        context.least = context.least.min(context.own);
        context.most = context.most.max(context.own);
        context.nearest = context.own;
    }
    context
}

fn hides(style: &str) -> bool {
    let squeezed: String = style.chars().filter(|c| !c.is_whitespace()).take(400).collect();
    squeezed.contains("display:none") || squeezed.contains("visibility:hidden")
}

fn element_flag(element: Element) -> u32 {
    use Element::*;
    match element {
        Nav => flag::NAV,
        Header => flag::HEADER,
        Footer => flag::FOOTER,
        Aside => flag::ASIDE,
        Main => flag::MAIN,
        Article => flag::ARTICLE,
        Form => flag::FORM,
        Table => flag::TABLE,
        Ul | Ol => flag::LIST,
        Figure => flag::FIGURE,
        Blockquote => flag::QUOTE,
        Pre => flag::PRE,
        Dl => flag::TERMS,
        Details => flag::DETAILS,
        Dialog => flag::DIALOG,
        Button => flag::BUTTON,
        A => flag::LINK,
        Section => flag::SECTION,
        Noscript => flag::NOSCRIPT,
        _ => 0,
    }
}

fn role_flag(role: &str) -> u32 {
    match role.trim() {
        "navigation" | "menu" | "menubar" | "tablist" => flag::NAV,
        "banner" => flag::HEADER,
        "contentinfo" => flag::FOOTER,
        "complementary" => flag::ASIDE,
        "main" => flag::MAIN,
        "article" => flag::ARTICLE,
        "dialog" | "alertdialog" => flag::DIALOG,
        "search" | "form" => flag::FORM,
        "button" => flag::BUTTON,
        _ => 0,
    }
}

fn property_flag(property: &str) -> u32 {
    let mut flags = 0;
    for word in property.split_ascii_whitespace() {
        flags |= match word {
            "articleBody" | "text" | "reviewBody" | "mainContentOfPage" => flag::BODY,
            "description" => flag::DESCRIPTION,
            "comment" | "review" | "reviews" => flag::COMMENT,
            _ => 0,
        };
    }
    flags
}
