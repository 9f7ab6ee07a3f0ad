//! One crawl by the real binary, killed again and again: at random, and at every named point
//! between two writes. Then nothing is lost, nothing is stored twice, and no server has noticed.
//!
//! The size for every day is here; `cargo xtask kills` runs a long one.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use simweb::{FaultKind, Faults, Rules, WorldSpec};

use crate::common::{Ran, Site, lycosa};
use crate::judge::{self, Archive, Manners};
use crate::world::number;

const MANNERS: Manners =
    Manners { delay: Duration::from_millis(60), ip_delay: Duration::from_millis(20) };
const CONCURRENCY: u64 = 64;
/// Deaths at each named point, for every day.
const EACH: u64 = 5;
/// A name for `LYCOSA_FAILPOINT`, and the last time it may be.
type Point = (&'static str, u64);

/// The points of `LYCOSA_FAILPOINT`, and up to which time it comes there a life may go on.
const POINTS: [Point; 14] = [
    ("warc_append", 40),
    ("before_commit", 8),
    ("after_commit", 8),
    ("rotation", 1),
    ("filter_checkpoint", 2),
    ("outbox_delivered", 3),
    ("robots_fetch", 2),
    ("cdxj_append", 3),
    ("prints_commit", 8),
    ("pages_append", 8),
    ("table_append", 8),
    ("table_aside", 1),
    ("table_part", 2),
    ("recovery", 2),
];
/// Requests after which a life that has not come to its point is killed like any other.
const LIFE_MAX: u64 = 400;
/// Signal of `std::process::abort`, and of `kill -9`.
const ABORTED: i32 = 6;
const KILLED: i32 = 9;

/// Faults that are over in a moment: a visit of seconds would be in flight at every kill.
fn spec() -> WorldSpec {
    use FaultKind as F;
    let quick = [
        F::ClosingServer,
        F::GzipServer,
        F::ChunkedServer,
        F::RobotsDenied,
        F::RobotsMoved,
        F::RobotsElsewhere,
        F::RobotsLarge,
        F::Redirect,
        F::RedirectAway,
        F::RedirectChain,
        F::RedirectLoop,
        F::NotFound,
        F::Gone,
        F::Copy,
        F::Png,
        F::Pdf,
        F::WrongCharset,
    ];
    let faults = quick.into_iter().fold(Faults::none(), |faults, kind| {
        let share = kind.usual_share();
        faults.with(kind, share)
    });
    WorldSpec {
        seed: 9,
        hosts: number("LYCOSA_KILLS_HOSTS", 400),
        pages: number("LYCOSA_KILLS_PAGES", 7_000),
        hosts_per_address: 2,
        crawl_delay: 0.02,
        crawl_delay_secs: 1,
        page_bytes: (2_000, 12_000),
        ..WorldSpec::default()
    }
    .with_faults(faults)
}

/// A life of the crawler, from its start to its death.
struct Life {
    child: Child,
    started: Instant,
    /// When it said that the past is settled.
    ready: mpsc::Receiver<Instant>,
}

impl Life {
    fn start(mut command: Command, site: &Site) -> Self {
        let path = site.path().join("stderr.txt");
        let said = std::fs::File::options().create(true).append(true).open(path);
        let said = said.expect("a file for its words");
        let command = command.arg("--json").stdout(Stdio::piped()).stderr(said);
        let started = Instant::now();
        let mut child = command.spawn().expect("it starts");
        let stdout = child.stdout.take().expect("it is piped");
        let (tell, ready) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if line.contains("\"event\":\"start\"") {
                    // A life that is over is not asked any more.
                    let _ = tell.send(Instant::now());
                }
            }
        });
        Self { child, started, ready }
    }

    /// Waits for its own end, or kills it after so many requests.
    fn end(
        mut self,
        site: &Site,
        requests: u64,
        or_after: Duration,
    ) -> (ExitStatus, Option<Duration>) {
        let before = site.live_journal().requests();
        let deadline = Instant::now() + or_after;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                break status;
            }
            let enough = site.live_journal().requests() - before >= requests;
            if enough || Instant::now() > deadline {
                self.child.kill().expect("it is ours");
                break self.child.wait().expect("it is ours");
            }
            // Another process does it; there is nothing of ours to wait for.
            std::thread::sleep(Duration::from_millis(1));
        };
        let ready = self.ready.recv_timeout(Duration::from_millis(100)).ok();
        (status, ready.map(|at| at - self.started))
    }
}

