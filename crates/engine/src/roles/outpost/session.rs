//! What happens between joining a frontier and leaving it?
//!
//! Leases come, visits are made, reports gather and go. Heartbeats say that we are alive, and each
//! that is answered moves the end of our term on. Visits that are over gather while a group is on
//! its way, so that the next one is as large as it needs to be.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use frontier::Lease;
use ports::{Clock as _, Depot};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use types::{Timestamp, VisitId};

use super::courier::{Courier, Returned};
use super::{BACKOFF_MIN, LinkError, Outpost, Wish};
use crate::EngineError;
use crate::report::Report;
use crate::roles::crew::{Membership, OVERTIME};
use crate::roles::worker::{Abroad, Hands as _, Term, Worker};

/// Heartbeats in a lease's time.
const BEATS: u32 = 4;
/// Visits in one report, and how long the first of them waits for others.
const GROUP_MAX: usize = 256;
const GROUP_WAIT: Duration = Duration::from_millis(20);

pub(super) struct Session<'a> {
    outpost: &'a mut Outpost,
    membership: Membership,
    term: Term,
    worker: Worker,
    reports: mpsc::Receiver<Report>,
    /// None until they are asked for, and when the stream has broken.
    tasks: Option<mpsc::Receiver<Lease>>,
    ask_for_tasks_at: Instant,
    /// Requests that have left, and the news of some that is under way to the frontier.
    departures: mpsc::Receiver<(VisitId, Timestamp)>,
    news: Option<News>,
    /// A heartbeat that is under way.
    beat: Option<Beat>,
    beat_at: Instant,
    pending: VecDeque<Report>,
    pending_since: Option<Instant>,
    draining: bool,
    /// The session is over, for the frontier or by our clock.
    gone: bool,
    courier: Option<Courier>,
}

/// When it was sent, and what was answered.
type Beaten = (Timestamp, Result<Vec<VisitId>, LinkError>);
type Beat = Pin<Box<dyn Future<Output = Beaten> + Send>>;
type News = Pin<Box<dyn Future<Output = Result<(), LinkError>> + Send>>;

