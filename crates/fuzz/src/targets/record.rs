//! Any bytes as stored values: local, ports.
//!
//! An input is tried as every kind of value that the state holds: the row of a URL, and whatever
//! `ports::codec` writes. The same bytes behind the right version are tried too, or most of them
//! would fall at their first byte.
//!
//! Holds: bytes are refused or read; what was read can be used; written and read again it is the
//! same; a row belongs to the host of its key.

use std::fmt::Debug;

use local::shard::{keys, read_line, read_row, write_line, write_row};
use ports::codec;
use ports::robots_entry::{RobotsAccess, RobotsEntry};
use ports::shard_store::{Found, FoundSet, Grant, LetterBody, RobotsFound, Tally, VisitLine};
use serde::Serialize;
use serde::de::DeserializeOwned;
use types::outcome::{Answer, Truncated};
use types::record::{LastVisit, Retirement};
use types::{
    CrawlUrl, Discovery, Fault, HostState, News, PageLine, Record, Refusal, SiteState, State,
    TextFacts, Timestamp, UrlId, UrlRef, VisitId, WarcRef,
};

use crate::{Shape, Target};

pub const TARGET: Target = Target { name: "record", words: WORDS, seeds, check, inputs: 60_000 };

const WORDS: &[&[u8]] = &[
    b"\x02",
    b"\x01",
    b"\x0fhttp://a.test/x",
    b"http://a.test:8080/x?y=1",
    b"https://[::1]/",
    b"/path?query",
    b":81/",
    b"@b.test/",
    b".b.test/",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\x03",
    b"\x80",
    "é".as_bytes(),
];

/// The hosts of the keys under which a row is read.
const HOSTS: [&str; 3] = ["a.test", "www.example.org", "[::1]"];

/// One of each kind.
fn seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for record in records() {
        let mut row = Vec::new();
        write_row(&record, &mut row);
        all.push(row);
        all.push(codec::encode(&record));
    }
    let url = CrawlUrl::from_canonical("http://a.test/x").expect("it is canonical");
    let mut links = FoundSet::default();
    for text in ["http://a.test/", "http://b.test/x?y=1"] {
        let id = UrlId::of(text);
        links.push(Found { url: text, id, depth: 2, hops: 0, band: 1, seed: false });
    }
    let visit = VisitId(7);
    all.push(codec::encode(&(visit, LetterBody::Links(links))));
    let (origin, hops) = (url.origin(), 1);
    let asked = LetterBody::RobotsAsk { origin: origin.clone(), url: url.clone(), hops };
    all.push(codec::encode(&(visit, asked)));
    let found = RobotsFound::Text(b"User-agent: *"[..].into());
    all.push(codec::encode(&(visit, LetterBody::RobotsAnswer { origin, found })));
    let warc = Some(WarcRef { file: 1, offset: 2, length: 3 });
    let at = Timestamp::from_secs(1_800_000_000);
    let content_type = Some("text/html".into());
    let digest = Some([9; 20]);
    let url_of = url.clone();
    let page = Some(Box::new(page_line()));
    let line =
        VisitLine { seq: 5, visit, url: url_of, at, status: 200, content_type, digest, warc, page };
    all.push(codec::encode(&line));
    let mut with_page = Vec::new();
    write_line(&line, &mut with_page);
    all.push(with_page);
    all.push(codec::encode(&Grant { visit, host: url.host_key(), url: Some(url.id()), at }));
    let rules = RobotsAccess::Rules { text: b"Disallow: /"[..].into(), read_at: at };
    let trouble = Some("timeout".into());
    let entry = RobotsEntry { access: rules, checked_at: at, expires_at: at, failures: 2, trouble };
    all.push(codec::encode(&entry));
    let state = HostState { last_fault: Some(Fault::Status(503)), pages: 9, ..Default::default() };
    all.push(codec::encode(&state));
    all
}

fn text_facts() -> TextFacts {
    TextFacts { digest: [1; 32], simhash: 77, words: 300, language: Some("pt-BR".into()) }
}

fn page_line() -> PageLine {
    PageLine {
        news: News::Other,
        depth: 3,
        seed: true,
        title: Some("T".into()),
        body_bytes: 70_000,
        truncated: Some(Truncated::Length),
        noindex: false,
        nofollow: true,
        noarchive: false,
        text: Some(text_facts()),
        sketch: Some(vec![5; 132].into()),
        reading: None,
    }
}

