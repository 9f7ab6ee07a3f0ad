//! Who makes the visits, when other processes do?
//!
//! Workers join with a number of visits that they can make at once, get leases, and report. Each
//! has a session, which lasts as long as its heartbeats come. A worker that is silent for a lease's
//! time is taken for dead: its visits are settled as lost, which costs their hosts a pause and their
//! URLs nothing. It may be alive all the same, frozen or cut off. So it keeps the same time (see
//! [`super::worker::Term`]) and sends nothing once that is over, and what it reports is refused.
//!
//! Always: a visit belongs to one session, from its lease to its report. A host is visited by one
//! worker as long as that is there, so that it has one connection open at most. There are no more leases
//! than places in the sessions, so that none waits for a worker with its host's time running.
//!
//! Not here: how the two speak (`service`), what the worker does (`outpost`).

mod call;
mod hands;
#[cfg(test)]
mod kit;
mod places;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use foldhash::HashMap;
use frontier::Lease;
use lru::LruCache;
use ports::Clock as _;
use tokio::sync::{Semaphore, mpsc, oneshot};
use types::{HostKey, ShardId, Timestamp, VisitId};

use crate::clock::SteadyClock;
use crate::ctx::Ctx;
use crate::life;
use crate::report::Report;
use crate::roles::ledger::Ledger;
pub use call::Holding;
use hands::{CrewHands, judged};
use places::Places;

/// Workers at once; each costs a stream and its leases.
const MEMBERS_MAX: usize = 10_000;
/// Hosts whose worker is remembered: more than are visited while a connection is kept open.
const HOMES_MAX: NonZeroUsize = NonZeroUsize::new(1 << 18).expect("not zero");
/// Visits of which it is remembered that they were reported, beside those in the ledger: it knows
/// only those that were answered.
const REPORTED_MAX: NonZeroUsize = NonZeroUsize::new(1 << 16).expect("not zero");
/// How often sessions are looked through.
const TICK: Duration = Duration::from_millis(500);

/// How many times its capacity a worker may have under way, for the sake of hosts it knows.
pub const OVERTIME: usize = 2;

/// What a worker is told when it joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    pub session: u64,
    /// Visits that it may have under way: what it asked for, if there is room.
    pub capacity: usize,
    /// After so long a silence its leases are somebody else's.
    pub lease: Duration,
    /// Tells the records of this crawl from those of any other.
    pub crawl_id: u128,
    /// The name in robots.txt files under which it crawls.
    pub product: String,
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// In the store, also if it was reported before.
    Kept,
    /// The visit was not this worker's any more. What it has fetched counts for nothing.
    Stale,
}

/// The session has ended: join again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no such session: it has ended, or the frontier was restarted; join again")]
pub struct Gone;

/// The crew is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no more workers can join: raise crawl.concurrency, or let others leave")]
pub struct Full;

/// All workers of a frontier.
pub struct Crew {
    clock: SteadyClock,
    lease: Duration,
    crawl_id: u128,
    product: String,
    /// Places of all sessions that no lease is held for.
    slots: Places,
    /// Of all sessions together.
    capacity_max: usize,
    ledger: Ledger,
    state: Mutex<State>,
}

struct State {
    slots: Places,
    last_session: u64,
    members: BTreeMap<u64, Member>,
    visits: HashMap<VisitId, Held>,
    /// Who waits to hear that a reported visit is in the store.
    waiting: HashMap<VisitId, Vec<oneshot::Sender<Verdict>>>,
    shards: BTreeMap<ShardId, Shard>,
    /// Which worker a host was given to last: it has a connection to it, and there may be one only.
    homes: LruCache<HostKey, u64>,
    /// Visits that are in the store of late.
    reported: LruCache<VisitId, ()>,
    closed: bool,
}

