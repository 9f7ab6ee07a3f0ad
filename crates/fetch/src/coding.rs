//! How does a compressed body become plain again, a bounded step at a time?
//!
//! gzip, deflate (with or without the zlib wrapper), brotli and zstd, and two of them one inside
//! the other. A step takes a bounded amount of input and fills a bounded buffer, so that the
//! caller decides how far to go: a bomb is worth no more than what was asked of it.
//!
//! Always: what was decoded before a break is kept.
//!
//! Not here: how much is asked for, and when to stop (`body`).

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

/// A content coding that we undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// Encodings one inside the other; more have no honest use.
pub(crate) const CODINGS_MAX: usize = 2;
/// Members of one gzip body. Each costs a fresh decoder, however short it is.
const GZIP_MEMBERS_MAX: usize = 64;
/// RFC 9659: a window of 8 MiB is the most that `zstd` as a content coding may ask for.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// Room between two nested codings.
const BETWEEN_BYTES: usize = 32 << 10;
/// An inner coding can swallow a lot, in many pieces, and write nothing: so much in one step.
const SWALLOW_BYTES_MAX: usize = 64 << 10;
const SWALLOWS_MAX: usize = 64;
/// What may lie between two codings beyond what is wanted of the body: honest bodies are smaller
/// when they are compressed.
const BETWEEN_SLACK: usize = 256 << 10;

impl Coding {
    /// The token of a `Content-Encoding` field; none for those that change nothing, and for
    /// those that nobody knows, which in practice (`utf-8`, `none`) change nothing either.
    pub(crate) fn of(token: &[u8]) -> Option<Self> {
        let token = token.trim_ascii();
        let is = |name: &str| token.eq_ignore_ascii_case(name.as_bytes());
        match () {
            () if is("gzip") || is("x-gzip") => Some(Self::Gzip),
            () if is("deflate") => Some(Self::Deflate),
            () if is("br") => Some(Self::Brotli),
            () if is("zstd") => Some(Self::Zstd),
            () => None,
        }
    }

    /// Whether a body that starts like this can be in this coding at all. Plain bodies labelled
    /// as compressed are common; those are read as they are.
    pub(crate) fn fits(self, start: &[u8]) -> bool {
        match self {
            Self::Gzip => start.starts_with(&[0x1f, 0x8b]),
            // A frame, or a skippable one before it.
            Self::Zstd => {
                start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
                    || matches!(start, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
            }
            Self::Deflate | Self::Brotli => true,
        }
    }
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) read: usize,
    pub(crate) written: usize,
    /// Bytes that an inner coding took from the outer one: work that need not show in what was
    /// read or written.
    pub(crate) between: usize,
    pub(crate) state: State,
}

impl Step {
    const fn new(read: usize, written: usize, state: State) -> Self {
        Self { read, written, between: 0, state }
    }

    const fn still(state: State) -> Self {
        Self::new(0, 0, state)
    }

    /// All the work of it.
    pub(crate) const fn bytes(&self) -> usize {
        self.read + self.written + self.between
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// In the middle: give more input, or more room.
    More,
    /// A good place to end, though more may follow (another gzip member).
    Pause,
    /// The end; input that is left means nothing.
    Done,
    /// What follows cannot be decoded.
    Broken,
}

/// Undoes one or two codings.
pub(crate) struct Decoding {
    /// The coding that was applied last, which is undone first.
    outer: Codec,
    inner: Option<Inner>,
}

impl Decoding {
    /// `codings` in the order in which they were applied, one or two of them; `start` is how the
    /// body begins, `wanted` how much of it is asked for at most.
    pub(crate) fn new(codings: &[Coding], start: &[u8], wanted: usize) -> Self {
        let (outer, inner) = codings.split_last().expect("at least one coding");
        debug_assert!(inner.len() < CODINGS_MAX, "the caller counts");
        let mut outer = Codec::new(*outer);
        outer.look_at(start);
        Self { outer, inner: inner.first().map(|&coding| Inner::new(coding, wanted)) }
    }

