//! Why does a URL that was accepted wait?
//!
//! Never silent: what is deferred has a reason that names the rule and the value. It is computed
//! from the state, by `explain`, and counted for the report.

use std::time::Duration;

use ports::shard_store::{HostRow, RefillWant, SiteState};
use ports::{PortResult, RobotsEntry, ShardStore};
use types::{Fault, HostKey, HumanDuration, Origin, QueueKey, Record, Timestamp};

use crate::settings::Settings;

/// All that a shard knows of a host.
#[derive(Debug, Clone)]
pub struct HostFacts {
    pub row: HostRow,
    pub site: SiteState,
    pub robots: Vec<(Origin, RobotsEntry)>,
}

impl HostFacts {
    /// Its queue is counted up to `counted_max`.
    pub fn read(
        store: &mut dyn ShardStore,
        host: &HostKey,
        counted_max: u64,
    ) -> PortResult<Option<Self>> {
        let Some(row) = store.host(host, counted_max)? else { return Ok(None) };
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
        return why("retry", retry(record, facts, settings, due));
    }
    let Some(facts) = facts else {
        return why("queued", "its turn has not come".to_owned());
    };
    let host = &facts.row.host;
    if settings.obeys_robots(record.url.host())
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
    by_host(&facts.row, settings, now)
}

/// What failed, which attempt it was, and what the next one waits for.
///
/// The record keeps the latest answer but no fault without one; that is with the host, which
/// forgets it after a good answer.
fn retry(
    record: &Record,
    facts: Option<&HostFacts>,
    settings: &Settings,
    due: Timestamp,
) -> String {
    let host_fault = facts.and_then(|facts| facts.row.state.last_fault.as_ref());
    let wait = record.retry_wait(settings.fetch.retry_delay.get());
    let last = record.last.as_deref().filter(|last| is_failure(last.answer.status));
    // An answer is the attempt's own if it was the first one, or if the next is due by it, or if
    // the host has not failed in another way since.
    let last = last.filter(|last| {
        record.attempts == 1
            || due == last.at + wait
            || matches!(host_fault, None | Some(Fault::Status(_)))
    });
    let fault = match (last, host_fault) {
        (Some(last), _) => Fault::Status(last.answer.status).to_string(),
        (None, Some(fault)) => fault.to_string(),
        (None, None) => "no answer".to_owned(),
    };
    let asked = last.map(|last| due.since(last.at)).filter(|asked| *asked > wait);
    let rule = match asked {
        Some(asked) => format!("the server asked for {} (Retry-After)", rounded(asked)),
        None => format!(
            "fetch.retry_delay = {}, four times as long after each attempt and up to a quarter \
             more: {}",
            settings.fetch.retry_delay,
            rounded(wait)
        ),
    };
    let (n, max) = (record.attempts, settings.fetch.attempts_max);
    format!(
        "attempt {n} of fetch.attempts_max = {max} failed: {fault}; {rule}; the next one is due at \
         {due}"
    )
}

/// An answer that speaks of the server's health and not of the page.
pub const fn is_failure(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..)
}

/// Whole seconds, where there are any.
fn rounded(span: Duration) -> HumanDuration {
    match span.as_secs() {
        0 => HumanDuration(span),
        _ => HumanDuration::from_secs(span.as_secs_f64().round() as u64),
    }
}

