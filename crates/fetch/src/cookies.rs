//! Which cookies does a host get back?
//!
//! The basics of RFC 6265: name and value, `Path`, `Secure`, `Expires` and `Max-Age`. A cookie goes
//! back to the very host that set it, whatever its `Domain` says: that is stricter than browsers are,
//! and nothing can be set for, or read by, a neighbour under a public suffix.
//!
//! Always: so many hosts, cookies a host and bytes a cookie at most; what is over that is dropped. In
//! memory only: a session ends with the process.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use types::{CrawlUrl, HostKey, Scheme, Timestamp};

const HOSTS_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");
/// As RFC 6265 asks of browsers, at least.
const COOKIES_MAX: usize = 50;
const COOKIE_BYTES_MAX: usize = 4096;

/// The cookies of hosts.
#[derive(Debug)]
pub(crate) struct CookieJar(Mutex<LruCache<HostKey, Vec<Cookie>>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cookie {
    name: Box<str>,
    value: Box<str>,
    path: Box<str>,
    secure: bool,
    /// None: until the end of the session.
    until: Option<Timestamp>,
}

impl Default for CookieJar {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(HOSTS_MAX)))
    }
}

impl CookieJar {
    /// The value of the `Cookie` field for this URL; none if there are no cookies for it.
    pub(crate) fn header(&self, url: &CrawlUrl, now: Timestamp) -> Option<String> {
        let mut jar = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cookies = jar.get_mut(url.host())?;
        cookies.retain(|cookie| cookie.until.is_none_or(|until| now < until));
        let secure = url.scheme() == Scheme::Https;
        let path = url.path();
        let fits = |cookie: &&Cookie| (secure || !cookie.secure) && within(path, &cookie.path);
        let mut chosen: Vec<&Cookie> = cookies.iter().filter(fits).collect();
        // Longer paths first, as the RFC has it; otherwise in the order in which they came.
        chosen.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let pairs: Vec<String> =
            chosen.iter().map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }

    /// Takes what an answer sets.
    pub(crate) fn take<'a>(
        &self,
        url: &CrawlUrl,
        lines: impl Iterator<Item = &'a [u8]>,
        now: Timestamp,
    ) {
        for line in lines.filter(|line| line.len() <= COOKIE_BYTES_MAX) {
            let Some(cookie) = std::str::from_utf8(line).ok().and_then(|text| read(text, url, now))
            else {
                continue;
            };
            let mut jar = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let cookies = jar.get_or_insert_mut(url.host_key(), Vec::new);
            let same = |known: &Cookie| known.name == cookie.name && known.path == cookie.path;
            let gone = cookie.until.is_some_and(|until| until <= now);
            match cookies.iter().position(same) {
                Some(at) if gone => drop(cookies.remove(at)),
                Some(at) => cookies[at] = cookie,
                None if gone => {}
                None => {
                    if cookies.len() >= COOKIES_MAX {
                        cookies.remove(0);
                    }
                    cookies.push(cookie);
                }
            }
        }
    }
}

/// Whether a request for this path gets the cookies of that one.
fn within(path: &str, cookie: &str) -> bool {
    path.strip_prefix(cookie)
        .is_some_and(|rest| rest.is_empty() || cookie.ends_with('/') || rest.starts_with('/'))
}

