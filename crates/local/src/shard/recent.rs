//! Which URLs have we met a moment ago?
//!
//! Most links of a page were on the page before: menus, footers. And some pages everybody links
//! to. A table of the latest URLs answers for them without a look at the store. It knows how near
//! each was found, so that a nearer find still goes through.
//!
//! Always: what it calls known is in the store with nothing to change. An entry is eight bytes, so
//! that one for each of a hundred million URLs fits into memory where somebody wants that. Beside
//! its place it holds 42 bits of a hash under a seed that no page knows: with the filter, which is
//! asked first, a new URL is taken for a known one once in 10^14 times.
//!
//! The table grows by one set after the other (linear hashing): no pause, and no moment in which
//! it is there twice.

use types::UrlId;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Entries looked through for a URL; they are one cache line.
const WAYS: usize = 8;
/// Of them, as many are filled on average before the table grows: where a set still stands for two,
/// all are.
const FILLED: usize = 4;
/// Sets of the smallest table, and of each piece by which it grows: 1 MiB.
const PIECE_BITS: u32 = 14;
const PIECE: usize = 1 << PIECE_BITS;

/// An entry: how near, then the bits of the id that place it in a larger table, then the proof.
const NEAR_BITS: u32 = 10;
const PLACE_BITS: u32 = 12;
const PROOF_BITS: u32 = u64::BITS - NEAR_BITS - PLACE_BITS;
const EMPTY: u64 = 0;

/// Sets of the largest table, 4 GiB: an entry holds no bits to place it in a larger one.
const SETS_MAX: usize = 1 << (PIECE_BITS + PLACE_BITS);

/// A bounded table; a new entry pushes that one of its set out which was not met for longest.
#[derive(Debug)]
pub(super) struct Recent {
    pieces: Vec<Box<[Set]>>,
    sets: usize,
    sets_max: usize,
    /// Entries that pushed none out.
    entries: usize,
    seed: u64,
}

/// The entry that was met last comes first.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Set([u64; WAYS]);

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
        let sets_max = sets_max.clamp(1, SETS_MAX);
        let sets = sets_max.min(PIECE);
        Self { pieces: vec![piece(sets)], sets, sets_max, entries: 0, seed }
    }

    /// How near this very URL was found at least, if it is here.
    pub(super) fn find(&mut self, id: UrlId, text: &str) -> Option<Near> {
        let mark = self.mark(id, text);
        let Set(entries) = self.set_of(id);
        let at = entries.iter().position(|entry| entry >> NEAR_BITS == mark)?;
        entries[..=at].rotate_right(1);
        Some(unpack(entries[0]))
    }

    pub(super) fn insert(&mut self, id: UrlId, text: &str, near: Near) {
        while self.entries > self.sets * FILLED && self.sets < self.sets_max {
            self.grow();
        }
        let mark = self.mark(id, text);
        let Set(entries) = self.set_of(id);
        let known = entries.iter().position(|entry| entry >> NEAR_BITS == mark);
        let at = known.unwrap_or(WAYS - 1);
        let fills = entries[at] == EMPTY;
        entries.copy_within(..at, 1);
        entries[0] = mark << NEAR_BITS | pack(near);
        self.entries += usize::from(fills);
    }

    /// The next find must go to the store. Whatever else has the same place is forgotten too.
    pub(super) fn forget(&mut self, id: UrlId) {
        let Set(entries) = self.set_of(id);
        let all = std::mem::replace(entries, [EMPTY; WAYS]);
        let filled = all.into_iter().filter(|entry| *entry != EMPTY);
        let stays = filled.clone().filter(|entry| place_bits(*entry) != place_of(id));
        let gone = filled.count() - stays.clone().count();
        entries.iter_mut().zip(stays).for_each(|(place, entry)| *place = entry);
        self.entries -= gone;
    }

    /// One more set, which takes its half from the one that stood for both.
    fn grow(&mut self) {
        let new = self.sets;
        let bit = new.ilog2();
        let (old_piece, old) = spot(new - (1 << bit));
        let (new_piece, at) = spot(new);
        if at == 0 {
            self.pieces.push(piece(PIECE));
        }
        let Set(all) = std::mem::replace(&mut self.pieces[old_piece][old], Set([EMPTY; WAYS]));
        let goes = |entry: &u64| place_bits(*entry) >> (bit - PIECE_BITS) & 1 == 1;
        let (mut stay, mut go) = (0, 0);
        for entry in all.into_iter().filter(|entry| *entry != EMPTY) {
            let (piece, set, n) = match goes(&entry) {
                true => (new_piece, at, &mut go),
                false => (old_piece, old, &mut stay),
            };
            self.pieces[piece][set].0[*n] = entry;
            *n += 1;
        }
        self.sets = new + 1;
    }

    /// A word of what [`Self::find`] will look at.
    pub(super) fn touch(&self, id: UrlId) -> u64 {
        let (piece, at) = self.spot_of(id);
        self.pieces[piece][at].0[0]
    }

    fn set_of(&mut self, id: UrlId) -> &mut Set {
        let (piece, at) = self.spot_of(id);
        &mut self.pieces[piece][at]
    }

    fn spot_of(&self, id: UrlId) -> (usize, usize) {
        // The id is a hash already: any of its bits will do.
        let whole = self.sets.next_power_of_two();
        let at = id.0 as usize & (whole - 1);
        spot(if at < self.sets { at } else { at - whole / 2 })
    }

    /// What an entry of this URL holds above its nearness. Never 0.
    fn mark(&self, id: UrlId, text: &str) -> u64 {
        let proof = xxh3_64_with_seed(text.as_bytes(), self.seed) >> (u64::BITS - PROOF_BITS);
        proof.max(1) << PLACE_BITS | place_of(id)
    }
}

