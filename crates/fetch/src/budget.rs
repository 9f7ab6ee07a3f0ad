//! How much memory may all answers in flight use together?
//!
//! A [`Hold`] is a share of one common budget, counted in KiB. The first share is waited for
//! before anything is connected, so that waiting is a pause of ours and keeps no server busy. A
//! body that grows asks for more while it holds what it has; that wait has a limit, after which
//! the body is cut. So two bodies that wait for each other cannot wait for ever.
//!
//! Reading a large answer takes a multiple of what keeping it takes, and hundreds of them may come at
//! once, faster than they are read. So whoever reads one has a seat, of which there are few; the others
//! wait with what they have, which is little where the budget is crowded (`overflow`).
//!
//! Always: the shares together never exceed the budget; a share goes back when its hold is
//! dropped.

use std::sync::Arc;

use ports::Held;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

/// Answers of which more than this is read have a seat.
pub(crate) const UNSEATED_BYTES_MAX: usize = 512 << 10;
/// Large answers that are read at once, or wait for a processor, for each processor: those who read
/// find the next one ready.
const SEATS_PER_CORE: usize = 4;
/// The part of the budget beyond which it is crowded.
const CROWDED: usize = 4;

/// Bytes of all answers in flight.
#[derive(Debug)]
pub(crate) struct Budget {
    free: Semaphore,
    total_kib: usize,
    seats: Semaphore,
}

/// A share of the budget.
#[derive(Debug)]
pub(crate) struct Hold {
    budget: Arc<Budget>,
    kib: usize,
    seated: bool,
}

impl Budget {
    pub(crate) fn new(bytes_max: usize) -> Self {
        // A semaphore counts in `u32` steps: four TiB is as good as no limit.
        let total_kib = (bytes_max / 1024).clamp(1, u32::MAX as usize);
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let seats = Semaphore::new(cores * SEATS_PER_CORE);
        Self { free: Semaphore::new(total_kib), total_kib, seats }
    }

    /// Waits for a first share, as long as it takes: nobody is kept waiting by it.
    pub(crate) async fn hold(self: &Arc<Self>, bytes: usize) -> Hold {
        let kib = kib(bytes).min(self.total_kib);
        self.take(kib).await;
        Hold { budget: Arc::clone(self), kib, seated: false }
    }

    pub(crate) fn held_bytes(&self) -> usize {
        (self.total_kib - self.free.available_permits().min(self.total_kib)) * 1024
    }

    async fn take(&self, kib: usize) {
        let permits = u32::try_from(kib).expect("at most `total_kib`, which fits");
        let permit = self.free.acquire_many(permits).await;
        permit.expect("the semaphore is never closed").forget();
    }
}

impl Hold {
    pub(crate) fn bytes(&self) -> usize {
        self.kib * 1024
    }

    /// The most that this hold can ever get.
    pub(crate) fn bytes_max(&self) -> usize {
        self.budget.total_kib * 1024
    }

    /// Whether so much is held by all together that large answers should go to the disk early.
    pub(crate) fn is_crowded(&self) -> bool {
        self.budget.held_bytes() > self.bytes_max() / CROWDED
    }

    /// Waits for a seat. That is a pause of ours: the answer is here, nobody waits for us. Whoever
    /// has a seat comes to an end, because all that it waits for then has an end.
    pub(crate) async fn take_seat(&mut self) {
        if !self.seated {
            self.budget.seats.acquire().await.expect("the semaphore is never closed").forget();
            self.seated = true;
        }
    }

    /// Grows to `bytes` before `deadline`; `false` if that was not to be had.
    pub(crate) async fn grow_to(&mut self, bytes: usize, deadline: Instant) -> bool {
        let want = kib(bytes);
        if want <= self.kib {
            return true;
        }
        if want > self.budget.total_kib {
            return false;
        }
        let more = want - self.kib;
        if timeout_at(deadline, self.budget.take(more)).await.is_err() {
            return false;
        }
        self.kib = want;
        true
    }

    /// Grows to `bytes` if that needs no waiting.
    pub(crate) fn try_grow_to(&mut self, bytes: usize) -> bool {
        let more = kib(bytes).saturating_sub(self.kib);
        let Ok(permits) = u32::try_from(more) else { return false };
        match self.budget.free.try_acquire_many(permits) {
            Ok(permit) => permit.forget(),
            Err(_) => return false,
        }
        self.kib += more;
        true
    }

    /// Gives back what goes beyond `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let keep = kib(bytes).min(self.kib);
        self.budget.free.add_permits(self.kib - keep);
        self.kib = keep;
    }
}

impl Held for Hold {
    fn keep(&mut self, bytes: usize) {
        self.shrink_to(bytes);
        if std::mem::take(&mut self.seated) {
            self.budget.seats.add_permits(1);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.keep(0);
    }
}

const fn kib(bytes: usize) -> usize {
    bytes.div_ceil(1024)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_hold_lets_the_next_one_in() {
        let budget = Arc::new(Budget::new(64 << 10));
        let first = budget.hold(48 << 10).await;
        let waiting = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move { budget.hold(32 << 10).await.bytes() }
        });
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(!waiting.is_finished());
        drop(first);
        assert_eq!(waiting.await.unwrap(), 32 << 10);
        assert_eq!(budget.held_bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_seat_is_free_when_its_answer_was_read() {
        let budget = Arc::new(Budget::new(64 << 10));
        let mut seated = Vec::new();
        while budget.seats.available_permits() > 0 {
            let mut hold = budget.hold(1024).await;
            hold.take_seat().await;
            // Nobody takes two.
            hold.take_seat().await;
            seated.push(hold);
        }
        assert!(seated.len() >= SEATS_PER_CORE);
        let waiting = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move { budget.hold(1024).await.take_seat().await }
        });
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(!waiting.is_finished());
        seated[0].keep(512);
        waiting.await.unwrap();
        let seats = seated.len();
        drop(seated);
        assert_eq!((budget.seats.available_permits(), budget.held_bytes()), (seats, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn two_bodies_that_wait_for_each_other_are_cut_and_not_stuck() {
        let budget = Arc::new(Budget::new(64 << 10));
        let mut one = budget.hold(32 << 10).await;
        let mut two = budget.hold(32 << 10).await;
        let (a, b) = tokio::join!(one.grow_to(40 << 10, soon()), two.grow_to(40 << 10, soon()));
        assert!(!a && !b);
        assert_eq!(budget.held_bytes(), 64 << 10);
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_there_is_at_all_is_refused_at_once() {
        let budget = Arc::new(Budget::new(64 << 10));
        let mut hold = budget.hold(1 << 20).await;
        assert_eq!(hold.bytes(), 64 << 10);
        let before = Instant::now();
        assert!(!hold.grow_to(65 << 10, soon()).await);
        assert!(!hold.try_grow_to(65 << 10) && hold.try_grow_to(64 << 10));
        assert_eq!(Instant::now(), before);
        hold.shrink_to(1500);
        assert_eq!(budget.held_bytes(), 2048);
    }
}
