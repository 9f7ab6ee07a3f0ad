//! Is every line of RFC 9309 kept that concerns parsing and matching?
//!
//! One claim a test, in the order of the project's checklist; the numbers are its points. Points
//! 1 and 3 to 9 and 12 are about requests: their decisions are tested in `access`.

use lycosa_robots::{BYTES_MAX, LINE_BYTES_MAX, Robots};

/// What foobot is told about `url`: `+` allowed or `-` refused, and the deciding line.
fn check(robots: &str, url: &str, expected: &str) {
    check_for("foobot", robots.as_bytes(), url, expected);
}

fn check_for(agent: &str, robots: &[u8], url: &str, expected: &str) {
    let group = Robots::parse(robots).group(agent);
    let verdict = group.judge(url);
    let sign = if verdict.allowed { "+" } else { "-" };
    let rule = verdict.rule.map(|rule| format!(" {}: {}", rule.line, rule.text));
    let found = format!("{sign}{}", rule.unwrap_or_default());
    assert_eq!(found, expected, "{url} for {agent} by {}", String::from_utf8_lossy(robots));
}

/// The same for a single rule list in a group for everyone, without the deciding line.
fn allowed(rules: &[&str], url: &str) -> bool {
    let robots = format!("User-agent: *\n{}", rules.join("\n"));
    Robots::parse(robots.as_bytes()).group("foobot").judge(url).allowed
}

#[test]
fn every_point_of_the_checklist_has_a_test() {
    let sources = [include_str!("rfc9309.rs"), include_str!("../src/access.rs")];
    let mut points = std::collections::BTreeSet::new();
    for line in sources.iter().flat_map(|source| source.lines()) {
        let Some(comment) = line.trim().strip_prefix("// Point") else { continue };
        let numbers = comment.split([':', '.']).next().unwrap_or_default();
        let words = numbers.split(|char: char| !char.is_ascii_digit());
        points.extend(words.filter_map(|word| word.parse::<u32>().ok()));
    }
    assert_eq!(points.into_iter().collect::<Vec<_>>(), (1..=37).collect::<Vec<_>>());
}

// Point 2.
#[test]
fn robots_txt_itself_is_always_allowed() {
    let robots = "User-agent: *\nDisallow: /";
    check(robots, "/robots.txt", "+");
    check(robots, "http://a.test/robots.txt#x", "+");
    check(robots, "http://a.test/%72obots.txt", "+");
    check(robots, "/robots.txt.bak", "- 2: Disallow: /");
    check(robots, "/Robots.txt", "- 2: Disallow: /");
    check(robots, "/a/robots.txt", "- 2: Disallow: /");
}

// Point 10.
#[test]
fn the_first_500_kib_are_read() {
    let head = "User-agent: *\nDisallow: /a\n";
    let last = "Disallow: /b\n";
    let mut robots = head.to_owned();
    while robots.len() < BYTES_MAX - last.len() {
        robots.push('\n');
    }
    robots.push_str(last);
    assert_eq!(robots.len(), 512_000);
    robots.push_str("Disallow: /c\n");

    let group = Robots::parse(robots.as_bytes()).group("foobot");
    assert!(!group.judge("/a").allowed);
    assert!(!group.judge("/b").allowed);
    assert!(group.judge("/c").allowed);
}

// Point 10.
#[test]
fn a_rule_cut_in_half_at_the_limit_is_not_another_rule() {
    let robots = "User-agent: *\nDisallow: /a\nDisallow: /private/x\nDisallow: /z";
    let whole = robots.find("/private/x").unwrap() + "/private/x".len();
    for limit in 0..whole {
        let group = Robots::parse_limited(robots.as_bytes(), limit).group("foobot");
        assert!(group.judge("/private/other").allowed, "cut at {limit}");
        assert!(group.judge("/private/x").allowed, "cut at {limit}");
    }
    // The cut just before or after the line's end leaves the rule whole.
    for limit in [whole, whole + 1] {
        let group = Robots::parse_limited(robots.as_bytes(), limit).group("foobot");
        assert!(!group.judge("/private/x").allowed, "cut at {limit}");
        assert!(group.judge("/z").allowed, "cut at {limit}");
    }
}

// Point 10: the part of a line that counts was read whole, so the cut took nothing from it.
#[test]
fn a_line_that_counts_only_in_part_survives_a_cut_behind_that_part() {
    let robots = format!("User-agent: *\nDisallow: /{}", "a".repeat(2 * BYTES_MAX));
    let group = Robots::parse(robots.as_bytes()).group("foobot");
    assert!(!group.judge(&format!("/{}", "a".repeat(LINE_BYTES_MAX))).allowed);
}

