//! Where does each member go, and when does the next file begin?
//!
//! The [`ports::Archive`] over any [`Files`]: real ones in a folder, or those of a simulated disk.
//! Members are appended in order; a file that is full is synced and the next one begun with a
//! warcinfo record of its own. Groups stay whole.
//!
//! Always: what a failed append has written is cut off again, so a file ends with a whole member
//! whenever nobody is writing.

use std::io::{self, BufRead};

use ports::{Archive, ArchiveEnd, Blob, PortError, PortResult, Stored, failpoint};
use types::{ShardId, Timestamp, WarcRef};
use warc::{Compressor, Level, Record, RecordId, WarcDate, WarcFields};
use xxhash_rust::xxh3::xxh3_128;

/// The files of one archive, by serial number.
pub trait Files: Send {
    /// Serial numbers and sizes of all that are there, in order.
    fn list(&self) -> PortResult<Vec<(u32, u64)>>;

    /// Begins a new file; it is the one that is appended to.
    fn create(&mut self, serial: u32) -> PortResult<()>;

    /// Goes on with a file that is there.
    fn resume(&mut self, serial: u32) -> PortResult<()>;

    /// Appends to the current file.
    fn append(&mut self, parts: &[&[u8]]) -> PortResult<()>;

    /// The current file, and the names of all files, survive a power loss after this.
    fn sync(&mut self) -> PortResult<()>;

    /// Cuts a file to its first bytes.
    fn truncate(&mut self, serial: u32, bytes: u64) -> PortResult<()>;

    fn remove(&mut self, serial: u32) -> PortResult<()>;

    fn read(&self, serial: u32) -> PortResult<Box<dyn BufRead + '_>>;
}

/// How files are named and how large they become.
#[derive(Debug, Clone)]
pub struct ArchiveSettings {
    pub shard: ShardId,
    /// What names begin with.
    pub prefix: String,
    /// A file that would become larger than this is closed and the next one begun.
    pub file_bytes_max: u64,
    /// What each file's warcinfo record says, beside its name.
    pub info: Vec<(String, String)>,
    pub level: Level,
}

impl ArchiveSettings {
    pub fn new(shard: ShardId, prefix: &str) -> Self {
        Self {
            shard,
            prefix: prefix.to_owned(),
            file_bytes_max: 1_000_000_000,
            info: vec![("software".into(), concat!("lycosa/", env!("CARGO_PKG_VERSION")).into())],
            level: Level::DEFAULT,
        }
    }

    pub fn file_name(&self, serial: u32) -> String {
        format!("{}{serial:05}.warc.gz", self.stem())
    }

    /// The serial number in a name of ours.
    pub fn serial(&self, name: &str) -> Option<u32> {
        let digits = name.strip_prefix(&self.stem())?.strip_suffix(".warc.gz")?;
        let serial = digits.parse().ok()?;
        // Only the form we write: `+7` and `7` parse too.
        (self.file_name(serial) == name).then_some(serial)
    }

    fn stem(&self) -> String {
        format!("{}-{:02}-", self.prefix, self.shard.0)
    }
}

/// An archive of WARC files.
#[derive(Debug)]
pub struct WarcArchive<F> {
    files: F,
    settings: ArchiveSettings,
    compressor: Compressor,
    end: Option<ArchiveEnd>,
    /// The first serial number that no file has.
    next_file: u32,
    bytes: u64,
    synced: bool,
}

impl<F: Files> WarcArchive<F> {
    /// [`Archive::cut`] comes next.
    pub fn new(files: F, settings: ArchiveSettings) -> PortResult<Self> {
        let listed = files.list()?;
        let compressor = Compressor::new(settings.level);
        Ok(Self {
            end: None,
            next_file: listed.last().map_or(0, |(serial, _)| serial + 1),
            bytes: listed.iter().map(|(_, bytes)| bytes).sum(),
            synced: true,
            files,
            settings,
            compressor,
        })
    }

