//! The whole crawler in virtual time, killed again and again.
//!
//! Every seed is a web with every fault we know, a crawler with 1, 2 or 16 shards, and at least
//! three deaths: by `kill -9`, by power loss, between any two writes, also while it recovers. After
//! each death and at the end the promises of the design are checked, from the server's journal
//! and from what is left on the disk, not from what the crawler says.
//!
//! `LYCOSA_SIM_SEEDS` and `LYCOSA_SIM_FROM` choose the seeds; a failing one prints how to run it
//! again. The journal of a seed is the same each time: that is a test too.

#![expect(clippy::unwrap_used, reason = "parts of tests")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Machine, in_virtual_time};
use local::sim_disk::Chance;
use lycosa_engine::{Ending, EngineError};
use ports::Clock;
use ports::shard_store::ScanCursor;
use simweb::{
    Ask, Dns, Door, Entry, FaultKind, Faults, Place, Plan, Truth, Web, World, WorldSpec, checks,
};
use types::record::Retirement;
use types::{Fault, HumanDuration, State};

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

#[test]
fn whatever_dies_nothing_is_lost_doubled_or_rude() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let from = number("LYCOSA_SIM_FROM", 0);
    let seeds = number("LYCOSA_SIM_SEEDS", 1_000);
    let seen = Mutex::new(Seen::default());
    let failed = Mutex::new(Vec::new());
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
                    if std::env::var_os("LYCOSA_SIM_TRACE").is_some() {
                        eprintln!("seed {seed}");
                    }
                    let run = std::panic::AssertUnwindSafe(|| one_seed(seed, &seen));
                    if std::panic::catch_unwind(run).is_err() {
                        failed.lock().unwrap().push(seed);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    for seed in &failed {
        println!("seed {seed} failed; again: LYCOSA_SIM_FROM={seed} LYCOSA_SIM_SEEDS=1 {COMMAND}");
    }
    let seen = seen.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let elapsed = started.elapsed().as_secs_f64();
    println!("{} seeds, {} visits in {elapsed:.1} s on {threads} threads", seen.seeds, seen.visits);
    println!("deaths: {:?}; pages fetched again: {}", seen.deaths, seen.refetches);
    println!("faults met: {:?}", seen.faults);
    assert!(failed.is_empty(), "{} of {seeds} seeds failed: {failed:?}", failed.len());
    if seeds >= 100 {
        let missing: Vec<_> =
            FaultKind::ALL.iter().filter(|kind| !seen.faults.contains_key(kind)).collect();
        assert!(missing.is_empty(), "never met: {missing:?}");
        assert_eq!(seen.deaths.len(), 4, "every way to die: {:?}", seen.deaths);
    }
}

