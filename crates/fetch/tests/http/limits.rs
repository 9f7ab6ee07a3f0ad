//! Whatever a server does, it gets so much time and so many bytes.

use std::future::pending;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use lycosa_fetch::{FetchSettings, HttpFetcher, NetworkSettings};
use ports::{Ended, Request};
use tokio::time::sleep;
use types::outcome::Truncated;
use types::{ByteRate, ByteSize, CrawlUrl, Fault, HumanDuration, Refusal};

use crate::support::*;

fn hasty(change: impl FnOnce(&mut NetworkSettings)) -> HttpFetcher {
    let mut network = network();
    change(&mut network);
    fetcher_with(network, FetchSettings::default())
}

fn frugal(change: impl FnOnce(&mut FetchSettings)) -> HttpFetcher {
    let mut fetch = FetchSettings::default();
    change(&mut fetch);
    fetcher_with(network(), fetch)
}

const MS_50: HumanDuration = HumanDuration::from_millis(50);
/// Long enough for an honest answer on a busy machine.
const MS_500: HumanDuration = HumanDuration::from_millis(500);

fn timeout(exchange: &ports::Exchange) -> &str {
    match fault(exchange) {
        Fault::Timeout(which) => which,
        other => panic!("{other:?}"),
    }
}

/// A server that says `first` and then `more`, every ten milliseconds, without end.
async fn dripping(first: &'static str, more: &'static str) -> Server {
    Server::start(move |mut peer, _| async move {
        peer.request().await;
        let mut going = peer.send(first.as_bytes()).await;
        while going {
            sleep(Duration::from_millis(10)).await;
            going = peer.send(more.as_bytes()).await;
        }
    })
    .await
}

/// A server that says `first` and then nothing.
async fn silent(first: &'static str) -> Server {
    Server::start(move |mut peer, _| async move {
        peer.request().await;
        peer.send(first.as_bytes()).await;
        pending().await
    })
    .await
}

#[tokio::test]
async fn nobody_there() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://a.test:{}/", listener.local_addr().unwrap().port());
    drop(listener);
    let exchange = visit(&fetcher(), page(CrawlUrl::parse(&url).unwrap())).await;
    assert!(matches!(fault(&exchange), Fault::Connect(_)), "{:?}", exchange.end);
    assert_eq!(exchange.times.sent, None);
}

#[tokio::test]
async fn a_handshake_that_never_ends_counts_as_connecting() {
    let server = Server::start(|peer, _| async move {
        let _peer = peer;
        pending().await
    })
    .await;
    let fetcher = hasty(|network| network.timeout_connect = MS_50);
    let url = format!("https://a.test:{}/", server.address.port());
    let exchange = visit(&fetcher, page(CrawlUrl::parse(&url).unwrap())).await;
    assert_eq!(timeout(&exchange), "connect");
    assert_eq!(exchange.times.sent, None);
}

#[tokio::test]
async fn a_first_byte_that_does_not_come() {
    let fetcher = hasty(|network| network.timeout_first_byte = MS_50);
    let exchange = silent("").await.visit(&fetcher, "/").await;
    assert_eq!(timeout(&exchange), "first byte");
    assert!(exchange.times.sent.is_some() && exchange.times.first_byte.is_none());
}

#[tokio::test]
async fn silence_in_head_or_body() {
    let fetcher = hasty(|network| network.timeout_idle = MS_50);
    let exchange = silent("HTTP/1.1 200 OK\r\nServ").await.visit(&fetcher, "/").await;
    assert_eq!(timeout(&exchange), "idle");
    let server = silent("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome").await;
    let exchange = server.visit(&fetcher, "/").await;
    let response = answer(&exchange);
    assert_eq!((response.truncated, response.body_cut), (Some(Truncated::Time), true));
    assert_eq!(&*response.body, b"some");
    assert!(response.wire.ends_with(b"\r\n\r\nsome"));
    assert_eq!(fetcher.stats().waiting, 0);
}

#[tokio::test]
async fn the_whole_visit_has_an_end() {
    let fetcher = hasty(|network| network.timeout_total = MS_500);
    let exchange = dripping("HTTP/1.1 200 OK\r\n", "X-A: b\r\n").await.visit(&fetcher, "/").await;
    assert_eq!(timeout(&exchange), "total");
    let server = dripping("HTTP/1.1 200 OK\r\n\r\n", "x").await;
    let exchange = server.visit(&fetcher, "/").await;
    let response = answer(&exchange);
    assert_eq!(response.truncated, Some(Truncated::Time));
    assert!(!response.body.is_empty());
    assert!(exchange.times.ended.since(exchange.times.started) >= MS_500.get());
}

