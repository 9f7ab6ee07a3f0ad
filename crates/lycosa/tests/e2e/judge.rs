//! Was it a good crawl? Asked of the servers, of an outside reader of WARC files and of the web's
//! own knowledge of itself; never of the crawler.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use simweb::{Entry, Expectation, Oracle, Truth as _, World, checks};

use crate::common::Site;

/// The pauses of a crawl.
#[derive(Debug, Clone, Copy)]
pub struct Manners {
    pub delay: Duration,
    pub ip_delay: Duration,
}

impl Manners {
    pub fn words(self) -> [String; 4] {
        let millis = |span: Duration| format!("{}ms", span.as_millis());
        ["--delay".into(), millis(self.delay), "--ip-delay".into(), millis(self.ip_delay)]
    }
}

/// Requests in flight at one address, by default.
const IP_CONNECTIONS: usize = 4;

/// Never rude, whatever happened.
pub fn polite(entries: &[Entry], world: &World, manners: Manners) {
    checks::assert_none(&checks::gaps(entries, |_| manners.delay));
    checks::assert_none(&checks::crawl_delays(entries, world, "lycosa"));
    checks::assert_none(&checks::address_gaps(entries, manners.ip_delay, IP_CONNECTIONS));
    checks::assert_none(&checks::addresses(entries, world));
    checks::assert_none(&checks::robots_obeyed(entries, world, "lycosa"));
}

/// Everything that can be reached was asked for, and nothing else. A damaged body may name a page
/// that never was; it answers 404 and does no harm.
pub fn complete(entries: &[Entry], world: &World, oracle: &Oracle) {
    let never_was: BTreeSet<String> =
        entries.iter().filter(|entry| entry.status == 404).map(Entry::url).collect();
    let mut missed = checks::coverage(entries, world, oracle);
    missed.retain(|missed| {
        !(missed.what.contains("no link leads there") && never_was.contains(&missed.about))
    });
    checks::assert_none(&missed);
}

/// What warcio finds in an archive.
#[derive(Debug, Default)]
pub struct Archive {
    /// Statuses of the answers of each URL, robots.txt files left out.
    pub answers: BTreeMap<String, Vec<u16>>,
    pub visits: BTreeSet<String>,
    /// Records that point back at an answer, and what they say.
    pub revisits: Vec<Revisit>,
    /// Id, date and payload digest of the answers, by URL.
    pub names: BTreeMap<String, Vec<[String; 3]>>,
    pub files: usize,
    pub records: u64,
    /// Files that end in a record that is not whole.
    pub tails: usize,
}

/// A record in the place of an answer whose page is there already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revisit {
    pub url: String,
    pub status: u16,
    pub profile: String,
    /// Id, date and payload digest of the answer that it points at.
    pub name: [String; 3],
}

impl Archive {
    /// All files of a crawl at rest.
    pub fn read(dir: &Path) -> Self {
        Self::of(&files(dir), &[])
    }

    /// Files whose writer was killed a moment ago.
    pub fn after_a_kill(files: &[PathBuf]) -> Self {
        Self::of(files, &["--killed"])
    }

    pub fn of(files: &[PathBuf], words: &[&str]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/warcs.py");
        let output = Command::new(python()).arg(script).args(words).args(files).output();
        let output = output.expect("Python starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "warcio: {said}");
        let mut archive = Self::default();
        for line in String::from_utf8(output.stdout).expect("JSON is text").lines() {
            let line: Value = serde_json::from_str(line).expect("a line of JSON");
            archive.take(&line);
        }
        archive
    }

    fn take(&mut self, line: &Value) {
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        match line["type"].as_str() {
            Some("response") => {
                let url = text("url").expect("every answer has its URL");
                let status = line["status"].as_u64().expect("and its status") as u16;
                let name = ["id", "date", "digest"].map(|name| text(name).unwrap_or_default());
                self.names.entry(url.clone()).or_default().push(name);
                if !url.ends_with("/robots.txt") {
                    self.answers.entry(url).or_default().push(status);
                }
            }
            Some("revisit") => {
                let word = |name: &str| text(name).expect("a revisit says where the page is");
                assert_eq!(line["block"], 0, "a revisit has no body: {line}");
                assert_eq!(word("url"), word("refers_to_url"));
                self.revisits.push(Revisit {
                    url: word("url"),
                    status: line["status"].as_u64().expect("a status") as u16,
                    profile: word("profile"),
                    name: ["refers_to", "refers_to_date", "digest"].map(word),
                });
            }
            Some("metadata") => {
                let visit = text("visit").expect("every visit has its number");
                assert!(self.visits.insert(visit.clone()), "visit {visit} is stored twice");
            }
            _ => {
                self.files += 1;
                self.records += line["records"].as_u64().unwrap_or(0);
                self.tails += usize::from(line["tail"] != 0);
            }
        }
    }

    /// Every page that can be reached is here exactly once, with the right status.
    pub fn holds(&self, oracle: &Oracle, world: &World) {
        let mut wrong = Vec::new();
        for (url, status) in oracle.archived() {
            let kept = self.kept(url);
            if kept != [status] {
                wrong.push(format!("{url} must be kept once with {status}, is kept: {kept:?}"));
            }
        }
        for (url, kept) in &self.answers {
            let place = simweb::Place::parse(url).expect("a URL of this world");
            let is_known = oracle.get(url).is_some() || world_may_hold(world, &place, kept);
            if !is_known {
                wrong.push(format!("{url} is kept, but no link leads there"));
            }
            let failed = kept.iter().all(|status| *status >= 500);
            if self.kept(url).len() > 1 && !failed && !world.is_robots_hop(&place) {
                wrong.push(format!("{url} is kept more than once: {kept:?}"));
            }
        }
        let shown: Vec<_> = wrong.iter().take(10).map(String::as_str).collect();
        assert!(wrong.is_empty(), "{} pages are wrong:\n{}", wrong.len(), shown.join("\n"));
    }

    /// Answers that count: one that only asked us to come again later is kept too, beside the page.
    fn kept(&self, url: &str) -> Vec<u16> {
        let all = self.answers.get(url).into_iter().flatten().copied();
        let (later, counts): (Vec<u16>, Vec<u16>) =
            all.partition(|status| matches!(status, 429 | 500..));
        if counts.is_empty() { later } else { counts }
    }
}

/// Traps, what lies on the way to a robots.txt, and pages that a damaged body made up.
fn world_may_hold(world: &World, place: &simweb::Place, kept: &[u16]) -> bool {
    kept == [404]
        || world.is_robots_hop(place)
        || matches!(world.course(place), simweb::truth::Course::Trap)
}

/// The WARC files of a crawl, in the order of their names.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir.join("archive")) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    let mut files: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "gz")).collect();
    files.sort();
    files
}

