//! In which form are paths and patterns compared?
//!
//! Two spellings of one path must meet, so rule and URL are brought to one form (RFC 9309, 2.2.2):
//! an escaped unreserved octet is decoded (`%62` → `b`), other escapes get upper-case digits,
//! and every octet that may not stand plain in a URI (non-ASCII, controls, space, `"<>\^{|}`
//! and the backquote) is escaped. Reserved octets stay as they are written, but for `*` and `$`,
//! which patterns can name only by an escape: `%24` is `$`, and a literal star has a byte of its
//! own, so that a `*` in a pattern is always the wildcard.
//!
//! A stray `%` is kept, and `/*%` matches every path with an escape in it, as in other parsers.
//!
//! Most paths and patterns are in this form already; then nothing is copied.
//!
//! Not here: whether a pattern matches (`matching`).

use std::borrow::Cow;

use memchr::{memchr, memchr3};

use crate::matching::ByteSet;

/// A literal star in comparison form. No path has this byte otherwise: controls are escaped.
const LITERAL_STAR: u8 = 0x01;

/// The path and query of `url` in comparison form, starting with `/`.
///
/// `url` is a whole URL, or a path with query when it starts with `/`. Two slashes are a path
/// as well (`//private` is one, and reading it as an authority would lose the rule for it).
pub(crate) fn path_form(url: &str) -> Cow<'_, [u8]> {
    let path = path_and_query(url.as_bytes());
    if path.first() == Some(&b'/') && is_in_form(path) {
        return Cow::Borrowed(path);
    }
    let mut form = Vec::with_capacity(path.len() + 16);
    if path.first() != Some(&b'/') {
        form.push(b'/');
    }
    let mut rest = path;
    while !rest.is_empty() {
        rest = &rest[push_octet(&mut form, rest)..];
    }
    Cow::Owned(form)
}

/// From the first `/`, `?` or `;` after the authority up to the fragment; may lack its `/`.
fn path_and_query(url: &[u8]) -> &[u8] {
    let url = &url[..memchr(b'#', url).unwrap_or(url.len())];
    if url.first() == Some(&b'/') {
        return url;
    }
    let start_of_path = |from: usize| memchr3(b'/', b'?', b';', &url[from..]).map(|i| from + i);
    let start = match start_of_path(0) {
        Some(at) if at > 0 && url[at - 1] == b':' && url[at..].starts_with(b"//") => {
            start_of_path(at + 2)
        }
        // No scheme then: `a.test/b?u=http://c`.
        start => start,
    };
    start.map_or(&[], |start| &url[start..])
}

/// The path of one rule, ready to be matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern<'a> {
    /// Comparison form: single `*`s, none at the end, no `$` anchor.
    pub(crate) bytes: Cow<'a, [u8]>,
    /// The rule's weight: octets of the pattern with its `*`s and `$`, in the RFC's form: one for
    /// what stands plain, three for what is or must be escaped.
    pub(crate) octets: u16,
    /// Must the match end where the path ends?
    pub(crate) anchored: bool,
    /// Is there a `*` in `bytes`?
    pub(crate) wild: bool,
    /// The bytes that it needs.
    pub(crate) set: ByteSet,
}

impl<'a> Pattern<'a> {
    /// Reads a rule's value; `None` for one that can match no path (empty, or not starting with
    /// `/` or, by erratum 7995, `*`).
    pub(crate) fn read(raw: &'a [u8]) -> Option<Pattern<'a>> {
        if !matches!(raw.first(), Some(b'/' | b'*')) {
            return None;
        }
        let (body, anchored) = match raw.strip_suffix(b"$") {
            Some(body) => (body, true),
            None => (raw, false),
        };
        let (mut bytes, octets, Look { stars, set }) = match look(body) {
            Some(look) => (Cow::Borrowed(body), body.len(), look),
            None => {
                let (form, octets) = pattern_form(body);
                let stars = memchr::memchr_iter(b'*', &form).count();
                let set = ByteSet::of(&form);
                (Cow::Owned(form), octets, Look { stars, set })
            }
        };
        // `/a*` and `/a*$` match what `/a` matches.
        let open_end = bytes.last() == Some(&b'*');
        if open_end {
            match &mut bytes {
                Cow::Borrowed(bytes) => *bytes = &bytes[..bytes.len() - 1],
                Cow::Owned(bytes) => bytes.truncate(bytes.len() - 1),
            }
        }
        Some(Pattern {
            wild: stars > usize::from(open_end),
            set,
            bytes,
            octets: u16::try_from(octets + usize::from(anchored)).unwrap_or(u16::MAX),
            anchored: anchored && !open_end,
        })
    }

    /// The pattern with the query in its plain spelling, if that is another one; see
    /// [`plain_query`].
    pub(crate) fn with_plain_query(&self) -> Option<Pattern<'static>> {
        if !self.set.has(b'%') {
            return None;
        }
        let bytes = plain_query(&self.bytes)?;
        let Pattern { octets, anchored, wild, .. } = *self;
        let set = ByteSet::of(&bytes);
        Some(Pattern { bytes: Cow::Owned(bytes), octets, anchored, wild, set })
    }
}

