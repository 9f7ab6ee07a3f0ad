//! Which records are in this file, and is each of them whole?
//!
//! [`Reader::next_record`] gives a record's header, the block streams after it, and
//! [`Reader::finish`] says where the record ended. Ours is one gzip member a record; several
//! records in a member, plain files, WARC 1.0 and untidy headers are read as well.
//!
//! Three ends are told apart: a clean one (`None`), a file cut off inside a record
//! ([`Error::Truncated`], with the offset where cutting makes it whole again), and damage
//! ([`Error::Damaged`]), after which [`Reader::resync`] finds the next record.
//!
//! Always: no panic, no header larger than [`HEADER_BYTES_MAX`], no block in memory unless the
//! caller asks for it. After an error the reader gives no more records until it is resynced.

use std::io::{self, BufRead, ErrorKind, Read};

use crate::fields::{self, Fields, Untidy};
pub use crate::source::Framing;
use crate::source::Source;
use crate::{Damage, Error};

/// Longest record header. Real ones have some 700 bytes; a few tools put metadata in them.
pub const HEADER_BYTES_MAX: usize = 1 << 20;

/// Reads records one after the other.
pub struct Reader<R> {
    pub(crate) source: Source<R>,
    current: Option<Current>,
    pub(crate) failed: Option<Failure>,
    header: Vec<u8>,
}

/// Where reading failed, and how what failed was framed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    pub(crate) offset: u64,
    pub(crate) framing: Framing,
    /// The gzip member around the broken record may still be sound.
    pub(crate) inside: bool,
}

/// A record's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Where the record (or the member that holds it) starts.
    pub offset: u64,
    /// `1.1`, from the first line.
    pub version: String,
    pub fields: Fields,
    /// Length of the block.
    pub content_length: u64,
    pub(crate) untidy: Untidy,
}

/// Where a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub offset: u64,
    /// Bytes in the file; `None` if the record shares a gzip member with others.
    pub length: Option<u64>,
    pub framing: Framing,
    /// Two line ends followed the block, as they should.
    pub(crate) trailer_tidy: bool,
}

#[derive(Debug, Clone, Copy)]
struct Current {
    offset: u64,
    framing: Framing,
    /// The record is the first of its member.
    first: bool,
    block_left: u64,
    /// Bytes given out by [`Reader::chunk`] and not yet consumed.
    lent: usize,
    /// The record is over, its extent known.
    done: Option<Extent>,
}

impl<R: BufRead> Reader<R> {
    /// Reads from the start of a file.
    pub fn new(input: R) -> Self {
        Self::at(input, 0)
    }

    /// Reads from a record's start: `input` stands at `offset` of its file.
    pub fn at(input: R, offset: u64) -> Self {
        let source = Source::new(input, offset);
        Self { source, current: None, failed: None, header: Vec::new() }
    }

    /// The next record's header; the rest of the one before is passed over. `None` at a clean end.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::Damaged`], [`Error::Io`].
    pub fn next_record(&mut self) -> Result<Option<Header>, Error> {
        self.finish()?;
        if self.failed.is_some() {
            return Ok(None);
        }
        let shared = self.current.take().filter(|_| self.source.framing() == Framing::Gzip);
        let offset = shared.map_or_else(|| self.source.offset(), |before| before.offset);
        match self.open(shared) {
            Ok(header) => Ok(header),
            Err(fault) => Err(self.fail(offset, fault)),
        }
    }

    /// The next piece of the block, or `None` after its last byte.
    ///
    /// # Errors
    /// As [`Self::next_record`].
    pub fn chunk(&mut self) -> Result<Option<&[u8]>, Error> {
        let Some(current) = &mut self.current else { return Ok(None) };
        self.source.consume(std::mem::take(&mut current.lent));
        if current.block_left == 0 {
            return Ok(None);
        }
        let (offset, missing) = (current.offset, current.block_left);
        let len = match self.source.fill() {
            Ok(bytes) => bytes.len(),
            Err(error) => return Err(self.fail(offset, error.into())),
        };
        if len == 0 {
            let fault = match self.source.framing() {
                Framing::Plain => Fault::Truncated,
                Framing::Gzip => Fault::Damage(Damage::ShortBlock { missing }),
            };
            return Err(self.fail(offset, fault));
        }
        current.lent = usize::try_from(missing).map_or(len, |missing| missing.min(len));
        current.block_left -= current.lent as u64;
        let lent = current.lent;
        // Filled a moment ago, so this hands out what is there and cannot fail anew.
        Ok(Some(&self.source.fill()?[..lent]))
    }

