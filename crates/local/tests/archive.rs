//! Archives in memory and in files keep the promises of the port; a full disk leaves them valid.

use std::fs;
use std::io::BufReader;
use std::path::PathBuf;

use lycosa_local::{ArchiveSettings, Disk, MemoryArchive, WarcFiles};
use ports::PortResult;
use ports::contract::{self, ReopenArchive};
use types::ShardId;
use warc::{Compressor, Level, Record, RecordId, WarcDate, WarcFields};

fn settings(file_bytes_max: u64) -> ArchiveSettings {
    let mut settings = ArchiveSettings::new(ShardId(3), "test");
    settings.file_bytes_max = file_bytes_max;
    settings
}

fn member(number: u64) -> Vec<u8> {
    let mut fields = WarcFields::new();
    fields.push("number", &format!("{number:08}"));
    let date = WarcDate::from_unix_seconds(1_800_000_000);
    let id = RecordId::from_bits(u128::from(number));
    let record = Record::warcinfo(id, date, "x", &fields).build().expect("plain fields");
    let mut out = Vec::new();
    Compressor::new(Level::DEFAULT).member(&record, &mut out);
    out
}

fn members(bytes: &[u8]) -> Option<u64> {
    let tail = warc::last_complete(BufReader::new(bytes), 0).expect("memory reads");
    (tail.torn.is_none() && tail.end == bytes.len() as u64).then_some(tail.records)
}

struct InMemory(Disk);

impl ReopenArchive for InMemory {
    type Archive = MemoryArchive;

    fn open(&mut self, file_bytes_max: u64) -> PortResult<MemoryArchive> {
        MemoryArchive::open(&self.0, "archive", settings(file_bytes_max))
    }

    fn files(&self) -> Vec<(u32, Vec<u8>)> {
        let serials = self.0.files("archive").into_iter();
        serials.map(|serial| (serial, self.0.file("archive", serial).expect("listed"))).collect()
    }

    fn shorten(&mut self, file: u32, bytes: u64) {
        self.0.shorten("archive", file, bytes);
    }

    fn member(&self, number: u64) -> Vec<u8> {
        member(number)
    }

    fn members(&self, bytes: &[u8]) -> Option<u64> {
        members(bytes)
    }
}

struct InFiles(tempfile::TempDir);

impl InFiles {
    fn path(&self, serial: u32) -> PathBuf {
        self.0.path().join("archive").join(settings(1).file_name(serial))
    }
}

impl ReopenArchive for InFiles {
    type Archive = WarcFiles;

    fn open(&mut self, file_bytes_max: u64) -> PortResult<WarcFiles> {
        WarcFiles::open(&self.0.path().join("archive"), settings(file_bytes_max))
    }

    fn files(&self) -> Vec<(u32, Vec<u8>)> {
        let read = |serial| Some((serial, fs::read(self.path(serial)).ok()?));
        (0..100).filter_map(read).collect()
    }

    fn shorten(&mut self, file: u32, bytes: u64) {
        let open = fs::OpenOptions::new().write(true).open(self.path(file)).expect("a file");
        let size = open.metadata().expect("its size").len();
        open.set_len(size.saturating_sub(bytes)).expect("shorter");
    }

    fn member(&self, number: u64) -> Vec<u8> {
        member(number)
    }

    fn members(&self, bytes: &[u8]) -> Option<u64> {
        members(bytes)
    }
}

#[test]
fn archives_in_memory_keep_the_contract() {
    contract::archive(|| InMemory(Disk::new()));
}

#[test]
fn archives_in_files_keep_the_contract() {
    contract::archive(|| InFiles(tempfile::tempdir().expect("a folder")));
}

#[test]
fn names_of_others_are_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let others = ["test-03-7.warc.gz", "test-03-00001.warc", "test-04-00001.warc.gz", "notes"];
    for name in others {
        fs::write(folder.path().join(name), "mine").expect("written");
    }
    let mut archive = WarcFiles::open(folder.path(), settings(1000)).expect("opens");
    assert_eq!(ports::Archive::bytes_written(&archive), 0);
    ports::Archive::cut(&mut archive, None).expect("cuts");
    for name in others {
        assert!(folder.path().join(name).exists(), "{name}");
    }
}
