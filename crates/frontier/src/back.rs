//! What does one host still have waiting?
//!
//! A back queue is one host's FIFO, ordered by band and then by age. Only its near part is in
//! memory; `covered` is the border: everything on disk below it is here (or taken), everything
//! from it on is not. URLs that were leased stay on disk until their visit is committed, so
//! what was taken is remembered, and a refill that reads them again passes over them.
//!
//! Always: a task below the border is in `near` or in `taken`, never in neither and never in both;
//! unless tasks were passed over, which are then read again from the start.

use std::collections::VecDeque;

use types::{QueueKey, Task, UrlId};

#[derive(Debug)]
pub(crate) struct Back {
    /// In the order of their keys. A host has few, and tens of thousands of hosts have some: a tree
    /// would take 2 KB for the first one.
    near: VecDeque<Task>,
    /// First key that is not covered; none when all of the queue is in memory.
    covered: Option<QueueKey>,
    /// Leased or settled, but not committed yet. Few: a host has one visit in flight.
    taken: Vec<UrlId>,
    /// The border from which a refill is being read.
    refilling: Option<QueueKey>,
    /// Something was offered beyond the border while a refill was under way.
    missed: bool,
    /// How often all tasks in memory were passed over since the last start.
    passed: u32,
}

/// Parts of a queue that are passed over at most, because nothing in them may be visited yet.
const PASSED_MAX: u32 = 16;

impl Back {
    /// Nothing is known: all of it is on disk.
    pub(crate) fn unknown() -> Self {
        Self {
            near: VecDeque::new(),
            covered: Some(QueueKey::MIN),
            taken: Vec::new(),
            refilling: None,
            missed: false,
            passed: 0,
        }
    }

    /// A new URL, already in the store's queue.
    pub(crate) fn offer(&mut self, task: Task, near_max: usize) {
        if self.covered.is_some_and(|border| task.key >= border) {
            self.missed |= self.refilling.is_some();
            return;
        }
        self.insert(task);
        if self.near.len() > near_max
            && let Some(task) = self.near.pop_back()
        {
            self.covered = Some(task.key);
        }
    }

    /// A URL that was taken and goes back to its old place. If the border has sunk below that, it
    /// waits on disk: kept here, it would one day be the last, and the border would jump over all
    /// that lies between.
    pub(crate) fn put_back(&mut self, task: Task) {
        self.release(task.id);
        if self.covered.is_some_and(|border| task.key >= border) {
            self.missed |= self.refilling.is_some();
        } else {
            self.place(task);
        }
    }

    fn insert(&mut self, task: Task) {
        if !self.taken.contains(&task.id) {
            self.place(task);
        }
    }

    fn place(&mut self, task: Task) {
        match self.find(task.key) {
            Ok(at) => self.near[at] = task,
            Err(at) => self.near.insert(at, task),
        }
    }

    fn find(&self, key: QueueKey) -> Result<usize, usize> {
        self.near.binary_search_by_key(&key, |task| task.key)
    }

    pub(crate) fn take(&mut self, key: QueueKey) -> Option<Task> {
        let at = self.find(key).ok()?;
        let task = self.near.remove(at)?;
        if self.near.is_empty() {
            self.near = VecDeque::new();
        }
        self.taken.push(task.id);
        Some(task)
    }

