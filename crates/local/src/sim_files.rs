//! WARC files on a simulated disk, where an append may be torn at any byte.

use std::io::{BufRead, Cursor};

use ports::{PortError, PortResult};

use crate::archive::{ArchiveSettings, Files, WarcArchive};
use crate::sim_disk::{Chance, Disk, File, Folder, State};

/// An archive on a [`Disk`].
pub type MemoryArchive = WarcArchive<SimFiles>;

impl MemoryArchive {
    /// Opens the archive in a folder of the disk.
    pub fn open(disk: &Disk, folder: &str, settings: ArchiveSettings) -> PortResult<Self> {
        let life = disk.lock().life();
        let files = SimFiles { disk: disk.clone(), folder: folder.to_owned(), life, current: None };
        Self::new(files, settings)
    }
}

/// The files of one archive on a [`Disk`].
#[derive(Debug)]
pub struct SimFiles {
    disk: Disk,
    folder: String,
    life: u64,
    current: Option<u32>,
}

impl SimFiles {
    fn change<T>(&self, change: impl FnOnce(&mut Folder) -> PortResult<T>) -> PortResult<T> {
        let mut state = self.disk.lock();
        state.write(self.life)?;
        change(state.folders.entry(self.folder.clone()).or_default())
    }

    fn no_file() -> PortError {
        PortError::corrupt("write the archive", "the file is not there")
    }
}

fn append_all(file: &mut File, parts: &[&[u8]]) {
    parts.iter().for_each(|part| file.bytes.extend_from_slice(part));
}

/// Of an append at which the process dies, the first bytes may be there.
fn tear(state: &mut State, folder: &str, serial: u32, parts: &[&[u8]]) {
    let mut chance = Chance(state.writes());
    let Some(file) = state.folders.get_mut(folder).and_then(|f| f.files.get_mut(&serial)) else {
        return;
    };
    let all = parts.concat();
    let part = chance.below(all.len() as u64 + 1) as usize;
    file.bytes.extend_from_slice(&all[..part]);
}

impl Files for SimFiles {
    fn list(&self) -> PortResult<Vec<(u32, u64)>> {
        let state = self.disk.lock();
        state.alive(self.life)?;
        let Some(folder) = state.folders.get(&self.folder) else { return Ok(Vec::new()) };
        let size = |(serial, file): (&u32, &File)| (*serial, file.bytes.len() as u64);
        Ok(folder.files.iter().map(size).collect())
    }

    fn create(&mut self, serial: u32) -> PortResult<()> {
        self.change(|folder| {
            folder.files.insert(serial, File::default());
            Ok(())
        })?;
        self.current = Some(serial);
        Ok(())
    }

    fn resume(&mut self, serial: u32) -> PortResult<()> {
        self.current = Some(serial);
        Ok(())
    }

    fn append(&mut self, parts: &[&[u8]]) -> PortResult<()> {
        let serial = self.current.ok_or_else(Self::no_file)?;
        let mut state = self.disk.lock();
        let lived = state.alive(self.life).is_ok();
        if let Err(error) = state.write(self.life) {
            if lived {
                tear(&mut state, &self.folder, serial, parts);
            }
            return Err(error);
        }
        let folder = state.folders.entry(self.folder.clone()).or_default();
        append_all(folder.files.get_mut(&serial).ok_or_else(Self::no_file)?, parts);
        Ok(())
    }

    fn sync(&mut self) -> PortResult<()> {
        let current = self.current;
        self.change(|folder| {
            for (serial, file) in &mut folder.files {
                file.named = true;
                if Some(*serial) == current {
                    file.synced = file.bytes.len();
                }
            }
            Ok(())
        })
    }

    fn truncate(&mut self, serial: u32, bytes: u64) -> PortResult<()> {
        self.change(|folder| {
            let file = folder.files.get_mut(&serial).ok_or_else(Self::no_file)?;
            file.bytes.truncate(bytes as usize);
            file.synced = file.bytes.len();
            Ok(())
        })
    }

    fn remove(&mut self, serial: u32) -> PortResult<()> {
        if self.current == Some(serial) {
            self.current = None;
        }
        self.change(|folder| folder.files.remove(&serial).map(drop).ok_or_else(Self::no_file))
    }

    fn read(&self, serial: u32) -> PortResult<Box<dyn BufRead + '_>> {
        let bytes = self.disk.file(&self.folder, serial).ok_or_else(Self::no_file)?;
        Ok(Box::new(Cursor::new(bytes)))
    }
}
