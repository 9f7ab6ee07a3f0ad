//! How fast is the frontier as a service?
//!
//! The real binary with its defaults (every put is on the disk when it is acknowledged), and a
//! client that brings and fetches URLs over a few streams: `crates/service/examples/load.rs`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::PROFILE;
use crate::args::Args;
use crate::repo::{self, Repo};

const STREAMS: u64 = 4;
const URLS: u64 = 1_000_000;
/// Ten URLs each: a queue is served so many at once, and no more while they are held.
const QUEUES: u64 = 100_000;

pub fn run(repo: &Repo, mut args: Args) -> Result<()> {
    let streams = args.number("--streams")?.unwrap_or(STREAMS).to_string();
    let urls = args.number("--urls")?.unwrap_or(URLS).to_string();
    let queues = args.number("--queues")?.unwrap_or(QUEUES).to_string();
    args.end()?;
    for what in [["lycosa", "--bin", "lycosa"], ["lycosa-service", "--example", "load"]] {
        let mut build = repo.cargo();
        repo::run(build.args(["build", "--profile", PROFILE, "-p"]).args(what))?;
    }
    let folder = repo.target.join("bench");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("clear the folder of the last bench")?;
    }
    fs::create_dir_all(&folder).context("make a folder for the bench")?;
    let binaries = repo.target.join(PROFILE);
    let mut service = Command::new(binaries.join("lycosa"))
        .args(["frontier", "--listen", "127.0.0.1:0", "--json"])
        .arg(folder.join("queues"))
        .stdout(Stdio::piped())
        .spawn()
        .context("start the service")?;
    let mut line = String::new();
    let out = service.stdout.take().context("hear the service")?;
    BufReader::new(out).read_line(&mut line).context("hear the service")?;
    let said: Value = serde_json::from_str(&line).context("the service is not ready")?;
    let address = said["address"].as_str().context("the service has no address")?;
    let pid = service.id().to_string();
    let mut load = Command::new(binaries.join("examples/load"));
    let ran = repo::run(load.args([address, &pid, &streams, &urls, &queues]));
    service.kill().context("end the service")?;
    service.wait().context("end the service")?;
    ran
}
