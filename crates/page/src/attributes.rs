//! Where do the attributes of a tag lie, and where does the tag end?
//!
//! The grammar of the HTML standard's tokenizer, from "before attribute name" to the closing `>`.
//! It gives ranges, so that it serves both decoded text and the raw bytes of the charset prescan.
//!
//! Always: each step moves forward, so a tag is walked in one pass however broken it is.

use std::ops::Range;

use memchr::memchr;

/// One attribute: where its name and its value lie. Duplicates are not removed (the first counts).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attribute {
    pub(crate) name: Range<usize>,
    pub(crate) value: Range<usize>,
}

/// Walks over the attributes behind a tag name.
#[derive(Clone, Debug)]
pub(crate) struct Attributes<'a> {
    bytes: &'a [u8],
    at: usize,
    end: Option<End>,
}

/// How a tag ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With `>`.
    Closed,
    /// With `/>`.
    SelfClosed,
    /// The input ended first; such a tag does not count.
    Missing,
}

impl<'a> Attributes<'a> {
    /// `at` is the first byte behind the tag name.
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, end: None }
    }

    /// Skips what is left; gives how the tag ended and the position behind it.
    #[inline]
    pub(crate) fn finish(mut self) -> (End, usize) {
        loop {
            if let Some(end) = self.end {
                return (end, self.at);
            }
            self.next();
        }
    }

    fn ended(&mut self, end: End) -> Option<Attribute> {
        self.end = Some(end);
        self.at = if end == End::Missing { self.bytes.len() } else { self.at + 1 };
        None
    }

    fn skip_space(&mut self) -> Option<u8> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            if !is_space(byte) {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// The value behind `=`; `None` when the input ends in it.
    fn value(&mut self) -> Option<Range<usize>> {
        let start = match self.skip_space()? {
            quote @ (b'"' | b'\'') => {
                let start = self.at + 1;
                let end = start + memchr(quote, self.bytes.get(start..)?)?;
                self.at = end + 1;
                return Some(start..end);
            }
            _ => self.at,
        };
        loop {
            let byte = *self.bytes.get(self.at)?;
            if byte == b'>' || is_space(byte) {
                return Some(start..self.at);
            }
            self.at += 1;
        }
    }
}

impl Iterator for Attributes<'_> {
    type Item = Attribute;

    #[inline]
    fn next(&mut self) -> Option<Attribute> {
        if self.end.is_some() {
            return None;
        }
        let mut slash = false;
        let start = loop {
            match self.bytes.get(self.at) {
                None => return self.ended(End::Missing),
                Some(b'>') if slash => return self.ended(End::SelfClosed),
                Some(b'>') => return self.ended(End::Closed),
                // Only a slash right before the `>` counts.
                Some(&byte) if byte == b'/' || is_space(byte) => slash = byte == b'/',
                Some(_) => break self.at,
            }
            self.at += 1;
        };
        // A `=` in first place belongs to the name.
        self.at += 1;
        let end = loop {
            match self.bytes.get(self.at) {
                None => return self.ended(End::Missing),
                Some(&byte) if matches!(byte, b'=' | b'>' | b'/') || is_space(byte) => {
                    break self.at;
                }
                Some(_) => self.at += 1,
            }
        };
        match self.skip_space() {
            None => self.ended(End::Missing),
            Some(b'=') => {
                self.at += 1;
                match self.value() {
                    None => self.ended(End::Missing),
                    Some(value) => Some(Attribute { name: start..end, value }),
                }
            }
            Some(_) => Some(Attribute { name: start..end, value: end..end }),
        }
    }
}

/// White space between attributes. The standard turns carriage returns into newlines before it
/// looks, hence the `\r`.
#[inline]
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r' | b'\x0c')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows `name=value` pairs, how the tag ended, and the rest of the input.
    fn show(input: &str) -> String {
        let mut attributes = Attributes::new(input.as_bytes(), 0);
        let mut shown: Vec<String> = attributes
            .by_ref()
            .map(|attribute| format!("{}={}", &input[attribute.name], &input[attribute.value]))
            .collect();
        let (end, at) = attributes.finish();
        shown.push(format!("{end:?} {}", &input[at..]));
        shown.join(" | ")
    }

    #[test]
    fn attributes_are_found_as_the_standard_says() {
        for (input, expected) in [
            (">x", "Closed x"),
            ("/>x", "SelfClosed x"),
            (" / >x", "Closed x"),
            (" a=1 b='2' c=\"3\">x", "a=1 | b=2 | c=3 | Closed x"),
            (" a = 1\n\tb\r=\x0c'2'>x", "a=1 | b=2 | Closed x"),
            (" a b c>x", "a= | b= | c= | Closed x"),
            (" a='1'b='2'>x", "a=1 | b=2 | Closed x"),
            ("/a/b/>x", "a= | b= | SelfClosed x"),
            (" a=x/>x", "a=x/ | Closed x"),
            (" a=x />x", "a=x | SelfClosed x"),
            (" a=>x", "a= | Closed x"),
            (" =a=b>x", "=a=b | Closed x"),
            (" a\"b=c\"d>x", "a\"b=c\"d | Closed x"),
            (" a='>'>x", "a=> | Closed x"),
            (" a<b=c>x", "a<b=c | Closed x"),
            (" a=1 a=2>x", "a=1 | a=2 | Closed x"),
        ] {
            assert_eq!(show(input), expected, "{input:?}");
        }
    }

    #[test]
    fn a_tag_without_end_gives_no_unfinished_attribute() {
        for input in ["", " ", " a", " a ", " a=", " a= ", " a=b", " a='b", " a=\"b>", " /"] {
            let mut attributes = Attributes::new(input.as_bytes(), 0);
            assert_eq!(attributes.next(), None, "{input:?}");
            assert_eq!(attributes.finish(), (End::Missing, input.len()), "{input:?}");
        }
    }
}