const COMMAND: &str = "cargo test -p lycosa-engine --test sim";

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
    let world =
        Arc::new(Counting { world: World::new(spec(seed, &mut chance)), met: Mutex::default() });
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
        let mut died: BTreeMap<&'static str, u64> = BTreeMap::new();
        for _ in 0..deaths {
            let how = die(&machine, &seeds, &mut chance).await;
            *died.entry(how).or_default() += 1;
            look(&machine, seed);
        }
        let ending = machine.run(&seeds).await;
        assert_eq!(ending.unwrap(), Ending::Done, "seed {seed}");
        let oracle = world.world.oracle(
            &seeds.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>(),
            &simweb::Rules::default(),
        );
        judge(&machine, &world.world, &oracle, deaths, seed, seen);
        let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (how, times) in died {
            *seen.deaths.entry(how).or_default() += times;
        }
        machine.journal.table()
    });
    let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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
            machine.disk.crash(chance.throw());
            "power lost"
        }
        3 => {
            machine.disk.fail_after(1 + chance.below(400));
            match machine.run(seeds).await {
                Err(EngineError::Port(_)) => {}
                Ok(Ending::Done) => {} // it was done before so many writes
                other => panic!("{other:?}"),
            }
            if chance.below(2) == 0 {
                machine.disk.kill()
            } else {
                machine.disk.crash(chance.throw())
            }
            "died at a write"
        }
        _ => {
            machine.disk.fail_after(1 + chance.below(6));
            if let Ok(engine) = machine.start(seeds) {
                // It came up with fewer writes; then it dies soon after.
                let _ = engine.run().await; // how it ends is not the question here
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
    let _ = tokio::time::timeout(time, engine.run()).await; // it may end before its time
}

/// A host's requests from the one that brought its robots.txt on: before, nobody could know
/// which pause it asks for.
fn since_rules_are_known(entries: &[Entry], world: &World) -> Vec<Entry> {
    let is_robots = |entry: &Entry| {
        let (tls, port) = (entry.tls, entry.port);
        let (host, target) = (entry.host.to_string(), entry.path.to_string());
        entry.is_robots() || world.is_robots_hop(&Place { tls, host, port, target })
    };
    let mut last_robots: BTreeMap<&str, &Entry> = BTreeMap::new();
    let mut known = BTreeSet::new();
    let mut kept = Vec::new();
    for entry in entries {
        if is_robots(entry) && !known.contains(&*entry.host) {
            last_robots.insert(&entry.host, entry);
            continue;
        }
        if known.insert(&*entry.host) {
            kept.extend(last_robots.remove(&*entry.host).cloned());
        }
        kept.push(entry.clone());
    }
    kept.sort_by_key(|entry| entry.arrived);
    kept
}

/// After each death: what is on the disk is readable, whatever the crawler would say.
fn look(machine: &Machine, seed: u64) {
    for n in 0..machine.shards {
        let folder = format!("archive-{n}");
        for serial in machine.disk.files(&folder) {
            let bytes = machine.disk.file(&folder, serial).unwrap();
            let tail = warc::last_complete(&bytes[..], 0);
            assert!(
                tail.is_ok(),
                "seed {seed}: file {serial} of shard {n} is not readable: {tail:?}"
            );
        }
    }
}

/// At the end: the promises.
fn judge(
    machine: &Machine,
    world: &World,
    oracle: &simweb::Oracle,
    deaths: u64,
    seed: u64,
    seen: &Mutex<Seen>,
) {
    let entries = machine.journal.entries();
    // Never rude.
    let delay = machine.politeness.delay.get();
    let pause = |host: &str| {
        let homes = [(false, 80), (true, 443)].map(|(tls, port)| Place {
            tls,
            port,
            host: host.to_owned(),
            target: "/".to_owned(),
        });
        let asked = homes.iter().filter_map(|home| world.crawl_delay(home, "lycosa")).max();
        asked.unwrap_or_default().max(delay)
    };
    checks::assert_none(&checks::gaps(&entries, |_| delay));
    checks::assert_none(&checks::gaps(&since_rules_are_known(&entries, world), pause));
    checks::assert_none(&checks::address_gaps(
        &entries,
        machine.politeness.ip_delay.get(),
        machine.politeness.ip_connections as usize,
    ));
    checks::assert_none(&checks::addresses(&entries, world));
    checks::assert_none(&checks::robots_obeyed(&entries, world, "lycosa"));

    // Nothing is lost: every accepted URL is visited, refused with a reason, or waits with one.
    let mut fetched = BTreeMap::new();
    let mut suspects = BTreeSet::new();
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
                if let State::Retired(Retirement::DeadLetter { fault: Fault::Lost, .. }) =
                    record.state
                {
                    suspects.insert(record.url.as_str().to_owned());
                }
                fetched.insert(record.url.as_str().to_owned(), record.fetch_count);
            }
        }
    }
    drop(books);

    // Nothing is stored twice: the archive has one answer for each that the store knows of.
    let mut stored: BTreeMap<String, u32> = BTreeMap::new();
    let mut visits = BTreeSet::new();
    for record in archived(machine) {
        match record.kind.as_str() {
            "response" => *stored.entry(record.url).or_default() += 1,
            "metadata" => {
                let visit = record.visit.expect("every visit of ours has its number");
                assert!(visits.insert(visit.clone()), "seed {seed}: visit {visit} is stored twice");
            }
            _ => {}
        }
    }
    for (url, count) in &fetched {
        let copies = stored.get(url).copied().unwrap_or(0);
        assert_eq!(copies, *count, "seed {seed}: {url} was answered {count} times to the store");
    }

    // Everything that can be reached is there, but for what was in flight at three deaths.
    // A damaged body may name a page that never was; it answers 404 and does no harm.
    let never_was: BTreeSet<String> =
        entries.iter().filter(|entry| entry.status == 404).map(Entry::url).collect();
    let missed: Vec<_> = checks::coverage(&entries, world, oracle)
        .into_iter()
        .filter(|missed| !suspects.contains(&missed.about))
        .filter(|missed| {
            !(missed.what.contains("no link leads there") && never_was.contains(&missed.about))
        })
        .collect();
    checks::assert_none(&missed);

    // Fetched again is allowed after a death, but only what was in flight.
    let mut answered: BTreeMap<String, u32> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| !entry.aborted && entry.status != 0) {
        *answered.entry(entry.url()).or_default() += 1;
    }
    let again: u64 = fetched
        .iter()
        .map(|(url, count)| answered.get(url).copied().unwrap_or(0).saturating_sub(*count))
        .map(u64::from)
        .sum();
    let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    seen.refetches += again;
    seen.visits += entries.len() as u64;
    let most = deaths * machine.concurrency as u64;
    assert!(again <= most, "seed {seed}: {again} fetched again, {most} were in flight at most");
}

/// Every record of every archive file, as somebody else would read them: type, URL, visit.
fn archived(machine: &Machine) -> Vec<Archived> {
    let mut all = Vec::new();
    for n in 0..machine.shards {
        let folder = format!("archive-{n}");
        for serial in machine.disk.files(&folder) {
            let bytes = machine.disk.file(&folder, serial).unwrap();
            let mut reader = warc::Reader::new(&bytes[..]);
            while let Some(header) = reader.next_record().unwrap() {
                let field = |name| header.fields.get(name).unwrap_or_default().to_owned();
                let (kind, url) = (field("WARC-Type"), field("WARC-Target-URI"));
                let block = reader.block(1 << 26).unwrap().unwrap_or_default();
                reader.finish().unwrap();
                let visit = (kind == "metadata")
                    .then(|| warc::Fields::parse(&block).get("visit").unwrap().to_owned());
                all.push(Archived { kind, url, visit });
            }
        }
    }
    all
}

#[derive(Debug)]
struct Archived {
    kind: String,
    url: String,
    visit: Option<String>,
}
