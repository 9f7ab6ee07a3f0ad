//! What is left on a disk when the process, or the power, goes?
//!
//! A [`Disk`] holds the databases and archive files of a simulated machine in memory and forgets
//! what a real one would: after [`Disk::kill`] everything that reached the operating system is
//! there; after [`Disk::crash`] everything synced is there, and of the rest a random prefix, which
//! for files may end at any byte. [`Disk::fail_after`] lets the process die at its n-th write.
//!
//! Always: the same calls with the same seed leave the same bytes.
//!
//! The plain memory engine is this too, with a disk of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ports::{PortError, PortErrorKind, PortResult};

use crate::kv::{Batch, Durability, Family};

/// A simulated disk; clones are the same disk.
#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<State>>);

#[derive(Default)]
pub(crate) struct State {
    /// Counts processes; handles of an earlier one are dead.
    life: u64,
    /// Writes until the process dies; none if it lives on.
    writes_left: Option<u64>,
    writes: u64,
    databases: BTreeMap<String, Database>,
    pub(crate) folders: BTreeMap<String, Folder>,
}

type Rows = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// One database: its rows, and how to take back what is not synced.
#[derive(Default)]
pub(crate) struct Database {
    pub(crate) families: [Rows; Family::COUNT],
    unsynced: Vec<Vec<Undo>>,
    pub(crate) sides: BTreeMap<String, Vec<u8>>,
    open_in: Option<u64>,
}

/// The value that a key had before.
struct Undo {
    family: Family,
    key: Box<[u8]>,
    before: Option<Box<[u8]>>,
}

/// A folder of append-only files, by serial number.
#[derive(Default)]
pub(crate) struct Folder {
    pub(crate) files: BTreeMap<u32, File>,
}

#[derive(Default)]
pub(crate) struct File {
    pub(crate) bytes: Vec<u8>,
    pub(crate) synced: usize,
    /// Its name is in the folder for good.
    pub(crate) named: bool,
}

impl Disk {
    pub fn new() -> Self {
        Self::default()
    }

    /// The process dies by `kill -9`: what reached the operating system stays. All handles are
    /// dead; stores are opened anew.
    pub fn kill(&self) {
        self.lock().rebirth();
    }

    /// The power goes: what was not synced survives only as a prefix, chosen by `seed`.
    pub fn crash(&self, seed: u64) {
        let mut state = self.lock();
        state.rebirth();
        let mut chance = Chance(seed);
        for database in state.databases.values_mut() {
            let keep = chance.below(database.unsynced.len() as u64 + 1) as usize;
            for undos in database.unsynced.split_off(keep).into_iter().rev() {
                undos.into_iter().rev().for_each(|undo| database.undo(undo));
            }
            database.unsynced.clear();
        }
        for folder in state.folders.values_mut() {
            folder.files.retain(|_, file| {
                let loose = (file.bytes.len() - file.synced) as u64;
                file.bytes.truncate(file.synced + chance.below(loose + 1) as usize);
                file.synced = file.bytes.len();
                let stays = file.named || chance.below(2) == 0;
                file.named = true;
                stays
            });
        }
    }

    /// The n-th write from now (1 is the next), and everything after it, fails as if the process
    /// had died there. Writes are commits, trims, syncs, and what archives do to files. A file's
    /// append that dies leaves a part of its bytes. [`Disk::kill`] or [`Disk::crash`] ends it.
    pub fn fail_after(&self, writes: u64) {
        self.lock().writes_left = Some(writes);
    }

    /// Writes so far, to know how many there are to die at.
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// Whether the process has died by [`Disk::fail_after`].
    pub fn is_dead(&self) -> bool {
        self.lock().writes_left == Some(0)
    }

    /// The bytes of an archive file, for a test's eyes.
    pub fn file(&self, folder: &str, serial: u32) -> Option<Vec<u8>> {
        self.lock().folders.get(folder)?.files.get(&serial).map(|file| file.bytes.clone())
    }

    /// The serial numbers of a folder's archive files.
    pub fn files(&self, folder: &str) -> Vec<u32> {
        let state = self.lock();
        state.folders.get(folder).map(|f| f.files.keys().copied().collect()).unwrap_or_default()
    }

    /// Takes bytes from the end of an archive file, as a power loss does where nobody synced.
    pub fn shorten(&self, folder: &str, serial: u32, bytes: u64) {
        let mut state = self.lock();
        let file = state.folders.get_mut(folder).and_then(|f| f.files.get_mut(&serial));
        if let Some(file) = file {
            let size = file.bytes.len().saturating_sub(bytes as usize);
            file.bytes.truncate(size);
            file.synced = file.synced.min(size);
        }
    }

