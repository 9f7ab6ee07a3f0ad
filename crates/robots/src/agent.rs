//! Which name does a crawler go by in robots.txt?
//!
//! A product token: letters, `_` and `-`, nothing else (RFC 9309, 2.2.1). Files and callers
//! write more than that, so both sides are cut down to it by the rules below, and the two
//! tokens are then compared whole, without case.
//!
//! Not here: which group the token selects (`parse`).

/// The product token in `agent`, which is a token or a whole `User-Agent` header.
///
/// 1. Leading token characters: `foobot`, `foobot/1.2`, `foobot*`, `foobot (+https://…)` are all
///    `foobot`. Digits are no token characters, so `bot42` is `bot`, here and in the file.
/// 2. A header that starts with `Mozilla` names its product in a comment: the first entry after
///    `compatible;`, or without that the entry before the contact (`; +https://…`).
/// 3. Empty when there is no token: only the `*` group can apply then. Bare words (`Foo Bar`) are
///    neither a token nor a header and count as none, as in Google's parser.
pub fn product_token(agent: &str) -> &str {
    let agent = agent.trim();
    let lead = leading_token(agent);
    if lead.eq_ignore_ascii_case("mozilla") {
        return after_compatible(agent).or_else(|| before_contact(agent)).unwrap_or(lead);
    }
    let rest = &agent[lead.len()..];
    let bare_words = rest.starts_with(char::is_whitespace) && !rest.contains(['/', '(']);
    if bare_words { "" } else { lead }
}

/// The token characters that `text` starts with.
pub(crate) fn leading_token(text: &str) -> &str {
    let end = text.bytes().position(|byte| !is_token_byte(byte)).unwrap_or(text.len());
    &text[..end]
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte == b'-'
}

fn after_compatible(header: &str) -> Option<&str> {
    const MARK: &[u8] = b"compatible;";
    let at = header.as_bytes().windows(MARK.len()).position(|w| w.eq_ignore_ascii_case(MARK))?;
    let comment = header[at + MARK.len()..].split(')').next()?;
    comment
        .split(';')
        .map(str::trim)
        .filter(|entry| !entry.contains("://"))
        .map(leading_token)
        .find(|token| !token.is_empty())
}

fn before_contact(header: &str) -> Option<&str> {
    let mut entries = header.split(['(', ')', ';']).map(str::trim);
    let mut before = entries.next()?;
    for entry in entries {
        if entry.starts_with('+') {
            let token = leading_token(before);
            return Some(token).filter(|t| !t.is_empty() && !t.eq_ignore_ascii_case("compatible"));
        }
        before = entry;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_token_is_its_leading_token_characters() {
        for (agent, token) in [
            ("lycosa", "lycosa"),
            ("  lycosa  ", "lycosa"),
            ("lycosa/0.1", "lycosa"),
            ("lycosa*", "lycosa"),
            ("Foo_Bar-Bot", "Foo_Bar-Bot"),
            ("bot42", "bot"),
            ("lycosa (+https://example.org/bot)", "lycosa"),
            ("lycosa/0.1 (+https://example.org/bot)", "lycosa"),
            ("ツbot", ""),
            ("*", ""),
            ("", ""),
            ("360bot", ""),
        ] {
            assert_eq!(product_token(agent), token, "{agent}");
        }
    }

    #[test]
    fn a_browser_like_header_names_its_product_in_a_comment() {
        for (agent, token) in [
            ("Mozilla/5.0 (compatible; lycosa/0.1; +https://example.org/bot)", "lycosa"),
            ("mozilla/5.0 (COMPATIBLE;lycosa)", "lycosa"),
            ("Mozilla/5.0 (compatible; +https://example.org/bot; lycosa/0.1)", "lycosa"),
            ("Mozilla/5.0 (compatible; https://example.org; lycosa)", "lycosa"),
            (
                "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; foobot/2.1; \
                 +http://example.org/bot.html) Chrome/1.2 Safari/537.36",
                "foobot",
            ),
            ("Mozilla/5.0 (X11) Safari/600.2.5 (Applebot/0.1; +http://example.org)", "Applebot"),
            ("Mozilla/5.0 (X11; Linux x86_64; rv:1) Gecko/2010 Firefox/3.6", "Mozilla"),
            ("Mozilla/5.0 (compatible; +https://example.org)", "Mozilla"),
        ] {
            assert_eq!(product_token(agent), token, "{agent}");
        }
    }

    #[test]
    fn bare_words_are_no_product() {
        assert_eq!(product_token("Foo Bar"), "");
    }
}
