//! The whole crawler in virtual time, killed again and again.
//!
//! Every seed is a web with every fault we know, a crawler with 1, 2 or 16 shards whose visits
//! sometimes break, and at least three deaths in mid-work: by `kill -9`, by power loss, between
//! any two writes, also while it recovers. The frontier is audited after each step
//! (`Engine::audited`), the disk after each death (`remains`), and the promises of the design at
//! the end (`judge`): from the server's journal and from what is left on the disk, not from what
//! the crawler says.
//!
//! `LYCOSA_SIM_SEEDS` and `LYCOSA_SIM_FROM` choose the seeds; a failing one prints how to run it
//! again. The journal of a seed is the same each time: that is a test too.

#![expect(clippy::unwrap_used, reason = "parts of tests")]

mod common;
#[path = "sim/judge.rs"]
mod judge;
#[path = "sim/remains.rs"]
mod remains;
#[path = "sim/unsteady.rs"]
mod unsteady;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use common::{Machine, START, in_virtual_time};
use frontier::Sizes;
use judge::{Story, judge};
use local::sim_disk::Chance;
use lycosa_engine::{Ending, EngineError};
use ports::Clock;
use remains::{Left, Witness};
use simweb::journal::table;
use simweb::{Ask, Dns, Door, Entry, FaultKind, Faults, Limits, Plan, Web, World, WorldSpec};
use types::{HumanDuration, Timestamp};
use unsteady::{Fates, Unsteady};

/// What a run has seen, over all its seeds.
#[derive(Debug, Default)]
struct Seen {
    seeds: u64,
    visits: u64,
    deaths: BTreeMap<&'static str, u64>,
    faults: BTreeMap<FaultKind, u64>,
    broken: u64,
    refetches: u64,
}

impl Seen {
    fn add(
        &mut self,
        lives: &Lives,
        requests: usize,
        again: u64,
        broken: usize,
        faults: &BTreeMap<FaultKind, u64>,
    ) {
        self.seeds += 1;
        self.visits += requests as u64;
        self.refetches += again;
        self.broken += broken as u64;
        for (way, times) in &lives.ways {
            *self.deaths.entry(way).or_default() += times;
        }
        for (kind, times) in faults {
            *self.faults.entry(*kind).or_default() += times;
        }
    }
}

/// A world that counts which of its faults were met.
struct Counting {
    world: World,
    met: Mutex<BTreeMap<FaultKind, u64>>,
}

impl Counting {
    fn count(&self, host: &str, target: &str) {
        if let Some(kind) = self.world.fault_at(host, target) {
            *self.met.lock().unwrap().entry(kind).or_default() += 1;
        }
    }
}

impl Web for Counting {
    fn resolve(&self, host: &str) -> Dns {
        let dns = self.world.resolve(host);
        if !matches!(&dns, Dns::Addresses { addresses, .. } if addresses.iter().all(|a| a.is_loopback()))
        {
            self.count(host, "/");
        }
        dns
    }

    fn door(&self, host: &str, port: u16, tls: bool) -> Door {
        let door = self.world.door(host, port, tls);
        if door != Door::Open {
            self.count(host, "/");
        }
        door
    }

    fn answer(&self, ask: &Ask<'_>) -> Plan {
        self.count(ask.host, ask.target);
        self.world.answer(ask)
    }
}

/// What every seed must have, at least.
const HOSTS_MIN: usize = 5;
const REQUESTS_MIN: usize = 500;
const CRASHES_MIN: usize = 3;
/// Who sees so many seeds fail need not see more.
const FAILED_MAX: usize = 20;

