//! Sloppy and hostile servers, one behaviour a test.
//!
//! A line says what the server does and what must come of it: what is stored, or which fault it
//! is. [`check`] holds for all of them: the server is asked once, the visit ends in time, memory
//! stays within its bound while the answer is held and is given back with it, and a connection
//! whose state is in doubt does not wait for another visit.
//!
//! What a browser would show, we store. Not here: what `wire`, `limits`, `reuse`, `tls` and
//! `http2` have shown already.

use std::future::pending;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use lycosa_fetch::{FetchSettings, HttpFetcher, NetworkSettings};
use tokio::time::{Instant, sleep};
use types::outcome::Truncated;
use types::{ByteRate, ByteSize, HumanDuration};

use crate::support::*;

/// Long enough for an honest answer on a busy machine.
const LIMIT: HumanDuration = HumanDuration::from_secs(2);
const LIMIT_TOTAL: HumanDuration = HumanDuration::from_secs(4);
/// No visit takes longer, however busy the machine is: the limits are seconds.
const ELAPSED_MAX: Duration = Duration::from_secs(30);
/// A body is stored up to this; what is held may be twice that, for its decoded copy.
const STORED_BYTES_MAX: usize = 1 << 20;
const HELD_BYTES_MAX: usize = 3 * STORED_BYTES_MAX;

/// What a server does after it has read a request.
enum Behaviour {
    /// Says this and closes.
    Says(Vec<u8>),
    /// Says this and then nothing.
    Stays(Vec<u8>),
    /// Says this and tears the connection down.
    Tears(Vec<u8>),
    /// Says the first once and the second without end, as fast as it can.
    Floods(Vec<u8>, Vec<u8>),
    /// The same, a piece every ten milliseconds.
    Drips(Vec<u8>, Vec<u8>),
    /// Says this before it reads anything, and closes when it has read the request.
    Hurries(Vec<u8>),
    /// Tears the connection down before it reads anything.
    Rejects,
}

