//! What does a commit cost? Groups of 64 visits with 40 links each, nine of ten known already.
//!
//! `cargo run --release -p lycosa-local --example commits [memory|fjall|rocksdb] [groups] [folder]`
//! (a folder that is named is kept, to look into)

use std::time::{Duration, Instant};

use lycosa_local::{Kv, MemoryKv, Shard, ShardSettings};
use ports::ShardStore as _;
use ports::shard_store::{
    Arrival, CommitBatch, Found, FoundSet, RefillWant, UrlChange, VisitCommit, VisitLine,
};
use types::outcome::Answer;
use types::record::RetryPolicy;
use types::{HostState, Outcome, ShardId, Timestamp, UrlId, VisitId, WarcRef};

const VISITS: u64 = 64;
const LINKS: u64 = 40;
const NEW: u64 = 4;
const HOSTS: u64 = 2_000;
const POLICY: RetryPolicy =
    RetryPolicy { attempts_max: 3, delay: Duration::from_secs(10), lost_max: 3 };

fn main() {
    let mut args = std::env::args().skip(1);
    let engine = args.next().unwrap_or_else(|| "memory".to_owned());
    let groups: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(1_000);
    let named = args.next().map(std::path::PathBuf::from);
    let own = std::env::temp_dir().join(format!("lycosa-commits-{}", std::process::id()));
    let folder = named.as_ref().unwrap_or(&own);
    match engine.as_str() {
        "memory" => run(MemoryKv::new(), groups),
        #[cfg(feature = "fjall")]
        "fjall" => {
            let limits = lycosa_local::EngineSettings::default();
            let kv = lycosa_local::fjall::FjallKv::open(folder, limits);
            run(kv.expect("fjall opens"), groups);
        }
        #[cfg(feature = "rocksdb")]
        "rocksdb" => {
            let limits = lycosa_local::EngineSettings::default();
            let shared = lycosa_local::rocks::RocksShared::new(limits);
            let kv = lycosa_local::rocks::RocksKv::open(folder, &shared);
            run(kv.expect("rocksdb opens"), groups);
        }
        other => panic!("no engine `{other}` in this build"),
    }
    if own.exists() {
        std::fs::remove_dir_all(&own).expect("our own folder goes");
    }
}

/// The n-th URL of an endless web: some 60 bytes, its host by the number.
fn url(n: u64) -> String {
    let host = n % HOSTS;
    format!("https://www.host-{host:05}.example.org/articles/{}/page-{n:08}.html", n % 31)
}

struct Web {
    /// URLs that were found so far.
    known: u64,
    chance: u64,
}

impl Web {
    fn links(&mut self) -> FoundSet {
        let mut set = FoundSet::default();
        for n in 0..LINKS {
            let number = if n < NEW {
                self.known += 1;
                self.known
            } else {
                self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Half of the known ones are recent: menus and neighbours.
                let window = if n % 2 == 0 { self.known.min(20_000) } else { self.known };
                self.known - (self.chance >> 33) % window.max(1)
            };
            let url = url(number);
            let id = UrlId::of(&url);
            set.push(Found { url: &url, id, depth: 3, hops: 0, band: 3, seed: false });
        }
        set
    }
}