impl State {
    fn new(slots: Places) -> Self {
        Self {
            slots,
            last_session: 0,
            members: BTreeMap::new(),
            visits: HashMap::default(),
            waiting: HashMap::default(),
            shards: BTreeMap::new(),
            homes: LruCache::new(HOMES_MAX),
            reported: LruCache::new(REPORTED_MAX),
            closed: false,
        }
    }
}

struct Member {
    name: String,
    capacity: usize,
    /// Visits that it has not reported.
    under_way: usize,
    /// None until it asks for its tasks, and when it has hung up.
    tasks: Option<mpsc::Sender<Lease>>,
    heard_at: Timestamp,
    draining: bool,
    /// Whether its places are among the slots.
    counted: bool,
    /// Of one that has called once (see [`call`]): how long its leases last.
    caller: Option<Duration>,
}

impl Member {
    fn places_left(&self) -> usize {
        match self.tasks {
            Some(_) => self.capacity.saturating_sub(self.under_way),
            None => 0,
        }
    }

    /// Whether a host that it has visited before may come to it again. Hosts are not spread quite
    /// evenly, so it may get some more than its share; all together there are never too many.
    fn knows_room(&self) -> bool {
        let times = if self.caller.is_some() { 1 } else { OVERTIME };
        self.tasks.is_some() && self.under_way < times * self.capacity
    }
}

struct Held {
    lease: Lease,
    session: u64,
    since: Timestamp,
}

#[derive(Clone)]
struct Shard {
    ctx: Arc<Ctx>,
    reports: mpsc::Sender<Report>,
    /// Beyond all visits that were ever given out.
    next_visit: u64,
}

/// What a frontier with workers elsewhere is made of.
#[derive(Debug, Clone)]
pub struct CrewOptions {
    /// A worker that is silent for so long has lost its leases.
    pub lease: Duration,
    /// Visits under way, all workers together.
    pub capacity_max: usize,
    pub crawl_id: u128,
    pub product: String,
}

impl Crew {
    pub fn new(options: CrewOptions, clock: SteadyClock, ledger: Ledger) -> Arc<Self> {
        let slots = Places::default();
        Arc::new(Self {
            clock,
            lease: options.lease,
            crawl_id: options.crawl_id,
            product: options.product,
            slots: slots.clone(),
            capacity_max: options.capacity_max,
            ledger,
            state: Mutex::new(State::new(slots)),
        })
    }

    /// How long a worker's silence lasts before its leases are given to others.
    pub fn lease_time(&self) -> Duration {
        self.lease
    }

    pub(crate) fn slots(&self) -> Arc<Semaphore> {
        self.slots.semaphore()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }

    /// The way of a shard's owner to the crew.
    pub(crate) fn hands(
        self: &Arc<Self>,
        (shard, next_visit): (ShardId, u64),
        ctx: &Arc<Ctx>,
        reports: mpsc::Sender<Report>,
    ) -> CrewHands {
        let desk = Shard { ctx: Arc::clone(ctx), reports: reports.clone(), next_visit };
        self.state().shards.insert(shard, desk);
        CrewHands { crew: Arc::clone(self), ctx: Arc::clone(ctx), reports }
    }

    // ── what workers say ─────────────────────────────────────────────────────────────────────

    /// A worker that can make `capacity` visits at once.
    ///
    /// # Errors
    /// When all places are taken, or the frontier is closing.
    pub fn join(&self, name: &str, capacity: usize) -> Result<Membership, Full> {
        let (session, capacity) = self.enrol(&mut self.state(), name, capacity)?;
        tracing::info!(worker = name, session, capacity, "worker joined");
        Ok(Membership {
            session,
            capacity,
            lease: self.lease,
            crawl_id: self.crawl_id,
            product: self.product.clone(),
        })
    }

