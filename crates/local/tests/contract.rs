//! Every engine keeps the promises of the ports.

use lycosa_local::shard::IdFn;
use lycosa_local::{Disk, MemoryKv, Shard, ShardSettings};
use ports::PortResult;
use ports::contract::{self, Reopen};
use types::ShardId;

/// Small tables, so that the paths of large states are walked too.
fn settings(ids: Option<IdFn>) -> ShardSettings {
    let mut settings = ShardSettings::small(ShardId(0), 42);
    settings.recent_bytes_max = 1 << 10;
    settings.heads_max = 2;
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

#[cfg(feature = "fjall")]
mod on_fjall {
    use lycosa_local::EngineSettings;
    use lycosa_local::fjall::FjallKv;

    use super::*;

    struct OnFjall {
        folder: tempfile::TempDir,
        ids: Option<IdFn>,
    }

    impl Reopen for OnFjall {
        type Store = Shard<FjallKv>;

        fn open(&mut self) -> PortResult<Self::Store> {
            let limits = EngineSettings { threads: 1, ..EngineSettings::default() };
            Shard::open(FjallKv::open(self.folder.path(), limits)?, settings(self.ids))
        }

        fn use_ids(&mut self, ids: IdFn) {
            self.ids = Some(ids);
        }

        fn audit(&self, store: &Self::Store) -> Vec<String> {
            store.audit().expect("the state can be read")
        }

        fn sequences(&self) -> u64 {
            // Each ends with an open of real files and some syncs, which a busy disk makes slow.
            100
        }
    }

    #[test]
    fn fjall_keeps_the_contract() {
        contract::shard_store(|| OnFjall {
            folder: tempfile::tempdir().expect("a folder"),
            ids: None,
        });
    }
}

#[cfg(feature = "rocksdb")]
mod on_rocksdb {
    use lycosa_local::EngineSettings;
    use lycosa_local::rocks::{RocksKv, RocksShared};

    use super::*;

    struct OnRocksdb {
        folder: tempfile::TempDir,
        ids: Option<IdFn>,
    }

    impl Reopen for OnRocksdb {
        type Store = Shard<RocksKv>;

        fn open(&mut self) -> PortResult<Self::Store> {
            let shared = RocksShared::new(EngineSettings::default());
            Shard::open(RocksKv::open(self.folder.path(), &shared)?, settings(self.ids))
        }

        fn use_ids(&mut self, ids: IdFn) {
            self.ids = Some(ids);
        }

        fn audit(&self, store: &Self::Store) -> Vec<String> {
            store.audit().expect("the state can be read")
        }

        fn sequences(&self) -> u64 {
            // As for fjall.
            100
        }
    }

    #[test]
    fn rocksdb_keeps_the_contract() {
        contract::shard_store(|| OnRocksdb {
            folder: tempfile::tempdir().expect("a folder"),
            ids: None,
        });
    }
}
