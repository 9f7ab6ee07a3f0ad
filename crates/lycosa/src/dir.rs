//! What lies where in a crawl's directory, and who may write there?
//!
//! ```text
//! crawl/
//! ├── lycosa.toml              the settings in force
//! ├── archive/*.warc.gz        everything that was answered
//! ├── indexes/*.cdxj           where in the archive
//! ├── search/                  the full-text index
//! ├── state/                   crawl.json (what made it), lock, control.sock, shard-NN/, prints/, spool/
//! ├── logs/*.jsonl  reports/skipped.jsonl  report.json  report.html
//! ```
//!
//! Always: one process at a time works in a directory. It holds a lock on `state/lock`, which
//! ends with the process however that ends, and the file names its pid.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use types::Timestamp;

use crate::exit::Fail;
use crate::settings::StoreSettings;

/// The version of the directory's layout. Another number is refused, never guessed.
pub const FORMAT: u32 = 1;

/// What a directory was made with, and keeps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Mark {
    pub format: u32,
    /// The version that made it.
    pub lycosa: String,
    pub engine: String,
    pub shards: u16,
    /// Tells the records of this crawl from those of any other.
    pub crawl_id: u64,
    pub created: String,
}

/// A crawl's directory by its name. Nothing is held.
#[derive(Debug, Clone)]
pub struct Dir {
    root: PathBuf,
}

/// A directory that this process alone may write to.
#[derive(Debug)]
pub struct HeldDir {
    pub dir: Dir,
    pub mark: Mark,
    /// It was made by this process just now.
    pub new: bool,
    _lock: File,
}

impl Dir {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn settings(&self) -> PathBuf {
        self.root.join("lycosa.toml")
    }

    pub fn archive(&self) -> PathBuf {
        self.root.join("archive")
    }

    pub fn indexes(&self) -> PathBuf {
        self.root.join("indexes")
    }

    pub fn pages(&self) -> PathBuf {
        self.root.join("pages")
    }

    pub fn table(&self) -> PathBuf {
        self.root.join("table")
    }

    /// The full-text index.
    pub fn search(&self) -> PathBuf {
        self.root.join("search")
    }

    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    pub fn control(&self) -> PathBuf {
        self.state().join("control.sock")
    }

    /// Large answers in flight.
    pub fn spool(&self) -> PathBuf {
        self.state().join("spool")
    }

    pub fn report(&self) -> PathBuf {
        self.root.join("report.json")
    }

    /// The same for people.
    pub fn report_page(&self) -> PathBuf {
        self.root.join("report.html")
    }

    pub fn skipped(&self) -> PathBuf {
        self.reports().join("skipped.jsonl")
    }

    pub fn reports(&self) -> PathBuf {
        self.root.join("reports")
    }

    /// What is being forgotten, while it is.
    pub fn erasure(&self) -> PathBuf {
        self.state().join("forget.json")
    }

    pub fn mark_file(&self) -> PathBuf {
        self.state().join("crawl.json")
    }

    fn lock_file(&self) -> PathBuf {
        self.state().join("lock")
    }

    /// Whether a crawl lives here.
    pub fn is_crawl(&self) -> bool {
        self.mark_file().exists()
    }

