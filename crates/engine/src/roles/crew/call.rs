//! How does somebody get leases who asks anew each time?
//!
//! A caller brings its places with the question and takes them away with the answer: leases are
//! given to it while it waits, so that no host's time runs for somebody who may never come back. What
//! it was given is its own for the time it has asked for, or until it says that it is still at it;
//! each visit for itself, because the answer may not have reached it.
//!
//! Always: a call that is broken off gives back what had come, untouched.

use std::sync::Arc;
use std::time::Duration;

use frontier::Lease;
use ports::Clock as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use types::{Timestamp, VisitId};

use super::{Crew, Full, State};
use crate::report::Report;

/// How long a call waits for more leases after its first: those that are ready come together.
const GATHER: Duration = Duration::from_millis(20);
/// What callers are called in logs.
const NAME: &str = "caller";

/// Where a visit stands, for somebody who has its number and no session.
#[derive(Debug, Clone)]
pub enum Holding {
    /// It is under way, in this session.
    Held(u64, Box<Lease>),
    /// It was given out once; [`Crew::known`] tells what became of it.
    Over,
    /// There was never such a visit.
    Unknown,
}

impl Crew {
    /// At most `places` leases, each for as long as `lease` says, but not longer than a worker's
    /// silence may last. Waits for the first of them.
    ///
    /// # Errors
    /// [`Full`].
    pub async fn call(
        self: &Arc<Self>,
        places: usize,
        lease: Duration,
        wait: Duration,
    ) -> Result<Vec<Lease>, Full> {
        let until = Instant::now() + wait;
        let mut calling = self.begin_call(places, lease.min(self.lease))?;
        if let Ok(Some(first)) = timeout_at(until, calling.coming.recv()).await {
            calling.come.push(first);
            let until = Instant::now() + GATHER;
            while calling.come.len() < calling.places
                && let Ok(Some(next)) = timeout_at(until, calling.coming.recv()).await
            {
                calling.come.push(next);
            }
        }
        Ok(calling.end())
    }

    fn begin_call(self: &Arc<Self>, places: usize, lease: Duration) -> Result<Calling, Full> {
        let mut state = self.state();
        let (session, places) = self.enrol(&mut state, NAME, places)?;
        let (tasks, coming) = mpsc::channel(places);
        let member = state.members.get_mut(&session).expect("just enrolled");
        member.caller = Some(lease);
        member.tasks = Some(tasks);
        member.counted = true;
        self.slots.add(places);
        drop(state);
        let crew = Arc::clone(self);
        Ok(Calling { crew, session, places, coming, come: Vec::new(), answered: false })
    }

    /// Callers are still making these visits: their time begins anew. Answers those that are
    /// nobody's to make any more.
    pub fn renew(&self, visits: &[VisitId]) -> Vec<VisitId> {
        let now = self.clock.now();
        let mut state = self.state();
        let mut ended = Vec::new();
        for visit in visits {
            match state.visits.get_mut(visit) {
                Some(held) => held.since = now,
                None => ended.push(*visit),
            }
        }
        ended
    }

    /// Requests of callers' visits have just left.
    pub fn left(&self, visits: &[VisitId]) {
        let now = self.clock.now();
        let state = self.state();
        visits.iter().for_each(|visit| state.left(*visit, now));
    }

    pub fn holding(&self, visit: VisitId) -> Holding {
        let state = self.state();
        if let Some(held) = state.visits.get(&visit) {
            return Holding::Held(held.session, Box::new(held.lease.clone()));
        }
        let shard = state.shards.get(&visit.shard());
        match shard.is_some_and(|shard| visit.count() < shard.next_visit) {
            true => Holding::Over,
            false => Holding::Unknown,
        }
    }
}

/// A call that is being answered.
struct Calling {
    crew: Arc<Crew>,
    session: u64,
    places: usize,
    coming: mpsc::Receiver<Lease>,
    come: Vec<Lease>,
    answered: bool,
}

impl Calling {
    fn end(mut self) -> Vec<Lease> {
        let crew = Arc::clone(&self.crew);
        let mut state = crew.state();
        self.hang_up(&mut state);
        self.answered = true;
        let now = crew.clock.now();
        for lease in &self.come {
            if let Some(held) = state.visits.get_mut(&lease.visit) {
                held.since = now;
            }
        }
        std::mem::take(&mut self.come)
    }

    /// Nothing more comes, and what has come is here.
    fn hang_up(&mut self, state: &mut State) {
        if let Some(member) = state.members.get_mut(&self.session) {
            member.tasks = None;
        }
        // Leases are sent under the same lock.
        self.come.extend(std::iter::from_fn(|| self.coming.try_recv().ok()));
        state.call_shrinks(self.session);
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let crew = Arc::clone(&self.crew);
        let mut state = crew.state();
        self.hang_up(&mut state);
        for lease in std::mem::take(&mut self.come) {
            let Some(held) = state.visits.remove(&lease.visit) else { continue };
            state.reported(held.session);
            if let Some(shard) = state.shards.get(&lease.visit.shard()) {
                // The owner is gone only at the end.
                let _ = shard.reports.try_send(Report::given_back(&lease));
            }
        }
    }
}

