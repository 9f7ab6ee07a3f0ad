//! The shard store, written once over any [`Kv`].
//!
//! URLs, queues, due times, hosts, grants, the log of visits and the letters of one shard, as the
//! [`ports::ShardStore`] wants them. One writer; every method that changes something is one atomic
//! batch, and what is held in memory (counters, a few queues' heads, recent ids, the filter)
//! follows only after it.
//!
//! Always: the counters, the queues and their heads agree after every batch. RAM grows with
//! the settings below and with the filter's 10.7 to 12 bits a URL, never with hosts or queues.
//!
//! Start with `commit` (a group of visits) and `seen` (do we know this URL?); `keys` is the layout.

mod audit;
mod commit;
mod erase;
mod filter;
mod group;
mod heads;
pub mod keys;
mod lent;
mod lines;
mod log;
mod meta;
mod migrate;
mod prints;
mod queue;
mod recent;
mod recovery;
mod seen;
mod stage;
mod stored;
mod upkeep;
mod visits;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;

use foldhash::fast::FixedState;
use lru::LruCache;
use ports::shard_store::{
    CommitBatch, Committed, Counts, Erased, Erasure, Forgotten, Grant, HostRow, Judge, Letter,
    Recovery, RefillWant, Refilled, Revised, ScanCursor, SeenFacts, StoreCopy, Tally, VisitLine,
    WaitingHost, Woken,
};
use ports::{ArchiveEnd, PortResult, RobotsEntry, ShardStore, codec, failpoint};
use types::record::RetryPolicy;
use types::{CrawlUrl, HostKey, Origin, Record, ShardId, Timestamp};

use self::heads::Heads;
use self::lent::Lent;
use self::meta::Meta;
use self::recent::Recent;
use self::upkeep::Upkeep;
use self::visits::VisitNumbers;
use crate::kv::{Batch, Durability, Family, Kv};

pub use self::meta::FORMAT;
pub use self::prints::PRINTS_FILE;
pub use self::seen::{IdFn, url_id};
// The fuzzer lies in a crate of its own and must reach the rows of URLs.
#[doc(hidden)]
pub use self::log::{read as read_line, write as write_line};
pub use self::stored::{read as read_row, write as write_row};

/// How a shard keeps its state.
#[derive(Debug, Clone)]
pub struct ShardSettings {
    pub shard: ShardId,
    /// Seeds the hash tables of a new state; a state that is there keeps its own.
    pub hash_seed: u64,
    /// What the filter knows is written after this many new URLs. What is newer is read from
    /// `fresh` on open: a million ids are 24 MB, less than a second.
    pub checkpoint_urls: u64,
    /// Memory for ids of which a link needs no look at the store, 16 bytes each: the menus and
    /// footers of the hosts at work, and the pages that everybody links to. It grows with the crawl.
    pub recent_bytes_max: u64,
    /// Hosts of which it is in memory where their queues begin, some 150 bytes each: those at work.
    pub heads_max: usize,
    /// Smallest filter, in URLs, 11 bits each: so that a young crawl need not make it larger often.
    pub filter_urls_min: u64,
    /// Keys read for a new filter with each commit: a few milliseconds.
    pub rebuild_step: usize,
    /// A filter of at most so many URLs is built at open: a tenth of a second.
    pub rebuild_at_open_max: u64,
    /// How texts become ids. Only tests change it, to make ids collide.
    pub ids: IdFn,
}

impl ShardSettings {
    pub fn new(shard: ShardId, hash_seed: u64) -> Self {
        Self {
            shard,
            hash_seed,
            checkpoint_urls: 1_000_000,
            recent_bytes_max: 256 << 20,
            heads_max: 1 << 16,
            filter_urls_min: 1 << 20,
            rebuild_step: 4096,
            rebuild_at_open_max: 100_000,
            ids: url_id,
        }
    }

    /// With small tables, for simulations that open many shards.
    pub fn small(shard: ShardId, hash_seed: u64) -> Self {
        Self {
            recent_bytes_max: 64 << 10,
            heads_max: 1 << 10,
            filter_urls_min: 1 << 14,
            checkpoint_urls: 2_000,
            ..Self::new(shard, hash_seed)
        }
    }
}