    /// The rest of the block in memory; `None` if it is longer than `bytes_max`.
    ///
    /// # Errors
    /// As [`Self::next_record`].
    pub fn block(&mut self, bytes_max: u64) -> Result<Option<Vec<u8>>, Error> {
        let left = self.current.map_or(0, |current| current.block_left);
        if left > bytes_max {
            return Ok(None);
        }
        // Room grows with what is there: a header may promise more than the file holds.
        let mut block = Vec::new();
        while let Some(piece) = self.chunk()? {
            block.extend_from_slice(piece);
        }
        Ok(Some(block))
    }

    /// Reads to the end of the current record and says where it lies. `None` if there is none.
    ///
    /// # Errors
    /// As [`Self::next_record`]. A gzip checksum is verified here.
    pub fn finish(&mut self) -> Result<Option<Extent>, Error> {
        while self.chunk()?.is_some() {}
        let Some(current) = self.current else { return Ok(None) };
        if current.done.is_none() {
            match self.close(&current) {
                Ok(extent) => self.current = Some(Current { done: Some(extent), ..current }),
                Err(fault) => return Err(self.fail(current.offset, fault)),
            }
        }
        Ok(self.current.and_then(|current| current.done))
    }

    /// Goes into the next frame that holds anything; gives where it starts.
    fn enter_frame(&mut self) -> Result<Option<(u64, Framing)>, Fault> {
        loop {
            let offset = self.source.offset();
            let Some(framing) = self.source.enter()? else { return Ok(None) };
            // Some block-gzip tools end a file with an empty member.
            if framing == Framing::Plain || !self.source.fill()?.is_empty() {
                return Ok(Some((offset, framing)));
            }
            self.source.leave();
        }
    }

    /// `shared` is the record before, if its gzip member goes on.
    fn open(&mut self, shared: Option<Current>) -> Result<Option<Header>, Fault> {
        let first = shared.is_none();
        let frame = match shared {
            Some(before) => Some((before.offset, before.framing)),
            None => self.enter_frame()?,
        };
        let Some((offset, framing)) = frame else { return Ok(None) };
        self.read_header()?;
        let line_end = self.header.iter().position(|&byte| byte == b'\n').unwrap_or(0);
        let version = String::from_utf8_lossy(&self.header[b"WARC/".len()..line_end]);
        let version = version.trim().to_owned();
        let (fields, mut untidy) = fields::parse(&self.header[line_end + 1..]);
        untidy.bare_line_ends |= !self.header[..line_end].ends_with(b"\r");
        let digits = |value: &&str| value.bytes().all(|byte| byte.is_ascii_digit());
        let length = fields.get("Content-Length").filter(digits).and_then(|text| text.parse().ok());
        let content_length: u64 = length.ok_or(Fault::Damage(Damage::ContentLength))?;
        self.current = Some(Current {
            offset,
            framing,
            first,
            block_left: content_length,
            lent: 0,
            done: None,
        });
        Ok(Some(Header { offset, version, fields, content_length, untidy }))
    }

    /// Reads up to and with the empty line into `self.header`.
    fn read_header(&mut self) -> Result<(), Fault> {
        self.header.clear();
        loop {
            let framing = self.source.framing();
            let bytes = self.source.fill()?;
            let Some(newline) = bytes.iter().position(|&byte| byte == b'\n') else {
                let len = bytes.len();
                self.header.extend_from_slice(bytes);
                self.source.consume(len);
                self.judge_start()?;
                match (len, framing) {
                    (0, Framing::Plain) => return Err(Fault::Truncated),
                    (0, Framing::Gzip) => return Err(Fault::Damage(Damage::HeaderCut)),
                    _ => continue,
                }
            };
            self.header.extend_from_slice(&bytes[..=newline]);
            self.source.consume(newline + 1);
            self.judge_start()?;
            if self.header.ends_with(b"\n\r\n") || self.header.ends_with(b"\n\n") {
                return Ok(());
            }
        }
    }