#[test]
fn whatever_dies_nothing_is_lost_doubled_or_rude() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let from = number("LYCOSA_SIM_FROM", 0);
    let seeds = number("LYCOSA_SIM_SEEDS", 1_000);
    let seen = Mutex::new(Seen::default());
    let failed = Mutex::new(Vec::new());
    let next = AtomicU64::new(from);
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let started = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds || failed.lock().unwrap().len() >= FAILED_MAX {
                        break;
                    }
                    if std::env::var_os("LYCOSA_SIM_TRACE").is_some() {
                        eprintln!("seed {seed}");
                    }
                    let run = std::panic::AssertUnwindSafe(|| one_seed(seed, &seen));
                    if std::panic::catch_unwind(run).is_err() {
                        failed.lock().unwrap().push(seed);
                        println!(
                            "seed {seed} failed; again: LYCOSA_SIM_FROM={seed} LYCOSA_SIM_SEEDS=1 {COMMAND}"
                        );
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    let seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    let elapsed = started.elapsed().as_secs_f64();
    println!("{} seeds, {} visits in {elapsed:.1} s on {threads} threads", seen.seeds, seen.visits);
    if let Some(cpu) = cpu_seconds() {
        println!("{:.0} visits per CPU-second ({cpu:.1} s)", seen.visits as f64 / cpu);
    }
    println!("deaths: {:?}; visits broken: {}", seen.deaths, seen.broken);
    println!("pages fetched again: {}", seen.refetches);
    println!("faults met: {:?}", seen.faults);
    assert!(failed.is_empty(), "{} of {seeds} seeds failed: {failed:?}", failed.len());
    if seeds >= 100 {
        let missing: Vec<_> =
            FaultKind::ALL.iter().filter(|kind| !seen.faults.contains_key(kind)).collect();
        assert!(missing.is_empty(), "never met: {missing:?}");
        assert_eq!(seen.deaths.len(), 4, "every way to die: {:?}", seen.deaths);
    }
}

/// What this process has used so far, where the system tells.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name may hold anything; the fields are counted from behind it.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    // Linux tells user and system time in hundredths of a second, whatever its timer does.
    Some((ticks(11)? + ticks(12)?) / 100.0).filter(|seconds| *seconds > 0.0)
}

const COMMAND: &str = "cargo test -p lycosa-engine --test sim";

#[test]
fn a_seed_replays_to_the_same_journal() {
    for seed in [3, 17] {
        let run = || table(&one_seed(seed, &Mutex::new(Seen::default())), START);
        assert!(run() == run(), "seed {seed} took two different ways");
    }
}

fn spec(seed: u64, chance: &mut Chance) -> WorldSpec {
    let hosts = 8 + chance.below(8);
    let mut spec = WorldSpec::tiny(seed, hosts, 720).with_faults(Faults::all());
    spec.hosts_per_address = 1 + chance.below(3);
    spec.links_away = [0.15, 0.15, 0.5][chance.below(3) as usize];
    spec.crawl_delay = 0.2;
    // A host that rests for more than a minute leaves memory.
    spec.retry_after_secs = [3, 20, 100][chance.below(3) as usize];
    spec
}

/// What the fetcher takes of large answers: enough to cut them, not more, or they would cost most
/// of the time. The real sizes are the sockets' business.
fn limits() -> Limits {
    Limits { body_bytes_max: 64 * 1024, ..Limits::default() }
}

fn one_seed(seed: u64, seen: &Mutex<Seen>) -> Vec<Entry> {
    let mut chance = Chance(seed ^ 0x51ed_270b);
    let world =
        Arc::new(Counting { world: World::new(spec(seed, &mut chance)), met: Mutex::default() });
    let seeds = world.world.seeds(1 + chance.below(3) as usize);
    let urls: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let fates = Fates::new(chance.throw(), &urls);
    let mut lives = Lives::default();
    let (entries, again) = in_virtual_time(async {
        let machine = machine(seed, Arc::clone(&world) as Arc<dyn Web>, &fates, &mut chance);
        let mut witness = Witness::default();
        let deaths = CRASHES_MIN as u64 + chance.below(3);
        for nth in 0..deaths {
            let left = lives.die(&machine, &urls, nth, &mut chance).await;
            witness.look(&machine, &world.world, &fates.broken(), left);
            tokio::time::sleep(Duration::from_millis(chance.below(3_000))).await;
        }
        let ending = machine.run(&urls).await;
        assert_eq!(ending.unwrap(), Ending::Done);
        witness.look(&machine, &world.world, &fates.broken(), Left::All);
        let story = Story {
            world: &world.world,
            seeds: &seeds,
            witness: &witness,
            deaths: &lives.deaths,
            broken: &fates.broken(),
        };
        let entries = machine.journal.entries();
        let again = judge(&machine, &entries, &story);
        (entries, again)
    });
    let hosts: BTreeSet<&str> = entries.iter().map(|entry| &*entry.host).collect();
    assert!(hosts.len() >= HOSTS_MIN, "only {} hosts were seen", hosts.len());
    assert!(entries.len() >= REQUESTS_MIN, "only {} requests were made", entries.len());
    assert!(lives.crashes >= CRASHES_MIN, "only {} lives ended badly", lives.crashes);
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.add(&lives, entries.len(), again, fates.broken().len(), &world.met.lock().unwrap());
    drop(seen);
    entries
}