fn by_host(row: &HostRow, settings: &Settings, now: Timestamp) -> Why {
    let HostRow { host, state, rule, .. } = row;
    let fault = state.last_fault.as_ref().map(|fault| format!(" ({fault})")).unwrap_or_default();
    let until = state.not_before;
    if state.parked && until > now {
        let after = settings.politeness.park_after;
        let sentence = format!(
            "politeness.park_after = {after}: {host} failed {} times in a row{fault}; parked until \
             {until}",
            state.faults
        );
        return why("parked", sentence);
    }
    if let Some(delay) = rule.delay().filter(|delay| *delay > settings.politeness.delay.get())
        && until > now
    {
        let delay = HumanDuration(delay);
        let sentence = format!("{host} has a delay of its own, {delay}; next visit {until}");
        return why("pause", sentence);
    }
    if until > now + settings.crawl.patience.get() {
        return why("pause", format!("{host} is not visited before {until}{fault}"));
    }
    if state.faults > 0 {
        let sentence = format!(
            "{host} failed {} times in a row{fault}; its pause is doubled each time, up to \
             politeness.backoff_max = {}; next visit {until}",
            state.faults, settings.politeness.backoff_max
        );
        return why("backoff", sentence);
    }
    why("queued", "its turn has not come".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ports::robots_entry::RobotsAccess;
    use types::outcome::{Answer, Failure};
    use types::{CrawlUrl, Discovery, HostRule, HostState, Outcome};

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn record() -> Record {
        let found = Discovery { at: at(0), depth: 1, hops: 0, seed: false, band: 1 };
        Record::new(CrawlUrl::parse("http://a.test/x").unwrap(), found)
    }

    fn facts(state: HostState) -> HostFacts {
        let (host, rule) = (HostKey::new("a.test"), HostRule::default());
        let row = HostRow { host, state, rule, waiting: 1, best_band: 0 };
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
        assert!(sentence.starts_with("attempt 1 of fetch.attempts_max = 3 failed"), "{sentence}");

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
        assert!(sentence.starts_with("politeness.park_after = 8: a.test failed"), "{sentence}");
        assert!(sentence.contains("8 times in a row (the server answered 503)"), "{sentence}");

        let mut slowed = facts(HostState { not_before: at(1_030), ..HostState::default() });
        slowed.row.rule = HostRule { delay_ms: Some(60_000) };
        let (class, sentence) = say(&record(), &slowed);
        assert_eq!(class, "pause");
        assert!(sentence.contains("a delay of its own, 1m; next visit"), "{sentence}");

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

    #[test]
    fn a_retry_names_its_fault_its_attempt_and_what_it_waits_for() {
        let settings = Settings::default();
        // As a visit is settled: the record by the rules of `types`, the host by its last fault.
        let failed = |record: &mut Record, secs: u64, fault: Fault, retry_after: Option<u64>| {
            let answer = match fault {
                Fault::Status(status) => Some(Answer { status, ..Answer::default() }),
                _ => None,
            };
            let retry_after = retry_after.map(Duration::from_secs);
            let outcome = Outcome::Failed(Failure { fault: fault.clone(), retry_after, answer });
            record.settle(
                types::VisitId(secs),
                &outcome,
                at(secs),
                crate::wiring::retry(&settings),
            );
            let host = HostState { last_fault: Some(fault), faults: 1, ..HostState::default() };
            reason(record, Some(&facts(host)), &settings, at(secs)).sentence
        };
        let mut url = record();
        assert_eq!(
            failed(&mut url, 1_000, Fault::Status(503), None),
            "attempt 1 of fetch.attempts_max = 3 failed: the server answered 503; \
             fetch.retry_delay = 10s, four times as long after each attempt and up to a quarter \
             more: 10s; the next one is due at 1970-01-01T00:16:50Z"
        );
        // What the server asked for, where that is longer.
        let mut asked = record();
        let sentence = failed(&mut asked, 1_000, Fault::Status(429), Some(120));
        assert!(sentence.contains("answered 429; the server asked for 2m (Retry-After)"));
        let sentence = failed(&mut asked, 2_000, Fault::Status(503), Some(60));
        assert!(sentence.contains("attempt 2 of"), "{sentence}");
        assert!(sentence.contains("answered 503; the server asked for 1m"), "{sentence}");
        // A fault without an answer, after one with: the old answer is not blamed.
        let sentence = failed(&mut url, 1_010, Fault::Timeout("first byte".into()), None);
        assert!(sentence.contains("attempt 2 of"), "{sentence}");
        assert!(
            sentence.contains("failed: time limit reached: first byte; fetch.retry_delay = 10s")
        );
        assert!(sentence.contains("a quarter more: 49s; the next one is due at"), "{sentence}");
    }
}
