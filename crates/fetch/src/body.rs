//! What is in a body, once its framing and compression are off?
//!
//! A body that came whole and plain is a slice of the wire, without a copy. Chunks are joined,
//! compression is undone up to the limit for reading and no further, in short steps between
//! which other visits get their turn: the longest step costs well under a millisecond. At most
//! as many bodies are decoded at once as there are processors, so the windows of decoders, up to
//! 16 MiB each, cannot add up.
//!
//! Always: memory for the result is taken from the budget before it is filled.
//!
//! Not here: how much of the wire was kept (`exchange`).

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::budget::Hold;
use crate::coding::{CODINGS_MAX, Coding, Decoding, State};

/// Most bytes in and out of one step of decoding: some 200 µs of work.
const STEP_BYTES: usize = 64 << 10;
/// A small body may blow up as much as it likes: below this no ratio counts.
const RATIO_FREE_BYTES: usize = 256 << 10;
/// How long a finished body waits for the memory to be decoded into before it is cut.
const MEMORY_WAIT: Duration = Duration::from_secs(20);

/// The rules for reading bodies.
#[derive(Debug)]
pub(crate) struct BodyReader {
    ratio_max: usize,
    /// Bodies that may be decoded at once.
    slots: Semaphore,
}

/// A body on the wire, and what it is.
pub(crate) struct Coded<'a> {
    pub(crate) wire: &'a Bytes,
    /// Where the body starts in `wire`.
    pub(crate) start: usize,
    pub(crate) chunked: bool,
    pub(crate) headers: &'a [(Box<str>, Box<[u8]>)],
    /// How much of it is wanted.
    pub(crate) limit: usize,
}

/// A body to read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plain {
    pub(crate) body: Bytes,
    /// It is not the whole.
    pub(crate) cut: bool,
}

impl BodyReader {
    pub(crate) fn new(ratio_max: u32) -> Self {
        let slots = std::thread::available_parallelism().map_or(2, usize::from);
        Self { ratio_max: ratio_max.max(1) as usize, slots: Semaphore::new(slots) }
    }

    /// Takes framing and compression off. The memory goes on `hold`, beside that of the wire.
    pub(crate) async fn read(&self, coded: &Coded<'_>, hold: &mut Hold) -> Plain {
        let Some(codings) = codings(coded.headers) else {
            // More than anyone needs: we do not look inside.
            return Plain { body: Bytes::new(), cut: coded.start < coded.wire.len() };
        };
        if codings.is_empty() && !coded.chunked {
            return slice(coded.wire, coded.start..coded.wire.len(), coded.limit);
        }
        let (pieces, framed) = match coded.chunked {
            true => chunks(coded.wire, coded.start),
            false => (std::iter::once(coded.start..coded.wire.len()).collect(), true),
        };
        let mut payload = Payload::new(coded.wire, pieces);
        let start = payload.start();
        let plain = match codings.last() {
            Some(outer) if outer.fits(&start) && payload.len > 0 => {
                self.decode(&codings, &start, payload, coded.limit, hold).await
            }
            _ => join(&mut payload, coded.limit, hold).await,
        };
        Plain { cut: plain.cut || !framed, ..plain }
    }

    async fn decode(
        &self,
        codings: &[Coding],
        start: &[u8],
        mut payload: Payload<'_>,
        limit: usize,
        hold: &mut Hold,
    ) -> Plain {
        let _slot = self.slots.acquire().await.expect("the semaphore is never closed");
        let limit = limit.min(RATIO_FREE_BYTES.max(payload.len.saturating_mul(self.ratio_max)));
        let base = hold.bytes();
        let mut decoding = Decoding::new(codings, start);
        let mut out = Vec::new();
        let mut filled = 0;
        let cut = loop {
            if filled == out.len() {
                if filled == limit {
                    // Full: is there more? One byte tells.
                    break !ends_here(&mut decoding, &mut payload);
                }
                // Text grows some fivefold; after that, by doubling.
                let want = (payload.len * 5).max(filled * 2).max(STEP_BYTES).min(limit);
                if !hold.grow_to(base + want, Instant::now() + MEMORY_WAIT).await {
                    break true;
                }
                out.reserve_exact(want - filled);
                out.resize(want, 0);
            }
            let window = filled..out.len().min(filled + STEP_BYTES);
            let step = decoding.step(payload.peek(STEP_BYTES), &mut out[window]);
            payload.advance(step.read);
            filled += step.written;
            let still = step.read == 0 && step.written == 0;
            match step.state {
                State::Done => break false,
                State::Broken => break true,
                State::Pause if still => break false,
                State::More if still => break true,
                State::Pause | State::More => tokio::task::yield_now().await,
            }
        };
        out.truncate(filled);
        if out.capacity() > 2 * filled {
            out.shrink_to_fit();
        }
        hold.shrink_to(base + out.capacity());
        Plain { body: Bytes::from(out), cut }
    }
}

