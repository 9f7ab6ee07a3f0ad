//! The engine for very large crawls: RocksDB.
//!
//! One database a shard, one column family a family, one write-ahead log: a batch is one record of
//! it. All shards of a process share one block cache and one budget for new rows.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use ports::shard_store::CopyJob;
use ports::{PortError, PortErrorKind, PortResult};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, BottommostLevelCompaction, Cache, ColumnFamily,
    ColumnFamilyDescriptor, CompactOptions, DB, DBCompactionStyle, DBCompressionType, Error,
    ErrorKind, LogLevel, Options, ReadOptions, SliceTransform, UniversalCompactOptions,
    UniversalCompactionStopStyle, WriteBatch, WriteBufferManager, WriteOptions,
};

use crate::engine::{self, Engine, EngineSettings};
use crate::kv::{self, Batch, Durability, Family, Kv, ManyFn, ScanFn, ValueFn};
use crate::readers::read_runs;
use crate::side;

/// A range of more keys than this is deleted by one range tombstone, which every later read of the
/// family looks at; a smaller one key by key.
const POINT_DELETES_MAX: usize = 4096;

/// Runs of about one size that are merged at a time, and how much larger than all newer ones together
/// a run may be, in percent, to be of their size.
const MERGED_RUNS: i32 = 14;
const LIKE_SIZES: i32 = 100;
/// Runs at which writers are slowed down, and at which they wait: six and eight times as many.
const RUNS_SLOW: i32 = 6 * MERGED_RUNS;
const RUNS_MAX: i32 = 8 * MERGED_RUNS;

/// Memory that all databases of a process share.
pub struct RocksShared {
    cache: Cache,
    buffers: WriteBufferManager,
    limits: EngineSettings,
}

impl RocksShared {
    pub fn new(limits: EngineSettings) -> Self {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let cache = Cache::new_lru_cache(size(limits.cache_bytes_max));
        // Full means that memtables are written out, not that writers wait.
        let buffers =
            WriteBufferManager::new_write_buffer_manager(size(limits.memtable_bytes_max), false);
        Self { cache, buffers, limits }
    }
}

impl fmt::Debug for RocksShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksShared").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// A database of RocksDB.
pub struct RocksKv {
    folder: PathBuf,
    db: DB,
    readers: usize,
}

impl RocksKv {
    /// Opens the database in `folder`, or begins it.
    ///
    /// # Errors
    /// Kind `Locked` if another process has it open.
    pub fn open(folder: &Path, shared: &RocksShared) -> PortResult<Self> {
        let families = Family::ALL.map(|family| {
            ColumnFamilyDescriptor::new(family.name(), family_options(family, shared))
        });
        let db = DB::open_cf_descriptors(&database_options(shared), folder, families);
        let db = db.map_err(|error| translate("open the state", folder, &error))?;
        Ok(Self { folder: folder.to_owned(), db, readers: shared.limits.readers })
    }

    fn family(&self, family: Family) -> &ColumnFamily {
        self.db.cf_handle(family.name()).expect("every family is made at open")
    }

    fn failed(&self, doing: &str, error: &Error) -> PortError {
        translate(doing, &self.folder, error)
    }
}

fn database_options(shared: &RocksShared) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_max_background_jobs(i32::try_from(shared.limits.threads.max(2)).unwrap_or(2));
    options.set_write_buffer_manager(&shared.buffers);
    // The log is read whole at the next open: bounded, so that this takes seconds.
    options.set_max_total_wal_size(128 << 20);
    // Spread the disk's work instead of one long stall at the end of a file.
    options.set_bytes_per_sync(1 << 20);
    options.set_max_open_files(512);
    // Rows are read in the order of their keys, a host's or a batch's at a time: where they lie
    // together, the system's read-ahead saves most requests to the disk.
    options.set_advise_random_on_open(false);
    options.set_log_level(LogLevel::Warn);
    options.set_keep_log_file_num(2);
    options
}