    /// Changes a side file, as bad hardware would; false if there is none.
    pub fn spoil_side(&self, database: &str, name: &str, spoil: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut state = self.lock();
        let side = state.databases.get_mut(database).and_then(|db| db.sides.get_mut(name));
        side.map(spoil).is_some()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked elsewhere must not hide its cause behind a poisoned lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Disk").field("life", &state.life).field("writes", &state.writes).finish()
    }
}

impl State {
    fn rebirth(&mut self) {
        self.life += 1;
        self.writes_left = None;
    }

    pub(crate) fn life(&self) -> u64 {
        self.life
    }

    pub(crate) fn writes(&self) -> u64 {
        self.writes
    }

    /// May a handle of that life still act?
    pub(crate) fn alive(&self, life: u64) -> PortResult<()> {
        if life != self.life || self.writes_left == Some(0) {
            return Err(died());
        }
        Ok(())
    }

    /// As [`State::alive`], and counts one write.
    pub(crate) fn write(&mut self, life: u64) -> PortResult<()> {
        self.alive(life)?;
        self.writes += 1;
        if let Some(left) = &mut self.writes_left {
            *left -= 1;
            if *left == 0 {
                return Err(died());
            }
        }
        Ok(())
    }

    /// Another database with the same rows and files, all of it synced.
    pub(crate) fn copy_database(&mut self, name: &str, to: &str) {
        let from = self.database(name);
        let copy = Database {
            families: from.families.clone(),
            sides: from.sides.clone(),
            ..Database::default()
        };
        self.databases.insert(to.to_owned(), copy);
    }

    pub(crate) fn open_database(&mut self, name: &str) -> PortResult<u64> {
        self.alive(self.life)?;
        let life = self.life;
        let database = self.databases.entry(name.to_owned()).or_default();
        if database.open_in == Some(life) {
            let cause = "it is open already";
            return Err(PortError::new(PortErrorKind::Locked, format!("open `{name}`"), cause));
        }
        database.open_in = Some(life);
        Ok(life)
    }

    pub(crate) fn close_database(&mut self, name: &str, life: u64) {
        if let Some(database) = self.databases.get_mut(name)
            && database.open_in == Some(life)
        {
            database.open_in = None;
        }
    }

    pub(crate) fn database(&self, name: &str) -> &Database {
        self.databases.get(name).expect("a handle exists, so its database does")
    }

    pub(crate) fn database_mut(&mut self, name: &str) -> &mut Database {
        self.databases.get_mut(name).expect("a handle exists, so its database does")
    }
}

impl Database {
    pub(crate) fn apply(&mut self, batch: &Batch, durability: Durability) {
        let mut undos = Vec::with_capacity(batch.len());
        for change in batch.iter() {
            let rows = &mut self.families[change.family.index()];
            let before = match change.value {
                Some(value) => match rows.get_mut(change.key) {
                    Some(old) => Some(std::mem::replace(old, value.into())),
                    None => rows.insert(change.key.into(), value.into()),
                },
                None => rows.remove(change.key),
            };
            if durability == Durability::Os {
                undos.push(Undo { family: change.family, key: change.key.into(), before });
            }
        }
        self.unsynced.push(undos);
        if durability == Durability::Disk {
            self.sync();
        }
    }

    pub(crate) fn trim(&mut self, family: Family, from: &[u8], until: &[u8]) {
        let rows = &mut self.families[family.index()];
        let mut undos = Vec::new();
        let keys: Vec<_> = rows
            .range::<[u8], _>((std::ops::Bound::Included(from), std::ops::Bound::Excluded(until)))
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            let before = rows.remove(&key);
            undos.push(Undo { family, key, before });
        }
        self.unsynced.push(undos);
    }

    pub(crate) fn sync(&mut self) {
        self.unsynced.clear();
    }

    fn undo(&mut self, undo: Undo) {
        let rows = &mut self.families[undo.family.index()];
        match undo.before {
            Some(value) => rows.insert(undo.key, value),
            None => rows.remove(&undo.key),
        };
    }
}

fn died() -> PortError {
    PortError::new(PortErrorKind::Io, "use the simulated disk", "the process died here")
}

/// A small generator for tests and simulations (splitmix64): the same numbers everywhere.
#[derive(Debug, Clone)]
pub struct Chance(pub u64);

impl Chance {
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.throw() % bound
    }
}