    /// What made it.
    pub fn mark(&self) -> Result<Mark, Fail> {
        let path = self.mark_file();
        let root = self.root.display();
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => {
                Fail::failure(format!("cannot read {}: {error}; ask as its owner", path.display()))
            }
            _ => Fail::failure(format!(
                "{root} is no crawl directory; `lycosa crawl URL -o {root}` makes one"
            )),
        })?;
        let other = |made_by: &str| {
            Fail::settings(format!(
                "{} was made by another version of lycosa ({made_by}, this is {}): use that \
                 version, or begin anew with -o OTHER",
                self.root.display(),
                env!("CARGO_PKG_VERSION")
            ))
        };
        // The number first: what else is in a later version's file is not known here.
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(|_| other("unreadable state/crawl.json"))?;
        if value["format"] != FORMAT {
            let made_by = value["lycosa"].as_str().unwrap_or("unknown");
            return Err(other(&format!("{made_by}, format {}", value["format"])));
        }
        serde_json::from_value(value).map_err(|_| other("unreadable state/crawl.json"))
    }

    /// The process that works here now, if one does.
    pub fn holder(&self) -> Option<u32> {
        let file = File::open(self.lock_file()).ok()?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Some(pid_in(&self.lock_file()).unwrap_or(0)),
            _ => None,
        }
    }

    /// Takes a directory that is a crawl already, to go on with it.
    pub fn hold(&self) -> Result<HeldDir, Fail> {
        self.hold_or(|error| {
            let root = self.root.display();
            let sentence = format!(
                "cannot write to {root}: {error}; a crawl goes on in its own directory: make it \
                 writable, or resume as its owner"
            );
            Fail::unwritable(&error, sentence)
        })
    }

    /// The same, to look at it only.
    pub fn hold_to_look(&self) -> Result<HeldDir, Fail> {
        self.hold_or(|error| self.unwritable_to_look(error))
    }

    /// The same, to forget something: whoever was interrupted at that may go on.
    pub fn hold_to_erase(&self) -> Result<HeldDir, Fail> {
        let mark = self.mark()?;
        let lock = self.lock(|error| {
            let root = self.root.display();
            let sentence =
                format!("cannot write to {root}: {error}; make it writable, or ask as its owner");
            Fail::unwritable(&error, sentence)
        })?;
        Ok(HeldDir { dir: self.clone(), mark, new: false, _lock: lock })
    }

    fn hold_or(&self, unwritable: impl Fn(std::io::Error) -> Fail) -> Result<HeldDir, Fail> {
        let mark = self.mark()?;
        let lock = self.lock(unwritable)?;
        if self.erasure().exists() {
            let root = self.root.display();
            return Err(Fail::failure(format!(
                "something was being forgotten in {root} when the process ended; finish that first: \
                 lycosa forget {root}"
            )));
        }
        Ok(HeldDir { dir: self.clone(), mark, new: false, _lock: lock })
    }

    /// Why looking is not possible where nothing may be written, and what is.
    pub fn unwritable_to_look(&self, error: impl std::fmt::Display) -> Fail {
        let root = self.root.display();
        Fail::failure(format!(
            "this needs write access to {root}, because its store locks and mends itself when it \
             is opened ({error}); ask as its owner, or ask a copy: cp -r {root} COPY"
        ))
    }

    /// Takes a directory; makes it a crawl's if it is not one.
    pub fn hold_or_make(&self, store: &StoreSettings, now: Timestamp) -> Result<HeldDir, Fail> {
        let unwritable = |error: std::io::Error| {
            let sentence = format!(
                "cannot write to {}: {error}; choose another directory with -o",
                self.root.display()
            );
            Fail::unwritable(&error, sentence)
        };
        if self.is_crawl() {
            return self.hold();
        }
        if has_archives(&self.archive()) {
            return Err(Fail::failure(format!(
                "{} holds WARC files but no state of a crawl; move them away, or choose another \
                 directory with -o",
                self.archive().display()
            )));
        }
        fs::create_dir_all(self.state()).map_err(unwritable)?;
        let lock = self.lock(unwritable)?;
        let mark = Mark {
            format: FORMAT,
            lycosa: env!("CARGO_PKG_VERSION").to_owned(),
            engine: store.engine.as_str().to_owned(),
            shards: store.shards,
            crawl_id: u64::from_be_bytes(
                uuid::Uuid::new_v4().as_bytes()[..8].try_into().expect("a uuid has 16 bytes"),
            ),
            created: now.rfc3339(),
        };
        let text = serde_json::to_string_pretty(&mark).expect("a mark is plain data");
        write_whole(&self.mark_file(), text.as_bytes()).map_err(unwritable)?;
        Ok(HeldDir { dir: self.clone(), mark, new: true, _lock: lock })
    }

    fn lock(&self, unwritable: impl Fn(std::io::Error) -> Fail) -> Result<File, Fail> {
        let path = self.lock_file();
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = file.map_err(unwritable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pid = pid_in(&path).map_or("another process".to_owned(), |pid| {
                    format!("another lycosa, process {pid}")
                });
                let root = self.root.display();
                return Err(Fail::failure(format!(
                    "{root} is in use by {pid}; `lycosa status {root}` shows what it does, or \
                     choose another directory with -o"
                )));
            }
            Err(TryLockError::Error(error)) => return Err(Fail::failure(error)),
        }
        file.set_len(0).context("empty the lock file")?;
        writeln!(file, "{}", std::process::id()).context("note our process in the lock file")?;
        Ok(file)
    }
}

