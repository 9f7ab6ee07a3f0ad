//! What does a shard know of itself?
//!
//! Rows of the `meta` family, by name. The counters move with every batch, as one row; the tally
//! has a row a name, so that a batch writes only what it changed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ports::shard_store::Tally;
use ports::{ArchiveEnd, PortError, PortErrorKind, PortResult, codec};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use types::{CrawlUrl, ShardId, Timestamp};

use super::migrate;
use crate::kv::{Batch, Durability, Family, Kv, after_prefix, get_vec};

/// The version of the whole layout. An older one is brought to this one at open (`migrate`); any
/// other is refused, never guessed.
pub const FORMAT: u32 = 2;

pub(super) const FORMAT_NAME: &[u8] = b"format";
const COUNTERS: &[u8] = b"counters";
const ARCHIVE_END: &[u8] = b"archive_end";
const VISIT_BOUND: &[u8] = b"visit_bound";
const FILTER: &[u8] = b"filter";
const TALLY: &[u8] = b"tally/";
const LETTER: &[u8] = b"letter/";
const OUTBOX: &[u8] = b"outbox/";
const SEED: &[u8] = b"seed/";
const NOTE: &[u8] = b"note/";
/// Tombstones: a hash each (`erase`).
const FORGOTTEN: &[u8] = b"forgotten/";

/// What the directory was made with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Format {
    pub(super) version: u32,
    pub(super) engine: String,
    pub(super) shard: ShardId,
    /// Seeds the hash tables, so that no page can be written to collide in them, and a replay
    /// has the same ones.
    pub(super) hash_seed: u64,
}

/// Counts that are exact after every batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Counters {
    /// Rows in `url`.
    pub(super) known: u64,
    /// Entries in `queue`.
    pub(super) queued: u64,
    /// Entries in `due`.
    pub(super) scheduled: u64,
    pub(super) queue_seq: u64,
    pub(super) visit_seq: u64,
    pub(super) fresh_seq: u64,
    pub(super) seed_seq: u64,
    /// The newest moment that was committed.
    pub(super) latest: Timestamp,
    /// The last process closed the shard: numbers that it gave away are all known here.
    pub(super) closed: bool,
}

/// Which file of prints counts and how much of it, and up to where `fresh` need not tell it any
/// more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct FilterNote {
    pub(super) generation: u64,
    pub(super) bytes: u64,
    pub(super) covered: u64,
    /// Prints that may stand in the file twice.
    pub(super) doubled: u64,
}

/// Everything of `meta` that is held in memory.
#[derive(Debug)]
pub(super) struct Meta {
    pub(super) format: Format,
    pub(super) counters: Counters,
    pub(super) archive_end: Option<ArchiveEnd>,
    /// No visit had this number or a larger one.
    pub(super) visit_bound: u64,
    pub(super) filter: FilterNote,
    pub(super) tally: Tally,
    /// Last letter committed, by sender.
    pub(super) letters: BTreeMap<ShardId, u64>,
    /// Next letter's number, by receiver.
    pub(super) outbox: BTreeMap<ShardId, u64>,
    /// Whether anything was here before.
    pub(super) resumed: bool,
    /// Whether there is a tombstone.
    pub(super) forgets: bool,
}

impl Meta {
    /// Reads what is there, or begins a new shard.
    pub(super) fn open(kv: &mut dyn Kv, shard: ShardId, hash_seed: u64) -> PortResult<Self> {
        let stored: Option<Format> = read(kv, FORMAT_NAME)?;
        let resumed = stored.is_some();
        let format = match stored {
            Some(format) => {
                let format = check(format, kv.engine(), shard)?;
                current(kv, format)?
            }
            None => begin(kv, shard, hash_seed)?,
        };
        let mut tally = Tally::default();
        each(kv, TALLY, |name, value| {
            let name = String::from_utf8_lossy(name).into_owned();
            tally.0.insert(name, codec::decode("a counter", value)?);
            Ok(())
        })?;
        Ok(Self {
            format,
            counters: read(kv, COUNTERS)?.unwrap_or_default(),
            archive_end: read(kv, ARCHIVE_END)?,
            visit_bound: read(kv, VISIT_BOUND)?.unwrap_or(0),
            filter: read(kv, FILTER)?.unwrap_or_default(),
            tally,
            letters: by_shard(kv, LETTER)?,
            outbox: by_shard(kv, OUTBOX)?,
            resumed,
            forgets: has_any(kv, FORGOTTEN)?,
        })
    }
}

fn begin(kv: &mut dyn Kv, shard: ShardId, hash_seed: u64) -> PortResult<Format> {
    let engine = kv.engine().to_owned();
    let format = Format { version: FORMAT, engine, shard, hash_seed };
    let mut batch = Batch::default();
    put_format(&mut batch, &format);
    kv.commit(&batch, Durability::Disk)?;
    Ok(format)
}

/// Brings an older state to this version's format.
fn current(kv: &mut dyn Kv, format: Format) -> PortResult<Format> {
    match format.version {
        1 => migrate::from_1(kv, format),
        _ => Ok(format),
    }
}

