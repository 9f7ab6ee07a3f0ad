//! One line a page, for whoever wants to know what a crawl has found: `pages/pages.jsonl`.
//!
//! The form is that of WACZ (`json-pages-1.0`): a line that says so, then a line each with id, URL, time
//! and title, and more that its readers pass over. A page that is fetched again and is another one gets
//! another line; one that is the same does not. Whose copy it is, is told as it was known when the line
//! was written.
//!
//! All shards write one file. A line names its shard and its place in that shard's log, so that the
//! file itself says what it has, whatever happens: it is taken up to the first torn line, and the log
//! tells the rest again. A note beside the state says up to where that was read before.
//!
//! Always: whole lines under the final name, also on a full disk.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use ports::shard_store::VisitLine;
use ports::{PortResult, Sink, codec, failpoint};
use serde::{Deserialize, Serialize};
use types::{ShardId, TextFacts};

use crate::duplicates::{Duplicates, Standing};
use crate::erase::Fate;
use crate::files::failed;
use crate::side;

/// The name of the file.
pub const FILE: &str = "pages.jsonl";
const NOTE: &str = "pages.note";

const HEADER: &str = r#"{"format":"json-pages-1.0","id":"pages","title":"All pages"}"#;

/// Lines of the log after which ours are synced; it keeps as many for us. Not all of them are pages.
const UNSYNCED_LINES_MAX: u64 = 4_096;

/// Bytes that are read at the next open at most: half a second's work.
const UNNOTED_BYTES_MAX: u64 = 64 << 20;

/// The file, shared by the sinks of all shards.
#[derive(Debug, Clone)]
pub struct Pages(Arc<Mutex<Writer>>);

#[derive(Debug)]
struct Writer {
    path: PathBuf,
    /// Where the note lies.
    state: PathBuf,
    file: File,
    /// Its length, in whole lines.
    bytes: u64,
    /// Lines of logs that were taken since it was synced.
    unsynced_lines: u64,
    /// Bytes that were appended since the note.
    unnoted: u64,
    /// How far the log of each shard is taken, and is on the disk.
    taken: BTreeMap<ShardId, u64>,
    synced: BTreeMap<ShardId, u64>,
    duplicates: Option<Duplicates>,
}

/// How far the file was read before, and what it has up to there.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Note {
    bytes: u64,
    taken: BTreeMap<ShardId, u64>,
}

/// A line's place in a log.
#[derive(Deserialize)]
struct Place {
    shard: u16,
    seq: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    id: String,
    url: &'a str,
    ts: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime: Option<&'a str>,
    bytes: u64,
    depth: u16,
    seed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    simhash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate_of: Option<String>,
    /// `exact` or `near`.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<&'static str>,
    noindex: bool,
    nofollow: bool,
    noarchive: bool,
    shard: u16,
    seq: u64,
}

impl Pages {
    /// Opens `pages.jsonl` in `folder`, or begins it; the folder is made if it is not there. What copies
    /// are is asked of `duplicates`, which must have been fed with a line before this is.
    pub fn open(folder: &Path, state: &Path, duplicates: Option<Duplicates>) -> PortResult<Self> {
        fs::create_dir_all(folder).map_err(|error| failed("make", folder, &error))?;
        let path = folder.join(FILE);
        if !path.exists() {
            side::save(folder, FILE, &mut |out| writeln!(out, "{HEADER}"))?;
        }
        let say = |error: io::Error| failed("open", &path, &error);
        let file = OpenOptions::new().append(true).open(&path).map_err(say)?;
        let note = read_note(state)?.filter(|note| {
            // A file that became shorter is another one, such as that of a backup.
            file.metadata().is_ok_and(|data| note.bytes <= data.len())
        });
        let Note { bytes, taken } = survey(&path, note.unwrap_or_default())?;
        let cut = || -> io::Result<()> {
            file.set_len(bytes)?;
            // Its last lines may be known to a killed process and the system only.
            file.sync_all()
        };
        cut().map_err(say)?;
        let state = state.to_owned();
        let (unsynced_lines, unnoted, synced) = (0, 0, taken.clone());
        Ok(Self(Arc::new(Mutex::new(Writer {
            path,
            state,
            file,
            bytes,
            unsynced_lines,
            unnoted,
            taken,
            synced,
            duplicates,
        }))))
    }

    /// What reads the log of a shard.
    pub fn sink(&self, shard: ShardId) -> PagesSink {
        PagesSink { pages: self.clone(), shard }
    }

    /// The length of the file now, in whole lines; so much of it never changes.
    pub fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.0.lock().expect("no panic while locked")
    }
}

/// Takes pages out of the list of a crawl at rest, whose logs are empty: how far they were taken stays known
/// by the note. `keep` false only counts.
pub fn erase(
    folder: &Path,
    state: &Path,
    judge: &mut dyn FnMut(&[u8]) -> Fate,
    keep: bool,
) -> PortResult<u64> {
    let path = folder.join(FILE);
    if !keep || !path.exists() {
        return crate::erase::lines(&path, judge, false);
    }
    let length = || fs::metadata(&path).map(|data| data.len());
    let say = |error: io::Error| failed("read", &path, &error);
    let before = length().map_err(say)?;
    let note = read_note(state)?.filter(|note| note.bytes <= before).unwrap_or_default();
    let Note { taken, .. } = survey(&path, note)?;
    // It names a byte of a file that is about to be another.
    side::remove(state, NOTE)?;
    let changed = crate::erase::lines(&path, judge, true)?;
    let note = codec::encode(&Note { bytes: length().map_err(say)?, taken });
    side::save(state, NOTE, &mut |out| out.write_all(&note))?;
    Ok(changed)
}

