//! How is something taken out of files, so that everybody else finds what they know?
//!
//! Out of a WARC file: in the place of records comes a filler of the same length (`warc::filler`), so that
//! all others keep their offsets. A revisit record whose payload goes is made whole first: it becomes a full
//! response at the end of its file, and its old place is filled. Out of a file of lines: the lines go.
//!
//! Always: a file is written beside, synced, and takes the old one's place by its name: whatever happens,
//! there is the old file or the new one. The same call again finds nothing to do.
//!
//! Not here: what is to go (`lycosa`), and the rows of the state (`shard::erase`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use ports::{PortError, PortResult, failpoint};
use types::Timestamp;
use warc::{
    Capture, Compressor, FILLER_BYTES_MIN, Framing, Header, HttpHead, Level, Piece, Reader, Record,
    RecordId, WarcDate, filler,
};
use xxhash_rust::xxh3::xxh3_128;

use crate::files::{failed, sync_folder};
use crate::side;

/// Longest block that is made whole: many times what a crawl stores of an answer.
const BLOCK_BYTES_MAX: u64 = 1 << 30;
/// Zeros that are worth a hole in the file.
const HOLE_BYTES_MIN: u64 = 4_096;

/// What is to go, by the URI that a record names.
pub type TakesUri<'a> = dyn Fn(&str) -> bool + 'a;

/// What was found in a WARC file.
#[derive(Debug, Default)]
pub struct Found {
    /// Records that are to go, and their bytes.
    pub records: u64,
    pub bytes: u64,
    /// Where they lie; neighbours are one.
    gaps: Vec<Gap>,
    /// Revisits that stay and refer to what may go.
    orphans: Vec<Orphan>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    offset: u64,
    bytes: u64,
    framing: Framing,
}

/// A revisit that stays while its payload goes.
#[derive(Debug)]
struct Orphan {
    gap: Gap,
    header: Header,
    /// The HTTP head that is its block.
    head: Vec<u8>,
}

/// Hears which records of a file lie elsewhere now, and how long it is with them, before any is used.
pub type NoteMoved<'a> = dyn FnMut(&Path, &[Moved], u64) -> PortResult<()> + 'a;

/// A record that lies elsewhere in its file now.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Moved {
    pub from: u64,
    pub to: u64,
    pub length: u64,
    /// For its index line, which said that it is a revisit.
    pub mime: Option<String>,
}

impl Found {
    pub fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    /// Revisits that must be made whole before anything goes.
    pub fn orphans(&self) -> usize {
        self.orphans.len()
    }

    fn push(&mut self, gap: Gap) {
        self.records += 1;
        self.bytes += gap.bytes;
        match self.gaps.last_mut() {
            Some(last) if last.offset + last.bytes == gap.offset && last.framing == gap.framing => {
                last.bytes += gap.bytes;
            }
            _ => self.gaps.push(gap),
        }
    }
}

/// Looks through a WARC file. Nothing is changed.
///
/// # Errors
/// Kind `Corrupt` if it cannot be read to its end (with `torn`: to the end of what is whole), or what is to
/// go shares a gzip member with others.
pub fn look(path: &Path, takes: &TakesUri<'_>, torn: bool) -> PortResult<Found> {
    let mut found = Found::default();
    match look_through(path, takes, &mut found) {
        Err(warc::Error::Truncated { .. }) if torn => Ok(found),
        Err(error) => Err(damaged(path, &error)),
        Ok(None) => Ok(found),
        Ok(Some(shared)) => Err(PortError::corrupt(
            format!("erase from {}", path.display()),
            format_args!(
                "several records share the gzip member at {shared}; write the file anew with a member \
                 each (`warcio recompress`), then try again"
            ),
        )),
    }
}

