//! Answers that are longer than what is held in memory: whole, exact, and at no cost to the next.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use lycosa_fetch::{FetchSettings, HttpFetcher, NetworkSettings};
use ports::{Blob, Response};
use tokio_rustls::TlsAcceptor;
use types::outcome::Truncated;
use types::{ByteSize, CrawlUrl};

use crate::support::*;
use crate::tls::Authority;

const HELD: usize = 64 << 10;
/// As large as the window through which the rest goes to the disk.
const WINDOW: usize = 256 << 10;

fn settings() -> FetchSettings {
    FetchSettings {
        held_bytes_max: ByteSize(HELD as u64),
        stored_bytes_max: ByteSize::mib(4),
        ..FetchSettings::default()
    }
}

/// Head and body as they came, wherever they lie.
fn all(response: &Response) -> Vec<u8> {
    let mut all = response.wire.to_vec();
    if let Some(rest) = &response.rest {
        let rest = Blob::Stored(Arc::clone(&rest.stored));
        rest.read(&mut |piece| {
            all.extend_from_slice(piece);
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(all.len() as u64, response.head_bytes as u64 + response.body_wire_bytes());
    all
}

fn noise(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Three ways to say where a body ends.
fn framed(body: &[u8], framing: &str) -> Vec<u8> {
    let typed = "HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\n";
    match framing {
        "length" => {
            let head = format!("{typed}Content-Length: {}\r\n\r\n", body.len());
            [head.as_bytes(), body].concat()
        }
        "chunks" => {
            let mut all = format!("{typed}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
            for chunk in body.chunks(60_001) {
                all.extend(format!("{:x}\r\n", chunk.len()).bytes());
                all.extend(chunk);
                all.extend(b"\r\n");
            }
            all.extend(b"0\r\n\r\n");
            all
        }
        _ => [format!("{typed}Connection: close\r\n\r\n").as_bytes(), body].concat(),
    }
}

fn held_max(fetcher: &HttpFetcher) -> bool {
    // Start, window, and what is decoded of the start.
    fetcher.stats().held_bytes <= 2 * HELD + (32 << 10) + WINDOW
}

#[tokio::test]
async fn an_answer_of_any_length_is_kept_to_the_byte() {
    let fetcher = fetcher_with(network(), settings());
    for framing in ["length", "chunks", "close"] {
        for bytes in [
            HELD - 200,
            HELD,
            HELD + 1,
            HELD + WINDOW - 1,
            HELD + WINDOW,
            HELD + WINDOW + 100,
            2 * WINDOW,
            3 * WINDOW + 12_345,
        ] {
            let sent = framed(&noise(bytes), framing);
            let server = match framing {
                "close" => Server::once(&*sent).await,
                _ => Server::always(&*sent).await,
            };
            // The second time over the same connection, if the first has left it clean.
            for visit in 0..2 {
                let exchange = server.visit(&fetcher, "/").await;
                let response = answer(&exchange);
                assert_eq!(response.truncated, None, "{framing}, {bytes}");
                assert!(all(response) == sent, "{framing}, {bytes}, visit {visit}");
                assert!(held_max(&fetcher), "{}", fetcher.stats().held_bytes);
                if bytes > HELD + WINDOW {
                    assert!(response.rest.is_some() && response.body_cut, "{framing}, {bytes}");
                    assert!(response.wire.len() <= 2 * HELD);
                }
            }
            let connections = if framing == "close" { 2 } else { 1 };
            assert_eq!(server.connections(), connections, "{framing}, {bytes}");
            assert_eq!(fetcher.stats().held_bytes, 0);
        }
    }
}

#[tokio::test]
async fn a_length_that_is_none_harms_no_byte_beyond_memory() {
    // hyper is given another byte for one of the head; at the same place of a window is a chunk's size.
    let body = noise(4 * WINDOW);
    let mut sent = b"HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\nContent-Length: two\r\n\
        Transfer-Encoding: chunked\r\n\r\n"
        .to_vec();
    let head = sent.len();
    let mut rest = &*body;
    while !rest.is_empty() {
        // Eight bytes on the wire, and so at any place of a window's start; a million of them would
        // be too many. Those between take a multiple of that, 1,032.
        let into_window = (sent.len() - head + 2_048 + WINDOW - HELD) % WINDOW;
        let chunk = if into_window < 8_192 { 3 } else { 1_025 };
        let chunk = rest.split_off(..chunk.min(rest.len())).unwrap();
        sent.extend(format!("{:x}\r\n", chunk.len()).bytes());
        sent.extend(chunk);
        sent.extend(b"\r\n");
    }
    sent.extend(b"0\r\n\r\n");
    let fetch = FetchSettings { stored_bytes_max: ByteSize::mib(16), ..settings() };
    let exchange = Server::once(&*sent).await.visit(&fetcher_with(network(), fetch), "/").await;
    let response = answer(&exchange);
    assert_eq!(response.truncated, None);
    assert!(all(response) == sent);
}

#[tokio::test]
async fn what_is_stored_ends_at_the_byte_where_it_must() {
    let body = noise(6 << 20);
    for (framing, limit) in [("length", 3_000_000), ("close", 3_000_000), ("chunks", WINDOW + HELD)]
    {
        let fetch = FetchSettings { stored_bytes_max: ByteSize(limit as u64), ..settings() };
        let sent = framed(&body, framing);
        let exchange = Server::once(&*sent).await.visit(&fetcher_with(network(), fetch), "/").await;
        let response = answer(&exchange);
        assert_eq!(response.truncated, Some(Truncated::Length), "{framing}");
        let kept = all(response);
        assert_eq!(kept.len() - response.head_bytes, limit, "{framing}");
        assert!(sent.starts_with(&kept), "{framing}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_kept_up_to_there() {
    let sent = framed(&noise(3 << 20), "length");
    let server = Server::once(&sent[..2_500_000]).await;
    let exchange = server.visit(&fetcher_with(network(), settings()), "/").await;
    let response = answer(&exchange);
    assert_eq!(response.truncated, Some(Truncated::Disconnect));
    assert!(all(response) == sent[..2_500_000]);
}

#[tokio::test]
async fn the_start_of_a_large_page_is_read() {
    let text = b"<p>wolf spider ".repeat(200_000);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    std::io::Write::write_all(&mut encoder, &text).unwrap();
    let coded = encoder.finish().unwrap();
    let html = 100_000;
    let fetch = FetchSettings { html_bytes_max: ByteSize(html), ..settings() };
    let fetcher = fetcher_with(network(), fetch);
    for (field, body) in [("", &text), ("Content-Encoding: gzip\r\n", &coded)] {
        let head = format!("HTTP/1.1 200 OK\r\n{field}Content-Length: {}\r\n\r\n", body.len());
        let sent = [head.as_bytes(), body].concat();
        let exchange = Server::once(&*sent).await.visit(&fetcher, "/").await;
        let response = answer(&exchange);
        assert!(response.rest.is_some() && all(response) == sent);
        // As much as may be read, or nearly: compression has a few bytes of its own.
        assert!((99_900..=100_000).contains(&response.body.len()), "{}", response.body.len());
        assert!(response.body_cut && text.starts_with(&response.body));
    }
}

#[tokio::test]
async fn where_memory_is_crowded_a_page_goes_to_the_disk_and_is_read_whole() {
    let fetch = FetchSettings { memory_max: ByteSize::mib(12), ..FetchSettings::default() };
    let fetcher = fetcher_with(network(), fetch);
    let first =
        Server::once(&*framed(&noise(3_150_000), "length")).await.visit(&fetcher, "/").await;
    assert!(answer(&first).rest.is_none(), "there was room for it");
    // More than a quarter of the memory is taken from now on.
    let text = noise(900_000);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    std::io::Write::write_all(&mut encoder, &text).unwrap();
    let coded = encoder.finish().unwrap();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        coded.len()
    );
    let coded = [head.as_bytes(), &coded].concat();
    for sent in [framed(&text, "length"), framed(&text, "chunks"), framed(&text, "close"), coded] {
        let exchange = Server::once(&*sent).await.visit(&fetcher, "/").await;
        let response = answer(&exchange);
        assert!(response.rest.is_some(), "{} bytes", sent.len());
        assert!(response.wire.len() <= 300 << 10, "{} bytes", response.wire.len());
        assert!(all(response) == sent);
        assert!(response.body == text && !response.body_cut);
    }
    assert!(fetcher.stats().held_bytes < 4 << 20, "what they took was given back");
}

#[tokio::test]
async fn a_body_that_memory_cannot_hold_lies_on_the_disk() {
    let sent = framed(&noise(1_000_000), "close");
    let server = Server::once(&*sent).await;
    let fetch = FetchSettings { memory_max: ByteSize::kib(256), ..FetchSettings::default() };
    let fetcher = fetcher_with(network(), fetch);
    let exchange = server.visit(&fetcher, "/").await;
    let response = answer(&exchange);
    assert_eq!(response.truncated, None);
    assert!(response.wire.len() <= 256 << 10 && response.rest.is_some());
    assert!(all(response) == sent);
}

/// Sends a body as fast as the client makes room.
async fn send(mut stream: h2::SendStream<Bytes>, mut data: Bytes) {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        // None, or an error: the client has gone.
        let Some(Ok(room)) = poll_fn(|cx| stream.poll_capacity(cx)).await else { return };
        let piece = data.split_to(room.min(data.len()));
        stream.send_data(piece, data.is_empty()).unwrap();
    }
}

#[tokio::test]
async fn frames_of_http2_are_kept_to_the_byte() {
    for bytes in [HELD, HELD + WINDOW, 3 * WINDOW + 777] {
        let sent = Bytes::from(noise(bytes));
        let authority = Authority::new("h2-spooled");
        let mut config = authority.server_config(&["a.test"]);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let body = sent.clone();
        let server = Server::start(move |peer, _| {
            let (acceptor, body) = (acceptor.clone(), body.clone());
            async move {
                let tls = acceptor.accept(peer.stream).await.unwrap();
                let mut connection = h2::server::handshake(tls).await.unwrap();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    let head = http::Response::builder().header("content-type", "application/zip");
                    let stream = respond.send_response(head.body(()).unwrap(), false).unwrap();
                    tokio::spawn(send(stream, body.clone()));
                }
            }
        })
        .await;
        let network = NetworkSettings { tls_ca: vec![authority.pem.clone()], ..network() };
        let fetcher = fetcher_with(network, settings());
        let url = format!("https://a.test:{}/", server.address.port());
        for _ in 0..2 {
            let exchange = visit(&fetcher, page(CrawlUrl::parse(&url).unwrap())).await;
            let response = answer(&exchange);
            assert_eq!(response.truncated, None);
            assert!(all(response)[response.head_bytes..] == sent, "{bytes}");
            assert!(held_max(&fetcher));
        }
        assert_eq!(fetcher.stats().opened, 1);
    }
}
