//! Dead letters: listed, tried again and dropped, at rest and while the crawl runs.

use std::process::Stdio;

use crate::common::{Site, signal, wait_until};

/// 501 is given up at once; the other pages are there.
const SITE: &str = "\
--- a.test/
<a href=/bad/1>1</a> <a href=/bad/2>2</a> <a href=http://b.test:PORT/bad>b</a> <a href=/good>g</a>
--- a.test/bad/1 501
--- a.test/bad/2 501
--- b.test/bad 501
--- a.test/good
fine";

/// A server that fails is not spared: there is only one try anyway.
const NO_BACKOFF: &str = "politeness.backoff_max=0s";

fn asked(site: &Site, path: &str) -> usize {
    site.journal().iter().filter(|entry| *entry.path == *path).count()
}

#[test]
fn they_are_listed_retried_and_dropped() {
    listed_retried_and_dropped("fjall");
}

#[cfg(feature = "rocksdb")]
#[test]
fn they_are_listed_retried_and_dropped_on_rocksdb() {
    listed_retried_and_dropped("rocksdb");
}

fn listed_retried_and_dropped(engine: &str) {
    let site = Site::fixture(SITE);
    let home = site.url("a.test", "/");
    let engine = format!("store.engine={engine}");
    site.crawl(&[&home, "--scope", "any", "-s", NO_BACKOFF, "-s", &engine]).exits(0);
    let one = site.url("a.test", "/bad/1");

    let listed = site.run(&["dlq", "crawl", "list"]).exits(0);
    assert_eq!(listed.out.lines().count(), 3, "{}", listed.out);
    listed.prints(&format!("{one}\tstatus\t1 attempts: the server answered 501"));
    let some = site.run(&["dlq", "crawl", "list", "--json", "--host", "b.test"]).exits(0);
    let line: serde_json::Value = serde_json::from_str(&some.out).expect("one line of JSON");
    assert_eq!((&line["reason"], &line["attempts"]), (&"status".into(), &1.into()));
    assert_eq!(line["url"], site.url("b.test", "/bad"));
    let none = site.run(&["dlq", "crawl", "list", "--reason", "dns"]).exits(0);
    assert_eq!(none.out, "");
    let two = site.run(&["dlq", "crawl", "list", "--limit", "2"]).exits(0);
    assert_eq!(two.out.lines().count(), 2);

    site.run(&["dlq", "crawl", "drop"]).exits(2).says("--all");
    site.run(&["dlq", "crawl", "list", "--reason", "sttus"]).exits(2).says("choose of dns,");
    site.run(&["dlq", "crawl", "retry", "--match", "("]).exits(2).says("--match");
    site.run(&["dlq", "nowhere", "list"]).exits(1).says("no crawl directory");

    let dropped = site.run(&["dlq", "crawl", "drop", "--match", "/bad/1$"]).exits(0);
    dropped.prints("1 dead letter dropped");
    let explained = site.run(&["explain", "crawl", &one]).exits(0);
    explained.prints("dropped by hand after 1 attempts");
    site.run(&["dlq", "crawl", "retry", "--match", "/bad/1$"]).exits(0).prints("nothing has");

    let again = site.run(&["dlq", "crawl", "retry", "--host", "a.test"]).exits(0);
    again.prints("1 dead letter is back in the queues; `lycosa resume crawl` visits it");
    site.run(&["status", "crawl"]).exits(0).prints("1 queued");
    site.run(&["resume", "crawl", "--quiet"]).exits(0);
    assert_eq!((asked(&site, "/bad/1"), asked(&site, "/bad/2"), asked(&site, "/bad")), (1, 2, 1));
    let listed = site.run(&["dlq", "crawl", "list"]).exits(0);
    assert_eq!(listed.out.lines().count(), 2, "{}", listed.out);
    assert_eq!(site.report()["urls"]["dropped"], 1);
}

#[test]
fn a_running_crawl_does_the_same() {
    // A long way to go, so that it runs until it is told to stop.
    let mut text = SITE.replace("<a href=/good>g</a>", "<a href=/0>0</a>");
    for n in 0..500 {
        text += &format!("\n--- a.test/{n} slow=30ms\n<a href=/{}>next</a>", n + 1);
    }
    let site = Site::fixture(&text);
    let home = site.url("a.test", "/");
    let words = [&*home, "--scope", "any", "-d", "1000", "-s", NO_BACKOFF];
    let mut child = site.crawl_command(&words).stderr(Stdio::null()).spawn().expect("it starts");
    let list = || site.run(&["dlq", "crawl", "list"]);
    wait_until("all three are dead letters", || {
        let listed = list();
        listed.code == 0 && listed.out.lines().count() == 3
    });
    let dropped = site.run(&["dlq", "crawl", "drop", "--host", "b.test"]).exits(0);
    dropped.prints("1 dead letter dropped");
    let retried = site.run(&["dlq", "crawl", "retry"]).exits(0);
    retried.prints("2 dead letters are back in the queues");
    wait_until("they are asked for again", || {
        asked(&site, "/bad/1") == 2 && asked(&site, "/bad/2") == 2
    });
    wait_until("and fail again", || list().out.lines().count() == 2);
    assert_eq!(asked(&site, "/bad"), 1);
    signal(&child, "INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(11));
}

#[test]
fn a_host_that_fails_often_uses_up_its_retries_and_explain_says_so() {
    let site = Site::fixture(
        "\
--- a.test/
<a href=/1>1</a> <a href=/2>2</a> <a href=/3>3</a>
--- a.test/1 500
--- a.test/2 500
--- a.test/3 500",
    );
    let home = site.url("a.test", "/");
    let few = ["-s", "fetch.host_retries_max=1", "-s", "fetch.retry_delay=100ms", "-s", NO_BACKOFF];
    site.crawl(&[&[&*home][..], &few].concat()).exits(0);
    // Three first tries and one more.
    let tries: Vec<_> = ["/1", "/2", "/3"].map(|path| asked(&site, path)).into();
    assert_eq!(tries.iter().sum::<usize>(), 4, "{tries:?}");
    let once = tries.iter().position(|&tries| tries == 1).expect("two of them") + 1;
    let told = site.run(&["explain", "crawl", &site.url("a.test", &format!("/{once}"))]).exits(0);
    let told = told.prints("dead letter after 1 attempts: the server answered 500");
    told.prints("; its host had no retry left (fetch.host_retries_max = 1)");
}
