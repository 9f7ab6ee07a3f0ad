//! Where does the work of reading run?
//!
//! Reading and compressing pages is CPU work and must not hold up the reactor. It runs on as many
//! threads as there are cores, behind a bounded queue; whoever finds it full waits. The queue is
//! longer than the threads are many: a thread that is done finds its next work there and does not
//! sleep until somebody wakes it. Under virtual time the work runs inline, so that a simulation
//! stays in one thread and can be replayed.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};

use tokio::sync::{Semaphore, oneshot};

#[derive(Debug, Clone)]
pub enum Pool {
    Threads(Arc<Threads>),
    Inline,
}

/// The work died; its panic is already in the log.
#[derive(Debug)]
pub struct Died(pub String);

/// Work that may wait, for each thread.
const WAITING_MAX: usize = 16;

type Work = Box<dyn FnOnce() + Send>;

/// The threads end when the last handle to them is dropped.
#[derive(Debug)]
pub struct Threads {
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
    /// As many threads as the machine has cores.
    pub fn threads() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let queue = Arc::new(Queue::default());
        for n in 0..cores {
            let queue = Arc::clone(&queue);
            std::thread::Builder::new()
                .name(format!("read-{n}"))
                .spawn(move || queue.serve())
                .expect("a thread can be started");
        }
        let seats = Semaphore::new(cores * (1 + WAITING_MAX));
        Self::Threads(Arc::new(Threads { seats, queue }))
    }

    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Died> {
        let Self::Threads(threads) = self else { return Ok(work()) };
        let _seat = threads.seats.acquire().await.expect("the semaphore is never closed");
        let (tell, told) = oneshot::channel();
        threads.queue.push(Box::new(move || {
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
        let there = pool.run(|| std::thread::current().id()).await.expect("it lives");
        assert_ne!(here, there);
        for _ in 0..100 {
            let died: Result<(), Died> = pool.run(|| panic!("as planned")).await;
            assert_eq!(died.expect_err("it dies").0, "as planned");
        }
        assert_eq!(pool.run(|| 7).await.expect("the threads live on"), 7);
    }

    #[tokio::test]
    async fn more_work_than_seats_is_all_done() {
        let pool = Pool::threads();
        let work = (0..1_000_u64).map(|n| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.run(move || n).await.expect("it lives") })
        });
        let work: Vec<_> = work.collect();
        let mut sum = 0;
        for work in work {
            sum += work.await.expect("it ends");
        }
        assert_eq!(sum, 999 * 1_000 / 2);
    }
}
