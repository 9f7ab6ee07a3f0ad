//! What has become of all URLs?
//!
//! One walk over the records of a crawl at rest: how many are in which state, why those that were
//! accepted and not fetched were not, and what each host gave. Bounded: a crawl of hundreds of
//! millions is counted up to a limit, and the report says so.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use ports::shard_store::ScanCursor;
use ports::{PortResult, ShardStore};
use serde::Serialize;
use types::record::Retirement;
use types::{HostKey, Record, State, Timestamp};

use crate::settings::Settings;
use crate::waiting::{self, HostFacts};

/// Lines of `reports/skipped.jsonl`.
pub const SKIPPED_LINES_MAX: u64 = 10_000;
/// Hosts in the report, those with most pages.
const HOSTS_MAX: usize = 1_000;
/// A walk ends after this many records, or this long.
const RECORDS_MAX: u64 = 5_000_000;
const TIME_MAX: Duration = Duration::from_secs(30);
/// Records read in one go.
const STEP: usize = 4_096;

#[derive(Debug, Default, Serialize)]
pub struct Survey {
    /// Every record was looked at.
    pub complete: bool,
    pub records: u64,
    /// The server gave a page of its own.
    pub fetched: u64,
    pub moved: u64,
    /// The server said that there is nothing (4xx).
    pub gone: u64,
    pub refused: BTreeMap<String, u64>,
    pub dead_letters: BTreeMap<String, u64>,
    /// Dead letters that somebody has dropped.
    pub dropped: u64,
    /// Accepted, not fetched yet, by what they wait for.
    pub deferred: BTreeMap<&'static str, u64>,
    pub hosts_total: u64,
    pub hosts: Vec<HostReport>,
    #[serde(skip)]
    pub skipped_total: u64,
}

/// What one host gave. The numbers of URLs have the names that they have for all hosts together,
/// and count the same.
#[derive(Debug, Clone, Default, Serialize)]
pub struct HostReport {
    pub host: String,
    pub known: u64,
    pub fetched: u64,
    pub moved: u64,
    pub gone: u64,
    pub waiting: u64,
    pub refused: u64,
    pub dead_letters: u64,
    pub dropped: u64,
    /// Answers, those of failed attempts included.
    pub pages: u64,
    /// The same with robots.txt and what was never answered.
    pub requests: u64,
    /// Smallest pause before a request, by the socket's times.
    pub gap_min_ms: Option<u64>,
    pub parked: bool,
}

/// One line of `reports/skipped.jsonl`.
#[derive(Debug, Serialize)]
struct Skipped<'a> {
    url: &'a str,
    ts: String,
    depth: u16,
    seed: bool,
    reason: &'a str,
    detail: String,
}

/// Walks over all shards; the skipped URLs go to `skipped`, up to their limit.
pub fn survey(
    stores: &mut [Box<dyn ShardStore>],
    settings: &Settings,
    now: Timestamp,
    skipped: &mut dyn Write,
) -> anyhow::Result<Survey> {
    let mut walk = Walk {
        survey: Survey { complete: true, ..Survey::default() },
        settings,
        now,
        skipped,
        host: None,
    };
    let begun = Instant::now();
    for store in stores {
        let mut cursor = ScanCursor::default();
        while !cursor.done {
            if walk.survey.records >= RECORDS_MAX || begun.elapsed() > TIME_MAX {
                walk.survey.complete = false;
                break;
            }
            for record in store.records(&mut cursor, STEP)? {
                walk.take(&mut **store, &record)?;
            }
        }
        walk.leave_host();
    }
    let Walk { mut survey, skipped, .. } = walk;
    keep_largest(&mut survey.hosts);
    if survey.skipped_total > SKIPPED_LINES_MAX {
        let more = survey.skipped_total - SKIPPED_LINES_MAX;
        writeln!(skipped, "{{\"capped\":true,\"lines_max\":{SKIPPED_LINES_MAX},\"more\":{more}}}")?;
    }
    Ok(survey)
}

