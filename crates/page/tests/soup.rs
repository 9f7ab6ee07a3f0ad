//! Any bytes are read, quickly, and as another parser reads them.

use std::time::{Duration, Instant};

use lol_html::{HtmlRewriter, Settings, element};
use lycosa_page::{Document, Input, Limits, LinkKind, read};
use proptest::prelude::*;

fn page(html: &[u8]) -> Document {
    let input = Input::new("https://a.test/dir/page", html);
    read(Input { content_type: Some("text/html; charset=utf-8"), ..input })
}

/// What holds for every document, whatever it was read from.
fn assert_bounded(document: &Document, limits: &Limits) {
    assert!(document.links().len() <= limits.links_max);
    assert!(document.title.as_ref().is_none_or(|title| title.len() <= limits.title_bytes_max));
    for link in document.links() {
        assert!(link.href.len() <= limits.href_bytes_max);
        assert!(link.text.len() <= limits.text_bytes_max);
        if let Some(url) = document.base().and_then(|base| link.resolve(base)) {
            assert!(matches!(url.scheme(), "http" | "https"));
        }
    }
}

/// Pieces on which the standard's tokenizer, ours and the oracle's must agree. Not among them is
/// what the oracle does differently by design (`noscript`, `template`) or only roughly (`svg`).
const PLAIN: [&str; 52] = [
    "<a href=@>",
    "<A HREF='@'>",
    "<a href=\"@\" href=no>",
    "<a\nhref\n=\n@\n>",
    "<a/href=@>",
    "<a title='>' href=@>",
    "<a x\"y href=@>",
    "<a href='@'x",
    "<a href=\"@",
    "<a href=@",
    "</a>",
    "<p>",
    "</p>",
    "<div>",
    "</div>",
    "<table>",
    "<td>",
    "<title>",
    "</title>",
    "<style>",
    "</style>",
    "<script>",
    "</script>",
    "</script ",
    "<script",
    "<!--<script>",
    "<textarea>",
    "</textarea>",
    "<xmp>",
    "</xmp>",
    "<iframe>",
    "</iframe>",
    "<plaintext>",
    "<!--",
    "-->",
    "--!>",
    "<!-->",
    "<!--->",
    "<!doctype x>",
    "<![CDATA[",
    "]]>",
    "<?x ?>",
    "</>",
    "</ x>",
    "'",
    "\"",
    ">",
    "<",
    "/",
    "=",
    "-",
    "text &amp; ",
];

/// Pieces that lead the tokenizer astray.
const WILD: [&str; 24] = [
    "<svg>",
    "</svg>",
    "<svg/>",
    "<math>",
    "</math>",
    "<mi>",
    "<desc>",
    "</desc>",
    "<foreignObject>",
    "<noscript>",
    "</noscript>",
    "<template>",
    "</template>",
    "<base href=@>",
    "<meta http-equiv=refresh content='1;url=@'>",
    "<img srcset='@ 1x, @'>",
    "<link rel=icon href=@>",
    "<meta name=robots content=noindex>",
    "<html lang=x>",
    "</head>",
    "\0",
    "\u{feff}",
    "ä",
    "&#x",
];

/// A page out of such pieces; each `@` becomes a number of its own.
fn soup(pieces: Vec<&'static str>) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(pieces), 0..40).prop_map(|pieces| {
        let numbered = |(at, piece): (usize, &str)| piece.replace('@', &format!("u{at}"));
        pieces.iter().copied().enumerate().map(numbered).collect()
    })
}

fn anchors(document: &Document) -> Vec<&str> {
    let anchors = document.links().filter(|link| link.kind == LinkKind::Anchor);
    anchors.map(|link| link.href).collect()
}

