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
    for words in
        [&["rank", "crawl", "words", "--flag"][..], &["traps", "crawl"], &["serve", "crawl"]]
    {
        run(folder.path(), words).exits(4).says("not available in this version");
    }
}

#[test]
fn a_pdf_is_read_by_the_same_tool() {
    let folder = tempfile::tempdir().unwrap();
    // One page, "Lamps: https://b.test/x", entitled "On lamps".
    let pdf = "JVBERi0xLjQKMSAwIG9iajw8L1R5cGUvUGFnZS9Db250ZW50cyAyIDAgUi9SZXNvdXJjZXM8PC9Gb250PDwvRjw8L0\
        VuY29kaW5nL1dpbkFuc2lFbmNvZGluZz4+Pj4+Pj4+ZW5kb2JqIDIgMCBvYmo8PD4+c3RyZWFtCkJUIC9GIDEyIFRm\
        IChMYW1wczogaHR0cHM6Ly9iLnRlc3QveCkgVGogRVQKZW5kc3RyZWFtIGVuZG9iaiB0cmFpbGVyPDwvSW5mbzw8L1\
        RpdGxlKE9uIGxhbXBzKT4+Pj4=";
    for content_type in [Some("application/pdf"), None] {
        let asked = serde_json::json!({
            "url": "https://a.test/lamps.pdf", "html_base64": pdf, "content_type": content_type
        });
        let ran = feed(folder.path(), &["tool", "extract"], &format!("{asked}\n")).exits(0);
        let read: serde_json::Value = serde_json::from_str(ran.out.trim()).unwrap();
        assert_eq!(read["title"], "On lamps");
        assert_eq!(read["text"], "Lamps: https://b.test/x");
        assert_eq!(read["links"][0]["url"], "https://b.test/x");
        assert_eq!(read["structured_data"][0]["numberOfPages"], 1);
    }
}

#[test]
fn a_page_is_read_with_every_key_of_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let html = "<!doctype html><html lang=en><head><title>Lamps at night | The Site</title>\
        <meta name=description content='About lamps'><meta name=robots content=noarchive>\
        <link rel=canonical href=/lamps><meta property=article:published_time content=2024-05-01>\
        <meta name=author content='Ann Ball'></head><body><nav><a href=/>Home</a> <a href=/b>Shop</a></nav>\
        <main><article><h1>Lamps at night</h1><p>In the evening the lamps along the river are lit one \
        after the other, and whoever walks there sees how the water takes up their light.</p>\
        <h2>How they burn</h2><p>They burn <a href='c#x' rel='nofollow ugc'>oil</a>, as they did a \
        hundred years ago, because nobody has found a light that is as mild and as cheap to keep.</p>\
        <ul><li>The wick is cut every morning, before the sun is up.</li><li>The glass is wiped with \
        paper, never with cloth, because cloth leaves threads behind.</li></ul></article></main>\
        <footer><p>Copyright The Site. All rights reserved.</p></footer></body></html>";
    let input = format!(
        "{}\nnonsense\n{}\n",
        serde_json::json!({"id": 1, "url": "https://a.test/2024/05/lamps-at-night", "html": html}),
        serde_json::json!({"id": 2, "url": "https://a.test/", "html_base64": "PHA+aGk="}),
    );
    let ran = feed(folder.path(), &["tool", "extract"], &input).exits(0);
    let lines: Vec<serde_json::Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[1]["error"].is_string());
    assert_eq!(lines[2]["id"], 2);
    let page = &lines[0];
    for (key, expected) in [
        ("id", serde_json::json!(1)),
        ("title", "Lamps at night".into()),
        ("description", "About lamps".into()),
        ("author", "Ann Ball".into()),
        ("published", "2024-05-01".into()),
        ("language", "en".into()),
        ("encoding", "UTF-8".into()),
        ("page_type", "article".into()),
        ("canonical", "https://a.test/lamps".into()),
        ("robots", serde_json::json!({"noindex": false, "nofollow": false, "noarchive": true})),
    ] {
        assert_eq!(page[key], expected, "{key}");
    }
    let links = page["links"].as_array().unwrap();
    assert_eq!(
        links[2],
        serde_json::json!({
            "url": "https://a.test/2024/05/c#x", "text": "oil", "rel": "nofollow ugc", "nofollow": true
        })
    );
    let all = page["outlinks"].as_array().unwrap();
    let oil = all.iter().find(|link| link["text"] == "oil").unwrap();
    assert_eq!((&oil["kind"], &oil["position"]), (&"anchor".into(), &"content".into()));
    let text = page["text"].as_str().unwrap();
    assert!(text.contains("takes up their light.\n\nHow they burn\n\nThey burn oil"), "{text}");
    assert!(!text.contains("rights reserved") && !text.contains("Shop"), "{text}");
    let markdown = page["markdown"].as_str().unwrap();
    assert!(markdown.contains("## How they burn\n\nThey burn [oil](https://a.test/2024/05/c#x)"));
    assert!(markdown.contains("- The wick"), "{markdown}");
    assert!(page["word_count"].as_u64().unwrap() > 60);
    let keys = page.as_object().unwrap().len();
    assert_eq!(keys, 23, "the keys of the contract, the id, and eight more");
    assert!(page["structured_data"].is_array());
    assert_eq!(
        page["headings"],
        serde_json::json!([
            {"level": 1, "text": "Lamps at night"}, {"level": 2, "text": "How they burn"}
        ])
    );
    for key in ["hreflang", "images"] {
        assert!(page[key].is_array(), "{key}");
    }
    for key in ["modified", "site_name", "favicon"] {
        assert!(page.get(key).is_some(), "{key}");
    }
}
