//! Where do we follow Google's open parser beyond the RFC, and where not?
//!
//! The claims of its published tests, in our words. Its basic ones (line ends, groups, case,
//! longest match, special characters) are the RFC's and stand in `rfc9309.rs`.

use lycosa_robots::{LINE_BYTES_MAX, Robots};

fn allowed(robots: &str, agent: &str, url: &str) -> bool {
    Robots::parse(robots.as_bytes()).group(agent).judge(url).allowed
}

#[test]
fn nothing_is_asked_of_an_empty_file_or_by_an_empty_agent() {
    let robots = "user-agent: FooBot\ndisallow: /\n";
    assert!(allowed("", "FooBot", ""));
    assert!(allowed(robots, "", ""));
    assert!(!allowed(robots, "FooBot", ""));
    assert!(allowed("", "", ""));
}

#[test]
fn a_missing_colon_is_forgiven_when_there_are_exactly_two_words() {
    assert!(!allowed("user-agent FooBot\ndisallow /\n", "FooBot", "/x"));
    assert!(!allowed("user-agent FooBot\ndisallow\t /a:b", "FooBot", "/a:b"));
    assert!(allowed("user-agent: FooBot\ndisallow / all\n", "FooBot", "/x"));
    assert!(allowed("user-agent: FooBot\ndisallow/\n", "FooBot", "/x"));
    assert!(allowed("foo: FooBot\nbar: /\n", "FooBot", "/x"));
}

#[test]
fn frequent_typos_are_forgiven() {
    for key in ["disalow", "dissallow", "dissalow", "diasllow", "disallaw", "DisALow"] {
        assert!(!allowed(&format!("user-agent: *\n{key}: /"), "FooBot", "/"), "{key}");
    }
    for key in ["useragent", "user agent", "UserAgent"] {
        assert!(!allowed(&format!("{key}: *\ndisallow: /"), "FooBot", "/"), "{key}");
    }
}

// A divergence: there, a key counts by its start. To the RFC it is an unknown record.
#[test]
fn a_longer_key_is_another_key() {
    assert!(allowed("user-agent: *\ndisallowed: /", "FooBot", "/"));
    assert!(!allowed("user-agent: *\ndisallow: /\nallowfoo: /", "FooBot", "/"));
}

#[test]
fn a_name_counts_up_to_its_first_blank_but_an_agent_with_one_is_none() {
    let robots = "User-Agent: *\nDisallow: /\nUser-Agent: Foo Bar\nAllow: /x/\nDisallow: /\n";
    assert!(allowed(robots, "Foo", "/x/y"));
    assert!(allowed(robots, "foo", "/x/y"));
    assert!(!allowed(robots, "Foo", "/a/b"));
    assert!(!allowed(robots, "Foo Bar", "/x/y"));
}

#[test]
fn who_allows_an_index_page_allows_its_directory() {
    let robots = "User-Agent: *\nAllow: /allowed/index.html\nDisallow: /\n";
    assert!(allowed(robots, "FooBot", "http://foo.com/allowed/"));
    assert!(allowed(robots, "FooBot", "http://foo.com/allowed/index.html"));
    assert!(!allowed(robots, "FooBot", "http://foo.com/allowed/index.htm"));
    assert!(!allowed(robots, "FooBot", "http://foo.com/allowed/other"));
    assert!(!allowed(robots, "FooBot", "http://foo.com/other"));
    assert!(allowed("User-Agent: *\nAllow: /*/index.htm$\nDisallow: /", "FooBot", "/a/b/"));
    // The other way round it means just what it says.
    assert!(allowed("User-Agent: *\nDisallow: /a/index.html", "FooBot", "/a/"));
}

#[test]
fn the_rule_behind_a_directory_is_the_line_as_written() {
    let group = Robots::parse(b"User-agent: *\nDisallow: /\nAllow: /a/index.html").group("FooBot");
    let rule = group.judge("/a/").rule.unwrap();
    assert_eq!((rule.text, rule.line), ("Allow: /a/index.html", 3));
}

#[test]
fn only_the_start_of_a_line_counts() {
    assert_eq!(LINE_BYTES_MAX, 16_663);
    let key = "disallow: ";
    let path = format!("/x/{}", "a".repeat(LINE_BYTES_MAX - key.len() - 4));
    let robots = format!("user-agent: FooBot\n{key}{path}/qux\n");
    assert!(allowed(&robots, "FooBot", "/fux"));
    assert!(allowed(&robots, "FooBot", &path));
    assert!(!allowed(&robots, "FooBot", &format!("{path}/fux")));
}

#[test]
fn a_query_with_a_url_in_it_stays_as_it_is() {
    let rule = "/foo/bar?qux=taz&baz=http://foo.bar?tar&par";
    let robots = format!("User-agent: FooBot\nDisallow: /\nAllow: {rule}\n");
    assert!(allowed(&robots, "FooBot", &format!("http://foo.bar{rule}")));
}

// Divergences, both MUSTs of the RFC: there, the caller has to escape a URL, and escaped
// unreserved octets are not decoded.
#[test]
fn urls_are_escaped_and_decoded_here() {
    let robots = "User-agent: FooBot\nDisallow: /\nAllow: /foo/ツ\nAllow: /foo/%62%61%7A\n";
    assert!(allowed(robots, "FooBot", "http://foo.bar/foo/ツ"));
    assert!(allowed(robots, "FooBot", "http://foo.bar/foo/baz"));
}

#[test]
fn the_examples_of_its_documentation_hold() {
    let cases: [(&str, &[&str], &[&str]); 6] = [
        (
            "/fish",
            &["/fish", "/fish.html", "/fish/salmon.html", "/fishheads", "/fish.html?id=anything"],
            &["/Fish.asp", "/catfish", "/?id=fish", "/desert/fish"],
        ),
        ("/fish*", &["/fish", "/fishheads/yummy.html"], &["/Fish.asp", "/catfish", "/?id=fish"]),
        (
            "/fish/",
            &["/fish/", "/fish/?id=anything", "/fish/salmon.htm"],
            &["/fish", "/fish.html", "/animals/fish/", "/Fish/Salmon.asp"],
        ),
        (
            "/*.php",
            &[
                "/index.php",
                "/folder/filename.php?parameters",
                "/filename.php/",
                "//x/any.php.file",
            ],
            &["/", "/windows.PHP", "/php/", "/index?php"],
        ),
        (
            "/*.php$",
            &["/filename.php", "/folder/filename.php"],
            &["/filename.php?parameters", "/filename.php/", "/filename.php5", "/windows.PHP"],
        ),
        (
            "/fish*.php",
            &["/fish.php", "/fishheads/catfish.php?parameters"],
            &["/Fish.PHP", "/catfish.php"],
        ),
    ];
    for (rule, matched, others) in cases {
        let robots = format!("user-agent: FooBot\ndisallow: /\nallow: {rule}\n");
        for path in matched {
            assert!(allowed(&robots, "FooBot", &format!("http://foo.bar{path}")), "{rule} {path}");
        }
        for path in others {
            assert!(!allowed(&robots, "FooBot", &format!("http://foo.bar{path}")), "{rule} {path}");
        }
    }
}
