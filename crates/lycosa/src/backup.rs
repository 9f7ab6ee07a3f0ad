//! How is a crawl saved while it goes on?
//!
//! A backup is what a power loss at one moment would have left: the state of every shard, the
//! archive and its indexes at least up to there. `lycosa resume` goes on with it as with any crawl,
//! cuts off what came later, and visits again what was under way.
//!
//! The order is what makes it one moment. First comes what is made of the logs of all shards, the
//! prints of texts, the list of pages, the table of captures and the full-text index: what they lack is
//! still in the logs. Then every shard begins its copy, while no letter between shards is forgotten by
//! its sender; what is copied after that may only have more. A folder gets its final name when
//! everything is in it and on the disk.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use local::engine::prints_folder;
use ports::PortResult;
use ports::shard_store::{CopyJob, StoreCopy};
use serde::{Deserialize, Serialize};

use crate::dir::Dir;
use crate::exit::Fail;
use crate::wiring::Outputs;

/// What was saved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    pub backup: PathBuf,
    pub shards: usize,
    pub archive_files: u64,
    /// Of those, how many are second names of files that are complete.
    pub linked: u64,
    /// Bytes of archive and indexes that were copied.
    pub copied_bytes: u64,
}

/// A backup that is being made.
#[derive(Debug)]
pub struct Backup {
    from: Dir,
    dest: PathBuf,
    draft: PathBuf,
}

impl Backup {
    /// Makes room for a backup. Nothing is copied yet.
    pub fn begin(from: &Dir, dest: &Path) -> Result<Self, Fail> {
        let dest = check(from, dest)?;
        let mut name = dest.file_name().unwrap_or_default().to_owned();
        name.push(".partial");
        let draft = dest.with_file_name(name);
        // What an earlier try has left.
        remove(&draft).with_context(|| format!("clear {}", draft.display()))?;
        fs::create_dir_all(draft.join("state")).map_err(|error| {
            let sentence = format!("cannot make {}: {error}", draft.display());
            Fail::unwritable(&error, sentence)
        })?;
        Ok(Self { from: from.clone(), dest, draft })
    }

    /// Where the copy of a shard's state goes.
    pub fn shard(&self, shard: usize) -> PathBuf {
        local::engine::shard_folder(&Dir::new(&self.draft).state(), shard as u16)
    }

    /// Begins the copy of what is made of all logs, before the shards begin theirs.
    pub fn outputs(&self, outputs: &Outputs) -> OutputsCopy {
        let prints = prints_folder(&Dir::new(&self.draft).state());
        OutputsCopy {
            prints: outputs.duplicates.as_ref().map(|store| store.copy(&prints)),
            pages_bytes: outputs.pages.as_ref().map(local::Pages::bytes),
            // Small files and finished ones: it takes no longer than to begin the others.
            table: self.table(),
            search: search::Snapshot::take(&self.from.search()),
        }
    }