    /// A new member with as much of that capacity as there is room for.
    fn enrol(&self, state: &mut State, name: &str, capacity: usize) -> Result<(u64, usize), Full> {
        let taken: usize = state.members.values().map(|member| member.capacity).sum();
        let capacity = capacity.min(self.capacity_max.saturating_sub(taken));
        if capacity == 0 || state.closed || state.members.len() >= MEMBERS_MAX {
            return Err(Full);
        }
        // Never one of an earlier process: the clock goes on.
        let session = (state.last_session + 1).max(self.clock.now().micros());
        state.last_session = session;
        let member = Member {
            name: name.to_owned(),
            capacity,
            under_way: 0,
            tasks: None,
            heard_at: self.clock.now(),
            draining: false,
            counted: false,
            caller: None,
        };
        state.members.insert(session, member);
        Ok((session, capacity))
    }

    /// The worker's leases as they are given, until it drains, or asks again.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn tasks(&self, session: u64) -> Result<mpsc::Receiver<Lease>, Gone> {
        let mut state = self.state();
        let closed = state.closed;
        let member = state.members.get_mut(&session).ok_or(Gone)?;
        let (send, receive) = mpsc::channel(OVERTIME * member.capacity);
        if !member.draining && !closed {
            member.tasks = Some(send);
            if !std::mem::replace(&mut member.counted, true) {
                self.slots.add(member.capacity);
            }
        }
        Ok(receive)
    }

    /// The worker is alive and is making these visits. Answers those that it should end, because
    /// they are not its own any more.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn heartbeat(&self, session: u64, under_way: &[VisitId]) -> Result<Vec<VisitId>, Gone> {
        let now = self.clock.now();
        let mut state = self.state();
        state.members.get_mut(&session).ok_or(Gone)?.heard_at = now;
        let own =
            |visit: &VisitId| state.visits.get(visit).is_some_and(|held| held.session == session);
        let ended = under_way.iter().copied().filter(|visit| !own(visit)).collect();
        // A task that was on its way when a stream broke reached nobody.
        let old = Timestamp(now.micros().saturating_sub(micros(self.lease)));
        let missing: Vec<VisitId> = state
            .visits
            .iter()
            .filter(|(visit, held)| {
                held.session == session && held.since < old && !under_way.contains(visit)
            })
            .map(|(visit, _)| *visit)
            .collect();
        for visit in missing {
            state.lose(visit, now);
        }
        Ok(ended)
    }

    /// Requests of the worker's visits have left, at these moments: others may go to their addresses
    /// after the pause, before the answers are there.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn sent(&self, session: u64, left: &[(VisitId, Timestamp)]) -> Result<(), Gone> {
        let state = self.state();
        if !state.members.contains_key(&session) {
            return Err(Gone);
        }
        let own = |visit: &VisitId| {
            state.visits.get(visit).filter(|held| held.session == session).is_some()
        };
        left.iter().filter(|(visit, _)| own(visit)).for_each(|(visit, at)| state.left(*visit, *at));
        Ok(())
    }

    /// What the worker was given with this visit; none if it is not its own any more.
    pub fn lease(&self, session: u64, visit: VisitId) -> Option<Lease> {
        let state = self.state();
        let held = state.visits.get(&visit).filter(|held| held.session == session);
        held.map(|held| held.lease.clone())
    }

    /// Visits that are over. Answers when each of them is in the store, or refused.
    ///
    /// # Errors
    /// [`Gone`], also when the frontier ends before they are in the store.
    pub async fn report(&self, session: u64, reports: Vec<Report>) -> Result<Vec<Verdict>, Gone> {
        let mut answers = Vec::with_capacity(reports.len());
        for report in reports {
            let visit = report.visit;
            let (tell, told) = oneshot::channel();
            answers.push((visit, told));
            if let Some((shard, lease)) = self.take(session, visit, tell)? {
                let report = judged(&shard.ctx, &lease, report).await;
                // There is room for one report of every visit under way.
                if shard.reports.try_send(report).is_err() {
                    return Err(Gone);
                }
            }
        }
        let mut verdicts = Vec::with_capacity(answers.len());
        for (_, told) in answers {
            verdicts.push(told.await.map_err(|_| Gone)?);
        }
        Ok(verdicts)
    }

    /// Takes a visit from the worker that has reported it; none if its report says nothing new.
    /// `tell` will hear the verdict.
    fn take(
        &self,
        session: u64,
        visit: VisitId,
        tell: oneshot::Sender<Verdict>,
    ) -> Result<Option<(Shard, Lease)>, Gone> {
        let mut state = self.state();
        state.members.get_mut(&session).ok_or(Gone)?.heard_at = self.clock.now();
        if state.visits.get(&visit).is_some_and(|held| held.session == session) {
            let held = state.visits.remove(&visit).expect("it was there");
            state.waiting.entry(visit).or_default().push(tell);
            state.reported(session);
            let shard = state.shards.get(&visit.shard()).ok_or(Gone)?;
            return Ok(Some((shard.clone(), held.lease)));
        }
        self.tell_later(&mut state, visit, tell);
        Ok(None)
    }

    /// The worker wants no more tasks; what it has under way it will report.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn drain(&self, session: u64) -> Result<(), Gone> {
        let mut state = self.state();
        let member = state.members.get_mut(&session).ok_or(Gone)?;
        tracing::info!(worker = member.name, session, "worker drains");
        member.draining = true;
        member.tasks = None;
        self.give_up_places(member);
        Ok(())
    }

    /// Which of these visits are in the store: what a worker asks of those it had reported when it
    /// died, or lost us. One that is on its way there is waited for.
    ///
    /// # Errors
    /// [`Gone`], when the frontier ends before that is decided.
    pub async fn known(&self, visits: &[VisitId]) -> Result<Vec<Verdict>, Gone> {
        let mut verdicts = Vec::with_capacity(visits.len());
        for visit in visits {
            let (tell, told) = oneshot::channel();
            self.tell_later(&mut self.state(), *visit, tell);
            verdicts.push(told.await.map_err(|_| Gone)?);
        }
        Ok(verdicts)
    }

    /// Tells what became of a visit that nobody holds: now, or when it is in the store.
    fn tell_later(&self, state: &mut State, visit: VisitId, tell: oneshot::Sender<Verdict>) {
        if let Some(waiting) = state.waiting.get_mut(&visit) {
            waiting.push(tell);
            return;
        }
        let kept = state.reported.contains(&visit) || self.ledger.knows(visit);
        let verdict = if kept { Verdict::Kept } else { Verdict::Stale };
        let _ = tell.send(verdict); // whoever asked waits for it
    }

    // ── what happens by itself ───────────────────────────────────────────────────────────────

    /// Looks after sessions, for ever.
    pub async fn watch(self: Arc<Self>) {
        let mut tick = tokio::time::interval(TICK);
        loop {
            tick.tick().await;
            self.expire(self.clock.now());
        }
    }

    /// Ends sessions that were silent for too long, and those that have drained.
    fn expire(&self, now: Timestamp) {
        let mut state = self.state();
        state.expire_calls(now);
        let silent =
            |member: &Member| member.caller.is_none() && now.since(member.heard_at) > self.lease;
        let drained = |member: &Member| member.draining && member.under_way == 0;
        let over: Vec<u64> = state
            .members
            .iter()
            .filter(|(_, member)| silent(member) || drained(member))
            .map(|(session, _)| *session)
            .collect();
        for session in over {
            let Some(mut member) = state.members.remove(&session) else { continue };
            self.give_up_places(&mut member);
            let visits: Vec<VisitId> = state
                .visits
                .iter()
                .filter(|(_, held)| held.session == session)
                .map(|(visit, _)| *visit)
                .collect();
            if silent(&member) {
                let lost = visits.len();
                tracing::warn!(
                    worker = member.name,
                    session,
                    lost,
                    "worker is silent: session ended"
                );
            } else {
                tracing::info!(worker = member.name, session, "worker has drained");
            }
            for visit in visits {
                state.lose(visit, now);
            }
        }
    }

    /// No more tasks for anybody; what is under way may be reported.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        for member in state.members.values_mut() {
            member.tasks = None;
        }
    }

    fn give_up_places(&self, member: &mut Member) {
        if std::mem::replace(&mut member.counted, false) {
            self.slots.retire(member.capacity);
        }
    }

    /// Gives the lease to whoever has visited its host before, or has most places left.
    fn dispatch(&self, lease: Lease) -> Result<(), Box<Lease>> {
        let mut state = self.state();
        let home = state.homes.get(&lease.host).copied();
        let home = home.filter(|home| state.members.get(home).is_some_and(Member::knows_room));
        let freest = || {
            let able = state.members.iter().filter(|(_, member)| member.places_left() > 0);
            able.max_by_key(|(_, member)| member.places_left()).map(|(session, _)| *session)
        };
        let Some(session) = home.or_else(freest) else {
            return Err(Box::new(lease));
        };
        state.homes.put(lease.host.clone(), session);
        let held = Held { lease: lease.clone(), session, since: self.clock.now() };
        let member = state.members.get_mut(&session).expect("found above");
        let sent = member.tasks.as_ref().is_some_and(|tasks| tasks.try_send(lease.clone()).is_ok());
        if !sent {
            // It has hung up, and will ask for its tasks again.
            member.tasks = None;
            self.give_up_places(member);
            drop(state);
            return self.dispatch(lease);
        }
        member.under_way += 1;
        let visit = held.lease.visit;
        if let Some(shard) = state.shards.get_mut(&visit.shard()) {
            shard.next_visit = shard.next_visit.max(visit.count() + 1);
        }
        state.visits.insert(visit, held);
        Ok(())
    }
}

