//! Which bytes is an answer, exactly?
//!
//! A plan becomes a head and a row of pieces. The sockets and the in-process fetcher take the
//! same bytes from here, so what a simulation archives is what a real crawl would archive.
//!
//! Not here: when the pieces leave (`fetcher`, `serve`).

use bytes::{BufMut, Bytes, BytesMut};

use crate::web::{Body, Framing, Plan, reason};

/// Payload of one chunk, for chunked answers. What common servers send.
const CHUNK_BYTES: usize = 8 * 1024;

/// The head of the answer; empty where there is none.
pub fn head(plan: &Plan) -> BytesMut {
    let mut head = BytesMut::with_capacity(256);
    if plan.framing == Framing::Raw {
        return head;
    }
    head.put_slice(b"HTTP/1.1 ");
    put_number(&mut head, u64::from(plan.status));
    head.put_u8(b' ');
    head.put_slice(reason(plan.status).as_bytes());
    head.put_slice(b"\r\n");
    for (name, value) in &plan.headers {
        head.put_slice(name.as_bytes());
        head.put_slice(b": ");
        head.put_slice(value.as_bytes());
        head.put_slice(b"\r\n");
    }
    if !plan.is_bodiless() {
        match plan.framing {
            Framing::Length => {
                head.put_slice(b"content-length: ");
                put_number(&mut head, plan.body.len());
                head.put_slice(b"\r\n");
            }
            Framing::Chunked => head.put_slice(b"transfer-encoding: chunked\r\n"),
            Framing::UntilClose | Framing::Raw => {}
        }
    }
    let closes = plan.close || plan.framing == Framing::UntilClose;
    let connection: &[u8] =
        if closes { b"connection: close\r\n\r\n" } else { b"connection: keep-alive\r\n\r\n" };
    head.put_slice(connection);
    head
}

fn put_number(out: &mut BytesMut, number: u64) {
    crate::text::with_decimal(number, |digits| out.put_slice(digits));
}

/// The bytes after the head, piece by piece.
#[derive(Debug, Clone)]
pub struct Pieces {
    body: Body,
    /// Bytes of the body given out so far.
    given: u64,
    chunked: bool,
    done: bool,
}

pub fn pieces(plan: &Plan) -> Pieces {
    Pieces {
        body: plan.body.clone(),
        given: 0,
        chunked: plan.framing == Framing::Chunked,
        done: plan.is_bodiless(),
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let left = self.body.len() - self.given;
        if left == 0 {
            self.done = true;
            return self.chunked.then(|| Bytes::from_static(b"0\r\n\r\n"));
        }
        let piece = match &self.body {
            Body::Bytes(bytes) if self.chunked => {
                let start = self.given as usize;
                bytes.slice(start..bytes.len().min(start + CHUNK_BYTES))
            }
            Body::Bytes(bytes) => bytes.clone(),
            Body::Repeat { unit, .. } => {
                unit.slice(..usize::try_from(left).map_or(unit.len(), |left| left.min(unit.len())))
            }
        };
        self.given += piece.len() as u64;
        Some(if self.chunked { chunk(&piece) } else { piece })
    }
}

fn chunk(payload: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(payload.len() + 12);
    let digits = format!("{:x}\r\n", payload.len());
    out.put_slice(digits.as_bytes());
    out.put_slice(payload);
    out.put_slice(b"\r\n");
    out.freeze()
}

/// The payload of a chunked body, as far as it goes, and whether its end was seen.
pub fn dechunk(mut wire: &[u8]) -> (Vec<u8>, bool) {
    let mut payload = Vec::with_capacity(wire.len());
    loop {
        let Some(line_end) = wire.windows(2).position(|pair| pair == b"\r\n") else {
            return (payload, false);
        };
        let size = std::str::from_utf8(&wire[..line_end])
            .ok()
            .and_then(|digits| usize::from_str_radix(digits, 16).ok());
        let Some(size) = size else { return (payload, false) };
        wire = &wire[line_end + 2..];
        if size == 0 {
            return (payload, wire == b"\r\n");
        }
        payload.extend_from_slice(&wire[..size.min(wire.len())]);
        if wire.len() < size + 2 {
            return (payload, false);
        }
        wire = &wire[size + 2..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(plan: &Plan) -> Vec<u8> {
        let mut wire = head(plan).to_vec();
        pieces(plan).for_each(|piece| wire.extend_from_slice(&piece));
        wire
    }

    #[test]
    fn a_plain_answer_has_its_length_in_the_head() {
        let plan = Plan::new(200, "text/plain", "hello");
        assert_eq!(
            String::from_utf8(whole(&plan)).unwrap(),
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\
             connection: keep-alive\r\n\r\nhello"
        );
    }

    #[test]
    fn chunks_give_back_the_body_and_show_when_they_are_cut() {
        let mut plan = Plan::new(200, "text/plain", "x".repeat(20_000));
        plan.framing = Framing::Chunked;
        let wire: Vec<u8> = pieces(&plan).flatten().collect();
        assert!(wire.starts_with(b"2000\r\n"));
        let (payload, ended) = dechunk(&wire);
        assert!(ended && payload == vec![b'x'; 20_000]);
        let (payload, ended) = dechunk(&wire[..10_000]);
        assert!(!ended && payload.len() == 10_000 - 6 - 2 - 6, "{}", payload.len());
    }

    #[test]
    fn a_repeated_unit_ends_on_the_byte() {
        let mut plan = Plan::new(200, "text/plain", "");
        plan.body = Body::Repeat { unit: Bytes::from_static(b"abc"), bytes: 8 };
        let wire: Vec<u8> = pieces(&plan).flatten().collect();
        assert_eq!(wire, b"abcabcab");
    }

    #[test]
    fn a_304_has_neither_length_nor_body() {
        let text = String::from_utf8(whole(&Plan::new(304, "text/html", "x"))).unwrap();
        assert!(!text.contains("content-length") && text.ends_with("\r\n\r\n"), "{text}");
    }
}
