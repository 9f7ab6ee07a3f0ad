//! What does it cost to fetch a page, beside the least that it could cost?
//!
//! `crates/fetch/examples/cost/` fetches the same pages by our fetcher and by bare hyper, in turns and
//! in one process, from a server in another; it says what each page took of the CPU, and fails if ours
//! takes more than one and a half times as much.

use std::process::Command;

use anyhow::Result;

use super::PROFILE;
use crate::args::Args;
use crate::repo::{self, Repo};

const PAGES: u64 = 200_000;

pub fn run(repo: &Repo, mut args: Args) -> Result<()> {
    let pages = args.number("--pages")?.unwrap_or(PAGES);
    args.end()?;
    let mut build = repo.cargo();
    build.args(["build", "--profile", PROFILE, "-p", "lycosa-fetch", "--example", "cost"]);
    repo::run(&mut build)?;
    let cost = repo.target.join(PROFILE).join("examples/cost");
    repo::run(Command::new(cost).arg(pages.to_string()))
}