/// One shard's durable state.
#[derive(Debug)]
pub struct Shard<K> {
    kv: K,
    settings: ShardSettings,
    meta: Meta,
    visits: VisitNumbers,
    next_due: Option<Timestamp>,
    floors: Floors,
    recent: Recent,
    lent: Lent,
    seen: SeenFacts,
    heads: LruCache<Box<str>, Heads, FixedState>,
    upkeep: Upkeep,
}

/// Up to where logs are trimmed: reads and further trims begin there, because what was deleted at
/// the front of a log-structured store is a field to wade through for a while.
#[derive(Debug, Default)]
struct Floors {
    visits: u64,
    letters: BTreeMap<ShardId, u64>,
}

impl<K: Kv> Shard<K> {
    /// Opens a shard's state, or begins it. [`ShardStore::recover`] comes next.
    ///
    /// # Errors
    /// Kind `Version` if the state has another format, engine or shard.
    pub fn open(mut kv: K, settings: ShardSettings) -> PortResult<Self> {
        let meta = Meta::open(&mut kv, settings.shard, settings.hash_seed)?;
        let seed = meta.format.hash_seed;
        let hosts_max = NonZeroUsize::new(settings.heads_max).unwrap_or(NonZeroUsize::MIN);
        Ok(Self {
            visits: VisitNumbers::new(meta.visit_bound),
            next_due: None,
            floors: Floors::default(),
            recent: Recent::new(settings.recent_bytes_max, seed, meta.counters.known == 0)?,
            lent: Lent::new()?,
            seen: SeenFacts::default(),
            heads: LruCache::with_hasher(hosts_max, FixedState::with_seed(seed)),
            upkeep: Upkeep::default(),
            kv,
            settings,
            meta,
        })
    }

    /// The engine below, for its size on disk.
    pub fn kv(&self) -> &K {
        &self.kv
    }

    fn hasher(&self) -> FixedState {
        FixedState::with_seed(self.meta.format.hash_seed)
    }
}

impl<K: Kv> ShardStore for Shard<K> {
    fn recover(&mut self, now: Timestamp, policy: RetryPolicy) -> PortResult<Recovery> {
        self.recover_all(now, policy)
    }

    fn grant(&mut self, grants: &[Grant]) -> PortResult<()> {
        let mut batch = Batch::default();
        for grant in grants {
            batch.put_value(Family::Grant, &keys::seq(grant.visit.0), grant);
        }
        let last = grants.iter().map(|grant| grant.visit.count()).max();
        let bound = last.and_then(|last| self.visits.bound_for(last));
        let durability = match bound {
            Some(bound) => {
                meta::put_visit_bound(&mut batch, bound);
                Durability::Disk
            }
            None => Durability::Os,
        };
        if batch.is_empty() {
            return Ok(());
        }
        self.kv.commit(&batch, durability)?;
        if let Some(bound) = bound {
            self.visits.bounded(bound);
        }
        Ok(())
    }

    fn commit(&mut self, batch: CommitBatch) -> PortResult<Committed> {
        let committed = self.commit_group(&batch)?;
        self.upkeep();
        Ok(committed)
    }

    fn refill(&mut self, wants: &[RefillWant]) -> PortResult<Vec<Refilled>> {
        self.refill_hosts(wants)
    }

    fn wake(&mut self, now: Timestamp, limit: usize) -> PortResult<Woken> {
        self.wake_due(now, limit)
    }

    fn hosts(&mut self, after: Option<&HostKey>, limit: usize) -> PortResult<Vec<WaitingHost>> {
        self.waiting_hosts(after, limit)
    }

