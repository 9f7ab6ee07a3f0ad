//! Webs visited in process: what the visitor sees, and what the journal says of it.

#![expect(clippy::unwrap_used, reason = "a test that meets a surprise should fail")]

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use lycosa_simweb::{
    Fixture, Journal, Limits, SimClock, SimFetcher, SimResolver, Web, World, WorldSpec,
};
use ports::{Clock, Ended, Exchange, Fetcher, Purpose, Request, Resolution, Resolver};
use types::outcome::Truncated;
use types::{CrawlUrl, Fault, HostKey, Timestamp, Validators};

const START: Timestamp = Timestamp::from_secs(1_794_774_000);

struct Net {
    journal: Journal,
    fetcher: SimFetcher,
    resolver: SimResolver,
}

impl Net {
    fn new(web: Arc<dyn Web>) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SimClock::new(START));
        let journal = Journal::new(Arc::clone(&clock));
        Self {
            fetcher: SimFetcher::new(Arc::clone(&web), Arc::clone(&clock), journal.clone()),
            resolver: SimResolver::new(web, clock),
            journal,
        }
    }

    fn fixture(text: &str) -> Self {
        Self::new(Arc::new(Fixture::parse(text).unwrap()))
    }

    fn slow_links(mut self, one_way: Duration) -> Self {
        self.fetcher = self.fetcher.with_latency(3, one_way);
        self
    }

    async fn address(&self, host: &str) -> IpAddr {
        match self.resolver.resolve(&HostKey::new(host)).await {
            Resolution::Addresses { addresses, .. } => addresses[0],
            other => panic!("{host}: {other:?}"),
        }
    }

    async fn get(&self, url: &str) -> Exchange {
        self.get_if(url, Validators::default()).await
    }

    async fn get_if(&self, url: &str, validators: Validators) -> Exchange {
        let url = CrawlUrl::parse(url).unwrap();
        let address = self.address(url.host()).await;
        let purpose = if url.path() == "/robots.txt" { Purpose::Robots } else { Purpose::Page };
        let mut left = None;
        let request = Request { url, address, purpose, validators };
        let exchange = self.fetcher.fetch(request, &mut |at| left = Some(at)).await;
        assert_eq!(exchange.times.sent, left, "the callback and the report agree");
        exchange
    }
}

