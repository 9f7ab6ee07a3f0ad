//! What stands where a record was taken out, so that all others keep their places?
//!
//! A record that says so and nothing else, of exactly the length that became free: a `metadata` record whose
//! block is a date and zeros. In a file of gzip members it is one member, its deflate blocks stored, so that
//! its length can be chosen and its zeros can be a hole in the file. Offsets in indexes and tables stay true,
//! and any reader passes over it.

use crate::{Framing, RecordId, WarcDate};

/// A stretch of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Bytes(Vec<u8>),
    /// So many zeros.
    Zeros(u64),
}

/// A filler can have every length from this one on. The shortest are some 50 bytes shorter.
pub const FILLER_BYTES_MIN: u64 = 300;

/// Longest block of deflate that is stored as it is.
const STORED_MAX: u64 = 65_535;
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// Checksum and length.
const GZIP_TAIL: u64 = 8;
const STORED_HEAD: u64 = 5;

/// The pieces of a filler of `bytes` bytes; none if that is too little for a record. `id` names it, `date`
/// says when something was taken out.
#[must_use]
pub fn filler(bytes: u64, framing: Framing, id: RecordId, date: WarcDate) -> Option<Vec<Piece>> {
    let around = GZIP_HEAD.len() as u64 + GZIP_TAIL;
    match framing {
        Framing::Plain => Some(Plain::of(bytes, id, date)?.pieces(0, bytes)),
        Framing::Gzip => {
            let inside = bytes.checked_sub(around)?;
            let blocks = inside.div_ceil(STORED_MAX + STORED_HEAD);
            let plain = Plain::of(inside.checked_sub(blocks * STORED_HEAD)?, id, date)?;
            Some(member(&plain, blocks))
        }
    }
}

fn member(plain: &Plain, blocks: u64) -> Vec<Piece> {
    let mut out = vec![Piece::Bytes(GZIP_HEAD.to_vec())];
    let mut at = 0;
    for block in 1..=blocks {
        let length = (plain.bytes - at).min(STORED_MAX);
        let size = u16::try_from(length).unwrap_or(u16::MAX);
        let mut head = vec![u8::from(block == blocks)];
        head.extend_from_slice(&size.to_le_bytes());
        head.extend_from_slice(&(!size).to_le_bytes());
        out.push(Piece::Bytes(head));
        out.extend(plain.pieces(at, at + length));
        at += length;
    }
    let mut sum = libdeflater::Crc::new();
    for piece in plain.pieces(0, plain.bytes) {
        match piece {
            Piece::Bytes(bytes) => sum.update(&bytes),
            Piece::Zeros(mut zeros) => {
                static SOME: [u8; 65_536] = [0; 65_536];
                while zeros > 0 {
                    let now = zeros.min(SOME.len() as u64);
                    sum.update(&SOME[..usize::try_from(now).unwrap_or(SOME.len())]);
                    zeros -= now;
                }
            }
        }
    }
    // The length is told modulo 2^32.
    let length = plain.bytes as u32;
    let tail = [sum.sum().to_le_bytes(), length.to_le_bytes()].concat();
    out.push(Piece::Bytes(tail));
    out
}

/// The record as it is read: what stands before its zeros, and its end behind them.
struct Plain {
    lead: Vec<u8>,
    bytes: u64,
}

impl Plain {
    fn of(bytes: u64, id: RecordId, date: WarcDate) -> Option<Self> {
        let note = format!("erased: {date}\r\n");
        let head = |length: u64, pad: &str| {
            format!(
                "WARC/1.1\r\nWARC-Type: metadata\r\nWARC-Record-ID: {id}\r\nWARC-Date: {date}\r\n\
                 Content-Type: application/warc-fields\r\nContent-Length: {pad}{length}\r\n\r\n"
            )
        };
        let end = crate::record::TRAILER.len() as u64;
        // A length may have one digit more than what it leaves room for; then a space fills the gap.
        let fitting = ["", " "].into_iter().find_map(|pad| {
            (1..=20_u64).find_map(|digits| {
                let around = head(0, pad).len() as u64 - 1 + digits + end;
                let length = bytes.checked_sub(around)?;
                let fits = length.to_string().len() as u64 == digits && length >= note.len() as u64;
                fits.then(|| head(length, pad))
            })
        })?;
        let lead = [fitting.as_bytes(), note.as_bytes()].concat();
        Some(Self { lead, bytes })
    }

    /// From one byte of it to another.
    fn pieces(&self, from: u64, until: u64) -> Vec<Piece> {
        let trailer = crate::record::TRAILER;
        let (lead, end) = (self.lead.len() as u64, self.bytes - trailer.len() as u64);
        let part = |bytes: &[u8], starts: u64| {
            let cut = |at: u64| usize::try_from(at.saturating_sub(starts)).unwrap_or(usize::MAX);
            let (a, b) = (cut(from).min(bytes.len()), cut(until).min(bytes.len()));
            (a < b).then(|| Piece::Bytes(bytes[a..b].to_vec()))
        };
        let zeros = until.min(end).saturating_sub(from.max(lead));
        let zeros = (zeros > 0).then_some(Piece::Zeros(zeros));
        [part(&self.lead, 0), zeros, part(trailer, end)].into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;

    fn written(pieces: &[Piece]) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Zeros(zeros) => out.resize(out.len() + *zeros as usize, 0),
            }
        }
        out
    }

    fn of(bytes: u64, framing: Framing) -> Option<Vec<u8>> {
        let date = WarcDate::from_unix_seconds(1_794_774_000);
        filler(bytes, framing, RecordId::derive(bytes.into(), "erased"), date)
            .map(|pieces| written(&pieces))
    }

    #[test]
    fn a_filler_has_every_length_from_a_small_one_on_and_is_a_record() {
        for framing in [Framing::Plain, Framing::Gzip] {
            let first = (1..1_000).find(|bytes| of(*bytes, framing).is_some()).unwrap();
            assert!(first < FILLER_BYTES_MIN, "{framing:?} {first}");
            let edges = [65_535_u64, 65_540, 65_558, 131_070, 131_098, 200_000, 1_000_000];
            let around = edges.into_iter().flat_map(|edge| edge - 20..edge + 20);
            for bytes in (first..first + 2_000).chain(around).chain([9_999, 10_000, 10_217]) {
                let filler = of(bytes, framing).unwrap_or_else(|| panic!("{framing:?} {bytes}"));
                assert_eq!(filler.len() as u64, bytes, "{framing:?}");
                let mut reader = Reader::new(filler.as_slice());
                let header = reader.next_record().unwrap().unwrap();
                assert_eq!(header.fields.get("WARC-Type"), Some("metadata"));
                let block = reader.block(u64::MAX).unwrap().unwrap();
                assert!(block.starts_with(b"erased: 20"), "{bytes}");
                let extent = reader.finish().unwrap().unwrap();
                assert_eq!((extent.framing, extent.length), (framing, Some(bytes)));
                assert!(reader.next_record().unwrap().is_none());
            }
        }
    }

    #[test]
    fn a_filler_is_nothing_that_our_check_complains_of() {
        let report =
            crate::check(std::io::Cursor::new(of(70_000, Framing::Gzip).unwrap())).unwrap();
        assert!(report.problems.is_empty(), "{report:?}");
    }
}
