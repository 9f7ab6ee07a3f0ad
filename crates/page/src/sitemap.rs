//! Which pages does a sitemap name?
//!
//! Bytes in, [`Sitemap`] out, for all that sites hand out as one: `<urlset>`, `<sitemapindex>`, a
//! list of URLs as text, RSS and Atom; in gzip or not, in any encoding, and as broken as it comes.
//! What it is, is told by what it says; name and type count only where that leaves doubt.
//!
//! Always: no bytes panic. Of one sitemap no more is decoded than [`BYTES_MAX`] and no more entries
//! are kept than [`ENTRIES_MAX`], the limits of the protocol; what is wrong or beyond them is said
//! in `errors`, and what could be read is kept.
//!
//! Not here: which of the URLs are ours to visit (the frontier), nor whether a date is to be
//! believed.

mod body;
mod plain;

use std::borrow::Cow;

use url::Url;

use crate::complaints::{Complaints, quoted};
use crate::date::{self, Moment};
use crate::feed::{self, Feed, FeedKind};
use crate::links::resolve;
use crate::records::{self, Form, Name, Record, Tag, find_tag};

/// Bytes of a sitemap that are read, out of its compression: 50 MB by the protocol.
pub const BYTES_MAX: usize = 50 << 20;

/// Entries of a sitemap that are read: 50,000 by the protocol.
pub const ENTRIES_MAX: usize = 50_000;

/// How far into a file its root may stand, behind warnings of a script and comments.
const ROOT_BYTES_MAX: usize = 1 << 20;

/// A sitemap as it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sitemap {
    /// None: it is no sitemap, and `error` says what it seems to be.
    pub kind: Option<SitemapKind>,
    pub error: Option<String>,
    pub entries: Vec<SitemapEntry>,
    /// What was wrong with it, the first hundred of it.
    pub errors: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SitemapKind {
    Urlset,
    /// Its entries are sitemaps.
    Index,
    /// One URL a line.
    Text,
    Rss,
    Atom,
}

impl SitemapKind {
    /// Its name in our output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Urlset => "urlset",
            Self::Index => "index",
            Self::Text => "text",
            Self::Rss => "rss",
            Self::Atom => "atom",
        }
    }
}

/// One page, or one sitemap of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct SitemapEntry {
    pub loc: Url,
    pub lastmod: Option<Moment>,
    pub changefreq: Option<ChangeFreq>,
    /// From 0 to 1.
    pub priority: Option<f64>,
}

impl SitemapEntry {
    fn new(loc: Url, lastmod: Option<Moment>) -> Self {
        Self { loc, lastmod, changefreq: None, priority: None }
    }
}

/// How often a page changes, by its owner's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeFreq {
    Always,
    Hourly,
    Daily,
    Weekly,
    Monthly,
    Yearly,
    Never,
}

