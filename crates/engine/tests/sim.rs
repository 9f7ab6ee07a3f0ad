//! The whole crawler in virtual time, killed again and again.
//!
//! Every seed is a web with every fault we know, a crawler with 1, 2 or 16 shards, and at least
//! three deaths: by `kill -9`, by power loss, between any two writes, also while it recovers. After
//! each death and at the end the promises of the design are checked, from the server's journal
//! and from what is left on the disk, not from what the crawler says.
//!
//! `LYCOSA_SIM_SEEDS` and `LYCOSA_SIM_FROM` choose the seeds; a failing one prints how to run it
//! again. The journal of a seed is the same each time: that is a test too.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Machine, in_virtual_time};
use local::sim_disk::Chance;
use lycosa_engine::{Ending, EngineError};
use ports::Clock;
use ports::shard_store::ScanCursor;
use simweb::{Ask, Dns, Door, FaultKind, Faults, Plan, Web, World, WorldSpec, checks};
use types::{HumanDuration, State};

/// What a run has seen, over all its seeds.
#[derive(Debug, Default)]
struct Seen {
    seeds: u64,
    visits: u64,
    deaths: BTreeMap<&'static str, u64>,
    faults: BTreeMap<FaultKind, u64>,
    refetches: u64,
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
        if !matches!(&dns, Dns::Addresses { addresses, .. } if addresses.iter().all(|a| a.is_loopback())) {
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

#[test]
fn whatever_dies_nothing_is_lost_doubled_or_rude() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let from = number("LYCOSA_SIM_FROM", 0);
    let seeds = number("LYCOSA_SIM_SEEDS", 1_000);
    let seen = Mutex::new(Seen::default());
    let next = std::sync::atomic::AtomicU64::new(from);
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let started = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if seed >= from + seeds {
                        break;
                    }
                    let guard = Replay(seed);
                    one_seed(seed, &seen);
                    std::mem::forget(guard);
                }
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    let elapsed = started.elapsed().as_secs_f64();
    println!("{} seeds, {} visits in {elapsed:.1} s on {threads} threads", seen.seeds, seen.visits);
    println!("deaths: {:?}; pages fetched again: {}", seen.deaths, seen.refetches);
    println!("faults met: {:?}", seen.faults);
    if seeds >= 100 {
        let missing: Vec<_> =
            FaultKind::ALL.iter().filter(|kind| !seen.faults.contains_key(kind)).collect();
        assert!(missing.is_empty(), "never met: {missing:?}");
        assert_eq!(seen.deaths.len(), 4, "every way to die: {:?}", seen.deaths);
    }
}

/// Says how to run a seed again when it fails.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        eprintln!(
            "\nseed {0} failed; again: LYCOSA_SIM_FROM={0} LYCOSA_SIM_SEEDS=1 cargo test -p lycosa-engine --test sim\n",
            self.0
        );
    }
}

#[test]
fn a_seed_replays_to_the_same_journal() {
    for seed in [3, 17] {
        let run = || {
            let seen = Mutex::new(Seen::default());
            one_seed(seed, &seen)
        };
        assert!(run() == run(), "seed {seed} took two different ways");
    }
}

fn spec(seed: u64, chance: &mut Chance) -> WorldSpec {
    let hosts = 8 + chance.below(8);
    let mut spec = WorldSpec::tiny(seed, hosts, 560).with_faults(Faults::all());
    // The large answers are the sockets' business; here they only cost memory.
    spec.faults = spec.faults.without(FaultKind::Huge).without(FaultKind::Endless);
    if chance.below(4) == 0 {
        spec.faults = Faults::all();
    }
    spec.hosts_per_address = 1 + chance.below(3);
    spec.crawl_delay = 0.2;
    spec
}

fn one_seed(seed: u64, seen: &Mutex<Seen>) -> String {
    let mut chance = Chance(seed ^ 0x51ed_270b);
    let world = Arc::new(Counting {
        world: World::new(spec(seed, &mut chance)),
        met: Mutex::default(),
    });
    let web: Arc<dyn Web> = Arc::clone(&world) as Arc<dyn Web>;
    let journal = in_virtual_time(async {
        let mut machine = Machine::new(seed, web);
        machine.shards = [1, 1, 2, 16][chance.below(4) as usize];
        machine.concurrency = 1 + chance.below(24) as usize;
        machine.crawl.max_depth = 60;
        machine.crawl.patience = HumanDuration::from_secs(300);
        machine.latency = Duration::from_millis(chance.below(80));
        machine.file_bytes_max = 20_000 + chance.below(200_000);
        let seeds = world.world.seeds(1 + chance.below(3) as usize);
        let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
        let deaths = 3 + chance.below(3);
        let mut died = BTreeMap::new();
        for _ in 0..deaths {
            let how = die(&machine, &seeds, &mut chance).await;
            *died.entry(how).or_default() += 1;
            look(&machine, seed);
        }
        let ending = machine.run(&seeds).await;
        assert_eq!(ending.unwrap(), Ending::Done, "seed {seed}");
        judge(&machine, &world.world, &seeds, deaths, seed, seen);
        let mut seen = seen.lock().unwrap();
        for (how, times) in died {
            *seen.deaths.entry(how).or_default() += times;
        }
        machine.journal.table()
    });
    let mut seen = seen.lock().unwrap();
    for (kind, times) in &*world.met.lock().unwrap() {
        *seen.faults.entry(*kind).or_default() += times;
    }
    seen.seeds += 1;
    journal
}