#[tokio::test]
async fn large_types_get_more_time() {
    let fetcher = hasty(|network| network.timeout_total = MS_500);
    let server = Server::start(|mut peer, _| async move {
        peer.request().await;
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n%PDF").await;
        sleep(MS_500.get()).await;
        peer.send(b"-1.7").await;
    })
    .await;
    let exchange = server.visit(&fetcher, "/").await;
    assert_eq!(&*answer(&exchange).body, b"%PDF-1.7");
    assert_eq!(answer(&exchange).truncated, None);
}

#[tokio::test]
async fn a_drip_below_the_least_rate() {
    let fetcher = hasty(|network| {
        network.rate_min = ByteRate(1_000_000);
        network.rate_window = MS_50;
    });
    let exchange = dripping("HTTP/1.1 200 OK\r\n", "X-A: b\r\n").await.visit(&fetcher, "/").await;
    assert_eq!(timeout(&exchange), "rate");
    let exchange = dripping("HTTP/1.1 200 OK\r\n\r\n", "x").await.visit(&fetcher, "/").await;
    assert_eq!(answer(&exchange).truncated, Some(Truncated::Time));
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_cut_at_the_byte() {
    let fetcher = frugal(|fetch| {
        fetch.stored_bytes_max = ByteSize(100_000);
        fetch.html_bytes_max = ByteSize(10_000);
        fetch.pdf_bytes_max = ByteSize(200_000);
    });
    let body = "x".repeat(150_000);
    for head in
        ["Content-Length: 150000\r\n\r\n", "\r\n", "Transfer-Encoding: chunked\r\n\r\n249F0\r\n"]
    {
        let server = Server::once(format!("HTTP/1.1 200 OK\r\n{head}{body}")).await;
        let exchange = server.visit(&fetcher, "/").await;
        let response = answer(&exchange);
        assert_eq!(response.truncated, Some(Truncated::Length), "{head}");
        assert_eq!(response.wire.len() - response.head_bytes, 100_000);
        assert_eq!((response.body.len(), response.body_cut), (10_000, true));
    }
    let pdf = "HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n";
    let exchange = Server::once(format!("{pdf}{body}")).await.visit(&fetcher, "/").await;
    assert_eq!((answer(&exchange).truncated, answer(&exchange).body.len()), (None, 150_000));
    // To the byte as much as is kept: not cut.
    for head in ["Content-Length: 100000\r\n\r\n", "\r\n"] {
        let body = &body[..100_000];
        let server = Server::once(format!("HTTP/1.1 200 OK\r\n{head}{body}")).await;
        let exchange = server.visit(&fetcher, "/").await;
        assert_eq!(answer(&exchange).truncated, None, "{head}");
        assert_eq!(answer(&exchange).wire.len() - answer(&exchange).head_bytes, 100_000);
    }
}

#[tokio::test]
async fn a_small_limit_is_kept_and_what_follows_an_answer_does_not_count() {
    let fetcher = frugal(|fetch| fetch.stored_bytes_max = ByteSize(1000));
    let body = "x".repeat(5000);
    for head in ["Content-Length: 5000\r\n\r\n", "\r\n"] {
        let server = Server::once(format!("HTTP/1.1 200 OK\r\n{head}{body}")).await;
        let exchange = server.visit(&fetcher, "/").await;
        assert_eq!(answer(&exchange).truncated, Some(Truncated::Length), "{head}");
        assert_eq!(answer(&exchange).wire.len() - answer(&exchange).head_bytes, 1000);
    }
    let fitting = format!("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{}", &body[..1000]);
    let exchange = Server::once(format!("{fitting}{body}")).await.visit(&fetcher, "/").await;
    assert_eq!(answer(&exchange).truncated, None);
    assert_eq!(&*answer(&exchange).wire, fitting.as_bytes());
}

#[tokio::test]
async fn a_body_that_breaks_off_is_kept_and_marked() {
    for (sent, body, why) in [
        ("Content-Length: 100\r\n\r\nhalf", "half", Truncated::Disconnect),
        ("Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", "half", Truncated::Disconnect),
        ("Transfer-Encoding: chunked\r\n\r\n9\r\nhalf", "half", Truncated::Disconnect),
        ("Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nZZ\r\n", "half", Truncated::Unspecified),
    ] {
        let server = Server::once(format!("HTTP/1.1 200 OK\r\n{sent}")).await;
        let exchange = server.visit(&fetcher(), "/").await;
        let response = answer(&exchange);
        assert_eq!(response.truncated, Some(why), "{sent}");
        assert!(response.wire.ends_with(sent.as_bytes()), "{sent}");
        assert_eq!((&*response.body, response.body_cut), (body.as_bytes(), true), "{sent}");
    }
}

#[tokio::test]
async fn what_is_not_http_is_no_answer() {
    let fetcher = fetcher();
    for garbage in [
        "SSH-2.0-OpenSSH_9\r\n",
        "<html>hello</html>\n\n",
        "HTTP/9.9 what\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    ] {
        let exchange = Server::once(garbage).await.visit(&fetcher, "/").await;
        assert!(matches!(fault(&exchange), Fault::BadHttp(_)), "{garbage}: {:?}", exchange.end);
        assert!(!exchange.request.is_empty());
    }
    for partial in ["", "HTTP/1.1 200 OK\r\nServer"] {
        let exchange = Server::once(partial).await.visit(&fetcher, "/").await;
        assert!(matches!(fault(&exchange), Fault::Reset(_)), "{partial}: {:?}", exchange.end);
    }
    let server = Server::start(|mut peer, _| async move {
        peer.request().await;
        peer.stream.set_zero_linger().unwrap();
    })
    .await;
    let exchange = server.visit(&fetcher, "/").await;
    assert!(matches!(fault(&exchange), Fault::Reset(_)), "{:?}", exchange.end);
}

#[tokio::test]
async fn a_flood_of_header_fields_is_cut_off() {
    let fetcher = frugal(|fetch| fetch.header_bytes_max = ByteSize::kib(16));
    for (first, more) in [
        ("HTTP/1.1 200 OK\r\n", format!("X-A: {}\r\n", "b".repeat(1000))),
        ("HTTP/1.1 200 OK\r\nX-A: ", "b".repeat(1000)),
        ("", "HTTP/1.1 102 Processing\r\n\r\n".repeat(100)),
        ("", "\r\n".repeat(1000)),
    ] {
        let more: Arc<str> = more.into();
        let server = Server::start(move |mut peer, _| {
            let more = Arc::clone(&more);
            async move {
                peer.request().await;
                let mut going = peer.send(first.as_bytes()).await;
                while going {
                    going = peer.send(more.as_bytes()).await;
                }
            }
        })
        .await;
        let exchange = server.visit(&fetcher, "/").await;
        assert!(matches!(fault(&exchange), Fault::BadHttp(_)), "{first:?}: {:?}", exchange.end);
        assert!(fetcher.stats().held_bytes == 0);
    }
    let many = "X: y\r\n".repeat(101);
    let server = Server::once(format!("HTTP/1.1 200 OK\r\n{many}\r\n")).await;
    let exchange = server.visit(&fetcher, "/").await;
    assert!(matches!(fault(&exchange), Fault::BadHttp(_)), "{:?}", exchange.end);
    // A large head within the limit is no flood.
    let large =
        format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 2\r\n\r\nok", "y".repeat(15_000));
    let exchange = Server::once(large.clone()).await.visit(&fetcher, "/").await;
    assert_eq!(&*answer(&exchange).wire, large.as_bytes());
    let larger =
        format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 2\r\n\r\nok", "y".repeat(50_000));
    let exchange = Server::once(larger.clone()).await.visit(&crate::support::fetcher(), "/").await;
    assert_eq!(&*answer(&exchange).wire, larger.as_bytes());
}

#[tokio::test]
async fn a_bomb_costs_no_more_than_its_limits() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; 64 << 20]).unwrap();
    let brotli = include_bytes!("../fixtures/zeros-64mib.br").to_vec();
    for (name, bomb) in [("gzip", encoder.finish().unwrap()), ("br", brotli)] {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: {name}\r\nContent-Length: {}\r\n\r\n",
            bomb.len()
        );
        let fetcher = fetcher();
        let server = Server::once([head.as_bytes(), &bomb].concat()).await;
        let exchange = server.visit(&fetcher, "/").await;
        let response = answer(&exchange);
        assert_eq!((response.truncated, response.body_cut), (None, true));
        assert!(response.body.len() <= 2 << 20, "{}", response.body.len());
        assert!(response.wire.ends_with(&bomb));
        assert!(fetcher.stats().held_bytes <= (2 << 20) + (128 << 10));
    }
}

