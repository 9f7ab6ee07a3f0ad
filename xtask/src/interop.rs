//! Do outside tools read our archives as we mean them?
//!
//! An example of `warc` writes a file with every awkward answer we know; a script with warcio and
//! cdxj-indexer judges it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::args::Args;
use crate::python;
use crate::repo::{self, Repo};

const SCRIPT: &str = "crates/warc/tests/interop.py";

pub fn run(repo: &Repo, args: Args) -> Result<()> {
    args.end()?;
    check(repo, None)
}

/// `sample` is the example, if it is built already.
pub fn check(repo: &Repo, sample: Option<&Path>) -> Result<()> {
    let python = python::venv(repo)?;
    let folder = repo.target.join("interop");
    if folder.exists() {
        // An index of an older sample would be judged beside the new one.
        fs::remove_dir_all(&folder).with_context(|| format!("clear {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let file = folder.join("sample.warc.gz");
    let mut write = match sample.filter(|path| path.is_file()) {
        Some(path) => Command::new(path),
        None => {
            let mut cargo = repo.cargo();
            cargo.args(["run", "--quiet", "-p", "lycosa-warc", "--example", "sample", "--"]);
            cargo
        }
    };
    repo::run(write.arg(&file)).context("write a sample archive")?;
    repo::run(Command::new(python).arg(repo.path(SCRIPT)).arg(&file))
}
