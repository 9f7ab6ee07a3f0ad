//! Which URLs are ours to visit, and how far does a crawl go?
//!
//! A verdict here follows from settings and seeds alone, so it is never stored: it is counted,
//! and `explain` computes it again. A seed is always ours, because somebody asked for it; so is
//! the target of a seed's redirect, which joins the seeds.
//!
//! Not here: what robots.txt says (`engine::stages::gate`).

use std::collections::BTreeSet;

use regex::RegexSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use types::{ByteSize, CrawlUrl, HumanDuration, Refusal, UrlRef};

/// What is crawled, and when it is enough.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CrawlSettings {
    /// How far links are followed: `page` (the seeds alone), `prefix` (same host, path up to the
    /// last `/`), `host` (same name, any scheme or port), `domain` (same registered domain),
    /// `any`, or `custom` (what `crawl.include` and `crawl.exclude` leave).
    pub scope: ScopeKind,
    /// Regular expressions on the whole URL; if there are any, one must match. They narrow every scope.
    pub include: Vec<String>,
    /// Regular expressions on the whole URL; none may match.
    pub exclude: Vec<String>,
    /// Links from the nearest seed.
    pub max_depth: u16,
    /// Pages over the crawl's life, or since the last `lycosa recrawl` began; none means no limit.
    pub max_pages: Option<u64>,
    /// The same in bytes of WARC.
    pub max_bytes: Option<ByteSize>,
    /// Time of one run; none means no limit.
    pub max_time: Option<HumanDuration>,
    /// Longer URLs are not taken: hardly a server makes them on purpose.
    pub url_bytes_max: u32,
    /// Requests in flight, all hosts together; a visit counts until it is committed.
    pub concurrency: u32,
    /// The crawl ends when nothing is in flight and nothing is due within this time. What waits
    /// longer stays in the directory as deferred.
    pub patience: HumanDuration,
}

impl Default for CrawlSettings {
    fn default() -> Self {
        Self {
            scope: ScopeKind::Host,
            include: Vec::new(),
            exclude: Vec::new(),
            max_depth: 15,
            max_pages: None,
            max_bytes: None,
            max_time: None,
            url_bytes_max: 2048,
            concurrency: 1000,
            patience: HumanDuration::from_secs(300),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScopeKind {
    Page,
    Prefix,
    Host,
    Domain,
    Any,
    Custom,
}

impl ScopeKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Prefix => "prefix",
            Self::Host => "host",
            Self::Domain => "domain",
            Self::Any => "any",
            Self::Custom => "custom",
        }
    }
}

/// The rules with the seeds they are measured by.
#[derive(Debug, Clone)]
pub struct Scope {
    kind: ScopeKind,
    include: RegexSet,
    exclude: RegexSet,
    max_depth: u16,
    url_bytes_max: usize,
    seeds: BTreeSet<String>,
    hosts: BTreeSet<String>,
    domains: BTreeSet<String>,
    /// Host and path prefix, such as `example.org/docs/`.
    prefixes: BTreeSet<String>,
}

impl Scope {
    /// Fails with a sentence when an expression is not one.
    pub fn new(settings: &CrawlSettings) -> Result<Self, String> {
        let compile = |key: &str, list: &[String]| {
            RegexSet::new(list).map_err(|error| format!("{key}: {error}"))
        };
        // Without an include everything is taken that is not excluded. With neither list it would
        // be every link there is: whoever wants that can say so.
        let unlisted = settings.include.is_empty() && settings.exclude.is_empty();
        if settings.scope == ScopeKind::Custom && unlisted {
            return Err("crawl.scope = custom needs crawl.include or crawl.exclude; to follow \
                        every link, write scope any"
                .to_owned());
        }
        Ok(Self {
            kind: settings.scope,
            include: compile("crawl.include", &settings.include)?,
            exclude: compile("crawl.exclude", &settings.exclude)?,
            max_depth: settings.max_depth,
            url_bytes_max: settings.url_bytes_max as usize,
            seeds: BTreeSet::new(),
            hosts: BTreeSet::new(),
            domains: BTreeSet::new(),
            prefixes: BTreeSet::new(),
        })
    }

    /// `url` is a seed from now on, and what belongs to it is in scope.
    pub fn add_seed(&mut self, url: &CrawlUrl) {
        self.seeds.insert(url.as_str().to_owned());
        // Only what this scope is measured by: there may be a million seeds.
        match self.kind {
            ScopeKind::Host => drop(self.hosts.insert(url.host().to_owned())),
            ScopeKind::Domain => drop(self.domains.insert(url.site().as_str().to_owned())),
            ScopeKind::Prefix => drop(self.prefixes.insert(prefix_of(url.into()))),
            ScopeKind::Page | ScopeKind::Any | ScopeKind::Custom => {}
        }
    }

    pub fn is_seed(&self, url: &str) -> bool {
        self.seeds.contains(url)
    }

    /// May this link be followed? The refusal names the setting that decided.
    pub fn judge(&self, url: UrlRef<'_>, depth: u16) -> Result<(), Refusal> {
        let text = url.as_str();
        // The common verdict first: most links are short, near and on the host they stand on.
        if !self.inside(url) {
            if self.seeds.contains(text) {
                return Ok(());
            }
            return Err(setting("crawl.scope", &self.kind.as_str(), self.outside(url)));
        }
        if text.len() > self.url_bytes_max {
            let found = format!("{} bytes", text.len());
            return Err(setting("crawl.url_bytes_max", &self.url_bytes_max, found));
        }
        if depth > self.max_depth {
            return Err(setting("crawl.max_depth", &self.max_depth, format!("depth {depth}")));
        }
        if (self.include.is_empty() || self.include.is_match(text))
            && (self.exclude.is_empty() || !self.exclude.is_match(text))
        {
            return Ok(());
        }
        if self.seeds.contains(text) {
            return Ok(());
        }
        match self.exclude.matches(text).iter().next() {
            Some(n) => Err(setting("crawl.exclude", &self.exclude.patterns()[n], "matches")),
            None => {
                let patterns = self.include.patterns().join(", ");
                Err(setting("crawl.include", &patterns, "none matches"))
            }
        }
    }

