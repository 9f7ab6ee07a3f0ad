//! The frontier that others use.
//!
//! [`desk`] does the work, on one thread, the only writer of the state; [`Handle`] is the way to it.
//! Puts that wait together are committed together: the more of them come, the fewer syncs each
//! costs.

pub mod desk;
pub mod names;

use std::sync::Arc;

use ports::{Clock, PortError, PortErrorKind, PortResult};
use tokio::sync::{mpsc, oneshot};

use crate::events::ForeignEvents;
use desk::{Desk, Put, Taken};

/// Orders that may wait. Who finds no room waits, and does not read on.
const ORDERS_MAX: usize = 256;
/// URLs in one commit at most.
const GROUP_URLS: usize = 16_384;

enum Order {
    Put(Vec<Put>, oneshot::Sender<Vec<Taken>>),
    Ask(Job),
    Close,
}

/// What it fails with ends the desk.
type Job = Box<dyn FnOnce(&mut Desk) -> PortResult<()> + Send>;

/// The way to the desk.
#[derive(Clone)]
pub struct Handle {
    orders: mpsc::Sender<Order>,
    clock: Arc<dyn Clock>,
    pub(crate) events: ForeignEvents,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}

/// Starts the desk's thread. The receiver hears what ended it: the state cannot be written any
/// more, or it was closed.
pub fn start(mut desk: Desk, clock: Arc<dyn Clock>) -> (Handle, oneshot::Receiver<PortResult<()>>) {
    let (orders, mut inbox) = mpsc::channel(ORDERS_MAX);
    let (tell, ended) = oneshot::channel();
    let time = Arc::clone(&clock);
    let events = ForeignEvents::default();
    let counted = events.clone();
    std::thread::Builder::new()
        .name("desk".into())
        .spawn(move || {
            let result = work(&mut desk, &mut inbox, &*time, &counted);
            // Its store is closed before anybody hears of the end, and perhaps ends the process.
            drop(desk);
            // Whoever has started us may have gone.
            let _ = tell.send(result);
        })
        .expect("a thread can be started");
    (Handle { orders, clock, events }, ended)
}

fn work(
    desk: &mut Desk,
    inbox: &mut mpsc::Receiver<Order>,
    clock: &dyn Clock,
    events: &ForeignEvents,
) -> PortResult<()> {
    let mut next = inbox.blocking_recv();
    while let Some(order) = next.take() {
        match order {
            Order::Close => return Ok(()),
            Order::Ask(job) => job(desk)?,
            Order::Put(mut puts, tell) => {
                let mut callers = vec![(puts.len(), tell)];
                while puts.len() < GROUP_URLS {
                    match inbox.try_recv() {
                        Ok(Order::Put(more, tell)) => {
                            callers.push((more.len(), tell));
                            puts.extend(more);
                        }
                        Ok(other) => {
                            next = Some(other);
                            break;
                        }
                        Err(_) => break,
                    }
                }
                let taken = desk.put(&puts, seconds(clock));
                let mut answers = match &taken {
                    Ok(taken) => taken.clone(),
                    Err(_) => vec![Taken::Failed; puts.len()],
                };
                events.taken(&puts, &answers);
                for (count, tell) in callers {
                    let rest = answers.split_off(count);
                    let _ = tell.send(std::mem::replace(&mut answers, rest)); // it may have hung up
                }
                taken?;
            }
        }
        if next.is_none() {
            next = inbox.blocking_recv();
        }
    }
    Ok(())
}

fn seconds(clock: &dyn Clock) -> u64 {
    clock.now().micros() / 1_000_000
}

#[cfg(test)]
impl Handle {
    /// The way to a desk at which nobody works. All is refused once the other half is dropped.
    pub(crate) fn unattended() -> (Self, impl Sized) {
        let (orders, inbox) = mpsc::channel(ORDERS_MAX);
        let clock = Arc::new(engine::SteadyClock::at(types::Timestamp::from_secs(1)));
        (Self { orders, clock, events: ForeignEvents::default() }, inbox)
    }
}

impl Handle {
    pub fn now(&self) -> u64 {
        seconds(&*self.clock)
    }

    /// What was ordered before is done; nothing after it.
    pub async fn close(&self) {
        // One that has ended is closed.
        let _ = self.orders.send(Order::Close).await;
    }

    /// Answers when the URLs are committed; all failed if the desk is closed.
    pub async fn put(&self, puts: Vec<Put>) -> Vec<Taken> {
        let count = puts.len();
        let (tell, told) = oneshot::channel();
        if self.orders.send(Order::Put(puts, tell)).await.is_err() {
            return vec![Taken::Failed; count];
        }
        told.await.unwrap_or_else(|_| vec![Taken::Failed; count])
    }

    /// Does something at the desk, and answers what came of it.
    ///
    /// # Errors
    /// What the desk met, or that it is closed.
    pub async fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Desk) -> PortResult<T> + Send + 'static,
    ) -> PortResult<T> {
        let (tell, told) = oneshot::channel();
        let job: Job = Box::new(move |desk| {
            let answer = job(desk);
            // What cannot be written ends the desk; the caller hears of it too.
            let fatal = answer
                .as_ref()
                .err()
                .map(|error| PortError::new(error.kind, "serve the frontier", error.to_string()));
            let _ = tell.send(answer); // it may have hung up
            fatal.map_or(Ok(()), Err)
        });
        self.orders.send(Order::Ask(job)).await.map_err(|_| closed())?;
        told.await.map_err(|_| closed())?
    }
}

fn closed() -> PortError {
    PortError::new(PortErrorKind::Io, "serve the frontier", "it is being closed")
}
