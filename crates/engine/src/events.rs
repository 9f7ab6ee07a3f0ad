//! What happened that somebody may want to know?
//!
//! One method per noteworthy event: the log line and the counter come from one place and carry
//! one name. Events of single URLs are `debug`; a change of state is `info`; what is odd, but did
//! not stop us, is `warn`.

use std::fmt::Debug;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use frontier::Alert;
use ports::shard_store::SeenFacts;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tracing::{debug, info, warn};
use types::{HostKey, Outcome, ShardId};

/// The counters of one process. Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub struct Events {
    visits: Family<Kind, Counter>,
    statuses: Family<Status, Counter>,
    refused: Family<Reason, Counter>,
    skipped: Family<Reason, Counter>,
    failed: Family<Reason, Counter>,
    body_bytes: Counter,
    links: Counter,
    accepted: Counter,
    known: Counter,
    gap: Histogram,
    answer: Histogram,
    name_wait: Histogram,
    commit: Histogram,
    in_flight: Gauge,
    active_hosts: Gauge,
    inactive_hosts: Gauge,
    alerts: Family<Reason, Counter>,
    pub archive_bytes: Gauge<u64, AtomicU64>,
    seen: Family<AnsweredBy, Counter>,
    filter_urls: Family<Shard, Gauge>,
    filter_bytes: Family<Shard, Gauge>,
    filter_errors: Family<Shard, Gauge<f64, AtomicU64>>,
}

