//! In which encoding is a page written?
//!
//! Asked in the order of browsers: byte order mark, `Content-Type` header, `<meta>` in the first
//! kilobyte, XML declaration. A page that says nothing is UTF-8 if it is valid UTF-8; if not, a
//! `<meta>` further down counts, and at last the bytes are judged by their frequencies.
//!
//! Always: valid UTF-8, the common case, is checked once and not copied.
//!
//! Not here: how a `<meta>` is found in raw bytes (`prescan`).

use std::borrow::Cow;
use std::str;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};
use memchr::memchr;

use crate::prescan::{self, charset_in};

/// How many bytes a `<meta>` must begin in to count against all else, by the HTML standard.
const PRESCAN_BYTES: usize = 1024;

/// How much is judged by frequencies: at 26 MB/s, 64 KB take 2.5 ms.
const GUESS_BYTES_MAX: usize = 64 * 1024;

/// The encoding of a page, and how we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charset {
    /// Its name in the Encoding standard, such as `UTF-8` or `windows-1252`.
    pub name: &'static str,
    pub source: CharsetSource,
}

/// What told us the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CharsetSource {
    /// The byte order mark.
    Bom,
    /// The `Content-Type` header.
    Header,
    /// A `<meta>` element.
    Meta,
    /// The XML declaration.
    XmlDeclaration,
    /// Nothing, but the bytes are valid UTF-8 (or ASCII).
    ValidUtf8,
    /// The frequencies of the bytes.
    Guess,
}

/// Decodes a page. `tld` is the last label of its host: it tips the balance of a guess. In XML
/// only the declaration at its start speaks for it.
pub(crate) fn decode<'b>(
    body: &'b [u8],
    content_type: Option<&str>,
    tld: Option<&str>,
    is_xml: bool,
) -> (Cow<'b, str>, Charset) {
    let (encoding, source, body) = match declared(body, content_type, is_xml) {
        Some(declared) => declared,
        None => {
            if let Some(text) = valid_utf8(body)
                && !may_be_iso_2022_jp(text)
                // ASCII with half a character at the end is more likely Latin: "caf\xe9".
                && (text.len() == body.len() || !text.is_ascii())
            {
                let source = CharsetSource::ValidUtf8;
                return (Cow::Borrowed(text), Charset { name: UTF_8.name(), source });
            }
            let (encoding, source) = undeclared(body, tld, is_xml);
            (encoding, source, body)
        }
    };
    let text = match valid_utf8(body) {
        Some(text) if encoding == UTF_8 => Cow::Borrowed(text),
        _ => encoding.decode_without_bom_handling(body).0,
    };
    (text, Charset { name: encoding.name(), source })
}

type Declared<'b> = (&'static Encoding, CharsetSource, &'b [u8]);

/// What the page or its server says; the body comes back without its byte order mark.
fn declared<'b>(body: &'b [u8], content_type: Option<&str>, is_xml: bool) -> Option<Declared<'b>> {
    if let Some((encoding, bom_bytes)) = Encoding::for_bom(body) {
        return Some((encoding, CharsetSource::Bom, &body[bom_bytes..]));
    }
    let header = content_type.and_then(|value| charset_in(value.as_bytes()));
    if let Some(encoding) = header {
        return Some((encoding, CharsetSource::Header, body));
    }
    let (encoding, source) = prescan::declared(&body[..body.len().min(PRESCAN_BYTES)], is_xml)?;
    Some((encoding, source, body))
}