// Point 11.
#[test]
fn a_page_that_answers_for_robots_txt_blocks_nothing() {
    let page = "<!doctype html>\n<html><head><title>404: Not Found</title></head>\n\
                <body><p>Disallow: / is what we would say</p>\nUser-agents: welcome\n</body>";
    check(page, "/", "+");
}

// Point 11: bridging another encoding is a MAY; UTF-16 names itself.
#[test]
fn utf_16_with_its_mark_is_read() {
    let text = "\u{FEFF}User-agent: *\r\nDisallow: /ツ\r\nDisallow: /private/x";
    let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for robots in [little, big] {
        check_for("foobot", &robots, "/%E3%83%84", "- 2: Disallow: /ツ");
        let cut = Robots::parse_limited(&robots, robots.len() - 2).group("foobot");
        assert!(cut.judge("/private/y").allowed);
        assert!(!cut.judge("/ツ").allowed);
    }
}

// Point 13.
#[test]
fn lines_end_in_cr_lf_or_both_and_are_counted_once() {
    for end in ["\n", "\r", "\r\n"] {
        let lines = ["User-agent: foobot", "Disallow: /a", "", "", "Disallow: /b"];
        check(&lines.join(end), "/a", "- 2: Disallow: /a");
        check(&lines.join(end), "/b", "- 5: Disallow: /b");
    }
    let mixed = "User-agent: foobot\nDisallow: /a\r\nDisallow: /b\rDisallow: /c\n\rDisallow: /d";
    check(mixed, "/b", "- 3: Disallow: /b");
    check(mixed, "/c", "- 4: Disallow: /c");
    check(mixed, "/d", "- 6: Disallow: /d");
}

// Point 13.
#[test]
fn no_empty_line_is_needed_between_groups_and_none_ends_one() {
    let robots = "User-agent: foobot\n\n\nDisallow: /a\n\nDisallow: /b\nUser-agent: x\nDisallow: /";
    check(robots, "/a", "- 4: Disallow: /a");
    check(robots, "/b", "- 6: Disallow: /b");
    check(robots, "/c", "+");
}

// Point 14.
#[test]
fn a_byte_order_mark_is_skipped_also_a_broken_one() {
    for mark in [&b"\xEF\xBB\xBF"[..], b"\xEF\xBB", b"\xEF"] {
        let robots = [mark, b"User-agent: *\nDisallow: /"].concat();
        check_for("foobot", &robots, "/", "- 2: Disallow: /");
    }
    // Anything else before the key is a part of it.
    check_for("foobot", b"\xBB\xBFUser-agent: *\nDisallow: /", "/", "+");
    check_for("foobot", b"\n\xEF\xBB\xBFUser-agent: *\nDisallow: /", "/", "+");
}

// Point 15.
#[test]
fn blanks_around_key_and_value_do_not_count() {
    let robots = " \tUser-agent\t :\tfoobot \n\t Disallow \t: \t/a b \t\n";
    check(robots, "/a%20b", "- 2: Disallow \t: \t/a b");
}

// Point 16.
#[test]
fn a_hash_starts_a_comment_anywhere() {
    let robots = "User-agent: foobot # that is us\n# Disallow: /\nDisallow: /a#/b\nDisallow: # /c\n\
                  #Disallow: /d\nDis#allow: /e";
    check(robots, "/a", "- 3: Disallow: /a");
    for path in ["/c", "/d", "/e"] {
        check(robots, path, "+");
    }
}

// Point 17.
#[test]
fn keys_have_no_case() {
    for robots in
        ["USER-AGENT: foobot\nDISALLOW: /\nALLOW: /x", "uSeR-aGeNt: foobot\ndIsAlLoW: /\naLLow: /x"]
    {
        assert!(!Robots::parse(robots.as_bytes()).group("foobot").judge("/a").allowed);
        assert!(Robots::parse(robots.as_bytes()).group("foobot").judge("/x").allowed);
    }
}

