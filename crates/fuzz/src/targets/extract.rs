//! Any bytes as a page whose content is wanted: page.
//!
//! An input is a page, or its address before it.
//!
//! Holds: reading ends, and the same bytes give the same; the document is the one that the streaming
//! pass alone gives; a text has as many words as it says, and no more than the page has bytes;
//! text and markdown are there or not together; headings, pictures and other languages are bounded,
//! and every address among them can be visited.

use page::{Content, Input, extract, read};

use crate::{Shape, Target, parts};

pub const TARGET: Target =
    Target { name: "extract", words: WORDS, seeds: Vec::new, check, inputs: 3_000 };

const WORDS: &[&[u8]] = &[
    b"<main>",
    b"</main>",
    b"<article>",
    b"</article>",
    b"<nav>",
    b"</nav>",
    b"<footer>",
    b"<div class=post>",
    b"<div class='sidebar related'>",
    b"</div>",
    b"<p>",
    b"</p>",
    b"<h1>",
    b"<h2>",
    b"</h2>",
    b"<ul>",
    b"<li>",
    b"</ul>",
    b"<ol>",
    b"<table>",
    b"<tr>",
    b"<td>",
    b"<th>",
    b"</table>",
    b"<pre>",
    b"</pre>",
    b"<code>",
    b"<blockquote>",
    b"<br><br>",
    b"<b>",
    b"</b>",
    b"<a href=x>",
    b"</a>",
    b"<img src=i alt=y>",
    b"<img data-src=j>",
    b"<noscript>",
    b"<template>",
    b"<details><summary>",
    b"<dl><dt>",
    b"<dd>",
    b"<time datetime=2024-05-01>",
    b"<svg>",
    b"<math>",
    b"<form>",
    b"<button>",
    b"<select><option>",
    b"<textarea>",
    b"<script>",
    b"</script>",
    b"<script type=application/ld+json>{\"@type\":\"Article\",\"articleBody\":\"",
    b"\",\"author\":[{\"name\":\"Ann\"}],\"datePublished\":\"2024-05-01\"}</script>",
    b"<div itemscope itemtype=http://schema.org/Product>",
    b"<b itemprop=name>",
    b"<p vocab=http://schema.org/ typeof=Person property=name>",
    b"<meta property=og:title content=T>",
    b"<meta name=author content=Ann>",
    b"<meta name=description content='about lamps'>",
    b"<title>",
    b"</title>",
    b"<link rel=alternate hreflang=de href=/de>",
    b"<link rel=icon href=f.ico>",
    b"In the evening the lamps along the river are lit one after the other. ",
    b"Copyright 2024, all rights reserved ",
    b"Share this on ",
    b"$12.99 ",
    b"3 hours ago ",
    b"<!--",
    b"-->",
    b"<![CDATA[",
    b"]]>",
    b"&amp;",
    b"&nbsp;",
    b"&#x",
    b"\0",
    b"\xff",
    "ä東京".as_bytes(),
    b"https://a.test/forum/t/1",
    b"\n----\n",
];

fn check(input: &[u8]) -> Shape {
    let (head, body) = parts(input);
    let url = str::from_utf8(head).ok().filter(|url| !url.trim().is_empty());
    let input = Input {
        content_type: Some("text/html"),
        ..Input::new(url.unwrap_or("https://a.test/dir/page"), body)
    };
    let (document, content) = extract(input);
    let alone = read(input);
    assert!(document.links().eq(alone.links()), "the links are those of the streaming pass");
    assert_eq!((&document.title, document.kind), (&alone.title, alone.kind));
    let mut shape = Shape::default();
    let again = extract(input).1;
    match (&content, &again) {
        (Some(content), Some(again)) => check_content(content, again, body.len(), &mut shape),
        _ => assert!(content.is_none() && again.is_none(), "content is there or not"),
    }
    shape
}

fn check_content(content: &Content, again: &Content, bytes: usize, shape: &mut Shape) {
    assert_eq!((&content.text, &content.markdown), (&again.text, &again.markdown));
    assert_eq!((content.page_type, &content.metadata), (again.page_type, &again.metadata));
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let words = content.text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).count();
    assert_eq!(words, content.word_count as usize);
    assert!(words <= bytes, "{words} words in {bytes} bytes");
    assert_eq!(content.text.trim().is_empty(), content.markdown.trim().is_empty());
    let outline = &content.outline;
    assert!(outline.headings.len() <= bytes && outline.images.len() <= bytes);
    assert!(outline.headings.iter().all(|heading| (1..=6).contains(&heading.level)));
    let images = outline.images.iter().map(|image| &image.url);
    let others = outline.alternates.iter().map(|other| &other.url);
    for url in images.chain(others).chain(&outline.favicon) {
        assert!(url.starts_with("http://") || url.starts_with("https://"), "{url}");
    }
    shape.add(content.page_type as u64);
    shape.add_size(words);
    shape.add_size(outline.headings.len());
    shape.add_size(outline.images.len());
    shape.add_size(content.structured_data.len());
    let metadata = &content.metadata;
    let known = [&metadata.title, &metadata.author, &metadata.published, &metadata.modified];
    shape.add(known.iter().fold(0, |all, known| all << 1 | u64::from(known.is_some())));
    shape.add_text(content.language.as_deref().unwrap_or(""));
}
