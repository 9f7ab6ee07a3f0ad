//! A frontier and its workers, in processes of their own: killed, frozen, drained, restarted.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use simweb::{Rules, WorldSpec, checks};

use crate::common::{Site, lycosa, run, signal, wait_until};
use crate::judge::{self, Archive, Manners};
use crate::world::number;

const MANNERS: Manners =
    Manners { delay: Duration::from_millis(60), ip_delay: Duration::from_millis(20) };

fn spec() -> WorldSpec {
    WorldSpec {
        seed: 20_261_116,
        hosts: number("LYCOSA_WORKERS_HOSTS", 80),
        pages: number("LYCOSA_WORKERS_PAGES", 1_000),
        hosts_per_address: 2,
        ..WorldSpec::default()
    }
}

/// A process of ours that says in one line of JSON when it is ready.
struct Process(Child);

impl Process {
    fn start(folder: &Path, words: &[&str]) -> (Self, Value) {
        let mut command = lycosa(folder);
        let mut child =
            command.args(words).arg("--json").stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let line = lines.next().expect("it says that it is ready").expect("it is text");
        (Self(child), serde_json::from_str(&line).expect("it is JSON"))
    }

    fn kill(mut self) {
        self.0.kill().expect("it is killed");
        self.0.wait().expect("it has ended");
    }

    fn ends(mut self, name: &str) {
        signal(&self.0, "TERM");
        assert_eq!(self.0.wait().expect("it ends").code(), Some(0), "{name}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill(); // one that has ended needs no killing
        let _ = self.0.wait(); // likewise
    }
}

struct Fleet<'a> {
    site: &'a Site,
    words: Vec<String>,
}

impl Fleet<'_> {
    /// The frontier, with the seeds the first time. Leases are short, so that the test is too.
    fn frontier(&self, listen: &str, seeds: &[String]) -> (Process, String) {
        let mut words = vec!["frontier", "crawl", "--listen", listen, "--scope", "any"];
        words.extend(["--depth", "40", "-s", "workers.lease=2s", "-s", "store.shards=2"]);
        words.extend(["-s", "fetch.retry_delay=1s"]);
        words.extend(self.words.iter().map(String::as_str));
        words.extend(seeds.iter().map(String::as_str));
        let (process, said) = Process::start(self.site.path(), &words);
        (process, said["address"].as_str().expect("it has an address").to_owned())
    }

    fn worker(&self, name: &str, address: &str) -> Process {
        let url = format!("http://{address}");
        let mut words = vec!["worker", "--frontier", &url, "-o", name, "-c", "20"];
        words.extend(self.words.iter().map(String::as_str));
        Process::start(self.site.path(), &words).0
    }

    fn wait_for_requests(&self, count: usize) {
        wait_until("more requests", || self.site.live_journal().requests() as usize >= count);
    }

    fn status(&self) -> Value {
        let ran = run(self.site.path(), &["status", "crawl", "--json"]);
        serde_json::from_str(&ran.exits(0).out).expect("it is JSON")
    }

    fn wait_for_the_end(&self) {
        wait_until("nothing is left to do", || {
            let status = self.status();
            let left = |name: &str| status[name].as_u64().expect("a number");
            left("pages") > 0 && left("queued") + left("scheduled") + left("in_flight") == 0
        });
    }

    /// The archives of all workers.
    fn archives(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for name in ["a", "b", "c"] {
            let crawls = std::fs::read_dir(self.site.path().join(name)).expect("its folder");
            for crawl in crawls {
                files.extend(judge::files(&crawl.expect("it can be read").path()));
            }
        }
        files
    }
}

#[test]
fn workers_are_killed_frozen_drained_and_restarted_and_nothing_is_lost_or_rude() {
    let spec = spec();
    let site = Site::world(&spec);
    let mut words = site.flags();
    words.extend(MANNERS.words());
    let fleet = Fleet { site: &site, words };
    let step = spec.pages as usize / 8;
    let (frontier, address) = fleet.frontier("127.0.0.1:0", &site.ready.seed_urls);
    let a = fleet.worker("a", &address);
    let b = fleet.worker("b", &address);
    let c = fleet.worker("c", &address);

    fleet.wait_for_requests(step);
    a.kill();
    let a = fleet.worker("a", &address);

    // Beyond its lease: what it was given is given to others, and it wakes up in mid-work.
    fleet.wait_for_requests(2 * step);
    signal(&b.0, "STOP");
    std::thread::sleep(Duration::from_secs(4)); // what is tested: time that passes while it sleeps
    signal(&b.0, "CONT");

    fleet.wait_for_requests(4 * step);
    c.ends("a worker that is told to drain");
    let c = fleet.worker("c", &address);

    fleet.wait_for_requests(5 * step);
    frontier.kill();
    let (frontier, address) = fleet.frontier(&address, &[]);
    assert_eq!(fleet.status()["process"], frontier.0.id());
    println!("the frontier is back at {address}");

    fleet.wait_for_the_end();
    for (worker, name) in [(a, "a"), (b, "b"), (c, "c")] {
        worker.ends(name);
    }
    frontier.ends("the frontier");

    let entries = site.journal();
    let world = site.truth(&spec);
    let oracle = world.oracle(&site.ready.seed_urls, &Rules::default());
    judge::polite(&entries, &world, MANNERS);
    judge::complete(&entries, &world, &oracle);
    let archive = Archive::of(&fleet.archives(), &[]);
    archive.holds(&oracle, &world);
    let pages = archive.answers.len();
    println!("{} requests, {pages} pages in {} files", entries.len(), archive.files);
    assert!(oracle.archived().count() as u64 * 10 >= spec.pages * 7, "most of the world is there");
}

