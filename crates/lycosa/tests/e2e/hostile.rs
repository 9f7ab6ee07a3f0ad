//! What do hostile hosts take from honest ones?
//!
//! The same honest hosts are crawled twice with the same pauses, alone and among hosts that do harm
//! (`simweb::crowd`), by the real binary over sockets. What the honest ones were asked is counted by
//! the servers; memory and open files are looked at from outside while the crawl goes on. The size
//! for every day is here; `cargo xtask hostile` has two thousand hostile hosts beside five hundred.

use std::time::{Duration, Instant};

use simweb::Crowd;

use crate::common::Site;
use crate::world::number;

/// What a process holds at one moment.
#[derive(Debug, Clone, Copy)]
struct Look {
    rss_bytes: u64,
    files: usize,
}

impl Look {
    fn at(process: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).ok()?.count();
        Some(Self { rss_bytes: kib * 1024, files })
    }
}

/// What one crawl came to.
struct Run {
    /// Pages of honest hosts, after everybody has had time to wake up.
    honest: usize,
    looks: Vec<Look>,
    hostile_asked: usize,
}

fn crawl(honest: u64, hostile: u64, seconds: u64, delay: &str) -> Run {
    let site = Site::crowd(Crowd::new(honest, hostile));
    let seeds = site.path().join("seeds.txt");
    std::fs::write(&seeds, site.ready.seed_urls.join("\n")).expect("there is room");
    let mut command = crate::common::lycosa(site.path());
    command.args(["crawl", "-o", "crawl", "-l"]).arg(&seeds);
    command.args(["--scope", "any", "--depth", "1000", "--quiet", "--delay", delay]);
    command.args(["--ip-delay", "0s", "--time-limit", &format!("{seconds}s")]);
    // A place for every host: what is asked is what they take from each other, not who is first.
    command.args(["-c", &(honest + hostile).to_string()]).args(site.flags());
    let mut child = command.spawn().expect("it starts");
    let mut looks = Vec::new();
    let status = loop {
        looks.extend(Look::at(child.id()));
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            break status;
        }
        // Another process is at work; it is looked at now and then.
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(status.code(), Some(15), "its time limit ends it");
    let entries = site.journal();
    let first = entries.iter().map(|entry| entry.arrived).min().expect("somebody was asked");
    let awake = first + Duration::from_secs(seconds / 4);
    let of = |kind: &str| entries.iter().filter(|entry| entry.host.starts_with(kind)).count();
    let honest = |entry: &&simweb::Entry| entry.host.starts_with("good") && entry.arrived >= awake;
    Run { honest: entries.iter().filter(honest).count(), looks, hostile_asked: of("bad") }
}

#[test]
fn hostile_hosts_take_nothing_from_honest_ones() {
    let hostile = number("LYCOSA_HOSTILE_HOSTS", 100);
    let honest = number("LYCOSA_HOSTILE_HONEST", 25);
    let seconds = number("LYCOSA_HOSTILE_SECONDS", 12);
    let large = hostile >= 1_000;
    let delay = if large { "1s" } else { "200ms" };
    let begun = Instant::now();
    let alone = crawl(honest, 0, seconds, delay);
    let among = crawl(honest, hostile, seconds, delay);
    let loss = 1.0 - among.honest as f64 / alone.honest as f64;
    let rss = among.looks.iter().map(|look| look.rss_bytes).max().expect("it was looked at");
    let files: Vec<usize> = among.looks.iter().map(|look| look.files).collect();
    let most_files = files.iter().copied().max().expect("it was looked at");
    println!(
        "{honest} honest hosts: {} pages alone, {} among {hostile} hostile ones ({:.1} % fewer), which \
         were asked {} times; RSS at most {:.0} MB, {most_files} open files; {:.0} s",
        alone.honest,
        among.honest,
        loss * 100.0,
        among.hostile_asked,
        rss as f64 / 1e6,
        begun.elapsed().as_secs_f64()
    );
    assert!(among.hostile_asked as u64 >= hostile, "not everybody had a chance to do harm");
    assert!(alone.honest as u64 >= honest * seconds / 4, "the honest ones were hardly asked");
    assert!(rss <= 1_000_000_000, "{rss} bytes");
    if !large {
        // Every day other tests take the machine as they like, and few hosts are few beside what a
        // crawl has open anyway: pace and files are judged at the long size.
        return;
    }
    assert!(loss <= 0.05, "the honest ones have lost {:.1} %", loss * 100.0);
    // Nobody has two connections, and what was opened is closed again: the end of the run holds no
    // more than its beginning did.
    let beside = 200;
    assert!(most_files as u64 <= honest + hostile + beside, "{most_files} files");
    let third = files.len() / 3;
    let (begins, ends) = (&files[third / 2..third], &files[files.len() - third..files.len() - 2]);
    assert!(ends.iter().min() <= begins.iter().max(), "open files grow: {files:?}");
}
