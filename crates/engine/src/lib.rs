//! The crawl: it knows ports, never adapters.
//!
//! [`open`] settles what the last run left behind; [`Engine::run`] crawls until nothing is left
//! to do, a limit is reached, or somebody asks it to stop. Each shard has an owner
//! (`roles::frontier`) and a keeper (`keeper`); visits (`life`) are tasks of their own.
//!
//! Always: whatever ends a run, what was accepted is in the store, and the next run goes on.

mod claims;
mod clock;
mod ctx;
pub mod events;
pub mod keeper;
pub mod life;
mod limits;
mod pool;
pub mod report;
pub mod robots_book;
pub mod roles;
pub mod stages;
mod steering;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use frontier::{Addresses, Frontier, FrontierOptions, Scope, Sizes};
use ports::shard_store::{
    Arrival, CommitBatch, Found, FoundSet, Judge, Recovery, Rejudge, ScanCursor, Tally,
};
use ports::{Claims, Clock, Fetcher, PortError, PortResult, Resolver, ShardStore};
use thiserror::Error;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use types::record::RetryPolicy;
use types::{Canon, CrawlUrl, ShardId, Timestamp};

pub use claims::ClaimBook;
pub use clock::SteadyClock;
pub use ctx::{Ctx, EngineOptions};
pub use events::Events;
pub use keeper::KeeperHandle;
use keeper::KeptBack;
pub use limits::Limits;
pub use pool::Pool;
pub use robots_book::{RobotsBook, RobotsSettings};
use roles::crew::Crew;
pub use roles::frontier::Reviser;
use roles::frontier::{Note, Owner, OwnerParts, Standing};
pub use roles::frontier::{SKIPPED, UNCHANGED};
pub use stages::store::{ARCHIVE_BYTES, Books};
pub use steering::{Injected, Steering};

/// What can go wrong on our side.
#[derive(Debug, Error)]
pub enum EngineError {
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("{0}")]
    Setting(String),
    #[error("a part of the crawler died: {0}")]
    Died(String),
}

/// Shards that were opened and have settled their past.
#[derive(Debug)]
pub struct Opened {
    books: Vec<Books>,
    recoveries: Vec<Recovery>,
    /// The newest moment that any state names; the clock must not stand before it.
    pub latest: Timestamp,
    /// Whether anything was here before.
    pub resumed: bool,
    /// Visits that died with the last run.
    pub lost: usize,
    pub tally: Tally,
}

/// Opens all shards of a crawl: lost leases are settled, archives cut to what the store knows,
/// sinks brought up to date.
pub fn open(mut books: Vec<Books>, now: Timestamp, retry: RetryPolicy) -> PortResult<Opened> {
    let mut recoveries = Vec::new();
    let mut tally = Tally::default();
    for books in &mut books {
        let recovery = books.store.recover(now, retry)?;
        if let Some(archive) = &mut books.archive {
            if !recovery.resumed && archive.bytes_written() > 0 {
                return Err(PortError::corrupt(
                    "open the archive",
                    "it holds files of a crawl whose state is gone; restore state/, or move \
                     archive/ away to begin anew",
                ));
            }
            archive.cut(recovery.archive_end)?;
        }
        catch_up(books)?;
        tally.merge(books.store.tally());
        recoveries.push(recovery);
    }
    Ok(Opened {
        latest: recoveries.iter().map(|recovery| recovery.latest).max().unwrap_or_default(),
        resumed: recoveries.iter().any(|recovery| recovery.resumed),
        lost: recoveries.iter().map(|recovery| recovery.lost.len()).sum(),
        books,
        recoveries,
        tally,
    })
}

/// Lets a crawl at rest settle its past, as [`open`] does, and leaves it so that nothing is under way: every
/// sink has heard of every visit and is closed, and the logs are empty.
pub fn settle(books: Vec<Books>, now: Timestamp, retry: RetryPolicy) -> PortResult<Vec<Books>> {
    let mut opened = open(books, now, retry)?;
    for books in &mut opened.books {
        for sink in &mut books.sinks {
            sink.close()?;
        }
        books.store.trim_visits(u64::MAX)?;
        books.store.close()?;
    }
    Ok(opened.books)
}

