//! Where in a block does the HTTP head end, and what does it say?
//!
//! Answered the way line-oriented archive tools (warcio and all that stand on it) answer it: the
//! head goes up to the first line without visible characters. For a proper message that is the
//! empty line of HTTP; for a body that came without a head it may be anywhere, and we must know
//! where *they* will find it, because they digest what follows.
//!
//! Not here: HTTP. Messages are parsed to be acted upon in `fetch`; here they are only kept.

use std::borrow::Cow;

/// Longest head that is read for its fields; no honest server sends more than 100 KB of them.
pub(crate) const HEAD_BYTES_MAX: usize = 1 << 20;

/// Finds the end of a head in bytes that come in pieces.
#[derive(Debug, Default)]
pub(crate) struct HeadScanner {
    line_has_text: bool,
}

impl HeadScanner {
    /// The number of bytes of this piece that belong to the head, if it ends here.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Option<usize> {
        for (at, &byte) in piece.iter().enumerate() {
            if byte == b'\n' {
                if !self.line_has_text {
                    return Some(at + 1);
                }
                self.line_has_text = false;
            } else if !is_blank(byte) {
                self.line_has_text = true;
            }
        }
        None
    }
}

/// Length of the head in a block that comes in slices, if a blank line ends it. Lines end in CRLF,
/// or in LF alone: servers send both.
#[must_use]
pub fn head_len(slices: &[&[u8]]) -> Option<usize> {
    let mut scanner = HeadScanner::default();
    let mut before = 0;
    for slice in slices {
        if let Some(in_slice) = scanner.push(slice) {
            return Some(before + in_slice);
        }
        before += slice.len();
    }
    None
}

/// What an index wants to know of a message head, read without judging it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpHead {
    first_line: String,
    fields: Vec<(String, String)>,
}

impl HttpHead {
    /// Reads the head; `None` when it says nothing: no second word in the first line, no field.
    #[must_use]
    pub fn parse(head: &[u8]) -> Option<Self> {
        let mut lines = head.split(|&byte| byte == b'\n').map(decode);
        let first_line = lines.next().filter(|line| !line.is_empty())?;
        let mut fields: Vec<(String, String)> = Vec::new();
        // A line that is no field takes its continuation lines with it; the first continues none.
        let mut in_field = false;
        for (at, line) in lines.take_while(|line| !line.is_empty()).enumerate() {
            if at > 0 && line.starts_with([' ', '\t']) {
                if let Some((_, value)) = fields.last_mut().filter(|_| in_field) {
                    value.push_str(&line);
                }
                continue;
            }
            in_field = line.contains(':');
            if let Some((name, value)) = line.split_once(':') {
                let name = name.trim_end_matches([' ', '\t']);
                fields.push((name.to_owned(), value.trim_start_matches(is_space).to_owned()));
            }
        }
        let head = Self { first_line, fields };
        let silent = head.status().is_empty() && head.fields.is_empty();
        (!silent).then_some(head)
    }

    /// Reads the head of a block that comes in slices.
    pub(crate) fn of_block(slices: &[&[u8]], head_len: usize) -> Option<Self> {
        let first = slices.first()?;
        if head_len <= first.len() {
            return Self::parse(&first[..head_len]);
        }
        // Only an answer without a head gets here, and then all of it may look like one.
        let mut head = Vec::new();
        for slice in slices {
            let room = head_len.min(HEAD_BYTES_MAX) - head.len();
            head.extend_from_slice(&slice[..room.min(slice.len())]);
        }
        Self::parse(&head)
    }

    /// The second word of the first line: `200`; empty if there is none.
    #[must_use]
    pub fn status(&self) -> &str {
        let rest =
            self.first_line.split_once(' ').map_or("", |(_, rest)| rest.trim_matches(is_space));
        rest.split(' ').next().unwrap_or("")
    }

    /// The first value of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// All fields, in order, as they are written.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Content-Type without its parameters.
    #[must_use]
    pub fn mime(&self) -> Option<&str> {
        let value = self.get("content-type")?;
        Some(value.split(|char: char| char == ';' || is_space(char)).next().unwrap_or(value))
    }

    /// How the body was wrapped for the way.
    pub(crate) fn transfer_coding(&self) -> TransferCoding {
        match self.get("transfer-encoding").map(|value| value.trim().to_ascii_lowercase()) {
            None => TransferCoding::None,
            Some(coding) if coding.is_empty() || coding == "identity" => TransferCoding::None,
            Some(coding) if coding == "chunked" => TransferCoding::Chunked,
            Some(_) => TransferCoding::Other,
        }
    }
}

/// Whether the stored body is the entity-body, or the entity-body in a wrapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransferCoding {
    None,
    Chunked,
    /// A coding, or a chain of them, that we do not undo.
    Other,
}

fn decode(line: &[u8]) -> String {
    let text = match std::str::from_utf8(line) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => line.iter().map(|&byte| char::from(byte)).collect::<String>().into(),
    };
    text.trim_end_matches(is_space).to_owned()
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii() && is_space(char::from(byte))
}

/// What Python takes for white space: the four separators of ASCII as well.
fn is_space(char: char) -> bool {
    char.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&char)
}

/// Takes the chunk framing off a body that comes in pieces.
#[derive(Debug, Default)]
pub struct Dechunker {
    state: Chunk,
    /// Bytes of the current chunk still to come.
    left: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    #[default]
    Size,
    SizeDigits,
    Extension,
    Data,
    DataEnd,
    /// After the last chunk: trailer fields may follow, and are no part of the body.
    Done,
    Broken,
}

