//! How do visits become an index, while the crawl runs?
//!
//! One index for the crawl, fed with the log of every shard. A page is one document: what was there of
//! its URL is deleted in the same commit in which it is added again. Pages that ask not to be indexed,
//! copies of others, and what is no page any more are deleted, too. Of pages with the same text the most
//! important one is in the index: when another takes its place, as its visit tells, the family's document
//! goes and that page comes.
//!
//! Writing has a thread of its own, so that no store waits for a commit, and a queue before it (`queue`).
//! How far the log of each shard is taken stands in the commit itself; what a killed process had not
//! committed is told again by the log, and its texts are read from the archive again.
//!
//! Always: a commit holds whole lines of the logs, in their order; nothing is doubled, nothing missing.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ports::shard_store::VisitLine;
use ports::{PortError, PortErrorKind, PortResult, Sink, failpoint};
use tantivy::collector::Count;
use tantivy::directory::MmapDirectory;
use tantivy::indexer::{IndexWriterOptions, LogMergePolicy};
use tantivy::query::TermQuery;
use tantivy::schema::IndexRecordOption;
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy};
use types::{CrawlUrl, News, Reading, ShardId, UrlId};

use crate::fault::port;
use crate::note::Note;
use crate::queue::{Next, Order, Queue};
use crate::schema::{self, Fields};

/// Lines of the logs after which there is a commit; the logs keep as many for us.
const LINES_MAX: u64 = 4_096;
/// Bytes of texts after which there is one.
const BYTES_MAX: usize = 64 << 20;
/// A page is found at the latest so long after its visit, as long as commits are quick.
const PAUSE: Duration = Duration::from_secs(5);
/// At most this part of the time goes into commits that only freshness asks for.
const COMMIT_SHARE: u32 = 10;

/// Segments of about one size that are merged into one.
const SEGMENTS_MERGED: usize = 8;
/// A segment with more deleted documents than this is written anew.
const DELETED_SHARE_MAX: f32 = 0.3;

/// The least that tantivy takes for one thread, with what it keeps in reserve.
pub const MEMORY_BYTES_MIN: u64 = 16 << 20;
/// The most: its places in memory have 32 bits.
pub const MEMORY_BYTES_MAX: u64 = 4 << 30;

/// Where a page stands among those with its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    pub number: u64,
    /// It is the one that belongs into the index.
    pub original: bool,
}

/// The family of a page, when its latest line was heard of; none if nothing is known of its text.
pub type Judge = Box<dyn Fn(&CrawlUrl) -> PortResult<Option<Family>> + Send + Sync>;

/// What is in the archive of a page that was visited before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recalled {
    Page(Arc<Reading>),
    /// It asks not to be indexed.
    NoIndex,
    /// Nothing that can be read.
    Nothing,
}

/// Reads an answer of the archive again, as the visit did.
pub type Recall = Box<dyn Fn(ShardId, &VisitLine) -> Recalled + Send>;

/// What an index asks of its crawl.
pub struct Helpers {
    /// None: every page is an original.
    pub judge: Option<Judge>,
    pub recall: Recall,
}

impl fmt::Debug for Helpers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Helpers").field("judges", &self.judge.is_some()).finish_non_exhaustive()
    }
}

/// The index of a crawl, open for writing; shared by the sinks of all shards.
#[derive(Clone)]
pub struct SearchIndex(Arc<Shared>);

struct Shared {
    queue: Arc<Queue>,
    judge: Option<Judge>,
    /// How far the log of each shard was put into the queue. What is put in is judged under this lock: the
    /// order of the verdicts is the order of the orders.
    taken: Mutex<BTreeMap<ShardId, u64>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl SearchIndex {
    /// Opens the index in a folder, which is made if it is not there. `memory_bytes` are for documents that
    /// are not in a file yet.
    ///
    /// # Errors
    /// When it cannot be read, was written by another version, or another process writes to it.
    pub fn open(folder: &Path, memory_bytes: u64, helpers: Helpers) -> PortResult<Self> {
        let doing = || format!("open the index in {}", folder.display());
        fs::create_dir_all(folder).map_err(|error| PortError::io(doing(), &error))?;
        let directory = MmapDirectory::open(folder).map_err(|error| port(doing())(error.into()))?;
        let (index, fields) = schema::open_or_begin(directory).map_err(port(doing()))?;
        let note = Note::of(&index).map_err(port(doing()))??;
        let queue = Arc::new(Queue::new(note.taken.clone()));
        let taken = Mutex::new(note.taken.clone());
        let writer = Writer::new(&index, fields, note, memory_bytes, helpers.recall);
        let writer = writer.map_err(port(doing()))?;
        let life = Life(Arc::clone(&queue));
        let thread = std::thread::Builder::new()
            .name("search".to_owned())
            .spawn(move || writer.run(&life))
            .map_err(|error| PortError::io(doing(), &error))?;
        let thread = Mutex::new(Some(thread));
        Ok(Self(Arc::new(Shared { queue, judge: helpers.judge, taken, thread })))
    }

    /// What reads the log of a shard.
    pub fn sink(&self, shard: ShardId) -> SearchSink {
        SearchSink { index: self.clone(), shard }
    }
}

impl fmt::Debug for SearchIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchIndex").field("taken", &self.0.taken).finish_non_exhaustive()
    }
}

