//! What is said to an owner, what it is made of, and what it keeps in mind.

use std::sync::Arc;

use frontier::{Frontier, Lease};
use ports::shard_store::{FoundSet, Letter, ScanCursor};
use ports::{PortResult, Resolution, ShardStore};
use tokio::sync::{Semaphore, mpsc, oneshot};
use types::{HostKey, HostRule, Record, ShardId, Task, Timestamp, UrlId};

use crate::REVISE_RECORDS;
use crate::keeper::{KeeperHandle, Reply};
use crate::limits::Limits;
use crate::roles::crew::Crew;

/// What others say to an owner.
#[derive(Debug)]
pub enum Note {
    Letters {
        from: ShardId,
        letters: Vec<Letter>,
        taken: oneshot::Sender<()>,
    },
    Resolved {
        host: HostKey,
        resolution: Resolution,
    },
    /// How do things stand?
    Ping(oneshot::Sender<Standing>),
    /// URLs from outside; whoever brings them hears when they are in the store, and for each
    /// whether it was new.
    Offer {
        links: FoundSet,
        taken: oneshot::Sender<Vec<bool>>,
    },
    /// Something is said of a host; whoever says it hears when it is in the store.
    Rule {
        host: HostKey,
        rule: HostRule,
        taken: oneshot::Sender<()>,
    },
    /// Change records; see [`crate::Steering::revise`].
    Revise(Revision),
    /// Finish what is under way, grant nothing new, then close.
    Drain,
    /// Drop what is under way, then close.
    Abandon,
}

/// Gives a record that is to take the place of this one, or nothing.
pub type Reviser = Box<dyn FnMut(&Record) -> Option<Record> + Send>;

/// A walk over all records of a shard that changes some, a few with each job.
pub struct Revision {
    judge: Reviser,
    cursor: ScanCursor,
    changed: u64,
    tell: oneshot::Sender<u64>,
}

impl std::fmt::Debug for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Revision").field("changed", &self.changed).finish_non_exhaustive()
    }
}

impl Revision {
    pub fn new(judge: Reviser, tell: oneshot::Sender<u64>) -> Self {
        Self { judge, cursor: ScanCursor::default(), changed: 0, tell }
    }

    /// The next records; answers those that are queued now.
    pub fn step(&mut self, store: &mut dyn ShardStore) -> PortResult<Vec<Task>> {
        let revised = store.revise(&mut self.cursor, REVISE_RECORDS, &mut *self.judge)?;
        self.changed += revised.changed;
        Ok(revised.queued)
    }

    /// Tells whoever waits, if it was the last step; otherwise there is more to do.
    pub fn end(self) -> Option<Self> {
        if !self.cursor.done {
            return Some(self);
        }
        let _ = self.tell.send(self.changed); // whoever asked may have gone
        None
    }
}

/// How things stand in a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Nothing is under way; only time will bring the next visit.
    pub quiet: bool,
    pub next: Option<Timestamp>,
    /// Changes whenever anything happened.
    pub activity: u64,
    pub in_flight: usize,
    pub active_hosts: usize,
}

/// What an owner is made of.
#[derive(Debug)]
pub struct OwnerParts {
    pub shard: ShardId,
    pub frontier: Frontier,
    pub keeper: KeeperHandle,
    pub replies: mpsc::Receiver<PortResult<Reply>>,
    pub notes: mpsc::Receiver<Note>,
    pub owners: Vec<mpsc::Sender<Note>>,
    pub slots: Arc<Semaphore>,
    pub limits: Arc<Limits>,
    pub next_due: Option<Timestamp>,
    pub letters_for: Vec<ShardId>,
    pub archive_bytes: u64,
    /// Who makes the visits, if they are not made here.
    pub crew: Option<Arc<Crew>>,
}

/// Which jobs are under way.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    pub(super) grant: Vec<Lease>,
    pub(super) granting: bool,
    pub(super) keeping: bool,
    pub(super) refilling: bool,
    pub(super) waking: bool,
    pub(super) scanning: bool,
    pub(super) revising: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Running,
    Draining,
    Closing,
}

/// Who waits for a group to be committed.
#[derive(Debug)]
pub(super) enum Envelope {
    Plain(oneshot::Sender<()>),
    /// With the URLs that were offered, in order.
    Offer(Vec<UrlId>, oneshot::Sender<Vec<bool>>),
}

/// Letters for one other shard.
#[derive(Debug, Default)]
pub(super) struct Post {
    pub(super) waiting: bool,
    /// Read, sent or being crossed off.
    pub(super) busy: bool,
}

#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) wanted: bool,
    pub(super) after: Option<HostKey>,
}
