//! What did the server say, as the archive has it?
//!
//! Reads answers back from the archive of a crawl's directory: one at a place that a row or an index
//! line names ([`Captures::read`], [`Captures::read_at`]), or all of them, file by file in the order
//! of the visits ([`Captures::all`]). A revisit record has no payload of its own; it is followed to
//! the answer that it refers to, which the indexes find.
//!
//! Only files are read, so it works while the crawl runs: what it writes at this moment is no whole
//! record yet, and is left for the next time. Bodies come out of their chunks and codings by the
//! fetcher's own decoder ([`fetch::unpack`]).
//!
//! Always: memory is that of one record, cut at [`BODY_BYTES_MAX`], and of the index lines of the
//! files that still grow. No byte in an archive makes it panic.
//!
//! Not here: what a page says (`page`), and what is known of a URL beside its answers (the store).

mod index;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use fetch::Unpacked;
use types::{CrawlUrl, ShardId, Timestamp, WarcRef};
use warc::{Algorithm, Dechunker, Digest, Header, HttpHead, Reader, WarcDate};

use crate::dir::{Dir, Mark};
use crate::exit::Fail;
use index::Indexes;

/// No body is read further than this, in or out of its codings: the largest that a crawl stores by
/// default is a PDF of this size.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// How much is read from a file at once.
const BUFFER_BYTES: usize = 128 << 10;
/// The same where one record is wanted: most are shorter.
const PIECE_BYTES: usize = 16 << 10;

/// Where a record lies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The name of the file in the archive's folder.
    pub file: Arc<str>,
    pub offset: u64,
    /// Of its gzip member; 0 if it shares one with others.
    pub length: u64,
}

/// Where the payload of an answer comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// From its own record.
    Own,
    /// From an earlier answer: the page had not changed.
    Earlier(Place),
    /// From an earlier answer that is not in this archive. The body is empty.
    Missing,
}

/// One archived answer.
#[derive(Debug, Clone)]
pub struct Capture {
    pub place: Place,
    /// WARC-Record-ID, with its angle brackets.
    pub record_id: String,
    pub url: CrawlUrl,
    /// When the request left, to the second.
    pub at: Timestamp,
    /// 0 for an answer without a head.
    pub status: u16,
    /// Those that came with the payload, in order: of a revisit those of the earlier answer.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Out of its transfer and content codings.
    pub body: Vec<u8>,
    /// The body is not the whole.
    pub cut: bool,
    /// WARC-Truncated of the record that has the payload.
    pub truncated: Option<String>,
    /// WARC-Payload-Digest as it stands there, such as `sha1:…`; where the record has none, that of
    /// the body as it is stored, as in the index.
    pub digest: Option<String>,
    pub payload: Payload,
}

impl Capture {
    /// The first header of this name, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }

    /// The Content-Type without its parameters, in lower case.
    pub fn media_type(&self) -> Option<String> {
        let value = self.header("content-type")?.split([';', ',']).next()?.trim();
        (!value.is_empty()).then(|| value.to_ascii_lowercase())
    }

    /// For [`page::read`] and [`page::extract`].
    pub fn page_headers(&self) -> Vec<(&str, &[u8])> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect()
    }

    /// Whether this is a robots.txt and not a page. A page that happens to have this path is taken
    /// for one too.
    pub fn is_robots(&self) -> bool {
        self.url.path_and_query() == "/robots.txt"
    }

    pub fn is_revisit(&self) -> bool {
        self.payload != Payload::Own
    }
}

/// A record of an answer as it lies in its file, before any decoding: that is the work that can be done
/// side by side.
#[derive(Debug, Clone)]
pub struct Raw {
    pub place: Place,
    header: Header,
    block: Vec<u8>,
    /// The block goes on in the file.
    cut: bool,
}

impl Raw {
    /// Its memory, about.
    pub fn bytes(&self) -> usize {
        self.block.len()
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.header.fields.get(name)
    }

    pub fn is_revisit(&self) -> bool {
        self.field("WARC-Type") == Some("revisit")
    }

    /// 0 for an answer without a head.
    pub fn status(&self) -> u16 {
        status(&self.block)
    }

    /// The URL in its canonical form; none if it is none that we know to visit.
    pub fn url(&self) -> Option<CrawlUrl> {
        CrawlUrl::parse(self.uri()).ok()
    }

    /// The URL as the record has it.
    pub fn uri(&self) -> &str {
        bare(self.field("WARC-Target-URI").unwrap_or_default())
    }

