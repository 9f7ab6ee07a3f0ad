//! Which queue does a URL belong to, where nobody says?

/// What a crawl is called that has no name.
pub const DEFAULT_CRAWL: &str = "DEFAULT";
/// Characters of a queue's key at most, counted in UTF-16 as those who wrote the API do.
pub const KEY_MAX: usize = 255;
/// Bytes of a URL at most: it is part of a key of the store.
pub const URL_MAX: usize = 32 << 10;

pub fn crawl(id: &str) -> Box<str> {
    if id.trim().is_empty() { DEFAULT_CRAWL.into() } else { id.into() }
}

/// The key of a URL's queue; none if there is none, or it is too long.
pub fn key<'a>(key: &'a str, url: &'a str) -> Option<&'a str> {
    let key = if key.is_empty() { key_of(url) } else { key };
    let fits = key.len() <= KEY_MAX || key.encode_utf16().count() <= KEY_MAX;
    (!key.is_empty() && fits).then_some(key)
}

/// What stands between `://` and the next `:`, `/`, `?` or `&`.
fn key_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split([':', '/', '?', '&']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crawl_without_a_name_has_one() {
        assert_eq!([&*crawl(""), &*crawl(" \t"), &*crawl(" a")], ["DEFAULT", "DEFAULT", " a"]);
    }

    #[test]
    fn a_key_is_cut_out_of_the_url() {
        for (url, expected) in [
            ("http://www.example.org/a", Some("www.example.org")),
            ("http://h:8080/", Some("h")),
            ("http://gac.icann.org?language_id=9", Some("gac.icann.org")),
            ("http://h&x", Some("h")),
            ("http://h#f", Some("h#f")),
            ("http://User@H/", Some("User@H")),
            ("http://u:p@h/", Some("u")),
            ("http://[::1]/", Some("[")),
            ("h.com/a", Some("h.com")),
            ("mailto:a@b", Some("mailto")),
            ("a?u=http://b/", Some("b")),
            ("/x", None),
            ("http:///x", None),
            ("", None),
        ] {
            assert_eq!(key("", url), expected, "{url}");
        }
    }

    #[test]
    fn a_key_has_255_characters_at_most() {
        for (character, fits) in [("a", 255), ("ö", 255), ("😀", 127)] {
            assert!(key(&character.repeat(fits), "").is_some());
            assert!(key(&character.repeat(fits + 1), "").is_none());
        }
        assert_eq!(key("k", "http://h/"), Some("k"));
    }
}
