//! Whatever a server does over HTTP/2, it gets so much time and so many bytes.

use std::time::Duration;

use lycosa_fetch::{FetchSettings, HttpFetcher, NetworkSettings};
use tokio::time::{Instant, sleep};
use types::outcome::Truncated;
use types::{ByteRate, ByteSize, Fault, HumanDuration};

use super::peer::*;
use crate::support::*;

/// Long enough for an honest answer on a busy machine.
const MS_500: HumanDuration = HumanDuration::from_millis(500);
/// Nothing here takes longer, however busy the machine is.
const LONG: Duration = Duration::from_secs(15);

fn fetcher(
    server: &Http2Server,
    change: impl FnOnce(&mut NetworkSettings, &mut FetchSettings),
) -> HttpFetcher {
    let mut network = NetworkSettings { tls_ca: vec![server.pem()], ..network() };
    let mut fetch = FetchSettings::default();
    change(&mut network, &mut fetch);
    fetcher_with(network, fetch)
}

#[tokio::test]
async fn an_answer_that_does_not_come_whatever_else_does() {
    // Silence; pings without end; informational answers without end, slowly.
    for (name, noise) in [
        ("h2-mute", None),
        ("h2-pings", Some(frame(6, 0, 0, &[7; 8]))),
        ("h2-1xx-drip", Some(frame(HEADERS, END_HEADERS, 1, &head("103", &[])))),
        ("h2-settings-drip", Some(frame(SETTINGS, 0, 0, &[]))),
    ] {
        let server = Http2Server::start(name, move |mut peer, _| {
            let noise = noise.clone();
            async move {
                peer.request().await;
                let Some(noise) = noise else { return peer.drain().await };
                while peer.raw(&noise).await {
                    sleep(Duration::from_millis(10)).await;
                }
            }
        })
        .await;
        let fetcher = fetcher(&server, |network, _| network.timeout_first_byte = MS_500);
        let started = Instant::now();
        let exchange = server.visit(&fetcher).await;
        assert_eq!(*fault(&exchange), Fault::Timeout("first byte".into()), "{name}");
        assert!((MS_500.get()..LONG).contains(&started.elapsed()), "{name}");
        assert!(exchange.times.sent.is_some() && exchange.times.first_byte.is_none());
    }
}

