//! Does anything grow that should not?
//!
//! An hour at full speed before an endless web. After the first quarter the tables of the crawler
//! have the size that their settings allow; from then on its memory may move by a twentieth, and
//! its open files and threads not at all. Memory goes up and down within a minute, as new rows
//! gather and become files; so what is compared is its mean of five minutes each.

use std::fs;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::{Bench, TIME_LIMIT_EXIT};
use crate::args::{Args, usage};
use crate::repo::{self, Repo};

const MINUTES: u64 = 60;
const HOSTS: u64 = 2_000;
/// Between two looks.
const EVERY: Duration = Duration::from_secs(10);
/// The part of the run that is warm-up.
const WARM_UP: usize = 4;
/// Looks of which the mean is taken: five minutes.
const SPAN: usize = 30;
/// How far such a mean may be from their median afterwards.
const DRIFT_MAX: f64 = 0.05;

pub fn run(repo: &Repo, mut args: Args) -> Result<()> {
    let minutes = args.number("--minutes")?.unwrap_or(MINUTES);
    args.end()?;
    if minutes == 0 {
        return Err(usage("--minutes must be at least 1"));
    }
    let bench = Bench::prepare(repo)?;
    let hosts = HOSTS.to_string();
    let web = bench.serve(&["--hosts", &hosts, "--endless", "--https", "0"], HOSTS)?;
    let mut command = bench.crawler(&web, HOSTS)?;
    command.args(["--delay", "0s", "--ip-delay", "0s", "--depth", "1000"]);
    // Small enough to be full after the warm-up; the archive would fill the disk.
    command.args(["-s", "store.recent_max=16MiB", "-s", "store.cache_max=16MiB"]);
    command.args(["-s", "duplicates.cache_max=8MiB", "-s", "archive.enabled=false"]);
    command.args(["-s", "politeness.host_pages_max=0", "-s", "politeness.domain_pages_max=0"]);
    command.args(["--time-limit", &format!("{minutes}m")]);
    println!("── soak: {}", repo::line_of(&command));
    let mut child = command.spawn().context("start the crawl")?;
    let looks = watch(&mut child)?;
    web.stop_unread()?;
    let warm = looks.get(looks.len() / WARM_UP..).unwrap_or_default();
    let settled = Settled::of(warm).context("the crawl was over before it had warmed up")?;
    println!();
    println!("looks after the warm-up      {}", warm.len());
    let megabytes = |(least, most): (u64, u64)| format!("{} to {} MB", mb(least), mb(most));
    println!("RSS, single looks            {}", megabytes(settled.rss));
    let median = settled.mean_median;
    println!("RSS, means of five minutes   {}, median {}", megabytes(settled.means), mb(median));
    println!("open files                   {} to {}", settled.files.0, settled.files.1);
    println!("threads                      {} to {}", settled.threads.0, settled.threads.1);
    let drift = |value: u64| (value as f64 / median as f64 - 1.0).abs();
    if drift(settled.means.0).max(drift(settled.means.1)) > DRIFT_MAX {
        bail!("memory moved by more than {:.0} %", DRIFT_MAX * 100.0);
    }
    if settled.leaks {
        bail!("open files or threads became more and more");
    }
    Ok(())
}

fn mb(bytes: u64) -> u64 {
    bytes.div_ceil(1_000_000)
}

/// What a process holds at one moment.
#[derive(Debug, Clone, Copy)]
struct Look {
    rss: u64,
    files: usize,
    threads: usize,
}

fn watch(child: &mut Child) -> Result<Vec<Look>> {
    let mut looks: Vec<Look> = Vec::new();
    let mut next = Instant::now() + EVERY;
    loop {
        if let Some(status) = child.try_wait().context("wait for the crawl")? {
            if status.code() != Some(TIME_LIMIT_EXIT) {
                bail!("the crawl ended with {status}");
            }
            // The last look may have met it while it was closing.
            looks.pop();
            return Ok(looks);
        }
        if Instant::now() >= next {
            next += EVERY;
            if let Some(look) = Look::at(child.id()) {
                println!("{:>5} MB, {} files, {} threads", mb(look.rss), look.files, look.threads);
                looks.push(look);
            }
        }
        // Another process is at work; it is looked at now and then.
        std::thread::sleep(Duration::from_millis(200));
    }
}

impl Look {
    fn at(process: u32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        Some(Self {
            rss: number("VmRSS:")? * 1024,
            files: fs::read_dir(format!("/proc/{process}/fd")).ok()?.count(),
            threads: number("Threads:")? as usize,
        })
    }
}

/// What the looks after the warm-up come to.
#[derive(Debug)]
struct Settled {
    rss: (u64, u64),
    means: (u64, u64),
    mean_median: u64,
    files: (usize, usize),
    threads: (usize, usize),
    leaks: bool,
}

impl Settled {
    fn of(looks: &[Look]) -> Option<Self> {
        let range = |value: fn(&Look) -> usize| {
            Some((looks.iter().map(value).min()?, looks.iter().map(value).max()?))
        };
        let rss = |looks: &[Look]| looks.iter().map(|look| look.rss).collect::<Vec<_>>();
        let mean = |span: &[Look]| rss(span).iter().sum::<u64>() / SPAN as u64;
        let mut means: Vec<u64> = looks.chunks_exact(SPAN).map(mean).collect();
        means.sort_unstable();
        // What leaks is never again as low as it was: the last third lies above the first.
        let third = looks.len() / 3;
        let grows = |value: fn(&Look) -> usize| {
            let most = looks[..third].iter().map(value).max();
            let least = looks[looks.len() - third..].iter().map(value).min();
            third > 0 && least > most
        };
        Some(Self {
            rss: (*rss(looks).iter().min()?, *rss(looks).iter().max()?),
            means: (*means.first()?, *means.last()?),
            mean_median: means[means.len() / 2],
            files: range(|look| look.files)?,
            threads: range(|look| look.threads)?,
            leaks: grows(|look| look.files) || grows(|look| look.threads),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_ever_grows_is_a_leak_and_what_goes_up_and_down_is_none() {
        let look = |files| Look { rss: 100 + files as u64, files, threads: 9 };
        let leak: Vec<_> = (0..30).map(look).collect();
        assert!(Settled::of(&leak).unwrap().leaks);
        let waves: Vec<_> = (0..30).map(|n| look(n % 7)).collect();
        let settled = Settled::of(&waves).unwrap();
        assert!(!settled.leaks);
        assert_eq!((settled.files, settled.threads, settled.rss), ((0, 6), (9, 9), (100, 106)));
        assert_eq!((settled.means, settled.mean_median), ((102, 102), 102));
        assert!(Settled::of(&[]).is_none());
    }
}
