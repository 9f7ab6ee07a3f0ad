//! What do the bytes of an answer become?
//!
//! A document with its links, facts of its text, and the records of the archive. This is the CPU work of a visit; it
//! runs on the pool, from bytes to bytes, and asks nobody.

use std::cell::RefCell;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use page::fingerprint::Prints;
use page::{Content, Document};
use ports::{Blob, Draft, Exchange, Response, Rest, Stored, Unwritten};
use types::outcome::Truncated;
use types::{
    Answer, CrawlUrl, Discovery, Outcome, Published, Reading, Record, TextFacts, Timestamp, VisitId,
};
use warc::{
    Algorithm, Capture, Compressor, Digest, Earlier, Level, RecordId, TransferCoded, VisitIds,
    WarcDate, WarcFields,
};

use crate::ctx::Ctx;
use crate::stages::follow::{self, Followed};

/// A visit's records, ready to be appended.
#[derive(Debug)]
pub struct Packed {
    /// Whole gzip members: request, response, metadata.
    pub bytes: Blob,
    /// Where the response lies in them.
    pub response: std::ops::Range<usize>,
    pub digest: Option<[u8; 20]>,
    /// The media type as the server wrote it, for the index.
    pub mime: Option<Box<str>>,
}

#[derive(Debug)]
pub struct ReadVisit {
    pub outcome: Outcome,
    pub followed: Followed,
    pub packed: Option<Packed>,
}

/// What was visited, for the reader.
#[derive(Debug, Clone)]
pub struct Visited {
    pub visit: VisitId,
    pub url: CrawlUrl,
    pub found: Discovery,
    pub address: std::net::IpAddr,
    /// The page that we have, if the answer may be that one.
    pub earlier: Option<Earlier>,
}

/// The records of the page that we have, for an answer that may be the same page.
pub fn earlier(record: &Record, outcome: &Outcome, crawl_id: u128) -> Option<Earlier> {
    let may_be = match outcome {
        Outcome::Unchanged(_) => true,
        Outcome::Fetched(answer) => answer.is_whole(),
        _ => false,
    };
    let held = record.held.filter(|_| may_be)?;
    let digest = record.last.as_ref()?.answer.digest?;
    Some(Earlier {
        id: ids(crawl_id, held.visit).response,
        date: warc_date(held.at),
        digest: Digest::Sha1(digest),
    })
}

fn ids(crawl_id: u128, visit: VisitId) -> VisitIds {
    VisitIds::derive(crawl_id << 64 | u128::from(visit.0))
}

/// Reads a page's answer: its document if it has one, its links, its records.
pub fn page(ctx: &Ctx, visited: &Visited, mut outcome: Outcome, exchange: &Exchange) -> ReadVisit {
    let mut metadata = WarcFields::new();
    describe(&mut metadata, visited, exchange);
    let followed = match (&mut outcome, &exchange.response) {
        (Outcome::Fetched(answer), Some(response)) if (200..300).contains(&answer.status) => {
            let document = document(ctx, &visited.url, response, answer);
            answer.links = u32::try_from(document.links().len()).unwrap_or(u32::MAX);
            answer.noindex = document.robots.noindex;
            answer.nofollow = document.robots.nofollow;
            answer.noarchive = document.robots.noarchive;
            let scope = ctx.scope.read().expect("no panic while locked");
            let options = &ctx.options;
            follow::links(
                &document,
                &visited.found,
                &ctx.canon,
                &scope,
                options.shards,
                &mut metadata,
            )
        }
        (Outcome::Moved { to: Some(to), .. }, _) => {
            metadata.push("outlink", &format!("{to} R"));
            let scope = ctx.scope.read().expect("no panic while locked");
            let options = &ctx.options;
            follow::redirect(
                &visited.url,
                to,
                &visited.found,
                options.redirects_max,
                &scope,
                options.shards,
            )
        }
        _ => Followed::default(),
    };
    let packed = pack(ctx, visited, exchange, &metadata);
    if let (Some(packed), Some(answer)) = (&packed, outcome_answer(&mut outcome)) {
        answer.digest = packed.digest;
    }
    ReadVisit { outcome, followed, packed }
}