// Point 18.
#[test]
fn rubbish_does_not_hide_the_rules_around_it() {
    let mut robots = b"\x00\xFF\xFE:::\n\x00User-agent: *\x00\n".to_vec();
    robots.extend(std::iter::repeat_n(0, 3 * LINE_BYTES_MAX));
    robots.extend(b"\nDisallow: /a\x00\n\x80\x81: \xC3\x28\nDisallow\n: /x\nDisallow: /\xE9\n");
    robots.extend(std::iter::repeat_n(b':', 3 * LINE_BYTES_MAX));
    robots.extend(b"\nDisallow: /b");
    check_for("foobot", &robots, "/a", "- 4: Disallow: /a");
    check_for("foobot", &robots, "/b", "- 10: Disallow: /b");
    check_for("foobot", &robots, "/%E9", "- 8: Disallow: /\u{FFFD}");
    check_for("foobot", &robots, "/x", "+");
}

// Point 19.
#[test]
fn a_sitemap_or_another_record_does_not_end_a_group() {
    for record in ["Sitemap: http://a.test/s.xml", "Crawl-delay: 5", "Foo: bar", "Clean-param: x"] {
        let robots = format!("User-agent: foobot\n{record}\nUser-agent: barbot\nDisallow: /a");
        check(&robots, "/a", "- 4: Disallow: /a");
        let robots = format!("User-agent: foobot\nDisallow: /a\n{record}\nDisallow: /b");
        check(&robots, "/b", "- 4: Disallow: /b");
    }
}

// Point 20.
#[test]
fn rules_before_the_first_user_agent_are_ignored() {
    let robots = "Disallow: /\nCrawl-delay: 9\nUser-agent: foobot\nDisallow: /a";
    check(robots, "/b", "+");
    check(robots, "/a", "- 4: Disallow: /a");
    assert_eq!(Robots::parse(robots.as_bytes()).group("foobot").crawl_delay(), None);
}

// Point 21.
#[test]
fn a_product_token_is_compared_whole_and_without_case() {
    for name in ["foobot", "FooBot", "FOOBOT"] {
        check(&format!("User-agent: {name}\nDisallow: /"), "/", "- 2: Disallow: /");
    }
    for name in ["foo", "foobots", "foobot-news", "foo_bot", "bot", "xfoobot"] {
        check(&format!("User-agent: {name}\nDisallow: /"), "/", "+");
    }
    let dashed = b"User-agent: Foo_Bot-News\nDisallow: /";
    check_for("foo_bot-news", dashed, "/", "- 2: Disallow: /");
    check_for("foo", dashed, "/", "+");
}

// Point 22.
#[test]
fn user_agents_in_a_row_share_the_rules_and_the_first_rule_closes_the_row() {
    let robots = b"User-agent: a\nUser-agent: b\nDisallow: /x\nUser-agent: c\nDisallow: /y";
    for agent in ["a", "b"] {
        check_for(agent, robots, "/x", "- 3: Disallow: /x");
        check_for(agent, robots, "/y", "+");
    }
    check_for("c", robots, "/x", "+");
    check_for("c", robots, "/y", "- 5: Disallow: /y");
}

// Point 22: an empty rule is a rule.
#[test]
fn an_empty_rule_closes_the_row_of_user_agents_as_well() {
    let robots = b"User-agent: a\nDisallow:\nUser-agent: b\nDisallow: /";
    check_for("a", robots, "/", "+");
    check_for("b", robots, "/", "- 4: Disallow: /");
}

// Point 23.
#[test]
fn all_groups_of_a_crawler_are_one() {
    let robots = "User-agent: foobot\nDisallow: /a\nCrawl-delay: 1.5\nUser-agent: x\nDisallow: /\n\
                  User-agent: y\nUser-agent: FooBot\nDisallow: /b\nAllow: /a/b\nCrawl-delay: 0.5";
    check(robots, "/a", "- 2: Disallow: /a");
    check(robots, "/a/b", "+ 9: Allow: /a/b");
    check(robots, "/b", "- 8: Disallow: /b");
    check(robots, "/c", "+");
    assert_eq!(Robots::parse(robots.as_bytes()).group("foobot").crawl_delay(), Some(1.5));
}

// Point 24.
#[test]
fn the_star_groups_are_for_those_whom_no_group_names() {
    let robots = b"User-agent: *\nDisallow: /a\nCrawl-delay: 7\nUser-agent: foobot\nDisallow: /b\n\
                   User-agent: *\nDisallow: /c";
    check_for("foobot", robots, "/a", "+");
    check_for("foobot", robots, "/b", "- 5: Disallow: /b");
    check_for("barbot", robots, "/a", "- 2: Disallow: /a");
    check_for("barbot", robots, "/b", "+");
    check_for("barbot", robots, "/c", "- 7: Disallow: /c");
    assert_eq!(Robots::parse(robots).group("foobot").crawl_delay(), None);
    assert_eq!(Robots::parse(robots).group("barbot").crawl_delay(), Some(7.0));
}

