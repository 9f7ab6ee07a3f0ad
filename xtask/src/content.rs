//! How well is main content found, and how is that learnt?
//!
//! Both are done by the example `content` of the crate `page`, on a set of reviewed pages that is
//! no part of the repository: WCXB's development split, one folder up. Another folder of the same
//! form can be named with `--pages`. What others make of the same pages is asked by the crate
//! `peers`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::args::{Args, usage};
use crate::repo::{self, Repo};

/// Where the pages lie unless somebody says otherwise, from the root of the workspace.
const PAGES: &str = "../shared/data/wcxb-dev";
const MODEL: &str = "crates/page/src/content/model.bin";

/// `bench extract`: speed of the shipped model.
pub fn bench(repo: &Repo, mut args: Args) -> Result<()> {
    let pages = pages(repo, &mut args)?;
    args.end()?;
    repo::run(example(repo)?.arg("score").arg(pages))
}

/// `eval extract`: scores on pages not learnt from, beside those of other extractors; `eval links`:
/// our links against those of the standard's tree.
pub fn eval(repo: &Repo, mut args: Args) -> Result<()> {
    let what = args.word();
    let pages = pages(repo, &mut args)?;
    let split = args.number("--split")?.unwrap_or(0).to_string();
    let alone = args.flag("--alone");
    args.end()?;
    match what.as_deref() {
        Some("links") => repo::run(peers(repo, &[])?.arg("links").arg(pages)),
        Some("extract") => {
            println!("lycosa, on pages of domains that it has not learnt from:");
            repo::run(example(repo)?.arg("cross").arg(&pages).arg(split))?;
            if alone {
                return Ok(());
            }
            let texts = repo.target.join("peers");
            repo::run(
                peers(repo, &["--features", "extractors"])?.arg("extract").arg(&pages).arg(&texts),
            )?;
            for peer in PEERS {
                println!("{peer}:");
                let mut score = example(repo)?;
                let file = texts.join(format!("{peer}.jsonl"));
                repo::run(score.arg("texts").arg(&pages).arg(file))?;
            }
            Ok(())
        }
        _ => Err(usage("eval wants extract or links")),
    }
}

/// The extractors that `peers` runs beside ours.
const PEERS: [&str; 2] = ["dom_smoothie", "trafilatura"];

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

fn peers(repo: &Repo, options: &[&str]) -> Result<Command> {
    let mut build = repo.cargo();
    build.args(["build", "--release", "-p", "lycosa-peers"]).args(options);
    repo::run(&mut build)?;
    Ok(Command::new(repo.target.join("release/lycosa-peers")))
}
