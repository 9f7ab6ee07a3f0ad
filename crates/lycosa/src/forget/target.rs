//! What is to be forgotten: a URL, a host, or all that looks like a pattern?
//!
//! A URL is meant in its canonical form and alone. A host is meant with all its ports and schemes, and not
//! with its subdomains. In a pattern `*` stands for any characters, also none: without a scheme and a slash
//! it is one of hosts (`*.example.org`), otherwise one of URLs (`http://example.org/private/*`).

use types::{Canon, CrawlUrl, HostKey};

/// What is to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Url(CrawlUrl),
    Host(HostKey),
    Hosts(Glob),
    Urls(Glob),
}

/// A text in which `*` stands for any characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(Box<str>);

impl Glob {
    pub fn matches(&self, text: &str) -> bool {
        types::matches_glob(&self.0, text)
    }
}

impl Target {
    /// What somebody has typed. Fails with a sentence that says what to type instead.
    pub fn parse(text: &str, canon: &Canon) -> Result<Self, String> {
        let text = text.trim();
        let is_url = text.contains("://");
        if text.is_empty() || text.chars().all(|char| "*./:".contains(char)) {
            return Err(format!("`{text}` would be everything; remove the directory instead"));
        }
        if text.contains('*') {
            let is_host = !is_url && !text.contains('/');
            let glob = Glob(match is_host {
                true => text.to_ascii_lowercase().into(),
                false => text.into(),
            });
            return match (is_host, is_url) {
                (true, _) => Ok(Self::Hosts(glob)),
                (_, true) => Ok(Self::Urls(glob)),
                _ => Err(format!("`{text}`: a pattern of URLs begins with its scheme: *://{text}")),
            };
        }
        if is_url {
            return canon.parse(text).map(Self::Url).map_err(|error| format!("`{text}`: {error}"));
        }
        if text.contains('/') || text.contains('?') {
            return Err(format!("`{text}`: a URL begins with its scheme: http://{text}"));
        }
        // The same rules as for the host of a URL: other alphabets, dots at the end, addresses.
        let host = canon.parse(&format!("http://{text}/"));
        let host = host.map_err(|error| format!("`{text}` is no host: {error}"))?;
        if host.port() != 80 {
            let name = host.host();
            return Err(format!("`{text}`: a host goes with all its ports; write {name}"));
        }
        Ok(Self::Host(host.host_key()))
    }

    /// A fixed name of its kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Url(_) => "url",
            Self::Host(_) => "host",
            Self::Hosts(_) => "hosts",
            Self::Urls(_) => "urls",
        }
    }

    pub fn takes(&self, url: &CrawlUrl) -> bool {
        match self {
            Self::Url(named) => named == url,
            Self::Urls(glob) => glob.matches(url.as_str()),
            Self::Host(_) | Self::Hosts(_) => self.takes_host(&url.host_key()),
        }
    }

    /// Whether a host goes as a whole.
    pub fn takes_host(&self, host: &HostKey) -> bool {
        match self {
            Self::Host(named) => named == host,
            Self::Hosts(glob) => glob.matches(host.as_str()),
            Self::Url(_) | Self::Urls(_) => false,
        }
    }

    /// Whether a record of an archive goes, by the URI that it names.
    pub fn takes_uri(&self, uri: &str) -> bool {
        if let Some(host) = uri.strip_prefix("dns:") {
            return self.takes_host(&HostKey::new(&host.to_ascii_lowercase()));
        }
        // As it was written by us, and as somebody else may have.
        let forms = [CrawlUrl::from_canonical(uri), CrawlUrl::parse(uri)];
        forms.into_iter().flatten().any(|url| self.takes(&url))
    }

    /// Whether a line names it, as a URL or as a host, wherever that stands in it.
    pub fn is_named_in(&self, line: &str) -> bool {
        let ends = |char: char| char.is_whitespace() || "\"'<>\\`|^{}".contains(char);
        for (at, _) in line.match_indices("://") {
            let before = &line[..at];
            let scheme = ["https", "http"].into_iter().find(|scheme| before.ends_with(scheme));
            let Some(scheme) = scheme else { continue };
            let text = &line[at - scheme.len()..];
            let text = &text[..text.find(ends).unwrap_or(text.len())];
            // A sentence may go on behind it.
            let bare = text.trim_end_matches([',', '.', ';', ':', ')', ']', '!']);
            if self.takes_uri(text) || self.takes_uri(bare) {
                return true;
            }
        }
        let is_name = |char: char| char.is_alphanumeric() || "-._".contains(char);
        matches!(self, Self::Host(_) | Self::Hosts(_))
            && line.split(|char| !is_name(char)).any(|word| {
                let word = word.trim_matches('.');
                !word.is_empty() && self.takes_host(&HostKey::new(&word.to_lowercase()))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        Target::parse(text, &Canon::default()).unwrap()
    }

    fn url(text: &str) -> CrawlUrl {
        CrawlUrl::parse(text).unwrap()
    }

    #[test]
    fn what_was_typed_is_a_url_a_host_or_a_pattern() {
        assert_eq!(target("HTTP://A.test:80/x").kind(), "url");
        assert_eq!(target("A.Test"), target("a.test"));
        assert_eq!(target("10.0.0.1").kind(), "host");
        assert_eq!(target("*.a.test").kind(), "hosts");
        assert_eq!(target("http://a.test/private/*").kind(), "urls");
        let refused = |text: &str| Target::parse(text, &Canon::default()).unwrap_err();
        for text in ["*", "", "*://*", "*.*"] {
            assert!(refused(text).contains("everything"), "{text}");
        }
        assert!(refused("a.test/x").contains("http://a.test/x"));
        assert!(refused("a.test/x*").contains("*://a.test/x*"));
        assert!(refused("a.test:81").contains("write a.test"));
    }

    #[test]
    fn each_kind_takes_its_own_and_no_neighbour() {
        let cases = [
            ("http://a.test/x", "http://a.test/x", "http://a.test/xy"),
            ("a.test", "https://a.test:444/x?y", "http://b.a.test/"),
            ("*.a.test", "http://b.a.test/", "http://a.test/"),
            ("http://a.test/p/*", "http://a.test/p/q/r", "http://a.test/q"),
            ("*://a.test/*.pdf", "https://a.test/x/y.pdf", "https://a.test/x/y.pdf?z"),
        ];
        for (text, taken, left) in cases {
            let target = target(text);
            assert!(target.takes(&url(taken)) && target.takes_uri(taken), "{text} {taken}");
            assert!(!target.takes(&url(left)) && !target.takes_uri(left), "{text} {left}");
        }
        assert!(target("a.test").takes_uri("dns:a.test"));
        assert!(!target("a.test").takes_uri("urn:uuid:1") && !target("a.test").takes_uri("x"));
    }

    #[test]
    fn a_line_that_names_it_is_found_and_one_that_names_a_longer_name_is_not() {
        let host = target("a.test");
        for line in [
            r#"{"host":"a.test","message":"slow"}"#,
            r#"{"message":"cannot look up a.test: no answer"}"#,
            r#"{"url":"http://a.test:81/x"}"#,
            "see (https://A.TEST/).",
        ] {
            assert!(host.is_named_in(line), "{line}");
        }
        for line in
            [r#"{"host":"b.a.test"}"#, "a.test.example", "xa.test", "http://b.test/?u=atest"]
        {
            assert!(!host.is_named_in(line), "{line}");
        }
        let page = target("http://a.test/x");
        assert!(page.is_named_in(r#"redirects to http://a.test/x, which"#));
        assert!(!page.is_named_in(r#"{"url":"http://a.test/x/y"}"#));
    }
}
