//! The full-text index of the real binary: every page is found by its title, also while the crawl runs, after
//! another round, and after any death.

use std::collections::BTreeMap;
use std::process::Stdio;

use serde_json::Value;
use simweb::{Faults, WorldSpec};

use crate::common::{Ran, Site, lycosa, wait_until};
use crate::world::number;

impl Site {
    fn search(&self, words: &[&str]) -> Ran {
        self.run(&[&["search", "crawl"], words].concat())
    }

    /// What answers, the best first, as paths with their hosts.
    fn found(&self, words: &[&str]) -> Vec<String> {
        let port = format!(":{}", self.ready.http);
        let lines = self.lines(words);
        let urls = lines.iter().map(|line| line["url"].as_str().expect("a URL"));
        urls.map(|url| url.trim_start_matches("http://").replace(&port, "")).collect()
    }

    fn lines(&self, words: &[&str]) -> Vec<Value> {
        let ran = self.search(&[&["--json", "--limit", "10000"], words].concat()).exits(0);
        ran.out.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }

    /// Everything that the index has, without what differs from run to run.
    fn indexed(&self) -> BTreeMap<String, (Value, Value)> {
        let lines = self.lines(&["site:test"]);
        let port = format!(":{}", self.ready.http);
        let of = |line: Value| {
            let url = line["url"].as_str().expect("a URL").replace(&port, "");
            (url, (line["title"].clone(), line["snippet"].clone()))
        };
        let count = lines.len();
        let all: BTreeMap<_, _> = lines.into_iter().map(of).collect();
        assert_eq!(all.len(), count, "a page is there twice");
        all
    }
}

fn article(language: &str, title: &str, text: &str, rest: &str) -> String {
    let text = format!("{text} ").repeat(4);
    format!(
        "<html lang={language}><title>{title}</title><main><article><h1>{title}</h1><p>{text}</p>\
         </article></main>{rest}"
    )
}

fn web() -> String {
    let links = "<a href=/wolf>w</a> <a href=/hidden>h</a> <a href=/gone>g</a> \
                 <a href=http://b.test:PORT/tokyo>t</a> \
                 <a href=/haus>d</a> <a href=/changes>x</a> <a href=/leaves>l</a>";
    let wolf = "Wolf spiders do not wait in a web: they run down what they eat, at night and over stones, \
                and carry their young on their backs until these can hunt for themselves.";
    let pages = [
        (
            "a.test/",
            article("en", "Start", "Where every walk through this little web begins.", links),
        ),
        // Farther from the seed, so that it is the copy.
        (
            "a.test/wolf",
            article("en", "Wolf spiders", wolf, "<a href=http://b.test:PORT/copy>c</a>"),
        ),
        ("b.test/copy", article("en", "Wolf spiders", wolf, "")),
        (
            "a.test/hidden",
            article("en", "Hidden", "Not for anybody.", "<meta name=robots content=noindex>"),
        ),
        (
            "b.test/tokyo",
            article("ja", "東京都の図書館", "図書館は月曜日に休みます。雨の日も開いています。", ""),
        ),
        (
            "a.test/haus",
            article("de", "Häuser am Fluss", "Die alten Häuser stehen seit Jahren leer.", ""),
        ),
        ("a.test/changes", article("en", "Before", "This page says something about herons.", "")),
        (
            "a.test/changes then",
            article("en", "After", "Now it speaks about kingfishers only.", ""),
        ),
        (
            "a.test/leaves",
            article("en", "Leaving", "Soon this page will not be here any more.", ""),
        ),
    ];
    let pages = pages.map(|(url, html)| format!("--- {url}\n{html}\n")).concat();
    format!(
        "{pages}--- a.test/leaves then 410\ngone\n--- a.test/gone 404\nNothing about wolves here.\n"
    )
}

/// What was under way when it died is tried again a little later.
const WORDS: [&str; 6] = ["--scope", "any", "-s", "store.shards=2", "-s", "crawl.patience=30s"];

fn crawled() -> Site {
    let site = Site::fixture(web().trim_end());
    let home = site.url("a.test", "/");
    site.crawl(&[&[&*home], &WORDS[..]].concat()).exits(0);
    site
}

