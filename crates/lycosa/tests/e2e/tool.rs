//! `lycosa tool` as a filter.

use crate::common::{feed, run};

#[test]
fn the_examples_of_the_contract_hold_to_the_letter() {
    let folder = tempfile::tempdir().unwrap();
    let input = r#"{"url":"HTTP://Example.COM:80/a/../b?z=1&utm_source=x&a=2#f"}"#;
    let ran = feed(folder.path(), &["tool", "canonicalize"], input).exits(0);
    assert_eq!(
        ran.out,
        "{\"url\":\"http://example.com/b?a=2&z=1\",\"host\":\"example.com\",\"domain\":\"example.com\"}\n"
    );
    let input = r#"{"robots":"User-agent: *\nDisallow: /p # x\nCrawl-delay: 2","agent":"lycosa","url":"http://a.test/p/1"}"#;
    let ran = feed(folder.path(), &["tool", "robots"], input).exits(0);
    assert_eq!(
        ran.out,
        "{\"allowed\":false,\"rule\":\"Disallow: /p\",\"crawl_delay\":2,\"sitemaps\":[]}\n"
    );
}

#[test]
fn a_bad_line_does_not_end_the_filter() {
    let folder = tempfile::tempdir().unwrap();
    let input = "{\n{\"id\":2,\"url\":\"http://b.test\"}\n";
    let ran = feed(folder.path(), &["tool", "canonicalize"], input).exits(0);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("{\"error\":"));
    assert_eq!(
        lines[1],
        "{\"id\":2,\"url\":\"http://b.test/\",\"host\":\"b.test\",\"domain\":\"b.test\"}"
    );
}

#[test]
fn what_is_still_to_come_says_so() {
    let folder = tempfile::tempdir().unwrap();
    for words in [
        &["tool", "extract"][..],
        &["search", "crawl", "words", "--flag"],
        &["export", "crawl", "--format", "jsonl"],
        &["serve", "crawl"],
    ] {
        run(folder.path(), words).exits(4).says("not available in this version");
    }
}
