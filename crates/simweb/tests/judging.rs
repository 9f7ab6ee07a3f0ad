//! Each check must be able to fail: planted violations are found, good visitors are not accused.

#![expect(clippy::unwrap_used, reason = "a test that meets a surprise should fail")]

use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use lycosa_simweb::checks::{self, Violation};
use lycosa_simweb::{Entry, Expectation, Fixture, Journal, Oracle, Rules, Scope};
use types::Timestamp;

/// `from-to host path status connection`, times in seconds.
fn entries(text: &str) -> Vec<Entry> {
    let at = |secs: &str| Timestamp::from_millis((secs.parse::<f64>().unwrap() * 1_000.0) as u64);
    let mut entries: Vec<_> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let (from, to) = words[0].split_once('-').unwrap();
            let tls = words[1].starts_with("https://");
            let host = words[1].trim_start_matches("https://");
            Entry {
                arrived: at(from),
                ended: (!to.is_empty()).then(|| at(to)),
                host: host.into(),
                address: "127.0.1.1".parse().unwrap(),
                port: if tls { 443 } else { 80 },
                tls,
                path: words[2].into(),
                status: words[3].parse().unwrap(),
                body_bytes: 0,
                head_bytes: 0,
                in_flight: 1,
                user_agent: "lycosa".into(),
                connection: words.get(4).map_or(1, |n| n.parse().unwrap()),
                aborted: false,
            }
        })
        .collect();
    entries.sort_by_key(|entry| entry.arrived);
    entries
}

fn check(violations: &[Violation], expected: &Expect) {
    expected.assert_eq(&violations.iter().map(|v| format!("{v}\n")).collect::<String>());
}

