//! The depot of a worker: a folder with an archive, its index, and what is not settled yet.
//!
//! What is put down lies in one file, `unsettled`, together with the end that the archive had then.
//! Settling appends the committed visits to the archive and removes the file. After a crash in
//! between, the archive is cut back to that end and all of it is done once more.
//!
//! It is written twice, once here and once to the archive. The alternative, appending first and
//! cutting out what the frontier refuses, would rewrite files that others may be reading.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ports::shard_store::VisitLine;
use ports::{
    Archive as _, ArchiveEnd, Blob, Depot, Parcel, PortError, PortResult, Sink as _, codec,
};
use serde::{Deserialize, Serialize};
use types::{CrawlUrl, Timestamp, VisitId, WarcRef};

use crate::archive::ArchiveSettings;
use crate::cdxj::CdxjSink;
use crate::files::{WarcFiles, failed};
use crate::side;
use crate::spool::Part;

const UNSETTLED: &str = "unsettled";
const END: &str = "end";

/// What was put down, as it is written. The bytes of all visits follow in the file, in order.
#[derive(Debug, Serialize, Deserialize)]
struct Unsettled {
    end: Option<ArchiveEnd>,
    notes: Vec<Note>,
}

/// A parcel without its bytes.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    visit: VisitId,
    url: CrawlUrl,
    at: Timestamp,
    status: u16,
    content_type: Option<Box<str>>,
    digest: Option<[u8; 20]>,
    bytes: u64,
    response: Range<usize>,
}

impl Note {
    fn of(parcel: &Parcel) -> Self {
        let Parcel { visit, url, at, status, content_type, digest, bytes, response } = parcel;
        Self {
            visit: *visit,
            url: url.clone(),
            at: *at,
            status: *status,
            content_type: content_type.clone(),
            digest: *digest,
            bytes: bytes.bytes(),
            response: response.clone(),
        }
    }

    fn with(self, bytes: Blob) -> Parcel {
        let Self { visit, url, at, status, content_type, digest, response, .. } = self;
        Parcel { visit, url, at, status, content_type, digest, bytes, response }
    }
}

#[derive(Debug)]
pub struct FolderDepot {
    folder: PathBuf,
    archive: WarcFiles,
    index: CdxjSink,
    unsettled: Vec<Parcel>,
    /// Numbers the lines of the index for its sink.
    lines: u64,
}

impl FolderDepot {
    /// Opens the depot in a folder that is there: `archive/`, `indexes/`, and two small files.
    pub fn open(folder: &Path, names: ArchiveSettings) -> PortResult<Self> {
        let unsettled = read_unsettled(folder)?;
        let known: Option<Option<ArchiveEnd>> = match &unsettled {
            Some((end, _)) => Some(*end),
            None => read(folder, END)?,
        };
        let mut archive = WarcFiles::open(&folder.join("archive"), names.clone())?;
        if known.is_none() && archive.bytes_written() > 0 {
            let why = "the file `end` beside archive/ is gone, which says how far it counts; restore \
                       it, or move archive/ away to begin anew";
            return Err(PortError::corrupt("open the archive", why));
        }
        archive.cut(known.flatten())?;
        let index = CdxjSink::open(&folder.join("indexes"), names, archive.end())?;
        let parcels = unsettled.map(|(_, parcels)| parcels).unwrap_or_default();
        Ok(Self { folder: folder.to_owned(), archive, index, unsettled: parcels, lines: 0 })
    }

    fn line(&mut self, parcel: Parcel, place: WarcRef) -> VisitLine {
        self.lines += 1;
        VisitLine {
            seq: self.lines,
            visit: parcel.visit,
            url: parcel.url,
            at: parcel.at,
            status: parcel.status,
            content_type: parcel.content_type,
            digest: parcel.digest,
            warc: Some(WarcRef {
                file: place.file,
                offset: place.offset + parcel.response.start as u64,
                length: parcel.response.len() as u64,
            }),
            // The frontier has it.
            page: None,
        }
    }
}

