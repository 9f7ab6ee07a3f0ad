//! A process that aborts at a named point leaves a state that goes on.
//!
//! The test starts itself again as the process that dies.

#![cfg(all(feature = "failpoints", feature = "fjall"))]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lycosa_local::fjall::FjallKv;
use lycosa_local::{ArchiveSettings, CdxjSink, EngineSettings, Shard, ShardSettings, WarcFiles};
use ports::shard_store::{
    Arrival, CommitBatch, Found, FoundSet, Grant, LetterBody, RefillWant, UrlChange, VisitCommit,
    VisitLine,
};
use ports::{Archive, PortResult, ShardStore, Sink};
use types::outcome::Answer;
use types::record::RetryPolicy;
use types::{HostState, Outcome, ShardId, Timestamp, UrlId, VisitId};
use warc::{Compressor, Level, Record, RecordId, WarcDate, WarcFields};

const FOLDER: &str = "LYCOSA_FAILPOINT_TEST_FOLDER";
const POLICY: RetryPolicy =
    RetryPolicy { attempts_max: 3, delay: Duration::from_secs(10), lost_max: 100, host_max: 0 };

const POINTS: [&str; 8] = [
    "warc_append",
    "before_commit",
    "after_commit",
    "rotation",
    "filter_checkpoint",
    "recovery",
    "outbox_delivered",
    "cdxj_append",
];

fn links(from: u64) -> FoundSet {
    let mut set = FoundSet::default();
    for n in (1..4).map(|n| (from * 3 + n) % 1_000) {
        let url = format!("http://{}.test/{n}", n % 3);
        set.push(Found {
            url: &url,
            id: UrlId::of(&url),
            depth: 1,
            hops: 0,
            band: 1,
            seed: n == 1,
        });
    }
    set
}

fn member(n: u64) -> Vec<u8> {
    let mut fields = WarcFields::new();
    fields.push("number", &n.to_string());
    let date = WarcDate::from_unix_seconds(0);
    let record = Record::warcinfo(RecordId::from_bits(u128::from(n)), date, "x", &fields).build();
    let mut out = Vec::new();
    Compressor::new(Level::DEFAULT).member(&record.expect("plain"), &mut out);
    out
}

/// Crawls until 40 visits are settled in all.
fn crawl(folder: &Path) -> PortResult<()> {
    let mut settings = ShardSettings::small(ShardId(0), 1);
    settings.checkpoint_urls = 10;
    let kv = FjallKv::open(&folder.join("state"), EngineSettings::default())?;
    let mut store = Shard::open(kv, settings)?;
    let recovery = store.recover(Timestamp::from_secs(1), POLICY)?;
    let mut names = ArchiveSettings::new(ShardId(0), "t");
    names.file_bytes_max = 1200;
    let mut archive = WarcFiles::open(&folder.join("archive"), names.clone())?;
    archive.cut(recovery.archive_end)?;
    let mut sink = CdxjSink::open(&folder.join("indexes"), names, recovery.archive_end)?;
    sink.feed(&store.visits(0, usize::MAX)?)?;
    if store.counts().known == 0 {
        let arrivals = vec![Arrival { links: links(0), ..Arrival::default() }];
        store.commit(CommitBatch { arrivals, durable: true, ..CommitBatch::default() })?;
    }
    let mut next = recovery.next_visit;
    while store.tally().get("visits") < 40 {
        let host = store.hosts(None, 1)?.remove(0).host;
        let want = RefillWant { host: host.clone(), after: None, limit: 1, state: false };
        let task = store.refill(&[want])?.remove(0).tasks.remove(0);
        let visit = VisitId::new(ShardId(0), next);
        next += 1;
        let at = Timestamp::from_secs(2);
        store.grant(&[Grant { visit, host: host.clone(), url: Some(task.id), at }])?;
        let url = task.record.url.clone();
        let n: u64 = url.path()[1..].parse().expect("a number");
        let members = [member(n).into()];
        let place = archive.append(&[members.as_slice()], at)?[0][0];
        archive.sync()?;
        let mut record = task.record.clone();
        let outcome = Outcome::Fetched(Answer { status: 200, ..Answer::default() });
        record.settle(visit, &outcome, at, POLICY);
        let line = VisitLine {
            seq: 0,
            visit,
            url,
            at,
            status: 200,
            content_type: None,
            digest: Some([1; 20]),
            warc: Some(place),
            page: None,
        };
        let commit = VisitCommit {
            visit,
            host,
            host_state: HostState::default(),
            site: None,
            url: Some(UrlChange { key: task.key, record }),
            robots: None,
            links: links(n),
            letters: vec![(ShardId(1), LetterBody::Links(links(n)))],
            line: Some(line),
        };
        let mut batch = CommitBatch {
            visits: vec![commit],
            archive_end: archive.end(),
            durable: true,
            ..CommitBatch::default()
        };
        batch.tally.add("visits", 1);
        let lines = store.commit(batch)?.lines;
        sink.feed(&lines)?;
        let letters = store.letters(ShardId(1), 0, 10)?;
        if letters.len() >= 3 {
            store.delivered(ShardId(1), letters[2].seq)?;
        }
    }
    sink.close()?;
    store.close()?;
    let faults = store.audit()?;
    assert!(faults.is_empty(), "{faults:#?}");
    Ok(())
}

/// The archive and its index hold the bytes of 40 visits, each once.
fn check(folder: &Path) {
    let mut records = 0;
    let mut files = 0;
    for entry in std::fs::read_dir(folder.join("archive")).expect("an archive") {
        let bytes = std::fs::read(entry.expect("a file").path()).expect("its bytes");
        let tail = warc::last_complete(bytes.as_slice(), 0).expect("memory reads");
        assert_eq!((tail.torn, tail.end), (None, bytes.len() as u64));
        records += tail.records;
        files += 1;
    }
    assert_eq!(records, 40 + files);
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder.join("indexes")).expect("indexes") {
        let text = std::fs::read_to_string(entry.expect("a file").path()).expect("text");
        assert!(text.lines().is_sorted());
        lines.extend(text.lines().map(str::to_owned));
    }
    assert_eq!(lines.len(), 40);
    lines.sort();
    lines.dedup();
    assert_eq!(lines.len(), 40);
}

/// Only does something as the child of the test below.
#[test]
fn the_process_that_dies() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        crawl(Path::new(&folder)).expect("it dies by the failpoint or not at all");
    }
}

#[test]
fn a_state_goes_on_after_an_abort_at_every_point() {
    let exe = std::env::current_exe().expect("the path of this test");
    let run = |folder: &Path, failpoint: Option<String>| {
        let mut command = Command::new(&exe);
        command.args(["--exact", "the_process_that_dies", "--nocapture"]).env(FOLDER, folder);
        if let Some(failpoint) = failpoint {
            command.env("LYCOSA_FAILPOINT", failpoint);
        }
        let output = command.output().expect("it starts");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for point in POINTS {
        let folder = tempfile::tempdir().expect("a folder");
        let mut deaths = 0;
        for hit in [1, 2, 5] {
            let (lived, _) = run(folder.path(), Some(format!("{point}:{hit}")));
            deaths += u32::from(!lived);
        }
        assert!(deaths > 0, "{point} was never passed");
        let (lived, said) = run(folder.path(), None);
        assert!(lived, "after {deaths} deaths at {point}: {said}");
        check(folder.path());
    }
}
