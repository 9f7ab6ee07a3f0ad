//! WARC files in a folder.
//!
//! Each is opened for appending only, synced with `fdatasync`; the folder is synced when a file
//! came or went, because a name is data too.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};

use ports::{PortError, PortResult};

use crate::archive::{ArchiveSettings, Files, WarcArchive};

/// An archive of WARC files in a folder.
pub type WarcFiles = WarcArchive<FolderFiles>;

impl WarcFiles {
    /// Opens the archive of a shard in `folder`, which is made if it is not there.
    pub fn open(folder: &Path, settings: ArchiveSettings) -> PortResult<Self> {
        Self::new(FolderFiles::open(folder, settings.clone())?, settings)
    }
}

/// Small members are written together, so that a visit of three is one call.
const GATHER_BYTES_MAX: usize = 256 << 10;

/// The files of one shard's archive.
#[derive(Debug)]
pub struct FolderFiles {
    folder: PathBuf,
    names: ArchiveSettings,
    /// Where the current file lies, beside it.
    current: Option<(PathBuf, File)>,
    names_changed: bool,
    gathered: Vec<u8>,
}

impl FolderFiles {
    fn open(folder: &Path, names: ArchiveSettings) -> PortResult<Self> {
        make_folder(folder)?;
        let gathered = Vec::new();
        let folder = folder.to_owned();
        Ok(Self { folder, names, current: None, names_changed: true, gathered })
    }

    fn path(&self, serial: u32) -> PathBuf {
        self.folder.join(self.names.file_name(serial))
    }
}

impl Files for FolderFiles {
    fn list(&self) -> PortResult<Vec<(u32, u64)>> {
        let entries = fs::read_dir(&self.folder);
        let entries = entries.map_err(|error| failed("list", &self.folder, &error))?;
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed("list", &self.folder, &error))?;
            let name = entry.file_name();
            if let Some(serial) = name.to_str().and_then(|name| self.names.serial(name)) {
                let data = entry.metadata();
                let data = data.map_err(|error| failed("look at", &entry.path(), &error))?;
                files.push((serial, data.len()));
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    fn create(&mut self, serial: u32) -> PortResult<()> {
        let path = self.path(serial);
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = file.map_err(|error| failed("begin", &path, &error))?;
        self.current = Some((path, file));
        self.names_changed = true;
        Ok(())
    }

    fn resume(&mut self, serial: u32) -> PortResult<()> {
        let path = self.path(serial);
        let file = OpenOptions::new().append(true).open(&path);
        let file = file.map_err(|error| failed("open", &path, &error))?;
        self.current = Some((path, file));
        Ok(())
    }

    fn append(&mut self, parts: &[&[u8]]) -> PortResult<()> {
        let gathered = &mut self.gathered;
        let Some((path, file)) = &mut self.current else {
            return Err(PortError::corrupt("write the archive", "no file is open"));
        };
        let mut write = || {
            for part in parts {
                if gathered.len() + part.len() > GATHER_BYTES_MAX {
                    file.write_all(gathered)?;
                    gathered.clear();
                }
                if part.len() > GATHER_BYTES_MAX {
                    file.write_all(part)?;
                } else {
                    gathered.extend_from_slice(part);
                }
            }
            file.write_all(gathered)
        };
        let result = write();
        self.gathered.clear();
        result.map_err(|error| failed("append to", path, &error))
    }

    fn sync(&mut self) -> PortResult<()> {
        if let Some((path, file)) = &self.current {
            file.sync_data().map_err(|error| failed("sync", path, &error))?;
        }
        if self.names_changed {
            sync_folder(&self.folder)?;
            self.names_changed = false;
        }
        Ok(())
    }

    fn truncate(&mut self, serial: u32, bytes: u64) -> PortResult<()> {
        let path = self.path(serial);
        let cut = || {
            let file = OpenOptions::new().write(true).open(&path)?;
            file.set_len(bytes)?;
            file.sync_all()
        };
        cut().map_err(|error| failed("cut", &path, &error))
    }

    fn remove(&mut self, serial: u32) -> PortResult<()> {
        let path = self.path(serial);
        if self.current.as_ref().is_some_and(|(current, _)| *current == path) {
            self.current = None;
        }
        self.names_changed = true;
        fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))
    }

    fn read(&self, serial: u32) -> PortResult<Box<dyn BufRead + '_>> {
        let path = self.path(serial);
        let file = File::open(&path).map_err(|error| failed("read", &path, &error))?;
        Ok(Box::new(BufReader::with_capacity(64 << 10, file)))
    }
}

/// The names in a folder survive a power loss after this.
/// Makes a folder that is there after a power loss as well.
pub(crate) fn make_folder(folder: &Path) -> PortResult<()> {
    fs::create_dir_all(folder).map_err(|error| failed("make", folder, &error))?;
    match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_folder(parent),
        _ => Ok(()),
    }
}

pub(crate) fn sync_folder(folder: &Path) -> PortResult<()> {
    let sync = || File::open(folder)?.sync_all();
    sync().map_err(|error: io::Error| failed("sync", folder, &error))
}

pub(crate) fn failed(doing: &str, path: &Path, error: &io::Error) -> PortError {
    PortError::io(format!("{doing} {}", path.display()), error)
}
