//! What does a record say about a visit?
//!
//! A record is header lines and a block; the block is given as slices that are never joined here.
//! What of a large one is not in memory comes behind them, from whoever has it ([`Rest`]).
//! Each kind of record has its constructor, [`RecordBuilder`] adds what is optional, and
//! [`RecordBuilder::build`] digests the block once and closes the header.
//!
//! Always: a header that was built parses back to the same fields, whatever was put in.
//!
//! Not here: over which bytes the digests go (`payload`), gzip (`member`). Not here yet: resource
//! records.

use std::net::IpAddr;
use std::{fmt, io};

use crate::fields::{WarcFields, escape_uri, push_header};
use crate::payload::MessageDigests;
use crate::{Algorithm, Digest, Error, HttpHead, RecordId, TransferCoded, WarcDate};

/// What the records of one capture have in common.
#[derive(Debug, Clone, Copy)]
pub struct Capture<'a> {
    /// The URL that was asked for. What is not printable ASCII is percent-encoded.
    pub uri: &'a str,
    /// When the request left.
    pub date: WarcDate,
    /// The warcinfo record that describes this crawl.
    pub warcinfo: Option<RecordId>,
    /// The address that answered.
    pub ip: Option<IpAddr>,
    /// Protocols from the top down: `http/1.1`, `tls/1.3`. An `h2` here says that the block was
    /// rebuilt as HTTP/1.1 text.
    pub protocols: &'a [&'a str],
}

/// The response that a revisit record points back at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Earlier {
    pub id: RecordId,
    /// Its WARC-Date, to the second.
    pub date: WarcDate,
    /// What its index line says; see [`Record::index_digest`].
    pub digest: Digest,
}

/// How we know that the payload is the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revisit {
    /// The payload came once more, and its digest is the same.
    SameDigest,
    /// The server said so (304).
    NotModified,
}

impl Revisit {
    const fn profile(self) -> &'static str {
        match self {
            Self::SameDigest => "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
            Self::NotModified => "http://netpreserve.org/warc/1.1/revisit/server-not-modified",
        }
    }
}

/// Why a block holds less than the server had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncated {
    /// More than we keep of one answer.
    Length,
    /// Longer than we wait for one.
    Time,
    /// The server, or the network, hung up.
    Disconnect,
    /// Something else.
    Unspecified,
}

/// The end of a block that is too large to be held in memory.
pub trait Rest: fmt::Debug {
    /// How much there is.
    fn bytes(&self) -> u64;

    /// Gives all of it, piece by piece, in order. It is asked twice: once for the digests, once for
    /// the bytes.
    ///
    /// # Errors
    /// When it cannot be read, or whoever is given a piece says so.
    fn read(&self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>;
}

/// A record, ready to be written.
#[derive(Debug, Clone)]
pub struct Record<'a> {
    header: Vec<u8>,
    block: Vec<&'a [u8]>,
    pub(crate) rest: Option<&'a dyn Rest>,
    index_digest: Option<Digest>,
    http_head: Option<HttpHead>,
}

/// What ends every record.
pub(crate) const TRAILER: &[u8] = b"\r\n\r\n";