fn pid_in(path: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(path).ok()?.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn has_archives(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().ends_with(".warc.gz"))
}

/// Writes a file under its final name: all of it, or the old one stays.
pub fn write_whole(path: &Path, content: &[u8]) -> std::io::Result<()> {
    write_new(path, content, &mut File::options())
}

/// The same, for its owner's eyes only.
pub fn write_secret(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    write_new(path, content, &mut options)
}

fn write_new(path: &Path, content: &[u8], options: &mut fs::OpenOptions) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    // What a dead process left there may be open to more eyes.
    if new.exists() {
        fs::remove_file(&new)?;
    }
    let mut file = options.write(true).create_new(true).open(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(root: &Path) -> Result<HeldDir, Fail> {
        Dir::new(root).hold_or_make(&StoreSettings::default(), Timestamp::from_secs(1))
    }

    #[test]
    fn a_second_process_is_told_who_holds_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("crawl");
        let held = made(&root).unwrap();
        assert!(held.new);
        // Another handle on the same file is what another process has.
        let error = made(&root).unwrap_err().error.to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        assert_eq!(held.dir.holder(), Some(std::process::id()));
        let id = held.mark.crawl_id;
        drop(held);
        let again = made(&root).unwrap();
        assert!(!again.new);
        assert_eq!(again.mark.crawl_id, id);
    }

    #[test]
    fn a_directory_of_another_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("crawl");
        drop(made(&root).unwrap());
        let mark = root.join("state/crawl.json");
        let text = fs::read_to_string(&mark).unwrap().replace("\"format\": 1", "\"format\": 9");
        fs::write(&mark, text).unwrap();
        let fail = made(&root).unwrap_err();
        assert_eq!(fail.exit, crate::exit::Exit::Settings);
        assert!(fail.error.to_string().contains("another version"));
    }

    #[test]
    fn each_command_is_told_what_to_do_where_it_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("crawl");
        drop(made(&root).unwrap());
        // Tests may run as root, who may write everywhere; but nobody can write to a folder.
        fs::remove_file(root.join("state/lock")).unwrap();
        fs::create_dir(root.join("state/lock")).unwrap();
        let dir = Dir::new(&root);
        let look = dir.hold_to_look().unwrap_err().error.to_string();
        assert!(look.contains("needs write access to") && look.contains("cp -r"), "{look}");
        let resume = dir.hold().unwrap_err().error.to_string();
        assert!(resume.contains("make it writable"), "{resume}");
        assert!(!look.contains("-o") && !resume.contains("-o"), "{look}\n{resume}");
        fs::remove_file(root.join("state/crawl.json")).unwrap();
        let begin = made(&root).unwrap_err().error.to_string();
        assert!(begin.contains("choose another directory with -o"), "{begin}");
    }

    #[test]
    fn archives_without_a_state_are_not_cut() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("archive")).unwrap();
        fs::write(folder.path().join("archive/x.warc.gz"), b"x").unwrap();
        assert!(made(folder.path()).is_err());
    }
}
