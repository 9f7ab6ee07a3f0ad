//! A disk that fails: at the n-th call to it, once or from then on, for many n of a small crawl.
//!
//! The real binary runs with a library before libc (`tests/fault.c`) that lets that call fail.
//! Whatever happens, it ends with a sentence and an exit code that fits, and the same command on a
//! disk that works again finishes the crawl: nothing lost, nothing kept twice, nobody asked too
//! soon. The size for every day is here; `cargo xtask faults` runs the one of a release.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use simweb::{Rules, WorldSpec};

use crate::common::{Ran, Site, lycosa};
use crate::judge::{self, Archive, Manners};
use crate::world::number;

const MANNERS: Manners =
    Manners { delay: Duration::from_millis(20), ip_delay: Duration::from_millis(10) };

/// How the disk fails: the error's number on Linux, and whether it stays so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fault {
    name: &'static str,
    errno: u32,
    stays: bool,
}

const FAULTS: [Fault; 4] = [
    Fault { name: "an error once", errno: 5, stays: false },
    Fault { name: "an error from then on", errno: 5, stays: true },
    Fault { name: "a full disk", errno: 28, stays: true },
    Fault { name: "a disk that became read-only", errno: 30, stays: true },
];

fn spec() -> WorldSpec {
    WorldSpec { seed: 7, hosts: 4, pages: 40, https: 0.0, ..WorldSpec::default() }
}

/// Builds the library; every machine that links Rust has a C compiler.
fn library(folder: &Path) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fault.c");
    let path = folder.join("fault.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-Wall", "-o"]).arg(&path).arg(source).arg("-ldl");
    let built = cc.output().expect("cc starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    path
}

struct Sweep {
    site: Site,
    library: PathBuf,
    engine: &'static str,
}

/// Crawls under way at a time, each with a web of its own.
const AT_ONCE: usize = 8;

/// How many large answers there are, and of how many bytes.
const LARGE: usize = 4;
const LARGE_BYTES: usize = 300_000;

impl Sweep {
    fn new(engine: &'static str) -> Self {
        Self::of(Site::world(&spec()), engine)
    }

    /// A web whose answers are mostly too large for memory.
    fn large() -> Self {
        let mut web = String::from("--- a.test/\n");
        (0..LARGE).for_each(|n| web += &format!("<a href=http://l{n}.test:PORT/x.zip>{n}</a>\n"));
        for n in 0..LARGE {
            web += &format!("--- l{n}.test/x.zip type=application/zip filler={LARGE_BYTES}\n");
        }
        Self::of(Site::fixture(&web), "fjall")
    }

    fn of(site: Site, engine: &'static str) -> Self {
        let library = library(site.path());
        Self { site, library, engine }
    }

    fn command(&self, name: &str) -> Command {
        let mut command = lycosa(self.site.path());
        command.args(["crawl", "-o", name, "--scope", "any", "--depth", "40", "--quiet"]);
        command.args(MANNERS.words()).args(self.site.flags()).args(&self.site.ready.seed_urls);
        // What was in flight when it died is tried again after ten seconds.
        command.args(["-s", "crawl.patience=15s", "-s", "archive.file_bytes_max=100KB"]);
        // Often, so that it is met: the filter's file is written every few pages, and what is not
        // HTML goes to the disk soon.
        command.args(["-s", "store.checkpoint_urls=10", "-s", "fetch.held_bytes_max=16KiB"]);
        command.args(["-s", &format!("store.engine={}", self.engine)]);
        command
    }