/// Goes over the seeds of a shard, a few thousand at a time.
pub fn each_seed(store: &mut dyn ShardStore, mut each: impl FnMut(&CrawlUrl)) -> PortResult<()> {
    let mut from = 0;
    loop {
        let seeds = store.seeds(from, OFFER_URLS)?;
        seeds.iter().for_each(&mut each);
        from += seeds.len() as u64;
        if seeds.len() < OFFER_URLS {
            return Ok(());
        }
    }
}

/// URLs from outside that go into the store in one go: a list may hold millions.
const OFFER_URLS: usize = 8_192;

/// Records that are looked at in one go.
pub(crate) const REVISE_RECORDS: usize = 4_096;

/// Lines of the log that a sink takes at a time.
const CATCH_UP_LINES: usize = 4_096;

fn catch_up(books: &mut Books) -> PortResult<()> {
    for sink in &mut books.sinks {
        let mut after = sink.cursor();
        loop {
            let lines = books.store.visits(after, CATCH_UP_LINES)?;
            let Some(last) = lines.last() else { break };
            after = last.seq;
            sink.feed(&lines)?;
        }
    }
    Ok(())
}

fn revise(store: &mut dyn ShardStore, judge: &mut Judge<'_>) -> PortResult<u64> {
    let (mut cursor, mut changed) = (ScanCursor::default(), 0);
    while !cursor.done {
        changed += store.revise(&mut cursor, REVISE_RECORDS, judge)?.changed;
    }
    Ok(changed)
}

impl Opened {
    /// The small value of that name in the first shard.
    pub fn note(&mut self, name: &str) -> PortResult<Option<Vec<u8>>> {
        match self.books.first_mut() {
            Some(books) => books.store.note(name),
            None => Ok(None),
        }
    }

    pub fn set_note(&mut self, name: &str, value: &[u8]) -> PortResult<()> {
        match self.books.first_mut() {
            Some(books) => books.store.set_note(name, value),
            None => Ok(()),
        }
    }

    /// New seeds. Durable when this returns; answers how many were not known before.
    pub fn seed(&mut self, seeds: &[CrawlUrl], now: Timestamp) -> PortResult<usize> {
        self.offer(seeds.iter().map(|url| (url, 0)), true, now)
    }

    /// The seeds so far. There may be millions: no list of them is held.
    pub fn each_seed(&mut self, mut each: impl FnMut(&CrawlUrl)) -> PortResult<()> {
        for books in &mut self.books {
            each_seed(&mut *books.store, &mut each)?;
        }
        Ok(())
    }

    /// URLs from outside, already judged, with their depths.
    pub fn offer<'a>(
        &mut self,
        urls: impl Iterator<Item = (&'a CrawlUrl, u16)>,
        seed: bool,
        now: Timestamp,
    ) -> PortResult<usize> {
        let shards = u16::try_from(self.books.len()).expect("shards are counted in a u16");
        let mut sets = vec![FoundSet::default(); self.books.len()];
        let mut accepted = 0;
        for (url, depth) in urls {
            let band = frontier::priority::band_of_depth(depth);
            let shard = usize::from(url.site().shard(shards).0);
            sets[shard].push(Found { url: url.as_str(), id: url.id(), depth, hops: 0, band, seed });
            if sets[shard].len() == OFFER_URLS {
                accepted += self.take(shard, std::mem::take(&mut sets[shard]), now, false)?;
            }
        }
        for (shard, links) in sets.into_iter().enumerate() {
            accepted += self.take(shard, links, now, true)?;
        }
        Ok(accepted)
    }

    /// One batch of URLs into the store of a shard. Whatever came before a durable one is durable.
    fn take(
        &mut self,
        shard: usize,
        links: FoundSet,
        now: Timestamp,
        durable: bool,
    ) -> PortResult<usize> {
        let books = &mut self.books[shard];
        let archive_end = books.archive.as_ref().and_then(|archive| archive.end());
        let arrivals = vec![Arrival { links, ..Arrival::default() }];
        let batch =
            CommitBatch { at: now, arrivals, archive_end, durable, ..CommitBatch::default() };
        Ok(books.store.commit(batch)?.accepted.len())
    }

