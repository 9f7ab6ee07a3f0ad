//! What sort of thing did the server send?
//!
//! The `Content-Type` decides, with the exceptions that the MIME sniffing standard and daily
//! experience ask for: no or an unknown type is guessed from the first bytes, PDF, images and office
//! documents are recognised under a general or wrong type, and XML whose root is `<html>` is XHTML.

use memchr::memmem;

/// How many bytes of a body are looked at: "resource header" of the MIME sniffing standard.
pub const SNIFF_BYTES: usize = 1445;

/// The sort of a document, as far as reading it differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentKind {
    Html,
    /// HTML in XML syntax, served as XML.
    Xhtml,
    /// Other XML: feeds, sitemaps.
    Xml,
    /// Plain text, and code and data in text form.
    Text,
    Json,
    Pdf,
    Image,
    /// Documents, tables and slides that are XML in a zip: OOXML and OpenDocument.
    Office,
    /// Anything else.
    Other,
}

impl ContentKind {
    /// Whether it is read for links.
    pub fn is_html(self) -> bool {
        matches!(self, Self::Html | Self::Xhtml)
    }

    /// Whether its bytes are characters.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Html | Self::Xhtml | Self::Xml | Self::Text | Self::Json)
    }
}

/// Judges by the `Content-Type` header and the first bytes of the body.
pub fn sniff(content_type: Option<&str>, first_bytes: &[u8]) -> ContentKind {
    let first_bytes = &first_bytes[..first_bytes.len().min(SNIFF_BYTES)];
    // No page or text begins like these, and servers that label every file alike are common.
    if let Some(kind) = magic(first_bytes) {
        return kind;
    }
    match Declared::of(content_type.map_or("", essence)) {
        Declared::Kind(ContentKind::Html) if is_feed(first_bytes) => ContentKind::Xml,
        Declared::Kind(ContentKind::Xml) if has_html_root(first_bytes) => ContentKind::Xhtml,
        Declared::Kind(kind) => kind,
        Declared::Binary => ContentKind::Other,
        Declared::Nothing => guess(first_bytes),
    }
}

/// What the header claims.
enum Declared {
    Kind(ContentKind),
    /// "Some bytes": never taken for HTML, as browsers do not either.
    Binary,
    Nothing,
}

impl Declared {
    fn of(essence: &str) -> Self {
        use ContentKind::*;
        let essence = essence.to_ascii_lowercase();
        let (group, name) = essence.split_once('/').unwrap_or(("", ""));
        Self::Kind(match (group, name) {
            ("", _) | ("unknown" | "application", "unknown") | ("*", "*") => return Self::Nothing,
            ("application" | "binary", "octet-stream") => return Self::Binary,
            ("text", "html") => Html,
            ("application", "xhtml+xml") => Xhtml,
            ("image", _) => Image,
            ("text" | "application", "xml") => Xml,
            (_, name) if name.ends_with("+xml") => Xml,
            ("application", "pdf" | "x-pdf") => Pdf,
            ("application" | "text", "json") => Json,
            (_, name) if name.ends_with("+json") => Json,
            ("text", _) | ("application", "javascript" | "x-javascript") => Text,
            ("application", name) if is_office(name) => Office,
            _ => Other,
        })
    }
}

fn is_office(name: &str) -> bool {
    ["vnd.openxmlformats-officedocument.", "vnd.oasis.opendocument."]
        .iter()
        .any(|family| name.starts_with(family))
}

/// `text/html` out of `Text/HTML; charset=…`, in its own case.
fn essence(content_type: &str) -> &str {
    content_type.split([';', ',']).next().unwrap_or("").trim()
}

