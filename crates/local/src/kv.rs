//! What must a key-value engine do for us, and no more?
//!
//! Nine families of ordered byte keys, one atomic batch over all of them, point reads in sorted
//! groups, forward scans between two keys. The shard store is written once over this trait; the
//! engines ([`crate::memory`], `fjall`, `rocks`) only translate.
//!
//! Always: batches become durable in the order of their commits, so what survives a crash is a
//! prefix of them. There is one writer, so no snapshot is needed to read what was written; only a
//! copy, which takes its time, is made of one.
//!
//! Not here, because nothing needs it yet: incremental checkpoints for a shard's failover. RocksDB
//! has them; they come with the fleet.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use ports::shard_store::CopyJob;
use ports::{PortResult, codec};
use serde::Serialize;

/// One shard's database.
pub trait Kv: Send {
    /// The engine's name, as `store.engine` and a directory's mark write it.
    fn engine(&self) -> &'static str;

    /// Hands the value of a key to `each`, if there is one.
    fn get(&self, family: Family, key: &[u8], each: &mut ValueFn<'_>) -> PortResult<()>;

    /// Reads many keys, which are sorted and distinct; `each` gets a key's place and its value.
    fn get_many(&self, family: Family, keys: &[&[u8]], each: &mut ManyFn<'_>) -> PortResult<()>;

    /// Goes forward from `from` (included) to `until` (excluded) or the end of the family, until
    /// `each` has enough. `each` must not call the store.
    fn scan(
        &self,
        family: Family,
        from: &[u8],
        until: Option<&[u8]>,
        each: &mut ScanFn<'_>,
    ) -> PortResult<()>;

    /// Applies a whole batch, or nothing of it. A key stands in a batch once.
    fn commit(&mut self, batch: &Batch, durability: Durability) -> PortResult<()>;

    /// Deletes the keys from `from` (included) to `until` (excluded). Not atomic: a kill may leave
    /// a part of them. It is for trimming what nobody reads any more.
    fn delete_range(&mut self, family: Family, from: &[u8], until: &[u8]) -> PortResult<()>;

    /// Everything committed so far survives a power loss after this.
    fn sync(&mut self) -> PortResult<()>;

    /// What was deleted must not be in a [`Self::copy`] any more. An engine that copies row by row need
    /// not do anything; one that links its files has to write them anew first.
    fn purge(&mut self) -> PortResult<()> {
        Ok(())
    }

    /// Bytes on disk, as far as the engine can say cheaply.
    fn disk_bytes(&self) -> PortResult<u64>;

    /// Cuts a file beside the database at `at`, which is not beyond its end, and appends to it;
    /// it is made if it is not there. Durable after this. When it fails, what lies before `at` is
    /// as it was.
    fn append_side(&mut self, name: &str, at: u64, bytes: &[u8]) -> PortResult<()>;

    /// Removes a file beside the database, if it is there.
    fn remove_side(&mut self, name: &str) -> PortResult<()>;

    /// Opens a file beside the database for reading from `at` on, if it is there.
    fn load_side(&self, name: &str, at: u64) -> PortResult<Option<Box<dyn io::Read + '_>>>;

    /// Begins a copy of all rows as they are now, in a folder that is not there yet. The job makes
    /// it whole, and copies these side files as they are then.
    fn copy(&self, folder: &Path, sides: &'static [&'static str]) -> PortResult<CopyJob>;
}

/// Gets the value of a key that is there.
pub type ValueFn<'a> = dyn FnMut(&[u8]) -> PortResult<()> + 'a;

/// Gets the place of a key among those asked for, and its value if it is there.
pub type ManyFn<'a> = dyn FnMut(usize, Option<&[u8]>) -> PortResult<()> + 'a;

/// Gets one key and its value; breaks when it has enough.
pub type ScanFn<'a> = dyn FnMut(&[u8], &[u8]) -> PortResult<ControlFlow<()>> + 'a;

/// A kind of rows with one key layout; see `shard::keys`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    Url,
    Queue,
    Due,
    Host,
    Visit,
    Outbox,
    Fresh,
    Grant,
    Meta,
}

impl Family {
    pub const COUNT: usize = 9;
    pub const ALL: [Self; Self::COUNT] = [
        Self::Url,
        Self::Queue,
        Self::Due,
        Self::Host,
        Self::Visit,
        Self::Outbox,
        Self::Fresh,
        Self::Grant,
        Self::Meta,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Url => "url",
            Self::Queue => "queue",
            Self::Due => "due",
            Self::Host => "host",
            Self::Visit => "visit",
            Self::Outbox => "outbox",
            Self::Fresh => "fresh",
            Self::Grant => "grant",
            Self::Meta => "meta",
        }
    }

    pub const fn index(self) -> usize {
        self as usize
    }

    /// What all keys of one host begin with, in the families whose rows are read by host: space and
    /// name, up to the 0 byte that ends it. An engine may use it to find out which of its files
    /// hold nothing of a host.
    pub fn host_part(self, key: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Url | Self::Queue | Self::Host => host_part(key),
            _ => None,
        }
    }
}

