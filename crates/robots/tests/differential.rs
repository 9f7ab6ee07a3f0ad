//! Does the fast matcher agree with one that is plainly right?
//!
//! The other one is slow and takes no short cut: it works on a list of groups instead of text,
//! tries every place for a `*`, and looks at all rules before it decides. Alphabets are small so
//! that rules match and tie. `PROPTEST_CASES` makes a run longer than the few seconds of CI.

use lycosa_robots::Robots;
use proptest::prelude::*;

/// A robots.txt as its author has it in mind.
#[derive(Debug, Clone)]
struct File {
    groups: Vec<(Vec<&'static str>, Vec<Line>)>,
    /// How the lines are written: ends, blanks, comments, records in between.
    noise: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Line {
    allow: bool,
    value: String,
}

impl File {
    /// The text, and for each rule the number of its line.
    fn write(&self) -> (String, Vec<Vec<u32>>) {
        let mut text = String::new();
        let mut number = 0;
        let mut noise = self.noise.iter().copied().cycle();
        let mut line = |content: String| {
            let kind = noise.next().unwrap_or(0);
            if kind & 8 != 0 {
                // None is empty: after a CR its LF would only complete a CRLF.
                text.push_str(["# no", "Sitemap: /s", "rubbish", " "][usize::from(kind & 3)]);
                text.push('\n');
                number += 1;
            }
            text.push_str(["", " ", "\t", " \t "][usize::from(kind & 3)]);
            text.push_str(&content);
            text.push_str(["", " ", " # x", "#/"][usize::from(kind >> 4 & 3)]);
            text.push_str(["\n", "\r\n", "\r", "\n"][usize::from(kind >> 6 & 3)]);
            number += 1;
            number
        };
        let mut numbers = Vec::new();
        for (agents, rules) in &self.groups {
            for agent in agents {
                line(format!("User-agent: {agent}"));
            }
            let write = |rule: &Line| {
                let key = if rule.allow { "Allow" } else { "Disallow" };
                line(format!("{key}: {}", rule.value))
            };
            numbers.push(rules.iter().map(write).collect());
        }
        (text, numbers)
    }

    /// Allowed, and the line that decides.
    fn judge(&self, numbers: &[Vec<u32>], agent: &str, path: &str) -> (bool, Option<u32>) {
        let names = |wanted: &str| {
            let wanted = wanted.to_owned();
            move |(agents, _): &&(Vec<&str>, Vec<Line>)| {
                agents.iter().any(|name| name.eq_ignore_ascii_case(&wanted))
            }
        };
        let name = if self.groups.iter().any(|g| names(agent)(&g)) { agent } else { "*" };
        let path: String = octets(path.as_bytes()).into_iter().map(|(name, _)| name).collect();
        let plain = path.split_once('?').map_or(path.clone(), |(path, query)| {
            let query = query.replace("%3A", ":").replace("%2F", "/");
            format!("{path}?{}", query.replace("%3F", "?").replace("%40", "@"))
        });
        let mut best: Option<(usize, bool, u32)> = None;
        for (group, numbers) in self.groups.iter().zip(numbers) {
            if !names(name)(&group) {
                continue;
            }
            for (rule, &number) in group.1.iter().zip(numbers) {
                for (pattern, weight) in patterns(rule) {
                    let better = best.is_none_or(|(most, allow, line)| {
                        (weight, rule.allow, !number) > (most, allow, !line)
                    });
                    if better && (fits(&pattern, &path) || fits(&pattern, &plain)) {
                        best = Some((weight, rule.allow, number));
                    }
                }
            }
        }
        (best.is_none_or(|(_, allow, _)| allow), best.map(|(_, _, line)| line))
    }
}

/// One place of a pattern.
#[derive(Debug, Clone, PartialEq)]
enum Place {
    Octet(String),
    Any,
    End,
}

/// Text as octets, each a character or an upper-case escape, with its weight.
fn octets(text: &[u8]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let hex = text.get(at + 1..at + 3).filter(|h| h.iter().all(u8::is_ascii_hexdigit));
        let (octet, escaped) = match hex.filter(|_| text[at] == b'%') {
            Some(hex) => {
                at += 2;
                let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
                (digit(hex[0]) * 16 + digit(hex[1]), true)
            }
            None => (text[at], false),
        };
        at += 1;
        let is_unreserved = octet.is_ascii_alphanumeric() || b"-._~".contains(&octet);
        let may_be_plain = is_unreserved || (!escaped && b":/?[]@!$&'()+,;=%*".contains(&octet));
        let name = match octet {
            b'*' => "STAR".to_owned(),
            b'$' => "$".to_owned(),
            _ if may_be_plain => char::from(octet).to_string(),
            _ => format!("%{octet:02X}"),
        };
        found.push((name, if may_be_plain { 1 } else { 3 }));
    }
    found
}

/// All patterns that a rule stands for, with their weights.
fn patterns(rule: &Line) -> Vec<(Vec<Place>, usize)> {
    let mut values = vec![rule.value.clone()];
    if let Some((directory, page)) = rule.value.rsplit_once('/')
        && rule.allow
        && page.starts_with("index.htm")
    {
        values.push(format!("{directory}/$"));
    }
    let mut found = Vec::new();
    for (which, value) in values.iter().enumerate() {
        if !value.starts_with(['/', '*']) {
            continue;
        }
        let anchored = value.ends_with('$');
        let body = if anchored { &value[..value.len() - 1] } else { &value[..] };
        let (mut places, mut weight) = (Vec::new(), usize::from(anchored));
        for (number, part) in body.split('*').enumerate() {
            if number > 0 {
                places.push(Place::Any);
                weight += 1;
            }
            for (name, octet_weight) in octets(part.as_bytes()) {
                weight += octet_weight;
                places.push(Place::Octet(name));
            }
        }
        places.extend(anchored.then_some(Place::End));
        if which == 0 {
            found.extend(in_query(&places, false).map(|p| (p, weight)));
            found.extend(in_query(&places, true).map(|p| (p, weight)));
        }
        found.push((places, weight));
    }
    found
}

/// The pattern with `:`, `/`, `?` and `@` behind the first `?` all escaped, or all plain.
fn in_query(places: &[Place], escape: bool) -> Option<Vec<Place>> {
    const SAME: [(&str, &str); 4] = [(":", "%3A"), ("/", "%2F"), ("?", "%3F"), ("@", "%40")];
    let query = places.iter().position(|place| *place == Place::Octet("?".to_owned()))?;
    let mut found = places.to_vec();
    for place in &mut found[query + 1..] {
        let Place::Octet(octet) = place else { continue };
        if let Some((plain, escaped)) = SAME.iter().find(|(p, e)| octet == p || octet == e) {
            *octet = (if escape { escaped } else { plain }).to_string();
        }
    }
    Some(found)
}

/// Tries everything.
fn fits(pattern: &[Place], path: &str) -> bool {
    match pattern.split_first() {
        None => true,
        Some((Place::End, _)) => path.is_empty(),
        Some((Place::Any, rest)) => (0..=path.len()).any(|skip| fits(rest, &path[skip..])),
        Some((Place::Octet(octet), rest)) => {
            path.strip_prefix(octet.as_str()).is_some_and(|path| fits(rest, path))
        }
    }
}

fn cases(few: u32) -> ProptestConfig {
    let by_user = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig::default();
    let cases = if by_user { default.cases } else { few };
    // What fails is printed whole; it becomes a test with its story, not a seed in a file.
    ProptestConfig { cases, failure_persistence: None, ..default }
}

fn text(atoms: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(atoms), 0..=most).prop_map(|parts| parts.concat())
}

