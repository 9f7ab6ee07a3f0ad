//! How does the table grow with a crawl, and what does a crash cost it?
//!
//! A Parquet file cannot be appended to, so rows wait in a side file beside the state, one JSON line each,
//! appended as visits commit. When there are enough of them, when they are an hour old, or when the crawl
//! ends for now, the side file is put aside and a thread of its own makes Parquet of it: a part for
//! each subset, under a temporary name until it is whole. A part is named by the first place in the log
//! that it can hold, so making it again after a crash makes the same file under the same name.
//!
//! The sink's place in the log is that of the last row, or what the first line of the side file says. The
//! log is needed no further back than the side file was synced, however long a part waits.
//!
//! ```text
//! state/table-00.rows   {"after":4711}, then rows; the place in the log
//! state/table-00.full   the same, put aside; parts are being made of it
//! table/crawl=…/subset=warc/part-00-000000004712.parquet
//! ```
//!
//! Always: every row is in exactly one of the three, or will be after the next opening; a part under its
//! final name is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use ports::shard_store::VisitLine;
use ports::{PortError, PortResult, Sink, failpoint};
use serde::{Deserialize, Serialize};
use types::{ShardId, Timestamp, WarcRef};
use warc::Digest;
use warc::cdxj::REVISIT_MIME;

use crate::url_table::{Row, Subset, UrlTable};

/// How long rows of a slow crawl wait for company.
const AGE_SECS_MAX: u64 = 3_600;
/// Lines of the log after which rows are synced; it keeps as many for us.
const UNSYNCED_LINES_MAX: u64 = 4_096;

/// What is read of an answer for its row, beyond what the log has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    pub redirect: Option<String>,
    pub detected: Option<String>,
    pub charset: Option<String>,
}

/// Looks at an archived answer.
pub type Look = Box<dyn Fn(&VisitLine, WarcRef) -> PortResult<Seen> + Send>;

/// Where the table of a shard lies.
#[derive(Debug, Clone)]
pub struct TablePlace {
    /// The folder `table`.
    pub table: PathBuf,
    /// Where the side files lie.
    pub state: PathBuf,
    pub shard: ShardId,
    /// The crawl's name.
    pub crawl: String,
    /// The name of a WARC file by its serial number, below the crawl's directory.
    pub warc_name: fn(ShardId, u32) -> String,
}

impl TablePlace {
    fn rows(&self) -> PathBuf {
        self.state.join(format!("table-{:02}.rows", self.shard.0))
    }

    fn full(&self) -> PathBuf {
        self.state.join(format!("table-{:02}.full", self.shard.0))
    }

    fn folder(&self, subset: Subset) -> PathBuf {
        let crawl = format!("crawl={}", self.crawl);
        self.table.join(crawl).join(format!("subset={}", subset.as_str()))
    }

    /// The part that begins behind a place in the log.
    fn part(&self, subset: Subset, after: u64) -> PathBuf {
        let name = format!("part-{:02}-{:012}.parquet", self.shard.0, after + 1);
        self.folder(subset).join(name)
    }
}

/// The first line of a side file.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Head {
    /// The place in the log behind which its rows begin.
    after: u64,
}

/// A line of a side file.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    seq: u64,
    #[serde(flatten)]
    row: Row,
}

/// What a side file holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Held {
    after: u64,
    /// The place of its last row, or `after`.
    last: u64,
    rows: u64,
    /// In whole lines.
    bytes: u64,
    /// When the oldest row was fetched.
    since: Option<Timestamp>,
}

/// Writes the table of one shard.
pub struct TableSink {
    place: TablePlace,
    look: Look,
    /// Rows of a part.
    rows_max: u64,
    file: File,
    held: Held,
    taken: u64,
    synced: u64,
    unsynced_lines: u64,
    merging: Option<JoinHandle<PortResult<()>>>,
}

