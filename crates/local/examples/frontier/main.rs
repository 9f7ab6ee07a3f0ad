//! What do a hundred million URLs cost the store?
//!
//! One shard, offered the links of pages without end: of a hundred links ten are new, half of the
//! others are among the ten million newest URLs (the newer half of all, at first) and half are
//! older, both drawn by Zipf's law.
//! Visits are taken from the queues and settled meanwhile. `cargo xtask bench frontier` runs it in
//! a memory limit; alone it is
//!
//! `cargo run --release -p lycosa-local --example frontier -- fill ENGINE FOLDER URLS HOSTS
//! RECENT_MIB CACHE_MIB` (the last two are `store.recent_max` and `store.cache_max`) and then, to open what was left without being closed, `-- open ENGINE FOLDER`.

mod web;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use lycosa_local::kv::Family;
use lycosa_local::{EngineSettings, Kv, Shard, ShardSettings};
use ports::ShardStore as _;
use ports::shard_store::{CommitBatch, FoundSet, RefillWant, UrlChange, VisitCommit, VisitLine};
use types::outcome::Answer;
use types::record::RetryPolicy;
use types::{HostKey, HostState, Outcome, ShardId, Task, Timestamp, VisitId, WarcRef};

use web::Web;

/// As in the crawler.
#[cfg(unix)]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Visits in one commit.
const VISITS: usize = 64;
/// Hosts that are woken together, and how much of their queues is read at once: as much as the
/// frontier reads while it has some thousand hosts at work.
const WAKING: usize = 64;
const NEAR: usize = 64;
const POLICY: RetryPolicy =
    RetryPolicy { attempts_max: 3, delay: Duration::from_secs(10), lost_max: 3, host_max: 0 };

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: &str| text.replace('_', "").parse::<u64>().expect("a number");
    match args[..] {
        ["fill", engine, folder, urls, hosts, recent, cache] => {
            let recent_bytes_max = number(recent) << 20;
            let fill = Fill { urls: number(urls), hosts: number(hosts), recent_bytes_max };
            with_engine(engine, folder, number(cache) << 20, fill);
        }
        ["open", engine, folder, cache] => {
            with_engine(engine, folder, number(cache) << 20, Reopen);
        }
        _ => panic!(
            "fill ENGINE FOLDER URLS HOSTS RECENT_MIB CACHE_MIB, or: open ENGINE FOLDER CACHE_MIB"
        ),
    }
}

/// What is done with a store, whatever its engine.
trait Job {
    fn run<K: Kv>(self, kv: K, began: Instant);
}

fn with_engine(engine: &str, folder: &str, cache_bytes_max: u64, job: impl Job) {
    let folder = Path::new(folder);
    let limits = EngineSettings { cache_bytes_max, ..EngineSettings::default() };
    let began = Instant::now();
    match engine {
        #[cfg(feature = "fjall")]
        "fjall" => {
            let kv = lycosa_local::fjall::FjallKv::open(folder, limits);
            job.run(kv.expect("fjall opens"), began);
        }
        #[cfg(feature = "rocksdb")]
        "rocksdb" => {
            let shared = lycosa_local::rocks::RocksShared::new(limits);
            let kv = lycosa_local::rocks::RocksKv::open(folder, &shared);
            job.run(kv.expect("rocksdb opens"), began);
        }
        other => panic!("no engine `{other}` in this build, for {folder:?} with {limits:?}"),
    }
}

fn settings() -> ShardSettings {
    ShardSettings::new(ShardId(0), 1)
}

/// Opens what a killed process has left, and says how long that took.
struct Reopen;

impl Job for Reopen {
    fn run<K: Kv>(self, kv: K, began: Instant) {
        let engine = began.elapsed();
        let mut store = Shard::open(kv, settings()).expect("opens");
        store.recover(Timestamp::ZERO, POLICY).expect("recovers");
        let (seen, counts) = (store.seen(), store.counts());
        println!("reopened in {:.2} s", began.elapsed().as_secs_f64());
        println!("  of which the engine {:.2} s", engine.as_secs_f64());
        println!("  URLs known {}, in the filter {}", counts.known, seen.filter.urls);
        assert_eq!(counts.known, seen.filter.urls, "the filter came back with all it knew");
    }
}

struct Fill {
    urls: u64,
    hosts: u64,
    recent_bytes_max: u64,
}

