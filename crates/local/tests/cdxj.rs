//! An index never doubles or misses an answer, however its process ends.

use std::fs;
use std::path::{Path, PathBuf};

use lycosa_local::{ArchiveSettings, CdxjSink};
use ports::shard_store::VisitLine;
use ports::{ArchiveEnd, Sink};
use types::{CrawlUrl, ShardId, Timestamp, VisitId, WarcRef};

/// Answers in one WARC file of this test.
const PER_FILE: u64 = 4;
const LENGTH: u64 = 100;

fn names() -> ArchiveSettings {
    ArchiveSettings::new(ShardId(0), "t")
}

/// The n-th answer, counted from 0; every third visit of the log has none in the archive.
fn line(n: u64) -> VisitLine {
    // Hosts go down as numbers go up, so that the order of the log is not the sorted one.
    let url = format!("http://h{:03}.test/{n}", 999 - n);
    let warc =
        WarcRef { file: (n / PER_FILE) as u32, offset: 50 + n % PER_FILE * LENGTH, length: LENGTH };
    VisitLine {
        seq: n + 1,
        visit: VisitId::new(ShardId(0), n),
        url: CrawlUrl::from_canonical(&url).expect("canonical"),
        at: Timestamp::from_secs(1_800_000_000 + n),
        status: 200,
        content_type: Some("text/html".into()),
        digest: Some([n as u8; 20]),
        warc: Some(warc),
        page: None,
    }
}

/// The archive's end behind the first `n` answers.
fn end(n: u64) -> Option<ArchiveEnd> {
    let last = line(n.checked_sub(1)?).warc.expect("archived");
    Some(ArchiveEnd { file: last.file, bytes: last.offset + last.length })
}

fn log(range: std::ops::Range<u64>) -> Vec<VisitLine> {
    range.map(line).collect()
}

fn path(folder: &Path, file: u32) -> PathBuf {
    folder.join(format!("t-00-{file:05}.cdxj"))
}

/// Numbers of the answers that each index names, in its order.
fn indexed(folder: &Path) -> Vec<Vec<u64>> {
    let number = |line: &str| -> u64 {
        let line = warc::cdxj::Line::parse(line).expect("a whole line");
        let url = line.url.expect("a URL");
        url.rsplit('/').next().and_then(|n| n.parse().ok()).expect("its number")
    };
    let read = |file| fs::read_to_string(path(folder, file)).ok();
    (0..20).map_while(read).map(|text| text.lines().map(number).collect()).collect()
}

fn sorted(folder: &Path) -> Vec<u64> {
    let mut all: Vec<_> = indexed(folder).concat();
    all.sort_unstable();
    all
}

#[test]
fn lines_come_as_visits_commit_and_are_sorted_when_the_file_closes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut sink = CdxjSink::open(folder.path(), names(), None).expect("opens");
    assert_eq!((sink.cursor(), sink.name()), (0, "cdxj"));
    sink.feed(&log(0..3)).expect("fed");
    assert_eq!(indexed(folder.path()), [vec![0, 1, 2]]);
    sink.feed(&log(1..6)).expect("fed");
    // The first file is closed: sorted by host, which is the other way round.
    assert_eq!(indexed(folder.path()), [vec![3, 2, 1, 0], vec![4, 5]]);
    // What is on the disk for good is the closed file.
    assert_eq!(sink.cursor(), 4);
    sink.close().expect("closes");
    assert_eq!(indexed(folder.path()), [vec![3, 2, 1, 0], vec![5, 4]]);
    assert_eq!(sink.cursor(), 6);

    let text = fs::read_to_string(path(folder.path(), 1)).expect("an index");
    let first = r#"test,h994)/5 20270115080005 {"url": "http://h994.test/5", "mime": "text/html", "status": "200", "digest": "sha1:AUCQKBIFAUCQKBIFAUCQKBIFAUCQKBIF", "length": "100", "offset": "150", "filename": "t-00-00001.warc.gz"}"#;
    assert_eq!(text.lines().next(), Some(first));
}

#[test]
fn a_visit_without_bytes_has_no_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut sink = CdxjSink::open(folder.path(), names(), None).expect("opens");
    let mut lines = log(0..3);
    lines[1].warc = None;
    sink.feed(&lines).expect("fed");
    assert_eq!(sorted(folder.path()), [0, 2]);
    sink.feed(&[]).expect("fed");
    sink.close().expect("closes");
    assert_eq!(sink.cursor(), 3);
}

#[test]
fn a_kill_at_any_byte_doubles_nothing_and_misses_nothing() {
    let whole = {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sink = CdxjSink::open(folder.path(), names(), None).expect("opens");
        sink.feed(&log(0..7)).expect("fed");
        fs::read(path(folder.path(), 1)).expect("an index")
    };
    // 17 is prime to the length of a line: all places of a line come up.
    for cut in (0..whole.len()).step_by(17).chain([whole.len() - 1, whole.len()]) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sink = CdxjSink::open(folder.path(), names(), None).expect("opens");
        sink.feed(&log(0..7)).expect("fed");
        let cursor = sink.cursor();
        drop(sink);
        let mut torn = whole[..cut].to_vec();
        if cut % 3 == 0 {
            // Some file systems leave zeros where bytes had no time to come.
            torn.resize(whole.len(), 0);
        }
        fs::write(path(folder.path(), 1), &torn).expect("torn");
        let mut sink = CdxjSink::open(folder.path(), names(), end(7)).expect("opens");
        // The log has what the sink did not have on the disk, at least, and often more.
        let from = if cut % 2 == 0 { 0 } else { cursor };
        sink.feed(&log(from..7)).expect("fed");
        sink.feed(&log(7..9)).expect("fed");
        sink.close().expect("closes");
        assert_eq!(sorted(folder.path()), (0..9).collect::<Vec<_>>(), "cut at {cut}");
        for file in 0..3 {
            let text = fs::read(path(folder.path(), file)).expect("an index");
            assert!(text.split_inclusive(|byte| *byte == b'\n').is_sorted(), "file {file}");
        }
    }
}

#[test]
fn answers_that_were_cut_from_the_archive_leave_the_index() {
    for known in 0..=10 {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sink = CdxjSink::open(folder.path(), names(), None).expect("opens");
        sink.feed(&log(0..10)).expect("fed");
        if known % 2 == 0 {
            sink.close().expect("closes");
        }
        drop(sink);
        let mut sink = CdxjSink::open(folder.path(), names(), end(known)).expect("opens");
        assert_eq!(sorted(folder.path()), (0..known).collect::<Vec<_>>());
        // They are fetched again and come at the same places.
        sink.feed(&log(0..12)).expect("fed");
        sink.close().expect("closes");
        assert_eq!(sorted(folder.path()), (0..12).collect::<Vec<_>>());
    }
}
