//! What does a robots.txt say?
//!
//! One pass over the lines, in time linear in the file. Each record goes to the section it stands
//! in; what is kept of it is a few spans of text, and all text lies in one arena.
//!
//! Always: rules stand in file order inside their section; a section is opened by the first
//! `User-agent` line after a rule and closed by nothing else (`Sitemap` and `Crawl-delay` do not
//! end one, RFC 9309, 2.2.4).
//!
//! Not here: what a line says (`lines`), how a rule's path is read (`form`) and how a group is
//! judged (`group`).

use std::borrow::Cow;

use memchr::memrchr;

use crate::agent::{leading_token, product_token};
use crate::form::Pattern;
use crate::group::{Group, Rule};
use crate::lines::{Key, Lines, Record, bridge_utf16, without_bom, without_cut_line};
use crate::matching::ByteSet;

/// Bytes of a file that count: 500 KiB, the least that RFC 9309 (2.5) asks to be read.
pub const BYTES_MAX: usize = 500 * 1024;

/// Bytes of a short rule's line: there are hardly more rules than that.
const RULE_BYTES: usize = 10;

/// What is in the name of an index page.
const INDEX_PAGE: ByteSet = ByteSet::of(b"/index.htm");

/// No setting reads more of a file than this, so that offsets into the arena fit in 32 bits.
const BYTES_CEILING: usize = 64 * 1024 * 1024;

/// Longest `Crawl-delay` in seconds; a longer one counts as this. It is beyond any use, but
/// small enough that a caller may turn it into a duration without looking.
pub const CRAWL_DELAY_MAX: f64 = u32::MAX as f64;

/// A parsed robots.txt: all groups of all crawlers.
#[derive(Debug, Clone, Default)]
pub struct Robots {
    arena: String,
    agents: Vec<Agent>,
    sections: Vec<Section>,
    rules: Vec<Rule>,
    sitemaps: Vec<Span>,
}

/// A name of a section's header: a product token or `*`.
#[derive(Debug, Clone, Copy)]
struct Agent {
    name: Span,
    section: u32,
}

/// Consecutive `User-agent` lines and what follows up to the next ones.
#[derive(Debug, Clone, Copy)]
struct Section {
    /// Its rules start here and end where the next section's start.
    rules_start: u32,
    crawl_delay: Option<f64>,
}

/// The line that a rule comes from; one line may make several.
#[derive(Debug, Clone, Copy)]
struct Origin {
    allow: bool,
    text: Span,
    line: u32,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    len: u32,
}

impl Robots {
    /// Parses the first [`BYTES_MAX`] bytes of a robots.txt.
    pub fn parse(bytes: &[u8]) -> Robots {
        Robots::parse_limited(bytes, BYTES_MAX)
    }

    /// Parses the first `bytes_max` bytes of a robots.txt, cut back to whole lines: half a rule
    /// is another rule. Whoever cuts the body before must keep at least one byte more than
    /// `bytes_max`, so that the cut is seen here.
    pub fn parse_limited(bytes: &[u8], bytes_max: usize) -> Robots {
        let bytes_max = bytes_max.min(BYTES_CEILING);
        let text = bridge_utf16(&bytes[..bytes.len().min(bytes_max)]);
        // The end of the last line is known when the file ends there, or when the next one starts;
        // but in UTF-16 the byte at the cut might be half of anything.
        let is_whole = match bytes.get(bytes_max) {
            None => true,
            Some(next) => matches!(next, b'\r' | b'\n') && matches!(text, Cow::Borrowed(_)),
        };
        let text = without_bom(&text);
        let text = if is_whole { text } else { without_cut_line(text) };

        let mut robots = Robots::default();
        // Room for all that a file without escapes makes of itself: what grows is copied.
        robots.arena.reserve(text.len());
        robots.rules.reserve(text.len() / RULE_BYTES);
        let mut header_open = false;
        for record in Lines::of(text) {
            robots.add(&record, &mut header_open);
        }
        robots.arena.shrink_to_fit();
        robots.rules.shrink_to_fit();
        robots
    }

