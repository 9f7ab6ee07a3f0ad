//! What a fixture's text means, and how its mistakes are told.

use expect_test::{Expect, expect};
use lycosa_simweb::{Fixture, Place, Truth};

fn mistake(text: &str, expected: &Expect) {
    expected.assert_eq(&Fixture::parse(text).expect_err("a mistake").to_string());
}

#[test]
fn mistakes_are_told_with_their_line_and_what_to_write() {
    mistake(
        "hello",
        &expect!["fixture, line 1: `hello` belongs to no answer; begin one with `--- a.test/`"],
    );
    mistake(
        "--- a.test/\n\n--- b.test",
        &expect!["fixture, line 3: `b.test` has no path; write `b.test/` for the home page"],
    );
    mistake(
        "--- A.test/",
        &expect!["fixture, line 1: `A.test/`: a host is written in lower case, such as a.test"],
    );
    mistake("--- a.test:x/", &expect!["fixture, line 1: `x` is no port"]);
    mistake(
        "--- a.test/ oops",
        &expect![
            "fixture, line 1: `oops` is no status, header or behaviour; headers look like `Location: /x`, behaviours like slow=2s, cut=100, reset, mute, gzip, chunked, then"
        ],
    );
    mistake(
        "--- a.test/ slow=2",
        &expect![
            "fixture, line 1: `2` is not a duration: write a number with a unit, such as 500ms, 1s, 5m, 24h or 30d"
        ],
    );
    mistake("--- a.test/ cut=x", &expect!["fixture, line 1: `cut=x`: write a number of bytes"]);
    mistake("--- a.test/ drip=0/1s", &expect!["fixture, line 1: `drip=0/1s`: write drip=64/1s"]);
    mistake(
        "!dns a.test gone",
        &expect![
            "fixture, line 1: after `!dns HOST` comes nxdomain, servfail, silent, large or alias NAME"
        ],
    );
    mistake("!address a.test 1.2", &expect!["fixture, line 1: `1.2` is no address"]);
    mistake(
        "!dns",
        &expect!["fixture, line 1: `!dns` names no host; write `!dns a.test nxdomain`"],
    );
}

#[test]
fn ports_of_real_sockets_are_written_into_links() {
    let fixture = Fixture::parse(
        "--- a.test/ 302 Location: https://b.test/x
         <a href=http://a.test/y> <a href=http://a.test.example/> <a href=http://c.test/>
         --- https://b.test/
         !door c.test refused",
    )
    .unwrap()
    .with_ports(8_080, 8_443, 8_666);
    assert_eq!(fixture.seeds(), ["http://a.test:8080/", "https://b.test:8443/"]);
    let home = Place::parse("http://a.test:8080/").unwrap();
    let lycosa_simweb::truth::Course::Answers { redirect, .. } = fixture.course(&home) else {
        panic!("it answers")
    };
    assert_eq!(redirect.unwrap().to_string(), "https://b.test:8443/x");
    let plan = lycosa_simweb::Web::answer(
        &fixture,
        &lycosa_simweb::Ask {
            host: "a.test",
            port: 8_080,
            tls: false,
            target: "/",
            headers: &[],
            nth: 0,
            at: types::Timestamp::ZERO,
        },
    );
    let lycosa_simweb::Body::Bytes(body) = plan.body else { panic!("written down") };
    assert_eq!(
        body,
        "<a href=http://a.test:8080/y> <a href=http://a.test.example/> <a href=http://c.test:8666/>\n"
    );
}