impl State {
    /// A worker has one visit less to make.
    fn reported(&mut self, session: u64) {
        let Some(member) = self.members.get_mut(&session) else { return };
        member.under_way = member.under_way.saturating_sub(1);
        if member.caller.is_some() {
            self.call_shrinks(session);
        }
    }

    /// Nobody will report this visit.
    fn lose(&mut self, visit: VisitId, now: Timestamp) {
        let Some(held) = self.visits.remove(&visit) else { return };
        self.reported(held.session);
        if let Some(shard) = self.shards.get(&visit.shard()) {
            // Its request may have left, as far as we know. The owner is gone only at the end.
            let _ = shard.reports.try_send(life::lost(&held.lease, now, true));
        }
    }

    /// The request of a visit has left.
    fn left(&self, visit: VisitId, at: Timestamp) {
        let (held, shard) = (self.visits.get(&visit), self.shards.get(&visit.shard()));
        if let (Some(held), Some(shard)) = (held, shard)
            && let Some(address) = held.lease.address
        {
            let mut addresses = shard.ctx.addresses.lock().expect("no panic while locked");
            addresses.sent(address, visit, at);
        }
    }

    fn answer(&mut self, visit: VisitId, verdict: Verdict) {
        // Nobody waits for one that was lost: that its loss is in the store keeps nobody's report.
        let Some(waiting) = self.waiting.remove(&visit) else { return };
        if verdict == Verdict::Kept {
            self.reported.put(visit, ());
        }
        for tell in waiting {
            let _ = tell.send(verdict); // whoever has asked may have hung up
        }
    }
}