    /// Runs with a disk that fails at the n-th call. Also how many calls there were.
    fn broken(&self, name: &str, fault: Fault, at: u64) -> (Ran, u64) {
        let count = self.site.path().join("count");
        let mut command = self.command(name);
        command.env("LD_PRELOAD", &self.library).env("FAULT_NAME", name);
        command.env("FAULT_AT", at.to_string()).env("FAULT_ERRNO", fault.errno.to_string());
        command.env("FAULT_STAYS", u8::from(fault.stays).to_string()).env("FAULT_COUNT", &count);
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code().is_some(), "{fault:?} at {at}: {}\n{said}", output.status);
        let calls = std::fs::read_to_string(&count).expect("it counted");
        (Ran::from(output), calls.trim().parse().expect("a number"))
    }

    /// One point: a crawl that meets the fault, and the same command afterwards. Its exit code, and
    /// the name of its directory.
    fn meet(&self, fault: Fault, at: u64) -> (i32, String) {
        let name = format!("crawl-{}-{at}", fault.errno + u32::from(fault.stays));
        let (ran, _) = self.broken(&name, fault, at);
        let what = format!("{} at call {at}: exit code {}\n{}", fault.name, ran.code, ran.err);
        assert!(!ran.err.contains("panicked"), "{what}");
        match ran.code {
            // It did not matter, or was made good.
            0 => {}
            // A full disk has a code of its own.
            3 => assert_eq!(fault.errno, 28, "{what}"),
            1 => assert_ne!(fault.errno, 28, "{what}"),
            _ => panic!("{what}"),
        }
        if ran.code != 0 {
            assert!(ran.err.lines().any(|line| line.starts_with("lycosa: ")), "{what}");
        }
        let again = Ran::from(self.command(&name).output().expect("it starts"));
        assert_eq!(again.code, 0, "{what}\nand afterwards: {}", again.err);
        (ran.code, name)
    }

    /// A point of a crawl of the world.
    fn point(&self, fault: Fault, at: u64) -> i32 {
        let before = self.site.journal().len();
        let (code, name) = self.meet(fault, at);
        let world = self.site.truth(&spec());
        let oracle = world.oracle(&self.site.ready.seed_urls, &Rules::default());
        let entries = self.site.journal().split_off(before);
        judge::polite(&entries, &world, MANNERS);
        judge::complete(&entries, &world, &oracle);
        let dir = self.site.path().join(&name);
        Archive::read(&dir).holds(&oracle, &world);
        std::fs::remove_dir_all(&dir).expect("it can be removed");
        code
    }

    /// A point of a crawl of large answers.
    fn large_point(&self, fault: Fault, at: u64) -> i32 {
        let (code, name) = self.meet(fault, at);
        let dir = self.site.path().join(&name);
        let mut kept = 0;
        for file in judge::files(&dir) {
            let file = file.to_str().expect("its name is text");
            self.site.run(&["warc", "check", file]).exits(0);
            let listed = self.site.run(&["warc", "ls", file]).exits(0).out;
            for n in 0..LARGE {
                let url = format!("http://l{n}.test:{}/x.zip", self.site.ready.http);
                let is_it = |line: &&str| line.contains(" response ") && line.ends_with(&url);
                let found = listed.lines().filter(is_it).count();
                kept += found;
                if found > 0 {
                    let mut get = lycosa(self.site.path());
                    get.args(["warc", "get", "--payload", file, &url]);
                    assert_eq!(get.output().expect("it starts").stdout.len(), LARGE_BYTES);
                }
            }
        }
        assert_eq!(kept, LARGE, "each is kept once, {} at call {at}", fault.name);
        std::fs::remove_dir_all(&dir).expect("it can be removed");
        code
    }
}

#[test]
fn a_disk_that_fails_at_any_call_costs_nothing_but_time() {
    sweep("fjall");
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_disk_that_fails_at_any_call_of_rocksdb_costs_nothing_but_time() {
    sweep("rocksdb");
}

#[test]
fn a_disk_that_fails_while_large_answers_lie_on_it_costs_nothing_but_time() {
    all_points("large answers", Sweep::large, Sweep::large_point);
}

fn sweep(engine: &'static str) {
    all_points(engine, || Sweep::new(engine), Sweep::point);
}

fn all_points(
    what: &str,
    new: impl Fn() -> Sweep + Sync,
    point: impl Fn(&Sweep, Fault, u64) -> i32 + Sync,
) {
    let (ran, calls) = new().broken("crawl-none", FAULTS[0], 0);
    ran.exits(0);
    assert!(calls > 100, "only {calls} calls: the library does not see them");
    let points = number("LYCOSA_FAULTS", 40).min(calls * FAULTS.len() as u64);
    let codes = Mutex::new(BTreeMap::new());
    let next = AtomicU64::new(0);
    // Most of the time they wait.
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let sweep = new();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= points {
                        return;
                    }
                    // Spread over all calls; the kinds take turns.
                    let fault = FAULTS[(n % FAULTS.len() as u64) as usize];
                    let code = point(&sweep, fault, 1 + n * calls / points);
                    let mut codes = codes.lock().expect("no panic while locked");
                    *codes.entry((fault.name, code)).or_insert(0) += 1;
                }
            });
        }
    });
    let codes = codes.into_inner().expect("no panic while locked");
    println!("{what}: {points} points of {calls} calls; exit codes: {codes:?}");
}
