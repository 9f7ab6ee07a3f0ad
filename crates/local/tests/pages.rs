//! The list of pages: whole lines, each page once, whatever was torn.

use std::fs;
use std::path::{Path, PathBuf};

use lycosa_local::{Duplicates, MemoryKv, Pages};
use ports::Sink as _;
use ports::shard_store::VisitLine;
use serde_json::Value;
use types::{CrawlUrl, News, PageLine, ShardId, TextFacts, Timestamp, VisitId};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn state(&self) -> &Path {
        self.0.path()
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("pages/pages.jsonl")
    }

    fn open(&self) -> Pages {
        Pages::open(&self.0.path().join("pages"), self.state(), None).expect("opens")
    }

    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.file()).expect("it is text");
        assert!(text.ends_with('\n'), "whole lines");
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }

    /// Shard and place in its log of each page.
    fn places(&self) -> Vec<(u64, u64)> {
        let number = |line: &Value, name: &str| line[name].as_u64().expect("a number");
        self.lines()[1..].iter().map(|line| (number(line, "shard"), number(line, "seq"))).collect()
    }
}

fn line(shard: u16, seq: u64) -> VisitLine {
    let text = TextFacts { digest: [7; 32], simhash: 5, words: 3, language: Some("de".into()) };
    VisitLine {
        seq,
        visit: VisitId::new(ShardId(shard), seq + 100),
        url: CrawlUrl::parse(&format!("http://{shard}.test/{seq}")).expect("a URL"),
        at: Timestamp::from_secs(1_800_000_000),
        status: 200,
        content_type: Some("text/html".into()),
        digest: None,
        warc: None,
        page: Some(Box::new(PageLine {
            news: News::Other,
            depth: 2,
            seed: seq == 1,
            title: Some("a \"title\"\n".into()),
            body_bytes: 9,
            truncated: None,
            noindex: true,
            nofollow: false,
            noarchive: false,
            text: Some(text),
            sketch: None,
            reading: None,
        })),
    }
}

fn log(shard: u16) -> Vec<VisitLine> {
    (1..=30).map(|seq| line(shard, seq)).collect()
}

#[test]
fn a_page_has_a_line_and_nothing_else_has() {
    let folder = Folder::new();
    let pages = folder.open();
    let mut sink = pages.sink(ShardId(0));
    let page = |edit: fn(&mut PageLine)| {
        let mut line = line(0, 1);
        edit(line.page.as_mut().expect("it has one"));
        line
    };
    let robots = VisitLine { seq: 2, page: None, ..line(0, 1) };
    let gone = VisitLine { seq: 3, status: 404, ..line(0, 1) };
    let same = VisitLine { seq: 4, ..page(|page| page.news = News::Same) };
    let image = VisitLine {
        seq: 5,
        content_type: Some("image/png".into()),
        ..page(|page| page.text = None)
    };
    let bare = VisitLine { seq: 6, ..page(|page| page.text = None) };
    sink.feed(&[line(0, 1), robots, gone, same, image, bare]).expect("writes");
    let lines = folder.lines();
    assert_eq!((lines.len(), &lines[0]["format"]), (3, &"json-pages-1.0".into()));
    let told = &lines[1];
    assert_eq!((&told["id"], &told["url"]), (&"0-101".into(), &"http://0.test/1".into()));
    assert_eq!(
        (&told["ts"], &told["title"]),
        (&"2027-01-15T08:00:00Z".into(), &"a \"title\"\n".into())
    );
    assert_eq!((&told["language"], &told["words"]), (&"de".into(), &3.into()));
    assert_eq!(told["text_sha256"], "07".repeat(32));
    assert_eq!((&told["seed"], &told["noindex"]), (&true.into(), &true.into()));
    assert!(lines[2]["words"].is_null(), "a page whose text was not read");
}

#[test]
fn wherever_it_is_torn_the_log_tells_the_rest_again() {
    let logs = [log(0), log(1)];
    let feed = |pages: &Pages, upto: usize| {
        for from in (0..upto).step_by(5) {
            for (shard, log) in (0..).zip(&logs) {
                pages.sink(ShardId(shard)).feed(&log[from..from + 5]).expect("writes");
            }
        }
    };
    let folder = Folder::new();
    feed(&folder.open(), 30);
    let (whole, places) = (fs::read(folder.file()).expect("it is there"), folder.places());
    assert_eq!(places.len(), 60);
    let header = whole.iter().position(|byte| *byte == b'\n').expect("a header") + 1;
    for cut in (header..whole.len()).step_by(37) {
        fs::write(folder.file(), &whole[..cut]).expect("writes");
        let pages = folder.open();
        assert_eq!(fs::read(folder.file()).expect("reads").last(), Some(&b'\n'));
        feed(&pages, 30);
        assert_eq!(folder.places(), places, "cut at {cut}");
    }
    // As a power loss may leave it: the length is there, the bytes are not.
    let mut zeros = whole[..header + 500].to_vec();
    zeros.resize(whole.len(), 0);
    fs::write(folder.file(), zeros).expect("writes");
    feed(&folder.open(), 30);
    assert_eq!(folder.places(), places);
}

#[test]
fn a_closed_file_is_not_read_again_and_goes_on() {
    let folder = Folder::new();
    let log = log(0);
    let pages = folder.open();
    let mut sink = pages.sink(ShardId(0));
    sink.feed(&log[..10]).expect("writes");
    assert_eq!(sink.cursor(), 0, "not on the disk yet");
    sink.close().expect("syncs");
    assert_eq!(sink.cursor(), 10);
    drop((sink, pages));
    // What lies before the note is not looked at.
    let mut bytes = fs::read(folder.file()).expect("reads");
    bytes[80] = b'?';
    fs::write(folder.file(), bytes).expect("writes");
    let pages = folder.open();
    let mut sink = pages.sink(ShardId(0));
    assert_eq!(sink.cursor(), 10);
    sink.feed(&log).expect("writes");
    let text = String::from_utf8_lossy(&fs::read(folder.file()).expect("reads")).into_owned();
    assert_eq!(text.lines().count(), 31);
    // A shorter file is another one, whatever the note says.
    let header = text.lines().next().expect("a header").to_owned() + "\n";
    fs::write(folder.file(), &header).expect("writes");
    drop((sink, pages));
    let pages = folder.open();
    assert_eq!((pages.bytes(), pages.sink(ShardId(0)).cursor()), (header.len() as u64, 0));
}

#[test]
fn copies_are_named() {
    let folder = Folder::new();
    let duplicates = Duplicates::open(Box::new(MemoryKv::new())).expect("opens");
    let pages =
        Pages::open(&folder.0.path().join("pages"), folder.state(), Some(duplicates.clone()));
    let pages = pages.expect("opens");
    let lines = [line(0, 1), line(0, 2)];
    duplicates.sink(ShardId(0)).feed(&lines).expect("commits");
    pages.sink(ShardId(0)).feed(&lines).expect("writes");
    let lines = folder.lines();
    assert_eq!((&lines[1]["duplicate_of"], &lines[1]["duplicate"]), (&Value::Null, &Value::Null));
    assert_eq!(lines[2]["duplicate_of"], "http://0.test/1");
    assert_eq!(lines[2]["duplicate"], "exact");
}