/// One life that ends badly. Says how.
async fn die(machine: &Machine, seeds: &[&str], chance: &mut Chance) -> &'static str {
    let how = match chance.below(5) {
        0 | 1 => {
            let time = Duration::from_millis(chance.below(60_000));
            live_until(machine, seeds, time).await;
            machine.disk.kill();
            "killed"
        }
        2 => {
            let time = Duration::from_millis(chance.below(60_000));
            live_until(machine, seeds, time).await;
            machine.disk.crash(chance.next());
            "power lost"
        }
        3 => {
            machine.disk.fail_after(1 + chance.below(400));
            match machine.run(seeds).await {
                Err(EngineError::Port(_)) => {}
                Ok(Ending::Done) => {} // it was done before so many writes
                other => panic!("{other:?}"),
            }
            if chance.below(2) == 0 { machine.disk.kill() } else { machine.disk.crash(chance.next()) }
            "died at a write"
        }
        _ => {
            machine.disk.fail_after(1 + chance.below(6));
            if let Ok(engine) = machine.start(seeds) {
                // It came up with fewer writes; then it dies soon after.
                let _ = engine.run().await;
            }
            machine.disk.kill();
            "died in recovery"
        }
    };
    // What was under way in the old process must be gone before the new one starts.
    tokio::time::sleep(Duration::from_millis(chance.below(3_000))).await;
    how
}

async fn live_until(machine: &Machine, seeds: &[&str], time: Duration) {
    let engine = machine.start(seeds).unwrap();
    let _ = tokio::time::timeout(time, engine.run()).await;
}

/// After each death: what is on the disk is readable, whatever the crawler would say.
fn look(machine: &Machine, seed: u64) {
    for n in 0..machine.shards {
        let folder = format!("archive-{n}");
        for serial in machine.disk.files(&folder) {
            let bytes = machine.disk.file(&folder, serial).unwrap();
            let tail = warc::last_complete(&bytes[..], 0);
            assert!(tail.is_ok(), "seed {seed}: file {serial} of shard {n} is not readable: {tail:?}");
        }
    }
}

/// At the end: the promises.
fn judge(machine: &Machine, world: &World, seeds: &[&str], deaths: u64, seed: u64, seen: &Mutex<Seen>) {
    let entries = machine.journal.entries();
    let _ = seeds;
    // Never rude.
    let delay = machine.politeness.delay.get();
    let pause = |_: &str| delay;
    checks::assert_none(&checks::gaps(&entries, pause));
    checks::assert_none(&checks::address_gaps(
        &entries,
        machine.politeness.ip_delay.get(),
        machine.politeness.ip_connections as usize,
    ));
    checks::assert_none(&checks::addresses(&entries, world));

    // Nothing is lost: every accepted URL is visited, refused with a reason, or waits with one.
    let mut fetched = BTreeMap::new();
    let mut books = machine.books().unwrap();
    let now = machine.clock.now();
    for books in &mut books {
        books.store.recover(now, machine.retry()).unwrap();
        let mut cursor = ScanCursor::default();
        while !cursor.done {
            for record in books.store.records(&mut cursor, 1_000).unwrap() {
                if record.state == State::Queued {
                    let host = books.store.host(&record.url.host_key()).unwrap();
                    let waits = host.is_some_and(|row| {
                        row.state.not_before > now || row.state.last_fault.is_some()
                    });
                    let robots = books.store.robots(&record.url.origin()).unwrap();
                    let closed = robots.is_some_and(|entry| entry.is_unreachable());
                    assert!(
                        waits || closed || record.due.is_some(),
                        "seed {seed}: {} waits and nobody knows why: {record:?}",
                        record.url
                    );
                }
                fetched.insert(record.url.as_str().to_owned(), record.fetch_count);
            }
        }
    }
    // Whoever answered is known.
    let mut answered: BTreeMap<String, u32> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.is_robots()) {
        *answered.entry(entry.url()).or_default() += 1;
    }
    for url in answered.keys().filter(|url| !url.contains("/robots-")) {
        assert!(fetched.contains_key(url), "seed {seed}: {url} was asked for and is not known");
    }
    // Fetched again is allowed after a death, but only what was in flight.
    let requests: u32 = answered.values().sum();
    let known: u32 = fetched.values().sum();
    let again = u64::from(requests.saturating_sub(known));
    let mut seen = seen.lock().unwrap();
    seen.refetches += again;
    seen.visits += entries.len() as u64;
    let _ = (deaths, BTreeSet::<u8>::new());
}
