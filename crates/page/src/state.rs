//! What does a page keep for its scripts?
//!
//! Pages that a browser fills carry their data as JSON: in a script of type `application/json`
//! (`__NEXT_DATA__`), or as the value of a variable (`window.__NUXT__`, `__INITIAL_STATE__`). It is
//! mined for addresses and, where the page shows nothing else, for text, before anybody pays for a
//! browser.
//!
//! Always: bounded in bytes and in what is kept; data that is no JSON is searched for its strings.

use std::collections::HashSet;

use serde_json::Value;

use crate::content::element::Element;
use crate::content::structured::plain;
use crate::content::tree::Tree;

/// Bytes of scripts of one page that are looked at. State of real pages stays below one million.
const STATE_BYTES_MAX: usize = 4 << 20;

const ADDRESSES_MAX: usize = 10_000;
const TEXT_BYTES_MAX: usize = 2 << 20;

/// A string is a sentence from so many words on.
const WORDS_MIN: usize = 4;

/// The variables that frameworks keep their state in.
const VARIABLES: [&str; 9] = [
    "__NEXT_DATA__",
    "__NUXT__",
    "__INITIAL_STATE__",
    "__PRELOADED_STATE__",
    "__APOLLO_STATE__",
    "__INITIAL_DATA__",
    "__remixContext",
    "__sveltekit",
    "__next_f",
];

/// What was found, each once; lists keep their order, members come in the order of their names.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Mined {
    /// Absolute, or paths from the root.
    pub(crate) addresses: Vec<String>,
    pub(crate) texts: Vec<String>,
}

/// The state of a page.
pub(crate) fn of_page(tree: &Tree<'_>) -> Mined {
    let mut miner = Miner::default();
    let mut left = STATE_BYTES_MAX;
    for id in 1..tree.nodes.len() {
        if tree.element(id) != Element::Script || tree.nodes[id].foreign {
            continue;
        }
        let raw = tree.raw_text(id);
        if raw.is_empty() || raw.len() > left {
            continue;
        }
        let kind = tree.attribute(id, "type").unwrap_or_default().trim().to_ascii_lowercase();
        let is_data =
            kind == "application/json" || kind.ends_with("+json") && !kind.contains("ld+");
        let is_state = || VARIABLES.iter().any(|name| raw.contains(name));
        if is_data {
            left -= raw.len();
            match serde_json::from_str(raw.trim()) {
                Ok(value) => miner.value(&value),
                Err(_) => miner.strings(raw),
            }
        } else if matches!(kind.as_str(), "" | "text/javascript" | "module") && is_state() {
            left -= raw.len();
            match assigned(raw) {
                Some(value) => miner.value(&value),
                None => miner.strings(raw),
            }
        }
    }
    miner.mined
}

/// The strings of JSON that somebody may want.
pub(crate) fn mine(value: &Value) -> Mined {
    let mut miner = Miner::default();
    miner.value(value);
    miner.mined
}

/// `window.__X__ = {…};`: the value, where it is JSON.
fn assigned(script: &str) -> Option<Value> {
    let at = script.find('=')? + 1;
    let rest = script[at..].trim_start();
    if !rest.starts_with(['{', '[']) {
        return None;
    }
    serde_json::Deserializer::from_str(rest).into_iter().next()?.ok()
}

#[derive(Debug, Default)]
struct Miner {
    mined: Mined,
    seen: HashSet<u64>,
    text_bytes: usize,
}

impl Miner {
    fn value(&mut self, value: &Value) {
        // The next one last; the parser has bounded how deep it goes.
        let mut waiting: Vec<(&str, &Value)> = vec![("", value)];
        while let Some((name, value)) = waiting.pop() {
            match value {
                Value::String(text) => self.string(name, text),
                Value::Array(list) => waiting.extend(list.iter().rev().map(|value| (name, value))),
                Value::Object(object) => {
                    let members = object.iter().map(|(name, value)| (name.as_str(), value));
                    let at = waiting.len();
                    waiting.extend(members);
                    waiting[at..].reverse();
                }
                _ => {}
            }
        }
    }