    fn judge_start(&self) -> Result<(), Fault> {
        let len = self.header.len().min(b"WARC/".len());
        if self.header[..len] != b"WARC/"[..len] {
            return Err(Fault::Damage(Damage::NotARecord));
        }
        if self.header.len() > HEADER_BYTES_MAX {
            return Err(Fault::Damage(Damage::HeaderTooLong));
        }
        Ok(())
    }

    /// Reads what follows the block.
    fn close(&mut self, current: &Current) -> Result<Extent, Fault> {
        let mut trailer: Vec<u8> = Vec::new();
        let frame_ends = loop {
            let bytes = self.source.fill()?;
            let here = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            let (all, none_left) = (here == bytes.len(), bytes.is_empty());
            // Five bytes tell a tidy trailer from a longer one; the rest is only passed over.
            let kept = here.min(5_usize.saturating_sub(trailer.len()));
            trailer.extend_from_slice(&bytes[..kept]);
            self.source.consume(here);
            if none_left || !all {
                break none_left;
            }
        };
        let line_ends = trailer.iter().filter(|&&byte| byte == b'\n').count();
        match (line_ends, frame_ends, current.framing) {
            (0 | 1, true, Framing::Plain) => return Err(Fault::Truncated),
            (0 | 1, false, _) => return Err(Fault::Damage(Damage::Trailer)),
            // A member that is whole may end without them: it says itself where the record ends.
            _ => {}
        }
        let alone = current.framing == Framing::Plain || (frame_ends && current.first);
        if current.framing == Framing::Gzip && frame_ends {
            self.source.leave();
        }
        Ok(Extent {
            offset: current.offset,
            length: alone.then(|| self.source.offset() - current.offset),
            framing: current.framing,
            trailer_tidy: trailer == crate::record::TRAILER,
        })
    }

    fn fail(&mut self, offset: u64, fault: Fault) -> Error {
        let inside = matches!(&fault, Fault::Damage(damage) if !matches!(damage, Damage::Gzip(_)));
        self.failed = Some(Failure { offset, framing: self.source.framing(), inside });
        self.current = None;
        match fault {
            Fault::Truncated => Error::Truncated { offset },
            Fault::Damage(damage) => Error::Damaged { offset, damage },
            Fault::Io(error) => Error::Io(error),
        }
    }
}

/// Reads the current record's block.
impl<R: BufRead> Read for Reader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Some(current) = self.current else { return Ok(0) };
        if out.is_empty() || current.block_left == 0 && current.lent == 0 {
            return Ok(0);
        }
        let piece = self.chunk().map_err(|error| match error {
            Error::Io(error) => error,
            Error::Truncated { .. } => io::Error::new(ErrorKind::UnexpectedEof, error),
            error => io::Error::new(ErrorKind::InvalidData, error),
        })?;
        let len = piece.map_or(0, |piece| {
            let len = piece.len().min(out.len());
            out[..len].copy_from_slice(&piece[..len]);
            len
        });
        // What did not fit goes back.
        if let Some(current) = &mut self.current {
            current.block_left += (current.lent - len) as u64;
            current.lent = len;
        }
        Ok(len)
    }
}

impl<R> std::fmt::Debug for Reader<R> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Reader").field("current", &self.current).finish_non_exhaustive()
    }
}

enum Fault {
    Truncated,
    Damage(Damage),
    Io(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof => Self::Truncated,
            // The two kinds that a gzip decoder gives for bytes that are no gzip.
            ErrorKind::InvalidInput | ErrorKind::InvalidData => {
                Self::Damage(Damage::Gzip(error.to_string()))
            }
            _ => Self::Io(error),
        }
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
