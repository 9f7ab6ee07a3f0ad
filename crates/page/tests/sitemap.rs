//! Sitemaps and feeds as sites hand them out.

use std::io::Write as _;

use lycosa_page::{SITEMAP_BYTES_MAX, SITEMAP_ENTRIES_MAX, Sitemap, read_sitemap};

const URL: &str = "https://a.test/maps/sitemap.xml";

fn read(body: impl AsRef<[u8]>) -> Sitemap {
    read_sitemap(URL, body.as_ref(), None)
}

/// `kind: loc lastmod changefreq priority; …`, with `-` for what is absent.
fn told(sitemap: &Sitemap) -> String {
    let entries = sitemap.entries.iter().map(|entry| {
        let lastmod = entry.lastmod.as_ref().map_or("-", |date| &date.text);
        let freq = entry.changefreq.map_or("-", |freq| freq.name());
        let priority = entry.priority.map_or("-".to_owned(), |priority| priority.to_string());
        format!("{} {lastmod} {freq} {priority}", entry.loc)
    });
    let entries: Vec<_> = entries.collect();
    format!("{}: {}", sitemap.kind.map_or("none", |kind| kind.name()), entries.join("; "))
}

#[track_caller]
fn check(body: impl AsRef<[u8]>, want: &str) -> Vec<String> {
    let sitemap = read(body);
    assert_eq!(told(&sitemap), want, "{:?} {:?}", sitemap.error, sitemap.errors);
    sitemap.errors
}

#[track_caller]
fn check_clean(body: impl AsRef<[u8]>, want: &str) {
    assert_eq!(check(body, want), Vec::<String>::new());
}

const PLAIN: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
  <url>
    <loc>https://a.test/?a=1&amp;b=2</loc>
    <lastmod>2024-01-05</lastmod>
    <changefreq>Weekly</changefreq>
    <priority>0.8</priority>
  </url>
  <url><loc> https://a.test/ä </loc></url>
</urlset>"#;
const PLAIN_TOLD: &str =
    "urlset: https://a.test/?a=1&b=2 2024-01-05 weekly 0.8; https://a.test/%C3%A4 - - -";

#[test]
fn a_urlset_names_its_pages() {
    check_clean(PLAIN, PLAIN_TOLD);
}

#[test]
fn an_index_names_its_sitemaps() {
    check_clean(
        "<sitemapindex><sitemap><loc>/s1.xml.gz</loc><lastmod>2024-01-05T10:00:00+02:00</lastmod>\
         </sitemap><sitemap><loc>s2.xml</loc></sitemap></sitemapindex>",
        "index: https://a.test/s1.xml.gz 2024-01-05T10:00:00+02:00 - -; \
         https://a.test/maps/s2.xml - - -",
    );
}

#[test]
fn any_prefix_will_do_and_extensions_do_not_disturb() {
    check_clean(
        r#"<s:urlset xmlns:s="http://www.sitemaps.org/schemas/sitemap/0.9"
             xmlns:i="http://www.google.com/schemas/sitemap-image/1.1" xmlns:xhtml="x">
           <s:url><i:image><i:loc>https://a.test/i.png</i:loc></i:image>
             <i:loc>https://a.test/stray.png</i:loc>
             <s:loc>https://a.test/1</s:loc>
             <xhtml:link rel="alternate" hreflang="de" href="https://a.test/de"/>
             <news:news xmlns:news="n"><news:publication_date>2020</news:publication_date>
               <news:title>t</news:title></news:news>
             <image xmlns="x"><loc>https://a.test/j.png</loc></image>
             <video:video><video:player_loc>https://a.test/v</video:player_loc></video:video>
             <s:lastmod>2024-01-05</s:lastmod></s:url></s:urlset>"#,
        "urlset: https://a.test/1 2024-01-05 - -",
    );
}

#[test]
fn comments_cdata_and_references_are_read() {
    check_clean(
        "<!-- <urlset> --><!DOCTYPE urlset><urlset><url><!-- x --><loc><![CDATA[https://a.test/?a=1&b=2]]>\
         </loc></url><!--</urlset>--><URL><LOC>https://a.test/&#x41;&#66;&eacute;</LOC></URL></urlset>",
        "urlset: https://a.test/?a=1&b=2 - - -; https://a.test/AB%C3%A9 - - -",
    );
}

#[test]
fn a_bare_ampersand_is_itself() {
    check_clean(
        "<urlset><url><loc>https://a.test/?a=1&b=2&copy=3&lang;=4&</loc></url>\
         <url><loc>https://a.test/?x=&&y</loc></url></urlset>",
        "urlset: https://a.test/?a=1&b=2&copy=3%E2%9F%A8=4& - - -; https://a.test/?x=&&y - - -",
    );
}

