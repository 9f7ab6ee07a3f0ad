//! Was the visitor polite, as far as the server can tell?
//!
//! Each check reads the journal's entries (in the order of arrival) and answers with violations
//! that a person can follow: who, when, and by how much. An empty list is a good visitor. The
//! limits are the caller's; no slack is added here, since a server sees every pause at least as
//! long as the visitor made it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use types::Timestamp;

use crate::journal::Entry;
use crate::oracle::{Expectation, Oracle};
use crate::truth::{Access, Course, Place, Truth};
use crate::web::{Ask, Dns, Web};

/// Something a visitor must not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which check found it.
    pub check: &'static str,
    /// The host, address or URL it is about.
    pub about: String,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.check, self.about, self.what)
    }
}

/// Fails with the first few violations, one a line.
pub fn assert_none(violations: &[Violation]) {
    const SHOWN: usize = 10;
    let lines: Vec<_> = violations.iter().take(SHOWN).map(Violation::to_string).collect();
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), lines.join("\n"));
}

/// Per host: never two requests at once, a pause of at least `min_pause(host)` from the end of an
/// answer to the next request, and never a connection that is used again after a newer one (then
/// both were open).
pub fn gaps(entries: &[Entry], min_pause: impl Fn(&str) -> Duration) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (host, entries) in by(entries, |entry| entry.host.to_string()) {
        let limit = min_pause(&host);
        let mut newest_connection = 0;
        let mut busy: Option<&Entry> = None;
        for &entry in &entries {
            let mut say =
                |check, what| violations.push(Violation { check, about: host.clone(), what });
            if let Some(before) = busy {
                match before.ended.filter(|&end| end <= entry.arrived) {
                    None => say("one at a time", meeting(entry, before)),
                    Some(end) if entry.arrived.since(end) < limit => {
                        say("pause", short(entry, before, entry.arrived.since(end), limit));
                    }
                    Some(_) => {}
                }
            }
            if entry.connection < newest_connection {
                say(
                    "one connection",
                    format!(
                        "{} came over connection {}, after connection {newest_connection} was in use",
                        entry.path, entry.connection
                    ),
                );
            }
            newest_connection = newest_connection.max(entry.connection);
            // The next pause counts from whichever answer ended last.
            busy = busy.filter(|before| end_of(before) > end_of(entry)).or(Some(entry));
        }
    }
    violations
}

/// Per host: a pause of at least its Crawl-delay, from the moment its robots.txt was read (before,
/// nobody could know).
pub fn crawl_delays(entries: &[Entry], web: &dyn Truth, product: &str) -> Vec<Violation> {
    let mut known: Vec<Entry> = Vec::new();
    let mut pauses: BTreeMap<String, Duration> = BTreeMap::new();
    for (host, entries) in by(entries, |entry| entry.host.to_string()) {
        let places = entries.iter().map(|entry| place_of(entry));
        let asked = places.filter_map(|place| web.crawl_delay(&place, product)).max();
        let Some(pause) = asked else { continue };
        let is_robots = |entry: &Entry| entry.is_robots() || web.is_robots_hop(&place_of(entry));
        let first_page = entries.iter().position(|entry| !is_robots(entry));
        // From the answer with the rules on.
        let from = first_page.unwrap_or(entries.len()).saturating_sub(1);
        known.extend(entries[from..].iter().map(|&entry| entry.clone()));
        pauses.insert(host, pause);
    }
    known.sort_by_key(|entry| entry.arrived);
    gaps(&known, |host| pauses.get(host).copied().unwrap_or_default())
}

fn meeting(entry: &Entry, before: &Entry) -> String {
    format!(
        "{} came at {} while {} was under way (until {})",
        entry.path,
        entry.arrived.rfc3339_millis(),
        before.path,
        before.ended.map_or("the end".to_owned(), Timestamp::rfc3339_millis)
    )
}

fn short(entry: &Entry, before: &Entry, pause: Duration, limit: Duration) -> String {
    format!(
        "{} came {pause:?} after the end of {}; {limit:?} is the least",
        entry.path, before.path
    )
}