/// Whether it can be taken out of these files, before anything is changed: so that an erasure that has begun
/// can be finished. Answers what was found in each.
///
/// # Errors
/// As for [`look`] and [`make_whole`]; and if a record is so short that nothing can take its place.
pub fn check(files: &[PathBuf], takes: &TakesUri<'_>) -> PortResult<Vec<Found>> {
    let mut all = Vec::new();
    for path in files {
        let found = look(path, takes, true)?;
        let too_short = |gap: &&Gap| gap.bytes < FILLER_BYTES_MIN;
        if let Some(gap) = found.gaps.iter().find(too_short) {
            return Err(PortError::corrupt(
                format!("erase from {}", path.display()),
                format_args!("the record at {} is too short for another in its place", gap.offset),
            ));
        }
        all.push(found);
    }
    let orphans = || all.iter().flat_map(|found| &found.orphans);
    if orphans().next().is_some() {
        let payloads = find_payloads(files, orphans())?;
        for orphan in orphans() {
            payload_of(orphan, &payloads)?;
        }
    }
    Ok(all)
}

/// Answers where something that is to go shares a member with others, if it does.
fn look_through(
    path: &Path,
    takes: &TakesUri<'_>,
    found: &mut Found,
) -> Result<Option<u64>, warc::Error> {
    let mut reader = Reader::new(BufReader::with_capacity(128 << 10, File::open(path)?));
    while let Some(header) = reader.next_record()? {
        let uri = uri_of(&header, "WARC-Target-URI");
        let goes = uri.is_some_and(takes);
        let orphaned = !goes
            && header.fields.get("WARC-Type") == Some("revisit")
            && uri_of(&header, "WARC-Refers-To-Target-URI").is_some_and(takes);
        let head = if orphaned { reader.block(BLOCK_BYTES_MAX)? } else { None };
        // A head beyond all bounds is none: then that of the payload's record does.
        let head = head.unwrap_or_default();
        let extent = reader.finish()?;
        if !goes && !orphaned {
            continue;
        }
        let Some((extent, bytes)) = extent.and_then(|extent| Some((extent, extent.length?))) else {
            return Ok(Some(header.offset));
        };
        let gap = Gap { offset: extent.offset, bytes, framing: extent.framing };
        if orphaned {
            found.orphans.push(Orphan { gap, header, head });
        } else {
            found.push(gap);
        }
    }
    Ok(None)
}

fn open(path: &Path) -> PortResult<Reader<BufReader<File>>> {
    let file = File::open(path).map_err(|error| failed("open", path, &error))?;
    Ok(Reader::new(BufReader::with_capacity(128 << 10, file)))
}

fn damaged(path: &Path, error: &warc::Error) -> PortError {
    let doing = format!("read {}", path.display());
    PortError::corrupt(doing, format_args!("{error}; `lycosa warc check` tells more"))
}

/// The URI in a field; some tools put it in angle brackets.
fn uri_of<'a>(header: &'a Header, field: &str) -> Option<&'a str> {
    let uri = header.fields.get(field)?;
    Some(uri.trim().trim_start_matches('<').trim_end_matches('>'))
}

/// Makes the revisits whole that refer to what goes. `files` are all that payloads may lie in. Before a
/// file is replaced, `note` is told what will lie elsewhere in it, and its length then.
///
/// # Errors
/// Kind `Corrupt` if a payload cannot be found: then nothing may be erased.
pub fn make_whole(
    files: &[PathBuf],
    takes: &TakesUri<'_>,
    note: &mut NoteMoved<'_>,
) -> PortResult<u64> {
    let mut orphans: Vec<(&PathBuf, Vec<Orphan>)> = Vec::new();
    for path in files {
        let found = look(path, takes, false)?;
        if !found.orphans.is_empty() {
            orphans.push((path, found.orphans));
        }
    }
    if orphans.is_empty() {
        return Ok(0);
    }
    let payloads = find_payloads(files, orphans.iter().flat_map(|(_, orphans)| orphans))?;
    let mut made = 0;
    for (path, orphans) in orphans {
        made += orphans.len() as u64;
        make_whole_in(path, &orphans, &payloads, note)?;
    }
    Ok(made)
}