fn machine(seed: u64, web: Arc<dyn Web>, fates: &Fates, chance: &mut Chance) -> Machine {
    let mut machine = Machine::new(seed, web);
    machine.shards = [1, 1, 2, 16][chance.below(4) as usize];
    machine.concurrency = 1 + chance.below(24) as usize;
    machine.crawl.max_depth = 60;
    machine.crawl.patience = HumanDuration::from_secs(300);
    machine.latency = Duration::from_millis(chance.below(80));
    let millis = |choice: [u64; 4], at: u64| HumanDuration::from_millis(choice[at as usize]);
    machine.politeness.delay = millis([1_000, 1_000, 300, 0], chance.below(4));
    machine.politeness.ip_delay = millis([500, 500, 500, 2_000], chance.below(4));
    // So long that a host's next visits begin before its last is committed.
    machine.commit_wait = Duration::from_millis([200, 200, 3_000][chance.below(3) as usize]);
    // To compress and to read again costs as much as all the rest of a visit.
    machine.archive = chance.below(6) == 0;
    // To read a text costs more than that.
    machine.content = seed.is_multiple_of(8);
    machine.file_bytes_max = 20_000 + chance.below(200_000);
    machine.checkpoint_urls = 5 + chance.below(100);
    machine.sizes = sizes(chance);
    let fates = fates.clone();
    machine.fetcher = Box::new(move |fetcher| {
        let fetcher = fetcher.with_limits(limits());
        Arc::new(Unsteady { fetcher, fates: fates.clone() })
    });
    machine
}

/// From so little that nothing fits to more than such a crawl needs.
fn sizes(chance: &mut Chance) -> Sizes {
    let near_max = [1, 1, 2, 5, 20, 64][chance.below(6) as usize];
    Sizes {
        // Longer than the longest visit, and short enough for a visit that hangs to be met.
        lease_time: Duration::from_secs(60),
        active_max: 3 + chance.below(20) as usize,
        front_max: 4 + chance.below(20) as usize,
        near_max,
        near_low: chance.below(near_max as u64) as usize,
        near_total: 5 + chance.below(200) as usize,
    }
}

/// How the lives of one seed's crawler ended.
#[derive(Debug, Default)]
struct Lives {
    deaths: Vec<Timestamp>,
    ways: BTreeMap<&'static str, u64>,
    /// Those that were at work when they died.
    crashes: usize,
}

impl Lives {
    /// One life that ends badly. Says what it left.
    async fn die(
        &mut self,
        machine: &Machine,
        seeds: &[&str],
        nth: u64,
        chance: &mut Chance,
    ) -> Left {
        // The first few die early, so that each has work left; later ones may come to the end.
        let (millis, writes) =
            if nth < CRASHES_MIN as u64 { (30_000, 150) } else { (200_000, 800) };
        let (way, crashed, left) = match chance.below(5) {
            kind @ 0..=2 => {
                let time = Duration::from_millis(chance.below(millis));
                let crashed = live_until(machine, seeds, time).await;
                let way = if kind < 2 { "killed" } else { "power lost" };
                (way, crashed, if kind < 2 { Left::All } else { Left::Synced })
            }
            3 => {
                machine.disk.fail_after(1 + chance.below(writes));
                let crashed = is_death(machine.run(seeds).await);
                let left = if chance.below(2) == 0 { Left::All } else { Left::Synced };
                ("died at a write", crashed, left)
            }
            _ => {
                machine.disk.fail_after(1 + chance.below(6));
                ("died in recovery", is_death(machine.run(seeds).await), Left::All)
            }
        };
        be_gone().await;
        match left {
            Left::All => machine.disk.kill(),
            Left::Synced => machine.disk.crash(chance.throw()),
        }
        self.deaths.push(machine.clock.now());
        *self.ways.entry(way).or_default() += 1;
        self.crashes += usize::from(crashed);
        left
    }
}

/// A process ends with all its tasks; here they go one after another, each in a turn of its own,
/// and until then one may still send its request.
async fn be_gone() {
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}

/// Whether it was still at work at that time.
async fn live_until(machine: &Machine, seeds: &[&str], time: Duration) -> bool {
    let engine = machine.start(seeds).unwrap();
    match tokio::time::timeout(time, engine.run()).await {
        Ok(ending) => is_death(ending.map(|ended| ended.ending)),
        Err(_) => true,
    }
}

/// Whether the disk was what ended it; anything but that and a good end is a bug.
fn is_death(ending: Result<Ending, EngineError>) -> bool {
    match ending {
        Err(EngineError::Port(_)) => true,
        Ok(Ending::Done) => false,
        other => panic!("{other:?}"),
    }
}