    /// Settings have changed: refused URLs of these kinds get another chance. Answers how many.
    pub fn rejudge(&mut self, which: Rejudge) -> PortResult<u64> {
        let mut back = 0;
        for books in &mut self.books {
            back += revise(&mut *books.store, &mut |record| which.judge(record))?;
        }
        Ok(back)
    }

    /// Goes over all records once. A shard remembers by the note that it is done; if we die before
    /// it is, the next call goes over its records again. Answers how many were changed.
    pub fn revise_once(&mut self, note: (&str, &[u8]), judge: &mut Judge<'_>) -> PortResult<u64> {
        let (name, value) = note;
        let mut changed = 0;
        for books in &mut self.books {
            if books.store.note(name)?.as_deref() != Some(value) {
                changed += revise(&mut *books.store, judge)?;
                books.store.set_note(name, value)?;
            }
        }
        Ok(changed)
    }
}

/// Everything else that a crawl is made of.
pub struct EngineParts {
    pub options: EngineOptions,
    pub clock: SteadyClock,
    pub fetcher: Arc<dyn Fetcher>,
    pub resolver: Arc<dyn Resolver>,
    /// None when no other crawl can be on this machine.
    pub claims: Option<Arc<dyn Claims>>,
    pub pool: Pool,
    pub scope: Scope,
    pub canon: Canon,
    pub events: Events,
    /// Store threads, or inline under virtual time.
    pub threads: bool,
    /// Who makes the visits, if other processes do. Then the crawl is a service: it goes on when
    /// nothing is left to do.
    pub crew: Option<Arc<Crew>>,
}

impl std::fmt::Debug for EngineParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineParts").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Nothing is left to do, or nothing within the crawl's patience.
    Done,
    /// Somebody asked; what was under way is finished.
    Interrupted,
    /// Somebody asked twice; what was under way is dropped and will be fetched again.
    Abandoned,
    PageLimit,
    SizeLimit,
    TimeLimit,
    DiskLow,
}

/// What is left of a run that has ended in good order.
#[derive(Debug)]
pub struct Ended {
    pub ending: Ending,
    /// By shard; closed, but they can still be read.
    pub books: Vec<Books>,
}

/// A crawl, ready to run.
#[derive(Debug)]
pub struct Engine {
    owners: Vec<Owner>,
    notes: Vec<mpsc::Sender<Note>>,
    control: mpsc::Receiver<Ending>,
    steering: Steering,
    /// Goes on when nothing is left to do.
    stays: bool,
}

/// How soon the coordinator looks again whether it is over, while anything is under way: after a
/// tenth of the run's age, but not sooner or later than this. To look wakes every owner.
const LOOK_MIN: Duration = Duration::from_millis(200);
const LOOK_MAX: Duration = Duration::from_secs(1);
/// While no server has ever answered: enough for a second attempt half a minute after the first.
/// Whoever mistyped a port should not have to wait for all of `crawl.patience`.
const SILENCE: Duration = Duration::from_secs(45);
/// Notes that may wait for an owner.
const NOTES_MAX: usize = 1_024;

