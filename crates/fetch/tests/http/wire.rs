//! What the record holds is what the wire held.

use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use lycosa_fetch::{FetchSettings, HttpFetcher, NetworkSettings};
use ports::{Exchange, Protocol, Purpose};
use types::Validators;

use crate::support::*;

/// The server's bytes, the part of them that is the answer, and what is read of its body.
async fn check(fetcher: &HttpFetcher, sent: &[u8], want_wire: &[u8], want_body: &[u8]) -> Exchange {
    let server = Server::once(sent).await;
    let exchange = server.visit(fetcher, "/").await;
    let response = answer(&exchange);
    assert_eq!(text(&response.wire), text(want_wire));
    assert_eq!(text(&response.body), text(want_body));
    assert!(response.wire[..response.head_bytes].ends_with(b"\n"));
    assert_eq!((response.truncated, response.body_cut), (None, false));
    assert_eq!(server.requests().len(), 1);
    exchange
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn a_body_of_known_length() {
    let sent = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\nX-Twice: 1\r\nx-twice: 2\r\n\r\nhello";
    let exchange = check(&fetcher(), sent, sent, b"hello").await;
    let response = answer(&exchange);
    assert_eq!((response.status, exchange.protocol), (200, Protocol::Http11));
    assert_eq!(response.header("server"), Some("x"));
    assert_eq!(response.header_values("x-twice").collect::<Vec<_>>(), [b"1", b"2"]);
    assert_eq!(exchange.tls, None);
    // The body is the wire itself, not a copy of it.
    assert_eq!(response.body.as_ptr(), response.wire[response.head_bytes..].as_ptr());
}

#[tokio::test]
async fn chunks_with_extensions_and_trailers() {
    let sent = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        5;name=\"v\"\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\nX-Trailer: yes\r\n\r\n";
    check(&fetcher(), sent, sent, b"hello world").await;
}

#[tokio::test]
async fn a_body_that_ends_with_the_connection() {
    let sent = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nhello\n\nworld";
    check(&fetcher(), sent, sent, b"hello\n\nworld").await;
}

#[tokio::test]
async fn http_1_0_with_bare_line_ends() {
    let sent = b"HTTP/1.0 200 OK\nContent-Type: text/html\n\nhello";
    let exchange = check(&fetcher(), sent, sent, b"hello").await;
    assert_eq!(exchange.protocol, Protocol::Http10);
}

#[tokio::test]
async fn no_body_at_all() {
    for sent in [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        check(&fetcher(), sent.as_bytes(), sent.as_bytes(), b"").await;
    }
}

#[tokio::test]
async fn informational_answers_and_blank_lines_before_the_answer_are_no_part_of_it() {
    let sent = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n\
        \r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let want = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    check(&fetcher(), sent, want, b"ok").await;
}

#[tokio::test]
async fn what_follows_the_answer_is_no_part_of_it_and_spoils_the_connection() {
    for head in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n",
    ] {
        let fetcher = fetcher();
        let want = format!("{head}ok");
        for extra in ["!", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", &"x".repeat(100_000)]
        {
            let sent = format!("{want}{extra}");
            check(&fetcher, sent.as_bytes(), want.as_bytes(), b"ok").await;
            assert_eq!(fetcher.stats().waiting, 0, "{extra:.10}");
        }
    }
    let fetcher = fetcher();
    let want = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    check(&fetcher, format!("{want}extra").as_bytes(), want.as_bytes(), b"ok").await;
    assert_eq!(fetcher.stats().waiting, 0);
}

#[tokio::test]
async fn odd_heads_are_taken_as_browsers_take_them() {
    let sent = b"HTTP/1.1 200\r\nX-Folded: one\r\n two\r\nName : x\r\nnonsense\r\nContent-Length: 2\r\n\r\nok";
    let exchange = check(&fetcher(), sent, sent, b"ok").await;
    assert_eq!(answer(&exchange).header("x-folded"), Some("one two"));
    assert_eq!(answer(&exchange).header("name"), Some("x"));
}

#[tokio::test]
async fn compression_stays_on_the_wire_and_off_the_body() {
    let plain = "wolf spider ".repeat(10_000).into_bytes();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&plain).unwrap();
    let coded = encoder.finish().unwrap();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        coded.len()
    );
    let sent = [head.as_bytes(), &coded].concat();
    let exchange = check(&fetcher(), &sent, &sent, &plain).await;
    assert!(exchange.hold.is_some());
}

#[tokio::test]
async fn a_large_body_comes_whole_in_every_framing() {
    let plain: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let fetcher = fetcher();
    let typed = "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n";
    let sized = format!("{typed}Content-Length: {}\r\n\r\n", plain.len());
    let mut chunked = format!("{typed}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for chunk in plain.chunks(70_001) {
        chunked.extend(format!("{:X}\r\n", chunk.len()).bytes());
        chunked.extend(chunk);
        chunked.extend(b"\r\n");
    }
    chunked.extend(b"0\r\n\r\n");
    for sent in [
        [sized.as_bytes(), &plain].concat(),
        [format!("{typed}\r\n").as_bytes(), &plain].concat(),
        chunked,
    ] {
        let exchange = check(&fetcher, &sent, &sent, &plain).await;
        assert!(fetcher.stats().held_bytes >= answer(&exchange).wire.len());
        drop(exchange);
        assert_eq!(fetcher.stats().held_bytes, 0);
    }
}

