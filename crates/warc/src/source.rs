//! Where in the file are we, and what are the next plain bytes?
//!
//! A file is a row of frames: gzip members, or plain records side by side. A frame's first byte
//! tells which. Inside a member the bytes are inflated window by window; a plain frame goes on to
//! the end of the file, since only its records know where they end.
//!
//! Always: a member is left with its checksum verified and the input at its very end.

use std::io::{self, BufRead, ErrorKind, Read, Seek, SeekFrom};

use flate2::bufread::GzDecoder;

/// Plain bytes held at once of a member.
const WINDOW_BYTES: usize = 32 << 10;

/// How a record is wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Gzip,
    Plain,
}

pub(crate) struct Source<R> {
    state: State<R>,
    window: Box<[u8]>,
    start: usize,
    end: usize,
}

enum State<R> {
    Plain(Counted<R>),
    Member(Box<GzDecoder<Counted<R>>>),
    /// Only while the input moves from one state to the other.
    Moving,
}

impl<R: BufRead> Source<R> {
    /// `offset` is where `input` stands in its file.
    pub(crate) fn new(input: R, offset: u64) -> Self {
        let window = vec![0; WINDOW_BYTES].into_boxed_slice();
        Self { state: State::Plain(Counted { input, offset }), window, start: 0, end: 0 }
    }

    /// Offset of the next byte of the file. Inside a member: of what was not yet inflated.
    pub(crate) fn offset(&self) -> u64 {
        match &self.state {
            State::Plain(raw) => raw.offset,
            State::Member(gzip) => gzip.get_ref().offset,
            State::Moving => unreachable!("no method leaves it"),
        }
    }

    pub(crate) fn framing(&self) -> Framing {
        match self.state {
            State::Member(_) => Framing::Gzip,
            _ => Framing::Plain,
        }
    }

    /// Between two frames: enters a member if one starts here. `None` at the end of the file.
    pub(crate) fn enter(&mut self) -> io::Result<Option<Framing>> {
        let first = self.fill()?.first().copied();
        // Not even a broken WARC line starts with this byte, so it decides alone.
        if first == Some(0x1f)
            && let State::Plain(raw) = std::mem::replace(&mut self.state, State::Moving)
        {
            self.state = State::Member(Box::new(GzDecoder::new(raw)));
        }
        Ok(first.map(|_| self.framing()))
    }

    /// Leaves a member; all of it must have been consumed.
    pub(crate) fn leave(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Moving) {
            State::Member(gzip) => State::Plain(gzip.into_inner()),
            plain => plain,
        };
        (self.start, self.end) = (0, 0);
    }

    /// The next plain bytes of the frame; none at its end.
    pub(crate) fn fill(&mut self) -> io::Result<&[u8]> {
        match &mut self.state {
            State::Plain(raw) => {
                while let Err(error) = raw.fill_buf() {
                    if error.kind() != ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
                raw.fill_buf()
            }
            State::Member(gzip) => {
                while self.start == self.end {
                    match gzip.read(&mut self.window) {
                        Ok(0) => break,
                        Ok(len) => (self.start, self.end) = (0, len),
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(&self.window[self.start..self.end])
            }
            State::Moving => unreachable!("no method leaves it"),
        }
    }

    pub(crate) fn consume(&mut self, len: usize) {
        match &mut self.state {
            State::Plain(raw) => raw.consume(len),
            _ => self.start = self.end.min(self.start + len),
        }
    }
}

impl<R: BufRead + Seek> Source<R> {
    /// Stands at `offset`, between two frames.
    pub(crate) fn seek(&mut self, offset: u64) -> io::Result<()> {
        self.leave();
        if let State::Plain(raw) = &mut self.state {
            raw.input.seek(SeekFrom::Start(offset))?;
            raw.offset = offset;
        }
        Ok(())
    }
}

struct Counted<R> {
    input: R,
    offset: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(out)?;
        self.offset += read as u64;
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, len: usize) {
        self.offset += len as u64;
        self.input.consume(len);
    }
}
