//! What a document says about itself, and what its server adds.

use lycosa_page::{CharsetSource, ContentKind, Document, Input, Limits, read};

const URL: &str = "https://a.test/dir/page";

fn page(html: &str) -> Document {
    read(Input { content_type: Some("text/html"), ..Input::new(URL, html.as_bytes()) })
}

fn with_headers(html: &str, headers: &[(&str, &[u8])]) -> Document {
    let input = Input::new(URL, html.as_bytes());
    read(Input { content_type: Some("text/html"), headers, ..input })
}

#[test]
fn the_first_title_counts() {
    for (html, expected) in [
        ("<title>A</title><title>no</title>", Some("A")),
        ("<title>\n  A\t&amp;  B\n</title>", Some("A & B")),
        ("<TITLE>A <b>is</b> <!-- text --></TITLE >", Some("A <b>is</b> <!-- text -->")),
        ("<title></title><title>no</title>", Some("")),
        ("<title>unclosed", Some("unclosed")),
        ("<body><p><title>late</title>", Some("late")),
        ("<svg><title>no</title></svg><title>A</title>", Some("A")),
        ("<template><title>no</title></template>", None),
        ("<!-- <title>no</title> --><p>", None),
    ] {
        assert_eq!(page(html).title.as_deref(), expected, "{html}");
    }
    let limits = Limits { title_bytes_max: 5, ..Limits::default() };
    let document = read(Input { limits, ..Input::new(URL, b"<title>long title</title>") });
    assert_eq!(document.title.as_deref(), Some("long"));
}

#[test]
fn the_language_is_that_of_the_root() {
    assert_eq!(page("<html lang=' de-AT '><p lang=en>").lang.as_deref(), Some("de-AT"));
    assert_eq!(page("<html xml:lang=fr>").lang.as_deref(), Some("fr"));
    assert_eq!(page("<html lang=''>").lang, None);
    assert_eq!(page("<p lang=en>").lang, None);
}

#[test]
fn the_canonical_page_is_taken_from_the_head_or_the_header() {
    let canonical = |html: &str, header: &[u8]| {
        with_headers(html, &[("Link", header)]).canonical.map(String::from).unwrap_or_default()
    };
    let header = b"</h>; rel=canonical";
    assert_eq!(canonical("<link rel=canonical href=x>", b""), "https://a.test/dir/x");
    assert_eq!(
        canonical("<link rel=Canonical href=x><link rel=canonical href=no>", header),
        "https://a.test/dir/x"
    );
    assert_eq!(canonical("<base href=/b/><link rel=canonical href=x>", b""), "https://a.test/b/x");
    // A header knows nothing of the page's base.
    assert_eq!(canonical("<base href=/b/>", b"<h>; rel=canonical"), "https://a.test/dir/h");
    assert_eq!(canonical("</head><body><link rel=canonical href=no>", b""), "");
    assert_eq!(canonical("<link rel=canonical href='mailto:x'>", header), "https://a.test/h");
    assert_eq!(canonical("", b"\xff"), "");
    let two: [(&str, &[u8]); 2] = [("link", b"</n>; rel=next"), ("LINK", header)];
    assert_eq!(with_headers("", &two).canonical.unwrap().as_str(), "https://a.test/h");
}

#[test]
fn rules_for_robots_add_up() {
    let html = "<META NAME=Robots CONTENT='noarchive'><meta name=lycosa content=nofollow>\
                <meta name=otherbot content=noindex>";
    let robots = page(html).robots;
    assert!(robots.noarchive && robots.nofollow && !robots.noindex);

    let robots = with_headers(html, &[("X-Robots-Tag", b"noindex")]).robots;
    assert!(robots.noarchive && robots.nofollow && robots.noindex);
    assert!(!with_headers("", &[("x-robots-tag", b"otherbot: noindex")]).robots.noindex);

    // Headers speak for all sorts of documents.
    let headers: [(&str, &[u8]); 1] = [("x-robots-tag", b"noindex")];
    let pdf = Input { headers: &headers, ..Input::new(URL, b"%PDF-1.7") };
    assert!(read(pdf).robots.noindex);
}