    /// Closes the current file and begins the next one.
    fn rotate(&mut self, now: Timestamp) -> PortResult<()> {
        if self.end.is_some() {
            self.files.sync()?;
        }
        failpoint("rotation");
        let serial = self.next_file;
        self.files.create(serial)?;
        self.next_file = serial + 1;
        self.end = Some(ArchiveEnd { file: serial, bytes: 0 });
        let info = self.warcinfo(serial, now)?;
        self.write(&[&info])
    }

    fn warcinfo(&mut self, serial: u32, now: Timestamp) -> PortResult<Vec<u8>> {
        let name = self.settings.file_name(serial);
        let mut fields = WarcFields::new();
        for (field, value) in &self.settings.info {
            fields.push(field, value);
        }
        fields.push("format", "WARC File Format 1.1");
        // The name and the moment make it the only one of its kind.
        let id =
            RecordId::derive(xxh3_128(format!("{name} {}", now.micros()).as_bytes()), "warcinfo");
        let date = WarcDate::from_unix_seconds(i64::try_from(now.secs()).unwrap_or(i64::MAX));
        let record = Record::warcinfo(id, date, &name, &fields)
            .build()
            .map_err(|error| PortError::corrupt("write a warcinfo record", error))?;
        let mut member = Vec::new();
        self.compressor.member(&record, &mut member);
        Ok(member)
    }

    fn write(&mut self, parts: &[&[u8]]) -> PortResult<()> {
        self.synced = false;
        self.files.append(parts)?;
        let size: u64 = parts.iter().map(|part| part.len() as u64).sum();
        self.bytes += size;
        if let Some(end) = &mut self.end {
            end.bytes += size;
        }
        Ok(())
    }

    fn append_group(&mut self, group: &[Blob], now: Timestamp) -> PortResult<Vec<WarcRef>> {
        let size: u64 = group.iter().map(Blob::bytes).sum();
        let full = |end: ArchiveEnd| end.bytes + size > self.settings.file_bytes_max;
        // A group that is larger than a file has one of its own.
        if self.end.is_none_or(full) {
            self.rotate(now)?;
        }
        let end = self.end.expect("a file was begun above");
        self.write_group(group)?;
        let mut offset = end.bytes;
        let refs = group.iter().map(|member| {
            let length = member.bytes();
            let place = WarcRef { file: end.file, offset, length };
            offset += length;
            place
        });
        Ok(refs.collect())
    }

    /// What is in memory goes in one write; what is not, piece by piece.
    fn write_group(&mut self, group: &[Blob]) -> PortResult<()> {
        let mut parts: Vec<&[u8]> = Vec::with_capacity(group.len());
        for member in group {
            match member {
                Blob::Memory(bytes) => parts.push(bytes),
                Blob::Stored(stored) => {
                    self.write(&std::mem::take(&mut parts))?;
                    self.write_stored(&**stored)?;
                }
            }
        }
        self.write(&parts)
    }

    fn write_stored(&mut self, stored: &dyn Stored) -> PortResult<()> {
        let mut failed = None;
        let read = ports::spool::read(stored, &mut |piece| {
            self.write(&[piece]).map_err(|error| {
                failed = Some(error);
                io::Error::other("the archive")
            })
        });
        match (failed, read) {
            (Some(error), _) => Err(error),
            (None, read) => read.map_err(|error| PortError::io("keep a large answer", &error)),
        }
    }

    /// Takes back what came after `end`, and the files from number `keep` on.
    fn cut_back(&mut self, end: Option<ArchiveEnd>, keep: u32) -> PortResult<()> {
        for (serial, bytes) in self.files.list()? {
            if serial >= keep {
                tracing::warn!(file = self.settings.file_name(serial), bytes, "unknown file cut");
                self.files.remove(serial)?;
            }
        }
        if let Some(end) = end {
            self.keep_until(end)?;
        }
        // Beyond what is there, also if files that are known have been moved away.
        let listed = self.files.list()?;
        self.next_file = keep.max(listed.last().map_or(0, |(serial, _)| serial + 1));
        self.bytes = listed.iter().map(|(_, bytes)| bytes).sum();
        self.files.sync()?;
        self.synced = true;
        Ok(())
    }

