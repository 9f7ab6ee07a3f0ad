//! Which hosts does a pattern mean, and what holds for one of them?
//!
//! A pattern is a host's name in which `*` stands for any characters, also none: `*.example.org`
//! means all subdomains, `example.*` the name in any domain. What is said for several patterns is
//! asked from the last to the first, so that the later and narrower word wins.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A pattern of host names, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostGlob(Box<str>);

impl HostGlob {
    pub fn matches(&self, host: &str) -> bool {
        matches_glob(&self.0, host)
    }
}

/// Whether a text is that of a pattern, in which `*` stands for any characters.
pub fn matches_glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    // Each at its first place: whatever follows has the most room then.
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl FromStr for HostGlob {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.trim().to_ascii_lowercase();
        let is_name = |char: char| char.is_ascii_alphanumeric() || "-_.:[]*".contains(char);
        if lower.is_empty() || !lower.chars().all(is_name) || lower.contains("//") {
            return Err(format!(
                "`{text}` is not a host: write a name without scheme and path, such as example.org \
                 or *.example.org (other alphabets in their xn-- form)"
            ));
        }
        Ok(Self(lower.into()))
    }
}

impl fmt::Display for HostGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for HostGlob {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<HostGlob> for String {
    fn from(glob: HostGlob) -> Self {
        glob.0.into()
    }
}

impl schemars::JsonSchema for HostGlob {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "host".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "host" })
    }
}

/// What holds for some hosts only.
#[derive(Debug, Clone, PartialEq)]
pub struct ByHost<T>(Vec<(Vec<HostGlob>, T)>);

impl<T> Default for ByHost<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ByHost<T> {
    /// What the last that means this host, and has something to say, says.
    pub fn find<'a, U>(&'a self, host: &str, say: impl Fn(&'a T) -> Option<U>) -> Option<U> {
        self.all(host).find_map(say)
    }

    /// All that is said for this host, the last word first.
    pub fn all(&self, host: &str) -> impl Iterator<Item = &T> {
        let means = move |globs: &[HostGlob]| globs.iter().any(|glob| glob.matches(host));
        self.0.iter().rev().filter(move |(globs, _)| means(globs)).map(|(_, said)| said)
    }

    /// The same for every entry made into something else, unless one cannot be.
    pub fn try_map<U, E>(&self, make: impl Fn(&T) -> Result<U, E>) -> Result<ByHost<U>, E> {
        let made = self.0.iter().map(|(globs, said)| Ok((globs.clone(), make(said)?)));
        made.collect()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> FromIterator<(Vec<HostGlob>, T)> for ByHost<T> {
    fn from_iter<I: IntoIterator<Item = (Vec<HostGlob>, T)>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(text: &str) -> HostGlob {
        text.parse().unwrap()
    }

    #[test]
    fn a_star_stands_for_anything_and_nothing() {
        for (pattern, host, means) in [
            ("example.org", "example.org", true),
            ("example.org", "www.example.org", false),
            ("*.example.org", "www.example.org", true),
            ("*.example.org", "a.b.example.org", true),
            ("*.example.org", "example.org", false),
            ("*example.org", "example.org", true),
            ("*example.org", "badexample.org", true),
            ("example.*", "example.co.uk", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("*", "anything.test", true),
            ("EXAMPLE.org", "example.org", true),
            ("10.0.*", "10.0.0.1", true),
        ] {
            assert_eq!(glob(pattern).matches(host), means, "{pattern} {host}");
        }
    }

    #[test]
    fn what_is_no_host_is_told() {
        for bad in ["", " ", "http://a.test", "a.test/x", "bücher.test", "a b"] {
            assert!(bad.parse::<HostGlob>().unwrap_err().contains("*.example.org"), "{bad}");
        }
    }

    #[test]
    fn the_last_word_wins_and_silence_is_none() {
        let said = |text: &str, value: Option<u8>| (vec![glob(text)], value);
        let all: ByHost<Option<u8>> =
            [said("*.a.test", Some(1)), said("x.a.test", Some(2)), said("x.a.test", None)]
                .into_iter()
                .collect();
        assert_eq!(all.find("x.a.test", |value| *value), Some(2));
        assert_eq!(all.find("y.a.test", |value| *value), Some(1));
        assert_eq!(all.find("a.test", |value| *value), None);
        assert_eq!(all.all("x.a.test").count(), 3);
    }
}