impl ChangeFreq {
    const ALL: [(Self, &'static str); 7] = [
        (Self::Always, "always"),
        (Self::Hourly, "hourly"),
        (Self::Daily, "daily"),
        (Self::Weekly, "weekly"),
        (Self::Monthly, "monthly"),
        (Self::Yearly, "yearly"),
        (Self::Never, "never"),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    fn parse(text: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
        found.map(|(freq, _)| *freq)
    }
}

/// Reads a sitemap. `url` is where it came from: entries may be relative to it, and its name and
/// the type are hints where the content leaves doubt.
pub fn read_sitemap(url: &str, body: &[u8], content_type: Option<&str>) -> Sitemap {
    let mut complaints = Complaints::default();
    let base = Url::parse(url).ok();
    let text = body::text(body, content_type, &mut complaints);
    let xml = text.trim_start_matches(['\u{feff}', '\0']);
    let mut sitemap = match Root::of(xml) {
        Root::List(tag, kind) => read_list(xml, &tag, kind, base.as_ref(), &mut complaints),
        Root::Feed(tag, kind) => {
            from_feed(feed::read_xml(xml, &tag, kind, base.as_ref(), &mut complaints))
        }
        Root::Html => refused("an HTML page, not a sitemap"),
        Root::Json => match feed::read_json(xml, base.as_ref(), &mut complaints) {
            Some(feed) => from_feed(feed),
            None => refused("JSON, not a sitemap"),
        },
        Root::OtherXml(name) => refused(&format!("XML with the root {name}, not a sitemap")),
        Root::None => match plain::read(xml, hints_at_text(&base, content_type), &mut complaints) {
            Some(entries) => {
                Sitemap { kind: Some(SitemapKind::Text), entries, ..Sitemap::default() }
            }
            None if xml.trim().is_empty() => refused("empty"),
            None => refused("neither XML nor a list of URLs"),
        },
    };
    sitemap.errors = complaints.into_texts();
    sitemap
}

/// XML that is a list of pages.
pub(crate) enum Listed {
    Feed(Feed),
    Sitemap(Sitemap),
}

/// The list that this XML is; none if it is something else.
pub(crate) fn listed(xml: &str, base: Option<&Url>, complaints: &mut Complaints) -> Option<Listed> {
    let xml = xml.trim_start_matches(['\u{feff}', '\0']);
    Some(match Root::of(xml) {
        Root::List(tag, kind) => Listed::Sitemap(read_list(xml, &tag, kind, base, complaints)),
        Root::Feed(tag, kind) => Listed::Feed(feed::read_xml(xml, &tag, kind, base, complaints)),
        _ => return None,
    })
}

/// The text of XML, in whatever encoding it is.
pub(crate) fn decode_xml(bytes: &[u8]) -> Cow<'_, str> {
    body::decode(bytes, None)
}

fn refused(what: &str) -> Sitemap {
    Sitemap { error: Some(what.to_owned()), ..Sitemap::default() }
}

/// The same pages, in the words of a sitemap. A JSON feed is no kind of sitemap, and is said to be
/// none; its entries are good all the same.
fn from_feed(feed: Feed) -> Sitemap {
    let entries = feed.entries.into_iter();
    let entries = entries.filter_map(|entry| Some(SitemapEntry::new(entry.link?, entry.date)));
    let (kind, error) = match feed.kind {
        FeedKind::Rss => (Some(SitemapKind::Rss), None),
        FeedKind::Atom => (Some(SitemapKind::Atom), None),
        FeedKind::Json => (None, Some("a JSON feed, which is no kind of sitemap".to_owned())),
    };
    Sitemap { kind, error, entries: entries.collect(), errors: Vec::new() }
}

/// What a text begins with, as far as it decides how to read it.
enum Root<'a> {
    List(Tag<'a>, SitemapKind),
    Feed(Tag<'a>, FeedKind),
    Html,
    Json,
    OtherXml(String),
    /// No tag at all.
    None,
}

impl<'a> Root<'a> {
    fn of(text: &'a str) -> Self {
        let start = text.trim_start();
        if start.starts_with('{') {
            return Self::Json;
        }
        // Without a tag near its start, looking for one in all of a long list of URLs is idle.
        if !start.starts_with('<') && plain::begins_with_url(start) {
            return Self::None;
        }
        const ROOTS: [&str; 6] = ["urlset", "sitemapindex", "rss", "rdf", "feed", "html"];
        let root = find_tag(text, ROOT_BYTES_MAX, &|name| name.is_one_of(&ROOTS));
        let Some(tag) = root.or_else(|| Self::lost(text)) else {
            return match find_tag(text, ROOT_BYTES_MAX, &|_| true) {
                Some(tag) if is_html_tag(tag.name) => Self::Html,
                Some(tag) => Self::OtherXml(quoted(tag.name.local)),
                None => Self::None,
            };
        };
        let name = tag.name;
        if name.is("urlset") || name.is("url") {
            Self::List(tag, SitemapKind::Urlset)
        } else if name.is("sitemapindex") || name.is("sitemap") {
            Self::List(tag, SitemapKind::Index)
        } else if name.is("feed") {
            Self::Feed(tag, FeedKind::Atom)
        } else if name.is("html") {
            Self::Html
        } else {
            Self::Feed(tag, FeedKind::Rss)
        }
    }

    /// A list whose beginning is gone is still one, if entries with a `loc` are there.
    fn lost(text: &'a str) -> Option<Tag<'a>> {
        find_tag(text, ROOT_BYTES_MAX, &|name| name.is("loc"))?;
        find_tag(text, ROOT_BYTES_MAX, &|name| name.is_one_of(&["url", "sitemap"]))
    }
}

fn is_html_tag(name: Name<'_>) -> bool {
    name.is_one_of(&["head", "body", "div", "p", "script", "title", "br", "b", "h1", "meta"])
}

fn hints_at_text(base: &Option<Url>, content_type: Option<&str>) -> bool {
    let by_type = content_type.is_some_and(|value| {
        value.get(..10).is_some_and(|start| start.eq_ignore_ascii_case("text/plain"))
    });
    let path = base.as_ref().map_or("", Url::path).to_ascii_lowercase();
    by_type || path.ends_with(".txt") || path.ends_with(".txt.gz")
}

fn read_list(
    xml: &str,
    root: &Tag<'_>,
    kind: SitemapKind,
    base: Option<&Url>,
    complaints: &mut Complaints,
) -> Sitemap {
    let is_ours = |name: Name<'_>| is_ours(name, root);
    let form = Form {
        is_entry: &|name| is_ours(name) && name.is_one_of(&["url", "sitemap"]),
        is_field: &|name| {
            is_ours(name) && name.is_one_of(&["loc", "lastmod", "changefreq", "priority"])
        },
        records_max: ENTRIES_MAX,
    };
    let mut entries = Vec::new();
    let mut number = 0;
    records::read(xml, root.at, &form, complaints, |record, complaints| {
        number += 1;
        let complain = &mut |what: String| complaints.add(format!("entry {number}: {what}"));
        entries.extend(entry(record, base, complain));
    });
    Sitemap { kind: Some(kind), entries, ..Sitemap::default() }
}

/// Whether an element is of the sitemap itself. Images, videos and news have a `loc` too, under
/// names of their own; people choose prefixes as they like.
fn is_ours(name: Name<'_>, root: &Tag<'_>) -> bool {
    if name.prefix.is_empty() || name.prefix == root.name.prefix {
        return true;
    }
    let mut declared = root.attributes.iter();
    declared.any(|(key, value)| {
        let prefix = key.strip_prefix("xmlns:");
        prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(name.prefix))
            && (value.contains("sitemaps.org/schemas/sitemap/")
                || value.contains("google.com/schemas/sitemap/"))
    })
}

fn entry(
    record: &Record,
    base: Option<&Url>,
    complain: &mut dyn FnMut(String),
) -> Option<SitemapEntry> {
    let field = |local: &str| {
        let mut all = record.fields.iter().skip(1);
        let field = all.find(|field| {
            let name = field.name.rsplit(':').next().unwrap_or_default();
            name == local && !field.text.trim().is_empty()
        })?;
        if field.cut { None } else { Some(field.text.trim()) }
    };
    let Some(written) = field("loc") else {
        complain("no loc".to_owned());
        return None;
    };
    let Some(loc) = address(written, base) else {
        complain(format!("loc {} is no URL that can be visited", quoted(written)));
        return None;
    };
    let mut parsed = |name: &str, is_good: &dyn Fn(&str) -> bool| {
        let text = field(name)?;
        if !is_good(text) {
            complain(format!("{name} {} is not understood", quoted(text)));
            return None;
        }
        Some(text)
    };
    let lastmod = parsed("lastmod", &|text| date::parse(text).is_some()).and_then(date::parse);
    let changefreq = parsed("changefreq", &|text| ChangeFreq::parse(text).is_some());
    let priority = parsed("priority", &|text| parse_priority(text).is_some());
    Some(SitemapEntry {
        loc,
        lastmod,
        changefreq: changefreq.and_then(ChangeFreq::parse),
        priority: priority.and_then(parse_priority),
    })
}

/// A URL of http or https; what is relative is so to the sitemap.
pub(crate) fn address(written: &str, base: Option<&Url>) -> Option<Url> {
    let found = match base {
        Some(base) => resolve(base, written),
        None => Url::parse(written).ok(),
    };
    found.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// `0.8`, also with a comma, held between 0 and 1.
fn parse_priority(text: &str) -> Option<f64> {
    let value: f64 = text.replace(',', ".").parse().ok()?;
    value.is_finite().then(|| value.clamp(0.0, 1.0) + 0.0)
}
