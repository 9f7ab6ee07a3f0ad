//! Why does a URL that was accepted wait?
//!
//! Never silent: what is deferred has a reason that names the rule and the value. It is computed
//! from the state, by `explain`, and counted for the report.

use ports::shard_store::{HostRow, RefillWant, SiteState};
use ports::{PortResult, RobotsEntry, ShardStore};
use types::{HostKey, HostState, Origin, QueueKey, Record, Timestamp};

use crate::settings::Settings;

/// All that a shard knows of a host.
#[derive(Debug, Clone)]
pub struct HostFacts {
    pub row: HostRow,
    pub site: SiteState,
    pub robots: Vec<(Origin, RobotsEntry)>,
}

impl HostFacts {
    pub fn read(store: &mut dyn ShardStore, host: &HostKey) -> PortResult<Option<Self>> {
        let Some(row) = store.host(host)? else { return Ok(None) };
        let want =
            RefillWant { host: host.clone(), after: Some(QueueKey::MAX), limit: 1, state: true };
        let wake = store.refill(&[want])?.pop().and_then(|filled| filled.state);
        let (site, robots) = wake.map(|wake| (wake.site, wake.robots)).unwrap_or_default();
        Ok(Some(Self { row, site, robots }))
    }

    pub fn robots_of(&self, origin: &Origin) -> Option<&RobotsEntry> {
        self.robots.iter().find(|(known, _)| known == origin).map(|(_, entry)| entry)
    }
}

/// A reason: a fixed name to count by, and the sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    pub class: &'static str,
    pub sentence: String,
}

fn why(class: &'static str, sentence: String) -> Why {
    Why { class, sentence }
}

/// Why this queued URL has not been visited yet.
pub fn reason(
    record: &Record,
    facts: Option<&HostFacts>,
    settings: &Settings,
    now: Timestamp,
) -> Why {
    if let Some(due) = record.due.filter(|due| *due > now) {
        let max = settings.fetch.attempts_max;
        let sentence =
            format!("attempt {} of {max} failed; the next one is due at {due}", record.attempts);
        return why("retry", sentence);
    }
    let Some(facts) = facts else {
        return why("queued", "its turn has not come".to_owned());
    };
    let host = &facts.row.host;
    if settings.robots.obey
        && let Some(entry) = facts.robots_of(&record.url.origin())
        && entry.is_unreachable()
    {
        let trouble = entry.trouble.as_deref().unwrap_or("it could not be read");
        let sentence = format!(
            "robots.txt of {} is unreachable ({trouble}), asked {} times, again after {}",
            record.url.origin(),
            entry.failures,
            entry.expires_at
        );
        return why("robots-unreachable", sentence);
    }
    let politeness = &settings.politeness;
    let over = |pages: u64, max: u64| max > 0 && pages >= max;
    if over(facts.row.state.pages, politeness.host_pages_max) {
        let (pages, max) = (facts.row.state.pages, politeness.host_pages_max);
        let sentence = format!("politeness.host_pages_max = {max}: {host} has given {pages}");
        return why("politeness.host_pages_max", sentence);
    }
    if over(facts.site.pages, politeness.domain_pages_max) {
        let (pages, max) = (facts.site.pages, politeness.domain_pages_max);
        let site = host.site();
        let sentence = format!("politeness.domain_pages_max = {max}: {site} has given {pages}");
        return why("politeness.domain_pages_max", sentence);
    }
    by_host(host, &facts.row.state, settings, now)
}

fn by_host(host: &HostKey, state: &HostState, settings: &Settings, now: Timestamp) -> Why {
    let fault = state.last_fault.as_ref().map(|fault| format!(" ({fault})")).unwrap_or_default();
    let until = state.not_before;
    if state.parked && until > now {
        let sentence =
            format!("{host} failed {} times in a row{fault}; parked until {until}", state.faults);
        return why("parked", sentence);
    }
    if until > now + settings.crawl.patience.get() {
        return why("pause", format!("{host} is not visited before {until}{fault}"));
    }
    if state.faults > 0 {
        let sentence =
            format!("{host} failed {} times in a row{fault}; next visit {until}", state.faults);
        return why("backoff", sentence);
    }
    why("queued", "its turn has not come".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ports::robots_entry::RobotsAccess;
    use types::{CrawlUrl, Discovery, Fault};

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn record() -> Record {
        let found = Discovery { at: at(0), depth: 1, hops: 0, seed: false, band: 1 };
        Record::new(CrawlUrl::parse("http://a.test/x").unwrap(), found)
    }

    fn facts(state: HostState) -> HostFacts {
        let row = HostRow { host: HostKey::new("a.test"), state, waiting: 1, best_band: 0 };
        HostFacts { row, site: SiteState::default(), robots: Vec::new() }
    }

    #[test]
    fn each_reason_names_its_rule_and_value() {
        let settings = Settings::default();
        let say = |record: &Record, facts: &HostFacts| {
            let why = reason(record, Some(facts), &settings, at(1_000));
            (why.class, why.sentence)
        };
        let calm = facts(HostState::default());
        assert_eq!(say(&record(), &calm).0, "queued");

        let mut retried = record();
        (retried.due, retried.attempts) = (Some(at(1_010)), 1);
        let (class, sentence) = say(&retried, &calm);
        assert_eq!(class, "retry");
        assert!(sentence.starts_with("attempt 1 of 3 failed"), "{sentence}");

        let full = facts(HostState { pages: 100_000, ..HostState::default() });
        let (class, sentence) = say(&record(), &full);
        assert_eq!(class, "politeness.host_pages_max");
        assert!(sentence.contains("= 100000: a.test has given 100000"), "{sentence}");

        let parked = HostState {
            parked: true,
            faults: 8,
            last_fault: Some(Fault::Status(503)),
            not_before: at(5_000),
            ..HostState::default()
        };
        let (class, sentence) = say(&record(), &facts(parked));
        assert_eq!(class, "parked");
        assert!(sentence.contains("8 times in a row (the server answered 503)"), "{sentence}");

        let mut silent = calm.clone();
        let entry = RobotsEntry {
            access: RobotsAccess::Unreachable { since: at(900) },
            checked_at: at(900),
            expires_at: at(960),
            failures: 2,
            trouble: Some("no connection".into()),
        };
        silent.robots.push((record().url.origin(), entry));
        let (class, sentence) = say(&record(), &silent);
        assert_eq!(class, "robots-unreachable");
        assert!(sentence.contains("(no connection), asked 2 times"), "{sentence}");
    }
}
