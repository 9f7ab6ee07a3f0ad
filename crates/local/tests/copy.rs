//! A copy of a state is the state of the moment at which it was begun, and goes on by itself.

use std::path::Path;
use std::time::Duration;

use lycosa_local::{Disk, Kv, MemoryKv, Shard, ShardSettings};
use ports::shard_store::{Arrival, CommitBatch, Found, FoundSet, Grant, ScanCursor};
use ports::{PortResult, ShardStore as _};
use types::record::RetryPolicy;
use types::{HostKey, ShardId, Timestamp, UrlId, VisitId};

const POLICY: RetryPolicy =
    RetryPolicy { attempts_max: 3, delay: Duration::from_secs(10), lost_max: 3, host_max: 0 };

fn open<K: Kv>(kv: PortResult<K>) -> Shard<K> {
    let mut settings = ShardSettings::small(ShardId(0), 7);
    settings.checkpoint_urls = 100;
    let mut store = Shard::open(kv.expect("nobody else has it"), settings).expect("opens");
    store.recover(Timestamp::ZERO, POLICY).expect("recovers");
    store
}

fn offer<K: Kv>(store: &mut Shard<K>, numbers: std::ops::Range<u64>) -> usize {
    let mut links = FoundSet::default();
    for n in numbers {
        let url = format!("http://{}.test/{n}", n % 5);
        let id = UrlId::of(&url);
        links.push(Found { url: &url, id, depth: 1, hops: 0, band: 0, seed: false });
    }
    let arrivals = vec![Arrival { links, ..Arrival::default() }];
    let batch = CommitBatch { arrivals, ..CommitBatch::default() };
    store.commit(batch).expect("commits").accepted.len()
}

fn known<K: Kv>(store: &mut Shard<K>) -> usize {
    store.records(&mut ScanCursor::default(), usize::MAX).expect("reads").len()
}

/// Copies a store at work, and opens the copy with `reopen`.
fn check<K: Kv>(store: &mut Shard<K>, folder: &Path, reopen: impl Fn() -> PortResult<K>) {
    offer(store, 0..250);
    let host = HostKey::new("1.test");
    let grant = |count| Grant {
        visit: VisitId::new(ShardId(0), count),
        host: host.clone(),
        url: None,
        at: Timestamp::from_secs(1),
    };
    store.grant(&[grant(1)]).expect("grants");
    let copy = store.copy(folder).expect("begins");
    // What comes later is not in it, even if it is written before the copy is.
    offer(store, 250..600);
    (copy.job)().expect("copies");
    offer(store, 600..700);
    assert_eq!(known(store), 700);

    let mut copy = open(reopen());
    assert_eq!((known(&mut copy), copy.counts().known), (250, 250));
    assert_eq!(copy.seen().filter.urls, 250);
    assert_eq!(offer(&mut copy, 200..300), 50);
    let faults = copy.audit().expect("reads");
    assert!(faults.is_empty(), "{faults:#?}");
    assert_eq!(known(store), 700, "the first knows nothing of that");
}

#[test]
fn a_state_in_memory_is_copied() {
    let disk = Disk::new();
    let mut store = open(MemoryKv::open(&disk, "shard"));
    check(&mut store, Path::new("copy"), || MemoryKv::open(&disk, "copy"));
}

#[cfg(feature = "fjall")]
#[test]
fn a_state_of_fjall_is_copied() {
    use lycosa_local::{EngineSettings, fjall::FjallKv};
    let folder = tempfile::tempdir().expect("a folder");
    let limits = EngineSettings::default();
    let mut store = open(FjallKv::open(&folder.path().join("shard"), limits));
    let copy = folder.path().join("copy");
    check(&mut store, &copy, || FjallKv::open(&copy, limits));
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_state_of_rocksdb_is_copied() {
    use lycosa_local::EngineSettings;
    use lycosa_local::rocks::{RocksKv, RocksShared};
    let folder = tempfile::tempdir().expect("a folder");
    let shared = RocksShared::new(EngineSettings::default());
    let mut store = open(RocksKv::open(&folder.path().join("shard"), &shared));
    let copy = folder.path().join("copy");
    check(&mut store, &copy, || RocksKv::open(&copy, &shared));
}
