//! One request, one answer, byte for byte.
//!
//! A fetcher connects to exactly the address it is given, sends one request, follows nothing and
//! decides nothing: redirects, refusals and retries are the engine's. What came over the wire is
//! kept as it came, for the archive; a decoded copy of the body is there for reading.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use types::outcome::Truncated;
use types::{CrawlUrl, Fault, Refusal, Timestamp, Validators};

use crate::spool::{Spool, Stored};

#[async_trait]
pub trait Fetcher: Send + Sync {
    /// Makes the request and waits for its end, bounded in time and bytes.
    ///
    /// `sent` is called once, at the moment the request's first byte has left; not at all if it
    /// never does. Dropping the future ends the exchange and closes its connection.
    async fn fetch(&self, request: Request, sent: &mut (dyn FnMut(Timestamp) + Send)) -> Exchange;

    /// Somebody else visits our hosts from now on: closes connections that wait for a next visit.
    fn let_go(&self) {}
}

#[derive(Debug, Clone)]
pub struct Request {
    pub url: CrawlUrl,
    /// Resolved and checked before; no other is connected.
    pub address: IpAddr,
    pub purpose: Purpose,
    /// For a conditional request; empty for a plain one.
    pub validators: Validators,
}

/// What the answer is for; decides its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Page,
    Robots,
}

/// What happened between us and the server.
#[derive(Debug)]
pub struct Exchange {
    pub times: Times,
    pub protocol: Protocol,
    /// `TLSv1.3` and the like; none on a plain connection.
    pub tls: Option<&'static str>,
    /// The request exactly as it was sent; over HTTP/2, rebuilt.
    pub request: Bytes,
    /// What came back, if the head of an answer did.
    pub response: Option<Response>,
    pub end: Ended,
    /// Gives the bytes of this exchange back to the common budget when it is dropped.
    pub hold: Option<Box<dyn Held>>,
}

/// What an exchange has of the memory that all of them share.
pub trait Held: fmt::Debug + Send + Sync {
    /// The answer was read; so many bytes are left of it.
    fn keep(&mut self, bytes: usize);
}

/// The times of the socket.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// When we began to connect, or took an open connection.
    pub started: Timestamp,
    /// When the first byte of the request left; none if it never did.
    pub sent: Option<Timestamp>,
    pub first_byte: Option<Timestamp>,
    /// When the last byte came, or we gave up.
    pub ended: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Http10,
    Http11,
    /// Request and answer are written down in the shape of HTTP/1.1.
    Http2,
}

impl Protocol {
    /// As `WARC-Protocol` writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "http/1.0",
            Self::Http11 => "http/1.1",
            Self::Http2 => "h2",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    /// Names in lower case, in the order of the wire, repeats kept.
    pub headers: Vec<(Box<str>, Box<[u8]>)>,
    /// Head and body exactly as received (chunks and compression included), perhaps cut. Over
    /// HTTP/2 the head is rebuilt and the body is without frames.
    pub wire: Bytes,
    /// What came behind `wire`, where that is more than is held in memory.
    pub rest: Option<Rest>,
    /// Where the body starts in `wire`.
    pub head_bytes: usize,
    /// The body without transfer and content coding, cut at the limit for reading.
    pub body: Bytes,
    /// Why `wire` is not the whole answer, if it is not.
    pub truncated: Option<Truncated>,
    /// `body` is shorter than the decoded whole, though `wire` may be complete.
    pub body_cut: bool,
}

/// The end of a large answer.
#[derive(Debug, Clone)]
pub struct Rest {
    pub stored: Arc<dyn Stored>,
    /// Where it lies, and where its records may lie as well.
    pub spool: Arc<dyn Spool>,
}

impl Response {
    /// Bytes of the body as they came, wherever they lie.
    pub fn body_wire_bytes(&self) -> u64 {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.stored.bytes());
        (self.wire.len() - self.head_bytes) as u64 + rest
    }

    /// The first value of a header, if it is text. `name` in lower case.
    pub fn header(&self, name: &'static str) -> Option<&str> {
        self.header_values(name).find_map(|value| std::str::from_utf8(value).ok()).map(str::trim)
    }

    /// Whether all of the body came, or at least `enough` of it.
    pub fn is_whole(&self, enough: usize) -> bool {
        match self.truncated {
            None => !self.body_cut || self.body.len() >= enough,
            Some(Truncated::Length) => true,
            Some(_) => self.body.len() >= enough,
        }
    }

    pub fn header_values(&self, name: &'static str) -> impl Iterator<Item = &[u8]> {
        self.headers.iter().filter(move |(known, _)| **known == *name).map(|(_, value)| &**value)
    }
}

/// How an exchange ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The answer is there, whole or marked as truncated.
    Answered,
    /// There is no usable answer.
    Broken(Fault),
    /// Nothing was connected: the address or the port is not one we talk to.
    Refused(Refusal),
    /// Nothing was connected: others had all of the line, or all memory, for too long. The visit has
    /// never been.
    NoTurn,
}
