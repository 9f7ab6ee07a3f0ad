//! Where do bytes lie that are too many for memory?
//!
//! A large answer is in flight for a while: it comes, its records are made, they are appended to the
//! archive. Only its start is held in memory; the rest lies in a [`Spool`], and so do its records
//! until they are appended. Nothing of it outlives the process.
//!
//! A part that could not be written is no reason for two ways through the crawler: it goes on as
//! bytes that cannot be read ([`Unwritten`]), and whoever wants to keep them hears why.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Makes room for bytes that nobody else sees.
pub trait Spool: fmt::Debug + Send + Sync {
    /// An empty draft.
    ///
    /// # Errors
    /// When there is no room for one.
    fn begin(&self) -> io::Result<Box<dyn Draft>>;
}

/// Bytes that are being written down.
pub trait Draft: fmt::Debug + Send {
    fn bytes(&self) -> u64;

    /// # Errors
    /// When not all of them could be written; the draft is of no use then.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Keeps the first bytes only.
    ///
    /// # Errors
    /// As above.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;

    /// Nothing more is written from now on.
    fn finish(self: Box<Self>) -> Arc<dyn Stored>;
}

/// Bytes that were written down. They are gone with the last one who holds them.
pub trait Stored: fmt::Debug + Send + Sync {
    fn bytes(&self) -> u64;

    /// Reads from `at`; none beyond the end.
    ///
    /// # Errors
    /// When they cannot be read, or were never written.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

/// What could not be written.
#[derive(Debug)]
pub struct Unwritten {
    kind: io::ErrorKind,
    why: String,
}

impl Unwritten {
    pub fn because(error: &io::Error) -> Arc<dyn Stored> {
        Arc::new(Self { kind: error.kind(), why: error.to_string() })
    }
}

impl Stored for Unwritten {
    fn bytes(&self) -> u64 {
        0
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::new(self.kind, self.why.clone()))
    }
}

/// Bytes, wherever they lie.
#[derive(Debug, Clone)]
pub enum Blob {
    Memory(Vec<u8>),
    Stored(Arc<dyn Stored>),
}

/// Bytes of a stored blob that are in memory at once.
const PIECE_BYTES: usize = 256 << 10;

impl Blob {
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Stored(stored) => stored.bytes(),
        }
    }

    /// Gives all of it, piece by piece, in order.
    ///
    /// # Errors
    /// When it cannot be read, or whoever is given a piece says so.
    pub fn read(&self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        match self {
            Self::Memory(bytes) => each(bytes),
            Self::Stored(stored) => read(&**stored, each),
        }
    }
}

impl Default for Blob {
    fn default() -> Self {
        Self::Memory(Vec::new())
    }
}

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Memory(bytes)
    }
}

/// Gives all of what is stored, piece by piece, in order.
///
/// # Errors
/// When it cannot be read, has become shorter, or whoever is given a piece says so.
pub fn read(stored: &dyn Stored, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    let mut at = 0;
    loop {
        match stored.read_at(at, &mut buffer)? {
            0 if at == stored.bytes() => return Ok(()),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                each(&buffer[..read])?;
                at += read as u64;
            }
        }
    }
}

/// A spool for whoever has memory enough: tests, and a single fetch.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemorySpool;

impl Spool for MemorySpool {
    fn begin(&self) -> io::Result<Box<dyn Draft>> {
        Ok(Box::<InMemory>::default())
    }
}

#[derive(Debug, Default)]
struct InMemory(Vec<u8>);

impl Draft for InMemory {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.0.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Arc<dyn Stored> {
        Arc::new(*self)
    }
}

impl Stored for InMemory {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(self.0.len());
        let read = buffer.len().min(self.0.len() - at);
        buffer[..read].copy_from_slice(&self.0[at..at + read]);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(blob: &Blob) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        blob.read(&mut |piece| {
            all.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn a_blob_reads_the_same_wherever_it_lies() {
        let bytes: Vec<u8> = (0..600_000_u32).map(|n| (n >> 3) as u8).collect();
        let mut draft = MemorySpool.begin().unwrap();
        for part in bytes.chunks(70_000) {
            draft.append(part).unwrap();
        }
        draft.append(b"and more").unwrap();
        draft.truncate(600_000).unwrap();
        let stored = Blob::Stored(draft.finish());
        assert_eq!(stored.bytes(), 600_000);
        assert!(all(&stored).unwrap() == bytes);
        assert!(all(&Blob::from(bytes.clone())).unwrap() == bytes);
        let said = stored.read(&mut |_| Err(io::ErrorKind::BrokenPipe.into())).unwrap_err();
        assert_eq!(said.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn what_was_never_written_says_why_when_it_is_read() {
        let full = io::Error::new(io::ErrorKind::StorageFull, "no room in state/spool");
        let error = all(&Blob::Stored(Unwritten::because(&full))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(error.to_string(), "no room in state/spool");
    }
}
