//! How do others read the same pages?
//!
//! [`compare`] holds the links of our one pass over the tokens against those of the tree that the
//! HTML standard builds. Links are compared as a multiset of kind and absolute URL: the standard
//! moves what stands wrongly in a table, so the order in a tree is not that of the page.
//!
//! Two differences are no faults, and are counted apart. *Copies*: where tags are crossed
//! (`<a><p></a>`, an anchor that is never closed), the standard repeats the anchor in the next
//! element; the page has one link, the tree two. *Dropped*: where an element may not stand (a
//! second `<frameset>`, anything but options in a `<select>`), the standard leaves the tag out of the
//! tree; an archivist would still want what it points to, so we keep it.

mod tree;

use std::collections::BTreeMap;
use std::fmt;

use page::{Input, Limits, LinkKind, read};
use url::Url;

/// Kinds as far as both sides tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Anchor,
    Area,
    Frame,
    Refresh,
    Link,
    Image,
    Script,
    Media,
    Object,
}

impl Kind {
    fn of(kind: LinkKind) -> Self {
        use LinkKind::*;
        match kind {
            Anchor => Self::Anchor,
            Area => Self::Area,
            Frame => Self::Frame,
            Refresh => Self::Refresh,
            Canonical | Alternate | Next | Prev | Amp | Feed | Stylesheet | Icon | Other => {
                Self::Link
            }
            Image => Self::Image,
            Script => Self::Script,
            Media => Self::Media,
            Object => Self::Object,
        }
    }
}

/// One link: what it is for, and the absolute URL, or what stands there if it is none.
pub type Found = (Kind, String);

/// How two readings of one page differ.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Links that both have.
    pub same: usize,
    /// Anchors that the tree has once more than the page, because the standard repeats them.
    pub copies: usize,
    /// Links of tags that have no place in the tree.
    pub dropped: usize,
    /// What is left: faults of one side.
    pub only_ours: Vec<Found>,
    pub only_theirs: Vec<Found>,
}

impl Difference {
    pub fn is_none(&self) -> bool {
        self.only_ours.is_empty() && self.only_theirs.is_empty()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (whose, links) in [("ours", &self.only_ours), ("the tree's", &self.only_theirs)] {
            for (kind, url) in links {
                writeln!(f, "only {whose}: {kind:?} {url}")?;
            }
        }
        Ok(())
    }
}

/// Holds our links of a page, in UTF-8, against those of its tree.
pub fn compare(url: &str, html: &str) -> Difference {
    let theirs = tree::read(url, html);
    let mut counts: BTreeMap<Found, (usize, usize)> = BTreeMap::new();
    for link in ours(url, html) {
        counts.entry(link).or_default().0 += 1;
    }
    for link in theirs.links {
        counts.entry(link).or_default().1 += 1;
    }
    let mut difference = Difference::default();
    let mut dropped = theirs.dropped;
    for (link, (ours, theirs)) in counts {
        difference.same += ours.min(theirs);
        for _ in theirs..ours {
            match dropped.iter().position(|known| *known == link) {
                Some(place) => {
                    dropped.swap_remove(place);
                    difference.dropped += 1;
                }
                None => difference.only_ours.push(link.clone()),
            }
        }
        let surplus = theirs.saturating_sub(ours);
        if ours > 0 && link.0 == Kind::Anchor {
            difference.copies += surplus;
        } else {
            difference.only_theirs.extend(std::iter::repeat_n(link, surplus));
        }
    }
    difference
}

fn ours(url: &str, html: &str) -> Vec<Found> {
    let limits = Limits {
        body_bytes_max: html.len().max(1),
        links_max: usize::MAX,
        href_bytes_max: html.len().max(1),
        ..Limits::default()
    };
    let input = Input::new(url, html.as_bytes());
    let document = read(Input { content_type: Some("text/html; charset=utf-8"), limits, ..input });
    let base = document.base();
    document.links().map(|link| (Kind::of(link.kind), absolute(base, link.href))).collect()
}

fn absolute(base: Option<&Url>, href: &str) -> String {
    let joined = base.and_then(|base| base.join(href).ok());
    joined.map_or_else(|| href.to_owned(), String::from)
}