// Point 25.
#[test]
fn no_group_no_rules_and_a_group_without_rules_allows_all() {
    check("User-agent: barbot\nDisallow: /", "/", "+");
    check("", "/", "+");
    check("User-agent: *\nDisallow: /\nUser-agent: foobot", "/", "+");
    check("User-agent: *\nDisallow: /\nUser-agent: foobot\nSitemap: x", "/", "+");
    assert!(Robots::parse(b"").group("foobot").allows_everything());
}

// Point 26.
#[test]
fn a_name_in_the_file_is_its_leading_token_characters() {
    for name in ["foobot/1.2", "foobot*", "foobot news", "foobot\u{30C4}", "foobot2"] {
        check(&format!("User-agent: {name}\nDisallow: /"), "/", "- 2: Disallow: /");
    }
    for name in ["* something", "*\tx", "*"] {
        check(&format!("User-agent: {name}\nDisallow: /"), "/", "- 2: Disallow: /");
    }
    for name in ["*foobot", "**", "/foobot", "2foobot", ""] {
        check(&format!("User-agent: {name}\nDisallow: /"), "/", "+");
    }
}

// Point 27.
#[test]
fn path_and_query_are_matched_from_the_first_octet() {
    assert!(!allowed(&["Disallow: /a"], "http://u@a.test:81/a?b#c"));
    assert!(allowed(&["Disallow: /a"], "http://a.test/b/a"));
    assert!(allowed(&["Disallow: /a.test"], "http://a.test/x"));
    assert!(!allowed(&["Disallow: /x?q=1"], "http://a.test/x?q=12"));
    assert!(!allowed(&["Disallow: /x;p"], "http://a.test/x;p=1?q"));
    assert!(allowed(&["Disallow: /*frag"], "http://a.test/x#frag"));
    assert!(!allowed(&["Disallow: /$"], "http://a.test"));
    assert!(!allowed(&["Disallow: /?q"], "http://a.test?q=1"));
    assert!(!allowed(&["Disallow: //x"], "http://a.test//x"));
}

// Point 28.
#[test]
fn a_star_is_anything_and_a_dollar_the_end() {
    assert!(!allowed(&["Disallow: /a*c"], "/a/b/c"));
    assert!(!allowed(&["Disallow: /a*c"], "/ac"));
    assert!(!allowed(&["Disallow: /*.gif$"], "/x/y.gif"));
    assert!(allowed(&["Disallow: /*.gif$"], "/y.gif?z"));
    assert!(!allowed(&["Disallow: /a$"], "/a"));
    assert!(allowed(&["Disallow: /a$"], "/ab"));
    // A dollar inside is a dollar.
    assert!(!allowed(&["Disallow: /a$b"], "/a$bc"));
    assert!(allowed(&["Disallow: /a$b"], "/a"));
    assert!(!allowed(&["Disallow: /a$$"], "/a$"));
    assert!(!allowed(&["Disallow: /a*$"], "/abc"));
}

// Point 29.
#[test]
fn the_longest_pattern_wins_in_any_order() {
    let rules = ["Allow: /p", "Disallow: /", "Disallow: /page*", "Allow: /page.html$"];
    for turn in 0..rules.len() {
        let mut rules = rules;
        rules.rotate_left(turn);
        assert!(allowed(&rules, "/pa"));
        assert!(!allowed(&rules, "/x"));
        assert!(!allowed(&rules, "/page"));
        assert!(allowed(&rules, "/page.html"));
        assert!(!allowed(&rules, "/page.html5"));
    }
    // Stars and the dollar count as well.
    assert!(!allowed(&["Allow: /page", "Disallow: /*.htm"], "/page.htm"));
    assert!(allowed(&["Allow: /$", "Disallow: /"], "/"));
    assert!(!allowed(&["Allow: /a", "Disallow: /**"], "/a"));
}

// Point 29: one octet a spelling would make the same rule weigh differently.
#[test]
fn octets_are_counted_in_the_form_that_is_compared() {
    assert!(allowed(&["Allow: /ツ", "Disallow: /*%83%84"], "/ツ"));
    assert!(!allowed(&["Allow: /%62%61%7A", "Disallow: /*baz"], "/baz"));
}