fn run<K: Kv>(kv: K, groups: u64) {
    let mut store = Shard::open(kv, ShardSettings::new(ShardId(0), 1)).expect("opens");
    let mut next = store.recover(Timestamp::ZERO, POLICY).expect("recovers").next_visit;
    let mut web = Web { known: 0, chance: 1 };
    for _ in 0..100 {
        let arrivals = vec![Arrival { links: web.links(), ..Arrival::default() }];
        store.commit(CommitBatch { arrivals, ..CommitBatch::default() }).expect("commits");
    }
    let mut worst = Duration::ZERO;
    let (mut commits, mut reads) = (Duration::ZERO, Duration::ZERO);
    let all = cpu_time();
    let mut made = Duration::ZERO;
    let mut cursor = None;
    for n in 0..groups {
        let began = thread_cpu();
        let rows = store.hosts(cursor.as_ref(), VISITS as usize).expect("hosts");
        cursor = rows.last().map(|row| row.host.clone());
        let wants: Vec<_> = rows
            .into_iter()
            .map(|row| RefillWant { host: row.host, after: None, limit: 1, state: true })
            .collect();
        let filled = store.refill(&wants).expect("refills");
        reads += thread_cpu().saturating_sub(began);
        let began = thread_cpu();
        let mut batch = CommitBatch {
            at: Timestamp::from_secs(1_800_000_000 + n),
            durable: n % 8 == 0,
            ..CommitBatch::default()
        };
        for task in filled.into_iter().flat_map(|filled| filled.tasks) {
            let visit = VisitId::new(ShardId(0), next);
            next += 1;
            batch.visits.push(visited(visit, task, web.links()));
        }
        made += thread_cpu().saturating_sub(began);
        let (began, cpu) = (Instant::now(), thread_cpu());
        store.commit(batch).expect("commits");
        worst = worst.max(began.elapsed());
        commits += thread_cpu().saturating_sub(cpu);
    }
    let all = cpu_time().saturating_sub(all).saturating_sub(made);
    // The log would be trimmed behind its readers.
    store.trim_visits(u64::MAX - 1).expect("trims");
    store.close().expect("closes");
    let (counts, visits) = (store.counts(), next);
    let links = visits * LINKS;
    let bytes = store.kv().disk_bytes().expect("a size");
    let each = |time: Duration| time.as_secs_f64() * 1e6 / visits as f64;
    println!("engine                 {}", store.kv().engine());
    println!("visits, links          {visits}, {links}");
    println!("known, queued          {}, {}", counts.known, counts.queued);
    println!("writer, per visit      {:.1} µs CPU in commits", each(commits));
    println!("                       {:.1} µs CPU in hosts and refills", each(reads));
    println!("all threads, per visit {:.1} µs CPU", each(all));
    println!("links per CPU second   {:.0} in commits", links as f64 / commits.as_secs_f64());
    println!("                       {:.0} with everything", links as f64 / all.as_secs_f64());
    println!("worst commit           {:.1} ms (wall)", worst.as_secs_f64() * 1e3);
    println!("bytes on disk          {bytes}, {:.0} per known URL", per(bytes, counts.known));
    println!("text of a URL          {} bytes", url(1).len());
}

fn visited(visit: VisitId, task: types::Task, links: FoundSet) -> VisitCommit {
    let at = Timestamp::from_secs(1_800_000_000);
    let mut record = task.record;
    let answer = Answer {
        status: 200,
        content_type: Some("text/html".into()),
        digest: Some([7; 20]),
        title: Some("A page with a title".into()),
        links: 40,
        ..Answer::default()
    };
    record.settle(&Outcome::Fetched(answer), at, POLICY);
    let warc = Some(WarcRef { file: 1, offset: visit.0 * 5_000, length: 4_000 });
    if let Some(last) = &mut record.last {
        last.warc = warc;
    }
    VisitCommit {
        visit,
        host: record.url.host_key(),
        host_state: HostState { last_end: at, pages: 7, requests: 9, ..HostState::default() },
        site: None,
        robots: None,
        links,
        letters: Vec::new(),
        line: Some(VisitLine {
            seq: 0,
            visit,
            url: record.url.clone(),
            at,
            status: 200,
            content_type: Some("text/html".into()),
            digest: Some([7; 20]),
            warc,
        }),
        url: Some(UrlChange { key: task.key, record }),
    }
}

fn per(sum: u64, count: u64) -> f64 {
    sum as f64 / count as f64
}

/// CPU time of this thread so far, as Linux tells it: a busy machine does not blur it.
fn thread_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// CPU time of all threads of this process so far, as Linux tells it (in hundredths of a second).
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = stat.rsplit(')').next().map(|rest| {
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let tick = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
        tick(11) + tick(12)
    });
    Duration::from_millis(ticks.unwrap_or(0) * 10)
}
