//! Which entries does a feed have?
//!
//! RSS from 0.90 to 2.0 (also 1.0, which is RDF), Atom 0.3 and 1.0, JSON Feed. Of an entry its
//! link, title and date are read, which a crawler needs to know that there is something new, and
//! the text that the feed tells of it.
//!
//! Always: as for sitemaps; nothing panics, and entries have a limit.

use serde_json::Value as Json;
use url::Url;

use crate::complaints::{Complaints, quoted};
use crate::content::structured::plain;
use crate::date::{self, Moment};
use crate::links::resolve;
use crate::records::{self, Field, Form, Name, Record, Tag};
use crate::sitemap::{ENTRIES_MAX, address};

#[derive(Clone, Debug, PartialEq)]
pub struct Feed {
    pub kind: FeedKind,
    pub title: Option<String>,
    pub description: Option<String>,
    pub entries: Vec<FeedEntry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedKind {
    Rss,
    Atom,
    Json,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FeedEntry {
    pub link: Option<Url>,
    pub title: Option<String>,
    /// What it says, as far as the feed tells: text without markup.
    pub summary: Option<String>,
    /// When it was changed, or else published.
    pub date: Option<Moment>,
}

/// Where a date may stand, the best first: a change is newer than the publication.
const DATES: [&str; 8] = [
    "updated",
    "modified",
    "pubdate",
    "published",
    "date",
    "issued",
    "created",
    "publication_date",
];

/// Where the text of an entry may stand, the fullest first.
const SUMMARIES: [&str; 4] = ["encoded", "content", "description", "summary"];

/// Reads a feed in XML whose root is known.
pub(crate) fn read_xml(
    xml: &str,
    root: &Tag<'_>,
    kind: FeedKind,
    base: Option<&Url>,
    complaints: &mut Complaints,
) -> Feed {
    let form = Form {
        is_entry: &|name| name.is_one_of(&["item", "entry"]) && !is_media(name),
        is_field: &|name| {
            !is_media(name)
                && (name.is_one_of(&["link", "title", "guid", "id"])
                    || name.is_one_of(&SUMMARIES)
                    || name.is_one_of(&DATES))
        },
        records_max: ENTRIES_MAX,
    };
    let mut root_base = None;
    if let Some((_, href)) = root.attributes.iter().find(|(key, _)| key == "xml:base") {
        root_base = rebased(base, href);
    }
    let base = root_base.as_ref().or(base);
    let mut entries = Vec::new();
    records::read(xml, root.at, &form, complaints, |record, complaints| {
        entries.push(entry(record, base, entries.len() + 1, complaints));
    });
    let (title, description) = about(&xml[root.at..]);
    Feed { kind, title, description, entries }
}

/// Title and description of the feed itself: what stands before its first entry.
fn about(xml: &str) -> (Option<String>, Option<String>) {
    let is_head = |name: Name<'_>| name.is_one_of(&["channel", "feed", "rdf"]) && !is_media(name);
    let form = Form {
        is_entry: &|name| is_head(name) || name.is_one_of(&["item", "entry"]) && !is_media(name),
        is_field: &|name| {
            !is_media(name) && name.is_one_of(&["title", "description", "subtitle", "tagline"])
        },
        records_max: HEADS_MAX,
    };
    let (mut title, mut description) = (None, None);
    records::read(xml, 0, &form, &mut Complaints::default(), |record, _| {
        let head = record
            .fields
            .first()
            .is_some_and(|own| matches!(local(own), "channel" | "feed" | "rdf"));
        if head && title.is_none() {
            title = record.text("title").map(|text| one_line(&plain(text)));
            let texts = ["description", "subtitle", "tagline"].iter();
            description = texts.filter_map(|name| record.text(name)).map(plain).next();
        }
    });
    (title, description)
}

/// The head comes first; RSS 1.0 has its root before it, and entries follow.
const HEADS_MAX: usize = 3;

/// Players and previews carry links and titles of their own.
fn is_media(name: Name<'_>) -> bool {
    ["media", "itunes", "image", "video", "g", "podcast"]
        .iter()
        .any(|prefix| name.prefix.eq_ignore_ascii_case(prefix))
}

fn rebased(base: Option<&Url>, href: &str) -> Option<Url> {
    match base {
        Some(base) => resolve(base, href),
        None => Url::parse(href).ok(),
    }
}

fn entry(
    record: &Record,
    base: Option<&Url>,
    number: usize,
    complaints: &mut Complaints,
) -> FeedEntry {
    let own = record.fields.first();
    let own_base = own.and_then(|entry| rebased(base, entry.attribute("xml:base")?));
    let base = own_base.as_ref().or(base);
    let written = link(&record.fields);
    let link = written.and_then(|href| address(href, base));
    match (written, &link) {
        (None, _) => complaints.add(format!("entry {number}: no link")),
        (Some(href), None) => {
            complaints.add(format!("entry {number}: link {} leads nowhere", quoted(href)));
        }
        _ => {}
    }
    let dates = DATES.iter().filter_map(|name| {
        let mut all = record.fields.iter().skip(1);
        let field = all.find(|field| local(field) == *name && !field.text.trim().is_empty())?;
        Some(field.text.trim())
    });
    let mut date = None;
    for written in dates {
        date = date::parse(written);
        if date.is_some() {
            break;
        }
        complaints.add(format!("entry {number}: date {} is not understood", quoted(written)));
    }
    let title = record.text("title").map(one_line);
    let summary = SUMMARIES.iter().find_map(|name| {
        let mut all = record.fields.iter().skip(1);
        let text = plain(&all.find(|field| local(field) == *name)?.text);
        Some(text).filter(|text| !text.is_empty())
    });
    FeedEntry { link, title, summary, date }
}

fn local(field: &Field) -> &str {
    field.name.rsplit(':').next().unwrap_or_default()
}

/// The address of an entry: the text of RSS's `<link>`, the `href` of Atom's alternate one, a
/// `guid` that is a permanent link, RSS 1.0's `rdf:about`, an Atom `id` that is an address.
fn link(fields: &[Field]) -> Option<&str> {
    let links = || fields.iter().skip(1).filter(|field| local(field) == "link");
    let with_text = links().find(|field| !field.cut && !field.text.trim().is_empty());
    let alternate = links().find(|field| {
        let rel = field.attribute("rel").unwrap_or("alternate").trim();
        rel.eq_ignore_ascii_case("alternate") && field.attribute("href").is_some()
    });
    if let Some(href) = alternate.and_then(|field| field.attribute("href"))
        && with_text.is_none_or(|field| field.name != "link")
    {
        return Some(href.trim());
    }
    if let Some(field) = with_text {
        return Some(field.text.trim());
    }
    let guid = fields.iter().skip(1).find(|field| {
        let permanent = field.attribute("ispermalink").unwrap_or("true").trim();
        local(field) == "guid" && !permanent.eq_ignore_ascii_case("false")
    });
    let id = || fields.iter().skip(1).find(|field| local(field) == "id");
    let texts = [guid, id()].into_iter().flatten().map(|field| field.text.trim());
    let about = fields.first().and_then(|own| own.attribute("rdf:about"));
    let mut absolute = texts.chain(about).filter(|text| text.starts_with("http"));
    absolute.next().or_else(|| links().find_map(|field| field.attribute("href")).map(str::trim))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reads a JSON feed; None if it is other JSON.
pub(crate) fn read_json(
    text: &str,
    base: Option<&Url>,
    complaints: &mut Complaints,
) -> Option<Feed> {
    let json: Json = serde_json::from_str(text.trim()).ok()?;
    let version = json.get("version").and_then(Json::as_str).unwrap_or_default();
    let items = json.get("items")?.as_array()?;
    if !version.contains("jsonfeed.org") {
        return None;
    }
    if items.len() > ENTRIES_MAX {
        complaints.add(format!("more than {ENTRIES_MAX} entries: the rest is not read"));
    }
    let entries = items.iter().take(ENTRIES_MAX).map(|item| {
        let text = |name: &str| item.get(name).and_then(Json::as_str).map(str::trim);
        let written = text("url").or_else(|| text("external_url"));
        let written = written.or_else(|| text("id").filter(|id| id.starts_with("http")));
        FeedEntry {
            link: written.and_then(|href| address(href, base)),
            title: text("title").map(one_line),
            summary: ["content_text", "content_html", "summary"]
                .iter()
                .find_map(|name| text(name).map(plain).filter(|text| !text.is_empty())),
            date: text("date_modified").or_else(|| text("date_published")).and_then(date::parse),
        }
    });
    let text = |name: &str| json.get(name).and_then(Json::as_str).map(one_line);
    Some(Feed {
        kind: FeedKind::Json,
        title: text("title"),
        description: text("description"),
        entries: entries.collect(),
    })
}
