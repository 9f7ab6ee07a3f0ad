//! Every engine keeps the promises of the ports.

use lycosa_local::shard::IdFn;
use lycosa_local::{Disk, MemoryKv, Shard, ShardSettings};
use ports::PortResult;
use ports::contract::{self, Reopen};
use types::ShardId;

/// Small tables, so that the paths of large states are walked too.
fn settings(ids: Option<IdFn>) -> ShardSettings {
    let mut settings = ShardSettings::small(ShardId(0), 42);
    settings.recent_urls_max = 64;
    settings.host_facts_max = 2;
    settings.filter_urls_min = 64;
    settings.checkpoint_urls = 50;
    settings.rebuild_step = 10;
    settings.rebuild_at_open_max = 20;
    if let Some(ids) = ids {
        settings.ids = ids;
    }
    settings
}

struct InMemory {
    disk: Disk,
    ids: Option<IdFn>,
}

impl Reopen for InMemory {
    type Store = Shard<MemoryKv>;

    fn open(&mut self) -> PortResult<Self::Store> {
        Shard::open(MemoryKv::open(&self.disk, "shard")?, settings(self.ids))
    }

    fn use_ids(&mut self, ids: IdFn) {
        self.ids = Some(ids);
    }

    fn audit(&self, store: &Self::Store) -> Vec<String> {
        store.audit().expect("the state can be read")
    }
}

#[test]
fn the_memory_engine_keeps_the_contract() {
    contract::shard_store(|| InMemory { disk: Disk::new(), ids: None });
}
