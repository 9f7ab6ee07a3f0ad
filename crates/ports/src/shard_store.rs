//! What does a shard remember?
//!
//! URLs, queues, due times, hosts, grants, the log of visits and the letters for other shards:
//! one ordered database with a single writer. A visit is never split over two write batches, so
//! links cannot be lost between two writes; a batch may hold many visits.
//!
//! The store also runs the seen test, inside [`ShardStore::commit`]: whoever decides what is new
//! must be the one who writes it down.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use types::record::RetryPolicy;
pub use types::task::{QueueKey, SiteState, Task};
use types::{
    CrawlUrl, HostKey, HostRule, HostState, News, Origin, PageLine, Record, Refusal, ShardId, Site,
    State, Timestamp, UrlId, VisitId, WarcRef,
};

use crate::archive::ArchiveEnd;
use crate::error::PortResult;
use crate::robots_entry::RobotsEntry;

/// The rest of a copy that was begun; takes its time, on any thread.
pub type CopyJob = Box<dyn FnOnce() -> PortResult<()> + Send>;

/// A copy of a store that was begun.
pub struct StoreCopy {
    pub job: CopyJob,
    /// Where the archive ends for it.
    pub archive_end: Option<ArchiveEnd>,
}

impl std::fmt::Debug for StoreCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreCopy").field("archive_end", &self.archive_end).finish_non_exhaustive()
    }
}

pub trait ShardStore: Send {
    /// Settles what the last run left open: noted grants without an outcome are lost leases.
    /// Called once, before anything else.
    fn recover(&mut self, now: Timestamp, policy: RetryPolicy) -> PortResult<Recovery>;

    /// Notes grants before their requests leave. Reaches the operating system, not the disk.
    fn grant(&mut self, grants: &[Grant]) -> PortResult<()>;

    /// Runs the seen test and writes everything in one atomic batch.
    ///
    /// A visit that was settled before is ignored as a whole: its number was committed in this
    /// process, or belongs to an earlier one (which committed it, or lost it and left it to
    /// [`ShardStore::recover`]). When that leaves nothing of a batch, its tally is ignored too.
    fn commit(&mut self, batch: CommitBatch) -> PortResult<Committed>;

    /// The near part of hosts' queues, and for a host that wakes up all we know of it.
    fn refill(&mut self, wants: &[RefillWant]) -> PortResult<Vec<Refilled>>;

    /// Moves URLs that are due by `now` into their hosts' queues, and says when the next is due.
    fn wake(&mut self, now: Timestamp, limit: usize) -> PortResult<Woken>;

    /// Hosts with waiting URLs, in the order of their keys.
    fn hosts(&mut self, after: Option<&HostKey>, limit: usize) -> PortResult<Vec<WaitingHost>>;

    /// Letters for another shard, oldest first.
    fn letters(&mut self, to: ShardId, after: u64, limit: usize) -> PortResult<Vec<Letter>>;

    /// The receiver has committed all letters up to this one.
    fn delivered(&mut self, to: ShardId, upto: u64) -> PortResult<()>;

    fn record(&mut self, url: &CrawlUrl) -> PortResult<Option<Record>>;

    /// What is known of a host. Its queue is counted up to `counted_max`, which takes a walk.
    fn host(&mut self, host: &HostKey, counted_max: u64) -> PortResult<Option<HostRow>>;

    fn robots(&mut self, origin: &Origin) -> PortResult<Option<RobotsEntry>>;

    /// Every record, in the order of the keys, from where the last call ended.
    fn records(&mut self, cursor: &mut ScanCursor, limit: usize) -> PortResult<Vec<Record>>;

    /// The URLs that were given as seeds, or joined them, in the order in which they came; the
    /// first of them is number 0.
    fn seeds(&mut self, from: u64, limit: usize) -> PortResult<Vec<CrawlUrl>>;

    /// Committed visits after a position of the log.
    fn visits(&mut self, after: u64, limit: usize) -> PortResult<Vec<VisitLine>>;

    /// No sink needs the log up to here any more.
    fn trim_visits(&mut self, upto: u64) -> PortResult<()>;

