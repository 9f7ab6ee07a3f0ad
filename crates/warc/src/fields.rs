//! What are named fields, and why can no value break out of its line?
//!
//! `Name: value` lines, as in HTTP. They head every record, and as `application/warc-fields`
//! they are also the block of warcinfo and metadata records. What we put into a *header* comes
//! from our own code, so a control character there is a mistake and is refused; what we put into
//! a *block* (links, titles) comes from the web, so there it is percent-encoded.
//!
//! Always: one push is one line, whatever the value holds.

use std::borrow::Cow;

use crate::Error;

/// Fields as read: in order, repeats kept, names compared without case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads a block of `application/warc-fields`; lines that are no fields are left out.
    #[must_use]
    pub fn parse(block: &[u8]) -> Self {
        parse(block).0
    }

    /// The first value of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// All values of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// All fields, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// What was not quite right with fields that could still be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Untidy {
    /// Lines that end without a carriage return.
    pub(crate) bare_line_ends: bool,
    /// Lines without a colon, or with a name that is no token.
    pub(crate) not_a_field: bool,
    /// Bytes that are no UTF-8; read with replacement characters.
    pub(crate) not_utf8: bool,
}

/// Reads lines up to the first empty one, or the end.
pub(crate) fn parse(bytes: &[u8]) -> (Fields, Untidy) {
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut untidy = Untidy::default();
    // A line that was no field takes its continuation lines with it.
    let mut last_was_field = false;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let text = match line.strip_suffix(b"\r\n") {
            Some(text) => text,
            None => {
                untidy.bare_line_ends |= line.ends_with(b"\n");
                line.strip_suffix(b"\n").unwrap_or(line)
            }
        };
        if text.is_empty() {
            break;
        }
        let text = String::from_utf8_lossy(text);
        untidy.not_utf8 |= matches!(text, Cow::Owned(_));
        if text.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut().filter(|_| last_was_field) {
                value.push(' ');
                value.push_str(text.trim());
            }
            continue;
        }
        let field = text.split_once(':').map(|(name, value)| (name.trim_end(), value.trim()));
        last_was_field = field.is_some_and(|(name, _)| is_token(name));
        match field {
            Some((name, value)) if last_was_field => fields.push((name.into(), value.into())),
            _ => untidy.not_a_field = true,
        }
    }
    (Fields(fields), untidy)
}

/// Appends a header line, or refuses a value that would not stay on it.
pub(crate) fn push_header(out: &mut Vec<u8>, name: &str, value: &str) -> Result<(), Error> {
    if !is_token(name) || !all(value, |byte| !is_unsafe(byte)) {
        return Err(Error::UnsafeValue { field: name.to_owned() });
    }
    push_line(out, name, value);
    Ok(())
}

/// A block of `application/warc-fields` in the making.
#[derive(Debug, Clone, Default)]
pub struct WarcFields(Vec<u8>);

impl WarcFields {
    /// No fields yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One more line. Control characters in the value are percent-encoded; characters that a
    /// name may not have become `_`.
    pub fn push(&mut self, name: &str, value: &str) -> &mut Self {
        let name = if is_token(name) {
            Cow::Borrowed(name)
        } else {
            let part = |char: char| if is_token_char(char) { char } else { '_' };
            Cow::Owned(std::iter::once('_').chain(name.chars().map(part)).collect::<String>())
        };
        push_line(&mut self.0, &name, &escape(value, |byte| !byte.is_ascii_control()));
        self
    }

    /// The block.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// For the next visit: the memory stays.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// A URI as RFC 3986 wants it: all that is not printable ASCII is percent-encoded, so a line end
/// or a space cannot get through either.
pub(crate) fn escape_uri(uri: &str) -> Cow<'_, str> {
    escape(uri, |byte| byte.is_ascii_graphic())
}

/// `keep` keeps all bytes of a character or none.
fn escape(text: &str, keep: impl Fn(u8) -> bool) -> Cow<'_, str> {
    if all(text, &keep) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        let mut utf8 = [0; 4];
        let bytes = char.encode_utf8(&mut utf8).as_bytes();
        if bytes.iter().all(|byte| keep(*byte)) {
            out.push(char);
            continue;
        }
        for byte in bytes {
            out.push('%');
            out.push(char::from(b"0123456789ABCDEF"[usize::from(byte >> 4)]));
            out.push(char::from(b"0123456789ABCDEF"[usize::from(byte & 15)]));
        }
    }
    Cow::Owned(out)
}

