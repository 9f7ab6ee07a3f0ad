//! The default engine: fjall, a log-structured store in plain Rust.
//!
//! One database a shard, one keyspace a family, one journal for all of them: a batch over families
//! is one entry of the journal, whole or absent after a crash. Duplicate keys in a batch would have
//! one sequence number, which is why [`Kv::commit`] forbids them.

use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use ::fjall::compaction::Leveled;
use ::fjall::config::{BlockSizePolicy, CompressionPolicy};
use ::fjall::{
    AbstractTree as _, CompressionType, Database, Keyspace, KeyspaceCreateOptions, LsmError,
    PersistMode, Readable as _,
};
use ports::shard_store::CopyJob;
use ports::{PortError, PortErrorKind, PortResult};

use crate::engine::{self, Engine, EngineSettings};
use crate::kv::{Batch, Durability, Family, Kv, ManyFn, ScanFn, ValueFn};
use crate::readers::read_runs;
use crate::side;

/// Keys deleted with one batch when a range goes: fjall has no range deletes.
const TRIM_KEYS: usize = 4096;

/// Threads that write files and merge them, a database. With more than one, fjall's first hands
/// every merge to the others by putting it back into the queue, again and again while they are
/// busy: a core that spins (measured: 16 % of all CPU of a store that is filled).
const WORKERS: usize = 1;

/// Files of level 0 before they are merged into level 1, and how large files become. Nearly all
/// rows that are read are found without a look at the files (`shard::seen`), so more files to look
/// into cost little, and every merge that waits for twice as many rows writes half as much: with
/// these and twice the memtables a store that is filled wrote 500 bytes a URL where it had written
/// 1,000 with fjall's 4 and 64 MiB (6 million URLs).
const LEVEL_0_FILES: u8 = 8;
const FILE_BYTES: u64 = 32 << 20;

/// Smallest journal that fjall takes. Larger ones only make the next open slower.
const JOURNAL_BYTES_MAX: u64 = 128 << 20;

/// How long a commit waits for room in memory, and how often it looks. Whatever happens, it goes on
/// then: if the worker has died, the commit itself says so.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(60);
const ROOM_LOOK: Duration = Duration::from_millis(5);

/// A database of fjall.
pub struct FjallKv {
    folder: PathBuf,
    database: Database,
    families: Vec<Keyspace>,
    limits: EngineSettings,
}

impl FjallKv {
    /// Opens the database in `folder`, or begins it.
    ///
    /// # Errors
    /// Kind `Locked` if another process has it open.
    pub fn open(folder: &Path, limits: EngineSettings) -> PortResult<Self> {
        let say = |error| translate("open the state", folder, error);
        let database = Database::builder(folder)
            .cache_size(limits.cache_bytes_max)
            .worker_threads(WORKERS)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .open()
            .map_err(say)?;
        let mut families = Vec::with_capacity(Family::COUNT);
        for family in Family::ALL {
            let options = || options(family, limits);
            families.push(database.keyspace(family.name(), options).map_err(say)?);
        }
        Ok(Self { folder: folder.to_owned(), database, families, limits })
    }

    fn family(&self, family: Family) -> &Keyspace {
        &self.families[family.index()]
    }

    /// fjall's worker both merges files and writes new rows as files. While it merges, new rows stay
    /// in memory without bound: a store that was filled as fast as it could held 1.9 GB. So whoever
    /// writes faster than it merges waits here.
    fn wait_for_room(&self) {
        let began = Instant::now();
        while self.database.write_buffer_size() > 2 * self.limits.memtable_bytes_max
            && began.elapsed() < ROOM_WAIT_MAX
        {
            std::thread::sleep(ROOM_LOOK); // fjall tells nobody when a file is written
        }
    }

    /// Has the new rows of a family written as a file, once there are enough of them. fjall would see
    /// to that by itself, by a word to its worker after every commit until it is done. While the
    /// worker merges, a thousand such words fill its inbox; then it waits for room in there itself, for
    /// ever (seen with eight million URLs). Done here, there is one word for each file.
    fn turn_over(&self) -> PortResult<()> {
        for (family, rows) in Family::ALL.into_iter().zip(&self.families) {
            if rows.tree.active_memtable().size() > rows_bytes_max(family, self.limits) {
                let turned = rows.rotate_memtable();
                turned.map_err(|error| self.failed("write the state", error))?;
            }
        }
        Ok(())
    }

    fn failed(&self, doing: &str, error: ::fjall::Error) -> PortError {
        translate(doing, &self.folder, error)
    }
}

