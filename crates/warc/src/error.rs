//! What can go wrong, and what can the caller do about it?

use std::io;

/// A fault while writing or reading records.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A header value holds a character that would end its line or hide in it. Escape it first.
    #[error("{field}: the value holds a control character and cannot be a header")]
    UnsafeValue { field: String },
    /// Not a compression level.
    #[error("compression level {0} is not between 1 and 12")]
    Level(u8),
    /// The input ends inside the record that starts here. Cutting the file at `offset` leaves
    /// whole records only.
    #[error("cut off inside the record at offset {offset}")]
    Truncated { offset: u64 },
    /// The record that starts here is not what it should be; what follows may be fine, see
    /// [`crate::Reader::resync`].
    #[error("damaged record at offset {offset}: {damage}")]
    Damaged { offset: u64, damage: Damage },
    /// The input itself could not be read.
    #[error("read archive")]
    Io(#[from] io::Error),
}

/// In which way a record is broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Bad gzip header, bad deflate data, wrong checksum or length.
    #[error("gzip: {0}")]
    Gzip(String),
    /// Neither a gzip member nor a `WARC/` line starts here.
    #[error("no WARC record starts here")]
    NotARecord,
    /// The header has no end within [`crate::HEADER_BYTES_MAX`].
    #[error("header longer than {} bytes", crate::HEADER_BYTES_MAX)]
    HeaderTooLong,
    /// The gzip member ends before the record's header does.
    #[error("header without end")]
    HeaderCut,
    /// No Content-Length, or not a number: the end of the block is unknown.
    #[error("Content-Length missing or not a number")]
    ContentLength,
    /// The gzip member ends before the block does.
    #[error("block ends {missing} bytes before its Content-Length")]
    ShortBlock { missing: u64 },
    /// Something else stands where the record should end: Content-Length is wrong.
    #[error("block not followed by two line ends")]
    Trailer,
}
