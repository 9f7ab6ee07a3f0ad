//! A web with copies, crawled by the real binary: `explain` names the original, pages.jsonl has a line a
//! page, and a death on the way changes neither.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::common::Site;
#[cfg(feature = "failpoints")]
use crate::common::{Ran, lycosa};

/// A paragraph of a text of its own for every number.
fn words(number: u64, count: u64) -> String {
    let word = |n: u64| (number * 1_000 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let words: Vec<String> = (0..count).map(|n| format!("w{:x}", word(n))).collect();
    words.join(" ")
}

fn site() -> Site {
    let one = words(1, 200);
    let near = one.replace(&words(1, 3), "three other words");
    let nav = "<nav><a href=/>Home</a> <a href=/>About</a></nav>";
    let menu = "<div id=menu><ul><li><a href=/>Start</a><li><a href=/>Contact</a></ul></div>";
    let links: String = ["b.test:PORT/exact", "c.test:PORT/near", "d.test:PORT/other"]
        .map(|to| format!("<a href=http://{to}>more</a> "))
        .concat();
    let article = |text: &str, rest: &str| {
        format!(
            "<html lang=en><title>T</title>{nav}<main><article><p>{text}.</p></article></main>{rest}"
        )
    };
    let pages = [
        ("a.test/", article(&words(9, 150), "<a href=/one>one</a> <a href=/gone>gone</a>")),
        ("a.test/one", article(&one, &links)),
        (
            "b.test/exact",
            format!("<title>Copied</title>{menu}<div class=content><p>{one}.</p></div>"),
        ),
        ("c.test/near", article(&near, "<meta name=robots content=noarchive>")),
        ("d.test/other", article(&words(2, 200), "")),
    ];
    Site::fixture(pages.map(|(url, html)| format!("--- {url}\n{html}\n")).concat().trim_end())
}

/// What was under way when it died is tried again a little later.
const WORDS: [&str; 6] = ["--scope", "any", "-s", "store.shards=4", "-s", "crawl.patience=30s"];

/// The lines of pages.jsonl by path, all of them whole.
fn pages(site: &Site, dir: &Path) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(dir.join("pages/pages.jsonl")).expect("it is there");
    assert!(text.ends_with('\n'));
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    assert_eq!(lines[0]["format"], "json-pages-1.0");
    let mut pages = BTreeMap::new();
    for line in &lines[1..] {
        let url = line["url"].as_str().expect("a page has a URL");
        let name = url.trim_start_matches("http://").replace(&format!(":{}", site.ready.http), "");
        assert!(pages.insert(name, line.clone()).is_none(), "{url} stands there twice");
        assert!(line["id"].is_string() && line["ts"].as_str().is_some_and(|ts| ts.ends_with('Z')));
    }
    pages
}

fn check(site: &Site) {
    let pages = pages(site, &site.dir());
    let names: Vec<&str> = pages.keys().map(String::as_str).collect();
    assert_eq!(names, ["a.test/", "a.test/one", "b.test/exact", "c.test/near", "d.test/other"]);
    let one = site.url("a.test", "/one");
    let (exact, near) = (&pages["b.test/exact"], &pages["c.test/near"]);
    assert_eq!(
        (&exact["duplicate_of"], &exact["duplicate"]),
        (&one.clone().into(), &"exact".into())
    );
    assert_eq!((&near["duplicate_of"], &near["duplicate"]), (&one.clone().into(), &"near".into()));
    assert_eq!(exact["text_sha256"], pages["a.test/one"]["text_sha256"]);
    assert_eq!((&near["noarchive"], &exact["noarchive"]), (&true.into(), &false.into()));
    for name in ["a.test/", "a.test/one", "d.test/other"] {
        let page = &pages[name];
        assert!(page["duplicate_of"].is_null() && page["words"].as_u64() >= Some(150), "{page}");
        assert_eq!(page["status"], 200);
        assert!(page["mime"].as_str().is_some_and(|mime| mime.starts_with("text/html")), "{page}");
    }

    let explain = |host: &str, path: &str| site.run(&["explain", "crawl", &site.url(host, path)]);
    explain("b.test", "/exact").exits(0).prints(&format!("same text as {one}"));
    explain("c.test", "/near").exits(0).prints(&format!("near-duplicate of {one}, distance "));
    explain("a.test", "/one").exits(0).prints("the original of 2 copies");
    explain("d.test", "/other").exits(0).prints("no copy of it is known");
    site.run(&["status", "crawl"]).exits(0).prints("2 of 5 pages with a text (40.0 %)");
    let counts = &site.report()["duplicates"];
    assert_eq!((&counts["pages"], &counts["originals"]), (&5.into(), &3.into()), "{counts}");
    assert_eq!((&counts["exact"], &counts["near"]), (&1.into(), &1.into()), "{counts}");
}

#[test]
fn copies_are_told_and_listed() {
    let site = site();
    let home = site.url("a.test", "/");
    let words: Vec<&str> = [&*home].into_iter().chain(WORDS).collect();
    site.crawl(&words).exits(0).says("2 of 5 pages with a text");
    check(&site);
    let json = site.run(&["explain", "crawl", &site.url("c.test", "/near"), "--json"]).exits(0);
    let told: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(told["text"]["duplicate_of"], site.url("a.test", "/one"));
    assert_eq!(told["text"]["standing"], "near");
    // Copies are archived whole all the same.
    let archive = crate::judge::Archive::read(&site.dir());
    assert_eq!(archive.answers[&site.url("b.test", "/exact")], [200]);

    // What was saved knows as much.
    site.run(&["backup", "crawl", "saved"]).exits(0);
    assert_eq!(pages(&site, &site.path().join("saved")).len(), 5);
    let exact = site.url("b.test", "/exact");
    site.run(&["explain", "saved", &exact]).exits(0).prints("same text as");
    site.run(&["resume", "saved", "--quiet"]).exits(0);
    assert_eq!(pages(&site, &site.path().join("saved")).len(), 5, "nothing is told twice");
}

#[test]
fn without_content_there_are_no_copies_but_pages() {
    let site = site();
    let home = site.url("a.test", "/");
    let off = ["-s", "read.content=false"];
    let words: Vec<&str> = [&*home].into_iter().chain(WORDS).chain(off).collect();
    site.crawl(&words).exits(0);
    let pages = pages(&site, &site.dir());
    assert_eq!(pages.len(), 5);
    assert!(pages.values().all(|page| page["words"].is_null() && page["title"].is_string()));
    assert!(site.report()["duplicates"].is_null());
    assert!(!site.dir().join("state/prints").exists());
}

#[cfg(feature = "failpoints")]
#[test]
fn a_death_between_two_writes_changes_no_verdict_and_no_line() {
    for point in ["prints_commit", "pages_append"] {
        for time in 1..=3 {
            let site = site();
            let home = site.url("a.test", "/");
            let words: Vec<&str> = [&*home].into_iter().chain(WORDS).collect();
            let mut command = site.crawl_command(&words);
            command.env("LYCOSA_FAILPOINT", format!("{point}:{time}"));
            let died = command.output().expect("it starts");
            assert_eq!(died.status.code(), None, "{point}:{time}: {died:?}");
            let resumed = lycosa(site.path()).args(["resume", "crawl"]).output();
            Ran::from(resumed.expect("it starts")).exits(0);
            check(&site);
        }
    }
}