/// No server sends such a chunk; a longer number is no chunk size.
const CHUNK_BYTES_MAX: u64 = 1 << 40;

impl Dechunker {
    /// Gives the body bytes of this piece to `sink`.
    pub fn push(&mut self, mut piece: &[u8], mut sink: impl FnMut(&[u8])) {
        while let Some(&byte) = piece.first() {
            if self.state == Chunk::Data {
                let here = usize::try_from(self.left).map_or(piece.len(), |n| n.min(piece.len()));
                sink(&piece[..here]);
                piece = &piece[here..];
                self.left -= here as u64;
                if self.left == 0 {
                    self.state = Chunk::DataEnd;
                }
                continue;
            }
            piece = &piece[1..];
            self.state = match (self.state, byte) {
                (Chunk::Size | Chunk::SizeDigits, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                    self.left =
                        self.left * 16 + u64::from(char::from(byte).to_digit(16).unwrap_or(0));
                    if self.left > CHUNK_BYTES_MAX { Chunk::Broken } else { Chunk::SizeDigits }
                }
                (Chunk::SizeDigits | Chunk::Extension, b'\n') if self.left == 0 => Chunk::Done,
                (Chunk::SizeDigits | Chunk::Extension, b'\n') => Chunk::Data,
                (Chunk::SizeDigits, b'\r' | b';' | b' ' | b'\t') => Chunk::Extension,
                (Chunk::Extension, _) => Chunk::Extension,
                (Chunk::DataEnd, b'\r') => Chunk::DataEnd,
                (Chunk::DataEnd, b'\n') => Chunk::Size,
                (Chunk::Done, _) => return,
                _ => Chunk::Broken,
            };
            if self.state == Chunk::Broken {
                return;
            }
        }
    }

    /// False once the bytes turned out not to be chunks. A body cut off in mid-chunk is sound.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.state != Chunk::Broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_with_its_first_blank_line() {
        for (block, len) in [
            (&b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody"[..], Some(25)),
            (b"HTTP/1.1 200 OK\nA: b\n\nbody", Some(22)),
            (b"HTTP/1.1 200 OK\r\n \t\r\nA: b\r\n\r\n", Some(21)),
            (b"\r\nHTTP/1.1 200 OK\r\n\r\n", Some(2)),
            (b"<p>no head\n\nat all", Some(12)),
            (b"<p>no head", None),
            (b"", None),
        ] {
            assert_eq!(head_len(&[block]), len);
            let pieces: Vec<&[u8]> = block.chunks(1).collect();
            assert_eq!(head_len(&pieces), len);
        }
    }

    #[test]
    fn an_index_reads_status_and_type() {
        let head = HttpHead::parse(
            b"HTTP/1.1 404 Not Found\r\ncontent-TYPE: text/html; charset=x\r\n\r\n",
        );
        let head = head.unwrap();
        assert_eq!((head.status(), head.mime()), ("404", Some("text/html")));
        let odd = HttpHead::parse(b"<p\nstyle='a:b'>").unwrap();
        assert_eq!((odd.status(), odd.mime()), ("", None));
        assert_eq!(HttpHead::parse(b"<html>hello</html>"), None);
        let latin = HttpHead::parse(b"HTTP/1.1 200\r\nX: \xe9\r\n folded\r\n").unwrap();
        assert_eq!(latin.get("x"), Some("é folded"));
        // As warcio: the first line continues none, and a line that is no field has no more lines.
        let folded =
            HttpHead::parse(b"HTTP/1.1 200\r\n a: 1\r\nnone\r\n b: 2\r\nc: 3\x1c\r\n").unwrap();
        let fields = folded.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        assert_eq!(fields.collect::<Vec<_>>(), [(" a", "1"), ("c", "3")]);
        assert_eq!(HttpHead::parse(b"\r\n"), None);
        assert_eq!(HttpHead::parse(b""), None);
    }

    #[test]
    fn transfer_codings_are_told_apart() {
        for (value, coding) in [
            ("chunked", TransferCoding::Chunked),
            (" Chunked ", TransferCoding::Chunked),
            ("identity", TransferCoding::None),
            ("", TransferCoding::None),
            ("gzip, chunked", TransferCoding::Other),
        ] {
            let head = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {value}\r\n\r\n");
            assert_eq!(HttpHead::parse(head.as_bytes()).unwrap().transfer_coding(), coding);
        }
    }

    fn dechunk(body: &[u8], pieces: usize) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut dechunker = Dechunker::default();
        for piece in body.chunks(pieces) {
            dechunker.push(piece, |bytes| out.extend_from_slice(bytes));
        }
        dechunker.is_sound().then_some(out)
    }

    #[test]
    fn chunks_are_joined_however_they_arrive() {
        for (body, joined) in [
            (&b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nTrailer: x\r\n\r\n"[..], Some("hello world")),
            (b"00A\r\n0123456789\r\n0\r\n\r\n", Some("0123456789")),
            (b"5\nhello\n0\n\n", Some("hello")),
            (b"5\r\nhel", Some("hel")),
            (b"0\r\n\r\n", Some("")),
            (b"", Some("")),
            (b"<p>not chunked", None),
            (b"5\r\nhelloX", None),
            (b"fffffffffffffffffffff\r\n", None),
        ] {
            for pieces in [1, 2, 3, 100] {
                assert_eq!(dechunk(body, pieces), joined.map(|text| text.as_bytes().to_vec()));
            }
        }
    }
}
