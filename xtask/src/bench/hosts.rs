//! What do many hosts cost?
//!
//! The same number of pages a host, of 2,000 and of 100,000 hosts, as fast as it goes: a request
//! to one of many, robots.txt included, must cost little more CPU than one to one of few. Then a
//! million hosts, all of them seeds, with the usual pauses: what waits must not be in memory.

use anyhow::{Result, bail};

use super::{Bench, Cost, TIME_LIMIT_EXIT};
use crate::args::Args;
use crate::repo::Repo;

const FEW: u64 = 2_000;
const MANY: u64 = 100_000;
const PAGES_PER_HOST: u64 = 5;
const MILLION: u64 = 1_000_000;
const MILLION_SECONDS: u64 = 80;
/// What is asked for.
const RATIO_MAX: f64 = 1.5;
const RSS_BYTES_MAX: u64 = 1_000_000_000;

pub fn run(repo: &Repo, mut args: Args) -> Result<()> {
    let many = args.number("--hosts")?.unwrap_or(MANY);
    let million = args.number("--seeds")?.unwrap_or(MILLION);
    args.end()?;
    let bench = Bench::prepare(repo)?;
    let few = fast(&bench, FEW)?;
    let many = fast(&bench, many)?;
    let (rss, pages) = polite(&bench, million)?;
    println!();
    for (name, run) in [("few", &few), ("many", &many)] {
        println!(
            "{name:<5} {:>9} hosts   {:>8} requests, {:.0} µs of CPU each, RSS {:.0} MB",
            run.hosts,
            run.requests,
            run.micros(),
            run.cost.rss_bytes_max as f64 / 1e6
        );
    }
    let ratio = many.micros() / few.micros();
    println!("many / few              {ratio:.2} (at most {RATIO_MAX})");
    println!(
        "{million:>9} hosts as seeds {pages} requests in {MILLION_SECONDS} s, RSS {:.0} MB",
        rss as f64 / 1e6
    );
    if ratio > RATIO_MAX || rss > RSS_BYTES_MAX {
        bail!("many hosts cost too much");
    }
    Ok(())
}

struct Run {
    hosts: u64,
    requests: usize,
    cost: Cost,
}

impl Run {
    fn micros(&self) -> f64 {
        self.cost.cpu_seconds * 1e6 / self.requests as f64
    }
}

fn fast(bench: &Bench, hosts: u64) -> Result<Run> {
    let (count, pages) = (hosts.to_string(), (hosts * PAGES_PER_HOST).to_string());
    let world = ["--hosts", &count, "--pages", &pages, "--https", "0", "--hosts-per-address", "1"];
    let web = bench.serve(&world, hosts)?;
    let mut command = bench.crawler(&web, hosts)?;
    command.args(["--delay", "0s", "--ip-delay", "0s", "--depth", "1000"]);
    let cost = bench.measure(&format!("{hosts} hosts"), &mut command, 0)?;
    Ok(Run { hosts, requests: web.stop()?.len(), cost })
}

/// Answers the most memory and the number of requests.
fn polite(bench: &Bench, hosts: u64) -> Result<(u64, usize)> {
    let (count, pages) = (hosts.to_string(), (hosts * PAGES_PER_HOST).to_string());
    let world = ["--hosts", &count, "--pages", &pages, "--https", "0", "--hosts-per-address", "1"];
    let web = bench.serve(&world, hosts)?;
    let mut command = bench.crawler(&web, hosts)?;
    command.args(["-c", "2000", "--time-limit", &format!("{MILLION_SECONDS}s")]);
    let cost = bench.measure(&format!("{hosts} hosts, polite"), &mut command, TIME_LIMIT_EXIT)?;
    Ok((cost.rss_bytes_max, web.stop()?.len()))
}
