//! How would a careful person read robots.txt and links, without haste?
//!
//! A second reader, for the truth: short, slow and written from RFC 9309 alone, sharing nothing
//! with the crawler's. It reads what worlds and fixtures write, not what the whole web writes.

use std::time::Duration;

/// Bytes of a robots.txt that count.
const READ_BYTES: usize = 500 * 1024;

#[derive(Debug, Default)]
struct Group {
    agents: Vec<String>,
    /// Allow or not, and the pattern.
    rules: Vec<(bool, String)>,
    delay: Option<Duration>,
}

/// Whether `product` may fetch `target` (path and query) under this robots.txt.
pub(crate) fn allows(text: &str, product: &str, target: &str) -> bool {
    let groups = groups(text, product);
    let rules = groups.iter().flat_map(|group| &group.rules);
    let matching = rules.filter(|(_, pattern)| matches(pattern.as_bytes(), target.as_bytes()));
    // The longest pattern decides; between two of one length the kinder one.
    matching.max_by_key(|(allow, pattern)| (pattern.len(), *allow)).is_none_or(|(allow, _)| *allow)
}

pub(crate) fn crawl_delay(text: &str, product: &str) -> Option<Duration> {
    groups(text, product).iter().filter_map(|group| group.delay).max()
}

/// The groups that speak to this product: those that name it, or else those for everyone.
fn groups(text: &str, product: &str) -> Vec<Group> {
    let mut end = text.len().min(READ_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = text[..end].trim_start_matches('\u{feff}');
    let mut groups: Vec<Group> = vec![Group::default()];
    let mut in_rules = true;
    for line in text.split(['\r', '\n']) {
        let line = line.split('#').next().unwrap_or("");
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        if key == "user-agent" {
            if in_rules {
                groups.push(Group::default());
                in_rules = false;
            }
            let token: String = value
                .chars()
                .take_while(|c| c.is_ascii_alphabetic() || "_-*".contains(*c))
                .collect();
            last(&mut groups).agents.push(token.to_ascii_lowercase());
            continue;
        }
        let group = last(&mut groups);
        match key.as_str() {
            // An empty pattern matches nothing.
            "allow" | "disallow" if !value.is_empty() => {
                group.rules.push((key == "allow", value.to_owned()));
            }
            "crawl-delay" => {
                group.delay = value.parse().ok().map(Duration::from_secs_f64);
            }
            "allow" | "disallow" => {}
            _ => continue,
        }
        in_rules = true;
    }
    let product = product.to_ascii_lowercase();
    let named = |group: &Group, name: &str| group.agents.iter().any(|agent| agent == name);
    let wanted = if groups.iter().any(|group| named(group, &product)) { &product } else { "*" };
    groups.retain(|group| named(group, wanted));
    groups
}

fn last(groups: &mut [Group]) -> &mut Group {
    groups.last_mut().expect("there is one from the start")
}

/// `*` stands for anything, `$` at the end for the end.
fn matches(pattern: &[u8], target: &[u8]) -> bool {
    match pattern {
        [] => true,
        [b'$'] => target.is_empty(),
        [b'*', rest @ ..] => (0..=target.len()).any(|skip| matches(rest, &target[skip..])),
        [byte, rest @ ..] => target.first() == Some(byte) && matches(rest, &target[1..]),
    }
}

/// The links of simple HTML, with whether they ask not to be followed.
pub(crate) fn links(html: &str) -> Vec<(String, bool)> {
    let mut links = Vec::new();
    let mut page_nofollow = false;
    for tag in html.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
        if tag.starts_with("meta") && attribute(tag, "name").is_some_and(|name| name == "robots") {
            page_nofollow |= attribute(tag, "content").is_some_and(|c| c.contains("nofollow"));
        }
        if let Some(href) = attribute(tag, "href").filter(|_| tag.starts_with("a ")) {
            let nofollow = attribute(tag, "rel").is_some_and(|rel| rel.contains("nofollow"));
            links.push((href, nofollow));
        }
    }
    links.into_iter().map(|(href, nofollow)| (href, nofollow || page_nofollow)).collect()
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let at = tag.find(&format!(" {name}="))? + name.len() + 2;
    let value = &tag[at..];
    let end = match value.as_bytes().first()? {
        quote @ (b'"' | b'\'') => {
            return value[1..].split(char::from(*quote)).next().map(str::to_owned);
        }
        _ => value.find(char::is_whitespace).unwrap_or(value.len()),
    };
    Some(value[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_reader_knows_the_rules_of_the_rfc() {
        let text = "User-agent: *\nDisallow: /\n\nUser-agent: a\nUser-agent: lycosa\n\
                    Disallow: /p\nAllow: /p/open\nDisallow: /*.bak$\nCrawl-delay: 2\n\n\
                    user-agent: LYCOSA/1.0\nDisallow: /t # tmp\nDisallow:\n";
        let check =
            |target: &str, want: bool| assert_eq!(allows(text, "lycosa", target), want, "{target}");
        check("/", true);
        check("/p", false);
        check("/p/x", false);
        check("/p/open/x", true);
        check("/x.bak", false);
        check("/x.bak?1", true);
        check("/t", false);
        assert!(!allows(text, "other", "/"));
        assert!(allows("", "lycosa", "/"));
        assert_eq!(crawl_delay(text, "lycosa"), Some(Duration::from_secs(2)));
        assert_eq!(crawl_delay(text, "other"), None);
    }

    #[test]
    fn links_are_found_as_fixtures_write_them() {
        let html =
            "<a href=/x>x</a> <a href=\"/y z\" rel=nofollow>y</a><b>no</b> <a rel='up' href='q'>";
        let want = [("/x".into(), false), ("/y z".into(), true), ("q".into(), false)];
        assert_eq!(links(html), want);
        assert!(links("<meta name=robots content=nofollow><a href=x>")[0].1);
    }
}
