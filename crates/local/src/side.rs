//! Files beside a database: small ones that are written whole or not at all, and one that grows.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek as _, Write as _};
use std::path::Path;

use ports::PortResult;

use crate::files::{failed, sync_folder};

/// Writes under another name first; the final name always stands for a whole file.
pub(crate) fn save(
    folder: &Path,
    name: &str,
    write: &mut dyn FnMut(&mut dyn io::Write) -> io::Result<()>,
) -> PortResult<()> {
    let path = folder.join(name);
    let draft = folder.join(format!("{name}.tmp"));
    let put = || -> io::Result<()> {
        let mut out = BufWriter::with_capacity(64 << 10, File::create(&draft)?);
        write(&mut out)?;
        out.flush()?;
        out.get_ref().sync_all()?;
        fs::rename(&draft, &path)
    };
    let mut put = put;
    if let Err(error) = put() {
        // What is left of the draft only takes room; the error that matters is the first.
        if let Err(error) = fs::remove_file(&draft) {
            tracing::debug!(%error, "no draft to remove");
        }
        return Err(failed("write", &path, &error));
    }
    sync_folder(folder)
}

/// Appends lines to a file of so many bytes: all of them, or none. A torn line goes at once, so that
/// the file is valid also on a full disk. If even that fails, the next open cuts it.
pub(crate) fn append_lines(file: &mut File, bytes: u64, lines: &[u8]) -> io::Result<()> {
    let result = file.write_all(lines);
    if result.is_err()
        && let Err(error) = file.set_len(bytes)
    {
        tracing::error!(%error, "a torn line could not be cut");
    }
    result
}

/// Cuts a file at `at` and appends to it, durably.
#[cfg(any(feature = "fjall", feature = "rocksdb", test))]
pub(crate) fn append(folder: &Path, name: &str, at: u64, bytes: &[u8]) -> PortResult<()> {
    let path = folder.join(name);
    let put = || -> io::Result<bool> {
        let options = fs::OpenOptions::new().write(true).create(true).truncate(false).clone();
        let mut file = options.open(&path)?;
        let length = file.metadata()?.len();
        if at > length {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it has become shorter"));
        }
        file.set_len(at)?;
        file.seek(io::SeekFrom::Start(at))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(length == 0)
    };
    let made = put().map_err(|error| failed("append to", &path, &error))?;
    if made { sync_folder(folder) } else { Ok(()) }
}

/// Copies a file to another folder, if it is there.
#[cfg(any(feature = "fjall", feature = "rocksdb"))]
pub(crate) fn copy(from: &Path, to: &Path, name: &str) -> PortResult<()> {
    let path = from.join(name);
    match File::open(&path) {
        Ok(mut file) => save(to, name, &mut |out| io::copy(&mut file, out).map(drop)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("read", &path, &error)),
    }
}

pub(crate) fn remove(folder: &Path, name: &str) -> PortResult<()> {
    let path = folder.join(name);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("remove", &path, &error))
        }
        _ => Ok(()),
    }
}

#[cfg(any(feature = "fjall", feature = "rocksdb", test))]
pub(crate) fn load<'a>(
    folder: &Path,
    name: &str,
    at: u64,
) -> PortResult<Option<Box<dyn io::Read + 'a>>> {
    let path = folder.join(name);
    let open = || {
        let mut file = File::open(&path)?;
        file.seek(io::SeekFrom::Start(at))?;
        io::Result::Ok(file)
    };
    match open() {
        Ok(file) => Ok(Some(Box::new(io::BufReader::with_capacity(64 << 10, file)))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("open", &path, &error)),
    }
}

/// Whether the disk has no room left, for engines that do not say why they stopped.
#[cfg(any(feature = "fjall", test))]
pub(crate) fn disk_is_full(folder: &Path) -> bool {
    let probe = folder.join("room.tmp");
    let result = File::create(&probe).and_then(|mut file| {
        file.write_all(&[0; 64 << 10])?;
        file.sync_data()
    });
    if let Err(error) = fs::remove_file(&probe) {
        tracing::debug!(%error, "no probe to remove");
    }
    matches!(result, Err(error) if error.kind() == io::ErrorKind::StorageFull)
}

/// Bytes of all files below a folder.
#[cfg(feature = "rocksdb")]
pub(crate) fn folder_bytes(folder: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let data = match entry?.metadata() {
            Ok(data) => data,
            // A compaction has just deleted it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        sum += data.len();
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_failed_half_way_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let read = || {
            let mut text = String::new();
            let file = load(folder.path(), "x", 0).unwrap();
            file.map(|mut file| {
                file.read_to_string(&mut text).unwrap();
                text
            })
        };
        assert_eq!(read(), None);
        save(folder.path(), "x", &mut |out| out.write_all(b"one")).unwrap();
        let broken = save(folder.path(), "x", &mut |out| {
            out.write_all(b"two")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert_eq!(broken.unwrap_err().kind, ports::PortErrorKind::DiskFull);
        assert_eq!(read().as_deref(), Some("one"));
        save(folder.path(), "x", &mut |out| out.write_all(b"three")).unwrap();
        assert_eq!(read().as_deref(), Some("three"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(!disk_is_full(folder.path()));
    }

    #[test]
    fn a_file_grows_from_where_it_counts() {
        let folder = tempfile::tempdir().unwrap();
        let read = |at| {
            let mut text = String::new();
            load(folder.path(), "x", at).unwrap().unwrap().read_to_string(&mut text).unwrap();
            text
        };
        append(folder.path(), "x", 0, b"one").unwrap();
        append(folder.path(), "x", 3, b", two and more").unwrap();
        append(folder.path(), "x", 8, b"!").unwrap();
        assert_eq!((read(0), read(5)), ("one, two!".to_owned(), "two!".to_owned()));
        assert!(append(folder.path(), "x", 10, b"?").is_err(), "a hole is no file");
        assert_eq!(read(0), "one, two!");
    }
}