/// What all lives came to.
#[derive(Default)]
struct Chronicle {
    kills: u32,
    /// A life came to a good end.
    done: bool,
    points: BTreeMap<&'static str, u32>,
    recoveries: Vec<Duration>,
    /// Sizes of the WARC files when they were last looked at.
    sizes: BTreeMap<PathBuf, u64>,
    tails: usize,
}

impl Chronicle {
    /// After each death: every WARC file is readable, up to a tail that was being written.
    fn look(&mut self, site: &Site) {
        let mut changed = Vec::new();
        for file in judge::files(&site.dir()) {
            let size = std::fs::metadata(&file).expect("it is there").len();
            if self.sizes.insert(file.clone(), size) != Some(size) {
                changed.push(file);
            }
        }
        if !changed.is_empty() {
            self.tails += Archive::after_a_kill(&changed).tails;
        }
    }

    fn record(
        &mut self,
        site: &Site,
        point: Option<&'static str>,
        end: (ExitStatus, Option<Duration>),
    ) {
        let (status, ready) = end;
        match (status.signal(), point) {
            (Some(ABORTED), Some(point)) => *self.points.entry(point).or_default() += 1,
            (Some(KILLED), _) => self.kills += 1,
            // Nothing is left to do; whether it died often enough is seen at the end.
            _ if status.success() => self.done = true,
            _ => {
                let said = std::fs::read_to_string(site.path().join("stderr.txt"));
                let said = said.unwrap_or_default();
                let from = said.len().saturating_sub(2_000);
                panic!("it ended by itself ({status}, {point:?}): {}", &said[from..]);
            }
        }
        self.recoveries.extend(ready);
        self.look(site);
    }
}

impl Chronicle {
    fn deaths(&self) -> u32 {
        self.kills + self.points.values().sum::<u32>()
    }
}

impl std::fmt::Display for Chronicle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kills, points, recoveries, tails, .. } = self;
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let mean = millis(recoveries.iter().sum::<Duration>()) / recoveries.len().max(1) as f64;
        let most = millis(recoveries.iter().max().copied().unwrap_or_default());
        write!(
            f,
            "{kills} kills at random, {points:?} at named points; {tails} files had a tail to cut; \
             from the start of a process to its settled past {mean:.0} ms on average, {most:.0} ms \
             at most"
        )
    }
}

/// Numbers from a seed, the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

#[test]
fn killed_again_and_again_it_loses_nothing_and_stays_polite() {
    killed_again_and_again("fjall");
}

#[cfg(feature = "rocksdb")]
#[test]
fn killed_again_and_again_on_rocksdb_it_loses_nothing_and_stays_polite() {
    killed_again_and_again("rocksdb");
}