    /// Looks at `limit` records from where the last call ended, and changes those for which
    /// `judge` gives another one. A URL that waits for its visit, now or later, is not asked about;
    /// one that becomes queued goes to the end of its queue. In one atomic batch.
    fn revise(
        &mut self,
        cursor: &mut ScanCursor,
        limit: usize,
        judge: &mut Judge<'_>,
    ) -> PortResult<Revised>;

    /// Forgets URLs and hosts for good: their rows go, and a hash of each stays, by which a link that leads
    /// there again is not taken. Nobody may be at work; the logs must be trimmed, so that no line of them
    /// tells of what goes. A death on the way leaves a part done, and the same call does the rest. What is
    /// deleted leaves the files with a [`Self::copy`] that takes their place.
    fn erase(&mut self, erasure: &Erasure<'_>) -> PortResult<Erased>;

    /// Whether this URL, or its host, was forgotten.
    fn forgotten(&mut self, url: &CrawlUrl) -> PortResult<Option<Forgotten>>;

    /// Begins a copy in `folder`, which is not there yet. It will hold what is committed now, as if
    /// the process had died at this moment, whatever this store does while the job is under way.
    fn copy(&mut self, folder: &Path) -> PortResult<StoreCopy>;

    /// A small value of the crawl's own, such as the fingerprint of its settings.
    fn note(&mut self, name: &str) -> PortResult<Option<Vec<u8>>>;

    fn set_note(&mut self, name: &str, value: &[u8]) -> PortResult<()>;

    /// How far the archive is known.
    fn archive_end(&self) -> Option<ArchiveEnd>;

    fn tally(&self) -> &Tally;

    /// How much there is of what.
    fn counts(&self) -> Counts;

    /// How the seen test goes, since this process began.
    fn seen(&self) -> SeenFacts;

    /// Leaves everything durable and the next open quick.
    fn close(&mut self) -> PortResult<()>;
}

/// What a shard knows when it has been opened.
#[derive(Debug, Clone, Default)]
pub struct Recovery {
    /// Leases that died with the last process.
    pub lost: Vec<Grant>,
    /// How far the archive is known.
    pub archive_end: Option<ArchiveEnd>,
    /// The next visit's number; no number is ever used twice.
    pub next_visit: u64,
    /// Whether anything was here before.
    pub resumed: bool,
    /// Letters wait for these shards.
    pub letters_for: Vec<ShardId>,
    /// When the next URL in `due` is due.
    pub next_due: Option<Timestamp>,
    /// The newest moment that the state names: the clock must not stand before it.
    pub latest: Timestamp,
}

/// A lease that was given, noted before its request leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub visit: VisitId,
    pub host: HostKey,
    /// None for robots.txt, which is no URL of the frontier.
    pub url: Option<UrlId>,
    pub at: Timestamp,
}

/// One atomic write.
#[derive(Debug, Default)]
pub struct CommitBatch {
    pub at: Timestamp,
    pub visits: Vec<VisitCommit>,
    pub arrivals: Vec<Arrival>,
    /// What was learnt of hosts without a visit, such as a name that does not resolve.
    pub hosts: Vec<(HostKey, HostState)>,
    /// What was said of hosts; an empty rule takes away what was said before.
    pub rules: Vec<(HostKey, HostRule)>,
    pub archive_end: Option<ArchiveEnd>,
    /// Counters that grow by this much.
    pub tally: Tally,
    /// Wait until it has reached the disk.
    pub durable: bool,
    /// None: what is found nearer does not go on.
    pub onward: Option<Onward>,
}

/// How far a redirect leads. A URL that has redirected us before and is now found by a shorter
/// way brings its target nearer too: the target is offered again, by letter, to its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Onward {
    pub shards: u16,
    pub hops_max: u8,
}

