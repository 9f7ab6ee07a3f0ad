//! How do the crawls of one machine tell each other what they visit?
//!
//! In a folder that all crawls of a user share. A claim is a lock on one byte of a file, at the
//! place that the key names: no byte is ever written there, the kernel keeps the lock and drops it
//! when its process dies. The locks are spread over many files, because the kernel looks through
//! all locks of one. Beside them lies a table of moments: until when a place that was left must rest,
//! or that it was never left.
//!
//! ```text
//! locks-00 … locks-ff   empty; locked at (key >> 8), in the file of the key's last byte
//! moments               2^20 × u64 little-endian: microseconds since 1970, or the highest bit: claimed
//! ```
//!
//! Two keys may share a moment. That costs a pause, never a request too early: unless both were
//! claimed by processes that died.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use ports::claims::{ClaimKey, Claimed, Claims};
use ports::{PortError, PortResult};
use types::Timestamp;

const LOCK_FILES: u64 = 256;
const MOMENTS: u64 = 1 << 20;
const CLAIMED: u64 = 1 << 63;

/// Where the crawls of this user meet when no other place is named.
pub fn usual_folder() -> PathBuf {
    std::env::temp_dir().join(format!("lycosa-{}", nix::unistd::geteuid()))
}

/// The folder in which crawls of one user meet.
#[derive(Debug)]
pub struct FolderClaims {
    folder: PathBuf,
    locks: Vec<File>,
    moments: File,
}

impl FolderClaims {
    /// Opens the folder, or makes it.
    ///
    /// # Errors
    /// If it is somebody else's, or cannot be used.
    pub fn open(folder: &Path) -> PortResult<Self> {
        let say = |error| failed(folder, &error);
        make_own(folder).map_err(say)?;
        let open = |name: &str| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
            options.open(folder.join(name))
        };
        let locks = (0..LOCK_FILES).map(|n| open(&format!("locks-{n:02x}")));
        let locks = locks.collect::<io::Result<_>>().map_err(say)?;
        let moments = open("moments").map_err(say)?;
        moments.set_len(8 * MOMENTS).map_err(say)?;
        Ok(Self { folder: folder.to_owned(), locks, moments })
    }

    fn lock(&self, place: ClaimKey, kind: i32) -> nix::Result<()> {
        let ClaimKey(key) = place;
        let lock = libc::flock {
            l_type: kind as _,
            l_whence: libc::SEEK_SET as _,
            // A file ends at 2^63.
            l_start: (key >> 8) as _,
            l_len: 1,
            l_pid: 0,
        };
        let file = &self.locks[(key % LOCK_FILES) as usize];
        // Of this open file, not of the process: others may open and close it at will.
        fcntl(file, FcntlArg::F_OFD_SETLK(&lock)).map(|_| ())
    }

    fn moment_at(place: ClaimKey) -> u64 {
        8 * (place.0 >> 8 & (MOMENTS - 1))
    }

    fn note(&self, place: ClaimKey, moment: u64) -> PortResult<()> {
        let noted = self.moments.write_all_at(&moment.to_le_bytes(), Self::moment_at(place));
        noted.map_err(|error| failed(&self.folder, &error))
    }
}

impl Claims for FolderClaims {
    fn claim(&self, place: ClaimKey, now: Timestamp) -> PortResult<Claimed> {
        match self.lock(place, libc::F_WRLCK) {
            Ok(()) => {}
            Err(Errno::EAGAIN | Errno::EACCES) => return Ok(Claimed::Taken),
            Err(error) => return Err(failed(&self.folder, &error.into())),
        }
        let mut moment = [0; 8];
        let read = self.moments.read_exact_at(&mut moment, Self::moment_at(place));
        read.map_err(|error| failed(&self.folder, &error))?;
        self.note(place, CLAIMED | now.micros())?;
        match u64::from_le_bytes(moment) {
            claimed if claimed & CLAIMED != 0 => Ok(Claimed::Orphan),
            left => Ok(Claimed::Ours { not_before: Timestamp::from_micros(left) }),
        }
    }

    fn leave(&self, place: ClaimKey, until: Timestamp) -> PortResult<()> {
        let noted = self.note(place, until.micros() & !CLAIMED);
        let left = self.lock(place, libc::F_UNLCK);
        left.map_err(|error| failed(&self.folder, &error.into()))?;
        noted
    }
}

/// Makes the folder, or sees that it is ours: in a folder that everybody may write to, another user
/// could have made it first.
fn make_own(folder: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let facts = fs::symlink_metadata(folder)?;
    let ours = facts.is_dir() && facts.uid() == nix::unistd::geteuid().as_raw();
    let other = || io::Error::new(io::ErrorKind::PermissionDenied, "it is not a folder of yours");
    if ours { Ok(()) } else { Err(other()) }
}

fn failed(folder: &Path, error: &io::Error) -> PortError {
    PortError::io(format!("claim hosts in {}", folder.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
    const HOST: ClaimKey = ClaimKey(0xfedc_ba98_7654_3210);

    #[test]
    fn a_place_belongs_to_one_and_rests_when_it_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let one = FolderClaims::open(&folder.path().join("c")).unwrap();
        let other = FolderClaims::open(&folder.path().join("c")).unwrap();
        assert_eq!(one.claim(HOST, NOW).unwrap(), Claimed::Ours { not_before: Timestamp::ZERO });
        assert_eq!(other.claim(HOST, NOW).unwrap(), Claimed::Taken);
        // Neighbours are free.
        for near in [HOST.0 + 1, HOST.0 + 256, HOST.0 - 256] {
            assert_ne!(other.claim(ClaimKey(near), NOW).unwrap(), Claimed::Taken);
        }
        let until = NOW + std::time::Duration::from_secs(1);
        one.leave(HOST, until).unwrap();
        assert_eq!(other.claim(HOST, NOW).unwrap(), Claimed::Ours { not_before: until });
        assert_eq!(one.claim(HOST, NOW).unwrap(), Claimed::Taken);
    }

    #[test]
    fn who_dies_leaves_everything_and_the_next_one_hears_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let one = FolderClaims::open(folder.path()).unwrap();
        one.claim(HOST, NOW).unwrap();
        drop(one);
        let other = FolderClaims::open(folder.path()).unwrap();
        assert_eq!(other.claim(HOST, NOW).unwrap(), Claimed::Orphan);
    }

    #[test]
    fn a_folder_that_is_a_link_or_a_file_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let (link, file) = (folder.path().join("link"), folder.path().join("file"));
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        fs::write(&file, "").unwrap();
        for bad in [link, file] {
            let error = FolderClaims::open(&bad).unwrap_err().to_string();
            assert!(error.contains("not a folder of yours"), "{error}");
        }
    }
}