/// How a session ends.
pub(super) enum End {
    /// Another one may begin.
    Over(Box<dyn Depot>),
    /// We were told to drain, and have.
    Drained(Box<dyn Depot>),
    /// We were told to end at once.
    Abandoned,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        outpost: &'a mut Outpost,
        membership: Membership,
        depot: Box<dyn Depot>,
    ) -> Self {
        let term = Term::until(outpost.ctx.clock.now() + membership.lease);
        // Every visit reports once.
        let (send, reports) = mpsc::channel(OVERTIME * membership.capacity.max(1));
        let (depart, departures) = mpsc::channel(OVERTIME * membership.capacity.max(1));
        let abroad = Abroad { term: term.clone(), departures: depart };
        let worker = Worker::new(outpost.ctx.clone(), send, Some(abroad));
        let now = Instant::now();
        Self {
            outpost,
            term,
            worker,
            reports,
            tasks: None,
            ask_for_tasks_at: now,
            departures,
            news: None,
            beat: None,
            beat_at: now + membership.lease / BEATS,
            pending: VecDeque::new(),
            pending_since: None,
            draining: false,
            gone: false,
            courier: Some(Courier::Here(depot)),
            membership,
        }
    }

    pub(super) async fn run(mut self) -> Result<End, EngineError> {
        loop {
            let wish = *self.outpost.wish.borrow();
            if wish == Wish::Abandon {
                self.worker.abandon();
                return Ok(End::Abandoned);
            }
            self.look_at_term();
            if wish == Wish::Drain {
                self.drain().await;
            }
            if let Some(depot) = self.finished() {
                return Ok(if self.draining { End::Drained(depot) } else { End::Over(depot) });
            }
            self.send_reports();
            self.wait().await?;
        }
    }

    /// Nothing of a session that is over may be sent, and nobody wants to hear of it.
    fn look_at_term(&mut self) {
        self.gone |= self.term.is_over(self.outpost.ctx.clock.now());
        if self.gone {
            self.worker.abandon();
            // Its hosts are others' now, and may have one connection only.
            self.outpost.ctx.fetcher.let_go();
            self.pending.clear();
            self.pending_since = None;
            self.tasks = None;
        }
    }

    async fn drain(&mut self) {
        if std::mem::replace(&mut self.draining, true) || self.gone {
            return;
        }
        self.tasks = None;
        self.outpost.ctx.fetcher.let_go();
        if let Err(error) = self.outpost.link.drain(self.membership.session).await {
            tracing::warn!(%error, "the frontier has not heard that we drain");
            self.gone |= error == LinkError::Gone;
        }
    }

    /// The depot, once nothing is left to be done with it.
    fn finished(&mut self) -> Option<Box<dyn Depot>> {
        let idle = self.worker.under_way().next().is_none() && self.pending.is_empty();
        if !(self.gone || self.draining && idle) {
            return None;
        }
        match self.courier.take()? {
            Courier::Here(depot) => Some(depot),
            away => {
                self.courier = Some(away);
                None
            }
        }
    }

    fn send_reports(&mut self) {
        let Some(since) = self.pending_since else { return };
        let ripe = since.elapsed() >= GROUP_WAIT || self.pending.len() >= GROUP_MAX;
        if !ripe || !self.courier.as_ref().is_some_and(Courier::is_here) {
            return;
        }
        let group = self.pending.drain(..self.pending.len().min(GROUP_MAX)).collect();
        self.pending_since = (!self.pending.is_empty()).then(Instant::now);
        let Outpost { ctx, link, .. } = &*self.outpost;
        let session = self.membership.session;
        self.courier = self.courier.take().map(|courier| courier.send(ctx, link, session, group));
    }

    async fn wait(&mut self) -> Result<(), EngineError> {
        let courier_is_here = self.courier.as_ref().is_some_and(Courier::is_here);
        let reports_at = self.pending_since.filter(|_| courier_is_here).map(|at| at + GROUP_WAIT);
        let tasks_at =
            (self.tasks.is_none() && !self.draining && !self.gone).then_some(self.ask_for_tasks_at);
        let beat_at = (self.beat.is_none() && !self.gone).then_some(self.beat_at);
        // The term may end while nothing else happens.
        let look_at = Instant::now() + self.membership.lease / BEATS;
        tokio::select! {
            biased;
            // One whose sender is gone is never changed again: we go on as we were told.
            Ok(()) = self.outpost.wish.changed() => {}
            heard = answer(&mut self.news) => {
                self.news = None;
                // News that was not heard comes with the report.
                self.gone |= heard == Err(LinkError::Gone);
            }
            // While some is under way, the rest gathers.
            Some(first) = self.departures.recv(), if self.news.is_none() => self.send_news(first),
            beaten = answer(&mut self.beat) => {
                self.beat = None;
                self.on_beat(beaten);
            }
            returned = back(&mut self.courier) => {
                let (depot, holds) = returned?;
                self.courier = Some(Courier::Here(depot));
                self.gone |= !holds;
            }
            Some(report) = self.reports.recv() => {
                self.worker.settled(report.visit);
                if self.draining {
                    self.outpost.ctx.fetcher.let_go();
                }
                self.pending_since.get_or_insert_with(Instant::now);
                self.pending.push_back(report);
            }
            lease = next(&mut self.tasks) => match lease {
                Some(lease) => self.worker.start(lease),
                None => {
                    // It broke off, or the frontier is closing: we ask again.
                    self.tasks = None;
                    self.ask_for_tasks_at = Instant::now() + BACKOFF_MIN;
                }
            },
            () = at(tasks_at) => self.ask_for_tasks().await?,
            () = at(beat_at) => self.send_beat(),
            () = at(reports_at) => {}
            () = sleep_until(look_at) => {}
        }
        Ok(())
    }

    async fn ask_for_tasks(&mut self) -> Result<(), EngineError> {
        match self.outpost.link.tasks(&self.membership).await {
            Ok(tasks) => self.tasks = Some(tasks),
            Err(LinkError::Gone) => self.gone = true,
            Err(LinkError::Refused(why)) => return Err(EngineError::Setting(why)),
            Err(LinkError::Away(why)) => {
                tracing::warn!(why, "no tasks to be had");
                self.ask_for_tasks_at = Instant::now() + BACKOFF_MIN;
            }
        }
        Ok(())
    }

    /// Tells which requests have left: others wait at their addresses.
    fn send_news(&mut self, first: (VisitId, Timestamp)) {
        let mut left = vec![first];
        left.extend(std::iter::from_fn(|| self.departures.try_recv().ok()));
        let (link, session) = (self.outpost.link.clone(), self.membership.session);
        self.news = Some(Box::pin(async move { link.sent(session, &left).await }));
    }

    fn send_beat(&mut self) {
        let mut under_way: Vec<VisitId> = self.worker.under_way().collect();
        under_way.extend(self.pending.iter().map(|report| report.visit));
        let link = self.outpost.link.clone();
        let (session, sent_at) = (self.membership.session, self.outpost.ctx.clock.now());
        self.beat =
            Some(Box::pin(async move { (sent_at, link.heartbeat(session, &under_way).await) }));
    }

    fn on_beat(&mut self, (sent_at, answer): Beaten) {
        self.beat_at = Instant::now() + self.membership.lease / BEATS;
        match answer {
            Ok(ended) => {
                // From when it was sent: the frontier counts from later.
                self.term.extend(sent_at + self.membership.lease);
                ended.into_iter().for_each(|visit| self.worker.settled(visit));
            }
            Err(LinkError::Gone) => self.gone = true,
            Err(error) => {
                tracing::warn!(%error, "a heartbeat is not answered");
                self.beat_at = Instant::now() + BACKOFF_MIN;
            }
        }
    }
}

async fn answer<T>(asked: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match asked {
        Some(asked) => asked.await,
        None => std::future::pending().await,
    }
}

async fn back(courier: &mut Option<Courier>) -> Returned {
    match courier {
        Some(courier) => courier.returned().await,
        None => std::future::pending().await,
    }
}

async fn next(tasks: &mut Option<mpsc::Receiver<Lease>>) -> Option<Lease> {
    match tasks {
        Some(tasks) => tasks.recv().await,
        None => std::future::pending().await,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
