//! What does a page of the world say, and where does it lead?
//!
//! Links are worked out first and written second, and the oracle takes the same list, so what the
//! world knows of itself and what it sends cannot differ.

use crate::chance::{Chance, mix, unit};
use crate::text;
use crate::world::{About, HOST_BRANCHES, Host, PAGE_BRANCHES, World};

/// Where a link leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) host: u64,
    pub(crate) page: u64,
}

impl World {
    pub(crate) fn links(&self, host: &Host, page: u64, links: &mut Vec<Link>) {
        links.clear();
        let own = |page| Link { host: host.index, page };
        if page != 0 {
            links.push(own(0));
        }
        let first = page.saturating_mul(PAGE_BRANCHES).saturating_add(1);
        links.extend((first..first + PAGE_BRANCHES).take_while(|&p| p < host.pages).map(own));
        if page == 0 {
            let first = host.index * HOST_BRANCHES + 1;
            let hosts = (first..first + HOST_BRANCHES).take_while(|&h| h < self.spec.hosts);
            links.extend(hosts.map(|host| Link { host, page: 0 }));
        }
        let mut chance = Chance::new(self.hash(About::Links, host.index, page));
        // From half to one and a half of the average.
        let total = u64::from(self.spec.links) / 2 + chance.below(u64::from(self.spec.links) + 1);
        let reach = if self.spec.endless { first + PAGE_BRANCHES } else { host.pages };
        while (links.len() as u64) < total {
            let draw = chance.unit();
            let link = if draw < self.spec.links_repeated && !links.is_empty() {
                links[chance.below(links.len() as u64) as usize]
            } else if draw < self.spec.links_repeated + self.spec.links_away {
                let other = popular(self.spec.hosts, &mut chance);
                let pages = if self.spec.endless { 1_000 } else { self.pages_of(other) };
                Link { host: other, page: popular(pages, &mut chance) }
            } else {
                own(popular(reach, &mut chance))
            };
            links.push(link);
        }
    }

    /// The page in HTML: links with text between them, until the page has its size.
    pub(crate) fn html(&self, host: &Host, page: u64, version: u64, extra: &Extra) -> Vec<u8> {
        let pool = text::pool();
        let size = self.body_bytes(host, page);
        let mut out = Vec::with_capacity(size + 1_024);
        let text_seed = mix(self.hash(About::Text, host.index, page), version);
        self.push_top(host, page, version, extra, &mut out);
        let mut links = Vec::with_capacity(self.spec.links as usize * 2);
        self.links(host, page, &mut links);
        // What the links themselves take, markup included, measured on worlds of all sizes.
        let link_bytes = if self.spec.tiny_bodies { 54 } else { 100 };
        let text_bytes = size.saturating_sub(out.len() + links.len() * link_bytes);
        let each = text_bytes / links.len().max(1);
        let card = if self.spec.tiny_bodies { TINY_CARD } else { CARD };
        let mut owed = 0;
        for (n, link) in links.iter().enumerate() {
            owed += each;
            let hash = mix(text_seed, n as u64);
            if owed >= card.least {
                let before = out.len();
                out.extend_from_slice(card.top);
                out.extend_from_slice(
                    pool.sentences(hash, owed.saturating_sub(card.bytes() + SENTENCE_BYTES / 2)),
                );
                out.extend_from_slice(card.end);
                owed = owed.saturating_sub(out.len() - before);
            }
            out.extend_from_slice(if self.spec.tiny_bodies {
                b"<li><a href=\"".as_slice()
            } else {
                b"<li class=\"nav-item\"><a class=\"nav-link link-dark\" href=\""
            });
            self.push_link(host, link, hash, &mut out);
            out.extend_from_slice(if extra.rel_nofollow {
                b"\" rel=\"nofollow\">"
            } else {
                b"\">"
            });
            out.extend_from_slice(pool.word(hash).as_bytes());
            out.extend_from_slice(b"</a></li>\n");
        }
        if let Some(link) = extra.link {
            out.extend_from_slice(b"<p><a href=\"");
            out.extend_from_slice(link.as_bytes());
            out.extend_from_slice(b"\">next</a></p>\n");
        }
        out.extend_from_slice(b"</main></body></html>\n");
        out
    }