#[tokio::test]
async fn floods_before_the_answer_are_cut_off() {
    // Within the bytes, beyond the number.
    let many: Vec<(&str, &str)> = vec![("x-a", "b"); 150];
    for (name, flood) in [
        ("h2-1xx-flood", frame(HEADERS, END_HEADERS, 1, &head("103", &[("x-a", "b")])).repeat(500)),
        ("h2-large-head", {
            // One head in many frames.
            let block = head("200", &[("x-a", &*"b".repeat(10_000)); 10]);
            let mut parts = block.chunks(16_000);
            let mut frames = frame(HEADERS, 0, 1, parts.next().unwrap());
            for part in parts {
                frames.extend(frame(9, 0, 1, part));
            }
            frames.extend(frame(9, END_HEADERS, 1, &[]));
            frames
        }),
        ("h2-many-fields", frame(HEADERS, END_HEADERS, 1, &head("200", &many))),
        ("h2-continuations", {
            let mut frames = frame(HEADERS, 0, 1, OK_FIELDS);
            frames.extend(frame(9, 0, 1, &[]).repeat(5_000));
            frames
        }),
    ] {
        let server = Http2Server::start(name, move |mut peer, _| {
            let flood = flood.clone();
            async move {
                peer.request().await;
                while peer.raw(&flood).await {
                    if flood[3] == HEADERS && flood[4] == 0 {
                        // More of one head is not another head.
                        return peer.drain().await;
                    }
                }
            }
        })
        .await;
        let fetcher = fetcher(&server, |_, fetch| fetch.header_bytes_max = ByteSize::kib(16));
        let started = Instant::now();
        let exchange = server.visit(&fetcher).await;
        let kind = fault(&exchange);
        assert!(matches!(kind, Fault::BadHttp(_) | Fault::Reset(_)), "{name}: {kind:?}");
        assert!(started.elapsed() < LONG, "{name}");
        assert_eq!(fetcher.stats().held_bytes, 0, "{name}");
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_cut_at_the_byte() {
    let server = Http2Server::start("h2-endless", |mut peer, _| async move {
        let stream = peer.request().await.unwrap();
        peer.frame(HEADERS, END_HEADERS, stream, OK_FIELDS).await;
        while peer.frame(DATA, 0, stream, &[b'x'; 16_384]).await {}
    })
    .await;
    let fetcher = fetcher(&server, |_, fetch| {
        fetch.stored_bytes_max = ByteSize(100_000);
        fetch.html_bytes_max = ByteSize(10_000);
    });
    let exchange = server.visit(&fetcher).await;
    let response = answer(&exchange);
    assert_eq!(response.truncated, Some(Truncated::Length));
    assert_eq!(response.wire.len() - response.head_bytes, 100_000);
    assert_eq!((response.body.len(), response.body_cut), (10_000, true));
    assert!(fetcher.stats().held_bytes <= 256 << 10, "{}", fetcher.stats().held_bytes);
    assert_eq!(fetcher.stats().waiting, 0);
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_whole() {
    let server = Http2Server::start("h2-exact", |mut peer, _| async move {
        let stream = peer.request().await.unwrap();
        peer.frame(HEADERS, END_HEADERS, stream, OK_FIELDS).await;
        for _ in 0..100 {
            peer.frame(DATA, 0, stream, &[b'x'; 1000]).await;
        }
        peer.frame(DATA, END_STREAM, stream, &[]).await;
        peer.drain().await;
    })
    .await;
    let fetcher = fetcher(&server, |_, fetch| fetch.stored_bytes_max = ByteSize(100_000));
    let exchange = server.visit(&fetcher).await;
    assert_eq!(answer(&exchange).truncated, None);
    assert_eq!(answer(&exchange).wire.len() - answer(&exchange).head_bytes, 100_000);
}

#[tokio::test]
async fn a_large_body_comes_whole_in_frames_of_every_size() {
    for (name, size) in [("h2-large", 16_384), ("h2-small", 100)] {
        let server = Http2Server::start(name, move |mut peer, _| async move {
            let stream = peer.request().await.unwrap();
            peer.frame(HEADERS, END_HEADERS, stream, OK_FIELDS).await;
            let frames = frame(DATA, 0, stream, &vec![b'x'; size]);
            let many = 800_000 / size;
            peer.raw(&frames.repeat(many)).await;
            peer.frame(DATA, END_STREAM, stream, b"end").await;
            peer.drain().await;
        })
        .await;
        let fetcher = fetcher(&server, |_, _| ());
        let exchange = server.visit(&fetcher).await;
        let response = answer(&exchange);
        assert_eq!(response.truncated, None, "{name}");
        assert_eq!(response.body.len(), 800_000 / size * size + 3, "{name}");
        assert!(response.body.ends_with(b"xend"));
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_kept_and_marked() {
    let length = head("200", &[("content-length", "100")]);
    for (name, fields, last, why) in [
        ("h2-reset", &*length, Some((RST_STREAM, 0, &[0, 0, 0, 2][..])), Truncated::Disconnect),
        ("h2-goaway", &*length, Some((7, 0, &[0, 0, 0, 0, 0, 0, 0, 2][..])), Truncated::Disconnect),
        ("h2-closed", &*length, None, Truncated::Disconnect),
        ("h2-short", &*length, Some((DATA, END_STREAM, &[][..])), Truncated::Unspecified),
    ] {
        let fields = fields.to_vec();
        let server = Http2Server::start(name, move |mut peer, _| {
            let fields = fields.clone();
            async move {
                let stream = peer.request().await.unwrap();
                peer.frame(HEADERS, END_HEADERS, stream, &fields).await;
                peer.frame(DATA, 0, stream, b"half").await;
                let Some((kind, flags, payload)) = last else { return };
                let to = if kind == 7 { 0 } else { stream };
                peer.frame(kind, flags, to, payload).await;
                peer.drain().await;
            }
        })
        .await;
        let exchange = server.visit(&fetcher(&server, |_, _| ())).await;
        let response = answer(&exchange);
        assert_eq!((&*response.body, response.truncated), (&b"half"[..], Some(why)), "{name}");
        assert!(response.body_cut);
    }
}

#[tokio::test]
async fn a_length_that_is_too_short_ends_the_body_there() {
    let server = Http2Server::start("h2-long", |mut peer, _| async move {
        let stream = peer.request().await.unwrap();
        let fields = head("200", &[("content-length", "4")]);
        peer.frame(HEADERS, END_HEADERS, stream, &fields).await;
        peer.frame(DATA, END_STREAM, stream, b"more than four").await;
        peer.drain().await;
    })
    .await;
    let exchange = server.visit(&fetcher(&server, |_, _| ())).await;
    // Malformed (RFC 9113, 8.1.1): browsers show an error.
    assert_eq!(answer(&exchange).truncated, Some(Truncated::Unspecified));
}

#[tokio::test]
async fn silence_and_drips_in_a_body_are_cut_off() {
    for (name, drop) in [
        ("h2-silent-body", None),
        ("h2-drip", Some(frame(DATA, 0, 1, b"x"))),
        ("h2-empty-frames", Some(frame(DATA, 0, 1, b"").repeat(10))),
        ("h2-body-pings", Some(frame(6, 0, 0, &[7; 8]))),
    ] {
        let server = Http2Server::start(name, move |mut peer, _| {
            let drop = drop.clone();
            async move {
                let stream = peer.request().await.unwrap();
                peer.frame(HEADERS, END_HEADERS, stream, OK_FIELDS).await;
                peer.frame(DATA, 0, stream, b"some").await;
                let Some(drop) = drop else { return peer.drain().await };
                while peer.raw(&drop).await {
                    sleep(Duration::from_millis(10)).await;
                }
            }
        })
        .await;
        let fetcher = fetcher(&server, |network, _| {
            network.timeout_idle = MS_500;
            network.rate_min = ByteRate(1_000_000);
            network.rate_window = MS_500;
        });
        let started = Instant::now();
        let exchange = server.visit(&fetcher).await;
        let response = answer(&exchange);
        let cut = matches!(response.truncated, Some(Truncated::Time | Truncated::Unspecified));
        assert!(cut && response.body.starts_with(b"some"), "{name}: {:?}", response.truncated);
        assert!(started.elapsed() < LONG, "{name}");
    }
}

#[tokio::test]
async fn frames_without_a_byte_do_not_go_on_for_ever() {
    for (name, flood) in [
        ("h2-empty-flood", frame(DATA, 0, 1, b"").repeat(1000)),
        ("h2-ping-flood", frame(6, 0, 0, &[7; 8]).repeat(1000)),
        ("h2-window-flood", frame(8, 0, 1, &[0, 0, 0, 1]).repeat(1000)),
    ] {
        let server = Http2Server::start(name, move |mut peer, _| {
            let flood = flood.clone();
            async move {
                let stream = peer.request().await.unwrap();
                peer.frame(HEADERS, END_HEADERS, stream, OK_FIELDS).await;
                while peer.raw(&flood).await {}
            }
        })
        .await;
        let fetcher = fetcher(&server, |network, _| network.timeout_total = MS_500);
        let started = Instant::now();
        let exchange = server.visit(&fetcher).await;
        assert!(answer(&exchange).truncated.is_some(), "{name}");
        assert!(started.elapsed() < LONG, "{name}");
        assert!(fetcher.stats().held_bytes <= 64 << 10, "{name}");
    }
}

#[tokio::test]
async fn a_promise_of_more_was_declined_and_breaks_the_connection() {
    let server = Http2Server::start("h2-push", |mut peer, _| async move {
        let stream = peer.request().await.unwrap();
        let mut promise = 2_u32.to_be_bytes().to_vec();
        promise.extend([0x82, 0x87, 0x84, 0x41, 0x01, b'a']);
        peer.frame(5, 4, stream, &promise).await;
        peer.answer(stream, OK_FIELDS, b"ok").await;
        peer.drain().await;
    })
    .await;
    let exchange = server.visit(&fetcher(&server, |_, _| ())).await;
    assert!(matches!(fault(&exchange), Fault::BadHttp(_)), "{:?}", exchange.end);
}

#[tokio::test]
async fn memory_that_is_not_there_is_not_read_into() {
    let server = Http2Server::start("h2-memory", |mut peer, _| async move {
        let stream = peer.request().await.unwrap();
        peer.frame(HEADERS, END_HEADERS, stream, OK_FIELDS).await;
        for _ in 0..20 {
            peer.frame(DATA, 0, stream, &[b'x'; 16_384]).await;
        }
        peer.frame(DATA, END_STREAM, stream, &[]).await;
        peer.drain().await;
    })
    .await;
    let fetcher = fetcher(&server, |_, fetch| fetch.memory_max = ByteSize::kib(80));
    let exchange = server.visit(&fetcher).await;
    // What there is no memory for lies on the disk.
    assert_eq!(answer(&exchange).truncated, None);
    assert!(answer(&exchange).wire.len() <= 80 << 10);
    assert_eq!(answer(&exchange).body_wire_bytes(), 20 * 16_384);
    assert!(fetcher.stats().held_bytes <= 80 << 10);
}