#[test]
fn hosts_at_one_address_keep_its_pause_and_do_not_wait_for_each_others_answers() {
    let site = Site::fixture(
        "!address a.test 127.0.0.9
         !address b.test 127.0.0.9
         !address c.test 127.0.0.9
         --- a.test/ slow=3s
         --- b.test/ slow=3s
         --- c.test/ slow=3s",
    );
    let mut words = site.flags();
    let manners = Manners { delay: Duration::ZERO, ip_delay: Duration::from_millis(100) };
    words.extend(manners.words());
    let fleet = Fleet { site: &site, words };
    let seeds = ["a.test", "b.test", "c.test"].map(|host| site.url(host, "/"));
    let (frontier, address) = fleet.frontier("127.0.0.1:0", &seeds);
    let worker = fleet.worker("a", &address);
    fleet.wait_for_the_end();
    worker.ends("a");
    frontier.ends("the frontier");

    let entries = site.journal();
    checks::assert_none(&checks::address_gaps(&entries, manners.ip_delay, 4));
    let pages = entries.iter().filter(|entry| &*entry.path == "/");
    // On a busy machine a short lease may run out, and its page is asked for once more later: the
    // first three tell.
    let pages: Vec<_> = pages.take(3).collect();
    let hosts: BTreeSet<_> = pages.iter().map(|page| &page.host).collect();
    assert_eq!(hosts.len(), 3, "each host was asked once before any was asked again");
    let first_end = pages.iter().filter_map(|page| page.ended).min().expect("they were answered");
    let last = pages.iter().map(|page| page.arrived).max().expect("there are three");
    assert!(last < first_end, "the last came at {last}, when the first had ended at {first_end}");
}

#[test]
fn a_worker_that_nobody_lets_in_says_why() {
    let folder = tempfile::tempdir().expect("there is room");
    let words = ["frontier", "queues", "--listen", "127.0.0.1:0", "-s", "api.token=secret"];
    let (frontier, said) = Process::start(folder.path(), &words);
    let url = format!("http://{}", said["address"].as_str().expect("it has an address"));
    run(folder.path(), &["worker", "--frontier", &url]).exits(1).says("send the token");
    run(folder.path(), &["worker", "--frontier", "nowhere"]).exits(2).says("http://127.0.0.1:7071");
    run(folder.path(), &["worker", "--frontier", &url, "-c", "0"]).exits(2);
    frontier.ends("the frontier");
}

#[test]
fn a_worker_keeps_answers_that_are_too_large_for_memory() {
    let large = 12 << 20;
    let site = Site::fixture(&format!(
        "--- a.test/
         <a href=/large.zip>large</a>
         --- a.test/large.zip type=application/zip filler={large}"
    ));
    let mut words = site.flags();
    words.extend(MANNERS.words());
    let fleet = Fleet { site: &site, words };
    let (frontier, address) = fleet.frontier("127.0.0.1:0", &[site.url("a.test", "/")]);
    let worker = fleet.worker("a", &address);
    wait_until("all three are there", || {
        fleet.status()["pages"].as_u64() == Some(2) && fleet.status()["in_flight"] == 0
    });
    worker.ends("the worker");
    frontier.ends("the frontier");
    let crawls = std::fs::read_dir(site.path().join("a")).expect("its folder");
    let crawls: Vec<PathBuf> = crawls.map(|crawl| crawl.expect("it can be read").path()).collect();
    let files: Vec<PathBuf> = crawls.iter().flat_map(|crawl| judge::files(crawl)).collect();
    let archive = files[0].to_str().expect("its name is text");
    site.run(&["warc", "check", archive]).exits(0).prints(": ok");
    let url = site.url("a.test", "/large.zip");
    let mut get = lycosa(site.path());
    get.args(["warc", "get", "--payload", archive, &url]);
    assert_eq!(get.output().expect("it starts").stdout.len(), large);
}
