//! What a crawl is turned into: each form, compared with what was crawled; the table as another engine sees
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{Ran, Site, lycosa, wait_until};
use crate::judge::{self, python};

const WEB: &str = "
--- a.test/robots.txt
User-agent: *
Disallow: /secret
--- a.test/ chunked
<html lang=en><title>Spiders</title><meta name=description content=\"All about them\">
<h1>Wolf spiders</h1><p>A wolf spider does not wait in a web; it goes out and walks, day and night, \
and carries its young on its back until they can look after themselves.</p>
<a href=/de rel=nofollow>German</a> <a href=/de>deutsch</a> <a href=/moved>moved</a> <a href=/none>none</a>
<a href=/text?b=2&a=1>text</a> <img src=/picture.png alt=\"a picture\"> <a href=http://b.test:PORT/>b</a>
--- a.test/de gzip
<html lang=de><title>Spinnen</title><p>Eine Wolfspinne wartet nicht im Netz; sie geht hinaus und \
läuft, bei Tag und bei Nacht, und trägt ihre Jungen auf dem Rücken, bis sie groß sind.</p>
--- a.test/moved 302 Location: /de
--- a.test/text?a=1&b=2 type=text/plain
plain words about spiders that walk through the night and never build a web of their own
--- a.test/picture.png type=image/png
no picture
--- b.test/
<html lang=en><title>Elsewhere</title><p>Another host has another page about the same spiders, and \
some more words, so that there is something to be read on it at all.</p>
";

fn crawled() -> Site {
    let site = Site::fixture(WEB);
    let words = [&*site.url("a.test", "/"), "--scope", "any", "-s", "archive.file_bytes_max=2kB"];
    site.crawl(&words).exits(0);
    site
}

impl Site {
    fn export(&self, format: &str, words: &[&str]) -> Ran {
        let all = [&["export", "crawl", "--format", format], words].concat();
        self.run(&all)
    }