/// How a family is laid out. What is not named is RocksDB's default.
fn family_options(family: Family, shared: &RocksShared) -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&shared.cache);
    // Index and filter blocks count against the cache, so that memory is bounded by it.
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    let mut options = Options::default();
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size(match family {
        Family::Url => 48 << 20,
        Family::Queue => 24 << 20,
        Family::Host => 8 << 20,
        _ => 4 << 20,
    });
    if matches!(family, Family::Url | Family::Queue) {
        // Rows are written everywhere at once and seldom read: merging whole runs writes each of
        // them a few times, where levels would write it ten times.
        options.set_compaction_style(DBCompactionStyle::Universal);
        // Only those of like size, and many at a time: a row is written once as it comes, and once
        // more each time that there is fourteen times as much. All are merged never (`url`, where
        // few rows are replaced), or when the newer ones are four times the oldest (`queue`).
        let mut runs = UniversalCompactOptions::default();
        runs.set_stop_style(UniversalCompactionStopStyle::Similar);
        runs.set_size_ratio(LIKE_SIZES);
        runs.set_min_merge_width(MERGED_RUNS);
        let replaced_percent_max = if family == Family::Queue { 400 } else { i32::MAX };
        runs.set_max_size_amplification_percent(replaced_percent_max);
        options.set_universal_compaction_options(&runs);
        options.set_level_zero_file_num_compaction_trigger(MERGED_RUNS);
        options.set_level_zero_slowdown_writes_trigger(RUNS_SLOW);
        options.set_level_zero_stop_writes_trigger(RUNS_MAX);
        // The price is that a host's rows may lie in twice as many runs. A filter of each run says
        // whether it has anything of a host: most have nothing of most hosts.
        options.set_prefix_extractor(SliceTransform::create(
            "host",
            |key| kv::host_part(key).unwrap_or(key),
            Some(|key| kv::host_part(key).is_some()),
        ));
        // Filters and indexes of large runs are larger than the cache. In pieces, a read loads what
        // it needs; whole, they pushed each other out and were read again and again.
        table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        table.set_partition_filters(true);
        table.set_metadata_block_size(4 << 10);
        table.set_pin_top_level_index_and_filter(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(false);
    }
    match family {
        // Most of the data. Our own filter stands before the point reads, so nearly all of them
        // hit, in one of several runs: each run has its filter.
        Family::Url => {
            table.set_block_size(8 << 10);
            table.set_bloom_filter(10.0, false);
        }
        // Scanned from its front, where rows are deleted: a file in which half of a window of 1024
        // keys is gone is merged early, so that scans do not wade through tombstones. Not so for
        // queues, whose heads are known: every file has such a window, of the hosts that were just
        // visited, and each was merged with everything.
        Family::Due => {
            table.set_block_size(16 << 10);
            options.add_compact_on_deletion_collector_factory(1024, 512, 0.5);
        }
        // Found by its host alone.
        Family::Queue => {
            table.set_block_size(16 << 10);
            table.set_bloom_filter(10.0, false);
            table.set_whole_key_filtering(false);
        }
        Family::Visit | Family::Outbox | Family::Fresh => table.set_block_size(16 << 10),
        Family::Host | Family::Grant | Family::Meta => table.set_bloom_filter(10.0, false),
    }
    options.set_block_based_table_factory(&table);
    options
}

fn translate(doing: &str, folder: &Path, error: &Error) -> PortError {
    let doing = format!("{doing} in {}", folder.display());
    let text = error.to_string();
    // The C interface gives the operating system's error only as words.
    let kind = match error.kind() {
        ErrorKind::IOError if text.contains("No space left") => PortErrorKind::DiskFull,
        ErrorKind::IOError if text.contains("lock") => PortErrorKind::Locked,
        ErrorKind::Corruption => PortErrorKind::Corrupt,
        ErrorKind::NotSupported => PortErrorKind::Version,
        _ => PortErrorKind::Io,
    };
    PortError::new(kind, doing, text)
}