impl<'a> Record<'a> {
    /// The record that opens a file and describes the crawl (`software`, `operator`, `robots`,
    /// `http-header-user-agent`, `format`, …).
    #[must_use]
    pub fn warcinfo(
        id: RecordId,
        date: WarcDate,
        filename: &str,
        fields: &'a WarcFields,
    ) -> RecordBuilder<'a> {
        let builder = RecordBuilder::new("warcinfo", "application/warc-fields", id, date);
        builder.field("WARC-Filename", filename).block(&[fields.as_bytes()], Payload::None)
    }

    /// What we sent, byte for byte: `head` ends with its empty line.
    #[must_use]
    pub fn request(
        capture: &Capture<'_>,
        id: RecordId,
        head: &'a [u8],
        body: &[&'a [u8]],
    ) -> RecordBuilder<'a> {
        let payload = if body.is_empty() { Payload::None } else { Payload::After(head.len()) };
        RecordBuilder::new("request", "application/http; msgtype=request", id, capture.date)
            .capture(capture)
            .source(capture)
            .message(head, body, payload)
    }

    /// What came back, byte for byte: `head` ends with its empty line and is the head of the
    /// final answer (no `100 Continue` before it: readers would take that for the answer). An
    /// answer without a head (HTTP/0.9) has an empty one.
    #[must_use]
    pub fn response(
        capture: &Capture<'_>,
        id: RecordId,
        head: &'a [u8],
        body: &[&'a [u8]],
    ) -> RecordBuilder<'a> {
        RecordBuilder::new("response", "application/http; msgtype=response", id, capture.date)
            .capture(capture)
            .source(capture)
            .message(head, body, Payload::After(head.len()))
    }

    /// What came back, when its payload is the one of an earlier record of the same URL: the head
    /// alone. Its WARC-Payload-Digest is the earlier one's, by which replay tools find it.
    #[must_use]
    pub fn revisit(
        capture: &Capture<'_>,
        id: RecordId,
        head: &'a [u8],
        why: Revisit,
        earlier: &Earlier,
    ) -> RecordBuilder<'a> {
        RecordBuilder::new("revisit", "application/http; msgtype=response", id, capture.date)
            .capture(capture)
            .source(capture)
            .field("WARC-Profile", why.profile())
            .field("WARC-Refers-To", &earlier.id.to_string())
            .field("WARC-Refers-To-Target-URI", &escape_uri(capture.uri))
            .field("WARC-Refers-To-Date", &earlier.date.to_string())
            .message(head, &[], Payload::Elsewhere(earlier.digest))
    }

    /// What we know beside it: `via`, `hopsFromSeed`, `fetchTimeMs`, `outlink`, …
    #[must_use]
    pub fn metadata(
        capture: &Capture<'_>,
        id: RecordId,
        fields: &'a WarcFields,
    ) -> RecordBuilder<'a> {
        RecordBuilder::new("metadata", "application/warc-fields", id, capture.date)
            .capture(capture)
            .block(&[fields.as_bytes()], Payload::None)
    }

    /// What was made of the payload of the record with the name `of`, such as its plain text.
    /// `content_type` is that of `content`.
    #[must_use]
    pub fn conversion(
        capture: &Capture<'_>,
        id: RecordId,
        of: &str,
        content_type: &'static str,
        content: &'a [u8],
    ) -> RecordBuilder<'a> {
        RecordBuilder::new("conversion", content_type, id, capture.date)
            .capture(capture)
            .field("WARC-Refers-To", of)
            .block(&[content], Payload::None)
    }

    /// The digest that an index line carries, as cdxj-indexer has it: WARC-Payload-Digest, or
    /// else that of the body as stored. `None` for a record without payload.
    #[must_use]
    pub fn index_digest(&self) -> Option<Digest> {
        self.index_digest
    }

    /// The head of a response, as line-oriented readers find it.
    #[must_use]
    pub fn http_head(&self) -> Option<&HttpHead> {
        self.http_head.as_ref()
    }

    pub(crate) fn into_http_head(self) -> Option<HttpHead> {
        self.http_head
    }

    /// Size when written plainly, in bytes, without a rest.
    #[must_use]
    pub fn size(&self) -> usize {
        self.pieces().map(<[u8]>::len).sum()
    }

    /// Header, block and end, in order; a rest would come before the end.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let block = self.block.iter().copied();
        std::iter::once(self.header.as_slice()).chain(block).chain(std::iter::once(TRAILER))
    }

    /// The same in three: all that is ours or says what follows, the body of an HTTP message, the
    /// end.
    pub(crate) fn around_body(&self) -> ([&[u8]; 2], &[&'a [u8]], &'static [u8]) {
        match self.block.split_first() {
            Some((first, body)) => ([&self.header, first], body, TRAILER),
            None => ([&self.header, &[]], &[], TRAILER),
        }
    }

    /// Appends the record uncompressed.
    pub fn write_plain(&self, out: &mut Vec<u8>) {
        for piece in self.pieces() {
            out.extend_from_slice(piece);
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Payload {
    None,
    /// The block is an HTTP message with a head of this length.
    After(usize),
    /// The block is the head of an HTTP message; another record has its payload.
    Elsewhere(Digest),
}

/// A record in the making. A bad value does not interrupt the chain; [`Self::build`] refuses.
#[derive(Debug)]
pub struct RecordBuilder<'a> {
    header: Vec<u8>,
    content_type: &'static str,
    block: Vec<&'a [u8]>,
    rest: Option<&'a dyn Rest>,
    payload: Payload,
    algorithm: Algorithm,
    transfer_coded: TransferCoded,
    refused: Option<Error>,
}

impl<'a> RecordBuilder<'a> {
    fn new(kind: &str, content_type: &'static str, id: RecordId, date: WarcDate) -> Self {
        // 700 bytes hold the header of most records without growing.
        let mut header = Vec::with_capacity(700);
        header.extend_from_slice(b"WARC/1.1\r\n");
        let builder = Self {
            header,
            content_type,
            block: Vec::new(),
            rest: None,
            payload: Payload::None,
            algorithm: Algorithm::default(),
            transfer_coded: TransferCoded::default(),
            refused: None,
        };
        builder
            .field("WARC-Type", kind)
            .field("WARC-Record-ID", &id.to_string())
            .field("WARC-Date", &date.to_string())
    }

    fn capture(self, capture: &Capture<'_>) -> Self {
        let named = self.field("WARC-Target-URI", &escape_uri(capture.uri));
        match capture.warcinfo {
            Some(id) => named.field("WARC-Warcinfo-ID", &id.to_string()),
            None => named,
        }
    }

    fn source(self, capture: &Capture<'_>) -> Self {
        let named = match capture.ip {
            Some(ip) => self.field("WARC-IP-Address", &ip.to_string()),
            None => self,
        };
        capture
            .protocols
            .iter()
            .fold(named, |named, protocol| named.field("WARC-Protocol", protocol))
    }

    fn message(mut self, head: &'a [u8], body: &[&'a [u8]], payload: Payload) -> Self {
        self.block.push(head);
        self.block.extend_from_slice(body);
        self.payload = payload;
        self
    }

    fn block(mut self, block: &[&'a [u8]], payload: Payload) -> Self {
        self.block.extend_from_slice(block);
        self.payload = payload;
        self
    }

    /// What comes behind the slices of the block.
    #[must_use]
    pub fn rest(mut self, rest: Option<&'a dyn Rest>) -> Self {
        self.rest = rest;
        self
    }

    /// Another record of the same capture; may be said several times.
    #[must_use]
    pub fn concurrent_to(self, other: RecordId) -> Self {
        self.field("WARC-Concurrent-To", &other.to_string())
    }

    /// The block was cut.
    #[must_use]
    pub fn truncated(self, why: Truncated) -> Self {
        let reason = match why {
            Truncated::Length => "length",
            Truncated::Time => "time",
            Truncated::Disconnect => "disconnect",
            Truncated::Unspecified => "unspecified",
        };
        self.field("WARC-Truncated", reason)
    }

    /// The payload's type as found by looking at the payload, never by believing the server.
    #[must_use]
    pub fn identified_payload_type(self, mime: &str) -> Self {
        self.field("WARC-Identified-Payload-Type", mime)
    }

    /// Any other field.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Self {
        if let Err(refused) = push_header(&mut self.header, name, value) {
            self.refused.get_or_insert(refused);
        }
        self
    }

    /// The algorithm of both digests.
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// What to say of a body with a transfer coding.
    #[must_use]
    pub fn transfer_coded(mut self, choice: TransferCoded) -> Self {
        self.transfer_coded = choice;
        self
    }

    /// Digests the block and closes the header.
    ///
    /// # Errors
    /// [`Error::UnsafeValue`] if a value was given that would not stay on its header line;
    /// [`Error::Io`] if the rest of the block cannot be read.
    pub fn build(mut self) -> Result<Record<'a>, Error> {
        if let Some(refused) = self.refused.take() {
            return Err(refused);
        }
        let message = match self.payload {
            Payload::After(head) => {
                let (algorithm, choice) = (self.algorithm, self.transfer_coded);
                Some(MessageDigests::new(&self.block, self.rest, head, algorithm, choice)?)
            }
            Payload::Elsewhere(digest) => {
                let head = self.block.iter().map(|slice| slice.len()).sum();
                let choice = TransferCoded::Omit;
                let mut message =
                    MessageDigests::new(&self.block, None, head, self.algorithm, choice)?;
                message.payload = Some(digest);
                Some(message)
            }
            Payload::None => None,
        };
        let whole = || Digest::of(self.algorithm, &self.block);
        let block = message.as_ref().map_or_else(whole, |message| message.block);
        let header = &mut self.header;
        push_header(header, "WARC-Block-Digest", &block.to_string())?;
        if let Some(payload) = message.as_ref().and_then(|message| message.payload) {
            push_header(header, "WARC-Payload-Digest", &payload.to_string())?;
        }
        let length: u64 = self.block.iter().map(|slice| slice.len() as u64).sum();
        let length = length + self.rest.map_or(0, Rest::bytes);
        push_header(header, "Content-Type", self.content_type)?;
        push_header(header, "Content-Length", &length.to_string())?;
        header.extend_from_slice(b"\r\n");
        Ok(Record {
            header: self.header,
            block: self.block,
            rest: self.rest,
            index_digest: message.as_ref().map(|message| message.payload.unwrap_or(message.stored)),
            http_head: message.and_then(|message| message.http_head),
        })
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
