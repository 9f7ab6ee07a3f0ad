//! One connection per host, and never two requests for one visit.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use lycosa_fetch::{FetchSettings, NetworkSettings};
use ports::Fetcher as _;
use tokio::sync::Notify;
use tokio::task::coop;
use types::{CrawlUrl, Fault, HumanDuration};

use crate::support::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn visits_to_a_host_share_its_connection() {
    let server = Server::always(OK).await;
    let fetcher = fetcher();
    for n in 0..5 {
        let exchange = server.visit(&fetcher, &format!("/{n}")).await;
        assert_eq!(&*answer(&exchange).wire, OK.as_bytes());
        assert!(exchange.request.starts_with(format!("GET /{n} ").as_bytes()));
    }
    assert_eq!((server.connections(), server.requests().len()), (1, 5));
    let stats = fetcher.stats();
    assert_eq!((stats.opened, stats.reused, stats.stale, stats.waiting), (1, 4, 0, 1));
    assert_eq!(stats.held_bytes, 0);
}

#[tokio::test]
async fn every_framing_leaves_the_connection_clean() {
    let server = Server::start(|mut peer, _| async move {
        let answers = [
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n",
            "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        ];
        for answer in answers.iter().cycle() {
            if peer.request().await.is_none() {
                break;
            }
            peer.send(answer.as_bytes()).await;
        }
    })
    .await;
    let fetcher = fetcher();
    for status in [200, 304, 200, 404, 200, 200] {
        assert_eq!(answer(&server.visit(&fetcher, "/").await).status, status);
    }
    assert_eq!((server.connections(), server.requests().len()), (1, 6));
}

#[tokio::test]
async fn a_new_connection_to_a_host_closes_the_old_one() {
    let gone = Arc::new(Notify::new());
    let first = Server::start({
        let gone = Arc::clone(&gone);
        move |mut peer, _| {
            let gone = Arc::clone(&gone);
            async move {
                peer.request().await;
                peer.send(OK.as_bytes()).await;
                assert!(peer.closed().await);
                gone.notify_one();
            }
        }
    })
    .await;
    let second = Server::always(OK).await;
    let fetcher = fetcher();
    // The same host on another port, as http and https would be.
    first.visit(&fetcher, "/").await;
    second.visit(&fetcher, "/").await;
    gone.notified().await;
    assert_eq!(fetcher.stats().waiting, 1);
    // Another host has a connection of its own.
    let other = format!("http://b.test:{}/", second.address.port());
    visit(&fetcher, page(CrawlUrl::parse(&other).unwrap())).await;
    assert_eq!(fetcher.stats().waiting, 2);
    assert_eq!(fetcher.close_idle(), 2);
    assert_eq!(fetcher.stats().waiting, 0);
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_replaced_before_anything_is_sent() {
    let (taken, closed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let server = Server::start({
        let (taken, closed) = (Arc::clone(&taken), Arc::clone(&closed));
        move |mut peer, _| {
            let (taken, closed) = (Arc::clone(&taken), Arc::clone(&closed));
            async move {
                peer.request().await;
                peer.send(OK.as_bytes()).await;
                // Not earlier, or the end would come with the answer.
                taken.notified().await;
                drop(peer);
                closed.notify_one();
            }
        }
    })
    .await;
    let fetcher = fetcher();
    for visits in 1..=5 {
        answer(&server.visit(&fetcher, "/").await);
        assert_eq!((server.requests().len(), fetcher.stats().waiting), (visits, 1));
        taken.notify_one();
        closed.notified().await;
    }
    let stats = fetcher.stats();
    assert_eq!((stats.opened, stats.reused, stats.stale), (5, 0, 4));
}

#[tokio::test]
async fn a_connection_on_which_the_server_spoke_unasked_is_not_used() {
    let spoken = Arc::new(Notify::new());
    let server = Server::start({
        let spoken = Arc::clone(&spoken);
        move |mut peer, number| {
            let spoken = Arc::clone(&spoken);
            async move {
                peer.request().await;
                peer.send(OK.as_bytes()).await;
                if number == 0 {
                    spoken.notified().await;
                    peer.send(b"HTTP/1.1 408 Request Timeout\r\n\r\n").await;
                    spoken.notify_one();
                }
                assert!(peer.closed().await, "a second request on this connection");
            }
        }
    })
    .await;
    let fetcher = fetcher();
    server.visit(&fetcher, "/").await;
    spoken.notify_one();
    tokio::task::yield_now().await;
    spoken.notified().await;
    assert_eq!(answer(&server.visit(&fetcher, "/").await).status, 200);
    assert_eq!(fetcher.stats().stale, 1);
}

#[tokio::test]
async fn a_request_that_may_have_been_seen_is_never_sent_again() {
    let server = Server::start(|mut peer, _| async move {
        peer.request().await;
        peer.send(OK.as_bytes()).await;
        // The second one is read, and then there is no answer.
        peer.request().await;
    })
    .await;
    let fetcher = fetcher();
    answer(&server.visit(&fetcher, "/1").await);
    let exchange = server.visit(&fetcher, "/2").await;
    assert!(matches!(fault(&exchange), Fault::Reset(_)), "{:?}", exchange.end);
    assert_eq!(server.requests().len(), 2);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn closes_that_are_announced_are_believed() {
    for answer in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok",
    ] {
        let server = Server::always(answer).await;
        let fetcher = fetcher();
        server.visit(&fetcher, "/").await;
        assert_eq!(fetcher.stats().waiting, 0, "{answer}");
        server.visit(&fetcher, "/").await;
        assert_eq!(server.connections(), 2);
        // Protocol and fields of the second request are as good as the first's.
        let requests = server.requests();
        assert_eq!(requests[0], requests[1]);
    }
}

#[tokio::test]
async fn a_connection_that_waits_too_long_is_closed() {
    let gone = Arc::new(Notify::new());
    let server = Server::start({
        let gone = Arc::clone(&gone);
        move |mut peer, _| {
            let gone = Arc::clone(&gone);
            async move {
                peer.request().await;
                peer.send(OK.as_bytes()).await;
                assert!(peer.closed().await);
                gone.notify_one();
            }
        }
    })
    .await;
    let network = NetworkSettings { keep_alive: HumanDuration::from_millis(20), ..network() };
    let fetcher = fetcher_with(network, FetchSettings::default());
    server.visit(&fetcher, "/").await;
    gone.notified().await;
    assert_eq!(fetcher.stats().waiting, 0);
}

#[tokio::test]
async fn only_so_many_connections_wait() {
    let server = Server::always(OK).await;
    for (keep_alive_max, waiting) in [(2, 2), (1, 1), (0, 0)] {
        let network = NetworkSettings { keep_alive_max, ..network() };
        let fetcher = fetcher_with(network, FetchSettings::default());
        for host in ["a", "b", "c", "d"] {
            let url = format!("http://{host}.test:{}/", server.address.port());
            visit(&fetcher, page(CrawlUrl::parse(&url).unwrap())).await;
        }
        assert_eq!(fetcher.stats().waiting, waiting);
    }
}

#[tokio::test]
async fn a_visit_that_is_dropped_closes_its_connection() {
    for partial in ["", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nsome"] {
        let asked = Arc::new(Notify::new());
        let gone = Arc::new(Notify::new());
        let server = Server::start({
            let (asked, gone) = (Arc::clone(&asked), Arc::clone(&gone));
            move |mut peer, _| {
                let (asked, gone) = (Arc::clone(&asked), Arc::clone(&gone));
                async move {
                    peer.request().await;
                    peer.send(partial.as_bytes()).await;
                    asked.notify_one();
                    assert!(peer.closed().await);
                    gone.notify_one();
                }
            }
        })
        .await;
        let fetcher = fetcher();
        tokio::select! {
            biased;
            exchange = server.visit(&fetcher, "/") => panic!("{:?}", exchange.end),
            () = asked.notified() => {}
        }
        gone.notified().await;
        assert_eq!(fetcher.stats().held_bytes, 0);
        assert_eq!(fetcher.stats().waiting, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_hosts_at_once_keep_to_one_connection_each() {
    let server = Server::always(OK).await;
    let fetcher = Arc::new(fetcher());
    let hosts = (0..50).map(|host| {
        let fetcher = Arc::clone(&fetcher);
        let url = format!("http://h{host}.test:{}/", server.address.port());
        let url = CrawlUrl::parse(&url).unwrap();
        tokio::spawn(async move {
            for _ in 0..20 {
                answer(&visit(&fetcher, page(url.clone())).await);
            }
        })
    });
    for host in hosts.collect::<Vec<_>>() {
        host.await.unwrap();
    }
    assert_eq!((server.connections(), server.requests().len()), (50, 1000));
    assert!(server.open_max() <= 50);
    drop(fetcher);
    tokio::time::sleep(Duration::ZERO).await;
}

#[tokio::test]
async fn a_request_counts_as_sent_when_the_server_can_read_it() {
    // Whoever shares a task with a busy neighbour finds tokio's budget used up now and then, and
    // its write put off. A pause that began before the write would be too short.
    for left in 1..=8 {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let fetcher = fetcher();
        let port = listener.local_addr().unwrap().port();
        let url = CrawlUrl::parse(&format!("http://a.test:{port}/")).unwrap();
        let told = AtomicU32::new(0);
        let mut sent = |_| {
            let (mut peer, _) = listener.accept().unwrap();
            peer.set_nonblocking(true).unwrap();
            let seen = peer.peek(&mut [0; 512]).unwrap_or(0);
            assert!(seen > 0, "told before it left, with a budget of {left}");
            peer.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok").unwrap();
            told.fetch_add(1, Ordering::Relaxed);
        };
        let mut visit = std::pin::pin!(fetcher.fetch(page(url), &mut sent));
        let exchange = std::future::poll_fn(|cx| {
            // A task has 128 units a turn.
            for _ in left..128 {
                if let Poll::Ready(taken) = coop::poll_proceed(cx) {
                    taken.made_progress();
                }
            }
            visit.as_mut().poll(cx)
        })
        .await;
        assert_eq!(answer(&exchange).status, 200);
        assert_eq!(told.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_server_with_an_ipv6_address_is_visited_there() {
    // A machine without IPv6 has nothing to show.
    let Ok(listener) = tokio::net::TcpListener::bind("[::1]:0").await else { return };
    let port = listener.local_addr().unwrap().port();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = read_head(&mut stream).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, OK.as_bytes()).await.unwrap();
        head
    });
    let allow = vec!["::1/128".parse().unwrap()];
    let network = NetworkSettings { allow, ..NetworkSettings::default() };
    let fetcher = fetcher_with(network, FetchSettings::default());
    let url = CrawlUrl::parse(&format!("http://[::1]:{port}/")).unwrap();
    let request = ports::Request { address: "::1".parse().unwrap(), ..page(url) };
    assert_eq!(answer(&visit(&fetcher, request).await).status, 200);
    assert!(served.await.unwrap().contains(&format!("Host: [::1]:{port}\r\n")));
}
