//! Against an oracle that knows every URL: is one ever dropped, or visited twice, however often the
//! process that stores them is killed?
//!
//! A second process offers numbered URLs, new ones and ever so many known ones, and visits what the
//! store gives it. This one kills it at moments left to chance and starts it again; the links whose
//! commit nobody has heard of are offered once more. In the end every number must be there once, and
//! be visited once. Every day 40,000 URLs and ten kills; `cargo xtask oracle` has ten million.
#![cfg(feature = "fjall")]
#![expect(clippy::unwrap_used, reason = "parts of tests")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use lycosa_local::fjall::FjallKv;
use lycosa_local::{EngineSettings, Shard, ShardSettings};
use ports::ShardStore as _;
use ports::shard_store::{
    Arrival, CommitBatch, Found, FoundSet, RefillWant, ScanCursor, UrlChange, VisitCommit,
    VisitLine,
};
use types::outcome::Answer;
use types::record::RetryPolicy;
use types::{HostKey, HostState, Outcome, ShardId, State, Task, Timestamp, UrlId, VisitId};

/// Links of one letter, and how many of them are new.
const LINKS: u64 = 500;
const NEW: u64 = 100;
/// Visits in one commit.
const VISITS: usize = 50;
const HOSTS: u64 = 997;
const POLICY: RetryPolicy =
    RetryPolicy { attempts_max: 3, delay: Duration::from_secs(10), lost_max: 3, host_max: 0 };
/// Tells the process that is killed what it is, and where it works.
const FOLDER: &str = "LYCOSA_ORACLE_FOLDER";
/// Who sends the letters.
const SENDER: ShardId = ShardId(1);

fn size(name: &str, usual: u64) -> u64 {
    std::env::var(format!("LYCOSA_{name}")).map_or(usual, |text| text.parse().unwrap())
}

fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn url(number: u64) -> String {
    format!("http://h{}.test/pages/{number}", mixed(number) % HOSTS)
}

fn number(url: &str) -> u64 {
    url.rsplit('/').next().unwrap().parse().unwrap()
}

type Store = Shard<FjallKv>;

fn open(folder: &Path) -> (Store, u64) {
    let kv = FjallKv::open(folder, EngineSettings::default()).unwrap();
    // Small tables, so that filter, file and store all have their say.
    let settings = ShardSettings {
        recent_bytes_max: 1 << 20,
        checkpoint_urls: 5_000,
        ..ShardSettings::new(ShardId(0), 1)
    };
    let mut store = Shard::open(kv, settings).unwrap();
    let next_visit = store.recover(Timestamp::ZERO, POLICY).unwrap().next_visit;
    (store, next_visit)
}

/// The links of letter `seq`, which counts from 1: its new URLs in the midst of known ones.
fn links(seq: u64) -> FoundSet {
    let first = (seq - 1) * NEW;
    let mut set = FoundSet::default();
    for n in 0..LINKS {
        let number = match n * NEW / LINKS {
            new if n % (LINKS / NEW) == 0 => first + new,
            _ => mixed(seq * LINKS + n) % (first + NEW),
        };
        let text = url(number);
        // Depths differ: a nearer find must change a record, not make a second one.
        let depth = (mixed(number ^ seq) % 5) as u16;
        set.push(Found { url: &text, id: UrlId::of(&text), depth, hops: 0, band: 3, seed: false });
    }
    set
}

/// The process that is killed: offers letters from a number on, tells of each commit, and visits
/// whatever waits.
fn crawler(folder: &Path) {
    let (mut store, mut next_visit) = open(folder);
    let letters = size("ORACLE_URLS", 0) / NEW;
    let mut seq = size("ORACLE_FROM", 1);
    let mut cursor = None;
    loop {
        let mut batch = CommitBatch::default();
        if seq <= letters {
            let letter = Some((SENDER, seq));
            batch.arrivals.push(Arrival { letter, links: links(seq), ..Arrival::default() });
        }
        let from_the_first = cursor.is_none();
        for task in waiting(&mut store, &mut cursor) {
            batch.visits.push(visited(VisitId::new(ShardId(0), next_visit), task));
            next_visit += 1;
        }
        if seq > letters && batch.visits.is_empty() && from_the_first {
            println!("done");
            return;
        }
        store.commit(batch).unwrap();
        println!("committed {}", seq.min(letters));
        seq = (seq + 1).min(letters + 1);
    }
}

