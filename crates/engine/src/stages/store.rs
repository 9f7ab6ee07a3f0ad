//! In which order does a group of visits become durable?
//!
//! The archive first, then the store, then the word that it is done: sync the WARC, commit the
//! batch with a synced log, acknowledge. So a visit that the store knows is always in the
//! archive; bytes in the archive that the store does not know are a tail, and are cut on open.
//!
//! This runs on the shard's store thread, the single writer of both.

use std::time::{Duration, Instant};

use ports::shard_store::{
    Arrival, CommitBatch, Committed, LetterBody, Onward, RobotsFound, SeenFacts, Tally, UrlChange,
    VisitCommit, VisitLine,
};
use ports::{Archive, Blob, Held, PortResult, RobotsEntry, ShardStore, Sink};
use types::{
    HostKey, HostRule, HostState, Origin, ShardId, Site, SiteState, Timestamp, VisitId, WarcRef,
};

use crate::robots_book::{self, RobotsSettings};
use crate::stages::read::Packed;

/// What one shard's store thread owns.
pub struct Books {
    pub store: Box<dyn ShardStore>,
    pub archive: Option<Box<dyn Archive>>,
    pub sinks: Vec<Box<dyn Sink>>,
}

impl std::fmt::Debug for Books {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Books").field("sinks", &self.sinks.len()).finish_non_exhaustive()
    }
}

/// Visits that become durable together.
#[derive(Debug, Default)]
pub struct Group {
    pub at: Timestamp,
    pub visits: Vec<SettledVisit>,
    pub arrivals: Vec<Arrival>,
    /// News of robots.txt that came by letter.
    pub robots: Vec<RobotsNews>,
    pub hosts: Vec<(HostKey, HostState)>,
    pub rules: Vec<(HostKey, HostRule)>,
    pub tally: Tally,
    pub durable: bool,
    pub onward: Option<Onward>,
}

#[derive(Debug)]
pub struct RobotsNews {
    pub letter: Option<(ShardId, u64)>,
    pub origin: Origin,
    pub found: RobotsFound,
}

/// A settled visit with all that belongs to it.
#[derive(Debug)]
pub struct SettledVisit {
    pub visit: VisitId,
    pub host: HostKey,
    pub host_state: HostState,
    pub site: Option<(Site, SiteState)>,
    pub url: Option<UrlChange>,
    pub robots: Option<(Origin, RobotsFound)>,
    pub links: ports::shard_store::FoundSet,
    pub letters: Vec<(ShardId, LetterBody)>,
    pub line: Option<VisitLine>,
    pub packed: Option<Packed>,
    /// Keeps the bytes counted until they are on disk.
    pub hold: Option<Box<dyn Held>>,
}

/// What came of it.
#[derive(Debug)]
pub struct Kept {
    pub committed: Committed,
    pub visits: Vec<(VisitId, HostKey, Option<types::UrlId>)>,
    /// The state of robots.txt files, as it stands now.
    pub robots: Vec<(Origin, RobotsEntry)>,
    pub letters: Vec<(ShardId, u64)>,
    /// What was said of hosts.
    pub rules: Vec<(HostKey, HostRule)>,
    pub archive_bytes: u64,
    /// How the seen test goes, since this process began.
    pub seen: SeenFacts,
    /// How long it took, archive and store together.
    pub took: Duration,
}

/// Counts what was ever written to archive files, also to those that were moved away since.
pub const ARCHIVE_BYTES: &str = "archive_bytes";

