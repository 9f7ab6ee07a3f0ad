//! The same web, crawled in HTTP/1.1 and in HTTP/2.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::Site;

/// Pages on two hosts, some of them large, compressed, moved, missing, slow.
fn web() -> String {
    let mut web = String::from(
        "\
--- https://a.test/robots.txt
User-agent: *
Disallow: /secret
--- https://a.test/
<title>Home</title><a href=/moved>m</a> <a href=/gone>g</a> <a href=/secret>s</a>
<a href=/gzip>z</a> <a href=/slow>s</a> <a href=/page-0>0</a> <a href=/none>n</a>
--- https://a.test/moved 302 Location: /page-1
--- https://a.test/gzip gzip filler=60000
--- https://a.test/slow slow=50ms
<p>late
--- https://a.test/none 204
",
    );
    for page in 0..12 {
        let next = page + 1;
        web +=
            &format!("--- https://a.test/page-{page}\n<p>{page} <a href=/page-{next}>next</a>\n");
    }
    web
}

/// Path, status and digest of every answer that is indexed.
fn kept(site: &Site) -> BTreeSet<(String, String, String)> {
    let mut kept = BTreeSet::new();
    for file in std::fs::read_dir(site.dir().join("indexes")).expect("there are indexes") {
        let file = file.expect("they can be listed").path();
        for line in std::fs::read_to_string(file).expect("they are text").lines() {
            let (_, json) = line.split_once('{').expect("a line has JSON");
            let entry: Value = serde_json::from_str(&format!("{{{json}")).expect("it is JSON");
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            let url = text("url").replace(&site.ready.https.to_string(), "PORT");
            kept.insert((url, text("status"), text("digest")));
        }
    }
    kept
}

#[test]
fn both_protocols_keep_the_same_pages_with_one_handshake_a_host() {
    let mut all = Vec::new();
    for http2 in [false, true] {
        let site = Site::secret(&web(), http2);
        let home = format!("https://a.test:{}/", site.ready.https);
        site.crawl(&[&home]).exits(0);
        let archive = "crawl/archive/lycosa-00-00000.warc.gz";
        site.run(&["warc", "check", archive]).exits(0).prints(": ok");
        let got = site.run(&["warc", "get", archive, &home]).exits(0);
        let protocol = if http2 { "h2" } else { "http/1.1" };
        got.prints(&format!("WARC-Protocol: {protocol}\r\n")).prints("HTTP/1.1 200 OK\r\n");
        // Less than the keep-alive's half minute: the connection is the same all the time.
        assert_eq!(site.handshakes(), (1, 0), "http2: {http2}");
        let connections: BTreeSet<u64> =
            site.journal().iter().map(|entry| entry.connection).collect();
        assert_eq!(connections.len(), 1);
        all.push(kept(&site));
    }
    assert_eq!(all[0], all[1]);
    assert!(all[0].len() >= 18, "{:?}", all[0]);
}

#[test]
fn http2_can_be_left_out() {
    let site = Site::secret(&web(), true);
    let home = format!("https://a.test:{}/", site.ready.https);
    site.crawl(&[&home, "--limit", "1", "-s", "fetch.http2=false"]).exits(17);
    let archive = "crawl/archive/lycosa-00-00000.warc.gz";
    site.run(&["warc", "get", archive, &home]).exits(0).prints("WARC-Protocol: http/1.1\r\n");
}