#[test]
fn missing_end_tags_are_seen_through() {
    let errors = check(
        "<urlset><url><loc>https://a.test/1<lastmod>2024-01-05<priority>0.3\
         <url><loc>https://a.test/2</loc></priority></url><url><loc>https://a.test/3</loc>\
         <image:image><image:loc>https://a.test/i</image:loc></url>\
         <url><loc>https://a.test/4</loc></urlset>",
        "urlset: https://a.test/1 2024-01-05 - 0.3; https://a.test/2 - - -; \
         https://a.test/3 - - -; https://a.test/4 - - -",
    );
    assert_eq!(errors, ["entry 1: its end tag is missing", "it ends within entry 4"]);
}

#[test]
fn garbage_before_the_declaration_is_passed_over() {
    for garbage in [
        "\n\n  ",
        "Warning: mysql_connect() in /srv/www/x.php on line 3\n",
        "<br />\n<b>Warning</b>: headers < sent & gone in <b>x.php</b><br />\n",
        "\u{feff}\u{feff}",
        "\0\0",
    ] {
        assert_eq!(told(&read(format!("{garbage}{PLAIN}"))), PLAIN_TOLD, "{garbage:?}");
    }
}

#[test]
fn a_truncated_file_keeps_what_was_read() {
    let body = "<urlset><url><loc>https://a.test/1</loc></url><url><loc>https://a.test/2</loc>\
                <lastmod>2024-0";
    let errors = check(body, "urlset: https://a.test/1 - - -; https://a.test/2 - - -");
    assert_eq!(errors, ["it ends within entry 2"]);
    // Half a URL is none.
    check(
        "<urlset><url><loc>https://a.test/1</loc></url><url><loc>https://a.te",
        "urlset: https://a.test/1 - - -",
    );
    for end in 0..PLAIN.len() {
        if PLAIN.is_char_boundary(end) {
            let sitemap = read(&PLAIN[..end]);
            for entry in &sitemap.entries {
                assert!(entry.loc.as_str().starts_with("https://a.test/"), "{end}");
            }
        }
    }
}

#[test]
fn broken_tags_do_not_hide_what_follows() {
    let errors = check(
        "<urlset><url><loc>https://a.test/1</loc></url><!bad><url><loc>https://a.test/2</loc></url>\
         <url><loc>https://a.test/3</loc><x a=\"></url><url><loc>https://a.test/4</loc></url></urlset>",
        "urlset: https://a.test/1 - - -; https://a.test/2 - - -; https://a.test/3 - - -; \
         https://a.test/4 - - -",
    );
    assert!(errors.iter().all(|error| error.starts_with("broken XML")), "{errors:?}");
    assert_eq!(errors.len(), 2, "{errors:?}");
}

#[test]
fn every_encoding_is_understood() {
    let utf_16 = |big: bool, mark: bool| -> Vec<u8> {
        let text = if mark { format!("\u{feff}{PLAIN}") } else { PLAIN.to_owned() };
        let units = text.encode_utf16();
        units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    };
    for (big, mark) in [(false, true), (true, true), (false, false), (true, false)] {
        check_clean(utf_16(big, mark), PLAIN_TOLD);
    }
    check_clean(format!("\u{feff}{PLAIN}"), PLAIN_TOLD);
    // Declared Latin-1, and is; declared UTF-8, and is Latin-1; declared UTF-16, and is UTF-8.
    let latin = |text: &str| -> Vec<u8> { text.chars().map(|c| c as u32 as u8).collect() };
    check_clean(latin(&PLAIN.replace("UTF-8", "ISO-8859-1")), PLAIN_TOLD);
    check_clean(latin(PLAIN), PLAIN_TOLD);
    check_clean(PLAIN.replace("UTF-8", "UTF-16"), PLAIN_TOLD);
    check_clean(PLAIN.replace("UTF-8", "windows-1251"), PLAIN_TOLD);
    check_clean(PLAIN.replace("UTF-8", "klingon"), PLAIN_TOLD);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes all")
}

#[test]
fn gzip_is_unpacked_also_twice_and_also_torn() {
    check_clean(gzip(PLAIN.as_bytes()), PLAIN_TOLD);
    check_clean(gzip(&gzip(PLAIN.as_bytes())), PLAIN_TOLD);
    let (first, second) = PLAIN.split_at(100);
    check_clean([gzip(first.as_bytes()), gzip(second.as_bytes())].concat(), PLAIN_TOLD);
    let padded = [gzip(PLAIN.as_bytes()), vec![0; 9]].concat();
    assert_eq!(told(&read(padded)), PLAIN_TOLD);
    let mut torn = gzip(PLAIN.as_bytes());
    torn.truncate(torn.len() - 12);
    let sitemap = read(&torn);
    assert_eq!(sitemap.kind.map(|kind| kind.name()), Some("urlset"));
    assert!(!sitemap.entries.is_empty());
    assert!(sitemap.errors[0].contains("gzip"), "{:?}", sitemap.errors);
}

