//! Where does `<meta http-equiv=refresh>` send a reader, and when?
//!
//! The HTML standard's "shared declarative refresh steps". The `Refresh` header is written the
//! same way.

/// Takes the content apart: seconds to wait, and the URL if there is one (without, the page
/// reloads itself). `None` when browsers would ignore it. Character references are decoded already.
pub(crate) fn parse(content: &str) -> Option<(u32, Option<&str>)> {
    let rest = skip_space(content);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 && !rest.starts_with('.') {
        return None;
    }
    // More digits than a u32 holds mean "never" anyway.
    let seconds = if digits == 0 { 0 } else { rest[..digits].parse().unwrap_or(u32::MAX) };
    let rest = rest[digits..].trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    if rest.is_empty() {
        return Some((seconds, None));
    }
    if !rest.starts_with(|c: char| matches!(c, ';' | ',') || c.is_ascii_whitespace()) {
        return None;
    }
    let rest = skip_space(rest);
    let rest = skip_space(rest.strip_prefix([';', ',']).unwrap_or(rest));
    if rest.is_empty() {
        return Some((seconds, None));
    }
    Some((seconds, Some(url(rest))))
}

/// The URL behind an optional `url=`, out of its optional quotes.
fn url(rest: &str) -> &str {
    let unquoted = if rest.starts_with(['u', 'U']) {
        // A `url` that is not followed by `=` is the URL itself, quotes and all.
        let behind = rest.get(..3).filter(|word| word.eq_ignore_ascii_case("url"));
        match behind.and_then(|_| skip_space(&rest[3..]).strip_prefix('=')) {
            Some(behind) => skip_space(behind),
            None => return rest,
        }
    } else {
        rest
    };
    match unquoted.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let inner = &unquoted[1..];
            inner.split_once(quote).map_or(inner, |(url, _)| url)
        }
        _ => unquoted,
    }
}

fn skip_space(text: &str) -> &str {
    text.trim_ascii_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sloppy_spellings_are_understood() {
        for content in [
            "5; url=/a",
            "5;url=/a",
            "5;URL='/a'",
            "5; Url = \"/a\"",
            "5, url=/a",
            "5 url=/a",
            "  5 ;\n url\t=\t/a",
            "5; /a",
            "5;/a",
            "5 /a",
            "5.7; url=/a",
            "5...; url=/a",
            "5; url='/a' and more",
            "5; '/a'",
            "5; url='/a",
        ] {
            assert_eq!(parse(content), Some((5, Some("/a"))), "{content:?}");
        }
    }

    #[test]
    fn odd_ones_are_read_as_browsers_do() {
        assert_eq!(parse("0"), Some((0, None)));
        assert_eq!(parse(" 30 "), Some((30, None)));
        assert_eq!(parse("30;"), Some((30, None)));
        assert_eq!(parse(".5; url=/a"), Some((0, Some("/a"))));
        assert_eq!(parse("5; url"), Some((5, Some("url"))));
        assert_eq!(parse("5; urls=/a"), Some((5, Some("urls=/a"))));
        assert_eq!(parse("5; url="), Some((5, Some(""))));
        assert_eq!(parse("5; u/a"), Some((5, Some("u/a"))));
        assert_eq!(parse("5; ür"), Some((5, Some("ür"))));
        assert_eq!(parse("99999999999; /a"), Some((u32::MAX, Some("/a"))));
        for ignored in ["", "url=/a", "; url=/a", "-1; url=/a", "5x; url=/a", "5'; url=/a"] {
            assert_eq!(parse(ignored), None, "{ignored:?}");
        }
    }
}
