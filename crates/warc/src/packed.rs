//! Is a body worth compressing, and how is one kept that is not?
//!
//! Most servers send pages gzipped, and pictures are packed by nature: deflating them again costs
//! more than all the rest of a member and gains nothing. Such a body is copied into stored deflate
//! blocks, behind its deflated headers, in the same gzip member; any reader takes that for what it
//! is. Measured on a gzipped page of 4.0 KB with headers: 5.5 µs and 3,783 bytes, against 13.3 µs
//! and 3,807 bytes when all is deflated at level 1 (level 6: 14.2 µs and 3,701 bytes, against
//! 24.0 µs and 3,792).
//!
//! Whether a body is packed is seen from its bytes, not from what the server says: a packed one
//! has all 256 values about equally often. A wrong guess costs space or time, never content.

use flate2::{Compress, Compression, FlushCompress, Status};

use crate::Record;

/// Below this, too few bytes to tell, and too few to save.
const BODY_BYTES_MIN: usize = 512;
/// Bytes looked at, in four places.
const SAMPLE_BYTES: usize = 1024;
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// Whether the body looks like noise: the sum of squared frequencies of a sample is at most twice
/// that of even chance. Text has about ten times as much, Base64 four times.
pub(crate) fn is_packed(body: &[&[u8]]) -> bool {
    let len: usize = body.iter().map(|slice| slice.len()).sum();
    if len < BODY_BYTES_MIN {
        return false;
    }
    let window = (SAMPLE_BYTES / 4).min(len / 4);
    let mut counts = [0_usize; 256];
    for quarter in 0..4 {
        let start = quarter * (len / 4) + (len / 4 - window) / 2;
        count(body, start, window, &mut counts);
    }
    let sample = 4 * window;
    let squares: usize = counts.iter().map(|count| count * count).sum();
    squares <= 2 * (sample + sample * sample / 256)
}

fn count(body: &[&[u8]], start: usize, len: usize, counts: &mut [usize; 256]) {
    let (mut skip, mut left) = (start, len);
    for slice in body {
        let from = skip.min(slice.len());
        let here = &slice[from..slice.len().min(from + left)];
        for &byte in here {
            counts[usize::from(byte)] += 1;
        }
        skip -= from;
        left -= here.len();
    }
}

/// Deflates what stands before a packed body; made once, used for many.
pub(crate) struct Packer {
    lead: Compress,
    plain: Vec<u8>,
}

impl Packer {
    pub(crate) fn new(level: u32) -> Self {
        Self { lead: Compress::new(Compression::new(level), false), plain: Vec::new() }
    }

    /// Appends the record as one member, its body stored. False if the headers could not be
    /// deflated; `out` then ends with a piece of a member.
    pub(crate) fn member(&mut self, record: &Record<'_>, out: &mut Vec<u8>) -> bool {
        let (lead, body, trailer) = record.around_body();
        self.plain.clear();
        lead.iter().for_each(|piece| self.plain.extend_from_slice(piece));
        // The bound of the stored part: five bytes a block of 65,535.
        out.reserve(record.size() + record.size() / 1000 + 512);
        out.extend_from_slice(&GZIP_HEADER);
        if !self.deflate_lead(out) {
            return false;
        }
        let mut sum = libdeflater::Crc::new();
        sum.update(&self.plain);
        let mut left = record.size() - self.plain.len();
        let mut left_of_block = 0;
        for slice in body.iter().copied().chain([trailer]) {
            sum.update(slice);
            let mut rest = slice;
            while !rest.is_empty() {
                if left_of_block == 0 {
                    left_of_block = push_block_header(out, left);
                    left -= left_of_block;
                }
                let (here, later) = rest.split_at(rest.len().min(left_of_block));
                out.extend_from_slice(here);
                left_of_block -= here.len();
                rest = later;
            }
        }
        out.extend_from_slice(&sum.sum().to_le_bytes());
        // The low 32 bits of the length, as gzip has it.
        let size = u64::try_from(record.size()).unwrap_or(0);
        out.extend_from_slice(&size.to_le_bytes()[..4]);
        true
    }

