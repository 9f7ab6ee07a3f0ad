//! Which URLs have we met a moment ago?
//!
//! Most links of a page were on the page before: menus, footers. And some pages everybody links
//! to. A table of the latest ids answers for them without a look at the store. It knows how near
//! each was found, so that a nearer find still goes through.
//!
//! Always: what it calls known is in the store with nothing to change. An id alone does not prove
//! a text, so each entry also holds 64 bits of another hash, under a seed that no page knows.

use types::UrlId;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Entries looked through for an id. Four of them are one cache line.
const WAYS: usize = 4;
/// Sets of the smallest table: 1 MiB. An entry holds the bits of its id beyond these.
const SETS_MIN_BITS: u32 = 14;
/// Bits of an id that an entry holds; with those of its set they are 52 at least.
const TAG_BITS: u32 = 38;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
const NEAR_BITS: u32 = 26;

/// A bounded table; a new entry pushes that one of its set out which was not met for longest. It
/// doubles while it fills up.
#[derive(Debug)]
pub(super) struct Recent {
    sets: Vec<Set>,
    sets_max: usize,
    /// Entries that pushed none out.
    entries: usize,
    seed: u64,
}

/// The entry that was met last comes first. Zero is empty.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Set([Entry; WAYS]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    proof: u64,
    /// Bits of the id, then how near it was found; the last bit is always set.
    way: u64,
}

const EMPTY: Entry = Entry { proof: 0, way: 0 };

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
    pub(super) fn new(bytes_max: u64, seed: u64) -> Self {
        let sets_max = usize::try_from(bytes_max).unwrap_or(usize::MAX) / size_of::<Set>();
        let sets_max = 1 << sets_max.max(1).ilog2();
        let sets = sets_max.min(1 << SETS_MIN_BITS);
        Self { sets: vec![Set([EMPTY; WAYS]); sets], sets_max, entries: 0, seed }
    }

    /// How near this very URL was found, if it is here.
    pub(super) fn find(&mut self, id: UrlId, text: &str) -> Option<Near> {
        let set = self.set(id);
        let Set(entries) = &self.sets[set];
        let at = entries.iter().position(|entry| entry.is_of(id))?;
        if entries[at].proof != self.proof(text) {
            return None;
        }
        let Set(entries) = &mut self.sets[set];
        entries[..=at].rotate_right(1);
        Some(unpack(entries[0].way))
    }

    pub(super) fn insert(&mut self, id: UrlId, text: &str, near: Near) {
        if self.entries > self.sets.len() * (WAYS - 1) && self.sets.len() < self.sets_max {
            self.double();
        }
        let set = self.set(id);
        let entry = Entry { proof: self.proof(text), way: tag(id) << NEAR_BITS | pack(near) };
        let Set(entries) = &mut self.sets[set];
        let known = entries.iter().position(|entry| entry.is_of(id));
        let at = known.unwrap_or(WAYS - 1);
        self.entries += usize::from(entries[at] == EMPTY);
        entries.copy_within(..at, 1);
        entries[0] = entry;
    }

    /// The next find must go to the store.
    pub(super) fn forget(&mut self, id: UrlId) {
        let set = self.set(id);
        let Set(entries) = &mut self.sets[set];
        if let Some(at) = entries.iter().position(|entry| entry.is_of(id)) {
            entries.copy_within(at + 1.., at);
            entries[WAYS - 1] = EMPTY;
            self.entries -= 1;
        }
    }

    /// Each set becomes two; one more bit of the id tells who goes where.
    fn double(&mut self) {
        let half = self.sets.len();
        let bit = 1 << (half.trailing_zeros() - SETS_MIN_BITS + NEAR_BITS);
        self.sets.resize(2 * half, Set([EMPTY; WAYS]));
        for at in 0..half {
            let Set(all) = std::mem::replace(&mut self.sets[at], Set([EMPTY; WAYS]));
            for (to, upper) in [(at, false), (at + half, true)] {
                let Set(entries) = &mut self.sets[to];
                let mine = all.iter().filter(|entry| **entry != EMPTY);
                let mine = mine.filter(|entry| (entry.way & bit != 0) == upper);
                entries.iter_mut().zip(mine).for_each(|(place, entry)| *place = *entry);
            }
        }
    }

    fn set(&self, id: UrlId) -> usize {
        // The id is a hash already: any of its bits will do.
        id.0 as usize & (self.sets.len() - 1)
    }

    fn proof(&self, text: &str) -> u64 {
        xxh3_64_with_seed(text.as_bytes(), self.seed)
    }
}

