//! A state that an older version wrote opens, is the same, and stays so when the power goes.

use std::ops::ControlFlow;
use std::time::Duration;

use lycosa_local::kv::{Batch, Durability, Family};
use lycosa_local::{Disk, Kv as _, MemoryKv, Shard, ShardSettings};
use ports::shard_store::{Arrival, CommitBatch, Found, FoundSet, ScanCursor};
use ports::{PortResult, ShardStore, codec};
use types::record::RetryPolicy;
use types::{Record, ShardId, Timestamp, UrlId};

const POLICY: RetryPolicy =
    RetryPolicy { attempts_max: 3, delay: Duration::from_secs(10), lost_max: 3, host_max: 0 };

fn records(store: &mut dyn ShardStore) -> Vec<Record> {
    store.records(&mut ScanCursor::default(), usize::MAX).expect("reads")
}

/// A crawl that version 0.1.0 wrote with format 1, ended by its page limit, and all that it knew.
#[cfg(feature = "fjall")]
mod fixture {
    use std::path::Path;

    use super::*;
    use lycosa_local::engine::{Engine, open_shards};

    fn unpack(folder: &Path) {
        let packed = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/format-1.tar.gz");
        let mut tar = std::process::Command::new("tar");
        let unpacked = tar.arg("-xzf").arg(packed).arg("-C").arg(folder).status();
        assert!(unpacked.expect("tar starts").success());
    }

    /// What the version that wrote it said of it, one line each; times of discovery were kept to
    /// the microsecond then.
    fn expected(folder: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(folder.join("expected.txt")).expect("it is there");
        text.lines().map(to_the_second).collect()
    }

    fn to_the_second(line: &str) -> String {
        let mark = "found: Discovery { at: Timestamp(";
        let Some((before, rest)) = line.split_once(mark) else { return line.to_owned() };
        let (micros, after) = rest.split_once(')').expect("a number in brackets");
        let micros: u64 = micros.parse().expect("a number");
        format!("{before}{mark}{}){after}", micros - micros % 1_000_000)
    }

    fn told(store: &mut dyn ShardStore) -> Vec<String> {
        // Format 1 knew nothing of held pages nor of texts, and neither does the list.
        let shown = |record: &Record| {
            let text = format!("{record:?}").replace(", held: None }", " }");
            text.replace(", text: None, sketch: None, reading: None", "")
        };
        let mut lines: Vec<_> = records(store).iter().map(shown).collect();
        for waiting in store.hosts(None, usize::MAX).expect("reads") {
            let host = store.host(&waiting.host, u64::MAX).expect("reads").expect("it waits");
            // Nor of rules for hosts, nor of what their failures have cost.
            let text = format!("{host:?}").replace(" rule: HostRule { delay_ms: None },", "");
            lines.push(text.replace(", retry_debt: 0", ""));
        }
        lines.push(format!("{:?}", store.counts()));
        lines.push(format!("{:?}", store.seeds(0, usize::MAX).expect("reads")));
        lines.push(format!("{:?}", store.tally()));
        lines.push(format!("{} visits", store.visits(0, usize::MAX).expect("reads").len()));
        lines
    }

    #[test]
    fn a_directory_of_format_1_opens_and_is_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        unpack(folder.path());
        let want = expected(folder.path());
        assert!(want.len() > 400, "{} lines", want.len());
        let state = folder.path().join("crawl/state");
        assert!(state.join("shard-00/seen.filter").exists());
        for round in 0..2 {
            let shards = [ShardSettings::new(ShardId(0), 1)];
            let opened = open_shards(&state, Engine::Fjall, &shards, Default::default());
            let mut store = opened.expect("opens").remove(0);
            store.recover(Timestamp::ZERO, POLICY).expect("recovers");
            assert_eq!(told(&mut *store), want, "round {round}");
            assert_eq!(store.seen().filter.urls, store.counts().known);
            assert!(!state.join("shard-00/seen.filter").exists());
            store.close().expect("closes");
        }
    }
}

fn open(disk: &Disk) -> PortResult<Shard<MemoryKv>> {
    let mut settings = ShardSettings::small(ShardId(0), 7);
    settings.checkpoint_urls = 100;
    let mut store = Shard::open(MemoryKv::open(disk, "shard")?, settings)?;
    store.recover(Timestamp::ZERO, POLICY)?;
    Ok(store)
}

/// Makes a state look as version 1 would have written it.
fn make_old(disk: &Disk) {
    let mut kv = MemoryKv::open(disk, "shard").expect("nobody else has it");
    let mut batch = Batch::default();
    let mut format = Vec::new();
    kv.get(Family::Meta, b"format", &mut |value| {
        format = value.to_vec();
        Ok(())
    })
    .expect("reads");
    // The layout's number comes first, then the format's.
    assert_eq!(format[..2], [1, 2]);
    format[1] = 1;
    batch.put(Family::Meta, b"format", &format);
    batch.put(Family::Meta, b"filter", &codec::encode(&(1_u64, 0_u64)));
    let mut rows = Vec::new();
    kv.scan(Family::Url, &[], None, &mut |key, _| {
        rows.push(key.to_vec());
        Ok(ControlFlow::Continue(()))
    })
    .expect("scans");
    for (n, key) in rows.iter().enumerate() {
        let found = types::Discovery {
            at: Timestamp::from_secs(n as u64),
            depth: 1,
            hops: 0,
            seed: false,
            band: 0,
        };
        let host = String::from_utf8(key[4..key.len() - 17].to_vec()).expect("a name");
        let host: Vec<&str> = host.rsplit('.').collect();
        let url = (0..OFFERED).map(url_of).find(|url| {
            key.ends_with(&UrlId::of(url).to_be_bytes()) && url.contains(&host.join("."))
        });
        let url = types::CrawlUrl::parse(&url.expect("it was offered")).expect("a URL");
        batch.put(Family::Url, key, &codec::encode(&Record::new(url, found)));
    }
    kv.commit(&batch, Durability::Disk).expect("commits");
    kv.append_side("seen.filter", 0, b"an old filter").expect("writes");
}

const OFFERED: u64 = 300;

fn url_of(n: u64) -> String {
    format!("http://{}.test/{n}", n % 5)
}

fn old_state() -> Disk {
    let disk = Disk::new();
    let mut store = open(&disk).expect("opens");
    let mut links = FoundSet::default();
    for n in 0..OFFERED {
        let (url, id) = (url_of(n), UrlId::of(&url_of(n)));
        links.push(Found { url: &url, id, depth: 1, hops: 0, band: 0, seed: false });
    }
    let arrivals = vec![Arrival { links, ..Arrival::default() }];
    store.commit(CommitBatch { arrivals, ..CommitBatch::default() }).expect("commits");
    store.close().expect("closes");
    drop(store);
    make_old(&disk);
    disk
}

#[test]
fn it_can_die_at_any_write_and_goes_on() {
    let mut writes = 0;
    loop {
        let disk = old_state();
        disk.fail_after(writes + 1);
        let lived = open(&disk).is_ok();
        if writes % 2 == 0 {
            disk.kill()
        } else {
            disk.crash(writes)
        }
        let mut store = open(&disk).expect("opens after all");
        let faults = store.audit().expect("reads");
        assert!(faults.is_empty(), "death at write {writes}: {faults:#?}");
        assert_eq!(records(&mut store).len() as u64, OFFERED);
        assert_eq!(store.seen().filter.urls, OFFERED);
        if lived {
            break;
        }
        writes += 1;
    }
    assert!(writes > 4, "it wrote only {writes} times");
}