/// Whether the decoded stream has nothing more to give.
fn ends_here(decoding: &mut Decoding, payload: &mut Payload<'_>) -> bool {
    loop {
        let step = decoding.step(payload.peek(STEP_BYTES), &mut [0]);
        payload.advance(step.read);
        match step.state {
            _ if step.written > 0 => return false,
            State::Done => return true,
            State::Broken => return false,
            state if step.read == 0 => return state == State::Pause,
            _ => {}
        }
    }
}

/// A body without compression: a slice where it lies in one piece, else a copy.
async fn join(payload: &mut Payload<'_>, limit: usize, hold: &mut Hold) -> Plain {
    if let [piece] = &*payload.pieces {
        return slice(payload.wire, piece.clone(), limit);
    }
    let cut = payload.len > limit;
    let len = payload.len.min(limit);
    if !hold.grow_to(hold.bytes() + len, Instant::now() + MEMORY_WAIT).await {
        return Plain { body: Bytes::new(), cut: len > 0 };
    }
    let mut body = Vec::with_capacity(len);
    while body.len() < len {
        let part = payload.peek(len - body.len());
        body.extend_from_slice(part);
        let part = part.len();
        payload.advance(part);
    }
    Plain { body: Bytes::from(body), cut }
}

fn slice(wire: &Bytes, piece: Range<usize>, limit: usize) -> Plain {
    let len = piece.len().min(limit);
    Plain { body: wire.slice(piece.start..piece.start + len), cut: piece.len() > limit }
}

/// The codings of a body in the order in which they were applied; none if there are too many.
fn codings(headers: &[(Box<str>, Box<[u8]>)]) -> Option<Vec<Coding>> {
    let values = headers.iter().filter(|(name, _)| &**name == "content-encoding");
    let tokens = values.flat_map(|(_, value)| value.split(|&byte| byte == b','));
    let codings: Vec<_> = tokens.filter_map(Coding::of).collect();
    (codings.len() <= CODINGS_MAX).then_some(codings)
}

/// The bytes of a body that lie in pieces on the wire.
struct Payload<'a> {
    wire: &'a Bytes,
    pieces: Vec<Range<usize>>,
    len: usize,
    /// The piece that is being read, and how far.
    at: usize,
    offset: usize,
}

impl<'a> Payload<'a> {
    fn new(wire: &'a Bytes, mut pieces: Vec<Range<usize>>) -> Self {
        pieces.retain(|piece| !piece.is_empty());
        let len = pieces.iter().map(Range::len).sum();
        Self { wire, pieces, len, at: 0, offset: 0 }
    }

    /// The first bytes, in how many pieces they may lie.
    fn start(&self) -> Vec<u8> {
        let bytes = self.pieces.iter().flat_map(|piece| &self.wire[piece.clone()]);
        bytes.take(4).copied().collect()
    }

    /// Up to `max` bytes that come next in one piece; none at the end.
    fn peek(&self, max: usize) -> &'a [u8] {
        match self.pieces.get(self.at) {
            None => &[],
            Some(piece) => {
                let rest = &self.wire[piece.start + self.offset..piece.end];
                &rest[..rest.len().min(max)]
            }
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.offset += bytes;
        if self.pieces.get(self.at).is_some_and(|piece| self.offset == piece.len()) {
            self.at += 1;
            self.offset = 0;
        }
    }
}