// Point 30.
#[test]
fn at_equal_length_allow_wins() {
    assert!(allowed(&["Disallow: /a", "Allow: /a"], "/a"));
    assert!(allowed(&["Allow: /a", "Disallow: /a"], "/a"));
    assert!(allowed(&["Disallow: /*b", "Allow: /ab"], "/ab"));
    check("User-agent: *\nDisallow: *\nAllow: /\nAllow: *", "/", "+ 3: Allow: /");
}

// Point 31.
#[test]
fn what_no_rule_matches_is_allowed_and_an_empty_rule_matches_nothing() {
    check("User-agent: *\nDisallow: /a", "/b", "+");
    check("User-agent: *\nDisallow:", "/", "+");
    check("User-agent: *\nAllow:\nDisallow: /", "/", "- 3: Disallow: /");
    check("User-agent: *\nDisallow: private", "/private", "+");
}

// Point 32.
#[test]
fn paths_have_case() {
    assert!(!allowed(&["Disallow: /a"], "/a"));
    assert!(allowed(&["Disallow: /a"], "/A"));
    assert!(allowed(&["Disallow: /%41"], "/a"));
}

// Point 33.
#[test]
fn octets_outside_ascii_are_escaped_in_rule_and_url() {
    for rule in ["Disallow: /foo/ツ", "Disallow: /foo/%E3%83%84", "Disallow: /foo/%e3%83%84"] {
        for url in ["/foo/ツ", "/foo/%E3%83%84", "http://a.test/foo/%e3%83%84?x"] {
            assert!(!allowed(&[rule], url), "{rule} {url}");
        }
    }
    // Whatever the encoding of the file: octets are compared, not characters.
    check_for("x", b"User-agent: *\nDisallow: /caf\xE9", "/caf%E9", "- 2: Disallow: /caf\u{FFFD}");
}

// Point 34.
#[test]
fn escaped_unreserved_octets_are_decoded_reserved_ones_are_not() {
    for rule in ["Disallow: /baz", "Disallow: /%62%61%7A", "Disallow: /%62%61%7a"] {
        for url in ["/baz", "/%62%61%7A", "/b%61z"] {
            assert!(!allowed(&[rule], url), "{rule} {url}");
        }
    }
    assert!(!allowed(&["Disallow: /%7Euser"], "/~user"));
    assert!(allowed(&["Disallow: /a%2Fb"], "/a/b"));
    assert!(allowed(&["Disallow: /a/b"], "/a%2Fb"));
    assert!(!allowed(&["Disallow: /a%2fb"], "/a%2Fb"));
    assert!(allowed(&["Disallow: /a%3Fb"], "/a?b"));
    assert!(!allowed(&["Disallow: /a%"], "/a%"));
    assert!(!allowed(&["Disallow: /a%zz"], "/a%zz"));
}

// Point 34: the second row of the RFC's table. In a query these octets part nothing.
#[test]
fn in_a_query_colon_slash_question_mark_and_at_equal_their_escapes() {
    let plain = "/foo/bar?baz=https://foo.bar";
    let escaped = "/foo/bar?baz=https%3A%2F%2Ffoo.bar";
    // As Python's `quote` writes it, and the other way round.
    let mixed = ["/foo/bar?baz=https%3A//foo.bar", "/foo/bar?baz=https:%2F%2Ffoo.bar"];
    for rule in [plain, escaped, mixed[0], mixed[1]] {
        for url in [plain, escaped, mixed[0], mixed[1]] {
            check(
                &format!("User-agent: *\nDisallow: {rule}"),
                url,
                &format!("- 2: Disallow: {rule}"),
            );
        }
    }
    // A wildcard that skips the question mark meets what is written, in either form.
    assert!(!allowed(&["Disallow: /*https%3A"], escaped));
    assert!(!allowed(&["Disallow: /*https:"], plain));
}

// Point 35.
#[test]
fn literal_special_characters_are_named_by_their_escapes() {
    assert!(!allowed(&["Disallow: /file-%2A.html"], "/file-*.html"));
    assert!(!allowed(&["Disallow: /file-%2a.html"], "/file-%2A.html"));
    assert!(allowed(&["Disallow: /file-%2A.html"], "/file-x.html"));
    assert!(!allowed(&["Disallow: /foo-%24"], "/foo-$"));
    assert!(allowed(&["Disallow: /foo-%24"], "/foo-"));
    assert!(!allowed(&["Disallow: /a%23b"], "/a%23b"));
}