fn write<T: Serialize>(folder: &Path, name: &str, value: &T) -> PortResult<()> {
    let bytes = codec::encode(value);
    side::save(folder, name, &mut |out| out.write_all(&bytes))
}

fn read<T: serde::de::DeserializeOwned>(folder: &Path, name: &str) -> PortResult<Option<T>> {
    let path = folder.join(name);
    match std::fs::read(&path) {
        Ok(bytes) => codec::decode(name, &bytes).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", &path, &error)),
    }
}

/// The length of the notes, the notes, then the bytes of all parcels.
fn write_unsettled(folder: &Path, end: Option<ArchiveEnd>, parcels: &[Parcel]) -> PortResult<()> {
    let notes = codec::encode(&Unsettled { end, notes: parcels.iter().map(Note::of).collect() });
    side::save(folder, UNSETTLED, &mut |out| {
        out.write_all(&(notes.len() as u64).to_le_bytes())?;
        out.write_all(&notes)?;
        parcels.iter().try_for_each(|parcel| parcel.bytes.read(&mut |piece| out.write_all(piece)))
    })
}

/// What was put down; its bytes stay in the file.
fn read_unsettled(folder: &Path) -> PortResult<Option<(Option<ArchiveEnd>, Vec<Parcel>)>> {
    let path = folder.join(UNSETTLED);
    let file = match File::open(&path) {
        Ok(file) => Arc::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", &path, &error)),
    };
    let mut length = [0; 8];
    let mut notes = Vec::new();
    let mut read = || {
        (&*file).read_exact(&mut length)?;
        (&*file).take(u64::from_le_bytes(length)).read_to_end(&mut notes)
    };
    read().map_err(|error| failed("read", &path, &error))?;
    let unsettled: Unsettled = codec::decode(UNSETTLED, &notes)?;
    let mut at = (length.len() + notes.len()) as u64;
    let parcels = unsettled.notes.into_iter().map(|note| {
        let part = Part { file: Arc::clone(&file), at, bytes: note.bytes };
        at += note.bytes;
        note.with(Blob::Stored(Arc::new(part)))
    });
    Ok(Some((unsettled.end, parcels.collect())))
}

impl Depot for FolderDepot {
    fn unsettled(&self) -> Vec<VisitId> {
        self.unsettled.iter().map(|parcel| parcel.visit).collect()
    }

    fn put(&mut self, parcels: Vec<Parcel>) -> PortResult<()> {
        if !self.unsettled.is_empty() {
            return Err(PortError::corrupt("put visits down", "others are not settled"));
        }
        if parcels.is_empty() {
            return Ok(());
        }
        write_unsettled(&self.folder, self.archive.end(), &parcels)?;
        self.unsettled = parcels;
        Ok(())
    }

    fn settle(&mut self, committed: &[bool], now: Timestamp) -> PortResult<()> {
        let parcels = std::mem::take(&mut self.unsettled);
        if parcels.is_empty() {
            return Ok(());
        }
        let mut kept: Vec<Parcel> = parcels
            .into_iter()
            .zip(committed.iter().chain(std::iter::repeat(&false)))
            .filter_map(|(parcel, committed)| committed.then_some(parcel))
            .collect();
        if !kept.is_empty() {
            let blobs: Vec<_> =
                kept.iter_mut().map(|parcel| [std::mem::take(&mut parcel.bytes)]).collect();
            let groups: Vec<&[Blob]> = blobs.iter().map(<[_; 1]>::as_slice).collect();
            let places = self.archive.append(&groups, now)?;
            self.archive.sync()?;
            let lines: Vec<VisitLine> = kept
                .into_iter()
                .zip(places.into_iter().flatten())
                .map(|(parcel, place)| self.line(parcel, place))
                .collect();
            self.index.feed(&lines)?;
            write(&self.folder, END, &self.archive.end())?;
        }
        side::remove(&self.folder, UNSETTLED)
    }

