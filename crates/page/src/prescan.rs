//! Which encoding do the first bytes of a page declare?
//!
//! The HTML standard's "prescan a byte stream to determine its encoding". It reads bytes, as the
//! text cannot be decoded before it is done.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};
use memchr::{memchr, memmem};

use crate::attributes::{Attributes, End, is_space};
use crate::charset::CharsetSource;

/// The encoding that a `<meta>` or the XML declaration within `bytes` names.
pub(crate) fn declared(bytes: &[u8], is_xml: bool) -> Option<(&'static Encoding, CharsetSource)> {
    if bytes.starts_with(b"<\0?\0x\0") {
        return Some((UTF_16LE, CharsetSource::Meta));
    }
    if bytes.starts_with(b"\0<\0?\0x") {
        return Some((UTF_16BE, CharsetSource::Meta));
    }
    // In XML a `<meta>` is an element like any other.
    let meta = if is_xml { None } else { meta(bytes) };
    meta.map(|encoding| (encoding, CharsetSource::Meta))
        .or_else(|| Some((xml_declaration(bytes)?, CharsetSource::XmlDeclaration)))
}

/// The charset parameter of a `Content-Type`: "extracting a character encoding from a meta
/// element", which also takes what servers send.
pub(crate) fn charset_in(value: &[u8]) -> Option<&'static Encoding> {
    const WORD: &[u8] = b"charset";
    let mut rest = value;
    loop {
        let at = rest.windows(WORD.len()).position(|word| word.eq_ignore_ascii_case(WORD))?;
        rest = rest[at + WORD.len()..].trim_ascii_start();
        if let Some(value) = rest.strip_prefix(b"=") {
            return Encoding::for_label(unquoted(value.trim_ascii_start())?);
        }
    }
}

fn unquoted(value: &[u8]) -> Option<&[u8]> {
    match value.first()? {
        quote @ (b'"' | b'\'') => {
            let value = &value[1..];
            Some(&value[..memchr(*quote, value)?])
        }
        _ => {
            let end = value.iter().position(|&byte| byte == b';' || is_space(byte));
            Some(&value[..end.unwrap_or(value.len())])
        }
    }
}

fn meta(bytes: &[u8]) -> Option<&'static Encoding> {
    let mut at = 0;
    loop {
        at += memchr(b'<', &bytes[at..])?;
        let rest = &bytes[at..];
        if rest.starts_with(b"<!--") {
            // The dashes may be those that open the comment.
            at += 2 + memmem::find(&rest[2..], b"-->")? + 3;
        } else if let Some(name_bytes) = tag_name(rest) {
            let behind = at + name_bytes;
            if rest[..name_bytes].eq_ignore_ascii_case(b"<meta")
                && matches!(rest.get(name_bytes), Some(&byte) if byte == b'/' || is_space(byte))
                && let Some(encoding) = encoding_of_meta(bytes, behind)
            {
                return Some(in_a_meta(encoding));
            }
            let (end, behind) = Attributes::new(bytes, behind).finish();
            if end == End::Missing {
                return None;
            }
            at = behind;
        } else if matches!(rest.get(1), Some(b'!' | b'/' | b'?')) {
            at += memchr(b'>', rest)? + 1;
        } else {
            at += 1;
        }
    }
}

/// The length of `<name` or `</name`, if this is one.
fn tag_name(rest: &[u8]) -> Option<usize> {
    let start = if rest.get(1) == Some(&b'/') { 2 } else { 1 };
    rest.get(start).filter(|byte| byte.is_ascii_alphabetic())?;
    let length =
        rest[start..].iter().position(|&byte| matches!(byte, b'>' | b'/') || is_space(byte));
    Some(length.map_or(rest.len(), |length| start + length))
}