impl fmt::Debug for RocksKv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RocksKv").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Kv for RocksKv {
    fn engine(&self) -> &'static str {
        "rocksdb"
    }

    fn get(&self, family: Family, key: &[u8], each: &mut ValueFn<'_>) -> PortResult<()> {
        let value = self.db.get_pinned_cf(self.family(family), key);
        match value.map_err(|error| self.failed("read", &error))? {
            Some(value) => each(&value),
            None => Ok(()),
        }
    }

    fn get_many(&self, family: Family, keys: &[&[u8]], each: &mut ManyFn<'_>) -> PortResult<()> {
        let rows = self.family(family);
        let values = read_runs(keys, self.readers, |run| {
            let values = self.db.batched_multi_get_cf(rows, run, true).into_iter();
            values.map(|value| value.map_err(|error| self.failed("read", &error))).collect()
        })?;
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
        // Between two keys of one host, runs that have nothing of it are left out.
        let host = family.host_part(from);
        let of_one_host = host.is_some() && until.and_then(|key| family.host_part(key)) == host;
        let mut options = ReadOptions::default();
        options.set_total_order_seek(!of_one_host);
        options.set_prefix_same_as_start(of_one_host);
        if let Some(until) = until {
            options.set_iterate_upper_bound(until);
        }
        let mut rows = self.db.raw_iterator_cf_opt(self.family(family), options);
        rows.seek(from);
        while let Some((key, value)) = rows.item() {
            if let ControlFlow::Break(()) = each(key, value)? {
                return Ok(());
            }
            rows.next();
        }
        rows.status().map_err(|error| self.failed("read", &error))
    }

    fn commit(&mut self, batch: &Batch, durability: Durability) -> PortResult<()> {
        let mut writes = WriteBatch::default();
        for change in batch.sorted() {
            let rows = self.family(change.family);
            match change.value {
                Some(value) => writes.put_cf(rows, change.key, value),
                None => writes.delete_cf(rows, change.key),
            }
        }
        let mut options = WriteOptions::default();
        options.set_sync(durability == Durability::Disk);
        let written = self.db.write_opt(writes, &options);
        written.map_err(|error| self.failed("write the state", &error))
    }

    fn delete_range(&mut self, family: Family, from: &[u8], until: &[u8]) -> PortResult<()> {
        if until <= from {
            return Ok(());
        }
        let mut batch = Batch::default();
        self.scan(family, from, Some(until), &mut |key, _| {
            batch.delete(family, key);
            let full = batch.len() > POINT_DELETES_MAX;
            Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if batch.len() <= POINT_DELETES_MAX {
            return self.commit(&batch, Durability::Os);
        }
        let mut writes = WriteBatch::default();
        writes.delete_range_cf(self.family(family), from, until);
        let written = self.db.write(writes);
        written.map_err(|error| self.failed("trim the state", &error))
    }

    fn sync(&mut self) -> PortResult<()> {
        self.db.flush_wal(true).map_err(|error| self.failed("sync the state", &error))
    }

    fn purge(&mut self) -> PortResult<()> {
        let mut options = CompactOptions::default();
        // The last files are left alone otherwise, and a deleted row may lie in them.
        options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        for family in Family::ALL {
            let rows = self.family(family);
            self.db.flush_cf(rows).map_err(|error| self.failed("write the state", &error))?;
            self.db.compact_range_cf_opt(rows, None::<&[u8]>, None::<&[u8]>, &options);
        }
        Ok(())
    }

    fn disk_bytes(&self) -> PortResult<u64> {
        let bytes = side::folder_bytes(&self.folder);
        bytes.map_err(|error| PortError::io("measure the state", &error))
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
        // Files never change once they are written, so the copy begins as links to them.
        let say = |error: Error| translate("copy the state", folder, &error);
        let point = Checkpoint::new(&self.db).map_err(say)?;
        point.create_checkpoint(folder).map_err(say)?;
        let (from, folder) = (self.folder.clone(), folder.to_owned());
        Ok(Box::new(move || {
            sides.iter().try_for_each(|name| side::copy(&from, &folder, name))?;
            engine::mark(&folder, Engine::Rocksdb)?;
            engine::finish(&folder)
        }))
    }
}