/// What must come of it.
enum Want {
    /// An answer with this status and body, and why it is not the whole.
    Stored(u16, Vec<u8>, Option<Truncated>),
    /// The same, with a body that begins so and is cut.
    Cut(u16, Vec<u8>),
    /// An answer whose stored bytes end so, whatever can be read of it.
    Begins(u16, Vec<u8>, Option<Truncated>),
    /// No answer; one of `Fault::NAMES`.
    Fault(&'static str),
}

use Behaviour::{Drips, Floods, Hurries, Rejects, Says, Stays, Tears};
use Want::{Begins, Cut, Fault, Stored};

fn impatient() -> HttpFetcher {
    let network = NetworkSettings {
        timeout_first_byte: LIMIT,
        timeout_idle: LIMIT,
        timeout_total: LIMIT_TOTAL,
        timeout_total_large: LIMIT_TOTAL,
        rate_min: ByteRate(1 << 10),
        rate_window: LIMIT,
        ..network()
    };
    let fetch = FetchSettings {
        stored_bytes_max: ByteSize(STORED_BYTES_MAX as u64),
        html_bytes_max: ByteSize(STORED_BYTES_MAX as u64),
        header_bytes_max: ByteSize::kib(32),
        ..FetchSettings::default()
    };
    fetcher_with(network, fetch)
}

async fn serve(behaviour: Behaviour) -> Server {
    let behaviour = Arc::new(behaviour);
    Server::start(move |peer, _| play(peer, Arc::clone(&behaviour))).await
}

async fn play(mut peer: Peer, behaviour: Arc<Behaviour>) {
    if let Rejects = &*behaviour {
        peer.stream.set_zero_linger().unwrap();
        return;
    }
    if let Hurries(bytes) = &*behaviour {
        peer.send(bytes).await;
    }
    peer.request().await;
    match &*behaviour {
        Says(bytes) => {
            peer.send(bytes).await;
        }
        Stays(bytes) => {
            peer.send(bytes).await;
            pending().await
        }
        Tears(bytes) => {
            peer.send(bytes).await;
            // Linux lets the other side read what came before a reset.
            peer.stream.set_zero_linger().unwrap();
        }
        Floods(first, more) => {
            let mut going = peer.send(first).await;
            while going {
                going = peer.send(more).await;
            }
        }
        Drips(first, more) => {
            let mut going = peer.send(first).await;
            while going {
                sleep(Duration::from_millis(10)).await;
                going = peer.send(more).await;
            }
        }
        Hurries(_) | Rejects => {}
    }
}

async fn check(behaviour: Behaviour, want: Want) {
    let server = serve(behaviour).await;
    let fetcher = impatient();
    let started = Instant::now();
    let exchange = server.visit(&fetcher, "/").await;
    let elapsed = started.elapsed();
    assert!(elapsed < ELAPSED_MAX, "it took {elapsed:?}");
    assert!(server.connections() <= 1 && server.requests().len() <= 1, "asked more than once");
    let held = fetcher.stats().held_bytes;
    assert!(held <= HELD_BYTES_MAX, "{held} bytes are held");
    match want {
        Fault(name) => assert_eq!(fault(&exchange).name(), name, "{:?}", exchange.end),
        Stored(status, body, truncated) => {
            let response = answer(&exchange);
            assert_eq!((response.status, response.truncated), (status, truncated));
            assert_eq!(text(&response.body), text(&body));
        }
        Cut(status, start) => {
            let response = answer(&exchange);
            assert_eq!((response.status, response.truncated), (status, None));
            let begins = response.body.starts_with(&start);
            assert!(begins && response.body_cut, "{:.60}", text(&response.body));
        }
        Begins(status, start, truncated) => {
            let response = answer(&exchange);
            assert_eq!((response.status, response.truncated), (status, truncated));
            assert!(response.body.starts_with(&start), "{:.60}", text(&response.body));
            assert!(response.wire.len() - response.head_bytes <= STORED_BYTES_MAX);
        }
    }
    if let Some(response) = &exchange.response
        && response.truncated.is_some()
    {
        assert_eq!(fetcher.stats().waiting, 0, "a connection in doubt waits for another visit");
    }
    drop(exchange);
    assert_eq!(fetcher.stats().held_bytes, 0, "memory is not given back");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ok(fields: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    [format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes(), body.as_ref()].concat()
}

fn sized(fields: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    ok(&format!("{fields}Content-Length: {}\r\n", body.len()), body)
}

fn chunked(body: impl AsRef<[u8]>) -> Vec<u8> {
    ok("Transfer-Encoding: chunked\r\n", body)
}

fn whole(body: impl AsRef<[u8]>) -> Want {
    Stored(200, body.as_ref().to_vec(), None)
}

fn broken(body: &str, why: Truncated) -> Want {
    Stored(200, body.into(), Some(why))
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn deflate(plain: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn coded(name: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    sized(&format!("Content-Encoding: {name}\r\n"), body)
}

macro_rules! behaviours {
    ($($name:ident: $server:expr => $want:expr;)+) => {
        $(
            #[tokio::test]
            async fn $name() {
                check($server, $want).await;
            }
        )+
    };
}

// The status line.
behaviours! {
    a_status_line_that_ends_in_a_space:
        Says(b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok".to_vec()) => whole("ok");
    a_reason_in_another_alphabet:
        Says("HTTP/1.1 200 Всё хорошо\r\nContent-Length: 2\r\n\r\nok".into()) => whole("ok");
    a_reason_of_a_thousand_words:
        Says(format!("HTTP/1.1 200 {}\r\n\r\nok", "word ".repeat(1000)).into()) => whole("ok");
    a_status_that_nobody_knows:
        Says(b"HTTP/1.1 999 Denied\r\nContent-Length: 2\r\n\r\nno".to_vec())
            => Stored(999, b"no".to_vec(), None);
    a_status_of_four_digits:
        Says(b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()) => Fault("bad-http");
    a_status_that_is_no_number:
        Says(b"HTTP/1.1 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()) => Fault("bad-http");
    a_page_without_any_head:
        Says(b"<!doctype html><title>0.9</title>".to_vec()) => Fault("bad-http");
    an_http_1_0_answer_that_keeps_the_connection:
        Says(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok".to_vec())
            => whole("ok");
    a_binary_protocol:
        Says(vec![0, 0, 0, 0x18, 4, 0, 0, 0, 0, 0]) => Fault("bad-http");
    a_tls_alert_in_plain_text:
        Says(vec![0x15, 3, 1, 0, 2, 2, 70]) => Fault("bad-http");
}

// The fields.
behaviours! {
    bare_line_feeds_in_http_1_1:
        Says(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok".to_vec()) => whole("ok");
    line_ends_of_both_kinds:
        Says(b"HTTP/1.1 200 OK\r\nA: b\nContent-Length: 2\r\n\nok".to_vec()) => whole("ok");
    a_field_without_a_name:
        Says(ok(": empty\r\nContent-Length: 2\r\n", "ok")) => whole("ok");
    a_field_name_with_a_space_in_it:
        Says(ok("X A: b\r\nContent-Length: 2\r\n", "ok")) => whole("ok");
    a_field_value_with_raw_bytes: Says({
        let mut head = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
        head.extend([0xe4, 0xf6, 0xfc, 0xff]);
        head.extend(b"\r\nContent-Length: 2\r\n\r\nok");
        head
    }) => whole("ok");
    // The Fetch standard makes this an error, and so do browsers.
    a_field_value_with_a_nul:
        Says(ok("X: a\0b\r\nContent-Length: 2\r\n", "ok")) => Fault("bad-http");
    the_same_length_twice:
        Says(ok("Content-Length: 2\r\nContent-Length: 2\r\n", "ok")) => whole("ok");
    the_same_length_twice_in_one_field:
        Says(ok("Content-Length: 2, 2\r\n", "ok")) => whole("ok");
    a_length_that_is_no_number:
        Says(ok("Content-Length: two\r\n", "ok")) => whole("ok");
    a_length_below_zero:
        Says(ok("Content-Length: -1\r\n", "ok")) => whole("ok");
    an_empty_length:
        Says(ok("Content-Length:\r\n", "ok")) => whole("ok");
    a_length_beyond_all_numbers:
        Says(ok("Content-Length: 99999999999999999999999\r\n", "ok")) => whole("ok");
    a_length_of_all_the_bytes_in_the_world:
        Says(ok("Content-Length: 9223372036854775807\r\n", "ok"))
            => broken("ok", Truncated::Disconnect);
    a_length_beside_chunks:
        Says(ok("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "2\r\nok\r\n0\r\n\r\n"))
            => whole("ok");
    an_answer_without_a_body_that_has_one:
        Says(b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok".to_vec())
            => Stored(204, Vec::new(), None);
    ninety_cookies:
        Says(sized(&"Set-Cookie: a=b\r\n".repeat(90), "ok")) => whole("ok");
    a_field_name_of_thirty_kilobytes:
        Says(sized(&format!("{}: x\r\n", "x".repeat(30_000)), "ok")) => whole("ok");
    a_field_name_beyond_the_limit:
        Says(sized(&format!("{}: x\r\n", "x".repeat(100_000)), "ok")) => Fault("bad-http");
    a_field_that_is_folded_without_end:
        Floods(b"HTTP/1.1 200 OK\r\nX: y".to_vec(), b"\r\n more".repeat(100)) => Fault("bad-http");
    a_head_that_drips:
        Drips(b"HTTP/1.1 200 OK\r\nX: ".to_vec(), b"y".to_vec()) => Fault("timeout");
    a_promise_to_go_on_and_then_nothing:
        Stays(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()) => Fault("timeout");
    informational_answers_that_drip:
        Drips(Vec::new(), b"HTTP/1.1 103 Early Hints\r\n\r\n".to_vec()) => Fault("timeout");
}

// Chunks.
behaviours! {
    chunk_sizes_with_zeros_and_capitals:
        Says(chunked("0002\r\nok\r\n00A\r\n0123456789\r\n000\r\n\r\n")) => whole("ok0123456789");
    chunk_sizes_with_spaces:
        Says(chunked("2  \r\nok\r\n0 \r\n\r\n")) => whole("ok");
    a_coding_in_capitals:
        Says(ok("Transfer-Encoding: Chunked\r\n", "2\r\nok\r\n0\r\n\r\n")) => whole("ok");
    chunks_with_bare_line_feeds:
        Says(chunked("2\nok\n0\n\n")) => broken("ok", Truncated::Unspecified);
    a_chunk_size_that_is_no_number:
        Says(chunked("2\r\nok\r\nxyz\r\n")) => broken("ok", Truncated::Unspecified);
    a_chunk_size_below_zero:
        Says(chunked("2\r\nok\r\n-1\r\n")) => broken("ok", Truncated::Unspecified);
    a_chunk_size_beyond_all_numbers:
        Says(chunked("2\r\nok\r\nFFFFFFFFFFFFFFFFF\r\nmore"))
            => broken("ok", Truncated::Unspecified);
    a_chunk_longer_than_its_size:
        Says(chunked("2\r\nokay\r\n0\r\n\r\n")) => broken("ok", Truncated::Unspecified);
    a_last_chunk_without_its_empty_line:
        Says(chunked("2\r\nok\r\n0\r\n")) => broken("ok", Truncated::Disconnect);
    a_chunk_size_that_never_ends:
        Floods(chunked("2\r\nok\r\n"), b"0".repeat(1000))
            => Begins(200, b"ok".to_vec(), Some(Truncated::Length));
    an_extension_that_never_ends:
        Floods(chunked("2\r\nok\r\n1;"), b"x".repeat(1000))
            => Begins(200, b"ok".to_vec(), Some(Truncated::Unspecified));
    trailers_that_never_end:
        Floods(chunked("2\r\nok\r\n0\r\n"), b"X: y\r\n".repeat(100))
            => Begins(200, b"ok".to_vec(), Some(Truncated::Unspecified));
    chunks_that_never_end:
        Floods(chunked(""), format!("400\r\n{}\r\n", "x".repeat(1024)).into())
            => Begins(200, b"xxx".to_vec(), Some(Truncated::Length));
    chunks_of_one_byte_that_never_end:
        Floods(chunked(""), b"1\r\nx\r\n".repeat(1000))
            => Begins(200, b"xxx".to_vec(), Some(Truncated::Length));
    chunks_of_one_byte_that_drip:
        Drips(chunked(""), b"1\r\nx\r\n".to_vec())
            => Begins(200, b"x".to_vec(), Some(Truncated::Time));
    a_chunk_that_never_comes:
        Stays(chunked("2\r\nok\r\n5\r\n")) => broken("ok", Truncated::Time);
    trailers_that_never_come:
        Stays(chunked("2\r\nok\r\n0\r\n")) => broken("ok", Truncated::Time);
    a_transfer_coding_that_was_not_asked_for:
        Says(ok("Transfer-Encoding: identity\r\n", "ok")) => whole("ok");
}

// The connection.
behaviours! {
    a_reset_before_the_request_is_read: Rejects => Fault("reset");
    a_reset_in_the_status_line: Tears(b"HTTP/1.1 2".to_vec()) => Fault("reset");
    a_reset_in_the_fields: Tears(b"HTTP/1.1 200 OK\r\nA: b\r\n".to_vec()) => Fault("reset");
    a_reset_after_the_head:
        Tears(ok("Content-Length: 9\r\n", "")) => broken("", Truncated::Disconnect);
    a_reset_in_a_body_of_known_length:
        Tears(ok("Content-Length: 9\r\n", "half")) => broken("half", Truncated::Disconnect);
    a_reset_in_a_chunk:
        Tears(chunked("9\r\nhalf")) => broken("half", Truncated::Disconnect);
    a_reset_in_a_body_of_unknown_length:
        Tears(ok("", "half")) => broken("half", Truncated::Disconnect);
    a_reset_after_a_whole_answer: Tears(sized("", "ok")) => whole("ok");
    a_close_in_the_status_line: Says(b"HTTP/1.1 20".to_vec()) => Fault("reset");
    a_close_between_informational_and_final_answer:
        Says(b"HTTP/1.1 103 Early Hints\r\n\r\n".to_vec()) => Fault("reset");
    an_answer_before_the_question: Hurries(sized("", "ok")) => whole("ok");
    a_body_of_unknown_length_that_stays_open:
        Stays(ok("Connection: close\r\n", "ok")) => broken("ok", Truncated::Time);
    a_body_that_never_ends:
        Floods(ok("", ""), b"x".repeat(10_000))
            => Begins(200, b"xxx".to_vec(), Some(Truncated::Length));
    a_body_that_drips_beyond_all_time:
        Drips(ok("", ""), b"x".repeat(100)) => Begins(200, b"x".to_vec(), Some(Truncated::Time));
    a_video_that_drips_beyond_all_time:
        Drips(ok("Content-Type: video/mp4\r\n", ""), b"x".repeat(100))
            => Begins(200, b"x".to_vec(), Some(Truncated::Time));
}

// Compression.
behaviours! {
    a_gzip_that_breaks_off:
        Says(coded("gzip", &gzip(b"wolf spider")[..15])) => Cut(200, b"wo".to_vec());
    a_gzip_with_a_wrong_sum: Says({
        let mut body = gzip(b"wolf spider");
        let sum = body.len() - 5;
        body[sum] ^= 1;
        coded("gzip", body)
    }) => Cut(200, b"wolf spider".to_vec());
    a_gzip_with_something_behind_it:
        Says(coded("gzip", [gzip(b"wolf"), b"junk".to_vec()].concat())) => whole("wolf");
    a_plain_page_that_claims_to_be_gzip: Says(coded("gzip", "<p>plain")) => whole("<p>plain");
    a_gzip_of_nothing: Says(coded("gzip", "")) => whole("");
    a_deflate_with_a_wrapper: Says(coded("deflate", zlib(b"wolf spider"))) => whole("wolf spider");
    a_deflate_without_one: Says(coded("deflate", deflate(b"wolf spider"))) => whole("wolf spider");
    a_coding_that_is_a_charset: Says(coded("utf-8", "ok")) => whole("ok");
    a_coding_inside_a_coding:
        Says(coded("deflate, gzip", gzip(&zlib(b"wolf spider")))) => whole("wolf spider");
    three_codings: Says(coded("gzip, gzip, gzip", gzip(&gzip(&gzip(b"wolf")))))
        => Cut(200, Vec::new());
    a_deflate_bomb: Says(coded("deflate", deflate(&vec![0; 64 << 20]))) => Cut(200, vec![0; 1000]);
    a_zlib_bomb: Says(coded("deflate", zlib(&vec![0; 64 << 20]))) => Cut(200, vec![0; 1000]);
    a_gzip_bomb: Says(coded("gzip", gzip(&vec![0; 64 << 20]))) => Cut(200, vec![0; 1000]);
    a_zstd_bomb:
        Says(coded("zstd", zstd::encode_all(&*vec![0; 64 << 20], 3).unwrap()))
            => Cut(200, vec![0; 1000]);
    a_brotli_bomb:
        Says(coded("br", include_bytes!("../fixtures/zeros-64mib.br"))) => Cut(200, vec![0; 1000]);
    a_bomb_in_a_bomb: Says(coded("gzip, gzip", gzip(&gzip(&vec![0; 64 << 20]))))
        => Cut(200, vec![0; 1000]);
    a_bomb_in_chunks_of_one_byte: Says({
        let bomb = gzip(&vec![0; 16 << 20]);
        let mut body = Vec::new();
        for byte in bomb {
            body.extend([b'1', b'\r', b'\n', byte, b'\r', b'\n']);
        }
        body.extend(b"0\r\n\r\n");
        ok("Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", body)
    }) => Cut(200, vec![0; 1000]);
    brotli_that_is_none: Says(coded("br", [0xff; 64])) => Cut(200, Vec::new());
    zstd_that_breaks_off: Says({
        let body = zstd::encode_all(&*b"wolf spider ".repeat(100_000), 3).unwrap();
        coded("zstd", &body[..body.len() / 2])
    }) => Cut(200, Vec::new());
    // What follows the 64th counts as garbage behind the body.
    gzip_members_without_end:
        Says(coded("gzip", gzip(b"x").repeat(1000))) => whole("x".repeat(64));
}