    /// Decodes from `input`, all that is to be had just now, into `output`.
    pub(crate) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        match &mut self.inner {
            None => self.outer.step(input, output),
            Some(inner) => inner.step(&mut self.outer, input, output),
        }
    }
}

/// The second coding of two, fed from the first.
struct Inner {
    codec: Codec,
    between: Vec<u8>,
    taken: usize,
    outer_state: State,
    /// Bytes that may still come between the two.
    left: usize,
}

impl Inner {
    fn new(coding: Coding, wanted: usize) -> Self {
        Self {
            codec: Codec::new(coding),
            between: Vec::new(),
            taken: 0,
            outer_state: State::More,
            left: wanted.saturating_add(BETWEEN_SLACK),
        }
    }

    /// Goes on until something was written, the input is used up, it is enough, or it is over.
    fn step(&mut self, outer: &mut Codec, input: &[u8], output: &mut [u8]) -> Step {
        let mut read = 0;
        let mut between = 0;
        for _ in 0..SWALLOWS_MAX {
            if between >= SWALLOW_BYTES_MAX {
                break;
            }
            if self.left == 0 {
                return Step::new(read, 0, State::Broken);
            }
            if self.taken == self.between.len() && !self.refill(outer, &input[read..], &mut read) {
                let step = self.codec.step(&[], output);
                let outer_over = matches!(self.outer_state, State::Done | State::Broken);
                let state = match step.state {
                    State::Pause if outer_over && step.written == 0 => State::Done,
                    State::More if outer_over && step.written == 0 => State::Broken,
                    state => state,
                };
                return Step { between, ..Step::new(read, step.written, state) };
            }
            let step = self.codec.step(&self.between[self.taken..], output);
            self.taken += step.read;
            between += step.read;
            let stuck = step.read == 0 && step.written == 0;
            match step.state {
                State::More | State::Pause if stuck => return Step::still(State::Broken),
                State::More | State::Pause if step.written == 0 => {}
                state => return Step { between, ..Step::new(read, step.written, state) },
            }
        }
        Step { between, ..Step::new(read, 0, State::More) }
    }

    /// Decodes more of the outer coding; `false` if there is no more just now.
    fn refill(&mut self, outer: &mut Codec, input: &[u8], read: &mut usize) -> bool {
        if matches!(self.outer_state, State::Done | State::Broken) {
            return false;
        }
        self.between.resize(BETWEEN_BYTES, 0);
        let step = outer.step(input, &mut self.between);
        self.between.truncate(step.written);
        self.left = self.left.saturating_sub(step.written);
        self.taken = 0;
        self.outer_state = step.state;
        *read += step.read;
        self.codec.look_at(&self.between);
        step.written > 0 || (step.read > 0 && step.read < input.len())
    }
}

enum Codec {
    Inflate(Inflate),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    /// None if the library would not give us one.
    Zstd(Option<Decoder<'static>>, AtStart),
}

/// Whether the next byte starts a stream or frame that need not be there.
type AtStart = bool;

impl Codec {
    fn new(coding: Coding) -> Self {
        match coding {
            Coding::Gzip => Self::Inflate(Inflate::new(true)),
            Coding::Deflate => Self::Inflate(Inflate::new(false)),
            // Strict: without the windows of up to 1 GiB that the format has an extension for.
            Coding::Brotli => Self::Brotli(Box::new(BrotliState::new_strict(
                StandardAlloc::default(),
                StandardAlloc::default(),
                StandardAlloc::default(),
            ))),
            Coding::Zstd => Self::Zstd(zstd_decoder(), false),
        }
    }

