//! Whom do we visit, and who answers for him?
//!
//! Three keys, never mixed up: the [`HostKey`] (name without scheme and port) is the unit of
//! politeness and of back queues; the [`Origin`] (scheme, host, port) is whose robots.txt counts;
//! the [`Site`] (registrable domain) has the budget and decides the shard.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// A host name or address literal as canonical URLs write it: lower case, no port, no final dot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostKey(Arc<str>);

impl HostKey {
    /// `host` must come from a canonical URL; [`crate::CrawlUrl::host_key`] is the usual way.
    pub fn new(host: &str) -> Self {
        Self(Arc::from(host))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address, if this host is an address literal.
    pub fn address(&self) -> Option<IpAddr> {
        address_literal(&self.0)
    }

    /// `www.example.org` → `org.example.www`, so that a domain's hosts are neighbours in a key.
    /// Addresses stay as they are.
    pub fn reversed(&self) -> String {
        let mut key = String::with_capacity(self.0.len());
        reverse_into(&self.0, &mut key);
        key
    }

    /// The inverse of [`HostKey::reversed`].
    pub fn from_reversed(key: &str) -> Self {
        let mut host = String::with_capacity(key.len());
        reverse_into(key, &mut host);
        Self(Arc::from(host.as_str()))
    }

    pub fn site(&self) -> Site {
        Site::of(&self.0)
    }
}

/// Appends the labels of `host` in reverse order; an address literal unchanged.
pub fn reverse_into(host: &str, key: &mut String) {
    if address_literal(host).is_some() {
        key.push_str(host);
        return;
    }
    for (n, label) in host.rsplit('.').enumerate() {
        if n > 0 {
            key.push('.');
        }
        key.push_str(label);
    }
}

fn address_literal(host: &str) -> Option<IpAddr> {
    // Only a literal can start with a digit or a bracket and parse; the check keeps names cheap.
    match host.as_bytes().first()? {
        b'[' => host.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6),
        b'0'..=b'9' => host.parse().ok().map(IpAddr::V4),
        _ => None,
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl std::borrow::Borrow<str> for HostKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// A registrable domain by the public suffix list (ICANN and private sections); a host that has
/// none (`localhost`, an address, a public suffix itself) is its own site.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Site(Arc<str>);

impl Site {
    pub fn of(host: &str) -> Self {
        Self(Arc::from(site_of(host)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Which of `shards` owns this site. Part of the state's layout: it may never change.
    pub fn shard(&self, shards: u16) -> ShardId {
        shard_of(&self.0, shards)
    }
}

/// The registrable domain as a part of `host`, without an allocation.
pub fn site_of(host: &str) -> &str {
    if address_literal(host).is_some() {
        return host;
    }
    psl::domain_str(host).unwrap_or(host)
}

/// Which shard owns `site` (see [`Site::shard`]).
pub fn shard_of(site: &str, shards: u16) -> ShardId {
    let n = xxh3_64(site.as_bytes()) % u64::from(shards.max(1));
    ShardId(u16::try_from(n).expect("a remainder of a u16"))
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// The number of a shard.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct ShardId(pub u16);

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The two schemes we speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Whose robots.txt: scheme, host and port together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Origin {
    pub scheme: Scheme,
    pub host: HostKey,
    pub port: u16,
}

impl Origin {
    /// The text of this origin's robots.txt URL, in canonical form.
    pub fn robots_url(&self) -> String {
        format!("{self}/robots.txt")
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.host)?;
        if self.port != self.scheme.default_port() {
            write!(f, ":{}", self.port)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reversed_host_comes_back() {
        for host in ["example.org", "www.example.co.uk", "localhost", "127.0.0.1", "[::1]", "1a.b"]
        {
            let key = HostKey::new(host);
            assert_eq!(HostKey::from_reversed(&key.reversed()), key, "{host}");
        }
        assert_eq!(HostKey::new("www.example.org").reversed(), "org.example.www");
        assert_eq!(HostKey::new("10.0.0.1").reversed(), "10.0.0.1");
    }

    #[test]
    fn the_site_is_the_registrable_domain_and_an_address_is_itself() {
        let check = |host: &str, want: &str| assert_eq!(site_of(host), want);
        check("www.example.org", "example.org");
        check("a.b.example.co.uk", "example.co.uk");
        check("me.github.io", "me.github.io"); // the private section counts
        check("co.uk", "co.uk");
        check("localhost", "localhost");
        check("127.0.0.1", "127.0.0.1");
        check("[2001:db8::1]", "[2001:db8::1]");
        check("www.a.test", "a.test");
    }

    #[test]
    fn hosts_of_one_site_share_a_shard() {
        for shards in [1, 2, 16, 256] {
            let a = HostKey::new("www.example.org").site().shard(shards);
            let b = HostKey::new("blog.example.org").site().shard(shards);
            assert_eq!(a, b);
            assert!(a.0 < shards);
        }
        // Pinned: the layout of states on disk depends on it.
        assert_eq!(shard_of("example.org", 16), ShardId(xxh3_64(b"example.org") as u16 % 16));
    }

    #[test]
    fn an_origin_names_its_port_only_when_it_is_unusual() {
        let origin = |scheme, port| Origin { scheme, host: HostKey::new("a.test"), port };
        assert_eq!(origin(Scheme::Http, 80).robots_url(), "http://a.test/robots.txt");
        assert_eq!(origin(Scheme::Https, 8443).robots_url(), "https://a.test:8443/robots.txt");
    }
}
