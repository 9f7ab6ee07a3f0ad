//! Which URLs have we met a moment ago?
//!
//! Most links of a page were on the page before: menus, footers. And some pages everybody links
//! to. A table of the latest URLs answers for them without a look at the store. It knows how near
//! each was found, so that a nearer find still goes through.
//!
//! Always: what it calls known is in the store with nothing to change. An entry is six bytes, so
//! that one for each of a hundred million URLs fits into memory where somebody wants that. Beside
//! its place and its nearness it holds 17 bits of its id, and 17 of a hash under a seed that no page
//! knows: with the filter, which is asked first, a new URL is taken for a known one twice in 10^12
//! times.
//!
//! A URL has two sets: the second takes what the first has no room for, so that a table filled to
//! four fifths has lost one entry of a hundred, not of twenty. A set knows whether it ever sent one
//! there; most never did, and need no second look.
//!
//! A table that was there when the store was empty has met every URL of it. Each set knows whether it
//! ever lost one: where it did not, a URL that is not here is new, whatever the filter says, and the
//! store need not be asked in vain. Another text with the id of a known URL is not taken for new:
//! no entry may have its bits of the id.
//!
//! The table grows by one set after the other (linear hashing): no pause, and no moment in which
//! it is there twice. Its memory is reserved at the largest, and taken as it grows.

use ports::PortResult;
use types::UrlId;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::lines::{Line, Lines};

/// Entries looked through for a URL; they are one cache line, the one that was met last first.
const WAYS: usize = size_of::<Line>() / ENTRY_BYTES;
const ENTRY_BYTES: usize = 6;
/// What a line says of entries that are not in it, behind those that are: it has sent some to their
/// second set; it has lost some.
const FATES: usize = WAYS * ENTRY_BYTES;
const SPILLED: u8 = 1;
const LOST: u8 = 2;
/// Of them, as many are filled on average before the table grows: where a set still stands for two,
/// twice as many are.
const FILLED: usize = 4;
/// Sets of the smallest table: 8 MiB.
const LEAST_BITS: u32 = 17;

/// An entry: how near, then the bits of the id that place it in a larger table, then those of the
/// text's hash, then further ones of the id.
const NEAR_BITS: u32 = 5;
const PLACE_BITS: u32 = 9;
const TEXT_BITS: u32 = 17;
const ID_BITS: u32 = 8 * ENTRY_BYTES as u32 - NEAR_BITS - PLACE_BITS - TEXT_BITS;
const EMPTY: u64 = 0;

/// Sets of the largest table, 4 GiB: an entry holds no bits to place it in a larger one.
const SETS_MAX: usize = 1 << (LEAST_BITS + PLACE_BITS);

/// A bounded table; a new entry pushes that one of its set out which was not met for longest.
#[derive(Debug)]
pub(super) struct Recent {
    lines: Lines,
    /// Sets in use, of all that there are lines for.
    sets: usize,
    /// Entries that pushed none out.
    entries: usize,
    /// Every URL of the store was put in here once.
    met_all: bool,
    seed: u64,
}

