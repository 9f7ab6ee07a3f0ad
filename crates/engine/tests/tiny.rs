//! Whole crawls of tiny webs, each written as a string; the journal is what the server saw.

#![expect(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "parts of tests")]

mod common;

use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use common::{Machine, in_virtual_time};
use expect_test::{Expect, expect};
use lycosa_engine::Ending;
use ports::shard_store::ScanCursor;
use ports::{Clock as _, Exchange, Fetcher, Request, ShardStore as _};
use simweb::{Fixture, SimFetcher};
use tokio::sync::Notify;
use types::record::Retirement;
use types::{Fault, State, Timestamp};

fn check(web: &str, seeds: &[&str], want: Expect) {
    check_with(web, seeds, |_| {}, want);
}

fn check_with(web: &str, seeds: &[&str], edit: impl Fn(&mut Machine), want: Expect) {
    let fixture = Fixture::parse(web).unwrap();
    let table = in_virtual_time(async {
        let mut machine = Machine::new(1, Arc::new(fixture));
        edit(&mut machine);
        assert_eq!(machine.run(seeds).await.unwrap(), Ending::Done);
        machine.journal.table()
    });
    want.assert_eq(&table);
}

#[test]
fn a_disallowed_page_is_never_requested() {
    // No pause follows the refusal: we never knocked.
    check(
        "--- a.test/robots.txt
         User-agent: *
         Disallow: /secret
         --- a.test/
         <a href=/secret>s</a> <a href=/open>o</a>
         --- a.test/secret
         s
         --- a.test/open
         o",
        &["http://a.test/"],
        expect![[r#"
            00:00      a.test  /robots.txt  200
            00:01.010  a.test  /            200
            00:02.020  a.test  /open        200
        "#]],
    );
}

#[test]
fn a_redirect_is_a_visit_of_its_own_with_its_own_robots() {
    check(
        "--- a.test/
         <a href=/old>o</a> <a href=/away>a</a>
         --- a.test/old 301 Location: /new
         --- a.test/new
         n
         --- a.test/away 302 Location: http://b.test/secret
         --- b.test/robots.txt
         User-agent: *
         Disallow: /secret
         --- b.test/secret
         never",
        &["http://a.test/"],
        expect![[r#"
            00:00      a.test  /robots.txt  404
            00:01.010  a.test  /            200
            00:02.020  a.test  /old         301
            00:03.030  a.test  /away        302
            00:03.030  b.test  /robots.txt  200
            00:04.040  a.test  /new         200
        "#]],
    );
}

#[test]
fn a_busy_server_gets_the_rest_it_asks_for() {
    check(
        "--- a.test/ 503 Retry-After: 77
         --- a.test/
         <a href=/x>x</a>
         --- a.test/x
         x",
        &["http://a.test/"],
        expect![[r#"
            00:00      a.test  /robots.txt  404
            00:01.010  a.test  /            503
            01:18.010  a.test  /            200
            01:19.020  a.test  /x           200
        "#]],
    );
}

#[test]
fn a_robots_txt_elsewhere_is_asked_for_under_that_hosts_politeness() {
    check_with(
        "--- a.test/robots.txt 301 Location: http://b.test/robots.txt
         --- a.test/
         <a href=/no>n</a> <a href=/yes>y</a>
         --- a.test/yes
         y
         --- b.test/robots.txt
         User-agent: *
         Disallow: /no
         --- b.test/
         b",
        &["http://a.test/", "http://b.test/"],
        |machine| machine.shards = 16,
        expect![[r#"
            00:00      a.test  /robots.txt  301
            00:00      b.test  /robots.txt  200
            00:01.010  a.test  /            200
            00:01.010  b.test  /robots.txt  200
            00:02.020  a.test  /yes         200
            00:02.020  b.test  /            200
        "#]],
    );
}

#[test]
fn a_web_that_never_answers_is_given_up_sooner_than_one_that_is_busy() {
    let seconds = |web: &str| {
        let fixture = Fixture::parse(web).unwrap();
        in_virtual_time(async {
            let machine = Machine::new(1, Arc::new(fixture));
            assert_eq!(machine.run(&["http://a.test/"]).await.unwrap(), Ending::Done);
            machine.clock.now().since(common::START).as_secs()
        })
    };
    let mute = seconds("!door a.test refused\n--- a.test/\nnever");
    assert!((30..60).contains(&mute), "one more attempt: {mute} s");
    let busy = seconds("--- a.test/robots.txt 503\n--- a.test/\nnever");
    assert!((200..600).contains(&busy), "as long as `crawl.patience` wants: {busy} s");
}

#[test]
fn half_a_robots_txt_permits_nothing() {
    check(
        "--- a.test/robots.txt cut=14
         User-agent: *
         Disallow: /
         --- a.test/robots.txt then 200
         User-agent: *
         Disallow: /
         --- a.test/
         never",
        &["http://a.test/"],
        expect![[r#"
            00:00  a.test  /robots.txt  200 broken off
            00:30  a.test  /robots.txt  200
        "#]],
    );
}

#[test]
fn a_robots_txt_that_points_to_nowhere_does_not_keep_the_crawl_alive() {
    check(
        "--- a.test/robots.txt 302 Location: http://nowhere.test/robots.txt
         --- a.test/
         never
         !dns nowhere.test nxdomain",
        &["http://a.test/"],
        expect![[r#"
            00:00  a.test  /robots.txt  302
            00:30  a.test  /robots.txt  302
            01:30  a.test  /robots.txt  302
            03:30  a.test  /robots.txt  302
            07:30  a.test  /robots.txt  302
        "#]],
    );
}

#[test]
fn an_error_page_that_has_not_changed_is_not_the_page() {
    check(
        "--- a.test/ 503 ETag: \"maintenance\"
         --- a.test/ then 304
         --- a.test/ then 200
         <a href=/x>x</a>
         --- a.test/x
         x",
        &["http://a.test/"],
        expect![[r#"
            00:00      a.test  /robots.txt  404
            00:01.010  a.test  /            503
            00:11.010  a.test  /            304
            00:51.010  a.test  /            200
            00:52.020  a.test  /x           200
        "#]],
    );
}

/// Kills the process when the deadly page is asked for.
struct Deadly {
    inner: SimFetcher,
    dies: Arc<Notify>,
}

#[async_trait]
impl Fetcher for Deadly {
    async fn fetch(&self, request: Request, sent: &mut (dyn FnMut(Timestamp) + Send)) -> Exchange {
        if request.url.path() == "/deadly" {
            self.dies.notify_one();
            std::future::pending::<()>().await;
        }
        self.inner.fetch(request, sent).await
    }
}

#[test]
fn a_deadly_page_is_buried_after_three_deaths_and_takes_nobody_with_it() {
    // Thirty hosts whose pages are in flight when the process dies.
    let mut web = String::from("--- h0.test/\n");
    for n in 0..30 {
        writeln!(web, "<a href=http://h{n}.test/slow>s</a> <a href=http://h{n}.test/x>x</a>")
            .unwrap();
    }
    writeln!(web, "<a href=http://h7.test/deadly>d</a>").unwrap();
    for n in 0..30 {
        writeln!(web, "--- h{n}.test/slow slow=2s\nslow\n--- h{n}.test/x\nx").unwrap();
    }
    writeln!(web, "--- h7.test/deadly\nnever").unwrap();
    let fixture = Fixture::parse(&web).unwrap();
    let (deaths, dead, fetched) = in_virtual_time(async {
        let dies = Arc::new(Notify::new());
        let mut machine = Machine::new(1, Arc::new(fixture));
        let notify = Arc::clone(&dies);
        machine.concurrency = 64;
        machine.fetcher =
            Box::new(move |inner| Arc::new(Deadly { inner, dies: Arc::clone(&notify) }));
        let mut deaths = 0;
        loop {
            let engine = machine.start(&["http://h0.test/"]).unwrap();
            tokio::select! {
                biased;
                ended = engine.run() => {
                    assert_eq!(ended.unwrap().ending, Ending::Done);
                    break;
                }
                () = dies.notified() => deaths += 1,
            }
            machine.disk.kill();
            assert!(deaths <= 10, "it is never found");
        }
        let mut store = machine.shard(0).unwrap();
        let records = store.records(&mut ScanCursor::default(), 1_000).unwrap();
        let lost = |state: &State| {
            matches!(state, State::Retired(Retirement::DeadLetter { fault: Fault::Lost, .. }))
        };
        let dead: Vec<_> =
            records.iter().filter(|r| lost(&r.state)).map(|r| r.url.to_string()).collect();
        let fetched = records.iter().filter(|r| r.state == State::Parsed).count();
        (deaths, dead, fetched)
    });
    assert_eq!(dead, ["http://h7.test/deadly"]);
    assert_eq!((deaths, fetched), (3, 61));
}