/// One settled visit.
#[derive(Debug)]
pub struct VisitCommit {
    pub visit: VisitId,
    pub host: HostKey,
    pub host_state: HostState,
    pub site: Option<(Site, SiteState)>,
    /// None for robots.txt.
    pub url: Option<UrlChange>,
    pub robots: Option<(Origin, RobotsEntry)>,
    /// Links that belong to this shard, already judged by scope.
    pub links: FoundSet,
    /// Whatever belongs to other shards.
    pub letters: Vec<(ShardId, LetterBody)>,
    /// The line for the log, when there was an answer; its `seq` is set by the store.
    pub line: Option<VisitLine>,
}

/// The new record of a visited URL. If it is queued again with a due time, its queue entry goes
/// and a due entry comes; queued without one, the entry stays; otherwise it goes.
#[derive(Debug)]
pub struct UrlChange {
    pub key: QueueKey,
    pub record: Record,
}

impl UrlChange {
    /// Whether the URL keeps its place in the queue.
    pub fn stays(&self) -> bool {
        self.record.state == State::Queued && self.record.due.is_none()
    }
}

/// URLs (or news of a robots.txt) from outside the shard's own visits.
#[derive(Debug, Default)]
pub struct Arrival {
    /// The letter it came in, counted from 1. A letter that was committed before, or an older one
    /// of its sender, is ignored: letters are taken in order.
    pub letter: Option<(ShardId, u64)>,
    pub links: FoundSet,
    pub robots: Option<(Origin, RobotsEntry)>,
}

#[derive(Debug, Default)]
pub struct Committed {
    /// New URLs with their places in their hosts' queues; also known ones that stood refused by a
    /// setting or by their hops, whom this offer has queued again.
    pub accepted: Vec<Task>,
    /// Links that were known already.
    pub known: u64,
    /// Lines as they stand in the log now.
    pub lines: Vec<VisitLine>,
    /// Letters were written for these shards.
    pub letters_for: Vec<ShardId>,
    pub next_due: Option<Timestamp>,
}

/// A set of URLs in one piece of memory: no allocation a link.
///
/// Always: the items' ends go up, each to the end of a character, the last to the end of the text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "StoredSet")]
pub struct FoundSet {
    text: String,
    items: Vec<FoundItem>,
}

/// A [`FoundSet`] as it was read, before anybody has looked at its ends.
#[derive(Deserialize)]
struct StoredSet {
    text: String,
    items: Vec<FoundItem>,
}

impl TryFrom<StoredSet> for FoundSet {
    type Error = &'static str;

    fn try_from(StoredSet { text, items }: StoredSet) -> Result<Self, Self::Error> {
        let last = items.last().map_or(0, |item| item.end as usize);
        let mut ends = items.iter().map(|item| item.end as usize);
        let sound = last == text.len()
            && ends.clone().is_sorted()
            && ends.all(|end| text.is_char_boundary(end));
        if sound { Ok(Self { text, items }) } else { Err("the URLs do not fill their text") }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct FoundItem {
    end: u32,
    id: UrlId,
    depth: u16,
    hops: u8,
    band: u8,
    seed: bool,
}

/// One URL of a [`FoundSet`], canonical.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    pub url: &'a str,
    pub id: UrlId,
    pub depth: u16,
    pub hops: u8,
    pub band: u8,
    pub seed: bool,
}

impl FoundSet {
    pub fn push(&mut self, found: Found<'_>) {
        self.text.push_str(found.url);
        let end = u32::try_from(self.text.len()).expect("a page's links are below 4 GiB");
        let Found { id, depth, hops, band, seed, .. } = found;
        self.items.push(FoundItem { end, id, depth, hops, band, seed });
    }