fn killed_again_and_again(engine: &str) {
    let spec = spec();
    let site = Site::world(&spec);
    let random = number("LYCOSA_KILLS", 50) as u32;
    let each = number("LYCOSA_KILLS_EACH", EACH) as u32;
    let points = if cfg!(feature = "failpoints") { &POINTS[..] } else { &[] };
    if points.is_empty() {
        println!("built without the feature `failpoints`: kills at random only");
    }
    let chronicle = lives(&site, engine, points, random, each);
    let before = site.live_journal().requests();
    Ran::from(resume(&site).output().expect("it starts")).exits(0);

    let entries = site.journal();
    let world = site.truth(&spec);
    let oracle = world.oracle(&site.ready.seed_urls, &Rules::default());
    let archive = Archive::read(&site.dir());
    let again = fetched_again(&entries, &archive);
    let most = u64::from(chronicle.deaths()) * CONCURRENCY;
    println!("{engine}: {chronicle}");
    println!(
        "{} requests ({} after the last death), {} pages kept in {} files; {again} fetched again, \
         {most} were in flight at most",
        entries.len(),
        entries.len() as u64 - before,
        archive.answers.len(),
        archive.files
    );

    judge::polite(&entries, &world, MANNERS);
    judge::complete(&entries, &world, &oracle);
    archive.holds(&oracle, &world);
    judge::listed(&site.dir());
    crate::export::table_has_every_capture(&site.dir());
    assert!(again <= most, "{again} pages were fetched again");
    assert!(chronicle.kills >= random, "{} kills at random", chronicle.kills);
    for (point, _) in points {
        let count = chronicle.points.get(point).copied().unwrap_or(0);
        assert!(count >= each, "{point}: only {count} deaths");
    }
    assert!(archive.answers.len() as u64 * 5 >= spec.pages * 4, "a large crawl");
}

/// All lives but the last, which ends well.
fn lives(site: &Site, engine: &str, points: &[Point], random: u32, each: u32) -> Chronicle {
    let mut dice = Dice(number("LYCOSA_KILLS_SEED", 1));
    let mut chronicle = Chronicle::default();
    let mut first = lycosa(site.path());
    first.args(["crawl", "-o", "crawl", "--scope", "any", "--depth", "10000"]);
    first.args(MANNERS.words()).args(site.flags()).args(&site.ready.seed_urls);
    first.args(["-c", &CONCURRENCY.to_string(), "-s", "store.shards=2"]);
    first.args(["-s", "store.checkpoint_urls=40", "-s", "archive.file_bytes_max=300KB"]);
    first.args(["-s", "crawl.patience=20s", "-s", &format!("store.engine={engine}")]);
    first.args(["-s", "table.part_rows_max=40"]);
    // Asked for again and again, so that there is always one to die at.
    first.args(["-s", "robots.ttl=20s"]);
    let end = Life::start(first, site).end(site, 30, Duration::from_secs(60));
    chronicle.record(site, None, end);

    // A point that a life did not come to gets more rounds.
    for round in 0..4 * each {
        let due = (random * (round + 1) / each).min(random);
        while chronicle.kills < due && !chronicle.done {
            // Some die before they have asked for anything.
            let (requests, time) = match dice.below(6) {
                0 => (u64::MAX, Duration::from_millis(dice.below(400))),
                _ => (1 + dice.below(60), Duration::from_secs(60)),
            };
            let end = Life::start(resume(site), site).end(site, requests, time);
            chronicle.record(site, None, end);
        }
        for &(point, times) in points {
            if chronicle.done || chronicle.points.get(point).copied().unwrap_or(0) >= each {
                continue;
            }
            let mut command = resume(site);
            command.env("LYCOSA_FAILPOINT", format!("{point}:{}", 1 + dice.below(times)));
            let end = Life::start(command, site).end(site, LIFE_MAX, Duration::from_secs(60));
            chronicle.record(site, Some(point), end);
        }
    }
    chronicle
}

fn resume(site: &Site) -> Command {
    let mut command = lycosa(site.path());
    command.args(["resume", "crawl"]);
    command
}

/// Answers that were sent in full and are not kept.
fn fetched_again(entries: &[simweb::Entry], archive: &Archive) -> u64 {
    let mut answered: BTreeMap<String, u64> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.aborted && entry.status != 0) {
        *answered.entry(entry.url()).or_default() += 1;
    }
    let kept = archive.answers.iter().map(|(url, kept)| (url, kept.len() as u64));
    kept.map(|(url, kept)| answered.get(url).copied().unwrap_or(0).saturating_sub(kept)).sum()
}
