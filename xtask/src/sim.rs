//! The simulation of the whole engine, at length.
//!
//! The test itself is `crates/engine/tests/sim.rs`; it reads how many seeds to run, and from where,
//! out of the environment. The size for every day is in the test; this is the size for a night.

use std::process::Command;

use anyhow::Result;

use crate::args::Args;
use crate::repo::{self, Repo};

/// How many seeds the test runs.
pub const SEEDS: &str = "LYCOSA_SIM_SEEDS";
/// The first of them.
pub const FROM: &str = "LYCOSA_SIM_FROM";

const SEEDS_LONG: u64 = 10_000;

pub fn run(repo: &Repo, mut args: Args) -> Result<()> {
    let seeds = args.number("--seeds")?.unwrap_or(SEEDS_LONG);
    let from = args.number("--from")?.unwrap_or(0);
    args.end()?;
    let mut cargo = repo.cargo();
    test(&mut cargo).args(["--", "--nocapture"]);
    repo::run(cargo.env(SEEDS, seeds.to_string()).env(FROM, from.to_string()))
}

/// The words that run the test, or build it.
pub fn test(cargo: &mut Command) -> &mut Command {
    cargo.args(["test", "--release", "--package", "lycosa-engine", "--test", "sim"])
}