/// The records of a robots.txt request.
pub fn robots(ctx: &Ctx, visited: &Visited, exchange: &Exchange) -> Option<Packed> {
    let mut metadata = WarcFields::new();
    describe(&mut metadata, visited, exchange);
    pack(ctx, visited, exchange, &metadata)
}

fn outcome_answer(outcome: &mut Outcome) -> Option<&mut Answer> {
    match outcome {
        Outcome::Fetched(answer) | Outcome::Unchanged(answer) | Outcome::Moved { answer, .. } => {
            Some(answer)
        }
        Outcome::Failed(failure) => failure.answer.as_mut(),
        Outcome::Refused(_) => None,
    }
}

/// The document of an answer; its title and, where it is wanted, its text are noted in the answer.
fn document(ctx: &Ctx, url: &CrawlUrl, response: &Response, answer: &mut Answer) -> Document {
    let headers: Vec<(&str, &[u8])> =
        response.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    let input = page::Input {
        url: url.as_str(),
        body: &response.body,
        content_type: response.header("content-type"),
        headers: &headers,
        product: &ctx.options.product,
        limits: ctx.options.page_limits,
    };
    let (document, content) = match ctx.options.content {
        true => page::extract(input),
        false => (page::read(input), None),
    };
    let best = content.as_ref().and_then(|content| content.metadata.title.as_deref());
    answer.title = best.or(document.title.as_deref()).map(Into::into);
    if let Some(content) = content {
        if ctx.options.readings && !document.robots.noindex {
            answer.reading = Some(Arc::new(reading(&content)));
        }
        let Prints { digest, simhash, sketch } = Prints::of(&content.text);
        let language = content.language.map(Into::into);
        let words = content.word_count;
        answer.text = Some(Box::new(TextFacts { digest, simhash: simhash.0, words, language }));
        answer.sketch = Some(sketch.to_bytes().into());
    }
    document
}

/// The longest books have some megabytes; who searches for a page remembers something of its first part.
const READING_BYTES_MAX: usize = 256 << 10;
/// Of all headings together.
const HEADINGS_BYTES_MAX: usize = 16 << 10;

/// What an index of words wants of a page.
pub fn reading(content: &Content) -> Reading {
    let mut headings = String::new();
    for heading in &content.outline.headings {
        if headings.len() + heading.text.len() >= HEADINGS_BYTES_MAX {
            break;
        }
        headings.push_str(&heading.text);
        headings.push('\n');
    }
    let text = &content.text[..content.text.floor_char_boundary(READING_BYTES_MAX)];
    let published = content.metadata.published.as_deref().and_then(page::parse_date);
    let published =
        published.map(|date| Published { text: date.text.into(), seconds: date.seconds });
    Reading { headings: headings.into(), text: text.into(), published }
}

fn describe(metadata: &mut WarcFields, visited: &Visited, exchange: &Exchange) {
    metadata.push("visit", &visited.visit.to_string());
    metadata.push("depth", &visited.found.depth.to_string());
    if visited.found.hops > 0 {
        metadata.push("redirects", &visited.found.hops.to_string());
    }
    if visited.found.seed {
        metadata.push("seed", "1");
    }
    let started = exchange.times.sent.unwrap_or(exchange.times.started);
    let took = exchange.times.ended.since(started).as_millis();
    metadata.push("fetchTimeMs", &took.to_string());
}

thread_local! {
    /// One per pool thread: it owns the state of the compressor, which is large.
    static BENCH: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

struct Bench {
    level: u8,
    compressor: Compressor,
    /// Where members are made. What is kept of them until the commit has its own size, a quarter of
    /// the room that making them takes.
    room: Vec<u8>,
}

/// A thread that once packed a film does not keep its size.
const ROOM_BYTES_MAX: usize = 8 << 20;

impl Bench {
    fn new(level: u8) -> Self {
        let chosen = Level::new(level).expect("checked with the settings");
        Self { level, compressor: Compressor::new(chosen), room: Vec::new() }
    }

    fn pack(&mut self, visit: &warc::Visit<'_>) -> Result<Packed, warc::Error> {
        self.room.clear();
        let members = self.compressor.visit(visit, &mut self.room)?;
        let bytes = self.room.as_slice().to_vec().into();
        self.room.shrink_to(ROOM_BYTES_MAX);
        Ok(Packed::of(&members, bytes))
    }

    /// The same where most of the answer is on the disk: that is where its records go, too.
    fn pack_large(&mut self, visit: &warc::Visit<'_>, rest: &Rest) -> Result<Packed, warc::Error> {
        let elsewhere = Elsewhere(&*rest.stored);
        let visit = warc::Visit { response_rest: Some(&elsewhere), ..*visit };
        let mut out = BufWriter::with_capacity(WRITE_BYTES, Out(rest.spool.begin()?));
        let members = self.compressor.write_visit(&visit, &mut out)?;
        let Out(draft) = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Packed::of(&members, Blob::Stored(draft.finish())))
    }
}