impl Drop for Shared {
    /// What was not committed is told again by the log.
    fn drop(&mut self) {
        self.queue.leave();
        let thread = self.thread.lock().expect("no panic while locked").take();
        if let Some(thread) = thread {
            // Of one that has panicked everybody has heard who fed it.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn feed(&self, shard: ShardId, lines: &[VisitLine]) -> PortResult<()> {
        let mut taken = self.taken.lock().expect("no panic while locked");
        let before = taken.get(&shard).copied();
        let new = lines.partition_point(|line| line.seq <= before.unwrap_or(0));
        let lines = &lines[new..];
        let (Some(first), Some(last)) = (lines.first(), lines.last()) else { return Ok(()) };
        if before.is_none() && first.seq > 1 {
            tracing::warn!(
                shard = shard.0,
                "the full-text index begins after the crawl: pages of before are missing in it"
            );
            self.queue.push(Order::Partial)?;
        }
        for line in lines {
            if let Some(order) = self.order(shard, line)? {
                self.queue.push(order)?;
            }
        }
        self.queue.push(Order::Taken { shard, upto: last.seq, lines: lines.len() as u64 })?;
        taken.insert(shard, last.seq);
        Ok(())
    }

    /// What a line means for the index.
    fn order(&self, shard: ShardId, line: &VisitLine) -> PortResult<Option<Order>> {
        let Some(page) = line.page.as_deref() else { return Ok(None) };
        if page.news == News::Nothing {
            return Ok(None);
        }
        let remove = Ok(Some(Order::Remove(line.url.id())));
        let is_same = page.news == News::Same;
        if page.noindex || (!is_same && line.new_page().is_none()) {
            return remove;
        }
        let family = self.judge.as_ref().map(|judge| judge(&line.url)).transpose()?.flatten();
        if family.is_some_and(|family| !family.original) {
            return remove;
        }
        let family = family.map(|family| family.number);
        // A text that nobody knows is no page's, or one without words: it is where it was.
        let is_text = family.is_some() || self.judge.is_none();
        let copy = || Box::new(line.clone());
        Ok(match is_same {
            false => Some(Order::Put { shard, line: copy(), family }),
            true if is_text => Some(Order::Keep { shard, line: copy(), family }),
            true => None,
        })
    }
}

/// Feeds the index with the log of one shard.
#[derive(Debug)]
pub struct SearchSink {
    index: SearchIndex,
    shard: ShardId,
}

impl Sink for SearchSink {
    fn name(&self) -> &'static str {
        "search"
    }

    fn cursor(&self) -> u64 {
        self.index.0.queue.synced(self.shard)
    }

    fn feed(&mut self, lines: &[VisitLine]) -> PortResult<()> {
        self.index.0.feed(self.shard, lines)
    }

    fn close(&mut self) -> PortResult<()> {
        self.index.0.queue.commit()
    }
}

/// Tells those who wait that the writer is gone, should it die.
struct Life(Arc<Queue>);

impl Drop for Life {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(PortError::new(
                PortErrorKind::Corrupt,
                "write the full-text index",
                "its writer died; the lines above say of what. Without search/ the crawl goes on",
            ));
        }
    }
}

/// The one who writes.
struct Writer {
    writer: IndexWriter,
    reader: IndexReader,
    fields: Fields,
    recall: Recall,
    note: Note,
    /// What has happened to URLs since the last commit: whether they are in the index after it, and who is
    /// there for a family. Bounded by the lines of a commit.
    changed: HashMap<UrlId, bool>,
    originals: HashMap<u64, UrlId>,
    /// Lines and bytes since the last commit.
    lines: u64,
    bytes: usize,
    /// When the first document was changed since then.
    since: Option<Instant>,
    took: Duration,
}