    /// The group for `agent`, a product token or a whole `User-Agent` header (see
    /// [`product_token`]): all sections that name it, combined, or else all sections for `*`.
    pub fn group(&self, agent: &str) -> Group {
        let token = product_token(agent);
        let named = self.sections_for(token);
        let sections = if named.is_empty() { self.sections_for("*") } else { named };

        let crawl_delay =
            sections.iter().filter_map(|&s| self.sections[s].crawl_delay).reduce(f64::max);
        let rules: Cow<'_, [Rule]> = match *sections {
            // The usual case: nothing to put together.
            [section] => Cow::Borrowed(self.rules_of(section)),
            _ => sections.iter().flat_map(|&section| self.rules_of(section)).copied().collect(),
        };
        Group::new(&self.arena, &rules, crawl_delay)
    }

    /// The sitemaps that the file names, for all crawlers, as written and in file order.
    pub fn sitemaps(&self) -> impl Iterator<Item = &str> {
        self.sitemaps.iter().map(|&span| self.text(span))
    }

    /// Memory held, in bytes: for the accounts of a cache.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Robots>()
            + self.arena.capacity()
            + self.agents.capacity() * size_of::<Agent>()
            + self.sections.capacity() * size_of::<Section>()
            + self.rules.capacity() * size_of::<Rule>()
            + self.sitemaps.capacity() * size_of::<Span>()
    }

    fn text(&self, span: Span) -> &str {
        &self.arena[span.start as usize..][..span.len as usize]
    }

    /// Sections whose header has `name`, each once. Names stand in section order, so a repeated
    /// one is beside its twin.
    fn sections_for(&self, name: &str) -> Vec<usize> {
        let named = self.agents.iter().filter(|a| self.text(a.name).eq_ignore_ascii_case(name));
        let mut sections: Vec<usize> = named.map(|agent| agent.section as usize).collect();
        sections.dedup();
        sections
    }

    fn rules_of(&self, section: usize) -> &[Rule] {
        let start = self.sections[section].rules_start as usize;
        let end = self.sections.get(section + 1).map(|next| next.rules_start as usize);
        &self.rules[start..end.unwrap_or(self.rules.len())]
    }

    fn add(&mut self, record: &Record<'_>, header_open: &mut bool) {
        match record.key {
            Key::UserAgent => {
                if !*header_open {
                    let rules_start = small(self.rules.len());
                    self.sections.push(Section { rules_start, crawl_delay: None });
                    *header_open = true;
                }
                self.add_agents(&String::from_utf8_lossy(record.value));
            }
            Key::Allow | Key::Disallow => {
                *header_open = false;
                // Without a section the rule speaks to nobody.
                if !self.sections.is_empty() {
                    self.add_rules(record);
                }
            }
            Key::CrawlDelay => {
                let delay = seconds(record.value);
                if let (Some(section), Some(delay)) = (self.sections.last_mut(), delay) {
                    section.crawl_delay = Some(section.crawl_delay.map_or(delay, |d| d.max(delay)));
                }
            }
            Key::Sitemap if record.value.is_empty() => {}
            Key::Sitemap => {
                let span = self.keep(&String::from_utf8_lossy(record.value));
                self.sitemaps.push(span);
            }
        }
    }

    /// Erratum 8895: `User-agent: a, b` names both. The RFC reads only `a`; but what the owner
    /// meant is plain, and one file in three hundred is written so. An entry without a token
    /// (`360bot`) names nobody, yet its line has opened a section all the same.
    fn add_agents(&mut self, names: &str) {
        let section = small(self.sections.len() - 1);
        for entry in names.split(',').map(str::trim) {
            // `*`, and Google's `* something`; not `*bot`.
            let is_star = entry
                .strip_prefix('*')
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
            let name = if is_star { "*" } else { leading_token(entry) };
            if !name.is_empty() {
                let name = self.keep(name);
                self.agents.push(Agent { name, section });
            }
        }
    }

    fn add_rules(&mut self, record: &Record<'_>) {
        let value = record.value;
        let Some(pattern) = Pattern::read(value) else { return };
        let allow = matches!(record.key, Key::Allow);
        let text = match std::str::from_utf8(record.content) {
            Ok(text) => self.keep(text),
            Err(_) => self.keep(&String::from_utf8_lossy(record.content)),
        };
        let origin = Origin { allow, text, line: record.line };

        // The value ends the line, so a pattern that was in form already is a part of the text.
        let inside = match pattern.bytes {
            Cow::Borrowed(_) => Some(text.start + text.len - small(value.len())),
            Cow::Owned(_) => None,
        };
        self.add_rule(&pattern, inside, origin);
        if let Some(plain) = pattern.with_plain_query() {
            self.add_rule(&plain, None, origin);
        }
        // Google: who allows a directory's index page allows the directory.
        let may_be_index = allow && INDEX_PAGE.is_within(pattern.set);
        let directory =
            if may_be_index { memrchr(b'/', value).map(|slash| slash + 1) } else { None };
        if let Some(end) = directory.filter(|&end| value[end..].starts_with(b"index.htm")) {
            let value = [&value[..end], b"$"].concat();
            if let Some(pattern) = Pattern::read(&value) {
                self.add_rule(&pattern, None, origin);
            }
        }
    }

    fn add_rule(&mut self, pattern: &Pattern<'_>, inside: Option<u32>, origin: Origin) {
        let pattern_start = inside.unwrap_or_else(|| {
            // The form is ASCII by construction, so nothing is lost here.
            self.keep(&String::from_utf8_lossy(&pattern.bytes)).start
        });
        self.rules.push(Rule {
            bytes: pattern.set,
            text_start: origin.text.start,
            text_len: short(origin.text.len as usize),
            pattern_start,
            pattern_len: short(pattern.bytes.len()),
            octets: pattern.octets,
            line: origin.line,
            allow: origin.allow,
            anchored: pattern.anchored,
            wild: pattern.wild,
        });
    }

    fn keep(&mut self, text: &str) -> Span {
        let span = Span { start: small(self.arena.len()), len: small(text.len()) };
        self.arena.push_str(text);
        span
    }
}

/// Offsets and counts fit: a line's text, pattern, two query spellings and directory are each at
/// most three times its bytes, and bridging made those at most half as many again.
pub(crate) fn small(n: usize) -> u32 {
    u32::try_from(n).expect("23 times BYTES_CEILING is below 4 GiB")
}

/// Lengths of a line's parts fit: escaping triples at most [`crate::LINE_BYTES_MAX`] bytes.
fn short(n: usize) -> u16 {
    u16::try_from(n).expect("three times LINE_BYTES_MAX is below 65,536")
}

/// A plain decimal number. Not what else reads as a float (`inf`, `1e9`, `-1`): none of that is
/// a wish for a pause that we can name.
fn seconds(value: &[u8]) -> Option<f64> {
    let plain = value.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let number = std::str::from_utf8(value).ok().filter(|_| plain)?;
    number.parse::<f64>().ok().map(|delay| delay.min(CRAWL_DELAY_MAX))
}
