//! Of which page is this a copy, among all that the crawl has seen?
//!
//! A store of prints apart from the shards, because copies know no shards: one for the process, over
//! any engine, fed with the log of every shard (`sink`). Pages with nearly the same text make a
//! *family*. Its print is that of the text it was founded with; who comes later joins it if it is the
//! same text, or nearly, by the rules of `page::fingerprint`. The most important member is the original
//! ([`Rank`]); the others are its copies. So an original changes without a look at its copies, and a
//! page that is fetched again leaves its family and joins another at the price of a few rows.
//!
//! Rows are in `rows`. Always: what a feed changes is one batch, and how far the log of the shard is
//! taken stands in it. A page is in one family, a family has a member, and the counts agree (`audit`).
//!
//! Not here: what becomes of copies. They are archived whole; who makes an index leaves them out.

mod audit;
mod rows;
mod sink;
mod staged;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use page::fingerprint::SimHash;
use ports::shard_store::{CopyJob, VisitLine};
use ports::{PortError, PortErrorKind, PortResult, codec, failpoint};
use types::{CrawlUrl, ShardId, UrlId};

use crate::kv::{Batch, Durability, Kv, after_prefix, get_vec};

use rows::{MEMBERS, META, PAGES, Page};
use staged::Staged;

pub use rows::Rank;
pub use sink::DuplicateSink;

/// The version of the rows.
const FORMAT: u32 = 1;

/// Lines that make one batch: what they read and change is in memory meanwhile, some kilobytes each.
const BATCH_LINES: usize = 256;

/// Pages looked at between two batches of an erasure.
const ERASE_PAGES: usize = 8_192;

/// Lines after which everything is synced. The log keeps as many for us.
const UNSYNCED_LINES_MAX: u64 = 4_096;

/// How much there is of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct DuplicateCounts {
    /// Pages with a text, each in a family.
    pub pages: u64,
    /// Families: pages that are no copy.
    pub originals: u64,
    /// Verdicts that were ever given. A page whose text changes gets another.
    pub judged: u64,
    /// Of those: the same text as one that was there.
    pub exact: u64,
    /// Of those: nearly the same.
    pub near: u64,
}

impl DuplicateCounts {
    /// Pages that are copies.
    pub const fn copies(&self) -> u64 {
        self.pages - self.originals
    }
}

/// Whose copy a page is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nobody's; and how many are its own.
    Original { copies: u64 },
    /// `exact`: the same text. Otherwise so many bits of the SimHashes differ. Both belong to one
    /// family, and are compared with each other here.
    Copy { of: CrawlUrl, exact: bool, distance: u32 },
}

/// Where a page stands among those with its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    /// The number of its family, which no other ever gets.
    pub family: u64,
    /// It is the one that the others are copies of.
    pub original: bool,
}

/// The store, shared by all who feed it and ask it.
///
/// Behind a lock, not a thread: a page costs it some tens of microseconds and the reader of the same
/// page a hundred times as much, so that the keepers of a process seldom meet here; and whoever is fed
/// after this sink finds the verdict there.
#[derive(Clone)]
pub struct Duplicates(Arc<Mutex<Store>>);

struct Store {
    kv: Box<dyn Kv>,
    counts: DuplicateCounts,
    /// The number of the next family.
    next: u64,
    /// How far the log of each shard is taken, and is on the disk.
    taken: BTreeMap<ShardId, u64>,
    synced: BTreeMap<ShardId, u64>,
    unsynced_lines: u64,
}

impl Duplicates {
    /// # Errors
    /// When what is there cannot be read, or was written by another version.
    pub fn open(mut kv: Box<dyn Kv>) -> PortResult<Self> {
        let (mut counts, mut next) = (DuplicateCounts::default(), 1);
        if let Some(bytes) = get_vec(&*kv, META, rows::COUNTS)? {
            let format: u32;
            (format, counts, next) = codec::decode("the counts of duplicates", &bytes)?;
            if format != FORMAT {
                let why = format!("format {format}; this lycosa reads format {FORMAT}");
                return Err(PortError::new(PortErrorKind::Version, "open the prints", why));
            }
        }
        let mut taken = BTreeMap::new();
        kv.scan(META, rows::CURSOR, after_prefix(rows::CURSOR).as_deref(), &mut |key, value| {
            let shard = rows::read_cursor(key)?;
            taken.insert(shard, codec::decode("a place in the log", value)?);
            Ok(ControlFlow::Continue(()))
        })?;
        // What a killed process wrote may be known to the system only.
        kv.sync()?;
        let synced = taken.clone();
        let store = Store { kv, counts, next, taken, synced, unsynced_lines: 0 };
        Ok(Self(Arc::new(Mutex::new(store))))
    }

    /// What reads the log of a shard.
    pub fn sink(&self, shard: ShardId) -> DuplicateSink {
        DuplicateSink::new(self.clone(), shard)
    }

    pub fn counts(&self) -> DuplicateCounts {
        self.lock().counts
    }

    /// Whose copy a page is; none if nothing is known of its text.
    pub fn standing(&self, url: &CrawlUrl) -> PortResult<Option<Standing>> {
        self.lock().standing(url)
    }

    /// The family of a page; none if nothing is known of its text.
    pub fn membership(&self, url: &CrawlUrl) -> PortResult<Option<Membership>> {
        self.lock().membership(url)
    }

    /// What is wrong with the rows, in sentences. Reads all of them.
    pub fn audit(&self) -> PortResult<Vec<String>> {
        audit::audit(&self.lock())
    }

    /// Every page, in the order of ids. Reads all of them.
    pub fn pages(&self) -> PortResult<Vec<CrawlUrl>> {
        let mut urls = Vec::new();
        audit::each_page(&self.lock(), &mut |page| urls.push(page.url))?;
        Ok(urls)
    }

