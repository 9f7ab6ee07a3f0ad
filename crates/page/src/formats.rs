//! What do documents say that are not pages?
//!
//! A registry: each kind of content has a reader, a file each in `formats/`. All answer in one form, so
//! that whoever asks [`crate::extract`] need not know what was sent.
//!
//! Always: any bytes are read without a panic, and bounded in time and memory by counting.
//!
//! Not here: what sort of thing it is (`kind`), and HTML (`html`, `content`).

mod image;
mod json;
mod office;
mod pdf;
mod xml;
mod zip;

use serde_json::{Value, json};
use url::Url;

use crate::content::Heading;
use crate::kind::ContentKind;
use crate::links::LinkKind;

/// A document to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'s> {
    pub(crate) body: &'s [u8],
    /// The body decoded; empty where it is no text.
    pub(crate) text: &'s str,
    pub(crate) url: Option<&'s Url>,
}

/// What was read of it.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) title: Option<String>,
    pub(crate) author: Option<String>,
    pub(crate) description: Option<String>,
    /// ISO 8601.
    pub(crate) published: Option<String>,
    pub(crate) modified: Option<String>,
    /// As the document declares it.
    pub(crate) language: Option<String>,
    pub(crate) text: String,
    /// Where it differs from the text.
    pub(crate) markdown: Option<String>,
    pub(crate) headings: Vec<Heading>,
    /// Kind, address as written, text.
    pub(crate) links: Vec<(LinkKind, String, String)>,
    /// What else is known, in the words of schema.org.
    pub(crate) about: Option<Value>,
}

type Reader = fn(&Source<'_>) -> Reading;

/// Who reads what.
const READERS: [(ContentKind, Reader); 6] = [
    (ContentKind::Text, plain),
    (ContentKind::Json, json::read),
    (ContentKind::Xml, xml::read),
    (ContentKind::Pdf, read_pdf),
    (ContentKind::Image, image::read),
    (ContentKind::Office, office::read),
];

/// Reads a document; none if nobody reads its kind.
pub(crate) fn read(kind: ContentKind, source: &Source<'_>) -> Option<Reading> {
    let (_, reader) = READERS.iter().find(|(known, _)| *known == kind)?;
    Some(reader(source))
}

/// Plain text: all of it, and the addresses in it.
fn plain(source: &Source<'_>) -> Reading {
    let mut reading = Reading { text: source.text.trim().to_owned(), ..Reading::default() };
    reading.add_addresses();
    reading
}

fn read_pdf(source: &Source<'_>) -> Reading {
    let pdf = pdf::read(source.body);
    let heading = |(level, text)| Heading { level, text };
    let mut reading = Reading {
        title: pdf.title,
        author: pdf.author,
        description: pdf.subject,
        published: pdf.created,
        modified: pdf.modified,
        language: pdf.language,
        text: pdf.text,
        headings: pdf.headings.into_iter().map(heading).collect(),
        about: Some(json!({
            "@type": "DigitalDocument",
            "@source": "pdf",
            "encodingFormat": "application/pdf",
            "numberOfPages": pdf.pages,
            "encrypted": pdf.locked,
        })),
        ..Reading::default()
    };
    let links = pdf.links.into_iter();
    reading.links = links.map(|(href, text)| (LinkKind::Anchor, href, text)).collect();
    reading.add_addresses();
    reading
}

/// Addresses in a text that are kept beside those that are marked.
const ADDRESSES_MAX: usize = 10_000;

impl Reading {
    /// Adds the addresses that stand in the text itself, unless a link leads there already.
    fn add_addresses(&mut self) {
        let mut known: std::collections::HashSet<String> =
            self.links.iter().map(|(_, href, _)| href.clone()).collect();
        for address in addresses(&self.text).take(ADDRESSES_MAX) {
            if known.insert(address.to_owned()) {
                self.links.push((LinkKind::Anchor, address.to_owned(), String::new()));
            }
        }
    }
}

/// No server takes a longer one.
const ADDRESS_BYTES_MAX: usize = 8 << 10;

/// The addresses of http(s) in a text, without the marks that end a sentence.
pub(crate) fn addresses(text: &str) -> impl Iterator<Item = &str> {
    // No address begins within another.
    let mut behind = 0;
    memchr::memmem::find_iter(text.as_bytes(), b"://").filter_map(move |at| {
        let scheme = ["https", "http"].into_iter().find(|scheme| {
            let start = at.checked_sub(scheme.len()).and_then(|from| text.get(from..at));
            start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        })?;
        let from = at - scheme.len();
        if from < behind {
            return None;
        }
        let rest = &text[from..text.floor_char_boundary(from + ADDRESS_BYTES_MAX)];
        let end = rest.find(ends_address).unwrap_or(rest.len());
        behind = from + end;
        let address = without_marks(&rest[..end]);
        (address.len() > scheme.len() + 3 && end < ADDRESS_BYTES_MAX - 4).then_some(address)
    })
}

fn ends_address(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "<>\"'`{}|\\^“”‘’«»，。、；：！？（）「」".contains(c)
}

/// Marks at the end belong to the sentence, and so do brackets that were not opened in the address.
fn without_marks(address: &str) -> &str {
    let count = |wanted: u8| address.bytes().filter(|&byte| byte == wanted).count();
    let mut unopened = [(b')', count(b')'), count(b'(')), (b']', count(b']'), count(b'['))];
    let mut end = address.len();
    while let Some(&last) = address.as_bytes()[..end].last() {
        let bracket = unopened.iter_mut().find(|(close, _, _)| *close == last);
        match bracket {
            Some((_, closed, opened)) if *closed > *opened => *closed -= 1,
            None if b".,;:!?*".contains(&last) => {}
            _ => break,
        }
        end -= 1;
    }
    &address[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_end_where_their_sentence_does() {
        let text = "See https://a.test/x(y), (http://b.test/z). <https://c.test/?q=1&r=2#f>; HTTP://D.test! \
                    ftp://e.test http:// https://f.test/ä。next https://g.test/a,b.";
        assert_eq!(
            addresses(text).collect::<Vec<_>>(),
            [
                "https://a.test/x(y)",
                "http://b.test/z",
                "https://c.test/?q=1&r=2#f",
                "HTTP://D.test",
                "https://f.test/ä",
                "https://g.test/a,b",
            ]
        );
    }
}
