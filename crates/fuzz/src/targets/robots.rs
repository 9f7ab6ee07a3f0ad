//! Any robots.txt, any path: robots.
//!
//! An input is a file, or paths, one a line, before it. Beside those, every value in the file is
//! judged as a path: that is what its rules are about.
//!
//! Holds: memory is linear in the file; a byte order mark and the kind of line ends change nothing;
//! the line that decided is a line of the file; a path and a URL with that path are judged alike;
//! `/robots.txt` is always allowed.

use std::borrow::Cow;

use robots::{Directives, Group, Rel, Robots, product_token};

use crate::{Shape, Target, parts};

pub const TARGET: Target =
    Target { name: "robots", words: WORDS, seeds: Vec::new, check, inputs: 10_000 };

const WORDS: &[&[u8]] = &[
    b"User-agent: *",
    b"User-agent: lycosa",
    b"User-agent: a, lycosa, *",
    b"user agent",
    b"Disallow:",
    b"Disallow: /",
    b"disalow /",
    b"Allow: ",
    b"Allow: /index.html",
    b"Crawl-delay: 1.5",
    b"Sitemap: https://a.test/s.xml",
    b"Noindex: /",
    b"/*",
    b"*$",
    b"$",
    b"#",
    b"%2F",
    b"%2a",
    b"%24",
    b"%",
    b"?a=b&c=d",
    b"?u=https%3A%2F%2Fb",
    b"?u=https://b",
    b"/robots.txt",
    b"\r",
    b"\r\n",
    b"\n\r",
    b"\xEF\xBB\xBF",
    b"\xFF\xFE",
    b"\xFE\xFF",
    "ツ".as_bytes(),
    b"\n----\n",
    b"Mozilla/5.0 (compatible; lycosa/1; +http://a)",
    b"noindex, nofollow",
    b"lycosa: none",
    b"max-snippet: 0",
    b"unavailable_after: 25 Jun 2010 15:00:00 PST",
];

/// Paths of one input that are judged; each is judged by several readings of the file.
const PATHS_MAX: usize = 12;

fn check(input: &[u8]) -> Shape {
    let (given, file) = parts(input);
    let paths = paths(given, file);
    let mut shape = Shape::default();
    let read = Robots::parse(file);
    shape.add_size(read.memory_bytes());
    shape.add_size(read.sitemaps().count());
    assert!(read.memory_bytes() <= 1024 + 20 * file.len(), "{} kept", read.memory_bytes());

    let agents = ["lycosa", "foobot/2.1 (+http://a.test)", paths[0].as_ref()];
    for agent in agents {
        let group = read.group(agent);
        check_group(&group, file, &paths, &mut shape);
        for (what, twin) in twins(file) {
            let twin = Robots::parse(&twin);
            assert_same(what, &group, &twin.group(agent), &paths);
            assert!(twin.sitemaps().eq(read.sitemaps()), "{what}: other sitemaps");
        }
    }
    check_cut(file, &paths);
    check_directives(given, file, &mut shape);
    shape
}

/// What is asked, never nothing.
fn paths<'a>(given: &'a [u8], file: &'a [u8]) -> Vec<Cow<'a, str>> {
    let values = lines(file).filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some(line[colon + 1..].trim_ascii())
    });
    let lines = lines(given).chain(values).filter(|line| !line.is_empty());
    let mut paths: Vec<_> = lines.take(PATHS_MAX).map(String::from_utf8_lossy).collect();
    paths.push("/".into());
    paths
}

/// Lines, whichever of the three ends they have.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let Some(end) = end else {
            rest = None;
            return Some(text);
        };
        let mark = if text[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = Some(&text[end + mark..]);
        Some(&text[..end])
    })
}

