//! A small crawl on a simulated disk dies at every possible moment, and nothing is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lycosa_local::sim_disk::Chance;
use lycosa_local::{ArchiveSettings, Disk, MemoryArchive, MemoryKv, Shard, ShardSettings};
use ports::shard_store::{
    Arrival, CommitBatch, Found, FoundSet, Grant, RefillWant, UrlChange, VisitCommit, VisitLine,
};
use ports::{Archive, Blob, PortResult, ShardStore};
use types::outcome::Answer;
use types::record::RetryPolicy;
use types::{HostState, Outcome, ShardId, State, Task, Timestamp, UrlId, VisitId, WarcRef};

const POLICY: RetryPolicy =
    RetryPolicy { attempts_max: 3, delay: Duration::from_secs(10), lost_max: 100, host_max: 0 };

/// A crawl of an endless web, and what it must remember.
struct Crawl {
    disk: Disk,
    chance: Chance,
    now: u64,
    /// URLs of commits that were acknowledged as durable.
    safe: BTreeSet<String>,
    /// Where the bytes of durable visits lie.
    stored: BTreeMap<String, WarcRef>,
}

type Store = Shard<MemoryKv>;

fn settings() -> ShardSettings {
    let mut settings = ShardSettings::small(ShardId(0), 7);
    settings.checkpoint_urls = 20;
    settings.filter_urls_min = 64;
    settings.rebuild_step = 7;
    settings.rebuild_at_open_max = 10;
    settings.recent_bytes_max = 512;
    settings.heads_max = 2;
    settings
}

fn links(from: u64, chance: &mut Chance) -> FoundSet {
    let mut set = FoundSet::default();
    for _ in 0..chance.below(6) {
        let n = from + chance.below(9);
        let url = format!("http://{}.test/{n}", n % 5);
        let depth = chance.below(6) as u16;
        set.push(Found { url: &url, id: UrlId::of(&url), depth, hops: 0, band: 1, seed: false });
    }
    set
}

impl Crawl {
    fn open(&mut self) -> PortResult<(Store, MemoryArchive, u64)> {
        let mut store = Shard::open(MemoryKv::open(&self.disk, "shard")?, settings())?;
        let recovery = store.recover(self.time(), POLICY)?;
        let mut names = ArchiveSettings::new(ShardId(0), "test");
        names.file_bytes_max = 600;
        let mut archive = MemoryArchive::open(&self.disk, "archive", names)?;
        archive.cut(recovery.archive_end)?;
        Ok((store, archive, recovery.next_visit))
    }

    fn time(&mut self) -> Timestamp {
        self.now += 1;
        Timestamp::from_secs(self.now)
    }

    /// Groups of visits until the process dies.
    fn run(&mut self) -> PortResult<()> {
        let (mut store, mut archive, mut next) = self.open()?;
        if store.counts().known == 0 {
            let links = links(0, &mut self.chance);
            let arrivals = vec![Arrival { links, ..Arrival::default() }];
            store.commit(CommitBatch { at: self.time(), arrivals, ..CommitBatch::default() })?;
        }
        loop {
            self.group(&mut store, &mut archive, &mut next)?;
            if self.chance.below(40) == 0 {
                return store.close();
            }
        }
    }

    fn group(
        &mut self,
        store: &mut Store,
        archive: &mut MemoryArchive,
        next: &mut u64,
    ) -> PortResult<()> {
        let mut tasks = Vec::new();
        for row in store.hosts(None, 3)? {
            let limit = 1 + self.chance.below(2) as usize;
            let want = RefillWant { host: row.host, after: None, limit, state: false };
            tasks.extend(store.refill(&[want])?.remove(0).tasks);
        }
        let mut grants = Vec::new();
        for (task, n) in tasks.iter().zip(*next..) {
            let visit = VisitId::new(ShardId(0), n);
            let host = task.record.url.host_key();
            grants.push(Grant { visit, host, url: Some(task.id), at: self.time() });
        }
        *next += tasks.len() as u64;
        store.grant(&grants)?;

        let bodies: Vec<[Blob; 2]> =
            tasks.iter().map(|task| [b"request".to_vec().into(), member(task).into()]).collect();
        let groups: Vec<&[Blob]> = bodies.iter().map(<[_; 2]>::as_slice).collect();
        let now = self.time();
        let places = archive.append(&groups, now)?;
        archive.sync()?;
        let durable = self.chance.below(3) > 0;
        let mut visits = Vec::new();
        for ((task, grant), places) in tasks.iter().zip(&grants).zip(&places) {
            visits.push(self.settle(task, grant.visit, places[1]));
        }
        let stored: Vec<_> = tasks
            .iter()
            .zip(&places)
            .map(|(task, places)| (task.record.url.to_string(), places[1]))
            .collect();
        let found: Vec<_> = visits
            .iter()
            .flat_map(|visit| visit.links.iter().map(|found| found.url.to_owned()))
            .collect();
        let batch = CommitBatch {
            at: now,
            visits,
            archive_end: archive.end(),
            durable,
            ..CommitBatch::default()
        };
        store.commit(batch)?;
        if durable {
            self.safe.extend(found);
            self.stored.extend(stored);
        }
        if self.chance.below(4) == 0 {
            let now = self.time();
            store.wake(now, 10)?;
        }
        Ok(())
    }

