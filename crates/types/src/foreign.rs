//! What do others keep with us?
//!
//! Crawlers that are not lycosa bring URLs as they wrote them, in queues of their naming, in crawls
//! of their naming. Times are whole seconds since 1970, as their API has them.

use serde::{Deserialize, Serialize};

/// The number of a crawl: the space of keys that its rows lie in. 0 is our own world.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Space(pub u32);

/// A queue of a crawl.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName {
    pub space: Space,
    pub key: Box<str>,
}

/// Seconds since 1970.
pub type Seconds = u64;

/// What is known of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueueState {
    /// URLs that stand in it, held ones included.
    pub active: u64,
    /// URLs that are done with.
    pub completed: u64,
    /// Seconds between two servings; none leaves it to the service.
    pub delay: Option<u32>,
    /// Nothing is served up to then, that second included.
    pub blocked_until: Seconds,
    /// Nothing more is served when so many are completed; 0 means no limit.
    pub limit: u32,
    pub last_served: Seconds,
    /// How many of its URLs are held, by the moment at which that ends; sorted.
    pub held_until: Vec<(Seconds, u32)>,
}

impl QueueState {
    /// URLs that somebody has to himself.
    pub fn held(&self, now: Seconds) -> u32 {
        self.held_until.iter().filter(|(until, _)| *until > now).map(|(_, count)| count).sum()
    }

    /// So many more of its URLs are held.
    pub fn hold(&mut self, now: Seconds, until: Seconds, count: u32) {
        self.held_until.retain(|(until, _)| *until > now);
        match self.held_until.binary_search_by_key(&until, |(until, _)| *until) {
            Ok(at) => self.held_until[at].1 = self.held_until[at].1.saturating_add(count),
            Err(at) => self.held_until.insert(at, (until, count)),
        }
    }

    /// One that was held until then is held no longer.
    pub fn release(&mut self, until: Seconds) {
        if let Ok(at) = self.held_until.binary_search_by_key(&until, |(until, _)| *until) {
            self.held_until[at].1 -= 1;
            if self.held_until[at].1 == 0 {
                self.held_until.remove(at);
            }
        }
    }

    pub fn is_blocked(&self, now: Seconds) -> bool {
        self.blocked_until >= now
    }

    pub fn is_at_limit(&self) -> bool {
        self.limit > 0 && self.completed >= u64::from(self.limit)
    }

    /// The first second in which it may be served, whatever stands in it; none as long as it is at
    /// its limit.
    pub fn open_at(&self, delay: u32) -> Option<Seconds> {
        let delay = u64::from(self.delay.unwrap_or(delay));
        let rested = match self.last_served {
            0 => 0,
            last => last.saturating_add(delay).saturating_add(1),
        };
        let unblocked = match self.blocked_until {
            0 => 0,
            until => until.saturating_add(1),
        };
        (!self.is_at_limit()).then_some(rested.max(unblocked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_until_it_ends() {
        let mut queue = QueueState::default();
        queue.hold(100, 130, 2);
        queue.hold(100, 110, 1);
        queue.hold(100, 130, 3);
        assert_eq!((queue.held(109), queue.held(110), queue.held(130)), (6, 5, 0));
        queue.release(130);
        queue.release(999);
        assert_eq!(queue.held(100), 5);
        queue.hold(120, 150, 1);
        assert_eq!(queue.held(0), 5, "what has ended is forgotten");
        (0..4).for_each(|_| queue.release(130));
        assert_eq!(queue.held_until, [(150, 1)]);
    }

    #[test]
    fn a_queue_rests_a_second_longer_than_its_delay() {
        let mut queue = QueueState { last_served: 100, ..QueueState::default() };
        assert_eq!(queue.open_at(5), Some(106));
        queue.delay = Some(0);
        assert_eq!(queue.open_at(5), Some(101), "never twice in one second");
        queue.blocked_until = 200;
        assert_eq!(queue.open_at(5), Some(201));
        assert!(queue.is_blocked(200) && !queue.is_blocked(201));
        (queue.limit, queue.completed) = (2, 1);
        assert_eq!(queue.open_at(5), Some(201));
        queue.completed = 2;
        assert_eq!(queue.open_at(5), None);
        assert_eq!(QueueState::default().open_at(7), Some(0));
        let never = QueueState { blocked_until: u64::MAX, ..QueueState::default() };
        assert_eq!(never.open_at(0), Some(u64::MAX));
    }
}