fn anchors_by_oracle(html: &str) -> Vec<String> {
    let mut hrefs = Vec::new();
    let settings = Settings::new().with_strict(false).append_element_content_handler(element!(
        "a[href]",
        |element| {
            hrefs.extend(element.get_attribute("href"));
            Ok(())
        }
    ));
    let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
    rewriter.write(html.as_bytes()).expect("no limit is set");
    rewriter.end().expect("no limit is set");
    hrefs
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_oracle_finds_the_same_anchors(html in soup(PLAIN.to_vec())) {
        let cleaned: Vec<String> = anchors_by_oracle(&html)
            .iter()
            .map(|href| href.trim().replace(['\n'], "").replace("&amp;", "&"))
            .collect();
        let document = page(html.as_bytes());
        prop_assert_eq!(anchors(&document), cleaned);
    }

    #[test]
    fn a_cut_page_gives_the_first_links_of_the_whole(
        html in soup([&PLAIN[..], &WILD].concat()),
        cut in any::<prop::sample::Index>(),
    ) {
        let part = &html[..html.floor_char_boundary(cut.index(html.len() + 1))];
        let (whole, part) = (page(html.as_bytes()), page(part.as_bytes()));
        let hrefs = |document: &Document| -> Vec<String> {
            document.links().map(|link| link.href.to_owned()).collect()
        };
        prop_assert!(hrefs(&whole).starts_with(&hrefs(&part)));
        assert_bounded(&whole, &Limits::default());
    }

    #[test]
    fn any_bytes_of_any_type_are_read(
        body in prop::collection::vec(any::<u8>(), 0..300),
        content_type in prop::option::of(".{0,40}|text/html; charset=[a-z0-9-]{1,12}"),
        url in ".{0,20}|https?://[a-zA-Zü.0-9]{0,20}/",
        header in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let headers: [(&str, &[u8]); 2] = [("link", &header), ("x-robots-tag", &header)];
        let input = Input::new(&url, &body);
        let document =
            read(Input { content_type: content_type.as_deref(), headers: &headers, ..input });
        assert_bounded(&document, &Limits::default());
    }

    #[test]
    fn small_limits_hold(html in soup([&PLAIN[..], &WILD].concat()), max in 0usize..6) {
        let limits = Limits {
            body_bytes_max: 1000,
            links_max: max,
            href_bytes_max: max,
            text_bytes_max: max,
            title_bytes_max: max,
            lazy: true,
            state: true,
        };
        let document = read(Input { limits, ..Input::new("https://a.test/", html.as_bytes()) });
        assert_bounded(&document, &limits);
    }
}

/// The tests run unoptimised and beside others: far too long for one page, and still far below
/// what anything quadratic takes for two megabytes.
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn hostile_pages_take_no_longer_than_their_size_allows() {
    const MIB: usize = 1 << 20;
    let fill = |piece: &str| piece.repeat(2 * MIB / piece.len());
    let pages = [
        ("anchors", fill("<a href=x>")),
        ("anchors with text", fill("<a href=x>t</a>")),
        ("deep", format!("{}{}", "<div>".repeat(100_000), "</div>".repeat(100_000))),
        ("deep and stray", format!("{}{}", "<b>".repeat(100_000), "</i>".repeat(100_000))),
        ("drawings", fill("<svg>")),
        ("drawings with stray ends", format!("{}{}", fill("<svg><g>"), fill("</x>"))),
        ("drawings and html", fill("<svg><desc>")),
        ("templates", fill("<template>")),
        ("brackets", fill("<")),
        ("half tags", fill("<a ")),
        ("half end tags", fill("</")),
        ("half comments", fill("<!--")),
        ("bangs", fill("<!")),
        ("open quotes", fill("<a href=\"")),
        ("titles", fill("<title>")),
        ("almost ends", format!("<title>{}", fill("</titl"))),
        ("almost script ends", format!("<script>{}", fill("<!--<script></scrip"))),
        ("cdata", format!("<svg>{}", fill("<![CDATA["))),
        ("long href", format!("<a href={}>", fill("x"))),
        ("long data", format!("<img src='data:{}'>", fill("x"))),
        ("long srcset", format!("<img srcset='{}'>", fill("x 1x,"))),
        ("long commas", format!("<img srcset='{}'>", fill(","))),
        ("long rel", format!("<a href=x rel='{}'>", fill("a "))),
        ("long refresh", format!("<meta http-equiv=refresh content='1{}'>", fill(" "))),
        ("long robots", format!("<meta name=robots content='{}'>", fill("noindex,"))),
        ("many attributes", format!("<a {} href=x>", fill("a=b "))),
        ("ampersands", format!("<a href=x>{}", fill("&"))),
        ("references", format!("<a href='{}'>", fill("&lt;"))),
        ("long references", format!("<a href=x>&#{};", fill("0"))),
        ("white space", format!("<a href=x>{}", fill(" "))),
        ("one word", format!("<a href=x>{}", fill("ä"))),
        ("meta charsets", format!("\u{feff}<meta content='{}'>", fill("charset"))),
        ("images in an anchor", format!("<a href=x>{}", fill("<img alt=' '>"))),
    ];
    for (name, html) in pages {
        let start = Instant::now();
        let document = page(html.as_bytes());
        assert!(start.elapsed() < PATIENCE, "{name}");
        assert_bounded(&document, &Limits::default());
    }
}

#[test]
fn two_mebibytes_of_anchors_are_counted_to_the_last() {
    let html = "<a href=x>".repeat((2 << 20) / 10);
    let document = page(html.as_bytes());
    assert_eq!(document.links().len(), Limits::default().links_max);
    assert_eq!(document.links().len() as u64 + document.links_dropped(), (2 << 20) / 10);
}
