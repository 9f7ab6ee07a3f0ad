//! Which of others' queues is served next?
//!
//! Queues of a crawl take turns. One that has nothing due, rests, or is blocked sleeps until that
//! ends, so that a turn costs the same with ten queues as with a million; only those that are awake
//! stand in the ring. What a queue holds is in the store; here is when it may be asked.
//!
//! Always: a queue is awake, asleep, or has nothing to wait for. Time is whole seconds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::Bound;

use types::foreign::{QueueName, QueueState, Seconds, Space};

/// A queue in memory.
#[derive(Debug, Clone)]
pub struct Queue {
    pub name: QueueName,
    pub state: QueueState,
    /// Under which moment its first URL stands; not later than that.
    pub first: Option<Seconds>,
    rest: Rest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// In the ring of its crawl.
    Awake,
    Asleep(Seconds),
    /// Nothing stands in it, or it is at its limit.
    Idle,
    /// Being served.
    Out,
    /// Deleted.
    Gone,
}

/// The place of a queue in memory.
pub type Slot = usize;

#[derive(Debug, Default)]
struct Crawl {
    by_key: BTreeMap<Box<str>, Slot>,
    awake: VecDeque<Slot>,
    asleep: BinaryHeap<Reverse<(Seconds, Slot)>>,
}

/// All queues of all crawls.
#[derive(Debug, Default)]
pub struct Queues {
    slots: Vec<Queue>,
    free: Vec<Slot>,
    crawls: BTreeMap<Space, Crawl>,
    /// Seconds between two servings of a queue that has no delay of its own.
    delay: u32,
    /// The crawl whose turn it is, where all are asked.
    turn: Space,
}

/// Whose URLs are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    All,
    Crawl(Space),
    Queue(QueueName),
}

/// One walk round the queues that were awake when it began: each is looked at once.
#[derive(Debug)]
pub struct Round {
    which: Which,
    /// A queue of which as many URLs are held is passed over; 0 means none is.
    held_max: u32,
    left: VecDeque<(Space, usize)>,
}

impl Queues {
    pub fn new(delay: u32) -> Self {
        Self { delay, ..Self::default() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.crawls.values().map(|crawl| crawl.by_key.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.crawls.values().all(|crawl| crawl.by_key.is_empty())
    }

    pub fn slot(&self, space: Space, key: &str) -> Option<Slot> {
        self.crawls.get(&space)?.by_key.get(key).copied()
    }

    pub fn get(&self, slot: Slot) -> &Queue {
        &self.slots[slot]
    }

    /// The queues of a crawl in the order of their keys.
    pub fn of(&self, space: Space) -> impl Iterator<Item = &Queue> {
        let slots = self.crawls.get(&space).into_iter().flat_map(|crawl| crawl.by_key.values());
        slots.map(|slot| &self.slots[*slot])
    }

    /// Adds a queue that is not there yet.
    pub fn insert(&mut self, name: QueueName, state: QueueState, first: Option<Seconds>) -> Slot {
        let (space, key) = (name.space, name.key.clone());
        let queue = Queue { name, state, first, rest: Rest::Idle };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = queue;
                slot
            }
            None => {
                self.slots.push(queue);
                self.slots.len() - 1
            }
        };
        self.crawls.entry(space).or_default().by_key.insert(key, slot);
        self.settle(slot);
        slot
    }

    /// Changes what is known of a queue.
    pub fn update(
        &mut self,
        slot: Slot,
        change: impl FnOnce(&mut QueueState, &mut Option<Seconds>),
    ) {
        let queue = &mut self.slots[slot];
        change(&mut queue.state, &mut queue.first);
        // One that is awake is looked at when its turn comes.
        if !matches!(queue.rest, Rest::Awake | Rest::Out) {
            self.settle(slot);
        }
    }

    /// Changes the delay of all queues that have none of their own.
    pub fn set_delay(&mut self, delay: u32) {
        self.delay = delay;
        for slot in 0..self.slots.len() {
            if matches!(self.slots[slot].rest, Rest::Asleep(_)) {
                self.settle(slot);
            }
        }
    }

