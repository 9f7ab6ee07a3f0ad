//! Files beside a database: written whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use ports::PortResult;

use crate::files::{failed, sync_folder};
use crate::kv::SideWriter;

/// Writes under another name first; the final name always stands for a whole file.
pub(crate) fn save(folder: &Path, name: &str, write: &mut SideWriter<'_>) -> PortResult<()> {
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

#[cfg(any(feature = "fjall", feature = "rocksdb", test))]
pub(crate) fn load<'a>(folder: &Path, name: &str) -> PortResult<Option<Box<dyn io::Read + 'a>>> {
    let path = folder.join(name);
    match File::open(&path) {
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
            let file = load(folder.path(), "x").unwrap();
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
}
