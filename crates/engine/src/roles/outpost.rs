//! How does a process work for a frontier elsewhere?
//!
//! It joins, makes the visits that it is given (with a `Worker`, as a crawl in one process does), puts
//! down what it has fetched, reports, and archives what was taken. [`session`] is the time between
//! joining and leaving; [`courier`] brings reports to the frontier.
//!
//! If the frontier is gone, visits under way are ended when their term is over, and the outpost asks
//! again and again until it is back; then it asks what became of the group that was under way.
//!
//! Always: a request leaves only while the session lasts by this process's own clock. What is
//! archived is what the frontier has committed.

mod courier;
mod session;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use frontier::Lease;
use ports::Depot;
use tokio::sync::{mpsc, watch};
use types::{Timestamp, VisitId};

use crate::EngineError;
use crate::ctx::Ctx;
use crate::report::Report;
use crate::roles::crew::{Membership, Verdict};
use session::{End, Session};

/// The way to a frontier.
#[async_trait]
pub trait Link: Send + Sync {
    async fn join(&self, capacity: usize) -> Result<Membership, LinkError>;

    /// Leases as they are given; the channel ends with the session, or when we drain.
    async fn tasks(&self, membership: &Membership) -> Result<mpsc::Receiver<Lease>, LinkError>;

    async fn report(&self, session: u64, reports: &[Report]) -> Result<Vec<Verdict>, LinkError>;

    /// Answers visits that are not ours any more.
    async fn heartbeat(
        &self,
        session: u64,
        under_way: &[VisitId],
    ) -> Result<Vec<VisitId>, LinkError>;

    /// Requests of these visits have left, at these moments of our clock.
    async fn sent(
        &self,
        session: u64,
        departures: &[(VisitId, Timestamp)],
    ) -> Result<(), LinkError>;

    async fn drain(&self, session: u64) -> Result<(), LinkError>;

    /// Which of these visits are committed.
    async fn known(&self, visits: &[VisitId]) -> Result<Vec<Verdict>, LinkError>;
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The session has ended.
    #[error("the session has ended")]
    Gone,
    /// It cannot be reached, or cannot serve us now: ask again.
    #[error("{0}")]
    Away(String),
    /// It will never let us in.
    #[error("{0}")]
    Refused(String),
}

impl From<LinkError> for EngineError {
    fn from(error: LinkError) -> Self {
        Self::Setting(error.to_string())
    }
}

/// How an outpost is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Wish {
    #[default]
    Work,
    /// Finish what is under way.
    Drain,
    /// End at once.
    Abandon,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Everything was reported and answered.
    Drained,
    /// Something was not. What was put down will be settled at the next start.
    Abandoned,
}

/// How soon a frontier that is away is asked again, at first and at most.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// A process that works for one frontier.
pub struct Outpost {
    pub ctx: Arc<Ctx>,
    pub link: Arc<dyn Link>,
    /// Visits that it can make at once.
    pub capacity: usize,
    pub wish: watch::Receiver<Wish>,
}

impl std::fmt::Debug for Outpost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outpost").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl Outpost {
    /// Works until it is told to end, or the frontier refuses it. `membership` is the session that
    /// it begins with.
    ///
    /// # Errors
    /// When the frontier refuses us, or the depot cannot be written.
    pub async fn run(
        mut self,
        mut depot: Box<dyn Depot>,
        membership: Membership,
    ) -> Result<Left, EngineError> {
        let unsettled = depot.unsettled();
        if !unsettled.is_empty() {
            tracing::info!(visits = unsettled.len(), "asking what became of the last report");
            let Some(verdicts) = self.ask_until_known(&unsettled).await? else {
                return Ok(Left::Abandoned);
            };
            depot = courier::settle(depot, verdicts, &self.ctx).await?;
        }
        let mut membership = Some(membership);
        loop {
            let joined = match membership.take() {
                Some(joined) => Some(joined),
                None => self.join().await?,
            };
            let end = match joined {
                Some(joined) => Session::new(&mut self, joined, depot).run().await?,
                None => End::Drained(depot),
            };
            match end {
                End::Over(back) => depot = back,
                End::Drained(mut depot) => {
                    courier::blocking(move || depot.close()).await??;
                    return Ok(Left::Drained);
                }
                End::Abandoned => return Ok(Left::Abandoned),
            }
        }
    }

    /// Joins, however long it takes; none if we are told to end before.
    async fn join(&mut self) -> Result<Option<Membership>, EngineError> {
        let (link, capacity) = (&self.link, self.capacity);
        Ok(persist(&mut self.wish, "join", || link.join(capacity)).await?)
    }

    async fn ask_until_known(
        &mut self,
        visits: &[VisitId],
    ) -> Result<Option<Vec<Verdict>>, EngineError> {
        let link = &self.link;
        Ok(persist(&mut self.wish, "settle", || link.known(visits)).await?)
    }
}

/// Asks again while the frontier is away; none if we are told to end meanwhile.
///
/// # Errors
/// [`LinkError::Refused`].
pub async fn persist<T, F: Future<Output = Result<T, LinkError>>>(
    wish: &mut watch::Receiver<Wish>,
    what: &str,
    mut ask: impl FnMut() -> F,
) -> Result<Option<T>, LinkError> {
    let mut backoff = BACKOFF_MIN;
    loop {
        match ask().await {
            Ok(answer) => return Ok(Some(answer)),
            Err(error @ LinkError::Refused(_)) => return Err(error),
            Err(error) => tracing::warn!(%error, what, "frontier is away, asking again"),
        }
        if *wish.borrow() > Wish::Work {
            return Ok(None);
        }
        tokio::select! {
            () = tokio::time::sleep(backoff) => backoff = (backoff * 2).min(BACKOFF_MAX),
            changed = wish.changed() => if changed.is_err() { return Ok(None) },
        }
    }
}
