//! Bytes in, [`Document`] out.
//!
//! [`read`] is the one door: what sort of thing a server sent, in which encoding, what a page says
//! about itself (title, language, canonical form, rules for robots) and what it links to. One
//! streaming pass, no tree. [`extract`] is the door for whoever wants the content as well: main
//! text, markdown, metadata, structured data, page type and language, from a tree; and the text, the
//! metadata and the links of what is no page: PDF, feeds, sitemaps, office documents, pictures, XML,
//! JSON and plain text.
//!
//! ```
//! use lycosa_page::{Input, LinkKind, read};
//!
//! let page = read(Input {
//!     content_type: Some("text/html; charset=utf-8"),
//!     ..Input::new("https://a.test/dir/", b"<title>Hi</title><a href=x>there</a>")
//! });
//!
//! assert_eq!(page.title.as_deref(), Some("Hi"));
//! let link = page.links().next().unwrap();
//! assert_eq!((link.kind, link.href, link.text), (LinkKind::Anchor, "x", "there"));
//! assert_eq!(link.resolve(page.base().unwrap()).unwrap().as_str(), "https://a.test/dir/x");
//! ```
//!
//! Always: any bytes are read without a panic, in time and memory that grow with their length and
//! no faster. Nothing here does I/O, asks a clock or rolls dice.
//!
//! Not here: which links are followed (the frontier), what rules for robots mean (`robots`).

mod document;
mod kind;

mod charset;
mod prescan;

mod header;
mod html;
mod links;
mod refresh;
mod srcset;
mod text;

mod tokens;

mod attributes;
mod foreign;
mod tag;

mod feed;
mod sitemap;

mod formats;
mod state;

pub mod fingerprint;

mod complaints;
mod date;
mod records;

pub mod content;

use std::borrow::Cow;

use robots::Directives;
use url::{Host, Url};

pub use charset::{Charset, CharsetSource};
pub use content::{Content, LinkPlace, Metadata, PageType};
pub use date::{Moment, parse as parse_date};
pub use document::Document;
pub use kind::{ContentKind, SNIFF_BYTES, sniff};
pub use links::{Link, LinkKind};
pub use sitemap::{BYTES_MAX as SITEMAP_BYTES_MAX, ENTRIES_MAX as SITEMAP_ENTRIES_MAX};
pub use sitemap::{ChangeFreq, Sitemap, SitemapEntry, SitemapKind, read_sitemap};

use content::Wish;
use formats::Source;
use html::Found;
use links::{Links, resolve};

/// No body is read further than this, whatever the limits say: places in a page are kept in 32
/// bits.
pub const BODY_BYTES_MAX: usize = 1 << 30;

/// What a server sent.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Where it came from; absolute.
    pub url: &'a str,
    /// The body, out of its content encoding. It may be cut.
    pub body: &'a [u8],
    /// The `Content-Type` header.
    pub content_type: Option<&'a str>,
    /// Headers, of which `X-Robots-Tag`, `Link` and `Refresh` are read. Names in any case.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// Our name in rules for robots.
    pub product: &'a str,
    pub limits: Limits,
}

impl<'a> Input<'a> {
    /// A body without headers, to be read with the default limits.
    pub fn new(url: &'a str, body: &'a [u8]) -> Self {
        let limits = Limits::default();
        Self { url, body, content_type: None, headers: &[], product: "lycosa", limits }
    }
}

/// How much is taken from one document.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes that are read; the rest is cut. 2 MiB, as large search engines do.
    pub body_bytes_max: usize,
    /// Links that are kept; more are counted. Pages with more than 10,000 are dumps or traps.
    pub links_max: usize,
    /// The longest href. 8 KiB: servers refuse a longer request line.
    pub href_bytes_max: usize,
    /// Anchor text beyond this is cut. It is evidence of what a link is about, not its content.
    pub text_bytes_max: usize,
    /// Title beyond this is cut; no reader shows more.
    pub title_bytes_max: usize,
    /// Whether `data-src` and other attributes of lazy loaders count as links.
    pub lazy: bool,
    /// Whether [`extract`] searches the state that a page keeps for its scripts for addresses. It
    /// takes longer: such state can be larger than the page.
    pub state: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 2 << 20,
            links_max: 10_000,
            href_bytes_max: 8 << 10,
            text_bytes_max: 200,
            title_bytes_max: 1_000,
            lazy: false,
            state: false,
        }
    }
}

/// Reads a document.
pub fn read(input: Input<'_>) -> Document {
    let opened = Opened::of(&input);
    gather(&input, &opened)
}

