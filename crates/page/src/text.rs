//! What do the characters between and within tags say?
//!
//! [`Words`] gathers text the way it is shown: character references decoded, white space collapsed
//! to single spaces, cut at a bound. [`push_attribute`] and [`push_href`] append the value of an
//! attribute to a buffer, so that a value costs no allocation of its own.

use std::borrow::Cow;

use memchr::memchr;

/// The most bytes of source that one byte of shown text may take, as `&#x0000041;` does. It bounds
/// what we decode for a text that is cut anyway.
const SOURCE_PER_BYTE_MAX: usize = 16;

/// Text as it is shown, up to a bound.
#[derive(Debug)]
pub(crate) struct Words {
    text: String,
    bytes_max: usize,
    /// White space was seen and is not written yet.
    space: bool,
    full: bool,
}

impl Words {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { text: String::new(), bytes_max, space: false, full: bytes_max == 0 }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn into_string(self) -> String {
        self.text
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.space = false;
        self.full = self.bytes_max == 0;
    }

    /// Adds text of the page. Without white space between, it continues the last word.
    pub(crate) fn add(&mut self, raw: &str) {
        self.add_decoded(raw, htmlize::unescape);
    }

    /// Adds the value of an attribute.
    pub(crate) fn add_attribute(&mut self, raw: &str) {
        self.add_decoded(raw, htmlize::unescape_attribute);
    }

    /// Adds text in which `&` means `&`.
    pub(crate) fn add_literal(&mut self, text: &str) {
        self.add_decoded(text, Cow::Borrowed);
    }

    fn add_decoded<'t>(&mut self, raw: &'t str, decode: impl Fn(&'t str) -> Cow<'t, str>) {
        let mut rest = raw;
        while !self.full {
            let trimmed = rest.trim_ascii_start();
            self.space |= trimmed.len() < rest.len();
            if trimmed.is_empty() {
                return;
            }
            let end = trimmed
                .bytes()
                .position(|byte| byte.is_ascii_whitespace())
                .unwrap_or(trimmed.len());
            let piece = &trimmed[..end];
            rest = &trimmed[end..];

            let decoded_max = self.bytes_max.saturating_mul(SOURCE_PER_BYTE_MAX);
            let piece = &piece[..piece.floor_char_boundary(decoded_max)];
            if memchr(b'&', piece.as_bytes()).is_some() {
                self.push(&decode(piece));
            } else {
                self.push(piece);
            }
        }
    }

    /// A piece without ASCII white space, unless a character reference made some.
    fn push(&mut self, piece: &str) {
        if piece.bytes().all(|byte| byte.is_ascii_graphic()) {
            self.write_space();
            self.text.push_str(piece);
        } else {
            for c in piece.chars() {
                if c.is_whitespace() {
                    self.space = true;
                } else if c != '\0' {
                    self.write_space();
                    self.text.push(c);
                }
            }
        }
        if self.text.len() > self.bytes_max {
            self.text.truncate(self.text.floor_char_boundary(self.bytes_max));
            self.text.truncate(self.text.trim_end().len());
            self.full = true;
        }
    }

    fn write_space(&mut self) {
        if self.space && !self.text.is_empty() {
            self.text.push(' ');
        }
        self.space = false;
    }
}

/// Appends the value of an attribute, character references decoded.
pub(crate) fn push_attribute(out: &mut String, raw: &str) {
    let mut rest = raw;
    while let Some(at) = memchr(b'&', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        // Nearly all references in links; without the detour that allocates.
        let Some(behind) = rest.strip_prefix("&amp;") else {
            out.push_str(&htmlize::unescape_attribute(rest));
            return;
        };
        out.push('&');
        rest = behind;
    }
    out.push_str(rest);
}

/// Appends the value of an attribute that holds a URL, as the URL standard's parser would take it:
/// control characters and spaces are off at both ends, tabs and newlines gone from within.
pub(crate) fn push_href(out: &mut String, raw: &str) {
    let start = out.len();
    push_attribute(out, raw);
    let value = &out[start..];
    if value.bytes().all(|byte| byte > b' ') {
        return;
    }
    let value: String = value
        .trim_matches(|c| c <= ' ')
        .chars()
        .filter(|c| !matches!(c, '\t' | '\n' | '\r'))
        // The tokenizer of the standard writes this character for NUL.
        .map(|c| if c == '\0' { char::REPLACEMENT_CHARACTER } else { c })
        .collect();
    out.truncate(start);
    out.push_str(&value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(pieces: &[&str], bytes_max: usize) -> String {
        let mut words = Words::new(bytes_max);
        pieces.iter().for_each(|piece| words.add(piece));
        words.into_string()
    }

    #[test]
    fn white_space_collapses_within_and_across_pieces() {
        assert_eq!(words(&["  a \n\t b  "], 100), "a b");
        assert_eq!(words(&["a", "b"], 100), "ab");
        assert_eq!(words(&["a ", "b", " ", " c"], 100), "a b c");
        assert_eq!(words(&["a\u{a0}\u{3000}b&nbsp;c&#32;d&#10;"], 100), "a b c d");
        assert_eq!(words(&[" ", "\n"], 100), "");
    }

    #[test]
    fn references_in_text_are_decoded() {
        assert_eq!(
            words(&["R&amp;D &lt;b&gt; caf&eacute; &notit; &#x41;"], 100),
            "R&D <b> café ¬it; A"
        );
    }

    #[test]
    fn text_is_cut_at_a_character_and_without_a_space_at_the_end() {
        assert_eq!(words(&["abc def"], 7), "abc def");
        assert_eq!(words(&["abc def"], 5), "abc d");
        assert_eq!(words(&["abc def"], 4), "abc");
        assert_eq!(words(&["äöü"], 3), "ä");
        assert_eq!(words(&["a", "b"], 1), "a");
        assert_eq!(words(&["a"], 0), "");
        assert_eq!(words(&[&"x".repeat(1 << 20)], 10), "xxxxxxxxxx");
        assert_eq!(words(&[&" ".repeat(1 << 20), "x"], 10), "x");
    }

    #[test]
    fn a_literal_keeps_its_ampersands() {
        let mut words = Words::new(100);
        words.add_literal("a &amp; b");
        assert_eq!(words.as_str(), "a &amp; b");
        words.clear();
        words.add_attribute("a&copy=1&copy;");
        assert_eq!(words.as_str(), "a&copy=1©");
    }

    fn href(raw: &str) -> String {
        let mut out = String::from("|");
        push_href(&mut out, raw);
        out.split_off(1)
    }

    #[test]
    fn a_href_is_what_the_url_parser_would_see() {
        assert_eq!(href("/a?b=1&amp;c=2"), "/a?b=1&c=2");
        assert_eq!(href("/a?b=1&copy=2&amp;lt;"), "/a?b=1&copy=2&lt;");
        assert_eq!(href("/a?b=1&#38;c&#x3D;2"), "/a?b=1&c=2");
        assert_eq!(href(" \n /a b\t/c\r\n "), "/a b/c");
        assert_eq!(href("&#32;/a&Tab;&NewLine;b&#9;"), "/ab");
        assert_eq!(href("\u{1}/a\0b\u{1f}"), "/a\u{fffd}b");
        assert_eq!(href("\u{a0}/ä"), "\u{a0}/ä");
        assert_eq!(href(""), "");
    }
}