impl TableSink {
    /// Opens the side file; what a killed process has put aside becomes parts first.
    pub fn open(place: TablePlace, rows_max: u64, look: Look) -> PortResult<Self> {
        for folder in [&place.table, &place.state] {
            fs::create_dir_all(folder).map_err(|error| failed("make", folder, &error))?;
        }
        drop_drafts(&place)?;
        let aside = survey(&place.full())?;
        if aside.is_some() {
            make_parts(&place)?;
        }
        let held = match survey(&place.rows())? {
            Some(held) => held,
            None => begin(&place, aside.map_or(0, |aside| aside.last))?,
        };
        let path = place.rows();
        let open = || -> io::Result<File> {
            let file = OpenOptions::new().append(true).open(&path)?;
            file.set_len(held.bytes)?;
            // Its last lines may be known to a killed process and the system only.
            file.sync_all()?;
            Ok(file)
        };
        let file = open().map_err(|error| failed("open", &path, &error))?;
        let (taken, synced) = (held.last, held.last);
        let (unsynced_lines, merging) = (0, None);
        Ok(Self { place, look, rows_max, file, held, taken, synced, unsynced_lines, merging })
    }

    fn row(&self, line: &VisitLine) -> PortResult<Option<Row>> {
        let Some(place) = line.warc else { return Ok(None) };
        let seen = (self.look)(line, place)?;
        let mime = line.content_type.as_deref().map(str::to_owned);
        let has_payload = mime.as_deref() != Some(REVISIT_MIME);
        let page = line.page.as_deref();
        let text = page.and_then(|page| page.text.as_ref());
        let digest = line.digest.map(|digest| Digest::Sha1(digest).to_string());
        let row = Row {
            subset: Subset::of(&line.url, line.status, has_payload),
            url: line.url.clone(),
            at: line.at,
            status: line.status,
            redirect: seen.redirect,
            digest: digest.map(|text| text.rsplit(':').next().unwrap_or(&text).to_owned()),
            mime,
            detected: seen.detected,
            charset: seen.charset,
            language: text.and_then(|text| text.language.as_deref()).map(str::to_owned),
            truncated: page.and_then(|page| page.truncated).map(|why| why.as_str().to_owned()),
            filename: (self.place.warc_name)(self.place.shard, place.file),
            offset: place.offset,
            length: place.length,
            segment: format!("{:02}", self.place.shard.0),
        };
        if !row.fits() {
            tracing::warn!(
                url = %row.url, offset = row.offset, length = row.length,
                "a record beyond 2 GB of its file has no row in the table"
            );
            return Ok(None);
        }
        Ok(Some(row))
    }

    fn append(&mut self, lines: &[u8]) -> PortResult<()> {
        let result = self.file.write_all(lines);
        if result.is_err()
            && let Err(error) = self.file.set_len(self.held.bytes)
        {
            tracing::error!(%error, "a torn row could not be cut");
        }
        result.map_err(|error| failed("append to", &self.place.rows(), &error))?;
        self.held.bytes += lines.len() as u64;
        failpoint("table_append");
        Ok(())
    }

    fn sync(&mut self) -> PortResult<()> {
        let result = self.file.sync_data();
        result.map_err(|error| failed("sync", &self.place.rows(), &error))?;
        self.unsynced_lines = 0;
        self.synced = self.taken;
        Ok(())
    }

    fn is_full(&self, now: Timestamp) -> bool {
        let age = self.held.since.map_or(0, |since| now.since(since).as_secs());
        self.held.rows >= self.rows_max || age >= AGE_SECS_MAX
    }

    /// Puts the side file aside and begins another. Parts are made beside the crawl.
    fn rotate(&mut self) -> PortResult<()> {
        if self.held.rows == 0 {
            return Ok(());
        }
        self.wait()?;
        self.sync()?;
        let (rows, full) = (self.place.rows(), self.place.full());
        fs::rename(&rows, &full).map_err(|error| failed("put aside", &rows, &error))?;
        sync_folder(&self.place.state)?;
        failpoint("table_aside");
        self.held = begin(&self.place, self.taken)?;
        let file = OpenOptions::new().append(true).open(&rows);
        self.file = file.map_err(|error| failed("open", &rows, &error))?;
        let place = self.place.clone();
        let spawned =
            std::thread::Builder::new().name("table".to_owned()).spawn(move || make_parts(&place));
        let thread =
            spawned.map_err(|error| PortError::io("begin a thread for the table", &error))?;
        self.merging = Some(thread);
        Ok(())
    }

    /// Waits for the parts that are being made.
    fn wait(&mut self) -> PortResult<()> {
        match self.merging.take() {
            Some(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            None => Ok(()),
        }
    }
}

impl Sink for TableSink {
    fn name(&self) -> &'static str {
        "table"
    }