impl Job for Fill {
    fn run<K: Kv>(self, kv: K, _: Instant) {
        let settings = ShardSettings { recent_bytes_max: self.recent_bytes_max, ..settings() };
        let mut store = Shard::open(kv, settings).expect("opens");
        let next_visit = store.recover(Timestamp::ZERO, POLICY).expect("recovers").next_visit;
        let mut run = Run {
            tasks: Tasks { waiting: Vec::new(), cursor: None },
            web: Web::new(self.hosts),
            made: Duration::ZERO,
            checks: 0,
            visits: next_visit,
            worst: Duration::ZERO,
        };
        println!(
            "  URLs known |     checks | per CPU-s | yardstick |   CPU s |  wall s | RSS MB | disk B/URL | bits/URL | errs % | read"
        );
        run.seeds(&mut store);
        let mut meter = Meter::new(&run);
        let mut tenths = Vec::new();
        for tenth in 1..=10 {
            while store.counts().known < self.urls * tenth / 10 {
                run.turn(&mut store);
            }
            tenths.push(meter.line(&run, &store));
        }
        let all = meter.all(&run);
        let known = store.counts().known as f64;
        println!();
        println!("link checks            {}", run.checks);
        println!("per CPU-second         {:.0} overall", all);
        let (first, last) = (tenths[0], tenths[9]);
        println!(
            "last tenth / first     {:.2}; {:.2} by the yardstick",
            last.0 / first.0,
            last.1 / first.1
        );
        println!("visits settled         {}", run.visits - next_visit);
        println!("written per URL        {:.0} bytes", written() as f64 / known);
        println!("worst commit           {:.0} ms", run.worst.as_secs_f64() * 1e3);
        store.trim_visits(u64::MAX - 1).expect("trims");
        report_size(&mut store, &run.web);
        // Whoever has started us kills us now: nothing is closed.
        println!("filled");
        loop {
            std::thread::park();
        }
    }
}