    /// Ends at a byte's end, so that stored blocks can follow.
    fn deflate_lead(&mut self, out: &mut Vec<u8>) -> bool {
        self.lead.reset();
        // Deflate grows nothing by an eighth, so one round is enough; the loop makes it certain.
        out.reserve(self.plain.len() + self.plain.len() / 8 + 256);
        loop {
            let done = usize::try_from(self.lead.total_in()).unwrap_or(usize::MAX);
            let left = self.plain.get(done..).unwrap_or_default();
            match self.lead.compress_vec(left, out, FlushCompress::Sync) {
                // With room left over, all is out.
                Ok(Status::Ok) if out.len() < out.capacity() => return true,
                Ok(Status::Ok) => out.reserve(left.len() + 256),
                Ok(Status::BufError) => return left.is_empty(),
                Ok(Status::StreamEnd) | Err(_) => return false,
            }
        }
    }
}

/// Opens a stored block for as much of what is left as one can hold; it is the last if that is all.
fn push_block_header(out: &mut Vec<u8>, left: usize) -> usize {
    let len = u16::try_from(left).unwrap_or(u16::MAX);
    let here = usize::from(len);
    out.push(u8::from(here == left));
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&(!len).to_le_bytes());
    here
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gzip, inflate, response};

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 41_u64;
        let step = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..len).map(step).collect()
    }

    #[test]
    fn packed_bodies_are_told_from_others() {
        let text = "It does not wait in a web, it goes out and walks. ".repeat(100);
        let cyrillic = "Он не ждёт в паутине, он выходит и идёт. ".repeat(100);
        let chinese =
            "它不在网中等待，而是出去走动。狼蛛是一种不结网的蜘蛛，靠奔跑捕食。".repeat(50);
        let base64 = data_encoding::BASE64.encode(&noise(3000));
        for plain in [&text, &cyrillic, &chinese, &base64] {
            assert!(!is_packed(&[plain.as_bytes()]), "{plain}");
            let pieces: Vec<&[u8]> = plain.as_bytes().chunks(7).collect();
            assert!(!is_packed(&pieces));
        }
        for len in [512, 1000, 100_000] {
            assert!(is_packed(&[&noise(len)]));
            assert!(is_packed(&noise(len).chunks(7).collect::<Vec<_>>()));
        }
        assert!(is_packed(&[&gzip(base64.as_bytes())]));
        assert!(!is_packed(&[&noise(511)]), "too short to tell");
        assert!(!is_packed(&[]));
    }

    #[test]
    fn a_stored_body_reads_back() {
        let mut packer = Packer::new(1);
        for len in [0, 1, 65_531, 65_532, 65_535, 65_536, 131_066, 131_067, 300_000] {
            let body = noise(len);
            let pieces: Vec<&[u8]> = body.chunks(700).collect();
            let record = response(&pieces);
            let mut plain = Vec::new();
            record.write_plain(&mut plain);
            let mut out = Vec::new();
            assert!(packer.member(&record, &mut out));
            assert_eq!(inflate(&out), plain);
            assert!(out.len() < plain.len(), "the headers still shrink");
        }
    }

    #[test]
    fn headers_of_any_size_are_deflated() {
        let mut packer = Packer::new(9);
        for len in [10, 5_000, 200_000] {
            let value = data_encoding::HEXLOWER.encode(&noise(len));
            let head = format!("HTTP/1.1 200 OK\r\nX-Huge: {value}\r\n\r\n");
            let (capture, body) = (crate::testing::capture(), noise(600));
            let slices: [&[u8]; 1] = [&body];
            let id = crate::RecordId::from_bits(1);
            let record = Record::response(&capture, id, head.as_bytes(), &slices).build().unwrap();
            let mut out = Vec::new();
            assert!(packer.member(&record, &mut out));
            assert_eq!(inflate(&out).len(), record.size());
        }
    }
}