/// Signatures that leave no doubt.
fn magic(bytes: &[u8]) -> Option<ContentKind> {
    const IMAGES: [&[u8]; 7] = [
        b"GIF87a",
        b"GIF89a",
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff",
        b"\0\0\x01\0",
        b"II*\0",
        b"MM\0*",
    ];
    if bytes.starts_with(b"%PDF-") {
        Some(ContentKind::Pdf)
    } else if bytes.starts_with(b"PK\x03\x04") && is_office_zip(bytes) {
        Some(ContentKind::Office)
    } else if IMAGES.iter().any(|image| bytes.starts_with(image))
        || bytes.starts_with(b"RIFF") && bytes.get(8..14) == Some(b"WEBPVP")
        || bytes.get(4..12) == Some(b"ftypavif")
    {
        Some(ContentKind::Image)
    } else {
        None
    }
}

/// Office programs write the same few names first.
fn is_office_zip(bytes: &[u8]) -> bool {
    // The name of the first file stands at byte 30, and what it holds behind it.
    let name = bytes.get(30..).unwrap_or_default();
    let first =
        [&b"[Content_Types].xml"[..], b"_rels/.rels", b"docProps/", b"word/", b"xl/", b"ppt/"];
    first.iter().any(|first| name.starts_with(first))
        || name.starts_with(b"mimetypeapplication/vnd.oasis.opendocument.")
}

/// For a body without a type: markup, text or neither.
fn guess(bytes: &[u8]) -> ContentKind {
    const BOMS: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe"];
    #[rustfmt::skip]
    const TAGS: [&[u8]; 18] = [
        b"<!doctype html", b"<html", b"<head", b"<script", b"<iframe", b"<h1", b"<div", b"<font",
        b"<table", b"<a", b"<style", b"<title", b"<b", b"<body", b"<br", b"<p", b"<meta", b"<link",
    ];
    let text = bytes.strip_prefix(BOMS[0]).unwrap_or(bytes).trim_ascii_start();
    let begins_with = |tag: &[u8]| {
        text.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag))
            && text.get(tag.len()).is_some_and(|&byte| byte == b'>' || byte.is_ascii_whitespace())
    };
    if text.starts_with(b"<?xml") {
        if has_html_root(bytes) { ContentKind::Xhtml } else { ContentKind::Xml }
    } else if text.starts_with(b"<!--") || TAGS.iter().any(|tag| begins_with(tag)) {
        ContentKind::Html
    } else if is_feed(bytes) || begins_with(b"<urlset") || begins_with(b"<sitemapindex") {
        ContentKind::Xml
    } else if BOMS.iter().any(|bom| bytes.starts_with(bom)) || !bytes.iter().any(is_binary) {
        if is_json(text) { ContentKind::Json } else { ContentKind::Text }
    } else {
        ContentKind::Other
    }
}

/// An object or a list of JSON: nothing else begins so.
fn is_json(text: &[u8]) -> bool {
    let inside = text.get(1..).unwrap_or_default().trim_ascii_start();
    match text.first() {
        Some(b'{') => matches!(inside.first(), Some(b'"' | b'}')),
        Some(b'[') => matches!(inside.first(), Some(b'{' | b'[' | b'"' | b']')),
        _ => false,
    }
}

/// "Binary data byte" of the MIME sniffing standard.
fn is_binary(byte: &u8) -> bool {
    matches!(byte, 0x00..=0x08 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f)
}

fn is_feed(bytes: &[u8]) -> bool {
    root(bytes).is_some_and(|root| {
        [&b"rss"[..], b"feed", b"rdf:RDF"].iter().any(|feed| root.eq_ignore_ascii_case(feed))
    })
}

fn has_html_root(bytes: &[u8]) -> bool {
    root(bytes).is_some_and(|root| root.eq_ignore_ascii_case(b"html"))
}