const SPACE_BYTES: usize = 4;

/// [`Family::host_part`], for the families that have one.
pub fn host_part(key: &[u8]) -> Option<&[u8]> {
    let end = key.get(SPACE_BYTES..)?.iter().position(|&byte| byte == 0)?;
    Some(&key[..SPACE_BYTES + end + 1])
}

/// How far a batch has come when `commit` returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// With the operating system: survives `kill -9`, not a power loss.
    Os,
    /// On the disk.
    Disk,
}

/// Puts and deletes that happen together. Their bytes lie in one buffer.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    ops: Vec<Op>,
}

#[derive(Debug, Clone, Copy)]
struct Op {
    family: Family,
    put: bool,
    start: usize,
    key_end: usize,
    end: usize,
}

/// One change of a [`Batch`]; a value of none deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'a> {
    pub family: Family,
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

impl Batch {
    pub fn put(&mut self, family: Family, key: &[u8], value: &[u8]) {
        self.op(family, true, key, |bytes| bytes.extend_from_slice(value));
    }

    /// Puts a value in its stored form, version in front.
    pub fn put_value<T: Serialize>(&mut self, family: Family, key: &[u8], value: &T) {
        self.op(family, true, key, |bytes| codec::encode_into(value, bytes));
    }

    /// Puts what `write` appends.
    pub fn put_with(&mut self, family: Family, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.op(family, true, key, write);
    }

    pub fn delete(&mut self, family: Family, key: &[u8]) {
        self.op(family, false, key, |_| ());
    }

    fn op(&mut self, family: Family, put: bool, key: &[u8], value: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        value(&mut self.bytes);
        self.ops.push(Op { family, put, start, key_end, end: self.bytes.len() });
    }

    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        self.ops.iter().map(|op| Change {
            family: op.family,
            key: &self.bytes[op.start..op.key_end],
            value: op.put.then(|| &self.bytes[op.key_end..op.end]),
        })
    }

    /// The same by family and key: an engine finds the place of each near the last one's, which
    /// is still in the processor's cache.
    pub fn sorted(&self) -> impl Iterator<Item = Change<'_>> {
        let mut changes: Vec<_> = self.iter().collect();
        changes.sort_unstable_by(|a, b| (a.family, a.key).cmp(&(b.family, b.key)));
        changes.into_iter()
    }

    pub fn len(&self) -> usize {
        self.ops.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// The value of a key, copied.
pub(crate) fn get_vec(kv: &dyn Kv, family: Family, key: &[u8]) -> PortResult<Option<Vec<u8>>> {
    let mut found = None;
    kv.get(family, key, &mut |value| {
        found = Some(value.to_vec());
        Ok(())
    })?;
    Ok(found)
}

/// The smallest key after all keys that start with `prefix`; none if there is no such key.
pub fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_gives_back_its_changes_in_order() {
        let mut batch = Batch::default();
        batch.put(Family::Url, b"k", b"v");
        batch.delete(Family::Queue, b"q");
        batch.put(Family::Meta, b"", b"");
        let changes: Vec<_> = batch.iter().collect();
        let change = |family, key, value| Change { family, key, value };
        assert_eq!(
            changes,
            [
                change(Family::Url, &b"k"[..], Some(&b"v"[..])),
                change(Family::Queue, b"q", None),
                change(Family::Meta, b"", Some(b"")),
            ]
        );
        assert_eq!((batch.len(), batch.bytes()), (3, 3));
    }

    #[test]
    fn families_are_listed_once_each_and_in_order() {
        for (n, family) in Family::ALL.into_iter().enumerate() {
            assert_eq!(family.index(), n, "{}", family.name());
        }
    }

    #[test]
    fn the_part_of_a_host_ends_with_its_name() {
        // The space has 0 bytes too, and so may an id.
        let key = b"\0\0\0\0test.a\0\x07\0\0";
        for family in [Family::Url, Family::Queue, Family::Host] {
            assert_eq!(family.host_part(key), Some(&b"\0\0\0\0test.a\0"[..]));
            assert_eq!(family.host_part(&key[..11]), Some(&key[..11]), "of its heads");
            assert_eq!(family.host_part(&key[..10]), None);
            assert_eq!(family.host_part(b"\0"), None);
        }
        assert_eq!(Family::Due.host_part(key), None);
    }

    #[test]
    fn the_end_of_a_prefix_is_beyond_all_its_keys() {
        assert_eq!(after_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_prefix(&[1, 255, 255]), Some(vec![2]));
        assert_eq!(after_prefix(&[255]), None);
        assert_eq!(after_prefix(b""), None);
    }
}
