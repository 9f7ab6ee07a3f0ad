//! The fuzzer, at length.
//!
//! The hunts themselves are tests: `crates/fuzz/tests/fuzz.rs`, and for the settings, which only the
//! binary sees, `crates/lycosa/src/settings/fuzz.rs`. They read their time, their seed and which
//! target to hunt from the environment; the size for every day is in the targets. Not in the release
//! profile: the everyday one is optimized too, and its overflow checks find what panics alone do
//! not.

use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};

use crate::args::{self, Args};
use crate::repo::{self, Repo};

/// Where each target's hunt is: `--package`, and which of its tests.
const TARGETS: [(&str, &[&str]); 13] = [
    ("canonical", FUZZ),
    ("links", FUZZ),
    ("prints", FUZZ),
    ("extract", FUZZ),
    ("pdf", FUZZ),
    ("office", FUZZ),
    ("image", FUZZ),
    ("data", FUZZ),
    ("record", FUZZ),
    ("robots", FUZZ),
    ("sitemap", FUZZ),
    ("warc", FUZZ),
    ("settings", &["lycosa", "--bin", "lycosa", "settings::fuzz::"]),
];
const FUZZ: &[&str] = &["lycosa-fuzz", "--test", "fuzz"];

/// A target's time in a run that names none.
const SECONDS: u64 = 600;

pub fn run(repo: &Repo, mut args: Args) -> Result<()> {
    let only = args.text("--target")?;
    let seconds = args.number("--seconds")?.unwrap_or(SECONDS);
    let seed = match args.number("--seed")? {
        Some(seed) => seed,
        None => fresh_seed()?,
    };
    args.end()?;
    let wanted: Vec<_> = TARGETS
        .iter()
        .filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name))
        .collect();
    if wanted.is_empty() {
        let names = TARGETS.map(|(name, _)| name).join(", ");
        return Err(args::usage(format!("--target wants one of {names}")));
    }
    let mut failed = Vec::new();
    for (name, test) in wanted {
        println!("── {name}: {seconds} s from seed {seed:#x}");
        let mut cargo = repo.cargo();
        cargo.args(["test", "--quiet", "--package"]).args(*test).args(["--", "--nocapture"]);
        cargo.env("LYCOSA_FUZZ_TARGET", name).env("LYCOSA_FUZZ_SEED", seed.to_string());
        cargo.env("LYCOSA_FUZZ_SECONDS", seconds.to_string());
        // One that is broken must not keep the others from their hunt.
        if let Err(error) = repo::run(&mut cargo) {
            eprintln!("{name}: {error:#}");
            failed.push(*name);
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("broken: {}", failed.join(", ")),
    }
}

/// Every run begins somewhere else. The upper half is left empty: such a seed is easier to type.
fn fresh_seed() -> Result<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("ask the clock")?;
    Ok((now.as_nanos() as u64 ^ u64::from(process::id()) << 16) & 0xFFFF_FFFF)
}