fn read(line: &str, url: &CrawlUrl, now: Timestamp) -> Option<Cookie> {
    let mut parts = line.split(';').map(str::trim);
    let (name, value) = parts.next()?.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || line.contains(|char: char| char.is_ascii_control() && char != '\t') {
        return None;
    }
    let folder = url.path().rfind('/').map_or("/", |at| &url.path()[..at.max(1)]);
    let (mut path, mut secure, mut expires, mut max_age) = (folder, false, None, None);
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.trim();
        match key.trim().to_ascii_lowercase().as_str() {
            "path" if value.starts_with('/') => path = value,
            "secure" => secure = true,
            "expires" => expires = Timestamp::from_http_date(value).or(expires),
            "max-age" => max_age = value.parse::<i64>().ok().or(max_age),
            _ => {}
        }
    }
    if secure && url.scheme() != Scheme::Https {
        return None;
    }
    // An age beats a date.
    let until = match max_age {
        Some(seconds) => {
            let seconds = u64::try_from(seconds).unwrap_or(0).min(400 * 86_400);
            Some(now + Duration::from_secs(seconds))
        }
        None => expires,
    };
    Some(Cookie { name: name.into(), value: value.into(), path: path.into(), secure, until })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_794_774_000);

    fn url(text: &str) -> CrawlUrl {
        CrawlUrl::parse(text).unwrap()
    }

    /// What `ask` gets back after `lines` were set by an answer from `from`.
    fn back(from: &str, lines: &[&str], ask: &str) -> Option<String> {
        let jar = CookieJar::default();
        jar.take(&url(from), lines.iter().map(|line| line.as_bytes()), NOW);
        jar.header(&url(ask), NOW)
    }

    #[test]
    fn a_cookie_goes_back_to_the_host_that_set_it_alone() {
        let lines = ["a=1; Domain=a.test; HttpOnly", "b=2; Domain=test"];
        assert_eq!(
            back("http://w.a.test/", &lines, "http://w.a.test/x").as_deref(),
            Some("a=1; b=2")
        );
        for other in ["http://a.test/", "http://x.a.test/", "http://b.test/"] {
            assert_eq!(back("http://w.a.test/", &lines, other), None, "{other}");
        }
    }

    #[test]
    fn path_scheme_and_time_are_kept() {
        let at = |line: &str, ask: &str| back("https://a.test/x/y", &[line], ask).is_some();
        assert!(at("a=1", "https://a.test/x") && at("a=1", "https://a.test/x/z"));
        assert!(!at("a=1", "https://a.test/") && !at("a=1", "https://a.test/xx"));
        assert!(at("a=1; Path=/", "http://a.test/"));
        assert!(!at("a=1; Path=/; Secure", "http://a.test/"));
        assert!(at("a=1; Path=/; Secure", "https://a.test/"));
        assert!(!at("a=1; Path=/; Max-Age=0", "https://a.test/"));
        assert!(!at("a=1; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "https://a.test/"));
        assert!(at(
            "a=1; Path=/; Max-Age=5; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
            "https://a.test/"
        ));
        assert_eq!(back("http://a.test/", &["a=1; Secure"], "https://a.test/"), None);
    }

    #[test]
    fn the_last_value_counts_and_an_old_date_deletes() {
        assert_eq!(
            back("http://a.test/", &["a=1", "a=2"], "http://a.test/").as_deref(),
            Some("a=2")
        );
        assert_eq!(back("http://a.test/", &["a=1", "a=; Max-Age=-1"], "http://a.test/"), None);
        let jar = CookieJar::default();
        jar.take(&url("http://a.test/"), [b"a=1; Max-Age=10".as_slice()].into_iter(), NOW);
        assert!(jar.header(&url("http://a.test/"), NOW + Duration::from_secs(9)).is_some());
        assert!(jar.header(&url("http://a.test/"), NOW + Duration::from_secs(10)).is_none());
    }

    #[test]
    fn a_server_cannot_fill_our_memory_or_forge_a_field() {
        let many: Vec<String> = (0..200).map(|n| format!("c{n}=1")).collect();
        let lines: Vec<&str> = many.iter().map(String::as_str).collect();
        let kept = back("http://a.test/", &lines, "http://a.test/").unwrap();
        assert_eq!((kept.matches('=').count(), kept.contains("c199=")), (COOKIES_MAX, true));
        let long = format!("a={}", "x".repeat(COOKIE_BYTES_MAX));
        for bad in [&*long, "a", "=b", "a=1\u{1}2", "a=b\r\nX: y"] {
            assert_eq!(back("http://a.test/", &[bad], "http://a.test/"), None, "{bad:.20}");
        }
    }
}