impl Writer {
    fn new(
        index: &Index,
        fields: Fields,
        note: Note,
        memory_bytes: u64,
        recall: Recall,
    ) -> tantivy::Result<Self> {
        let memory = memory_bytes.clamp(MEMORY_BYTES_MIN, MEMORY_BYTES_MAX - MEMORY_BYTES_MIN);
        let options = IndexWriterOptions::builder()
            .num_worker_threads(1)
            .num_merge_threads(1)
            .memory_budget_per_thread(usize::try_from(memory).unwrap_or(usize::MAX))
            .build();
        let writer: IndexWriter = index.writer_with_options(options)?;
        let mut policy = LogMergePolicy::default();
        policy.set_min_num_segments(SEGMENTS_MERGED);
        policy.set_del_docs_ratio_before_merge(DELETED_SHARE_MAX);
        writer.set_merge_policy(Box::new(policy));
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self {
            writer,
            reader,
            fields,
            recall,
            note,
            changed: HashMap::new(),
            originals: HashMap::new(),
            lines: 0,
            bytes: 0,
            since: None,
            took: Duration::ZERO,
        })
    }

    fn run(mut self, life: &Life) {
        let queue = &*life.0;
        loop {
            let until = self.since.map(|since| since + self.pause());
            let done = match queue.pop(until) {
                Next::Order(Order::Commit) => self.commit(queue).map(|()| queue.answer()),
                Next::Order(order) => self.fulfil(order, queue),
                Next::Nothing => self.commit(queue),
                Next::Leave => return,
            };
            if let Err(error) = done {
                queue.fail(error);
                return;
            }
        }
    }

    fn fulfil(&mut self, order: Order, queue: &Queue) -> PortResult<()> {
        match order {
            Order::Put { shard, line, family } => match self.reading(shard, &line) {
                Recalled::Page(reading) => self.put(&line, &reading, family)?,
                Recalled::NoIndex => self.remove(line.url.id()),
                Recalled::Nothing => {
                    tracing::warn!(
                        url = %line.url,
                        "page is indexed without its text: the archive does not have it"
                    );
                    self.put(&line, &Arc::default(), family)?;
                }
            },
            Order::Keep { shard, line, family } => {
                if !self.is_there(line.url.id())?
                    && let Recalled::Page(reading) = self.reading(shard, &line)
                {
                    self.put(&line, &reading, family)?;
                }
            }
            Order::Remove(id) => self.remove(id),
            Order::Taken { shard, upto, lines } => {
                self.note.taken.insert(shard, upto);
                self.lines += lines;
            }
            Order::Partial => self.note.partial = true,
            Order::Commit => unreachable!("seen by the caller"),
        }
        let is_due = self.since.is_some_and(|since| since.elapsed() >= self.pause());
        if self.lines >= LINES_MAX || self.bytes >= BYTES_MAX || is_due {
            self.commit(queue)?;
        }
        Ok(())
    }

    fn pause(&self) -> Duration {
        PAUSE.max(self.took * COMMIT_SHARE)
    }

    /// What a page says: as its visit has read it, or from the archive.
    fn reading(&self, shard: ShardId, line: &VisitLine) -> Recalled {
        let page = line.page.as_deref();
        match page.and_then(|page| page.reading.clone()) {
            Some(reading) => Recalled::Page(reading),
            // The visit has found no text either.
            None if line.status != 304 && page.is_none_or(|page| page.text.is_none()) => {
                Recalled::Page(Arc::default())
            }
            None => (self.recall)(shard, line),
        }
    }

    fn put(&mut self, line: &VisitLine, reading: &Reading, family: Option<u64>) -> PortResult<()> {
        let id = line.url.id();
        self.writer.delete_term(self.fields.id_term(id));
        if let Some(family) = family {
            self.writer.delete_term(self.fields.family_term(family));
            if let Some(before) = self.originals.insert(family, id).filter(|before| *before != id) {
                self.changed.insert(before, false);
            }
        }
        let document = self.fields.document(line, reading, family);
        if let Err(error) = self.writer.add_document(document) {
            // What has really happened is told to whoever joins the thread to which it has happened.
            let told = self.writer.prepare_commit().err().unwrap_or(error);
            return Err(port("write the full-text index")(told));
        }
        failpoint("search_add");
        self.changed.insert(id, true);
        self.bytes += reading.text.len() + reading.headings.len();
        self.since.get_or_insert_with(Instant::now);
        Ok(())
    }

    fn remove(&mut self, id: UrlId) {
        self.writer.delete_term(self.fields.id_term(id));
        self.changed.insert(id, false);
        self.since.get_or_insert_with(Instant::now);
    }

    /// Whether the page of a URL will be in the index after the next commit.
    fn is_there(&self, id: UrlId) -> PortResult<bool> {
        if let Some(is_there) = self.changed.get(&id) {
            return Ok(*is_there);
        }
        let query = TermQuery::new(self.fields.id_term(id), IndexRecordOption::Basic);
        let count = self.reader.searcher().search(&query, &Count);
        Ok(count.map_err(port("look a page up in the full-text index"))? > 0)
    }

    /// Everything so far reaches the disk, and those who search.
    fn commit(&mut self, queue: &Queue) -> PortResult<()> {
        if self.lines == 0 && self.since.is_none() {
            return Ok(());
        }
        let begun = Instant::now();
        let payload = self.note.to_string();
        let mut write = || -> tantivy::Result<()> {
            let mut prepared = self.writer.prepare_commit()?;
            prepared.set_payload(&payload);
            failpoint("search_commit");
            prepared.commit()?;
            failpoint("search_committed");
            self.reader.reload()
        };
        write().map_err(port("commit the full-text index"))?;
        self.changed.clear();
        self.originals.clear();
        (self.lines, self.bytes, self.since) = (0, 0, None);
        self.took = begun.elapsed();
        queue.committed(&self.note.taken);
        Ok(())
    }
}
