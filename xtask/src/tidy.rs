//! Does the tree keep the rules that no compiler knows?
//!
//! Who may see whom (`direction`), what the text of a source file must and must not say
//! (`source`), whether documents speak of what exists (`documents`), whether planted bugs still
//! find their place (`mutants`). Every rule is a function from texts to findings, with a test that
//! shows it can fail.
//!
//! Not here: what rustfmt and clippy check.

mod direction;
mod documents;
mod scrub;
mod source;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::args::Args;
use crate::repo::{self, Repo};
use crate::{manifest, mutants};

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub path: String,
    /// 0 when it is about the whole file.
    pub line: usize,
    pub what: String,
}

impl Finding {
    pub fn new(path: impl Into<String>, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.into(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

pub fn run(repo: &Repo, args: Args) -> Result<()> {
    args.end()?;
    check(repo)
}

/// Prints every finding; fails if there is one.
pub fn check(repo: &Repo) -> Result<()> {
    let findings = findings(repo)?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("tidy found one thing"),
        count => bail!("tidy found {count} things"),
    }
}

fn findings(repo: &Repo) -> Result<Vec<Finding>> {
    let tree = Tree::read(repo)?;
    let crates = manifest::crates(repo)?;
    let mut findings = direction::check(&crates);
    let long = source::parse_long_files(&repo.read(source::LONG_FILES)?);
    for path in tree.files.iter().filter(|path| path.ends_with(".rs")) {
        findings.extend(source::check(path, &repo.read(path)?, &long));
    }
    findings.extend(source::stale_long_files(&long, &tree.files));
    for path in tree.files.iter().filter(|path| path.ends_with(".md")) {
        findings
            .extend(documents::check(path, &repo.read(path)?, &tree, &|path| repo.read(path).ok()));
    }
    let folders: Vec<_> = crates.iter().map(|found| found.folder.as_str()).collect();
    findings.extend(documents::missing_readmes(&folders, &tree));
    for name in ["ARCHITECTURE.md", "CHANGELOG.md", "README.md", "STYLE.md"] {
        if !tree.files.contains(name) {
            findings.push(Finding::new(name, 0, "is missing"));
        }
    }
    for mutant in mutants::load(repo)? {
        let reason = mutants::check(&mutant, &|path| repo.read(path));
        findings
            .extend(reason.err().map(|error| Finding::new(mutant.path(), 0, error.to_string())));
    }
    Ok(findings)
}

/// What there is, without build folders and the output of crawls.
#[derive(Debug, Default)]
pub struct Tree {
    /// With `/` between folders, relative to the root.
    pub files: BTreeSet<String>,
    pub folders: BTreeSet<String>,
}

/// Folders that are part of the project; others may be somebody's scratch.
const FOLDERS: &[&str] = &[".cargo", ".ci", "benches", "crates", "docs", "xtask"];

impl Tree {
    fn read(repo: &Repo) -> Result<Self> {
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(&repo.root).context("list the root")? {
            let entry = entry.context("list the root")?;
            if entry.path().is_file() {
                files.push(entry.file_name().into());
            }
        }
        for folder in FOLDERS.iter().filter(|folder| repo.path(folder).is_dir()) {
            files.append(&mut repo::files_below(&repo.root, folder)?);
        }
        let names = files.iter().map(|path| slashed(path));
        Ok(Self::of(names.collect()))
    }

    pub fn of(files: BTreeSet<String>) -> Self {
        let mut folders = BTreeSet::new();
        for file in &files {
            let mut rest = file.as_str();
            while let Some((folder, _)) = rest.rsplit_once('/') {
                folders.insert(folder.to_owned());
                rest = folder;
            }
        }
        Self { files, folders }
    }

    pub fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.contains(path) || self.folders.contains(path)
    }

    /// Whether some path is this one or ends in it, as people shorten paths.
    pub fn has_ending(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let ending = format!("/{path}");
        self.has(path)
            || self.files.iter().chain(&self.folders).any(|known| known.ends_with(&ending))
    }
}

fn slashed(path: &Path) -> String {
    let parts = path.iter().map(OsStr::to_string_lossy);
    parts.collect::<Vec<_>>().join("/")
}