/// What the table can say of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// It is known, and was found so near.
    Known(Near),
    /// The store has neither this URL nor another with its id.
    Never,
    /// The store must be asked.
    Unsure,
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
    /// `met_all` if the store is still empty.
    pub(super) fn new(bytes_max: u64, seed: u64, met_all: bool) -> PortResult<Self> {
        let sets_max = usize::try_from(bytes_max).unwrap_or(usize::MAX) / size_of::<Line>();
        let sets_max = sets_max.clamp(1, SETS_MAX);
        let sets = sets_max.min(1 << LEAST_BITS);
        Ok(Self { lines: Lines::new(sets_max)?, sets, entries: 0, met_all, seed })
    }

    /// How near this very URL was found at least, if it is here.
    pub(super) fn find(&mut self, id: UrlId, text: &str) -> Met {
        let mark = self.mark(id, text);
        let Some((spot, at)) = self.seek(id, mark) else {
            return if self.met_all && self.is_new(id) { Met::Never } else { Met::Unsure };
        };
        let set = &mut self.lines.all_mut()[spot];
        let entry = entry(set, at);
        put_first(set, at, entry);
        Met::Known(unpack(entry))
    }

    /// Whether no URL with this id was ever put in, as far as its sets can tell.
    fn is_new(&self, id: UrlId) -> bool {
        let sets = self.lines.all();
        let never = |set: &Line| set[FATES] & LOST == 0 && entries(set).all(|e| !is_of(e, id));
        let first = &sets[self.first_spot(id)];
        never(first) && (first[FATES] & SPILLED == 0 || never(&sets[self.second_spot(id)]))
    }

    pub(super) fn insert(&mut self, id: UrlId, text: &str, near: Near) {
        while self.entries > self.sets * FILLED && self.sets < self.lines.all().len() {
            self.grow();
        }
        let mark = self.mark(id, text);
        let (spot, at) = self.seek(id, mark).unwrap_or_else(|| self.room_for(id));
        let set = &mut self.lines.all_mut()[spot];
        let fills = entry(set, at) == EMPTY;
        put_first(set, at, mark << NEAR_BITS | pack(near));
        self.entries += usize::from(fills);
    }

    /// The next find must go to the store. Whatever else has the same place is forgotten too.
    pub(super) fn forget(&mut self, id: UrlId) {
        for spot in [self.first_spot(id), self.second_spot(id)] {
            let set = &mut self.lines.all_mut()[spot];
            set[FATES] |= LOST;
            let all = clear(set);
            let gone = entries(&all).filter(|entry| place_bits(*entry) == place_of(id)).count();
            let stays = entries(&all).filter(|entry| place_bits(*entry) != place_of(id));
            stays.enumerate().for_each(|(at, entry)| put(set, at, entry));
            self.entries -= gone;
        }
    }

    /// One more set, which takes its half from the one that stood for both.
    fn grow(&mut self) {
        let new = self.sets;
        let bit = new.ilog2();
        let old = new - (1 << bit);
        let sets = self.lines.all_mut();
        let all = clear(&mut sets[old]);
        sets[new][FATES] = all[FATES];
        let (mut stay, mut go) = (0, 0);
        for entry in entries(&all) {
            let goes = place_bits(entry) >> (bit - LEAST_BITS) & 1 == 1;
            let (set, n) = if goes { (new, &mut go) } else { (old, &mut stay) };
            put(&mut sets[set], *n, entry);
            *n += 1;
        }
        self.sets = new + 1;
    }

    /// In which set an entry is, and where there.
    fn seek(&self, id: UrlId, mark: u64) -> Option<(usize, usize)> {
        let sets = self.lines.all();
        let first = self.first_spot(id);
        if let Some(at) = position(&sets[first], mark) {
            return Some((first, at));
        }
        if sets[first][FATES] & SPILLED == 0 {
            return None;
        }
        let second = self.second_spot(id);
        position(&sets[second], mark).map(|at| (second, at))
    }

    /// Where a new entry goes: the last place of its first set, unless only the second has room.
    fn room_for(&mut self, id: UrlId) -> (usize, usize) {
        let (first, second) = (self.first_spot(id), self.second_spot(id));
        let sets = self.lines.all_mut();
        if !is_full(&sets[first]) {
            return (first, WAYS - 1);
        }
        if !is_full(&sets[second]) {
            sets[first][FATES] |= SPILLED;
            return (second, WAYS - 1);
        }
        sets[first][FATES] |= LOST;
        (first, WAYS - 1)
    }

    /// A word of what [`Self::find`] will look at.
    pub(super) fn touch(&self, id: UrlId) -> u64 {
        entry(&self.lines.all()[self.first_spot(id)], 0)
    }

    fn first_spot(&self, id: UrlId) -> usize {
        // The id is a hash already: any of its bits will do.
        self.spot(id.0 as usize)
    }

    /// Its place bits are those of the first, so that a growing table splits both alike.
    fn second_spot(&self, id: UrlId) -> usize {
        let other = (id.0 >> 64) as usize & ((1 << LEAST_BITS) - 1);
        self.spot(id.0 as usize ^ other.max(1))
    }

    fn spot(&self, bits: usize) -> usize {
        let whole = self.sets.next_power_of_two();
        let at = bits & (whole - 1);
        if at < self.sets { at } else { at - whole / 2 }
    }

    /// What an entry of this URL holds above its nearness. Never 0.
    fn mark(&self, id: UrlId, text: &str) -> u64 {
        let text = xxh3_64_with_seed(text.as_bytes(), self.seed) >> (u64::BITS - TEXT_BITS);
        (id_bits(id) << TEXT_BITS | text.max(1)) << PLACE_BITS | place_of(id)
    }
}

