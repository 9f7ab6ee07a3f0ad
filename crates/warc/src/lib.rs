//! How is a visit kept, so that any archive tool can read it in twenty years?
//!
//! As WARC 1.1 (ISO 28500): a record is a few header lines, a block of bytes, two line ends. We
//! write each record as a gzip member of its own, so that any one can be read from its offset
//! and a file cut after any member is a whole file. A visit is three of them: [`Visit`] through
//! a [`Compressor`] gives the bytes to append and what its CDXJ line must say. [`Reader`] goes
//! the other way, through our files and other people's.
//!
//! Always: no header value can end its line, so nothing a server sends can forge a record.
//! Reading never panics and never holds more than one header and one window of a block.
//!
//! Not here: files, syncing and rotation (`local`), what deserves a record (`engine`), clocks
//! and chance: dates and ids are given.

mod error;
// Writing.
mod date;
mod digest;
mod fields;
mod filler;
mod http;
mod id;
mod member;
mod packed;
mod payload;
mod record;
mod visit;
// Reading.
mod check;
mod reader;
mod resync;
mod source;
mod tail;
// The index beside a file.
pub mod cdxj;
mod surt;

#[cfg(test)]
mod testing;

pub use check::{Defect, Problem, Report, Severity, check};
pub use date::WarcDate;
pub use digest::{Algorithm, Digest, Hasher};
pub use error::{Damage, Error};
pub use fields::{Fields, WarcFields};
pub use filler::{FILLER_BYTES_MIN, Piece, filler};
pub use http::{Dechunker, HttpHead, head_len};
pub use id::RecordId;
pub use member::{Compressor, Level, MemberRange};
pub use payload::TransferCoded;
pub use reader::{Extent, Framing, HEADER_BYTES_MAX, Header, Reader};
pub use record::{Capture, Earlier, Record, RecordBuilder, Rest, Revisit, Truncated};
pub use surt::surt;
pub use tail::{Tail, Torn, last_complete};
pub use visit::{Visit, VisitIds, VisitMembers};