    pub fn remove(&mut self, space: Space, key: &str) -> Option<QueueState> {
        let crawl = self.crawls.get_mut(&space)?;
        let slot = crawl.by_key.remove(key)?;
        if self.slots[slot].rest == Rest::Awake {
            crawl.awake.retain(|awake| *awake != slot);
        }
        Some(self.clear(slot))
    }

    /// Forgets a crawl; answers what its queues held.
    pub fn remove_crawl(&mut self, space: Space) -> Vec<QueueState> {
        let Some(crawl) = self.crawls.remove(&space) else { return Vec::new() };
        crawl.by_key.into_values().map(|slot| self.clear(slot)).collect()
    }

    /// Its slot is free. A sleeper's entry that still names it is known by its moment.
    fn clear(&mut self, slot: Slot) -> QueueState {
        self.free.push(slot);
        let queue = &mut self.slots[slot];
        queue.rest = Rest::Gone;
        queue.name.key = Box::default();
        std::mem::take(&mut queue.state)
    }

    /// When a queue may be served, as far as it alone is concerned.
    fn open_at(&self, queue: &Queue) -> Option<Seconds> {
        Some(queue.state.open_at(self.delay)?.max(queue.first?))
    }

    /// Puts a queue where it belongs.
    fn settle(&mut self, slot: Slot) {
        let open = self.open_at(&self.slots[slot]);
        let queue = &mut self.slots[slot];
        let rest = open.map_or(Rest::Idle, Rest::Asleep);
        if queue.rest == rest {
            return;
        }
        queue.rest = rest;
        if let (Some(at), Some(crawl)) = (open, self.crawls.get_mut(&queue.name.space)) {
            crawl.asleep.push(Reverse((at, slot)));
        }
    }

    /// Begins a walk.
    pub fn round(&mut self, now: Seconds, which: Which, held_max: u32) -> Round {
        let mut left = VecDeque::new();
        let spaces: Vec<Space> = match &which {
            Which::All => {
                let next = (Bound::Excluded(self.turn), Bound::Unbounded);
                let after = self.crawls.range(next).chain(self.crawls.range(..=self.turn));
                after.map(|(space, _)| *space).collect()
            }
            Which::Crawl(space) => vec![*space],
            Which::Queue(_) => Vec::new(),
        };
        if let (Which::All, Some(first)) = (&which, spaces.first()) {
            self.turn = *first;
        }
        for space in spaces {
            let awake = self.wake(now, space);
            left.push_back((space, awake));
        }
        if let Which::Queue(name) = &which {
            left.push_back((name.space, 1));
        }
        Round { which, held_max, left }
    }

    /// Those whose time has come join the ring of their crawl. Answers how long it is.
    fn wake(&mut self, now: Seconds, space: Space) -> usize {
        let Some(crawl) = self.crawls.get_mut(&space) else { return 0 };
        while let Some(&Reverse((at, slot))) = crawl.asleep.peek()
            && at <= now
        {
            crawl.asleep.pop();
            let queue = &mut self.slots[slot];
            if queue.rest == Rest::Asleep(at) && queue.name.space == space {
                queue.rest = Rest::Awake;
                crawl.awake.push_back(slot);
            }
        }
        crawl.awake.len()
    }

    /// The next queue that may be served. It is out until [`Self::served`] says what came of it.
    pub fn next(&mut self, now: Seconds, round: &mut Round) -> Option<Slot> {
        if let Which::Queue(name) = &round.which {
            round.left.pop_front()?;
            let slot = self.slot(name.space, &name.key)?;
            let open = self.may_serve(slot, now, round.held_max);
            return (open && self.slots[slot].rest != Rest::Out).then(|| self.take(slot));
        }
        loop {
            let (space, left) = round.left.front_mut()?;
            let crawl = self.crawls.get_mut(space);
            let next = crawl.filter(|_| *left > 0).and_then(|crawl| crawl.awake.pop_front());
            let Some(slot) = next else {
                round.left.pop_front();
                continue;
            };
            *left -= 1;
            // One that was asked by name meanwhile sleeps, or is in the ring again.
            if self.slots[slot].rest != Rest::Awake {
                continue;
            }
            if self.may_serve(slot, now, round.held_max) {
                return Some(self.take(slot));
            }
            self.put_back(slot, now);
        }
    }