impl State {
    /// A caller keeps the places of its visits alone; one that has none is gone.
    pub(super) fn call_shrinks(&mut self, session: u64) {
        let Some(member) = self.members.get_mut(&session) else { return };
        if member.tasks.is_some() {
            // Still waiting: what was reported was of this very call, and its place stays.
            return;
        }
        let unused = member.capacity.saturating_sub(member.under_way);
        member.capacity = member.under_way;
        if unused > 0 {
            self.slots.retire(unused);
        }
        if member.under_way == 0 {
            self.members.remove(&session);
        }
    }

    /// Visits of callers whose time is over are lost.
    pub(super) fn expire_calls(&mut self, now: Timestamp) {
        let over = |session: &u64, since: Timestamp| {
            let lease = self.members.get(session).and_then(|member| member.caller);
            lease.is_some_and(|lease| now.since(since) > lease)
        };
        let lost: Vec<VisitId> = self
            .visits
            .iter()
            .filter(|(_, held)| over(&held.session, held.since))
            .map(|(visit, _)| *visit)
            .collect();
        for visit in lost {
            tracing::info!(%visit, "a caller's lease ran out");
            self.lose(visit, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::super::kit::{LEASE, crew, given, lease, worker};
    use super::*;

    const WAIT: Duration = Duration::from_secs(5);

    fn numbers(leases: &[Lease]) -> Vec<u64> {
        leases.iter().map(|lease| lease.visit.count()).collect()
    }

    fn free(crew: &Crew) -> usize {
        crew.slots.semaphore().available_permits()
    }

    /// A call under way, and what is given out meanwhile.
    async fn called(crew: &Arc<Crew>, places: usize, hosts: &[(&str, u64)]) -> Vec<Lease> {
        let calling = tokio::spawn({
            let crew = Arc::clone(crew);
            async move { crew.call(places, LEASE, WAIT).await }
        });
        tokio::task::yield_now().await;
        for (host, count) in hosts {
            crew.dispatch(lease(host, *count)).unwrap();
        }
        calling.await.unwrap().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_has_places_while_it_waits_and_for_what_it_was_given() {
        let (crew, _) = crew(100);
        assert_eq!(numbers(&called(&crew, 3, &[("x", 1), ("y", 2)]).await), [1, 2]);
        // Two are held by their visits, as far as the owner is concerned, who gives them back.
        assert!(crew.dispatch(lease("z", 3)).is_err(), "nobody waits");
        assert!(crew.call(98, LEASE, Duration::ZERO).await.unwrap().is_empty());
        assert_eq!(crew.state().members.len(), 1, "a call in vain leaves nothing behind");
        assert!(matches!(crew.holding(VisitId(1)), Holding::Held(..)));
        assert!(matches!(crew.holding(VisitId(3)), Holding::Unknown));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_is_never_heard_again_loses_its_visits_each_for_itself() {
        let (crew, _) = crew(100);
        called(&crew, 2, &[("x", 1), ("y", 2)]).await;
        tokio::time::advance(LEASE).await;
        assert_eq!(crew.renew(&[VisitId(1), VisitId(9)]), [VisitId(9)]);
        tokio::time::advance(Duration::from_secs(1)).await;
        crew.expire(crew.clock.now());
        assert!(matches!(crew.holding(VisitId(1)), Holding::Held(..)), "it was renewed");
        assert!(!matches!(crew.holding(VisitId(2)), Holding::Held(..)));
        assert_eq!(crew.known(&[VisitId(2)]).await, Ok(vec![Verdict::Stale]));
        // Its owner has committed the loss. That is no report of the caller's.
        crew.state().answer(VisitId(2), Verdict::Kept);
        assert_eq!(crew.known(&[VisitId(2)]).await, Ok(vec![Verdict::Stale]));
        tokio::time::advance(LEASE).await;
        crew.expire(crew.clock.now());
        assert!(crew.state().members.is_empty() && crew.state().visits.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_broken_off_gives_back_what_had_come() {
        let (crew, _) = crew(100);
        let calling = tokio::spawn({
            let crew = Arc::clone(&crew);
            async move { crew.call(3, LEASE, WAIT).await }
        });
        tokio::task::yield_now().await;
        crew.dispatch(lease("x", 1)).unwrap();
        calling.abort();
        assert!(calling.await.is_err());
        assert!(crew.state().visits.is_empty() && crew.state().members.is_empty());
        assert_eq!(free(&crew), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_gets_no_more_than_it_asks_for_and_takes_no_place_of_a_worker() {
        let (crew, _) = crew(10);
        let (_, mut tasks) = worker(&crew, 8);
        assert_eq!(crew.call(9, LEASE, Duration::ZERO).await.map(|l| l.len()), Ok(0));
        assert_eq!(free(&crew), 8, "the places of the call have gone with it");
        crew.dispatch(lease("x", 1)).unwrap();
        assert_eq!(given(&mut tasks), [1]);
        let (_, _more) = worker(&crew, 8);
        assert_eq!(crew.call(1, LEASE, Duration::ZERO).await.map(|l| l.len()), Err(Full));
    }
}