impl Engine {
    pub fn new(mut opened: Opened, parts: EngineParts) -> Result<Self, EngineError> {
        let options = parts.options;
        let now = parts.clock.now();
        // Visits of the last run may go on elsewhere, until their leases are over.
        let rest = parts.crew.as_ref().filter(|_| opened.lost > 0).map(|crew| crew.lease_time());
        let opened_at = opened.resumed.then_some(now + rest.unwrap_or_default());
        let addresses =
            Addresses::new(&options.politeness, opened_at).map_err(EngineError::Setting)?;
        let mut scope = parts.scope;
        opened.each_seed(|seed| scope.add_seed(seed))?;
        let limits = Limits::new(options.max_pages, opened.tally.get("pages"), options.max_bytes);
        let kept_back = KeptBack::default();
        let mut keepers = Vec::new();
        let mut replies = Vec::new();
        let mut archive_bytes = Vec::new();
        for (n, books) in opened.books.into_iter().enumerate() {
            let bytes = books.archive.as_ref().map_or(0, |archive| archive.bytes_written());
            // Files that were moved away have been written all the same.
            limits.archived(bytes.max(books.store.tally().get(ARCHIVE_BYTES)));
            archive_bytes.push(bytes);
            let shard = ShardId(u16::try_from(n).expect("shards are counted in a u16"));
            let desk = (books, options.robots.clone(), kept_back.clone());
            let (keeper, answers) = if parts.threads {
                KeeperHandle::spawn(shard, desk, options.shards)
            } else {
                KeeperHandle::inline(desk, options.shards)
            };
            keepers.push(keeper);
            replies.push(answers);
        }
        let limits = Arc::new(limits);
        let ctx = Arc::new(Ctx {
            clock: parts.clock,
            fetcher: parts.fetcher,
            resolver: parts.resolver,
            pool: parts.pool,
            robots: RobotsBook::default(),
            scope: RwLock::new(scope),
            canon: parts.canon,
            addresses: Mutex::new(addresses),
            claims: ClaimBook::new(parts.claims),
            events: parts.events,
            keepers,
            options,
        });
        let (notes, inboxes): (Vec<_>, Vec<_>) =
            replies.iter().map(|_| mpsc::channel(NOTES_MAX)).unzip();
        let slots = match &parts.crew {
            Some(crew) => crew.slots(),
            None => Arc::new(Semaphore::new(ctx.options.concurrency.max(1))),
        };
        let owners = opened
            .recoveries
            .into_iter()
            .zip(replies)
            .zip(inboxes)
            .enumerate()
            .map(|(n, ((recovery, replies), inbox))| {
                let shard = ShardId(u16::try_from(n).expect("counted above"));
                let frontier = Frontier::new(FrontierOptions {
                    politeness: ctx.options.politeness.clone(),
                    obey_robots: ctx.options.robots.obey,
                    sheets: Arc::clone(&ctx.options.sheets),
                    opened_at,
                    next_visit: recovery.next_visit,
                    seed: ctx.options.seed,
                    ..FrontierOptions::new(shard)
                });
                let parts = OwnerParts {
                    shard,
                    frontier,
                    keeper: ctx.keepers[n].clone(),
                    replies,
                    notes: inbox,
                    owners: notes.clone(),
                    slots: Arc::clone(&slots),
                    limits: Arc::clone(&limits),
                    next_due: recovery.next_due,
                    letters_for: recovery.letters_for,
                    archive_bytes: archive_bytes[n],
                    crew: parts.crew.clone(),
                };
                Owner::new(Arc::clone(&ctx), parts)
            })
            .collect();
        let (control_to, control) = mpsc::channel(8);
        let stays = parts.crew.is_some();
        let steering =
            Steering { control: control_to, owners: notes.clone(), kept_back, ctx, limits };
        Ok(Self { owners, notes, control, steering, stays })
    }

    pub fn steering(&self) -> Steering {
        self.steering.clone()
    }

    /// Holds other amounts in memory than usual. For simulations, so that what does not fit is met
    /// in a small crawl too.
    pub fn sized(mut self, sizes: Sizes) -> Self {
        self.owners.iter_mut().for_each(|owner| owner.frontier.resize(sizes));
        self
    }

    /// Compares everything in memory with everything else after each step, and panics at the first
    /// doubt. For simulations: a crawl with many hosts would do little else.
    pub fn audited(mut self) -> Self {
        self.owners.iter_mut().for_each(|owner| owner.audited = true);
        self
    }

    /// Crawls until it is over; closes everything in good order. When it fails, everything is closed
    /// too, as it is.
    pub async fn run(self) -> Result<Ended, EngineError> {
        let ctx = Arc::clone(&self.steering.ctx);
        let ended = self.crawl().await;
        if ended.is_err() {
            for keeper in &ctx.keepers {
                keeper.leave().await;
            }
        }
        ended
    }