/// Reads a document and its content: the streaming pass and the tree of a page; all that is read of
/// any other document, its links among it. Content of a kind that nobody reads is none.
pub fn extract(input: Input<'_>) -> (Document, Option<Content>) {
    let opened = Opened::of(&input);
    let mut document = gather(&input, &opened);
    if opened.kind.is_html() {
        let xml = opened.kind == ContentKind::Xhtml;
        let wish = Wish {
            base: document.base(),
            links: document.links.places().collect(),
            state: input.limits.state,
        };
        let content = content::read(&opened.text, xml, opened.url.as_ref(), &wish);
        return (document, Some(content));
    }
    let source = Source { body: opened.body, text: &opened.text, url: opened.url.as_ref() };
    let content = formats::read(opened.kind, &source).map(|mut reading| {
        add_links(&mut document, std::mem::take(&mut reading.links), &input.limits);
        document.title = document.title.take().or_else(|| reading.title.clone());
        content::of_reading(reading)
    });
    (document, content)
}

/// What a document leads to that is no page.
fn add_links(document: &mut Document, links: Vec<(LinkKind, String, String)>, limits: &Limits) {
    document.links = Links::new(limits);
    for (kind, href, text) in links {
        if let Some(link) = document.links.push_decoded(kind, &href) {
            let text = &text[..text.floor_char_boundary(limits.text_bytes_max)];
            document.links.set_text(link, text);
        }
    }
}

/// A body as text.
struct Opened<'a> {
    url: Option<Url>,
    kind: ContentKind,
    charset: Option<Charset>,
    /// As much of it as is read.
    body: &'a [u8],
    /// Empty where there is no text.
    text: Cow<'a, str>,
    cut: bool,
}

impl<'a> Opened<'a> {
    fn of(input: &Input<'a>) -> Self {
        let body_bytes = input.body.len().min(input.limits.body_bytes_max).min(BODY_BYTES_MAX);
        let body = &input.body[..body_bytes];
        let url = Url::parse(input.url).ok();
        let kind = sniff(input.content_type, body);
        let cut = body_bytes < input.body.len();
        if !kind.is_text() {
            return Self { url, kind, charset: None, body, text: Cow::Borrowed(""), cut };
        }
        let tld = url.as_ref().and_then(tld);
        let is_xml = matches!(kind, ContentKind::Xhtml | ContentKind::Xml);
        let (text, charset) = charset::decode(body, input.content_type, tld, is_xml);
        Self { url, kind, charset: Some(charset), body, text, cut }
    }
}

fn gather(input: &Input<'_>, opened: &Opened<'_>) -> Document {
    let url = &opened.url;
    let mut found = Found::default();
    if opened.kind.is_html() {
        let xml = opened.kind == ContentKind::Xhtml;
        found = html::read(&opened.text, xml, input.product, &input.limits);
        refresh_header(input, &mut found);
    }

    let base = url.as_ref().map(|url| {
        let base = found.base.as_deref().and_then(|href| resolve(url, href));
        base.unwrap_or_else(|| url.clone())
    });
    let canonical = found
        .canonical
        .as_deref()
        .and_then(|href| resolve(base.as_ref()?, href))
        .or_else(|| resolve(url.as_ref()?, canonical_header(input)?));
    let mut robots = robots_headers(input);
    robots.add(&found.robots);

    Document {
        kind: opened.kind,
        charset: opened.charset,
        title: found.title,
        lang: found.lang,
        canonical,
        robots,
        cut: opened.cut,
        base,
        refresh: found.refresh,
        links: found.links,
    }
}

fn values<'a>(input: &Input<'a>, name: &str) -> impl Iterator<Item = &'a [u8]> {
    let headers = input.headers.iter();
    headers.filter(move |header| header.0.eq_ignore_ascii_case(name)).map(|header| header.1)
}

/// The header counts like the element, and comes before it.
fn refresh_header(input: &Input<'_>, found: &mut Found) {
    let value = values(input, "refresh").find_map(|value| str::from_utf8(value).ok());
    if let Some((seconds, Some(url))) = value.and_then(refresh::parse)
        && let Some(link) = found.links.push_decoded(LinkKind::Refresh, url)
    {
        found.refresh = Some((seconds, link));
    }
}

fn robots_headers(input: &Input<'_>) -> Directives {
    // The draft drops the `X-`.
    let all = values(input, "x-robots-tag").chain(values(input, "robots-tag"));
    Directives::from_headers(all, input.product)
}

fn canonical_header<'a>(input: &Input<'a>) -> Option<&'a str> {
    values(input, "link").find_map(|value| header::canonical(str::from_utf8(value).ok()?))
}

fn tld(url: &Url) -> Option<&str> {
    match url.host()? {
        Host::Domain(domain) => domain.trim_end_matches('.').rsplit('.').next(),
        _ => None,
    }
}