/// Disk per URL, and how much of it is the text.
fn report_size<K: Kv>(store: &mut Shard<K>, web: &Web) {
    let known = store.counts().known;
    let disk = store.kv().disk_bytes().expect("a size");
    let text = web::packed_text_bytes(web, known);
    let per = |bytes: f64| bytes / known as f64;
    println!("disk per known URL     {:.1} bytes", per(disk as f64));
    println!("  its text, packed     {text:.1} bytes (deflate, 16 KiB of sorted URLs at once)");
    println!("  beyond its text      {:.1} bytes", per(disk as f64) - text);
    let mut families = String::new();
    for family in [Family::Url, Family::Queue, Family::Host, Family::Fresh, Family::Visit] {
        let (mut rows, mut bytes) = (0_u64, 0_u64);
        let scanned = store.kv().scan(family, &[], None, &mut |key, value| {
            rows += 1;
            bytes += (key.len() + value.len()) as u64;
            let enough = rows == 1_000_000;
            Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        scanned.expect("scans");
        if rows > 0 {
            families += &format!(" {} {:.0}", family.name(), bytes as f64 / rows as f64);
        }
    }
    println!("  a row, as written   {families} bytes (key and value, of the first million)");
}

struct Run {
    tasks: Tasks,
    web: Web,
    /// CPU time that went into making links.
    made: Duration,
    checks: u64,
    visits: u64,
    worst: Duration,
}

/// What waits for a visit, as an engine would have read it from the queues.
struct Tasks {
    waiting: Vec<Task>,
    cursor: Option<HostKey>,
}

impl Tasks {
    fn take<K: Kv>(&mut self, store: &mut Shard<K>) -> Vec<Task> {
        if self.waiting.len() < VISITS {
            let rows = store.hosts(self.cursor.as_ref(), WAKING).expect("hosts");
            self.cursor = rows.last().map(|row| row.host.clone());
            let want = |host| RefillWant { host, after: None, limit: NEAR, state: true };
            let wants: Vec<_> = rows.into_iter().map(|row| want(row.host)).collect();
            let filled = store.refill(&wants).expect("refills");
            self.waiting.extend(filled.into_iter().flat_map(|filled| filled.tasks));
        }
        self.waiting.split_off(self.waiting.len().saturating_sub(VISITS))
    }
}

impl Run {
    /// The first URLs, so that there is something to visit.
    fn seeds<K: Kv>(&mut self, store: &mut Shard<K>) {
        for _ in 0..10 {
            let links = self.web.links();
            let arrivals = vec![ports::shard_store::Arrival { links, ..Default::default() }];
            store.commit(CommitBatch { arrivals, ..CommitBatch::default() }).expect("commits");
        }
    }

    /// One commit: visits from the queues, with the links of their pages.
    fn turn<K: Kv>(&mut self, store: &mut Shard<K>) {
        let tasks = self.tasks.take(store);
        let began = thread_cpu();
        let at = Timestamp::from_secs(1_800_000_000 + self.visits / 1_000);
        let durable = self.visits.is_multiple_of(8);
        let mut batch = CommitBatch { at, durable, ..CommitBatch::default() };
        for task in tasks {
            let links = self.web.links();
            self.checks += links.len() as u64;
            let visit = VisitId::new(ShardId(0), self.visits);
            batch.visits.push(visited(visit, at, task, links));
            self.visits += 1;
        }
        self.made += thread_cpu().saturating_sub(began);
        let began = Instant::now();
        let committed = store.commit(batch).expect("commits");
        self.worst = self.worst.max(began.elapsed());
        // Sinks read the log and let it be trimmed behind them.
        if let Some(line) = committed.lines.last()
            && line.seq % 64 == 0
        {
            store.trim_visits(line.seq).expect("trims");
        }
    }
}

fn visited(visit: VisitId, at: Timestamp, task: Task, links: FoundSet) -> VisitCommit {
    let mut record = task.record;
    let mut digest = [0; 20];
    digest[..16].copy_from_slice(&task.id.to_be_bytes());
    let answer = Answer {
        status: 200,
        content_type: Some("text/html".into()),
        digest: Some(digest),
        title: Some("A page with a title of its own".into()),
        links: links.len() as u32,
        ..Answer::default()
    };
    record.settle(visit, &Outcome::Fetched(answer), at, POLICY);
    let warc = Some(WarcRef { file: 1, offset: visit.0 * 5_000, length: 4_000 });
    if let Some(last) = &mut record.last {
        last.warc = warc;
    }
    let (url, content_type) = (record.url.clone(), Some("text/html".into()));
    let line = VisitLine {
        seq: 0,
        visit,
        url,
        at,
        status: 200,
        content_type,
        digest: Some(digest),
        warc,
        page: None,
    };
    VisitCommit {
        visit,
        host: record.url.host_key(),
        host_state: HostState { last_end: at, pages: 7, requests: 9, ..HostState::default() },
        site: None,
        robots: None,
        links,
        letters: Vec::new(),
        line: Some(line),
        url: Some(UrlChange { key: task.key, record }),
    }
}

/// Where the numbers stood at the last line.
struct Meter {
    began: Instant,
    start: (u64, Duration),
    last: (u64, Duration),
    made: Duration,
}

impl Meter {
    fn new(run: &Run) -> Self {
        let now = (run.checks, spent(run));
        Self { began: Instant::now(), start: now, last: now, made: run.made }
    }

    /// Prints a line; answers the checks per CPU-second since the one before, and the same by the
    /// yardstick: per time that making as many links took. That work never changes, so it tells a
    /// slow hour of the machine from a slow store.
    fn line<K: Kv>(&mut self, run: &Run, store: &Shard<K>) -> (f64, f64) {
        let now = (run.checks, spent(run));
        let made = rate((self.last.0, self.made), (run.checks, run.made));
        let rate = rate(self.last, now);
        let (counts, seen) = (store.counts(), store.seen());
        let disk = store.kv().disk_bytes().expect("a size");
        let per_url = |bytes: u64| bytes as f64 / counts.known as f64;
        println!(
            "{:>12} | {:>10} | {:>9.0} | {:>9.0} | {:>7.1} | {:>7.0} | {:>6} | {:>10.1} | {:>8.2} | {:>6.2} | \
             recent {:.1} %, new {:.1} %, store {:.1} %, in vain {:.2} % of the new",
            counts.known,
            run.checks,
            rate,
            made,
            now.1.as_secs_f64(),
            self.began.elapsed().as_secs_f64(),
            rss_bytes() / 1_000_000,
            per_url(disk),
            per_url(seen.filter.bytes) * 8.0,
            f64::from(seen.filter.errors_per_million) / 1e4,
            percent(seen.recent, run.checks),
            percent(seen.new, run.checks),
            percent(seen.exact, run.checks),
            percent(seen.in_vain, seen.new),
        );
        println!("{:>12} | CPU s so far:{}", "", by_thread());
        (self.last, self.made) = (now, run.made);
        (rate, rate / made)
    }

    fn all(&self, run: &Run) -> f64 {
        rate(self.start, (run.checks, spent(run)))
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

fn rate(from: (u64, Duration), to: (u64, Duration)) -> f64 {
    (to.0 - from.0) as f64 / to.1.saturating_sub(from.1).as_secs_f64()
}

/// CPU time of all threads, less that of making links.
fn spent(run: &Run) -> Duration {
    cpu_time().saturating_sub(run.made)
}

/// CPU time so far of the threads of each name: who writes, who merges.
fn by_thread() -> String {
    let mut names = BTreeMap::<String, u64>::new();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let Some((head, rest)) = stat.rsplit_once(')') else { continue };
        let name = head.split_once('(').map_or(head, |(_, name)| name);
        *names.entry(name.to_owned()).or_default() += ticks(rest);
    }
    names.iter().map(|(name, ticks)| format!(" {name} {:.1}", *ticks as f64 / 100.0)).collect()
}

/// Hundredths of a second, from what stands behind the name in a `stat`.
fn ticks(stat: &str) -> u64 {
    let fields: Vec<&str> = stat.split_whitespace().collect();
    let tick = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    tick(11) + tick(12)
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
    Duration::from_millis(stat.rsplit(')').next().map_or(0, ticks) * 10)
}

/// Bytes that this process has written so far, journals and merged files included.
fn written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

fn rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