/// How an orphan names its payload: by the record, and by URI and date, which is all that some tools write.
fn names_of(header: &Header) -> Vec<String> {
    let mut names: Vec<String> =
        header.fields.get("WARC-Refers-To").map(str::to_owned).into_iter().collect();
    let uri = uri_of(header, "WARC-Refers-To-Target-URI");
    let date = header.fields.get("WARC-Refers-To-Date");
    names.extend(uri.zip(date).map(|(uri, date)| format!("{date} {uri}")));
    names
}

/// Where the payloads lie, by each of their names.
fn find_payloads<'a>(
    files: &[PathBuf],
    orphans: impl Iterator<Item = &'a Orphan>,
) -> PortResult<BTreeMap<String, (PathBuf, u64)>> {
    let wanted: BTreeSet<String> = orphans.flat_map(|orphan| names_of(&orphan.header)).collect();
    let mut places = BTreeMap::new();
    for path in files {
        let mut reader = open(path)?;
        loop {
            let header = match reader.next_record() {
                Ok(Some(header)) => header,
                // What is not whole is no payload.
                Ok(None) | Err(warc::Error::Truncated { .. }) => break,
                Err(error) => return Err(damaged(path, &error)),
            };
            if header.fields.get("WARC-Type") != Some("response") {
                continue;
            }
            let id = header.fields.get("WARC-Record-ID").map(str::to_owned);
            let date = header.fields.get("WARC-Date");
            let dated = uri_of(&header, "WARC-Target-URI").zip(date);
            let dated = dated.map(|(uri, date)| format!("{date} {uri}"));
            for name in [id, dated].into_iter().flatten().filter(|name| wanted.contains(name)) {
                places.entry(name).or_insert_with(|| (path.clone(), header.offset));
            }
        }
    }
    Ok(places)
}

/// Where the payload of an orphan lies.
fn payload_of<'a>(
    orphan: &Orphan,
    payloads: &'a BTreeMap<String, (PathBuf, u64)>,
) -> PortResult<&'a (PathBuf, u64)> {
    let place = names_of(&orphan.header).into_iter().find_map(|name| payloads.get(&name));
    place.ok_or_else(|| {
        let uri = uri_of(&orphan.header, "WARC-Target-URI").unwrap_or_default();
        PortError::corrupt(
            "make a revisit whole",
            format_args!(
                "the payload of {uri} is in no file here, and what it refers to is to be erased; bring \
                 its file back, or forget {uri} first"
            ),
        )
    })
}

fn make_whole_in(
    path: &Path,
    orphans: &[Orphan],
    payloads: &BTreeMap<String, (PathBuf, u64)>,
    note: &mut NoteMoved<'_>,
) -> PortResult<()> {
    let doing = || format!("make a revisit whole in {}", path.display());
    let gaps: Vec<Gap> = orphans.iter().map(|orphan| orphan.gap).collect();
    let draft = Draft::begin(path)?;
    let mut end = draft.fill(&gaps)?;
    let mut moved = Vec::new();
    let mut compressor = Compressor::new(Level::DEFAULT);
    for orphan in orphans {
        let (file, offset) = payload_of(orphan, payloads)?;
        let block = read_block(file, *offset)?;
        let mut member = Vec::new();
        let mime = whole(orphan, &block, &mut compressor, &mut member)
            .map_err(|error| PortError::corrupt(doing(), error))?;
        draft.append(&member)?;
        let length = member.len() as u64;
        moved.push(Moved { from: orphan.gap.offset, to: end, length, mime });
        end += length;
    }
    note(path, &moved, end)?;
    draft.finish()?;
    failpoint("forget_whole");
    Ok(())
}

fn read_block(path: &Path, offset: u64) -> PortResult<Vec<u8>> {
    let mut file = File::open(path).map_err(|error| failed("open", path, &error))?;
    file.seek(SeekFrom::Start(offset)).map_err(|error| failed("read", path, &error))?;
    let mut reader = Reader::at(BufReader::with_capacity(128 << 10, file), offset);
    let mut read = || {
        reader.next_record()?;
        reader.block(BLOCK_BYTES_MAX)
    };
    let block = read().map_err(|error| damaged(path, &error))?;
    block
        .ok_or_else(|| PortError::corrupt(format!("read {}", path.display()), "too large a record"))
}

