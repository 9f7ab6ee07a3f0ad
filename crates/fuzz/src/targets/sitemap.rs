//! Any bytes as a sitemap or feed: page.
//!
//! An input is a body, or `URL` and `Content-Type` lines before it.
//!
//! Holds: reading ends, and the same bytes give the same; there is a kind or an error; entries and
//! errors are bounded, by the limits and by the bytes; every address can be visited, every date and
//! priority is in its form; packed by gzip it reads the same; what was read and is written again as a
//! urlset reads the same.

use std::io::Write as _;

use flate2::write::GzEncoder;
use page::{SITEMAP_ENTRIES_MAX, Sitemap, SitemapKind, read_sitemap};

use crate::{Shape, Target, parts};

pub const TARGET: Target = Target { name: "sitemap", words: WORDS, seeds, check, inputs: 6_000 };

const WORDS: &[&[u8]] = &[
    b"<urlset>",
    b"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9' xmlns:s='http://www.sitemaps.org/schemas/sitemap/0.9'>",
    b"</urlset>",
    b"<url>",
    b"</url>",
    b"<loc>https://a.test/x</loc>",
    b"<s:loc>",
    b"<loc>",
    b"</loc>",
    b"<image:image><image:loc>https://a.test/i</image:loc></image:image>",
    b"<lastmod>2024-01-05T10:11:12Z</lastmod>",
    b"<lastmod>Fri, 05 Jan 2024 10:11:12 +0200</lastmod>",
    b"<lastmod>1704449472</lastmod>",
    b"<changefreq>daily</changefreq>",
    b"<priority>0.8</priority>",
    b"<priority>NaN</priority>",
    b"<sitemapindex>",
    b"<sitemap>",
    b"<rss><channel>",
    b"<item>",
    b"<link>https://a.test/1</link>",
    b"<guid isPermaLink='true'>https://a.test/2</guid>",
    b"<pubDate>5 Jan 24 10:11 EST</pubDate>",
    b"<rdf:RDF>",
    b"<item rdf:about='https://a.test/3'>",
    b"<feed xml:base='https://b.test/'>",
    b"<entry>",
    b"<link rel='alternate' href='4'/>",
    b"<updated>2024-01-05T10:11:12.5+02:00</updated>",
    b"{\"version\":\"https://jsonfeed.org/version/1\",\"items\":[{\"url\":\"/1\"}]}",
    b"<?xml version='1.0' encoding='utf-16'?>",
    b"<?xml version='1.0' encoding='iso-8859-1'?>",
    b"<!DOCTYPE urlset [<!ENTITY a 'b'>]>",
    b"<!--",
    b"-->",
    b"<![CDATA[",
    b"]]>",
    b"<?",
    b"<!",
    b"&amp;",
    b"&#x",
    b"&a=1",
    b"\"",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xfe\xff",
    b"\x1f\x8b\x08\x00",
    b"https://a.test/1\n",
    b"# a comment\n",
    b"\r",
    b"Content-Type: text/plain",
    b"URL: https://a.test/s.txt",
    b"\n----\n",
    "ä".as_bytes(),
    b"\xe4",
];

/// Packed ones: their bytes are not for people.
fn seeds() -> Vec<Vec<u8>> {
    let urlset = b"<urlset><url><loc>https://a.test/1</loc><lastmod>2024</lastmod></url></urlset>";
    let utf_16 =
        String::from_utf8_lossy(urlset).encode_utf16().flat_map(u16::to_le_bytes).collect();
    vec![packed(urlset), packed(&packed(urlset)), utf_16]
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes all")
}

fn check(input: &[u8]) -> Shape {
    let (head, body) = parts(input);
    let head = String::from_utf8_lossy(head);
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let url = header("URL:").unwrap_or("https://a.test/dir/sitemap.xml");
    let content_type = header("Content-Type:");

    let sitemap = read_sitemap(url, body, content_type);
    assert_eq!(read_sitemap(url, body, content_type), sitemap, "the same bytes");
    check_bounds(&sitemap, body);
    check_written(&sitemap);
    if !body.starts_with(&[0x1f, 0x8b]) {
        assert_eq!(read_sitemap(url, &packed(body), content_type), sitemap, "packed");
    }

    let mut shape = Shape::default();
    shape.add(sitemap.kind.map_or(9, |kind| kind as u64));
    shape.add_size(sitemap.entries.len());
    shape.add_text(sitemap.error.as_deref().unwrap_or_default());
    for error in sitemap.errors.iter().take(4) {
        shape.add_text(error.split(": ").nth(1).unwrap_or(error));
    }
    let facts = sitemap.entries.iter().map(|entry| {
        let date = entry.lastmod.as_ref().map_or(0, |date| date.text.len() as u64);
        1 << date.min(31)
            | u64::from(entry.changefreq.is_some()) << 40
            | u64::from(entry.priority.is_some()) << 41
    });
    shape.add(facts.fold(0, |all, facts| all | facts));
    shape
}

fn check_bounds(sitemap: &Sitemap, body: &[u8]) {
    assert_eq!(sitemap.kind.is_none(), sitemap.error.is_some(), "a kind or an error");
    assert!(sitemap.entries.len() <= SITEMAP_ENTRIES_MAX);
    // A thousand bytes are packed in one, not more; the shortest entry has more than ten.
    assert!(sitemap.entries.len() <= 110 * body.len(), "{} entries", sitemap.entries.len());
    assert!(sitemap.errors.len() <= 101, "{} errors", sitemap.errors.len());
    for error in &sitemap.errors {
        assert!(error.len() < 1_000, "{error}");
    }
    for entry in &sitemap.entries {
        assert!(matches!(entry.loc.scheme(), "http" | "https") && entry.loc.has_host());
        assert!(entry.priority.is_none_or(|priority| (0.0..=1.0).contains(&priority)));
        if let Some(date) = &entry.lastmod {
            assert!(date.text.is_ascii() && date.text.len() >= 4, "{}", date.text);
        }
    }
}

fn check_written(sitemap: &Sitemap) {
    let mut xml = String::from("<urlset>");
    for entry in &sitemap.entries {
        xml += &format!("<url><loc>{}</loc>", entry.loc.as_str().replace('&', "&amp;"));
        if let Some(date) = &entry.lastmod {
            xml += &format!("<lastmod>{}</lastmod>", date.text);
        }
        if let Some(freq) = entry.changefreq {
            xml += &format!("<changefreq>{}</changefreq>", freq.name());
        }
        if let Some(priority) = entry.priority {
            xml += &format!("<priority>{priority}</priority>");
        }
        xml += "</url>";
    }
    xml += "</urlset>";
    let again = read_sitemap("https://other.test/", xml.as_bytes(), None);
    assert_eq!(again.kind, Some(SitemapKind::Urlset));
    assert_eq!(again.entries, sitemap.entries, "written and read");
    assert_eq!(again.errors, Vec::<String>::new(), "written and read");
}