/// A path or pattern in comparison form with its query spelt plainly; none if it is already. In a
/// query `:`, `/`, `?` and `@` part nothing, so that `?u=https://a`, `?u=https%3A%2F%2Fa` and all
/// between are equal (2.2.2, second row of its table).
///
/// Both spellings of a path are judged, as it is and plain: a `*` may have skipped the `?` of the
/// path, and then a pattern like `/*https%3A` means the one that is written.
pub(crate) fn plain_query(form: &[u8]) -> Option<Vec<u8>> {
    let query = memchr(b'?', form)? + 1;
    let plain = |rest: &[u8]| escape_value(rest).filter(|value| b":/?@".contains(value));
    let escapes = |&at: &usize| plain(&form[query + at..]).is_some();
    memchr::memchr_iter(b'%', &form[query..]).find(escapes)?;
    let mut out = form[..query].to_vec();
    let mut rest = &form[query..];
    while let Some((&octet, after)) = rest.split_first() {
        match plain(rest) {
            Some(value) => {
                out.push(value);
                rest = &rest[3..];
            }
            None => {
                out.push(octet);
                rest = after;
            }
        }
    }
    Some(out)
}

/// What one look over a pattern tells.
struct Look {
    stars: usize,
    set: ByteSet,
}

/// Looks over a pattern; nothing if it is not in form. One pass for all there is to know: hostile
/// files have fifty thousand of them.
fn look(body: &[u8]) -> Option<Look> {
    let mut look = Look { stars: 0, set: ByteSet::of(&[]) };
    let mut before = 0;
    let mut at = 0;
    while let Some(&byte) = body.get(at) {
        match KINDS[usize::from(byte)] {
            Kind::Plain => look.set.add(byte),
            Kind::Star if before == b'*' => return None,
            Kind::Star => look.stars += 1,
            Kind::Escaped => return None,
            Kind::Percent => {
                look.set.add(byte);
                if let Some(value) = escape_value(&body[at..]) {
                    if !is_escape_in_form(&body[at..], value) {
                        return None;
                    }
                    look.set.add(body[at + 1]);
                    look.set.add(body[at + 2]);
                    at += 2;
                }
            }
        }
        before = byte;
        at += 1;
    }
    Some(look)
}

fn pattern_form(body: &[u8]) -> (Vec<u8>, usize) {
    let mut form = Vec::with_capacity(body.len() + 16);
    let mut octets = 0;
    let mut rest = body;
    while let Some(&byte) = rest.first() {
        if byte == b'*' {
            if form.last() != Some(&b'*') {
                form.push(b'*');
            }
            octets += 1;
            rest = &rest[1..];
        } else {
            let before = form.len();
            let read = push_octet(&mut form, rest);
            // An escape weighs three also when its form is one byte (`%2A`), if it has to be one.
            let is_needed = escape_value(rest).is_some_and(|value| !is_unreserved(value));
            octets += if is_needed { 3 } else { form.len() - before };
            rest = &rest[read..];
        }
    }
    (form, octets)
}

/// Appends the form of the octet that `rest` starts with; returns how many bytes it was.
fn push_octet(form: &mut Vec<u8>, rest: &[u8]) -> usize {
    if let Some(value) = escape_value(rest) {
        match value {
            b'*' => form.push(LITERAL_STAR),
            b'$' => form.push(b'$'),
            _ if is_unreserved(value) => form.push(value),
            _ => push_escape(form, value),
        }
        return 3;
    }
    match KINDS[usize::from(rest[0])] {
        Kind::Plain | Kind::Percent => form.push(rest[0]),
        Kind::Star => form.push(LITERAL_STAR),
        Kind::Escaped => push_escape(form, rest[0]),
    }
    1
}

fn push_escape(form: &mut Vec<u8>, octet: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    form.extend_from_slice(&[
        b'%',
        DIGITS[usize::from(octet >> 4)],
        DIGITS[usize::from(octet & 15)],
    ]);
}

fn is_in_form(bytes: &[u8]) -> bool {
    let mut at = 0;
    while at < bytes.len() {
        match KINDS[usize::from(bytes[at])] {
            Kind::Plain => at += 1,
            Kind::Escaped | Kind::Star => return false,
            Kind::Percent => match escape_value(&bytes[at..]) {
                None => at += 1,
                Some(value) if is_escape_in_form(&bytes[at..], value) => at += 3,
                Some(_) => return false,
            },
        }
    }
    true
}

/// Whether the escape of `value` at the start of `rest` stays as it is.
fn is_escape_in_form(rest: &[u8], value: u8) -> bool {
    let is_decoded = is_unreserved(value) || matches!(value, b'*' | b'$');
    !is_decoded && !rest[1..3].iter().any(u8::is_ascii_lowercase)
}

/// The octet that an escape at the start of `rest` stands for; a stray `%` is no escape.
fn escape_value(rest: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = *rest else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Reserved and unreserved octets but `*`: may stand as they are.
    Plain,
    Percent,
    Star,
    Escaped,
}

static KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Escaped; 256];
    let mut byte = 0u8;
    while byte < 128 {
        if is_unreserved(byte) || is_plain_reserved(byte) {
            kinds[byte as usize] = Kind::Plain;
        }
        byte += 1;
    }
    kinds[b'%' as usize] = Kind::Percent;
    kinds[b'*' as usize] = Kind::Star;
    kinds
};

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// RFC 3986 `reserved` without `*`, which has a meaning in patterns, and without `#`, which never
/// gets here: it starts a comment in the file and the fragment in a URL.
const fn is_plain_reserved(byte: u8) -> bool {
    matches!(
        byte,
        b':' | b'/'
            | b'?'
            | b'['
            | b']'
            | b'@'
            | b'!'
            | b'$'
            | b'&'
            | b'\''
            | b'('
            | b')'
            | b'+'
            | b','
            | b';'
            | b'='
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(url: &str) -> String {
        String::from_utf8(path_form(url).into_owned()).unwrap()
    }

    #[test]
    fn the_path_starts_after_the_authority_and_ends_before_the_fragment() {
        for (url, expected) in [
            ("", "/"),
            ("http://a.test", "/"),
            ("http://a.test/", "/"),
            ("http://a.test/a", "/a"),
            ("http://a.test/a/b?c=http://d.e/", "/a/b?c=http://d.e/"),
            ("http://a.test/a;p=1?q#f", "/a;p=1?q"),
            ("http://a.test?q", "/?q"),
            ("http://a.test;p", "/;p"),
            ("http://a.test#f/x", "/"),
            ("http://u:p@a.test:8080/x", "/x"),
            ("a.test/x", "/x"),
            ("a.test", "/"),
            ("a/b?u=http://c/d", "/b?u=http://c/d"),
            ("/a?b=http://c/#f", "/a?b=http://c/"),
            ("//private/x", "//private/x"),
            ("http://a.test//private/x", "//private/x"),
        ] {
            assert_eq!(path(url), expected, "{url}");
        }
    }

    #[test]
    fn escapes_meet_in_one_form() {
        for (url, expected) in [
            ("/%62%61%7A", "/baz"),
            ("/%7euser", "/~user"),
            ("/a%2fb", "/a%2Fb"),
            ("/ツ", "/%E3%83%84"),
            ("/%e3%83%84", "/%E3%83%84"),
            ("/a b\"<>\\^`{|}", "/a%20b%22%3C%3E%5C%5E%60%7B%7C%7D"),
            ("/a*b$c", "/a\u{1}b$c"),
            ("/a%2Ab%24c", "/a\u{1}b$c"),
            ("/a\u{1}", "/a%01"),
            ("/100%", "/100%"),
            ("/%zz%4", "/%zz%4"),
            ("/[x]!'(),;=&+:@", "/[x]!'(),;=&+:@"),
        ] {
            assert_eq!(path(url), expected, "{url}");
        }
    }

    #[test]
    fn a_path_in_form_is_not_copied() {
        let url = "https://a.test/caf%C3%A9/x?a=1&b=%2F";
        assert!(matches!(path_form(url), Cow::Borrowed(_)));
    }

    fn pattern(raw: &str) -> String {
        let Some(p) = Pattern::read(raw.as_bytes()) else { return "none".to_owned() };
        let bytes = String::from_utf8_lossy(&p.bytes).into_owned();
        let marks = (if p.anchored { " anchored" } else { "" }, if p.wild { " wild" } else { "" });
        format!("{bytes} {}{}{}", p.octets, marks.0, marks.1)
    }

    #[test]
    fn a_pattern_loses_what_does_not_matter_but_keeps_its_weight() {
        for (raw, expected) in [
            ("/", "/ 1"),
            ("/a*b", "/a*b 4 wild"),
            ("*", " 1"),
            ("/a***", "/a 5"),
            ("/a**b", "/a*b 5 wild"),
            ("/a*$", "/a 4"),
            ("/a$", "/a 3 anchored"),
            ("/a$b", "/a$b 4"),
            ("/a$$", "/a$ 4 anchored"),
            ("/%24$", "/$ 5 anchored"),
            ("/a%24", "/a$ 5"),
            ("/%2A", "/\u{1} 4"),
            ("/ツ", "/%E3%83%84 10"),
            ("/%62%61%7A", "/baz 4"),
            ("", "none"),
            ("$", "none"),
            ("private", "none"),
        ] {
            assert_eq!(pattern(raw), expected, "{raw}");
        }
    }

    #[test]
    fn a_query_has_one_plain_spelling() {
        let plain =
            |form: &str| plain_query(form.as_bytes()).map(|b| String::from_utf8(b).unwrap());
        for form in ["/a/b", "/a?b=c", "/a/?u=s://x", "/a%3A%2F?b=%20%", "/a%3Fu=%3A"] {
            assert_eq!(plain(form), None, "{form}");
        }
        for form in ["/a?u=s%3A%2F%2Fx%40%3F", "/a?u=s:%2F/x%40?", "/a?u=s%3A/%2Fx@%3F"] {
            assert_eq!(plain(form).as_deref(), Some("/a?u=s://x@?"), "{form}");
        }
    }
}
