//! What does XML say that is no page?
//!
//! Feeds and sitemaps are read as what they are; of any other XML the text of its elements, one to a
//! line, and all that looks like an address.

use quick_xml::events::Event;
use serde_json::json;

use super::{Reading, Source, addresses};
use crate::complaints::Complaints;
use crate::feed::{Feed, FeedKind};
use crate::links::LinkKind;
use crate::records;
use crate::sitemap::{self, Listed};

const TEXT_BYTES_MAX: usize = 8 << 20;
const LINKS_MAX: usize = 50_000;

/// A step through XML.
pub(super) enum Walk<'w> {
    Start {
        name: &'w str,
        /// Names in lower case, values without references.
        attributes: &'w [(String, String)],
        empty: bool,
    },
    /// The text between two tags.
    Text(&'w str),
    End(&'w str),
}

/// Goes through XML from tag to tag, however broken it is.
pub(super) fn walk(xml: &str, mut take: impl FnMut(Walk<'_>)) {
    let mut text = String::new();
    let mut at = 0;
    for _ in 0..=records::RESTARTS_MAX {
        let mut reader = records::reader(&xml[at..]);
        loop {
            let event = reader.read_event();
            match &event {
                Ok(Event::Text(piece)) => text.push_str(&htmlize::unescape_attribute(&**piece)),
                Ok(Event::CData(piece)) => text.push_str(piece),
                Ok(Event::GeneralRef(name)) => {
                    text.push_str(&htmlize::unescape_attribute(format!("&{};", &**name)));
                }
                _ if !text.is_empty() => {
                    take(Walk::Text(&text));
                    text.clear();
                }
                _ => {}
            }
            match event {
                Ok(Event::Eof) => return,
                Ok(Event::Start(tag)) => {
                    let attributes = records::attributes(&tag);
                    let attributes = attributes.as_slice();
                    take(Walk::Start { name: tag.name().as_ref(), attributes, empty: false });
                }
                Ok(Event::Empty(tag)) => {
                    let attributes = records::attributes(&tag);
                    let attributes = attributes.as_slice();
                    take(Walk::Start { name: tag.name().as_ref(), attributes, empty: true });
                    take(Walk::End(tag.name().as_ref()));
                }
                Ok(Event::End(tag)) => take(Walk::End(tag.name().as_ref())),
                Ok(_) => {}
                Err(_) => {
                    let offset = usize::try_from(reader.error_position()).unwrap_or(usize::MAX);
                    let Some(next) = records::next_tag(xml, at.saturating_add(offset)) else {
                        return;
                    };
                    at = next;
                    break;
                }
            }
        }
    }
}

pub(super) fn read(source: &Source<'_>) -> Reading {
    let mut complaints = Complaints::default();
    match sitemap::listed(source.text, source.url, &mut complaints) {
        Some(Listed::Feed(feed)) => from_feed(feed),
        Some(Listed::Sitemap(map)) => Reading {
            links: map
                .entries
                .into_iter()
                .map(|entry| (LinkKind::Anchor, entry.loc.into(), String::new()))
                .collect(),
            about: map
                .kind
                .map(|kind| json!({"@type": "Sitemap", "@source": "xml", "kind": kind.name()})),
            ..Reading::default()
        },
        None => other(source),
    }
}

/// A feed as a document: its entries, one after the other.
pub(super) fn from_feed(feed: Feed) -> Reading {
    let kind = match feed.kind {
        FeedKind::Rss => "rss",
        FeedKind::Atom => "atom",
        FeedKind::Json => "json",
    };
    let mut reading = Reading {
        title: feed.title,
        description: feed.description,
        about: Some(json!({"@type": "DataFeed", "@source": "feed", "kind": kind})),
        ..Reading::default()
    };
    for entry in feed.entries {
        let parts = [entry.title.as_deref(), entry.summary.as_deref()];
        for part in parts.into_iter().flatten().filter(|part| !part.is_empty()) {
            if reading.text.len() + part.len() < TEXT_BYTES_MAX {
                let gap = if reading.text.is_empty() { "" } else { "\n\n" };
                reading.text.push_str(gap);
                reading.text.push_str(part);
            }
        }
        if let Some(link) = entry.link {
            let text = entry.title.unwrap_or_default().chars().take(200).collect();
            reading.links.push((LinkKind::Anchor, link.into(), text));
        }
    }
    reading
}

/// XML of no kind that we know.
fn other(source: &Source<'_>) -> Reading {
    let mut reading = Reading::default();
    let mut name = String::new();
    walk(source.text, |step| match step {
        Walk::Start { name: found, attributes, .. } => {
            name = found.rsplit(':').next().unwrap_or(found).to_ascii_lowercase();
            for (key, value) in attributes {
                let key = key.rsplit(':').next().unwrap_or(key);
                let leads = matches!(key, "href" | "src" | "url" | "uri" | "resource" | "link");
                if leads && !key.starts_with("xmlns") {
                    add_link(&mut reading, value.trim());
                }
            }
        }
        Walk::End(_) => name.clear(),
        Walk::Text(text) => {
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            if line.is_empty() {
                return;
            }
            let whole_address = addresses(&line).next().is_some_and(|address| address == line);
            addresses(&line).for_each(|address| add_link(&mut reading, address));
            if name == "title" && reading.title.is_none() {
                reading.title = Some(line.chars().take(500).collect());
            }
            if !whole_address && reading.text.len() + line.len() < TEXT_BYTES_MAX {
                let gap = if reading.text.is_empty() { "" } else { "\n" };
                reading.text.push_str(gap);
                reading.text.push_str(&line);
            }
        }
    });
    reading
}

fn add_link(reading: &mut Reading, href: &str) {
    if !href.is_empty() && reading.links.len() < LINKS_MAX {
        reading.links.push((LinkKind::Anchor, href.to_owned(), String::new()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(xml: &str) -> Reading {
        read(&Source { body: xml.as_bytes(), text: xml, url: None })
    }

    fn hrefs(reading: &Reading) -> Vec<&str> {
        reading.links.iter().map(|(_, href, _)| href.as_str()).collect()
    }

    #[test]
    fn a_feed_is_its_entries() {
        let found = reading(
            "<?xml version='1.0'?><rss><channel><title>News &amp; more</title><link>https://a.test/</link>\
             <description>Of lamps</description><item><title>One</title><link>https://a.test/1</link>\
             <description>&lt;p&gt;First &lt;b&gt;words&lt;/b&gt;&lt;/p&gt;</description></item></channel></rss>",
        );
        assert_eq!(found.title.as_deref(), Some("News & more"));
        assert_eq!(found.description.as_deref(), Some("Of lamps"));
        assert_eq!(found.text, "One\n\nFirst words");
        assert_eq!(hrefs(&found), ["https://a.test/1"]);
        assert_eq!(found.links[0].2, "One");
    }

    #[test]
    fn a_sitemap_is_its_addresses() {
        let found = reading("<urlset><url><loc>https://a.test/1</loc></url></urlset>");
        assert_eq!(hrefs(&found), ["https://a.test/1"]);
        assert_eq!(found.text, "");
    }

    #[test]
    fn other_xml_has_text_and_addresses() {
        let found = reading(
            "<doc xmlns='http://x.test/ns'><title>A &amp; B</title><p>one <b>two</b></p>\
             <see href='/here'/><at>https://a.test/x</at></doc>",
        );
        assert_eq!(found.text, "A & B\none\ntwo");
        assert_eq!(found.title.as_deref(), Some("A & B"));
        assert_eq!(hrefs(&found), ["/here", "https://a.test/x"]);
    }

    #[test]
    fn broken_xml_ends() {
        reading("<a><b href='x' <c>&bad; text</a></b><![CDATA[");
        reading(&"<a x='".repeat(10_000));
    }
}
