//! Which links need no parser?
//!
//! Those that no rule of the parser and none of ours for hosts and paths would change: lower-case
//! ASCII host, path and query of unreserved characters, no dot segment. They are most links of
//! most pages.
//!
//! Always: what [`Plain::of`] splits, the parser reads as the same origin, path and query. When in
//! doubt it answers `None`, and the parser decides.

/// A link in the pieces it is joined from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plain<'a> {
    /// Scheme, host and port; `None` for a path from the root of the page's own.
    pub(crate) origin: Option<&'a str>,
    /// From its slash on.
    pub(crate) path: &'a str,
    /// Without its question mark.
    pub(crate) query: Option<&'a str>,
}

impl<'a> Plain<'a> {
    pub(crate) fn of(href: &'a str) -> Option<Self> {
        // Nobody looks at what a fragment holds.
        let href = href.split_once('#').map_or(href, |(before, _)| before);
        let (origin, rest) = if href.starts_with('/') && !href.starts_with("//") {
            (None, href)
        } else {
            let (origin, rest) = href.split_at(origin_len(href)?);
            (Some(origin), rest)
        };
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (rest, None),
        };
        let is_plain = is_plain_path(path) && query.is_none_or(is_plain_query);
        is_plain.then_some(Self { origin, path: if path.is_empty() { "/" } else { path }, query })
    }
}

/// How far scheme, host and port reach, where the parser would write them as they stand.
fn origin_len(href: &str) -> Option<usize> {
    let (scheme, default_port) =
        if href.starts_with("http://") { ("http://", "80") } else { ("https://", "443") };
    let rest = href.strip_prefix(scheme)?;
    let authority = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let port_stays = port.is_none_or(|port| {
        // The parser drops zeros in front; `u16` takes a sign.
        !port.starts_with(['0', '+']) && port.parse::<u16>().is_ok() && port != default_port
    });
    (is_plain_host(host) && port_stays).then_some(scheme.len() + authority.len())
}

/// A last label that begins with a digit may make the whole an IPv4 address; `xn--` is checked.
fn is_plain_host(host: &str) -> bool {
    let mut last = "";
    host.split('.').all(|label| {
        last = label;
        !label.is_empty()
            && !label.starts_with("xn--")
            && label
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    }) && last.starts_with(|first: char| first.is_ascii_lowercase())
}

/// A dot after a slash may begin a dot segment.
fn is_plain_path(path: &str) -> bool {
    let mut before = b'/';
    path.bytes().all(|byte| {
        let after = std::mem::replace(&mut before, byte);
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'/' | b'-' | b'_' | b'~')
            || byte == b'.' && after != b'/'
    })
}

fn is_plain_query(query: &str) -> bool {
    query.bytes().all(|byte| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'=' | b'&' | b'-' | b'_' | b'.' | b'~' | b'+' | b'/' | b':' | b',')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Base, Canon, CanonSettings};

    /// Every mixture of `pieces`, `many` in a row, after each of `heads`: the short way and the
    /// parser must agree, with every rule on and with the default ones. Answers how many went the
    /// short way.
    fn agree(heads: &[&str], pieces: &[&str], many: u32) -> usize {
        let trims = CanonSettings {
            strip_trailing_slash: true,
            strip_index_page: true,
            ..CanonSettings::default()
        };
        let canons = [Canon::default(), Canon::new(&trims)];
        let bases = ["http://a.test/x/y?q", "https://B.test.:8443", "http://[::1]:80/", "data:x"];
        let bases = bases.map(|base| Base::parse(base).unwrap());
        let (mut plain, mut out, mut parsed) = (0, String::new(), String::new());
        for n in 0..pieces.len().pow(many) {
            let mixture: String =
                (0..many).map(|place| pieces[n / pieces.len().pow(place) % pieces.len()]).collect();
            for head in heads {
                let href = format!("{head}{mixture}");
                plain += usize::from(Plain::of(&href).is_some());
                for (base, canon) in bases.iter().zip(canons.iter().cycle()) {
                    let fast = canon.join_into(base, &href, None, &mut out);
                    let slow = base.0.join(&href).map(|url| canon.write(&url, &mut parsed));
                    assert_eq!(fast.is_ok(), matches!(slow, Ok(Ok(()))), "{href} at {base:?}");
                    assert!(
                        fast.is_err() || out == parsed,
                        "{href} at {base:?}: {out}, not {parsed}"
                    );
                }
            }
        }
        plain
    }

    #[test]
    fn paths_and_queries_are_joined_as_the_parser_would() {
        let pieces = [
            "",
            "/",
            ".",
            "..",
            "a",
            "Z9-_~",
            "%2e",
            "%41",
            ";jsessionid=1",
            "\\",
            "\t",
            "?b",
            "é",
            "index.html",
            "//",
            ":",
            "#",
            " ",
            "&",
            "=+,",
            "utm_x=1",
            "\'",
        ];
        let plain = agree(&["/", "/?", "https://c.test"], &pieces, 3);
        assert!(plain > 1_000, "{plain} took the short way");
    }

    #[test]
    fn hosts_and_ports_are_read_as_the_parser_would() {
        let pieces = [
            "",
            ".",
            "..",
            "a",
            "B",
            "9",
            "0x7",
            "-",
            "_",
            "xn--",
            "xn--bcher-kva",
            ":",
            ":80",
            ":443",
            ":0",
            ":8080",
            ":65536",
            ":+1",
            "@",
            "%41",
            "é",
            "[::1]",
            "/",
            "?",
            "#",
            "\\",
            " ",
            "\n",
        ];
        let plain =
            agree(&["http://", "https://", "//", "HTTP://", "http:/", "ftp://"], &pieces, 3);
        assert!(plain > 300, "{plain} took the short way");
    }
}