fn records() -> Vec<Record> {
    let at = Timestamp::from_secs(1_800_000_000);
    let found = Discovery { at, depth: 3, hops: 1, seed: false, band: 4 };
    let url = |text| CrawlUrl::from_canonical(text).expect("it is canonical");
    let plain = Record::new(url("http://a.test/some/path?x=1"), found);
    let far = Discovery { depth: u16::MAX, hops: 17, band: 200, seed: true, ..found };
    let answer = Answer {
        status: 200,
        title: Some("T".into()),
        truncated: Some(Truncated::Time),
        text: Some(Box::new(text_facts())),
        ..Answer::default()
    };
    let last = LastVisit {
        at,
        answer,
        moved_to: Some("http://b.test/".into()),
        target_refused: Some(Refusal::Loop),
        warc: Some(WarcRef { file: 1, offset: 2, length: 3 }),
    };
    let dead = Retirement::DeadLetter { fault: Fault::Status(500), attempts: 3 };
    let rule = Refusal::Robots { rule: "Disallow: /".into(), line: 2 };
    vec![
        Record::new(url("https://[::1]:8443/a"), far),
        Record { attempts: 1, due: Some(at), ..plain.clone() },
        Record { state: State::Blocked(rule), ..plain.clone() },
        Record { state: State::Retired(dead), ..plain.clone() },
        Record { state: State::Parsed, last: Some(Box::new(last)), ..plain.clone() },
        plain,
    ]
}

fn check(input: &[u8]) -> Shape {
    let mut shape = Shape::default();
    for host in HOSTS {
        check_row(host, input, &mut shape);
    }
    check_values(input, &mut shape);
    let versioned = |layout: u8| [&[layout], input].concat();
    check_row(HOSTS[0], &versioned(2), &mut shape);
    check_values(&versioned(codec::LAYOUT), &mut shape);
    check_keys(input);
    shape
}

fn check_row(host: &str, bytes: &[u8], shape: &mut Shape) {
    let record = match read_row(host, bytes) {
        Ok(record) => record,
        Err(error) => return shape.add_text(&error.to_string()),
    };
    assert_eq!(record.url.host(), host, "a row of another host: {}", record.url);
    let mut written = Vec::new();
    write_row(&record, &mut written);
    assert_eq!(read_row(host, &written).expect("our own row"), record, "written and read");
    add_state(&record, shape);
}

fn add_state(record: &Record, shape: &mut Shape) {
    shape.add(match record.state {
        State::Queued => 1,
        State::Parsed => 2,
        State::Blocked(_) => 3,
        State::Retired(_) => 4,
    });
    shape.add(u64::from(record.last.is_some()) | u64::from(record.due.is_some()) << 1);
}

fn check_values(bytes: &[u8], shape: &mut Shape) {
    if let Some(record) = check_value::<Record>(bytes, shape) {
        add_state(&record, shape);
        // States of format 1 hold these, and are brought to rows.
        let mut row = Vec::new();
        write_row(&record, &mut row);
        let read = read_row(record.url.host(), &row).expect("our own row");
        let at = Timestamp::from_secs(record.found.at.secs().min(u64::from(u32::MAX)));
        let found = Discovery { at, ..record.found };
        assert_eq!(read, Record { found, ..record }, "a row that was a record");
    }
    if let Some((_, letter)) = check_value::<(VisitId, LetterBody)>(bytes, shape)
        && let LetterBody::Links(links) = letter
    {
        assert_eq!(links.iter().count(), links.len());
        shape.add_size(links.len());
        for found in links.iter() {
            shape.add(u64::from(UrlRef::from_canonical(found.url).is_ok()));
        }
    }
    if let Some(line) = check_value::<VisitLine>(bytes, shape) {
        assert!(!line.at.rfc3339().is_empty() && !line.at.digits14().is_empty());
    }
    if let Ok(line) = read_line(bytes) {
        shape.add(u64::from(line.page.is_some()));
        let mut written = Vec::new();
        write_line(&line, &mut written);
        assert_eq!(read_line(&written).expect("our own line"), line);
    }
    check_value::<Grant>(bytes, shape);
    check_value::<RobotsEntry>(bytes, shape);
    check_value::<HostState>(bytes, shape);
    check_value::<SiteState>(bytes, shape);
    check_value::<Tally>(bytes, shape);
}

fn check_value<T: Serialize + DeserializeOwned + PartialEq + Debug>(
    bytes: &[u8],
    shape: &mut Shape,
) -> Option<T> {
    let Ok(value) = codec::decode::<T>("a value", bytes) else {
        shape.add(0);
        return None;
    };
    shape.add(1);
    let written = codec::encode(&value);
    assert_eq!(codec::decode::<T>("a value", &written).expect("our own value"), value);
    Some(value)
}

/// Keys are read as well.
fn check_keys(bytes: &[u8]) {
    let id = keys::read_id(bytes);
    assert_eq!(id.is_ok(), bytes.len() >= 16);
    let ids = keys::read_ids(bytes).map(Iterator::count);
    assert_eq!(ids.ok(), bytes.len().is_multiple_of(16).then_some(bytes.len() / 16));
    if let Ok((at, prefix, id)) = keys::read_due(bytes) {
        assert_eq!(keys::due(at, &prefix, id), bytes, "a due key, written and read");
    }
    if let Ok(place) = keys::read_queue(bytes) {
        assert!(keys::queue(b"", place) == bytes[bytes.len() - 9..], "a place in a queue");
    }
    if let Ok((prefix, kind)) = keys::read_host(bytes) {
        assert_eq!([prefix, kind].concat(), bytes);
    }
    if let Ok(host) = keys::prefix_host(bytes) {
        assert_eq!(host.as_str().len(), bytes.len() - 5, "a host of a prefix");
    }
}