/// Per address: at least `min_gap` from the arrival of a request to the next, and at most
/// `max_in_flight` at once.
pub fn address_gaps(entries: &[Entry], min_gap: Duration, max_in_flight: usize) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (address, entries) in by(entries, |entry| entry.address) {
        let mut ends: Vec<Timestamp> = Vec::new();
        let mut last: Option<&Entry> = None;
        for &entry in &entries {
            let mut say = |check, what| {
                violations.push(Violation { check, about: address.to_string(), what });
            };
            if let Some(before) = last
                && entry.arrived.since(before.arrived) < min_gap
            {
                let gap = entry.arrived.since(before.arrived);
                say(
                    "address pause",
                    format!(
                        "{} came {gap:?} after {}; {min_gap:?} is the least",
                        entry.url(),
                        before.url()
                    ),
                );
            }
            ends.retain(|&end| end > entry.arrived);
            ends.push(end_of(entry));
            if ends.len() > max_in_flight {
                say(
                    "address requests",
                    format!(
                        "{} was one of {} at once; {max_in_flight} is the most",
                        entry.url(),
                        ends.len()
                    ),
                );
            }
            last = Some(entry);
        }
    }
    violations
}

/// Per host: nobody comes before the moment that a 429 or 503 has named in `Retry-After`. `heard`
/// tells whether the visitor can know of an answer; one that died with it cannot.
pub fn retry_after(
    entries: &[Entry],
    web: &dyn Web,
    heard: impl Fn(&Entry) -> bool,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (host, entries) in by(entries, |entry| entry.host.to_string()) {
        let mut asked: BTreeMap<(bool, u16, &str), u32> = BTreeMap::new();
        let mut rests: Option<(Timestamp, &Entry)> = None;
        for &entry in &entries {
            let times = asked.entry((entry.tls, entry.port, &entry.path)).or_default();
            if let Some((until, before)) = rests.filter(|(until, _)| entry.arrived < *until) {
                let (come, until) = (entry.arrived.rfc3339_millis(), until.rfc3339_millis());
                let what = format!(
                    "{} came at {come}; {} asked for a rest until {until}",
                    entry.path, before.path
                );
                violations.push(Violation { check: "retry after", about: host.clone(), what });
            }
            if !entry.aborted && matches!(entry.status, 429 | 503) && heard(entry) {
                let until = asked_rest(entry, web, *times);
                let asked = until.map(|until| (until, entry));
                rests = rests.into_iter().chain(asked).max_by_key(|(until, _)| *until);
            }
            *times += 1;
        }
    }
    violations
}

