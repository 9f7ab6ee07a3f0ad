//! What does a page cost us? CPU time of the fetching thread alone, by the kernel's own count.
//!
//! `cargo run --release -p lycosa-fetch --example cost [PAGES [CASE]]`
//!
//! A trivial server in a thread of its own answers with a page of 20 KB; so many hosts are visited
//! at once, each over its one connection. Linux only, because of where the count comes from.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;
use lycosa_fetch::{FetchSettings, FetcherOptions, Guard, HttpFetcher, NetworkSettings};
use ports::{Clock, Fetcher, Purpose, Request};
use types::{ByteSize, CrawlUrl, Timestamp, Validators};

const HOSTS: usize = 64;

fn main() {
    let pages = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let page = page();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&page).expect("writes into memory");
    let gzip = encoder.finish().expect("writes into memory");
    let mut chunked = Vec::new();
    for chunk in page.chunks(4000) {
        chunked.extend(format!("{:x}\r\n", chunk.len()).bytes());
        chunked.extend(chunk);
        chunked.extend(b"\r\n");
    }
    chunked.extend(b"0\r\n\r\n");

    println!("{} hosts, page of {} bytes ({} as gzip)", HOSTS, page.len(), gzip.len());
    let wanted = std::env::args().nth(2);
    let cases = [
        ("plain", pages, "", &page),
        ("chunked", pages, "Transfer-Encoding: chunked\r\n", &chunked),
        ("gzip", pages, "Content-Encoding: gzip\r\n", &gzip),
        ("close", pages / 4, "Connection: close\r\n", &page),
    ];
    for (name, pages, fields, body) in cases {
        if wanted.as_deref().is_none_or(|wanted| wanted == name) {
            measure(name, pages, fields, body);
        }
    }
}

/// HTML that looks like some: a head, paragraphs, forty links.
fn page() -> Vec<u8> {
    let mut page = b"<!doctype html><title>cost</title><body>".to_vec();
    let mut state = 1u32;
    while page.len() < 20_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let words = ["wolf", "spider", "walks", "out", "and", "does", "not", "wait"];
        page.extend(words[(state >> 29) as usize].bytes());
        match state >> 24 & 63 {
            0 => page.extend(format!("</p><p><a href=\"/{state:x}\">more</a> ").bytes()),
            _ => page.push(b' '),
        }
    }
    page
}

fn measure(name: &str, pages: usize, fields: &str, body: &[u8]) {
    let length = match fields.contains("chunked") {
        true => String::new(),
        false => format!("Content-Length: {}\r\n", body.len()),
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: cost\r\nDate: Sun, 15 Nov 2026 20:20:00 GMT\r\n\
         Content-Type: text/html; charset=utf-8\r\nLast-Modified: Sun, 15 Nov 2026 20:20:00 GMT\r\n\
         ETag: \"abcdef0123456789\"\r\nCache-Control: max-age=600\r\nVary: Accept-Encoding\r\n\
         X-Frame-Options: DENY\r\nStrict-Transport-Security: max-age=31536000\r\n{fields}{length}\r\n"
    );
    let port = serve([head.as_bytes(), body].concat(), fields.contains("close"));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let fetcher = Arc::new(fetcher());
        crawl(&fetcher, port, pages / 10).await;
        let (cpu, wall) = (thread_cpu_ns(), Instant::now());
        crawl(&fetcher, port, pages).await;
        let cpu_us = (thread_cpu_ns() - cpu) as f64 / 1e3 / pages as f64;
        let rate = pages as f64 / wall.elapsed().as_secs_f64();
        println!("{name:20} {cpu_us:6.1} µs CPU a page, {rate:7.0} pages/s by the wall");
    });
}

async fn crawl(fetcher: &Arc<HttpFetcher>, port: u16, pages: usize) {
    let hosts: Vec<_> = (0..HOSTS)
        .map(|host| {
            let fetcher = Arc::clone(fetcher);
            let url = format!("http://www.host{host}.test:{port}/some/path/page.html");
            let url = CrawlUrl::parse(&url).expect("a URL");
            tokio::spawn(async move {
                for _ in 0..pages / HOSTS {
                    let request = Request {
                        url: url.clone(),
                        address: Ipv4Addr::LOCALHOST.into(),
                        purpose: Purpose::Page,
                        validators: Validators::default(),
                    };
                    let exchange = fetcher.fetch(request, &mut |_| ()).await;
                    let response = exchange.response.expect("an answer");
                    assert_eq!(response.truncated, None);
                    assert!(response.body.len() > 10_000);
                }
            })
        })
        .collect();
    for host in hosts {
        host.await.expect("no panic");
    }
}

fn fetcher() -> HttpFetcher {
    let allow = vec!["127.0.0.0/8".parse().expect("a range")];
    let network = NetworkSettings { allow, ..NetworkSettings::default() };
    let options = FetcherOptions {
        guard: Arc::new(Guard::new(&network, false)),
        network,
        fetch: FetchSettings::default(),
        who: lycosa_fetch::Introduction {
            user_agent: "Mozilla/5.0 (compatible; lycosa/0.1.0; +https://example.org/bot)"
                .to_owned(),
            from: None,
        },
        sheets: types::ByHost::default(),
        proxies: None,
        robots_bytes_max: ByteSize::kib(500),
        clock: Arc::new(RealClock { start: Instant::now() }),
    };
    HttpFetcher::new(&options).expect("good settings")
}

/// Answers every request with the same bytes, a thread for each connection.
fn serve(answer: Vec<u8>, close: bool) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let answer: Arc<[u8]> = answer.into();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || serve_one(stream, &answer, close));
        }
    });
    port
}

fn serve_one(mut stream: TcpStream, answer: &[u8], close: bool) {
    let mut buffer = [0; 4096];
    // A request of ours comes in one piece.
    while stream.read(&mut buffer).is_ok_and(|read| read > 0) {
        if stream.write_all(answer).is_err() || close {
            return;
        }
    }
}

/// Nanoseconds that this thread has spent on a processor.
fn thread_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|first| first.parse().ok()).expect("its first number")
}

struct RealClock {
    start: Instant,
}

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_800_000_000) + self.start.elapsed()
    }
}