    /// Lines of JSON.
    fn jsonl(&self, words: &[&str]) -> Vec<Value> {
        let out = self.export("jsonl", words).exits(0).out;
        out.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

fn urls(lines: &[Value]) -> BTreeSet<&str> {
    lines.iter().map(|line| line["url"].as_str().expect("every line has its URL")).collect()
}

/// What another engine sees; see the script.
pub fn asked(words: &[&str]) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/table.py");
    let output = Command::new(python()).arg(script).args(words).output().expect("Python starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Name of the file and offset of every capture that the indexes have.
fn indexed(dir: &Path) -> BTreeSet<(String, u64)> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(dir.join("indexes")).expect("there are indexes") {
        let text = fs::read_to_string(entry.expect("a file").path()).expect("text");
        for line in text.lines() {
            let json = line.splitn(3, ' ').nth(2).expect("key, moment, JSON");
            let entry: Value = serde_json::from_str(json).expect("JSON");
            let name = format!("archive/{}", entry["filename"].as_str().expect("a name"));
            let offset = entry["offset"].as_str().expect("a place").parse().expect("a number");
            assert!(found.insert((name, offset)), "{line} is there twice");
        }
    }
    found
}

/// The table has every capture of the indexes once, and nothing else.
pub fn table_has_every_capture(dir: &Path) {
    let files = dir.join("table/**/*.parquet").display().to_string();
    let rows = asked(&["query", &files, "SELECT warc_filename, warc_record_offset FROM ccindex"]);
    let mut found = BTreeSet::new();
    for row in rows.as_array().expect("rows") {
        let name = row[0].as_str().expect("a name").to_owned();
        let offset = row[1].as_u64().expect("a place");
        assert!(found.insert((name, offset)), "{row} is there twice");
    }
    assert_eq!(found, indexed(dir));
}

/// The columns of Common Crawl's index, as its schema names them and as DuckDB shows their types.
const COLUMNS: [(&str, &str); 32] = [
    ("url_surtkey", "VARCHAR"),
    ("url", "VARCHAR"),
    ("url_host_name", "VARCHAR"),
    ("url_host_tld", "VARCHAR"),
    ("url_host_2nd_last_part", "VARCHAR"),
    ("url_host_3rd_last_part", "VARCHAR"),
    ("url_host_4th_last_part", "VARCHAR"),
    ("url_host_5th_last_part", "VARCHAR"),
    ("url_host_registry_suffix", "VARCHAR"),
    ("url_host_registered_domain", "VARCHAR"),
    ("url_host_private_suffix", "VARCHAR"),
    ("url_host_private_domain", "VARCHAR"),
    ("url_host_name_reversed", "VARCHAR"),
    ("url_protocol", "VARCHAR"),
    ("url_port", "INTEGER"),
    ("url_path", "VARCHAR"),
    ("url_query", "VARCHAR"),
    ("fetch_time", "TIMESTAMP WITH TIME ZONE"),
    ("fetch_status", "SMALLINT"),
    ("fetch_redirect", "VARCHAR"),
    ("content_digest", "VARCHAR"),
    ("content_mime_type", "VARCHAR"),
    ("content_mime_detected", "VARCHAR"),
    ("content_charset", "VARCHAR"),
    ("content_languages", "VARCHAR"),
    ("content_truncated", "VARCHAR"),
    ("warc_filename", "VARCHAR"),
    ("warc_record_offset", "INTEGER"),
    ("warc_record_length", "INTEGER"),
    ("warc_segment", "VARCHAR"),
    ("crawl", "VARCHAR"),
    ("subset", "VARCHAR"),
];

/// As it is written for Common Crawl's index.
const QUERY: &str = "SELECT url, warc_filename, warc_record_offset, warc_record_length \
                     FROM ccindex \
                     WHERE url_host_registered_domain = 'a.test' AND subset = 'warc' AND fetch_status = 200 \
                     ORDER BY url_surtkey";

#[test]
fn pages_come_out_as_json_lines_with_their_text_and_place() {
    let site = crawled();
    let lines = site.jsonl(&[]);
    let (home, text) = (site.url("a.test", "/"), site.url("a.test", "/text?a=1&b=2"));
    let (german, other) = (site.url("a.test", "/de"), site.url("b.test", "/"));
    assert_eq!(urls(&lines), BTreeSet::from([&*home, &*text, &*german, &*other]));
    let line = |url: &str| lines.iter().find(|line| line["url"] == url).expect("its line");
    let first = line(&home);
    assert_eq!(first["title"], "Spiders");
    assert_eq!(first["description"], "All about them");
    assert_eq!((&first["status"], &first["language"]), (&200.into(), &"en".into()));
    assert!(first["text"].as_str().expect("a text").contains("does not wait in a web"));
    assert_eq!(first["links"], 7, "{first}");
    assert_eq!(first["markdown"], Value::Null);
    assert_eq!(line(&german)["language"], "de");
    assert!(line(&text)["text"].as_str().expect("a text").starts_with("plain words"));

    let index = site.export("cdxj", &[]).exits(0).out;
    // Where a line says that a page lies, there it lies; its prints are those of pages.jsonl.
    for line in &lines {
        let file = site.dir().join("archive").join(line["warc_filename"].as_str().expect("a name"));
        let file = file.to_str().expect("a path");
        let offset = line["warc_record_offset"].to_string();
        let mut get = lycosa(site.path());
        let got = get.args(["warc", "get", file, &offset]).output().expect("it starts");
        // Its body may be packed.
        let record = String::from_utf8_lossy(&got.stdout);
        assert!(record.contains(&format!("WARC-Target-URI: {}", line["url"].as_str().unwrap())));
        assert!(record.contains(line["warc_record_id"].as_str().unwrap()));
        let digest = line["digest"].as_str().unwrap();
        assert!(index.contains(&format!("{digest}\", \"length\": \"")), "{digest}");
    }
    let pages = fs::read_to_string(site.dir().join("pages/pages.jsonl")).unwrap();
    for page in pages.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let line = line(page["url"].as_str().unwrap());
        assert_eq!(line["text_sha256"], page["text_sha256"], "{page}");
        assert_eq!(line["simhash"], page["simhash"], "{page}");
        assert_eq!(line["word_count"], page["words"], "{page}");
    }
}

#[test]
fn a_filter_takes_what_it_says_and_nothing_else() {
    let site = crawled();
    let count = |words: &[&str]| site.jsonl(words).len();
    assert_eq!(count(&["--host", "b.test"]), 1);
    assert_eq!(count(&["--host", "*.test"]), 4);
    assert_eq!(count(&["--language", "de"]), 1);
    assert_eq!(count(&["--type", "text/plain"]), 1);
    assert_eq!(count(&["--include", "/de$", "--include", "b.test"]), 2);
    assert_eq!(count(&["--exclude", "a.test"]), 1);
    assert_eq!(count(&["--limit", "2"]), 2);
    assert_eq!(count(&["--limit", "0"]), 0);
    assert_eq!(count(&["--after", "2000-01-01", "--before", "2000-01-02"]), 0);
    assert_eq!(count(&["--after", "2000-01-01"]), 4);
    let moved = site.jsonl(&["--status", "3xx"]);
    assert!(moved.iter().all(|line| line["status"] == 302), "{moved:?}");
    assert_eq!(
        site.jsonl(&["--markdown", "--host", "b.test"])[0]["markdown"]
            .as_str()
            .map(|text| text.contains("Another host")),
        Some(true)
    );

    site.export("jsonl", &["--host", "http://x/"]).exits(2).says("*.example.org");
    site.export("jsonl", &["--status", "ok"]).exits(2).says("4xx");
    site.export("jsonl", &["--after", "today"]).exits(2).says("2026-11-18");
    site.export("jsonl", &["--include", "("]).exits(2).says("--include");
    site.export("wacz", &[]).exits(2).says("-o FILE.wacz");
    site.export("wacz", &["-o", "x.wacz", "--host", "a.test"]).exits(2).says("all of the archive");
    site.export("cdxj", &["--language", "de"]).exits(2).says("no languages");
    site.export("links", &["-o", "x.gz"]).exits(2).says("packed by itself");
    site.run(&["export", "nowhere", "--format", "jsonl"]).exits(1).says("no crawl directory");
}

#[test]
fn markdown_comes_in_one_file_or_in_a_file_a_page() {
    let site = crawled();
    let out = site.export("markdown", &[]).exits(0).out;
    assert_eq!(out.matches("\n---\n\n").count(), 4, "{out}");
    assert!(out.starts_with("---\nurl: \"http://a.test:"), "{out}");
    assert!(out.contains("title: \"Spinnen\"\n") && out.contains("language: \"de\"\n"));
    site.export("markdown", &["-o", "pages/"]).exits(0).says("4 pages");
    let mut texts = Vec::new();
    for host in ["a.test", "b.test"] {
        for entry in fs::read_dir(site.path().join("pages").join(host)).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(path.extension().unwrap(), "md");
            texts.push(fs::read_to_string(path).unwrap());
        }
    }
    assert_eq!(texts.len(), 4);
    assert!(texts.iter().all(|text| out.contains(text)));
    site.export("markdown", &["-o", "all.md.gz"]).exits(0);
    let mut text = String::new();
    let file = fs::File::open(site.path().join("all.md.gz")).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    assert_eq!(text, out);
}

