//! A crawl is saved while it runs; what was saved goes on by itself, whole and polite.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{Site, signal, wait_until};
use crate::judge::Archive;

const HOSTS: usize = 6;
const PAGES: usize = 40;

/// Every page links to the next of its host and to the same one of the next host, so that links
/// cross between shards all the time.
fn site() -> Site {
    let mut text = String::new();
    for host in 0..HOSTS {
        for page in 0..PAGES {
            let (to, next) = ((host + 1) % HOSTS, page + 1);
            let other = format!("http://h{to}.test:PORT/{page}");
            text += &format!(
                "--- h{host}.test/{page} slow=100ms\n<a href=/{next}>n</a> <a href={other}>o</a>"
            );
            text += &format!(" {}\n", "some words that fill a page ".repeat(400));
        }
        text += &format!("--- h{host}.test/{PAGES}\nthe end\n");
    }
    Site::fixture(text.trim_end())
}

fn all_pages(site: &Site) -> BTreeSet<String> {
    let page = |host| (0..=PAGES).map(move |page| (host, page));
    let pages = (0..HOSTS).flat_map(page);
    pages.map(|(host, page)| site.url(&format!("h{host}.test"), &format!("/{page}"))).collect()
}

fn pages(site: &Site) -> u64 {
    let asked = site.run(&["status", "crawl", "--json"]);
    let status: Value = serde_json::from_str(&asked.out).unwrap_or_default();
    status["pages"].as_u64().unwrap_or(0)
}

/// Every page is there once.
fn check_archive(site: &Site, dir: &str) {
    let archive = Archive::read(&site.path().join(dir));
    let kept: BTreeSet<_> = archive.answers.keys().cloned().collect();
    let missing: Vec<_> = all_pages(site).difference(&kept).cloned().collect();
    assert_eq!(missing, [""; 0], "{dir}");
    assert_eq!(kept.len(), all_pages(site).len(), "{dir}");
    assert!(archive.answers.values().all(|statuses| *statuses == [200]), "{dir}: some twice");
    crate::export::table_has_every_capture(&site.path().join(dir));
}

#[test]
fn a_running_crawl_is_saved_and_its_copy_goes_on() {
    let site = site();
    let home = site.url("h0.test", "/0");
    // What was under way when it was saved counts as lost, and is tried again a little later.
    let words = ["--scope", "any", "-d", "1000", "-s", "crawl.patience=30s"];
    let sizes = ["-s", "store.shards=4", "-s", "archive.file_bytes_max=8kB"];
    let words: Vec<&str> = [&*home].into_iter().chain(words).chain(sizes).collect();
    let mut child = site.crawl_command(&words).stderr(Stdio::null()).spawn().expect("it starts");
    wait_until("some pages are there", || pages(&site) >= 30);
    let saved = site.run(&["backup", "crawl", "saved", "--json"]).exits(0);
    let saved: Value = serde_json::from_str(&saved.out).expect("a line of JSON");
    assert_eq!(saved["shards"], 4);
    assert!(saved["linked"].as_u64() > Some(0), "full files are linked: {saved}");
    let before = pages(&site);
    wait_until("the crawl goes on", || pages(&site) > before);
    site.run(&["backup", "crawl", "saved"]).exits(2).says("is there already");
    signal(&child, "KILL");
    child.wait().expect("it ends");
    assert!(!site.path().join("saved.partial").exists());

    site.run(&["resume", "saved", "--quiet"]).exits(0);
    check_archive(&site, "saved");
    let lost = site.run(&["status", "saved", "--json"]).exits(0);
    let status: Value = serde_json::from_str(&lost.out).expect("JSON");
    assert_eq!((&status["queued"], &status["known"]), (&0.into(), &(HOSTS * (PAGES + 1)).into()));

    // The first one is as it was, and ends the same way.
    site.run(&["resume", "crawl", "--quiet"]).exits(0);
    check_archive(&site, "crawl");
}

#[test]
fn a_crawl_at_rest_is_saved_and_mistakes_are_told() {
    let site = Site::fixture("--- a.test/\n<a href=/1>1</a>\n--- a.test/1\nhere");
    let home = site.url("a.test", "/");
    site.crawl(&[&home, "--limit", "1"]).exits(17);
    site.run(&["backup", "nowhere", "saved"]).exits(1).says("no crawl directory");
    site.run(&["backup", "crawl", "crawl/saved"]).exits(2).says("inside of the crawl");
    site.run(&["backup", "crawl", "crawl"]).exits(2).says("is there already");
    let saved = site.run(&["backup", "crawl", "saved"]).exits(0);
    saved.prints("crawl is backed up in").prints("1 archive file").prints("lycosa resume");
    site.run(&["resume", "saved", "--limit", "9", "--quiet"]).exits(0);
    assert_eq!(Archive::read(&site.path().join("saved")).answers.len(), 2);
    site.run(&["status", "crawl"]).exits(0).prints("1 queued");
}
