//! The engine that keeps everything in memory: for simulations, tests, and crawls that need not
//! outlive their process. It lives on a [`Disk`], which knows what a crash would leave.

use std::io;
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use ports::shard_store::CopyJob;
use ports::{PortError, PortResult};

use crate::kv::{Batch, Durability, Family, Kv, ManyFn, ScanFn, ValueFn};
use crate::sim_disk::Disk;

/// One database on a [`Disk`]. Dropping it without closing is what a kill does.
#[derive(Debug)]
pub struct MemoryKv {
    disk: Disk,
    name: String,
    life: u64,
}

impl MemoryKv {
    /// Opens or begins the database `name`; a second open of one database is refused as locked.
    pub fn open(disk: &Disk, name: &str) -> PortResult<Self> {
        let life = disk.lock().open_database(name)?;
        Ok(Self { disk: disk.clone(), name: name.to_owned(), life })
    }

    /// A database of its own.
    pub fn new() -> Self {
        Self::open(&Disk::new(), "memory").expect("a new disk has no other user")
    }
}

impl Default for MemoryKv {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for MemoryKv {
    fn drop(&mut self) {
        self.disk.lock().close_database(&self.name, self.life);
    }
}

impl Kv for MemoryKv {
    fn engine(&self) -> &'static str {
        "memory"
    }

    fn get(&self, family: Family, key: &[u8], each: &mut ValueFn<'_>) -> PortResult<()> {
        let state = self.disk.lock();
        state.alive(self.life)?;
        match state.database(&self.name).families[family.index()].get(key) {
            Some(value) => each(value),
            None => Ok(()),
        }
    }

    fn get_many(&self, family: Family, keys: &[&[u8]], each: &mut ManyFn<'_>) -> PortResult<()> {
        debug_assert!(keys.is_sorted(), "keys come sorted, for the sake of other engines");
        let state = self.disk.lock();
        state.alive(self.life)?;
        let rows = &state.database(&self.name).families[family.index()];
        keys.iter().enumerate().try_for_each(|(n, key)| each(n, rows.get(*key).map(|v| &**v)))
    }

    fn scan(
        &self,
        family: Family,
        from: &[u8],
        until: Option<&[u8]>,
        each: &mut ScanFn<'_>,
    ) -> PortResult<()> {
        let end = until.map_or(Bound::Unbounded, Bound::Excluded);
        if until.is_some_and(|until| until <= from) {
            return Ok(());
        }
        let state = self.disk.lock();
        state.alive(self.life)?;
        let rows = &state.database(&self.name).families[family.index()];
        for (key, value) in rows.range::<[u8], _>((Bound::Included(from), end)) {
            if let ControlFlow::Break(()) = each(key, value)? {
                break;
            }
        }
        Ok(())
    }

    fn commit(&mut self, batch: &Batch, durability: Durability) -> PortResult<()> {
        debug_assert!(has_each_key_once(batch), "engines differ in what two puts of a key do");
        let mut state = self.disk.lock();
        state.write(self.life)?;
        state.database_mut(&self.name).apply(batch, durability);
        Ok(())
    }

    fn delete_range(&mut self, family: Family, from: &[u8], until: &[u8]) -> PortResult<()> {
        if until <= from {
            return Ok(());
        }
        let mut state = self.disk.lock();
        state.write(self.life)?;
        state.database_mut(&self.name).trim(family, from, until);
        Ok(())
    }

    fn sync(&mut self) -> PortResult<()> {
        let mut state = self.disk.lock();
        state.write(self.life)?;
        state.database_mut(&self.name).sync();
        Ok(())
    }

    fn disk_bytes(&self) -> PortResult<u64> {
        let state = self.disk.lock();
        let families = &state.database(&self.name).families;
        let rows = families.iter().flat_map(|rows| rows.iter());
        Ok(rows.map(|(key, value)| (key.len() + value.len()) as u64).sum())
    }

    fn append_side(&mut self, name: &str, at: u64, bytes: &[u8]) -> PortResult<()> {
        let mut state = self.disk.lock();
        state.alive(self.life)?;
        let result = state.write(self.life);
        let file = state.database_mut(&self.name).sides.entry(name.to_owned()).or_default();
        if at > file.len() as u64 {
            return Err(PortError::corrupt(format!("append to `{name}`"), "it has become shorter"));
        }
        file.truncate(at as usize);
        // A process that dies here leaves a part of it.
        let kept = if result.is_ok() { bytes.len() } else { bytes.len() / 2 };
        file.extend_from_slice(&bytes[..kept]);
        result
    }

    fn remove_side(&mut self, name: &str) -> PortResult<()> {
        let mut state = self.disk.lock();
        state.write(self.life)?;
        state.database_mut(&self.name).sides.remove(name);
        Ok(())
    }

    fn load_side(&self, name: &str, at: u64) -> PortResult<Option<Box<dyn io::Read + '_>>> {
        let state = self.disk.lock();
        state.alive(self.life)?;
        let side = state.database(&self.name).sides.get(name);
        let rest = side.map(|bytes| bytes.get(at as usize..).unwrap_or_default().to_vec());
        Ok(rest.map(|bytes| Box::new(io::Cursor::new(bytes)) as Box<dyn io::Read>))
    }

    /// On the same disk, under the folder's name.
    fn copy(&self, folder: &Path, _: &'static [&'static str]) -> PortResult<CopyJob> {
        let mut state = self.disk.lock();
        state.alive(self.life)?;
        state.copy_database(&self.name, &folder.to_string_lossy());
        Ok(Box::new(|| Ok(())))
    }
}

fn has_each_key_once(batch: &Batch) -> bool {
    let mut met = std::collections::HashSet::with_capacity(batch.len());
    batch.iter().all(|change| met.insert((change.family, change.key)))
}
