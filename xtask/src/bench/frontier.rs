//! What do a hundred million URLs cost?
//!
//! The store of one shard, filled by a process of its own inside a memory limit that counts the
//! files it reads and writes too, killed when it is full, and opened again; then the frontier's
//! leases. The programs are `crates/local/examples/frontier` and `crates/frontier/examples/leases`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::args::{Args, usage};
use crate::repo::{self, Repo};

const URLS: u64 = 100_000_000;
const URLS_PER_HOST: u64 = 100;
/// Megabytes of memory, page cache included.
const MEMORY_MB: u64 = 2_000;
/// The settings of the store that differ for so large a crawl, and their defaults.
const RECENT_MIB: u64 = 256;
const CACHE_MIB: u64 = 64;
/// What the program says when it may be killed.
const FILLED: &str = "filled";
/// Bytes of disk that a URL may take while the store is merged, to be free beforehand.
const DISK_PER_URL: u64 = 250;

pub fn run(repo: &Repo, mut args: Args) -> Result<()> {
    let urls = args.number("--urls")?.unwrap_or(URLS);
    let hosts = args.number("--hosts")?.unwrap_or(urls / URLS_PER_HOST).max(1);
    let memory = args.number("--memory-mb")?.unwrap_or(MEMORY_MB);
    let recent = args.number("--recent-mib")?.unwrap_or(RECENT_MIB).to_string();
    let cache = args.number("--cache-mib")?.unwrap_or(CACHE_MIB).to_string();
    let engine = if args.flag("--rocksdb") { "rocksdb" } else { "fjall" };
    args.end()?;
    let mut build = repo.cargo();
    build.args(["build", "--release", "-p", "lycosa-local", "-p", "lycosa-frontier", "--examples"]);
    if engine == "rocksdb" {
        build.args(["--features", "lycosa-local/rocksdb"]);
    }
    repo::run(&mut build)?;
    let programs = repo.target.join("release/examples");
    repo::run(&mut Command::new(programs.join("leases")))?;

    let folder = repo.target.join("bench-frontier");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("clear the folder of the last bench")?;
    }
    fs::create_dir_all(&folder).context("make a folder for the bench")?;
    check_room(&folder, urls)?;
    let limit = Limit::new(memory * 1_000_000);
    let state = folder.join("state");
    let fill = |words: &[&str]| {
        let mut command = limit.command(&programs.join("frontier"));
        command.args(words);
        command
    };
    let (engine, state) = (engine, state.to_str().context("a path that is text")?);
    println!(
        "── {engine}: {urls} URLs of {hosts} hosts; store.recent_max {recent} MiB, \
         store.cache_max {cache} MiB; memory: {}",
        limit.words()
    );
    let (urls, hosts) = (urls.to_string(), hosts.to_string());
    fill_and_kill(&mut fill(&["fill", engine, state, &urls, &hosts, &recent, &cache]))?;
    limit.drop_caches();
    repo::run(&mut fill(&["open", engine, state, &cache]))?;
    println!("most memory in use, files included: {}", limit.peak());
    fs::remove_dir_all(&folder).context("clear the folder of the bench")
}

/// Runs until it says that it is done, then kills it as nothing can be killed more.
fn fill_and_kill(command: &mut Command) -> Result<()> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("start the store")?;
    let out = child.stdout.take().context("hear the store")?;
    for line in BufReader::new(out).lines() {
        let line = line.context("hear the store")?;
        if line == FILLED {
            child.kill().context("kill the store")?;
            child.wait().context("wait for the store")?;
            return Ok(());
        }
        println!("{line}");
    }
    bail!("the store ended with {}", child.wait().context("wait for the store")?)
}

fn check_room(folder: &Path, urls: u64) -> Result<()> {
    let df = Command::new("df").args(["-B1", "--output=avail"]).arg(folder).output();
    let df = df.context("ask for free disk with df")?;
    let text = String::from_utf8_lossy(&df.stdout);
    let free: u64 = text.lines().nth(1).and_then(|line| line.trim().parse().ok()).unwrap_or(0);
    let needed = urls * DISK_PER_URL;
    if free < needed {
        let gb = |bytes: u64| bytes / 1_000_000_000;
        return Err(usage(format!(
            "{} GB of disk are free in {}, some {} GB are needed; try fewer --urls",
            gb(free),
            folder.display(),
            gb(needed)
        )));
    }
    Ok(())
}

/// A memory limit by control groups, version 1 or 2, where we may make one.
#[derive(Debug)]
struct Limit {
    group: Option<Group>,
}

#[derive(Debug)]
struct Group {
    folder: PathBuf,
    bytes: u64,
    peak: &'static str,
}

impl Limit {
    fn new(bytes: u64) -> Self {
        let versions = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
            ("/sys/fs/cgroup", "memory.max", "memory.peak"),
        ];
        for (root, limit, peak) in versions {
            let folder = Path::new(root).join(format!("lycosa-bench-{}", std::process::id()));
            let made = Path::new(root).exists() && fs::create_dir(&folder).is_ok();
            if made && fs::write(folder.join(limit), bytes.to_string()).is_ok() {
                return Self { group: Some(Group { folder, bytes, peak }) };
            }
        }
        Self { group: None }
    }

    fn words(&self) -> String {
        match &self.group {
            Some(group) => format!("{} MB, page cache included", group.bytes / 1_000_000),
            None => "NOT LIMITED (no control group could be made; be root)".to_owned(),
        }
    }

    /// The program, inside of the limit.
    fn command(&self, program: &Path) -> Command {
        let Some(group) = &self.group else { return Command::new(program) };
        let mut shell = Command::new("sh");
        let enter = r#"echo $$ > "$1/cgroup.procs"; shift; exec "$@""#;
        shell.args(["-c", enter, "enter"]).arg(&group.folder).arg(program);
        shell
    }

    /// What the killed process has left in memory must not help the next.
    fn drop_caches(&self) {
        if let Err(error) = fs::write("/proc/sys/vm/drop_caches", "3") {
            println!("(caches are warm: {error})");
        }
    }

    fn peak(&self) -> String {
        let text = self.group.as_ref().and_then(|group| {
            let text = fs::read_to_string(group.folder.join(group.peak)).ok()?;
            let bytes: u64 = text.trim().parse().ok()?;
            Some(format!("{} MB", bytes / 1_000_000))
        });
        text.unwrap_or_else(|| "unknown".to_owned())
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        if let Some(group) = &self.group
            && let Err(error) = fs::remove_dir(&group.folder)
        {
            eprintln!("{} stays: {error}", group.folder.display());
        }
    }
}
