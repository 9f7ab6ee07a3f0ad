//! `lycosa tool extract`: what does a page say?
//!
//! A page a line in, its title, main text, markdown, metadata, page type, language, links and
//! structured data out.

use std::io;

use base64::Engine as _;
use page::{Content, Document, Input, Limits, LinkKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{answered, parallel};

/// More than a crawl reads of a page: whoever sends one wants all of it.
const BODY_BYTES_MAX: usize = 16 << 20;
const LINKS_MAX: usize = 100_000;

#[derive(Deserialize)]
struct Ask {
    url: String,
    html: Option<String>,
    html_base64: Option<String>,
    content_type: Option<String>,
    /// Whether `data-src` and its like count as links.
    #[serde(default)]
    lazy: bool,
}

#[derive(Serialize)]
struct Reply {
    title: Option<String>,
    text: String,
    markdown: String,
    description: Option<String>,
    author: Option<String>,
    published: Option<String>,
    language: Option<String>,
    encoding: Option<&'static str>,
    page_type: &'static str,
    canonical: Option<String>,
    robots: Robots,
    links: Vec<Link>,
    structured_data: Vec<Json>,
    word_count: u32,
    modified: Option<String>,
    site_name: Option<String>,
    favicon: Option<String>,
    hreflang: Vec<Json>,
    headings: Vec<Json>,
    images: Vec<Json>,
    /// All that it links to: also pictures, scripts, styles, frames, other forms of it.
    outlinks: Vec<Outlink>,
    /// Addresses in the state that the page keeps for its scripts.
    state_links: Vec<String>,
}

#[derive(Serialize)]
struct Robots {
    noindex: bool,
    nofollow: bool,
    noarchive: bool,
}

#[derive(Serialize)]
struct Link {
    url: String,
    text: String,
    rel: String,
    nofollow: bool,
}

#[derive(Serialize)]
struct Outlink {
    url: String,
    kind: &'static str,
    text: String,
    rel: String,
    /// `content`, `navigation` or `other`; none where there is no page around it.
    position: Option<&'static str>,
}

pub fn run() -> io::Result<()> {
    let prepare = |line: &[u8]| answered(line, answer);
    parallel::filter(io::stdin(), io::stdout().lock(), prepare, |text, out| out.write_all(&text))
}

fn answer(ask: &Ask) -> Result<Reply, String> {
    let decoded;
    let (body, decoded_already) = match (&ask.html, &ask.html_base64) {
        (Some(html), _) => (html.as_bytes(), true),
        (None, Some(html)) => {
            decoded = base64::engine::general_purpose::STANDARD
                .decode(html)
                .map_err(|error| format!("html_base64: {error}"))?;
            (decoded.as_slice(), false)
        }
        (None, None) => return Err("missing field `html` or `html_base64`".to_owned()),
    };
    // Text that came as JSON is UTF-8, whatever a header or the page once said.
    let media_type = ask.content_type.as_deref().unwrap_or("text/html");
    let media_type = match (decoded_already, media_type.split_once(';')) {
        (true, Some((bare, _))) => format!("{bare}; charset=utf-8"),
        (true, None) => format!("{media_type}; charset=utf-8"),
        (false, _) => media_type.to_owned(),
    };
    let limits = Limits {
        body_bytes_max: BODY_BYTES_MAX,
        links_max: LINKS_MAX,
        lazy: ask.lazy,
        state: true,
        ..Limits::default()
    };
    let input = Input { content_type: Some(&media_type), limits, ..Input::new(&ask.url, body) };
    let (document, content) = page::extract(input);
    if document.base().is_none() {
        return Err(format!("not an absolute URL: {:?}", ask.url));
    }
    Ok(reply(&document, content))
}

fn reply(document: &Document, content: Option<Content>) -> Reply {
    let links = links(document);
    let outlinks = outlinks(document, content.as_ref());
    let robots = Robots {
        noindex: document.robots.noindex,
        nofollow: document.robots.nofollow,
        noarchive: document.robots.noarchive,
    };
    let canonical = document.canonical.as_ref().map(|url| url.as_str().to_owned());
    let encoding = document.charset.map(|charset| charset.name);
    let Some(content) = content else {
        return Reply {
            title: None,
            text: String::new(),
            markdown: String::new(),
            description: None,
            author: None,
            published: None,
            language: None,
            encoding,
            page_type: page::PageType::Other.as_str(),
            canonical,
            robots,
            links,
            structured_data: Vec::new(),
            word_count: 0,
            modified: None,
            site_name: None,
            favicon: None,
            hreflang: Vec::new(),
            headings: Vec::new(),
            images: Vec::new(),
            outlinks,
            state_links: Vec::new(),
        };
    };
    let outline = content.outline;
    Reply {
        title: content.metadata.title,
        text: content.text,
        markdown: content.markdown,
        description: content.metadata.description,
        author: content.metadata.author,
        published: content.metadata.published,
        language: content.language,
        encoding,
        page_type: content.page_type.as_str(),
        canonical,
        robots,
        links,
        structured_data: content.structured_data,
        word_count: content.word_count,
        modified: content.metadata.modified,
        site_name: content.metadata.site_name,
        favicon: outline.favicon,
        hreflang: list(&outline.alternates, |it| json!({"lang": it.hreflang, "url": it.url})),
        headings: list(&outline.headings, |it| json!({"level": it.level, "text": it.text})),
        images: list(&outline.images, |it| json!({"url": it.url, "alt": it.alt})),
        outlinks,
        state_links: content.state_links.into_iter().map(String::from).collect(),
    }
}

fn list<T>(items: &[T], write: impl Fn(&T) -> Json) -> Vec<Json> {
    items.iter().map(write).collect()
}

/// What a reader can click, as absolute http(s) URLs.
fn links(document: &Document) -> Vec<Link> {
    let Some(base) = document.base() else { return Vec::new() };
    document
        .links()
        .filter(|link| matches!(link.kind, LinkKind::Anchor | LinkKind::Area))
        .filter_map(|link| {
            Some(Link {
                url: link.resolve(base)?.as_str().to_owned(),
                text: link.text.to_owned(),
                rel: link.rel.to_owned(),
                nofollow: link.nofollow,
            })
        })
        .collect()
}

/// All links, with what they are for and where they stand.
fn outlinks(document: &Document, content: Option<&Content>) -> Vec<Outlink> {
    let Some(base) = document.base() else { return Vec::new() };
    let places = content.map_or(&[][..], |content| content.places.as_slice());
    document
        .links()
        .enumerate()
        .filter_map(|(at, link)| {
            Some(Outlink {
                url: link.resolve(base)?.as_str().to_owned(),
                kind: link.kind.as_str(),
                text: link.text.to_owned(),
                rel: link.rel.to_owned(),
                position: places.get(at).map(|place| place.as_str()),
            })
        })
        .collect()
}