    /// The strings of something that is nearly JSON: whatever stands in double quotes.
    fn strings(&mut self, script: &str) {
        let mut rest = script;
        while let Some(from) = memchr::memchr(b'"', rest.as_bytes()) {
            let behind = &rest[from + 1..];
            let mut escaped = false;
            let end = behind.bytes().position(|byte| {
                let ends = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                ends
            });
            let Some(end) = end else { return };
            // A string in a string is what some frameworks write: once more, then.
            let quoted = &rest[from..from + end + 2];
            if let Ok(text) = serde_json::from_str::<String>(quoted) {
                if text.contains("\\\"") || text.contains("\":\"") {
                    self.inner_strings(&text);
                } else {
                    self.string("", &text);
                }
            }
            rest = &behind[end + 1..];
        }
    }

    fn inner_strings(&mut self, text: &str) {
        for piece in text.split('"') {
            self.string("", piece.trim_end_matches('\\'));
        }
    }

    fn string(&mut self, name: &str, text: &str) {
        let text = text.trim();
        if is_address(name, text) {
            if self.is_new(text) && self.mined.addresses.len() < ADDRESSES_MAX {
                self.mined.addresses.push(text.to_owned());
            }
            return;
        }
        if !is_sentence(text) || self.text_bytes > TEXT_BYTES_MAX {
            return;
        }
        let text = if text.contains(['<', '&']) { plain(text) } else { text.to_owned() };
        if is_sentence(&text) && self.is_new(&text) {
            self.text_bytes += text.len();
            self.mined.texts.push(text);
        }
    }

    fn is_new(&mut self, text: &str) -> bool {
        self.seen.insert(xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
    }
}

fn is_address(name: &str, text: &str) -> bool {
    if text.len() > 2_048 || text.contains(|c: char| c.is_whitespace() || "<>{}\"\\".contains(c)) {
        return false;
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
        return is_http && !rest.is_empty();
    }
    // A path is one where its name says so.
    let name = name.to_ascii_lowercase();
    let leads = ["url", "href", "link", "path", "slug", "src", "permalink", "uri", "canonical"];
    text.starts_with('/')
        && text.len() > 1
        && !text.contains(['[', '*', '$', '('])
        && leads.iter().any(|word| name.ends_with(word))
}

fn is_sentence(text: &str) -> bool {
    let mut words = text.split_whitespace().filter(|word| word.contains(char::is_alphabetic));
    // Classes, settings and code have marks that sentences do not begin or end with.
    let is_code = text.starts_with(['{', '[', '.', '#', '@', '/', '('])
        || text.contains("function(")
        || text.contains("=>")
        || text.contains("</script")
        || text.ends_with(['{', ';']);
    words.nth(WORDS_MIN - 1).is_some() && !is_code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(html: &str) -> Mined {
        of_page(&Tree::parse(html, false))
    }

    #[test]
    fn the_state_of_frameworks_is_mined() {
        let next = found(
            "<script id=__NEXT_DATA__ type=application/json>{\"props\":{\"post\":{\"slug\":\"/a/one\",\
             \"body\":\"<p>The lamps are lit at night.</p>\",\"img\":\"https://b.test/i.png\"}}}</script>",
        );
        // In the order of the object's keys, or of its text: that is serde_json's choice.
        let mut addresses = next.addresses;
        addresses.sort();
        assert_eq!(addresses, ["/a/one", "https://b.test/i.png"]);
        assert_eq!(next.texts, ["The lamps are lit at night."]);
        let assigned =
            found("<script>window.__INITIAL_STATE__ = {\"url\":\"/x\"};(function(){})()</script>");
        assert_eq!(assigned.addresses, ["/x"]);
        let nuxt = found(
            "<script>window.__NUXT__=(function(a){return {u:\"https://a.test/y\",t:\"Four words are enough\"}}(1))</script>",
        );
        assert_eq!(nuxt.addresses, ["https://a.test/y"]);
        assert_eq!(nuxt.texts, ["Four words are enough"]);
        let stream = found(
            "<script>self.__next_f.push([1,\"5:{\\\"href\\\":\\\"https://a.test/z\\\"}\"])</script>",
        );
        assert_eq!(stream.addresses, ["https://a.test/z"]);
    }

    #[test]
    fn other_scripts_are_left_alone() {
        assert_eq!(found("<script>var a = \"https://a.test/\"</script>"), Mined::default());
        assert_eq!(found("<script type=application/json>{\"a\":\"x y\"}</script>").texts.len(), 0);
        found(&format!("<script type=application/json>{}</script>", "[".repeat(100_000)));
        found("<script>__NUXT__=\"\\</script>");
    }
}