#[test]
fn a_bomb_does_not_go_off() {
    let chunk = vec![b' '; 1 << 20];
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"<urlset><url><loc>https://a.test/1</loc></url>").unwrap();
    for _ in 0..(SITEMAP_BYTES_MAX >> 20) + 30 {
        encoder.write_all(&chunk).unwrap();
    }
    let sitemap = read(encoder.finish().unwrap());
    assert_eq!(told(&sitemap), "urlset: https://a.test/1 - - -");
    assert!(sitemap.errors[0].contains("longer than 52428800 bytes"), "{:?}", sitemap.errors);
}

#[test]
fn entries_beyond_the_limit_are_said_and_left_out() {
    let mut body = String::from("<urlset>");
    for n in 0..SITEMAP_ENTRIES_MAX + 5 {
        body += &format!("<url><loc>https://a.test/{n}</loc></url>");
    }
    let sitemap = read(&body);
    assert_eq!(sitemap.entries.len(), SITEMAP_ENTRIES_MAX);
    assert!(sitemap.errors[0].contains("more than 50000 entries"), "{:?}", sitemap.errors);
    let lines: String =
        (0..SITEMAP_ENTRIES_MAX + 5).map(|n| format!("https://a.test/{n}\n")).collect();
    let sitemap = read(&lines);
    assert_eq!(sitemap.entries.len(), SITEMAP_ENTRIES_MAX);
    assert!(sitemap.errors[0].contains("more than 50000 entries"), "{:?}", sitemap.errors);
    // To the limit and no further is no error.
    let end = lines.match_indices('\n').nth(SITEMAP_ENTRIES_MAX - 1).unwrap().0;
    assert_eq!(read(&lines[..end]).errors, Vec::<String>::new());
}

#[test]
fn a_list_of_urls_is_a_sitemap() {
    check_clean(
        "https://a.test/1\nhttps://a.test/2",
        "text: https://a.test/1 - - -; https://a.test/2 - - -",
    );
    let errors = check(
        "\u{feff}# ours\r\n\r\n  HTTP://A.test/1 \r\nhttps://a.test/ä\rnonsense\nhttps://a.test/ b",
        "text: http://a.test/1 - - -; https://a.test/%C3%A4 - - -",
    );
    assert_eq!(errors, ["line 5: `nonsense` is no URL", "line 6: `https://a.test/ b` is no URL"]);
}

#[test]
fn a_hint_decides_where_content_does_not() {
    let prose = "What follows\nis a list\nof addresses\nhttps://a.test/1\n";
    assert_eq!(read(prose).kind, None);
    let by_type = read_sitemap(URL, prose.as_bytes(), Some("text/plain; charset=utf-8"));
    assert_eq!(told(&by_type), "text: https://a.test/1 - - -");
    let by_name = read_sitemap("https://a.test/sitemap.txt", prose.as_bytes(), None);
    assert_eq!(told(&by_name), "text: https://a.test/1 - - -");
    // Against the content no hint helps.
    let wrong = read_sitemap("https://a.test/sitemap.txt", PLAIN.as_bytes(), Some("text/plain"));
    assert_eq!(told(&wrong), PLAIN_TOLD);
}

#[test]
fn what_is_no_sitemap_says_what_it_is() {
    for (body, what) in [
        ("", "empty"),
        (" \n ", "empty"),
        ("<!doctype html><html><body>Not found</body></html>", "HTML"),
        ("<div>Not found</div>", "HTML"),
        ("<opml><body/></opml>", "opml"),
        ("{\"a\":1}", "JSON"),
        ("just some words", "neither"),
        ("\u{1}\u{2}", "neither"),
    ] {
        let sitemap = read(body);
        assert_eq!((sitemap.kind, sitemap.entries.len()), (None, 0), "{body}");
        assert!(sitemap.error.as_ref().unwrap().contains(what), "{body}: {:?}", sitemap.error);
    }
}