    fn letters(&mut self, to: ShardId, after: u64, limit: usize) -> PortResult<Vec<Letter>> {
        let mut letters = Vec::new();
        let floor = self.floors.letters.get(&to).copied().unwrap_or(0);
        let from = keys::outbox(to, after.max(floor).saturating_add(1));
        let until = to.0.checked_add(1).map(|next| keys::outbox(ShardId(next), 0));
        let sender = self.settings.shard;
        self.kv.scan(Family::Outbox, &from, until.as_deref(), &mut |key, value| {
            if letters.len() == limit {
                return Ok(ControlFlow::Break(()));
            }
            let (visit, body) = codec::decode("a letter", value)?;
            let (_, seq) = keys::read_outbox(key)?;
            letters.push(Letter { from: sender, seq, visit, body });
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(letters)
    }

    fn delivered(&mut self, to: ShardId, upto: u64) -> PortResult<()> {
        failpoint("outbox_delivered");
        let floor = self.floors.letters.get(&to).copied().unwrap_or(0);
        if upto <= floor {
            return Ok(());
        }
        let until = keys::outbox(to, upto.saturating_add(1));
        self.kv.delete_range(Family::Outbox, &keys::outbox(to, floor), &until)?;
        // Nothing can be delivered that was not written: the next letter lies beyond.
        let written = self.meta.outbox.get(&to).map_or(0, |next| next.saturating_sub(1));
        self.floors.letters.insert(to, upto.min(written));
        Ok(())
    }

    fn record(&mut self, url: &CrawlUrl) -> PortResult<Option<Record>> {
        Ok(self.find(url)?.map(|(_, _, record)| record))
    }

    fn host(&mut self, host: &HostKey, counted_max: u64) -> PortResult<Option<HostRow>> {
        self.host_row(host, counted_max)
    }

    fn robots(&mut self, origin: &Origin) -> PortResult<Option<RobotsEntry>> {
        self.host_value(&keys::robots(&keys::host_prefix(origin.host.as_str()), origin))
    }

    fn records(&mut self, cursor: &mut ScanCursor, limit: usize) -> PortResult<Vec<Record>> {
        let mut records = Vec::new();
        self.scan_records(cursor, limit, |key, value| {
            let (prefix, _) = keys::read_host(key)?;
            records.push(stored::read(keys::prefix_host(prefix)?.as_str(), value)?);
            Ok(())
        })?;
        Ok(records)
    }

    fn seeds(&mut self, from: u64, limit: usize) -> PortResult<Vec<CrawlUrl>> {
        meta::seeds(&self.kv, from, limit)
    }

    fn visits(&mut self, after: u64, limit: usize) -> PortResult<Vec<VisitLine>> {
        let mut lines = Vec::new();
        let from = keys::seq(after.max(self.floors.visits).saturating_add(1));
        self.kv.scan(Family::Visit, &from, None, &mut |_, value| {
            if lines.len() == limit {
                return Ok(ControlFlow::Break(()));
            }
            lines.push(log::read(value)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(lines)
    }

    fn trim_visits(&mut self, upto: u64) -> PortResult<()> {
        let floor = self.floors.visits;
        if upto <= floor {
            return Ok(());
        }
        let until = keys::seq(upto.saturating_add(1));
        self.kv.delete_range(Family::Visit, &keys::seq(floor), &until)?;
        self.floors.visits = upto.min(self.meta.counters.visit_seq);
        Ok(())
    }

    fn revise(
        &mut self,
        cursor: &mut ScanCursor,
        limit: usize,
        judge: &mut Judge<'_>,
    ) -> PortResult<Revised> {
        self.revise_records(cursor, limit, judge)
    }

    fn erase(&mut self, erasure: &Erasure<'_>) -> PortResult<Erased> {
        self.erase_all(erasure)
    }

    fn forgotten(&mut self, url: &CrawlUrl) -> PortResult<Option<Forgotten>> {
        if self.meta.forgets { self.forgotten_of(url) } else { Ok(None) }
    }

    fn copy(&mut self, folder: &Path) -> PortResult<StoreCopy> {
        let job = self.kv.copy(folder, &[PRINTS_FILE])?;
        Ok(StoreCopy { job, archive_end: self.meta.archive_end })
    }

    fn note(&mut self, name: &str) -> PortResult<Option<Vec<u8>>> {
        meta::note(&self.kv, name)
    }

    fn set_note(&mut self, name: &str, value: &[u8]) -> PortResult<()> {
        let mut batch = Batch::default();
        meta::put_note(&mut batch, name, value);
        self.kv.commit(&batch, Durability::Os)
    }

    fn archive_end(&self) -> Option<ArchiveEnd> {
        self.meta.archive_end
    }

    fn tally(&self) -> &Tally {
        &self.meta.tally
    }

    fn counts(&self) -> Counts {
        let counters = &self.meta.counters;
        Counts { known: counters.known, queued: counters.queued, scheduled: counters.scheduled }
    }

    fn seen(&self) -> SeenFacts {
        SeenFacts { filter: self.upkeep.facts(), ..self.seen }
    }

    fn close(&mut self) -> PortResult<()> {
        self.close_filter()?;
        let mut counters = self.meta.counters;
        counters.closed = true;
        let mut batch = Batch::default();
        meta::put_counters(&mut batch, &counters);
        self.kv.commit(&batch, Durability::Disk)?;
        self.meta.counters = counters;
        Ok(())
    }
}
