//! How does an index point at a response?
//!
//! One line a response: its SURT key, the moment, and JSON with where to find it. Lines are
//! written exactly as cdxj-indexer writes them for the same file (same keys, same order, numbers
//! as strings, ASCII only), so either index can replace the other.
//!
//! Lines are appended while a file grows, so after a crash the last one may be torn:
//! [`complete_len`] says where to cut, [`last_line`] up to where the file was indexed.
//!
//! Not here: sorting, which waits until the WARC closes.

use std::fmt::Write as _;

use serde_json::Value;

use crate::fields::escape_uri;
use crate::{Capture, Digest, VisitMembers, WarcDate, surt};

/// What stands for the media type of a record that has no payload of its own.
pub const REVISIT_MIME: &str = "warc/revisit";

/// What a line says of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    pub url: &'a str,
    pub date: WarcDate,
    /// Content-Type of the answer, without parameters; `None` if it had none.
    pub mime: Option<&'a str>,
    /// `None` if the answer had no head.
    pub status: Option<&'a str>,
    pub digest: Digest,
    /// Bytes of the response's gzip member.
    pub length: u64,
    /// Where it starts in the file.
    pub offset: u64,
    pub filename: &'a str,
}

impl<'a> Entry<'a> {
    /// The entry of a visit; `base` is where the buffer that it was written to starts in the file.
    #[must_use]
    pub fn of_visit(
        capture: &Capture<'a>,
        members: &'a VisitMembers,
        filename: &'a str,
        base: u64,
    ) -> Self {
        let head = members.head.as_ref();
        Self {
            url: capture.uri,
            date: capture.date,
            mime: members.mime(),
            status: head.map(|head| head.status()),
            digest: members.digest,
            length: members.response.len as u64,
            offset: base + members.response.start as u64,
            filename,
        }
    }

    /// Appends the line, with its line end.
    pub fn push_line(&self, out: &mut String) {
        // Keyed by what the record's WARC-Target-URI says.
        let url = escape_uri(self.url);
        out.push_str(&surt(&url));
        out.push(' ');
        out.push_str(&self.date.digits14());
        out.push_str(" {");
        push_pair(out, "url", &url);
        for (name, value) in [("mime", self.mime), ("status", self.status)] {
            if let Some(value) = value {
                push_pair(out, name, value);
            }
        }
        push_pair(out, "digest", &self.digest.to_string());
        push_pair(out, "length", &self.length.to_string());
        push_pair(out, "offset", &self.offset.to_string());
        push_pair(out, "filename", self.filename);
        out.push_str("}\n");
    }
}

fn push_pair(out: &mut String, name: &str, value: &str) {
    if !out.ends_with('{') {
        out.push_str(", ");
    }
    push_json(out, name);
    out.push_str(": ");
    push_json(out, value);
}

/// By hand, because the model writes ASCII only and JSON libraries here do not.
fn push_json(out: &mut String, text: &str) {
    out.push('"');
    let mut utf16 = [0; 2];
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(char),
            _ => {
                for unit in char.encode_utf16(&mut utf16) {
                    write!(out, "\\u{unit:04x}").expect("a String takes every write");
                }
            }
        }
    }
    out.push('"');
}

/// A line as read, ours or another tool's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub key: String,
    /// Fourteen digits, as a rule.
    pub timestamp: String,
    pub url: Option<String>,
    pub mime: Option<String>,
    pub status: Option<String>,
    pub digest: Option<String>,
    pub length: Option<u64>,
    pub offset: Option<u64>,
    pub filename: Option<String>,
}

impl Line {
    /// Reads one line; `None` if it is none (a header, a torn line).
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim_end_matches(['\r', '\n']).splitn(3, ' ');
        let (key, timestamp, json) = (parts.next()?, parts.next()?, parts.next()?);
        let digits = !timestamp.is_empty() && timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let Ok(Value::Object(json)) = serde_json::from_str(json) else { return None };
        let text = |name: &str| match json.get(name)? {
            Value::String(text) => Some(text.clone()),
            // Some indexers write plain numbers.
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let number = |name: &str| text(name)?.parse().ok();
        digits.then(|| Self {
            key: key.to_owned(),
            timestamp: timestamp.to_owned(),
            url: text("url"),
            mime: text("mime"),
            status: text("status"),
            digest: text("digest"),
            length: number("length"),
            offset: number("offset"),
            filename: text("filename"),
        })
    }
}

/// Length of the complete lines at the start of `bytes`; behind them at most one torn line.
#[must_use]
pub fn complete_len(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)
}

/// The last complete line of an index, from the bytes of its end.
#[must_use]
pub fn last_line(bytes: &[u8]) -> Option<Line> {
    let complete = bytes[..complete_len(bytes)].strip_suffix(b"\n")?;
    let start = complete_len(complete);
    Line::parse(std::str::from_utf8(&complete[start..]).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Algorithm;

    fn entry(url: &str) -> Entry<'_> {
        Entry {
            url,
            date: WarcDate::from_unix_seconds(1_793_867_400),
            mime: Some("text/html"),
            status: Some("200"),
            digest: Digest::of(Algorithm::Sha1, &[]),
            length: 1234,
            offset: 567,
            filename: "a-é-\u{1f577}.warc.gz",
        }
    }

    const LINE: &str = r#"com,example)/a?b=2 20261105083000 {"url": "https://www.example.com/a?B=2", "mime": "text/html", "status": "200", "digest": "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", "length": "1234", "offset": "567", "filename": "a-\u00e9-\ud83d\udd77.warc.gz"}
"#;

    #[test]
    fn a_line_is_written_as_cdxj_indexer_writes_it() {
        let mut line = String::new();
        entry("https://www.example.com/a?B=2").push_line(&mut line);
        assert_eq!(line, LINE);
        line.clear();
        let bare = Entry { mime: None, status: None, ..entry("http://a.test/\"\\\n") };
        bare.push_line(&mut line);
        let start = r#"test,a)/"\%0a 20261105083000 {"url": "http://a.test/\"\\%0A", "digest": "#;
        assert!(line.starts_with(start), "{line}");
    }

    #[test]
    fn a_line_reads_back() {
        let line = Line::parse(LINE).unwrap();
        assert_eq!(line.key, "com,example)/a?b=2");
        assert_eq!((line.offset, line.length), (Some(567), Some(1234)));
        assert_eq!(line.filename.as_deref(), Some("a-é-\u{1f577}.warc.gz"));
        let numbers = Line::parse(r#"com,a)/ 2026 {"offset": 5, "status": 200}"#).unwrap();
        assert_eq!((numbers.offset, numbers.status.as_deref()), (Some(5), Some("200")));
        for bad in ["", "a b", "a b {}", "a 1 {", "a 1 []", "!meta 0 x", " CDX N b a m s k r V g"] {
            assert_eq!(Line::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_torn_index_ends_with_its_last_complete_line() {
        let mut index = String::new();
        for offset in [1, 2, 3] {
            Entry { offset, ..entry("http://a.test/") }.push_line(&mut index);
        }
        let line_len = index.len() / 3;
        for cut in 0..=index.len() {
            let torn = &index.as_bytes()[..cut];
            let whole = cut / line_len;
            assert_eq!(complete_len(torn), whole * line_len);
            let last = last_line(torn).and_then(|line| line.offset);
            assert_eq!(last, (whole > 0).then_some(whole as u64));
        }
    }
}