fn check(format: Format, engine: &str, shard: ShardId) -> PortResult<Format> {
    let refuse = |cause: String| {
        Err(PortError::new(PortErrorKind::Version, "open the shard's state", cause))
    };
    if !(1..=FORMAT).contains(&format.version) {
        let version = format.version;
        return refuse(format!("it has format {version}; this lycosa reads formats 1 to {FORMAT}"));
    }
    if format.engine != engine {
        let stored = &format.engine;
        return refuse(format!("it was made with {stored}; set store.engine = \"{stored}\""));
    }
    if format.shard != shard {
        return refuse(format!("it is shard {}, not shard {shard}", format.shard));
    }
    Ok(format)
}

pub(super) fn put_format(batch: &mut Batch, format: &Format) {
    batch.put_value(Family::Meta, FORMAT_NAME, format);
}

pub(super) fn delete_filter(batch: &mut Batch) {
    batch.delete(Family::Meta, FILTER);
}

pub(super) fn put_counters(batch: &mut Batch, counters: &Counters) {
    batch.put_value(Family::Meta, COUNTERS, counters);
}

pub(super) fn put_archive_end(batch: &mut Batch, end: ArchiveEnd) {
    batch.put_value(Family::Meta, ARCHIVE_END, &end);
}

pub(super) fn put_visit_bound(batch: &mut Batch, bound: u64) {
    batch.put_value(Family::Meta, VISIT_BOUND, &bound);
}

pub(super) fn put_filter(batch: &mut Batch, note: FilterNote) {
    batch.put_value(Family::Meta, FILTER, &note);
}

pub(super) fn put_tally(batch: &mut Batch, name: &str, count: u64) {
    batch.put_value(Family::Meta, &[TALLY, name.as_bytes()].concat(), &count);
}

/// The last letter that was committed of this sender.
pub(super) fn put_letter(batch: &mut Batch, from: ShardId, seq: u64) {
    batch.put_value(Family::Meta, &[LETTER, &from.0.to_be_bytes()].concat(), &seq);
}

/// The number of the next letter to this receiver.
pub(super) fn put_outbox(batch: &mut Batch, to: ShardId, next: u64) {
    batch.put_value(Family::Meta, &[OUTBOX, &to.0.to_be_bytes()].concat(), &next);
}

pub(super) fn put_seed(batch: &mut Batch, seq: u64, url: &CrawlUrl) {
    batch.put(Family::Meta, &[SEED, &seq.to_be_bytes()].concat(), url.as_str().as_bytes());
}

pub(super) fn delete_seed(batch: &mut Batch, seq: u64) {
    batch.delete(Family::Meta, &[SEED, &seq.to_be_bytes()].concat());
}

/// The key of a tombstone.
pub(super) fn forgotten_key(hash: &[u8]) -> Vec<u8> {
    [FORGOTTEN, hash].concat()
}

fn has_any(kv: &dyn Kv, prefix: &[u8]) -> PortResult<bool> {
    let mut found = false;
    kv.scan(Family::Meta, prefix, after_prefix(prefix).as_deref(), &mut |_, _| {
        found = true;
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

pub(super) fn seeds(kv: &dyn Kv, from: u64, limit: usize) -> PortResult<Vec<CrawlUrl>> {
    let mut urls = Vec::new();
    let start = [SEED, &from.to_be_bytes()].concat();
    kv.scan(Family::Meta, &start, after_prefix(SEED).as_deref(), &mut |_, text| {
        if urls.len() == limit {
            return Ok(ControlFlow::Break(()));
        }
        let text = String::from_utf8_lossy(text);
        let url = CrawlUrl::from_canonical(&text);
        urls.push(url.map_err(|error| PortError::corrupt("read a seed", error))?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(urls)
}

pub(super) fn note(kv: &dyn Kv, name: &str) -> PortResult<Option<Vec<u8>>> {
    get_vec(kv, Family::Meta, &[NOTE, name.as_bytes()].concat())
}

pub(super) fn put_note(batch: &mut Batch, name: &str, value: &[u8]) {
    batch.put(Family::Meta, &[NOTE, name.as_bytes()].concat(), value);
}

fn read<T: DeserializeOwned>(kv: &dyn Kv, name: &[u8]) -> PortResult<Option<T>> {
    let what = String::from_utf8_lossy(name);
    get_vec(kv, Family::Meta, name)?.map(|bytes| codec::decode(&what, &bytes)).transpose()
}

fn by_shard(kv: &dyn Kv, prefix: &[u8]) -> PortResult<BTreeMap<ShardId, u64>> {
    let mut map = BTreeMap::new();
    each(kv, prefix, |name, value| {
        let shard: [u8; 2] = name
            .try_into()
            .map_err(|_| PortError::corrupt("read a shard's number", format_args!("{name:?}")))?;
        map.insert(ShardId(u16::from_be_bytes(shard)), codec::decode("a number", value)?);
        Ok(())
    })?;
    Ok(map)
}

/// Every row whose name starts with `prefix`: the rest of its name, and its value.
fn each(
    kv: &dyn Kv,
    prefix: &[u8],
    mut row: impl FnMut(&[u8], &[u8]) -> PortResult<()>,
) -> PortResult<()> {
    let until = after_prefix(prefix);
    kv.scan(Family::Meta, prefix, until.as_deref(), &mut |key, value| {
        row(&key[prefix.len()..], value)?;
        Ok(ControlFlow::Continue(()))
    })
}