    fn inside(&self, url: UrlRef<'_>) -> bool {
        match self.kind {
            ScopeKind::Page => self.seeds.contains(url.as_str()),
            ScopeKind::Host => self.hosts.contains(url.host()),
            ScopeKind::Domain => self.domains.contains(url.site()),
            ScopeKind::Any | ScopeKind::Custom => true,
            ScopeKind::Prefix => {
                // Every path prefix of the URL, shortest first; a path has few slashes.
                let own = prefix_of(url);
                let host_len = url.host().len();
                own.match_indices('/')
                    .filter(|(at, _)| *at >= host_len)
                    .any(|(at, _)| self.prefixes.contains(&own[..=at]))
            }
        }
    }

    fn outside(&self, url: UrlRef<'_>) -> String {
        match self.kind {
            ScopeKind::Domain => format!("domain {} is not a seed's", url.site()),
            ScopeKind::Prefix => format!("{} is below no seed's path", prefix_of(url)),
            ScopeKind::Page => "it is not a seed".to_owned(),
            _ => format!("host {} is not a seed's", url.host()),
        }
    }
}

fn prefix_of(url: UrlRef<'_>) -> String {
    let path = url.path();
    let dir = &path[..path.rfind('/').map_or(0, |at| at + 1)];
    format!("{}{dir}", url.host())
}

fn setting(key: &str, value: &dyn std::fmt::Display, found: impl Into<String>) -> Refusal {
    Refusal::Setting {
        key: key.into(),
        value: value.to_string().into(),
        found: found.into().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: ScopeKind, edit: impl Fn(&mut CrawlSettings), cases: &[(&str, bool)]) {
        let mut settings = CrawlSettings { scope: kind, ..CrawlSettings::default() };
        edit(&mut settings);
        let mut scope = Scope::new(&settings).unwrap();
        scope.add_seed(&CrawlUrl::parse("http://www.a.test/docs/start.html").unwrap());
        for (url, inside) in cases {
            let verdict = scope.judge(UrlRef::from_canonical(url).unwrap(), 1);
            assert_eq!(verdict.is_ok(), *inside, "{kind:?} {url}: {verdict:?}");
        }
    }

    #[test]
    fn each_scope_ends_where_it_says() {
        let seed = "http://www.a.test/docs/start.html";
        let sibling = "http://www.a.test/docs/x/y";
        let same_host = "https://www.a.test:8443/other";
        let same_domain = "http://blog.a.test/";
        let elsewhere = "http://b.test/";
        let all = |a, b, c, d| {
            [(seed, true), (sibling, a), (same_host, b), (same_domain, c), (elsewhere, d)]
        };
        check(ScopeKind::Page, |_| (), &all(false, false, false, false));
        check(ScopeKind::Prefix, |_| (), &all(true, false, false, false));
        check(ScopeKind::Host, |_| (), &all(true, true, false, false));
        check(ScopeKind::Domain, |_| (), &all(true, true, true, false));
        check(ScopeKind::Any, |_| (), &all(true, true, true, true));
        let custom = |s: &mut CrawlSettings| s.include = vec!["b[.]test".into()];
        check(ScopeKind::Custom, custom, &all(false, false, false, true));
        // Nothing is included by name: everything that is not excluded is taken.
        let custom = |s: &mut CrawlSettings| s.exclude = vec!["blog".into()];
        check(ScopeKind::Custom, custom, &all(true, true, false, true));
    }

    #[test]
    fn include_and_exclude_narrow_every_scope_but_not_the_seeds() {
        let edit = |s: &mut CrawlSettings| {
            s.include = vec!["/docs/".into()];
            s.exclude = vec!["[.]pdf$".into(), "start".into()];
        };
        check(
            ScopeKind::Host,
            edit,
            &[
                ("http://www.a.test/docs/x", true),
                ("http://www.a.test/x", false),
                ("http://www.a.test/docs/x.pdf", false),
                ("http://www.a.test/docs/start.html", true),
                ("http://www.a.test/docs/start2.html", false),
            ],
        );
    }

    #[test]
    fn a_refusal_names_the_setting_and_its_value() {
        let mut scope = Scope::new(&CrawlSettings::default()).unwrap();
        scope.add_seed(&CrawlUrl::parse("http://a.test/").unwrap());
        let why = |url: &str, depth| {
            scope.judge(UrlRef::from_canonical(url).unwrap(), depth).unwrap_err().to_string()
        };
        assert_eq!(why("http://b.test/", 1), "crawl.scope = host: host b.test is not a seed's");
        assert_eq!(why("http://a.test/x", 16), "crawl.max_depth = 15: depth 16");
        let long = format!("http://a.test/{}", "x".repeat(3_000));
        assert_eq!(why(&long, 1), "crawl.url_bytes_max = 2048: 3014 bytes");
    }

    #[test]
    fn a_bad_expression_is_a_sentence() {
        let settings = CrawlSettings { exclude: vec!["(".into()], ..CrawlSettings::default() };
        assert!(Scope::new(&settings).unwrap_err().starts_with("crawl.exclude: "));
        let settings = CrawlSettings { scope: ScopeKind::Custom, ..CrawlSettings::default() };
        assert!(Scope::new(&settings).unwrap_err().contains("crawl.include or crawl.exclude"));
    }
}
