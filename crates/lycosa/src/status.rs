//! How does a crawl stand?
//!
//! From the counters that its state keeps, and from the run if there is one. Travels as JSON, like
//! `explain`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use engine::{SKIPPED, UNCHANGED};
use local::{DuplicateCounts, Duplicates};
use ports::shard_store::{Counts, Tally, WaitingHost};
use ports::{PortResult, ShardStore};
use serde::{Deserialize, Serialize};
use types::Timestamp;

use crate::wiring::Outputs;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Status {
    /// The process that crawls, if one does.
    pub process: Option<u32>,
    pub pages: u64,
    /// Visits that found a page as we had it.
    pub unchanged: u64,
    pub known: u64,
    pub queued: u64,
    pub scheduled: u64,
    pub body_bytes: u64,
    pub archive_bytes: u64,
    pub robots_requests: u64,
    pub statuses: BTreeMap<String, u64>,
    pub refused: BTreeMap<String, u64>,
    pub failed: BTreeMap<String, u64>,
    /// Links that were not taken, by the reason.
    pub links_skipped: BTreeMap<String, u64>,
    /// Pages with a text, and those that are copies; none where they are not compared.
    pub duplicates: Option<DuplicateCounts>,
    pub in_flight: u64,
    /// Seconds since this run began.
    pub run_seconds: Option<f64>,
    pub run_pages: Option<u64>,
    pub pages_per_second: Option<f64>,
    /// Hosts with most waiting URLs.
    pub hosts: Vec<HostLine>,
    pub paused: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostLine {
    pub host: String,
    /// Counted up to a thousand.
    pub waiting: u64,
    pub pages: u64,
    /// None if it was never visited.
    pub next_visit: Option<String>,
    pub parked: bool,
}

/// Hosts looked at, and shown; and how far the queue of each is counted: a crawl at work waits
/// meanwhile.
const HOSTS_READ_MAX: usize = 1_000;
const WAITING_COUNTED_MAX: u64 = 1_000;
const HOSTS_SHOWN_MAX: usize = 10;

/// What one shard's store knows.
#[derive(Debug, Default)]
pub struct ShardStanding {
    counts: Counts,
    tally: Tally,
    hosts: Vec<HostLine>,
}

impl ShardStanding {
    /// Without `hosts` it costs nothing but a few counters.
    pub fn read(store: &mut dyn ShardStore, hosts: bool) -> PortResult<Self> {
        let waiting = if hosts { store.hosts(None, HOSTS_READ_MAX)? } else { Vec::new() };
        let mut hosts = Vec::with_capacity(waiting.len());
        for WaitingHost { host, .. } in waiting {
            if let Some(row) = store.host(&host, WAITING_COUNTED_MAX)? {
                hosts.push(HostLine {
                    host: row.host.to_string(),
                    waiting: row.waiting,
                    pages: row.state.pages,
                    next_visit: moment(row.state.not_before),
                    parked: row.state.parked,
                });
            }
        }
        let hosts = busiest(hosts);
        Ok(Self { counts: store.counts(), tally: store.tally().clone(), hosts })
    }
}

fn busiest(mut hosts: Vec<HostLine>) -> Vec<HostLine> {
    hosts.sort_by(|a, b| b.waiting.cmp(&a.waiting).then_with(|| a.host.cmp(&b.host)));
    hosts.truncate(HOSTS_SHOWN_MAX);
    hosts
}

impl Status {
    pub fn of(shards: Vec<ShardStanding>) -> Self {
        let mut status = Self::default();
        let mut tally = Tally::default();
        for shard in shards {
            status.known += shard.counts.known;
            status.queued += shard.counts.queued;
            status.scheduled += shard.counts.scheduled;
            status.hosts.extend(shard.hosts);
            tally.merge(&shard.tally);
        }
        status.hosts = busiest(status.hosts);
        status.pages = tally.get("pages");
        status.unchanged = tally.get(UNCHANGED);
        status.body_bytes = tally.get("body_bytes");
        status.robots_requests = tally.get("robots_requests");
        status.statuses = under(&tally, "status.");
        status.refused = under(&tally, "refused.");
        status.failed = under(&tally, "failed.");
        status.links_skipped = under(&tally, SKIPPED);
        status
    }

    /// With what is known for all shards together.
    pub fn with(mut self, outputs: &Outputs) -> Self {
        self.duplicates = outputs.duplicates.as_ref().map(Duplicates::counts);
        self
    }

    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, text: String| {
            let _ = writeln!(out, "{name:<9} {text}");
        };
        match self.process {
            Some(pid) => {
                let rate = self.pages_per_second.unwrap_or_default();
                let paused = if self.paused { ", paused: the disk is nearly full" } else { "" };
                let run = self.run_seconds.unwrap_or_default();
                let text = format!(
                    "crawling (process {pid}) for {run:.0} s, {rate:.1} pages/s, {} in flight{paused}",
                    self.in_flight
                );
                line("state", text);
            }
            None => line("state", "at rest".to_owned()),
        }
        let mut pages = format!("{} ({})", self.pages, size(self.body_bytes));
        if self.unchanged > 0 {
            let _ = write!(pages, ", {} of them as we had them", self.unchanged);
        }
        line("pages", pages);
        let Self { known, queued, scheduled, .. } = self;
        line("urls", format!("{known} known, {queued} queued, {scheduled} waiting for a retry"));
        line("archive", size(self.archive_bytes));
        if let Some(counts) = &self.duplicates {
            line("copies", copies(counts));
        }
        for (name, counts) in
            [("statuses", &self.statuses), ("refused", &self.refused), ("failed", &self.failed)]
        {
            if !counts.is_empty() {
                line(name, counted(counts));
            }
        }
        for host in &self.hosts {
            let parked = if host.parked { ", parked" } else { "" };
            let next = host.next_visit.as_deref().unwrap_or("now");
            let HostLine { host, waiting, pages, .. } = host;
            let more = if *waiting == WAITING_COUNTED_MAX { " or more" } else { "" };
            let text =
                format!("{host}: {waiting}{more} waiting, {pages} pages, next {next}{parked}");
            line("host", text);
        }
        out
    }
}