    fn may_serve(&self, slot: Slot, now: Seconds, held_max: u32) -> bool {
        let queue = &self.slots[slot];
        let open = self.open_at(queue).is_some_and(|at| at <= now);
        open && (held_max == 0 || queue.state.held(now) < held_max)
    }

    fn take(&mut self, slot: Slot) -> Slot {
        self.slots[slot].rest = Rest::Out;
        slot
    }

    /// One that could be served but for what is held of it goes to the end of the ring.
    fn put_back(&mut self, slot: Slot, now: Seconds) {
        let open = self.open_at(&self.slots[slot]);
        let queue = &mut self.slots[slot];
        if open.is_some_and(|at| at <= now)
            && let Some(crawl) = self.crawls.get_mut(&queue.name.space)
        {
            queue.rest = Rest::Awake;
            crawl.awake.push_back(slot);
        } else {
            queue.rest = Rest::Idle;
            self.settle(slot);
        }
    }

    /// So many URLs of a queue that was out were given to somebody, who has them until then. Of
    /// nothing, nothing is noted. `first` is where the next one stands.
    pub fn served(
        &mut self,
        slot: Slot,
        now: Seconds,
        (count, until): (u32, Seconds),
        first: Option<Seconds>,
    ) {
        let queue = &mut self.slots[slot];
        if queue.rest != Rest::Out {
            return;
        }
        queue.first = first;
        if count > 0 {
            queue.state.last_served = now;
            queue.state.hold(now, until, count);
            // They stand there until somebody returns them.
            queue.first = Some(first.map_or(until, |first| first.min(until)));
        }
        self.put_back(slot, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRAWL: Space = Space(1);

    fn name(space: Space, key: &str) -> QueueName {
        QueueName { space, key: key.into() }
    }

    fn queues(keys: &[&str]) -> Queues {
        let mut queues = Queues::new(1);
        for key in keys {
            let state = QueueState { active: 5, ..QueueState::default() };
            queues.insert(name(CRAWL, key), state, Some(100));
        }
        queues
    }

    /// Serves one URL of each queue that comes up, with five more behind it.
    fn keys_served(queues: &mut Queues, now: Seconds, which: Which, held_max: u32) -> Vec<String> {
        let mut round = queues.round(now, which, held_max);
        let mut keys = Vec::new();
        while let Some(slot) = queues.next(now, &mut round) {
            keys.push(queues.get(slot).name.key.to_string());
            queues.served(slot, now, (1, now + 30), Some(100));
        }
        keys
    }

    #[test]
    fn queues_take_turns_and_rest() {
        let mut queues = queues(&["a", "b", "c"]);
        assert!(keys_served(&mut queues, 99, Which::All, 0).is_empty(), "nothing is due");
        assert_eq!(keys_served(&mut queues, 100, Which::All, 0), ["a", "b", "c"]);
        assert!(keys_served(&mut queues, 101, Which::All, 0).is_empty(), "they rest");
        assert_eq!(keys_served(&mut queues, 102, Which::Crawl(CRAWL), 0), ["a", "b", "c"]);
        assert!(keys_served(&mut queues, 104, Which::Crawl(Space(2)), 0).is_empty());
    }

    #[test]
    fn a_call_that_ends_early_leaves_the_rest_to_the_next() {
        let mut queues = queues(&["a", "b", "c"]);
        let mut round = queues.round(100, Which::All, 0);
        let a = queues.next(100, &mut round).unwrap();
        queues.served(a, 100, (1, 130), Some(100));
        assert_eq!(keys_served(&mut queues, 100, Which::All, 0), ["b", "c"]);
    }

    #[test]
    fn blocks_limits_and_what_is_held_pass_a_queue_over() {
        let mut queues = queues(&["a", "b", "c", "d"]);
        let slot = |queues: &Queues, key| queues.slot(CRAWL, key).unwrap();
        let (a, b) = (slot(&queues, "a"), slot(&queues, "b"));
        queues.update(a, |state, _| state.blocked_until = 100);
        queues.update(b, |state, _| (state.limit, state.completed) = (2, 2));
        let c = slot(&queues, "c");
        queues.update(c, |state, _| state.hold(90, 140, 3));
        assert_eq!(keys_served(&mut queues, 100, Which::All, 3), ["d"]);
        assert_eq!(keys_served(&mut queues, 101, Which::All, 4), ["c", "a"]);
        queues.update(b, |state, _| state.limit = 0);
        assert_eq!(keys_served(&mut queues, 102, Which::All, 0), ["b", "d"]);
    }

    #[test]
    fn one_queue_can_be_asked_by_name() {
        let mut queues = queues(&["a", "b"]);
        let b = || Which::Queue(name(CRAWL, "b"));
        assert_eq!(keys_served(&mut queues, 100, b(), 0), ["b"]);
        assert!(keys_served(&mut queues, 101, b(), 0).is_empty());
        assert_eq!(keys_served(&mut queues, 101, Which::All, 0), ["a"]);
        assert_eq!(keys_served(&mut queues, 102, b(), 0), ["b"]);
        assert!(keys_served(&mut queues, 103, Which::Queue(name(CRAWL, "x")), 0).is_empty());
    }

    #[test]
    fn a_queue_of_which_nothing_came_is_as_before() {
        let mut queues = queues(&["a"]);
        let mut round = queues.round(100, Which::All, 0);
        let a = queues.next(100, &mut round).unwrap();
        assert!(keys_served(&mut queues, 100, Which::All, 0).is_empty(), "it is out");
        queues.served(a, 100, (0, 130), Some(500));
        assert_eq!(queues.get(a).state.last_served, 0);
        assert!(keys_served(&mut queues, 499, Which::All, 0).is_empty());
        assert_eq!(keys_served(&mut queues, 500, Which::All, 0), ["a"]);
    }

    #[test]
    fn what_nobody_returns_comes_back() {
        let mut queues = queues(&["a"]);
        let mut round = queues.round(100, Which::All, 0);
        let a = queues.next(100, &mut round).unwrap();
        queues.served(a, 100, (5, 130), None);
        assert_eq!(queues.get(a).first, Some(130));
        assert!(keys_served(&mut queues, 129, Which::All, 0).is_empty());
        assert_eq!(keys_served(&mut queues, 130, Which::All, 0), ["a"]);
    }

    #[test]
    fn crawls_take_turns_where_all_are_asked() {
        let mut queues = queues(&["a"]);
        queues.insert(name(Space(2), "z"), QueueState::default(), Some(100));
        let first = keys_served(&mut queues, 100, Which::All, 0);
        let second = keys_served(&mut queues, 102, Which::All, 0);
        assert_eq!(first.len(), 2);
        assert_eq!(second, first.into_iter().rev().collect::<Vec<_>>());
    }

    #[test]
    fn what_is_deleted_is_gone_and_may_come_again() {
        let mut queues = queues(&["a", "b"]);
        assert!(queues.remove(CRAWL, "a").is_some() && queues.remove(CRAWL, "a").is_none());
        queues.insert(name(CRAWL, "a"), QueueState::default(), Some(100));
        assert_eq!(keys_served(&mut queues, 100, Which::All, 0), ["a", "b"]);
        assert_eq!(queues.remove_crawl(CRAWL).len(), 2);
        assert!(queues.is_empty() && keys_served(&mut queues, 200, Which::All, 0).is_empty());
        queues.insert(name(CRAWL, "a"), QueueState::default(), Some(100));
        assert_eq!(keys_served(&mut queues, 200, Which::All, 0), ["a"]);
        assert_eq!(queues.len(), 1);
    }

    #[test]
    fn a_new_delay_of_all_counts_at_once() {
        let mut queues = queues(&["a"]);
        assert_eq!(keys_served(&mut queues, 100, Which::All, 0), ["a"]);
        queues.set_delay(10);
        assert!(keys_served(&mut queues, 110, Which::All, 0).is_empty());
        assert_eq!(keys_served(&mut queues, 111, Which::All, 0), ["a"]);
        queues.set_delay(0);
        assert_eq!(keys_served(&mut queues, 112, Which::All, 0), ["a"]);
    }
}