fn keep_largest(hosts: &mut Vec<HostReport>) {
    hosts.sort_by(|a, b| b.pages.cmp(&a.pages).then_with(|| a.host.cmp(&b.host)));
    hosts.truncate(HOSTS_MAX);
}

struct Walk<'a> {
    survey: Survey,
    settings: &'a Settings,
    now: Timestamp,
    skipped: &'a mut dyn Write,
    host: Option<(HostKey, Option<HostFacts>, HostReport)>,
}

impl Walk<'_> {
    fn take(&mut self, store: &mut dyn ShardStore, record: &Record) -> anyhow::Result<()> {
        let host = record.url.host_key();
        if self.host.as_ref().is_none_or(|(known, ..)| *known != host) {
            self.leave_host();
            self.enter_host(store, host)?;
        }
        self.survey.records += 1;
        let Some((_, facts, report)) = &mut self.host else { return Ok(()) };
        report.known += 1;
        let skipped: Option<(String, String)> = match &record.state {
            State::Parsed => {
                if record.last.as_ref().is_some_and(|last| last.moved_to.is_some()) {
                    report.moved += 1;
                    self.survey.moved += 1;
                } else {
                    report.fetched += 1;
                    self.survey.fetched += 1;
                }
                None
            }
            State::Queued => {
                report.waiting += u64::from(record.due.is_none());
                let why = waiting::reason(record, facts.as_ref(), self.settings, self.now);
                *self.survey.deferred.entry(why.class).or_default() += 1;
                (why.class != "queued").then(|| (why.class.to_owned(), why.sentence))
            }
            State::Blocked(refusal) => {
                report.refused += 1;
                let class = refusal.class().to_owned();
                *self.survey.refused.entry(class.clone()).or_default() += 1;
                Some((class, refusal.to_string()))
            }
            State::Retired(Retirement::Gone(_)) => {
                report.gone += 1;
                self.survey.gone += 1;
                None
            }
            State::Retired(dead @ Retirement::DeadLetter { fault, .. }) => {
                report.dead_letters += 1;
                let name = fault.name().to_owned();
                *self.survey.dead_letters.entry(name.clone()).or_default() += 1;
                Some((format!("dead letter: {name}"), dead.to_string()))
            }
            State::Retired(dropped @ Retirement::Dropped { .. }) => {
                report.dropped += 1;
                self.survey.dropped += 1;
                Some(("dropped".to_owned(), dropped.to_string()))
            }
        };
        if let Some((reason, detail)) = skipped {
            self.skip(record, &reason, detail)?;
        }
        Ok(())
    }

    fn enter_host(&mut self, store: &mut dyn ShardStore, host: HostKey) -> PortResult<()> {
        let facts = HostFacts::read(store, &host, 0)?;
        let mut report = HostReport { host: host.to_string(), ..HostReport::default() };
        if let Some(HostFacts { row, .. }) = &facts {
            report.pages = row.state.pages;
            report.requests = row.state.requests;
            report.gap_min_ms = row.state.gap_min_ms;
            report.parked = row.state.parked;
        }
        self.survey.hosts_total += 1;
        self.host = Some((host, facts, report));
        Ok(())
    }

    fn leave_host(&mut self) {
        if let Some((_, _, report)) = self.host.take() {
            self.survey.hosts.push(report);
            if self.survey.hosts.len() >= 4 * HOSTS_MAX {
                keep_largest(&mut self.survey.hosts);
            }
        }
    }

    fn skip(&mut self, record: &Record, reason: &str, detail: String) -> anyhow::Result<()> {
        self.survey.skipped_total += 1;
        if self.survey.skipped_total > SKIPPED_LINES_MAX {
            return Ok(());
        }
        let at = record.last.as_ref().map_or(record.found.at, |last| last.at);
        let line = Skipped {
            url: record.url.as_str(),
            ts: at.rfc3339(),
            depth: record.found.depth,
            seed: record.found.seed,
            reason,
            detail,
        };
        serde_json::to_writer(&mut *self.skipped, &line)?;
        self.skipped.write_all(b"\n")?;
        Ok(())
    }
}
