//! What is forgotten is gone from every file, and does not come back; what stays is as it was.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{Ran, Site, signal, wait_until};

/// A word of pages that are to go, and of no others.
const MARKER: &str = "zyzzyva";
const HOST: &str = "secret.test";

fn words(number: u64, count: u64) -> String {
    let word = |n: u64| (number * 1_000 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let words: Vec<String> = (0..count).map(|n| format!("w{:x}", word(n))).collect();
    words.join(" ")
}

/// Two hosts that say nothing of each other.
fn site() -> Site {
    let page = |title: &str, text: &str, links: &str| {
        format!("<html lang=en><title>{title}</title><main><p>{text}.</p></main>{links}")
    };
    let mut web = String::new();
    for n in 0..6 {
        let links = format!("<a href=/{}>next</a>", n + 1);
        let text = page(&format!("Page {n}"), &words(n, 120), &links);
        web += &format!("--- a.test/{n}\n{text}\n");
        let text = format!("{MARKER} {}", words(100 + n, 120));
        web += &format!("--- {HOST}/{n}\n{}\n", page(&format!("{MARKER} {n}"), &text, &links));
    }
    web += &format!("--- {HOST}/robots.txt\nUser-agent: *\nDisallow: /{MARKER}\n");
    Site::fixture(web.trim_end())
}

fn crawl(site: &Site, shards: &str) {
    let (a, secret) = (site.url("a.test", "/0"), site.url(HOST, "/0"));
    let words = [&*a, &secret, "--scope", "host", "-s", shards, "-s", "archive.file_bytes_max=4kB"];
    site.crawl(&words).exits(0);
}

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() { files(&path, out) } else { out.push(path) }
    }
}

/// The files of a crawl in which a text is found, also packed.
fn found(dir: &Path, text: &str) -> Vec<String> {
    let mut all = Vec::new();
    files(dir, &mut all);
    let mut found = Vec::new();
    for path in all.iter().filter(|path| path.is_file()) {
        let mut bytes = std::fs::read(path).expect("it can be read");
        if path.extension().is_some_and(|end| end == "gz") {
            let plain = Command::new("gzip").arg("-dc").arg(path).output().expect("gzip starts");
            assert!(plain.status.success(), "{}", path.display());
            bytes.extend(plain.stdout);
        }
        // The keys of the state have names the other way round.
        let reversed: Vec<&str> = text.split('.').rev().collect();
        let reversed = reversed.join(".");
        if [text, &reversed]
            .iter()
            .any(|text| bytes.windows(text.len()).any(|w| w == text.as_bytes()))
        {
            found.push(path.strip_prefix(dir).expect("it is inside").display().to_string());
        }
    }
    found.sort();
    found
}

/// Every line of every index leads to a record of its URL.
fn check_indexes(site: &Site) -> BTreeMap<String, u64> {
    let mut urls = BTreeMap::new();
    let mut all = Vec::new();
    files(&site.dir().join("indexes"), &mut all);
    for path in all {
        for line in std::fs::read_to_string(path).expect("an index is text").lines() {
            let line = warc::cdxj::Line::parse(line).expect("a line of an index");
            let name = line.filename.expect("a file");
            let file = std::fs::read(site.dir().join("archive").join(name)).expect("it is there");
            let offset = line.offset.expect("an offset");
            let mut reader = warc::Reader::at(&file[offset as usize..], offset);
            let header = reader.next_record().expect("a record").expect("not the end");
            let url = line.url.expect("a URL");
            assert_eq!(header.fields.get("WARC-Target-URI"), Some(&*url));
            assert_eq!(reader.finish().expect("whole").and_then(|it| it.length), line.length);
            *urls.entry(url).or_default() += 1;
        }
    }
    let mut archive = Vec::new();
    files(&site.dir().join("archive"), &mut archive);
    for path in archive {
        site.run(&["warc", "check", path.to_str().expect("a name")]).exits(0);
    }
    urls
}