    /// Goes on at the known end of the last known file.
    fn keep_until(&mut self, end: ArchiveEnd) -> PortResult<()> {
        let listed = self.files.list()?;
        let size = listed.iter().find(|(serial, _)| *serial == end.file).map(|(_, bytes)| *bytes);
        let file = self.settings.file_name(end.file);
        self.end = match size {
            Some(size) if size >= end.bytes => {
                if size > end.bytes {
                    tracing::info!(file, bytes = size - end.bytes, "unknown tail cut");
                    self.files.truncate(end.file, end.bytes)?;
                }
                self.files.resume(end.file)?;
                Some(end)
            }
            // Only a power loss without syncing (`store.fsync = "off"`) or a hand on the folder
            // does this. What is left stays valid; the crawl goes on in a new file.
            Some(size) => {
                let tail = warc::last_complete(self.files.read(end.file)?, 0)
                    .map_err(|error| PortError::corrupt(format!("read {file}"), error))?;
                tracing::error!(file, size, known = end.bytes, "an archive file has lost bytes");
                self.files.truncate(end.file, tail.end)?;
                None
            }
            None => {
                tracing::warn!(file, "the last archive file is not there any more");
                None
            }
        };
        Ok(())
    }
}

impl<F: Files> Archive for WarcArchive<F> {
    fn cut(&mut self, end: Option<ArchiveEnd>) -> PortResult<()> {
        self.cut_back(end, end.map_or(0, |end| end.file + 1))
    }

    fn append(&mut self, groups: &[&[Blob]], now: Timestamp) -> PortResult<Vec<Vec<WarcRef>>> {
        let before = (self.end, self.next_file);
        let places = groups.iter().map(|group| self.append_group(group, now)).collect();
        if let Err(error) = &places {
            tracing::warn!(%error, "append failed, its part is cut");
            // The first error is the one to tell.
            if let Err(error) = self.undo(before) {
                tracing::error!(%error, "the archive could not be cut back");
            }
        } else {
            failpoint("warc_append");
        }
        places
    }

    fn sync(&mut self) -> PortResult<()> {
        if !self.synced {
            self.files.sync()?;
            self.synced = true;
        }
        Ok(())
    }

    fn end(&self) -> Option<ArchiveEnd> {
        self.end
    }

    fn bytes_written(&self) -> u64 {
        self.bytes
    }

    fn file_name(&self, file: u32) -> String {
        self.settings.file_name(file)
    }
}

