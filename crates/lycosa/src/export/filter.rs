//! Which captures are wanted?
//!
//! What a record's header tells is asked first, before anything is unpacked; status and type next; the
//! language last, because a page must be read for it.

use regex::RegexSet;
use types::{CrawlUrl, Timestamp};
use warc::WarcDate;

use crate::exit::Fail;

/// All of these must agree.
#[derive(Debug, Default)]
pub struct Filter {
    pub hosts: Vec<HostPattern>,
    pub statuses: Vec<StatusRange>,
    pub types: Vec<TypePattern>,
    pub languages: Vec<String>,
    pub after: Option<Timestamp>,
    pub before: Option<Timestamp>,
    pub include: Option<RegexSet>,
    pub exclude: Option<RegexSet>,
}

impl Filter {
    /// By what every record and every index line tells.
    pub fn takes(&self, url: &CrawlUrl, at: Timestamp) -> bool {
        let hosts = self.hosts.is_empty() || self.hosts.iter().any(|host| host.takes(url.host()));
        hosts
            && self.after.is_none_or(|after| at >= after)
            && self.before.is_none_or(|before| at < before)
            && self.include.as_ref().is_none_or(|set| set.is_match(url.as_str()))
            && !self.exclude.as_ref().is_some_and(|set| set.is_match(url.as_str()))
    }

    /// Without a wish, `usual` decides.
    pub fn takes_status(&self, status: u16, usual: impl Fn(u16) -> bool) -> bool {
        match self.statuses.as_slice() {
            [] => usual(status),
            ranges => ranges.iter().any(|range| range.takes(status)),
        }
    }

    /// `media_type` in lower case, without parameters.
    pub fn takes_type(&self, media_type: Option<&str>) -> bool {
        let media_type = media_type.unwrap_or_default();
        self.types.is_empty() || self.types.iter().any(|pattern| pattern.takes(media_type))
    }

    /// `language` as BCP 47; `en` takes `en-GB` as well.
    pub fn takes_language(&self, language: Option<&str>) -> bool {
        let Some(language) = language else { return self.languages.is_empty() };
        let is = |wanted: &String| {
            let head = language.get(..wanted.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(wanted))
                && matches!(language.as_bytes().get(wanted.len()), None | Some(b'-'))
        };
        self.languages.is_empty() || self.languages.iter().any(is)
    }

    /// Whether it wants everything.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
            && self.statuses.is_empty()
            && self.types.is_empty()
            && self.languages.is_empty()
            && self.after.is_none()
            && self.before.is_none()
            && self.include.is_none()
            && self.exclude.is_none()
    }
}

/// `a.test`, or `*.a.test` for it and all below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    host: String,
    below: bool,
}

impl std::str::FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.trim().to_lowercase();
        let (host, below) = match lower.strip_prefix("*.") {
            Some(host) => (host, true),
            None => (lower.as_str(), false),
        };
        // The canonical form of the name, as URLs have it.
        let canonical = CrawlUrl::parse(&format!("http://{host}/"));
        match canonical {
            Ok(url) if !host.contains(['/', '*', '@', '?', '#']) => {
                Ok(Self { host: url.host().to_owned(), below })
            }
            _ => Err(format!("`{text}` is no host; write `example.org`, or `*.example.org`")),
        }
    }
}

impl HostPattern {
    fn takes(&self, host: &str) -> bool {
        let before = host.strip_suffix(&self.host);
        before.is_some_and(|rest| rest.is_empty() || self.below && rest.ends_with('.'))
    }
}

/// `404`, `2xx`, `300-399`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusRange {
    from: u16,
    to: u16,
}

impl std::str::FromStr for StatusRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hint = || format!("`{text}` is no status; write `200`, `4xx` or `300-399`");
        let number = |text: &str| {
            let plain = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| text.parse().ok()).flatten().ok_or_else(hint)
        };
        if let Some(class) = text.to_ascii_lowercase().strip_suffix("xx") {
            let class: u16 = class.parse().map_err(|_| hint())?;
            let good = (1..=9).contains(&class);
            return good
                .then_some(Self { from: class * 100, to: class * 100 + 99 })
                .ok_or_else(hint);
        }
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let (from, to) = (number(from)?, number(to)?);
        (from <= to).then_some(Self { from, to }).ok_or_else(hint)
    }
}

