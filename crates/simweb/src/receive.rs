//! What does a reader make of the bytes?
//!
//! The request as it is sent, and the answer as a real fetcher would report it: cut where the
//! limits cut, without transfer and content coding, and honest about what is missing.
//!
//! Not here: when the bytes come (`fetcher`).

use std::io::Read;

use bytes::{Bytes, BytesMut};
use ports::{Request, Response};
use types::outcome::Truncated;

use crate::web::{Framing, Plan};
use crate::wire;

pub(crate) const ACCEPT_ENCODING: &str = "gzip";

/// The request as it goes over the wire.
pub(crate) fn request_bytes(request: &Request, user_agent: &str) -> Bytes {
    let url = &request.url;
    let mut text = String::with_capacity(256);
    let mut line = |name: &str, value: &str| {
        text.push_str(name);
        text.push_str(value);
        text.push_str("\r\n");
    };
    line("GET ", &format!("{} HTTP/1.1", url.path_and_query()));
    line("host: ", url.authority());
    line("user-agent: ", user_agent);
    line("accept: ", "*/*");
    line("accept-encoding: ", ACCEPT_ENCODING);
    if let Some(etag) = &request.validators.etag {
        line("if-none-match: ", etag);
    }
    if let Some(at) = &request.validators.last_modified {
        line("if-modified-since: ", at);
    }
    line("", "");
    Bytes::from(text)
}

/// What the reader makes of the bytes.
pub(crate) fn respond(
    plan: &Plan,
    wire: Bytes,
    head_bytes: usize,
    truncated: Option<Truncated>,
    read_bytes_max: usize,
) -> Response {
    let mut body = wire.slice(head_bytes..);
    if plan.framing == Framing::Chunked {
        body = wire::dechunk(&body).0.into();
    }
    let mut truncated = truncated;
    let mut body_cut = false;
    if plan.header("content-encoding") == Some("gzip") {
        let (decoded, sound) = gunzip(&body, read_bytes_max);
        if !sound && truncated.is_none() {
            truncated = Some(Truncated::Unspecified);
        }
        body_cut = !sound;
        body = decoded.into();
    }
    if body.len() > read_bytes_max {
        body.truncate(read_bytes_max);
        body_cut = true;
    }
    let head = wire.slice(..head_bytes);
    Response {
        status: plan.status,
        headers: headers(&head),
        wire,
        rest: None,
        head_bytes,
        body,
        truncated,
        body_cut,
    }
}

/// As far as it can be decoded, one byte beyond the limit, and whether it was sound.
fn gunzip(body: &[u8], most: usize) -> (Vec<u8>, bool) {
    let mut decoded = Vec::new();
    let reader = flate2::read::MultiGzDecoder::new(body);
    let sound = reader.take(most as u64 + 1).read_to_end(&mut decoded).is_ok();
    (decoded, sound)
}

fn headers(head: &[u8]) -> Vec<(Box<str>, Box<[u8]>)> {
    let text = String::from_utf8_lossy(head);
    let lines = text.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
    lines.map(|(name, value)| (name.to_ascii_lowercase().into(), value.as_bytes().into())).collect()
}

/// Appends up to `take` bytes of the body; says whether that was all of it.
pub(crate) fn fill(wire: &mut BytesMut, plan: &Plan, take: u64) -> bool {
    let mut left = usize::try_from(take).unwrap_or(usize::MAX);
    for piece in wire::pieces(plan) {
        if piece.len() > left {
            wire.extend_from_slice(&piece[..left]);
            return false;
        }
        wire.extend_from_slice(&piece);
        left -= piece.len();
    }
    true
}
