//! What does a document in JSON say?
//!
//! A JSON feed is read as a feed. Of any other JSON: strings that are sentences are its text, strings
//! that are addresses its links.

use serde_json::Value;

use super::xml::from_feed;
use super::{Reading, Source};
use crate::complaints::Complaints;
use crate::feed;
use crate::links::LinkKind;
use crate::state::mine;

pub(super) fn read(source: &Source<'_>) -> Reading {
    let mut complaints = Complaints::default();
    if let Some(feed) = feed::read_json(source.text, source.url, &mut complaints) {
        return from_feed(feed);
    }
    let Ok(value) = serde_json::from_str::<Value>(source.text.trim()) else {
        // Many objects one after the other, a file that was cut, or no JSON at all.
        return super::plain(source);
    };
    let mined = mine(&value);
    let named = ["title", "headline", "name"].iter().find_map(|name| value.get(name)?.as_str());
    Reading {
        title: named.map(|title| title.chars().take(500).collect()),
        text: mined.texts.join("\n"),
        links: mined
            .addresses
            .into_iter()
            .map(|href| (LinkKind::Anchor, href, String::new()))
            .collect(),
        ..Reading::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(json: &str) -> Reading {
        read(&Source { body: json.as_bytes(), text: json, url: None })
    }

    #[test]
    fn sentences_are_text_and_addresses_are_links() {
        let found = reading(
            r#"{"title": "Lamps", "id": "x81", "body": {"html": "<p>Two lamps are lit at night.</p>"},
               "links": ["https://a.test/1", {"href": "/two"}], "n": 3}"#,
        );
        assert_eq!(found.title.as_deref(), Some("Lamps"));
        assert_eq!(found.text, "Two lamps are lit at night.");
        let hrefs: Vec<&str> = found.links.iter().map(|link| link.1.as_str()).collect();
        assert_eq!(hrefs, ["https://a.test/1", "/two"]);
    }

    #[test]
    fn what_does_not_parse_is_plain_text() {
        let found = reading("{\"a\":\"https://a.test/1\"}\n{\"b\":1}");
        assert_eq!(found.links.len(), 1);
        reading(&"[".repeat(100_000));
    }
}
