//! What has become of this URL, and why?
//!
//! One value, computed from the settings and the shard's state, that can travel as JSON: from a
//! running crawl over its control socket, or from a directory at rest.

use std::fmt::Write as _;

use frontier::Scope;
use local::{Duplicates, Standing};
use ports::robots_entry::RobotsAccess;
use ports::shard_store::Forgotten;
use ports::{PortResult, RobotsEntry, ShardStore};
use robots::Robots;
use serde::{Deserialize, Serialize};
use types::record::Retirement;
use types::{CrawlUrl, Fault, Record, Retry, State, TextFacts, Timestamp, UrlRef};

use crate::settings::Settings;
use crate::status::moment;
use crate::waiting::{self, HostFacts};

/// How far a host's queue is counted: some tens of milliseconds.
const WAITING_COUNTED_MAX: u64 = 100_000;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Explanation {
    /// The canonical form.
    pub url: String,
    /// Whether the crawl has accepted it, has asked for it as a robots.txt, or has forgotten it.
    pub known: bool,
    /// `fetched`, `moved`, `queued`, `refused`, `gone`, `dead letter`, `dropped`, `forgotten`,
    /// `robots.txt` or `unknown`.
    pub state: String,
    /// The sentence that answers.
    pub why: String,
    pub in_scope: bool,
    /// What the settings say, with the one that decided.
    pub scope: String,
    pub found: Option<Found>,
    pub visit: Option<Visit>,
    /// Of its text, where that was read.
    pub text: Option<Text>,
    pub archive: Option<Place>,
    pub robots: Option<RobotsSay>,
    pub host: Option<HostSay>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Found {
    pub at: String,
    pub depth: u16,
    pub redirects: u8,
    pub seed: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Visit {
    pub at: String,
    pub status: u16,
    pub content_type: Option<String>,
    pub body_bytes: u64,
    pub took_ms: u32,
    pub title: Option<String>,
    pub links: u32,
    pub moved_to: Option<String>,
    pub target_refused: Option<String>,
    pub truncated: Option<String>,
    pub answers: u32,
    /// Visits that found the page as we have it, since this moment.
    pub unchanged: Option<Unchanged>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Text {
    pub sha256: String,
    pub simhash: String,
    pub words: u32,
    pub language: Option<String>,
    /// `original`, `exact` or `near`; none where it was not compared with others.
    pub standing: Option<String>,
    /// The original, if this is a copy.
    pub duplicate_of: Option<String>,
    /// Bits in which the SimHashes of the two differ.
    pub distance: Option<u32>,
    /// Pages that are copies of this one.
    pub copies: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Unchanged {
    pub since: String,
    pub visits: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Place {
    pub file: String,
    pub offset: u64,
    pub length: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RobotsSay {
    pub url: String,
    pub allowed: bool,
    /// The line that decides, and its number.
    pub rule: Option<String>,
    pub line: Option<u32>,
    pub crawl_delay: Option<f64>,
    /// Whether we keep to it (`robots.obey`, or a sheet).
    pub obeyed: bool,
    /// `rules`, `absent` or `unreachable`.
    pub access: String,
    /// When the rules were read; none where there are none.
    pub read_at: Option<String>,
    /// When it was last asked for, however that ended.
    pub checked_at: String,
    pub expires_at: String,
    pub trouble: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostSay {
    pub host: String,
    pub pages: u64,
    pub requests: u64,
    /// Counted up to a hundred thousand.
    pub waiting: u64,
    /// None if it was never visited.
    pub next_visit: Option<String>,
    pub backoff: u32,
    pub faults: u32,
    pub last_fault: Option<String>,
    pub parked: bool,
    pub gap_min_ms: Option<u64>,
    pub domain_pages: u64,
}

/// What decides, beside the state.
#[derive(Debug)]
pub struct Rules<'a> {
    pub scope: &'a Scope,
    pub settings: &'a Settings,
    /// Names the files of the URL's shard.
    pub names: &'a local::ArchiveSettings,
    /// Where pages are compared.
    pub duplicates: Option<&'a Duplicates>,
    pub now: Timestamp,
}

pub fn explain(
    store: &mut dyn ShardStore,
    url: &CrawlUrl,
    rules: &Rules<'_>,
) -> PortResult<Explanation> {
    let record = store.record(url)?;
    let forgotten = store.forgotten(url)?;
    let facts = HostFacts::read(store, &url.host_key(), WAITING_COUNTED_MAX)?;
    let entry = store.robots(&url.origin())?;
    let depth = record.as_ref().map_or(1, |record| record.found.depth);
    let verdict = if record.as_ref().is_some_and(|record| record.found.seed) {
        Ok(())
    } else {
        rules.scope.judge(UrlRef::from(url), depth)
    };
    let robots = entry.map(|entry| robots_say(url, &entry, rules.settings));
    let (state, why) = match (&record, &robots) {
        (Some(record), _) => state_of(record, facts.as_ref(), rules),
        (None, _) if forgotten.is_some() => {
            ("forgotten", forgotten.as_ref().map_or_else(String::new, forgotten_why))
        }
        (None, Some(robots)) if is_robots(url) => ("robots.txt", robots.standing()),
        (None, robots) => ("unknown", unknown(url, &verdict, robots.as_ref(), rules.settings)),
    };
    let last = record.as_ref().and_then(|record| record.last.as_deref());
    Ok(Explanation {
        url: url.to_string(),
        known: state != "unknown",
        state: state.to_owned(),
        why,
        in_scope: verdict.is_ok(),
        scope: match &verdict {
            Ok(()) if rules.scope.is_seed(url.as_str()) => "a seed".to_owned(),
            Ok(()) => format!("in: crawl.scope = {}", rules.settings.crawl.scope.as_str()),
            Err(refusal) => format!("out: {refusal}"),
        },
        found: record.as_ref().map(|record| Found {
            at: record.found.at.rfc3339(),
            depth: record.found.depth,
            redirects: record.found.hops,
            seed: record.found.seed,
        }),
        archive: last.and_then(|last| last.warc).map(|place| Place {
            file: format!("archive/{}", rules.names.file_name(place.file)),
            offset: place.offset,
            length: place.length,
        }),
        visit: record.as_ref().and_then(visit_of),
        text: match last.and_then(|last| last.answer.text.as_deref()) {
            Some(facts) => Some(text_of(url, facts, rules.duplicates)?),
            None => None,
        },
        robots,
        host: facts.map(|facts| host_say(&facts)),
    })
}

fn text_of(url: &CrawlUrl, facts: &TextFacts, duplicates: Option<&Duplicates>) -> PortResult<Text> {
    let standing = duplicates.map(|store| store.standing(url)).transpose()?.flatten();
    let mut text = Text {
        sha256: facts.digest_hex(),
        simhash: facts.simhash_hex(),
        words: facts.words,
        language: facts.language.as_deref().map(str::to_owned),
        standing: None,
        duplicate_of: None,
        distance: None,
        copies: None,
    };
    match standing {
        Some(Standing::Original { copies }) => {
            text.standing = Some("original".to_owned());
            text.copies = Some(copies);
        }
        Some(Standing::Copy { of, exact, distance }) => {
            text.standing = Some(if exact { "exact" } else { "near" }.to_owned());
            text.duplicate_of = Some(of.to_string());
            text.distance = Some(distance);
        }
        None => {}
    }
    Ok(text)
}

fn visit_of(record: &Record) -> Option<Visit> {
    let last = record.last.as_deref()?;
    let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    Some(Visit {
        at: last.at.rfc3339(),
        status: last.answer.status,
        content_type: text(&last.answer.content_type),
        body_bytes: last.answer.body_bytes,
        took_ms: last.answer.took_ms,
        title: text(&last.answer.title),
        links: last.answer.links,
        moved_to: text(&last.moved_to),
        target_refused: last.target_refused.as_ref().map(ToString::to_string),
        truncated: last.answer.truncated.map(|why| why.as_str().to_owned()),
        answers: record.fetch_count,
        unchanged: record
            .held
            .filter(|held| held.unchanged > 0)
            .map(|held| Unchanged { since: held.at.rfc3339(), visits: held.unchanged }),
    })
}

fn state_of(
    record: &Record,
    facts: Option<&HostFacts>,
    rules: &Rules<'_>,
) -> (&'static str, String) {
    match &record.state {
        State::Queued => {
            let why = waiting::reason(record, facts, rules.settings, rules.now);
            ("queued", why.sentence)
        }
        State::Parsed => match record.last.as_deref() {
            Some(last) if last.moved_to.is_some() => {
                let to = last.moved_to.as_deref().unwrap_or_default();
                let mut why = format!("redirects ({}) to {to}", last.answer.status);
                if let Some(refusal) = &last.target_refused {
                    let _ = write!(why, ", which was not taken: {refusal}");
                }
                ("moved", why)
            }
            Some(last) => ("fetched", format!("answered {} at {}", last.answer.status, last.at)),
            None => ("fetched", "visited".to_owned()),
        },
        State::Blocked(refusal) => ("refused", refusal.to_string()),
        State::Retired(gone @ Retirement::Gone(_)) => ("gone", gone.to_string()),
        State::Retired(dead @ Retirement::DeadLetter { fault, attempts }) => {
            let fetch = &rules.settings.fetch;
            let early = *fault != Fault::Lost && u32::from(*attempts) < fetch.attempts_max;
            let why = match early && fault.retry() == Retry::Later {
                true => {
                    let most = fetch.host_retries_max;
                    format!("{dead}; its host had no retry left (fetch.host_retries_max = {most})")
                }
                false => dead.to_string(),
            };
            ("dead letter", why)
        }
        State::Retired(gone @ Retirement::Dropped { .. }) => ("dropped", gone.to_string()),
    }
}

fn is_robots(url: &CrawlUrl) -> bool {
    url.path_and_query() == "/robots.txt"
}

fn forgotten_why(forgotten: &Forgotten) -> String {
    let Forgotten { at, reason } = forgotten;
    format!("forgotten on {at}: {reason}; it is not taken again")
}

/// Why a URL that no record tells of is not known. Links that were not taken are counted and not
/// kept, so what may have been the reason is all that can be said.
fn unknown(
    url: &CrawlUrl,
    verdict: &Result<(), types::Refusal>,
    robots: Option<&RobotsSay>,
    settings: &Settings,
) -> String {
    if let Err(refusal) = verdict {
        return format!("the crawl does not take it: {refusal}");
    }
    if is_robots(url) && settings.obeys_robots(url.host()) {
        let origin = url.origin();
        return format!(
            "it is asked for as robots.txt before the first page of {origin}, and that has not \
             happened yet"
        );
    }
    if let Some(RobotsSay { allowed: false, rule: Some(rule), line: Some(line), .. }) = robots
        && settings.obeys_robots(url.host())
    {
        return format!(
            "no link to it was taken; robots.txt line {line} would forbid it: `{rule}`"
        );
    }
    let (crawl, fetch) = (&settings.crawl, &settings.fetch);
    format!(
        "it would be in scope, but no link to it was taken so far. Either no page that was visited \
         has one, or it stands where links are not taken: marked nofollow; as a part of a page, \
         such as an image; on a page as deep as crawl.max_depth = {}; behind more redirects than \
         fetch.redirects_max = {}; beyond what is read of a page (fetch.html_bytes_max = {}, {} \
         links). Add it as a seed to crawl it",
        crawl.max_depth,
        fetch.redirects_max,
        fetch.html_bytes_max,
        page::Limits::default().links_max
    )
}

fn robots_say(url: &CrawlUrl, entry: &RobotsEntry, settings: &Settings) -> RobotsSay {
    let mut say = RobotsSay {
        url: format!("{}/robots.txt", url.origin()),
        allowed: true,
        rule: None,
        line: None,
        crawl_delay: None,
        obeyed: settings.obeys_robots(url.host()),
        access: String::new(),
        read_at: None,
        checked_at: entry.checked_at.rfc3339(),
        expires_at: entry.expires_at.rfc3339(),
        trouble: entry.trouble.as_deref().map(str::to_owned),
    };
    match &entry.access {
        RobotsAccess::Rules { text, read_at } => {
            let bytes_max = settings.robots.bytes_max.as_len();
            let group = Robots::parse_limited(text, bytes_max).group(&settings.identity.product);
            let verdict = group.judge(url.path_and_query());
            say.access = "rules".to_owned();
            say.read_at = Some(read_at.rfc3339());
            say.allowed = verdict.allowed;
            say.rule = verdict.rule.map(|rule| rule.text.to_owned());
            say.line = verdict.rule.map(|rule| rule.line);
            say.crawl_delay = group.crawl_delay();
        }
        RobotsAccess::Absent => say.access = "absent".to_owned(),
        RobotsAccess::Unreachable { .. } => {
            say.access = "unreachable".to_owned();
            say.allowed = false;
        }
    }
    say
}

fn host_say(facts: &HostFacts) -> HostSay {
    let state = &facts.row.state;
    HostSay {
        host: facts.row.host.to_string(),
        pages: state.pages,
        requests: state.requests,
        waiting: facts.row.waiting,
        next_visit: moment(state.not_before),
        backoff: state.backoff,
        faults: state.faults,
        last_fault: state.last_fault.as_ref().map(ToString::to_string),
        parked: state.parked,
        gap_min_ms: state.gap_min_ms,
        domain_pages: facts.site.pages,
    }
}

impl Explanation {
    /// For people. `dir` is how they call the directory.
    pub fn text(&self, dir: &str) -> String {
        let mut out = String::new();
        let mut line = |name: &str, text: String| {
            let _ = writeln!(out, "  {name:<8} {text}");
        };
        line("state", format!("{}: {}", self.state, self.why));
        if let Some(found) = &self.found {
            let seed = if found.seed { ", a seed" } else { "" };
            let hops = match found.redirects {
                0 => String::new(),
                n => format!(", after {n} redirects"),
            };
            line("found", format!("{} at depth {}{hops}{seed}", found.at, found.depth));
        }
        if let Some(visit) = &self.visit {
            line("visit", visit.text());
        }
        if let Some(text) = &self.text {
            line("text", text.text());
        }
        if let Some(place) = &self.archive {
            let Place { file, offset, length } = place;
            line("archive", format!("{file}, offset {offset}, {length} bytes"));
            line("", format!("lycosa warc get {dir}/{file} {offset}"));
        }
        line("scope", self.scope.clone());
        if let Some(robots) = &self.robots {
            line("robots", robots.text());
        }
        if let Some(host) = &self.host {
            line("host", host.text());
        }
        format!("{}\n{out}", self.url)
    }
}

impl Text {
    fn text(&self) -> String {
        let language = self.language.as_deref().map_or(String::new(), |code| format!(", {code}"));
        let standing = match (self.standing.as_deref(), &self.duplicate_of) {
            (Some("exact"), Some(of)) => format!("; same text as {of}"),
            (Some(_), Some(of)) => {
                format!("; near-duplicate of {of}, distance {}", self.distance.unwrap_or(0))
            }
            (Some(_), None) => match self.copies.unwrap_or(0) {
                0 => "; no copy of it is known".to_owned(),
                1 => "; the original of 1 copy".to_owned(),
                n => format!("; the original of {n} copies"),
            },
            (None, _) => String::new(),
        };
        format!("{}{language}{standing}", crate::crawl::counted(self.words.into(), "word"))
    }
}

impl Visit {
    fn text(&self) -> String {
        let mut text = format!("{}: {}", self.at, self.status);
        if let Some(kind) = &self.content_type {
            let _ = write!(text, " {kind}");
        }
        let _ = write!(text, ", {} bytes in {} ms", self.body_bytes, self.took_ms);
        if self.links > 0 {
            let _ = write!(text, ", {} links", self.links);
        }
        if let Some(why) = &self.truncated {
            let _ = write!(text, ", truncated ({why})");
        }
        if let Some(title) = &self.title {
            let _ = write!(text, ", {title:?}");
        }
        if let Some(Unchanged { since, visits }) = &self.unchanged {
            let _ = write!(text, ", found unchanged {visits} times since {since}");
        }
        text
    }
}

impl RobotsSay {
    fn text(&self) -> String {
        let mut verdict = match (&self.rule, self.line, self.access.as_str()) {
            (Some(rule), Some(line), _) => {
                let word = if self.allowed { "allowed" } else { "forbidden" };
                format!("{word} by line {line}: `{rule}`")
            }
            (_, _, "absent") => "allowed: there is no robots.txt".to_owned(),
            (_, _, "unreachable") => {
                let trouble = self.trouble.as_deref().unwrap_or("no answer");
                format!("nothing may be fetched: robots.txt is unreachable ({trouble})")
            }
            _ => "allowed: no rule matches".to_owned(),
        };
        if !self.allowed && !self.obeyed {
            verdict.push_str("; ignored by a setting (robots.obey, or a sheet)");
        }
        let delay = match self.crawl_delay {
            Some(seconds) => format!(", Crawl-delay {seconds} s"),
            None => String::new(),
        };
        format!("{verdict}{delay} ({}, {})", self.url, self.times())
    }

    /// What is known of the file itself, for whoever asks about it.
    fn standing(&self) -> String {
        let found = match self.access.as_str() {
            "rules" => "it has rules",
            "absent" => "there is none, so everything is allowed",
            _ => "it is unreachable, so nothing is fetched there",
        };
        let trouble = match (&self.trouble, self.access.as_str()) {
            (Some(trouble), "unreachable") => format!(" ({trouble})"),
            _ => String::new(),
        };
        format!(
            "asked for as robots.txt, not as a page, before the pages of its origin: \
             {found}{trouble} ({})",
            self.times()
        )
    }

    /// When it was read, or only asked for, and when it will be asked for again.
    fn times(&self) -> String {
        let RobotsSay { checked_at, expires_at, .. } = self;
        let when = match (&self.read_at, &self.trouble) {
            // The copy outlives an attempt that failed.
            (Some(read_at), Some(trouble)) => {
                format!("fetched {read_at}, asked in vain {checked_at}: {trouble}")
            }
            (Some(read_at), None) => format!("fetched {read_at}"),
            (None, _) => format!("asked {checked_at}"),
        };
        format!("{when}, asked again after {expires_at}")
    }
}

impl HostSay {
    fn text(&self) -> String {
        let HostSay { host, pages, requests, waiting, .. } = self;
        let more = if *waiting == WAITING_COUNTED_MAX { " or more" } else { "" };
        let mut text =
            format!("{host}: {pages} pages, {requests} requests, {waiting}{more} waiting");
        if let Some(next) = &self.next_visit {
            let _ = write!(text, ", next visit not before {next}");
        }
        if self.parked {
            text.push_str(", parked");
        }
        if self.backoff > 0 {
            let _ = write!(text, ", backoff {} steps", self.backoff);
        }
        if let Some(fault) = &self.last_fault {
            let _ = write!(text, ", {} faults in a row ({fault})", self.faults);
        }
        if let Some(gap) = self.gap_min_ms {
            let _ = write!(text, ", smallest pause so far {gap} ms");
        }
        text
    }
}