/// The revisit as a response with a body. Its own head goes before that where it fits: it may be a 304, or
/// speak of another coding than the one in which the body is kept. Answers its media type.
fn whole(
    orphan: &Orphan,
    block: &[u8],
    compressor: &mut Compressor,
    out: &mut Vec<u8>,
) -> Result<Option<String>, warc::Error> {
    let theirs = warc::head_len(&[block]).unwrap_or(0);
    let (their_head, body) = block.split_at(theirs);
    let codings = |head: &[u8]| {
        let head = HttpHead::parse(head)?;
        let said = |name: &str| head.get(name).map(|value| value.trim().to_ascii_lowercase());
        Some((head.status().to_owned(), said("Transfer-Encoding"), said("Content-Encoding")))
    };
    let fits = codings(&orphan.head).is_some() && codings(&orphan.head) == codings(their_head);
    let head = if fits { &orphan.head[..] } else { their_head };
    let fields = &orphan.header.fields;
    let parse = |name: &str| fields.get(name).and_then(RecordId::parse);
    let protocols: Vec<&str> = fields.all("WARC-Protocol").collect();
    let capture = Capture {
        uri: uri_of(&orphan.header, "WARC-Target-URI").unwrap_or_default(),
        date: fields
            .get("WARC-Date")
            .and_then(WarcDate::parse)
            .unwrap_or_else(|| WarcDate::from_unix_seconds(0)),
        warcinfo: parse("WARC-Warcinfo-ID"),
        ip: fields.get("WARC-IP-Address").and_then(|ip| ip.parse().ok()),
        protocols: &protocols,
    };
    let id = parse("WARC-Record-ID")
        .unwrap_or_else(|| RecordId::derive(xxh3_128(&orphan.head), "made whole"));
    let body = [body];
    let mut record = Record::response(&capture, id, head, &body);
    for other in fields.all("WARC-Concurrent-To").filter_map(RecordId::parse) {
        record = record.concurrent_to(other);
    }
    let record = record.build()?;
    match orphan.gap.framing {
        Framing::Gzip => {
            compressor.member(&record, out);
        }
        Framing::Plain => record.write_plain(out),
    }
    Ok(record.http_head().and_then(HttpHead::mime).map(str::to_owned))
}

/// Takes records out of a WARC file. Answers whether there were any.
pub fn erase(path: &Path, takes: &TakesUri<'_>) -> PortResult<Found> {
    let found = look(path, takes, false)?;
    if found.is_empty() {
        return Ok(found);
    }
    let draft = Draft::begin(path)?;
    draft.fill(&found.gaps)?;
    draft.finish()?;
    failpoint("forget_warc");
    Ok(found)
}

/// A file that is to take the place of another.
struct Draft<'a> {
    path: &'a Path,
    draft: PathBuf,
    from: File,
    to: File,
}

impl<'a> Draft<'a> {
    fn begin(path: &'a Path) -> PortResult<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".tmp");
        let draft = path.with_file_name(name);
        let from = File::open(path).map_err(|error| failed("open", path, &error))?;
        let to = File::create(&draft).map_err(|error| failed("begin", &draft, &error))?;
        Ok(Self { path, draft, from, to })
    }

    /// Copies the file with fillers in these places, which are in order. Answers its length.
    fn fill(&self, gaps: &[Gap]) -> PortResult<u64> {
        let date = Timestamp::from(std::time::SystemTime::now());
        let date = WarcDate::from_unix_seconds(i64::try_from(date.secs()).unwrap_or(0));
        let say = |error: io::Error| failed("write", &self.draft, &error);
        let (mut from, mut to) = (&self.from, &self.to);
        let mut at = 0;
        for gap in gaps {
            at += io::copy(&mut from.take(gap.offset - at), &mut to).map_err(say)?;
            let name = format!("{} {}", self.path.display(), gap.offset);
            let id = RecordId::derive(xxh3_128(name.as_bytes()), "erased");
            let pieces = filler(gap.bytes, gap.framing, id, date).ok_or_else(|| {
                PortError::corrupt(
                    format!("erase from {}", self.path.display()),
                    format_args!("the record at {} is too short for another", gap.offset),
                )
            })?;
            for piece in &pieces {
                self.put(piece).map_err(say)?;
            }
            at += gap.bytes;
            from.seek(SeekFrom::Start(at)).map_err(say)?;
        }
        at += io::copy(&mut from, &mut to).map_err(say)?;
        Ok(at)
    }