#[tokio::test]
async fn a_body_in_the_smallest_chunks_costs_memory_for_its_bytes_alone() {
    let mut sent = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    sent.extend(b"1\r\nx\r\n".repeat(100_000));
    sent.extend(b"0\r\n\r\n");
    let fetcher = fetcher();
    let exchange = Server::once(&*sent).await.visit(&fetcher, "/").await;
    assert_eq!((answer(&exchange).body.len(), answer(&exchange).truncated), (100_000, None));
    assert_eq!(answer(&exchange).wire.len(), sent.len());
    assert!(fetcher.stats().held_bytes < 2 * sent.len());
}

#[tokio::test]
async fn a_body_in_the_smallest_chunks_is_not_taken_for_ever() {
    let mut sent = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    sent.extend(b"1\r\nx\r\n".repeat(1_000_000));
    sent.extend(b"0\r\n\r\n");
    let exchange = Server::once(&*sent).await.visit(&fetcher(), "/").await;
    let response = answer(&exchange);
    assert_eq!(response.truncated, Some(Truncated::Length));
    assert!((600_000..2_000_000).contains(&response.wire.len()), "{}", response.wire.len());
    // The same number of bytes in chunks that are worth their framing is taken whole.
    let mut sent = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    sent.extend(format!("64\r\n{}\r\n", "x".repeat(100)).repeat(60_000).bytes());
    sent.extend(b"0\r\n\r\n");
    let exchange = Server::once(&*sent).await.visit(&fetcher(), "/").await;
    assert_eq!(answer(&exchange).truncated, None);
}

