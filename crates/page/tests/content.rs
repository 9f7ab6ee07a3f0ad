//! What `extract` makes of whole pages, good and hostile.

use std::time::{Duration, Instant};

use lycosa_page::{Content, Input, Limits, PageType, extract};
use proptest::prelude::*;

fn read(url: &str, html: &str) -> Content {
    let limits = Limits { body_bytes_max: 16 << 20, ..Limits::default() };
    let input =
        Input { content_type: Some("text/html"), limits, ..Input::new(url, html.as_bytes()) };
    extract(input).1.expect("HTML has content")
}

/// Sentences that are not all the same.
fn prose(seed: usize, sentences: usize) -> String {
    let subjects = ["The old bridge", "A neighbour", "Our ferry", "The night train", "Her garden"];
    let verbs = ["was repaired", "is remembered", "arrived late", "stood empty", "was painted"];
    let rest = ["after the long winter", "for the third time", "before anybody noticed"];
    let sentence = |n: usize| {
        let n = n * 7 + seed;
        let (a, b, c) = (subjects[n % 5], verbs[(n / 5) % 5], rest[(n / 3) % 3]);
        format!("{a} {b} {c}, which is why people still talk about it. ")
    };
    (0..sentences).map(sentence).collect()
}

const MENU: &str = "<header><nav class=menu><ul><li><a href=/>Home</a></li><li><a href=/news>News</a></li>\
    <li><a href=/about>About us</a></li><li><a href=/contact>Contact</a></li></ul></nav></header>";
const FOOT: &str = "<footer class=footer><p>Copyright 2026. All rights reserved.</p><ul>\
    <li><a href=/privacy>Privacy policy</a></li><li><a href=/terms>Terms of use</a></li></ul></footer>";

#[test]
fn an_article_is_kept_and_its_surroundings_are_not() {
    let html = format!(
        "<html lang=en><title>The bridge | Paper</title><body>{MENU}<article><h1>The bridge</h1>\
         <p>{}</p><h2>What came later</h2><p>{}</p><p>{}</p></article>\
         <aside class=related><h3>Related articles</h3><ul><li><a href=/1>Ten things to do</a></li>\
         <li><a href=/2>Why we moved</a></li></ul></aside>{FOOT}",
        prose(1, 6),
        prose(2, 5),
        prose(3, 4)
    );
    let content = read("https://paper.test/2024/05/the-bridge", &html);
    assert_eq!(content.page_type, PageType::Article);
    assert!(content.text.contains("What came later\n\n"), "{}", content.text);
    for paragraph in [prose(1, 6), prose(2, 5), prose(3, 4)] {
        assert!(content.text.contains(paragraph.trim()));
    }
    for boilerplate in ["Privacy policy", "Contact", "rights reserved", "Ten things"] {
        assert!(!content.text.contains(boilerplate), "{boilerplate}");
    }
    assert_eq!(content.metadata.title.as_deref(), Some("The bridge"));
    assert_eq!(content.language.as_deref(), Some("en"));
}

#[test]
fn a_forum_keeps_its_posts() {
    let post = |n: usize| {
        format!(
            "<div class=post id=post{n}><div class=user><a href=/u/{n}>user{n}</a></div>\
             <div class=message>{}</div><div class=tools><a href=#r>Reply</a></div></div>",
            prose(n, 4)
        )
    };
    let posts: String = (0..8).map(post).collect();
    let html = format!(
        "<html lang=en><title>Bridge closed? - Forum</title><body>{MENU}<div class=thread>\
         <h1>Bridge closed?</h1>{posts}</div>{FOOT}"
    );
    let content = read("https://forum.test/threads/bridge-closed.123/", &html);
    for n in 0..8 {
        assert!(content.text.contains(prose(n, 4).trim()), "post {n}: {}", content.text);
    }
    assert!(!content.text.contains("Privacy policy"));
}

#[test]
fn what_only_scripts_would_show_is_taken_from_structured_data() {
    let body = prose(4, 20);
    let html = format!(
        "<title>T</title><script type=application/ld+json>{}</script><body><div id=root></div>",
        serde_json::json!({"@type": "Article", "headline": "T", "articleBody": body})
    );
    assert!(read("https://a.test/x", &html).text.contains(body.trim()));
}

#[test]
fn an_empty_page_is_of_no_type() {
    let content = read("https://a.test/", "<html></html>");
    assert_eq!((content.page_type, content.text.as_str()), (PageType::Other, ""));
    assert_eq!(content.word_count, 0);
}

#[test]
fn pictures_have_no_text() {
    let input =
        Input { content_type: Some("image/png"), ..Input::new("https://a.test/", b"\x89PNG") };
    assert!(extract(input).1.is_none_or(|content| content.text.is_empty()));
}

/// Ten times what the worst of these takes in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn hostile_pages_are_read_in_time() {
    let traps = [
        "<div>".repeat(2_000_000),
        "<b a=1><b a=2><b a=3><p>".repeat(100_000),
        "<table><tr><td>x".repeat(100_000),
        "<ul><li>x".repeat(100_000),
        "</p>".repeat(1_000_000),
        "<a href=x>y".repeat(500_000),
        "<div class='".to_owned() + &"a b c ".repeat(500_000) + "'>x",
        "x&amp;".repeat(1_000_000),
        "<p itemprop=a itemscope>x".repeat(100_000),
        "<blockquote>".repeat(200) + &"<p>x".repeat(100_000),
        "<span>".repeat(250) + &"<span>x</span>".repeat(200_000),
        "<pre>".to_owned() + &"x\n".repeat(1_000_000),
        "<div class=a>x</div><div class=b>y</div>".repeat(50_000),
    ];
    for trap in &traps {
        let started = Instant::now();
        read("https://a.test/", trap);
        let start: String = trap.chars().take(20).collect();
        assert!(started.elapsed() < PATIENCE, "{start} took {:?}", started.elapsed());
    }
}

fn soup() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<p>",
        "</p>",
        "<div class='post body'>",
        "</div>",
        "<table>",
        "<tr>",
        "<td>",
        "</table>",
        "<ul>",
        "<li>",
        "</ul>",
        "<a href=x>",
        "</a>",
        "<b>",
        "</b>",
        "<h1>",
        "</h1>",
        "<pre>",
        "</pre>",
        "<br>",
        "<img alt=y src=z>",
        "<blockquote>",
        "</blockquote>",
        "<script>",
        "</script>",
        "<title>",
        "</title>",
        "<svg>",
        "</svg>",
        "<noscript>",
        "text ",
        "ä日本 ",
        "&amp;",
        "&#0;",
        "<!--",
        "-->",
        "<body>",
        "<html lang=de>",
        "<time datetime=2024-01-02>",
        "<meta property=og:title content=x>",
        "<code>",
        "</code>",
        "\u{feff}",
        "* _ ` [ | ",
        "<div itemscope itemtype=x>",
        "<i itemprop=y>",
        "<x-y>",
        "</x-y>",
        "<template>",
    ]);
    prop::collection::vec(piece, 0..200).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_soup_panics(html in soup()) {
        let content = read("https://a.test/", &html);
        prop_assert!(!content.text.contains('\0'));
    }
}
