//! What is a URL to us?
//!
//! A [`CrawlUrl`] is parsed, canonical and http(s); it cannot exist otherwise. What is requested,
//! stored and compared is this one form. Its text is shared, so that a clone costs nothing.
//!
//! Not here: the rules of the canonical form (`canonical`).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_128;

use crate::canonical::Canon;
use crate::host::{HostKey, Origin, Scheme, Site};

/// A canonical http or https URL.
#[derive(Clone)]
pub struct CrawlUrl {
    text: Arc<str>,
    parts: Parts,
}

/// Where the pieces of a canonical URL's text lie. The text is shorter than 4 GiB by
/// [`crate::canonical::URL_BYTES_MAX`].
#[derive(Clone, Copy)]
pub(crate) struct Parts {
    scheme: Scheme,
    host_start: u32,
    host_end: u32,
    path_start: u32,
    port: u16,
}

impl CrawlUrl {
    /// Parses and canonicalises with the default rules.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        Canon::default().parse(text)
    }

    /// Takes a text that is canonical already, such as one that we stored. Cheap: the pieces are
    /// found, the rules are not applied again.
    pub fn from_canonical(text: &str) -> Result<Self, UrlError> {
        let parts = Parts::find(text)?;
        Ok(Self { text: Arc::from(text), parts })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn scheme(&self) -> Scheme {
        self.parts.scheme
    }

    pub fn host(&self) -> &str {
        &self.text[self.parts.host_start as usize..self.parts.host_end as usize]
    }

    pub fn port(&self) -> u16 {
        self.parts.port
    }

    /// What goes into the request line: `/path?query`.
    pub fn path_and_query(&self) -> &str {
        &self.text[self.parts.path_start as usize..]
    }

    pub fn path(&self) -> &str {
        let rest = self.path_and_query();
        rest.split_once('?').map_or(rest, |(path, _)| path)
    }

    pub fn query(&self) -> Option<&str> {
        self.path_and_query().split_once('?').map(|(_, query)| query)
    }

    /// `host` or `host:port`, as the Host header wants it.
    pub fn authority(&self) -> &str {
        &self.text[self.parts.host_start as usize..self.parts.path_start as usize]
    }

    pub fn host_key(&self) -> HostKey {
        HostKey::new(self.host())
    }

    pub fn site(&self) -> Site {
        Site::of(self.host())
    }

    pub fn origin(&self) -> Origin {
        Origin { scheme: self.scheme(), host: self.host_key(), port: self.port() }
    }

    pub fn id(&self) -> UrlId {
        UrlId::of(&self.text)
    }
}

/// A canonical URL that lies in somebody else's text: a link before it is accepted.
#[derive(Clone, Copy)]
pub struct UrlRef<'a> {
    text: &'a str,
    parts: Parts,
}

impl<'a> UrlRef<'a> {
    /// See [`CrawlUrl::from_canonical`].
    pub fn from_canonical(text: &'a str) -> Result<Self, UrlError> {
        Ok(Self { text, parts: Parts::find(text)? })
    }

    pub fn as_str(&self) -> &'a str {
        self.text
    }

    pub fn host(&self) -> &'a str {
        &self.text[self.parts.host_start as usize..self.parts.host_end as usize]
    }

    pub fn scheme(&self) -> Scheme {
        self.parts.scheme
    }

    pub fn port(&self) -> u16 {
        self.parts.port
    }

    /// What goes into the request line: `/path?query`.
    pub fn path_and_query(&self) -> &'a str {
        &self.text[self.parts.path_start as usize..]
    }

    pub fn path(&self) -> &'a str {
        let rest = self.path_and_query();
        rest.split_once('?').map_or(rest, |(path, _)| path)
    }

    /// The registrable domain (see [`Site`]).
    pub fn site(&self) -> &'a str {
        crate::host::site_of(self.host())
    }
}

impl fmt::Debug for UrlRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.text, f)
    }
}

impl<'a> From<&'a CrawlUrl> for UrlRef<'a> {
    fn from(url: &'a CrawlUrl) -> Self {
        Self { text: &url.text, parts: url.parts }
    }
}

impl Parts {
    pub(crate) fn find(text: &str) -> Result<Self, UrlError> {
        let bad = || UrlError::Syntax(format!("`{text}` is not in canonical form"));
        let (scheme, host_start) = match text.as_bytes() {
            [b'h', b't', b't', b'p', b':', b'/', b'/', ..] => (Scheme::Http, 7),
            [b'h', b't', b't', b'p', b's', b':', b'/', b'/', ..] => (Scheme::Https, 8),
            _ => return Err(bad()),
        };
        let path_start =
            host_start + text[host_start..].find('/').filter(|&at| at > 0).ok_or_else(bad)?;
        let authority = &text[host_start..path_start];
        // The last colon after the bracket of an IPv6 literal, if any, starts the port.
        let after_bracket = authority.rfind(']').map_or(0, |at| at + 1);
        let (host_end, port) = match authority[after_bracket..].find(':') {
            None => (path_start, scheme.default_port()),
            Some(at) => {
                let colon = after_bracket + at;
                let digits = &authority[colon + 1..];
                let port = digits.parse().map_err(|_| bad())?;
                // A port has one form: no sign, no zero before it, and none where it is the usual.
                let is_padded = digits.len() > 1 && digits.starts_with(['0', '+']);
                if is_padded || port == scheme.default_port() {
                    return Err(bad());
                }
                (host_start + colon, port)
            }
        };
        if text.len() > crate::canonical::URL_BYTES_MAX || host_end == host_start {
            return Err(bad());
        }
        Ok(Self {
            scheme,
            host_start: host_start as u32,
            host_end: host_end as u32,
            path_start: path_start as u32,
            port,
        })
    }
}

