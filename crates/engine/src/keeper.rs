//! Who writes?
//!
//! Each shard has one keeper: a thread that owns its store, its archive and its sinks, and does
//! one job after another. Answers come back in the order of the jobs, which the frontier relies
//! on: a refill that was read before a commit is heard of before it. Under virtual time the jobs
//! run inline, in the same order.
//!
//! The queue is bounded; whoever finds it full waits. The keeper itself waits for nobody: an owner
//! has at most one job of a kind under way, so there is always room for its answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use ports::shard_store::{Grant, Letter, RefillWant, Refilled, WaitingHost, Woken};
use ports::{PortError, PortErrorKind, PortResult, RobotsEntry};
use tokio::sync::{mpsc, oneshot};
use types::{HostKey, Origin, ShardId, Task, Timestamp, VisitId};

use crate::robots_book::RobotsSettings;
use crate::roles::frontier::Revision;
use crate::stages::store::{Books, Group, Kept, keep, trim};

/// Jobs that may wait. Most are an owner's (one of a kind); the rest are questions of visits.
const JOBS_MAX: usize = 256;

/// Answers that an owner has not taken yet: more than it can have jobs under way, of which those
/// about letters are two for each shard.
const fn answers_max(shards: u16) -> usize {
    64 + 2 * shards as usize
}

/// What an owner asks of its keeper.
#[derive(Debug)]
pub enum Job {
    Grant(Vec<Grant>),
    Keep(Box<Group>),
    Refill(Vec<RefillWant>),
    Wake { now: Timestamp, limit: usize },
    Hosts { after: Option<HostKey>, limit: usize },
    Letters { to: ShardId, after: u64, limit: usize },
    Delivered { to: ShardId, upto: u64 },
    Revise(Revision),
    Close,
}

/// What came of it.
#[derive(Debug)]
pub enum Reply {
    Granted(Vec<VisitId>),
    Kept(Box<Kept>),
    Refilled(Vec<Refilled>),
    Woken(Woken),
    Hosts {
        rows: Vec<WaitingHost>,
        more: bool,
    },
    Letters {
        to: ShardId,
        letters: Vec<Letter>,
    },
    Delivered {
        to: ShardId,
    },
    Revised(Revision, Vec<Task>),
    /// Everything is on the disk. The books can still be read.
    Closed(Box<Books>),
}

enum Order {
    Job(Job),
    /// A question that anybody may ask, between two jobs.
    Ask(Box<dyn FnOnce(&mut Books) + Send>),
    /// The crawl has failed: nobody wants anything any more.
    Leave,
}

/// The way to a keeper.
#[derive(Clone)]
pub struct KeeperHandle(Arc<Way>);

enum Way {
    Thread { orders: mpsc::Sender<Order>, thread: Mutex<Option<JoinHandle<()>>> },
    Inline { desk: Mutex<Desk> },
}

/// What runs the jobs.
struct Desk {
    /// Until they are closed.
    books: Option<Books>,
    robots: RobotsSettings,
    kept_back: KeptBack,
    answers: mpsc::Sender<PortResult<Reply>>,
}

/// What a desk is made of.
pub type DeskParts = (Books, RobotsSettings, KeptBack);

/// Whether shards keep what nobody needs any more, because a copy is being made: letters that were
/// delivered (one that was kept is deleted with the next, or sent again and known; see
/// [`ports::ShardStore::letters`]), and lines of the log that every sink has.
#[derive(Debug, Clone, Default)]
pub struct KeptBack(Arc<AtomicBool>);

impl KeptBack {
    /// Until what is returned is dropped.
    pub fn keep(&self) -> impl Drop + use<> {
        struct Kept(Arc<AtomicBool>);
        impl Drop for Kept {
            fn drop(&mut self) {
                self.0.store(false, Ordering::SeqCst);
            }
        }
        self.0.store(true, Ordering::SeqCst);
        Kept(Arc::clone(&self.0))
    }

    fn is_on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl std::fmt::Debug for KeeperHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeeperHandle")
    }
}

impl KeeperHandle {
    /// A keeper with a thread of its own.
    pub fn spawn(
        shard: ShardId,
        (books, robots, kept_back): DeskParts,
        shards: u16,
    ) -> (Self, mpsc::Receiver<PortResult<Reply>>) {
        let (answers, replies) = mpsc::channel(answers_max(shards));
        let (orders, mut inbox) = mpsc::channel(JOBS_MAX);
        let mut desk = Desk { books: Some(books), robots, kept_back, answers };
        let thread = std::thread::Builder::new()
            .name(format!("store-{shard}"))
            .spawn(move || {
                while let Some(order) = inbox.blocking_recv() {
                    if desk.fulfil(order) {
                        break;
                    }
                }
            })
            .expect("a thread can be started");
        let thread = Mutex::new(Some(thread));
        (Self(Arc::new(Way::Thread { orders, thread })), replies)
    }

