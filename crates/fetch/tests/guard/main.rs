//! No connection ever goes to an address that is not for us: every range, in every disguise, on
//! every way to it. The judge is a list of ranges of its own, and a recorder below the guard.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod cases;
#[cfg(target_os = "linux")]
mod namespace;
mod support;

use std::collections::HashSet;
use std::net::IpAddr;

use ports::{Ended, Purpose, Resolution, Resolver};
use types::{CrawlUrl, Refusal};

use crate::cases::{denied, public};
use crate::support::{Recorder, fetch, fetcher, resolver};

#[tokio::test]
async fn the_fetcher_dials_no_denied_address_whatever_it_is_for() {
    let recorder = Recorder::default();
    let fetcher = fetcher(&recorder, &[]);
    let denied = denied();
    let distinct: HashSet<_> = denied.iter().map(|case| case.address).collect();
    assert!(distinct.len() >= 500, "only {} addresses", distinct.len());
    for case in &denied {
        for (url, purpose) in [
            ("http://trap.test/", Purpose::Page),
            ("https://trap.test/", Purpose::Page),
            ("http://trap.test/robots.txt", Purpose::Robots),
        ] {
            let end = fetch(&fetcher, url, case.address, purpose).await;
            let refused = matches!(&end, Ended::Refused(Refusal::Address { address, .. })
                if *address == case.address);
            assert!(refused, "{} ({}): {end:?}", case.address, case.what);
        }
    }
    assert_eq!(recorder.dialled(), []);
}

#[tokio::test]
async fn no_name_and_no_literal_leads_to_a_denied_address() {
    let denied = denied();
    let answers: Vec<IpAddr> = denied.iter().map(|case| case.address).collect();
    let resolver = resolver(answers).await;
    for (number, case) in denied.iter().enumerate() {
        let literal = match case.address {
            IpAddr::V4(v4) => format!("http://{v4}/"),
            IpAddr::V6(v6) => format!("http://[{v6}]/"),
        };
        for url in [literal, format!("http://n{number}.test/")] {
            let host = CrawlUrl::parse(&url).unwrap().host_key();
            let resolution = resolver.resolve(&host).await;
            let forbidden = matches!(resolution, Resolution::Forbidden { .. });
            assert!(forbidden, "{url} is {} ({}): {resolution:?}", case.address, case.what);
        }
    }
}

#[tokio::test]
async fn one_denied_address_among_good_ones_is_left_out() {
    let good: IpAddr = "8.8.8.8".parse().unwrap();
    let bad: IpAddr = "169.254.169.254".parse().unwrap();
    let resolver = support::resolver_of_sets(vec![vec![bad, good]]).await;
    let host = CrawlUrl::parse("http://n0.test/").unwrap().host_key();
    match resolver.resolve(&host).await {
        Resolution::Addresses { addresses, .. } => assert_eq!(addresses, [good]),
        other => panic!("{other:?}"),
    }
}

/// A name that was public when it was looked up and is not when it is connected: there is no
/// second look-up, so the address that was judged is the one that is dialled.
#[tokio::test]
async fn what_is_dialled_is_the_address_that_was_judged() {
    let recorder = Recorder::default();
    let fetcher = fetcher(&recorder, &[]);
    for address in public() {
        fetch(&fetcher, "http://localhost.test/", address, Purpose::Page).await;
    }
    assert_eq!(recorder.addresses(), public());
}

#[tokio::test]
async fn a_host_in_disguise_is_seen_through() {
    let resolver = resolver(Vec::new()).await;
    for url in [
        "http://2130706433/",
        "http://017700000001/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://0x7f.0.0.1/",
        "http://127.1/",
        "http://127.0.1/",
        "http://127.0.0.1./",
        "http://%31%32%37.0.0.1/",
        "http://①②⑦.⓪.⓪.①/",
        "http://１２７.０.０.１/",
        "http://127。0。0。1/",
        "http://127.0.0.1:80/",
        "http://good.test@127.0.0.1/",
        "http:\\\\127.0.0.1\\",
        "http://0/",
        "http://0.0.0.0/",
        "http://0x0/",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://0251.0376.0251.0376/",
        "http://169.254.43518/",
        "http://3232235777/",
        "http://[::1]/",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://[::]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[0:0:0:0:0:ffff:a9fe:a9fe]/",
        "http://[64:ff9b::127.0.0.1]/",
        "http://localhost/",
        "http://localhost./",
        "http://LOCALHOST/",
        "http://ｌｏｃａｌｈｏｓｔ/",
        "http://a.b.localhost/",
    ] {
        let parsed = CrawlUrl::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        let resolution = resolver.resolve(&parsed.host_key()).await;
        assert!(matches!(resolution, Resolution::Forbidden { .. }), "{url}: {resolution:?}");
    }
}

#[test]
fn what_is_no_web_address_is_no_url_of_ours() {
    for url in [
        "file:///etc/passwd",
        "file://127.0.0.1/x",
        "data:text/html,<p>hello",
        "javascript:fetch('http://127.0.0.1/')",
        "ftp://127.0.0.1/",
        "gopher://127.0.0.1:6379/_INFO",
        "dict://127.0.0.1:11211/stats",
        "ws://127.0.0.1/",
        "view-source:http://127.0.0.1/",
        "blob:http://127.0.0.1/x",
        "about:blank",
        "http://256.256.256.256/",
        "http://127.0.0.1.1/",
        "http://0x7f.0.0.0.1/",
        "http://[::1%25lo]/",
        "http://[127.0.0.1]/",
    ] {
        assert!(CrawlUrl::parse(url).is_err(), "{url}");
    }
}

#[tokio::test]
async fn a_port_of_another_protocol_is_not_dialled() {
    let recorder = Recorder::default();
    let fetcher = fetcher(&recorder, &["10.0.0.0/8"]);
    let public: IpAddr = "8.8.8.8".parse().unwrap();
    // The "bad ports" of the Fetch standard, and what else lies below 1024.
    let bad = (0..1024).filter(|port| ![80, 443].contains(port)).chain([
        1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668,
        6669, 6679, 6697, 10080,
    ]);
    for port in bad {
        let url = format!("http://a.test:{port}/");
        let end = fetch(&fetcher, &url, public, Purpose::Page).await;
        assert!(matches!(end, Ended::Refused(Refusal::Setting { .. })), "{port}: {end:?}");
    }
    assert_eq!(recorder.dialled(), []);
    for (port, address) in [(80, public), (8080, public), (22, "10.1.1.1".parse().unwrap())] {
        fetch(&fetcher, &format!("http://a.test:{port}/"), address, Purpose::Page).await;
    }
    let ports: Vec<u16> = recorder.dialled().iter().map(|to| to.port()).collect();
    assert_eq!(ports, [80, 8080, 22]);
}
