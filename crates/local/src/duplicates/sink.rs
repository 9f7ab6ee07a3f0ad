//! The store of prints as a reader of one shard's log.

use ports::shard_store::VisitLine;
use ports::{PortResult, Sink};
use types::ShardId;

use super::Duplicates;

/// Feeds the store with the log of one shard; all of them share it.
#[derive(Debug)]
pub struct DuplicateSink {
    store: Duplicates,
    shard: ShardId,
}

impl DuplicateSink {
    pub(super) fn new(store: Duplicates, shard: ShardId) -> Self {
        Self { store, shard }
    }
}

impl Sink for DuplicateSink {
    fn name(&self) -> &'static str {
        "prints"
    }

    fn cursor(&self) -> u64 {
        self.store.lock().synced.get(&self.shard).copied().unwrap_or(0)
    }

    fn feed(&mut self, lines: &[VisitLine]) -> PortResult<()> {
        self.store.lock().feed(self.shard, lines)
    }

    fn close(&mut self) -> PortResult<()> {
        self.store.lock().sync()
    }
}
