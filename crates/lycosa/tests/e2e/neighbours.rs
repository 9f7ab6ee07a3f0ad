//! Two crawls on one machine that visit the same hosts: together they are as polite as one.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use simweb::{Entry, checks};

use crate::common::{Site, lycosa, signal, wait_until};

const PAUSE: Duration = Duration::from_millis(100);

/// Two hosts, the pages of each in a row.
fn site() -> Site {
    let page = |n: u32| {
        let next = n + 1;
        format!("--- a.test/{n}\n<a href=/{next}>n</a>\n--- b.test/{n}\n<a href=/{next}>n</a>\n")
    };
    let pages: String = (0..8).map(page).collect();
    Site::fixture(&(pages + "--- a.test/8\nend\n--- b.test/8\nend"))
}

/// A crawl of both hosts into a folder of its own.
fn crawl(site: &Site, into: &str) -> Command {
    let mut command = lycosa(site.path());
    command.args(["crawl", &site.url("a.test", "/0"), &site.url("b.test", "/0"), "-o", into]);
    command.args(["--delay", "100ms", "--ip-delay", "20ms", "--quiet"]);
    command.args(["-s", "crawl.patience=30s", "-s", "politeness.claims_dir=claims"]);
    command.args(site.flags()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn start(site: &Site, into: &str) -> Child {
    crawl(site, into).spawn().expect("it starts")
}

/// Fails where the requests of both crawls together came too close.
fn polite_together(entries: &[Entry]) {
    let mut violations = checks::gaps(entries, |_| PAUSE);
    // Whoever comes second has a connection of its own; the first one's is out of use by then.
    violations.retain(|violation| violation.check != "one connection");
    checks::assert_none(&violations);
}

fn times_fetched(entries: &[Entry], path: &str) -> usize {
    entries.iter().filter(|entry| &*entry.path == path).count()
}

#[test]
fn two_crawls_at_once_are_polite_together_and_each_is_whole() {
    let site = site();
    let mut both = [start(&site, "one"), start(&site, "other")];
    for child in &mut both {
        assert_eq!(child.wait().expect("it ends").code(), Some(0));
    }
    let entries = site.journal();
    polite_together(&entries);
    for n in 0..=8 {
        assert_eq!(times_fetched(&entries, &format!("/{n}")), 4, "page {n} of two hosts, twice");
    }
}

#[test]
fn a_crawl_that_is_killed_leaves_its_hosts_and_they_rest_first() {
    let site = site();
    let mut one = start(&site, "one");
    wait_until("it has begun", || site.journal().len() >= 6);
    let mut other = start(&site, "other");
    wait_until("it has gone on", || site.journal().len() >= 10);
    signal(&one, "KILL");
    one.wait().expect("it ends");
    assert_eq!(other.wait().expect("it ends").code(), Some(0));
    let entries = site.journal();
    polite_together(&entries);
    assert!((0..=8).all(|n| times_fetched(&entries, &format!("/{n}")) >= 2));
}
