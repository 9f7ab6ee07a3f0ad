//! How well are near duplicates found, and how fast?
//!
//! Builds and runs `crates/page/examples/neardup`: generated truth, judged; the features of a SimHash
//! compared; look-ups among ten million prints. Real texts are taken from the development pages beside
//! the repository, when they are there; the program says which it used.

use std::process::Command;

use anyhow::Result;

use crate::args::Args;
use crate::repo::{self, Repo};

/// The development pages for content extraction, beside the repository.
const PAGES: &str = "../shared/data/wcxb-dev";
const PRINTS: u64 = 10_000_000;

pub fn run(repo: &Repo, mut args: Args) -> Result<()> {
    let pages = args.text("--pages")?;
    let prints = args.number("--prints")?.unwrap_or(PRINTS).to_string();
    args.end()?;
    let pages = pages.unwrap_or_else(|| repo.root.join(PAGES).display().to_string());
    let mut build = repo.cargo();
    build.args(["build", "--release", "-p", "lycosa-page", "--example", "neardup"]);
    repo::run(&mut build)?;
    let program = repo.target.join("release/examples/neardup");
    for words in [["truth", &pages], ["features", &pages], ["lookup", &prints]] {
        repo::run(Command::new(&program).args(words))?;
    }
    Ok(())
}
