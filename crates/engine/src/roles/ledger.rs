//! Was this visit ever committed?
//!
//! A worker in another process that has lost its frontier in mid-report does not know what became
//! of it, and must: what is committed belongs into its archive, what is not does not. The log of
//! committed visits tells. A [`LedgerSink`] per shard reads it and keeps its last part, in the log and
//! in memory, so that the answer is the same after a restart.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use foldhash::HashSet;
use ports::shard_store::VisitLine;
use ports::{PortResult, Sink};
use types::{ShardId, VisitId};

/// Lines of a shard that are remembered. A worker has some thousand visits under way at most, and
/// asks as soon as it can: it finds them here unless it was away while a million pages were fetched.
const LINES_MAX: usize = 1 << 20;

/// What all shards have committed of late.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<BTreeMap<ShardId, Lines>>>);

#[derive(Debug, Default)]
struct Lines {
    known: HashSet<VisitId>,
    /// In the order of the log, with their places in it.
    order: VecDeque<(u64, VisitId)>,
    /// The log is not needed up to here.
    forgotten: u64,
}

impl Ledger {
    /// Whether the visit is committed.
    pub fn knows(&self, visit: VisitId) -> bool {
        let shards = self.0.lock().expect("no panic while locked");
        shards.get(&visit.shard()).is_some_and(|lines| lines.known.contains(&visit))
    }

    /// The part of it that reads one shard's log.
    pub fn sink(&self, shard: ShardId) -> LedgerSink {
        LedgerSink { ledger: self.clone(), shard, lines_max: LINES_MAX }
    }
}

/// Reads a shard's log for the ledger.
#[derive(Debug)]
pub struct LedgerSink {
    ledger: Ledger,
    shard: ShardId,
    lines_max: usize,
}

impl Sink for LedgerSink {
    fn name(&self) -> &'static str {
        "ledger"
    }

    fn cursor(&self) -> u64 {
        let shards = self.ledger.0.lock().expect("no panic while locked");
        shards.get(&self.shard).map_or(0, |lines| lines.forgotten)
    }

    fn feed(&mut self, fed: &[VisitLine]) -> PortResult<()> {
        let mut shards = self.ledger.0.lock().expect("no panic while locked");
        let lines = shards.entry(self.shard).or_default();
        for line in fed {
            if lines.known.insert(line.visit) {
                lines.order.push_back((line.seq, line.visit));
            }
        }
        while lines.order.len() > self.lines_max {
            let Some((seq, visit)) = lines.order.pop_front() else { break };
            lines.known.remove(&visit);
            lines.forgotten = seq;
        }
        Ok(())
    }

    fn close(&mut self) -> PortResult<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use types::{CrawlUrl, Timestamp};

    use super::*;

    fn line(seq: u64) -> VisitLine {
        VisitLine {
            seq,
            visit: visit(seq),
            url: CrawlUrl::parse("http://a.test/").unwrap(),
            at: Timestamp::ZERO,
            status: 200,
            content_type: None,
            digest: None,
            warc: None,
            page: None,
        }
    }

    fn visit(count: u64) -> VisitId {
        VisitId::new(ShardId(3), count)
    }

    #[test]
    fn the_last_visits_are_known_and_their_lines_stay_in_the_log() {
        let ledger = Ledger::default();
        let mut sink = LedgerSink { lines_max: 3, ..ledger.sink(ShardId(3)) };
        assert_eq!(sink.cursor(), 0);
        sink.feed(&[line(1), line(2), line(3)]).unwrap();
        assert_eq!(sink.cursor(), 0, "all of them would be needed after a restart");
        sink.feed(&[line(3), line(4)]).unwrap();
        assert_eq!(sink.cursor(), 1);
        let known: Vec<_> = (1..=5).map(|count| ledger.knows(visit(count))).collect();
        assert_eq!(known, [false, true, true, true, false]);
        assert!(!ledger.knows(VisitId::new(ShardId(0), 4)), "a visit of another shard");
    }
}
