//! When is it enough?
//!
//! Counts that all shards share: pages, bytes, what is in flight. A page is counted when its
//! visit starts and given back when nothing was answered, so that `--limit 100` means 100.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

#[derive(Debug)]
pub struct Limits {
    /// Pages that may still be started; never negative, near `i64::MAX` without a limit.
    pages_left: AtomicI64,
    pages: AtomicU64,
    bytes_max: Option<u64>,
    archive_bytes: AtomicU64,
    halted: AtomicBool,
    heard: AtomicBool,
    pub in_flight: AtomicI64,
}

impl Limits {
    /// `pages_before` were fetched in earlier runs of this crawl.
    pub fn new(pages_max: Option<u64>, pages_before: u64, bytes_max: Option<u64>) -> Self {
        let left = pages_max.map_or(i64::MAX, |max| {
            i64::try_from(max.saturating_sub(pages_before)).unwrap_or(i64::MAX)
        });
        Self {
            pages_left: AtomicI64::new(left),
            pages: AtomicU64::new(pages_before),
            bytes_max,
            archive_bytes: AtomicU64::new(0),
            halted: AtomicBool::new(false),
            heard: AtomicBool::new(pages_before > 0),
            in_flight: AtomicI64::new(0),
        }
    }

    /// Whether another visit may start.
    pub fn may_start(&self) -> bool {
        !self.halted.load(Ordering::Relaxed)
            && self.pages_left.load(Ordering::Relaxed) > 0
            && !self.bytes_reached()
    }

    /// Takes one of the pages that may be started; false if there is none left.
    pub fn page_started(&self) -> bool {
        let take = |left: i64| (left > 0).then(|| left - 1);
        self.pages_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    pub fn page_ended(&self, answered: bool) {
        if answered {
            self.pages.fetch_add(1, Ordering::Relaxed);
        } else {
            self.pages_left.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    /// A server has answered something.
    pub fn hear(&self) {
        self.heard.store(true, Ordering::Relaxed);
    }

    /// Whether any server has ever answered.
    pub fn heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }

    /// No page may start any more, whatever those in flight come to.
    pub fn pages_reached(&self) -> bool {
        self.pages_left.load(Ordering::Relaxed) <= 0 && self.in_flight.load(Ordering::Relaxed) == 0
    }

    pub fn bytes_reached(&self) -> bool {
        self.bytes_max.is_some_and(|max| self.archive_bytes() >= max)
    }

    /// A shard's archive has grown by so much.
    pub fn archived(&self, bytes: u64) {
        self.archive_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn archive_bytes(&self) -> u64 {
        self.archive_bytes.load(Ordering::Relaxed)
    }

    /// Pause: nothing new starts.
    pub fn halt(&self, halted: bool) {
        self.halted.store(halted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_not_answered_does_not_count() {
        let limits = Limits::new(Some(2), 0, None);
        assert!(limits.page_started() && limits.page_started());
        assert!(!limits.may_start() && !limits.page_started());
        limits.page_ended(false);
        assert!(limits.may_start());
        limits.page_ended(true);
        assert!(limits.page_started());
        limits.page_ended(true);
        assert!(limits.pages_reached() && !limits.may_start());
        assert_eq!(limits.pages(), 2);
    }

    #[test]
    fn pages_of_earlier_runs_count() {
        assert!(!Limits::new(Some(5), 5, None).may_start());
        assert!(Limits::new(Some(6), 5, None).may_start());
        assert!(Limits::new(None, 1_000_000, None).may_start());
    }
}
