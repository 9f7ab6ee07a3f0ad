//! Which hosts rest for long?
//!
//! They are out of memory but for their name and the moment at which they may be visited again.
//! There is room for so many; beyond that the one with the longest rest is forgotten, and the
//! store, which knows it, is scanned again when that is over.

use std::collections::{BTreeSet, HashMap};

use foldhash::fast::FixedState;
use types::{HostKey, Timestamp};

#[derive(Debug)]
pub(crate) struct Sleepers {
    by_time: BTreeSet<(Timestamp, HostKey)>,
    until: HashMap<HostKey, Timestamp, FixedState>,
    hosts_max: usize,
    /// When the first of those that were forgotten may be visited.
    scan_at: Option<Timestamp>,
}

impl Sleepers {
    pub(crate) fn new(hosts_max: usize, hasher: FixedState) -> Self {
        let until = HashMap::with_hasher(hasher);
        Self { by_time: BTreeSet::new(), until, hosts_max, scan_at: None }
    }

    pub(crate) fn resize(&mut self, hosts_max: usize) {
        self.hosts_max = hosts_max;
    }

    pub(crate) fn insert(&mut self, host: &HostKey, until: Timestamp) {
        self.by_time.insert((until, host.clone()));
        self.until.insert(host.clone(), until);
        if self.until.len() > self.hosts_max
            && let Some((at, host)) = self.by_time.pop_last()
        {
            self.until.remove(&host);
            self.scan_at = Some(self.scan_at.map_or(at, |first| first.min(at)));
        }
    }

    /// One whose rest is over.
    pub(crate) fn wake(&mut self, now: Timestamp) -> Option<HostKey> {
        self.by_time.first().filter(|(at, _)| *at <= now)?;
        let (_, host) = self.by_time.pop_first()?;
        self.until.remove(&host);
        Some(host)
    }

    /// Somebody needs the host: it is no longer kept here. False if it was not.
    pub(crate) fn remove(&mut self, host: &HostKey) -> bool {
        let until = self.until.remove(host);
        until.is_some_and(|until| self.by_time.remove(&(until, host.clone())))
    }

    /// The rest of one that was forgotten is over: asks once for a scan of the store.
    pub(crate) fn take_scan(&mut self, now: Timestamp) -> bool {
        self.scan_at.take_if(|at| *at <= now).is_some()
    }

    /// When something happens here.
    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        let first = self.by_time.first().map(|(at, _)| *at);
        [first, self.scan_at].into_iter().flatten().min()
    }

    pub(crate) fn has(&self, host: &HostKey) -> bool {
        self.until.contains_key(host)
    }

    pub(crate) fn len(&self) -> usize {
        self.until.len()
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &HostKey> {
        self.by_time.iter().map(|(_, host)| host)
    }

    /// What does not agree, in words.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let agrees = |(at, host): &(Timestamp, HostKey)| self.until.get(host) == Some(at);
        if self.by_time.len() != self.until.len() || !self.by_time.iter().all(agrees) {
            return Err("the sleepers are not the same by name as by time".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(n: u64) -> HostKey {
        HostKey::new(&format!("h{n}.test"))
    }

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn they_wake_in_their_order_and_those_without_room_are_asked_for_again() {
        let mut sleepers = Sleepers::new(2, FixedState::with_seed(1));
        for n in [5, 9, 3, 7] {
            sleepers.insert(&host(n), at(n));
        }
        sleepers.audit().unwrap();
        assert_eq!(sleepers.len(), 2);
        assert_eq!(sleepers.wake_at(), Some(at(3)));
        assert_eq!(sleepers.wake(at(2)), None);
        assert_eq!(sleepers.wake(at(6)), Some(host(3)));
        assert!(sleepers.has(&host(5)) && sleepers.remove(&host(5)) && !sleepers.remove(&host(5)));
        // Seven and nine were forgotten.
        assert_eq!(sleepers.wake_at(), Some(at(7)));
        assert!(!sleepers.take_scan(at(6)) && sleepers.take_scan(at(7)));
        assert!(!sleepers.take_scan(at(100)), "asked once");
    }
}
