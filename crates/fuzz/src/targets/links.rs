//! Any bytes as a page, with any headers: page.
//!
//! An input is a page, or header lines before it: `Content-Type`, `Refresh`, `Link`,
//! `X-Robots-Tag`, and `URL` for where the page was found.
//!
//! Holds: links are not more than bytes and in their limits; fewer are kept of the same page by
//! smaller limits, and these are the first ones; a page that is cut by a limit reads as the cut
//! page; every link that becomes a URL of ours is a canonical one. There is no other way to feed a
//! page than whole, so there is none to compare with.

use std::borrow::Cow;
use std::sync::LazyLock;

use page::{Document, Input, Limits, read};
use types::{Base, Canon, CrawlUrl};

use super::canonical::check_url;
use crate::{Shape, Target, parts};

pub const TARGET: Target =
    Target { name: "links", words: WORDS, seeds: Vec::new, check, inputs: 6_000 };

const WORDS: &[&[u8]] = &[
    b"<a href=",
    b"<a href='x'>",
    b"</a>",
    b"<base href=//b.test/>",
    b"<area href=x alt=y>",
    b"<iframe src=x>",
    b"<img src=x srcset='a 1x, b 2x'>",
    b"<meta http-equiv=refresh content='0;url=x'>",
    b"<meta name=robots content=nofollow>",
    b"<meta charset=",
    b"<meta http-equiv=content-type content='text/html; charset=shift_jis'>",
    b"<link rel=canonical href=x>",
    b"<link rel='alternate' type='application/rss+xml' href=f>",
    b"<title>",
    b"</title>",
    b"<script>",
    b"</script>",
    b"<!--",
    b"-->",
    b"<![CDATA[",
    b"]]>",
    b"<svg>",
    b"</svg>",
    b"<math>",
    b"<foreignObject>",
    b"<noscript>",
    b"<template>",
    b"<textarea>",
    b"<plaintext>",
    b"<?xml version='1.0' encoding='utf-16'?>",
    b"<html lang=de>",
    b"</head>",
    b"rel='nofollow ugc'",
    b"&amp;",
    b"&#x",
    b"&#0;",
    b"&NotEqualTilde;",
    b"&#1114112;",
    b"data:",
    b"javascript:",
    b"\xEF\xBB\xBF",
    b"\xFF\xFE",
    b"\x1b$B",
    b"\x81",
    b"+AGE-",
    "ä".as_bytes(),
    b"Content-Type: text/html; charset=utf-8",
    b"Content-Type: text/html; charset=iso-2022-jp",
    b"Content-Type: text/html; charset=utf-16le",
    b"Content-Type: text/html; charset=x-user-defined",
    b"Content-Type: application/xhtml+xml",
    b"Content-Type: text/plain",
    b"Refresh: 1;url=x",
    b"Link: <x>; rel=\"canonical\"",
    b"X-Robots-Tag: noindex",
    b"URL: https://a.test/",
    b"\n----\n",
    b"?q=\xc3\xa9",
    b"charset=gb18030",
    b"charset=replacement",
];

static CANON: LazyLock<Canon> = LazyLock::new(Canon::default);

fn check(input: &[u8]) -> Shape {
    let (head, body) = parts(input);
    let headers = headers(head);
    let header = |name: &str| {
        let mut all = headers.iter();
        let found = all.find(|(known, _)| known.eq_ignore_ascii_case(name))?.1;
        str::from_utf8(found).ok()
    };
    let input = Input {
        content_type: Some(header("content-type").unwrap_or("text/html")),
        headers: &headers,
        ..Input::new(header("url").unwrap_or("https://a.test/dir/page?q"), body)
    };
    let mut shape = Shape::default();
    let page = read(input);
    check_document(&page, &input, &mut shape);

    let fewer = read(Input { limits: Limits { links_max: 3, ..input.limits }, ..input });
    assert_eq!(fewer.links().len(), page.links().len().min(3));
    assert!(fewer.links().eq(page.links().take(3)), "fewer links are other links");

    let half = body.len() / 2;
    let small = Limits { href_bytes_max: 40, ..input.limits };
    let cut = read(Input { limits: Limits { body_bytes_max: half, ..small }, ..input });
    let whole = read(Input { body: &body[..half], limits: small, ..input });
    assert_eq!(cut.cut, !body.is_empty());
    assert!(cut.links().eq(whole.links()), "the cut page and the page that is cut");
    assert!(cut.links().all(|link| link.href.len() <= 40));
    assert_eq!((cut.title, cut.charset, cut.kind), (whole.title, whole.charset, whole.kind));
    shape
}

/// `Name: value` lines.
fn headers(head: &[u8]) -> Vec<(&str, &[u8])> {
    let lines = head.split(|&byte| byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((str::from_utf8(&line[..colon]).ok()?, line[colon + 1..].trim_ascii()))
    });
    lines.collect()
}

fn check_document(page: &Document, input: &Input<'_>, shape: &mut Shape) {
    let limits = &input.limits;
    let bytes =
        input.body.len() + input.headers.iter().map(|(_, value)| value.len()).sum::<usize>();
    let links = page.links().len();
    assert!(links <= bytes && links <= limits.links_max, "{links} links in {bytes} bytes");
    assert!(page.links_dropped() <= bytes as u64, "{} dropped", page.links_dropped());
    assert!(page.title.as_ref().is_none_or(|title| title.len() <= limits.title_bytes_max));
    if let Some((_, to)) = page.refresh() {
        assert!(page.links().any(|link| link.href == to), "{to:?} is no link");
    }
    let resolved = page.links().filter_map(|link| link.resolve(page.base()?));
    for url in resolved.chain(page.canonical.clone()) {
        assert!(matches!(url.scheme(), "http" | "https") && url.has_host(), "{url}");
    }
    shape.add(page.kind as u64);
    shape.add_size(links);
    shape.add(u64::from(page.title.is_some()) | u64::from(page.lang.is_some()) << 1);
    if let Some(charset) = page.charset {
        shape.add_text(charset.name);
        assert!(encoding_rs::Encoding::for_label(charset.name.as_bytes()).is_some());
    }
    let kinds = page.links().map(|link| 1 << link.kind as u64 | u64::from(link.nofollow) << 63);
    shape.add(kinds.fold(0, |all, kind| all | kind));
    for link in page.links() {
        assert!(
            link.href.len() <= limits.href_bytes_max && link.text.len() <= limits.text_bytes_max
        );
        // White space off, as browsers do.
        assert_eq!(link.href, link.href.trim_matches(|c| c <= ' '));
    }
    check_followed(page);
}

/// As the engine follows links: joined, in the page's own encoding.
fn check_followed(page: &Document) {
    let Some(base) = page.base() else { return };
    let base = Base::parse(base.as_str()).expect("a URL parses again");
    let encode: &dyn Fn(&str) -> Cow<'_, [u8]> = &|text| page.encode_query(text);
    let mut text = String::new();
    // Enough of a page with thousands of them.
    for link in page.links().take(100) {
        let encode = page.charset.filter(|charset| charset.name != "UTF-8").map(|_| encode);
        if CANON.join_into(&base, link.href, encode, &mut text).is_ok() {
            let url = CrawlUrl::from_canonical(&text);
            check_url(&CANON, &url.expect("what was joined is canonical"));
        }
    }
}