pub fn keep(books: &mut Books, mut group: Group, settings: &RobotsSettings) -> PortResult<Kept> {
    let bytes = |books: &Books| books.archive.as_ref().map_or(0, |archive| archive.bytes_written());
    let begun = Instant::now();
    let before = bytes(books);
    archive(books, &mut group)?;
    group.tally.add(ARCHIVE_BYTES, bytes(books) - before);
    let mut kept = Kept {
        committed: Committed::default(),
        visits: group.visits.iter().map(settled).collect(),
        robots: Vec::new(),
        letters: group.arrivals.iter().filter_map(|arrival| arrival.letter).collect(),
        rules: group.rules.clone(),
        archive_bytes: bytes(books),
        seen: SeenFacts::default(),
        took: Duration::ZERO,
    };
    let mut batch = CommitBatch {
        at: group.at,
        hosts: group.hosts,
        rules: group.rules,
        tally: group.tally,
        durable: group.durable,
        onward: group.onward,
        archive_end: books.archive.as_ref().and_then(|archive| archive.end()),
        arrivals: group.arrivals,
        visits: Vec::with_capacity(group.visits.len()),
    };
    let mut renewed = |store: &mut dyn ShardStore, origin: Origin, found| {
        let old = store.robots(&origin)?;
        let entry = robots_book::renew(old, found, group.at, settings);
        kept.robots.push((origin.clone(), entry.clone()));
        PortResult::Ok((origin, entry))
    };
    for visit in group.visits {
        let robots = match visit.robots {
            Some((origin, found)) => Some(renewed(&mut *books.store, origin, found)?),
            None => None,
        };
        batch.visits.push(VisitCommit {
            visit: visit.visit,
            host: visit.host,
            host_state: visit.host_state,
            site: visit.site,
            url: visit.url,
            robots,
            links: visit.links,
            letters: visit.letters,
            line: visit.line,
        });
    }
    for news in group.robots {
        let robots = Some(renewed(&mut *books.store, news.origin, news.found)?);
        kept.letters.extend(news.letter);
        batch.arrivals.push(Arrival { letter: news.letter, robots, ..Arrival::default() });
    }
    kept.committed = books.store.commit(batch)?;
    kept.seen = books.store.seen();
    for sink in &mut books.sinks {
        sink.feed(&kept.committed.lines)?;
    }
    // Whoever wanted to hear what the pages say has heard it.
    for line in &mut kept.committed.lines {
        if let Some(page) = &mut line.page {
            page.reading = None;
        }
    }
    kept.took = begun.elapsed();
    Ok(kept)
}

/// Lines between two looks at how far the log can be trimmed.
const TRIM_LINES: u64 = 4_096;

/// What every sink has made durable is not needed any more, once these lines are kept.
pub fn trim(books: &mut Books, lines: &[VisitLine]) -> PortResult<()> {
    let (Some(first), Some(last)) = (lines.first(), lines.last()) else { return Ok(()) };
    if first.seq / TRIM_LINES == last.seq.saturating_add(1) / TRIM_LINES {
        return Ok(());
    }
    let upto = books.sinks.iter().map(|sink| sink.cursor()).min().unwrap_or(last.seq);
    books.store.trim_visits(upto)
}

/// With its URL, if that leaves its place in the queue. One that stays may be under way again by
/// the time it is committed.
fn settled(visit: &SettledVisit) -> (VisitId, HostKey, Option<types::UrlId>) {
    let leaves = visit.url.as_ref().filter(|change| !change.stays());
    (visit.visit, visit.host.clone(), leaves.map(|change| change.record.url.id()))
}

/// Appends the group's records and tells every visit where its answer lies.
fn archive(books: &mut Books, group: &mut Group) -> PortResult<()> {
    let Some(archive) = &mut books.archive else { return Ok(()) };
    let mut blobs = Vec::new();
    for visit in &mut group.visits {
        if let Some(packed) = &mut visit.packed {
            blobs.push([std::mem::take(&mut packed.bytes)]);
        }
    }
    if blobs.is_empty() {
        return Ok(());
    }
    let groups: Vec<&[Blob]> = blobs.iter().map(<[_; 1]>::as_slice).collect();
    let mut places = archive.append(&groups, group.at)?.into_iter();
    if group.durable {
        archive.sync()?;
    }
    for visit in &mut group.visits {
        let Some(packed) = &visit.packed else { continue };
        let place = places.next().and_then(|group| group.first().copied());
        let warc = place.map(|place| WarcRef {
            file: place.file,
            offset: place.offset + packed.response.start as u64,
            length: packed.response.len() as u64,
        });
        if let Some(line) = &mut visit.line {
            line.warc = warc;
            line.digest = packed.digest;
            line.content_type.clone_from(&packed.mime);
        }
        if let Some(UrlChange { record, .. }) = &mut visit.url
            && let Some(last) = &mut record.last
            // What an earlier visit has brought lies where it was.
            && record.held.is_none_or(|held| held.visit == visit.visit)
        {
            last.warc = warc;
        }
    }
    Ok(())
}
