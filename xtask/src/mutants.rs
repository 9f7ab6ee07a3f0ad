//! Would the simulation notice?
//!
//! Each file in `xtask/mutants` plants one bug: exact texts to find, what to put in their place,
//! and the story of the bug. One at a time they are planted in a copy of the sources below the
//! target folder, the simulation is built and run, and it must fail. A mutant that survives means
//! that a promise has no test; one that does not fit its source any more is told by `tidy`.
//!
//! Always: the workspace itself is never touched.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use toml::Table;

use crate::args::{Args, parse_number, usage};
use crate::repo::{self, Repo};
use crate::sim;

const FOLDER: &str = "xtask/mutants";
const SEEDS_MAX: u64 = 1_000;
/// Seeds that the code as it is must pass before any mutant is believed.
const SEEDS_BEFORE: u64 = 20;
/// A simulation that takes longer hangs.
const TIME_MAX: Duration = Duration::from_secs(15 * 60);

/// A planted bug.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    pub name: String,
    /// What goes wrong, for whom, and when.
    pub story: String,
    pub edits: Vec<Edit>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub file: String,
    pub find: String,
    pub replace: String,
}

impl Mutant {
    pub fn path(&self) -> String {
        format!("{FOLDER}/{}.toml", self.name)
    }
}

pub fn run(repo: &Repo, mut args: Args) -> Result<()> {
    let seeds = args.number("--seeds")?.unwrap_or(SEEDS_MAX);
    let list = args.flag("--list");
    let mut names = BTreeSet::new();
    while let Some(name) = args.word() {
        names.insert(name);
    }
    args.end()?;
    let mut mutants = load(repo)?;
    if let Some(name) = names.iter().find(|name| mutants.iter().all(|m| m.name != **name)) {
        return Err(usage(format!("there is no mutant `{name}` in {FOLDER}")));
    }
    mutants.retain(|mutant| names.is_empty() || names.contains(&mutant.name));
    if list {
        for mutant in &mutants {
            println!("{}\n    {}", mutant.name, mutant.story.trim().replace('\n', "\n    "));
        }
        return Ok(());
    }
    hunt(&Scratch::prepare(repo)?, &mutants, seeds)
}

fn hunt(scratch: &Scratch, mutants: &[Mutant], seeds: u64) -> Result<()> {
    println!("── the code as it is: {} seeds", SEEDS_BEFORE.min(seeds));
    match scratch.simulate("as-it-is", SEEDS_BEFORE.min(seeds))? {
        Verdict::Survived => {}
        other => bail!("the simulation fails without any mutant: {other}"),
    }
    let mut survivors = Vec::new();
    for mutant in mutants {
        let started = Instant::now();
        let verdict = scratch.with(mutant, || scratch.simulate(&mutant.name, seeds))?;
        let seconds = started.elapsed().as_secs_f64();
        println!("── {}: {verdict} ({seconds:.0} s)", mutant.name);
        if !matches!(verdict, Verdict::Found { .. }) {
            println!("    {}", mutant.story.trim().replace('\n', "\n    "));
            survivors.push(mutant.name.as_str());
        }
    }
    println!("{} of {} mutants found", mutants.len() - survivors.len(), mutants.len());
    match survivors.is_empty() {
        true => Ok(()),
        false => bail!("not found: {}", survivors.join(", ")),
    }
}

/// What the simulation said.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Found {
        seed: u64,
    },
    Survived,
    /// It does not build.
    Broken {
        log: PathBuf,
    },
    /// It failed, but no seed is to blame.
    Odd {
        log: PathBuf,
    },
    Hung {
        log: PathBuf,
    },
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Found { seed } => write!(f, "found at seed {seed}"),
            Self::Survived => write!(f, "NOT FOUND"),
            Self::Broken { log } => write!(f, "DOES NOT BUILD, see {}", log.display()),
            Self::Odd { log } => write!(f, "FAILED WITHOUT A SEED, see {}", log.display()),
            Self::Hung { log } => write!(f, "HANGS, see {}", log.display()),
        }
    }
}

/// The copy of the sources, with a target folder of its own that is kept, so that a mutant costs
/// the build of what it touches and not more.
struct Scratch {
    cargo: Repo,
    logs: PathBuf,
}

/// What the simulation is built from.
const SOURCES: &[&str] = &["crates", "xtask"];
const ROOT_FILES: &[&str] = &["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"];