/// For a page that says nothing in time and is not valid UTF-8.
fn undeclared(body: &[u8], tld: Option<&str>, is_xml: bool) -> (&'static Encoding, CharsetSource) {
    let start = &body[..body.len().min(GUESS_BYTES_MAX)];
    // The standard restarts the parser when it meets a late `<meta>`; we look ahead.
    if let Some(found) = prescan::declared(start, is_xml) {
        return found;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(start, start.len() == body.len());
    // The detector panics on labels that no host name has.
    let tld = tld.map(str::as_bytes).filter(|label| {
        label.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
    });
    (detector.guess(tld, Utf8Detection::Allow), CharsetSource::Guess)
}

/// The body as text if it is valid. A character that was cut in two at the end does not count:
/// long bodies are cut anywhere.
fn valid_utf8(body: &[u8]) -> Option<&str> {
    match str::from_utf8(body) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => {
            str::from_utf8(&body[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

/// ISO-2022-JP is pure ASCII to the eye, with escapes that nothing else uses.
fn may_be_iso_2022_jp(text: &str) -> bool {
    memchr(0x1b, text.as_bytes()).is_some() && text.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;
    use CharsetSource::*;

    fn check(body: &[u8], content_type: Option<&str>, name: &str, source: CharsetSource) -> String {
        let (text, charset) = decode(body, content_type, None, false);
        assert_eq!((charset.name, charset.source), (name, source), "{:?}", body.escape_ascii());
        text.into_owned()
    }

    #[test]
    fn the_order_of_browsers_is_kept() {
        let html = Some("text/html");
        let koi8 = Some("text/html; charset=koi8-r");
        let meta = b"<meta charset=windows-1251>\xe4";
        assert_eq!(check(b"\xef\xbb\xbf\xc3\xa4", koi8, "UTF-8", Bom), "ä");
        assert_eq!(check(meta, koi8, "KOI8-R", Header), "<meta charset=windows-1251>Д");
        assert_eq!(check(meta, html, "windows-1251", Meta), "<meta charset=windows-1251>д");
        assert_eq!(
            check(b"<?xml version='1.0' encoding='koi8-r'?>\xe4", None, "KOI8-R", XmlDeclaration),
            "<?xml version='1.0' encoding='koi8-r'?>Д"
        );
        assert_eq!(check("ä".as_bytes(), html, "UTF-8", ValidUtf8), "ä");
        assert_eq!(check(b"plain", None, "UTF-8", ValidUtf8), "plain");
        check(b"", None, "UTF-8", ValidUtf8);
    }

    #[test]
    fn the_header_may_be_sloppy() {
        for content_type in [
            "text/html; charset=ISO-8859-2",
            "text/html;charset=\"iso-8859-2\"",
            "text/html; CHARSET = latin2 ; x=y",
            "charset=l2",
        ] {
            assert_eq!(check(b"\xb1", Some(content_type), "ISO-8859-2", Header), "ą");
        }
        check(b"x", Some("text/html; charset="), "UTF-8", ValidUtf8);
        check(b"x", Some("text/html; charset=klingon"), "UTF-8", ValidUtf8);
    }

    #[test]
    fn utf_16_is_decoded() {
        assert_eq!(check(b"\xff\xfeh\0i\0", None, "UTF-16LE", Bom), "hi");
        assert_eq!(check(b"\xfe\xff\0h\0i", None, "UTF-16BE", Bom), "hi");
        assert_eq!(check(b"\0h\0i", Some("text/html; charset=utf-16be"), "UTF-16BE", Header), "hi");
        assert_eq!(check(b"<\0?\0x\0m\0l\0", None, "UTF-16LE", Meta), "<?xml");
    }

    #[test]
    fn the_byte_order_mark_beats_all_other_words() {
        let says_other = Some("text/html; charset=windows-1252");
        for (body, name) in [
            (&b"\xef\xbb\xbf<meta charset=koi8-r>"[..], "UTF-8"),
            (b"\xff\xfe<\0p\0>\0", "UTF-16LE"),
            (b"\xfe\xff\0<\0p\0>", "UTF-16BE"),
        ] {
            let text = check(body, says_other, name, Bom);
            assert!(text.starts_with('<'), "the mark is no part of the text: {text:?}");
        }
        // Of UTF-32 browsers know nothing: its mark begins like that of UTF-16.
        check(b"\xff\xfe\0\0x\0\0\0", None, "UTF-16LE", Bom);
    }

    #[test]
    fn utf_16_without_a_mark_needs_a_word_of_its_server() {
        let bytes = b"<\0p\0>\0h\0i\0";
        assert_eq!(check(bytes, Some("text/html; charset=utf-16"), "UTF-16LE", Header), "<p>hi");
        assert_eq!(check(bytes, Some("text/html; charset=utf-16le"), "UTF-16LE", Header), "<p>hi");
        // Nobody said so, and no browser looks for it: the zeros stay in the text.
        assert!(check(bytes, None, "UTF-8", ValidUtf8).contains('\0'));
    }

    #[test]
    fn old_names_of_latin_1_mean_windows_1252() {
        for label in [
            "iso-8859-1",
            "latin1",
            "us-ascii",
            "ascii",
            "cp1252",
            "x-cp1252",
            "l1",
            "ANSI_X3.4-1968",
        ] {
            let content_type = format!("text/html; charset={label}");
            assert_eq!(check(b"\x93a\x94", Some(&content_type), "windows-1252", Header), "“a”");
            let meta = format!("<meta charset={label}>").into_bytes();
            assert!(
                check(&[&meta[..], b"\x80"].concat(), None, "windows-1252", Meta).ends_with('€')
            );
        }
    }

    #[test]
    fn x_user_defined_is_itself_in_a_header_and_windows_1252_in_a_meta() {
        let header = Some("text/html; charset=x-user-defined");
        assert_eq!(check(b"\x80", header, "x-user-defined", Header), "\u{f780}");
        let text = check(b"<meta charset=x-user-defined>\x80", None, "windows-1252", Meta);
        assert!(text.ends_with('€'));
    }

    #[test]
    fn chinese_and_japanese_are_read_by_every_name_they_have() {
        for (label, name) in
            [("gb2312", "GBK"), ("gbk", "GBK"), ("x-gbk", "GBK"), ("gb18030", "gb18030")]
        {
            let content_type = format!("text/html; charset={label}");
            assert_eq!(check(b"\xd6\xd0\xce\xc4", Some(&content_type), name, Header), "中文");
        }
        // Four bytes: only in the newer one, which the older name stands for too.
        let gb18030 = Some("text/html; charset=gb18030");
        assert_eq!(check(b"\x81\x30\x81\x30", gb18030, "gb18030", Header), "\u{80}");
        let iso = b"\x1b$B$\"$$\x1b(B ok";
        let by_header = Some("text/html; charset=iso-2022-jp");
        assert_eq!(check(iso, by_header, "ISO-2022-JP", Header), "あい ok");
        let meta = [&b"<meta charset=iso-2022-jp>"[..], iso].concat();
        assert!(check(&meta, None, "ISO-2022-JP", Meta).ends_with("あい ok"));
        for label in ["shift_jis", "sjis", "ms_kanji", "windows-31j"] {
            let content_type = format!("text/html; charset={label}");
            assert_eq!(check(b"\x82\xa0", Some(&content_type), "Shift_JIS", Header), "あ");
        }
    }

    #[test]
    fn of_words_that_contradict_each_other_the_first_that_is_known_counts() {
        let body = b"<meta charset=klingon><meta http-equiv=content-type content='text/html; charset=koi8-r'>\
                     <meta charset=utf-8>\xc4";
        assert!(check(body, Some("text/html; charset=klingon"), "KOI8-R", Meta).ends_with('д'));
        let body = b"<?xml version='1.0' encoding='windows-1251'?><meta charset=koi8-r>\xc4";
        assert!(check(body, None, "KOI8-R", Meta).ends_with('д'));
        // In XML the declaration is the only word on it.
        let (text, charset) = decode(body, None, None, true);
        assert_eq!((charset.name, charset.source), ("windows-1251", XmlDeclaration));
        assert!(text.ends_with('Д'));
    }

    #[test]
    fn a_meta_counts_against_valid_utf_8_only_within_the_first_kilobyte() {
        let meta = b"<meta charset=koi8-r>";
        let page = |spaces: usize| [&vec![b' '; spaces][..], meta, "ä".as_bytes()].concat();
        check(&page(1_024 - meta.len()), None, "KOI8-R", Meta);
        check(&page(1_024 - meta.len() + 1), None, "UTF-8", ValidUtf8);
    }

    #[test]
    fn an_encoding_that_browsers_refuse_shows_nothing() {
        for label in ["iso-2022-kr", "iso-2022-cn", "iso-2022-cn-ext", "hz-gb-2312", "replacement"]
        {
            let content_type = format!("text/html; charset={label}");
            let text = check(b"<a href=x>", Some(&content_type), "replacement", Header);
            assert_eq!(text, "\u{fffd}");
        }
    }

    #[test]
    fn broken_utf_8_is_mended() {
        let utf8 = Some("text/html; charset=utf-8");
        assert_eq!(check(b"a\xffb", utf8, "UTF-8", Header), "a\u{fffd}b");
        // Cut within a character: the piece is dropped, and nothing is copied.
        assert_eq!(check(b"a\xe2\x82", utf8, "UTF-8", Header), "a");
        assert!(matches!(decode(b"a\xe2\x82", utf8, None, false).0, Cow::Borrowed("a")));
        assert_eq!(check(b"\xc3\xa4\xe2\x82", None, "UTF-8", ValidUtf8), "ä");
    }

    #[test]
    fn valid_utf_8_is_not_copied() {
        for content_type in [None, Some("text/html"), Some("text/html; charset=utf-8")] {
            let text = decode("<p>ä</p>".as_bytes(), content_type, None, false).0;
            assert!(matches!(text, Cow::Borrowed(_)));
        }
    }

    #[test]
    fn what_nobody_declared_is_guessed() {
        let text = "Съешь же ещё этих мягких французских булок, да выпей чаю. ".repeat(4);
        let (bytes, ..) = encoding_rs::WINDOWS_1251.encode(&text);
        assert_eq!(check(&bytes, None, "windows-1251", Guess), text);
        let text = "いろはにほへと ちりぬるを わかよたれそ つねならむ";
        for encoding in [encoding_rs::SHIFT_JIS, encoding_rs::EUC_JP, encoding_rs::ISO_2022_JP] {
            let (bytes, ..) = encoding.encode(text);
            assert_eq!(check(&bytes, None, encoding.name(), Guess), text);
        }
        assert_eq!(check(b"caf\xe9", None, "windows-1252", Guess), "café");
    }

    #[test]
    fn a_late_meta_beats_a_guess() {
        let mut body = vec![b' '; 5000];
        body.extend(b"<meta charset=koi8-r>\xc4");
        assert!(check(&body, None, "KOI8-R", Meta).ends_with('д'));
        // It does not beat valid UTF-8: there the bytes speak for themselves.
        body.truncate(body.len() - 1);
        body.extend("ä".as_bytes());
        check(&body, None, "UTF-8", ValidUtf8);
    }

    #[test]
    fn odd_host_labels_do_no_harm() {
        for tld in ["ru", "RU", "a.b", "münchen", "", "1]"] {
            decode(b"\xe4\xe5", None, Some(tld), false);
        }
    }
}
