//! How does a record become bytes to append?
//!
//! As one gzip member. Up to [`WHOLE_BYTES_MAX`] the record is laid out in a buffer that is used
//! again and again and compressed in one call of libdeflate, which is twice as fast as a stream
//! and packs better; almost every record is that small. A longer one is streamed piece by piece,
//! so that a thread that once saw a film does not keep its size in memory; one that was never in
//! memory as a whole is streamed from where it lies to where it goes. A body that is packed already
//! is not packed again (`packed`).
//!
//! Always: the same record at the same level gives the same bytes (no time, no name in the gzip
//! header).

use std::io::{self, Write};

use flate2::write::GzEncoder;
use libdeflater::CompressionLvl;

use crate::packed::{Packer, is_packed};
use crate::{Error, Record};

/// Longest record that is compressed in one piece. The buffer for it stays, per compressor.
const WHOLE_BYTES_MAX: usize = 4 << 20;

/// How hard to compress, from 1 (fast) to 12 (small).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u8);

impl Level {
    /// The fastest that keeps 90 % of level 6's ratio. On 1,497 real pages (278 KB on average)
    /// level 1 keeps 90.8 % on the average page, and by bytes 95.2 % of pages under 30 KB, 91.2 %
    /// under 300 KB, 89.0 % with the giants; it is 2.6 times as fast. Level 2 keeps 91.8 % by
    /// bytes and is 1.6 times as fast.
    pub const DEFAULT: Self = Self(1);

    /// # Errors
    /// [`Error::Level`] outside 1 to 12.
    pub fn new(level: u8) -> Result<Self, Error> {
        if (1..=12).contains(&level) { Ok(Self(level)) } else { Err(Error::Level(level)) }
    }

    /// zlib's scale ends at 9.
    fn for_streams(self) -> u32 {
        u32::from(self.0.min(9))
    }
}

impl Default for Level {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Where a member lies in the buffer it was appended to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberRange {
    /// Index of its first byte.
    pub start: usize,
    /// Bytes.
    pub len: usize,
}

/// Turns records into gzip members; one per thread, used for many records.
pub struct Compressor {
    whole: libdeflater::Compressor,
    packer: Packer,
    level: Level,
    plain: Vec<u8>,
}

impl Compressor {
    /// With buffers that grow to what is needed, up to a bound, and stay.
    #[must_use]
    pub fn new(level: Level) -> Self {
        let lvl = CompressionLvl::new(i32::from(level.0)).unwrap_or_default();
        Self {
            whole: libdeflater::Compressor::new(lvl),
            packer: Packer::new(level.for_streams()),
            level,
            plain: Vec::new(),
        }
    }

    /// Appends the record to `out` as one member.
    pub fn member(&mut self, record: &Record<'_>, out: &mut Vec<u8>) -> MemberRange {
        let start = out.len();
        let size = record.size();
        let written = if is_packed(record.around_body().1) {
            self.packer.member(record, out)
        } else {
            size <= WHOLE_BYTES_MAX && self.whole_member(record, size, out)
        };
        if !written {
            out.truncate(start);
            stream_member(self.level, record, out);
        }
        MemberRange { start, len: out.len() - start }
    }

    /// Writes the record to `out` as one member, with the rest of its block; how long that is.
    pub(crate) fn write_member(
        &mut self,
        record: &Record<'_>,
        out: &mut dyn Write,
    ) -> io::Result<usize> {
        let Some(rest) = record.rest else {
            let mut member = Vec::new();
            let range = self.member(record, &mut member);
            out.write_all(&member)?;
            return Ok(range.len);
        };
        let ([header, head], body, trailer) = record.around_body();
        // The start tells what the rest is like.
        let level = if is_packed(body) { 0 } else { self.level.for_streams() };
        let counted = Counted { out, bytes: 0 };
        let mut encoder = GzEncoder::new(counted, flate2::Compression::new(level));
        for piece in [header, head].iter().chain(body) {
            encoder.write_all(piece)?;
        }
        rest.read(&mut |piece| encoder.write_all(piece))?;
        encoder.write_all(trailer)?;
        Ok(encoder.finish()?.bytes)
    }

    fn whole_member(&mut self, record: &Record<'_>, size: usize, out: &mut Vec<u8>) -> bool {
        self.plain.clear();
        self.plain.reserve(size);
        record.write_plain(&mut self.plain);
        let start = out.len();
        out.resize(start + self.whole.gzip_compress_bound(size), 0);
        // Cannot fail with room for the bound; if it does, the stream does the work instead.
        match self.whole.gzip_compress(&self.plain, &mut out[start..]) {
            Ok(len) => {
                out.truncate(start + len);
                true
            }
            Err(_) => false,
        }
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Compressor").field("level", &self.level).finish_non_exhaustive()
    }
}

/// Counts what passes.
struct Counted<'a> {
    out: &'a mut dyn Write,
    bytes: usize,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn stream_member(level: Level, record: &Record<'_>, out: &mut Vec<u8>) {
    let level = flate2::Compression::new(level.for_streams());
    let mut encoder = GzEncoder::new(out, level);
    for piece in record.pieces() {
        encoder.write_all(piece).expect("a Vec takes every write");
    }
    encoder.finish().expect("a Vec takes every write");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{inflate, response};

    #[test]
    fn a_member_holds_exactly_its_record() {
        let mut compressor = Compressor::new(Level::DEFAULT);
        let mut out = b"before".to_vec();
        for body in [&b""[..], b"x", &[7; 100_000]] {
            let record = response(&[body]);
            let range = compressor.member(&record, &mut out);
            assert_eq!(range.start + range.len, out.len());
            let mut plain = Vec::new();
            record.write_plain(&mut plain);
            assert_eq!(inflate(&out[range.start..]), plain);
        }
        assert!(out.starts_with(b"before"));
    }

    #[test]
    fn every_level_can_be_read_and_others_are_refused() {
        let body: Vec<u8> = (0..50_000_u32).flat_map(|n| (n % 977).to_le_bytes()).collect();
        let record = response(&[&body]);
        for level in 1..=12 {
            let mut out = Vec::new();
            Compressor::new(Level::new(level).unwrap()).member(&record, &mut out);
            assert_eq!(inflate(&out).len(), record.size());
        }
        assert!(Level::new(0).is_err() && Level::new(13).is_err());
    }

    #[test]
    fn the_largest_bodies_are_streamed_and_leave_no_buffer_behind() {
        // 64 MiB is the largest body that is stored (PDF).
        let slice: Vec<u8> = (0..1 << 20).map(|n: u32| (n.wrapping_mul(n) >> 7) as u8).collect();
        let body = vec![slice.as_slice(); 64];
        let record = response(&body);
        let mut compressor = Compressor::new(Level::DEFAULT);
        let mut out = Vec::new();
        compressor.member(&record, &mut out);
        assert!(compressor.plain.capacity() <= WHOLE_BYTES_MAX);
        let mut decoder = flate2::bufread::GzDecoder::new(out.as_slice());
        let size = io::copy(&mut decoder, &mut io::sink()).unwrap();
        assert_eq!(size, record.size() as u64);
    }
}
