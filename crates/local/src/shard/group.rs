//! Which URLs and hosts does one batch touch?
//!
//! The links of all visits of a batch, each text once, with the nearest of its finds; and their
//! hosts, each once, with what is staged for them. Texts are borrowed from the batch.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use ports::shard_store::Found;
use ports::{PortError, PortResult};
use types::{Discovery, HostState, QueueKey, Record, UrlId, UrlRef};

use super::heads::Heads;
use super::keys;
use super::recent::Near;

/// The rows and hosts of one batch.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) rows: Vec<Row<'a>>,
    pub(super) hosts: Hosts<'a>,
    index: HashMap<(HostIndex, UrlId), RowIndex, FixedState>,
}

pub(super) type RowIndex = usize;
pub(super) type HostIndex = usize;

/// One URL of the batch.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) text: &'a str,
    pub(super) host: HostIndex,
    /// The hash of its text; after the seen test, the id under which it is stored.
    pub(super) id: UrlId,
    /// Another text of the batch with the same host and id came first: its id must be sought.
    pub(super) clashes: bool,
    next: Option<RowIndex>,
    /// The nearest of the finds, and how many there were.
    pub(super) offer: Option<Offer>,
    pub(super) finds: u64,
    pub(super) visited: bool,
    pub(super) verdict: Verdict,
    /// The record has changed and must be written.
    pub(super) changed: bool,
}

/// How a URL was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) near: Near,
    pub(super) band: u8,
}

/// What the seen test says.
#[derive(Debug)]
pub(super) enum Verdict {
    Open,
    New,
    /// Met a moment ago, with nothing to change.
    Recent,
    /// Known, with nothing to change; found before as near as this.
    Known(Near),
    /// Known, and its record is wanted.
    Stored(Box<Record>),
    /// Visited, and as its visitor was told.
    Lent,
    /// It was known, and was forgotten on purpose.
    Forgotten,
    /// All the ids it could have belong to others.
    Unplaced,
}

impl<'a> Group<'a> {
    pub(super) fn new(links: usize, hash_seed: u64) -> Self {
        let hasher = FixedState::with_seed(hash_seed);
        Self {
            rows: Vec::with_capacity(links),
            hosts: Hosts::new(hasher.clone()),
            index: HashMap::with_capacity_and_hasher(links, hasher),
        }
    }

    /// A URL that was visited.
    pub(super) fn visited(&mut self, text: &'a str, id: UrlId) -> PortResult<RowIndex> {
        let row = self.row(text, id)?;
        self.rows[row].visited = true;
        Ok(row)
    }

    /// A URL that was found.
    pub(super) fn found(&mut self, found: Found<'a>) -> PortResult<()> {
        let Found { url, id, depth, hops, band, seed } = found;
        let at = self.row(url, id)?;
        let row = &mut self.rows[at];
        let new = Offer { near: Near { depth, hops, seed }, band };
        row.offer = Some(row.offer.map_or(new, |old| old.nearest(new)));
        row.finds += 1;
        Ok(())
    }

    /// The row of a text, made if it is the first.
    fn row(&mut self, text: &'a str, id: UrlId) -> PortResult<RowIndex> {
        let url = UrlRef::from_canonical(text)
            .map_err(|error| PortError::corrupt("take a link into the store", error))?;
        let host = self.hosts.index(url.host());
        let new = self.rows.len();
        let first = *self.index.entry((host, id)).or_insert(new);
        let mut at = first;
        while at != new {
            if self.rows[at].text == text {
                return Ok(at);
            }
            at = match self.rows[at].next {
                Some(next) => next,
                None => {
                    self.rows[at].next = Some(new);
                    new
                }
            };
        }
        self.rows.push(Row {
            text,
            host,
            id,
            clashes: first != new,
            next: None,
            offer: None,
            finds: 0,
            visited: false,
            verdict: Verdict::Open,
            changed: false,
        });
        Ok(new)
    }

    /// The key of a row in `url`.
    pub(super) fn key(&mut self, row: RowIndex, id: UrlId) -> Vec<u8> {
        let host = self.rows[row].host;
        keys::url(self.hosts.prefix(host), id)
    }
}

impl Row<'_> {
    pub(super) fn record_mut(&mut self) -> Option<&mut Record> {
        match &mut self.verdict {
            Verdict::Stored(record) => Some(record),
            _ => None,
        }
    }
}

impl Offer {
    /// The best of both in each respect: the result does not depend on which came first.
    fn nearest(self, other: Self) -> Self {
        let (a, b) = (self.near, other.near);
        let near =
            Near { depth: a.depth.min(b.depth), hops: a.hops.min(b.hops), seed: a.seed || b.seed };
        Self { near, band: self.band.min(other.band) }
    }
}

