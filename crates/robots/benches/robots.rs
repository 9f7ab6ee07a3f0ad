//! How long do parsing and judging take, on a normal day and on a bad one?
//!
//! `cargo bench -p lycosa-robots`. Goals: 1 µs to judge by an ordinary file, 2 ms by a hostile one
//! of 500 KiB. Each hostile family is the worst one for some way of doing it.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use lycosa_robots::{BYTES_MAX, Group, Robots};

/// About what a shop or a wiki has: 60 rules, a third of them with wildcards.
fn typical() -> String {
    let mut text =
        "# robots.txt\nUser-agent: badbot\nUser-agent: worsebot\nDisallow: /\n\n".to_owned();
    text.push_str("User-agent: *\nCrawl-delay: 1\nAllow: /assets/*.css$\nAllow: /assets/*.js$\n");
    for area in ["admin", "cart", "checkout", "account", "search", "api", "tmp", "login", "print"] {
        text.push_str(&format!("Disallow: /{area}/\nDisallow: /*/{area}?*sort=\n"));
        text.push_str(&format!("Disallow: /en/{area}/private\nDisallow: /de/{area}/private\n"));
        text.push_str(&format!("Allow: /{area}/public/\nDisallow: /*?{area}_id=\n"));
    }
    text.push_str("Sitemap: https://shop.test/sitemap.xml\n");
    text
}

/// A file of 500 KiB with those lines that do not match `url`, so that all of them are tried.
fn hostile(url: &str, line: impl Fn(u32) -> String) -> String {
    let mut text = "User-agent: *\n".to_owned();
    for number in 0.. {
        let line = line(number);
        if text.len() + line.len() >= BYTES_MAX {
            break;
        }
        let alone = Robots::parse(format!("User-agent: *\n{line}").as_bytes());
        if alone.group("lycosa").judge(url).rule.is_none() {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

/// Letters of a small alphabet that look random and are the same every time.
fn letters(seed: u32, len: usize, alphabet: &[u8]) -> String {
    let mut state = u64::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(alphabet[(state >> 33) as usize % alphabet.len()])
    };
    (0..len).map(|_| letter()).collect()
}

const MANY: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Name, file, URL. The URL starts with all letters, or the missing ones would give most rules away
/// at once.
fn families() -> Vec<(&'static str, String, String)> {
    type Line = fn(u32) -> String;
    let families: [(&str, &[u8], Line); 11] = [
        ("prefixes", b"abc", |n| format!("allow:/{n}")),
        ("short segments", MANY, |n| format!("allow:*{}", letters(n, 3, MANY))),
        ("binary segments", b"ab", |n| format!("allow:*{}", letters(n, 15, b"ab"))),
        ("all lengths", b"ab", |n| format!("allow:*{}", letters(n, 8 + n as usize % 57, b"ab"))),
        ("two segments", b"abc", |n| format!("allow:*ab*{}", letters(n, 4, MANY))),
        ("long stars", b"a", |_| format!("allow:/{}b", "*a".repeat(800))),
        ("short stars", b"a", |_| "allow:/*a*a*a*a*b".to_owned()),
        ("nearly", b"a", |n| format!("allow:*{}{n}", "a".repeat(40))),
        ("nearly, inside", b"a", |_| format!("allow:*{0}b{0}", "a".repeat(23))),
        ("swapped", b"a", |_| format!("allow:*{}QRSTUVWXYZ/aaaaa0123456789ABCDEF", "a".repeat(16))),
        ("anchored", b"a0123456789", |n| format!("allow:*a*{n}$")),
    ];
    let all = String::from_utf8_lossy(MANY);
    families
        .into_iter()
        .map(|(name, alphabet, line)| {
            let url = format!("https://a.test/{all}/{}", letters(7, 2000 - all.len(), alphabet));
            (name, hostile(&url, line), url)
        })
        .collect()
}

fn bench_parse(c: &mut Criterion) {
    let text = typical();
    c.bench_function("parse typical", |b| b.iter(|| Robots::parse(black_box(text.as_bytes()))));
    let robots = Robots::parse(text.as_bytes());
    c.bench_function("group typical", |b| b.iter(|| robots.group(black_box("lycosa"))));
    for (name, text, _) in families() {
        c.bench_function(&format!("parse hostile: {name}"), |b| {
            b.iter(|| Robots::parse(black_box(text.as_bytes())));
        });
        let robots = Robots::parse(text.as_bytes());
        c.bench_function(&format!("group hostile: {name}"), |b| {
            b.iter(|| robots.group(black_box("lycosa")));
        });
    }
}

fn judge(c: &mut Criterion, name: &str, group: &Group, url: &str) {
    c.bench_function(name, |b| b.iter(|| group.judge(black_box(url)).allowed));
}

fn bench_judge(c: &mut Criterion) {
    let group = Robots::parse(typical().as_bytes()).group("lycosa");
    judge(c, "judge typical: allowed", &group, "https://shop.test/en/shoes/red-4711.html?size=42");
    judge(c, "judge typical: refused", &group, "https://shop.test/en/cart?x=1&sort=price");
    judge(c, "judge typical: escapes", &group, "https://shop.test/caf%c3%a9/%7Euser?q=%2a");
    for (name, text, url) in families() {
        let group = Robots::parse(text.as_bytes()).group("lycosa");
        judge(c, &format!("judge hostile: {name}"), &group, &url);
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = bench_parse, bench_judge
}
criterion_main!(benches);