    fn look_at(&mut self, start: &[u8]) {
        if let Self::Inflate(inflate) = self {
            inflate.look_at(start);
        }
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        match self {
            Self::Inflate(inflate) => inflate.step(input, output),
            Self::Brotli(state) => brotli_step(state, input, output),
            // The first byte of a frame, or of a skippable one.
            Self::Zstd(_, true) if !matches!(input, [0x28 | 0x50..=0x5f, ..]) => {
                Step::still(State::Done)
            }
            Self::Zstd(Some(decoder), at_start) => {
                let step = zstd_step(decoder, input, output);
                *at_start = step.state == State::Pause;
                step
            }
            Self::Zstd(None, _) => Step::still(State::Broken),
        }
    }
}

/// gzip, zlib or raw deflate.
struct Inflate {
    /// Which wrapper there is shows in the first bytes.
    codec: Option<Decompress>,
    gzip: bool,
    members: usize,
    at_start: AtStart,
}

impl Inflate {
    fn new(gzip: bool) -> Self {
        Self { codec: None, gzip, members: 0, at_start: false }
    }

    /// Chooses between zlib and raw deflate by the first bytes, as RFC 1950 lays them out:
    /// servers send both under the one name.
    fn look_at(&mut self, start: &[u8]) {
        if self.codec.is_some() {
            return;
        }
        self.codec = match (self.gzip, start) {
            (true, _) => Some(Decompress::new_gzip(15)),
            (false, []) => None,
            (false, &[a]) => Some(Decompress::new(a & 0x0f == 8)),
            (false, &[a, b, ..]) => {
                Some(Decompress::new(a & 0x0f == 8 && u16::from_be_bytes([a, b]) % 31 == 0))
            }
        };
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        if self.at_start {
            // Another member may follow; anything else behind the last means nothing, as for
            // gzip itself.
            if !matches!(input, [0x1f, ..]) || self.members >= GZIP_MEMBERS_MAX {
                return Step::still(State::Done);
            }
            self.codec = Some(Decompress::new_gzip(15));
            self.at_start = false;
        }
        let Some(codec) = &mut self.codec else { return Step::still(State::More) };
        let step = inflate_step(codec, input, output);
        if step.state == State::Done && self.gzip {
            self.members += 1;
            self.at_start = true;
            return Step { state: State::Pause, ..step };
        }
        step
    }
}

fn inflate_step(codec: &mut Decompress, input: &[u8], output: &mut [u8]) -> Step {
    let (total_in, total_out) = (codec.total_in(), codec.total_out());
    let result = codec.decompress(input, output, FlushDecompress::None);
    // Never more than the two slices are long.
    let read = (codec.total_in() - total_in) as usize;
    let written = (codec.total_out() - total_out) as usize;
    let state = match result {
        Ok(Status::StreamEnd) => State::Done,
        Ok(Status::Ok | Status::BufError) => State::More,
        Err(_) => State::Broken,
    };
    Step::new(read, written, state)
}

fn brotli_step(
    state: &mut BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    input: &[u8],
    output: &mut [u8],
) -> Step {
    let (mut input_left, mut output_left) = (input.len(), output.len());
    let (mut read, mut written, mut total) = (0, 0, 0);
    let result = BrotliDecompressStream(
        &mut input_left,
        &mut read,
        input,
        &mut output_left,
        &mut written,
        output,
        &mut total,
        state,
    );
    let state = match result {
        BrotliResult::ResultSuccess => State::Done,
        BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => State::More,
        BrotliResult::ResultFailure => State::Broken,
    };
    Step::new(read, written, state)
}

fn zstd_decoder() -> Option<Decoder<'static>> {
    let mut decoder = Decoder::new().ok()?;
    decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX)).ok()?;
    Some(decoder)
}

fn zstd_step(decoder: &mut Decoder<'static>, input: &[u8], output: &mut [u8]) -> Step {
    let mut from = InBuffer::around(input);
    let mut to = OutBuffer::around(output);
    let result = decoder.run(&mut from, &mut to);
    let (read, written) = (from.pos(), to.pos());
    let state = match result {
        // A frame is over; another may follow.
        Ok(0) => State::Pause,
        Ok(_) => State::More,
        Err(_) => State::Broken,
    };
    Step::new(read, written, state)
}

#[cfg(test)]
mod tests;
