//! Where on the wire do the bytes of a body lie?
//!
//! In one piece, or in chunks with sizes between them. Chunks are found while they are read: a
//! list of them could be longer than the body (a chunk of one byte is six on the wire).
//!
//! hyper has checked the framing as far as it got, so a size that cannot be read is where the
//! record was cut.

use std::ops::Range;

/// The bytes of a body, to be read from the front.
#[derive(Debug, Clone)]
pub(crate) struct Payload<'a> {
    wire: &'a [u8],
    /// What is left of the piece that is being read; empty only at the end.
    piece: Range<usize>,
    /// Where the next chunk begins; none without chunks.
    chunk_at: Option<usize>,
}

/// What one look over a body tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes without framing.
    pub(crate) len: usize,
    /// It lies in one piece.
    pub(crate) one_piece: bool,
    /// Its framing is complete, as far as framing tells.
    pub(crate) whole: bool,
}

impl<'a> Payload<'a> {
    /// The body that starts at `start`.
    pub(crate) fn new(wire: &'a [u8], start: usize, chunked: bool) -> Self {
        if !chunked {
            return Self { wire, piece: start..wire.len(), chunk_at: None };
        }
        let mut payload = Self { wire, piece: start..start, chunk_at: Some(start) };
        payload.next_chunk();
        payload
    }

    /// Looks over what is left, without reading it.
    pub(crate) fn shape(&self) -> Shape {
        let mut rest = self.clone();
        let mut shape = Shape { len: 0, one_piece: true, whole: true };
        while !rest.piece.is_empty() {
            shape.one_piece = shape.len == 0;
            shape.len += rest.piece.len();
            rest.advance(rest.piece.len());
        }
        shape.whole = rest.chunk_at.is_none_or(|at| chunk(self.wire, at) == Chunk::Last);
        shape
    }

    /// The first bytes, in however many pieces they lie.
    pub(crate) fn start(&self) -> Vec<u8> {
        let mut rest = self.clone();
        let mut start = Vec::with_capacity(4);
        while start.len() < 4 && !rest.piece.is_empty() {
            let part = rest.peek(4 - start.len());
            start.extend_from_slice(part);
            rest.advance(part.len());
        }
        start
    }

    /// The piece that is being read, as a range of the wire.
    pub(crate) fn piece(&self) -> Range<usize> {
        self.piece.clone()
    }

    /// Up to `max` bytes that come next in one piece; none at the end.
    pub(crate) fn peek(&self, max: usize) -> &'a [u8] {
        let piece = &self.wire[self.piece.clone()];
        &piece[..piece.len().min(max)]
    }

    /// Goes on by so many bytes of what `peek` gave.
    pub(crate) fn advance(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.piece.len(), "not beyond the piece");
        self.piece.start += bytes;
        if self.piece.is_empty() {
            self.next_chunk();
        }
    }

    fn next_chunk(&mut self) {
        let Some(at) = self.chunk_at else { return };
        if let Chunk::Data { data, next } = chunk(self.wire, at) {
            self.piece = data;
            self.chunk_at = Some(next);
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Chunk {
    /// Never empty.
    Data {
        data: Range<usize>,
        next: usize,
    },
    Last,
    /// The record was cut here.
    Cut,
}

fn chunk(wire: &[u8], at: usize) -> Chunk {
    let rest = wire.get(at..).unwrap_or_default();
    let Some(line) = rest.iter().position(|&byte| byte == b'\n') else { return Chunk::Cut };
    let start = at + line + 1;
    match chunk_size(&rest[..line]) {
        None => Chunk::Cut,
        Some(0) => Chunk::Last,
        Some(size) => {
            let end = start.saturating_add(size);
            let data = start..end.min(wire.len());
            // Behind the data comes a line end; beyond the wire there is nothing to find.
            let next = match wire.get(end..) {
                Some([b'\r', b'\n', ..]) => end + 2,
                Some([b'\n', ..]) => end + 1,
                _ => wire.len(),
            };
            if data.is_empty() { Chunk::Cut } else { Chunk::Data { data, next } }
        }
    }
}

/// The number at the start of a chunk's line; what follows `;` is an extension.
fn chunk_size(line: &[u8]) -> Option<usize> {
    let digits = line.split(|&byte| byte == b';').next()?.trim_ascii();
    let text = std::str::from_utf8(digits).ok()?;
    // `from_str_radix` would take a sign.
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| usize::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(wire: &[u8], start: usize, chunked: bool) -> (Vec<u8>, Shape) {
        let mut payload = Payload::new(wire, start, chunked);
        let shape = payload.shape();
        let mut body = Vec::new();
        loop {
            let part = payload.peek(7);
            if part.is_empty() {
                break;
            }
            body.extend_from_slice(part);
            payload.advance(part.len());
        }
        assert_eq!(body.len(), shape.len);
        (body, shape)
    }

    fn check(wire: &str, want: &str, one_piece: bool, whole: bool) {
        let (body, shape) = read(format!("HEAD{wire}").as_bytes(), 4, true);
        assert_eq!(String::from_utf8_lossy(&body), want, "{wire:?}");
        assert_eq!((shape.one_piece, shape.whole), (one_piece, whole), "{wire:?}");
    }

    #[test]
    fn chunks_are_found_and_a_cut_shows() {
        check("4\r\nwolf\r\n0\r\n\r\n", "wolf", true, true);
        check(
            "4;a=b\r\nwolf\r\nA ; x\r\n0123456789\r\n0\r\nT: x\r\n\r\n",
            "wolf0123456789",
            false,
            true,
        );
        check("0\r\n\r\n", "", true, true);
        check("4\r\nwolf\r\n", "wolf", true, false);
        check("4\r\nwolf\r\n4", "wolf", true, false);
        check("4\r\nwo", "wo", true, false);
        check("4\r\n", "", true, false);
        check("", "", true, false);
        check("4\r\nwolfX4\r\nwolf\r\n", "wolf", true, false);
        check("zz\r\nwolf\r\n", "", true, false);
        check("-4\r\nwolf\r\n", "", true, false);
        check("ffffffffffffffff\r\nwolf", "wolf", true, false);
    }

    #[test]
    fn the_start_is_found_in_however_many_pieces() {
        let start = |wire: &str| Payload::new(wire.as_bytes(), 0, true).start();
        assert_eq!(start("1\r\na\r\n1\r\nb\r\n3\r\ncde\r\n0\r\n\r\n"), b"abcd");
        assert_eq!(start("2\r\nab\r\n0\r\n\r\n"), b"ab");
        assert_eq!(Payload::new(b"abcdef", 1, false).start(), b"bcde");
        assert_eq!(Payload::new(b"abc", 3, false).start(), b"");
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_to_an_end(wire in proptest::collection::vec(any::<u8>(), 0..200)) {
            read(&wire, 0, true);
        }

        #[test]
        fn chunked_bodies_come_back(
            body in proptest::collection::vec(any::<u8>(), 1..500),
            size in 1usize..100,
        ) {
            let mut wire = Vec::new();
            for chunk in body.chunks(size) {
                wire.extend(format!("{:x}\r\n", chunk.len()).bytes());
                wire.extend(chunk);
                wire.extend(b"\r\n");
            }
            wire.extend(b"0\r\n\r\n");
            let (got, shape) = read(&wire, 0, true);
            prop_assert!(shape.whole);
            prop_assert_eq!(got, body);
        }
    }
}