/// How a family is laid out. What is not named is fjall's default.
fn options(family: Family, limits: EngineSettings) -> KeyspaceCreateOptions {
    let options = KeyspaceCreateOptions::default()
        // Written often and short-lived in level 0; everything below is compressed.
        .data_block_compression_policy(CompressionPolicy::new([
            CompressionType::None,
            CompressionType::Lz4,
        ]))
        .compaction_strategy(Arc::new(
            Leveled::default().with_l0_threshold(LEVEL_0_FILES).with_table_target_size(FILE_BYTES),
        ));
    let options = options.max_memtable_size(rows_bytes_max(family, limits));
    match family {
        // Most of the data. Our own filter stands before the point reads, so nearly all of them
        // hit: filters of the last level would be 10 bits a URL for nothing. 8 KiB blocks hold
        // some 70 URLs of one host, which lz4 packs better than the 30 of 4 KiB.
        Family::Url => options
            .expect_point_read_hits(true)
            .data_block_size_policy(BlockSizePolicy::all(8 << 10)),
        // Read by scans from a known place, deleted from the front.
        Family::Queue | Family::Due | Family::Visit | Family::Outbox | Family::Fresh => {
            options.data_block_size_policy(BlockSizePolicy::all(16 << 10))
        }
        Family::Host | Family::Grant | Family::Meta => options,
    }
}

/// New rows of a family in memory before they become a file.
const fn rows_bytes_max(family: Family, limits: EngineSettings) -> u64 {
    limits.memtable_bytes_max
        / match family {
            Family::Url => 2,
            Family::Queue => 4,
            Family::Due | Family::Visit | Family::Outbox | Family::Fresh | Family::Host => 16,
            Family::Grant | Family::Meta => 32,
        }
}

fn translate(doing: &str, folder: &Path, error: ::fjall::Error) -> PortError {
    use ::fjall::Error;
    let doing = format!("{doing} in {}", folder.display());
    match error {
        Error::Io(error) | Error::Storage(LsmError::Io(error)) => PortError::io(doing, &error),
        Error::Locked => {
            PortError::new(PortErrorKind::Locked, doing, "another process has it open")
        }
        Error::InvalidVersion(_) | Error::Storage(LsmError::InvalidVersion(_)) => {
            PortError::new(PortErrorKind::Version, doing, "written by another version of fjall")
        }
        // An earlier write or a file in the background failed. Most often the disk is full.
        Error::Poisoned if side::disk_is_full(folder) => {
            PortError::new(PortErrorKind::DiskFull, doing, "the disk is full")
        }
        Error::Poisoned => {
            PortError::new(PortErrorKind::Io, doing, "an earlier write to the disk failed")
        }
        other => PortError::corrupt(doing, other),
    }
}