/// Nothing is left of the host, everything of the other, and it does not come back.
fn check_gone(site: &Site) {
    assert_eq!(found(&site.dir(), MARKER), [""; 0]);
    assert_eq!(found(&site.dir(), HOST), [""; 0]);
    // What is packed is not found by its bytes.
    let again = site.run(&["forget", "crawl", HOST, "--dry-run", "--json"]).exits(0);
    let again: Value = serde_json::from_str(&again.out).expect("JSON");
    let left = again["outputs"].as_object().expect("counts").iter();
    assert_eq!(left.filter(|(_, count)| **count != 0).count(), 0, "{again}");
    assert_eq!(site.run(&["search", "crawl", MARKER]).exits(0).out, "");
    let urls = check_indexes(site);
    assert!(urls.keys().all(|url| url.contains("a.test")) && urls.len() >= 7, "{urls:?}");
    let why = "forgotten on 20";
    for path in ["/0", "/5", "/never", "/robots.txt"] {
        let told = site.run(&["explain", "crawl", &site.url(HOST, path)]).exits(0);
        told.prints(why).prints("asked by its owner");
    }
    site.run(&["explain", "crawl", &site.url("a.test", "/0")]).exits(0).prints("answered 200");
    let audit = std::fs::read_to_string(site.dir().join("logs/forget.jsonl")).expect("a log");
    assert_eq!(audit.lines().count(), 1, "{audit}");
    let line: Value = serde_json::from_str(&audit).expect("a line is JSON");
    assert_eq!(
        (line["kind"].as_str(), line["reason"].as_str()),
        (Some("host"), Some("asked by its owner"))
    );
    assert_eq!(line["sha256"].as_str().map(str::len), Some(64));

    let asked = |host: &str| site.journal().iter().filter(|entry| &*entry.host == host).count();
    let before = asked(HOST);
    let secret = site.url(HOST, "/0");
    site.crawl(&[&secret]).exits(0);
    assert_eq!(asked(HOST), before, "a seed does not bring it back");
    site.run(&["status", "crawl"]).exits(0).prints("7 known");
    assert_eq!(site.report()["links_skipped"]["forgotten"], 1);
}

#[test]
fn a_host_that_is_forgotten_is_in_no_file_and_does_not_come_back() {
    for shards in ["store.shards=1", "store.shards=3"] {
        let site = site();
        crawl(&site, shards);
        let before = found(&site.dir(), MARKER);
        for place in ["archive/", "pages/", "report.json", "state/"] {
            // The report has no titles.
            let there = before.iter().any(|file| file.starts_with(place));
            assert_eq!(there, place != "report.json", "{place} in {before:?}");
        }
        assert!(found(&site.dir(), HOST).iter().any(|file| file == "report.html"));
        let told = site.run(&["forget", "crawl", HOST, "--reason", "asked by its owner"]).exits(0);
        let told = told.prints("forgotten: 7 URLs, 1 of them seeds").prints("backups");
        assert!(told.out.contains("lines of pages.jsonl"), "{}", told.out);
        check_gone(&site);
    }
}

#[test]
fn a_dry_run_changes_nothing_and_says_how_much_would_go() {
    let site = site();
    crawl(&site, "store.shards=2");
    let before = (found(&site.dir(), MARKER), found(&site.dir(), HOST));
    let told = site.run(&["forget", "crawl", HOST, "--dry-run", "--json"]).exits(0);
    let told: Value = serde_json::from_str(&told.out).expect("JSON");
    assert_eq!((&told["urls"], &told["seeds"]), (&7.into(), &1.into()), "{told}");
    assert_eq!(told["outputs"]["lines of pages.jsonl"], 6, "{told}");
    assert_eq!(told["outputs"]["lines of indexes"], 8, "{told}");
    assert_eq!(told["outputs"]["prints of texts"], 6, "{told}");
    assert_eq!(told["outputs"]["rows of the table"], 8, "{told}");
    assert_ne!(told["outputs"]["pages of the full-text index"], 0, "{told}");
    assert_eq!((found(&site.dir(), MARKER), found(&site.dir(), HOST)), before);
    let done = site.run(&["forget", "crawl", HOST, "--json"]).exits(0);
    let done: Value = serde_json::from_str(&done.out).expect("JSON");
    for field in ["urls", "seeds", "records", "record_bytes", "files"] {
        assert_eq!(done[field], told[field], "{field}: {done}");
    }
    assert_eq!(done["outputs"], told["outputs"]);
}

