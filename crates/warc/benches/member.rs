//! What does keeping a page cost, and how small does it get?
//!
//!     cargo bench -p lycosa-warc
//!
//! The page is made up but shaped like the web's: a template with classes and links, text in
//! words of natural frequency. Ratios are printed once at the start.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lycosa_warc::{
    Algorithm, Capture, Compressor, Level, Record, RecordId, TransferCoded, Visit, VisitIds,
    WarcDate, WarcFields, check, surt,
};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Thu, 05 Nov 2026 08:30:00 GMT\r\n\
    Content-Type: text/html; charset=utf-8\r\nContent-Length: 20000\r\nVary: Accept-Encoding\r\n\
    Cache-Control: max-age=600\r\nETag: \"5f8a-61c9b6a7d4f00\"\r\n\r\n";
const URL: &str = "https://www.example.org/news/2026/11/wolf-spiders-walk?page=2&ref=home";

fn capture() -> Capture<'static> {
    Capture {
        uri: URL,
        date: WarcDate::from_unix_seconds(1_793_867_400),
        warcinfo: Some(RecordId::from_bits(1)),
        ip: Some([192, 0, 2, 7].into()),
        protocols: &["http/1.1", "tls/1.3"],
    }
}

fn response(body: &[u8]) -> Record<'_> {
    Record::response(&capture(), RecordId::from_bits(2), HEAD, &[body])
        .build()
        .expect("nothing unsafe in it")
}

fn compress(level: u8, record: &Record<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    Compressor::new(Level::new(level).expect("a level")).member(record, &mut out);
    out
}

fn members(criterion: &mut Criterion) {
    let page = page(20_000);
    let gzipped = compress(6, &response(&page));
    for (name, body) in [("html", &page), ("gzipped", &gzipped)] {
        let record = response(body);
        let mut group = criterion.benchmark_group(format!("member/{name}"));
        group.throughput(Throughput::Bytes(record.size() as u64));
        for level in [1, 2, 3, 6, 9] {
            let ratio = record.size() as f64 / compress(level, &record).len() as f64;
            println!("{name} level {level}: {} bytes, ratio {ratio:.2}", record.size());
            let mut compressor = Compressor::new(Level::new(level).expect("a level"));
            let mut out = Vec::new();
            group.bench_function(format!("level {level}"), |bench| {
                bench.iter(|| {
                    out.clear();
                    compressor.member(black_box(&record), &mut out)
                });
            });
        }
    }
}

fn visits(criterion: &mut Criterion) {
    let page = page(20_000);
    let mut metadata = WarcFields::new();
    metadata.push("via", "https://www.example.org/news/").push("fetchTimeMs", "171");
    for n in 0..40 {
        metadata.push("outlink", &format!("https://www.example.org/news/2026/11/{n}"));
    }
    let visit = Visit {
        capture: capture(),
        ids: VisitIds::derive(1),
        request: b"GET /news/2026/11/wolf-spiders-walk?page=2&ref=home HTTP/1.1\r\n\
            Host: www.example.org\r\nUser-Agent: Mozilla/5.0 (compatible; lycosa/0.1)\r\n\
            Accept: */*\r\nAccept-Encoding: gzip\r\n\r\n",
        response_head: HEAD,
        response_body: &[&page],
        response_rest: None,
        earlier: None,
        truncated: None,
        payload_type: Some("text/html"),
        metadata: Some(&metadata),
        algorithm: Algorithm::Sha1,
        transfer_coded: TransferCoded::Omit,
    };
    let mut compressor = Compressor::new(Level::DEFAULT);
    let mut file = Vec::new();
    criterion.bench_function("visit of 20 KB, level 1", |bench| {
        bench.iter(|| {
            file.clear();
            compressor.visit(black_box(&visit), &mut file).map(|members| members.digest)
        });
    });
    criterion.bench_function("build a response of 20 KB", |bench| {
        bench.iter(|| response(black_box(&page)));
    });
    let plain: usize = 20_000;
    let mut group = criterion.benchmark_group("read");
    group.throughput(Throughput::Bytes(plain as u64));
    group.bench_function("check a visit", |bench| {
        bench.iter(|| check(std::io::Cursor::new(black_box(&file))).map(|report| report.records));
    });
    group.finish();
    criterion.bench_function("surt", |bench| bench.iter(|| surt(black_box(URL))));
}

/// A page of about this size.
fn page(size: usize) -> Vec<u8> {
    const WORDS: &str = "the of and to in a is that for it as was with be by on not he his but at \
        are this have from or had an which they you were her all she there would their we him been \
        has when who will more no if out so said what up its about into than them can only other \
        new some could time these two may then do first any my now such like our over man me even \
        most made after also did many before must through back years where much your way well down \
        should because each just those people how too little state good very make world still own \
        see men work long get here between both life being under never day same another know while \
        last might us great old year off come since against go came right used take three spider \
        garden water house morning government children system question program history interest";
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut seed = 41_u64;
    let mut chance = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 40).expect("24 bits") % below
    };
    let mut page = String::from(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Wolf spiders</title>\
         <link rel=\"stylesheet\" href=\"/assets/main-5f8a61c9.css\"><script src=\"/assets/app.js\" \
         defer></script></head><body class=\"page page--news\"><main class=\"content\">\n",
    );
    while page.len() < size {
        let (story, month, photo) = (chance(90_000), chance(12), chance(90_000));
        page.push_str(&format!(
            "<article class=\"card card--story js-track\" data-track=\"story-{story}\">\n  \
             <a class=\"card__link\" href=\"https://www.example.org/news/2026/{month:02}/{story}\">\n    \
             <picture class=\"card__media\"><source type=\"image/webp\" srcset=\"/img/{photo}-320.webp \
             320w, /img/{photo}-640.webp 640w\"><img class=\"card__image\" loading=\"lazy\" \
             src=\"/img/{photo}-320.jpg\" alt=\"\" width=\"320\" height=\"180\"></picture>\n    \
             <h3 class=\"card__title\">Story {story}</h3>\n  </a>\n  <p class=\"card__text\">"
        ));
        for _ in 0..15 + chance(30) {
            // The lesser of two draws leans towards the frequent words, as language does.
            let word = chance(words.len()).min(chance(words.len()));
            page.push_str(words[word]);
            page.push_str(if chance(14) == 0 { ". " } else { " " });
        }
        page.push_str(
            "</p>\n  <span class=\"card__meta\"><svg class=\"icon\" aria-hidden=\"true\"><use \
             href=\"#icon-clock\"></use></svg> 3 min read</span>\n</article>\n",
        );
    }
    page.truncate(size);
    page.into_bytes()
}

criterion_group!(benches, members, visits);
criterion_main!(benches);
