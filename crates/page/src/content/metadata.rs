//! Who wrote the page, when, and what is it called?
//!
//! Each question has several answers on a page; they are asked in the order of how far they can be
//! trusted: structured data, then metas, then what is marked in the text, then what merely looks
//! like it.

use serde_json::Value;

use crate::content::blocks::Blocks;
use crate::content::dates;
use crate::content::element::Element;
use crate::content::lexicon::class_words;
use crate::content::tree::{NodeId, Tree};

/// Longer ones are not titles, or names.
const TITLE_BYTES_MAX: usize = 500;
const NAME_BYTES_MAX: usize = 120;
const DESCRIPTION_BYTES_MAX: usize = 4_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    pub title: Option<String>,
    pub description: Option<String>,
    pub author: Option<String>,
    /// ISO 8601, a day or a moment.
    pub published: Option<String>,
    /// The last change, in the same form.
    pub modified: Option<String>,
    pub site_name: Option<String>,
}

pub(crate) fn metadata(tree: &Tree<'_>, blocks: &Blocks, items: &[Value]) -> Metadata {
    let found = Found::of(tree);
    Metadata {
        title: title(&found, items),
        description: found
            .meta(&["description", "og:description", "twitter:description", "dc.description"])
            .or_else(|| main_items(items).find_map(|item| text(item.get("description")?)))
            .map(|text| cut(&text, DESCRIPTION_BYTES_MAX)),
        author: author(tree, &found, items),
        published: published(tree, blocks, &found, items),
        modified: modified(&found, items),
        site_name: site_name(&found, items).map(|name| cut(&name, NAME_BYTES_MAX)),
    }
}

/// What one walk over the tree gathers.
#[derive(Default)]
struct Found {
    metas: Vec<(String, String)>,
    title: Option<String>,
    first_h1: Option<String>,
    h1_count: usize,
    times: Vec<NodeId>,
    /// Elements that call themselves the author's.
    bylines: Vec<(u8, NodeId)>,
    dated: Vec<(u8, NodeId)>,
}

/// Elements of a kind that are looked at: a list of comments has thousands of times and names.
const MARKED_MAX: usize = 100;

impl Found {
    fn of(tree: &Tree<'_>) -> Self {
        let mut found = Self::default();
        for id in 1..tree.nodes.len() {
            match tree.element(id) {
                Element::Meta => found.add_meta(tree, id),
                Element::Title if found.title.is_none() && !tree.nodes[id].foreign => {
                    found.title = some(tree.text_below(id, TITLE_BYTES_MAX));
                }
                Element::H1 => {
                    found.h1_count += 1;
                    if found.first_h1.is_none() {
                        found.first_h1 = some(tree.text_below(id, TITLE_BYTES_MAX));
                    }
                }
                Element::Time if found.times.len() < MARKED_MAX => found.times.push(id),
                Element::A
                | Element::Span
                | Element::Div
                | Element::P
                | Element::Address
                | Element::Cite
                | Element::Li
                | Element::Strong => found.add_marked(tree, id),
                _ => {}
            }
        }
        found
    }

    fn add_meta(&mut self, tree: &Tree<'_>, id: NodeId) {
        let Some(content) = tree.attribute(id, "content") else { return };
        let content = content.split_whitespace().collect::<Vec<_>>().join(" ");
        if content.is_empty() {
            return;
        }
        let named = ["property", "name", "itemprop"];
        if let Some(name) = named.into_iter().find_map(|name| tree.attribute(id, name)) {
            self.metas.push((name.trim().to_ascii_lowercase(), content));
        }
    }