#[test]
fn pages_are_found_by_their_words_in_any_language_and_copies_once() {
    let site = crawled();
    assert_eq!(site.found(&["wolf spider"]), ["a.test/wolf"]);
    assert_eq!(site.found(&["\"carry their young\" -heron"]), ["a.test/wolf"]);
    assert_eq!(site.found(&["図書館"]), ["b.test/tokyo"]);
    assert_eq!(site.found(&["--lang", "ja", "休み OR 東京"]), ["b.test/tokyo"]);
    assert_eq!(site.found(&["haus"]), ["a.test/haus"]);
    assert_eq!(site.found(&["hauser fluss"]), ["a.test/haus"]);
    for nothing in ["hidden", "gone", "wolves nothing", "site:c.test wolf"] {
        let ran = site.search(&[nothing]).exits(0).says("no page has that (6 pages searched)");
        assert_eq!(ran.out, "", "{nothing}");
    }
    assert_eq!(site.found(&["--site", "b.test", "title:図書館"]), ["b.test/tokyo"]);
    assert_eq!(site.found(&["--after", "2020-01-01", "wolf"]), ["a.test/wolf"]);
    assert_eq!(site.found(&["--before", "2020-01-01", "wolf"]), [""; 0]);

    let line = &site.lines(&["young"])[0];
    assert_eq!((&line["rank"], &line["host"]), (&1.into(), &"a.test".into()));
    assert_eq!((&line["language"], &line["title"]), (&"en".into(), &"Wolf spiders".into()));
    assert!(line["score"].as_f64() > Some(0.0) && line["date"].as_str() > Some("2020"), "{line}");
    let (snippet, highlights) = (&line["snippet"], &line["highlights"][0]);
    let snippet: Vec<char> = snippet.as_str().expect("a text").chars().collect();
    let [from, to] = [0, 1].map(|n| highlights[n].as_u64().expect("a place") as usize);
    assert_eq!(snippet[from..to].iter().collect::<String>(), "young");

    let told = site.search(&["wolf", "spider"]).exits(0).says("lycosa: 1 page");
    assert!(told.out.starts_with("1. Wolf spiders\n   http://a.test:"), "{}", told.out);
    site.search(&["--limit", "2", "site:test"]).exits(0).says("6 pages; the next: --offset 2");
}

#[test]
fn a_bad_question_is_answered_with_what_to_type() {
    let site = crawled();
    for (words, hint) in [
        (&["\"wolf"][..], "a quote on both sides"),
        (&["(wolf"], "write (wolf OR fox)"),
        (&["wolf OR"], "write wolf OR fox"),
        (&["author:me"], "there are title:"),
        (&["--", "-wolf"], "such as wolf -fox"),
        (&["..."], "type a word"),
        (&["--after", "soon", "wolf"], "write it as 2026-11-18"),
        (&["--lang", "german-please-now", "wolf"], "lang:de"),
        (&["--site", "a b", "wolf"], "site:example.org"),
    ] {
        let ran = site.search(words).exits(2).says(hint);
        assert_eq!(ran.out, "");
    }
    site.run(&["search", "nowhere", "wolf"]).exits(1).says("is no crawl directory");
}

#[test]
fn without_an_index_it_says_why_and_what_to_type() {
    let site = Site::fixture(web().trim_end());
    let home = site.url("a.test", "/");
    let words = [&[&*home, "-s", "search.enabled=false"], &WORDS[..]].concat();
    site.crawl(&words).exits(0);
    assert!(!site.dir().join("search").exists());
    site.search(&["wolf"]).exits(1).says("search.enabled = false").says("lycosa recrawl");
    // As it says; what was visited before is read from the archive.
    site.run(&["recrawl", "crawl", "-s", "search.enabled=true"]).exits(0);
    assert_eq!(site.found(&["wolf spider"]), ["a.test/wolf"]);
    assert_eq!(site.found(&["haus"]), ["a.test/haus"]);
    assert_eq!(site.found(&["site:test"]).len(), 5, "the one that leaves has left");
}