    fn close(&mut self) -> PortResult<()> {
        self.index.close()?;
        self.archive.sync()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use types::{CrawlUrl, ShardId};

    use super::*;

    fn open(folder: &Path) -> FolderDepot {
        FolderDepot::open(folder, ArchiveSettings::new(ShardId(0), "test")).unwrap()
    }

    fn visit(n: u64) -> VisitId {
        VisitId::new(ShardId(0), n)
    }

    fn parcel(n: u64) -> Parcel {
        let bytes = format!("<{n}>").into_bytes();
        Parcel {
            visit: visit(n),
            url: CrawlUrl::parse(&format!("http://a.test/{n}")).unwrap(),
            at: Timestamp::from_secs(n),
            status: 200,
            content_type: None,
            digest: Some([7; 20]),
            response: 0..bytes.len(),
            bytes: bytes.into(),
        }
    }

    /// What the archive holds behind its first record, and the URLs in the index.
    fn content(folder: &Path) -> (String, Vec<String>) {
        let read = |sub: &str| {
            let mut text = String::new();
            for entry in fs::read_dir(folder.join(sub)).unwrap() {
                text.push_str(&String::from_utf8_lossy(&fs::read(entry.unwrap().path()).unwrap()));
            }
            text
        };
        let archive = read("archive");
        let at = archive.find("<1>").map_or(String::new(), |at| archive[at..].to_owned());
        let index = read("indexes");
        let urls = index.lines().filter_map(|line| line.split(' ').next());
        (at, urls.map(str::to_owned).collect())
    }

    #[test]
    fn only_what_is_committed_is_archived() {
        let folder = tempfile::tempdir().unwrap();
        let mut depot = open(folder.path());
        depot.put(vec![parcel(1), parcel(2), parcel(3)]).unwrap();
        depot.settle(&[true, false, true], Timestamp::from_secs(9)).unwrap();
        depot.put(vec![parcel(4)]).unwrap();
        depot.settle(&[false], Timestamp::from_secs(9)).unwrap();
        depot.close().unwrap();
        let whole = ("<1><3>".to_owned(), vec!["test,a)/1".to_owned(), "test,a)/3".to_owned()]);
        assert_eq!(content(folder.path()), whole);
        assert!(open(folder.path()).unsettled().is_empty());
        assert_eq!(content(folder.path()), whole);
    }

    #[test]
    fn what_was_put_down_outlives_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let mut depot = open(folder.path());
        depot.put(vec![parcel(1)]).unwrap();
        depot.settle(&[true], Timestamp::from_secs(9)).unwrap();
        depot.put(vec![parcel(2), parcel(3)]).unwrap();
        assert!(depot.put(vec![parcel(4)]).is_err(), "the others would be forgotten");
        drop(depot);
        let mut depot = open(folder.path());
        assert_eq!(depot.unsettled(), [visit(2), visit(3)]);
        depot.settle(&[false, true], Timestamp::from_secs(9)).unwrap();
        depot.close().unwrap();
        assert_eq!(content(folder.path()).0, "<1><3>");
    }

    #[test]
    fn a_death_while_settling_is_mended_without_doubles() {
        let folder = tempfile::tempdir().unwrap();
        let mut depot = open(folder.path());
        depot.put(vec![parcel(1), parcel(2)]).unwrap();
        let unsettled = fs::read(folder.path().join(UNSETTLED)).unwrap();
        depot.settle(&[true, true], Timestamp::from_secs(9)).unwrap();
        drop(depot);
        // As if the last step, removing the file, had not happened.
        fs::write(folder.path().join(UNSETTLED), unsettled).unwrap();
        let mut depot = open(folder.path());
        assert_eq!(depot.unsettled(), [visit(1), visit(2)]);
        depot.settle(&[true, true], Timestamp::from_secs(9)).unwrap();
        depot.close().unwrap();
        let (archive, index) = content(folder.path());
        assert_eq!((archive.as_str(), index.len()), ("<1><2>", 2));
    }
}
