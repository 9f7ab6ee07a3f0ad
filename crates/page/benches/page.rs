//! How fast is a page read?
//!
//! `cargo bench -p lycosa-page`. The page of 20 KB with 40 links is the one that the design counts
//! costs by; the goal is 60 µs for it. `lol_html` on the same page is the yardstick: it finds the
//! same elements and attributes, gathers anchor text, and keeps nothing.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lol_html::{HtmlRewriter, Settings, element, text};
use lycosa_page::{Input, read};

/// Forty teasers: headings, paragraphs, lists and a link each.
fn article() -> String {
    let mut page = head();
    for i in 0..40 {
        writeln!(
            page,
            "<div class=\"item\" id=\"i{i}\"><h2>Heading number {i}</h2><p class=\"text\">Lorem \
             ipsum dolor sit amet, <b>consectetur</b> adipiscing elit, sed do eiusmod tempor \
             incididunt ut labore et dolore magna aliqua. Ut enim ad minim <i>veniam</i>, quis \
             nostrud exercitation ullamco laboris nisi ut aliquip ex ea \
             commodo consequat duis aute irure.</p><ul><li><span>one</span>\
             </li><li><span>two</span></li></ul><a class=\"more\" \
             href=\"/path/to/page-{i}.html?x=1&amp;y=2\" title=\"t\">Read more about {i}</a>\
             </div>"
        )
        .expect("a String takes everything");
    }
    page + "</body></html>"
}

/// A table of numbers: more markup than text.
fn table() -> String {
    let mut page = head() + "<table class=\"stats\"><tbody>";
    for row in 0..120 {
        write!(page, "<tr class=\"r\"><th scope=\"row\">{row}</th>").expect("as above");
        for column in 0..6 {
            write!(page, "<td align=\"right\">{}</td>", row * column).expect("as above");
        }
        page += "</tr>\n";
    }
    page + "</tbody></table></body></html>"
}

/// A chapter of a book: more text than markup.
fn prose() -> String {
    let mut page = head();
    for chapter in 0..20 {
        writeln!(page, "<p>{}<a href=\"/note/{chapter}\">*</a></p>", "word and word ".repeat(70))
            .expect("as above");
    }
    page + "</body></html>"
}

fn head() -> String {
    "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>A page about &amp; \
     things</title><link rel=\"stylesheet\" href=\"/s.css\"><link rel=\"canonical\" \
     href=\"https://example.org/p\"><script>window.x = {a: 1 < 2};</script><script \
     src=\"/a.js\"></script><meta name=\"description\" content=\"foo bar\"><meta name=\"robots\" \
     content=\"index\"></head><body>"
        .to_owned()
}

fn ours(page: &str) -> usize {
    let input = Input::new("https://example.org/dir/page", page.as_bytes());
    read(Input { content_type: Some("text/html; charset=utf-8"), ..input }).links().len()
}

fn theirs(page: &str) -> usize {
    let mut hrefs = 0;
    let mut text_bytes = 0;
    let settings = Settings::new()
        .append_element_content_handler(element!(
            "a,area,base,body,embed,frame,html,iframe,image,img,input,link,meta,object,script,\
             source,template,title,audio,track,video",
            |element| {
                hrefs += usize::from(element.get_attribute("href").is_some());
                hrefs += usize::from(element.get_attribute("src").is_some());
                Ok(())
            }
        ))
        .append_element_content_handler(text!("a,title", |chunk| {
            text_bytes += chunk.as_str().len();
            Ok(())
        }));
    let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
    rewriter.write(page.as_bytes()).expect("no limit is reached");
    rewriter.end().expect("no limit is reached");
    black_box(text_bytes);
    hrefs
}

fn bench(criterion: &mut Criterion) {
    for (name, page) in [("article", article()), ("table", table()), ("prose", prose())] {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(page.len() as u64));
        group.bench_function("read", |bencher| bencher.iter(|| ours(black_box(&page))));
        group.bench_function("lol_html", |bencher| bencher.iter(|| theirs(black_box(&page))));
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = bench
}
criterion_main!(benches);
