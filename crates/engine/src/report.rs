//! What does a visit tell its owner?

use frontier::{Lease, RobotsErrand, Touch};
use ports::Held;
use ports::shard_store::RobotsFound;
use types::outcome::Failure;
use types::{CrawlUrl, Fault, Origin, Outcome, Refusal, Task, Timestamp, VisitId};

use crate::stages::follow::Followed;
use crate::stages::read::Packed;

/// The end of one visit.
#[derive(Debug)]
pub struct Report {
    pub visit: VisitId,
    /// What it was like for the host.
    pub touch: Touch,
    /// When its request left, for the archive and the log.
    pub at: Timestamp,
    pub done: Done,
    pub packed: Option<Packed>,
    /// Keeps the bytes counted until they are on disk.
    pub hold: Option<Box<dyn Held>>,
}

#[derive(Debug)]
pub enum Done {
    Page(Box<PageDone>),
    Robots {
        errand: RobotsErrand,
        step: RobotsStep,
        status: Option<u16>,
    },
    /// The rules of this origin must be asked for again; the page stays where it was.
    NoRules {
        origin: Origin,
    },
    /// Its host was found to need a longer pause, or it had no turn: the visit has never been.
    GivenBack,
    /// The visit died.
    Lost {
        task: Option<Task>,
    },
}

#[derive(Debug)]
pub struct PageDone {
    pub task: Task,
    pub outcome: Outcome,
    pub followed: Followed,
    /// The date of its records, where they were written by another clock than ours.
    pub dated: Option<Timestamp>,
}

impl Done {
    pub(crate) fn page(task: Task, outcome: Outcome, followed: Followed) -> Self {
        Self::Page(Box::new(PageDone { task, outcome, followed, dated: None }))
    }
}

#[derive(Debug)]
pub enum RobotsStep {
    Moved(CrawlUrl),
    Found(RobotsFound),
    /// We ask nothing of that origin.
    Refused(Refusal),
}

impl Report {
    fn untouched(lease: &Lease, done: Done) -> Self {
        Self {
            visit: lease.visit,
            touch: Touch::Untouched,
            at: lease.granted_at,
            done,
            packed: None,
            hold: None,
        }
    }

    /// Links that are to be looked up and kept with it.
    pub fn links(&self) -> usize {
        match &self.done {
            Done::Page(done) => done.followed.by_shard.values().map(|links| links.len()).sum(),
            _ => 0,
        }
    }

    /// Of a visit that is nobody's.
    pub fn void(visit: VisitId, at: Timestamp) -> Self {
        let done = Done::Lost { task: None };
        Self { visit, touch: Touch::Untouched, at, done, packed: None, hold: None }
    }

    pub(crate) fn refused(lease: &Lease, task: Task, refusal: Refusal) -> Self {
        let outcome = Outcome::Refused(refusal);
        Self::untouched(lease, Done::page(task, outcome, Followed::default()))
    }

    pub(crate) fn no_rules(lease: &Lease, origin: Origin) -> Self {
        Self::untouched(lease, Done::NoRules { origin })
    }

    pub(crate) fn given_back(lease: &Lease) -> Self {
        Self::untouched(lease, Done::GivenBack)
    }

    pub(crate) fn robots(lease: &Lease, errand: RobotsErrand, step: RobotsStep) -> Self {
        Self::untouched(lease, Done::Robots { errand, step, status: None })
    }

    /// The page broke its reader: our fault, and a dead letter.
    pub(crate) fn broke(
        lease: &Lease,
        task: Task,
        touch: Touch,
        at: Timestamp,
        why: String,
    ) -> Self {
        let fault = Fault::Ours(why.into());
        let outcome = Outcome::Failed(Failure { fault, retry_after: None, answer: None });
        let done = Done::page(task, outcome, Followed::default());
        Self { visit: lease.visit, touch, at, done, packed: None, hold: None }
    }
}