pub(super) fn near_of(found: &Discovery) -> Near {
    Near { depth: found.depth, hops: found.hops, seed: found.seed }
}

/// How a URL is found after one more find. A better band alone is no news: it comes with a nearer
/// find, so that the answer is the same whether or not the record was read.
pub(super) fn improved(known: Discovery, found: Discovery) -> Discovery {
    if near_of(&known).covers(near_of(&found)) { known } else { nearest(known, found) }
}

/// The best of two ways to a URL in each respect.
pub(super) fn nearest(a: Discovery, b: Discovery) -> Discovery {
    Discovery {
        at: a.at.min(b.at),
        depth: a.depth.min(b.depth),
        hops: a.hops.min(b.hops),
        seed: a.seed || b.seed,
        band: a.band.min(b.band),
    }
}

/// The hosts of a batch.
#[derive(Debug)]
pub(super) struct Hosts<'a> {
    pub(super) slots: Vec<HostSlot<'a>>,
    index: HashMap<&'a str, HostIndex, FixedState>,
    last: HostIndex,
}

#[derive(Debug)]
pub(super) struct HostSlot<'a> {
    pub(super) name: &'a str,
    /// Empty until it is needed.
    prefix: Vec<u8>,
    pub(super) state: Option<&'a HostState>,
    /// Where its queue begins; none where nothing leaves it.
    pub(super) heads: Option<Heads>,
    pub(super) heads_changed: bool,
}

impl<'a> Hosts<'a> {
    pub(super) fn new(hasher: FixedState) -> Self {
        Self { slots: Vec::new(), index: HashMap::with_hasher(hasher), last: 0 }
    }

    pub(super) fn index(&mut self, name: &'a str) -> HostIndex {
        // Most links of a page lead to its own host: the one of the link before.
        if self.slots.get(self.last).is_some_and(|slot| slot.name == name) {
            return self.last;
        }
        let new = self.slots.len();
        self.last = *self.index.entry(name).or_insert(new);
        if self.last == new {
            self.slots.push(HostSlot {
                name,
                prefix: Vec::new(),
                state: None,
                heads: None,
                heads_changed: false,
            });
        }
        self.last
    }

    pub(super) fn prefix(&mut self, host: HostIndex) -> &[u8] {
        let slot = &mut self.slots[host];
        if slot.prefix.is_empty() {
            slot.prefix = keys::host_prefix(slot.name);
        }
        &slot.prefix
    }

    /// An entry of a host's queue comes back to its place, or leaves it.
    pub(super) fn moved(&mut self, host: HostIndex, key: QueueKey, comes: bool) {
        let slot = &mut self.slots[host];
        let heads = slot.heads.as_mut().expect("the heads of visited hosts are loaded first");
        if comes {
            slot.heads_changed |= heads.comes_back(key);
        } else {
            heads.leaves(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(url: &str, id: u128, depth: u16) -> Found<'_> {
        Found { url, id: UrlId(id), depth, hops: 1, band: 3, seed: false }
    }

    #[test]
    fn a_text_has_one_row_and_the_nearest_of_its_finds() {
        let mut group = Group::new(4, 1);
        group.found(found("http://a.test/x", 1, 5)).unwrap();
        group.found(found("http://b.test/", 2, 4)).unwrap();
        group.found(Found { hops: 0, band: 9, ..found("http://a.test/x", 1, 7) }).unwrap();
        group.found(Found { seed: true, ..found("http://a.test/x", 1, 6) }).unwrap();
        assert_eq!((group.rows.len(), group.hosts.slots.len()), (2, 2));
        let offer = group.rows[0].offer.unwrap();
        assert_eq!(offer, Offer { near: Near { depth: 5, hops: 0, seed: true }, band: 3 });
        assert_eq!(group.rows[0].finds, 3);
    }

    #[test]
    fn texts_with_one_id_are_told_apart_and_hosts_do_not_mix() {
        let mut group = Group::new(4, 1);
        for url in ["http://a.test/x", "http://a.test/y", "http://b.test/", "http://a.test/z"] {
            group.found(found(url, 1, 1)).unwrap();
            group.found(found(url, 1, 1)).unwrap();
        }
        let rows: Vec<_> = group.rows.iter().map(|r| (r.text, r.clashes, r.finds)).collect();
        assert_eq!(
            rows,
            [
                ("http://a.test/x", false, 2),
                ("http://a.test/y", true, 2),
                ("http://b.test/", false, 2),
                ("http://a.test/z", true, 2)
            ]
        );
    }

    #[test]
    fn a_link_that_is_not_canonical_is_our_own_fault() {
        assert!(Group::new(1, 1).found(found("mailto:x", 1, 1)).is_err());
    }
}
