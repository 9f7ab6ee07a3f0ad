//! Which page is behind a path, and which path leads to a page?
//!
//! A page's path tells nothing of its fault: a crawler must find out. It has a [`Shape`], which is
//! what robots.txt rules are about.
//!
//! Always: a path that the world writes leads back to its page; no other does.

use crate::chance::mix;
use crate::text;
use crate::world::{About, Host, World, ascii};

/// The form of a page's path; what robots.txt rules are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `/`
    Home,
    /// `/news/some-words-17`
    Plain,
    /// `/news/list?item=17`
    Query,
    /// `/private/word-17`
    Private,
    /// `/private/open/word-17`
    PrivateOpen,
    /// `/tmp/word-17.bak`
    Bak,
    /// `/tmp/word-17.bak?v=17`
    BakQuery,
}

const SECTIONS: [&str; 8] =
    ["news", "articles", "guide", "people", "places", "archive", "science", "notes"];

/// What a path means on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Robots {
        hop: u64,
    },
    SharedRobots,
    Sitemap,
    Page(u64),
    /// A redirect on the way from `page`, with this many more to come.
    Hop {
        page: u64,
        left: u64,
    },
    LoopHop {
        page: u64,
        at: u64,
    },
    Month {
        year: u64,
        month: u64,
    },
    Deep {
        level: u64,
    },
    Unknown,
}

impl World {
    pub(crate) fn shape(&self, host: &Host, page: u64) -> Shape {
        if page == 0 {
            return Shape::Home;
        }
        let hash = self.hash(About::Shape, host.index, page);
        if !self.is_leaf(host, page) {
            return if hash.is_multiple_of(8) { Shape::Query } else { Shape::Plain };
        }
        match hash % 40 {
            0..=4 => Shape::Query,
            5..=6 => Shape::Private,
            7 => Shape::PrivateOpen,
            8 => Shape::Bak,
            9 => Shape::BakQuery,
            _ => Shape::Plain,
        }
    }

    pub(crate) fn push_path(&self, host: &Host, page: u64, out: &mut Vec<u8>) {
        self.push_path_of(host.index, self.shape(host, page), page, out);
    }

    fn push_path_of(&self, host: u64, shape: Shape, page: u64, out: &mut Vec<u8>) {
        let hash = self.hash(About::Slug, host, page);
        let word = |n: u64| text::pool().word(mix(hash, n)).as_bytes();
        let section = SECTIONS[(hash % 8) as usize].as_bytes();
        match shape {
            Shape::Home => return out.push(b'/'),
            Shape::Plain => {
                out.push(b'/');
                out.extend_from_slice(section);
                out.push(b'/');
                out.extend_from_slice(word(1));
                out.push(b'-');
                out.extend_from_slice(word(2));
                out.push(b'-');
            }
            Shape::Query => {
                out.push(b'/');
                out.extend_from_slice(section);
                out.extend_from_slice(b"/list?item=");
            }
            Shape::Private | Shape::PrivateOpen => {
                let folder: &[u8] =
                    if shape == Shape::Private { b"/private/" } else { b"/private/open/" };
                out.extend_from_slice(folder);
                out.extend_from_slice(word(1));
                out.push(b'-');
            }
            Shape::Bak | Shape::BakQuery => {
                out.extend_from_slice(b"/tmp/");
                out.extend_from_slice(word(1));
                out.push(b'-');
            }
        }
        text::push_decimal(out, page);
        if matches!(shape, Shape::Bak | Shape::BakQuery) {
            out.extend_from_slice(b".bak");
        }
        if shape == Shape::BakQuery {
            out.extend_from_slice(b"?v=");
            text::push_decimal(out, page);
        }
    }

    pub(crate) fn path(&self, host: &Host, page: u64) -> String {
        ascii(|out| self.push_path(host, page, out))
    }

    /// The page behind a path, if the world has written that path.
    pub(crate) fn find_page(&self, host: &Host, target: &str) -> Option<u64> {
        if target == "/" {
            return Some(0);
        }
        let digits_end = target.rfind(|c: char| c.is_ascii_digit())? + 1;
        let digits_start =
            target[..digits_end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
        let page: u64 = target[digits_start..digits_end].parse().ok()?;
        let mut path = Vec::with_capacity(64);
        (page > 0 && page < host.pages).then(|| self.push_path(host, page, &mut path))?;
        (path == target.as_bytes()).then_some(page)
    }

    pub(crate) fn target(&self, host: &Host, target: &str) -> Target {
        if let Some(page) = self.find_page(host, target) {
            return Target::Page(page);
        }
        let two = |rest: &str| -> Option<(u64, u64)> {
            let (first, second) = rest.split_once('/')?;
            Some((first.parse().ok()?, second.parse().ok()?))
        };
        let special = || -> Option<Target> {
            Some(match target {
                "/robots.txt" => Target::Robots { hop: 0 },
                "/robots-shared.txt" => Target::SharedRobots,
                "/sitemap.xml" => Target::Sitemap,
                _ => {
                    if let Some(rest) = target.strip_prefix("/go/") {
                        let (page, left) = two(rest)?;
                        Target::Hop { page, left }
                    } else if let Some(rest) = target.strip_prefix("/loop/") {
                        let (page, at) = two(rest)?;
                        Target::LoopHop { page, at }
                    } else if let Some(rest) = target.strip_prefix("/calendar/") {
                        let (year, month) = two(rest)?;
                        Target::Month { year, month }
                    } else if let Some(rest) = target.strip_prefix("/deep/") {
                        Target::Deep { level: rest.matches("more/").count() as u64 }
                    } else {
                        let hop = target.strip_prefix("/robots-")?.strip_suffix(".txt")?;
                        Target::Robots { hop: hop.parse().ok()? }
                    }
                }
            })
        };
        special().unwrap_or(Target::Unknown)
    }
}
