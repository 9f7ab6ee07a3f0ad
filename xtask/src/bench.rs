//! What does a page cost?
//!
//! A simulated web in a process of its own, and the crawler before it, measured from outside: CPU
//! of the crawler's process alone, its memory, its state. What was fetched is counted in the web's
//! own journal. `crawl` goes as fast as it can, beside two limits: the same pages fetched and
//! dropped, and fetched and looked through for links. `polite` keeps the usual pauses and asks how
//! much of the possible rate was reached. `fetch` sets our fetcher beside bare hyper, `frontier`
//! fills a store with a hundred million URLs, `hosts` asks what many hosts cost, `neardup` how well
//! copies are found, `service` how fast others are served, `soak` whether anything grows in an hour.

mod fetch;
mod frontier;
mod hosts;
mod measure;
mod neardup;
mod service;
mod soak;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::args::{Args, usage};
use crate::repo::{self, Repo};
use measure::Cost;

const BENCHES: &str = "crawl, polite, extract, fetch, frontier, hosts, neardup, service or soak";
const HOSTS: u64 = 2_000;
const PAGES: u64 = 60_000;
/// How long `polite` runs, and what is left out of its count while all hosts wake up.
const POLITE_SECONDS: u64 = 90;
const WARM_UP_SECONDS: u64 = 30;
/// Exit code of a crawl that has reached its time limit.
const TIME_LIMIT_EXIT: i32 = 15;

pub fn run(repo: &Repo, mut args: Args) -> Result<()> {
    let which = args.word();
    match which.as_deref() {
        Some("extract") => return crate::content::bench(repo, args),
        Some("fetch") => return fetch::run(repo, args),
        Some("frontier") => return frontier::run(repo, args),
        Some("hosts") => return hosts::run(repo, args),
        Some("service") => return service::run(repo, args),
        Some("neardup") => return neardup::run(repo, args),
        Some("soak") => return soak::run(repo, args),
        _ => {}
    }
    let hosts = args.number("--hosts")?.unwrap_or(HOSTS);
    match which.as_deref() {
        Some("crawl") => {
            let pages = args.number("--pages")?.unwrap_or(PAGES);
            args.end()?;
            crawl(&Bench::prepare(repo)?, hosts, pages)
        }
        Some("polite") => {
            let seconds = args.number("--seconds")?.unwrap_or(POLITE_SECONDS);
            args.end()?;
            if seconds <= WARM_UP_SECONDS {
                return Err(usage(format!("--seconds must be more than {WARM_UP_SECONDS}")));
            }
            polite(&Bench::prepare(repo)?, hosts, seconds)
        }
        Some(other) => Err(usage(format!("there is no bench `{other}`; try {BENCHES}"))),
        None => Err(usage(format!("which bench? {BENCHES}"))),
    }
}

fn crawl(bench: &Bench, hosts: u64, pages: u64) -> Result<()> {
    let (hosts, pages) = (hosts.to_string(), pages.to_string());
    let world = ["--hosts", &hosts, "--pages", &pages, "--links", "40", "--https", "0"];
    let web = bench.serve(&world, HOSTS)?;
    let mut command = bench.crawler(&web, 1)?;
    // The tree of the simulated web is deeper than a crawl goes by default.
    command.args(["--delay", "0s", "--ip-delay", "0s", "--depth", "1000"]);
    let cost = bench.measure("crawl, everything on", &mut command, 0)?;
    let entries = web.stop()?;
    let urls: Vec<String> = entries.iter().filter(|entry| !entry.robots).map(|e| e.url()).collect();
    let known = bench.known_urls()?;
    let state = measure::bytes_below(&bench.folder.join("crawl/state"))?;

    // The same web again, on the same port: the URLs name it.
    let port = entries.first().context("the crawl has fetched nothing")?.port.to_string();
    let web = bench.serve(&[&world[..], &["--http-port", &port]].concat(), HOSTS)?;
    let list = bench.folder.join("urls.txt");
    repo::write(&list, &(urls.join("\n") + "\n"))?;
    let limits = bench.target.join(PROFILE).join("examples/limits");
    let limit = |what: &str, mode: &str| {
        let input = fs::File::open(&list).context("open the list of URLs")?;
        bench.measure(what, Command::new(&limits).arg(mode).stdin(input), 0)
    };
    let fetch = limit("limit: fetch only", "fetch")?;
    let scan = limit("limit: fetch and link scan", "scan")?;
    web.stop()?;

    let count = urls.len() as f64;
    let rate = |cost: &Cost| count / cost.cpu_seconds;
    println!();
    println!("pages                        {}", urls.len());
    println!("pages per CPU-second         {:.0}", rate(&cost));
    println!("  limit: fetch only          {:.0}", rate(&fetch));
    println!("  limit: fetch + link scan   {:.0}", rate(&scan));
    println!(
        "CPU of the crawler           {:.2} s in {:.1} s",
        cost.cpu_seconds, cost.wall_seconds
    );
    println!("RSS at most                  {:.0} MB", cost.rss_bytes_max as f64 / 1e6);
    println!("URLs known                   {known}");
    println!("state bytes a URL            {:.0}", state as f64 / known.max(1) as f64);
    Ok(())
}