fn entry(set: &Line, at: usize) -> u64 {
    let bytes = set[at * ENTRY_BYTES..].first_chunk().expect("the last entry ends before the line");
    u64::from_le_bytes(*bytes) & ((1 << (8 * ENTRY_BYTES)) - 1)
}

fn put(set: &mut Line, at: usize, entry: u64) {
    set[at * ENTRY_BYTES..][..ENTRY_BYTES].copy_from_slice(&entry.to_le_bytes()[..ENTRY_BYTES]);
}

/// Those before `at` move back by one place, over what was there.
fn put_first(set: &mut Line, at: usize, entry: u64) {
    set.copy_within(..at * ENTRY_BYTES, ENTRY_BYTES);
    put(set, 0, entry);
}

/// Takes all entries out, and says what they were. What became of others stays known.
fn clear(set: &mut Line) -> Line {
    let mut empty = [0; size_of::<Line>()];
    empty[FATES] = set[FATES];
    std::mem::replace(set, empty)
}

/// Places fill up from the first.
fn is_full(set: &Line) -> bool {
    entry(set, WAYS - 1) != EMPTY
}

/// What is in a set; the empty places are its last.
fn entries(set: &Line) -> impl Iterator<Item = u64> {
    (0..WAYS).map(|at| entry(set, at)).take_while(|entry| *entry != EMPTY)
}

fn position(set: &Line, mark: u64) -> Option<usize> {
    (0..WAYS).position(|at| entry(set, at) >> NEAR_BITS == mark)
}

/// The bits of an id beyond those that choose a set of the smallest table: a larger one needs some
/// of them for that.
const fn place_of(id: UrlId) -> u64 {
    id.0 as u64 >> LEAST_BITS & ((1 << PLACE_BITS) - 1)
}

/// Further ones, which choose no set.
const fn id_bits(id: UrlId) -> u64 {
    (id.0 >> (u128::BITS - ID_BITS)) as u64
}

/// Whether an entry may be that of a URL with this id.
const fn is_of(entry: u64, id: UrlId) -> bool {
    entry >> (NEAR_BITS + PLACE_BITS + TEXT_BITS) == id_bits(id)
        && place_bits(entry) == place_of(id)
}

const fn place_bits(entry: u64) -> u64 {
    entry >> NEAR_BITS & ((1 << PLACE_BITS) - 1)
}

/// Depths beyond those that are written as they are.
const DEPTHS: [u16; 7] = [32, 48, 64, 96, 128, 192, 256];
const EXACT: u16 = 24;
/// Known, and nothing is said of how near.
const ANY: u64 = (1 << NEAR_BITS) - 1;

/// What does not fit is written as farther than it was: then the store is asked.
fn pack(near: Near) -> u64 {
    if near.hops > 0 {
        return ANY;
    }
    match near.depth {
        0..EXACT => u64::from(near.depth),
        depth => {
            let class = DEPTHS.iter().position(|least| depth <= *least);
            class.map_or(ANY, |class| u64::from(EXACT) + class as u64)
        }
    }
}