fn read_note(state: &Path) -> PortResult<Option<Note>> {
    let path = state.join(NOTE);
    match fs::read(&path) {
        Ok(bytes) => codec::decode("the note on pages.jsonl", &bytes).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", &path, &error)),
    }
}

/// Reads the file from where a note ends: the length of its whole lines, and what they have.
fn survey(path: &Path, mut note: Note) -> PortResult<Note> {
    let say = |error: io::Error| failed("read", path, &error);
    let mut file = File::open(path).map_err(say)?;
    file.seek(SeekFrom::Start(note.bytes)).map_err(say)?;
    let mut input = BufReader::with_capacity(64 << 10, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.read_until(b'\n', &mut line).map_err(say)? as u64;
        if !line.ends_with(b"\n") {
            return Ok(note);
        }
        // The first line names the format.
        if note.bytes > 0 {
            let Ok(Place { shard, seq }) = serde_json::from_slice(&line) else { return Ok(note) };
            let taken = note.taken.entry(ShardId(shard)).or_default();
            *taken = seq.max(*taken);
        }
        note.bytes += read;
    }
}

impl Writer {
    fn feed(&mut self, shard: ShardId, lines: &[VisitLine]) -> PortResult<()> {
        let Some(last) = lines.last() else { return Ok(()) };
        let taken = self.taken.get(&shard).copied().unwrap_or(0);
        let mut text = Vec::new();
        for line in lines.iter().filter(|line| line.seq > taken) {
            self.push(shard, line, &mut text)?;
        }
        if !text.is_empty() {
            self.append(&text).map_err(|error| failed("append to", &self.path, &error))?;
            failpoint("pages_append");
        }
        self.taken.insert(shard, last.seq.max(taken));
        self.unsynced_lines += lines.len() as u64;
        if self.unsynced_lines >= UNSYNCED_LINES_MAX {
            self.sync()?;
        }
        if self.unnoted >= UNNOTED_BYTES_MAX {
            self.note()?;
        }
        Ok(())
    }

    fn push(&self, shard: ShardId, line: &VisitLine, out: &mut Vec<u8>) -> PortResult<()> {
        let Some(page) = line.new_page() else { return Ok(()) };
        let standing = self.duplicates.as_ref().map(|store| store.standing(&line.url));
        let (duplicate_of, duplicate) = match standing.transpose()?.flatten() {
            Some(Standing::Copy { of, exact, .. }) => {
                (Some(of.to_string()), Some(if exact { "exact" } else { "near" }))
            }
            _ => (None, None),
        };
        let text = page.text.as_ref();
        let line = Line {
            id: line.visit.to_string(),
            url: line.url.as_str(),
            ts: line.at.rfc3339(),
            title: page.title.as_deref(),
            status: line.status,
            mime: line.content_type.as_deref(),
            bytes: page.body_bytes,
            depth: page.depth,
            seed: page.seed,
            language: text.and_then(|text| text.language.as_deref()),
            words: text.map(|text| text.words),
            text_sha256: text.map(TextFacts::digest_hex),
            simhash: text.map(TextFacts::simhash_hex),
            duplicate_of,
            duplicate,
            truncated: page.truncated.map(types::outcome::Truncated::as_str),
            noindex: page.noindex,
            nofollow: page.nofollow,
            noarchive: page.noarchive,
            shard: shard.0,
            seq: line.seq,
        };
        serde_json::to_writer(&mut *out, &line).expect("plain values, into memory");
        out.push(b'\n');
        Ok(())
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        side::append_lines(&mut self.file, self.bytes, lines)?;
        self.bytes += lines.len() as u64;
        self.unnoted += lines.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> PortResult<()> {
        self.file.sync_data().map_err(|error| failed("sync", &self.path, &error))?;
        self.unsynced_lines = 0;
        self.synced.clone_from(&self.taken);
        Ok(())
    }

    /// Spares the next open the lines so far, which are on the disk after this.
    fn note(&mut self) -> PortResult<()> {
        self.sync()?;
        let note = codec::encode(&Note { bytes: self.bytes, taken: self.taken.clone() });
        side::save(&self.state, NOTE, &mut |out| out.write_all(&note))?;
        self.unnoted = 0;
        Ok(())
    }
}

/// Writes the pages of one shard.
#[derive(Debug)]
pub struct PagesSink {
    pages: Pages,
    shard: ShardId,
}

impl Sink for PagesSink {
    fn name(&self) -> &'static str {
        "pages"
    }

    fn cursor(&self) -> u64 {
        self.pages.lock().synced.get(&self.shard).copied().unwrap_or(0)
    }

    fn feed(&mut self, lines: &[VisitLine]) -> PortResult<()> {
        self.pages.lock().feed(self.shard, lines)
    }

    fn close(&mut self) -> PortResult<()> {
        let mut writer = self.pages.lock();
        if writer.unnoted > 0 { writer.note() } else { writer.sync() }
    }
}
