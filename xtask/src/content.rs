//! How well is main content found, and how is that learnt?
//!
//! Both are done by the example `content` of the crate `page`, on a set of reviewed pages that is
//! no part of the repository: WCXB's development split, one folder up. Another folder of the same
//! form can be named with `--pages`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::args::Args;
use crate::repo::{self, Repo};

/// Where the pages lie unless somebody says otherwise, from the root of the workspace.
const PAGES: &str = "../shared/data/wcxb-dev";
const MODEL: &str = "crates/page/src/content/model.bin";

/// `bench extract`: speed of the shipped model; with `--cross`, scores on pages not learnt from.
pub fn bench(repo: &Repo, mut args: Args) -> Result<()> {
    let pages = pages(repo, &mut args)?;
    let cross = args.flag("--cross");
    args.end()?;
    let mut content = example(repo)?;
    content.arg(if cross { "cross" } else { "score" }).arg(pages);
    repo::run(&mut content)
}

/// `train`: learns from all pages and writes the model.
pub fn train(repo: &Repo, mut args: Args) -> Result<()> {
    let pages = pages(repo, &mut args)?;
    args.end()?;
    let mut content = example(repo)?;
    content.arg("train").arg(pages).arg(repo.path(MODEL));
    repo::run(&mut content)
}

fn pages(repo: &Repo, args: &mut Args) -> Result<PathBuf> {
    let named = args.text("--pages")?;
    let folder = repo.path(named.as_deref().unwrap_or(PAGES));
    if !folder.join("ground-truth").is_dir() {
        bail!(
            "{} has no reviewed pages; name a folder with `html` and `ground-truth` by --pages",
            folder.display()
        );
    }
    Ok(folder)
}

fn example(repo: &Repo) -> Result<Command> {
    let mut build = repo.cargo();
    build.args(["build", "--release", "-p", "lycosa-page", "--example", "content"]);
    repo::run(&mut build)?;
    Ok(Command::new(repo.target.join("release/examples/content")))
}
