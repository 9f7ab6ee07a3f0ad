//! What does an archived page say?
//!
//! Read again from its bytes, as the crawl read it: the same door (`page::extract`), the same limits, the
//! same name in rules for robots.

use page::fingerprint::Prints;
use page::{Content, Document};
use serde::Serialize;
use types::TextFacts;

use crate::captures::Capture;
use crate::settings::Settings;

/// How pages are read.
#[derive(Debug, Clone)]
pub struct Reading {
    product: String,
    limits: page::Limits,
}

impl Reading {
    /// As the crawl with these settings reads, save for the number of links that are kept.
    pub fn new(settings: &Settings, links_max: usize) -> Self {
        let limits = page::Limits {
            body_bytes_max: settings.fetch.html_bytes_max.as_len(),
            links_max,
            ..page::Limits::default()
        };
        Self { product: settings.identity.product.clone(), limits }
    }

    /// Its links and directives alone.
    pub fn document(&self, capture: &Capture) -> Document {
        page::read(self.input(capture, &capture.page_headers()))
    }

    /// All of it.
    pub fn page(&self, capture: Capture) -> Page {
        let (document, content) = page::extract(self.input(&capture, &capture.page_headers()));
        Page { capture, document, content }
    }

    fn input<'a>(
        &'a self,
        capture: &'a Capture,
        headers: &'a [(&'a str, &'a [u8])],
    ) -> page::Input<'a> {
        page::Input {
            url: capture.url.as_str(),
            body: &capture.body,
            content_type: capture.header("content-type"),
            headers,
            product: &self.product,
            limits: self.limits,
        }
    }
}

/// An archived page and what it says.
#[derive(Debug)]
pub struct Page {
    pub capture: Capture,
    pub document: Document,
    pub content: Option<Content>,
}

impl Page {
    /// Whether there is something to read: a page, or a document with words.
    pub fn is_readable(&self) -> bool {
        self.document.kind.is_html() || !self.text().is_empty()
    }

    pub fn text(&self) -> &str {
        self.content.as_ref().map_or("", |content| &content.text)
    }

    pub fn language(&self) -> Option<&str> {
        self.content.as_ref()?.language.as_deref()
    }

    pub fn title(&self) -> Option<&str> {
        let best = self.content.as_ref().and_then(|content| content.metadata.title.as_deref());
        best.or(self.document.title.as_deref())
    }

    /// The line of a JSONL export, with its line end.
    pub fn json_line(&self, markdown: bool) -> Vec<u8> {
        let Self { capture, document, content } = self;
        let content = content.as_ref();
        let metadata = content.map(|content| &content.metadata);
        let said = |of: fn(&page::Metadata) -> Option<&str>| metadata.and_then(of);
        let prints = content.map(|content| Prints::of(&content.text));
        let facts = prints.map(|Prints { digest, simhash, .. }| TextFacts {
            digest,
            simhash: simhash.0,
            words: 0,
            language: None,
        });
        let media_type = capture.media_type();
        let line = Line {
            url: capture.url.as_str(),
            date: capture.at.rfc3339(),
            status: capture.status,
            content_type: media_type.as_deref(),
            charset: document.charset.map(|charset| charset.name),
            title: self.title(),
            description: said(|metadata| metadata.description.as_deref()),
            author: said(|metadata| metadata.author.as_deref()),
            published: said(|metadata| metadata.published.as_deref()),
            modified: said(|metadata| metadata.modified.as_deref()),
            site_name: said(|metadata| metadata.site_name.as_deref()),
            language: self.language(),
            page_type: content.map_or(page::PageType::Other, |content| content.page_type).as_str(),
            word_count: content.map_or(0, |content| content.word_count),
            text: self.text(),
            markdown: content.filter(|_| markdown).map(|content| content.markdown.as_str()),
            canonical: document.canonical.as_ref().map(|url| url.as_str()),
            links: document.links().len() as u64 + document.links_dropped(),
            noindex: document.robots.noindex,
            nofollow: document.robots.nofollow,
            noarchive: document.robots.noarchive,
            text_sha256: facts.as_ref().map(TextFacts::digest_hex),
            simhash: facts.as_ref().map(TextFacts::simhash_hex),
            digest: capture.digest.as_deref(),
            cut: capture.cut || document.cut,
            truncated: capture.truncated.as_deref(),
            revisit: capture.is_revisit(),
            warc_record_id: &capture.record_id,
            warc_filename: &capture.place.file,
            warc_record_offset: capture.place.offset,
            warc_record_length: capture.place.length,
        };
        let mut text = serde_json::to_vec(&line).expect("plain values, into memory");
        text.push(b'\n');
        text
    }

    /// The page as markdown, with what is known of it before.
    pub fn markdown(&self) -> String {
        let Self { capture, content, .. } = self;
        let mut text = String::from("---\n");
        let mut say = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                // A JSON text is a YAML text, whatever it holds.
                let value = serde_json::to_string(value).expect("a text, into memory");
                text.extend([name, ": ", &value, "\n"]);
            }
        };
        let metadata = content.as_ref().map(|content| &content.metadata);
        say("url", Some(capture.url.as_str()));
        say("date", Some(&capture.at.rfc3339()));
        say("title", self.title());
        say("description", metadata.and_then(|metadata| metadata.description.as_deref()));
        say("author", metadata.and_then(|metadata| metadata.author.as_deref()));
        say("published", metadata.and_then(|metadata| metadata.published.as_deref()));
        say("language", self.language());
        say("type", content.as_ref().map(|content| content.page_type.as_str()));
        text.push_str("---\n\n");
        text.push_str(content.as_ref().map_or("", |content| content.markdown.trim()));
        text.push('\n');
        text
    }
}

/// The fields are described in docs/export.md.
#[derive(Serialize)]
struct Line<'a> {
    url: &'a str,
    date: String,
    status: u16,
    content_type: Option<&'a str>,
    charset: Option<&'static str>,
    title: Option<&'a str>,
    description: Option<&'a str>,
    author: Option<&'a str>,
    published: Option<&'a str>,
    modified: Option<&'a str>,
    site_name: Option<&'a str>,
    language: Option<&'a str>,
    page_type: &'static str,
    word_count: u32,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    markdown: Option<&'a str>,
    canonical: Option<&'a str>,
    links: u64,
    noindex: bool,
    nofollow: bool,
    noarchive: bool,
    text_sha256: Option<String>,
    simhash: Option<String>,
    digest: Option<&'a str>,
    cut: bool,
    truncated: Option<&'a str>,
    revisit: bool,
    warc_record_id: &'a str,
    warc_filename: &'a str,
    warc_record_offset: u64,
    warc_record_length: u64,
}
