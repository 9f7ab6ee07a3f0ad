//! May this crawler fetch this URL?
//!
//! A `Group` is what one robots.txt says to one crawler, made once and asked for every URL of the
//! host; a cache keeps one for each host. Its rules lie in the order of their weight: longest
//! first, allow before disallow at equal length, then as in the file. So the first rule that
//! matches is the one that counts (RFC 9309, 2.2.2), and the search ends there.
//!
//! Always: judging an ordinary URL allocates nothing.
//!
//! Not here: which sections make up the group (`parse`).

use crate::form::{path_form, plain_query};
use crate::matching::{ByteSet, matches};
use crate::parse::small;
use crate::probe::Probe;

/// What one robots.txt says to one crawler. The default one allows everything.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// Each rule's line as written, and its pattern, which mostly is a part of the line.
    arena: Box<str>,
    rules: Box<[Rule]>,
    wild_rules: usize,
    crawl_delay: Option<f64>,
}

/// One rule, as spans of an arena.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) bytes: ByteSet,
    pub(crate) text_start: u32,
    pub(crate) pattern_start: u32,
    pub(crate) line: u32,
    pub(crate) text_len: u16,
    pub(crate) pattern_len: u16,
    pub(crate) octets: u16,
    pub(crate) allow: bool,
    pub(crate) anchored: bool,
    pub(crate) wild: bool,
}

/// The answer for one URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// May the URL be fetched?
    pub allowed: bool,
    /// The rule that decided; none when no rule matches, which allows.
    pub rule: Option<RuleText<'a>>,
}

/// A rule as its author wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleText<'a> {
    /// The line without comment and outer blanks: `Disallow: /p`.
    pub text: &'a str,
    /// Its number in the file, from 1.
    pub line: u32,
}

/// Wildcard rules from which an index of the path is made. Below, it would cost more than the
/// searches it saves on an ordinary URL, and on a long one those take less than a millisecond.
const PROBED_RULES_MIN: usize = 512;

impl Group {
    pub(crate) fn new(source: &str, rules: &[Rule], crawl_delay: Option<f64>) -> Group {
        let mut rules = in_order(rules);
        // Laid out in the order of the search, which then reads memory from front to back.
        let mut arena = String::with_capacity(rules.iter().map(bytes_of).sum());
        let mut last_text = None;
        for rule in &mut rules {
            let text = source_text(source, rule.text_start, rule.text_len);
            let pattern = source_text(source, rule.pattern_start, rule.pattern_len);
            let inside = rule.pattern_start.checked_sub(rule.text_start);
            let inside = inside.filter(|&at| at < u32::from(rule.text_len));

            let text_start = match last_text {
                // Spellings of one rule follow each other and share its text.
                Some((source_start, start)) if source_start == rule.text_start => start,
                _ => append(&mut arena, text),
            };
            last_text = Some((rule.text_start, text_start));
            rule.text_start = text_start;
            rule.pattern_start = match inside {
                Some(at) => text_start + at,
                None => append(&mut arena, pattern),
            };
        }
        Group {
            arena: arena.into_boxed_str(),
            wild_rules: rules.iter().filter(|rule| rule.wild).count(),
            rules: rules.into_boxed_slice(),
            crawl_delay,
        }
    }

    /// May `url` be fetched? Takes a whole URL, or a path with query (anything that starts with
    /// `/`). `/robots.txt` itself is always allowed.
    pub fn judge(&self, url: &str) -> Verdict<'_> {
        let path = path_form(url);
        if *path == *b"/robots.txt" {
            return Verdict { allowed: true, rule: None };
        }
        let written = self.first_match(&path);
        let plain = plain_query(&path).and_then(|path| self.first_match(&path));
        // Of the rules for both spellings the first one in order.
        let first = written.into_iter().chain(plain).min();
        let deciding = first.map(|at| &self.rules[at]);
        Verdict {
            allowed: deciding.is_none_or(|rule| rule.allow),
            rule: deciding.map(|rule| RuleText {
                text: source_text(&self.arena, rule.text_start, rule.text_len),
                line: rule.line,
            }),
        }
    }

    /// The place of the first rule that matches a path in comparison form.
    fn first_match(&self, path: &[u8]) -> Option<usize> {
        let mut probe = if self.wild_rules >= PROBED_RULES_MIN { Probe::of(path) } else { None };
        let bytes = ByteSet::of(path);
        let applies =
            |rule: &Rule| rule.bytes.is_within(bytes) && self.applies(rule, path, probe.as_mut());
        self.rules.iter().position(applies)
    }

    /// The pause that the site asks for, in seconds: the longest one of the combined sections,
    /// at most [`crate::CRAWL_DELAY_MAX`].
    pub fn crawl_delay(&self) -> Option<f64> {
        self.crawl_delay
    }

    /// Does the group forbid nothing at all?
    pub fn allows_everything(&self) -> bool {
        self.rules.iter().all(|rule| rule.allow)
    }

    /// Memory held, in bytes: for the accounts of a cache.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Group>() + self.arena.len() + size_of_val(&*self.rules)
    }

    fn applies(&self, rule: &Rule, path: &[u8], probe: Option<&mut Probe>) -> bool {
        let start = rule.pattern_start as usize;
        let pattern = &self.arena.as_bytes()[start..start + usize::from(rule.pattern_len)];
        if rule.wild {
            matches(pattern, rule.anchored, path, probe)
        } else if rule.anchored {
            path == pattern
        } else {
            path.starts_with(pattern)
        }
    }
}

