//! What do callers of URLFrontier ask for, and how fast is it done?
//!
//! The counters carry the names by which the dashboard of its Java server knows them.

use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::foreign::desk::{Put, Taken, What};

/// The counters of one service; all clones count together.
#[derive(Debug, Clone)]
pub struct ForeignEvents {
    get_calls: Counter,
    got: Counter,
    get_latency: Histogram,
    put_calls: Counter,
    put_discovered_calls: Counter,
    put: Counter,
    discovered: Family<Discovered, Counter>,
    ignored: Counter,
    completed: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Discovered {
    discovered: &'static str,
}

impl Default for ForeignEvents {
    fn default() -> Self {
        Self {
            get_calls: Counter::default(),
            got: Counter::default(),
            // From 0.1 ms to some three seconds; a caller who reads slowly takes longer.
            get_latency: Histogram::new(exponential_buckets(0.000_1, 2.0, 16)),
            put_calls: Counter::default(),
            put_discovered_calls: Counter::default(),
            put: Counter::default(),
            discovered: Family::default(),
            ignored: Counter::default(),
            completed: Counter::default(),
        }
    }
}

impl ForeignEvents {
    /// All counters under their names, for `/metrics`, where `_total` is added to them.
    pub fn register(&self, registry: &mut Registry) {
        // Both are there from the beginning, not only when they are first counted.
        for discovered in ["true", "false"] {
            self.discovered.get_or_create(&Discovered { discovered }).inc_by(0);
        }
        macro_rules! metrics {
            ($($name:literal, $help:literal, $field:ident;)*) => {
                $(registry.register($name, $help, self.$field.clone());)*
            };
        }
        metrics! {
            "frontier_getURLs_calls", "Calls of GetURLs", get_calls;
            "frontier_getURLs", "URLs that were served", got;
            "frontier_getURLs_latency_seconds", "Time of a GetURLs call", get_latency;
            "frontier_putURLs_calls", "Calls of PutURLs", put_calls;
            "frontier_putDiscovered_calls", "Calls of PutDiscovered", put_discovered_calls;
            "frontier_putURLs", "URLs that were sent to us", put;
            "frontier_putURLs_discovered", "Those, by whether they were sent as discovered", discovered;
            "frontier_putURLs_ignored", "Those that were known already, or cannot be taken", ignored;
            "frontier_putURLs_completed", "Those that are done with", completed;
        }
    }

    pub(crate) fn get_called(&self) -> Instant {
        self.get_calls.inc();
        Instant::now()
    }

    pub(crate) fn get_answered(&self, called_at: Instant) {
        self.get_latency.observe(called_at.elapsed().as_secs_f64());
    }

    pub(crate) fn served(&self, urls: usize) {
        self.got.inc_by(urls as u64);
    }

    pub(crate) fn put_called(&self) {
        self.put_calls.inc();
    }

    pub(crate) fn put_discovered_called(&self) {
        self.put_discovered_calls.inc();
    }

    /// Items that no queue can be told for.
    pub(crate) fn unusable(&self, items: usize) {
        self.put.inc_by(items as u64);
        self.ignored.inc_by(items as u64);
    }

    /// What became of a group.
    pub(crate) fn taken(&self, puts: &[Put], taken: &[Taken]) {
        let (mut discovered, mut ignored, mut completed) = (0, 0, 0);
        for (put, taken) in puts.iter().zip(taken) {
            discovered += u64::from(put.what == What::Discovered);
            ignored += u64::from(*taken == Taken::Skipped);
            completed += u64::from(*taken == Taken::Ok && put.what == (What::Known { due: None }));
        }
        let all = puts.len() as u64;
        self.put.inc_by(all);
        self.discovered.get_or_create(&Discovered { discovered: "true" }).inc_by(discovered);
        let known = all - discovered;
        self.discovered.get_or_create(&Discovered { discovered: "false" }).inc_by(known);
        self.ignored.inc_by(ignored);
        self.completed.inc_by(completed);
    }
}
