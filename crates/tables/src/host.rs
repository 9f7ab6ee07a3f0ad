//! Which parts does a host's name have?
//!
//! As Common Crawl's table has them: the labels from behind, and what is registered with whom. The
//! *registry* suffix is one of the public suffix list's ICANN section (`co.uk`), the *private* one may be
//! of its private section as well (`github.io`). One difference: a top-level domain that the list does not know,
//! such as `test`, counts as a suffix here, by the list's own last rule; there it is none.

use psl::Type;
use types::HostKey;

/// The columns `url_host_…`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct HostParts<'h> {
    /// The labels from behind; empty for an address.
    pub(crate) labels: Vec<&'h str>,
    pub(crate) registry_suffix: Option<&'h str>,
    pub(crate) registered_domain: Option<&'h str>,
    pub(crate) private_suffix: Option<&'h str>,
    pub(crate) private_domain: Option<&'h str>,
    /// None for an address.
    pub(crate) reversed: Option<String>,
}

impl<'h> HostParts<'h> {
    pub(crate) fn of(host: &'h str) -> Self {
        if HostKey::new(host).address().is_some() {
            return Self::default();
        }
        let labels: Vec<&str> = host.rsplit('.').collect();
        let reversed = Some(labels.join("."));
        let Some((private_suffix, registry_suffix)) = suffixes(host) else {
            return Self { labels, reversed, ..Self::default() };
        };
        Self {
            labels,
            registry_suffix: Some(registry_suffix),
            registered_domain: one_below(host, registry_suffix),
            private_suffix: Some(private_suffix),
            private_domain: one_below(host, private_suffix),
            reversed,
        }
    }
}

/// The longest suffix of the list, and the longest of its ICANN section.
fn suffixes(host: &str) -> Option<(&str, &str)> {
    let private = psl::suffix(host.as_bytes())?;
    let text = tail(host, private.as_bytes().len());
    if private.typ() != Some(Type::Private) {
        return Some((text, text));
    }
    // What stands above a private suffix is looked up by itself.
    let mut above = text;
    while let Some((_, parent)) = above.split_once('.') {
        let suffix = psl::suffix(parent.as_bytes())?;
        let found = tail(parent, suffix.as_bytes().len());
        if suffix.typ() != Some(Type::Private) {
            return Some((text, found));
        }
        above = found;
    }
    Some((text, above))
}

fn tail(text: &str, bytes: usize) -> &str {
    &text[text.len() - bytes..]
}

/// The suffix with one label more, if the host has one.
fn one_below<'h>(host: &'h str, suffix: &str) -> Option<&'h str> {
    let before = host.strip_suffix(suffix)?.strip_suffix('.')?;
    let start = before.rfind('.').map_or(0, |dot| dot + 1);
    Some(&host[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_parts_that_common_crawl_gives_it() {
        let check = |host: &str, want: [Option<&str>; 4]| {
            let parts = HostParts::of(host);
            let found = [
                parts.registry_suffix,
                parts.registered_domain,
                parts.private_suffix,
                parts.private_domain,
            ];
            assert_eq!(found, want, "{host}");
        };
        let same = |suffix, domain| [Some(suffix), Some(domain), Some(suffix), Some(domain)];
        check("www.example.com", same("com", "example.com"));
        check("news.bbc.co.uk", same("co.uk", "bbc.co.uk"));
        check("a.b.test", same("test", "b.test"));
        check("com", [Some("com"), None, Some("com"), None]);
        let bucket = "mypublicbucket.s3.amazonaws.com";
        check(bucket, [Some("com"), Some("amazonaws.com"), Some("s3.amazonaws.com"), Some(bucket)]);
        check(
            "me.github.io",
            [Some("io"), Some("github.io"), Some("github.io"), Some("me.github.io")],
        );
        check("127.0.0.1", [None; 4]);
        check("[::1]", [None; 4]);
    }

    #[test]
    fn labels_come_from_behind_and_an_address_has_none() {
        let parts = HostParts::of("host1.sub.example.com");
        assert_eq!(parts.labels, ["com", "example", "sub", "host1"]);
        assert_eq!(parts.reversed.as_deref(), Some("com.example.sub.host1"));
        assert_eq!(HostParts::of("10.0.0.1"), HostParts::default());
        assert_eq!(HostParts::of("localhost").labels, ["localhost"]);
    }
}