fn polite(bench: &Bench, hosts: u64, seconds: u64) -> Result<()> {
    let count = hosts.to_string();
    let web = bench
        .serve(&["--hosts", &count, "--endless", "--https", "0", "--robots-rules", "0"], HOSTS)?;
    let mut command = bench.crawler(&web, hosts)?;
    command.args(["--time-limit", &format!("{seconds}s")]);
    let cost = bench.measure("polite crawl", &mut command, TIME_LIMIT_EXIT)?;
    let entries = web.stop()?;
    let pace = Pace::of(&entries, 1.0)?;
    println!();
    println!("requests after the warm-up   {}", pace.requests);
    println!(
        "reached                      {:.1} % of the sum of 1/(delay + answer time)",
        pace.share * 100.0
    );
    println!("shortest pause of a host     {:.3} s", pace.gap_min);
    println!(
        "CPU of the crawler           {:.2} s in {:.1} s",
        cost.cpu_seconds, cost.wall_seconds
    );
    println!("RSS at most                  {:.0} MB", cost.rss_bytes_max as f64 / 1e6);
    if pace.gap_min < 1.0 {
        bail!("a pause was shorter than the delay of 1 s");
    }
    Ok(())
}

/// What the journal says of the pace of a crawl.
#[derive(Debug)]
struct Pace {
    requests: usize,
    share: f64,
    gap_min: f64,
}

impl Pace {
    fn of(entries: &[Entry], delay: f64) -> Result<Self> {
        let first = entries.iter().map(|entry| entry.arrived).fold(f64::MAX, f64::min);
        let last = entries.iter().map(|entry| entry.arrived).fold(f64::MIN, f64::max);
        let begin = first + WARM_UP_SECONDS as f64;
        if last <= begin {
            bail!("the crawl was over before it had warmed up");
        }
        let mut hosts: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
        for entry in entries {
            hosts.entry(&entry.host).or_default().push(entry);
        }
        let mut pace = Self { requests: 0, share: 0.0, gap_min: f64::MAX };
        let mut possible = 0.0;
        for entries in hosts.values_mut() {
            entries.sort_by(|a, b| a.arrived.total_cmp(&b.arrived));
            for pair in entries.windows(2) {
                pace.gap_min = pace.gap_min.min(pair[1].arrived - pair[0].ended);
            }
            let taken: f64 = entries.iter().map(|entry| entry.ended - entry.arrived).sum();
            possible += (last - begin) / (delay + taken / entries.len() as f64);
            pace.requests += entries.iter().filter(|entry| entry.arrived >= begin).count();
        }
        pace.share = pace.requests as f64 / possible;
        Ok(pace)
    }
}

/// The binary as it is handed out.
const PROFILE: &str = "dist";

/// Binaries, and a folder for what they write.
struct Bench {
    target: PathBuf,
    folder: PathBuf,
}

impl Bench {
    fn prepare(repo: &Repo) -> Result<Self> {
        // In one go: features of dependencies are the same for all, and built once.
        let mut build = repo.cargo();
        build.args([
            "build",
            "--profile",
            PROFILE,
            "-p",
            "lycosa",
            "-p",
            "lycosa-simweb",
            "-p",
            "xtask",
        ]);
        repo::run(build.args(["--bins", "--example", "limits"]))?;
        let folder = repo.target.join("bench");
        if folder.exists() {
            fs::remove_dir_all(&folder).context("clear the folder of the last bench")?;
        }
        fs::create_dir_all(&folder).context("make a folder for the bench")?;
        Ok(Self { target: repo.target.clone(), folder })
    }