#[test]
fn another_round_updates_pages_and_takes_out_what_has_gone() {
    let site = crawled();
    assert_eq!(site.found(&["heron"]), ["a.test/changes"]);
    assert_eq!(site.found(&["leaving"]), ["a.test/leaves"]);
    site.run(&["recrawl", "crawl"]).exits(0);
    assert_eq!(site.found(&["heron"]), [""; 0]);
    assert_eq!(site.found(&["title:after kingfisher"]), ["a.test/changes"]);
    assert_eq!(site.found(&["leaving"]), [""; 0]);
    assert_eq!(site.found(&["wolf spider"]), ["a.test/wolf"]);
    assert_eq!(site.found(&["site:test"]).len(), 5);
    // What was saved is searched as well, and gone on with.
    site.run(&["backup", "crawl", "saved"]).exits(0);
    site.run(&["search", "saved", "kingfisher"]).exits(0).prints("/changes");
    site.run(&["recrawl", "saved", "--quiet"]).exits(0);
    site.run(&["search", "saved", "site:test"]).exits(0).says("5 pages");
}

#[test]
fn every_page_of_a_world_is_found_by_its_title() {
    let spec = WorldSpec {
        hosts: number("LYCOSA_SEARCH_HOSTS", 12),
        pages: number("LYCOSA_SEARCH_PAGES", 250),
        ..WorldSpec::default()
    }
    .with_faults(Faults::none());
    let site = Site::world(&spec);
    let mut words = vec!["--scope", "any", "--depth", "100", "--quiet", "-s", "store.shards=4"];
    words.extend(site.ready.seed_urls.iter().map(String::as_str));
    site.crawl(&words).exits(0);
    let pages = std::fs::read_to_string(site.dir().join("pages/pages.jsonl")).expect("a list");
    let pages = pages.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON"));
    let pages: Vec<Value> = pages.filter(|page: &Value| page["noindex"] == false).collect();
    let (copies, originals): (Vec<_>, Vec<_>) =
        pages.iter().partition(|page| page["duplicate_of"].is_string());
    assert!(originals.len() as u64 * 2 > spec.pages, "{} originals", originals.len());
    let mut missing = Vec::new();
    for page in &originals {
        let Some(title) = page["title"].as_str() else { continue };
        let title = format!("title:\"{}\"", title.replace('"', " "));
        let url = page["url"].as_str().expect("a URL");
        if !site.lines(&[&title]).iter().any(|line| line["url"] == url) {
            missing.push((url, title));
        }
    }
    // A page that was an original when its line was written may have become a copy since.
    missing.retain(|(url, _)| {
        let told = site.run(&["explain", "crawl", url, "--json"]).exits(0);
        let told: Value = serde_json::from_str(&told.out).expect("JSON");
        told["text"]["duplicate_of"].is_null()
    });
    assert!(missing.is_empty(), "{missing:?}");
    println!("{} pages, {} copies", originals.len(), copies.len());
}

#[test]
fn a_crawl_is_searched_while_it_runs() {
    let site = Site::fixture(web().trim_end());
    let home = site.url("a.test", "/");
    let mut command = lycosa(site.path());
    command.args(["crawl", "-o", "crawl", &home, "--scope", "any", "--delay", "8s"]);
    command.args(site.flags()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    // The second page of a host comes after its pause; a commit comes before that.
    wait_until("the first page is found", || {
        site.dir().join("search/meta.json").exists()
            && site.search(&["start"]).out.contains("a.test")
    });
    assert!(child.try_wait().expect("it is ours").is_none(), "it runs");
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
}

#[cfg(feature = "failpoints")]
#[test]
fn a_death_in_the_index_doubles_nothing_and_loses_nothing() {
    let quiet = crawled();
    let expected = quiet.indexed();
    assert_eq!(expected.len(), 6);
    for (point, times) in [("search_add", 3), ("search_commit", 1), ("search_committed", 1)] {
        for time in 1..=times {
            let site = Site::fixture(web().trim_end());
            let home = site.url("a.test", "/");
            let mut command = site.crawl_command(&[&[&*home], &WORDS[..]].concat());
            command.env("LYCOSA_FAILPOINT", format!("{point}:{time}"));
            let died = command.output().expect("it starts");
            assert_eq!(died.status.code(), None, "{point}:{time}: {died:?}");
            let resumed = lycosa(site.path()).args(["resume", "crawl"]).output();
            Ran::from(resumed.expect("it starts")).exits(0);
            assert_eq!(site.indexed(), expected, "{point}:{time}");
        }
    }
}