impl std::fmt::Debug for Crew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crew").field("lease", &self.lease).finish_non_exhaustive()
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use ports::Sink as _;
    use ports::shard_store::VisitLine;
    use types::CrawlUrl;

    use super::kit::{LEASE, crew, given, lease, worker};
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_host_stays_with_its_worker_and_others_go_to_whoever_has_room() {
        let (crew, _) = crew(100);
        let (_, mut a) = worker(&crew, 2);
        let (_, mut b) = worker(&crew, 3);
        assert_eq!(crew.slots.semaphore().available_permits(), 5);
        for (count, host) in ["x", "y", "z", "x", "x", "y"].into_iter().enumerate() {
            crew.dispatch(lease(host, count as u64)).unwrap();
        }
        let (a, b) = (given(&mut a), given(&mut b));
        for host in [vec![0, 3, 4], vec![1, 5], vec![2]] {
            let at_a = host.iter().filter(|count| a.contains(count)).count();
            assert!(at_a == 0 || at_a == host.len(), "{host:?} is split: {a:?} and {b:?}");
        }
        assert_eq!(a.len() + b.len(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_is_silent_loses_its_visits_and_its_places() {
        let (crew, _) = crew(100);
        let (session, mut tasks) = worker(&crew, 4);
        crew.dispatch(lease("x", 1)).unwrap();
        assert_eq!(given(&mut tasks), [1]);
        let visit = VisitId::new(ShardId(0), 1);
        tokio::time::advance(LEASE - Duration::from_secs(1)).await;
        assert_eq!(crew.heartbeat(session, &[visit]), Ok(Vec::new()));
        tokio::time::advance(LEASE - Duration::from_secs(1)).await;
        crew.expire(crew.clock.now());
        assert!(crew.lease(session, visit).is_some(), "the heartbeat has renewed it");
        tokio::time::advance(Duration::from_secs(2)).await;
        crew.expire(crew.clock.now());
        assert!(crew.lease(session, visit).is_none());
        assert_eq!(crew.heartbeat(session, &[visit]), Err(Gone));
        assert_eq!(crew.report(session, Vec::new()).await, Ok(Vec::new()));
        let late = Report::void(visit, crew.clock.now());
        assert_eq!(crew.report(session, vec![late]).await, Err(Gone));
        assert_eq!(crew.known(&[visit]).await, Ok(vec![Verdict::Stale]));
        tokio::task::yield_now().await;
        assert_eq!(crew.slots.semaphore().available_permits(), 0);
        assert!(crew.dispatch(lease("x", 2)).is_err(), "nobody is there");
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_drains_gets_nothing_new_and_may_report() {
        let (crew, _) = crew(100);
        let (session, mut tasks) = worker(&crew, 4);
        crew.dispatch(lease("x", 1)).unwrap();
        crew.drain(session).unwrap();
        assert_eq!(given(&mut tasks), [1]);
        assert!(tasks.recv().await.is_none(), "its stream ends");
        assert!(crew.dispatch(lease("y", 2)).is_err());
        crew.expire(crew.clock.now());
        assert!(crew.lease(session, VisitId::new(ShardId(0), 1)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_committed_before_is_kept_when_it_is_reported_again() {
        let (crew, ledger) = crew(100);
        let (session, _tasks) = worker(&crew, 4);
        let visit = VisitId::new(ShardId(0), 7);
        let line = VisitLine {
            seq: 1,
            visit,
            url: CrawlUrl::parse("http://x/").unwrap(),
            at: Timestamp::ZERO,
            status: 200,
            content_type: None,
            digest: None,
            warc: None,
            page: None,
        };
        ledger.sink(ShardId(0)).feed(&[line]).unwrap();
        let again = Report::void(visit, crew.clock.now());
        assert_eq!(crew.report(session, vec![again]).await, Ok(vec![Verdict::Kept]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_visit_on_its_way_into_the_store_is_waited_for() {
        let (crew, _) = crew(100);
        let visit = VisitId::new(ShardId(0), 7);
        crew.state().waiting.insert(visit, Vec::new());
        let asked = tokio::spawn({
            let crew = Arc::clone(&crew);
            async move { crew.known(&[visit]).await }
        });
        tokio::task::yield_now().await;
        crew.state().answer(visit, Verdict::Kept);
        assert_eq!(asked.await.unwrap(), Ok(vec![Verdict::Kept]));
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_no_more_places_than_the_crawl_allows() {
        let (crew, _) = crew(5);
        assert_eq!(crew.join("a", 3).unwrap().capacity, 3);
        assert_eq!(crew.join("b", 3).unwrap().capacity, 2);
        assert_eq!(crew.join("c", 1), Err(Full));
    }
}