/// Looks at every byte, so that the compiler can look at many at a time.
fn all(text: &str, is: impl Fn(u8) -> bool) -> bool {
    text.bytes().fold(true, |all, byte| all & is(byte))
}

fn push_line(out: &mut Vec<u8>, name: &str, value: &str) {
    for part in [name, ": ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

fn is_unsafe(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t'
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && all(name, |byte| TOKEN[usize::from(byte)])
}

fn is_token_char(char: char) -> bool {
    u8::try_from(char).is_ok_and(|byte| TOKEN[usize::from(byte)])
}

/// The bytes that a name may have.
const TOKEN: [bool; 256] = {
    let mut token = [false; 256];
    let mut byte = b'!';
    while byte <= b'~' {
        token[byte as usize] = true;
        byte += 1;
    }
    let separators = b"()<>@,;:\\\"/[]?={}";
    let mut at = 0;
    while at < separators.len() {
        token[separators[at] as usize] = false;
        at += 1;
    }
    token
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_repeats_are_kept() {
        let fields = Fields::parse(b"Via: a\r\noutlink: x\r\nOUTLINK:  y \r\nempty:\r\n");
        assert_eq!(fields.get("via"), Some("a"));
        assert_eq!(fields.all("outlink").collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(fields.get("empty"), Some(""));
        assert_eq!(fields.get("none"), None);
    }

    #[test]
    fn a_long_value_may_go_on_in_indented_lines() {
        let (fields, untidy) = parse(b"a: one\r\n two\r\n\tthree\r\nb: x\r\n\r\nc: not read\r\n");
        assert_eq!(fields.iter().collect::<Vec<_>>(), [("a", "one two three"), ("b", "x")]);
        assert_eq!(untidy, Untidy::default());
    }

    #[test]
    fn odd_lines_are_noticed_and_passed_over() {
        let (fields, untidy) = parse(b"a: 1\nnonsense\n goes on\nb b: 2\nc: \xff\r\nd: 4");
        assert_eq!(fields.iter().collect::<Vec<_>>(), [("a", "1"), ("c", "\u{fffd}"), ("d", "4")]);
        let all = Untidy { bare_line_ends: true, not_a_field: true, not_utf8: true };
        assert_eq!(untidy, all);
    }

    // StormCrawler once let a server write WARC headers through a URL with line ends in it.
    #[test]
    fn a_header_value_cannot_end_its_line() {
        for value in ["a\r\nWARC-Type: response", "a\nb", "a\rb", "a\0b", "a\x7fb"] {
            let mut out = Vec::new();
            assert!(push_header(&mut out, "WARC-Filename", value).is_err(), "{value:?}");
            assert!(out.is_empty());
        }
        let mut out = Vec::new();
        assert!(push_header(&mut out, "Na\r\nme", "x").is_err());
        assert!(push_header(&mut out, "Name: x", "x").is_err());
        push_header(&mut out, "WARC-Filename", "tab\tand é").unwrap();
        assert_eq!(out, "WARC-Filename: tab\tand é\r\n".as_bytes());
    }

    #[test]
    fn a_block_value_is_escaped_to_one_line() {
        let mut fields = WarcFields::new();
        fields.push("outlink", "http://a.test/\r\nvia: forged").push("ti tle\n", "x\0y");
        assert_eq!(
            fields.as_bytes(),
            b"outlink: http://a.test/%0D%0Avia: forged\r\n_ti_tle_: x%00y\r\n"
        );
        assert_eq!(Fields::parse(fields.as_bytes()).iter().count(), 2);
    }

    #[test]
    fn a_uri_is_escaped_to_printable_ascii() {
        assert_eq!(escape_uri("http://a.test/x?y=%20"), "http://a.test/x?y=%20");
        assert_eq!(escape_uri("http://a.test/é x\r\n"), "http://a.test/%C3%A9%20x%0D%0A");
    }
}