#[test]
fn only_the_head_speaks_for_the_page() {
    let noindex = |html: &str| page(html).robots.noindex;
    let meta = "<meta name=robots content=noindex>";
    assert!(noindex(meta));
    assert!(noindex(&format!("<html><head><title>T</title>{meta}</head><body>")));
    // A misplaced element does not silence what follows.
    assert!(noindex(&format!("<head><div>ad</div>{meta}</head>")));
    assert!(!noindex(&format!("<head></head>{meta}")));
    assert!(!noindex(&format!("<body><p>comment: {meta}")));
    assert!(!noindex(&format!("<template>{meta}</template>")));
    assert!(!noindex(&format!("<!-- {meta} -->")));
}

#[test]
fn a_refresh_names_seconds_and_goal() {
    let html = "<meta http-equiv=refresh content=30><meta http-equiv=refresh content='2;url=/x'>\
                <meta http-equiv=refresh content='0;url=/no'>";
    assert_eq!(page(html).refresh(), Some((2, "/x")));
    assert_eq!(page("<p>").refresh(), None);
}

#[test]
fn only_html_is_searched_for_links() {
    let links = |content_type, body: &[u8]| {
        let document = read(Input { content_type, ..Input::new(URL, body) });
        (document.kind, document.links().len())
    };
    let body = b"<html><a href=x>";
    assert_eq!(links(Some("text/html"), body), (ContentKind::Html, 1));
    assert_eq!(links(Some("application/xhtml+xml"), body), (ContentKind::Xhtml, 1));
    assert_eq!(links(None, body), (ContentKind::Html, 1));
    assert_eq!(links(Some("text/plain"), body), (ContentKind::Text, 0));
    assert_eq!(links(Some("application/json"), body), (ContentKind::Json, 0));
    assert_eq!(links(Some("image/svg+xml"), body), (ContentKind::Image, 0));
    assert_eq!(links(Some("video/mp4"), body), (ContentKind::Other, 0));
}

#[test]
fn xhtml_closes_what_it_says_is_closed() {
    let body = b"<html><title/>t<script src='s'/><a href='x'><![CDATA[<a href='no'>]]></a></html>";
    let document =
        read(Input { content_type: Some("application/xhtml+xml"), ..Input::new(URL, body) });
    let hrefs: Vec<_> = document.links().map(|link| (link.href, link.text)).collect();
    assert_eq!(hrefs, [("s", ""), ("x", "<a href='no'>")]);
    assert_eq!(document.title.as_deref(), Some(""));
}

#[test]
fn the_encoding_is_used_and_told() {
    let (body, ..) = encoding_rs::WINDOWS_1251.encode("<a href=/ж>привет</a>");
    let read_as = |content_type| {
        let document = read(Input { content_type: Some(content_type), ..Input::new(URL, &body) });
        let link = document.links().next().unwrap();
        let charset = document.charset.unwrap();
        (link.href.to_owned(), link.text.to_owned(), charset.name, charset.source)
    };
    let expected = ("/ж".to_owned(), "привет".to_owned(), "windows-1251", CharsetSource::Header);
    assert_eq!(read_as("text/html; charset=cp1251"), expected);
    assert_eq!(read_as("text/html").3, CharsetSource::Guess);

    let mut utf16 = vec![0xff, 0xfe];
    utf16.extend("<a href=x>ä</a>".encode_utf16().flat_map(u16::to_le_bytes));
    let document = read(Input { content_type: Some("text/html"), ..Input::new(URL, &utf16) });
    assert_eq!(document.links().next().unwrap().text, "ä");
    assert_eq!(read(Input::new(URL, b"\x89PNG\r\n\x1a\n")).charset, None);
}