/// The name of the first element, behind comments, doctype and processing instructions.
fn root(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes;
    loop {
        rest = &rest[memchr::memchr(b'<', rest)? + 1..];
        match rest.first()? {
            b'!' if rest.starts_with(b"!--") => rest = &rest[memmem::find(rest, b"-->")?..],
            b'!' | b'?' => {}
            _ => {
                let end = rest
                    .iter()
                    .position(|byte| matches!(byte, b'>' | b'/') || byte.is_ascii_whitespace())?;
                return Some(&rest[..end]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ContentKind::*;

    #[test]
    fn the_declared_type_decides() {
        for (content_type, kind) in [
            ("text/html", Html),
            ("Text/HTML; charset=utf-8", Html),
            ("text/html,text/html", Html),
            ("application/xhtml+xml", Xhtml),
            ("application/rss+xml", Xml),
            ("text/xml", Xml),
            ("text/plain", Text),
            ("text/css", Text),
            ("application/json", Json),
            ("application/ld+json", Json),
            ("application/javascript", Text),
            ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", Office),
            ("application/vnd.oasis.opendocument.text", Office),
            ("application/pdf", Pdf),
            ("image/svg+xml", Image),
            ("video/mp4", Other),
            ("application/octet-stream", Other),
            ("application/zip", Other),
        ] {
            assert_eq!(
                sniff(Some(content_type), b"<html>"),
                match kind {
                    Xml => Xhtml,
                    kind => kind,
                },
                "{content_type}"
            );
            assert_eq!(sniff(Some(content_type), b"<x>"), kind, "{content_type}");
        }
    }

    #[test]
    fn without_a_type_the_bytes_decide() {
        for (bytes, kind) in [
            (&b"<!DOCTYPE html><p>"[..], Html),
            (b"\n <HTML lang=en>", Html),
            (b"\xef\xbb\xbf<p>x", Html),
            (b"<!-- x --><p>", Html),
            (b"<abbr>", Text),
            (b"<?xml version='1.0'?><rss version=2>", Xml),
            (
                b"<?xml version='1.0'?><!DOCTYPE html PUBLIC '-//W3C//DTD XHTML'><html xmlns=x>",
                Xhtml,
            ),
            (b"<urlset xmlns=x>", Xml),
            (b"%PDF-1.7", Pdf),
            (b"\x89PNG\r\n\x1a\n", Image),
            (b"RIFF\0\0\0\0WEBPVP8 ", Image),
            (b"hello", Text),
            (b"", Text),
            (b"\xff\xfeh\0i\0", Text),
            (b"PK\x03\x04", Other),
            (b"PK\x03\x04\x14\0\x06\0\x08\0\0\0!\0\xdf\xa4\xd2lZ\x01\0\0 \x05\0\0\x13\0\0\0[Content_Types].xml", Office),
            (b"{\"a\": 1}", Json),
            (b" [{}]", Json),
            (b"[1] A footnote", Text),
            (b"{ curly }", Text),
        ] {
            for nothing in [None, Some(""), Some("*/*"), Some("unknown/unknown"), Some("html")] {
                assert_eq!(sniff(nothing, bytes), kind, "{:?}", String::from_utf8_lossy(bytes));
            }
        }
    }

    #[test]
    fn a_wrong_label_is_seen_through() {
        assert_eq!(sniff(Some("text/html"), b"%PDF-1.4"), Pdf);
        assert_eq!(sniff(Some("application/octet-stream"), b"%PDF-1.4"), Pdf);
        assert_eq!(sniff(Some("text/html"), b"\xff\xd8\xff\xe0"), Image);
        assert_eq!(sniff(Some("text/html"), b"<?xml version='1.0'?>\n<rss>"), Xml);
        assert_eq!(sniff(Some("text/html"), b"<!-- <rss> --><html>"), Html);
        assert_eq!(sniff(Some("application/xml"), b"<!-- x --><html xmlns='x'>"), Xhtml);
        // As browsers: a page must say that it is one.
        assert_eq!(sniff(Some("text/plain"), b"<!doctype html>"), Text);
        assert_eq!(sniff(Some("application/octet-stream"), b"<!doctype html>"), Other);
    }
}