fn unpack(entry: u64) -> Near {
    let class = entry & ANY;
    let depth = match class.checked_sub(u64::from(EXACT)) {
        None => Some(class as u16),
        Some(farther) => DEPTHS.get(farther as usize).copied(),
    };
    match depth {
        Some(depth) => Near { depth, hops: 0, seed: false },
        None => Near { depth: u16::MAX, hops: u8::MAX, seed: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Near = Near { depth: 3, hops: 0, seed: false };

    impl Recent {
        fn knows(&mut self, text: &str) -> bool {
            matches!(self.find(UrlId::of(text), text), Met::Known(_))
        }
    }

    #[test]
    fn what_was_put_in_is_found_until_newer_ones_push_it_out() {
        // A single set, which is everybody's first and second.
        let mut recent = Recent::new(64, 1, false).unwrap();
        // All of one set: equal low bits.
        let ids: Vec<_> = (1..=WAYS as u128 + 1).map(|n| UrlId(n << LEAST_BITS)).collect();
        for (n, id) in ids.iter().enumerate() {
            recent.insert(*id, "u", Near { depth: n as u16, ..NEAR });
        }
        assert_eq!(recent.find(ids[0], "u"), Met::Unsure);
        assert_eq!(recent.find(ids[WAYS], "u"), Met::Known(Near { depth: WAYS as u16, ..NEAR }));
        recent.insert(ids[1], "u", NEAR);
        assert!(matches!(recent.find(ids[2], "u"), Met::Known(_)));
        recent.insert(ids[0], "u", NEAR);
        // The fourth was not met for longest then.
        assert_eq!(recent.find(ids[3], "u"), Met::Unsure);
        assert_eq!(recent.find(ids[1], "u"), Met::Known(NEAR));
        recent.forget(ids[1]);
        assert_eq!(recent.find(ids[1], "u"), Met::Unsure);
        assert_eq!(recent.find(ids[2], "u"), Met::Known(Near { depth: 2, ..NEAR }));
        assert_eq!(recent.entries, WAYS - 1);
    }

    #[test]
    fn another_text_with_the_same_id_is_not_taken_for_it() {
        let mut recent = Recent::new(1 << 10, 7, false).unwrap();
        recent.insert(UrlId(9), "http://a.test/", NEAR);
        assert_eq!(recent.find(UrlId(9), "http://b.test/"), Met::Unsure);
        assert_eq!(recent.find(UrlId(9), "http://a.test/"), Met::Known(NEAR));
    }

    #[test]
    fn a_table_that_fills_up_grows_and_keeps_what_it_has() {
        let text = |n: u64| format!("http://a.test/{n}");
        // Three and a half of the smallest: the last doubling is not finished.
        let mut recent = Recent::new(7 << 22, 7, false).unwrap();
        let smallest = recent.sets;
        let mut inserted = 0;
        while recent.sets < 3 * smallest {
            let (id, depth) = (UrlId::of(&text(inserted)), (inserted % 24) as u16);
            recent.insert(id, &text(inserted), Near { depth, ..NEAR });
            inserted += 1;
        }
        let mut kept = 0;
        for n in 0..inserted {
            if let Met::Known(near) = recent.find(UrlId::of(&text(n)), &text(n)) {
                assert_eq!(near.depth, (n % 24) as u16);
                kept += 1;
            }
        }
        assert!(kept > inserted * 999 / 1_000, "{kept} of {inserted}");
        assert_eq!(kept as usize, recent.entries);
        // It never grows beyond its maximum.
        (0..2_500_000).for_each(|n| recent.insert(UrlId::of(&text(n)), &text(n), NEAR));
        assert_eq!(recent.sets, 7 * smallest / 2);
        let met = (0..2_500_000).filter(|n| recent.knows(&text(*n)));
        assert_eq!(met.count(), recent.entries, "an entry is found by nobody");
    }

    #[test]
    fn what_a_set_has_no_room_for_is_found_in_another() {
        let mut recent = Recent::new(8 << 20, 7, false).unwrap();
        // All of one first set; the second ones are all over the table.
        let id = |n: u128| UrlId((n * 77) << 64 | n << LEAST_BITS);
        for n in 1..=500 {
            recent.insert(id(n), "u", NEAR);
        }
        assert!((1..=500).all(|n| recent.find(id(n), "u") == Met::Known(NEAR)));
        assert_eq!(recent.entries, 500);
        // An entry there is changed in its place, and forgotten there.
        recent.insert(id(400), "u", Near { depth: 2, ..NEAR });
        assert_eq!(recent.find(id(400), "u"), Met::Known(Near { depth: 2, ..NEAR }));
        assert_eq!(recent.entries, 500);
        recent.forget(id(400));
        assert_eq!(recent.find(id(400), "u"), Met::Unsure);
    }

    #[test]
    fn a_table_filled_to_four_fifths_has_lost_little() {
        let text = |n: u64| format!("http://a.test/{n}");
        let mut recent = Recent::new(8 << 20, 7, false).unwrap();
        let count = recent.sets as u64 * WAYS as u64 * 4 / 5;
        (0..count).for_each(|n| recent.insert(UrlId::of(&text(n)), &text(n), NEAR));
        let met = (0..count).filter(|n| recent.knows(&text(*n)));
        let met = met.count() as u64;
        assert!(met * 1_000 > count * 985, "{met} of {count}");
    }

    #[test]
    fn a_nearness_is_packed_as_it_is_or_as_farther() {
        let all = (0..=u16::MAX)
            .flat_map(|depth| [(depth, 0, false), (depth, 1, false), (depth, 0, true)]);
        for (depth, hops, seed) in all.chain([(0, 255, true)]) {
            let near = Near { depth, hops, seed };
            let back = unpack(pack(near));
            assert!(near.covers(back), "{near:?} became {back:?}");
            let exact = depth < EXACT && hops == 0;
            assert!(!exact || back == Near { seed: false, ..near }, "{near:?} became {back:?}");
            let close = depth <= 256 && hops == 0;
            assert!(!close || back.depth - depth <= depth / 2, "{near:?} became {back:?}");
        }
    }

    #[test]
    fn a_find_that_is_nearer_in_any_way_is_not_covered() {
        assert!(NEAR.covers(NEAR));
        assert!(NEAR.covers(Near { depth: 4, hops: 2, seed: false }));
        assert!(!NEAR.covers(Near { depth: 2, ..NEAR }));
        assert!(!Near { hops: 1, ..NEAR }.covers(NEAR));
        assert!(!NEAR.covers(Near { seed: true, ..NEAR }));
        assert!(Near { seed: true, ..NEAR }.covers(NEAR));
    }

    #[test]
    fn what_was_never_met_is_new_unless_its_set_has_lost_some() {
        let text = |n: u64| format!("http://a.test/{n}");
        let never = |recent: &mut Recent, from: u64| {
            let ask = |n: &u64| recent.find(UrlId::of(&text(*n)), &text(*n)) == Met::Never;
            (from..from + 10_000).filter(ask).count()
        };
        let mut recent = Recent::new(16 << 20, 7, true).unwrap();
        assert_eq!(never(&mut recent, 0), 10_000);
        // While it grows, and up to its largest.
        for end in [500_000, 1_000_000, 1_500_000] {
            let known = recent.entries as u64..end;
            known.for_each(|n| recent.insert(UrlId::of(&text(n)), &text(n), NEAR));
            assert!(never(&mut recent, end) > 9_500, "of strangers, at {end}");
            // Whatever it has lost, it does not call new.
            assert!((0..end).all(|n| {
                let id = UrlId::of(&text(n));
                recent.find(id, &text(n)) != Met::Never
            }));
            // Nor another text with the id of one that it knows.
            assert!((0..end).all(|n| recent.find(UrlId::of(&text(n)), "other") != Met::Never));
        }
        (0..5_000_000).for_each(|n| recent.insert(UrlId::of(&text(n)), &text(n), NEAR));
        assert!(never(&mut recent, 5_000_000) < 100, "nearly every set has lost some");

        let mut recent = Recent::new(16 << 20, 7, true).unwrap();
        recent.insert(UrlId::of("a"), "a", NEAR);
        recent.forget(UrlId::of("a"));
        assert_eq!(recent.find(UrlId::of("a"), "a"), Met::Unsure);
        // One that came when there was something already knows nothing of that.
        let mut late = Recent::new(16 << 20, 7, false).unwrap();
        assert_eq!(never(&mut late, 0), 0);
    }
}