/// Some of what waits, host after host, and from the first again behind the last.
fn waiting(store: &mut Store, cursor: &mut Option<HostKey>) -> Vec<Task> {
    let hosts = store.hosts(cursor.as_ref(), 16).unwrap();
    *cursor = hosts.last().map(|row| row.host.clone());
    let want = |host| RefillWant { host, after: None, limit: 16, state: false };
    let wants: Vec<_> = hosts.into_iter().map(|row| want(row.host)).collect();
    let filled = store.refill(&wants).unwrap();
    filled.into_iter().flat_map(|filled| filled.tasks).take(VISITS).collect()
}

fn visited(visit: VisitId, task: Task) -> VisitCommit {
    let mut record = task.record;
    let at = Timestamp::from_secs(1_800_000_000);
    let outcome = Outcome::Fetched(Answer { status: 200, ..Answer::default() });
    record.settle(visit, &outcome, at, POLICY);
    let line = VisitLine {
        seq: 0,
        visit,
        url: record.url.clone(),
        at,
        status: 200,
        content_type: None,
        digest: None,
        warc: None,
        page: None,
    };
    VisitCommit {
        visit,
        host: record.url.host_key(),
        host_state: HostState::default(),
        site: None,
        url: Some(UrlChange { key: task.key, record }),
        robots: None,
        links: FoundSet::default(),
        letters: Vec::new(),
        line: Some(line),
    }
}

#[test]
fn nothing_is_dropped_and_nothing_is_visited_twice_however_often_it_is_killed() {
    // This program again, as the other process.
    if let Ok(folder) = std::env::var(FOLDER) {
        return crawler(Path::new(&folder));
    }
    let urls = size("ORACLE_URLS", 40_000) / NEW * NEW;
    let kills = size("ORACLE_KILLS", 10);
    let folder = tempfile::tempdir().unwrap();
    let (mut from, mut killed) = (1, 0);
    loop {
        let left = kills - killed;
        // After so many commits more it dies, while the next is on its way.
        let life = if left > 0 { 1 + mixed(killed) % (2 * urls / NEW / kills) } else { u64::MAX };
        let (heard, ended) = live(folder.path(), urls, from, life);
        if ended {
            break;
        }
        killed += 1;
        // What was heard of last is offered again too.
        from = heard.max(1);
    }
    assert!(killed > kills / 2, "killed {killed} times");
    judge(folder.path(), urls);
    println!("{urls} URLs, {killed} kills: none dropped, none visited twice");
}

/// Lets the process live for so many commits. Answers the last letter that it told of, and whether
/// it came to its end by itself.
fn live(folder: &Path, urls: u64, from: u64, life: u64) -> (u64, bool) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("--nocapture")
        .env(FOLDER, folder)
        .env("LYCOSA_ORACLE_URLS", urls.to_string())
        .env("LYCOSA_ORACLE_FROM", from.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut heard, mut commits, mut done) = (from, 0, false);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        done |= line.ends_with("done");
        if let Some((_, seq)) = line.split_once("committed ") {
            heard = seq.parse().unwrap();
            commits += 1;
        }
        if commits == life {
            break;
        }
    }
    if commits == life {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    assert!(status.success() || commits == life, "it died by itself: {status}");
    (heard, done && status.success())
}

/// Every number is there once, and was visited once.
fn judge(folder: &Path, urls: u64) {
    let (mut store, _) = open(folder);
    let mut met = vec![false; urls as usize];
    let mut cursor = ScanCursor::default();
    loop {
        let records = store.records(&mut cursor, 10_000).unwrap();
        if records.is_empty() {
            break;
        }
        for record in records {
            let number = number(record.url.as_str());
            assert_eq!(record.url.as_str(), url(number));
            assert!(!std::mem::replace(&mut met[number as usize], true), "{number} is there twice");
            assert_eq!((&record.state, record.fetch_count), (&State::Parsed, 1), "{number}");
        }
    }
    let dropped = met.iter().filter(|met| !**met).count();
    assert_eq!(dropped, 0, "URLs were dropped");
    // A second visit of a URL would be one more line of the log.
    let (mut lines, mut after) = (0, 0);
    loop {
        let page = store.visits(after, 10_000).unwrap();
        let Some(last) = page.last() else { break };
        after = last.seq;
        lines += page.len() as u64;
    }
    assert_eq!(lines, urls, "one visit each");
    assert_eq!((store.counts().known, store.counts().queued), (urls, 0));
}