    pub fn at(&self) -> Option<Timestamp> {
        let date = WarcDate::parse(self.field("WARC-Date")?)?;
        u64::try_from(date.unix_seconds()).ok().map(Timestamp::from_secs)
    }
}

/// WARC 1.0 writes URLs in angle brackets.
fn bare(url: &str) -> &str {
    url.strip_prefix('<').and_then(|url| url.strip_suffix('>')).unwrap_or(url)
}

/// The archive of a crawl's directory, to read.
#[derive(Debug)]
pub struct Captures {
    archive: PathBuf,
    indexes: Indexes,
}

impl Captures {
    /// Fails with a sentence where there is no archive to read.
    pub fn open(dir: &Dir, _mark: &Mark) -> Result<Self, Fail> {
        let archive = dir.archive();
        if !archive.is_dir() {
            return Err(Fail::failure(format!(
                "{} has no archive; one is kept unless `archive.enabled` is off, and where workers \
                 visit for a frontier it lies in their folders",
                dir.root().display()
            )));
        }
        Ok(Self { archive, indexes: Indexes::new(dir.indexes()) })
    }

    /// The answer that a [`WarcRef`] of a shard points at; none if there is no whole record of one.
    pub fn read(&self, shard: ShardId, place: WarcRef) -> anyhow::Result<Option<Capture>> {
        let name = local::ArchiveSettings::new(shard, "lycosa").file_name(place.file);
        self.read_at(&name, place.offset)
    }

    /// The answer whose record begins there; none if there is no whole record of one.
    pub fn read_at(&self, file: &str, offset: u64) -> anyhow::Result<Option<Capture>> {
        match self.raw_at(file, offset)? {
            Some(raw) => self.decode(&raw),
            None => Ok(None),
        }
    }

    /// How an answer begins: its head, and about so many bytes of its body. A revisit is not followed.
    pub fn start(
        &self,
        shard: ShardId,
        place: WarcRef,
        bytes_max: usize,
    ) -> anyhow::Result<Option<Capture>> {
        let name = local::ArchiveSettings::new(shard, "lycosa").file_name(place.file);
        let Some(mut reader) = self.open_at(&name, place.offset)? else { return Ok(None) };
        let say = || format!("read {}", self.archive.join(&name).display());
        let Some(header) = reader.next_record().with_context(say)? else { return Ok(None) };
        if !is_answer(&header) {
            return Ok(None);
        }
        let mut block = Vec::new();
        while block.len() < bytes_max
            && let Some(piece) = reader.chunk().with_context(say)?
        {
            block.extend_from_slice(piece);
        }
        let place = Place { file: name.into(), offset: place.offset, length: place.length };
        let raw = Raw { place, header, block, cut: true };
        let (Some(url), Some(at)) = (raw.url(), raw.at()) else { return Ok(None) };
        let record_id = raw.field("WARC-Record-ID").unwrap_or_default().to_owned();
        let status = raw.status();
        let payload = if raw.is_revisit() { Payload::Missing } else { Payload::Own };
        let Message { headers, body, cut, truncated, digest } = Message::of(&raw, bytes_max);
        let place = raw.place;
        Ok(Some(Capture {
            place,
            record_id,
            url,
            at,
            status,
            headers,
            body,
            cut,
            truncated,
            digest,
            payload,
        }))
    }

