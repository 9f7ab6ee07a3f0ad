//! Who makes the visits?
//!
//! [`Hands`] are what an owner gives its leases to, and hears reports from. A [`Worker`] makes them
//! in this process: a task per lease, bounded by the slots that the owner holds. (`crew` gives them
//! to other processes, where an `outpost` has a worker of its own.) Whatever happens to a task, its
//! owner hears of it: a visit that panics reports itself lost on its way out.
//!
//! Always: a visit that is settled is over. One whose lease ran out is ended, so that it cannot
//! send its request when the host is somebody else's.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use frontier::Lease;
use ports::Clock;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use types::{Timestamp, VisitId};

use crate::ctx::Ctx;
use crate::life;
use crate::report::Report;

/// What an owner asks of those who make its visits. Their reports come through its channel.
pub trait Hands: Send {
    /// The moment of this lease has come.
    fn start(&mut self, lease: Lease);

    /// The visit is settled; if it goes on all the same, it ends here.
    fn settled(&mut self, visit: VisitId);

    /// The visit is in the store.
    fn kept(&mut self, visit: VisitId);

    /// The report of a visit came too late: it was settled before, without it.
    fn refused(&mut self, visit: VisitId);

    /// Abandons all visits at once. Their grants stay noted; the next start settles them.
    fn abandon(&mut self);
}

/// Makes visits in this process.
#[derive(Debug)]
pub struct Worker {
    ctx: Arc<Ctx>,
    reports: mpsc::Sender<Report>,
    visits: JoinSet<()>,
    handles: BTreeMap<VisitId, AbortHandle>,
    /// Where leases come from another process, which has admitted them.
    abroad: Option<Abroad>,
}

/// What a worker needs whose leases come from another process.
#[derive(Debug, Clone)]
pub struct Abroad {
    /// Until when they hold.
    pub term: Term,
    /// Hears of every request that leaves.
    pub departures: mpsc::Sender<(VisitId, Timestamp)>,
}

impl Worker {
    /// `reports` must have room for one report of every visit under way.
    pub fn new(ctx: Arc<Ctx>, reports: mpsc::Sender<Report>, abroad: Option<Abroad>) -> Self {
        Self { ctx, reports, visits: JoinSet::new(), handles: BTreeMap::new(), abroad }
    }

    /// Visits under way.
    pub fn under_way(&self) -> impl Iterator<Item = VisitId> + '_ {
        self.handles.keys().copied()
    }
}

impl Hands for Worker {
    fn start(&mut self, lease: Lease) {
        while self.visits.try_join_next().is_some() {}
        let ctx = Arc::clone(&self.ctx);
        let (term, departures) = match self.abroad.clone() {
            Some(Abroad { term, departures }) => (Some(term), Some(departures)),
            None => (None, None),
        };
        let mut duty = Duty {
            lease: lease.clone(),
            departure: Departure { left: AtomicBool::new(false), tell: departures },
            ctx: Arc::clone(&ctx),
            reports: self.reports.clone(),
            done: false,
        };
        let visit = lease.visit;
        let handle = self.visits.spawn(async move {
            let report = match (term, lease.address) {
                (None, _) => Some(life::visit(&ctx, lease, &duty.departure).await),
                (Some(term), Some(address)) => {
                    let visit = life::make(&ctx, &lease, address, &duty.departure);
                    term.hold(&ctx.clock, visit).await
                }
                (Some(_), None) => None,
            };
            duty.done = true;
            if let Some(report) = report {
                // The owner is gone only when the crawl is being abandoned.
                let _ = duty.reports.try_send(report);
            }
        });
        self.handles.insert(visit, handle);
    }

    fn settled(&mut self, visit: VisitId) {
        if let Some(handle) = self.handles.remove(&visit) {
            handle.abort();
        }
    }

    fn kept(&mut self, _: VisitId) {}

    fn refused(&mut self, _: VisitId) {}

    fn abandon(&mut self) {
        self.visits.abort_all();
        self.handles.clear();
    }
}

/// Until when leases of another process hold. It moves on with every heartbeat that is answered.
///
/// A process that was put to sleep wakes up with requests that it was about to send, to hosts that
/// are somebody else's by now. So a visit looks at the clock each time before it does anything.
#[derive(Debug, Clone)]
pub struct Term(Arc<AtomicU64>);

impl Term {
    pub fn until(at: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(at.micros())))
    }

    pub fn extend(&self, to: Timestamp) {
        self.0.fetch_max(to.micros(), Ordering::Relaxed);
    }

    pub fn is_over(&self, now: Timestamp) -> bool {
        now.micros() >= self.0.load(Ordering::Relaxed)
    }

    /// Goes on with the work while the term lasts; nothing if it is over before.
    async fn hold<T>(&self, clock: &dyn Clock, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        poll_fn(|cx| {
            if self.is_over(clock.now()) {
                return Poll::Ready(None);
            }
            work.as_mut().poll(cx).map(Some)
        })
        .await
    }
}

/// Whether a visit's request has left, and who wants to know.
#[derive(Debug, Default)]
pub struct Departure {
    left: AtomicBool,
    tell: Option<mpsc::Sender<(VisitId, Timestamp)>>,
}

impl Departure {
    pub(crate) fn at(&self, visit: VisitId, at: Timestamp) {
        self.left.store(true, Ordering::Relaxed);
        if let Some(tell) = &self.tell {
            // Where there is no room it is told with the report.
            let _ = tell.try_send((visit, at));
        }
    }
}

/// The duty to report, which outlives a panic.
struct Duty {
    lease: Lease,
    departure: Departure,
    ctx: Arc<Ctx>,
    reports: mpsc::Sender<Report>,
    done: bool,
}

impl Drop for Duty {
    fn drop(&mut self) {
        if !self.done && std::thread::panicking() {
            let sent = self.departure.left.load(Ordering::Relaxed);
            let report = life::lost(&self.lease, self.ctx.clock.now(), sent);
            let _ = self.reports.try_send(report); // as above
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::SteadyClock;

    #[tokio::test(start_paused = true)]
    async fn what_is_due_after_the_term_does_not_happen() {
        let clock = SteadyClock::at(Timestamp::from_secs(100));
        let term = Term::until(Timestamp::from_secs(130));
        let after = |seconds| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            seconds
        };
        assert_eq!(term.hold(&clock, after(20)).await, Some(20));
        // A heartbeat was answered meanwhile.
        term.extend(Timestamp::from_secs(150));
        assert_eq!(term.hold(&clock, after(20)).await, Some(20));
        assert_eq!(term.hold(&clock, after(20)).await, None);
    }
}
