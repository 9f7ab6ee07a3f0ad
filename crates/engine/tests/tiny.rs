//! Whole crawls of tiny webs, each written as a string; the journal is what the server saw.

#![expect(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "parts of tests")]

mod common;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use common::{Machine, START, in_virtual_time};
use expect_test::{Expect, expect};
use lycosa_engine::Ending;
use ports::claims::{ClaimKey, Claimed};
use ports::shard_store::ScanCursor;
use ports::{
    Claims, Clock as _, Ended, Exchange, Fetcher, PortResult, Protocol, Request, ShardStore as _,
    Times,
};
use simweb::{Fixture, SimFetcher, Web};
use tokio::sync::Notify;
use types::record::Retirement;
use types::{Fault, Record, State, Timestamp};

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
fn pages_with_very_many_links_are_followed_whole() {
    let links: String = (0..1_200).map(|n| format!("<a href=/{n}>{n}</a> ")).collect();
    let hosts = ["a.test", "b.test", "c.test"];
    let web: String = hosts.map(|host| format!("--- {host}/\n{links}\n")).concat();
    let seeds = hosts.map(|host| format!("http://{host}/"));
    let fixture = Fixture::parse(&web).unwrap();
    let journal = in_virtual_time(async {
        let mut machine = Machine::new(1, Arc::new(fixture));
        machine.audited = false;
        let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
        assert_eq!(machine.run(&seeds).await.unwrap(), Ending::Done);
        machine.journal.table()
    });
    // Of each host: robots.txt, its home page, and all that this leads to.
    assert_eq!(journal.lines().count(), 3 * (1 + 1 + 1_200));
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
fn a_host_has_only_so_many_retries() {
    check_with(
        "--- a.test/
         <a href=/1>1</a> <a href=/2>2</a> <a href=/3>3</a> <a href=/4>4</a>
         --- a.test/1 500
         --- a.test/2 500
         --- a.test/3 500
         --- a.test/4 500",
        &["http://a.test/"],
        |machine| machine.host_retries = 2,
        expect![[r#"
            00:00      a.test  /robots.txt  404
            00:01.010  a.test  /            200
            00:02.020  a.test  /1           500
            00:03.030  a.test  /2           500
            00:05.040  a.test  /3           500
            00:09.050  a.test  /4           500
            00:17.060  a.test  /1           500
            00:33.070  a.test  /2           500
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

/// Where the crawls of a machine meet. Each has a clone of it in a [`Seat`].
#[derive(Debug, Clone, Default)]
struct Meeting(Arc<Mutex<HashMap<ClaimKey, Place>>>);

#[derive(Debug, Clone, Copy)]
enum Place {
    Held { seat: u32 },
    Orphan,
    Left { until: Timestamp },
}

/// One crawl; it leaves orphans when it goes.
#[derive(Debug)]
struct Seat(Meeting, u32);

impl Claims for Seat {
    fn claim(&self, place: ClaimKey, _: Timestamp) -> PortResult<Claimed> {
        let mut places = self.0.0.lock().unwrap();
        let before = places.get(&place).copied();
        let claimed = match before {
            Some(Place::Held { seat }) if seat != self.1 => return Ok(Claimed::Taken),
            Some(Place::Held { .. }) => panic!("claimed twice by one crawl"),
            Some(Place::Orphan) => Claimed::Orphan,
            Some(Place::Left { until }) => Claimed::Ours { not_before: until },
            None => Claimed::Ours { not_before: Timestamp::ZERO },
        };
        places.insert(place, Place::Held { seat: self.1 });
        Ok(claimed)
    }

    fn leave(&self, place: ClaimKey, until: Timestamp) -> PortResult<()> {
        let before = self.0.0.lock().unwrap().insert(place, Place::Left { until });
        assert!(matches!(before, Some(Place::Held { seat }) if seat == self.1), "{before:?}");
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut places = self.0.0.lock().unwrap();
        let mine =
            places.values_mut().filter(|p| matches!(p, Place::Held { seat } if *seat == self.1));
        mine.for_each(|place| *place = Place::Orphan);
    }
}

/// Two hosts at addresses of their own, five pages each, and crawls that begin at different ends.
fn shared_web() -> Arc<Fixture> {
    let page = |host: &str, n: u32| {
        let other = if host == "a.test" { "b.test" } else { "a.test" };
        format!("--- {host}/{n}\n<a href=/{}>n</a> <a href=http://{other}/{n}>o</a>\n", n + 1)
    };
    let pages = (0..5).flat_map(|n| [page("a.test", n), page("b.test", n)]);
    let last = "--- a.test/5\nend\n--- b.test/5\nend";
    Arc::new(Fixture::parse(&(pages.collect::<String>() + last)).unwrap())
}

/// Fails if the requests of all crawls together were ruder than one may be.
fn polite_together(machines: [&Machine; 2]) -> Vec<simweb::Entry> {
    let mut entries: Vec<_> = machines.iter().flat_map(|one| one.journal.entries()).collect();
    entries.sort_by_key(|entry| entry.arrived);
    let mut violations = simweb::checks::gaps(&entries, |_| machines[0].politeness.delay.get());
    // Each crawl counts its connections from one.
    violations.retain(|violation| violation.check != "one connection");
    simweb::checks::assert_none(&violations);
    entries
}

#[test]
fn two_crawls_of_one_machine_are_polite_together_and_both_see_everything() {
    in_virtual_time(async {
        let (web, meeting) = (shared_web(), Meeting::default());
        let machine = |seat| {
            let mut machine = Machine::new(u64::from(seat), Arc::clone(&web) as Arc<dyn Web>);
            machine.claims = Some(Arc::new(Seat(meeting.clone(), seat)));
            machine
        };
        let (one, other) = (machine(1), machine(2));
        let (first, second) =
            tokio::join!(one.run(&["http://a.test/0"]), other.run(&["http://b.test/0"]));
        assert_eq!((first.unwrap(), second.unwrap()), (Ending::Done, Ending::Done));
        let entries = polite_together([&one, &other]);
        for host in ["a.test", "b.test"] {
            for page in 0..=5 {
                let path = format!("/{page}");
                let is_it = |e: &&simweb::Entry| e.host.to_string() == host && *e.path == *path;
                assert_eq!(entries.iter().filter(is_it).count(), 2, "{host}{path}");
            }
        }
    });
}

#[test]
fn who_takes_over_the_host_of_a_crawl_that_died_waits_a_full_pause() {
    in_virtual_time(async {
        let (web, meeting) = (shared_web(), Meeting::default());
        let mut one = Machine::new(1, Arc::clone(&web) as Arc<dyn Web>);
        one.claims = Some(Arc::new(Seat(meeting.clone(), 1)));
        let mut other = Machine::new(2, web as Arc<dyn Web>);
        other.claims = Some(Arc::new(Seat(meeting, 2)));
        // It dies a moment after its fourth request of each host.
        let life = Duration::from_millis(3_100);
        let died = tokio::time::timeout(life, one.run(&["http://a.test/0", "http://b.test/0"]));
        assert!(died.await.is_err());
        one.claims = None;
        assert_eq!(other.run(&["http://a.test/0"]).await.unwrap(), Ending::Done);
        let entries = polite_together([&one, &other]);
        assert!(entries.len() > 7 + 12, "both have been there: {}", entries.len());
    });
}

#[test]
fn a_web_that_never_answers_is_given_up_sooner_than_one_that_is_busy() {
    let seconds = |web: &str| {
        let fixture = Fixture::parse(web).unwrap();
        in_virtual_time(async {
            let machine = Machine::new(1, Arc::new(fixture));
            assert_eq!(machine.run(&["http://a.test/"]).await.unwrap(), Ending::Done);
            machine.clock.now().since(START).as_secs()
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
            00:12.755  a.test  /            304
            00:54.759  a.test  /            200
            00:55.769  a.test  /x           200
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

/// A line that others have: every request waits in vain, once.
struct Crowded {
    inner: SimFetcher,
    waited: Mutex<HashMap<String, usize>>,
}

#[async_trait]
impl Fetcher for Crowded {
    async fn fetch(&self, request: Request, sent: &mut (dyn FnMut(Timestamp) + Send)) -> Exchange {
        let url = request.url.to_string();
        let first = {
            let mut waited = self.waited.lock().unwrap();
            let times = waited.entry(url).or_insert(0);
            *times += 1;
            *times == 1
        };
        if !first {
            return self.inner.fetch(request, sent).await;
        }
        tokio::time::sleep(Duration::from_secs(300)).await;
        let at = START + Duration::from_secs(300);
        Exchange {
            times: Times { started: at, sent: None, first_byte: None, ended: at },
            protocol: Protocol::Http11,
            tls: None,
            request: Default::default(),
            response: None,
            end: Ended::NoTurn,
            hold: None,
        }
    }
}

#[test]
fn a_visit_without_a_turn_has_never_been() {
    let web = "--- a.test/
               <a href=/x>x</a> <a href=/y>y</a>
               --- a.test/x
               x
               --- a.test/y
               y";
    let fixture = Fixture::parse(web).unwrap();
    let (entries, records) = in_virtual_time(async {
        let mut machine = Machine::new(1, Arc::new(fixture));
        machine.fetcher = Box::new(|inner| Arc::new(Crowded { inner, waited: Mutex::default() }));
        assert_eq!(machine.run(&["http://a.test/"]).await.unwrap(), Ending::Done);
        let mut store = machine.shard(0).unwrap();
        let records = store.records(&mut ScanCursor::default(), 1_000).unwrap();
        (machine.journal.entries(), records)
    });
    // Five minutes for nothing each time, robots.txt included; then each is asked once.
    let asked: Vec<_> = entries.iter().map(|entry| entry.path.to_string()).collect();
    assert_eq!(asked, ["/robots.txt", "/", "/x", "/y"]);
    for (n, entry) in (1..).zip(&entries) {
        assert!(entry.arrived >= START + Duration::from_secs(300 * n), "{entry:?}");
    }
    assert_eq!(records.len(), 3);
    for record in records {
        let Record { url, state, attempts, lost, .. } = record;
        assert_eq!((state, attempts, lost), (State::Parsed, 0, 0), "{url}");
    }
}