#[test]
fn a_pause_is_counted_from_the_end_of_the_answer() {
    let second = |_: &str| Duration::from_secs(1);
    let polite = entries("0-1 a.test / 200\n 2-3 a.test /x 200\n 2.5-2.6 b.test / 200");
    assert_eq!(checks::gaps(&polite, second), []);
    let rude = entries(
        "0-1     a.test /robots.txt 200
         1.999-3 a.test /x 200
         3.5-    a.test /y 0
         9-10    a.test /z 200",
    );
    check(
        &checks::gaps(&rude, second),
        &expect![[r#"
        pause: a.test: /x came 999ms after the end of /robots.txt; 1s is the least
        pause: a.test: /y came 500ms after the end of /x; 1s is the least
        one at a time: a.test: /z came at 1970-01-01T00:00:09.000Z while /y was under way (until the end)
    "#]],
    );
}

#[test]
fn a_long_answer_is_not_forgotten_behind_a_short_one() {
    let rude = entries("0-9 a.test / 200 1\n 1-2 a.test /x 200 2\n 8-9 a.test /y 200 1");
    let found = checks::gaps(&rude, |_| Duration::ZERO);
    check(
        &found,
        &expect![[r#"
        one at a time: a.test: /x came at 1970-01-01T00:00:01.000Z while / was under way (until 1970-01-01T00:00:09.000Z)
        one at a time: a.test: /y came at 1970-01-01T00:00:08.000Z while / was under way (until 1970-01-01T00:00:09.000Z)
        one connection: a.test: /y came over connection 1, after connection 2 was in use
    "#]],
    );
}

#[test]
fn addresses_have_their_own_pace() {
    let half = Duration::from_millis(500);
    let polite = entries("0-9 a.test / 200\n 0.5-9 b.test / 200");
    assert_eq!(checks::address_gaps(&polite, half, 2), []);
    let rude = entries("0-9 a.test / 200\n 0.4-9 b.test / 200\n 1-2 c.test / 200");
    check(
        &checks::address_gaps(&rude, half, 2),
        &expect![[r#"
        address pause: 127.0.1.1: http://b.test/ came 400ms after http://a.test/; 500ms is the least
        address requests: 127.0.1.1: http://c.test/ was one of 3 at once; 2 is the most
    "#]],
    );
}

fn web() -> Fixture {
    Fixture::parse(
        "--- a.test/robots.txt
         User-agent: *
         Disallow: /secret
         Crawl-delay: 3
         --- a.test/
         <a href=/secret>s</a> <a href=/open>o</a> <a href=/gone>g</a> <a href=http://b.test/>b</a>
         <a href=/old>old</a> <a href=/no rel=nofollow>no</a> <a href=http://c.test/>c</a>
         <a href=/broken>broken</a> <a href=http://d.test/>d</a> <a href=/flaky>f</a>
         --- a.test/open
         --- a.test/secret
         --- a.test/old 301 Location: /open?new
         --- a.test/broken 500
         --- a.test/flaky 503
         --- a.test/flaky then 200
         --- b.test/robots.txt 503
         --- b.test/
         !dns c.test nxdomain
         --- d.test/robots.txt 302 Location: http://a.test/robots-d.txt
         --- a.test/robots-d.txt
         --- d.test/
         !address e.test 10.0.0.1",
    )
    .unwrap()
}

#[test]
fn robots_txt_comes_first_and_is_obeyed() {
    let polite = entries(
        "0-1 a.test /robots.txt 200
         2-3 a.test / 200
         3-4 d.test /robots.txt 302
         4-5 a.test /robots-d.txt 200
         6-7 d.test / 200",
    );
    assert_eq!(checks::robots_obeyed(&polite, &web(), "lycosa"), []);
    let rude = entries(
        "0-1 a.test / 200
         2-3 a.test /robots.txt 200
         2.5-4 a.test /open 200
         5-6 a.test /secret 200
         7-8 b.test /robots.txt 503
         8-9 b.test / 200",
    );
    check(
        &checks::robots_obeyed(&rude, &web(), "lycosa"),
        &expect![[r#"
        robots: http://a.test/: requested before robots.txt was read
        robots: http://a.test/open: requested before robots.txt was read
        robots: http://a.test/secret: requested, though robots.txt forbids it
        robots: http://b.test/: requested, though its robots.txt is out of reach
    "#]],
    );
}

fn lines(oracle: &Oracle) -> String {
    let mut text = String::new();
    for (url, expectation) in &oracle.expected {
        let more = match expectation {
            Expectation::Archived { status, .. } => status.to_string(),
            Expectation::Refused { why }
            | Expectation::Deferred { why }
            | Expectation::Fails { why } => why.clone(),
            _ => String::new(),
        };
        text.push_str(format!("{url} {} {more}", expectation.name()).trim_end());
        text.push('\n');
    }
    text
}

#[test]
fn the_oracle_foretells_a_tiny_web() {
    let seeds = ["http://a.test/".to_owned(), "http://e.test/".to_owned()];
    let rules = Rules::default();
    expect![[r#"
        http://a.test/ archived 200
        http://a.test/broken fails status
        http://a.test/flaky archived 200
        http://a.test/gone archived 404
        http://a.test/old archived 301
        http://a.test/open archived 200
        http://a.test/open?new archived 404
        http://a.test/secret forbidden
        http://b.test/ deferred robots.txt
        http://c.test/ deferred no such name
        http://d.test/ archived 200
        http://e.test/ refused address
    "#]]
    .assert_eq(&lines(&Oracle::foretell(&web(), &seeds, &rules)));
    let own = Rules { scope: Scope::Host, max_depth: 0, follow_nofollow: true, ..rules };
    expect![[r#"
        http://a.test/ archived 200
    "#]]
    .assert_eq(&lines(&Oracle::foretell(&web(), &seeds[..1], &own)));
}

#[test]
fn the_oracle_takes_a_page_that_is_cut_for_what_it_is() {
    let web = Fixture::parse(
        "--- a.test/ cut=10
         <a href=/x>x</a>
         --- a.test/x",
    )
    .unwrap();
    let oracle = Oracle::foretell(&web, &["http://a.test/".to_owned()], &Rules::default());
    assert_eq!(lines(&oracle), "http://a.test/ archived 200\nhttp://a.test/x maybe\n");
}

#[test]
fn what_is_missing_or_too_much_is_named() {
    let seeds = ["http://a.test/".to_owned()];
    let oracle = Oracle::foretell(&web(), &seeds, &Rules::default());
    let good = entries(
        "0-1 a.test /robots.txt 200
         1-1 a.test / 200
         2-2 a.test /broken 500
         3-3 a.test /flaky 503
         4-4 a.test /flaky 200
         5-5 a.test /gone 404
         6-6 a.test /old 301
         7-7 a.test /open 200
         8-8 a.test /open?new 404
         8-8 d.test /robots.txt 302
         8-8 a.test /robots-d.txt 200
         9-9 d.test / 200
         9-9 b.test /robots.txt 503
         9-9 a.test /sitemap.xml 404",
    );
    assert_eq!(checks::coverage(&good, &web(), &oracle), []);
    let mut bad = good;
    bad.retain(|entry| {
        !matches!(&*entry.path, "/broken" | "/gone") && entry.status != 200
            || &*entry.path != "/flaky" && &*entry.path != "/broken" && &*entry.path != "/gone"
    });
    bad.extend(entries("10-10 a.test /secret 200\n 11-11 a.test /no 404\n 12-12 b.test / 200"));
    check(
        &checks::coverage(&bad, &web(), &oracle),
        &expect![[r#"
        coverage: http://a.test/broken: must be tried, was never requested
        coverage: http://a.test/flaky: must be answered with 200, was answered with [503]
        coverage: http://a.test/gone: must be answered with 404, was answered with []
        coverage: http://a.test/secret: was requested, but is forbidden
        coverage: http://b.test/: was requested, but is deferred
        coverage: http://a.test/no: was requested, but no link leads there
    "#]],
    );
}

#[test]
fn an_answer_is_taken_once() {
    let twice =
        entries("0-1 a.test / 200\n 2-3 a.test / 200\n 4-5 a.test /x 503\n 6-7 a.test /x 503");
    check(
        &checks::duplicates(&twice, &web()),
        &expect![[r#"
        once only: http://a.test/: answered 2 times with 200
    "#]],
    );
}

#[test]
fn a_connection_to_a_strange_address_is_told() {
    let mut visits = entries("0-1 a.test / 200\n 2-3 e.test / 200");
    assert_eq!(checks::addresses(&visits[..1], &web()), []);
    visits[1].address = "10.0.0.1".parse().unwrap();
    check(
        &checks::addresses(&visits, &web()),
        &expect![[r#"
        address: e.test: 10.0.0.1 was connected, which is not its own or not loopback
    "#]],
    );
}

#[test]
fn who_comes_before_the_moment_that_was_named_is_told() {
    let web = Fixture::parse(
        "--- a.test/busy 503 Retry-After: 10
         --- a.test/date 429 Retry-After: Thu, 01 Jan 1970 00:01:00 GMT
         --- a.test/fine
         f",
    )
    .unwrap();
    let polite = entries(
        "0-1   a.test /busy 503
         5-6   b.test /fine 200
         11-12 a.test /date 429
         60-61 a.test /fine 200",
    );
    assert_eq!(checks::retry_after(&polite, &web, |_| true), []);
    let rude = entries(
        "0-1   a.test /busy 503
         10-11 a.test /date 429
         12-13 a.test /fine 200
         59-60 a.test /fine 200",
    );
    check(
        &checks::retry_after(&rude, &web, |_| true),
        &expect![[r#"
        retry after: a.test: /date came at 1970-01-01T00:00:10.000Z; /busy asked for a rest until 1970-01-01T00:00:11.000Z
        retry after: a.test: /fine came at 1970-01-01T00:00:12.000Z; /date asked for a rest until 1970-01-01T00:01:00.000Z
        retry after: a.test: /fine came at 1970-01-01T00:00:59.000Z; /date asked for a rest until 1970-01-01T00:01:00.000Z
    "#]],
    );
    assert_eq!(checks::retry_after(&rude, &web, |_| false), [], "nobody heard of it");
}

#[test]
#[should_panic(expected = "1 violations:\npause: a.test: late")]
fn violations_fail_a_test_with_their_text() {
    let what = "late".to_owned();
    checks::assert_none(&[Violation { check: "pause", about: "a.test".to_owned(), what }]);
}

#[tokio::test(start_paused = true)]
async fn a_journal_reads_back_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.jsonl");
    let clock = Arc::new(lycosa_simweb::SimClock::new(Timestamp::from_secs(100)));
    let journal = Journal::to_file(clock, &path, true).unwrap();
    let arrival = lycosa_simweb::journal::Arrival {
        at: Timestamp::from_secs(101),
        host: "a.test",
        address: "127.0.0.1".parse().unwrap(),
        port: 80,
        tls: false,
        path: "/x?y",
        user_agent: "lycosa \"quoted\"",
        connection: journal.connection(),
    };
    let first = journal.begin(&arrival);
    let second = journal.begin(&arrival);
    assert_eq!((first.nth(), second.nth()), (0, 1));
    assert_eq!(journal.entries().len(), 2, "those under way count");
    tokio::time::advance(Duration::from_secs(5)).await;
    first.finish(&lycosa_simweb::journal::End {
        at: Timestamp::from_secs(102),
        status: 200,
        head_bytes: 3,
        body_bytes: 7,
        aborted: false,
    });
    drop(second);
    journal.flush().unwrap();
    let read = Journal::read(&path).unwrap();
    assert_eq!(read, journal.entries());
    assert_eq!((read[0].in_flight, read[1].in_flight), (1, 2));
    assert_eq!((read[1].ended, read[1].aborted), (Some(Timestamp::from_secs(105)), true));
    // Half a line, as a reader sees it while the server writes.
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 20]).unwrap();
    assert_eq!(Journal::read(&path).unwrap().len(), 1);
}