#[test]
fn wrong_values_are_left_out_and_said() {
    let errors = check(
        "<urlset><url><loc>https://a.test/1</loc><lastmod>soon</lastmod><changefreq>fortnightly\
         </changefreq><priority>high</priority></url>\
         <url><loc>https://a.test/2</loc><lastmod/><changefreq> DAILY </changefreq>\
         <priority>7</priority></url><url><loc>https://a.test/3</loc><priority>-1</priority></url>\
         <url><loc>https://a.test/4</loc><priority>0,5</priority></url>\
         <url><loc>mailto:a@a.test</loc></url><url><lastmod>2024</lastmod></url><url/>\
         </urlset>",
        "urlset: https://a.test/1 - - -; https://a.test/2 - daily 1; https://a.test/3 - - 0; \
         https://a.test/4 - - 0.5",
    );
    assert_eq!(
        errors,
        [
            "entry 1: lastmod `soon` is not understood",
            "entry 1: changefreq `fortnightly` is not understood",
            "entry 1: priority `high` is not understood",
            "entry 5: loc `mailto:a@a.test` is no URL that can be visited",
            "entry 6: no loc",
            "entry 7: no loc",
        ]
    );
}

#[test]
fn dates_of_every_form_come_out_alike() {
    let dates = [
        "2024-01-05T10:11:12Z",
        "Fri, 05 Jan 2024 10:11:12 GMT",
        "1704449472",
        "2024-1-5 10:11:12",
    ];
    for date in dates {
        let body = format!(
            "<urlset><url><loc>https://a.test/</loc><lastmod>{date}</lastmod></url></urlset>"
        );
        check_clean(body, "urlset: https://a.test/ 2024-01-05T10:11:12Z - -");
    }
}

#[test]
fn a_list_without_its_beginning_is_still_one() {
    check("</x><url><loc>https://a.test/1</loc></url></urlset>", "urlset: https://a.test/1 - - -");
    check("<sitemap><loc>https://a.test/1</loc></sitemap>", "index: https://a.test/1 - - -");
}

#[test]
fn rss_of_every_age_is_a_sitemap() {
    check_clean(
        r#"<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel><title>T</title>
           <link>https://a.test/</link><atom:link rel="self" href="https://a.test/feed"/>
           <image><url>x</url><link>https://a.test/img</link></image>
           <item><title>One &amp; <![CDATA[two]]></title><link>https://a.test/1</link>
             <media:content url="m"><media:title>no</media:title></media:content>
             <description><p>broken <br> <link>no</link></description>
             <pubDate>Fri, 05 Jan 2024 10:11:12 +0100</pubDate></item>
           <item><guid>https://a.test/2</guid><dc:date>2024-01-05</dc:date></item>
           <item><guid isPermaLink="false">https://a.test/no</guid><atom:link href="/3"/></item>
           </channel></rss>"#,
        "rss: https://a.test/1 2024-01-05T10:11:12+01:00 - -; https://a.test/2 2024-01-05 - -; \
         https://a.test/3 - - -",
    );
    check_clean(
        r#"<rdf:RDF xmlns:rdf="r" xmlns="http://purl.org/rss/1.0/"><channel rdf:about="x"/>
           <item rdf:about="https://a.test/1"><title>t</title></item></rdf:RDF>"#,
        "rss: https://a.test/1 - - -",
    );
}

#[test]
fn atom_is_a_sitemap() {
    check_clean(
        r#"<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://b.test/x/">
           <title>T</title><link href="https://a.test/"/><updated>2020-01-01T00:00:00Z</updated>
           <entry><title type="html">&lt;b&gt;One</title><id>tag:1</id>
             <link rel="self" href="https://a.test/self"/><link rel="alternate" href="1?a=1&amp;b=2"/>
             <published>2023-01-01T00:00:00Z</published><updated>2024-01-05T10:11:12.5Z</updated>
             <source><title>no</title><link href="https://a.test/no"/></source>
             <content type="xhtml"><div><link href="https://a.test/no"/></div></content></entry>
           <entry xml:base="/y/"><link href="2"/></entry>
           <entry><id>https://a.test/3</id></entry></feed>"#,
        "atom: https://b.test/x/1?a=1&b=2 2024-01-05T10:11:12.5Z - -; https://b.test/y/2 - - -; \
         https://a.test/3 - - -",
    );
}

#[test]
fn a_json_feed_is_no_sitemap_but_is_read() {
    let sitemap = read(
        r#"{"version":"https://jsonfeed.org/version/1.1","items":[
           {"id":"1","url":"/1","title":"t","date_published":"2024-01-05T10:11:12Z"},
           {"id":"https://a.test/2"}]}"#,
    );
    assert_eq!(sitemap.kind, None);
    assert!(sitemap.error.as_ref().unwrap().contains("JSON feed"));
    assert_eq!(
        told(&sitemap),
        "none: https://a.test/1 2024-01-05T10:11:12Z - -; https://a.test/2 - - -"
    );
}