    /// All answers, file by file, in order. After an error it goes on behind the damage.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "exports decode side by side; who does not, asks here")
    )]
    pub fn all(&self) -> impl Iterator<Item = anyhow::Result<Capture>> + '_ {
        let decoded = self.raw().map(|raw| raw.and_then(|raw| self.decode(&raw)));
        decoded.filter_map(Result::transpose)
    }

    /// The same, to be decoded elsewhere.
    pub fn raw(&self) -> RawAll {
        RawAll { listed: None, archive: self.archive.clone(), file: None, bytes_done: 0 }
    }

    /// Bytes of all files, for whoever shows how far it is.
    pub fn bytes(&self) -> anyhow::Result<u64> {
        files(&self.archive)?.iter().try_fold(0, |sum, path| {
            let data = path.metadata().with_context(|| format!("look at {}", path.display()))?;
            Ok(sum + data.len())
        })
    }

    /// The names of all files, in order.
    pub fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        files(&self.archive)
    }

    /// Takes a record apart; none if its URL is none that we know to visit.
    pub fn decode(&self, raw: &Raw) -> anyhow::Result<Option<Capture>> {
        let (Some(url), Some(at)) = (raw.url(), raw.at()) else { return Ok(None) };
        let record_id = raw.field("WARC-Record-ID").unwrap_or_default().to_owned();
        let (place, status) = (raw.place.clone(), raw.status());
        let (source, payload) = if raw.is_revisit() {
            match self.original(raw)? {
                Some(earlier) => {
                    (Message::of(&earlier, BODY_BYTES_MAX), Payload::Earlier(earlier.place))
                }
                None => (
                    Message { body: Vec::new(), ..Message::of(raw, BODY_BYTES_MAX) },
                    Payload::Missing,
                ),
            }
        } else {
            (Message::of(raw, BODY_BYTES_MAX), Payload::Own)
        };
        let Message { headers, body, cut, truncated, digest } = source;
        Ok(Some(Capture {
            place,
            record_id,
            url,
            at,
            status,
            headers,
            body,
            cut,
            truncated,
            digest,
            payload,
        }))
    }

    /// The answer whose payload a revisit record refers to.
    fn original(&self, revisit: &Raw) -> anyhow::Result<Option<Raw>> {
        let uri = revisit.field("WARC-Refers-To-Target-URI").map(bare);
        let date = revisit.field("WARC-Refers-To-Date").and_then(WarcDate::parse);
        let Some(date) = date else { return Ok(None) };
        let found = self.indexes.find(uri.unwrap_or(revisit.uri()), date);
        let Some((file, offset)) = found.context("look up what a revisit refers to")? else {
            return Ok(None);
        };
        Ok(self.raw_at(&file, offset)?.filter(|raw| !raw.is_revisit()))
    }

    fn raw_at(&self, file: &str, offset: u64) -> anyhow::Result<Option<Raw>> {
        let Some(mut reader) = self.open_at(file, offset)? else { return Ok(None) };
        match next_answer(&mut reader, &Arc::from(file), true) {
            Err(warc::Error::Truncated { .. }) => Ok(None),
            other => other.with_context(|| format!("read {}", self.archive.join(file).display())),
        }
    }

    /// Stands where a record begins; none if there is no such file.
    fn open_at(&self, file: &str, offset: u64) -> anyhow::Result<Option<Reader<BufReader<File>>>> {
        let path = self.archive.join(file);
        let say = || format!("read {}", path.display());
        let mut input = match File::open(&path) {
            Ok(file) => BufReader::with_capacity(PIECE_BYTES, file),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(say),
        };
        input.seek(SeekFrom::Start(offset)).with_context(say)?;
        Ok(Some(Reader::at(input, offset)))
    }
}

/// An HTTP message out of its record.
struct Message {
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    cut: bool,
    truncated: Option<String>,
    digest: Option<String>,
}

impl Message {
    fn of(raw: &Raw, bytes_max: usize) -> Self {
        let (head, wire) = split(&raw.block);
        let fields = || head.iter().flat_map(HttpHead::fields);
        let values = |wanted: &'static str| {
            let fields = fields().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted));
            fields.map(|(_, value)| value.as_bytes())
        };
        let chunked = values("transfer-encoding")
            .last()
            .is_some_and(|value| value.trim_ascii().to_ascii_lowercase().ends_with(b"chunked"));
        // Other crawlers archive the field and not the chunks.
        let chunked = chunked && is_chunked(wire);
        let codings = values("content-encoding").chain(values("transfer-encoding"));
        let Unpacked { body, cut } = fetch::unpack(wire, chunked, codings, bytes_max);
        let truncated = raw.field("WARC-Truncated").map(str::to_owned);
        Self {
            headers: fields().map(|(name, value)| (name.to_owned(), value.into())).collect(),
            body,
            cut: cut || raw.cut || truncated.is_some(),
            truncated,
            digest: raw.field("WARC-Payload-Digest").map(str::to_owned).or_else(|| {
                let stored = || Digest::of(Algorithm::Sha1, &[wire]).to_string();
                (!raw.cut).then(stored)
            }),
        }
    }
}

fn is_chunked(wire: &[u8]) -> bool {
    let mut dechunker = Dechunker::default();
    dechunker.push(wire, |_| {});
    dechunker.is_sound()
}

/// Head and body; an answer without a head is all body.
fn split(block: &[u8]) -> (Option<HttpHead>, &[u8]) {
    let end = warc::head_len(&[block]).unwrap_or(block.len());
    let (head, body) = block.split_at(end);
    match HttpHead::parse(head) {
        Some(head) => (Some(head), body),
        None => (None, block),
    }
}