#[test]
fn the_text_of_pages_is_a_warc_that_outside_tools_take() {
    let site = crawled();
    site.export("wet", &["-o", "text.warc.wet.gz"]).exits(0).says("4 pages");
    site.run(&["warc", "check", "text.warc.wet.gz"]).exits(0).prints("ok, 5 records");
    let file = site.path().join("text.warc.wet.gz");
    let warcio =
        Command::new(python()).args(["-m", "warcio.cli", "check", "-v"]).arg(&file).output();
    let warcio = warcio.expect("Python starts");
    assert!(warcio.status.success(), "{}", String::from_utf8_lossy(&warcio.stdout));
    let plain = site.export("wet", &[]).exits(0).out;
    assert_eq!(plain.matches("WARC-Type: conversion\r\n").count(), 4);
    assert_eq!(plain.matches("WARC-Identified-Content-Language: deu\r\n").count(), 1);
    for line in site.jsonl(&[]) {
        let id = line["warc_record_id"].as_str().unwrap();
        assert!(plain.contains(&format!("WARC-Refers-To: {id}\r\n")), "{line}");
        assert!(plain.contains(&format!("\r\n\r\n{}\r\n\r\n", line["text"].as_str().unwrap())));
    }
}

#[test]
fn one_index_has_the_lines_of_all_sorted() {
    let site = crawled();
    let mut lines = Vec::new();
    let indexes = fs::read_dir(site.dir().join("indexes")).unwrap();
    let mut files = 0;
    for entry in indexes {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        lines.extend(text.lines().map(str::to_owned));
        files += 1;
    }
    assert!(files > 1, "there is something to merge");
    lines.sort();
    let out = site.export("cdxj", &[]).exits(0).out;
    assert_eq!(out.lines().collect::<Vec<_>>(), lines);
    let only = site.export("cdxj", &["--status", "404", "--host", "a.test"]).exits(0).out;
    assert_eq!(only.lines().count(), 1, "{only}");
}

