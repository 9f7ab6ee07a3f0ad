//! Where does the work of reading run?
//!
//! Reading and compressing pages is CPU work and must not hold up the reactor. It runs on a
//! bounded number of threads; whoever comes when all are busy waits. Under virtual time it runs
//! inline, so that a simulation stays in one thread and can be replayed.

use std::sync::Arc;

use tokio::sync::Semaphore;

#[derive(Debug, Clone)]
pub enum Pool {
    Threads(Arc<Semaphore>),
    Inline,
}

/// The work died; its panic is already in the log.
#[derive(Debug)]
pub struct Died(pub String);

impl Pool {
    /// As many threads as the machine has cores.
    pub fn threads() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self::Threads(Arc::new(Semaphore::new(cores)))
    }

    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Died> {
        let Self::Threads(seats) = self else { return Ok(work()) };
        let _seat = seats.acquire().await.expect("the semaphore is never closed");
        tokio::task::spawn_blocking(work).await.map_err(|error| Died(error.to_string()))
    }
}