    pub fn iter(&self) -> impl Iterator<Item = Found<'_>> {
        let mut start = 0;
        self.items.iter().map(move |item| {
            let end = item.end as usize;
            let url = &self.text[start..end];
            start = end;
            Found {
                url,
                id: item.id,
                depth: item.depth,
                hops: item.hops,
                band: item.band,
                seed: item.seed,
            }
        })
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

#[derive(Debug, Clone)]
pub struct RefillWant {
    pub host: HostKey,
    /// Only entries beyond this one.
    pub after: Option<QueueKey>,
    pub limit: usize,
    /// The host wakes up: its state is wanted too.
    pub state: bool,
}

#[derive(Debug, Clone)]
pub struct Refilled {
    pub host: HostKey,
    pub tasks: Vec<Task>,
    /// More lie beyond the last of these.
    pub more: bool,
    /// When the state was asked for.
    pub state: Option<HostWake>,
}

/// All that is stored of a host, for its activation.
#[derive(Debug, Clone, Default)]
pub struct HostWake {
    pub host: HostState,
    pub rule: HostRule,
    pub site: SiteState,
    pub robots: Vec<(Origin, RobotsEntry)>,
}

#[derive(Debug, Clone, Default)]
pub struct Woken {
    pub tasks: Vec<Task>,
    pub next_due: Option<Timestamp>,
}

/// A host with URLs in its queue, and the best band among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingHost {
    pub host: HostKey,
    pub best_band: u8,
}

#[derive(Debug, Clone, PartialEq)]
pub struct HostRow {
    pub host: HostKey,
    pub state: HostState,
    pub rule: HostRule,
    /// URLs in its queue, as far as they were counted.
    pub waiting: u64,
    /// The best band among them.
    pub best_band: u8,
}

/// What one shard has to tell another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Letter {
    pub from: ShardId,
    /// Counts up per receiver; the receiver remembers the last one it has committed.
    pub seq: u64,
    pub visit: VisitId,
    pub body: LetterBody,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum LetterBody {
    Links(FoundSet),
    /// Please fetch this for an origin of ours: its robots.txt is said to be there.
    RobotsAsk {
        origin: Origin,
        url: CrawlUrl,
        hops: u8,
    },
    /// What came of it.
    RobotsAnswer {
        origin: Origin,
        found: RobotsFound,
    },
}

/// What a request for a robots.txt brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RobotsFound {
    Text(Box<[u8]>),
    Absent,
    Unreachable(Box<str>),
}

/// One line of the log of visits: what sinks need to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VisitLine {
    pub seq: u64,
    pub visit: VisitId,
    pub url: CrawlUrl,
    pub at: Timestamp,
    pub status: u16,
    pub content_type: Option<Box<str>>,
    pub digest: Option<[u8; 20]>,
    /// The response record; none when archiving is off.
    pub warc: Option<WarcRef>,
    /// What was told of the page; none of a robots.txt. The serde form of a line is that of an
    /// earlier version, which does not know it.
    #[serde(skip)]
    pub page: Option<Box<PageLine>>,
}

impl VisitLine {
    /// What was told of a page that was not known so before: a document, and not an image.
    pub fn new_page(&self) -> Option<&PageLine> {
        let mime = self.content_type.as_deref().unwrap_or_default();
        let is_html = mime.starts_with("text/html") || mime.starts_with("application/xhtml+xml");
        self.page.as_deref().filter(|page| {
            page.news == News::Other
                && (200..300).contains(&self.status)
                && (page.text.is_some() || is_html)
        })
    }
}

/// What is to be forgotten, and what is said of it afterwards.
#[derive(Clone, Copy)]
pub struct Erasure<'a> {
    pub takes: &'a (dyn Fn(&CrawlUrl) -> bool + Sync),
    /// Hosts that go as a whole, with what was learnt of them.
    pub takes_host: &'a (dyn Fn(&HostKey) -> bool + Sync),
    /// These are kept away also if nothing is known of them yet.
    pub named_url: Option<&'a CrawlUrl>,
    pub named_host: Option<&'a HostKey>,
    pub at: Timestamp,
    pub reason: &'a str,
}

impl std::fmt::Debug for Erasure<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Erasure").field("at", &self.at).finish_non_exhaustive()
    }
}

/// What [`ShardStore::erase`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Erased {
    pub urls: u64,
    pub hosts: u64,
    /// Letters to other shards that named one of them.
    pub letters: u64,
    pub seeds: u64,
}

/// What is known of a URL that was forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    pub at: Timestamp,
    pub reason: String,
}

/// Gives a record that is to take the place of this one, of the same URL; or nothing.
pub type Judge<'a> = dyn FnMut(&Record) -> Option<Record> + Send + 'a;