#[test]
fn links_are_rows_in_the_order_of_the_page() {
    let site = crawled();
    site.export("links", &["-o", "links.parquet"]).exits(0);
    let all = "SELECT \"to\", anchor, rel, kind FROM ccindex WHERE \"from\" = '";
    let query = format!("{all}{}'", site.url("a.test", "/"));
    let file = site.path().join("links.parquet").display().to_string();
    let rows = asked(&["query", &file, &query]);
    let at = |path: &str| Value::from(site.url("a.test", path));
    let text = |text: &str| Value::from(text);
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 7, "{rows:?}");
    assert_eq!(
        rows[0],
        Value::from(vec![at("/de"), text("German"), text("nofollow"), text("anchor")])
    );
    assert_eq!(rows[1], Value::from(vec![at("/de"), text("deutsch"), Value::Null, text("anchor")]));
    let picture = [at("/picture.png"), text("a picture"), Value::Null, text("image")];
    assert!(rows.iter().any(|row| row[0] == picture[0] && row[3] == picture[3]), "{rows:?}");
}

#[test]
fn a_package_holds_all_of_the_archive_and_agrees_with_its_digests() {
    let site = crawled();
    site.export("wacz", &["-o", "crawl.wacz"]).exits(0);
    let path = site.path().join("crawl.wacz").display().to_string();
    let seen = asked(&["wacz", &path]);
    assert_eq!(seen["version"], "1.1.1");
    let files = judge::files(&site.dir()).len();
    let members = seen["members"].as_array().unwrap();
    assert_eq!(members.len(), files + 5, "{members:?}");
    assert_eq!(seen["captures"].as_array().unwrap().len(), indexed(&site.dir()).len());
    let pages: BTreeSet<&str> =
        seen["pages"].as_array().unwrap().iter().map(|url| url.as_str().unwrap()).collect();
    assert!(pages.contains(&*site.url("b.test", "/")), "{pages:?}");
}

#[test]
fn the_table_is_common_crawls_and_answers_a_query_written_for_it() {
    let site = crawled();
    let files = site.dir().join("table/**/*.parquet").display().to_string();
    let schema: Vec<(String, String)> =
        serde_json::from_value(asked(&["schema", &files])).expect("names and types");
    let schema: Vec<_> = schema.iter().map(|(name, kind)| (name.as_str(), kind.as_str())).collect();
    assert_eq!(schema, COLUMNS);
    table_has_every_capture(&site.dir());

    let rows = asked(&["query", &files, QUERY]);
    let rows = rows.as_array().expect("rows");
    let found: Vec<&str> = rows.iter().map(|row| row[0].as_str().expect("a URL")).collect();
    let at = |path| site.url("a.test", path);
    assert_eq!(found, [&at("/")[..], &at("/de"), &at("/text?a=1&b=2")]);
    // What lies there is the page.
    for row in rows {
        let bytes = fs::read(site.dir().join(row[1].as_str().expect("a name"))).expect("a file");
        let (start, length) =
            (row[2].as_u64().unwrap() as usize, row[3].as_u64().unwrap() as usize);
        let mut record = Vec::new();
        flate2::read::GzDecoder::new(&bytes[start..start + length])
            .read_to_end(&mut record)
            .expect("one member is one record");
        let record = String::from_utf8_lossy(&record);
        assert!(record.contains(&format!("WARC-Target-URI: {}\r\n", row[0].as_str().unwrap())));
        assert!(record.contains("WARC-Type: response\r\n") && record.contains("HTTP/1.1 200"));
    }

    let columns = "url_path, url_query, fetch_status, subset, content_mime_type, content_mime_detected, \
                   content_charset, content_languages, fetch_redirect";
    let query = format!(
        "SELECT {columns} FROM ccindex WHERE url_host_name = 'a.test' ORDER BY url_path, fetch_time"
    );
    let rows = asked(&["query", &files, &query]);
    let by_path: BTreeMap<&str, &Value> =
        rows.as_array().unwrap().iter().map(|row| (row[0].as_str().unwrap(), row)).collect();
    let cells = |path: &str| -> Vec<String> {
        let row = by_path[path].as_array().unwrap();
        row[1..].iter().map(|cell| cell.to_string().replace('"', "")).collect()
    };
    let html = ["text/html", "text/html", "UTF-8"];
    assert_eq!(cells("/de")[..7], [&["null", "200", "warc"][..], &html, &["deu"]].concat());
    assert_eq!(cells("/robots.txt")[2], "robotstxt");
    assert_eq!(cells("/none")[1..3], ["404", "crawldiagnostics"]);
    assert_eq!(cells("/moved")[7], site.url("a.test", "/de"));
    assert_eq!(cells("/text")[0], "a=1&b=2");

    // The same rows without the table, all columns in one file.
    site.export("parquet", &["-o", "all.parquet"]).exits(0);
    let file = site.path().join("all.parquet").display().to_string();
    assert_eq!(asked(&["schema", &file]), asked(&["schema", &files]));
    let all = "SELECT * FROM ccindex ORDER BY warc_filename, warc_record_offset";
    let (exported, written) = (asked(&["query", &file, all]), asked(&["query", &files, all]));
    for (exported, written) in exported.as_array().unwrap().iter().zip(written.as_array().unwrap())
    {
        let (exported, written) = (exported.as_array().unwrap(), written.as_array().unwrap());
        for (at, (name, _)) in COLUMNS.iter().enumerate() {
            // The log knows the millisecond, the archive the second.
            let same = match *name {
                "fetch_time" => {
                    exported[at].as_str().unwrap()[..19] == written[at].as_str().unwrap()[..19]
                }
                _ => exported[at] == written[at],
            };
            assert!(same, "{name}: {} and {}", exported[at], written[at]);
        }
    }
    assert_eq!(exported.as_array().unwrap().len(), written.as_array().unwrap().len());
}