impl StatusRange {
    fn takes(self, status: u16) -> bool {
        (self.from..=self.to).contains(&status)
    }
}

/// `text/html`, `text/*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypePattern(String);

impl std::str::FromStr for TypePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.trim().to_ascii_lowercase();
        match lower.split_once('/') {
            Some((group, name)) if !group.is_empty() && !name.is_empty() => Ok(Self(lower)),
            _ => Err(format!("`{text}` is no media type; write `text/html`, or `image/*`")),
        }
    }
}

impl TypePattern {
    fn takes(&self, media_type: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(group) => media_type.starts_with(group),
            None => media_type == self.0,
        }
    }
}

/// A day or a moment.
pub fn moment(text: &str) -> Result<Timestamp, String> {
    let parsed = WarcDate::parse(text).and_then(|date| u64::try_from(date.unix_seconds()).ok());
    parsed.map(Timestamp::from_secs).ok_or_else(|| {
        format!("`{text}` is no date; write `2026-11-18`, or `2026-11-18T20:30:00Z`")
    })
}

/// Expressions that are searched for in URLs.
pub fn patterns(flag: &str, patterns: &[String]) -> Result<Option<RegexSet>, Fail> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let set = RegexSet::new(patterns);
    set.map(Some).map_err(|error| Fail::usage(format!("{flag}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_statuses_types_and_languages_are_taken_as_they_are_written() {
        let host = |pattern: &str, host| pattern.parse::<HostPattern>().unwrap().takes(host);
        assert!(host("A.test", "a.test") && !host("a.test", "www.a.test"));
        assert!(host("*.a.test", "a.test") && host("*.a.test", "x.y.a.test"));
        assert!(!host("*.a.test", "ba.test"));
        for bad in ["", "http://a.test/", "a*.test", "a/b"] {
            assert!(bad.parse::<HostPattern>().is_err(), "{bad}");
        }
        let status = |range: &str, status| range.parse::<StatusRange>().unwrap().takes(status);
        assert!(status("404", 404) && status("2xx", 299) && status("300-399", 304));
        assert!(!status("4XX", 500));
        for bad in ["", "x", "20", "xx", "2000", "500-400", "-1", "0xx"] {
            assert!(bad.parse::<StatusRange>().is_err(), "{bad}");
        }
        let media = |pattern: &str, media| pattern.parse::<TypePattern>().unwrap().takes(media);
        assert!(media("Text/HTML", "text/html") && media("text/*", "text/plain"));
        assert!(!media("text/*", "") && "html".parse::<TypePattern>().is_err());
        let filter = Filter { languages: vec!["en".to_owned()], ..Filter::default() };
        assert!(filter.takes_language(Some("en-GB")) && filter.takes_language(Some("EN")));
        assert!(!filter.takes_language(Some("enm")) && !filter.takes_language(None));
    }

    #[test]
    fn the_days_are_those_of_the_calendar_and_the_end_is_not_in_it() {
        let url = CrawlUrl::parse("http://a.test/x").unwrap();
        let day = moment("2026-11-18").unwrap();
        let filter = Filter { after: Some(day), before: Some(day), ..Filter::default() };
        assert!(!filter.takes(&url, day));
        let filter = Filter { after: Some(day), ..Filter::default() };
        assert!(filter.takes(&url, day) && !filter.is_empty());
        assert!(moment("yesterday").is_err());
        let include = patterns("--include", &["/x$".to_owned()]).unwrap();
        assert!(Filter { include, ..Filter::default() }.takes(&url, day));
        let exclude = patterns("--exclude", &["a.test".to_owned()]).unwrap();
        assert!(!Filter { exclude, ..Filter::default() }.takes(&url, day));
        assert!(patterns("--include", &["(".to_owned()]).is_err());
    }
}
