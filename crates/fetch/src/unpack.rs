//! What is in a body that was archived as it came over the wire?
//!
//! The same as when it was fetched: framing and codings come off by the readers of the wire itself
//! (`framing`, `coding`), under the same bound on how much a body may grow. Here all of it is in
//! memory and nobody waits, so there is no budget, no seat and no turn; that is `body`.
//!
//! Always: no more than was asked for, and no more than the wire is worth.

use crate::body::{RATIO_FREE_BYTES, STEP_BYTES, codings_of, ends_here};
use crate::coding::{Coding, Decoding, State};
use crate::framing::Payload;

/// As `fetch.decoded_ratio_max` has it by default.
const RATIO_MAX: usize = 200;
/// Room that is decoded into at first: text grows some fivefold.
const GROWTH: usize = 6;

/// A body out of its wrappings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    pub body: Vec<u8>,
    /// It is not the whole.
    pub cut: bool,
}

/// Takes framing and compression off. `encodings` are the values of all Content-Encoding fields, in
/// their order.
pub fn unpack<'a>(
    wire: &[u8],
    chunked: bool,
    encodings: impl Iterator<Item = &'a [u8]>,
    bytes_max: usize,
) -> Unpacked {
    let Some(codings) = codings_of(encodings) else {
        // More than anyone needs: we do not look inside.
        return Unpacked { body: Vec::new(), cut: !wire.is_empty() };
    };
    let payload = Payload::new(wire, 0, chunked);
    let shape = payload.shape();
    let unpacked = match codings.last() {
        Some(outer) if shape.len > 0 && outer.fits(&payload.start()) => {
            let worth = RATIO_FREE_BYTES.max(shape.len.saturating_mul(RATIO_MAX));
            decode(&codings, payload, shape.len, bytes_max.min(worth))
        }
        _ => Unpacked { body: join(payload, shape.len.min(bytes_max)), cut: shape.len > bytes_max },
    };
    Unpacked { cut: unpacked.cut || !shape.whole, ..unpacked }
}

fn join(mut payload: Payload<'_>, len: usize) -> Vec<u8> {
    let mut body = Vec::with_capacity(len);
    while body.len() < len {
        let part = payload.peek(len - body.len());
        body.extend_from_slice(part);
        payload.advance(part.len());
    }
    body
}

fn decode(codings: &[Coding], mut payload: Payload<'_>, len: usize, limit: usize) -> Unpacked {
    let mut decoding = Decoding::new(codings, &payload.start(), limit);
    let mut body = vec![0; len.saturating_mul(GROWTH).max(STEP_BYTES).min(limit)];
    let mut filled = 0;
    let cut = loop {
        if filled == body.len() {
            if filled == limit {
                break !ends_here(&mut decoding, &mut payload);
            }
            body.resize(filled.saturating_mul(2).max(STEP_BYTES).min(limit), 0);
        }
        let window = filled..body.len().min(filled + STEP_BYTES);
        let step = decoding.step(payload.peek(STEP_BYTES), &mut body[window]);
        payload.advance(step.read);
        filled += step.written;
        match (step.state, step.bytes()) {
            (State::Done, _) | (State::Pause, 0) => break false,
            (State::Broken, _) | (State::More, 0) => break true,
            (State::Pause | State::More, _) => {}
        }
    };
    body.truncate(filled);
    Unpacked { body, cut }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn unpacked(wire: &[u8], chunked: bool, encoding: &str, bytes_max: usize) -> (Vec<u8>, bool) {
        let Unpacked { body, cut } =
            unpack(wire, chunked, std::iter::once(encoding.as_bytes()), bytes_max);
        (body, cut)
    }

    #[test]
    fn chunks_and_codings_come_off() {
        let text = b"wolf spider ".repeat(10_000);
        let zipped = gzip(&text);
        let mut wire = Vec::new();
        for chunk in zipped.chunks(50) {
            wire.extend(format!("{:x}\r\n", chunk.len()).bytes());
            wire.extend(chunk);
            wire.extend(b"\r\n");
        }
        assert_eq!(unpacked(&wire, true, "gzip", 1 << 20), (text.clone(), true), "no last chunk");
        wire.extend(b"0\r\n\r\n");
        assert_eq!(unpacked(&wire, true, "gzip", 1 << 20), (text.clone(), false));
        let zstd = zstd::encode_all(&*text, 3).unwrap();
        assert_eq!(unpacked(&zstd, false, "zstd", 1 << 20), (text, false));
        assert_eq!(unpacked(&zipped, false, "br, gzip, gzip", 1 << 20), (Vec::new(), true));
        assert_eq!(unpacked(b"plain", false, "gzip", 1 << 20), (b"plain".to_vec(), false));
        assert_eq!(unpacked(b"", false, "gzip", 1 << 20), (Vec::new(), false));
    }

    #[test]
    fn the_bound_is_exact_and_a_bomb_is_worth_its_ratio() {
        let text = b"wolf spider ".repeat(10_000);
        let zipped = gzip(&text);
        assert_eq!(unpacked(&zipped, false, "gzip", text.len()), (text.clone(), false));
        let (body, cut) = unpacked(&zipped, false, "gzip", text.len() - 1);
        assert!(cut && body == text[..text.len() - 1]);
        assert_eq!(unpacked(&text, false, "", 4), (b"wolf".to_vec(), true));
        let bomb = gzip(&vec![0; 64 << 20]);
        let (body, cut) = unpacked(&bomb, false, "gzip", 60 << 20);
        assert!(cut && body.len() == bomb.len() * RATIO_MAX, "{}", body.len());
    }
}