/// What [`ShardStore::revise`] did.
#[derive(Debug, Default)]
pub struct Revised {
    pub changed: u64,
    /// Those of them that are in their queues now.
    pub queued: Vec<Task>,
}

/// Which refusals are judged again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rejudge {
    /// Those that named a setting, an address or a redirect limit.
    pub settings: bool,
    pub robots: bool,
}

impl Rejudge {
    /// The record of a URL that is to be judged again.
    pub fn judge(self, record: &Record) -> Option<Record> {
        let again = match &record.state {
            State::Blocked(Refusal::Robots { .. }) => self.robots,
            State::Blocked(
                Refusal::Setting { .. } | Refusal::Address { .. } | Refusal::Hops { .. },
            ) => self.settings,
            _ => false,
        };
        again.then(|| Record { state: State::Queued, due: None, ..record.clone() })
    }
}

/// Where a scan goes on. Begins at the default, ends as `done`.
#[derive(Debug, Clone, Default)]
pub struct ScanCursor {
    pub after: Option<Vec<u8>>,
    pub done: bool,
}

/// The size of a shard, exact after every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// URLs with a record.
    pub known: u64,
    /// URLs in queues.
    pub queued: u64,
    /// URLs that wait for their time.
    pub scheduled: u64,
}

/// How the seen test of this process goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeenFacts {
    /// Links that the table of recent ones knew.
    pub recent: u64,
    /// Links that the filter called new.
    pub new: u64,
    /// Links that the store was asked about, and knew.
    pub exact: u64,
    /// Links that the store was asked about in vain: the filter had erred, or there was none.
    pub in_vain: u64,
    pub filter: FilterFacts,
}

/// The filter before the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FilterFacts {
    /// URLs that it knows; 0 while it is being made.
    pub urls: u64,
    pub bytes: u64,
    /// Of a million strange URLs, how many it takes for known ones. By samples.
    pub errors_per_million: u32,
}

/// Counters of the crawl's life, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally(pub BTreeMap<String, u64>);

impl Tally {
    pub fn add(&mut self, name: &str, by: u64) {
        if by == 0 {
            return;
        }
        match self.0.get_mut(name) {
            Some(count) => *count += by,
            None => {
                self.0.insert(name.to_owned(), by);
            }
        }
    }

    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub fn merge(&mut self, other: &Self) {
        for (name, by) in &other.0 {
            self.add(name, *by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;

    #[test]
    fn a_set_of_links_gives_back_what_was_put_in() {
        let mut set = FoundSet::default();
        for (n, url) in
            ["http://a.test/", "http://b.test/x?y=1", "http://c.test/"].iter().enumerate()
        {
            let depth = n as u16;
            set.push(Found { url, id: UrlId::of(url), depth, hops: 1, band: 2, seed: n == 0 });
        }
        let urls: Vec<_> = set.iter().map(|found| (found.url, found.depth, found.seed)).collect();
        assert_eq!(
            urls,
            [
                ("http://a.test/", 0, true),
                ("http://b.test/x?y=1", 1, false),
                ("http://c.test/", 2, false)
            ]
        );
        let stored = codec::encode(&set);
        assert_eq!(codec::decode::<FoundSet>("links", &stored).unwrap(), set);
    }

    /// Found by the fuzzer: a letter that the disk had changed ended the process that read it.
    #[test]
    fn a_set_whose_urls_do_not_fill_its_text_is_refused() {
        let item = |end| FoundItem { end, id: UrlId(1), depth: 0, hops: 0, band: 0, seed: false };
        for (text, ends) in [
            ("", &[6][..]),
            ("http://a.test/", &[15]),
            ("http://a.test/", &[7]),
            ("http://a.test/", &[]),
            ("http://a.test/", &[14, 7, 14]),
            ("é", &[1, 2]),
        ] {
            let items = ends.iter().map(|&end| item(end)).collect();
            let bytes = codec::encode(&FoundSet { text: text.to_owned(), items });
            assert!(codec::decode::<FoundSet>("links", &bytes).is_err(), "{text:?} {ends:?}");
        }
    }
}
