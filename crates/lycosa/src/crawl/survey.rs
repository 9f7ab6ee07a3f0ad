//! What has become of all URLs?
//!
//! One walk over the records: how many are in which state, why those that were accepted and not fetched
//! were not, what the pages are, and what each host gave. It goes step by step, so that a crawl at work
//! can be asked in between. Bounded: a crawl of hundreds of millions is counted up to a limit, and the
//! report says so.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

use ports::shard_store::ScanCursor;
use ports::{PortResult, ShardStore};
use serde::{Deserialize, Serialize};
use types::record::{LastVisit, Retirement};
use types::{HostKey, Record, Refusal, State, Timestamp};

use super::measures::{Common, Durations, Timeline};
use crate::settings::Settings;
use crate::waiting::{self, HostFacts};

/// Lines of `reports/skipped.jsonl`.
pub const SKIPPED_LINES_MAX: u64 = 10_000;
/// Hosts in the report, those with most pages.
const HOSTS_MAX: usize = 1_000;
/// Hosts in the lists of the slowest, and of those that forbid most.
const NOTED_HOSTS_MAX: usize = 50;
/// A walk ends after this many records, or this long.
const RECORDS_MAX: u64 = 5_000_000;
const TIME_MAX: Duration = Duration::from_secs(30);
/// Records read in one go.
const STEP: usize = 4_096;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
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
    pub deferred: BTreeMap<String, u64>,
    /// Pages (answers of the 200s) by media type and by language, where they have one.
    pub types: Common,
    pub languages: Common,
    /// Pages of which not all was kept, by the reason.
    pub truncated: BTreeMap<String, u64>,
    /// Latest answers of all URLs, by the time at which they came.
    pub answers_over_time: Timeline,
    /// How long these took, from the first byte of the request to the last of the answer.
    pub took: Durations,
    pub hosts_total: u64,
    pub hosts: Vec<HostReport>,
    /// Those whose answers took longest on average, and those whose robots.txt forbids most.
    pub slowest: Vec<HostReport>,
    pub forbidding: Vec<HostReport>,
    #[serde(skip)]
    pub skipped_total: u64,
}

/// What one host gave. The numbers of URLs have the names that they have for all hosts together,
/// and count the same.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct HostReport {
    pub host: String,
    pub known: u64,
    pub fetched: u64,
    pub moved: u64,
    pub gone: u64,
    pub waiting: u64,
    pub refused: u64,
    /// Of those, by its robots.txt.
    pub forbidden: u64,
    pub dead_letters: u64,
    pub dropped: u64,
    /// Bytes of the latest answers, and how long these took.
    pub body_bytes: u64,
    pub took_ms_mean: Option<u64>,
    pub took_ms_max: Option<u32>,
    /// Answers, those of failed attempts included.
    pub pages: u64,
    /// The same with robots.txt and what was never answered.
    pub requests: u64,
    /// Smallest pause before a request, by the socket's times.
    pub gap_min_ms: Option<u64>,
    pub parked: bool,
    /// URLs that have answered, and how long their latest answers took together.
    #[serde(skip)]
    answered: u64,
    #[serde(skip)]
    took_ms: u64,
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

/// Walks over all shards of a crawl at rest. Gives the lines of `reports/skipped.jsonl` too, up to
/// their limit.
pub fn survey(
    stores: &mut [Box<dyn ShardStore>],
    settings: &Settings,
    now: Timestamp,
) -> anyhow::Result<(Survey, Vec<u8>)> {
    let mut walk = Walk::new(settings.clone(), now);
    for store in stores {
        let mut cursor = ScanCursor::default();
        while !cursor.done && walk.step(&mut **store, &mut cursor)? {}
        walk.leave_host();
    }
    walk.finish()
}

/// The largest by `size`, up to `most`.
fn keep_largest(hosts: &mut Vec<HostReport>, most: usize, size: impl Fn(&HostReport) -> u64) {
    hosts.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| a.host.cmp(&b.host)));
    hosts.truncate(most);
}

/// A list of hosts that may be longer than it will be in the end.
fn note(
    hosts: &mut Vec<HostReport>,
    host: &HostReport,
    most: usize,
    size: impl Fn(&HostReport) -> u64,
) {
    hosts.push(host.clone());
    if hosts.len() >= 4 * most {
        keep_largest(hosts, most, size);
    }
}

const BY_PAGES: fn(&HostReport) -> u64 = |host| host.pages;
const BY_TIME: fn(&HostReport) -> u64 = |host| host.took_ms_mean.unwrap_or(0);
const BY_FORBIDDEN: fn(&HostReport) -> u64 = |host| host.forbidden;