fn piece(sets: usize) -> Box<[Set]> {
    vec![Set([EMPTY; WAYS]); sets].into_boxed_slice()
}

/// Piece, and place in it, of a set.
const fn spot(set: usize) -> (usize, usize) {
    (set >> PIECE_BITS, set & (PIECE - 1))
}

/// The bits of an id beyond those that choose a set of the smallest table: a larger one needs some
/// of them for that.
const fn place_of(id: UrlId) -> u64 {
    id.0 as u64 >> PIECE_BITS & ((1 << PLACE_BITS) - 1)
}

const fn place_bits(entry: u64) -> u64 {
    entry >> NEAR_BITS & ((1 << PLACE_BITS) - 1)
}

/// Ten bits. What does not fit is written as farther than it was: then the store is asked.
fn pack(near: Near) -> u64 {
    u64::from(near.seed) << 9 | u64::from(near.hops.min(3)) << 7 | depth_class(near.depth)
}

fn unpack(entry: u64) -> Near {
    let hops = entry >> 7 & 3;
    let hops = if hops == 3 { u8::MAX } else { hops as u8 };
    Near { depth: class_depth(entry & 127), hops, seed: entry >> 9 & 1 == 1 }
}

/// Exact up to 31, then sixteen steps to each doubling; the last class is all that is farther.
fn depth_class(depth: u16) -> u64 {
    if depth < 32 {
        return u64::from(depth);
    }
    let shift = depth.ilog2() - 4;
    let sixteenths = u64::from(depth).div_ceil(1 << shift);
    (u64::from(shift) * 16 + sixteenths).min(127)
}

fn class_depth(class: u64) -> u16 {
    match class {
        0..16 => class as u16,
        16..127 => (16 + class as u16 % 16) << (class / 16 - 1),
        _ => u16::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Near = Near { depth: 3, hops: 1, seed: false };

    #[test]
    fn what_was_put_in_is_found_until_newer_ones_push_it_out() {
        let mut recent = Recent::new(128, 1);
        // All of one set: equal low bits.
        let ids: Vec<_> = (1..=WAYS as u128 + 1).map(|n| UrlId(n << PIECE_BITS)).collect();
        for (n, id) in ids.iter().enumerate() {
            recent.insert(*id, "u", Near { depth: n as u16, ..NEAR });
        }
        assert_eq!(recent.find(ids[0], "u"), None);
        assert_eq!(recent.find(ids[WAYS], "u"), Some(Near { depth: WAYS as u16, ..NEAR }));
        recent.insert(ids[1], "u", NEAR);
        assert!(recent.find(ids[2], "u").is_some());
        recent.insert(ids[0], "u", NEAR);
        // The fourth was not met for longest then.
        assert_eq!(recent.find(ids[3], "u"), None);
        assert_eq!(recent.find(ids[1], "u"), Some(NEAR));
        recent.forget(ids[1]);
        assert_eq!(recent.find(ids[1], "u"), None);
        assert_eq!(recent.find(ids[2], "u"), Some(Near { depth: 2, ..NEAR }));
        assert_eq!(recent.entries, WAYS - 1);
    }

    #[test]
    fn another_text_with_the_same_id_is_not_taken_for_it() {
        let mut recent = Recent::new(1 << 10, 7);
        recent.insert(UrlId(9), "http://a.test/", NEAR);
        assert_eq!(recent.find(UrlId(9), "http://b.test/"), None);
        assert_eq!(recent.find(UrlId(9), "http://a.test/"), Some(NEAR));
    }

    #[test]
    fn a_table_that_fills_up_grows_and_keeps_what_it_has() {
        let text = |n: u64| format!("http://a.test/{n}");
        // Three and a half of the smallest: the last doubling is not finished.
        let mut recent = Recent::new(7 << 19, 7);
        let smallest = recent.sets;
        let mut inserted = 0;
        while recent.sets < 3 * smallest {
            let (id, depth) = (UrlId::of(&text(inserted)), (inserted % 32) as u16);
            recent.insert(id, &text(inserted), Near { depth, ..NEAR });
            inserted += 1;
        }
        let mut kept = 0;
        for n in 0..inserted {
            if let Some(near) = recent.find(UrlId::of(&text(n)), &text(n)) {
                assert_eq!(near.depth, (n % 32) as u16);
                kept += 1;
            }
        }
        assert!(kept > inserted * 8 / 10, "{kept} of {inserted}");
        assert_eq!(kept as usize, recent.entries);
        // It never grows beyond its maximum.
        (0..1_000_000).for_each(|n| recent.insert(UrlId::of(&text(n)), &text(n), NEAR));
        assert_eq!((recent.sets, recent.pieces.len()), (7 * smallest / 2, 4));
        let met = (0..1_000_000).filter(|n| recent.find(UrlId::of(&text(*n)), &text(*n)).is_some());
        assert_eq!(met.count(), recent.entries, "an entry is found by nobody");
    }

    #[test]
    fn a_nearness_is_packed_as_it_is_or_as_farther() {
        for depth in 0..=u16::MAX {
            let near = Near { depth, hops: 0, seed: false };
            let back = unpack(pack(near));
            assert!(near.covers(back) && (depth > 31 || back == near), "{near:?} became {back:?}");
            assert!(depth > 1_920 || back.depth - depth <= depth / 16, "{near:?} became {back:?}");
        }
        for (hops, seed) in [(0, true), (1, false), (2, true), (3, false), (255, true)] {
            let near = Near { depth: 5, hops, seed };
            let far = if hops > 2 { 255 } else { hops };
            assert_eq!(unpack(pack(near)), Near { hops: far, ..near });
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