#[test]
fn pages_that_had_not_changed_are_one_line_and_a_table_row_each() {
    let site = crawled();
    let mut again = lycosa(site.path());
    let again: Ran = again.args(["recrawl", "crawl"]).output().expect("it starts").into();
    again.exits(0);
    assert_eq!(site.jsonl(&[]).len(), 4);
    let all = site.jsonl(&["--revisits"]);
    assert_eq!(all.len(), 8);
    let texts: BTreeSet<&str> = all.iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert_eq!(texts.len(), 4, "the text of a revisit is that of the page that it refers to");
    table_has_every_capture(&site.dir());
    let files = site.dir().join("table/**/*.parquet").display().to_string();
    let rows = asked(&["query", &files, QUERY]);
    assert_eq!(rows.as_array().unwrap().len(), 3, "a revisit has no page to fetch");
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_comes_all_the_same() {
    let site = crawled();
    let line = &site.jsonl(&[])[0];
    let file = site.dir().join("archive").join(line["warc_filename"].as_str().unwrap());
    let mut bytes = fs::read(&file).unwrap();
    bytes[line["warc_record_offset"].as_u64().unwrap() as usize + 20] ^= 0xff;
    fs::write(&file, bytes).unwrap();
    let ran = site.export("jsonl", &[]).exits(1);
    let ran = ran.says("1 record could not be read").says("lycosa warc check");
    assert_eq!(ran.out.lines().count(), 3);
}

#[test]
fn an_export_works_while_the_crawl_runs() {
    let mut web = String::new();
    for page in 0..60 {
        let next = page + 1;
        web += &format!(
            "--- a.test/{page} slow=50ms\n<p>Some words of page {page}, which are enough "
        );
        web += &format!("to be read by somebody. <a href=/{next}>next</a>\n");
    }
    let site = Site::fixture(web.trim_end());
    let mut crawl = site.crawl_command(&[&site.url("a.test", "/0"), "-d", "100"]);
    let mut crawl = crawl.stderr(std::process::Stdio::null()).spawn().expect("it starts");
    wait_until("a page is exported", || site.export("jsonl", &[]).out.lines().count() > 3);
    let lines = site.export("cdxj", &[]).exits(0).out;
    let mut sorted: Vec<&str> = lines.lines().collect();
    sorted.sort_unstable();
    assert_eq!(lines.lines().collect::<Vec<_>>(), sorted);
    site.export("wacz", &["-o", "crawl.wacz"]).exits(0);
    let seen = asked(&["wacz", &site.path().join("crawl.wacz").display().to_string()]);
    assert!(seen["captures"].as_array().unwrap().len() > 3, "{seen}");
    assert!(crawl.wait().expect("it ends").success());
    assert_eq!(site.jsonl(&[]).len(), 60);
}
