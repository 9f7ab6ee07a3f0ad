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
//! Not here: how much of the wire was kept (`exchange`), where its bytes lie (`framing`), how a
//! coding is undone (`coding`).

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::budget::{Hold, UNSEATED_BYTES_MAX};
use crate::coding::{CODINGS_MAX, Coding, Decoding, State};
use crate::framing::{Payload, Shape};

/// Most bytes in and out of one step of decoding: some 200 µs of work.
pub(crate) const STEP_BYTES: usize = 64 << 10;
/// Steps before others have their turn: a body in tiny chunks makes tiny steps.
const STEPS_MAX: usize = 256;
/// Least memory that a body is decoded into.
const FIRST_BYTES: usize = 16 << 10;
/// A small body may blow up as much as it likes: below this no ratio counts.
pub(crate) const RATIO_FREE_BYTES: usize = 256 << 10;
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
    /// There is more of it, out of our reach.
    pub(crate) goes_on: bool,
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
            let plain = slice(coded.wire, coded.start..coded.wire.len(), coded.limit);
            return Plain { cut: plain.cut || coded.goes_on, ..plain };
        }
        let payload = Payload::new(coded.wire, coded.start, coded.chunked);
        let (shape, start) = (payload.shape(), payload.start());
        let plain = match codings.last() {
            Some(outer) if outer.fits(&start) && shape.len > 0 => {
                // How large it is shows only when it is decoded. Whoever holds a slot must not wait
                // for a seat, so the few that need one are begun anew with it.
                let (unseated, base) = (coded.limit.min(UNSEATED_BYTES_MAX), hold.bytes());
                let plain = self.decode(&codings, payload.clone(), &shape, unseated, hold).await;
                match plain.body.len() == unseated && plain.cut && unseated < coded.limit {
                    true => {
                        drop(plain);
                        hold.shrink_to(base);
                        hold.take_seat().await;
                        self.decode(&codings, payload, &shape, coded.limit, hold).await
                    }
                    false => plain,
                }
            }
            _ if shape.one_piece => slice(coded.wire, payload.piece(), coded.limit),
            _ => join(payload, &shape, coded.limit, hold).await,
        };
        Plain { cut: plain.cut || !shape.whole, ..plain }
    }

    async fn decode(
        &self,
        codings: &[Coding],
        mut payload: Payload<'_>,
        shape: &Shape,
        limit: usize,
        hold: &mut Hold,
    ) -> Plain {
        let limit = limit.min(RATIO_FREE_BYTES.max(shape.len.saturating_mul(self.ratio_max)));
        // Text grows some fivefold; one step's worth is not worth being exact about.
        let first = shape.len.saturating_mul(6).max(FIRST_BYTES).min(limit);
        let base = hold.bytes();
        if !hold.grow_to(base + first, Instant::now() + MEMORY_WAIT).await {
            return Plain { body: Bytes::new(), cut: true };
        }
        // From here on nothing is waited for but our turn: who holds a slot always comes to an
        // end, and the windows of decoders that wait do not add up.
        let slot = self.slots.acquire().await.expect("the semaphore is never closed");
        let mut decoding = Decoding::new(codings, &payload.start(), limit);
        let mut out = vec![0; first];
        let mut filled = 0;
        let mut turn = Turn::default();
        let cut = loop {
            if filled == out.len() {
                if filled == limit {
                    break !ends_here(&mut decoding, &mut payload);
                }
                let want = filled.saturating_mul(2).max(FIRST_BYTES).min(limit);
                if !hold.try_grow_to(base + want) {
                    break true;
                }
                out.reserve_exact(want - filled);
                out.resize(want, 0);
            }
            let window = filled..out.len().min(filled + STEP_BYTES);
            let step = decoding.step(payload.peek(STEP_BYTES), &mut out[window]);
            payload.advance(step.read);
            filled += step.written;
            match (step.state, step.bytes()) {
                (State::Done, _) | (State::Pause, 0) => break false,
                (State::Broken, _) | (State::More, 0) => break true,
                (State::Pause | State::More, bytes) => turn.spend(bytes).await,
            }
        };
        drop(slot);
        out.truncate(filled);
        if out.capacity() > 2 * filled {
            out.shrink_to_fit();
        }
        hold.shrink_to(base + out.capacity());
        Plain { body: Bytes::from(out), cut }
    }
}