fn check_group(group: &Group, file: &[u8], paths: &[Cow<'_, str>], shape: &mut Shape) {
    // Two bytes become up to three when a file in UTF-16 is bridged.
    let lines_max = lines(file).count() + file.len();
    assert!(group.memory_bytes() <= 1024 + 20 * file.len(), "{} kept", group.memory_bytes());
    if let Some(delay) = group.crawl_delay() {
        assert!((0.0..=robots::CRAWL_DELAY_MAX).contains(&delay), "{delay}");
        shape.add(1);
    }
    assert!(group.judge("/robots.txt").allowed && group.judge("http://a.test/robots.txt").allowed);
    for path in paths {
        let verdict = group.judge(path);
        shape.add(u64::from(verdict.allowed));
        if group.allows_everything() {
            assert!(verdict.allowed, "{path:?}");
        }
        match verdict.rule {
            None => assert!(verdict.allowed, "{path:?} forbidden by nobody"),
            Some(rule) => {
                let line = rule.line as usize;
                assert!((1..=lines_max).contains(&line) && !rule.text.is_empty(), "{rule:?}");
                let allow = rule.text.trim_start().as_bytes()[0].eq_ignore_ascii_case(&b'a');
                assert_eq!(allow, verdict.allowed, "{path:?} by {rule:?}");
            }
        }
        if path.starts_with('/') {
            let whole = format!("http://a.test{path}");
            assert_eq!(group.judge(&whole), verdict, "{path:?} and {whole:?}");
        }
    }
}

/// The same file, written in another way.
fn twins(file: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    // In UTF-16 neither a line end nor a mark is a byte, and one mark is taken off, not two.
    if matches!(file.first(), Some(0xEF | 0xFE | 0xFF)) {
        return Vec::new();
    }
    let joined = |end: &[u8]| lines(file).collect::<Vec<_>>().join(end);
    vec![
        ("LF", joined(b"\n")),
        ("CRLF", joined(b"\r\n")),
        ("CR", joined(b"\r")),
        ("a byte order mark", [b"\xEF\xBB\xBF", file].concat()),
    ]
}

fn assert_same(what: &str, one: &Group, other: &Group, paths: &[Cow<'_, str>]) {
    assert_eq!(one.crawl_delay(), other.crawl_delay(), "{what}");
    assert_eq!(one.allows_everything(), other.allows_everything(), "{what}");
    for path in paths {
        assert_eq!(one.judge(path), other.judge(path), "{what}: {path:?}");
    }
}

/// A file that is cut says what its whole lines say.
fn check_cut(file: &[u8], paths: &[Cow<'_, str>]) {
    if matches!(file.first(), Some(0xEF | 0xFE | 0xFF)) {
        return;
    }
    for cut in [file.len() / 2, file.len() * 3 / 4] {
        let group = Robots::parse_limited(file, cut).group("lycosa");
        // Within a line of that length the cut may lie behind all that counts.
        if lines(file).any(|line| line.len() >= robots::LINE_BYTES_MAX) {
            continue;
        }
        let end = match file.get(cut) {
            None | Some(b'\r' | b'\n') => cut,
            Some(_) => {
                let before = file[..cut].iter().rposition(|byte| matches!(byte, b'\r' | b'\n'));
                before.map_or(0, |end| end + 1)
            }
        };
        assert_same("cut", &group, &Robots::parse(&file[..end]).group("lycosa"), paths);
    }
}

/// Lists of rules for a page are read by the same crate.
fn check_directives(given: &[u8], file: &[u8], shape: &mut Shape) {
    let found = Directives::from_headers(lines(given), "lycosa");
    let text = String::from_utf8_lossy(file);
    let mut all = found.clone();
    all.add_meta("robots", &text, "lycosa");
    assert!(all.noindex >= found.noindex && all.nofollow >= found.nofollow, "a rule was lost");
    let mut twice = all.clone();
    twice.add(&all);
    assert_eq!(twice, all, "the same rules again are other rules");
    shape.add(u64::from(all.noindex) | u64::from(all.nofollow) << 1);
    shape.add(u64::from(Rel::parse(&text).disowns()));
    let token = product_token(&text);
    assert!(token.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_-".contains(&byte)));
    assert_eq!(product_token(token), token, "the token of a token");
}
