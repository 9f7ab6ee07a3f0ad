//! How are files named, and which lines of an index are wanted?

use super::*;
use crate::captures::{Payload, Place};

fn capture(url: &str) -> Capture {
    Capture {
        place: Place { file: "lycosa-00-00000.warc.gz".into(), offset: 0, length: 1 },
        record_id: "<urn:uuid:0>".to_owned(),
        url: CrawlUrl::parse(url).unwrap(),
        at: filter::moment("2026-11-18T20:30:00Z").unwrap(),
        status: 200,
        headers: Vec::new(),
        body: Vec::new(),
        cut: false,
        truncated: None,
        digest: None,
        payload: Payload::Own,
    }
}

#[test]
fn a_file_is_named_so_that_people_know_it_and_nothing_else_has_its_name() {
    let name = |url: &str| file_name(&capture(url)).display().to_string();
    let long = name(&format!("http://a.test/{}", "x".repeat(1_000)));
    assert!(long.len() < 160, "{long}");
    let page = name("http://a.test/docs/page.html?q=1");
    assert!(page.starts_with("a.test/docs-page.html-q-1-"), "{page}");
    assert!(page.ends_with("-20261118203000.md"), "{page}");
    assert!(name("http://a.test/").starts_with("a.test/index-"));
    assert_ne!(name("http://a.test/a-b"), name("http://a.test/a/b"));
    // Nothing leads out of the folder.
    for url in ["http://a.test/../../x", "http://a.test/%2e%2e%2fx", "http://[::1]/.."] {
        let name = name(url);
        assert!(!name.contains("..") && name.matches('/').count() == 1, "{name}");
    }
}

#[test]
fn a_line_of_an_index_is_asked_like_a_record() {
    let line = b"test,a)/x 20261118203000 {\"url\": \"http://a.test/x\", \"mime\": \"Text/HTML\", \
                 \"status\": \"404\", \"offset\": \"1\", \"filename\": \"a\"}\n";
    let statuses =
        |text: &str| Filter { statuses: vec![text.parse().unwrap()], ..Filter::default() };
    assert!(takes_line(&statuses("4xx"), line) && !takes_line(&statuses("200"), line));
    let types = vec!["text/html".parse().unwrap()];
    assert!(takes_line(&Filter { types, ..Filter::default() }, line));
    let late = Some(filter::moment("2026-11-18T20:30:01Z").unwrap());
    assert!(!takes_line(&Filter { after: late, ..Filter::default() }, line));
    assert!(!takes_line(&statuses("200"), b"no line"));
}