    fn cursor(&self) -> u64 {
        self.synced
    }

    fn feed(&mut self, lines: &[VisitLine]) -> PortResult<()> {
        let mut text = Vec::new();
        let (mut rows, mut since) = (0, self.held.since);
        let Some(newest) = lines.last() else { return Ok(()) };
        for line in lines.iter().filter(|line| line.seq > self.taken) {
            let Some(row) = self.row(line)? else { continue };
            since = Some(since.map_or(row.at, |since| since.min(row.at)));
            serde_json::to_writer(&mut text, &Line { seq: line.seq, row })
                .expect("plain values, into memory");
            text.push(b'\n');
            rows += 1;
        }
        if rows > 0 {
            self.append(&text)?;
        }
        self.held.rows += rows;
        self.held.since = since;
        self.taken = self.taken.max(newest.seq);
        self.unsynced_lines += lines.len() as u64;
        if self.unsynced_lines >= UNSYNCED_LINES_MAX {
            self.sync()?;
        }
        if self.merging.as_ref().is_some_and(JoinHandle::is_finished) {
            self.wait()?;
        }
        if self.is_full(newest.at) {
            self.rotate()?;
        }
        Ok(())
    }

    fn close(&mut self) -> PortResult<()> {
        self.sync()?;
        self.rotate()?;
        self.wait()
    }
}

impl std::fmt::Debug for TableSink {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("TableSink").field("held", &self.held).finish_non_exhaustive()
    }
}

/// Begins a side file behind a place in the log.
fn begin(place: &TablePlace, after: u64) -> PortResult<Held> {
    let path = place.rows();
    let draft = path.with_extension("rows.tmp");
    let mut text = serde_json::to_vec(&Head { after }).expect("a number, into memory");
    text.push(b'\n');
    let put = || -> io::Result<()> {
        let mut file = File::create(&draft)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&draft, &path)
    };
    put().map_err(|error| failed("begin", &path, &error))?;
    sync_folder(&place.state)?;
    Ok(Held { after, last: after, bytes: text.len() as u64, ..Held::default() })
}

/// Reads a side file up to its first torn line; none if it is not there.
fn survey(path: &Path) -> PortResult<Option<Held>> {
    #[derive(Deserialize)]
    struct Sight {
        seq: u64,
        at: Timestamp,
    }
    let say = |error: io::Error| failed("read", path, &error);
    let mut input = match File::open(path) {
        Ok(file) => BufReader::with_capacity(128 << 10, file),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(say(error)),
    };
    let mut line = Vec::new();
    let head = input.read_until(b'\n', &mut line).map_err(say)?;
    let Ok(Head { after }) = serde_json::from_slice(&line) else {
        let name = path.display();
        return Err(PortError::corrupt(format!("read {name}"), "it does not begin as ours do"));
    };
    let mut held = Held { after, last: after, bytes: head as u64, ..Held::default() };
    loop {
        line.clear();
        let read = input.read_until(b'\n', &mut line).map_err(say)? as u64;
        if !line.ends_with(b"\n") {
            return Ok(Some(held));
        }
        let Ok(Sight { seq, at }) = serde_json::from_slice(&line) else { return Ok(Some(held)) };
        held.last = held.last.max(seq);
        held.since = Some(held.since.map_or(at, |since| since.min(at)));
        held.rows += 1;
        held.bytes += read;
    }
}

