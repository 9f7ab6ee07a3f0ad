//! Pages that are visited again: what the server is asked, what moves, and what is kept of it.

use std::process::Command;

use simweb::{Entry, WorldSpec};

use crate::common::{Ran, Site, lycosa};
use crate::judge::{self, Archive, Revisit};
use crate::world::number;

impl Site {
    /// Visits everything again, without pauses.
    fn recrawl(&self, words: &[&str]) -> Ran {
        let mut command = lycosa(self.path());
        command.args(["recrawl", "crawl"]).args(words);
        command.output().expect("it starts").into()
    }

    /// What the server saw beyond the first so many requests, robots.txt left out.
    fn seen_since(&self, requests: usize) -> Vec<(String, u16)> {
        let entries = self.journal().into_iter().skip(requests).filter(|e| !e.is_robots());
        let mut seen: Vec<_> = entries.map(|e| (e.path.to_string(), e.status)).collect();
        seen.sort();
        seen
    }
}

fn paths(seen: &[(&str, u16)]) -> Vec<(String, u16)> {
    seen.iter().map(|(path, status)| ((*path).to_owned(), *status)).collect()
}

/// Every revisit points at an answer of its URL that is in the archive.
fn point_at_answers(archive: &Archive) {
    for Revisit { url, name, .. } in &archive.revisits {
        let answers = archive.names.get(url).unwrap_or_else(|| panic!("{url} was never kept"));
        assert!(answers.contains(name), "{url}: {name:?} is none of {answers:?}");
    }
}

/// cdxj-indexer and warcio agree with us on every file.
fn outside_tools_agree(site: &Site) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../warc/tests/interop.py");
    for file in judge::files(&site.dir()) {
        let name = file.file_name().expect("a file").to_string_lossy().replace(".warc.gz", ".cdxj");
        let index = site.dir().join("indexes").join(name);
        let output = Command::new(judge::python()).arg(script).arg(&file).arg(index).output();
        let output = output.expect("Python starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
    }
}

const WEB: &str = "
--- a.test/
<a href=/strong>1</a> <a href=/weak>2</a> <a href=/dated>3</a> <a href=/silent>4</a>
<a href=/new>5</a> <a href=/gone>6</a> <a href=/error>7</a> <a href=/away>8</a>
--- a.test/strong ETag: \"s\"
strong
--- a.test/weak ETag: W/\"w\"
weak
--- a.test/dated Last-Modified: Sun, 15 Nov 2026 20:20:00 GMT
dated
--- a.test/silent
no validators, and always the same
--- a.test/new ETag: \"1\"
first
--- a.test/new then ETag: \"2\"
second <a href=/found>f</a>
--- a.test/found
found
--- a.test/gone 404 ETag: \"nothing\"
not here
--- a.test/error ETag: \"e\"
was here
--- a.test/error then 503 ETag: \"e\" Retry-After: 0
not now
--- a.test/error then ETag: \"e\"
was here
--- a.test/away 301 Location: /strong ETag: \"a\"
";

#[test]
fn only_what_has_changed_is_fetched_again_and_the_rest_points_back() {
    let site = Site::fixture(WEB);
    site.crawl(&[&site.url("a.test", "/")]).exits(0);
    let first = site.journal().len();
    site.recrawl(&[]).exits(0).says("9 URLs to visit again");

    // The page that we have outlives a server that is unwell.
    let seen = paths(&[
        ("/", 200),
        ("/away", 301),
        ("/dated", 304),
        ("/error", 304),
        ("/error", 503),
        ("/found", 200),
        ("/gone", 404),
        ("/new", 200),
        ("/silent", 200),
        ("/strong", 304),
        ("/weak", 304),
    ]);
    assert_eq!(site.seen_since(first), seen);

    let archive = Archive::read(&site.dir());
    let mut revisits: Vec<_> =
        archive.revisits.iter().map(|r| (r.url.clone(), r.status, r.profile.as_str())).collect();
    revisits.sort();
    let at = |path| site.url("a.test", path);
    let (same, told) = ("identical-payload-digest", "server-not-modified");
    let expected = [
        (at("/"), 200, same),
        (at("/dated"), 304, told),
        (at("/error"), 304, told),
        (at("/silent"), 200, same),
        (at("/strong"), 304, told),
        (at("/weak"), 304, told),
    ];
    assert_eq!(revisits, expected);
    point_at_answers(&archive);
    assert_eq!(archive.answers[&at("/new")], [200, 200]);
    assert_eq!(archive.answers[&at("/found")], [200]);
    outside_tools_agree(&site);
    assert_eq!(site.report()["totals"]["unchanged"], 6);

    // A third time, and what is kept of it still points at the first.
    site.recrawl(&[]).exits(0);
    let archive = Archive::read(&site.dir());
    assert_eq!(archive.names[&at("/strong")].len(), 1);
    point_at_answers(&archive);
    let told = site.run(&["explain", "crawl", &at("/strong")]).exits(0);
    told.prints("found unchanged 2 times since");
}