impl Entry {
    fn is_of(self, id: UrlId) -> bool {
        self.way >> NEAR_BITS == tag(id) && self != EMPTY
    }
}

/// The bits of an id beyond those that choose a set of the smallest table: a larger one needs some
/// of them for that.
fn tag(id: UrlId) -> u64 {
    (id.0 as u64 >> SETS_MIN_BITS) & TAG_MASK
}

fn pack(near: Near) -> u64 {
    u64::from(near.depth) << 10 | u64::from(near.hops) << 2 | u64::from(near.seed) << 1 | 1
}

fn unpack(way: u64) -> Near {
    Near { depth: (way >> 10) as u16, hops: (way >> 2) as u8, seed: way >> 1 & 1 == 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Near = Near { depth: 3, hops: 1, seed: false };

    #[test]
    fn what_was_put_in_is_found_until_newer_ones_push_it_out() {
        let mut recent = Recent::new(128, 1);
        // All of one set: equal low bits.
        let ids: Vec<_> = (1..=5_u128).map(|n| UrlId(n << SETS_MIN_BITS)).collect();
        for (n, id) in ids.iter().enumerate() {
            recent.insert(*id, "u", Near { depth: n as u16, ..NEAR });
        }
        assert_eq!(recent.find(ids[0], "u"), None);
        assert_eq!(recent.find(ids[4], "u"), Some(Near { depth: 4, ..NEAR }));
        recent.insert(ids[1], "u", NEAR);
        assert!(recent.find(ids[2], "u").is_some());
        recent.insert(ids[0], "u", NEAR);
        // The fourth was not met for longest then.
        assert_eq!(recent.find(ids[3], "u"), None);
        assert_eq!(recent.find(ids[1], "u"), Some(NEAR));
        recent.forget(ids[1]);
        assert_eq!(recent.find(ids[1], "u"), None);
    }

    #[test]
    fn another_text_with_the_same_id_is_not_taken_for_it() {
        let mut recent = Recent::new(1 << 10, 7);
        recent.insert(UrlId(9), "http://a.test/", NEAR);
        assert_eq!(recent.find(UrlId(9), "http://b.test/"), None);
        assert_eq!(recent.find(UrlId(9), "http://a.test/"), Some(NEAR));
    }

    #[test]
    fn a_table_that_fills_up_doubles_and_keeps_what_it_has() {
        let text = |n: u64| format!("http://a.test/{n}");
        let mut recent = Recent::new(8 << 20, 7);
        let smallest = recent.sets.len();
        let mut inserted = 0;
        while recent.sets.len() < 4 * smallest {
            let (id, depth) = (UrlId::of(&text(inserted)), inserted as u16);
            recent.insert(id, &text(inserted), Near { depth, ..NEAR });
            inserted += 1;
        }
        let mut kept = 0;
        for n in 0..inserted {
            if let Some(near) = recent.find(UrlId::of(&text(n)), &text(n)) {
                assert_eq!(near.depth, n as u16);
                kept += 1;
            }
        }
        assert!(kept > inserted * 8 / 10, "{kept} of {inserted}");
        assert_eq!(kept as usize, recent.entries);
        // It never grows beyond its maximum.
        (0..1_000_000).for_each(|n| recent.insert(UrlId::of(&text(n)), &text(n), NEAR));
        assert_eq!(recent.sets.len() * WAYS, 1 << 19);
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