/// Where the data of the chunked body from `at` on lies, and whether its last chunk came. hyper has checked the
/// framing as far as it got, so a size that cannot be read is where the record was cut.
fn chunks(body: &[u8], mut at: usize) -> (Vec<Range<usize>>, bool) {
    let mut pieces = Vec::new();
    loop {
        let Some(line) = body[at..].iter().position(|&byte| byte == b'\n') else {
            return (pieces, false);
        };
        let Some(size) = chunk_size(&body[at..at + line]) else { return (pieces, false) };
        if size == 0 {
            return (pieces, true);
        }
        let start = at + line + 1;
        let end = start.saturating_add(size);
        if end > body.len() {
            pieces.push(start..body.len());
            return (pieces, false);
        }
        pieces.push(start..end);
        // The line end behind the data.
        at = match body[end..] {
            [b'\r', b'\n', ..] => end + 2,
            [b'\n', ..] => end + 1,
            _ => return (pieces, false),
        };
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
    use std::io::Write;
    use std::sync::Arc;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;
    use crate::budget::Budget;

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn chunked(body: &[u8], size: usize) -> Vec<u8> {
        let mut wire = Vec::new();
        for chunk in body.chunks(size) {
            wire.extend(format!("{:x};ext=\"1\"\r\n", chunk.len()).bytes());
            wire.extend(chunk);
            wire.extend(b"\r\n");
        }
        wire.extend(b"0\r\nTrailer: x\r\n\r\n");
        wire
    }

    struct Case {
        body: Vec<u8>,
        chunked: bool,
        encoding: &'static str,
        limit: usize,
        memory: usize,
    }

    impl Case {
        fn new(body: impl Into<Vec<u8>>) -> Self {
            Self {
                body: body.into(),
                chunked: false,
                encoding: "",
                limit: 2 << 20,
                memory: 64 << 20,
            }
        }

        fn read(&self) -> (Plain, usize) {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(async {
                let budget = Arc::new(Budget::new(self.memory));
                let mut hold = budget.hold(1024).await;
                let wire = Bytes::from([b"HEAD", &*self.body].concat());
                let headers = [("content-encoding".into(), self.encoding.as_bytes().into())];
                let coded = Coded {
                    wire: &wire,
                    start: 4,
                    chunked: self.chunked,
                    headers: &headers,
                    limit: self.limit,
                };
                let plain = BodyReader::new(200).read(&coded, &mut hold).await;
                (plain, hold.bytes() - 1024)
            })
        }
    }

    #[test]
    fn a_plain_body_is_a_slice_and_costs_nothing() {
        let (plain, held) = Case::new("wolf spider").read();
        assert_eq!((&*plain.body, plain.cut, held), (&b"wolf spider"[..], false, 0));
        let (plain, held) = Case { limit: 4, ..Case::new("wolf spider") }.read();
        assert_eq!((&*plain.body, plain.cut, held), (&b"wolf"[..], true, 0));
        let one = chunked(b"wolf spider", 100);
        let (plain, held) = Case { chunked: true, ..Case::new(one) }.read();
        assert_eq!((&*plain.body, plain.cut, held), (&b"wolf spider"[..], false, 0));
    }

    #[test]
    fn chunks_are_joined_and_a_missing_end_shows() {
        let wire = chunked(b"wolf spider", 3);
        let (plain, _) = Case { chunked: true, ..Case::new(&*wire) }.read();
        assert_eq!((&*plain.body, plain.cut), (&b"wolf spider"[..], false));
        let (plain, _) = Case { chunked: true, limit: 5, ..Case::new(&*wire) }.read();
        assert_eq!((&*plain.body, plain.cut), (&b"wolf "[..], true));
        let (plain, _) = Case { chunked: true, ..Case::new(&wire[..28]) }.read();
        assert_eq!((&*plain.body, plain.cut), (&b"wolf"[..], true));
    }

    #[test]
    fn compression_comes_off_in_chunks_or_not() {
        let text = b"wolf spider ".repeat(1000);
        let coded = gzip(&text);
        for wire in [coded.clone(), chunked(&coded, 1), chunked(&coded, 50)] {
            let chunked = wire != coded;
            let (plain, _) = Case { chunked, encoding: "gzip", ..Case::new(wire) }.read();
            assert!(plain.body == text && !plain.cut);
        }
        let (plain, _) = Case { encoding: "gzip", ..Case::new(&coded[..coded.len() / 2]) }.read();
        assert!(plain.cut && text.starts_with(&plain.body) && !plain.body.is_empty());
    }

    #[test]
    fn the_limit_is_exact_and_an_exact_fit_is_not_a_cut() {
        let text = b"wolf spider ".repeat(1000);
        let case = Case { encoding: "gzip", ..Case::new(gzip(&text)) };
        let (plain, _) = Case { limit: text.len(), ..case }.read();
        assert!(plain.body == text && !plain.cut);
        let case = Case { encoding: "gzip", ..Case::new(gzip(&text)) };
        let (plain, _) = Case { limit: text.len() - 1, ..case }.read();
        assert!(plain.body == text[..text.len() - 1] && plain.cut);
    }

    #[test]
    fn a_bomb_is_worth_no_more_than_its_ratio_and_the_limit() {
        // 64 MiB of nothing in 64 KiB: a thousandfold. Twice: a millionfold.
        let once = gzip(&vec![0; 64 << 20]);
        let (plain, held) = Case { encoding: "gzip", ..Case::new(&*once) }.read();
        assert!(plain.cut && plain.body.len() == 2 << 20 && held <= (2 << 20) + 1024);
        let (plain, held) = Case { encoding: "gzip", limit: 60 << 20, ..Case::new(&*once) }.read();
        assert!(plain.cut && plain.body.len() == once.len() * 200, "{}", plain.body.len());
        assert!(held <= once.len() * 200 + 1024);
        let twice = gzip(&once);
        let (plain, _) = Case { encoding: "gzip, gzip", ..Case::new(&*twice) }.read();
        assert!(plain.cut && plain.body.len() == RATIO_FREE_BYTES, "{}", plain.body.len());
        let zstd = zstd::encode_all(&*vec![0; 64 << 20], 3).unwrap();
        let (plain, _) = Case { encoding: "zstd", ..Case::new(zstd) }.read();
        assert!(plain.cut && plain.body.len() <= 2 << 20);
        let brotli = include_bytes!("../tests/fixtures/zeros-64mib.br");
        let (plain, _) = Case { encoding: "br", ..Case::new(*brotli) }.read();
        assert!(plain.cut && plain.body.len() == RATIO_FREE_BYTES, "{}", plain.body.len());
    }

    #[test]
    fn what_is_not_what_it_says_is_read_as_it_is() {
        for encoding in ["gzip", "zstd", "utf-8", "identity", ""] {
            let (plain, _) = Case { encoding, ..Case::new("<html>") }.read();
            assert_eq!((&*plain.body, plain.cut), (&b"<html>"[..], false), "{encoding}");
        }
        let (plain, _) = Case { encoding: "gzip", ..Case::new("") }.read();
        assert_eq!((&*plain.body, plain.cut), (&b""[..], false));
        let (plain, _) = Case { encoding: "gzip, gzip, gzip", ..Case::new("x") }.read();
        assert_eq!((&*plain.body, plain.cut), (&b""[..], true));
    }

    #[test]
    fn without_memory_a_body_is_cut_and_nothing_is_stuck() {
        let text = b"wolf spider ".repeat(100_000);
        let case = Case { encoding: "gzip", memory: 128 << 10, ..Case::new(gzip(&text)) };
        let (plain, held) = case.read();
        assert!(plain.cut && text.starts_with(&plain.body));
        assert!(held <= 128 << 10);
    }

    proptest! {
        #[test]
        fn chunks_never_point_outside(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let (pieces, _) = chunks(&body, 0);
            let mut last = 0;
            for piece in pieces {
                prop_assert!(last <= piece.start && piece.end <= body.len());
                last = piece.end;
            }
        }

        #[test]
        fn chunked_bodies_come_back(
            body in proptest::collection::vec(any::<u8>(), 1..500),
            size in 1usize..100,
        ) {
            let wire = chunked(&body, size);
            let (pieces, whole) = chunks(&wire, 0);
            prop_assert!(whole);
            let joined: Vec<u8> = pieces.into_iter().flat_map(|p| wire[p].to_vec()).collect();
            prop_assert_eq!(joined, body);
        }
    }
}
