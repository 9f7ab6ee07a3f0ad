//! The heavy suites, at length.
//!
//! The tests themselves are `crates/lycosa/tests/e2e/kills.rs` and its neighbours,
//! `crates/local/tests/oracle.rs`, `crates/fetch/tests/dns.rs` and `crates/engine/tests/starve.rs`; they read their sizes from the
//! environment. The sizes for every day are in the tests; these are the sizes of a release.

use std::process::Command;

use anyhow::Result;

use crate::args::Args;
use crate::python;
use crate::repo::{self, Repo};

/// Kills at random and at each named point, and the size of the web.
pub fn kills(repo: &Repo, mut args: Args) -> Result<()> {
    let kills = args.number("--kills")?.unwrap_or(500);
    let pages = args.number("--pages")?.unwrap_or(50_000);
    args.end()?;
    let each = (kills / 50).max(5);
    let sizes =
        [("KILLS", kills), ("KILLS_EACH", each), ("KILLS_PAGES", pages), ("KILLS_HOSTS", 1_500)];
    run(repo, "kills::", &sizes)
}

/// The size that the release notes speak of.
pub fn world(repo: &Repo, mut args: Args) -> Result<()> {
    let hosts = args.number("--hosts")?.unwrap_or(500);
    let pages = args.number("--pages")?.unwrap_or(20_000);
    args.end()?;
    run(repo, "world::", &[("WORLD_HOSTS", hosts), ("WORLD_PAGES", pages)])
}

/// A world that has not changed, visited again.
pub fn again(repo: &Repo, mut args: Args) -> Result<()> {
    let hosts = args.number("--hosts")?.unwrap_or(100);
    let pages = args.number("--pages")?.unwrap_or(10_000);
    args.end()?;
    run(repo, "again::a_world", &[("AGAIN_HOSTS", hosts), ("AGAIN_PAGES", pages)])
}

/// Hostile hosts beside honest ones.
pub fn hostile(repo: &Repo, mut args: Args) -> Result<()> {
    let hosts = args.number("--hosts")?.unwrap_or(2_000);
    let honest = args.number("--honest")?.unwrap_or(500);
    let seconds = args.number("--seconds")?.unwrap_or(120);
    args.end()?;
    let sizes =
        [("HOSTILE_HOSTS", hosts), ("HOSTILE_HONEST", honest), ("HOSTILE_SECONDS", seconds)];
    run(repo, "hostile::", &sizes)
}

/// Names that links lead to.
pub fn names(repo: &Repo, mut args: Args) -> Result<()> {
    let names = args.number("--names")?.unwrap_or(100_000);
    args.end()?;
    of_crate(repo, "lycosa-fetch", "dns", &[("NAMES", names)])
}

/// URLs in one stream to the frontier as a service.
pub fn stream(repo: &Repo, mut args: Args) -> Result<()> {
    let urls = args.number("--urls")?.unwrap_or(1_000_000);
    args.end()?;
    run(repo, "frontier::a_long_stream", &[("STREAM_URLS", urls)])
}

/// URLs that the store is offered, and how often its process dies.
pub fn oracle(repo: &Repo, mut args: Args) -> Result<()> {
    let urls = args.number("--urls")?.unwrap_or(10_000_000);
    let kills = args.number("--kills")?.unwrap_or(300);
    args.end()?;
    let sizes = [("ORACLE_URLS", urls), ("ORACLE_KILLS", kills)];
    of_crate(repo, "lycosa-local", "oracle", &sizes)
}

/// Hosts, of which one in a thousand is a tarpit.
pub fn starve(repo: &Repo, mut args: Args) -> Result<()> {
    let hosts = args.number("--hosts")?.unwrap_or(10_000);
    args.end()?;
    of_crate(repo, "lycosa-engine", "starve", &[("STARVE_HOSTS", hosts)])
}

/// Points at which the disk fails.
pub fn faults(repo: &Repo, mut args: Args) -> Result<()> {
    let points = args.number("--points")?.unwrap_or(1_000);
    args.end()?;
    run(repo, "faults::", &[("FAULTS", points)])
}

fn run(repo: &Repo, tests: &str, sizes: &[(&str, u64)]) -> Result<()> {
    let mut cargo = repo.cargo();
    cargo.args(["test", "--release", "--package", "lycosa", "--features", "failpoints"]);
    cargo.args(["--test", "e2e", tests, "--", "--nocapture"]);
    cargo.env(python::VARIABLE, python::venv(repo)?);
    repo::run(sized(&mut cargo, sizes))
}

/// A suite of one crate.
fn of_crate(repo: &Repo, package: &str, suite: &str, sizes: &[(&str, u64)]) -> Result<()> {
    let mut cargo = repo.cargo();
    cargo.args(["test", "--release", "--package", package, "--test", suite, "--", "--nocapture"]);
    repo::run(sized(&mut cargo, sizes))
}

fn sized<'a>(cargo: &'a mut Command, sizes: &[(&str, u64)]) -> &'a mut Command {
    for (name, value) in sizes {
        cargo.env(format!("LYCOSA_{name}"), value.to_string());
    }
    cargo
}