impl fmt::Display for CrawlUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for CrawlUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

impl PartialEq for CrawlUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for CrawlUrl {}

impl PartialOrd for CrawlUrl {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CrawlUrl {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}

impl std::hash::Hash for CrawlUrl {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Serialize for CrawlUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for CrawlUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::from_canonical(&text).map_err(serde::de::Error::custom)
    }
}

/// 128 bits of hash of a canonical URL. Two URLs with one id are told apart by their text: on a
/// hit the stored URL is compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UrlId(pub u128);

impl UrlId {
    pub fn of(canonical: &str) -> Self {
        Self(xxh3_128(canonical.as_bytes()))
    }

    pub const fn to_be_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    pub const fn from_be_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for UrlId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for UrlId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What relative links are joined to: a document's URL or its `<base href>`.
#[derive(Debug, Clone)]
pub struct Base(pub(crate) url::Url);

impl Base {
    /// Any absolute URL serves as a base, also one we would not crawl.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        url::Url::parse(text)
            .map(Self)
            .map_err(|e| UrlError::Syntax(format!("`{text}` is not an absolute URL: {e}")))
    }

    /// `<base href>` of a document at this URL; itself where the reference is unusable.
    pub fn rebased(self, href: &str) -> Self {
        match self.0.join(href) {
            Ok(joined) if matches!(joined.scheme(), "http" | "https") => Self(joined),
            _ => self,
        }
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// As [`Base::parse`] of its text would make it, without the parsing.
impl From<&url::Url> for Base {
    fn from(url: &url::Url) -> Self {
        Self(url.clone())
    }
}

impl From<&CrawlUrl> for Base {
    fn from(url: &CrawlUrl) -> Self {
        Self(url::Url::parse(url.as_str()).expect("a canonical URL parses"))
    }
}

/// Why a text is not a URL to us.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UrlError {
    #[error("{0}")]
    Syntax(String),
    #[error("scheme `{0}` is not crawled; lycosa speaks http and https")]
    Scheme(String),
    #[error("`{0}` has no host")]
    NoHost(String),
    #[error("a URL of {0} bytes is longer than any server takes")]
    TooLong(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_are_where_they_belong() {
        let url = CrawlUrl::parse("https://www.example.org:8443/a/b?x=1").unwrap();
        assert_eq!(url.host(), "www.example.org");
        assert_eq!(url.port(), 8443);
        assert_eq!(url.authority(), "www.example.org:8443");
        assert_eq!(url.path_and_query(), "/a/b?x=1");
        assert_eq!(url.path(), "/a/b");
        assert_eq!(url.query(), Some("x=1"));
        assert_eq!(url.origin().to_string(), "https://www.example.org:8443");
        assert_eq!(url.site().as_str(), "example.org");

        let url = CrawlUrl::parse("http://[::1]:8080/").unwrap();
        assert_eq!((url.host(), url.port()), ("[::1]", 8080));
        assert_eq!(CrawlUrl::parse("http://[::1]").unwrap().port(), 80);
    }

    #[test]
    fn a_stored_text_is_taken_as_it_is_and_garbage_is_refused() {
        let url = CrawlUrl::from_canonical("http://a.test/").unwrap();
        assert_eq!(url, CrawlUrl::parse("HTTP://A.test").unwrap());
        for garbage in ["", "a", "ftp://a/", "http://", "http:///", "http://a", "http://a:x/"] {
            assert!(CrawlUrl::from_canonical(garbage).is_err(), "{garbage}");
        }
    }

    /// Found by the fuzzer: a record that names its port so became another URL as a row, which
    /// keeps the port as a number.
    #[test]
    fn a_port_has_one_form() {
        for text in ["http://a:0/", "http://a:443/", "https://a:80/", "http://[::1]:8080/"] {
            assert_eq!(CrawlUrl::from_canonical(text), CrawlUrl::parse(text), "{text}");
        }
        for text in
            ["http://a:/", "http://a:080/", "http://a:+81/", "http://a:80/", "https://a:443/"]
        {
            assert!(CrawlUrl::from_canonical(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_id_never_changes() {
        // Pinned: states on disk are keyed by it.
        let id = CrawlUrl::parse("http://example.com/").unwrap().id();
        assert_eq!(id, UrlId(xxh3_128(b"http://example.com/")));
        assert_eq!(UrlId::from_be_bytes(id.to_be_bytes()), id);
    }
}