#[test]
fn pages_and_patterns_are_forgotten_and_links_do_not_bring_them_back() {
    let site = Site::fixture(
        "--- a.test/\n<a href=/one>1</a> <a href=/two>2</a> <a href=/private/x>x</a>\n\
         --- a.test/one\n<title>first zyzzyva</title>\n--- a.test/two\n<a href=/one>1</a>\n\
         --- a.test/private/x\n<a href=/private/y>y</a>\n--- a.test/private/y\n<title>y</title>",
    );
    let home = site.url("a.test", "/");
    site.crawl(&[&home]).exits(0);
    let one = site.url("a.test", "/one");
    site.run(&["forget", "crawl", &one]).exits(0).prints("forgotten: 1 URL\n");
    assert_eq!(found(&site.dir(), MARKER), [""; 0]);
    let private = site.url("a.test", "/private/*");
    site.run(&["forget", "crawl", &private])
        .exits(0)
        .prints("forgotten: 2 URLs")
        .prints("crawl.exclude");
    let before = site.journal().len();
    site.run(&["recrawl", "crawl"]).exits(0);
    let journal = site.journal();
    let mut paths: Vec<&str> = journal[before..].iter().map(|entry| &*entry.path).collect();
    paths.sort_unstable();
    paths.retain(|path| *path != "/robots.txt");
    assert_eq!(paths, ["/", "/two"]);
    site.run(&["explain", "crawl", &one]).exits(0).prints("no reason given");
    site.run(&["explain", "crawl", &site.url("a.test", "/private/y")]).exits(0).prints("forgotten");
    // What was never known is not.
    site.run(&["explain", "crawl", &site.url("a.test", "/private/z")]).exits(1).prints("unknown");
}

#[test]
fn mistakes_are_told_before_anything_is_done() {
    let site = site();
    crawl(&site, "store.shards=1");
    site.run(&["forget", "crawl", "*"]).exits(2).says("everything");
    site.run(&["forget", "crawl", "secret.test/0"]).exits(2).says("http://secret.test/0");
    site.run(&["forget", "crawl"]).exits(2).says("what is to be forgotten?");
    site.run(&["forget", "crawl", "--dry-run"]).exits(2);
    site.run(&["forget", "elsewhere", HOST]).exits(1).says("is no crawl directory");
    site.run(&["forget", "crawl", "nobody.test"]).exits(0).prints("forgotten: 0 URLs");
    site.run(&["explain", "crawl", "http://nobody.test/"]).exits(0).prints("forgotten");
}

#[test]
fn a_crawl_at_work_must_be_stopped_first() {
    let pages: String = (0..200)
        .map(|n| format!("--- a.test/{n} slow=100ms\n<a href=/{}>next</a>\n", n + 1))
        .collect();
    let site = Site::fixture(pages.trim_end());
    let first = site.url("a.test", "/0");
    let mut command = site.crawl_command(&[&first, "-d", "1000"]);
    let child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    wait_until("the third request", || site.journal().len() >= 3);
    site.run(&["forget", "crawl", "a.test"]).exits(1).says("stop it first").says("lycosa resume");
    signal(&child, "INT");
    Ran::from(child.wait_with_output().unwrap()).exits(11);
}