    fn push_top(&self, host: &Host, page: u64, version: u64, extra: &Extra, out: &mut Vec<u8>) {
        let hash = self.hash(About::Slug, host.index, page);
        out.extend_from_slice(
            b"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>",
        );
        out.extend_from_slice(text::pool().word(mix(hash, 1)).as_bytes());
        out.push(b' ');
        out.extend_from_slice(text::pool().word(mix(hash, 2)).as_bytes());
        out.push(b' ');
        text::push_decimal(out, page);
        out.extend_from_slice(b" - ");
        self.push_host_name(host.index, out);
        out.extend_from_slice(b"</title>\n");
        if let Some(directive) = extra.meta {
            out.extend_from_slice(b"<meta name=\"robots\" content=\"");
            out.extend_from_slice(directive.as_bytes());
            out.extend_from_slice(b"\">\n");
        }
        out.extend_from_slice(b"</head><body><main><h1>");
        out.extend_from_slice(text::pool().word(mix(hash, 1)).as_bytes());
        out.extend_from_slice(b", edition ");
        text::push_decimal(out, version);
        out.extend_from_slice(b"</h1>\n");
    }

    /// Mostly as short as it can be, sometimes with all there is to say.
    fn push_link(&self, from: &Host, link: &Link, hash: u64, out: &mut Vec<u8>) {
        if link.host == from.index {
            if hash.is_multiple_of(8) {
                self.push_origin(from, out);
            }
            return self.push_path(from, link.page, out);
        }
        let host = self.host(link.host);
        self.push_origin(&host, out);
        self.push_path(&host, link.page, out);
    }

    /// Between the bounds on a logarithmic scale, more often in the middle.
    fn body_bytes(&self, host: &Host, page: u64) -> usize {
        let hash = self.hash(About::Size, host.index, page);
        let (least, most) = self.spec.page_bytes;
        let middle = (unit(hash) + unit(mix(hash, 1))) / 2.0;
        let skewed = 1.0 - (1.0 - middle).powf(1.17);
        (f64::from(least) * (f64::from(most) / f64::from(least)).powf(skewed)) as usize
    }
}

/// The markup around a piece of text. On real pages markup is more than half of the bytes, and
/// most of why they compress five times.
struct Card {
    /// Bytes that are worth a card.
    least: usize,
    top: &'static [u8],
    end: &'static [u8],
}

const CARD: Card = Card {
    least: 600,
    top: b"<section class=\"card card--teaser shadow-sm mb-4\" data-component=\"teaser\" \
        data-track=\"impression\"><div class=\"card__inner row g-0\"><div class=\"col-12 col-md-8 \
        card__content\"><svg class=\"icon icon--mark\" width=\"16\" height=\"16\" viewBox=\"0 0 16 16\" \
        aria-hidden=\"true\"><path d=\"M8 1l2 5h5l-4 3 2 6-5-4-5 4 2-6-4-3h5z\"/></svg>\
        <p class=\"card__text text-body\">",
    end: b"</p></div></div></section>\n",
};

const TINY_CARD: Card = Card { least: 60, top: b"<p>", end: b"</p>\n" };

impl Card {
    const fn bytes(&self) -> usize {
        self.top.len() + self.end.len()
    }
}

/// A sentence of the pool, about: runs end on a whole one.
const SENTENCE_BYTES: usize = 70;

/// What a page has beside its text and its usual links.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extra {
    pub(crate) meta: Option<&'static str>,
    pub(crate) rel_nofollow: bool,
    pub(crate) link: Option<&'static str>,
}

pub(crate) fn parent(page: u64) -> u64 {
    (page - 1) / PAGE_BRANCHES
}

/// Below `bound`, small numbers more often: each order of magnitude is as likely as the next.
fn popular(bound: u64, chance: &mut Chance) -> u64 {
    ((bound as f64 + 1.0).powf(chance.unit()) as u64 - 1).min(bound - 1)
}