impl fmt::Debug for FjallKv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FjallKv").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Kv for FjallKv {
    fn engine(&self) -> &'static str {
        "fjall"
    }

    fn get(&self, family: Family, key: &[u8], each: &mut ValueFn<'_>) -> PortResult<()> {
        match self.family(family).get(key).map_err(|error| self.failed("read", error))? {
            Some(value) => each(&value),
            None => Ok(()),
        }
    }

    fn get_many(&self, family: Family, keys: &[&[u8]], each: &mut ManyFn<'_>) -> PortResult<()> {
        // Sorted keys share blocks: the second of a block finds it in the cache.
        let rows = self.family(family);
        let get = |key: &&[u8]| rows.get(key).map_err(|error| self.failed("read", error));
        let values = read_runs(keys, self.limits.readers, |run| run.iter().map(get).collect())?;
        values.iter().enumerate().try_for_each(|(n, value)| each(n, value.as_deref()))
    }

    fn scan(
        &self,
        family: Family,
        from: &[u8],
        until: Option<&[u8]>,
        each: &mut ScanFn<'_>,
    ) -> PortResult<()> {
        if until.is_some_and(|until| until <= from) {
            return Ok(());
        }
        let end = until.map_or(Bound::Unbounded, Bound::Excluded);
        for row in self.family(family).range::<&[u8], _>((Bound::Included(from), end)) {
            let (key, value) = row.into_inner().map_err(|error| self.failed("read", error))?;
            if let ControlFlow::Break(()) = each(&key, &value)? {
                break;
            }
        }
        Ok(())
    }

    fn commit(&mut self, batch: &Batch, durability: Durability) -> PortResult<()> {
        self.wait_for_room();
        let mode = match durability {
            Durability::Os => PersistMode::Buffer,
            Durability::Disk => PersistMode::SyncData,
        };
        let mut writes = self.database.batch().durability(Some(mode));
        for change in batch.sorted() {
            let rows = self.family(change.family);
            match change.value {
                Some(value) => writes.insert(rows, change.key, value),
                None => writes.remove(rows, change.key),
            }
        }
        if writes.is_empty() {
            return if durability == Durability::Disk { self.sync() } else { Ok(()) };
        }
        writes.commit().map_err(|error| self.failed("write the state", error))?;
        self.turn_over()
    }

    fn delete_range(&mut self, family: Family, from: &[u8], until: &[u8]) -> PortResult<()> {
        let mut from = from.to_vec();
        loop {
            let mut batch = Batch::default();
            let mut last = None;
            self.scan(family, &from, Some(until), &mut |key, _| {
                batch.delete(family, key);
                if batch.len() == TRIM_KEYS {
                    last = Some(key.to_vec());
                    return Ok(ControlFlow::Break(()));
                }
                Ok(ControlFlow::Continue(()))
            })?;
            self.commit(&batch, Durability::Os)?;
            match last {
                Some(last) => from = last,
                None => return Ok(()),
            }
        }
    }

    fn sync(&mut self) -> PortResult<()> {
        let synced = self.database.persist(PersistMode::SyncData);
        synced.map_err(|error| self.failed("sync the state", error))
    }

    fn disk_bytes(&self) -> PortResult<u64> {
        self.database.disk_space().map_err(|error| self.failed("measure the state", error))
    }

    fn append_side(&mut self, name: &str, at: u64, bytes: &[u8]) -> PortResult<()> {
        side::append(&self.folder, name, at, bytes)
    }

    fn remove_side(&mut self, name: &str) -> PortResult<()> {
        side::remove(&self.folder, name)
    }

    fn load_side(&self, name: &str, at: u64) -> PortResult<Option<Box<dyn io::Read + '_>>> {
        side::load(&self.folder, name, at)
    }

    fn copy(&self, folder: &Path, sides: &'static [&'static str]) -> PortResult<CopyJob> {
        let snapshot = self.database.snapshot();
        let families = self.families.clone();
        let (from, folder) = (self.folder.clone(), folder.to_owned());
        Ok(Box::new(move || {
            engine::mark(&folder, Engine::Fjall)?;
            let say = |error| translate("copy the state", &folder, error);
            let mut copy = Self::open(&folder, EngineSettings::SMALL)?;
            for (rows, new) in families.iter().zip(&copy.families) {
                // In the order of their keys, so files can be written one after the other.
                let mut writer = new.start_ingestion().map_err(say)?;
                for row in snapshot.iter(rows) {
                    let (key, value) = row.into_inner().map_err(say)?;
                    writer.write(key, value).map_err(say)?;
                }
                writer.finish().map_err(say)?;
            }
            copy.sync()?;
            sides.iter().try_for_each(|name| side::copy(&from, &folder, name))?;
            engine::finish(&folder)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_merges_is_not_buried_in_requests() {
        let folder = tempfile::tempdir().unwrap();
        let limits = EngineSettings { memtable_bytes_max: 1 << 20, ..EngineSettings::SMALL };
        let mut kv = FjallKv::open(&folder.path().join("state"), limits).unwrap();
        let value = [7; 1_000];
        // Small commits, far more of them than fit into the worker's inbox while it merges.
        for n in 0..15_000_u64 {
            let mut batch = Batch::default();
            for family in [Family::Url, Family::Queue, Family::Visit] {
                batch.put(family, &n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), &value);
            }
            kv.commit(&batch, Durability::Os).unwrap();
            for (family, rows) in Family::ALL.into_iter().zip(&kv.families) {
                let bytes = rows.tree.active_memtable().size();
                assert!(bytes <= rows_bytes_max(family, limits), "{} {bytes}", family.name());
            }
        }
        let mut rows = 0;
        kv.scan(Family::Url, &[], None, &mut |_, _| {
            rows += 1;
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        assert_eq!(rows, 15_000);
    }

    #[test]
    fn new_rows_in_memory_stay_below_their_bound() {
        let folder = tempfile::tempdir().unwrap();
        let limits = EngineSettings { memtable_bytes_max: 1 << 20, ..EngineSettings::SMALL };
        let mut kv = FjallKv::open(&folder.path().join("state"), limits).unwrap();
        let value = [7; 1_000];
        let mut most = 0;
        for n in 0..500_u64 {
            let mut batch = Batch::default();
            // Everywhere at once, so that files overlap and must be merged.
            (0..100_u64).for_each(|m| batch.put(Family::Url, &(m << 32 | n).to_be_bytes(), &value));
            kv.commit(&batch, Durability::Os).unwrap();
            most = most.max(kv.database.write_buffer_size());
        }
        assert!(most < 2 * limits.memtable_bytes_max + 200_000, "{most}");
    }
}
