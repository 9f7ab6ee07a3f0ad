//! Awkward pages, and the links that a browser without scripts would find in them.
//!
//! Each line is a page and its links as `kind:href(text)`, with a `!` behind those that the page
//! does not vouch for. The hrefs of anchors, areas, images, scripts and frames were compared with
//! the tree that html5ever builds.

use lycosa_page::{Document, Input, Limits, LinkKind, read};

fn page(html: &str) -> Document {
    read(Input {
        content_type: Some("text/html; charset=utf-8"),
        ..Input::new("https://a.test/dir/page", html.as_bytes())
    })
}

fn links(document: &Document) -> String {
    let shown = document.links().map(|link| {
        let kind = match link.kind {
            LinkKind::Anchor => "a".to_owned(),
            kind => format!("{kind:?}").to_lowercase(),
        };
        let text = if link.text.is_empty() { String::new() } else { format!("({})", link.text) };
        format!("{kind}:{}{text}{}", link.href, if link.nofollow { "!" } else { "" })
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    for (html, expected) in cases {
        assert_eq!(links(&page(html)), *expected, "{html:?}");
    }
}

#[test]
fn tags_are_found_however_they_are_written() {
    check(&[
        ("<a href=x>t</a>", "a:x(t)"),
        ("<A HREF=x>t</A>", "a:x(t)"),
        ("<a\nhref\n=\n\"x\"\n>t</a\n>", "a:x(t)"),
        ("<a\thref='x'>t", "a:x(t)"),
        ("<a\rhref=x\x0c>t</a>", "a:x(t)"),
        ("<a/href=x>t</a>", "a:x(t)"),
        ("<a href=x/>t</a>", "a:x/(t)"),
        ("<a href=\"x\"/>t</a>", "a:x(t)"),
        ("<a class=b href=x id=c>t</a>", "a:x(t)"),
        ("<a title='>' href=x>t</a>", "a:x(t)"),
        ("<a title=\"<a href=no>\" href=x>t</a>", "a:x(t)"),
        ("<a title=a\"b href=x>t</a>", "a:x(t)"),
        ("<a \"href=no\" href=x>t</a>", "a:x(t)"),
        ("<a href=x href=no>t</a>", "a:x(t)"),
        ("<a href=x HREF=no>t</a>", "a:x(t)"),
        ("<a href='x'href='no'>t</a>", "a:x(t)"),
        ("<a =href=no href=x>t</a>", "a:x(t)"),
        ("<a href>t</a>", "a:(t)"),
        ("<a href=>t</a>", "a:(t)"),
        ("<a href=\"\">t</a>", "a:(t)"),
        ("<a name=x>t</a>", ""),
        ("<abbr href=x>t</abbr>", ""),
        ("<a<b href=x>t</a>", ""),
        ("<a\0 href=x>t</a>", ""),
        ("< a href=x>t</a>", ""),
        ("a<b<a href=x>t</a>", ""),
        ("a< b<a href=x>t</a>", "a:x(t)"),
        ("<<a href=x>t</a>", "a:x(t)"),
        ("<p <a href=no>t</a><a href=x>u", "a:x(u)"),
    ]);
}

#[test]
fn a_href_is_cleaned_as_a_browser_does() {
    check(&[
        ("<a href='?a=1&amp;b=2'>", "a:?a=1&b=2"),
        ("<a href='?a=1&b=2&copy=3&copy;'>", "a:?a=1&b=2&copy=3©"),
        ("<a href=?q=&lt;&gt&#x41;&#65>", "a:?q=<>AA"),
        ("<a href='&#104;ttps:&#x2F;/b.test'>", "a:https://b.test"),
        ("<a href='  x y  '>", "a:x y"),
        ("<a href='\n/lo\n\tng\r\n'>", "a:/long"),
        ("<a href='&#32;x&NewLine;'>", "a:x"),
        ("<a href='x\0y'>", "a:x\u{fffd}y"),
        ("<a href='/ü?ö=ß'>", "a:/ü?ö=ß"),
        ("<a href=#top>", "a:#top"),
        ("<a href='javascript:go(&quot;x&quot;)'>", "a:javascript:go(\"x\")"),
        ("<a href='mailto:a@b.test'>", "a:mailto:a@b.test"),
        ("<a href='data:text/html,x'>", ""),
    ]);
}

#[test]
fn an_unfinished_page_gives_what_is_finished() {
    check(&[
        ("<a href=x>t</a><a href=no", "a:x(t)"),
        ("<a href=x>t</a><a href=\"no>u</a>", "a:x(t)"),
        ("<a href=x>t</a><a href='no", "a:x(t)"),
        ("<a href=x>t<", "a:x(t<)"),
        ("<a href=x>t</", "a:x(t)"),
        ("<a href=x>t</a", "a:x(t)"),
        ("<a href=x>t<!", "a:x(t)"),
        ("<a href=x>t<!-- ", "a:x(t)"),
        ("<a href=x>t<b", "a:x(t)"),
        ("<a href=x>t&am", "a:x(t&am)"),
        ("<title>T<a href=no>", ""),
        ("<", ""),
        ("", ""),
    ]);
}

#[test]
fn comments_hide_links_and_end_where_the_standard_says() {
    check(&[
        ("<!-- <a href=no> --><a href=x>", "a:x"),
        ("<!--><a href=x>-->", "a:x(-->)"),
        ("<!---><a href=x>-->", "a:x(-->)"),
        ("<!----><a href=x>", "a:x"),
        ("<!-- > <a href=no> -- > --><a href=x>", "a:x"),
        ("<!-- --!><a href=x>", "a:x"),
        ("<!--!><a href=no>--><a href=x>", "a:x"),
        ("<!-- <!-- --><a href=x> -->", "a:x(-->)"),
        ("<!-x <a href=no><a href=x>", "a:x"),
        ("<!a href=no><a href=x>", "a:x"),
        ("<?php echo '<a href=no>' ?><a href=x>", "a:x"),
        ("</ a href=no><a href=x>", "a:x"),
        ("</><a href=x>", "a:x"),
        ("<!doctype html '><a href=x>", "a:x"),
        ("<!--[if IE]><a href=no><![endif]--><a href=x>", "a:x"),
        ("<![if !IE]><a href=x><![endif]>", "a:x"),
        ("<![CDATA[<a href=no>]]><a href=x>", "a:x"),
    ]);
}

#[test]
fn text_that_is_no_markup_holds_no_links() {
    check(&[
        ("<script>'<a href=no>'</script><a href=x>", "a:x"),
        ("<SCRIPT>'<a href=no></scriptx>'</SCRIPT ><a href=x>", "a:x"),
        ("<script><!-- <script></script><a href=no> --></script><a href=x>", "a:x"),
        ("<script><!-- <script></script></script><a href=x>", "a:x"),
        ("<script><!--><a href=no></script><a href=x>", "a:x"),
        ("<script><!-- </script><a href=x> -->", "a:x(-->)"),
        ("<script/><a href=no></script><a href=x>", "a:x"),
        ("<style>a:after{content:'<a href=no>'}</style><a href=x>", "a:x"),
        ("<textarea><a href=no></textarea><a href=x>", "a:x"),
        ("<title><a href=no></title><a href=x>", "a:x"),
        ("<xmp><a href=no></xmp><a href=x>", "a:x"),
        ("<noembed><a href=no></noembed><a href=x>", "a:x"),
        ("<noframes><a href=no></noframes><a href=x>", "a:x"),
        ("<iframe src=y><a href=no></iframe><a href=x>", "frame:y a:x"),
        ("<a href=x>t</a><plaintext><a href=no></plaintext><a href=no>", "a:x(t)"),
        ("<textarea></title><a href=no>", ""),
    ]);
}

#[test]
fn links_count_wherever_else_they_stand() {
    check(&[
        ("<noscript><a href=x>t</a><img src=y></noscript>", "a:x(t) image:y"),
        ("<head><noscript><img src=y></noscript></head>", "image:y"),
        ("<table><a href=x>t</a><tr><td><a href=y>u</a></table>", "a:x(t) a:y(u)"),
        ("<table><tr><a href=x>t", "a:x(t)"),
        ("<select><option><a href=x>t</a></select>", "a:x(t)"),
        ("<button><a href=x>t</a></button>", "a:x(t)"),
        ("<p><a href=x><div>t</div></a>", "a:x(t)"),
        ("</body></html><a href=x>t</a>", "a:x(t)"),
        ("<a href=x>t</a>\0<a href=y>u", "a:x(t) a:y(u)"),
    ]);
}

#[test]
fn drawings_have_rules_of_their_own() {
    check(&[
        ("<svg><a href=x><text>t</text></a></svg>", "a:x(t)"),
        ("<svg><a xlink:href=x><text>t</text></a></svg>", "a:x(t)"),
        ("<svg><a xlink:href=no href=x></a></svg>", "a:x"),
        ("<svg><a href='x'/><text>no</text></svg>", "a:x"),
        ("<a xlink:href=no>t</a>", ""),
        ("<svg><style><a href=x></style></svg>", "a:x"),
        ("<svg><title><a href=x></title></svg>", "a:x"),
        ("<svg><![CDATA[<a href=no>]]></svg><a href=x>", "a:x"),
        ("<svg><title><![CDATA[<a href=no>]]></title></svg><a href=x>", "a:x"),
        ("<svg><p><![CDATA[<b><a href=x>]]>", "a:x(]]>)"),
        ("<svg/><script>'<a href=no>'</script>", ""),
        ("<svg><script>'<a href=x>'</script></svg>", "a:x(')"),
        ("<svg><foreignObject><style><a href=no></style></foreignObject></svg>", ""),
        ("<a href=x><svg></a><script>'<a href=no>'</script>", "a:x"),
        (
            "<svg><image href=x /><image xlink:href=y /><use href='s.svg#i'/><use href='#i'/></svg>",
            "image:x image:y image:s.svg#i",
        ),
        ("<svg><script href=x></script></svg><script src=y></script>", "script:x script:y"),
        ("<math><mi><a href=x>t</a></mi></math>", "a:x(t)"),
        ("<math><annotation-xml encoding=text/html><style><a href=no></style>", ""),
    ]);
}

#[test]
fn templates_are_inert_unless_they_are_shadow_roots() {
    check(&[
        ("<template><a href=no></template><a href=x>", "a:x"),
        ("<template><template></template><a href=no></template><a href=x>", "a:x"),
        ("<template><a href=no>", ""),
        ("</template><a href=x>", "a:x"),
        (
            "<div><template shadowrootmode=open><a href=x>t</a></template></div><a href=y>",
            "a:x(t) a:y",
        ),
        (
            "<template shadowrootmode=open><template><a href=no></template><a href=x></template>",
            "a:x",
        ),
        ("<a href=x>t<template>no</template>u</a>", "a:x(tu)"),
    ]);
}

#[test]
fn anchor_text_is_what_a_reader_sees() {
    check(&[
        ("<a href=x>  one\n <b>two</b>  three </a>", "a:x(one two three)"),
        ("<a href=x>o<b>n</b>e</a>", "a:x(one)"),
        ("<a href=x>R&amp;D&nbsp;&#8211; caf&eacute;</a>", "a:x(R&D – café)"),
        ("<a href=x>t<!-- no -->u<script>no</script><style>no</style></a>", "a:x(tu)"),
        ("<a href=x><img src=i alt=' the  logo '></a>", "a:x(the logo) image:i"),
        ("<a href=x><img src=i alt=no>t</a>", "a:x(t) image:i"),
        ("<a href=x><img src=i alt=''><img src=j alt=a&amp;b></a>", "a:x(a&b) image:i image:j"),
        ("<img src=i alt=no><a href=x></a>", "image:i a:x"),
        ("<a href=x>t<a href=y>u</a>no</a>", "a:x(t) a:y(u)"),
        ("<a href=x>t<a name=z>no</a>", "a:x(t)"),
        ("<a href=x>t</a>no<a href=y>u</a>no", "a:x(t) a:y(u)"),
        ("<a href=x><svg><title>Home</title></svg></a>", "a:x(Home)"),
        ("<svg><a href=x><![CDATA[a &amp; b]]></a></svg>", "a:x(a &amp; b)"),
    ]);
}

#[test]
fn all_that_a_page_needs_is_listed() {
    check(&[
        ("<link rel=stylesheet href=x><link rel='shortcut icon' href=y>", "stylesheet:x icon:y"),
        ("<link rel='alternate stylesheet' href=x>", "stylesheet:x"),
        ("<link rel=preload as=image href=x imagesrcset='y 1x, z 2x'>", "image:y image:z other:x"),
        ("<link href=no>", ""),
        ("<img src=x srcset='y 1x, z 2x'>", "image:x image:y image:z"),
        ("<img srcset='/a?b=1&amp;c=2, /d'>", "image:/a?b=1&c=2 image:/d"),
        ("<image src=x>", "image:x"),
        ("<picture><source srcset='x 1x'><img src=y></picture>", "image:x image:y"),
        ("<img src=''><img src='#no'><img src='data:image/gif;base64,R0'>", ""),
        ("<script src=x></script><script>no</script>", "script:x"),
        (
            "<video src=x poster=y><source src=z><track src=w></video>",
            "media:x image:y media:z media:w",
        ),
        ("<audio src=x></audio>", "media:x"),
        ("<embed src=x data=no><object data=y src=no></object>", "object:x object:y"),
        ("<input type=IMAGE src=x><input type=text src=no><input src=no>", "image:x"),
        ("<body background=x>", "image:x"),
        ("<frameset><frame src=x><frame src=y></frameset>", "frame:x frame:y"),
    ]);
}

#[test]
fn other_ways_to_point_are_known_by_their_kind() {
    check(&[
        ("<map><area href=x alt='the &amp; north'><area></map>", "area:x(the & north)"),
        (
            "<link rel=canonical href=x><link rel=next href=y><link rel=prev href=z>",
            "canonical:x next:y prev:z",
        ),
        ("<link rel=amphtml href=x><link rel=license href=y>", "amp:x other:y"),
        ("<link rel=alternate hreflang=de href=x>", "alternate:x"),
        ("<link rel=alternate type='application/rss+xml' href=x>", "feed:x"),
        ("<link rel=alternate type='application/json+oembed' href=x>", "other:x"),
        ("<meta http-equiv=refresh content='5; url=x'>", "refresh:x"),
        ("<META HTTP-EQUIV=Refresh CONTENT=\"0;URL='x?a&amp;b'\">", "refresh:x?a&b"),
        ("<meta http-equiv=refresh content=5>", ""),
        ("<meta name=refresh content='5; url=no'>", ""),
        ("<a href=x rel=nofollow>t</a>", "a:x(t)!"),
        ("<a href=x rel='noopener UGC'>t</a><a href=y rel=sponsored>", "a:x(t)! a:y!"),
        ("<a href=x rel='noopener'>t</a><area href=y rel=nofollow>", "a:x(t) area:y!"),
    ]);
}

#[test]
fn the_first_base_with_a_href_counts() {
    for (html, expected) in [
        ("", "https://a.test/dir/page"),
        ("<base target=x><base href=/b/><base href=/no/>", "https://a.test/b/"),
        ("<base href='//c.test/x/y'>", "https://c.test/x/y"),
        ("<p><base href=' /b/&#10;'>", "https://a.test/b/"),
        ("<base href='javascript:no'><base href=/no/>", "https://a.test/dir/page"),
        ("<base href='data:,no'>", "https://a.test/dir/page"),
        ("<base href='http://['>", "https://a.test/dir/page"),
        ("<template><base href=/no/></template>", "https://a.test/dir/page"),
        ("<svg><base href=/no/></svg>", "https://a.test/dir/page"),
    ] {
        assert_eq!(page(html).base().unwrap().as_str(), expected, "{html}");
    }
    assert!(read(Input::new("not a url", b"<a href=x>")).base().is_none());
}

#[test]
fn links_resolve_against_the_base_of_the_page() {
    let document = page("<a href=x><base href=/b/><a href=?q><a href=mailto:x>");
    let base = document.base().unwrap();
    let urls = document.links().map(|link| link.resolve(base).map(String::from));
    let expected = [Some("https://a.test/b/x"), Some("https://a.test/b/?q"), None];
    assert_eq!(urls.collect::<Vec<_>>(), expected.map(|url| url.map(str::to_owned)));
}

#[test]
fn what_is_too_much_is_counted() {
    let html = "<a href=x>t</a>".repeat(30) + &format!("<a href={}>", "y".repeat(100));
    let limits = Limits { links_max: 20, href_bytes_max: 50, ..Limits::default() };
    let document = read(Input { limits, ..Input::new("https://a.test/", html.as_bytes()) });
    assert_eq!((document.links().len(), document.links_dropped()), (20, 11));

    let limits = Limits { body_bytes_max: 17, ..Limits::default() };
    let document = read(Input { limits, ..Input::new("https://a.test/", html.as_bytes()) });
    assert!(document.cut);
    assert_eq!(document.links().len(), 1);
}

#[test]
fn the_refresh_header_counts_like_the_element() {
    let headers: &[(&str, &[u8])] = &[("Refresh", b"5; url=/header")];
    let body = b"<meta http-equiv=refresh content='9; url=/element'>";
    let document = read(Input { headers, ..Input::new("http://a.test/x", body) });
    let hrefs: Vec<_> = document.links().map(|link| link.href).collect();
    assert_eq!(hrefs, ["/element", "/header"]);
    assert_eq!(document.refresh(), Some((5, "/header")));
}

#[test]
fn a_query_is_written_in_the_pages_own_encoding() {
    let read = |content_type, body: &'static [u8]| {
        let input = Input::new("http://a.test/", body);
        read(Input { content_type: Some(content_type), ..input })
    };
    let latin = read("text/html; charset=iso-8859-1", b"<a href='?q=\xe9'>");
    assert_eq!(&*latin.encode_query("?q=\u{e9}"), b"?q=\xe9");
    let japanese = read("text/html; charset=shift_jis", b"<a href='?q=\x93\xfa'>");
    assert_eq!(&*japanese.encode_query("\u{65e5}"), b"\x93\xfa");
    for utf8 in ["text/html; charset=utf-16le", "text/html; charset=utf-8"] {
        assert_eq!(&*read(utf8, b"").encode_query("\u{e9}"), "\u{e9}".as_bytes());
    }
}

#[test]
fn in_xml_a_meta_element_says_nothing_of_the_encoding() {
    let body =
        b"<?xml version='1.0' encoding='utf-8'?><html><meta charset='koi8-r'/>\xc3\xa9</html>";
    let input = Input::new("http://a.test/", body);
    let xhtml = Some("application/xhtml+xml");
    let document = read(Input { content_type: xhtml, ..input });
    assert_eq!(document.charset.unwrap().name, "UTF-8");
    let document = read(Input { content_type: Some("text/html"), ..input });
    assert_eq!(document.charset.unwrap().name, "KOI8-R");
}
