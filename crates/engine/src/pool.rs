//! Where does the work of reading run?
//!
//! Reading and compressing pages is CPU work and must not hold up the reactor. It runs on as many
//! threads as there are cores, behind a bounded queue; whoever finds it full waits. The queue is
//! longer than the threads are many: a thread that is done finds its next work there and does not
//! sleep until somebody wakes it. Under virtual time the work runs inline, so that a simulation
//! stays in one thread and can be replayed.
//!
//! Large answers have a lane of their own, whose threads the system serves last: they take what the
//! machine has left. Otherwise a few hosts that send megabytes a page would slow down all others.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};

use tokio::sync::{Semaphore, oneshot};

#[derive(Debug, Clone)]
pub enum Pool {
    Threads(Arc<Lanes>),
    Inline,
}

/// The work died; its panic is already in the log.
#[derive(Debug)]
pub struct Died(pub String);

/// How much work an answer makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    Light,
    Heavy,
}

/// Larger answers are heavy; what people write and read is smaller.
const LIGHT_BYTES_MAX: u64 = 512 << 10;

impl Weight {
    pub fn of(bytes: u64) -> Self {
        if bytes <= LIGHT_BYTES_MAX { Self::Light } else { Self::Heavy }
    }
}

#[derive(Debug)]
pub struct Lanes {
    light: Threads,
    heavy: Threads,
}

/// Work that may wait, for each thread.
const WAITING_MAX: usize = 16;

/// How far behind all others the threads of the heavy lane stand, as `nice` counts.
const HEAVY_NICE: i32 = 10;

type Work = Box<dyn FnOnce() + Send>;

/// The threads end when the last handle to them is dropped.
#[derive(Debug)]
struct Threads {
    /// One for each piece of work that waits or runs.
    seats: Semaphore,
    queue: Arc<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    more: Condvar,
}

#[derive(Default)]
struct Waiting {
    work: VecDeque<Work>,
    closed: bool,
}

impl Pool {
    /// As many threads in each lane as the machine has cores.
    pub fn threads() -> Self {
        let light = Threads::new("read", || {});
        Self::Threads(Arc::new(Lanes { light, heavy: Threads::new("read-large", stand_back) }))
    }

    pub async fn run<T: Send + 'static>(
        &self,
        weight: Weight,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Died> {
        let Self::Threads(lanes) = self else { return Ok(work()) };
        match weight {
            Weight::Light => lanes.light.run(work).await,
            Weight::Heavy => lanes.heavy.run(work).await,
        }
    }
}

/// Lets all other threads go first. On a system where only whole processes can, all are alike.
#[cfg(not(target_os = "linux"))]
fn stand_back() {}

#[cfg(target_os = "linux")]
fn stand_back() {
    if let Err(error) = rustix::process::setpriority_process(None, HEAVY_NICE) {
        tracing::debug!(%error, "large pages are read like all others");
    }
}

impl Threads {
    fn new(name: &str, prepare: fn()) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let queue = Arc::new(Queue::default());
        for n in 0..cores {
            let queue = Arc::clone(&queue);
            let serve = move || {
                prepare();
                queue.serve();
            };
            let thread = std::thread::Builder::new().name(format!("{name}-{n}"));
            thread.spawn(serve).expect("a thread can be started");
        }
        Self { seats: Semaphore::new(cores * (1 + WAITING_MAX)), queue }
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Died> {
        let _seat = self.seats.acquire().await.expect("the semaphore is never closed");
        let (tell, told) = oneshot::channel();
        self.queue.push(Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            // Whoever asked may have gone; then nobody wants to know.
            let _ = tell.send(result.map_err(|panic| Died(what(&*panic))));
        }));
        told.await.unwrap_or_else(|_| Err(Died("the threads are gone".to_owned())))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.queue.waiting.lock().expect("no panic while locked").closed = true;
        self.queue.more.notify_all();
    }
}

impl Queue {
    fn push(&self, work: Work) {
        self.waiting.lock().expect("no panic while locked").work.push_back(work);
        self.more.notify_one();
    }

    fn serve(&self) {
        let mut waiting = self.waiting.lock().expect("no panic while locked");
        loop {
            if let Some(work) = waiting.work.pop_front() {
                drop(waiting);
                work();
                waiting = self.waiting.lock().expect("no panic while locked");
            } else if waiting.closed {
                return;
            } else {
                waiting = self.more.wait(waiting).expect("no panic while locked");
            }
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Queue")
    }
}

fn what(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without words".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_elsewhere_and_a_panic_is_an_answer() {
        let pool = Pool::threads();
        let here = std::thread::current().id();
        let there =
            pool.run(Weight::Light, || std::thread::current().id()).await.expect("it lives");
        assert_ne!(here, there);
        for _ in 0..100 {
            let died: Result<(), Died> = pool.run(Weight::Light, || panic!("as planned")).await;
            assert_eq!(died.expect_err("it dies").0, "as planned");
        }
        assert_eq!(pool.run(Weight::Light, || 7).await.expect("the threads live on"), 7);
    }

    #[tokio::test]
    async fn more_work_than_seats_is_all_done() {
        let pool = Pool::threads();
        let work = (0..1_000_u64).map(|n| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.run(Weight::Light, move || n).await.expect("it lives") })
        });
        let work: Vec<_> = work.collect();
        let mut sum = 0;
        for work in work {
            sum += work.await.expect("it ends");
        }
        assert_eq!(sum, 999 * 1_000 / 2);
    }

    #[tokio::test]
    async fn light_work_does_not_wait_for_heavy_work() {
        let pool = Pool::threads();
        let (go, wait) = std::sync::mpsc::sync_channel::<()>(1);
        let (wait, begun) = (Arc::new(Mutex::new(wait)), Arc::new(Semaphore::new(0)));
        let heavy = (0..200).map(|_| {
            let (pool, wait, begun) = (pool.clone(), Arc::clone(&wait), Arc::clone(&begun));
            let work = move || {
                begun.add_permits(1);
                wait.lock().expect("nobody panics").recv().expect_err("nothing is sent");
            };
            tokio::spawn(async move { pool.run(Weight::Heavy, work).await.expect("it lives") })
        });
        let heavy: Vec<_> = heavy.collect();
        // Heavy work has begun, and there is far more of it than the lane has seats.
        drop(begun.acquire().await.expect("it is open"));
        for n in 0..100 {
            assert_eq!(pool.run(Weight::Light, move || n).await.expect("it lives"), n);
        }
        assert!(heavy.iter().all(|work| !work.is_finished()));
        drop(go);
        for work in heavy {
            work.await.expect("it ends");
        }
    }
}
