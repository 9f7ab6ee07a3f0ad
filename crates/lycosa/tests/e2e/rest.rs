//! REST of a frontier, asked by a client in another language; see `tests/rest.py`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use simweb::checks;

use crate::common::{Site, run, signal};
use crate::frontier::{Service, certificate};
use crate::judge::python;

const DELAY: Duration = Duration::from_millis(50);

/// A frontier with REST, in a folder, with these words.
fn start(folder: &Path, words: &[&str]) -> Service {
    let rest = ["--rest", "127.0.0.1:0", "-s", "workers.lease=2s", "-s", "fetch.retry_delay=10ms"];
    Service::start(folder, &[&rest, words].concat())
}

/// One that crawls the web of a site, with a short pause.
fn start_on(site: &Site) -> Service {
    let mut words = site.flags();
    words.extend(["--delay", "50ms", "--ip-delay", "0s", "--scope", "host"].map(String::from));
    start(site.path(), &words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Runs a test of the script.
fn ask(service: &Service, test: &str, more: &[&str]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rest.py");
    let rest = service.rest.as_deref().expect("it speaks REST");
    let mut command = Command::new(python());
    let ran = command.args([script, test, rest]).args(more).output().expect("Python starts");
    assert!(ran.status.success(), "{test}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// A test of the script, with an empty frontier.
fn alone(test: &str) {
    let folder = tempfile::tempdir().expect("there is room");
    ask(&start(folder.path(), &[]), test, &[]);
}

/// The same with one page, which somebody could fetch.
fn with_a_page(test: &str) {
    let site = Site::fixture("--- a.test/\nhello");
    ask(&start_on(&site), test, &[&site.url("a.test", "/")]);
}

#[test]
fn hosts_are_paged() {
    let folder = tempfile::tempdir().expect("there is room");
    ask(&start(folder.path(), &["-s", "store.shards=3"]), "hosts_are_paged", &[]);
}

#[test]
fn urls_are_judged_one_by_one() {
    alone("urls_are_judged_one_by_one");
}

#[test]
fn bad_input_is_refused_with_a_sentence() {
    alone("bad_input_is_refused_with_a_sentence");
}

#[test]
fn metrics_have_the_dashboards_names() {
    alone("metrics_have_the_dashboards_names");
}

#[test]
fn a_lease_that_nobody_keeps_up_runs_out() {
    with_a_page("lease_runs_out");
}

#[test]
fn a_call_that_hangs_up_takes_nothing() {
    with_a_page("a_call_that_hangs_up_takes_nothing");
}

#[test]
fn what_is_blocked_is_explained_with_its_reason() {
    let site = Site::fixture("--- a.test/\nhello");
    let home = site.url("a.test", "/");
    let mut service = start_on(&site);
    ask(&service, "blocked_is_told_with_its_reason", &[&home]);
    signal(&service.child, "TERM");
    assert_eq!(service.child.wait().expect("it ends").code(), Some(0));
    let told = run(site.path(), &["explain", "queues", &home]).exits(0);
    assert!(told.out.contains("it is on our list"), "{}", told.out);
}

#[test]
fn the_description_is_true() {
    with_a_page("the_description_is_true");
}

#[test]
fn a_worker_of_thirty_lines_crawls_as_politely_as_ours() {
    let site = Site::fixture(
        "--- a.test/robots.txt
         User-agent: *
         Disallow: /secret
         --- a.test/
         <a href=\"/one\">1</a> <a href=\"two\">2</a> <a href=\"/secret\">s</a> <a href=\"mailto:x\">m</a>
         --- a.test/one
         <a href=\"/moved\">m</a> <a href=\"http://elsewhere.test/\">e</a>
         --- a.test/two
         <a href=\"/gone\">g</a> <a href=\"/one#again\">1</a>
         --- a.test/moved 302 Location: /target
         --- a.test/target
         <a href=\"/busy\">b</a>
         --- a.test/busy 503 Retry-After: 1
         --- a.test/busy then 200
         at last
         --- b.test/
         <a href=\"/deep\">d</a>
         --- b.test/deep
         deep",
    );
    let service = start_on(&site);
    let seeds = [site.url("a.test", "/"), site.url("b.test", "/")];
    ask(&service, "crawl", &[&seeds[0], &seeds[1], "10"]);
    let entries = site.journal();
    checks::assert_none(&checks::gaps(&entries, |_| DELAY));
    let mut asked: Vec<String> =
        entries.iter().map(|entry| format!("{}{}", entry.host, entry.path)).collect();
    asked.sort();
    let expected = [
        "a.test/",
        "a.test/busy",
        "a.test/busy",
        "a.test/gone",
        "a.test/moved",
        "a.test/one",
        "a.test/robots.txt",
        "a.test/target",
        "a.test/two",
        "b.test/",
        "b.test/deep",
        "b.test/robots.txt",
    ];
    assert_eq!(
        asked, expected,
        "each once, the busy one again, and nothing that robots.txt forbids"
    );
}

#[test]
fn a_hosts_own_delay_is_kept_also_after_a_kill() {
    let site = Site::fixture(
        "--- a.test/
         <a href=\"/one\">1</a> <a href=\"/two\">2</a>
         --- a.test/one
         --- a.test/two",
    );
    let service = start_on(&site);
    ask(&service, "slow_down", &[&site.url("a.test", "/")]);
    service.kill();
    ask(&start_on(&site), "visit_three", &[]);
    let entries = site.journal();
    assert_eq!(entries.len(), 3);
    checks::assert_none(&checks::gaps(&entries, |_| Duration::from_secs(1)));
}

#[test]
fn a_kill_loses_nothing_and_makes_nobodys_lease_somebodys() {
    let site = Site::fixture("--- a.test/\nhello");
    let home = site.url("a.test", "/");
    let told = site.path().join("leases.json");
    let more = [home.as_str(), told.to_str().expect("it is text")];
    let service = start_on(&site);
    ask(&service, "before_a_kill", &more);
    service.kill();
    ask(&start_on(&site), "after_a_kill", &more);
}

#[test]
fn nobody_is_heard_without_the_token() {
    let folder = tempfile::tempdir().expect("there is room");
    ask(&start(folder.path(), &["-s", "api.token=secret"]), "only_with_the_token", &[]);
    let words = ["frontier", "more", "--listen", "127.0.0.1:0", "--rest", "0.0.0.0:0"];
    run(folder.path(), &words).exits(4).says("api.token");
    let words = ["frontier", "more", "--listen", "127.0.0.1:0", "-s", "api.listen=0.0.0.0:0"];
    run(folder.path(), &words).exits(4).says("api.token");
}

#[test]
fn with_tls_it_speaks_http_1_1_as_well() {
    let folder = tempfile::tempdir().expect("there is room");
    let (certificate, _) = certificate(folder.path());
    let words = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "-s", "api.token=secret"];
    let service = start(folder.path(), &words);
    ask(&service, "over_tls", &[certificate.to_str().expect("it is text")]);
}
