//! Where does the next whole record start, after one that is broken?
//!
//! If only the record was broken and its gzip member is sound, right behind that member.
//! Otherwise the file is searched byte by byte for what can start a record: for a gzip file the
//! magic number with `WARC/` as its first plain bytes, for a plain file a `WARC/` line with a
//! field below it. Only starts of the broken record's own kind count.
//!
//! Known limit: an archive that was itself the body of a record can fool the search if the member
//! around it is broken; its records then count as ours.

use std::io::{self, BufRead, Read, Seek};

use flate2::bufread::GzDecoder;

use crate::Reader;
use crate::reader::{Failure, Framing};

/// Bytes searched at a time.
const WINDOW_BYTES: usize = 256 << 10;
/// Bytes that must be seen from a start on to judge it: more than any gzip header with a file
/// name, plus one Huffman table.
const JUDGE_BYTES: usize = 4 << 10;

impl<R: BufRead + Seek> Reader<R> {
    /// After an error: goes on at the next record behind the broken one and gives its offset;
    /// `None` if there is none. Without an error before it, does nothing.
    ///
    /// # Errors
    /// If the input cannot be read.
    pub fn resync(&mut self) -> io::Result<Option<u64>> {
        let Some(Failure { offset, framing, inside }) = self.failed else { return Ok(None) };
        if inside && framing == Framing::Gzip && self.drain_member() {
            self.failed = None;
            let here = self.source.offset();
            let more = !self.source.fill()?.is_empty();
            return Ok(more.then_some(here));
        }
        self.source.seek(offset + 1)?;
        let Some(found) = self.search(framing)? else { return Ok(None) };
        self.source.seek(found)?;
        self.failed = None;
        Ok(Some(found))
    }

    /// Reads the rest of the member; true if its checksum holds.
    fn drain_member(&mut self) -> bool {
        loop {
            match self.source.fill() {
                Ok([]) => break,
                Ok(bytes) => {
                    let len = bytes.len();
                    self.source.consume(len);
                }
                Err(_) => return false,
            }
        }
        self.source.leave();
        true
    }

    fn search(&mut self, framing: Framing) -> io::Result<Option<u64>> {
        let starts: fn(&[u8]) -> bool = match framing {
            Framing::Gzip => starts_member,
            Framing::Plain => starts_plain_or_member,
        };
        let mut window = Vec::new();
        let mut window_offset = self.source.offset();
        loop {
            let more = self.read_into(&mut window)?;
            // At the end of the file there is nothing more to wait for.
            let judged = if more { window.len() - JUDGE_BYTES } else { window.len() };
            let start =
                (0..judged).find(|&at| starts(&window[at..window.len().min(at + JUDGE_BYTES)]));
            if let Some(at) = start {
                return Ok(Some(window_offset + at as u64));
            }
            if !more {
                return Ok(None);
            }
            window.drain(..judged);
            window_offset += judged as u64;
        }
    }

    /// Fills the window; false if the file ended before it was full.
    fn read_into(&mut self, window: &mut Vec<u8>) -> io::Result<bool> {
        while window.len() < WINDOW_BYTES {
            let bytes = self.source.fill()?;
            let len = bytes.len().min(WINDOW_BYTES - window.len());
            if len == 0 {
                return Ok(false);
            }
            window.extend_from_slice(&bytes[..len]);
            self.source.consume(len);
        }
        Ok(true)
    }
}

fn starts_member(bytes: &[u8]) -> bool {
    // Magic number, deflate, and none of the flags that must be zero.
    let magic = bytes.starts_with(&[0x1f, 0x8b, 8]) && bytes.get(3).is_some_and(|f| f & 0xe0 == 0);
    let mut plain = [0; 5];
    magic && GzDecoder::new(bytes).read_exact(&mut plain).is_ok() && &plain == b"WARC/"
}

/// A broken start of a gzip file looks plain, so a member counts here too.
fn starts_plain_or_member(bytes: &[u8]) -> bool {
    let Some(rest) = bytes.strip_prefix(b"WARC/") else { return starts_member(bytes) };
    let mut lines = rest.split(|&byte| byte == b'\n');
    let version = lines.next().unwrap_or_default().trim_ascii_end();
    let number = version.len() <= 4 && version.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    let field = lines.next().unwrap_or_default();
    let named = [&b"WARC-"[..], b"Content-"];
    let named = named
        .iter()
        .any(|name| field.len() >= name.len() && field[..name.len()].eq_ignore_ascii_case(name));
    number && !version.is_empty() && named
}