fn status(block: &[u8]) -> u16 {
    let (head, _) = split(block);
    head.and_then(|head| head.status().parse().ok()).unwrap_or(0)
}

/// Reads on to the next answer; with `only`, the record here must be one.
fn next_answer(
    reader: &mut Reader<BufReader<File>>,
    file: &Arc<str>,
    only: bool,
) -> Result<Option<Raw>, warc::Error> {
    while let Some(header) = reader.next_record()? {
        if !is_answer(&header) {
            if only {
                return Ok(None);
            }
            continue;
        }
        let mut block = Vec::new();
        let mut cut = false;
        while let Some(piece) = reader.chunk()? {
            let room = BODY_BYTES_MAX - block.len();
            cut |= piece.len() > room;
            block.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        let extent = reader.finish()?;
        let length = extent.and_then(|extent| extent.length).unwrap_or(0);
        let place = Place { file: Arc::clone(file), offset: header.offset, length };
        return Ok(Some(Raw { place, header, block, cut }));
    }
    Ok(None)
}

fn is_answer(header: &Header) -> bool {
    let field = |name| header.fields.get(name).unwrap_or_default();
    let uri = bare(field("WARC-Target-URI"));
    matches!(field("WARC-Type"), "response" | "revisit")
        && (uri.starts_with("http:") || uri.starts_with("https:"))
}

/// The WARC files of a folder, by name: by shard, then in order of time.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let say = || format!("list {}", folder.display());
    let mut found = Vec::new();
    for entry in folder.read_dir().with_context(say)? {
        let path = entry.with_context(say)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".warc.gz") || name.ends_with(".warc") {
            found.push(path);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// All records of answers, file by file.
#[derive(Debug)]
pub struct RawAll {
    /// Files to come; none before the folder was listed.
    listed: Option<VecDeque<PathBuf>>,
    archive: PathBuf,
    file: Option<Open>,
    /// Of the files that are read to their ends.
    bytes_done: u64,
}

#[derive(Debug)]
struct Open {
    path: PathBuf,
    name: Arc<str>,
    reader: Reader<BufReader<File>>,
    bytes: u64,
    at: u64,
}

impl RawAll {
    /// How much of the archive lies behind.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_done + self.file.as_ref().map_or(0, |file| file.at)
    }

    fn step(&mut self) -> anyhow::Result<Option<Raw>> {
        loop {
            let Some(open) = &mut self.file else {
                match self.next_file()? {
                    Some(open) => self.file = Some(open),
                    None => return Ok(None),
                }
                continue;
            };
            match next_answer(&mut open.reader, &open.name, false) {
                Ok(Some(raw)) => {
                    open.at = raw.place.offset + raw.place.length;
                    return Ok(Some(raw));
                }
                Ok(None) => self.end_file(),
                // A crawl that runs is writing there, or one that was killed has stopped there; the
                // next run cuts it off.
                Err(error @ warc::Error::Truncated { .. }) => {
                    tracing::info!(file = %open.path.display(), %error, "read up to there");
                    self.end_file();
                }
                Err(error) => {
                    let path = open.path.clone();
                    let goes_on = matches!(error, warc::Error::Damaged { .. })
                        && matches!(open.reader.resync(), Ok(Some(_)));
                    if !goes_on {
                        self.end_file();
                    }
                    return Err(error).with_context(|| {
                        format!("{}; `lycosa warc check` tells more", path.display())
                    });
                }
            }
        }
    }

    fn next_file(&mut self) -> anyhow::Result<Option<Open>> {
        if self.listed.is_none() {
            self.listed = Some(files(&self.archive)?.into());
        }
        let Some(path) = self.listed.as_mut().and_then(VecDeque::pop_front) else {
            return Ok(None);
        };
        let say = || format!("read {}", path.display());
        let file = File::open(&path).with_context(say)?;
        let bytes = file.metadata().with_context(say)?.len();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().into();
        let reader = Reader::new(BufReader::with_capacity(BUFFER_BYTES, file));
        Ok(Some(Open { path, name, reader, bytes, at: 0 }))
    }

    fn end_file(&mut self) {
        self.bytes_done += self.file.take().map_or(0, |file| file.bytes);
    }
}

impl Iterator for RawAll {
    type Item = anyhow::Result<Raw>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

#[cfg(test)]
mod tests;