/// Until when the answer to this entry asked for a rest.
fn asked_rest(entry: &Entry, web: &dyn Web, nth: u32) -> Option<Timestamp> {
    let plan = web.answer(&Ask {
        host: &entry.host,
        port: entry.port,
        tls: entry.tls,
        target: &entry.path,
        headers: &[],
        nth,
        at: entry.arrived,
    });
    let value = plan.header("retry-after")?;
    match value.parse() {
        Ok(seconds) => Some(entry.ended? + Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(value).ok().map(Timestamp::from),
    }
}

/// URLs that were answered in full more than once with the same status. After a crash that is
/// allowed; in a quiet crawl it is not. robots.txt, and what lies on the way to it, does not count.
pub fn duplicates(entries: &[Entry], web: &dyn Truth) -> Vec<Violation> {
    let answered = |entry: &&Entry| !entry.aborted && !matches!(entry.status, 0 | 429 | 500..);
    let is_page = |entry: &&Entry| !entry.is_robots() && !web.is_robots_hop(&place_of(entry));
    let pages = entries.iter().filter(answered).filter(is_page);
    let mut counts: BTreeMap<(String, u16), u32> = BTreeMap::new();
    for entry in pages {
        *counts.entry((entry.url(), entry.status)).or_default() += 1;
    }
    let repeated = counts.into_iter().filter(|(_, count)| *count > 1);
    repeated
        .map(|((url, status), count)| Violation {
            check: "once only",
            about: url,
            what: format!("answered {count} times with {status}"),
        })
        .collect()
}

/// Every request went to an address that the host has, and to none but loopback.
pub fn addresses(entries: &[Entry], web: &dyn Web) -> Vec<Violation> {
    let mut violations = Vec::new();
    let pairs: std::collections::BTreeSet<(&str, IpAddr)> =
        entries.iter().map(|entry| (&*entry.host, entry.address)).collect();
    for (host, address) in pairs {
        let owned = match web.resolve(host) {
            Dns::Addresses { addresses, .. } => addresses.contains(&address),
            // An address literal needs no name server.
            _ => host.trim_matches(['[', ']']) == address.to_string(),
        };
        if !owned || !address.is_loopback() {
            let what = format!("{address} was connected, which is not its own or not loopback");
            violations.push(Violation { check: "address", about: host.to_owned(), what });
        }
    }
    violations
}

/// No page before its origin's robots.txt was read, none that it forbids, and none while it is
/// out of reach (the last answer was no answer, 429 or 5xx, and no earlier one was better).
pub fn robots_obeyed(entries: &[Entry], web: &dyn Truth, product: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (_, entries) in by(entries, |entry| (entry.tls, entry.host.to_string(), entry.port)) {
        let mut read_at: Option<Timestamp> = None;
        for entry in entries {
            if entry.is_robots() {
                let readable = matches!(entry.status, 200..=399 | 400..=428 | 430..=499);
                read_at = read_at.or(entry.ended.filter(|_| readable));
                continue;
            }
            let place = place_of(entry);
            if web.is_robots_hop(&place) {
                continue;
            }
            let mut say = |what: &str| {
                let (check, about) = ("robots", entry.url());
                violations.push(Violation { check, about, what: what.to_owned() });
            };
            match web.robots(&place, product) {
                Access::Forbidden => say("requested, though robots.txt forbids it"),
                Access::Unreachable => say("requested, though its robots.txt is out of reach"),
                Access::Allowed if read_at.is_none_or(|at| at > entry.arrived) => {
                    say("requested before robots.txt was read");
                }
                Access::Allowed => {}
            }
        }
    }
    violations
}

fn place_of(entry: &Entry) -> Place {
    let (tls, port) = (entry.tls, entry.port);
    Place { tls, host: entry.host.to_string(), port, target: entry.path.to_string() }
}

/// Everything that must be archived was answered with the right status, everything that fails was
/// tried, and nothing else was requested. robots.txt and sitemaps are nobody's link and free.
pub fn coverage(entries: &[Entry], web: &dyn Truth, oracle: &Oracle) -> Vec<Violation> {
    let mut asked: BTreeMap<String, Vec<u16>> = BTreeMap::new();
    let mut violations = Vec::new();
    let mut say = |about: &str, what: String| {
        violations.push(Violation { check: "coverage", about: about.to_owned(), what });
    };
    for entry in entries {
        let is_free = entry.is_robots()
            || entry.path.starts_with("/sitemap")
            || web.is_robots_hop(&place_of(entry));
        if !is_free {
            asked.entry(entry.url()).or_default().push(entry.status);
        }
    }
    for (url, expectation) in &oracle.expected {
        let statuses = asked.remove(url).unwrap_or_default();
        match expectation {
            Expectation::Archived { status, .. } if !statuses.contains(status) => {
                say(url, format!("must be answered with {status}, was answered with {statuses:?}"));
            }
            Expectation::Fails { .. } if statuses.is_empty() => {
                say(url, "must be tried, was never requested".to_owned());
            }
            Expectation::Forbidden | Expectation::Refused { .. } | Expectation::Deferred { .. }
                if !statuses.is_empty() =>
            {
                say(url, format!("was requested, but is {}", expectation.name()));
            }
            _ => {}
        }
    }
    for url in asked.keys().filter(|url| !is_trap(url, web)) {
        say(url, "was requested, but no link leads there".to_owned());
    }
    violations
}

/// Deeper into a trap than the oracle went.
fn is_trap(url: &str, web: &dyn Truth) -> bool {
    Place::parse(url).is_some_and(|place| matches!(web.course(&place), Course::Trap))
}

/// When the server was done with a request; never, if it is still under way.
fn end_of(entry: &Entry) -> Timestamp {
    entry.ended.unwrap_or(Timestamp::MAX)
}

fn by<K: Ord>(entries: &[Entry], key: impl Fn(&Entry) -> K) -> BTreeMap<K, Vec<&Entry>> {
    let mut groups: BTreeMap<K, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        groups.entry(key(entry)).or_default().push(entry);
    }
    groups
}