    /// The visit of this URL is committed: the store no longer has it in the queue.
    pub(crate) fn release(&mut self, id: UrlId) {
        if let Some(at) = self.taken.iter().position(|taken| *taken == id) {
            self.taken.swap_remove(at);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.near.iter()
    }

    /// Where a refill should begin, if one is needed now: `Some(after)`.
    pub(crate) fn want(&mut self, low: usize) -> Option<Option<QueueKey>> {
        let border = self.covered?;
        if self.refilling.is_some() || self.near.len() > low {
            return None;
        }
        self.refilling = Some(border);
        self.missed = false;
        Some(border.before())
    }

    pub(crate) fn refilled(&mut self, tasks: Vec<Task>, more: bool) {
        let from = self.refilling.take();
        let missed = std::mem::take(&mut self.missed);
        if self.covered != from {
            // Offers pushed the border down meanwhile. Taking these tasks would leave a hole
            // below them; they are on disk and will be read again.
            return;
        }
        let last = tasks.last().map(|task| task.key);
        self.near.reserve_exact(tasks.len());
        for task in tasks {
            self.insert(task);
        }
        // `missed`: something arrived beyond the border, perhaps after the store had read.
        self.covered = match (more || missed, last) {
            (true, Some(last)) => Some(last.after()),
            (true, None) => from,
            (false, _) => None,
        };
    }

    /// None of the tasks in memory may be visited now: makes room for those behind them. False if
    /// there are none, or it was done too often.
    pub(crate) fn pass_over(&mut self) -> bool {
        if self.covered.is_none() || self.refilling.is_some() || self.passed >= PASSED_MAX {
            return false;
        }
        self.passed += 1;
        self.near.clear();
        true
    }

    /// Tasks that were passed over are read again, from the start of the queue.
    pub(crate) fn rewind(&mut self) {
        if self.passed > 0 && self.refilling.is_none() {
            self.passed = 0;
            self.near.clear();
            self.covered = Some(QueueKey::MIN);
        }
    }

    pub(crate) fn has_passed_over(&self) -> bool {
        self.passed > 0
    }

    /// Nothing waits anywhere.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.near.is_empty()
            && self.covered.is_none()
            && self.refilling.is_none()
            && self.passed == 0
    }

    pub(crate) fn is_refilling(&self) -> bool {
        self.refilling.is_some()
    }

    /// How many are leased, or settled and not committed.
    pub(crate) fn taken(&self) -> usize {
        self.taken.len()
    }

    pub(crate) fn has_taken(&self, id: UrlId) -> bool {
        self.taken.contains(&id)
    }

    /// What does not agree, in words.
    pub(crate) fn audit(&self) -> Result<(), String> {
        for id in &self.taken {
            if let Some(task) = self.near.iter().find(|task| task.id == *id) {
                return Err(format!("{} is taken and waits as well", task.record.url));
            }
        }
        if !self.near.iter().is_sorted_by(|a, b| a.key < b.key) {
            return Err("its tasks are not in their order".to_owned());
        }
        match (self.near.back(), self.covered) {
            (Some(last), Some(border)) if last.key >= border => {
                Err(format!("{:?} is in memory, though the border is {border:?}", last.key))
            }
            _ => Ok(()),
        }
    }

