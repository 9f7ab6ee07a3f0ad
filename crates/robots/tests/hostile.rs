//! Can a file make us pay more than its size?
//!
//! Counted in bytes kept, not in time. The steps of the search are counted beside it, in the unit
//! tests of `group`.

use lycosa_robots::{BYTES_MAX, Robots};

/// A file of `line(i)` after a header, as long as files may be.
fn file(line: impl Fn(usize) -> String) -> String {
    let mut text = "User-agent: *\n".to_owned();
    for number in 0.. {
        let line = line(number);
        if text.len() + line.len() >= BYTES_MAX {
            break;
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Memory is linear: a short rule costs its struct, a long one its text and up to four patterns.
fn check(name: &str, text: &[u8]) {
    let robots = Robots::parse(text);
    let group = robots.group("foobot");
    let most = 1024 + 20 * text.len().min(BYTES_MAX);
    assert!(robots.memory_bytes() <= most, "{name}: {} kept", robots.memory_bytes());
    assert!(group.memory_bytes() <= most, "{name}: {} kept", group.memory_bytes());
    group.judge(&format!("https://a.test/{}", "a".repeat(2000)));
}

#[test]
fn no_file_costs_more_memory_than_a_small_multiple_of_its_size() {
    let size = BYTES_MAX;
    for (name, text) in [
        ("nothing but NULs", vec![0; size]),
        ("one line of letters", vec![b'a'; size]),
        ("one line of stars", vec![b'*'; size]),
        ("line ends", vec![b'\n'; size]),
        ("colons", vec![b':'; size]),
        ("high bytes", vec![0xFF; size]),
        ("the shortest rules", file(|_| "allow:*".to_owned()).into()),
        ("the shortest rules with spellings", file(|_| "allow:/?:%2F".to_owned()).into()),
        ("index pages", file(|_| "allow:/index.htm".to_owned()).into()),
        ("many groups", file(|n| format!("user-agent:a{n}\nallow:/")).into()),
        ("many names", file(|_| format!("user-agent:{}", "*,".repeat(8000))).into()),
        ("many sitemaps", file(|_| "sitemap:x".to_owned()).into()),
        ("long queries", file(|_| format!("allow:/?{}", ":".repeat(16_000))).into()),
        ("long katakana", file(|_| format!("allow:/?{}", "ツ".repeat(5_000))).into()),
    ] {
        check(name, &text);
    }
    let bytes = [&b"user-agent:*\nallow:/"[..], &vec![0xFF; size]].concat();
    check("a rule of bytes that are no text", &bytes);
}

#[test]
fn an_ordinary_group_takes_about_a_kilobyte() {
    let rules: String = (0..20).map(|n| format!("Disallow: /section/{n}/private\n")).collect();
    let group = Robots::parse(format!("User-agent: *\n{rules}").as_bytes()).group("foobot");
    assert!(group.memory_bytes() < 1300, "{}", group.memory_bytes());
}

#[test]
fn a_file_beyond_any_limit_does_not_grow_what_is_kept() {
    let text = file(|n| format!("Disallow: /{n}"));
    let twice = text.repeat(2);
    let (once, cut) = (Robots::parse(text.as_bytes()), Robots::parse(twice.as_bytes()));
    assert!(cut.memory_bytes() <= once.memory_bytes() + 100);
}