fn encoding_of_meta(bytes: &[u8], at: usize) -> Option<&'static Encoding> {
    let (mut pragma, mut charset, mut content) = (None, None, None);
    let mut attributes = Attributes::new(bytes, at);
    for attribute in attributes.by_ref() {
        let (name, value) = (&bytes[attribute.name], &bytes[attribute.value]);
        if name.eq_ignore_ascii_case(b"http-equiv") {
            pragma.get_or_insert(value.eq_ignore_ascii_case(b"content-type"));
        } else if name.eq_ignore_ascii_case(b"charset") {
            charset.get_or_insert(value);
        } else if name.eq_ignore_ascii_case(b"content") {
            content.get_or_insert(value);
        }
    }
    if attributes.finish().0 == End::Missing {
        return None;
    }
    match charset {
        Some(label) => Encoding::for_label(label),
        None if pragma == Some(true) => charset_in(content?),
        None => None,
    }
}

/// A page in UTF-16 could not have been read so far, whatever it says.
fn in_a_meta(encoding: &'static Encoding) -> &'static Encoding {
    if encoding == UTF_16LE || encoding == UTF_16BE {
        UTF_8
    } else if encoding == X_USER_DEFINED {
        WINDOWS_1252
    } else {
        encoding
    }
}

fn xml_declaration(bytes: &[u8]) -> Option<&'static Encoding> {
    let declaration = bytes.strip_prefix(b"<?xml")?;
    let declaration = &declaration[..memchr(b'>', declaration)?];
    let at = memmem::find(declaration, b"encoding")?;
    let value = declaration[at + b"encoding".len()..].trim_ascii_start().strip_prefix(b"=")?;
    let value = value.trim_ascii_start();
    let quote = *value.first().filter(|byte| matches!(byte, b'"' | b'\''))?;
    let label = &value[1..][..memchr(quote, &value[1..])?];
    Encoding::for_label(label).map(in_a_meta)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(html: &str) -> Option<&'static str> {
        declared(html.as_bytes(), false).map(|(encoding, _)| encoding.name())
    }

    #[test]
    fn a_meta_is_found_in_every_spelling() {
        for html in [
            "<meta charset=koi8-r>",
            "<META CHARSET='KOI8-R'>",
            "<meta/charset=\" koi8-r \"/>",
            "<meta name=x charset=koi8-r>",
            "<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>",
            "<meta content='text/html;charset = koi8-r' http-equiv=CONTENT-TYPE>",
            "<meta content='charset charset=\"koi8-r\"' http-equiv=content-type>",
            "<html><head><title>x > y</title><meta charset=koi8-r>",
            "<!-- <meta charset=utf-8> --><meta charset=koi8-r>",
            "<!--><meta charset=koi8-r>",
            "<!doctype html><?pi?></x><meta charset=koi8-r>",
            "<p title='<meta charset=utf-8>'><meta charset=koi8-r>",
            "</p title='<meta charset=utf-8>'><meta charset=koi8-r>",
            "<meta charset=koi8-r charset=utf-8>",
            "<meta charset=nonsense><meta charset=koi8-r>",
            "a < b <<meta charset=koi8-r>",
            "<?xml version='1.0' encoding='utf-8'?><meta charset=koi8-r>",
            "<?xml version=\"1.0\" encoding = \"koi8-r\"?><x>",
        ] {
            assert_eq!(name(html), Some("KOI8-R"), "{html}");
        }
    }

    #[test]
    fn what_only_looks_like_one_does_not_count() {
        for html in [
            "",
            "<",
            "<meta",
            "<meta charset=koi8-r",
            "<meta charset='koi8-r>",
            "<metacharset=koi8-r>",
            "<meta content='text/html; charset=koi8-r'>",
            "<meta http-equiv=refresh content='charset=koi8-r'>",
            "<meta http-equiv=content-type content='charset=\"koi8-r'>",
            "<meta charset=nonsense>",
            "<!-- <meta charset=koi8-r>",
            "<p title='<meta charset=koi8-r>",
            " <?xml version='1.0' encoding='koi8-r'?>",
            "<?xml version='1.0' encoding=koi8-r?>",
        ] {
            assert_eq!(name(html), None, "{html}");
        }
    }

    #[test]
    fn impossible_claims_are_corrected() {
        assert_eq!(name("<meta charset=utf-16>"), Some("UTF-8"));
        assert_eq!(name("<meta charset=utf-16be>"), Some("UTF-8"));
        assert_eq!(name("<meta charset=x-user-defined>"), Some("windows-1252"));
    }
}