impl Scratch {
    fn prepare(repo: &Repo) -> Result<Self> {
        let base = repo.target.join("mutants");
        let cargo = Repo { root: base.join("source"), target: base.join("target") };
        let mut wanted: Vec<PathBuf> = ROOT_FILES.iter().map(PathBuf::from).collect();
        for folder in SOURCES {
            wanted.append(&mut repo::files_below(&repo.root, folder)?);
        }
        for path in &wanted {
            copy_if_changed(&repo.path(path), &cargo.path(path))?;
        }
        let wanted: BTreeSet<_> = wanted.into_iter().collect();
        for folder in SOURCES {
            for path in repo::files_below(&cargo.root, folder)? {
                if !wanted.contains(&path) {
                    let path = cargo.path(path);
                    fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
                }
            }
        }
        let logs = base.join("logs");
        fs::create_dir_all(&logs).context("make a folder for logs")?;
        Ok(Self { cargo, logs })
    }

    /// Plants the bug, works, and puts everything back.
    fn with<T>(&self, mutant: &Mutant, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let read = |path: &str| self.cargo.read(path);
        let planted = apply(mutant, &read).with_context(|| mutant.path())?;
        let files: BTreeSet<&str> = mutant.edits.iter().map(|edit| edit.file.as_str()).collect();
        let before: Vec<_> =
            files.iter().map(|file| Ok((*file, read(file)?))).collect::<Result<_>>()?;
        for (file, text) in &planted {
            repo::write(&self.cargo.path(file), text)?;
        }
        let result = work();
        for (file, text) in before {
            repo::write(&self.cargo.path(file), &text)?;
        }
        result
    }

    fn simulate(&self, name: &str, seeds: u64) -> Result<Verdict> {
        let log = self.logs.join(format!("{name}.log"));
        let built = self.run(sim::test(&mut self.command()).arg("--no-run"), &log)?;
        match built {
            Some(status) if status.success() => {}
            Some(_) => return Ok(Verdict::Broken { log }),
            None => return Ok(Verdict::Hung { log }),
        }
        let mut command = self.command();
        sim::test(&mut command).args(["--", "--nocapture"]);
        command.env(sim::SEEDS, seeds.to_string()).env(sim::FROM, "0");
        let status = self.run(&mut command, &log)?;
        let said = fs::read(&log).with_context(|| format!("read {}", log.display()))?;
        Ok(match status {
            None => Verdict::Hung { log },
            Some(status) if status.success() => Verdict::Survived,
            Some(_) => match failing_seed(&String::from_utf8_lossy(&said), MARKS) {
                Some(seed) => Verdict::Found { seed },
                None => Verdict::Odd { log },
            },
        })
    }

    fn command(&self) -> Command {
        let mut command = self.cargo.cargo();
        command.env("CARGO_TARGET_DIR", &self.cargo.target);
        // Built often and run once: what a release gains by these it would lose twice here.
        command.env("CARGO_INCREMENTAL", "1");
        command.env("CARGO_PROFILE_RELEASE_LTO", "off");
        command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        command.env("CARGO_PROFILE_RELEASE_DEBUG", "none");
        command
    }

