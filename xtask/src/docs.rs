//! Are the generated pages fresh?
//!
//! The manual of the settings is written by the binary itself, from the comments of the fields;
//! here its words are put into the tree, or compared with what is there.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::args::Args;
use crate::repo::{self, Repo};

const PAGE: &str = "docs/configuration.md";

pub fn run(repo: &Repo, mut args: Args) -> Result<()> {
    let check_only = args.flag("--check");
    args.end()?;
    if check_only {
        return check(repo, None);
    }
    let Some(text) = generate(repo, None)? else {
        bail!("`lycosa config docs` says nothing yet, so there is nothing to write");
    };
    let path = repo.path(PAGE);
    if repo::read(&path).is_ok_and(|old| old == text) {
        println!("{PAGE} is fresh");
        return Ok(());
    }
    repo::write(&path, &text)?;
    println!("{PAGE} is written");
    Ok(())
}

/// Fails if the page is not what the binary says. `binary` is lycosa, if it is built already.
pub fn check(repo: &Repo, binary: Option<&Path>) -> Result<()> {
    match (generate(repo, binary)?, repo.read(PAGE).ok()) {
        (None, None) => {
            println!("`lycosa config docs` does not exist yet, and no page of it: passed over");
            Ok(())
        }
        (None, Some(_)) => bail!("{PAGE} is there, but `lycosa config docs` says nothing"),
        (Some(text), Some(page)) if text == page => Ok(()),
        (Some(text), page) => {
            let page = page.unwrap_or_default();
            let same = text.lines().zip(page.lines()).take_while(|(new, old)| new == old).count();
            bail!("{PAGE} is stale from line {}; write it by `cargo xtask docs`", same + 1)
        }
    }
}

/// What the binary says; none while it has nothing to say.
fn generate(repo: &Repo, binary: Option<&Path>) -> Result<Option<String>> {
    let mut command = match binary.filter(|path| path.is_file()) {
        Some(path) => Command::new(path),
        None => {
            let mut cargo = repo.cargo();
            cargo.args(["run", "--quiet", "--package", "lycosa", "--"]);
            cargo
        }
    };
    command.args(["config", "docs"]);
    let output = command.output().context("start lycosa")?;
    if !output.status.success() {
        let page = repo.path(PAGE);
        let said = String::from_utf8_lossy(&output.stderr);
        if page.exists() {
            bail!("`lycosa config docs` failed ({}): {}", output.status, said.trim());
        }
        return Ok(None);
    }
    let text = String::from_utf8(output.stdout).context("read what lycosa says")?;
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}
