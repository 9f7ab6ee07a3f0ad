//! The index beside each WARC.
//!
//! One line an archived answer, appended as visits commit, so that an index is never far behind
//! its file; sorted (as `LC_ALL=C sort` would) when the file closes or the crawl ends for now.
//!
//! The sink's place in the log is not written down anywhere: answers lie in WARC files in the
//! order of their commits, so the last line says by its own offset what was indexed. Lines are
//! taken up to the first torn one, and whatever the log has beyond is taken again: nothing doubled,
//! nothing missed. [`Sink::cursor`] counts only what has reached the disk.
//!
//! Always: every index but the newest is whole and sorted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use ports::shard_store::VisitLine;
use ports::{ArchiveEnd, PortError, PortResult, Sink, failpoint};
use types::WarcRef;
use warc::cdxj::{Entry, Line};
use warc::{Digest, WarcDate};

use crate::archive::ArchiveSettings;
use crate::files::{failed, sync_folder};
use crate::side;

/// Bytes of lines after which they are synced: some 4,000 lines that the log keeps as long.
const UNSYNCED_BYTES_MAX: u64 = 1 << 20;

/// Writes `indexes/<name of the WARC>.cdxj`.
#[derive(Debug)]
pub struct CdxjSink {
    folder: PathBuf,
    names: ArchiveSettings,
    current: Option<Current>,
    /// File and offset of the last answer that has its line.
    last: Option<(u32, u64)>,
    /// Log positions taken, and safe on the disk.
    taken: u64,
    synced: u64,
}

/// The index that grows.
#[derive(Debug)]
struct Current {
    serial: u32,
    file: File,
    /// Its length up to the last whole line.
    bytes: u64,
    unsynced: u64,
    /// Lines were appended since it was sorted.
    loose: bool,
}

impl CdxjSink {
    /// Opens the indexes in `folder`, which is made if it is not there. What lies beyond the known
    /// end of the archive is dropped, as it was there.
    pub fn open(
        folder: &Path,
        names: ArchiveSettings,
        end: Option<ArchiveEnd>,
    ) -> PortResult<Self> {
        fs::create_dir_all(folder).map_err(|error| failed("make", folder, &error))?;
        let mut sink = Self {
            folder: folder.to_owned(),
            names,
            current: None,
            last: None,
            taken: 0,
            synced: 0,
        };
        let known = |serial: u32| end.is_some_and(|end| serial <= end.file);
        let mut serials = sink.list()?;
        for serial in serials.extract_if(.., |serial| !known(*serial)) {
            let path = sink.path(serial);
            tracing::warn!(file = %path.display(), "the index of an unknown file is dropped");
            fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))?;
        }
        if let (Some(&serial), Some(end)) = (serials.last(), end) {
            sink.resume(serial, end)?;
        }
        Ok(sink)
    }

    fn path(&self, serial: u32) -> PathBuf {
        let name = self.names.file_name(serial);
        let stem = name.strip_suffix(".warc.gz").unwrap_or(&name);
        self.folder.join(format!("{stem}.cdxj"))
    }

    fn list(&self) -> PortResult<Vec<u32>> {
        let mut serials = Vec::new();
        let entries = fs::read_dir(&self.folder);
        for entry in entries.map_err(|error| failed("list", &self.folder, &error))? {
            let entry = entry.map_err(|error| failed("list", &self.folder, &error))?;
            let name = entry.file_name();
            let stem = name.to_str().and_then(|name| name.strip_suffix(".cdxj"));
            serials.extend(stem.and_then(|stem| self.names.serial(&format!("{stem}.warc.gz"))));
        }
        serials.sort_unstable();
        Ok(serials)
    }

    /// Goes on with the newest index: up to its first torn line, without what is unknown.
    fn resume(&mut self, serial: u32, end: ArchiveEnd) -> PortResult<()> {
        let path = self.path(serial);
        // The indexes before it are whole, even if this one has no line yet.
        self.last = serial.checked_sub(1).map(|before| (before, u64::MAX));
        let (good, unknown) = self.survey(serial, &path, end)?;
        if unknown {
            let lines = read_lines(&path, good)?;
            let known = |line: &&[u8]| offset_of(line).is_some_and(|at| is_known(serial, at, end));
            let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).filter(known).collect();
            tracing::info!(file = %path.display(), "lines of unknown answers dropped");
            self.rewrite(&path, &lines)?;
        }
        let open = || {
            let file = OpenOptions::new().append(true).open(&path)?;
            let bytes = if unknown { file.metadata()?.len() } else { good };
            file.set_len(bytes)?;
            // Its last lines may be known to a killed process and the system only.
            file.sync_all()?;
            Ok(Current { serial, file, bytes, unsynced: 0, loose: true })
        };
        let current = open().map_err(|error: io::Error| failed("open", &path, &error))?;
        self.current = Some(current);
        Ok(())
    }

    /// Reads an index: the length of its whole lines, and whether any points beyond `end`. Notes
    /// the last known answer.
    fn survey(&mut self, serial: u32, path: &Path, end: ArchiveEnd) -> PortResult<(u64, bool)> {
        let say = |error: io::Error| failed("read", path, &error);
        let mut input = BufReader::with_capacity(64 << 10, File::open(path).map_err(say)?);
        let mut line = Vec::new();
        let (mut good, mut unknown) = (0, false);
        loop {
            line.clear();
            let read = input.read_until(b'\n', &mut line).map_err(say)?;
            let Some(offset) = offset_of(&line) else { break };
            good += read as u64;
            if is_known(serial, offset, end) {
                self.last = self.last.max(Some((serial, offset)));
            } else {
                unknown = true;
            }
        }
        Ok((good, unknown))
    }

    /// Closes the current index sorted.
    fn finish(&mut self) -> PortResult<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        current.sync().map_err(|error| failed("sync", &self.folder, &error))?;
        self.synced = self.taken;
        if !current.loose {
            return Ok(());
        }
        let (serial, bytes) = (current.serial, current.bytes);
        let path = self.path(serial);
        let mut lines = read_lines(&path, bytes)?;
        if !lines.is_sorted() {
            lines.sort_unstable();
            let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
            self.rewrite(&path, &lines)?;
        }
        // The name stands for another file now; the crawl may go on with it.
        let file = OpenOptions::new().append(true).open(&path);
        let file = file.map_err(|error| failed("open", &path, &error))?;
        self.current = Some(Current { serial, file, bytes, unsynced: 0, loose: false });
        Ok(())
    }

    fn rewrite(&self, path: &Path, lines: &[&[u8]]) -> PortResult<()> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| PortError::corrupt("sort an index", "it has no name"))?;
        side::save(&self.folder, name, &mut |out| {
            lines.iter().try_for_each(|line| out.write_all(line))
        })
    }

    /// The index of a WARC file, begun if it is not the current one.
    fn turn_to(&mut self, serial: u32) -> PortResult<()> {
        if self.current.as_ref().is_some_and(|current| current.serial == serial) {
            return Ok(());
        }
        self.finish()?;
        let path = self.path(serial);
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = file.map_err(|error| failed("begin", &path, &error))?;
        self.current = Some(Current { serial, file, bytes: 0, unsynced: 0, loose: false });
        sync_folder(&self.folder)
    }

    fn append(&mut self, text: &mut String) -> PortResult<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        if text.is_empty() {
            return Ok(());
        }
        let result = current.append(text.as_bytes());
        text.clear();
        failpoint("cdxj_append");
        let path = self.names.file_name(current.serial);
        result.map_err(|error| PortError::io(format!("append to the index of {path}"), &error))
    }
}