    /// Runs a command with its words in a file; none if it took too long and was ended. A
    /// simulation whose log names a failing seed has said enough, and is ended too.
    fn run(&self, command: &mut Command, log: &Path) -> Result<Option<ExitStatus>> {
        let file = File::create(log).with_context(|| format!("write {}", log.display()))?;
        let both = file.try_clone().context("share the log")?;
        // A group of its own, because cargo's end alone would leave the simulation running.
        command.process_group(0);
        let mut child = command.stdout(file).stderr(both).spawn().context("start cargo")?;
        let deadline = Instant::now() + TIME_MAX;
        loop {
            if let Some(status) = child.try_wait().context("wait for cargo")? {
                return Ok(Some(status));
            }
            let found = fs::read(log).is_ok_and(|said| {
                failing_seed(&String::from_utf8_lossy(&said), &[FAILED_MARK]).is_some()
            });
            if found || Instant::now() >= deadline {
                let group = format!("-{}", child.id());
                repo::run(Command::new("kill").args(["-KILL", "--", &group]))?;
                let status = child.wait().context("end a simulation")?;
                return Ok(found.then_some(status));
            }
            // Another process is at work, and nothing tells us of its end before its deadline.
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// What stands before the seed in the replay command of a failing simulation.
const FAILED_MARK: &str = "LYCOSA_SIM_FROM=";
/// What stands before it elsewhere, for a failure that had no time for more.
const MARKS: &[&str] = &[FAILED_MARK, "--from ", "seed "];

/// The seed that a failing simulation names.
fn failing_seed(said: &str, marks: &[&str]) -> Option<u64> {
    marks.iter().find_map(|mark| {
        said.match_indices(mark).find_map(|(at, _)| {
            let rest = &said[at + mark.len()..];
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            parse_number(&rest[..end])
        })
    })
}

fn copy_if_changed(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("read {}", from.display()))?;
    if fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    fs::write(to, bytes).with_context(|| format!("write {}", to.display()))
}

/// All mutants, by name.
pub fn load(repo: &Repo) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for path in repo::files_below(&repo.root, FOLDER)? {
        if path.extension().is_some_and(|ending| ending == "toml") {
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            let text = repo.read(&path)?;
            let mutant = parse(name.unwrap_or_default(), &text);
            mutants.push(mutant.with_context(|| format!("read {}", path.display()))?);
        }
    }
    Ok(mutants)
}

fn parse(name: String, text: &str) -> Result<Mutant> {
    let table: Table = text.parse().context("parse it as TOML")?;
    let word = |table: &Table, key: &str| {
        let text = table.get(key).and_then(toml::Value::as_str);
        text.map(str::to_owned).ok_or_else(|| anyhow!("`{key}` is missing"))
    };
    let edits = table.get("edit").and_then(toml::Value::as_array);
    let edits = edits.context("there is no [[edit]]")?.iter().map(|edit| {
        let edit = edit.as_table().context("an edit is a table")?;
        let [file, find, replace] = ["file", "find", "replace"].map(|key| word(edit, key));
        Ok(Edit { file: file?, find: find?, replace: replace? })
    });
    Ok(Mutant { name, story: word(&table, "story")?, edits: edits.collect::<Result<_>>()? })
}

/// Whether the mutant still fits the sources.
pub fn check(mutant: &Mutant, read: &dyn Fn(&str) -> Result<String>) -> Result<()> {
    apply(mutant, read).map(|_| ())
}

/// The files of the mutant, with the bug in them.
fn apply(mutant: &Mutant, read: &dyn Fn(&str) -> Result<String>) -> Result<Vec<(String, String)>> {
    let mut files: Vec<(String, String)> = Vec::new();
    for edit in &mutant.edits {
        let at = match files.iter().position(|(file, _)| *file == edit.file) {
            Some(at) => at,
            None => {
                files.push((edit.file.clone(), read(&edit.file)?));
                files.len() - 1
            }
        };
        let text = &mut files[at].1;
        let first = edit.find.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        match text.matches(&edit.find).count() {
            1 if edit.find == edit.replace => {
                bail!("the edit at `{}` changes nothing", first.trim())
            }
            1 => *text = text.replacen(&edit.find, &edit.replace, 1),
            count => bail!("`{}…` occurs {count} times in {}, not once", first.trim(), edit.file),
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "story = 'it forgets'\n[[edit]]\nfile = 'a.rs'\nfind = 'keep();'\nreplace = ''";

    #[test]
    fn a_mutant_is_planted_where_its_text_is_and_nowhere_else() {
        let mutant = parse("m".to_owned(), TEXT).unwrap();
        let with = |text: &'static str| {
            apply(&mutant, &move |_| Ok(text.to_owned())).map(|files| files[0].1.clone())
        };
        assert_eq!(with("a(); keep(); b();").unwrap(), "a();  b();");
        assert!(with("a(); b();").unwrap_err().to_string().contains("occurs 0 times"));
        assert!(with("keep(); keep();").unwrap_err().to_string().contains("occurs 2 times"));
    }

    #[test]
    fn a_mutant_without_a_story_or_an_effect_is_none() {
        assert!(parse("m".to_owned(), &TEXT.replace("story", "title")).is_err());
        assert!(parse("m".to_owned(), "story = 'x'").is_err());
        let same = parse("m".to_owned(), &TEXT.replace("replace = ''", "replace = 'keep();'"));
        assert!(check(&same.unwrap(), &|_| Ok("keep();".to_owned())).is_err());
    }

    #[test]
    fn two_edits_of_one_file_are_both_made() {
        let text = format!("{TEXT}\n[[edit]]\nfile = 'a.rs'\nfind = 'b'\nreplace = 'c'");
        let mutant = parse("m".to_owned(), &text).unwrap();
        let files = apply(&mutant, &|_| Ok("keep();b".to_owned())).unwrap();
        assert_eq!(files, [("a.rs".to_owned(), "c".to_owned())]);
    }

    #[test]
    fn the_failing_seed_is_read_from_the_replay_command() {
        let seed = |said| failing_seed(said, MARKS);
        assert_eq!(seed("x\nLYCOSA_SIM_FROM=0x41 LYCOSA_SIM_SEEDS=1 cargo"), Some(0x41));
        assert_eq!(seed("replay: cargo xtask sim --from 77 --seeds 1"), Some(77));
        assert_eq!(seed("seed 9: a pause was short"), Some(9));
        assert_eq!(seed("seeds were sown; a panic"), None);
    }
}