impl<F: Files> WarcArchive<F> {
    /// Takes back an append that failed: the files that it began, and what it wrote to the one
    /// before. Older files are none of its business.
    fn undo(&mut self, (end, first): (Option<ArchiveEnd>, u32)) -> PortResult<()> {
        let begun = self.next_file;
        self.end = None;
        let result = self.cut_back(end, first);
        if result.is_err() {
            // Nobody may append behind a torn end: the next append begins a new file.
            self.end = None;
            self.next_file = self.next_file.max(begun);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    use ports::PortErrorKind;

    /// Files on a disk with so many bytes of room; a write that does not fit leaves a part.
    #[derive(Default)]
    struct SmallDisk {
        files: std::collections::BTreeMap<u32, Vec<u8>>,
        current: u32,
        room: usize,
    }

    fn full() -> PortError {
        PortError::io("append", &io::Error::from(io::ErrorKind::StorageFull))
    }

    impl Files for SmallDisk {
        fn list(&self) -> PortResult<Vec<(u32, u64)>> {
            Ok(self.files.iter().map(|(serial, file)| (*serial, file.len() as u64)).collect())
        }

        fn create(&mut self, serial: u32) -> PortResult<()> {
            self.files.insert(serial, Vec::new());
            self.resume(serial)
        }

        fn resume(&mut self, serial: u32) -> PortResult<()> {
            self.current = serial;
            Ok(())
        }

        fn append(&mut self, parts: &[&[u8]]) -> PortResult<()> {
            let used: usize = self.files.values().map(Vec::len).sum();
            let all = parts.concat();
            let fits = all.len().min(self.room - used);
            let file = self.files.get_mut(&self.current).unwrap();
            file.extend_from_slice(&all[..fits]);
            if fits < all.len() { Err(full()) } else { Ok(()) }
        }

        fn sync(&mut self) -> PortResult<()> {
            Ok(())
        }

        fn truncate(&mut self, serial: u32, bytes: u64) -> PortResult<()> {
            self.files.get_mut(&serial).unwrap().truncate(bytes as usize);
            Ok(())
        }

        fn remove(&mut self, serial: u32) -> PortResult<()> {
            self.files.remove(&serial);
            Ok(())
        }

        fn read(&self, serial: u32) -> PortResult<Box<dyn BufRead + '_>> {
            Ok(Box::new(Cursor::new(&self.files[&serial])))
        }
    }

    #[test]
    fn a_full_disk_cuts_back_to_the_last_good_end_at_every_size() {
        let group = [vec![1; 40], vec![2; 60]].map(Blob::from);
        let whole = [vec![1; 40], vec![2; 60]].concat();
        for room in (0..900).step_by(7) {
            let mut settings = ArchiveSettings::new(ShardId(0), "t");
            settings.file_bytes_max = 500;
            let disk = SmallDisk { room, ..SmallDisk::default() };
            let mut archive = WarcArchive::new(disk, settings).unwrap();
            archive.cut(None).unwrap();
            let mut kept = 0;
            // One after another, then three at once, until the disk is full.
            let error = loop {
                let groups = vec![group.as_slice(); if kept < 3 { 1 } else { 3 }];
                let before = archive.end();
                match archive.append(&groups, Timestamp::ZERO) {
                    Ok(places) => kept += places.len(),
                    Err(error) => {
                        assert_eq!(archive.end(), before);
                        break error;
                    }
                }
            };
            assert_eq!(error.kind, PortErrorKind::DiskFull);
            let bytes: usize = archive.files.files.values().map(Vec::len).sum();
            assert_eq!(archive.bytes_written(), bytes as u64);
            // Nothing is left of what failed: whole groups behind each file's own record.
            for file in archive.files.files.values() {
                let groups = file.windows(100).filter(|w| *w == whole).count();
                let info = file.len() - 100 * groups;
                assert!(info > 0 && file[..2] == [0x1f, 0x8b], "{room}");
                kept -= groups;
            }
            assert_eq!(kept, 0);
        }
    }

    #[test]
    fn a_failed_append_takes_no_older_file_with_it() {
        let settings =
            ArchiveSettings { file_bytes_max: 500, ..ArchiveSettings::new(ShardId(0), "t") };
        let mut disk = SmallDisk { room: 2_000, ..SmallDisk::default() };
        disk.files.insert(3, vec![7; 100]);
        let mut archive = WarcArchive::new(disk, settings).unwrap();
        // The file that the store knows last was moved away.
        archive.cut(Some(ArchiveEnd { file: 4, bytes: 50 })).unwrap();
        assert_eq!(archive.end(), None);
        archive.files.room = 150;
        let group = [Blob::from(vec![1; 400])];
        archive.append(&[group.as_slice()], Timestamp::ZERO).unwrap_err();
        assert_eq!(archive.files.files.keys().collect::<Vec<_>>(), [&3]);
    }

    #[test]
    fn names_are_read_back_and_only_our_own() {
        let settings = ArchiveSettings::new(ShardId(7), "my-crawl");
        assert_eq!(settings.file_name(12), "my-crawl-07-00012.warc.gz");
        assert_eq!(settings.serial("my-crawl-07-00012.warc.gz"), Some(12));
        for other in ["my-crawl-07-12.warc.gz", "my-crawl-08-00012.warc.gz", "x", "my-crawl-07-"] {
            assert_eq!(settings.serial(other), None, "{other}");
        }
        let long = ArchiveSettings::new(ShardId(123), "c");
        assert_eq!(long.serial(&long.file_name(1_234_567)), Some(1_234_567));
    }
}