/// Makes Parquet of the side file that was put aside, and removes it.
fn make_parts(place: &TablePlace) -> PortResult<()> {
    let path = place.full();
    let say = |error: io::Error| failed("read", &path, &error);
    let Some(held) = survey(&path)? else { return Ok(()) };
    for subset in Subset::ALL {
        // Once for each subset: one group of rows in memory, and a file of a hundred megabytes is read
        // faster than it is packed.
        let file = File::open(&path).map_err(say)?;
        let mut lines = BufReader::with_capacity(128 << 10, file);
        let mut part: Option<UrlTable<BufWriter<File>>> = None;
        let final_name = place.part(subset, held.after);
        let draft = draft_of(&final_name);
        let cannot = |error: crate::Error| {
            PortError::new(kind_of(&error), format!("write {}", final_name.display()), error)
        };
        let mut line = Vec::new();
        lines.skip_until(b'\n').map_err(say)?;
        for _ in 0..held.rows {
            line.clear();
            lines.read_until(b'\n', &mut line).map_err(say)?;
            let Line { row, .. } = serde_json::from_slice(&line)
                .map_err(|error| PortError::corrupt(format!("read {}", path.display()), error))?;
            if row.subset != subset {
                continue;
            }
            let table = match &mut part {
                Some(table) => table,
                None => {
                    let folder = place.folder(subset);
                    let made = fs::create_dir_all(&folder).and_then(|()| File::create(&draft));
                    let file = made.map_err(|error| failed("begin", &draft, &error))?;
                    let out = BufWriter::with_capacity(256 << 10, file);
                    part.insert(UrlTable::part(out).map_err(cannot)?)
                }
            };
            table.push(&row).map_err(cannot)?;
        }
        let Some(table) = part else { continue };
        let out = table.finish().map_err(cannot)?;
        let settle = || -> io::Result<()> {
            out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
            fs::rename(&draft, &final_name)
        };
        settle().map_err(|error| failed("finish", &final_name, &error))?;
        sync_folder(&place.folder(subset))?;
        failpoint("table_part");
    }
    fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))?;
    sync_folder(&place.state)
}

pub(crate) fn draft_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

/// Removes what a killed process was writing.
fn drop_drafts(place: &TablePlace) -> PortResult<()> {
    let ours = format!("part-{:02}-", place.shard.0);
    for subset in Subset::ALL {
        let folder = place.folder(subset);
        let say = |error: io::Error| failed("list", &folder, &error);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(say(error)),
        };
        for entry in entries {
            let path = entry.map_err(say)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(&ours) && name.ends_with(".tmp") {
                fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))?;
            }
        }
    }
    Ok(())
}

pub(crate) fn kind_of(error: &crate::Error) -> ports::PortErrorKind {
    // The crate tells causes of the disk as boxed errors.
    match std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>()) {
        Some(cause) => PortError::io("", cause).kind,
        None => ports::PortErrorKind::Io,
    }
}

pub(crate) fn failed(doing: &str, path: &Path, error: &io::Error) -> PortError {
    PortError::io(format!("{doing} {}", path.display()), error)
}

