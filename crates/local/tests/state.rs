//! What a state does when its filter is gone, its version is another, or someone else has it.

use std::ops::ControlFlow;
use std::time::Duration;

use lycosa_local::kv::{Batch, Durability, Family};
use lycosa_local::shard::{PRINTS_FILE, keys};
use lycosa_local::{Disk, Kv as _, MemoryKv, Shard, ShardSettings};
use ports::shard_store::{
    Arrival, CommitBatch, Committed, Erasure, Found, FoundSet, RefillWant, UrlChange, VisitCommit,
};
use ports::{PortErrorKind, PortResult, ShardStore as _};
use types::record::RetryPolicy;
use types::{CrawlUrl, HostKey, HostState, ShardId, State, Timestamp, UrlId, VisitId};

const POLICY: RetryPolicy =
    RetryPolicy { attempts_max: 3, delay: Duration::from_secs(10), lost_max: 3, host_max: 0 };

fn settings() -> ShardSettings {
    let mut settings = ShardSettings::small(ShardId(0), 7);
    settings.checkpoint_urls = 100;
    settings.filter_urls_min = 128;
    settings.rebuild_step = 16;
    settings.rebuild_at_open_max = 0;
    settings.recent_bytes_max = 256;
    settings
}

fn open(disk: &Disk) -> Shard<MemoryKv> {
    let kv = MemoryKv::open(disk, "shard").expect("nobody else has it");
    let mut store = Shard::open(kv, settings()).expect("opens");
    store.recover(Timestamp::ZERO, POLICY).expect("recovers");
    store
}

fn offer(store: &mut Shard<MemoryKv>, numbers: std::ops::Range<u64>) -> (usize, u64) {
    let mut links = FoundSet::default();
    for n in numbers {
        let url = format!("http://{}.test/{n}", n % 5);
        let id = UrlId::of(&url);
        links.push(Found { url: &url, id, depth: 1, hops: 0, band: 0, seed: false });
    }
    let arrivals = vec![Arrival { links, ..Arrival::default() }];
    let batch = CommitBatch { arrivals, ..CommitBatch::default() };
    let Committed { accepted, known, .. } = store.commit(batch).expect("commits");
    (accepted.len(), known)
}

/// Ids in `fresh`: a row holds those of a commit.
fn fresh_ids(store: &Shard<MemoryKv>) -> usize {
    let mut bytes = 0;
    let scanned = store.kv().scan(Family::Fresh, &[], None, &mut |_, ids| {
        bytes += ids.len();
        Ok(ControlFlow::Continue(()))
    });
    scanned.expect("scans");
    bytes / 16
}