/// Our turn on the processor, which ends after so much work.
#[derive(Default)]
struct Turn {
    bytes: usize,
    steps: usize,
}

impl Turn {
    async fn spend(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.steps += 1;
        if self.bytes >= 2 * STEP_BYTES || self.steps >= STEPS_MAX {
            *self = Self::default();
            tokio::task::yield_now().await;
        }
    }
}

/// Whether a decoded stream that filled its room has nothing more to give: one byte more tells.
pub(crate) fn ends_here(decoding: &mut Decoding, payload: &mut Payload<'_>) -> bool {
    // An end that needs more steps than this is as good as none.
    for _ in 0..STEPS_MAX {
        let step = decoding.step(payload.peek(STEP_BYTES), &mut [0]);
        payload.advance(step.read);
        match (step.state, step.read + step.between) {
            _ if step.written > 0 => return false,
            (State::Done, _) | (State::Pause, 0) => return true,
            (State::Broken, _) | (State::More, 0) => return false,
            (State::Pause | State::More, _) => {}
        }
    }
    false
}

/// A body without compression that lies in pieces.
async fn join(mut payload: Payload<'_>, shape: &Shape, limit: usize, hold: &mut Hold) -> Plain {
    let len = shape.len.min(limit);
    if len > UNSEATED_BYTES_MAX {
        hold.take_seat().await;
    }
    if !hold.grow_to(hold.bytes() + len, Instant::now() + MEMORY_WAIT).await {
        return Plain { body: Bytes::new(), cut: true };
    }
    let mut body = Vec::with_capacity(len);
    while body.len() < len {
        let part = payload.peek(len - body.len());
        body.extend_from_slice(part);
        payload.advance(part.len());
    }
    Plain { body: Bytes::from(body), cut: shape.len > limit }
}

fn slice(wire: &Bytes, piece: Range<usize>, limit: usize) -> Plain {
    let len = piece.len().min(limit);
    Plain { body: wire.slice(piece.start..piece.start + len), cut: piece.len() > limit }
}

/// The codings of a body in the order in which they were applied; none if there are too many.
fn codings(headers: &[(Box<str>, Box<[u8]>)]) -> Option<Vec<Coding>> {
    let values = headers.iter().filter(|(name, _)| &**name == "content-encoding");
    codings_of(values.map(|(_, value)| &**value))
}

/// The same, from the values of all fields.
pub(crate) fn codings_of<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<Vec<Coding>> {
    let tokens = values.flat_map(|value| value.split(|&byte| byte == b','));
    let codings: Vec<_> = tokens.filter_map(Coding::of).collect();
    (codings.len() <= CODINGS_MAX).then_some(codings)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use flate2::Compression;
    use flate2::write::GzEncoder;

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
                    goes_on: false,
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
    fn a_bomb_between_two_codings_is_worth_no_more_than_the_body() {
        // 64 MiB of empty zstd frames to be skipped, in a few hundred bytes of brotli or gzip.
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 0xf8, 0xff, 0, 0];
        let frames: Vec<u8> = std::iter::repeat_n(&skipped, 1 << 10)
            .flat_map(|head| head.iter().copied().chain(std::iter::repeat_n(0, 0xfff8)))
            .collect();
        let (plain, _) = Case { encoding: "zstd, gzip", ..Case::new(gzip(&frames)) }.read();
        assert_eq!((&*plain.body, plain.cut), (&b""[..], true));
        // A few of them before a body are nothing to be afraid of.
        let text = b"wolf spider ".repeat(1000);
        let mut honest = frames[..3 << 16].to_vec();
        honest.extend(zstd::encode_all(&*text, 3).unwrap());
        let (plain, _) = Case { encoding: "zstd, gzip", ..Case::new(gzip(&honest)) }.read();
        assert!(plain.body == text && !plain.cut);
        let tiny: Vec<u8> = [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0].repeat(8 << 10);
        let honest = [tiny, zstd::encode_all(&*text, 3).unwrap()].concat();
        let (plain, _) = Case { encoding: "zstd, gzip", ..Case::new(gzip(&honest)) }.read();
        assert!(plain.body == text && !plain.cut);
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
}