/// The Python that has warcio: named by whoever runs all tests, or made by `cargo xtask interop`.
pub fn python() -> PathBuf {
    if let Some(python) = std::env::var_os("LYCOSA_PYTHON") {
        return python.into();
    }
    let test = std::env::current_exe().expect("a test knows itself");
    let made =
        test.ancestors().nth(3).expect("it lies in target/debug/deps").join("python/bin/python");
    assert!(made.is_file(), "warcio judges here; install it with: cargo xtask interop");
    made
}

/// Every URL that was accepted and not fetched has a reason that names what decided.
pub fn reasons(site: &Site, oracle: &Oracle, archive: &Archive) -> BTreeMap<String, usize> {
    let path = site.dir().join("reports/skipped.jsonl");
    let text = std::fs::read_to_string(path).expect("the report of skipped URLs");
    let mut told: BTreeMap<String, (String, String)> = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON lines");
        assert!(line["capped"].is_null(), "too many to be told one by one");
        let word = |name: &str| line[name].as_str().expect("a text").to_owned();
        told.insert(word("url"), (word("reason"), word("detail")));
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut redirects = 0;
    for (url, expected) in &oracle.expected {
        let why = told.get(url);
        // What the detail must name: the rule, the value, or what happened there.
        let named = match expected {
            Expectation::Archived { .. } | Expectation::Maybe | Expectation::Trap => {
                if matches!(expected, Expectation::Archived { .. })
                    && why.is_some()
                    && !archive.answers.contains_key(url)
                {
                    wrong.push(format!("{url} is not kept: {why:?}"));
                }
                continue;
            }
            Expectation::Forbidden => why.is_some_and(|(reason, detail)| {
                reason == "robots" && detail.contains("robots.txt line")
            }),
            // Never accepted: the page that redirects there is asked instead, and all are counted.
            Expectation::Refused { why: rule } if rule == "redirects" => {
                redirects += 1;
                continue;
            }
            Expectation::Refused { .. } => {
                why.is_some_and(|(_, detail)| detail.contains("10.0.0.1"))
            }
            Expectation::Deferred { .. } => why.is_some(),
            Expectation::Fails { .. } => {
                why.is_some_and(|(reason, _)| reason.starts_with("dead letter"))
            }
        };
        let reason = why.map_or("none", |(reason, _)| reason);
        let count = counts.entry(format!("{}: {reason}", expected.name())).or_default();
        *count += 1;
        if *count == 1 {
            let (_, detail) = why.expect("the first of its kind has a reason");
            site.run(&["explain", "crawl", url]).exits(0).prints(detail);
        }
        if !named {
            wrong.push(format!("{url} ({expected:?}) has the reason {why:?}"));
        }
    }
    let shown: Vec<_> = wrong.iter().take(10).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} reasons are missing:\n{}", wrong.len(), shown.join("\n"));
    let counted = site.report()["links_skipped"]["redirects"].as_u64().unwrap_or(0);
    assert!(counted >= redirects, "{counted} of {redirects} redirects too far are counted");
    counts
}

/// Every page of the index is listed in pages.jsonl, once, and no other is.
pub fn listed(dir: &Path) {
    let is_html = |mime: &Value| mime.as_str().is_some_and(|mime| mime.starts_with("text/html"));
    let url = |line: &Value| line["url"].as_str().expect("a line has its URL").to_owned();
    let mut indexed = BTreeSet::new();
    for entry in std::fs::read_dir(dir.join("indexes")).expect("there are indexes") {
        let path = entry.expect("it can be read").path();
        for line in std::fs::read_to_string(path).expect("an index is text").lines() {
            let json = line.splitn(3, ' ').nth(2).expect("a line has three parts");
            let line: Value = serde_json::from_str(json).expect("the third is JSON");
            if line["status"] == "200" && is_html(&line["mime"]) {
                indexed.insert(url(&line));
            }
        }
    }
    let text = std::fs::read_to_string(dir.join("pages/pages.jsonl")).expect("it is there");
    let mut pages = BTreeSet::new();
    for line in text.lines().skip(1) {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        if is_html(&line["mime"]) {
            assert!(pages.insert(url(&line)), "listed twice: {line}");
        }
    }
    assert!(!pages.is_empty());
    assert_eq!(pages, indexed);
}
