//! Where do the exact bytes go?
//!
//! Each shard has one archive, written by the shard's single writer. Members are appended in the
//! order in which their visits are committed, so bytes that the store does not know are always a
//! tail, and are cut on open: an archive never holds a visit that the store does not know.

use serde::{Deserialize, Serialize};
use types::{Timestamp, WarcRef};

use crate::error::PortResult;
use crate::spool::Blob;

/// How far the archive is known to the store: nothing lies beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ArchiveEnd {
    pub file: u32,
    pub bytes: u64,
}

pub trait Archive: Send {
    /// Cuts off everything that lies beyond `end`: all of it, if the store knows nothing. Called
    /// once, before the first append.
    fn cut(&mut self, end: Option<ArchiveEnd>) -> PortResult<()>;

    /// Appends whole gzip members in order; says where each one lies. A file that is full is
    /// closed and the next one begun, with its own warcinfo record; members that are given
    /// together as one group stay in one file.
    fn append(&mut self, groups: &[&[Blob]], now: Timestamp) -> PortResult<Vec<Vec<WarcRef>>>;

    /// Everything appended so far survives a power loss after this.
    fn sync(&mut self) -> PortResult<()>;

    /// Where the next byte goes.
    fn end(&self) -> Option<ArchiveEnd>;

    /// Bytes in all files, for `--size-limit`.
    fn bytes_written(&self) -> u64;

    /// The name of a file, as indexes and reports give it.
    fn file_name(&self, file: u32) -> String;
}