/// The archive of somebody else, in which a page of a.test refers to one that goes.
fn foreign_archive(site: &Site) -> PathBuf {
    use warc::{Capture, Earlier, Record, RecordId, Revisit, WarcDate};
    let secret = format!("http://{HOST}/picture");
    let body = format!("{MARKER} that both have");
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";
    let date = WarcDate::from_unix_seconds(1_790_000_000);
    fn capture(uri: &str, date: WarcDate) -> Capture<'_> {
        Capture { uri, date, warcinfo: None, ip: None, protocols: &["http/1.1"] }
    }
    let (theirs, ours) = (RecordId::derive(1, "response"), RecordId::derive(2, "response"));
    let body = [body.as_bytes()];
    let first = capture(&secret, date);
    let record = Record::response(&first, theirs, head, &body).build().expect("a record");
    let digest = record.index_digest().expect("a payload");
    let page = capture("http://a.test/picture", date);
    let kept = Record::response(&page, RecordId::derive(3, "response"), head, &[b"another"])
        .build()
        .expect("a record");
    let earlier = Earlier { id: theirs, date, digest };
    // A revisit of another page: what it refers to is named by its id and date.
    let text = |record: &Record<'_>| record.pieces().collect::<Vec<_>>().concat();
    let revisit = Record::revisit(&page, ours, head, Revisit::SameDigest, &earlier)
        .build()
        .expect("a record");
    let revisit = String::from_utf8(text(&revisit)).expect("text");
    let field = "WARC-Refers-To-Target-URI: ";
    let revisit =
        revisit.replace(&format!("{field}http://a.test/picture"), &format!("{field}{secret}"));
    let path = site.dir().join("archive/theirs.warc");
    let plain = text(&record).into_iter().chain(revisit.into_bytes()).chain(text(&kept));
    std::fs::write(&path, plain.collect::<Vec<u8>>()).expect("writes");
    path
}

#[test]
fn a_revisit_whose_payload_goes_is_made_whole_first() {
    let site = site();
    crawl(&site, "store.shards=1");
    let path = foreign_archive(&site);
    let bytes = std::fs::metadata(&path).unwrap().len();
    let told = site.run(&["forget", "crawl", HOST]).exits(0);
    told.prints("1 revisit made whole");
    let file = std::fs::read(&path).unwrap();
    let mut reader = warc::Reader::new(file.as_slice());
    let mut kinds = Vec::new();
    let mut last = Vec::new();
    while let Some(header) = reader.next_record().unwrap() {
        let said = |name: &str| header.fields.get(name).unwrap_or_default().to_owned();
        kinds.push((said("WARC-Type"), said("WARC-Target-URI")));
        last = reader.block(1 << 20).unwrap().unwrap();
    }
    let page = "http://a.test/picture".to_owned();
    let gap = ("metadata".to_owned(), String::new());
    let response = ("response".to_owned(), page);
    assert_eq!(kinds, [gap.clone(), gap, response.clone(), response]);
    let last = String::from_utf8(last).unwrap();
    assert!(last.ends_with(&format!("{MARKER} that both have")), "{last}");
    assert!(file.len() as u64 > bytes, "the others lie where they lay");
    // It is the text of a.test now, and nowhere else.
    assert_eq!(found(&site.dir(), MARKER), ["archive/theirs.warc"]);
    assert_eq!(found(&site.dir(), HOST), [""; 0]);
}

#[cfg(feature = "failpoints")]
#[test]
fn a_death_anywhere_is_followed_by_the_rest() {
    let points = [
        ("forget_begun", 1),
        ("forget_draft", 1),
        ("forget_warc", 1),
        ("forget_warc", 2),
        ("forget_lines", 1),
        ("forget_lines", 3),
        ("search_erase", 1),
        ("forget_part", 1),
        ("forget_rows", 1),
        ("forget_copied", 1),
        ("forget_swap", 1),
        ("forget_swap", 3),
        ("forget_told", 1),
    ];
    for (point, time) in points {
        let site = site();
        crawl(&site, "store.shards=2");
        let mut command = crate::common::lycosa(site.path());
        command.args(["forget", "crawl", HOST, "--reason", "asked by its owner"]);
        command.env("LYCOSA_FAILPOINT", format!("{point}:{time}"));
        let died = command.output().expect("it starts");
        assert_eq!(died.status.code(), None, "{point}:{time}: {died:?}");
        site.run(&["resume", "crawl"]).exits(1).says("finish that first: lycosa forget crawl");
        site.run(&["explain", "crawl", "http://a.test/"]).exits(1).says("finish that first");
        site.run(&["forget", "crawl"]).exits(0).prints("forgotten: ");
        check_gone(&site);
        site.run(&["resume", "crawl"]).exits(0);
    }
}