    /// Forgets pages for good; the families that they were in go on without them. A print of a family stays
    /// as long as it has a member, whoever it was taken of: its members have that text, or nearly. A death
    /// on the way leaves a part done, and the same call does the rest. `keep` false only counts.
    pub fn erase(&self, takes: &dyn Fn(&CrawlUrl) -> bool, keep: bool) -> PortResult<u64> {
        self.lock().erase(takes, keep)
    }

    /// Begins a copy in `folder`, which is not there yet, of what is committed now.
    pub fn copy(&self, folder: &Path) -> PortResult<CopyJob> {
        self.lock().kv.copy(folder, &[])
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().expect("no panic while locked")
    }
}

impl std::fmt::Debug for Duplicates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Duplicates").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Store {
    fn feed(&mut self, shard: ShardId, lines: &[VisitLine]) -> PortResult<()> {
        let taken = self.taken.get(&shard).copied().unwrap_or(0);
        let new = lines.partition_point(|line| line.seq <= taken);
        for lines in lines[new..].chunks(BATCH_LINES) {
            self.take(shard, lines)?;
        }
        if self.unsynced_lines >= UNSYNCED_LINES_MAX {
            self.sync()?;
        }
        Ok(())
    }

    /// One batch.
    fn take(&mut self, shard: ShardId, lines: &[VisitLine]) -> PortResult<()> {
        let Some(last) = lines.last() else { return Ok(()) };
        let mut staged = Staged::new(&*self.kv, self.counts, self.next);
        staged.look_ahead(lines)?;
        for line in lines {
            staged.take(line)?;
        }
        let (mut batch, counts, next) = staged.finish();
        batch.put_value(META, &rows::cursor(shard), &last.seq);
        batch.put_value(META, rows::COUNTS, &(FORMAT, counts, next));
        failpoint("prints_commit");
        self.kv.commit(&batch, Durability::Os)?;
        (self.counts, self.next) = (counts, next);
        self.taken.insert(shard, last.seq);
        self.unsynced_lines += lines.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> PortResult<()> {
        if self.unsynced_lines > 0 {
            self.kv.sync()?;
            self.unsynced_lines = 0;
        }
        self.synced.clone_from(&self.taken);
        Ok(())
    }

    fn erase(&mut self, takes: &dyn Fn(&CrawlUrl) -> bool, keep: bool) -> PortResult<u64> {
        let mut from = rows::ALL_PAGES.0.to_vec();
        let mut erased = 0;
        loop {
            let (mut gone, mut looked, mut next) = (Vec::new(), 0, None);
            self.kv.scan(PAGES, &from, Some(rows::ALL_PAGES.1), &mut |key, value| {
                if looked == ERASE_PAGES || gone.len() == BATCH_LINES {
                    next = Some(key.to_vec());
                    return Ok(ControlFlow::Break(()));
                }
                looked += 1;
                let page = rows::read_page(value)?;
                if takes(&page.url) {
                    gone.push(page);
                }
                Ok(ControlFlow::Continue(()))
            })?;
            if keep && !gone.is_empty() {
                self.drop_pages(&gone)?;
            }
            erased += gone.len() as u64;
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        if keep {
            self.kv.sync()?;
            self.kv.purge()?;
        }
        Ok(erased)
    }

    /// In one batch.
    fn drop_pages(&mut self, gone: &[Page]) -> PortResult<()> {
        let mut staged = Staged::new(&*self.kv, self.counts, self.next);
        for page in gone {
            staged.forget(page.url.id(), page)?;
        }
        let (mut batch, counts, next) = staged.finish();
        batch.put_value(META, rows::COUNTS, &(FORMAT, counts, next));
        self.kv.commit(&batch, Durability::Os)?;
        self.counts = counts;
        Ok(())
    }

    fn page(&self, id: UrlId) -> PortResult<Option<Page>> {
        get_vec(&*self.kv, PAGES, &rows::page(id))?.map(|bytes| rows::read_page(&bytes)).transpose()
    }

    fn standing(&self, url: &CrawlUrl) -> PortResult<Option<Standing>> {
        let Some(page) = self.page(url.id())?.filter(|page| page.url == *url) else {
            return Ok(None);
        };
        let original = self.original(page.family)?;
        if original.url == page.url {
            let members = rows::members_of(&*self.kv, page.family)?;
            return Ok(Some(Standing::Original { copies: members.saturating_sub(1) }));
        }
        let exact = original.digest == page.digest;
        let distance = SimHash(original.simhash).distance(SimHash(page.simhash));
        Ok(Some(Standing::Copy { of: original.url, exact, distance }))
    }

    fn membership(&self, url: &CrawlUrl) -> PortResult<Option<Membership>> {
        let Some(Page { family, .. }) = self.page(url.id())?.filter(|page| page.url == *url) else {
            return Ok(None);
        };
        let original = self.original_id(family)? == Some(url.id());
        Ok(Some(Membership { family, original }))
    }

    /// The most important member of a family: the first in the order of its keys.
    fn original_id(&self, family: u64) -> PortResult<Option<UrlId>> {
        let prefix = rows::members(family);
        let mut first = None;
        self.kv.scan(MEMBERS, &prefix, after_prefix(&prefix).as_deref(), &mut |key, _| {
            first = Some(rows::read_member(key)?.1);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(first)
    }

    fn original(&self, family: u64) -> PortResult<Page> {
        let page = self.original_id(family)?.map(|id| self.page(id)).transpose()?.flatten();
        page.ok_or_else(|| PortError::corrupt("find an original", "a family has no member"))
    }
}

/// What is to be written, and the counts and the next family's number after that.
type Done = (Batch, DuplicateCounts, u64);