fn check(store: &Shard<MemoryKv>) {
    let faults = store.audit().expect("reads");
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn a_popped_queue_has_a_head_and_a_growing_one_has_none() {
    let disk = Disk::new();
    let mut store = open(&disk);
    offer(&mut store, 0..1_000);
    let key = keys::host_prefix("3.test");
    let head = |store: &Shard<MemoryKv>| {
        let mut row = Vec::new();
        let read = store.kv().get(Family::Queue, keys::heads(&key), &mut |bytes| {
            row = bytes.to_vec();
            Ok(())
        });
        read.expect("reads");
        row.last_chunk().map(|seq| u64::from_be_bytes(*seq))
    };
    let mut next = 0;
    let mut pop = |store: &mut Shard<MemoryKv>, limit| {
        let want = RefillWant { host: HostKey::new("3.test"), after: None, limit, state: false };
        let tasks = store.refill(&[want]).expect("reads").remove(0).tasks;
        let visits = tasks.into_iter().map(|task| {
            let mut record = task.record;
            record.state = State::Parsed;
            next += 1;
            VisitCommit {
                visit: VisitId::new(ShardId(0), next),
                host: record.url.host_key(),
                host_state: HostState::default(),
                site: None,
                url: Some(UrlChange { key: task.key, record }),
                robots: None,
                links: FoundSet::default(),
                letters: Vec::new(),
                line: None,
            }
        });
        let visits = visits.collect();
        store.commit(CommitBatch { visits, ..CommitBatch::default() }).expect("commits");
    };
    assert_eq!(head(&store), None);
    pop(&mut store, 100);
    // It is sought with the next visit: the 101st of every fifth number, and later what is left.
    pop(&mut store, 1);
    assert_eq!(head(&store), Some(504));
    pop(&mut store, 64);
    pop(&mut store, 1);
    assert_eq!(head(&store), Some(504 + 5 * 65));
    check(&store);
}

#[test]
fn a_saved_filter_takes_the_fresh_ids_away() {
    let disk = Disk::new();
    let mut store = open(&disk);
    assert_eq!(offer(&mut store, 0..90), (90, 0));
    assert_eq!(fresh_ids(&store), 90);
    assert_eq!(offer(&mut store, 0..130), (40, 90));
    assert_eq!(fresh_ids(&store), 0);
    assert_eq!(offer(&mut store, 100..150), (20, 30));
    assert_eq!(fresh_ids(&store), 20);
    store.close().expect("closes");
    drop(store);
    let mut store = open(&disk);
    check(&store);
    assert_eq!(offer(&mut store, 0..151), (1, 150));
    // What the close had covered is trimmed with the next commit.
    assert_eq!(fresh_ids(&store), 1);
}

#[test]
fn a_filter_that_is_damaged_old_or_gone_costs_time_and_no_answer() {
    type Spoil = fn(&mut Vec<u8>);
    let spoils: [Spoil; 5] = [
        |file| file[100] ^= 1,
        |file| file.truncate(60),
        Vec::clear,
        |file| file.push(0),
        // Another generation, as from a backup: it is whole, and does not know all.
        |file| file[16..24].copy_from_slice(&99_u64.to_le_bytes()),
    ];
    for (n, spoil) in spoils.into_iter().enumerate() {
        let disk = Disk::new();
        let mut store = open(&disk);
        offer(&mut store, 0..150);
        offer(&mut store, 150..300);
        store.close().expect("closes");
        drop(store);
        assert!(disk.spoil_side("shard", PRINTS_FILE, spoil), "there is a filter");
        let mut store = open(&disk);
        // Answers are right while the filter is built, 16 keys with each commit, and after.
        for round in 0..30 {
            let new = 300 + round..301 + round;
            assert_eq!(offer(&mut store, new), (1, 0), "spoil {n}, round {round}");
            let old = round * 10..round * 10 + 10;
            assert_eq!(offer(&mut store, old), (0, 10), "spoil {n}, round {round}");
            check(&store);
        }
        drop(store);
        let mut store = open(&disk);
        assert_eq!(offer(&mut store, 0..330), (0, 330));
    }
}

#[test]
fn a_filter_grows_while_it_serves() {
    let disk = Disk::new();
    let mut store = open(&disk);
    // Far beyond its first size of 128, and never wrong.
    for n in 0..60 {
        assert_eq!(offer(&mut store, n * 20..n * 20 + 20), (20, 0));
        check(&store);
    }
    assert_eq!(offer(&mut store, 0..1_200), (0, 1_200));
}

/// Overwrites the row that says what a state is.
fn rewrite_format(disk: &Disk, engine: &str, version: u32, shard: u16) {
    let mut kv = MemoryKv::open(disk, "shard").expect("opens");
    let mut batch = Batch::default();
    let format = (version, engine.to_owned(), shard, 7_u64);
    batch.put_value(Family::Meta, b"format", &format);
    kv.commit(&batch, Durability::Disk).expect("commits");
}

fn try_open(disk: &Disk) -> PortResult<Shard<MemoryKv>> {
    Shard::open(MemoryKv::open(disk, "shard")?, settings())
}

#[test]
fn another_version_engine_or_shard_is_refused_with_a_reason() {
    let disk = Disk::new();
    drop(open(&disk));
    for (engine, version, shard, want) in [
        ("memory", 99, 0, "format 99"),
        ("rocksdb", 1, 0, "store.engine = \"rocksdb\""),
        ("memory", 1, 4, "shard 4"),
    ] {
        rewrite_format(&disk, engine, version, shard);
        let error = try_open(&disk).expect_err("another state");
        assert_eq!(error.kind, PortErrorKind::Version);
        assert!(error.to_string().contains(want), "{error}");
    }
    rewrite_format(&disk, "memory", 1, 0);
    drop(try_open(&disk).expect("our own"));
}

#[test]
fn a_state_has_one_user() {
    let disk = Disk::new();
    let store = open(&disk);
    assert_eq!(try_open(&disk).expect_err("taken").kind, PortErrorKind::Locked);
    drop(store);
    drop(try_open(&disk).expect("free again"));
    // A process that was killed holds nothing.
    let _ghost = open(&disk);
    disk.kill();
    drop(try_open(&disk).expect("free again"));
}

#[test]
fn the_process_dies_where_the_test_wants() {
    let disk = Disk::new();
    let mut store = open(&disk);
    offer(&mut store, 0..5);
    let before = disk.writes();
    disk.fail_after(1);
    let batch = CommitBatch { durable: true, ..CommitBatch::default() };
    assert_eq!(store.commit(batch).expect_err("dead").kind, PortErrorKind::Io);
    assert!(disk.is_dead() && disk.writes() == before + 1);
    assert!(store.note("x").is_err(), "the dead do not read");
    disk.kill();
    assert!(store.note("x").is_err(), "a handle of an earlier life");
    drop(store);
    assert_eq!(open(&disk).counts().known, 5);
}

#[cfg(feature = "fjall")]
#[test]
fn shards_on_disk_open_together_and_are_locked() {
    use lycosa_local::{Engine, EngineSettings, open_shards};

    let folder = tempfile::tempdir().expect("a folder");
    let shards: Vec<_> = (0..3).map(|n| ShardSettings::small(ShardId(n), 1)).collect();
    let limits = EngineSettings::default();
    let open = |engine| open_shards(folder.path(), engine, &shards, limits);
    let kind = |result: PortResult<_>| result.map(drop).expect_err("refused").kind;
    let mut stores = open(Engine::Fjall).expect("opens");
    for (n, store) in stores.iter_mut().enumerate() {
        store.set_note("who", &[n as u8]).expect("notes");
    }
    assert_eq!(kind(open(Engine::Fjall)), PortErrorKind::Locked);
    drop(stores);
    // Another engine, built in or not, does not touch it.
    assert_eq!(kind(open(Engine::Rocksdb)), PortErrorKind::Version);
    for (n, store) in open(Engine::Fjall).expect("opens").iter_mut().enumerate() {
        assert_eq!(store.note("who").expect("reads"), Some(vec![n as u8]));
    }
}

#[test]
fn what_is_forgotten_is_gone_and_is_not_accepted_again() {
    let disk = Disk::new();
    let mut store = open(&disk);
    let seeds = ["http://0.test/0", "http://3.test/8", "http://1.test/1", "http://3.test/13"];
    let mut links = FoundSet::default();
    for url in seeds {
        let id = UrlId::of(url);
        links.push(Found { url, id, depth: 0, hops: 0, band: 0, seed: true });
    }
    let arrivals = vec![Arrival { links, ..Arrival::default() }];
    store.commit(CommitBatch { arrivals, ..CommitBatch::default() }).expect("commits");
    offer(&mut store, 0..200);
    let host = HostKey::new("3.test");
    let one = CrawlUrl::parse("http://0.test/5").expect("a URL");
    let never = CrawlUrl::parse("http://0.test/never").expect("a URL");
    let erase = |store: &mut Shard<MemoryKv>, named_url| {
        let erasure = Erasure {
            takes: &|url: &CrawlUrl| *url == one || url.host_key() == host,
            takes_host: &|other: &HostKey| *other == host,
            named_url,
            named_host: Some(&host),
            at: Timestamp::from_secs(77),
            reason: "asked",
        };
        store.erase(&erasure).expect("erases")
    };
    let erased = erase(&mut store, None);
    assert_eq!((erased.urls, erased.seeds), (41, 2), "{erased:?}");
    assert_eq!(store.counts().known, 159);
    check(&store);
    assert_eq!(erase(&mut store, Some(&never)).urls, 0, "nothing is left to do");
    let listed: Vec<String> =
        store.seeds(0, 9).expect("reads").iter().map(ToString::to_string).collect();
    assert_eq!(listed, ["http://0.test/0", "http://1.test/1"]);

    // Also by another process; and nothing names them.
    drop(store);
    let mut store = open(&disk);
    let (accepted, known) = offer(&mut store, 0..205);
    assert_eq!((accepted, known), (4, 159), "of 205 links, 42 lead to what was forgotten");
    assert_eq!(store.tally().get("skipped.forgotten"), 42);
    for url in ["http://3.test/3", "http://3.test/never", one.as_str(), never.as_str()] {
        let url = CrawlUrl::parse(url).expect("a URL");
        let told = store.forgotten(&url).expect("reads").expect("it was forgotten");
        assert_eq!((told.at, told.reason.as_str()), (Timestamp::from_secs(77), "asked"));
        assert_eq!(store.record(&url).expect("reads"), None);
    }
    let other = CrawlUrl::parse("http://0.test/10").expect("a URL");
    assert_eq!(store.forgotten(&other).expect("reads"), None);
    assert!(store.host(&host, 9).expect("reads").is_none());
    check(&store);
    for family in Family::ALL {
        let scanned = store.kv().scan(family, &[], None, &mut |key, value| {
            for row in [key, value] {
                for name in [&b"3.test"[..], b"test.3"] {
                    assert!(!row.windows(name.len()).any(|part| part == name), "{}", family.name());
                }
            }
            Ok(ControlFlow::Continue(()))
        });
        scanned.expect("scans");
    }
}