#[tokio::test]
async fn the_guard_stands_before_the_socket() {
    let server = Server::always("HTTP/1.1 200 OK\r\n\r\n").await;
    let closed = hasty(|network| network.allow.clear());
    let exchange = server.visit(&closed, "/").await;
    match &exchange.end {
        Ended::Refused(Refusal::Address { range, .. }) => {
            assert_eq!(&**range, "127.0.0.0/8 (loopback)");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((server.connections(), exchange.times.sent), (0, None));
    // An address that was allowed leads nowhere else, whatever the host's name is.
    let request = Request { address: "169.254.169.254".parse().unwrap(), ..page(server.url("/")) };
    let exchange = visit(&fetcher(), request).await;
    assert!(matches!(exchange.end, Ended::Refused(_)), "{:?}", exchange.end);
}

#[tokio::test]
async fn memory_is_waited_for_before_anything_is_sent_and_given_back_with_the_exchange() {
    let body = "x".repeat(60_000);
    let server =
        Server::always(format!("HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n{body}")).await;
    let fetcher = Arc::new(frugal(|fetch| fetch.memory_max = ByteSize::kib(80)));
    let first = server.visit(&fetcher, "/1").await;
    assert_eq!(answer(&first).truncated, None);
    assert!(fetcher.stats().held_bytes >= 60_000);
    let second = tokio::spawn({
        let (fetcher, url) = (Arc::clone(&fetcher), server.url("/2"));
        async move { visit(&fetcher, page(url)).await }
    });
    // The second has gone as far as it can when others had their turn often enough.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!second.is_finished());
    assert_eq!(server.requests().len(), 1);
    drop(first);
    let second = second.await.unwrap();
    assert_eq!(answer(&second).body.len(), 60_000);
    // Waiting for our own memory is no part of the visit.
    assert!(second.times.ended.since(second.times.started) < Duration::from_secs(5));
    drop(second);
    assert_eq!(fetcher.stats().held_bytes, 0);
}

#[tokio::test]
async fn bodies_that_wait_for_each_others_memory_all_come_to_an_end() {
    let body = "x".repeat(200_000);
    let server =
        Server::always(format!("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n{body}")).await;
    let mut network = network();
    network.timeout_idle = MS_500;
    let fetch = FetchSettings { memory_max: ByteSize::kib(256), ..FetchSettings::default() };
    let fetcher = Arc::new(fetcher_with(network, fetch));
    let visits: Vec<_> = (0..8)
        .map(|host| {
            let fetcher = Arc::clone(&fetcher);
            let url = format!("http://h{host}.test:{}/", server.address.port());
            let url = CrawlUrl::parse(&url).unwrap();
            tokio::spawn(async move {
                let exchange = visit(&fetcher, page(url)).await;
                answer(&exchange).truncated
            })
        })
        .collect();
    let mut whole = 0;
    for visit in visits {
        match visit.await.unwrap() {
            None => whole += 1,
            Some(why) => assert_eq!(why, Truncated::Time),
        }
    }
    assert!(whole > 0, "at least the last one had all the memory there is");
    assert_eq!(fetcher.stats().held_bytes, 0);
}