/// The rules by weight. Their places in the file decide between equals, so a number for each is
/// enough to sort by.
fn in_order(rules: &[Rule]) -> Vec<Rule> {
    let key = |(at, rule): (usize, &Rule)| {
        let weight = u64::from(u16::MAX - rule.octets) << 1 | u64::from(!rule.allow);
        weight << 32 | u64::from(small(at))
    };
    let mut keys: Vec<u64> = rules.iter().enumerate().map(key).collect();
    keys.sort_unstable();
    keys.into_iter().map(|key| rules[(key & u64::from(u32::MAX)) as usize]).collect()
}

/// At most what a rule takes of the arena.
fn bytes_of(rule: &Rule) -> usize {
    let inside = rule.pattern_start.checked_sub(rule.text_start);
    let inside = inside.is_some_and(|at| at < u32::from(rule.text_len));
    usize::from(rule.text_len) + if inside { 0 } else { usize::from(rule.pattern_len) }
}

fn source_text(source: &str, start: u32, len: u16) -> &str {
    &source[start as usize..start as usize + usize::from(len)]
}

fn append(arena: &mut String, text: &str) -> u32 {
    let start = small(arena.len());
    arena.push_str(text);
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Robots;
    use crate::matching::steps;

    fn group(rules: impl IntoIterator<Item = String>) -> Group {
        let rules: Vec<String> = rules.into_iter().collect();
        Robots::parse(format!("User-agent: *\n{}", rules.join("\n")).as_bytes()).group("foobot")
    }

    /// Bytes that the search looks at to judge `path`, which no rule may match.
    fn steps_of(group: &Group, path: &str) -> usize {
        steps::take();
        assert_eq!(group.judge(path).rule, None);
        steps::take()
    }

    #[test]
    fn the_first_rule_in_order_decides() {
        let group =
            group(["Disallow: /a", "Allow: /a", "Allow: /abc", "Disallow: /abd"].map(String::from));
        let order: Vec<&str> = group
            .rules
            .iter()
            .map(|rule| source_text(&group.arena, rule.text_start, rule.text_len))
            .collect();
        assert_eq!(order, ["Allow: /abc", "Disallow: /abd", "Allow: /a", "Disallow: /a"]);
    }

    #[test]
    fn a_rule_takes_half_a_cache_line() {
        assert_eq!(size_of::<Rule>(), 32);
    }

    // Point 36 of the checklist: never pattern × path.
    #[test]
    fn one_rule_costs_at_most_pattern_and_path() {
        let path = format!("/b{}", "a".repeat(2000));
        for rule in [
            format!("Disallow: /{}*b", "*a".repeat(1500)),
            format!("Disallow: /{}*b", "*aaaa".repeat(300)),
            format!("Disallow: /*{}b", "a".repeat(1000)),
            format!("Disallow: /{}b*b*$", "*".repeat(5000)),
            format!("Disallow: /*{0}b{0}$", "a".repeat(500)),
            format!("Disallow: {}", "*ba".repeat(3)),
        ] {
            let steps = steps_of(&group([rule.clone()]), &path);
            assert!(steps <= rule.len() + path.len(), "{steps} steps for {rule}");
        }
    }

    #[test]
    fn tens_of_thousands_of_wildcards_are_not_searched_one_by_one() {
        let path = format!("/0123456789{}", "ab".repeat(1000));
        let rules = 40_000;
        for line in [
            |n: usize| format!("Disallow: *{n}b"),
            |n: usize| format!("Disallow: /*abab*ba*{n}a"),
            |n: usize| format!("Disallow: *{}{n}", "ab".repeat(100)),
            |n: usize| format!("Disallow: *b*{}", n % 10),
        ] {
            let group = group((0..rules).map(line));
            assert!(group.wild_rules > 1000);
            let pattern_bytes = group.arena.len();
            // Without the index: some 40,000 times the path's 2,000 bytes.
            let steps = steps_of(&group, &path);
            assert!(steps <= pattern_bytes + 10 * path.len(), "{steps} steps for {}", line(7));
        }
    }
}