/// `12 of 340 pages with a text (3.5 %)`.
pub fn copies(counts: &DuplicateCounts) -> String {
    let (copies, pages) = (counts.copies(), counts.pages);
    let share = 100.0 * copies as f64 / pages.max(1) as f64;
    format!("{copies} of {pages} pages with a text ({share:.1} %)")
}

/// A moment that has been set.
pub fn moment(at: Timestamp) -> Option<String> {
    (at > Timestamp::ZERO).then(|| at.rfc3339())
}

/// The counters whose names begin so, without that.
pub fn under(tally: &Tally, prefix: &str) -> BTreeMap<String, u64> {
    let found = tally.0.iter().filter_map(|(name, count)| {
        name.strip_prefix(prefix).map(|rest| (rest.to_owned(), *count))
    });
    found.collect()
}

/// `200: 12, 404: 3`.
pub fn counted(counts: &BTreeMap<String, u64>) -> String {
    let parts: Vec<String> = counts.iter().map(|(name, n)| format!("{name}: {n}")).collect();
    parts.join(", ")
}

/// `1.2 MB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, f64); 4] = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)];
    let bytes_f = bytes as f64;
    match UNITS.iter().find(|(_, unit)| bytes_f >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes_f / unit),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1_500), "1.5 KB");
        assert_eq!(size(2_345_678_901), "2.3 GB");
    }

    #[test]
    fn counters_are_sorted_into_their_kinds() {
        let mut tally = Tally::default();
        tally.add("pages", 3);
        tally.add("status.200", 2);
        tally.add("status.404", 1);
        tally.add("refused.robots", 5);
        let standing = ShardStanding { tally, ..ShardStanding::default() };
        let status = Status::of(vec![standing]);
        assert_eq!(status.pages, 3);
        assert_eq!(counted(&status.statuses), "200: 2, 404: 1");
        assert_eq!(status.refused["robots"], 5);
    }
}