    fn serve(&self, world: &[&str], seeds: u64) -> Result<SimWeb> {
        let journal = self.folder.join("journal.jsonl");
        let mut command = Command::new(self.target.join(PROFILE).join("simweb"));
        command.arg("serve").args(world).arg("--journal").arg(&journal);
        command.arg("--ca-dir").arg(&self.folder).args(["--seeds", &seeds.to_string()]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the simulated web")?;
        let mut line = String::new();
        let out = child.stdout.take().context("hear the simulated web")?;
        BufReader::new(out).read_line(&mut line).context("hear the simulated web")?;
        let ready: Value = serde_json::from_str(&line).context("the simulated web is not ready")?;
        Ok(SimWeb { child, ready, journal })
    }

    /// The crawler with nothing but what it needs to find the web. Deviations are the caller's.
    fn crawler(&self, web: &SimWeb, seeds: u64) -> Result<Command> {
        let list = self.folder.join("seeds.txt");
        let urls = web.ready["seed_urls"].as_array().context("the web names no seeds")?;
        let urls = urls.iter().filter_map(Value::as_str).take(seeds as usize);
        let text: String = urls.flat_map(|url| [url, "\n"]).collect();
        repo::write(&list, &text)?;
        let dns = web.ready["dns"].as_str().context("the web names no DNS")?;
        let crawl = self.folder.join("crawl");
        if crawl.exists() {
            fs::remove_dir_all(&crawl).context("clear the crawl before")?;
        }
        let mut command = Command::new(self.target.join(PROFILE).join("lycosa"));
        command.arg("crawl").arg("-l").arg(&list).arg("-o").arg(crawl);
        command.args(["--scope", "any", "--allow-net", "127.0.0.0/8", "--dns", dns, "--quiet"]);
        Ok(command)
    }

    fn measure(&self, what: &str, command: &mut Command, exit: i32) -> Result<Cost> {
        println!("── {what}: {}", repo::line_of(command));
        let (status, cost) = measure::run(command)?;
        if status.code() != Some(exit) {
            bail!("{what} ended with {status}");
        }
        println!("── {what}: {:.2} s of CPU, {:.1} s", cost.cpu_seconds, cost.wall_seconds);
        Ok(cost)
    }

    fn known_urls(&self) -> Result<u64> {
        let report = repo::read(&self.folder.join("crawl/report.json"))?;
        let report: Value = serde_json::from_str(&report).context("parse report.json")?;
        report["totals"]["known"].as_u64().context("report.json does not say how many are known")
    }
}

/// A web that is being served.
struct SimWeb {
    child: Child,
    ready: Value,
    journal: PathBuf,
}

impl SimWeb {
    /// Ends it, and reads its journal.
    fn stop(mut self) -> Result<Vec<Entry>> {
        self.end()?;
        read_journal(&self.journal)
    }

    /// Ends it. Its journal may be too long to be read.
    fn stop_unread(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        // It serves until its standard input ends.
        drop(self.child.stdin.take());
        let status = self.child.wait().context("end the simulated web")?;
        if !status.success() {
            bail!("the simulated web ended with {status}");
        }
        Ok(())
    }
}

impl Drop for SimWeb {
    fn drop(&mut self) {
        // One that was stopped in good order is gone already, and that is no error.
        if let Err(error) = self.child.kill() {
            eprintln!("the simulated web could not be ended: {error}");
        }
    }
}

/// One request as the server saw it; times in seconds.
#[derive(Debug, Clone)]
struct Entry {
    arrived: f64,
    ended: f64,
    host: String,
    port: u64,
    path: String,
    robots: bool,
}

impl Entry {
    fn url(&self) -> String {
        format!("http://{}:{}{}", self.host, self.port, self.path)
    }
}

fn read_journal(path: &Path) -> Result<Vec<Entry>> {
    let file = fs::File::open(path).with_context(|| format!("read {}", path.display()))?;
    let mut entries = Vec::new();
    for line in BufReader::new(file).lines() {
        let line: Value = serde_json::from_str(&line.context("read the journal")?)
            .context("parse a line of the journal")?;
        entries.push(read_entry(&line).context("a line of the journal is not one")?);
    }
    Ok(entries)
}

/// Times in the journal are microseconds.
fn read_entry(line: &Value) -> Option<Entry> {
    let seconds = |name: &str| line[name].as_u64().map(|micros| micros as f64 / 1e6);
    let path = line["path"].as_str()?.to_owned();
    Some(Entry {
        arrived: seconds("arrived")?,
        ended: seconds("ended").or(seconds("arrived"))?,
        host: line["host"].as_str()?.to_owned(),
        port: line["port"].as_u64()?,
        robots: path == "/robots.txt",
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(host: &str, arrived: f64, took: f64) -> Entry {
        Entry {
            arrived,
            ended: arrived + took,
            host: host.to_owned(),
            port: 80,
            path: "/".to_owned(),
            robots: false,
        }
    }

    #[test]
    fn the_pace_is_what_the_journal_says() {
        // Two hosts that answer in a quarter of a second, visited every 1.25 s: all that is possible.
        let visits = (0..80).map(|n| f64::from(n) * 1.25);
        let entries: Vec<_> =
            visits.flat_map(|at| [entry("a", at, 0.25), entry("b", at, 0.25)]).collect();
        let pace = Pace::of(&entries, 1.0).unwrap();
        assert!((pace.share - 1.0).abs() < 0.05, "{pace:?}");
        assert!((pace.gap_min - 1.0).abs() < 1e-6, "{pace:?}");
        assert!(Pace::of(&entries[..4], 1.0).is_err(), "it had no time to warm up");
    }

    #[test]
    fn a_line_of_the_journal_is_read() {
        let line = r#"{"arrived":2500000,"ended":3000000,"host":"a.test","port":8080,"path":"/x"}"#;
        let entry = read_entry(&serde_json::from_str(line).unwrap()).unwrap();
        assert_eq!((entry.arrived, entry.ended), (2.5, 3.0));
        assert_eq!(entry.url(), "http://a.test:8080/x");
        assert!(read_entry(&Value::Null).is_none());
    }
}