    fn put(&self, piece: &Piece) -> io::Result<()> {
        let mut to = &self.to;
        match piece {
            Piece::Bytes(bytes) => to.write_all(bytes),
            // A filler ends with its checksum, so a hole never ends the file.
            Piece::Zeros(zeros) if *zeros >= HOLE_BYTES_MIN => {
                let zeros = i64::try_from(*zeros).map_err(io::Error::other)?;
                to.seek(SeekFrom::Current(zeros)).map(drop)
            }
            Piece::Zeros(zeros) => io::copy(&mut io::repeat(0).take(*zeros), &mut to).map(drop),
        }
    }

    fn append(&self, bytes: &[u8]) -> PortResult<()> {
        (&self.to).write_all(bytes).map_err(|error| failed("write", &self.draft, &error))
    }

    fn finish(self) -> PortResult<()> {
        let put = || {
            self.to.set_permissions(self.from.metadata()?.permissions())?;
            self.to.sync_all()?;
            failpoint("forget_draft");
            fs::rename(&self.draft, self.path)
        };
        put().map_err(|error: io::Error| failed("replace", self.path, &error))?;
        self.path.parent().map_or(Ok(()), sync_folder)
    }
}

/// What becomes of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Stays,
    Goes,
    /// This comes in its place, with its line end.
    Becomes(Vec<u8>),
}

/// Judges the lines of a file; answers how many go or become others. `keep` false only counts.
pub fn lines(path: &Path, judge: &mut dyn FnMut(&[u8]) -> Fate, keep: bool) -> PortResult<u64> {
    let say = |error: io::Error| failed("read", path, &error);
    let open = || match File::open(path) {
        Ok(file) => Ok(Some(BufReader::with_capacity(64 << 10, file))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(say(error)),
    };
    let mut changed = 0;
    let Some(mut input) = open()? else { return Ok(0) };
    each_line(&mut input, &mut |line| {
        changed += u64::from(judge(line) != Fate::Stays);
        Ok(())
    })
    .map_err(say)?;
    if changed == 0 || !keep {
        return Ok(changed);
    }
    let Some(mut input) = open()? else { return Ok(0) };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let draft = path.with_file_name(name);
    let mut put = || {
        let out = File::create(&draft)?;
        out.set_permissions(fs::metadata(path)?.permissions())?;
        let mut out = BufWriter::with_capacity(64 << 10, out);
        each_line(&mut input, &mut |line| match judge(line) {
            Fate::Stays => out.write_all(line),
            Fate::Goes => Ok(()),
            Fate::Becomes(other) => out.write_all(&other),
        })?;
        out.flush()?;
        out.get_ref().sync_all()?;
        fs::rename(&draft, path)
    };
    put().map_err(|error: io::Error| failed("replace", path, &error))?;
    path.parent().map_or(Ok(()), sync_folder)?;
    failpoint("forget_lines");
    Ok(changed)
}

fn each_line(
    input: &mut impl io::BufRead,
    each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        each(&line)?;
    }
}

/// Removes what a death on the way has left beside the files of a folder.
pub fn clear_drafts(folder: &Path) -> PortResult<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| failed("list", folder, &error))?,
    };
    for entry in entries {
        let entry = entry.map_err(|error| failed("list", folder, &error))?;
        if let Some(name) = entry.file_name().to_str().filter(|name| name.ends_with(".tmp")) {
            side::remove(folder, name)?;
        }
    }
    Ok(())
}
