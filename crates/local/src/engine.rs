//! Which engine keeps a shard's state on disk?
//!
//! A folder keeps the engine it was made with: a small file in it says which, because opening it
//! with another would begin a second, empty state beside the first.
//!
//! Engines make their files one by one, and one that died meanwhile leaves what none can open. So
//! another small file stands in the folder until all is made: whatever lies beside it goes.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ports::{ForeignStore, PortError, PortErrorKind, PortResult, ShardStore};

use crate::duplicates::Duplicates;
use crate::files::{failed, make_folder, sync_folder};
use crate::kv::Kv;
use crate::shard::ShardSettings;
use crate::side;

/// The name of the file that says it.
const MARK: &str = "engine";
/// The name of the file that says that the folder is being made.
const UNFINISHED: &str = "unfinished";

/// The engines that this build knows by name; see [`Engine::is_built_in`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    #[default]
    Fjall,
    Rocksdb,
}

impl Engine {
    pub const ALL: [Self; 2] = [Self::Fjall, Self::Rocksdb];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Fjall => "fjall",
            Self::Rocksdb => "rocksdb",
        }
    }

    pub const fn is_built_in(self) -> bool {
        match self {
            Self::Fjall => cfg!(feature = "fjall"),
            Self::Rocksdb => cfg!(feature = "rocksdb"),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|engine| engine.name() == text);
        found.ok_or_else(|| format!("`{text}` is no engine; choose fjall or rocksdb"))
    }
}

/// What the engines of a process may use.
#[derive(Debug, Clone, Copy)]
pub struct EngineSettings {
    /// Blocks of files kept in memory.
    pub cache_bytes_max: u64,
    /// New rows kept in memory before they are written as files, all families together.
    pub memtable_bytes_max: u64,
    /// Threads with which RocksDB writes files and merges them; fjall has one a database.
    pub threads: usize,
    /// Threads that read side by side when many rows are wanted: how many questions the disk is
    /// asked at once.
    pub readers: usize,
}

impl Default for EngineSettings {
    fn default() -> Self {
        // A crawl at work needs a few thousand hosts' rows. A crawl of a million hosts made as many
        // requests with 32 MiB as with 128.
        Self { cache_bytes_max: 64 << 20, memtable_bytes_max: 96 << 20, threads: 2, readers: 4 }
    }
}

impl EngineSettings {
    /// For a database that is only written once.
    #[cfg(feature = "fjall")]
    pub(crate) const SMALL: Self =
        Self { cache_bytes_max: 4 << 20, memtable_bytes_max: 16 << 20, threads: 1, readers: 1 };

    /// The part of one of so many databases.
    #[cfg(feature = "fjall")]
    fn divided(self, databases: usize) -> Self {
        let databases = databases.max(1) as u64;
        Self {
            cache_bytes_max: (self.cache_bytes_max / databases).max(4 << 20),
            memtable_bytes_max: (self.memtable_bytes_max / databases).max(16 << 20),
            ..self
        }
    }
}

/// Where the state of a shard lies.
pub fn shard_folder(state: &Path, shard: u16) -> PathBuf {
    state.join(format!("shard-{shard:02}"))
}

/// Opens the states of a process's shards in folders of `state`, or begins them there. `limits`
/// are for all of them together.
///
/// # Errors
/// Kind `Version` if a folder was made with another engine or the engine is not built in,
/// `Locked` if another process has it.
pub fn open_shards(
    state: &Path,
    engine: Engine,
    shards: &[ShardSettings],
    limits: EngineSettings,
) -> PortResult<Vec<Box<dyn ShardStore>>> {
    check_built_in(engine)?;
    let folders = shards.iter().map(|shard| shard_folder(state, shard.shard.0));
    let folders: Vec<PathBuf> = folders.collect();
    folders.iter().try_for_each(|folder| mark(folder, engine))?;
    let stores = open_all(&folders, engine, shards, limits)?;
    folders.iter().try_for_each(|folder| finish(folder))?;
    Ok(stores)
}

/// Opens the state of foreign crawls in a folder of `state`, or begins it there.
///
/// # Errors
/// As for [`open_shards`].
pub fn open_foreign(
    state: &Path,
    engine: Engine,
    limits: EngineSettings,
) -> PortResult<Box<dyn ForeignStore>> {
    check_built_in(engine)?;
    let folder = state.join("foreign");
    mark(&folder, engine)?;
    let store = crate::Foreign::open(open_one(&folder, engine, limits)?)?;
    finish(&folder)?;
    Ok(Box::new(store))
}

/// Where the prints of texts lie.
pub fn prints_folder(state: &Path) -> PathBuf {
    state.join("prints")
}

/// Opens the store of prints in a folder of `state`, or begins it there.
///
/// # Errors
/// As for [`open_shards`].
pub fn open_duplicates(
    state: &Path,
    engine: Engine,
    limits: EngineSettings,
) -> PortResult<Duplicates> {
    check_built_in(engine)?;
    let folder = prints_folder(state);
    mark(&folder, engine)?;
    let store = Duplicates::open(open_one(&folder, engine, limits)?)?;
    finish(&folder)?;
    Ok(store)
}