#[tokio::test]
async fn bytes_that_come_one_by_one_are_recorded_all_the_same() {
    let sent = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        5\r\nhello\r\n0\r\n\r\n";
    let server = Server::start(move |mut peer, _| async move {
        peer.stream.set_nodelay(true).unwrap();
        peer.request().await;
        for byte in sent.as_bytes() {
            peer.send(&[*byte]).await;
            tokio::task::yield_now().await;
        }
        peer.closed().await;
    })
    .await;
    let exchange = server.visit(&fetcher(), "/").await;
    let response = answer(&exchange);
    assert_eq!(text(&response.wire), sent.split_once("\r\n\r\n").unwrap().1);
    assert_eq!(&*response.body, b"hello");
}

#[tokio::test]
async fn the_request_is_recorded_as_the_server_saw_it() {
    let server = Server::always("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let fetch = FetchSettings {
        headers: [("X-From".to_owned(), "me".to_owned())].into(),
        ..FetchSettings::default()
    };
    let fetcher = fetcher_with(network(), fetch);
    let mut request = page(server.url("/a%20b?q=1"));
    request.validators = Validators {
        etag: Some("\"abc\"".into()),
        last_modified: Some("Sun, 15 Nov 2026 20:20:00 GMT".into()),
    };
    let exchange = visit(&fetcher, request).await;
    let port = server.address.port();
    let want = format!(
        "GET /a%20b?q=1 HTTP/1.1\r\nHost: a.test:{port}\r\nUser-Agent: lycosa-test\r\n\
         Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
         Accept-Encoding: gzip, deflate, br, zstd\r\nX-From: me\r\n\
         If-None-Match: \"abc\"\r\nIf-Modified-Since: Sun, 15 Nov 2026 20:20:00 GMT\r\n\r\n"
    );
    assert_eq!(text(&exchange.request), want);
    assert_eq!(server.requests(), [want]);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let sent =
        "HTTP/1.1 301 Moved\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n";
    let exchange = check(&fetcher(), sent.as_bytes(), sent.as_bytes(), b"").await;
    assert_eq!(answer(&exchange).status, 301);
    assert_eq!(answer(&exchange).header("location"), Some("http://169.254.169.254/"));
}

#[tokio::test]
async fn robots_txt_has_a_limit_of_its_own() {
    let body = "Disallow: /\n".repeat(100_000);
    let server = Server::once(format!("HTTP/1.1 200 OK\r\n\r\n{body}")).await;
    let request = ports::Request { purpose: Purpose::Robots, ..page(server.url("/robots.txt")) };
    let exchange = visit(&fetcher(), request).await;
    let response = answer(&exchange);
    assert_eq!(response.body.len(), (500 << 10) + 1, "by which the reader sees that there is more");
    assert_eq!((response.truncated, response.body_cut), (None, true));
    assert!(server.requests()[0].contains("Accept: text/plain"));
}

/// Answers that were damaged in every way: whatever comes of them, the record is a part of what
/// was sent, and nothing breaks or hangs.
#[tokio::test]
async fn a_damaged_answer_is_recorded_as_it_came_or_is_none() {
    let whole: [&[u8]; 4] = [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 11\r\n\r\nhello world",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n6\r\n world\r\n0\r\nA: b\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 Not Found\nServer: x\n\nhello world",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\0\x03+\xcf\xcfI\x03\0\0\0\0\0",
    ];
    let mut state = 7u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let fetcher = fetcher();
    let (mut answered, mut broken) = (0, 0);
    for round in 0..600 {
        let mut sent = whole[round % whole.len()].to_vec();
        for _ in 0..1 + random(4) {
            let at = random(sent.len());
            match random(4) {
                0 => sent[at] = random(256) as u8,
                1 if sent.len() > 1 => drop(sent.remove(at)),
                2 => sent.insert(at, b"\r\n :;0f\xff"[random(8)]),
                _ => sent.truncate(at + 1),
            }
        }
        let exchange = Server::once(&*sent).await.visit(&fetcher, "/").await;
        match &exchange.response {
            None => broken += 1,
            Some(response) => {
                answered += 1;
                let wire = &*response.wire;
                assert!(sent.windows(wire.len()).any(|part| part == wire), "{}", text(&sent));
                assert!(wire.starts_with(b"HTTP/1."), "{}", text(wire));
                assert!(response.head_bytes <= wire.len());
            }
        }
        drop(exchange);
        assert_eq!(fetcher.stats().held_bytes, 0);
    }
    assert!(answered > 100 && broken > 100, "{answered} {broken}");
}

#[tokio::test]
async fn connections_leave_from_the_address_that_was_set() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let book = Arc::clone(&seen);
    let server = Server::start(move |mut peer, _| {
        book.lock().unwrap().push(peer.stream.peer_addr().unwrap().ip());
        async move {
            peer.request().await;
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx").await;
        }
    })
    .await;
    let ours: std::net::IpAddr = [127, 0, 0, 9].into();
    let set = |source: &str| NetworkSettings {
        source_address: vec![source.parse().unwrap()],
        ..network()
    };
    let exchange =
        server.visit(&fetcher_with(set("127.0.0.9"), FetchSettings::default()), "/").await;
    assert_eq!(answer(&exchange).status, 200);
    assert_eq!(*seen.lock().unwrap(), [ours]);
    // An address of the other kind cannot serve.
    let exchange = server.visit(&fetcher_with(set("::1"), FetchSettings::default()), "/").await;
    assert!(fault(&exchange).to_string().contains("network.source_address"), "{exchange:?}");
}
