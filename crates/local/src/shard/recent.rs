//! Which URLs have we met a moment ago?
//!
//! Most links of a page were on the page before: menus, footers. A small table of the latest ids
//! answers for them without a look at the store. It knows how near each was found, so that a
//! nearer find still goes through.
//!
//! Always: what it calls known is in the store with nothing to change. An id alone does not prove
//! a text, so each entry also holds 64 bits of another hash, under a seed that no page knows.

use types::UrlId;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Entries looked through for an id. Four of them are two cache lines.
const WAYS: usize = 4;

/// A bounded table; a new entry pushes the oldest of its set out.
#[derive(Debug)]
pub(super) struct Recent {
    /// Zero is empty: both tables come as untouched zero pages from the system.
    ids: Vec<u128>,
    ways: Vec<u128>,
    sets: usize,
    seed: u64,
}

/// How near a URL was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Near {
    pub(super) depth: u16,
    pub(super) hops: u8,
    pub(super) seed: bool,
}

impl Near {
    /// Whether finding it like this teaches nothing to one who knows `self`.
    pub(super) fn covers(self, offer: Self) -> bool {
        self.depth <= offer.depth && self.hops <= offer.hops && (self.seed || !offer.seed)
    }
}

impl Recent {
    pub(super) fn new(entries_max: usize, seed: u64) -> Self {
        let sets = (entries_max / WAYS).next_power_of_two().max(1);
        Self { ids: vec![0; sets * WAYS], ways: vec![0; sets * WAYS], sets, seed }
    }

    /// How near this very URL was found, if it is here.
    pub(super) fn find(&self, id: UrlId, text: &str) -> Option<Near> {
        let set = self.set(id);
        let at = set + self.ids[set..set + WAYS].iter().position(|&known| known == id.0)?;
        let way = self.ways[at];
        (way >> 64 == u128::from(self.proof(text))).then(|| unpack(way))
    }

    pub(super) fn insert(&mut self, id: UrlId, text: &str, near: Near) {
        let set = self.set(id);
        let ids = &mut self.ids[set..set + WAYS];
        let at = ids.iter().position(|&known| known == id.0).unwrap_or(WAYS - 1);
        ids.copy_within(..at, 1);
        ids[0] = id.0;
        let way = u128::from(self.proof(text)) << 64 | pack(near);
        let ways = &mut self.ways[set..set + WAYS];
        ways.copy_within(..at, 1);
        ways[0] = way;
    }

    /// The next find must go to the store.
    pub(super) fn forget(&mut self, id: UrlId) {
        let set = self.set(id);
        for at in set..set + WAYS {
            if self.ids[at] == id.0 {
                self.ids[at] = 0;
                self.ways[at] = 0;
            }
        }
    }

    fn set(&self, id: UrlId) -> usize {
        // The id is a hash already: any of its bits will do.
        (id.0 as usize & (self.sets - 1)) * WAYS
    }

    fn proof(&self, text: &str) -> u64 {
        xxh3_64_with_seed(text.as_bytes(), self.seed)
    }
}

fn pack(near: Near) -> u128 {
    u128::from(near.depth) << 16 | u128::from(near.hops) << 8 | u128::from(near.seed) << 1 | 1
}

fn unpack(way: u128) -> Near {
    Near { depth: (way >> 16) as u16, hops: (way >> 8) as u8, seed: way >> 1 & 1 == 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Near = Near { depth: 3, hops: 1, seed: false };

    #[test]
    fn what_was_put_in_is_found_until_newer_ones_push_it_out() {
        let mut recent = Recent::new(8, 1);
        // All of one set: equal low bits.
        let ids: Vec<_> = (1..=5_u128).map(|n| UrlId(n << 64)).collect();
        for (n, id) in ids.iter().enumerate() {
            recent.insert(*id, "u", Near { depth: n as u16, ..NEAR });
        }
        assert_eq!(recent.find(ids[0], "u"), None);
        assert_eq!(recent.find(ids[4], "u"), Some(Near { depth: 4, ..NEAR }));
        recent.insert(ids[1], "u", NEAR);
        recent.insert(ids[0], "u", NEAR);
        // The third was the oldest then.
        assert_eq!(recent.find(ids[2], "u"), None);
        assert_eq!(recent.find(ids[1], "u"), Some(NEAR));
        recent.forget(ids[1]);
        assert_eq!(recent.find(ids[1], "u"), None);
    }

    #[test]
    fn another_text_with_the_same_id_is_not_taken_for_it() {
        let mut recent = Recent::new(64, 7);
        recent.insert(UrlId(9), "http://a.test/", NEAR);
        assert_eq!(recent.find(UrlId(9), "http://b.test/"), None);
        assert_eq!(recent.find(UrlId(9), "http://a.test/"), Some(NEAR));
    }

    #[test]
    fn every_nearness_survives_packing() {
        for near in [
            NEAR,
            Near { depth: u16::MAX, hops: u8::MAX, seed: true },
            Near { depth: 0, hops: 0, seed: false },
        ] {
            assert_eq!(unpack(pack(near)), near);
        }
    }

    #[test]
    fn a_find_that_is_nearer_in_any_way_is_not_covered() {
        assert!(NEAR.covers(NEAR));
        assert!(NEAR.covers(Near { depth: 4, hops: 2, seed: false }));
        assert!(!NEAR.covers(Near { depth: 2, ..NEAR }));
        assert!(!NEAR.covers(Near { hops: 0, ..NEAR }));
        assert!(!NEAR.covers(Near { seed: true, ..NEAR }));
        assert!(Near { seed: true, ..NEAR }.covers(NEAR));
    }
}
