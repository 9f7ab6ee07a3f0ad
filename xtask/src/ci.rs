//! What must hold before anything lands?
//!
//! One step after another, the quick ones first, each with its name and its time; the first that
//! fails ends it with the command to run again. The tests come last, so that the runner's own
//! words and the sum of all suites are what stands at the end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail};

use crate::args::Args;
use crate::manifest::{self, Crate};
use crate::repo::{self, Repo};
use crate::summary::Summary;
use crate::{docs, interop, python, tidy};

struct Ci<'a> {
    repo: &'a Repo,
    /// `--features a/x,b/x`, or nothing.
    features: Vec<String>,
}

pub fn run(repo: &Repo, mut args: Args) -> Result<()> {
    let rocksdb = args.flag("--rocksdb");
    args.end()?;
    if rocksdb {
        python::need_libclang()?;
    }
    let features = features(&manifest::crates(repo)?, rocksdb);
    let ci = Ci { repo, features };
    let started = Instant::now();
    ci.step("format", "cargo fmt --all", || {
        repo::run(ci.repo.cargo().args(["fmt", "--all", "--check"]))
    })?;
    ci.step("tidy", "cargo xtask tidy", || tidy::check(ci.repo))?;
    let clippy = ci.cargo(&["clippy", "--workspace", "--all-targets"], &["-D", "warnings"]);
    ci.step("lints", &repo::line_of(&clippy), || repo::run(&mut ci.again(&clippy)))?;
    let build = ci.cargo(&["test", "--workspace", "--no-run"], &[]);
    ci.step("build", &repo::line_of(&build), || repo::run(&mut ci.again(&build)))?;
    ci.step("generated docs", "cargo xtask docs", || {
        docs::check(ci.repo, Some(&ci.built("lycosa")))
    })?;
    ci.step("outside tools", "cargo xtask interop", || {
        interop::check(ci.repo, Some(&ci.built("examples/sample")))
    })?;
    let tests = ci.cargo(&["test", "--workspace", "--no-fail-fast"], &[]);
    let mut summary = Summary::default();
    let tested = ci.step("tests", &repo::line_of(&tests), || {
        summary = ci.test(ci.again(&tests))?;
        match summary.failed {
            0 => Ok(()),
            failed => Err(anyhow!("{failed} tests failed")),
        }
    });
    println!("all steps: {:.1} s", started.elapsed().as_secs_f64());
    println!("{} passed, {} failed", summary.passed, summary.failed);
    tested
}

/// What is behind a feature is checked and tested too.
fn features(crates: &[Crate], rocksdb: bool) -> Vec<String> {
    let wanted = ["failpoints"].into_iter().chain(rocksdb.then_some("rocksdb"));
    let list: Vec<_> = wanted
        .flat_map(|feature| {
            let with = crates.iter().filter(move |found| found.features.contains(feature));
            with.map(move |found| format!("{}/{feature}", found.package))
        })
        .collect();
    match list.is_empty() {
        true => Vec::new(),
        false => vec!["--features".to_owned(), list.join(",")],
    }
}

impl Ci<'_> {
    fn step(&self, name: &str, again: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("── {name}");
        let started = Instant::now();
        let result = work();
        let seconds = started.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                println!("── {name}: ok, {seconds:.1} s");
                Ok(())
            }
            Err(error) => {
                println!("── {name}: FAILED after {seconds:.1} s; run it alone by: {again}");
                Err(error.context(format!("step `{name}`")))
            }
        }
    }

    fn cargo(&self, words: &[&str], after: &[&str]) -> Command {
        let mut command = self.repo.cargo();
        command.args(words).args(&self.features);
        if !after.is_empty() {
            command.arg("--").args(after);
        }
        command
    }

    /// The same command once more; a command can be started only through a mutable one.
    fn again(&self, command: &Command) -> Command {
        let mut copy = self.repo.cargo();
        copy.args(command.get_args());
        copy
    }

    /// What the step `build` has made.
    fn built(&self, name: &str) -> PathBuf {
        self.repo.target.join("debug").join(name)
    }

    /// Runs all tests, passing on what the runner says as it says it.
    fn test(&self, mut command: Command) -> Result<Summary> {
        command.env(python::VARIABLE, python::venv(self.repo)?);
        let (reader, writer) = std::io::pipe().context("make a pipe")?;
        command.stdout(writer.try_clone().context("share the pipe")?).stderr(writer);
        let mut child = command.spawn().context("start the tests")?;
        // The command holds the writing ends; while it lives the pipe does not end.
        drop(command);
        let mut summary = Summary::default();
        let mut out = std::io::stdout().lock();
        for line in BufReader::new(reader).split(b'\n') {
            let line = line.context("read what the tests say")?;
            let text = String::from_utf8_lossy(&line);
            summary.take(&text);
            writeln!(out, "{text}").context("print what the tests say")?;
        }
        let status = child.wait().context("wait for the tests")?;
        if !status.success() && summary.failed == 0 {
            bail!("the test run itself failed ({status})");
        }
        Ok(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_named_where_they_exist() {
        let found = |package: &str, features: &[&str]| Crate {
            package: package.to_owned(),
            features: features.iter().map(|&name| name.to_owned()).collect(),
            ..Crate::default()
        };
        let crates = [
            found("lycosa-local", &["failpoints", "rocksdb", "fjall"]),
            found("lycosa-ports", &["failpoints"]),
            found("lycosa-page", &[]),
        ];
        let plain = "lycosa-local/failpoints,lycosa-ports/failpoints";
        assert_eq!(features(&crates, false), ["--features", plain]);
        let all = format!("{plain},lycosa-local/rocksdb");
        assert_eq!(features(&crates, true), ["--features", &all]);
        assert!(features(&crates[2..], true).is_empty());
    }
}
