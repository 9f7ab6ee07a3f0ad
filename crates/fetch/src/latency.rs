//! How long does it take to learn an address?
//!
//! Counters without a lock, in the shape that a histogram of metrics wants.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in milliseconds; one more bucket holds the rest.
pub const LATENCY_BOUNDS_MS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];

const BUCKETS: usize = LATENCY_BOUNDS_MS.len() + 1;

/// What a resolver has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsStats {
    /// Answers from memory.
    pub hits: u64,
    /// Names asked for, of which…
    pub queries: u64,
    /// …so many brought no address.
    pub failed: u64,
    /// Names in memory.
    pub entries: usize,
    /// Name servers that do not answer at the moment.
    pub sick: usize,
    /// How many queries took how long: up to each of [`LATENCY_BOUNDS_MS`], and longer. Not
    /// cumulative.
    pub latency: [u64; BUCKETS],
    /// All of them together.
    pub latency_sum: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Meter {
    hits: AtomicU64,
    queries: AtomicU64,
    failed: AtomicU64,
    latency: [AtomicU64; BUCKETS],
    latency_micros: AtomicU64,
}

impl Meter {
    pub(crate) fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn query(&self, took: Duration, found: bool) {
        self.queries.fetch_add(1, Ordering::Relaxed);
        self.failed.fetch_add(u64::from(!found), Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = LATENCY_BOUNDS_MS.partition_point(|&bound| bound * 1_000 < micros);
        self.latency[bucket].fetch_add(1, Ordering::Relaxed);
        self.latency_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, entries: usize) -> DnsStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DnsStats {
            hits: load(&self.hits),
            queries: load(&self.queries),
            failed: load(&self.failed),
            entries,
            sick: 0,
            latency: std::array::from_fn(|n| load(&self.latency[n])),
            latency_sum: Duration::from_micros(load(&self.latency_micros)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_falls_into_the_bucket_that_holds_it() {
        let meter = Meter::default();
        for micros in [0, 1_000, 1_001, 5_000_000, 5_000_001] {
            meter.query(Duration::from_micros(micros), micros != 0);
        }
        let stats = meter.read(0);
        assert_eq!(stats.latency[0], 2);
        assert_eq!(stats.latency[1], 1);
        assert_eq!(stats.latency[11..], [1, 1]);
        assert_eq!((stats.queries, stats.failed), (5, 1));
        assert_eq!(stats.latency_sum, Duration::from_micros(10_002_002));
    }
}