const PLAIN: &[&str] = &["a", "b", "/", "?", "=", ":"];
const RULE: &[&str] = &["a", "b", "/", "*", "*", "$", "?", "ab"];
const ODD: &[&str] = &[
    "a",
    "/",
    "?",
    ":",
    "*",
    "$",
    "%61",
    "%2F",
    "%2f",
    "%3A",
    "%2A",
    "%24",
    "%",
    "6",
    "1",
    "é",
    "%C3%A9",
    "%c3",
    "\"",
    " ",
    "/index.htm",
    "~",
    "%7E",
];

/// Values have no blanks at their ends: the file could not hold them.
fn rule(atoms: &'static [&'static str], most: usize) -> impl Strategy<Value = Line> {
    let value = prop_oneof![
        8 => text(atoms, most).prop_map(|rest| format!("/{rest}")),
        1 => text(atoms, most).prop_map(|rest| format!("*{rest}")),
        1 => text(atoms, most),
    ];
    let value = value.prop_map(|value| value.trim().to_owned());
    (any::<bool>(), value).prop_map(|(allow, value)| Line { allow, value })
}

fn file(atoms: &'static [&'static str], most: usize) -> impl Strategy<Value = File> {
    let agent = prop::sample::select(&["*", "foobot", "FooBot", "barbot", "foobots"][..]);
    let group =
        (prop::collection::vec(agent, 1..3), prop::collection::vec(rule(atoms, most), 1..7));
    (prop::collection::vec(group, 0..4), prop::collection::vec(any::<u8>(), 1..8))
        .prop_map(|(groups, noise)| File { groups, noise })
}

