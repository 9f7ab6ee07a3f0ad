//! HTTP/2: what is written down, when a connection serves again, and what a server can do to us.

mod hostile;
mod peer;
mod world;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use lycosa_fetch::{FetchSettings, NetworkSettings};
use ports::Protocol;
use types::{CrawlUrl, Fault};

use self::peer::{Http2Server, OK_FIELDS, Peer, frame, head};
use crate::support::*;
use crate::tls::{Authority, trusting};

const GOAWAY_NONE: [u8; 8] = [0, 0, 0, 0, 0, 0, 0, 0];

/// A connection that answers every request with a short page.
async fn honest(mut peer: Peer) {
    while let Some(stream) = peer.request().await {
        peer.answer(stream, OK_FIELDS, b"ok").await;
    }
}

#[tokio::test]
async fn an_exchange_is_written_down_in_the_shape_of_http_1_1() {
    let authority = Authority::new("h2-shape");
    let mut config = authority.server_config(&["a.test"]);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let seen = Arc::new(Mutex::new(String::new()));
    let noted = Arc::clone(&seen);
    let server = Server::start(move |peer, _| {
        let (acceptor, noted) = (acceptor.clone(), Arc::clone(&noted));
        async move {
            let tls = acceptor.accept(peer.stream).await.unwrap();
            let mut connection = h2::server::handshake(tls).await.unwrap();
            while let Some(next) = connection.accept().await {
                let (request, mut respond) = next.unwrap();
                *noted.lock().unwrap() = format!("{} {}", request.method(), request.uri());
                assert_eq!(request.headers()["user-agent"], "lycosa-test");
                assert!(!request.headers().contains_key("host"));
                let response = http::Response::builder()
                    .status(404)
                    .header("content-type", "text/html")
                    .header("set-cookie", "a=1")
                    .header("set-cookie", "b=2")
                    .body(())
                    .unwrap();
                let mut body = respond.send_response(response, false).unwrap();
                body.send_data(Bytes::from_static(b"<p>gone"), true).unwrap();
            }
        }
    })
    .await;
    let fetcher = trusting(&authority);
    let url = format!("https://a.test:{}/x?y=1", server.address.port());
    let exchange = visit(&fetcher, page(CrawlUrl::parse(&url).unwrap())).await;
    let want = format!("GET https://a.test:{}/x?y=1", server.address.port());
    assert_eq!(*seen.lock().unwrap(), want);
    assert_eq!((exchange.protocol, exchange.tls), (Protocol::Http2, Some("TLSv1.3")));
    let request = String::from_utf8(exchange.request.to_vec()).unwrap();
    let host = format!("host: a.test:{}\r\n", server.address.port());
    assert!(request.starts_with("GET /x?y=1 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&host) && request.ends_with("\r\n\r\n"), "{request}");
    let response = answer(&exchange);
    let wire = "HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\nset-cookie: a=1\r\n\
                set-cookie: b=2\r\n\r\n<p>gone";
    assert_eq!(std::str::from_utf8(&response.wire).unwrap(), wire);
    assert_eq!((response.status, &*response.body), (404, &b"<p>gone"[..]));
    assert_eq!((response.truncated, response.body_cut), (None, false));
    assert_eq!(response.header_values("set-cookie").count(), 2);
    assert_eq!(response.wire.len() - response.head_bytes, 7);
}

#[tokio::test]
async fn visits_to_a_host_share_its_connection_one_after_the_other() {
    let server = Http2Server::start("h2-share", |peer, _| honest(peer)).await;
    let fetcher = server.fetcher();
    for _ in 0..5 {
        assert_eq!(&*answer(&server.visit(&fetcher).await).body, b"ok");
    }
    assert_eq!((server.connections(), server.requests()), (1, 5));
    assert_eq!((fetcher.stats().reused, fetcher.stats().waiting), (4, 1));
}

#[tokio::test]
async fn http_1_1_is_spoken_where_http2_is_not_wanted() {
    let server = Http2Server::start("h2-off", |peer, _| honest(peer)).await;
    let network = NetworkSettings { tls_ca: vec![server.pem()], ..network() };
    let fetch = FetchSettings { http2: false, ..FetchSettings::default() };
    let exchange = server.visit(&fetcher_with(network, fetch)).await;
    assert_eq!(exchange.protocol, Protocol::Http11);
    assert_eq!((server.requests(), server.plain_requests()), (0, 1));
}

/// The server says farewell between two visits, closes without a word, or just rings.
#[tokio::test]
async fn a_connection_that_has_gone_away_is_replaced_before_anything_is_sent() {
    for (name, farewell, closes, connections) in [
        ("h2-goaway", frame(7, 0, 0, &GOAWAY_NONE), false, 2),
        ("h2-goaway-close", frame(7, 0, 0, &GOAWAY_NONE), true, 2),
        ("h2-close", Vec::new(), true, 2),
        // A ping, new settings: the connection is as good as before.
        ("h2-ping", [frame(6, 0, 0, &[7; 8]), frame(4, 0, 0, &[])].concat(), false, 1),
    ] {
        let said = Arc::new(tokio::sync::Notify::new());
        let saying = Arc::clone(&said);
        let server = Http2Server::start(name, move |mut peer, number| {
            let (saying, farewell) = (Arc::clone(&saying), farewell.clone());
            async move {
                if number > 0 {
                    return honest(peer).await;
                }
                let stream = peer.request().await.unwrap();
                peer.answer(stream, OK_FIELDS, b"ok").await;
                peer.raw(&farewell).await;
                if closes {
                    drop(peer);
                    saying.notify_one();
                    return;
                }
                saying.notify_one();
                honest(peer).await
            }
        })
        .await;
        let fetcher = server.fetcher();
        answer(&server.visit(&fetcher).await);
        said.notified().await;
        answer(&server.visit(&fetcher).await);
        assert_eq!((server.connections(), server.requests()), (connections, 2), "{name}");
    }
}

#[tokio::test]
async fn a_request_that_was_refused_is_not_sent_again_by_the_same_visit() {
    // GOAWAY for what was just asked; REFUSED_STREAM.
    for (name, kind, payload) in
        [("h2-away", 7, &GOAWAY_NONE[..]), ("h2-refused", 3, &[0, 0, 0, 7][..])]
    {
        let server = Http2Server::start(name, move |mut peer, _| async move {
            let stream = peer.request().await.unwrap();
            let stream = if kind == 7 { 0 } else { stream };
            peer.frame(kind, 0, stream, payload).await;
            peer.drain().await;
        })
        .await;
        let fetcher = server.fetcher();
        let exchange = server.visit(&fetcher).await;
        assert!(matches!(fault(&exchange), Fault::Reset(_)), "{name}: {:?}", exchange.end);
        assert_eq!((server.connections(), server.requests()), (1, 1), "{name}");
        assert_eq!(fetcher.stats().waiting, 0);
    }
}

/// It says so, or its HTTP/2 makes no sense.
#[tokio::test]
async fn a_host_whose_http2_fails_is_asked_in_http_1_1_the_next_time() {
    for (name, kind, payload) in [
        ("h2-required", 3, &[0, 0, 0, 13][..]),
        ("h2-unknown-stream", 0, &[][..]),
        ("h2-bad-hpack", 1, &[0xff; 8][..]),
        ("h2-bad-settings", 4, &[1, 2, 3][..]),
    ] {
        let server = Http2Server::start(name, move |mut peer, _| async move {
            let stream = peer.request().await.unwrap();
            let to = match kind {
                0 => stream + 2,
                4 => 0,
                _ => stream,
            };
            peer.frame(kind, 4, to, payload).await;
            peer.drain().await;
        })
        .await;
        let fetcher = server.fetcher();
        let exchange = server.visit(&fetcher).await;
        assert!(matches!(fault(&exchange), Fault::Reset(_) | Fault::BadHttp(_)), "{name}");
        let exchange = server.visit(&fetcher).await;
        assert_eq!((exchange.protocol, answer(&exchange).status), (Protocol::Http11, 200));
        assert_eq!((server.requests(), server.plain_requests()), (1, 1), "{name}");
    }
}

#[tokio::test]
async fn a_misdirected_request_is_an_answer_that_ends_the_connection() {
    let server = Http2Server::start("h2-421", |mut peer, _| async move {
        let stream = peer.request().await.unwrap();
        peer.answer(stream, &head("421", &[]), b"not here").await;
        assert_eq!(peer.request().await, None, "nothing more is asked here");
    })
    .await;
    let fetcher = server.fetcher();
    assert_eq!(answer(&server.visit(&fetcher).await).status, 421);
    assert_eq!(fetcher.stats().waiting, 0);
    let exchange = server.visit(&fetcher).await;
    assert_eq!((exchange.protocol, answer(&exchange).status), (Protocol::Http11, 200));
}

#[tokio::test]
async fn a_dropped_visit_closes_its_connection() {
    let gone = Arc::new(AtomicUsize::new(0));
    let (asked, left) =
        (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let server = Http2Server::start("h2-dropped", {
        let (gone, asked, left) = (Arc::clone(&gone), Arc::clone(&asked), Arc::clone(&left));
        move |mut peer, _| {
            let (gone, asked, left) = (Arc::clone(&gone), Arc::clone(&asked), Arc::clone(&left));
            async move {
                let stream = peer.request().await.unwrap();
                peer.frame(1, 4, stream, OK_FIELDS).await;
                asked.notify_one();
                peer.drain().await;
                gone.fetch_add(1, Ordering::SeqCst);
                left.notify_one();
            }
        }
    })
    .await;
    let fetcher = server.fetcher();
    tokio::select! {
        biased;
        exchange = server.visit(&fetcher) => panic!("{:?}", exchange.end),
        () = asked.notified() => {}
    }
    left.notified().await;
    assert_eq!((gone.load(Ordering::SeqCst), fetcher.stats().held_bytes), (1, 0));
}