impl Packed {
    fn of(members: &warc::VisitMembers, bytes: Blob) -> Self {
        Self {
            bytes,
            response: members.response.start..members.response.start + members.response.len,
            digest: members.digest.as_bytes().try_into().ok(),
            mime: members.mime().map(Into::into),
        }
    }

    /// Of an answer that could not be written down. Whoever appends it hears why.
    fn failed(why: &io::Error) -> Self {
        let bytes = Blob::Stored(Unwritten::because(why));
        Self { bytes, response: 0..0, digest: None, mime: None }
    }

    /// What it takes of our memory.
    pub fn memory_bytes(&self) -> usize {
        match &self.bytes {
            Blob::Memory(bytes) => bytes.capacity(),
            Blob::Stored(_) => 0,
        }
    }
}

/// Bytes that are written to the disk at once.
const WRITE_BYTES: usize = 256 << 10;

/// The end of a large answer, for its record.
#[derive(Debug)]
struct Elsewhere<'a>(&'a dyn Stored);

impl warc::Rest for Elsewhere<'_> {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn read(&self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        ports::spool::read(self.0, each)
    }
}

/// A draft as a writer.
struct Out(Box<dyn Draft>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn pack(
    ctx: &Ctx,
    visited: &Visited,
    exchange: &Exchange,
    metadata: &WarcFields,
) -> Option<Packed> {
    let response = exchange.response.as_ref().filter(|_| ctx.options.archive)?;
    let (head, body) = response.wire.split_at(response.head_bytes);
    let protocols: &[&str] = &[exchange.protocol.as_str(), exchange.tls.unwrap_or("")];
    let protocols = if exchange.tls.is_some() { protocols } else { &protocols[..1] };
    let visit = warc::Visit {
        capture: Capture {
            uri: visited.url.as_str(),
            date: warc_date(exchange.times.sent.unwrap_or(exchange.times.started)),
            warcinfo: None::<RecordId>,
            ip: Some(visited.address),
            protocols,
        },
        ids: ids(ctx.options.crawl_id, visited.visit),
        request: &exchange.request,
        response_head: head,
        response_body: &[body],
        response_rest: None,
        earlier: visited.earlier,
        truncated: response.truncated.map(truncated),
        payload_type: None,
        metadata: Some(metadata),
        algorithm: Algorithm::Sha1,
        transfer_coded: TransferCoded::default(),
    };
    let level = ctx.options.archive_level;
    let packed = BENCH.with_borrow_mut(|bench| {
        if bench.as_ref().is_none_or(|bench| bench.level != level) {
            *bench = Some(Bench::new(level));
        }
        let bench = bench.as_mut().expect("set above");
        match &response.rest {
            Some(rest) => bench.pack_large(&visit, rest),
            None => bench.pack(&visit),
        }
    });
    match packed {
        Ok(packed) => Some(packed),
        Err(warc::Error::Io(error)) => Some(Packed::failed(&error)),
        // Only a value that could forge a header is refused, and canonical URLs hold none.
        Err(error) => {
            tracing::error!(url = %visited.url, %error, "visit could not be archived");
            None
        }
    }
}

fn warc_date(at: Timestamp) -> WarcDate {
    WarcDate::from_unix_seconds(i64::try_from(at.secs()).unwrap_or(i64::MAX))
}

const fn truncated(why: Truncated) -> warc::Truncated {
    match why {
        Truncated::Length => warc::Truncated::Length,
        Truncated::Time => warc::Truncated::Time,
        Truncated::Disconnect => warc::Truncated::Disconnect,
        Truncated::Unspecified => warc::Truncated::Unspecified,
    }
}
