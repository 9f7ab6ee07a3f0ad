//! What is a web, seen from the side that answers?
//!
//! Names that resolve (or do not), doors that open (or do not), and for every request a
//! [`Plan`]: what is said, and how it goes wrong on the way. A plan is data; [`crate::wire`]
//! turns it into bytes, [`crate::fetcher`] plays it in virtual time, [`crate::serve`] on sockets.
//!
//! Always: the same question at the same moment gets the same plan. Whatever counts (how often a
//! URL was asked before) is part of the question.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use types::Timestamp;

/// A web, computed or written down.
pub trait Web: Send + Sync {
    /// Where a name lives.
    fn resolve(&self, host: &str) -> Dns;

    /// What happens to whoever connects.
    fn door(&self, _host: &str, _port: u16, _tls: bool) -> Door {
        Door::Open
    }

    /// What is answered to a request.
    fn answer(&self, ask: &Ask<'_>) -> Plan;
}

/// What a name server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dns {
    Addresses {
        addresses: Vec<IpAddr>,
        ttl: Duration,
        /// The name is an alias of this one.
        alias: Option<String>,
        /// Too much for a datagram: over UDP the answer is truncated, over TCP it is whole.
        large: bool,
    },
    /// NXDOMAIN.
    NoSuchName,
    /// SERVFAIL.
    ServerFailure,
    /// No answer at all.
    Silence,
}

/// What happens to a connection before anything is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Open,
    /// Nobody listens.
    Refused,
    /// The packets vanish. Only in virtual time; on loopback nothing vanishes.
    Silent,
    /// The certificate is for another name.
    BadCertificate,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Lower case, without port.
    pub host: &'a str,
    pub port: u16,
    pub tls: bool,
    /// Path and query, as in the request line.
    pub target: &'a str,
    /// Names in lower case.
    pub headers: &'a [(&'a str, &'a str)],
    /// How often this URL was asked before.
    pub nth: u32,
    pub at: Timestamp,
}

impl<'a> Ask<'a> {
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

pub type Text = Cow<'static, str>;

/// What is answered, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    pub status: u16,
    /// Without those that follow from framing and connection.
    pub headers: Vec<(Text, Text)>,
    pub body: Body,
    pub framing: Framing,
    /// The server closes the connection after the answer, and says so.
    pub close: bool,
    /// Time between the request and the head.
    pub delay: Duration,
    /// The body comes in drops.
    pub drip: Option<Drip>,
    pub fate: Fate,
}

/// Where the bytes of a body come from.
#[derive(Debug, Clone)]
pub enum Body {
    Bytes(Bytes),
    /// The unit over and over, so that a huge body costs no memory.
    Repeat {
        unit: Bytes,
        bytes: u64,
    },
}

impl Body {
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Repeat { bytes, .. } => *bytes,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How the receiver knows where the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// `Content-Length`.
    Length,
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// It ends when the connection does.
    UntilClose,
    /// No HTTP at all: the body's bytes as they are, then the end.
    Raw,
}

/// So many bytes of the body, then a pause, and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drip {
    pub bytes: u32,
    pub every: Duration,
}

/// How an answer ends. The counts are bytes of the wire after the head; `None` is before any
/// byte of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Whole,
    /// The request is read, and nothing ever comes.
    Mute,
    /// Closed in good order, too early.
    Cut(Option<u64>),
    /// Torn down (RST).
    Reset(Option<u64>),
}

impl Plan {
    pub fn new(status: u16, content_type: impl Into<Text>, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), content_type.into())],
            body: Body::Bytes(body.into()),
            framing: Framing::Length,
            close: false,
            delay: Duration::ZERO,
            drip: None,
            fate: Fate::Whole,
        }
    }

    /// An answer in a sentence of plain HTML.
    pub fn brief(status: u16) -> Self {
        let reason = reason(status);
        let body =
            format!("<!doctype html><title>{status} {reason}</title><h1>{status} {reason}</h1>\n");
        Self::new(status, "text/html; charset=utf-8", body)
    }

    pub fn redirect(status: u16, location: impl Into<Text>) -> Self {
        Self::brief(status).with("location", location)
    }

    pub fn with(mut self, name: impl Into<Text>, value: impl Into<Text>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let same = |(known, _): &&(Text, Text)| known.eq_ignore_ascii_case(name);
        self.headers.iter().find(same).map(|(_, value)| &**value)
    }

    /// 1xx, 204 and 304 have no body, whatever is said.
    pub fn is_bodiless(&self) -> bool {
        matches!(self.status, 100..=199 | 204 | 304)
    }

    /// The connection cannot be used again after this answer.
    pub fn ends_connection(&self) -> bool {
        self.close
            || matches!(self.framing, Framing::UntilClose | Framing::Raw)
            || self.fate != Fate::Whole
    }
}

/// The words after a status.
pub fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        410 => "Gone",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Unknown",
    }
}