// Point 36: tests/hostile.rs and the unit tests of `group` bound the work itself.
#[test]
fn many_stars_on_a_long_path_are_answered() {
    let path = format!("/{}", "a".repeat(2000));
    assert!(allowed(&[&format!("Disallow: /{}b", "*a".repeat(1000))], &path));
    assert!(!allowed(&[&format!("Disallow: /{}", "*a".repeat(1000))], &path));
    assert!(!allowed(&[&format!("Disallow: /{}", "*".repeat(16_000))], &path));
}

// Point 37: erratum 7995.
#[test]
fn a_pattern_may_start_with_a_star() {
    check("User-agent: *\nDisallow: *.gif$", "/x/y.gif", "- 2: Disallow: *.gif$");
    check("User-agent: *\nDisallow: *", "/", "- 2: Disallow: *");
}

// Point 37: erratum 7124, the example of section 5.2 as it was meant.
#[test]
fn the_longest_match_example_of_the_rfc_holds() {
    let robots =
        "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif";
    check(robots, "/example/page/disallowed.gif", "- 3: Disallow: /example/page/disallowed.gif");
    check(robots, "/example/page/disallow.gif", "+ 2: Allow: /example/page/");
}

// Point 37: erratum 7128 names the character of the table's third row.
#[test]
fn the_katakana_example_of_the_rfc_holds() {
    check(
        "User-agent: *\nDisallow: /foo/bar/ツ",
        "/foo/bar/%E3%83%84",
        "- 2: Disallow: /foo/bar/ツ",
    );
}

// Point 37: erratum 8895, decided in favour of what the owner meant.
#[test]
fn a_comma_list_names_all_its_crawlers() {
    let robots =
        b"User-agent: foobot, barbot/2.0 ,bazbot\nDisallow: /a\nUser-agent: *\nDisallow: /b";
    for agent in ["foobot", "barbot", "bazbot"] {
        check_for(agent, robots, "/a", "- 2: Disallow: /a");
        check_for(agent, robots, "/b", "+");
    }
    check_for("quxbot", robots, "/b", "- 4: Disallow: /b");
    check_for("quxbot", b"User-agent: foobot, *\nDisallow: /a", "/a", "- 2: Disallow: /a");
}

#[test]
fn a_whole_header_selects_its_product() {
    let robots = b"User-agent: lycosa\nDisallow: /a\nUser-agent: Mozilla\nDisallow: /b";
    let header = "Mozilla/5.0 (compatible; lycosa/0.1; +https://example.org/bot)";
    check_for(header, robots, "/a", "- 2: Disallow: /a");
    check_for(header, robots, "/b", "+");
    check_for("lycosa/0.1", robots, "/a", "- 2: Disallow: /a");
}

#[test]
fn a_crawl_delay_is_a_decimal_number_of_seconds() {
    let delay = |value: &str| {
        let robots = format!("User-agent: *\nCrawl-delay: {value}");
        Robots::parse(robots.as_bytes()).group("foobot").crawl_delay()
    };
    assert_eq!(delay("2"), Some(2.0));
    assert_eq!(delay("0.25 # s"), Some(0.25));
    assert_eq!(delay(".5"), Some(0.5));
    assert_eq!(delay("0"), Some(0.0));
    assert_eq!(delay(&"9".repeat(400)), Some(f64::from(u32::MAX)));
    for rubbish in ["", "-1", "+1", "nan", "NaN", "inf", "1e3", "5s", "1,5", "1.2.3", ".", "five"] {
        assert_eq!(delay(rubbish), None, "{rubbish}");
    }
    // Rubbish takes nothing back.
    assert_eq!(delay("3\nCrawl-delay: nan\nCrawl-delay: 1"), Some(3.0));
}

#[test]
fn sitemaps_are_found_anywhere_and_belong_to_no_group() {
    let robots = Robots::parse(
        b"Sitemap: https://a.test/1.xml # first\nUser-agent: x\nsite-map:https://a.test/2.xml\n\
          Disallow: /\nSITEMAP : /3.xml\nSitemap:\nSitemap https://a.test/4.xml",
    );
    let found: Vec<&str> = robots.sitemaps().collect();
    assert_eq!(
        found,
        ["https://a.test/1.xml", "https://a.test/2.xml", "/3.xml", "https://a.test/4.xml"]
    );
}
