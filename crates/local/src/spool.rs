//! Large answers in flight, in files without a name.
//!
//! A file is begun under a name and loses it at once, so it is gone with the last one who holds it,
//! however the process ends. Should that be between the two calls, the name is removed when the
//! folder is opened again. One process at a time has the folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ports::{Draft, PortResult, Spool, Stored};

use crate::files::failed;

/// A folder of such files.
#[derive(Debug)]
pub struct FolderSpool {
    folder: PathBuf,
    /// Names the next file.
    next: AtomicU64,
}

impl FolderSpool {
    /// Makes the folder if it is not there, and clears it if it is.
    pub fn open(folder: &Path) -> PortResult<Self> {
        let clear = || {
            fs::create_dir_all(folder)?;
            for entry in fs::read_dir(folder)? {
                fs::remove_file(entry?.path())?;
            }
            Ok(())
        };
        clear().map_err(|error: io::Error| failed("clear", folder, &error))?;
        Ok(Self { folder: folder.to_owned(), next: AtomicU64::new(0) })
    }
}

impl Spool for FolderSpool {
    fn begin(&self) -> io::Result<Box<dyn Draft>> {
        let path = self.folder.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        let begin = || {
            let file = OpenOptions::new().read(true).append(true).create_new(true).open(&path)?;
            fs::remove_file(&path)?;
            Ok(file)
        };
        let file = begin().map_err(|error| told("begin", &path, &error))?;
        Ok(Box::new(Nameless { file, path, bytes: 0 }))
    }
}

/// A file without a name.
#[derive(Debug)]
struct Nameless {
    file: File,
    /// What it was called.
    path: PathBuf,
    bytes: u64,
}

impl Draft for Nameless {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes).map_err(|error| told("write", &self.path, &error))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes).map_err(|error| told("cut", &self.path, &error))?;
        self.bytes = bytes;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Arc<dyn Stored> {
        Arc::new(*self)
    }
}

impl Stored for Nameless {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        read_at(&self.file, at, buffer).map_err(|error| told("read", &self.path, &error))
    }
}

/// A part of a file that others write.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) file: Arc<File>,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

impl Stored for Part {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.bytes.saturating_sub(at);
        let room = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        read_at(&self.file, self.at + at, &mut buffer[..room])
    }
}

fn read_at(file: &File, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The same kind of error, with what was being done.
fn told(doing: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{doing} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_no_name_and_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let spool = FolderSpool::open(&folder.path().join("spool")).unwrap();
        let [mut one, mut two] = [(); 2].map(|()| spool.begin().unwrap());
        assert_eq!(fs::read_dir(folder.path().join("spool")).unwrap().count(), 0);
        one.append(b"wolf ").unwrap();
        two.append(b"another").unwrap();
        one.append(b"spider and more").unwrap();
        one.truncate(11).unwrap();
        one.append(b"!").unwrap();
        let one = one.finish();
        let mut text = [0; 20];
        assert_eq!((one.bytes(), one.read_at(5, &mut text).unwrap()), (12, 7));
        assert_eq!(&text[..7], b"spider!");
        assert_eq!(one.read_at(12, &mut text).unwrap(), 0);
    }

    #[test]
    fn what_a_crash_has_left_is_cleared_away() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("7"), "half an answer").unwrap();
        FolderSpool::open(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_went_away_is_an_error_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let spool = FolderSpool::open(&path).unwrap();
        fs::remove_dir(&path).unwrap();
        let error = spool.begin().unwrap_err();
        assert!(error.to_string().contains("spool"), "{error}");
    }

    #[test]
    fn a_part_ends_where_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x"), "wolf spider").unwrap();
        let file = Arc::new(File::open(folder.path().join("x")).unwrap());
        let part = Part { file, at: 5, bytes: 3 };
        let mut text = [0; 20];
        assert_eq!(part.read_at(1, &mut text).unwrap(), 2);
        assert_eq!(&text[..2], b"pi");
        assert_eq!(part.read_at(3, &mut text).unwrap(), 0);
    }
}