#[test]
fn a_server_is_not_believed_for_ever() {
    // It says 304 to whoever asks on condition, whatever the page says by now.
    let web = "--- a.test/ ETag: \"1\"\nold\n\
               --- a.test/ then ETag: \"1\"\nnew\n";
    let site = Site::fixture(web);
    site.crawl(&[&site.url("a.test", "/"), "-s", "fetch.not_modified_max=2"]).exits(0);
    for expected in [304, 304, 200, 304] {
        let before = site.journal().len();
        site.recrawl(&[]).exits(0);
        assert_eq!(site.seen_since(before), paths(&[("/", expected)]));
    }
}

#[test]
fn what_was_not_archived_is_fetched_whole_once_it_is() {
    let site = Site::fixture("--- a.test/ ETag: \"1\"\npage\n");
    site.crawl(&[&site.url("a.test", "/"), "-s", "archive.enabled=false"]).exits(0);
    for (words, expected) in [
        (&["-s", "archive.enabled=false"], 304),
        (&["-s", "archive.enabled=true"], 200),
        (&["-s", "archive.enabled=true"], 304),
    ] {
        let before = site.journal().len();
        site.recrawl(words).exits(0);
        assert_eq!(site.seen_since(before), paths(&[("/", expected)]));
    }
    let archive = Archive::read(&site.dir());
    assert_eq!((archive.names.len(), archive.revisits.len()), (1, 1));
    point_at_answers(&archive);
}

#[test]
fn limits_count_from_the_beginning_of_a_round_and_it_can_be_resumed() {
    let web = "--- a.test/\n<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a>\n\
               --- a.test/1\n1\n--- a.test/2\n2\n--- a.test/3\n3\n";
    let site = Site::fixture(web);
    site.crawl(&[&site.url("a.test", "/"), "--limit", "5"]).exits(0);
    let first = site.journal().len();
    site.recrawl(&["--limit", "3"]).exits(17);
    assert_eq!(site.seen_since(first).len(), 3);
    site.run(&["resume", "crawl", "--limit", "5"]).exits(0);
    let seen: Vec<_> = site.seen_since(first).into_iter().map(|(path, _)| path).collect();
    assert_eq!(seen, ["/", "/1", "/2", "/3"]);
    // Nothing is due before the next round.
    let second = site.journal().len();
    site.run(&["resume", "crawl"]).exits(0);
    assert_eq!(site.journal().len(), second);
}

fn bytes(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| entry.head_bytes + entry.body_bytes).sum()
}

/// The size of a release is `cargo xtask again`.
#[test]
fn a_world_that_has_not_changed_moves_a_twentieth_of_its_bytes() {
    let spec = WorldSpec {
        hosts: number("LYCOSA_AGAIN_HOSTS", 20),
        pages: number("LYCOSA_AGAIN_PAGES", 300),
        validators: 1.0,
        ..WorldSpec::default()
    };
    let site = Site::world(&spec);
    let mut words = vec!["--scope", "any", "--depth", "40", "--quiet"];
    words.extend(site.ready.seed_urls.iter().map(String::as_str));
    site.crawl(&words).exits(0);
    let first = site.journal();
    let pages = first.iter().filter(|entry| !entry.is_robots()).count();
    site.recrawl(&["--quiet"]).exits(0);
    let second = site.journal().split_off(first.len());

    // What a round costs is its pages; robots.txt files are asked for once a day.
    assert_eq!(second.len(), pages, "every page is asked for once more");
    let (before, after) = (bytes(&first), bytes(&second));
    println!(
        "{pages} pages: {before} bytes at first, {after} again ({:.2} %)",
        after as f64 * 100.0 / before as f64
    );
    assert!(after * 20 < before, "{after} of {before} bytes moved again");
    let archive = Archive::read(&site.dir());
    let unchanged = second.iter().filter(|entry| entry.status == 304).count();
    assert_eq!(archive.revisits.len(), unchanged);
    point_at_answers(&archive);
}
