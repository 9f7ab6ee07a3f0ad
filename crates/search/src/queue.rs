//! What waits for the thread that writes the index?
//!
//! The stores' threads put pages in, the writer takes them out. What waits is bounded by its bytes: a store
//! that finds the queue full waits, as it would for its disk. What the writer has made durable, and what
//! has gone wrong with it, is told here too.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ports::shard_store::VisitLine;
use ports::{PortError, PortErrorKind, PortResult};
use types::{ShardId, UrlId};

/// Bytes of texts that may wait; a single page may have more.
const BYTES_MAX: usize = 16 << 20;
/// An order without a text takes about this much.
const ORDER_BYTES: usize = 512;

/// What is to be done, in the order in which the visits were committed.
#[derive(Debug)]
pub(crate) enum Order {
    /// This is the page now.
    Put { shard: ShardId, line: Box<VisitLine>, family: Option<u64> },
    /// The page has not changed; it belongs into the index, and is there unless it was a copy before, or
    /// older than the index.
    Keep { shard: ShardId, line: Box<VisitLine>, family: Option<u64> },
    /// There is no page of that URL for the index.
    Remove(UrlId),
    /// The log of a shard is taken up to here; so many lines of it since the last time.
    Taken { shard: ShardId, upto: u64, lines: u64 },
    /// The log of a shard began later than the crawl.
    Partial,
    /// Everything before is wanted on the disk.
    Commit,
}

impl Order {
    fn bytes(&self) -> usize {
        match self {
            Self::Put { line, .. } | Self::Keep { line, .. } => {
                let reading = line.page.as_ref().and_then(|page| page.reading.as_deref());
                ORDER_BYTES
                    + reading.map_or(0, |reading| reading.text.len() + reading.headings.len())
            }
            Self::Remove(_) | Self::Taken { .. } | Self::Partial | Self::Commit => ORDER_BYTES,
        }
    }
}

/// What the writer finds.
#[derive(Debug)]
pub(crate) enum Next {
    Order(Order),
    /// Nothing, for as long as it was ready to wait.
    Nothing,
    /// Nobody will put anything in any more.
    Leave,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    orders: VecDeque<Order>,
    bytes: usize,
    leave: bool,
    failure: Option<Failure>,
    /// How far the log of each shard is in the index on the disk.
    synced: BTreeMap<ShardId, u64>,
    /// Commits that were asked for, and those that are done.
    asked: u64,
    answered: u64,
}

/// What went wrong, told to everybody who comes later.
#[derive(Debug)]
struct Failure {
    kind: PortErrorKind,
    doing: String,
    cause: String,
}

impl State {
    fn check(&self) -> PortResult<()> {
        match &self.failure {
            Some(Failure { kind, doing, cause }) => {
                Err(PortError::new(*kind, doing.clone(), cause.clone()))
            }
            None => Ok(()),
        }
    }
}

impl Queue {
    pub fn new(synced: BTreeMap<ShardId, u64>) -> Self {
        let state = State { synced, ..State::default() };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).expect("no panic while locked")
    }

    /// Puts an order in; waits for room.
    pub fn push(&self, order: Order) -> PortResult<()> {
        let bytes = order.bytes();
        let mut state = self.lock();
        while state.failure.is_none() && state.bytes > 0 && state.bytes + bytes > BYTES_MAX {
            state = self.wait(state);
        }
        state.check()?;
        state.bytes += bytes;
        state.orders.push_back(order);
        self.changed.notify_all();
        Ok(())
    }

    /// Has everything committed that was put in before, and waits for it.
    pub fn commit(&self) -> PortResult<()> {
        let mut state = self.lock();
        state.check()?;
        state.bytes += Order::Commit.bytes();
        state.orders.push_back(Order::Commit);
        self.changed.notify_all();
        // Counted in the order in which they stand in the queue.
        state.asked += 1;
        let ticket = state.asked;
        while state.failure.is_none() && state.answered < ticket {
            state = self.wait(state);
        }
        state.check()
    }

    pub fn synced(&self, shard: ShardId) -> u64 {
        self.lock().synced.get(&shard).copied().unwrap_or(0)
    }

    pub fn leave(&self) {
        self.lock().leave = true;
        self.changed.notify_all();
    }

    // What follows is for the writer.

    /// Takes the next order out, and waits for one at most until then.
    pub fn pop(&self, until: Option<Instant>) -> Next {
        let mut state = self.lock();
        loop {
            if let Some(order) = state.orders.pop_front() {
                state.bytes -= order.bytes();
                self.changed.notify_all();
                return Next::Order(order);
            }
            if state.leave {
                return Next::Leave;
            }
            state = match until {
                None => self.wait(state),
                Some(until) => {
                    let rest = until.saturating_duration_since(Instant::now());
                    if rest == Duration::ZERO {
                        return Next::Nothing;
                    }
                    self.changed.wait_timeout(state, rest).expect("no panic while locked").0
                }
            };
        }
    }

    /// So much is on the disk.
    pub fn committed(&self, taken: &BTreeMap<ShardId, u64>) {
        self.lock().synced.clone_from(taken);
    }

    /// One that was asked for is done.
    pub fn answer(&self) {
        self.lock().answered += 1;
        self.changed.notify_all();
    }

    /// Nothing will be written any more.
    pub fn fail(&self, error: PortError) {
        let PortError { kind, doing, cause } = error;
        let mut state = self.lock();
        state.failure.get_or_insert(Failure { kind, doing, cause });
        state.orders.clear();
        state.bytes = 0;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const SHARD: ShardId = ShardId(3);

    #[test]
    fn orders_come_out_as_they_went_in() {
        let queue = Queue::new(BTreeMap::from([(SHARD, 7)]));
        assert_eq!(queue.synced(SHARD), 7);
        for upto in 1..=3 {
            queue.push(Order::Taken { shard: SHARD, upto, lines: 1 }).unwrap();
        }
        for expected in 1..=3 {
            match queue.pop(None) {
                Next::Order(Order::Taken { upto, .. }) => assert_eq!(upto, expected),
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(queue.pop(Some(Instant::now())), Next::Nothing));
        queue.leave();
        assert!(matches!(queue.pop(None), Next::Leave));
    }

    #[test]
    fn who_finds_it_full_waits_until_there_is_room() {
        let queue = Arc::new(Queue::default());
        for _ in 0..BYTES_MAX / ORDER_BYTES {
            queue.push(Order::Partial).unwrap();
        }
        let other = Arc::clone(&queue);
        let pushing = std::thread::spawn(move || other.push(Order::Remove(UrlId(1))));
        // Whatever the other does first, it ends only after this.
        assert!(matches!(queue.pop(None), Next::Order(Order::Partial)));
        pushing.join().unwrap().unwrap();
        assert!(queue.lock().bytes <= BYTES_MAX);
    }

    #[test]
    fn a_failure_is_told_to_all_who_wait_and_who_come() {
        let queue = Arc::new(Queue::default());
        let other = Arc::clone(&queue);
        let waiting = std::thread::spawn(move || other.commit());
        assert!(matches!(queue.pop(None), Next::Order(Order::Commit)));
        queue.fail(PortError::new(PortErrorKind::DiskFull, "write the index", "full"));
        assert_eq!(waiting.join().unwrap().unwrap_err().kind, PortErrorKind::DiskFull);
        let late = queue.push(Order::Partial).unwrap_err();
        assert_eq!((late.kind, late.doing.as_str()), (PortErrorKind::DiskFull, "write the index"));
    }
}