fn compare(file: &File, agent: &str, path: &str) -> Result<(), TestCaseError> {
    let (text, numbers) = file.write();
    let group = Robots::parse(text.as_bytes()).group(agent);
    let verdict = group.judge(path);
    let found = (verdict.allowed, verdict.rule.map(|rule| rule.line));
    prop_assert_eq!(found, file.judge(&numbers, agent, path), "{:?} {} {}", text, agent, path);
    Ok(())
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn plain_rules_decide_alike(
        file in file(RULE, 6),
        agent in prop::sample::select(&["foobot", "barbot", "quxbot"][..]),
        paths in prop::collection::vec(text(PLAIN, 8), 1..6),
    ) {
        for path in paths {
            compare(&file, agent, &format!("/{path}"))?;
        }
    }

    #[test]
    fn rules_with_escapes_decide_alike(
        file in file(ODD, 5),
        paths in prop::collection::vec(text(ODD, 6), 1..6),
    ) {
        for path in paths {
            compare(&file, "foobot", &format!("/{path}"))?;
        }
    }

    #[test]
    fn any_bytes_are_parsed(bytes in prop::collection::vec(any::<u8>(), 0..600), limit in 0..700usize) {
        let robots = Robots::parse_limited(&bytes, limit);
        let url = String::from_utf8_lossy(&bytes);
        robots.group(&url).judge(&url);
    }

    // The same, of bytes that are more than rubbish.
    #[test]
    fn any_lines_are_parsed(
        lines in prop::collection::vec(text(
            &["user-agent", "disallow", "allow", "crawl-delay", "sitemap", ":", " ", "*", "/", "#", "\0",
              "%", "$", "é", ",", "1", ".", "\r", "?:", "index.htm"], 12), 0..40),
        limit in 0..1500usize,
    ) {
        let text = lines.join("\n");
        let robots = Robots::parse_limited(text.as_bytes(), limit);
        for line in &lines {
            let group = robots.group(line);
            let rule = group.judge(line).rule;
            prop_assert!(rule.is_none_or(|rule| text.contains(rule.text)));
        }
    }
}

proptest! {
    #![proptest_config(cases(30))]

    // Enough wildcard rules for the probe to be used.
    #[test]
    fn hundreds_of_rules_decide_alike(
        rules in prop::collection::vec(rule(&["a", "b", "c", "*", "/", "abcab"], 7), 600..900),
        path in text(&["a", "b", "c", "/", "abcabcab"], 12),
    ) {
        let file = File { groups: vec![(vec!["*"], rules)], noise: vec![0] };
        compare(&file, "foobot", &format!("/{path}"))?;
    }
}