    fn add_marked(&mut self, tree: &Tree<'_>, id: NodeId) {
        for (name, value) in tree.attributes(id) {
            match name {
                _ if self.bylines.len() + self.dated.len() >= MARKED_MAX => return,
                "rel" if value.split_ascii_whitespace().any(|word| word == "author") => {
                    self.bylines.push((0, id));
                }
                "itemprop" if value == "author" => self.bylines.push((0, id)),
                "itemprop" if value.starts_with("datePublished") => self.dated.push((0, id)),
                "class" => {
                    for word in class_words(value).take(12) {
                        if word.eq_ignore_ascii_case("author")
                            || word.eq_ignore_ascii_case("byline")
                        {
                            self.bylines.push((1, id));
                        } else if ["date", "published", "posted", "timestamp"]
                            .iter()
                            .any(|known| word.eq_ignore_ascii_case(known))
                        {
                            self.dated.push((1, id));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// The first of these metas that says something.
    fn meta(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| {
            self.metas.iter().find(|(known, _)| known == name).map(|(_, content)| content.clone())
        })
    }
}

/// The heading if the head agrees with it; else what the head says, without the site's name.
fn title(found: &Found, items: &[Value]) -> Option<String> {
    let card = found.meta(&["og:title", "twitter:title", "dc.title"]);
    let headline = main_items(items).find_map(|item| text(item.get("headline")?));
    let site = found.meta(&["og:site_name"]);
    let heads: Vec<&String> = [&card, &found.title, &headline].into_iter().flatten().collect();
    if let Some(h1) = &found.first_h1 {
        let agrees = heads.iter().any(|head| contains(head, h1));
        if agrees || heads.is_empty() {
            return Some(h1.clone());
        }
    }
    let named = headline.or(card).or_else(|| found.title.clone())?;
    Some(cut(without_site(&named, site.as_deref()), TITLE_BYTES_MAX))
}

fn contains(long: &str, short: &str) -> bool {
    let letters = |text: &str| -> String {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let (long, short) = (letters(long), letters(short));
    // A name of the site is in most titles.
    short.len() * 2 >= long.len() && long.contains(&short)
}

/// `A page | The site` → `A page`.
fn without_site<'t>(title: &'t str, site: Option<&str>) -> &'t str {
    for separator in [" | ", " – ", " — ", " - ", " · ", " :: ", " » "] {
        if let Some((page, name)) = title.rsplit_once(separator) {
            let is_site = site.is_some_and(|site| name.trim().eq_ignore_ascii_case(site.trim()));
            let is_short = name.split_whitespace().count() <= 4
                && page.split_whitespace().count() > name.split_whitespace().count();
            if is_site || is_short {
                return page.trim();
            }
        }
    }
    title.trim()
}

fn author(tree: &Tree<'_>, found: &Found, items: &[Value]) -> Option<String> {
    main_items(items)
        .find_map(|item| names(item.get("author").or_else(|| item.get("creator"))?, items))
        .or_else(|| {
            found.meta(&[
                "author",
                "article:author",
                "dc.creator",
                "parsely-author",
                "sailthru.author",
            ])
        })
        .and_then(|name| name_in(&name))
        .or_else(|| {
            let mut bylines = found.bylines.clone();
            bylines.sort_by_key(|&(rank, id)| (rank, id));
            bylines
                .iter()
                .filter_map(|&(_, id)| name_in(&tree.text_below(id, NAME_BYTES_MAX * 2)))
                .find(|name| looks_like_name(name))
        })
}

/// Names in structured data: a string, an object, or a list of them.
fn names(value: &Value, items: &[Value]) -> Option<String> {
    match value {
        Value::String(name) => some(name.trim().to_owned()),
        Value::Object(object) => match object.get("name") {
            Some(name) => text(name),
            None => {
                let id = object.get("@id")?;
                let named = items.iter().find(|item| item.get("@id") == Some(id))?;
                text(named.get("name")?)
            }
        },
        Value::Array(list) => {
            let list: Vec<String> = list
                .iter()
                .take(8)
                .filter(|value| !value.is_array())
                .filter_map(|value| names(value, items))
                .collect();
            some(list.join(", "))
        }
        _ => None,
    }
}

/// `By Ann Ball, editor` → `Ann Ball`; addresses are no names.
fn name_in(text: &str) -> Option<String> {
    let mut name = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for lead in ["written by", "posted by", "published by", "by", "von", "par", "por", "author:"] {
        if let Some(start) = name.get(..lead.len())
            && start.eq_ignore_ascii_case(lead)
            && name[lead.len()..].starts_with([' ', ':'])
        {
            name = name[lead.len()..].trim_start_matches([' ', ':']).to_owned();
        }
    }
    let is_address = name.starts_with("http") || name.contains('@') || name.contains("://");
    (!name.is_empty() && !is_address && name.len() <= NAME_BYTES_MAX).then_some(name)
}

fn looks_like_name(name: &str) -> bool {
    let words = name.split_whitespace().count();
    (1..=5).contains(&words)
        && name.starts_with(char::is_uppercase)
        && !name.contains(|c: char| c.is_ascii_digit() || matches!(c, '|' | ':' | '©' | '?'))
        && !["Author", "Authors", "About", "About the Author", "Share", "Follow"].contains(&name)
}

fn published(tree: &Tree<'_>, blocks: &Blocks, found: &Found, items: &[Value]) -> Option<String> {
    main_items(items)
        .find_map(|item| {
            let names = ["datePublished", "uploadDate", "dateCreated", "datePosted"];
            names.iter().find_map(|name| dates::parse(&text(item.get(name)?)?))
        })
        .or_else(|| {
            let metas = [
                "article:published_time",
                "og:article:published_time",
                "datepublished",
                "date",
                "dc.date",
                "dc.date.issued",
                "dcterms.created",
                "parsely-pub-date",
                "sailthru.date",
                "publish-date",
                "publish_date",
                "pubdate",
                "citation_publication_date",
            ];
            metas.iter().find_map(|name| dates::parse(&found.meta(&[name])?))
        })
        .or_else(|| {
            let mut dated = found.dated.clone();
            dated.sort_by_key(|&(rank, id)| (rank, id));
            dated.iter().find_map(|&(_, id)| date_at(tree, id))
        })
        .or_else(|| found.times.iter().find_map(|&id| date_at(tree, id)))
        .or_else(|| near_heading(tree, blocks))
}

fn modified(found: &Found, items: &[Value]) -> Option<String> {
    main_items(items).find_map(|item| dates::parse(&text(item.get("dateModified")?)?)).or_else(
        || {
            let metas = [
                "article:modified_time",
                "og:article:modified_time",
                "og:updated_time",
                "datemodified",
                "dcterms.modified",
                "dc.date.modified",
                "last-modified",
            ];
            metas.iter().find_map(|name| dates::parse(&found.meta(&[name])?))
        },
    )
}

fn site_name(found: &Found, items: &[Value]) -> Option<String> {
    let named = |kind: &str| {
        let of_kind = |item: &&Value| item.get("@type").and_then(Value::as_str) == Some(kind);
        items.iter().filter(of_kind).find_map(|item| text(item.get("name")?))
    };
    found
        .meta(&["og:site_name", "application-name"])
        .or_else(|| named("WebSite"))
        .or_else(|| main_items(items).find_map(|item| text(item.get("publisher")?.get("name")?)))
}

/// The date that an element is marked with, or shows.
fn date_at(tree: &Tree<'_>, id: NodeId) -> Option<String> {
    ["datetime", "content", "title"]
        .into_iter()
        .find_map(|name| dates::parse(&tree.attribute(id, name)?))
        .or_else(|| dates::find(&tree.text_below(id, 200)))
}

/// Lines below the heading that are looked through for a date.
const BYLINES_MAX: usize = 8;

fn near_heading(tree: &Tree<'_>, blocks: &Blocks) -> Option<String> {
    let heading = blocks.list.iter().position(|block| tree.element(block.holder) == Element::H1)?;
    let from = heading.saturating_sub(2);
    blocks.list[from..]
        .iter()
        .take(BYLINES_MAX)
        .filter(|block| block.words <= 20)
        .find_map(|block| dates::find(blocks.text_of(block)))
}

/// The items that are about the page itself, not about its site, its crumbs or its pictures.
fn main_items(items: &[Value]) -> impl Iterator<Item = &Value> {
    let about = |item: &&Value| {
        let of_page = |name: &str| {
            name.ends_with("Article")
                || name.ends_with("Posting")
                || name.ends_with("Page")
                || matches!(
                    name,
                    "Product"
                        | "Recipe"
                        | "Review"
                        | "Report"
                        | "VideoObject"
                        | "Event"
                        | "Course"
                        | "Book"
                )
        };
        match item.get("@type") {
            Some(Value::String(name)) => of_page(name),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(of_page),
            _ => false,
        }
    };
    // Articles before the pages that hold them.
    let is_page = |item: &&Value| {
        item.get("@type").and_then(Value::as_str).is_some_and(|name| name.ends_with("WebPage"))
    };
    let first = items.iter().filter(about).filter(move |item| !is_page(item));
    first.chain(items.iter().filter(about).filter(is_page))
}

fn text(value: &Value) -> Option<String> {
    let text = htmlize::unescape(value.as_str()?);
    some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::structured;

    fn read(html: &str) -> Metadata {
        let tree = Tree::parse(html, false);
        let items = structured::items(&tree, structured::linked_data(&tree));
        metadata(&tree, &Blocks::of(&tree), &items)
    }

    #[test]
    fn the_heading_is_the_title_if_the_head_agrees() {
        let page = read("<title>Lamps at night | The Site</title><h1>Lamps at night</h1>");
        assert_eq!(page.title.as_deref(), Some("Lamps at night"));
        let page = read("<title>Lamps at night | The Site</title><h1>The Site</h1>");
        assert_eq!(page.title.as_deref(), Some("Lamps at night"));
        assert_eq!(read("<h1>Only</h1>").title.as_deref(), Some("Only"));
        assert_eq!(read("<p>x").title, None);
    }

    #[test]
    fn structured_data_is_asked_first() {
        let page = read(
            "<meta name=author content='The Team'><meta name=description content=' About  lamps '>\
             <script type=application/ld+json>{\"@type\":\"NewsArticle\",\"author\":[{\"name\":\"Ann\"},\
             {\"name\":\"Bob\"}],\"datePublished\":\"2024-05-01T08:00:00Z\"}</script>",
        );
        assert_eq!(page.author.as_deref(), Some("Ann, Bob"));
        assert_eq!(page.published.as_deref(), Some("2024-05-01T08:00:00Z"));
        assert_eq!(page.description.as_deref(), Some("About lamps"));
    }

    #[test]
    fn the_site_and_the_last_change_have_names_of_their_own() {
        let page = read(
            "<meta property=og:site_name content='The Site'>\
             <meta property=article:modified_time content=2024-06-02T10:00:00Z>",
        );
        assert_eq!(page.site_name.as_deref(), Some("The Site"));
        assert_eq!(page.modified.as_deref(), Some("2024-06-02T10:00:00Z"));
        let page = read(
            "<script type=application/ld+json>{\"@type\":\"Article\",\"dateModified\":\"2024-06-02\",\
             \"publisher\":{\"name\":\"P\"}}</script>",
        );
        assert_eq!(page.site_name.as_deref(), Some("P"));
        assert_eq!(page.modified.as_deref(), Some("2024-06-02"));
        assert_eq!(read("<p>x").modified, None);
    }

    #[test]
    fn a_byline_will_do() {
        let page = read(
            "<h1>T</h1><p class=byline>By <a rel=author href=/a>Ann Ball</a></p><p>May 1, 2024</p>",
        );
        assert_eq!(page.author.as_deref(), Some("Ann Ball"));
        assert_eq!(page.published.as_deref(), Some("2024-05-01"));
        assert_eq!(read("<meta name=author content='https://x.test/a'>").author, None);
    }
}