fn body(exchange: &Exchange) -> &str {
    std::str::from_utf8(&exchange.response.as_ref().unwrap().body).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_tiny_web_answers_as_it_is_written() {
    let net = Net::fixture(
        "--- a.test/robots.txt
         User-agent: *
         Disallow: /secret
         --- a.test/
         <a href=/x>x</a>
           <b>indented</b>
         --- a.test/x 302 Location: /y slow=2s
         --- https://b.test/ type=text/plain
         hello",
    );
    assert_eq!(
        body(&net.get("http://a.test/robots.txt").await),
        "User-agent: *\nDisallow: /secret\n"
    );
    let exchange = net.get("http://a.test/").await;
    assert_eq!(body(&exchange), "<a href=/x>x</a>\n  <b>indented</b>\n");
    let response = exchange.response.unwrap();
    assert_eq!(&response.wire[response.head_bytes..], &response.body[..]);
    assert!(exchange.request.starts_with(b"GET / HTTP/1.1\r\nhost: a.test\r\nuser-agent: "));
    let moved = net.get("http://a.test/x").await;
    assert_eq!(moved.response.as_ref().unwrap().header("location"), Some("/y"));
    assert_eq!(moved.times.ended.since(moved.times.started), Duration::from_secs(2));
    assert_eq!(net.get("http://a.test/nowhere").await.response.unwrap().status, 404);
    assert_eq!(
        net.get("https://b.test/").await.response.unwrap().header("content-type"),
        Some("text/plain")
    );
    expect![[r#"
        00:00  a.test          /robots.txt  200
        00:00  a.test          /            200
        00:00  a.test          /x           302
        00:02  a.test          /nowhere     404
        00:02  https://b.test  /            200
    "#]]
    .assert_eq(&net.journal.table());
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_change_from_one_request_to_the_next() {
    let net = Net::fixture(
        "--- a.test/ 503 Retry-After: 5
         --- a.test/ then 200
         now
         --- a.test/tag ETag: \"1\"
         v1",
    );
    let first = net.get("http://a.test/").await.response.unwrap();
    assert_eq!((first.status, first.header("retry-after")), (503, Some("5")));
    for _ in 0..2 {
        assert_eq!(net.get("http://a.test/").await.response.unwrap().status, 200);
    }
    let known = Validators { etag: Some("\"1\"".into()), last_modified: None };
    let same = net.get_if("http://a.test/tag", known).await.response.unwrap();
    assert_eq!((same.status, same.body.len()), (304, 0));
}

#[tokio::test(start_paused = true)]
async fn what_goes_wrong_is_reported_as_a_real_fetcher_would() {
    let net = Net::fixture(
        "--- a.test/mute mute
         --- a.test/slow slow=21s
         --- a.test/reset reset
         --- a.test/cut cut=3
         0123456789
         --- a.test/torn reset=3 chunked
         0123456789
         --- a.test/drip drip=10/1s filler=10000
         --- a.test/trickle drip=10/1s filler=50
         --- a.test/huge filler=16000000
         --- a.test/raw not-http
         hi
         !door r.test refused
         --- https://t.test/
         !door t.test bad-certificate
         !door s.test silent",
    );
    let broken = async |url: &str| match net.get(url).await {
        Exchange { end: Ended::Broken(fault), response: None, times, .. } => {
            (fault, times.ended.since(times.started).as_secs())
        }
        other => panic!("{url}: {other:?}"),
    };
    assert_eq!(broken("http://a.test/mute").await, (Fault::Timeout("first byte".into()), 20));
    assert_eq!(broken("http://a.test/slow").await, (Fault::Timeout("first byte".into()), 20));
    assert_eq!(broken("http://a.test/reset").await.0.name(), "reset");
    assert_eq!(broken("http://a.test/raw").await.0.name(), "bad-http");
    assert_eq!(broken("http://r.test/").await.0.name(), "connect");
    assert_eq!(broken("https://t.test/").await.0.name(), "tls");
    assert_eq!(broken("http://s.test/").await, (Fault::Timeout("connect".into()), 10));

    let cut = async |url: &str| {
        let exchange = net.get(url).await;
        let response = exchange.response.unwrap();
        let took = exchange.times.ended.since(exchange.times.started).as_secs();
        (response.truncated, response.body.len(), took)
    };
    assert_eq!(cut("http://a.test/cut").await, (Some(Truncated::Disconnect), 3, 0));
    assert_eq!(cut("http://a.test/torn").await, (Some(Truncated::Disconnect), 0, 0));
    assert_eq!(cut("http://a.test/drip").await, (Some(Truncated::Time), 110, 10));
    assert_eq!(cut("http://a.test/trickle").await, (None, 50, 4));
    assert_eq!(cut("http://a.test/huge").await, (Some(Truncated::Length), 2 << 20, 0));
    // Nobody was asked anything behind doors that did not open.
    assert!(net.journal.entries().iter().all(|entry| &*entry.host == "a.test"));
}

#[tokio::test(start_paused = true)]
async fn compressed_bodies_are_read_and_broken_ones_are_told() {
    let net = Net::fixture(
        "--- a.test/gz gzip chunked
         hello hello hello
         --- a.test/bad Content-Encoding: gzip
         this is no gzip",
    );
    let exchange = net.get("http://a.test/gz").await;
    assert_eq!(body(&exchange), "hello hello hello\n");
    let bad = net.get("http://a.test/bad").await.response.unwrap();
    assert_eq!(bad.truncated, Some(Truncated::Unspecified));
    assert!(bad.body_cut);
}

#[tokio::test(start_paused = true)]
async fn a_visit_dropped_in_midair_still_arrives() {
    let net = Net::fixture("--- a.test/ slow=5s").slow_links(Duration::from_millis(50));
    let visit = net.get("http://a.test/");
    assert!(tokio::time::timeout(Duration::from_secs(1), visit).await.is_err());
    let entries = net.journal.entries();
    assert_eq!(entries.len(), 1);
    assert!(entries[0].aborted && entries[0].status == 0);
    let end = entries[0].ended.unwrap();
    assert_eq!(end.since(START), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_request_arrives_one_way_after_it_left() {
    let net = Net::fixture("--- a.test/ slow=1s").slow_links(Duration::from_millis(50));
    let times = net.get("http://a.test/").await.times;
    let entry = net.journal.entries().remove(0);
    let one_way = entry.arrived.since(times.sent.unwrap());
    assert!(one_way > Duration::ZERO);
    assert_eq!(times.sent.unwrap().since(times.started), 2 * one_way, "a round trip to connect");
    assert_eq!(entry.ended.unwrap().since(entry.arrived), Duration::from_secs(1));
    assert_eq!(times.ended.since(entry.ended.unwrap()), one_way);
    assert_eq!(
        times.first_byte.unwrap().since(times.sent.unwrap()),
        Duration::from_secs(1) + 2 * one_way
    );
    // The connection is open now: the next request leaves at once.
    let again = net.get("http://a.test/").await.times;
    assert_eq!(again.sent, Some(again.started));
    assert_eq!(net.journal.entries()[0].connection, net.journal.entries()[1].connection);
}

#[tokio::test(start_paused = true)]
async fn robots_txt_has_a_limit_of_its_own() {
    let net = Net::fixture("--- a.test/robots.txt filler=600000");
    let response = net.get("http://a.test/robots.txt").await.response.unwrap();
    assert_eq!(
        (response.truncated, response.body.len()),
        (Some(Truncated::Length), 500 * 1024 + 1)
    );
}

#[tokio::test(start_paused = true)]
async fn names_that_lead_nowhere_say_so() {
    let net = Net::fixture(
        "!dns a.test nxdomain
         !dns b.test servfail
         !address c.test 10.0.0.1
         !address d.test 10.0.0.1 127.0.0.9",
    );
    let resolve = async |host: &str| net.resolver.resolve(&HostKey::new(host)).await;
    assert!(
        matches!(resolve("a.test").await, Resolution::Failed { why, .. } if &*why == "no such name")
    );
    assert!(matches!(resolve("b.test").await, Resolution::Failed { .. }));
    assert!(matches!(resolve("nobody.test").await, Resolution::Failed { .. }));
    assert!(matches!(resolve("c.test").await, Resolution::Forbidden { .. }));
    assert_eq!(net.address("d.test").await.to_string(), "127.0.0.9");
}

#[tokio::test(start_paused = true)]
async fn a_world_is_the_same_each_time_it_is_asked() {
    let pages = async || {
        let world = World::new(WorldSpec { hosts: 20, pages: 400, ..WorldSpec::default() });
        let seeds = world.seeds(20);
        let net = Net::new(Arc::new(world));
        let mut bodies = Vec::new();
        for seed in seeds {
            let exchange = net.get(&seed).await;
            assert_eq!(exchange.end, Ended::Answered, "{seed}");
            bodies.push((seed, exchange.response.unwrap().wire));
        }
        bodies
    };
    let first = pages().await;
    assert_eq!(first, pages().await);
    assert!(first.iter().all(|(_, wire)| wire.starts_with(b"HTTP/1.1 200 OK\r\n")));
}

#[tokio::test(start_paused = true)]
async fn limits_can_be_changed() {
    let net = Net::fixture("--- a.test/ slow=3s");
    let limits = Limits { first_byte: Duration::from_secs(2), ..Limits::default() };
    let net = Net { fetcher: net.fetcher.with_limits(limits), ..net };
    assert!(matches!(net.get("http://a.test/").await.end, Ended::Broken(Fault::Timeout(_))));
}