    async fn crawl(mut self) -> Result<Ended, EngineError> {
        let mut owners = JoinSet::new();
        for owner in self.owners.drain(..) {
            owners.spawn(owner.run());
        }
        let started = tokio::time::Instant::now();
        let deadline = self.steering.ctx.options.max_time.map(|time| started + time);
        let mut look_at = started;
        let mut ending = None;
        let mut closed = BTreeMap::new();
        let mut before: Option<Vec<Standing>> = None;
        loop {
            tokio::select! {
                biased;
                Some(ended) = owners.join_next() => {
                    let result = ended.map_err(|error| EngineError::Died(error.to_string()))?;
                    let (shard, books) = result?;
                    closed.insert(shard, books);
                    if owners.is_empty() {
                        let ending = ending.unwrap_or(Ending::Done);
                        return Ok(Ended { ending, books: closed.into_values().collect() });
                    }
                }
                Some(why) = self.control.recv() => {
                    let first = ending.is_none();
                    if first || why == Ending::Abandoned {
                        ending = Some(why);
                        self.tell_all(why == Ending::Abandoned).await;
                    }
                }
                () = tokio::time::sleep_until(look_at), if ending.is_none() => {
                    let now = tokio::time::Instant::now();
                    let verdict = match deadline {
                        Some(at) if now >= at => Verdict::Over(Ending::TimeLimit),
                        _ => self.judge(&mut before).await,
                    };
                    match verdict {
                        Verdict::Over(why) => {
                            ending = Some(why);
                            self.tell_all(false).await;
                        }
                        Verdict::Busy => {
                            look_at = now + (now - started).div_f64(10.0).clamp(LOOK_MIN, LOOK_MAX);
                        }
                        Verdict::Settling => look_at = now + LOOK_MIN,
                        Verdict::QuietUntil(at) => {
                            look_at = self.steering.ctx.clock.instant(at).max(now + LOOK_MIN);
                        }
                    }
                    look_at = deadline.map_or(look_at, |deadline| look_at.min(deadline));
                }
            }
        }
    }

    async fn tell_all(&self, abandon: bool) {
        for owner in &self.notes {
            let note = if abandon { Note::Abandon } else { Note::Drain };
            // An owner that is gone has ended already.
            let _ = owner.send(note).await;
        }
    }

    /// Is it over? Quiet twice in a row, with nothing having happened in between: a letter from
    /// one shard to another cannot slip through.
    async fn judge(&self, before: &mut Option<Vec<Standing>>) -> Verdict {
        let limits = &self.steering.limits;
        if limits.bytes_reached() {
            return Verdict::Over(Ending::SizeLimit);
        }
        if limits.pages_reached() {
            return Verdict::Over(Ending::PageLimit);
        }
        if self.stays {
            return Verdict::Busy;
        }
        let standings = self.standings().await;
        let Some(standings) = standings.filter(|all| all.iter().all(|standing| standing.quiet))
        else {
            *before = None;
            return Verdict::Busy;
        };
        let same = before.as_ref().is_some_and(|before| {
            before.iter().zip(&standings).all(|(a, b)| a.activity == b.activity)
        });
        let next = standings.iter().filter_map(|standing| standing.next).min();
        *before = Some(standings);
        let patience = self.steering.ctx.options.patience;
        let patience = if limits.heard() { patience } else { patience.min(SILENCE) };
        let horizon = self.steering.ctx.clock.now() + patience;
        match next {
            _ if !same => Verdict::Settling,
            Some(next) if next <= horizon => Verdict::QuietUntil(next),
            _ => Verdict::Over(Ending::Done),
        }
    }

    /// How things stand in every shard; none if one has ended.
    async fn standings(&self) -> Option<Vec<Standing>> {
        let mut standings = Vec::with_capacity(self.notes.len());
        for owner in &self.notes {
            let (tell, told) = oneshot::channel();
            owner.send(Note::Ping(tell)).await.ok()?;
            standings.push(told.await.ok()?);
        }
        Some(standings)
    }
}

/// How the crawl stands.
enum Verdict {
    /// Something is under way.
    Busy,
    /// Nothing is, but a moment ago something may have been.
    Settling,
    /// Nothing will happen before then.
    QuietUntil(Timestamp),
    Over(Ending),
}