    /// Copies the table of captures. Rows that wait come first, then those that are being made into a
    /// part, then the parts: rows that move on meanwhile are copied twice, and a part that is made
    /// of them again has the same name.
    fn table(&self) -> anyhow::Result<Saved> {
        let to = Dir::new(&self.draft);
        let mut saved = Saved::default();
        let state = self.from.state();
        for ending in [".rows", ".full"] {
            for name in names(&state).with_context(|| format!("list {}", state.display()))? {
                if !name.starts_with("table-") || !name.ends_with(ending) {
                    continue;
                }
                match copy(&state.join(&name), &to.state().join(&name)) {
                    Ok(bytes) => saved.copied_bytes += bytes,
                    Err(error) if is_gone(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        saved.take_parts(&self.from.table(), &to.table())?;
        Ok(saved)
    }

    /// Copies what the outputs and the shards have begun, and everything else. Takes its time.
    pub fn finish(
        self,
        outputs: OutputsCopy,
        shards: Vec<PortResult<StoreCopy>>,
    ) -> anyhow::Result<Saved> {
        let mut saved = Saved { shards: shards.len(), ..Saved::default() };
        // Nothing will be written to the files before those with the ends, nor cut from them.
        let mut complete = Vec::new();
        for copy in shards {
            let copy = copy?;
            complete.push(copy.archive_end.map_or(0, |end| end.file));
            (copy.job)().context("copy the state")?;
        }
        let to = Dir::new(&self.draft);
        if let Some(prints) = outputs.prints {
            (prints?)().context("copy the prints")?;
        }
        saved.copied_bytes += outputs.table.context("copy the table")?.copied_bytes;
        if let Some(search) = outputs.search? {
            saved.copied_bytes += search.save(&to.search())?;
        }
        saved.take_pages(&self.from.pages(), &to.pages(), outputs.pages_bytes)?;
        saved.take_folder(&self.from.archive(), &to.archive(), Some(&complete))?;
        saved.take_folder(&self.from.indexes(), &to.indexes(), None)?;
        for (from, to) in
            [(self.from.settings(), to.settings()), (self.from.mark_file(), to.mark_file())]
        {
            copy(&from, &to)?;
        }
        fs::rename(&self.draft, &self.dest).context("give the backup its name")?;
        let folder = self.dest.parent().unwrap_or(&self.dest);
        File::open(folder).and_then(|folder| folder.sync_all()).context("sync the backup")?;
        saved.backup.clone_from(&self.dest);
        Ok(saved)
    }
}

/// What is made of all logs, as far as its copy has begun.
pub struct OutputsCopy {
    prints: Option<PortResult<CopyJob>>,
    /// So much of the list of pages.
    pages_bytes: Option<u64>,
    table: anyhow::Result<Saved>,
    search: PortResult<Option<search::Snapshot>>,
}

impl Drop for Backup {
    /// What did not get its final name is half a backup, whatever was in its way.
    fn drop(&mut self) {
        if let Err(error) = remove(&self.draft) {
            tracing::warn!(%error, "half a backup is left in {}", self.draft.display());
        }
    }
}

impl Saved {
    /// Copies the list of pages up to a length, or all of it where nobody writes to it.
    fn take_pages(&mut self, from: &Path, to: &Path, bytes: Option<u64>) -> anyhow::Result<()> {
        let from = from.join(local::pages::FILE);
        if !from.exists() {
            return Ok(());
        }
        fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
        let path = to.join(local::pages::FILE);
        let take = || -> io::Result<u64> {
            let mut out = File::create(&path)?;
            let from = File::open(&from)?;
            let copied = io::copy(&mut from.take(bytes.unwrap_or(u64::MAX)), &mut out)?;
            out.sync_all()?;
            File::open(to)?.sync_all()?;
            Ok(copied)
        };
        self.copied_bytes += take().with_context(|| format!("copy to {}", path.display()))?;
        Ok(())
    }

    /// Copies all Parquet files below a folder, or links them: they never change.
    fn take_parts(&mut self, from: &Path, to: &Path) -> anyhow::Result<()> {
        if !from.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
        for name in names(from).with_context(|| format!("list {}", from.display()))? {
            let (from, to) = (from.join(&name), to.join(&name));
            if from.is_dir() {
                self.take_parts(&from, &to)?;
            } else if from.extension().is_some_and(|extension| extension == "parquet")
                && fs::hard_link(&from, &to).is_err()
            {
                self.copied_bytes += copy(&from, &to)?;
            }
        }
        File::open(to).and_then(|folder| folder.sync_all()).context("sync the backup")
    }

    /// Copies the files of a folder. Of an archive, those before the one with this number in each
    /// shard are complete: they become links, where the disk is the same.
    fn take_folder(
        &mut self,
        from: &Path,
        to: &Path,
        complete: Option<&[u32]>,
    ) -> anyhow::Result<()> {
        fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
        for name in names(from).with_context(|| format!("list {}", from.display()))? {
            let (from, to) = (from.join(&name), to.join(&name));
            let is_complete = complete.is_some_and(|before| {
                numbers(&name).is_some_and(|(shard, serial)| {
                    before.get(shard).is_some_and(|before| serial < *before)
                })
            });
            let linked = is_complete && fs::hard_link(&from, &to).is_ok();
            if !linked {
                match copy(&from, &to) {
                    Ok(bytes) => self.copied_bytes += bytes,
                    // An index that is just being sorted.
                    Err(error) if is_gone(&error) && complete.is_none() => continue,
                    Err(error) => return Err(error),
                }
            }
            if complete.is_some() {
                self.archive_files += 1;
                self.linked += u64::from(linked);
            }
        }
        File::open(to).and_then(|folder| folder.sync_all()).context("sync the backup")
    }

    pub fn text(&self, from: &Path) -> String {
        let Self { backup, archive_files, linked, copied_bytes, .. } = self;
        let links = match linked {
            0 => String::new(),
            n => format!(" ({n} of them links to files that are complete)"),
        };
        format!(
            "{} is backed up in {}: {}{links}, {} copied; go on with it by: lycosa resume {}",
            from.display(),
            backup.display(),
            crate::crawl::counted(*archive_files, "archive file"),
            crate::status::size(*copied_bytes),
            backup.display()
        )
    }
}

/// Whether a backup of this crawl can be made there; answers its full name.
pub fn check(from: &Dir, dest: &Path) -> Result<PathBuf, Fail> {
    let dest = std::path::absolute(dest).context("name the backup")?;
    let shown = dest.display();
    if dest.exists() {
        return Err(Fail::usage(format!("{shown} is there already; name a new folder")));
    }
    let folder = dest.parent().unwrap_or(&dest);
    let inside = fs::canonicalize(folder).map_err(|error| {
        Fail::usage(format!("cannot make {shown}: {}: {error}", folder.display()))
    })?;
    if inside.starts_with(fs::canonicalize(from.root()).context("find the crawl")?) {
        return Err(Fail::usage(format!("{shown} lies inside of the crawl; name another place")));
    }
    Ok(dest)
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name().into_string();
        // Drafts have no business in a backup.
        names.extend(name.ok().filter(|name| !name.ends_with(".tmp")));
    }
    names.sort_unstable();
    Ok(names)
}

/// Shard and serial number of an archive file.
fn numbers(name: &str) -> Option<(usize, u32)> {
    let (rest, serial) = name.strip_suffix(".warc.gz")?.rsplit_once('-')?;
    let (_, shard) = rest.rsplit_once('-')?;
    Some((shard.parse().ok()?, serial.parse().ok()?))
}

/// Copies a file onto the disk.
fn copy(from: &Path, to: &Path) -> anyhow::Result<u64> {
    let copy = || {
        let (mut read, mut write) = (File::open(from)?, File::create(to)?);
        let bytes = io::copy(&mut read, &mut write)?;
        write.sync_all()?;
        io::Result::Ok(bytes)
    };
    copy().with_context(|| format!("copy {} to {}", from.display(), to.display()))
}

fn is_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::NotFound)
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_archive_files_have_two_numbers() {
        assert_eq!(numbers("my-crawl-01-00012.warc.gz"), Some((1, 12)));
        for name in ["crawl-00-00000.warc", "crawl.warc.gz", "a-b-1.warc.gz"] {
            assert_eq!(numbers(name), None, "{name}");
        }
    }

    #[test]
    fn a_backup_lies_elsewhere_and_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("crawl");
        fs::create_dir_all(root.join("state")).unwrap();
        let dir = Dir::new(&root);
        let says = |dest: &Path| Backup::begin(&dir, dest).unwrap_err().error.to_string();
        assert!(says(&root).contains("is there already"));
        assert!(says(&root.join("copy")).contains("inside of the crawl"));
        assert!(says(&folder.path().join("no/copy")).contains("cannot make"));
        let backup = Backup::begin(&dir, &folder.path().join("copy")).unwrap();
        assert!(folder.path().join("copy.partial").exists());
        drop(backup);
        assert!(!folder.path().join("copy.partial").exists(), "nothing came of it");
    }
}
