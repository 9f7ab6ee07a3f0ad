//! The same web in both protocols.

use std::net::IpAddr;

use lycosa_fetch::{FetchSettings, HttpFetcher, NetworkSettings};
use ports::Protocol;
use simweb::Fixture;
use simweb::serve::{Running, ServeOptions, Source};
use types::CrawlUrl;

use crate::support::*;

const WEB: &str = "\
--- https://a.test/ 200
<title>Home</title><a href=/large>l</a>
--- https://a.test/large filler=300000
--- https://a.test/gzip gzip filler=50000
--- https://a.test/chunked chunked filler=50000
--- https://a.test/moved 302 Location: /large
--- https://a.test/none 204
--- https://a.test/slow slow=30ms
late
--- https://a.test/drip drip=1000/1ms filler=5000
--- https://b.test/ 200 X-Twice: one X-Twice: two
other";

async fn serve(http2: bool) -> Running {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("web-{http2}"));
    std::fs::create_dir_all(&folder).unwrap();
    simweb::serve::start(ServeOptions {
        source: Source::Fixture(Fixture::parse(WEB).unwrap()),
        ca_dir: Some(folder),
        http2,
        journal_in_memory: true,
        ..ServeOptions::default()
    })
    .await
    .unwrap()
}

fn fetcher(web: &Running) -> HttpFetcher {
    let network = NetworkSettings { tls_ca: vec![web.ready().ca.clone()], ..network() };
    fetcher_with(network, FetchSettings::default())
}

/// Status, fields that are not about the connection, body and its digest's subject.
async fn pages(web: &Running, fetcher: &HttpFetcher, protocol: Protocol) -> Vec<String> {
    let mut pages = Vec::new();
    for (host, path) in [
        ("a.test", "/"),
        ("a.test", "/large"),
        ("a.test", "/gzip"),
        ("a.test", "/chunked"),
        ("a.test", "/moved"),
        ("a.test", "/none"),
        ("a.test", "/missing"),
        ("a.test", "/slow"),
        ("a.test", "/drip"),
        ("b.test", "/"),
        ("b.test", "/"),
    ] {
        let url = format!("https://{host}:{}{path}", web.ready().https);
        let address: IpAddr = if host == "a.test" { [127, 0, 1, 1] } else { [127, 0, 1, 2] }.into();
        let request = ports::Request { address, ..page(CrawlUrl::parse(&url).unwrap()) };
        let exchange = visit(fetcher, request).await;
        assert_eq!(exchange.protocol, protocol, "{url}");
        let response = answer(&exchange);
        let framing = ["connection", "transfer-encoding"];
        let mut fields: Vec<String> = response
            .headers
            .iter()
            .filter(|(name, _)| !framing.contains(&&**name))
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value)))
            .collect();
        fields.sort();
        let body = String::from_utf8_lossy(&response.body);
        let truncated = response.truncated;
        pages.push(format!("{url} {} {fields:?} {truncated:?}\n{body}", response.status));
    }
    pages
}

fn without_ports(pages: &[String], web: &Running) -> Vec<String> {
    pages.iter().map(|page| page.replace(&web.ready().https.to_string(), "PORT")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_protocols_bring_the_same_pages_with_one_handshake_a_host() {
    let (one, two) = (serve(false).await, serve(true).await);
    let (first, second) = (fetcher(&one), fetcher(&two));
    let in_one = pages(&one, &first, Protocol::Http11).await;
    let in_two = pages(&two, &second, Protocol::Http2).await;
    for (one, two) in without_ports(&in_one, &one).iter().zip(without_ports(&in_two, &two)) {
        assert_eq!(*one, two);
    }
    for (web, fetcher) in [(&one, &first), (&two, &second)] {
        assert_eq!((web.handshakes().full(), web.handshakes().resumed()), (2, 0));
        // When the window is over, the session is taken up again instead.
        fetcher.close_idle();
    }
    pages(&two, &second, Protocol::Http2).await;
    assert_eq!((two.handshakes().full(), two.handshakes().resumed()), (2, 2));
}