/// The names in a folder survive a power loss after this.
pub(crate) fn sync_folder(folder: &Path) -> PortResult<()> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| failed("sync", folder, &error))
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::RowAccessor as _;
    use types::{CrawlUrl, VisitId};

    use super::*;

    fn line(seq: u64) -> VisitLine {
        let path = if seq.is_multiple_of(10) { "robots.txt".to_owned() } else { seq.to_string() };
        VisitLine {
            seq,
            visit: VisitId(seq),
            url: CrawlUrl::parse(&format!("http://a.test/{path}")).unwrap(),
            at: Timestamp::from_secs(1_793_867_400 + seq),
            status: if seq.is_multiple_of(7) { 404 } else { 200 },
            content_type: Some("text/html".into()),
            digest: Some([7; 20]),
            // Some visits have no answer.
            warc: (!seq.is_multiple_of(5) || seq.is_multiple_of(10)).then_some(WarcRef {
                file: 0,
                offset: seq * 100,
                length: 100,
            }),
            page: None,
        }
    }

    fn place(folder: &Path) -> TablePlace {
        TablePlace {
            table: folder.join("table"),
            state: folder.join("state"),
            shard: ShardId(3),
            crawl: "c".to_owned(),
            warc_name: |shard, serial| format!("archive/x-{shard}-{serial}.warc.gz"),
        }
    }

    fn open(folder: &Path) -> TableSink {
        let look = |_: &VisitLine, _| Ok(Seen { charset: Some("UTF-8".into()), ..Seen::default() });
        TableSink::open(place(folder), 1_000, Box::new(look)).unwrap()
    }

    fn feed(sink: &mut TableSink, seqs: std::ops::RangeInclusive<u64>) {
        let lines: Vec<_> = seqs.map(line).collect();
        sink.feed(&lines).unwrap();
    }

    /// All offsets in the parts, by subset.
    fn offsets(folder: &Path) -> Vec<(Subset, Vec<i32>)> {
        let place = place(folder);
        let all = Subset::ALL.into_iter().map(|subset| {
            let mut found = Vec::new();
            for entry in fs::read_dir(place.folder(subset)).into_iter().flatten() {
                let path = entry.unwrap().path();
                assert_eq!(path.extension().unwrap(), "parquet", "{path:?}");
                let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
                let rows = reader.get_row_iter(None).unwrap();
                found.extend(rows.map(|row| row.unwrap().get_int(27).unwrap() / 100));
            }
            found.sort_unstable();
            (subset, found)
        });
        all.collect()
    }

    fn expected(upto: u64) -> Vec<(Subset, Vec<i32>)> {
        let of = |wanted: Subset| {
            let seqs = (1..=upto).filter(|&seq| {
                let line = line(seq);
                line.warc.is_some() && Subset::of(&line.url, line.status, true) == wanted
            });
            (wanted, seqs.map(|seq| i32::try_from(seq).unwrap()).collect())
        };
        Subset::ALL.into_iter().map(of).collect()
    }

    #[test]
    fn every_capture_has_one_row_in_its_subset_however_often_the_log_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut sink = open(folder.path());
        feed(&mut sink, 1..=30);
        feed(&mut sink, 20..=50);
        assert_eq!(sink.cursor(), 0, "nothing is on the disk for sure");
        sink.close().unwrap();
        assert_eq!(sink.cursor(), 50);
        assert_eq!(offsets(folder.path()), expected(50));
        drop(sink);
        let mut sink = open(folder.path());
        assert_eq!(sink.cursor(), 50);
        feed(&mut sink, 40..=90);
        sink.close().unwrap();
        sink.close().unwrap();
        assert_eq!(offsets(folder.path()), expected(90));
    }

    #[test]
    fn rows_of_a_slow_crawl_do_not_wait_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let mut sink = open(folder.path());
        feed(&mut sink, 1..=9);
        let mut late = line(11);
        late.at = Timestamp::from_secs(1_793_867_400 + AGE_SECS_MAX + 1);
        sink.feed(&[late]).unwrap();
        sink.wait().unwrap();
        let rows: usize = offsets(folder.path()).iter().map(|(_, rows)| rows.len()).sum();
        assert_eq!(rows, 9);
        assert_eq!(survey(&place(folder.path()).rows()).unwrap().unwrap().after, 11);
    }

    #[test]
    fn a_death_at_any_step_costs_no_row_and_doubles_none() {
        type Death = fn(&TablePlace, &[u8]);
        let deaths: [(&str, Death); 4] = [
            ("in the middle of a row", |place, rows| {
                fs::write(place.rows(), [rows, b"{\"seq\":99,\"ur"].concat()).unwrap();
            }),
            ("when the side file was put aside", |place, _| {
                fs::rename(place.rows(), place.full()).unwrap();
            }),
            ("while parts were made", |place, rows| {
                fs::rename(place.rows(), place.full()).unwrap();
                begin(place, 40).unwrap();
                make_parts(place).unwrap();
                // One part is a draft still, another is there.
                let part = place.part(Subset::Warc, 0);
                fs::write(draft_of(&part), b"PAR1").unwrap();
                fs::remove_file(part).unwrap();
                fs::write(place.full(), rows).unwrap();
            }),
            ("before the side file was removed", |place, rows| {
                fs::rename(place.rows(), place.full()).unwrap();
                begin(place, 40).unwrap();
                make_parts(place).unwrap();
                fs::write(place.full(), rows).unwrap();
            }),
        ];
        for (when, death) in deaths {
            let folder = tempfile::tempdir().unwrap();
            let mut sink = open(folder.path());
            feed(&mut sink, 1..=40);
            sink.sync().unwrap();
            drop(sink);
            let place = place(folder.path());
            let rows = fs::read(place.rows()).unwrap();
            death(&place, &rows);
            let mut sink = open(folder.path());
            // The log tells what lies behind the cursor again; line 40 has a row, so nothing is lost.
            assert_eq!(sink.cursor(), 40, "{when}");
            feed(&mut sink, 41..=60);
            sink.close().unwrap();
            assert_eq!(offsets(folder.path()), expected(60), "{when}");
        }
    }
}