impl Current {
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.loose = true;
        side::append_lines(&mut self.file, self.bytes, lines)?;
        self.bytes += lines.len() as u64;
        self.unsynced += lines.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.unsynced > 0 {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(())
    }
}

impl Sink for CdxjSink {
    fn name(&self) -> &'static str {
        "cdxj"
    }

    fn cursor(&self) -> u64 {
        self.synced
    }

    fn feed(&mut self, lines: &[VisitLine]) -> PortResult<()> {
        let mut text = String::new();
        let (mut taken, mut last) = (self.taken, self.last);
        for line in lines {
            if line.seq <= taken {
                continue;
            }
            taken = line.seq;
            let Some(place) = line.warc else { continue };
            // After a restart the log tells again what is here.
            if last >= Some((place.file, place.offset)) {
                continue;
            }
            if self.current.as_ref().is_none_or(|current| current.serial != place.file) {
                self.append(&mut text)?;
                (self.taken, self.last) = (taken - 1, last);
                self.turn_to(place.file)?;
            }
            self.push_line(line, place, &mut text);
            last = Some((place.file, place.offset));
        }
        self.append(&mut text)?;
        (self.taken, self.last) = (taken, last);
        if let Some(current) = &mut self.current
            && current.unsynced >= UNSYNCED_BYTES_MAX
        {
            current.sync().map_err(|error| failed("sync", &self.folder, &error))?;
        }
        if self.current.as_ref().is_none_or(|current| current.unsynced == 0) {
            self.synced = self.taken;
        }
        Ok(())
    }

    fn close(&mut self) -> PortResult<()> {
        self.finish()
    }
}

impl CdxjSink {
    fn push_line(&self, line: &VisitLine, place: WarcRef, text: &mut String) {
        let Some(digest) = line.digest else {
            // The engine gives every archived answer its digest.
            tracing::error!(url = %line.url, "an archived answer without a digest has no line");
            return;
        };
        let seconds = i64::try_from(line.at.secs()).unwrap_or(i64::MAX);
        let status = line.status.to_string();
        let entry = Entry {
            url: line.url.as_str(),
            date: WarcDate::from_unix_seconds(seconds),
            mime: line.content_type.as_deref(),
            status: (line.status > 0).then_some(status.as_str()),
            digest: Digest::Sha1(digest),
            length: place.length,
            offset: place.offset,
            filename: &self.names.file_name(place.file),
        };
        entry.push_line(text);
    }
}

fn is_known(serial: u32, offset: u64, end: ArchiveEnd) -> bool {
    (serial, offset) < (end.file, end.bytes)
}

/// The offset that a whole line names.
fn offset_of(line: &[u8]) -> Option<u64> {
    let line = line.strip_suffix(b"\n")?;
    Line::parse(std::str::from_utf8(line).ok()?)?.offset
}

/// The lines of the first `bytes` of an index. A WARC of 1 GB has some 30 MB of them.
fn read_lines(path: &Path, bytes: u64) -> PortResult<Vec<Vec<u8>>> {
    let mut all = fs::read(path).map_err(|error| failed("read", path, &error))?;
    all.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
    Ok(all.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect())
}