/// A database by itself; its engine is built in.
fn open_one(folder: &Path, engine: Engine, limits: EngineSettings) -> PortResult<Box<dyn Kv>> {
    Ok(match engine {
        #[cfg(feature = "fjall")]
        Engine::Fjall => Box::new(crate::fjall::FjallKv::open(folder, limits)?),
        #[cfg(feature = "rocksdb")]
        Engine::Rocksdb => {
            let shared = crate::rocks::RocksShared::new(limits);
            Box::new(crate::rocks::RocksKv::open(folder, &shared)?)
        }
        #[cfg(not(all(feature = "fjall", feature = "rocksdb")))]
        _ => unreachable!("{engine} is built in; {folder:?}, {limits:?}"),
    })
}

fn check_built_in(engine: Engine) -> PortResult<()> {
    if engine.is_built_in() {
        return Ok(());
    }
    let cause = format!("this lycosa was built without {engine}");
    Err(PortError::new(PortErrorKind::Version, "open the state", cause))
}

fn open_all(
    folders: &[PathBuf],
    engine: Engine,
    shards: &[ShardSettings],
    limits: EngineSettings,
) -> PortResult<Vec<Box<dyn ShardStore>>> {
    match engine {
        #[cfg(feature = "fjall")]
        Engine::Fjall => {
            // Its databases cannot share memory: each has its part.
            let limits = limits.divided(shards.len());
            open_each(folders, shards, |folder| crate::fjall::FjallKv::open(folder, limits))
        }
        #[cfg(feature = "rocksdb")]
        Engine::Rocksdb => {
            let shared = crate::rocks::RocksShared::new(limits);
            open_each(folders, shards, |folder| crate::rocks::RocksKv::open(folder, &shared))
        }
        #[cfg(not(all(feature = "fjall", feature = "rocksdb")))]
        _ => unreachable!("checked above: {engine} is built in; {limits:?}"),
    }
}

#[cfg(any(feature = "fjall", feature = "rocksdb"))]
fn open_each<K: Kv + 'static>(
    folders: &[PathBuf],
    shards: &[ShardSettings],
    open: impl Fn(&Path) -> PortResult<K>,
) -> PortResult<Vec<Box<dyn ShardStore>>> {
    let open = |(folder, settings): (&PathBuf, &ShardSettings)| {
        let shard = crate::Shard::open(open(folder)?, settings.clone())?;
        Ok(Box::new(shard) as Box<dyn ShardStore>)
    };
    folders.iter().zip(shards).map(open).collect()
}

/// Writes the engine's name into a new folder, or compares it.
pub(crate) fn mark(folder: &Path, engine: Engine) -> PortResult<()> {
    let path = folder.join(MARK);
    if folder.join(UNFINISHED).exists() {
        // Nothing was ever committed here: that begins when all shards are open.
        tracing::info!(folder = %folder.display(), "a state that was never finished is made anew");
        fs::remove_dir_all(folder).map_err(|error| failed("clear", folder, &error))?;
    }
    match fs::read_to_string(&path) {
        Ok(text) if text.trim() == engine.name() => Ok(()),
        Ok(text) => {
            let (path, text) = (path.display(), text.trim());
            let cause = format!("{path} says {text}; set store.engine = \"{text}\"");
            Err(PortError::new(PortErrorKind::Version, "open the state", cause))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_folder(folder)?;
            side::save(folder, UNFINISHED, &mut |out| writeln!(out, "{engine}"))?;
            side::save(folder, MARK, &mut |out| writeln!(out, "{engine}"))
        }
        Err(error) => Err(failed("read", &path, &error)),
    }
}

/// Everything is made. Durable, because what is committed from now on must not be cleared.
pub(crate) fn finish(folder: &Path) -> PortResult<()> {
    if !folder.join(UNFINISHED).exists() {
        return Ok(());
    }
    side::remove(folder, UNFINISHED)?;
    sync_folder(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_never_finished_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("shard-00");
        mark(&folder, Engine::Fjall).unwrap();
        fs::write(folder.join("half"), b"of a database").unwrap();
        mark(&folder, Engine::Rocksdb).unwrap();
        assert!(!folder.join("half").exists());
        finish(&folder).unwrap();
        fs::write(folder.join("data"), b"of a crawl").unwrap();
        assert!(mark(&folder, Engine::Fjall).is_err());
        mark(&folder, Engine::Rocksdb).unwrap();
        assert!(folder.join("data").exists());
    }

    #[test]
    fn a_folder_keeps_its_engine() {
        let folder = tempfile::tempdir().unwrap();
        mark(folder.path(), Engine::Fjall).unwrap();
        finish(folder.path()).unwrap();
        mark(folder.path(), Engine::Fjall).unwrap();
        let error = mark(folder.path(), Engine::Rocksdb).unwrap_err();
        assert_eq!(error.kind, PortErrorKind::Version);
        assert!(error.to_string().contains("store.engine = \"fjall\""), "{error}");
    }

    #[test]
    fn engines_have_names() {
        for engine in Engine::ALL {
            assert_eq!(engine.name().parse(), Ok(engine));
        }
        assert!("leveldb".parse::<Engine>().is_err());
    }
}