/// Who knew whether a link was new: the table of recent URLs, the filter, the store, or the store
/// because the filter had erred.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnsweredBy {
    by: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Shard {
    shard: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Status {
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: String,
}

fn reason(text: &str) -> Reason {
    Reason { reason: text.to_owned() }
}

impl Default for Events {
    fn default() -> Self {
        // From 1 ms to about 9 h for gaps, to 65 s for answers.
        let seconds = |count| Histogram::new(exponential_buckets(0.001, 2.0, count));
        Self {
            visits: Family::default(),
            statuses: Family::default(),
            refused: Family::default(),
            skipped: Family::default(),
            failed: Family::default(),
            body_bytes: Counter::default(),
            links: Counter::default(),
            accepted: Counter::default(),
            known: Counter::default(),
            gap: seconds(25),
            answer: seconds(17),
            name_wait: seconds(17),
            commit: seconds(17),
            in_flight: Gauge::default(),
            active_hosts: Gauge::default(),
            inactive_hosts: Gauge::default(),
            alerts: Family::default(),
            archive_bytes: Gauge::default(),
            seen: Family::default(),
            filter_urls: Family::default(),
            filter_bytes: Family::default(),
            filter_errors: Family::default(),
        }
    }
}

impl Events {
    /// All counters under their names, for `/metrics`.
    pub fn register(&self, registry: &mut Registry) {
        macro_rules! metrics {
            ($($name:literal, $help:literal, $field:ident;)*) => {
                $(registry.register($name, $help, self.$field.clone());)*
            };
        }
        metrics! {
            "lycosa_visits", "Visits by what they came to", visits;
            "lycosa_answers", "Answers by status", statuses;
            "lycosa_refused", "Accepted URLs that were not requested, by who refused", refused;
            "lycosa_links_skipped", "Links that were not taken, by the reason", skipped;
            "lycosa_failures", "Failed visits by fault", failed;
            "lycosa_body_bytes", "Bytes of bodies received", body_bytes;
            "lycosa_links", "Links found on pages", links;
            "lycosa_urls_accepted", "New URLs in the frontier", accepted;
            "lycosa_links_known", "Links to URLs that were known", known;
            "lycosa_politeness_gap_seconds", "Measured pause before a request to a host", gap;
            "lycosa_answer_seconds", "Time from request to last byte", answer;
            "lycosa_dns_wait_seconds", "Time a visit could have gone and its host's name was not known", name_wait;
            "lycosa_commit_seconds", "Time of one group commit", commit;
            "lycosa_in_flight", "Visits that are not committed yet", in_flight;
            "lycosa_active_hosts", "Hosts in memory with their queues", active_hosts;
            "lycosa_inactive_hosts", "Hosts that wait for their activation", inactive_hosts;
            "lycosa_alerts", "Things a human should look at", alerts;
            "lycosa_archive_bytes", "Bytes in archive files", archive_bytes;
            "lycosa_seen", "Links by who knew whether they were new", seen;
            "lycosa_seen_filter_urls", "URLs that the filter knows", filter_urls;
            "lycosa_seen_filter_bytes", "Memory of the filter", filter_bytes;
            "lycosa_seen_filter_error_ratio", "Strange URLs it takes for known", filter_errors;
        }
    }

    pub fn visited(&self, url: &str, outcome: &Outcome) {
        self.visits.get_or_create(&Kind { outcome: outcome.name() }).inc();
        if let Some(answer) = outcome.answer() {
            self.statuses.get_or_create(&Status { status: answer.status }).inc();
            self.body_bytes.inc_by(answer.body_bytes);
            self.answer.observe(f64::from(answer.took_ms) / 1_000.0);
            self.links.inc_by(u64::from(answer.links));
            debug!(
                url,
                status = answer.status,
                bytes = answer.body_bytes,
                elapsed_ms = answer.took_ms,
                outcome = outcome.name(),
                "visited"
            );
        }
        match outcome {
            Outcome::Refused(refusal) => {
                self.refused.get_or_create(&reason(refusal.class())).inc();
                debug!(url, reason = %refusal, "refused");
            }
            Outcome::Failed(failure) => {
                self.failed.get_or_create(&reason(failure.fault.name())).inc();
                debug!(url, fault = %failure.fault, blame = ?failure.fault.blame(), "failed");
            }
            _ => {}
        }
    }

    /// Links that were not taken. Their reason follows from settings and is not stored.
    pub fn skipped(&self, why: &str, links: u64) {
        self.skipped.get_or_create(&reason(why)).inc_by(links);
    }

    pub fn gap(&self, gap: Duration) {
        self.gap.observe(gap.as_secs_f64());
    }

    /// How long a visit that could have gone waited for its host's address.
    pub fn name_wait(&self, wait: Duration) {
        self.name_wait.observe(wait.as_secs_f64());
    }

    pub fn committed(&self, visits: usize, accepted: usize, known: u64, took: Duration) {
        self.accepted.inc_by(accepted as u64);
        self.known.inc_by(known);
        self.commit.observe(took.as_secs_f64());
        debug!(visits, accepted, known, elapsed_ms = took.as_millis() as u64, "committed");
    }

    /// How the seen test of a shard goes: as counted before, and as it is now.
    pub fn seen(&self, shard: ShardId, before: &SeenFacts, now: &SeenFacts) {
        let answers = [
            ("recent", now.recent - before.recent),
            ("filter", now.new - before.new),
            ("store", now.exact - before.exact),
            ("store-in-vain", now.in_vain - before.in_vain),
        ];
        for (by, more) in answers {
            self.seen.get_or_create(&AnsweredBy { by }).inc_by(more);
        }
        let (shard, filter) = (Shard { shard: shard.0 }, &now.filter);
        self.filter_urls.get_or_create(&shard).set(filter.urls as i64);
        self.filter_bytes.get_or_create(&shard).set(filter.bytes as i64);
        let errors = f64::from(filter.errors_per_million) / 1e6;
        self.filter_errors.get_or_create(&shard).set(errors);
    }

    pub fn standing(&self, in_flight: i64, active: i64, inactive: i64) {
        self.in_flight.inc_by(in_flight);
        self.active_hosts.inc_by(active);
        self.inactive_hosts.inc_by(inactive);
    }

    pub fn alert(&self, host: &HostKey, alert: &Alert) {
        match alert {
            Alert::Parked { faults, last } => {
                self.alerts.get_or_create(&reason("parked")).inc();
                info!(%host, faults, fault = %last, "host parked");
            }
            Alert::Denied { times } => {
                self.alerts.get_or_create(&reason("denied")).inc();
                warn!(%host, times, "host answers 403 again and again");
            }
        }
    }

    pub fn taken(&self, host: &HostKey) {
        self.alerts.get_or_create(&reason("taken")).inc();
        info!(%host, "host waits: another crawl on this machine visits it");
    }

    pub fn lost(&self, visits: usize) {
        if visits > 0 {
            info!(visits, "visits of the last run were lost and will be made again");
        }
    }
}
