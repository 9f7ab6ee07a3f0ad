//! What went wrong on our side of the line, and may a retry help?

use std::fmt;

use thiserror::Error;

/// A fault of a port: kind for the caller, cause for the reader.
#[derive(Debug, Error)]
#[error("{doing}: {cause}")]
pub struct PortError {
    pub kind: PortErrorKind,
    /// What was being done, as the start of a sentence: `commit the crawl db`.
    pub doing: String,
    pub cause: String,
}

pub type PortResult<T> = Result<T, PortError>;

/// What the caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortErrorKind {
    /// The disk is full: stop in good order, exit code 3.
    DiskFull,
    /// Another process holds the directory.
    Locked,
    /// Written by another version.
    Version,
    /// The bytes are not what we wrote.
    Corrupt,
    /// Anything else: the operation did not happen.
    Io,
}

impl PortError {
    pub fn new(kind: PortErrorKind, doing: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self { kind, doing: doing.into(), cause: cause.to_string() }
    }

    /// An I/O error keeps its kind where the caller acts on it.
    pub fn io(doing: impl Into<String>, cause: &std::io::Error) -> Self {
        let kind = match cause.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                PortErrorKind::DiskFull
            }
            _ => PortErrorKind::Io,
        };
        Self::new(kind, doing, cause)
    }

    pub fn corrupt(doing: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self::new(PortErrorKind::Corrupt, doing, cause)
    }
}