    /// A keeper that works where it is called; for virtual time.
    pub fn inline(
        (books, robots, kept_back): DeskParts,
        shards: u16,
    ) -> (Self, mpsc::Receiver<PortResult<Reply>>) {
        let (answers, replies) = mpsc::channel(answers_max(shards));
        let desk = Mutex::new(Desk { books: Some(books), robots, kept_back, answers });
        (Self(Arc::new(Way::Inline { desk })), replies)
    }

    pub async fn submit(&self, job: Job) {
        self.order(Order::Job(job)).await;
    }

    /// The stored state of an origin's robots.txt.
    pub async fn robots(&self, origin: Origin) -> Option<RobotsEntry> {
        self.ask(move |books| books.store.robots(&origin).ok().flatten()).await.flatten()
    }

    /// Asks the books something, between two jobs. None when the keeper is gone.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Books) -> T + Send + 'static,
    ) -> Option<T> {
        let (tell, told) = oneshot::channel();
        let ask = move |books: &mut Books| {
            // Whoever asked may have gone; then nobody wants to know.
            let _ = tell.send(question(books));
        };
        self.order(Order::Ask(Box::new(ask))).await;
        told.await.ok()
    }

    /// Waits until the books are closed, as they are, and their thread is over. A process must not
    /// end before: the engine of a store may be at work in threads of its own, and RocksDB's abort the
    /// process when it goes away under them.
    pub async fn leave(&self) {
        self.order(Order::Leave).await;
        let Way::Thread { thread, .. } = &*self.0 else { return };
        let thread = thread.lock().expect("no panic while locked").take();
        if let Some(thread) = thread {
            // One that has panicked has closed its books as well.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }

    async fn order(&self, order: Order) {
        match &*self.0 {
            // A keeper that is gone has closed its answers: the owner hears of it there.
            Way::Thread { orders, .. } => drop(orders.send(order).await),
            Way::Inline { desk } => {
                desk.lock().expect("no panic while locked").fulfil(order);
            }
        }
    }
}

impl Desk {
    /// Does one job; true when it was the last.
    fn fulfil(&mut self, order: Order) -> bool {
        let job = match order {
            Order::Ask(ask) => {
                // Unanswered when the books are closed: whoever asks then hears that we are gone.
                if let Some(books) = &mut self.books {
                    ask(books);
                }
                return false;
            }
            Order::Leave => return true,
            Order::Job(job) => job,
        };
        let last = matches!(job, Job::Close);
        let reply = self.work(job);
        // Room is certain (see the head of this file) unless the owner is gone.
        self.answers.try_send(reply).is_err() || last
    }

    fn work(&mut self, job: Job) -> PortResult<Reply> {
        let Some(books) = &mut self.books else {
            return Err(PortError::new(PortErrorKind::Io, "use the books", "they are closed"));
        };
        let store = &mut books.store;
        Ok(match job {
            Job::Grant(grants) => {
                store.grant(&grants)?;
                Reply::Granted(grants.iter().map(|grant| grant.visit).collect())
            }
            Job::Keep(group) => {
                let kept = keep(books, *group, &self.robots)?;
                if !self.kept_back.is_on() {
                    trim(books, &kept.committed.lines)?;
                }
                Reply::Kept(Box::new(kept))
            }
            Job::Refill(wants) => Reply::Refilled(store.refill(&wants)?),
            Job::Wake { now, limit } => Reply::Woken(store.wake(now, limit)?),
            Job::Hosts { after, limit } => {
                let rows = store.hosts(after.as_ref(), limit)?;
                let more = rows.len() == limit;
                Reply::Hosts { rows, more }
            }
            Job::Letters { to, after, limit } => {
                Reply::Letters { to, letters: store.letters(to, after, limit)? }
            }
            Job::Delivered { to, upto } => {
                if !self.kept_back.is_on() {
                    store.delivered(to, upto)?;
                }
                Reply::Delivered { to }
            }
            Job::Revise(mut revision) => {
                let tasks = revision.step(&mut **store)?;
                Reply::Revised(revision, tasks)
            }
            Job::Close => {
                for sink in &mut books.sinks {
                    sink.close()?;
                }
                if let Some(archive) = &mut books.archive {
                    archive.sync()?;
                }
                store.close()?;
                Reply::Closed(Box::new(self.books.take().expect("they were here a moment ago")))
            }
        })
    }
}