/// A walk that is under way.
#[derive(Debug)]
pub struct Walk {
    survey: Survey,
    settings: Settings,
    now: Timestamp,
    begun: Instant,
    skipped: Vec<u8>,
    host: Option<(HostKey, Option<HostFacts>, HostReport)>,
}

impl Walk {
    pub fn new(settings: Settings, now: Timestamp) -> Self {
        Self {
            survey: Survey { complete: true, ..Survey::default() },
            settings,
            now,
            begun: Instant::now(),
            skipped: Vec::new(),
            host: None,
        }
    }

    /// Looks at the next records of a shard; false when it has seen enough of all.
    pub fn step(
        &mut self,
        store: &mut dyn ShardStore,
        cursor: &mut ScanCursor,
    ) -> anyhow::Result<bool> {
        if self.survey.records >= RECORDS_MAX || self.begun.elapsed() > TIME_MAX {
            self.survey.complete = false;
            return Ok(false);
        }
        for record in store.records(cursor, STEP)? {
            self.take(store, &record)?;
        }
        Ok(true)
    }

    pub fn finish(self) -> anyhow::Result<(Survey, Vec<u8>)> {
        let Self { mut survey, mut skipped, .. } = self;
        keep_largest(&mut survey.hosts, HOSTS_MAX, BY_PAGES);
        keep_largest(&mut survey.slowest, NOTED_HOSTS_MAX, BY_TIME);
        keep_largest(&mut survey.forbidding, NOTED_HOSTS_MAX, BY_FORBIDDEN);
        if survey.skipped_total > SKIPPED_LINES_MAX {
            let more = survey.skipped_total - SKIPPED_LINES_MAX;
            let max = SKIPPED_LINES_MAX;
            writeln!(skipped, "{{\"capped\":true,\"lines_max\":{max},\"more\":{more}}}")?;
        }
        Ok((survey, skipped))
    }

    fn take(&mut self, store: &mut dyn ShardStore, record: &Record) -> anyhow::Result<()> {
        let host = record.url.host_key();
        if self.host.as_ref().is_none_or(|(known, ..)| *known != host) {
            self.leave_host();
            self.enter_host(store, host)?;
        }
        self.survey.records += 1;
        let Some((_, facts, report)) = &mut self.host else { return Ok(()) };
        report.known += 1;
        if let Some(last) = record.last.as_deref() {
            self.survey.measure(last);
            report.measure(last);
        }
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
                let why = waiting::reason(record, facts.as_ref(), &self.settings, self.now);
                *self.survey.deferred.entry(why.class.to_owned()).or_default() += 1;
                (why.class != "queued").then(|| (why.class.to_owned(), why.sentence))
            }
            State::Blocked(refusal) => {
                report.refused += 1;
                report.forbidden += u64::from(matches!(refusal, Refusal::Robots { .. }));
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

    pub fn leave_host(&mut self) {
        let Some((_, _, mut report)) = self.host.take() else { return };
        let survey = &mut self.survey;
        report.took_ms_mean = report.took_ms.checked_div(report.answered);
        note(&mut survey.hosts, &report, HOSTS_MAX, BY_PAGES);
        if report.took_ms_mean.is_some() {
            note(&mut survey.slowest, &report, NOTED_HOSTS_MAX, BY_TIME);
        }
        if report.forbidden > 0 {
            note(&mut survey.forbidding, &report, NOTED_HOSTS_MAX, BY_FORBIDDEN);
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
        serde_json::to_writer(&mut self.skipped, &line)?;
        self.skipped.write_all(b"\n")?;
        Ok(())
    }
}

impl Survey {
    /// What an answer is.
    fn measure(&mut self, last: &LastVisit) {
        self.answers_over_time.add(last.at.secs());
        self.took.add(last.answer.took_ms);
        if !(200..300).contains(&last.answer.status) {
            return;
        }
        self.types.add(last.answer.content_type.as_deref().unwrap_or("(none)"));
        if let Some(language) = last.answer.text.as_ref().and_then(|text| text.language.as_deref())
        {
            self.languages.add(language);
        }
        if let Some(why) = last.answer.truncated {
            *self.truncated.entry(why.as_str().to_owned()).or_default() += 1;
        }
    }
}

impl HostReport {
    fn measure(&mut self, last: &LastVisit) {
        let took = last.answer.took_ms;
        self.answered += 1;
        self.took_ms += u64::from(took);
        self.took_ms_max = self.took_ms_max.max(Some(took));
        self.body_bytes += last.answer.body_bytes;
    }
}