    fn settle(&mut self, task: &Task, visit: VisitId, warc: WarcRef) -> VisitCommit {
        let mut record = task.record.clone();
        let now = self.time();
        let outcome = Outcome::Fetched(Answer { status: 200, ..Answer::default() });
        record.settle(visit, &outcome, now, POLICY);
        let url = record.url.clone();
        let number: u64 = url.path()[1..].parse().unwrap_or(0);
        if let Some(last) = &mut record.last {
            last.warc = Some(warc);
        }
        VisitCommit {
            visit,
            host: url.host_key(),
            host_state: HostState::default(),
            site: None,
            url: Some(UrlChange { key: task.key, record }),
            robots: None,
            links: links(number, &mut self.chance),
            letters: Vec::new(),
            line: Some(VisitLine {
                seq: 0,
                visit,
                url,
                at: now,
                status: 200,
                content_type: None,
                digest: None,
                warc: Some(warc),
                page: None,
            }),
        }
    }

    /// After a death: everything agrees, and what was promised is there.
    fn check(&mut self) {
        let (mut store, archive, _) = self.open().expect("a state opens after any death");
        let faults = store.audit().expect("the state can be read");
        assert!(faults.is_empty(), "{faults:#?}");
        for text in &self.safe {
            let url = types::CrawlUrl::from_canonical(text).expect("ours");
            assert!(store.record(&url).expect("read").is_some(), "{text} was accepted and is gone");
        }
        for (text, place) in &self.stored {
            let url = types::CrawlUrl::from_canonical(text).expect("ours");
            let record = store.record(&url).expect("read").expect("safe");
            assert_eq!(record.state, State::Parsed, "{text}");
            let file = self.disk.file("archive", place.file).expect("a durable file");
            let end = (place.offset + place.length) as usize;
            assert_eq!(file[place.offset as usize..end], member_of(text), "{text}");
        }
        // Everything in the archive is known: the bytes of every visit once, and no others.
        let lines = store.visits(0, usize::MAX).expect("read");
        let mut met = BTreeMap::new();
        for serial in self.disk.files("archive") {
            let file = self.disk.file("archive", serial).expect("listed");
            assert!(archive.end().is_some_and(|end| serial <= end.file));
            for line in lines.iter().filter(|line| line.warc.is_some_and(|w| w.file == serial)) {
                let text = line.url.as_str();
                let count = count_of(&file, &member_of(text));
                assert_eq!(met.insert(text, count), None, "{text} is stored in two files");
                assert_eq!(count, 1, "{text}");
            }
        }
    }
}

fn member(task: &Task) -> Vec<u8> {
    member_of(task.record.url.as_str())
}

fn member_of(url: &str) -> Vec<u8> {
    format!("<{url}>").into_bytes()
}

fn count_of(file: &[u8], part: &[u8]) -> usize {
    file.windows(part.len()).filter(|window| *window == part).count()
}

#[test]
fn nothing_is_lost_whenever_the_process_or_the_power_goes() {
    for seed in 0..300 {
        let mut crawl = Crawl {
            disk: Disk::new(),
            chance: Chance(seed),
            now: 0,
            safe: BTreeSet::new(),
            stored: BTreeMap::new(),
        };
        for life in 0..8 {
            let deadly = 1 + crawl.chance.below(60);
            crawl.disk.fail_after(deadly);
            // It dies by the disk, or closes before.
            let died = crawl.run().is_err();
            assert_eq!(died, crawl.disk.is_dead(), "seed {seed}, life {life}");
            if crawl.chance.below(2) == 0 {
                crawl.disk.kill();
            } else {
                let seed = crawl.chance.throw();
                crawl.disk.crash(seed);
            }
            eprintln!("seed {seed}, life {life}, died at write {deadly}");
            crawl.check();
            crawl.disk.kill();
        }
    }
}

#[test]
fn a_crawl_that_dies_at_each_write_in_turn_goes_on() {
    for deadly in 1..200 {
        let mut crawl = Crawl {
            disk: Disk::new(),
            chance: Chance(99),
            now: 0,
            safe: BTreeSet::new(),
            stored: BTreeMap::new(),
        };
        crawl.disk.fail_after(deadly);
        let _died_or_closed = crawl.run();
        crawl.disk.crash(deadly);
        eprintln!("died at write {deadly}");
        crawl.check();
    }
}