    /// Every visit is committed: what the store knows is all there is to know.
    pub(crate) fn is_settled(&self) -> bool {
        self.taken.is_empty() && self.refilling.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{CrawlUrl, Discovery, Record, Timestamp};

    fn task(band: u8, seq: u64) -> Task {
        let url = CrawlUrl::parse(&format!("http://a.test/{seq}")).unwrap();
        let found = Discovery { at: Timestamp::ZERO, depth: 0, hops: 0, seed: false, band };
        Task { key: QueueKey { band, seq }, id: url.id(), record: Record::new(url, found) }
    }

    fn seqs(back: &Back) -> Vec<u64> {
        back.iter().map(|task| task.key.seq).collect()
    }

    fn filled(tasks: Vec<Task>, more: bool) -> Back {
        let mut back = Back::unknown();
        assert_eq!(back.want(0), Some(None));
        back.refilled(tasks, more);
        back
    }

    #[test]
    fn what_lies_beyond_the_border_stays_on_disk() {
        let mut back = filled(vec![task(0, 1), task(0, 2)], true);
        back.offer(task(0, 9), 10);
        assert_eq!(seqs(&back), [1, 2]);
        assert_eq!(back.want(2), Some(Some(QueueKey { band: 0, seq: 2 })));
        back.refilled(vec![task(0, 9)], false);
        assert_eq!(seqs(&back), [1, 2, 9]);
        back.offer(task(0, 10), 10);
        assert_eq!(seqs(&back), [1, 2, 9, 10]);
    }

    #[test]
    fn a_better_band_comes_first_even_when_it_comes_late() {
        let mut back = filled(vec![task(2, 1), task(2, 2)], true);
        back.offer(task(1, 50), 10);
        assert_eq!(seqs(&back), [50, 1, 2]);
    }

    #[test]
    fn too_many_push_the_last_ones_out_and_the_border_down() {
        let mut back = filled(vec![], false);
        for seq in 1..=5 {
            back.offer(task(0, seq), 3);
        }
        assert_eq!(seqs(&back), [1, 2, 3]);
        assert!(!back.is_exhausted());
        assert_eq!(back.want(3), Some(Some(QueueKey { band: 0, seq: 3 })));
    }

    #[test]
    fn a_taken_url_is_passed_over_by_a_refill_until_it_is_committed() {
        let mut back = filled(vec![task(2, 1)], false);
        let taken = back.take(QueueKey { band: 2, seq: 1 }).unwrap();
        // Better bands push the border below the taken one, which is still on disk.
        for seq in 10..15 {
            back.offer(task(1, seq), 3);
        }
        back.take(QueueKey { band: 1, seq: 10 });
        back.want(3);
        back.refilled(vec![task(1, 13), task(1, 14), task(2, 1)], false);
        assert_eq!(seqs(&back), [11, 12, 13, 14]);
        back.release(taken.id);
        assert_eq!(back.taken.len(), 1);
    }

    #[test]
    fn an_offer_during_a_refill_is_not_forgotten() {
        let mut back = filled(vec![task(0, 1)], true);
        back.take(QueueKey { band: 0, seq: 1 });
        assert!(back.want(0).is_some());
        back.offer(task(0, 7), 10);
        back.refilled(vec![], false);
        assert!(!back.is_exhausted());
        assert_eq!(back.want(0), Some(Some(QueueKey { band: 0, seq: 1 })));
        back.refilled(vec![task(0, 7)], false);
        assert_eq!(seqs(&back), [7]);
    }

    #[test]
    fn a_border_that_sinks_during_a_refill_leaves_no_hole() {
        let mut back = filled(vec![task(2, 1)], true);
        assert!(back.want(9).is_some());
        for seq in 10..15 {
            back.offer(task(1, seq), 2);
        }
        back.refilled(vec![task(2, 2), task(2, 3)], false);
        assert_eq!(seqs(&back), [10, 11]);
        assert_eq!(back.want(9), Some(Some(QueueKey { band: 1, seq: 11 })));
    }

    #[test]
    fn a_url_that_goes_back_beyond_the_border_leaves_no_hole() {
        let mut back = filled(vec![task(2, 1), task(2, 2), task(2, 3)], false);
        let lost = back.take(QueueKey { band: 2, seq: 1 }).unwrap();
        for seq in 10..15 {
            back.offer(task(1, seq), 3);
        }
        back.put_back(lost);
        back.audit().unwrap();
        // Pushed out by a better one, it would have taken the border with it, and 13 and 14 were
        // never read again. Found by simulation, seed 329.
        back.offer(task(0, 20), 3);
        assert_eq!(seqs(&back), [20, 10, 11]);
        assert_eq!(back.want(3), Some(Some(QueueKey { band: 1, seq: 11 })));
    }

    #[test]
    fn a_lost_url_goes_back_to_its_old_place() {
        let mut back = filled(vec![task(0, 1), task(0, 2)], false);
        let first = back.take(QueueKey { band: 0, seq: 1 }).unwrap();
        back.put_back(first);
        assert_eq!(seqs(&back), [1, 2]);
        assert!(back.is_settled());
    }
}
