//! Of which earlier text is this a copy?
//!
//! Candidates come three ways. An equal digest: the same text. A SimHash within three bits: the 64
//! bits are cut into five blocks, of which two must be equal then, so ten tables keyed by two blocks
//! find it (pigeonhole). A band of the sketch that is equal: twelve tables (MinHash with
//! locality-sensitive hashing). What the last two find counts only when the whole sketches agree.
//!
//! A table is an array of chains through the entries, newest first; a look-up follows all chains of
//! one kind side by side, so that the processor waits for memory once and not ten times.
//!
//! Always: memory is bounded by the number of entries; the oldest are forgotten first. A text that
//! equals one which is remembered adds no entry, so that a chain holds no long row of equals.
//!
//! Not here: prints on disk, and a cache over them.

use std::fmt;

use super::sketch::{BANDS, Rest};
use super::{Prints, SimHash, Sketch};

/// SimHashes that differ in more bits are not looked for.
pub const DISTANCE_MAX: u32 = 3;

/// Sketches must agree this much, by the development part of the generated truth.
pub const SIMILARITY_MIN: f64 = 0.66;

/// Steps along a chain. Thousands of entries in one are a template's doing, and the rest of them
/// would say the same.
const STEPS_MAX: usize = 2_048;

/// Two of five blocks.
const SIMHASH_TABLES: usize = 10;

/// Entries per chain before the tables are made twice as large.
const LOAD_MAX: usize = 2;

/// Chains of a table at the beginning.
const CHAINS_MIN: usize = 1 << 8;

/// An earlier text that this one copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The number that the earlier text got when it was added.
    pub of: u32,
    /// Equal after normalisation; not only nearly.
    pub exact: bool,
    /// Bits in which the SimHashes differ.
    pub distance: u32,
}

/// A number, and the end of a chain.
const NONE: u32 = u32::MAX;

/// What a look-up by SimHash or digest reads: one line of the processor's cache.
#[repr(align(64))]
struct Entry {
    simhash: SimHash,
    next_by_simhash: [u32; SIMHASH_TABLES],
    digest: u128,
}

/// What a look-up by bands reads. A band and the way on from it are neighbours, in one line.
#[repr(align(64))]
struct Kept {
    bands: [Band; BANDS],
    sketch: Rest,
    next_by_digest: u32,
}

#[derive(Clone, Copy)]
struct Band {
    bytes: u32,
    next: u32,
}

/// Remembers prints, and finds the earliest of which new ones are a copy.
pub struct NearIndex {
    entries_max: usize,
    /// Numbers that were given.
    given: u32,
    /// By number, round and round. Apart, because a look-up by SimHash needs only these.
    entries: Vec<Entry>,
    kept: Vec<Kept>,
    /// Chains of one table; a power of two.
    chains: usize,
    by_simhash: Vec<u32>,
    by_band: Vec<u32>,
    by_digest: Vec<u32>,
}

impl NearIndex {
    /// Remembers the last `entries_max` different texts.
    pub fn new(entries_max: usize) -> Self {
        let mut index = Self {
            entries_max: entries_max.clamp(1, NONE as usize),
            given: 0,
            entries: Vec::new(),
            kept: Vec::new(),
            chains: CHAINS_MIN,
            by_simhash: Vec::new(),
            by_band: Vec::new(),
            by_digest: Vec::new(),
        };
        index.clear_chains();
        index
    }

    /// How many texts are remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of memory that are taken.
    pub fn bytes(&self) -> usize {
        let heads =
            self.by_simhash.capacity() + self.by_band.capacity() + self.by_digest.capacity();
        heads * size_of::<u32>()
            + self.entries.capacity() * size_of::<Entry>()
            + self.kept.capacity() * size_of::<Kept>()
    }

    /// The earliest text that is remembered and of which this is a copy.
    pub fn find(&self, prints: &Prints) -> Option<Copy> {
        self.find_near(prints, self.find_exact(prints))
    }

    /// Finds, and remembers the text unless an equal one is. The second answer is its number.
    pub fn judge(&mut self, prints: &Prints) -> (Option<Copy>, Option<u32>) {
        let exact = self.find_exact(prints);
        let copy = self.find_near(prints, exact);
        let number = if exact.is_none() { self.add(prints) } else { None };
        (copy, number)
    }

    /// Remembers a text, and gives it the next number; none when all numbers are given.
    pub fn add(&mut self, prints: &Prints) -> Option<u32> {
        let number = self.given;
        if number == NONE {
            return None;
        }
        if self.entries.len() < self.entries_max && self.entries.len() >= self.chains * LOAD_MAX {
            self.chains *= 2;
            self.rebuild();
        }
        let entry = Entry {
            simhash: prints.simhash,
            next_by_simhash: [NONE; SIMHASH_TABLES],
            digest: short_digest(prints),
        };
        let (bands, sketch) = prints.sketch.split();
        let bands = bands.map(|bytes| Band { bytes, next: NONE });
        let kept = Kept { bands, sketch, next_by_digest: NONE };
        if self.entries.len() < self.entries_max {
            self.make_room();
            self.entries.push(entry);
            self.kept.push(kept);
        } else {
            let slot = self.slot(number);
            (self.entries[slot], self.kept[slot]) = (entry, kept);
        }
        self.given += 1;
        self.link(number);
        Some(number)
    }

    /// By an eighth, not to twice as much: that is a lot of memory for nothing.
    fn make_room(&mut self) {
        if self.entries.len() == self.entries.capacity() {
            let more = (self.entries.len() / 8).max(64).min(self.entries_max - self.entries.len());
            self.entries.reserve_exact(more);
            self.kept.reserve_exact(more);
        }
    }

    fn slot(&self, number: u32) -> usize {
        let number = number as usize;
        // A division costs as much as everything else of a step.
        if number < self.entries_max { number } else { number % self.entries_max }
    }

    /// Whether a number of a chain is still remembered. What comes behind one that is not, is older.
    fn is_live(&self, number: u32) -> bool {
        number != NONE && number as usize + self.entries.len() >= self.given as usize
    }

    fn find_exact(&self, prints: &Prints) -> Option<u32> {
        let digest = short_digest(prints);
        let mut at = self.by_digest[chain(digest as u64, self.chains)];
        let mut found = None;
        while self.is_live(at) {
            let slot = self.slot(at);
            if self.entries[slot].digest == digest {
                found = Some(at);
            }
            at = self.kept[slot].next_by_digest;
        }
        found
    }

    fn find_near(&self, prints: &Prints, exact: Option<u32>) -> Option<Copy> {
        let mut earliest = exact;
        if prints.sketch.is_telling() {
            let mut confirm = |number: u32| {
                if earliest.is_none_or(|earliest| number < earliest) && self.agrees(number, prints)
                {
                    earliest = Some(number);
                }
            };
            self.by_simhash(prints.simhash, &mut confirm);
            self.by_band(&prints.sketch, &mut confirm);
        }
        earliest.map(|of| Copy {
            of,
            exact: exact == Some(of),
            distance: self.entries[self.slot(of)].simhash.distance(prints.simhash),
        })
    }

    fn agrees(&self, number: u32, prints: &Prints) -> bool {
        let kept = &self.kept[self.slot(number)];
        let sketch = Sketch::joined(kept.bands.map(|band| band.bytes), &kept.sketch);
        let similarity = sketch.similarity(&prints.sketch);
        similarity.is_some_and(|similarity| similarity >= SIMILARITY_MIN)
    }

    /// Every entry within [`DISTANCE_MAX`] bits.
    fn by_simhash(&self, simhash: SimHash, found: &mut impl FnMut(u32)) {
        let mut at = [NONE; SIMHASH_TABLES];
        for (table, at) in at.iter_mut().enumerate() {
            *at =
                self.by_simhash[table * self.chains + chain_of_blocks(simhash, table, self.chains)];
        }
        for _ in 0..STEPS_MAX {
            let mut ended = true;
            for (table, at) in at.iter_mut().enumerate() {
                if !self.is_live(*at) {
                    continue;
                }
                ended = false;
                let entry = &self.entries[self.slot(*at)];
                if entry.simhash.distance(simhash) <= DISTANCE_MAX {
                    found(*at);
                }
                *at = entry.next_by_simhash[table];
            }
            if ended {
                return;
            }
        }
    }

    /// Every entry with an equal band.
    fn by_band(&self, sketch: &Sketch, found: &mut impl FnMut(u32)) {
        let mut at = [NONE; BANDS];
        for (band, at) in at.iter_mut().enumerate() {
            let chain = chain(u64::from(sketch.band(band)), self.chains);
            *at = self.by_band[band * self.chains + chain];
        }
        for _ in 0..STEPS_MAX {
            let mut ended = true;
            for (band, at) in at.iter_mut().enumerate() {
                if !self.is_live(*at) {
                    continue;
                }
                ended = false;
                let kept = self.kept[self.slot(*at)].bands[band];
                if kept.bytes == sketch.band(band) {
                    found(*at);
                }
                *at = kept.next;
            }
            if ended {
                return;
            }
        }
    }

    /// Puts an entry at the head of its chains.
    fn link(&mut self, number: u32) {
        let (slot, chains) = (self.slot(number), self.chains);
        let (entry, kept) = (&mut self.entries[slot], &mut self.kept[slot]);
        let head = &mut self.by_digest[chain(entry.digest as u64, chains)];
        kept.next_by_digest = std::mem::replace(head, number);
        // What is too short to be compared is looked for by its digest only.
        if !kept.sketch.is_telling() {
            return;
        }
        for (table, next) in entry.next_by_simhash.iter_mut().enumerate() {
            let at = table * chains + chain_of_blocks(entry.simhash, table, chains);
            *next = std::mem::replace(&mut self.by_simhash[at], number);
        }
        for (n, band) in kept.bands.iter_mut().enumerate() {
            let at = n * chains + chain(u64::from(band.bytes), chains);
            band.next = std::mem::replace(&mut self.by_band[at], number);
        }
    }

    /// All chains anew, the oldest entry first.
    fn rebuild(&mut self) {
        self.clear_chains();
        let oldest = self.given as usize - self.entries.len();
        for number in oldest..self.given as usize {
            self.link(number as u32);
        }
    }

    fn clear_chains(&mut self) {
        self.by_simhash = vec![NONE; self.chains * SIMHASH_TABLES];
        self.by_band = vec![NONE; self.chains * BANDS];
        self.by_digest = vec![NONE; self.chains];
    }
}

impl fmt::Debug for NearIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NearIndex").field("len", &self.len()).field("given", &self.given).finish()
    }
}

/// Half of a SHA-256: nobody finds two texts with the same.
fn short_digest(prints: &Prints) -> u128 {
    let half = prints.digest.first_chunk().expect("a digest has 32 bytes");
    u128::from_le_bytes(*half)
}

/// Where a key's chain begins in its table. `chains` is a power of two.
fn chain(key: u64, chains: usize) -> usize {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) as usize & (chains - 1)
}

fn chain_of_blocks(simhash: SimHash, table: usize, chains: usize) -> usize {
    /// Four blocks of 13 bits and one of 12.
    const BLOCKS: [u64; 5] = [0x1fff, 0x1fff << 13, 0x1fff << 26, 0x1fff << 39, 0xfff << 52];
    const PAIRS: [(usize, usize); SIMHASH_TABLES] =
        [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)];
    let (one, other) = PAIRS[table];
    chain(simhash.0 & (BLOCKS[one] | BLOCKS[other]), chains)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(seed: u64, words: u64) -> String {
        let word = |n: u64| xxhash_rust::xxh3::xxh3_64(&(seed << 32 | n).to_le_bytes()) % 5_000;
        (0..words).map(|n| format!("w{} ", word(n))).collect()
    }

    fn edited(text: &str, every: usize) -> String {
        let words = text.split(' ').enumerate();
        words
            .map(|(n, word)| if n % every == 7 { "new ".into() } else { format!("{word} ") })
            .collect()
    }

    #[test]
    fn every_simhash_within_three_bits_is_found() {
        let mut index = NearIndex::new(100);
        let base = Prints::of(&text(1, 100));
        index.add(&base);
        let all = |bits: [u32; 3]| bits.iter().fold(base.simhash.0, |hash, bit| hash ^ 1 << bit);
        for one in 0..64 {
            for other in one..64 {
                for third in [other, (other + 1) % 64, (one + 31) % 64, 63] {
                    let near = SimHash(all([one, other, third]));
                    let mut found = Vec::new();
                    index.by_simhash(near, &mut |number| found.push(number));
                    assert!(found.contains(&0), "{one} {other} {third}");
                }
            }
        }
    }

    #[test]
    fn the_earliest_of_all_copies_is_named() {
        let mut index = NearIndex::new(1_000);
        let original = text(1, 300);
        assert_eq!(index.judge(&Prints::of(&original)), (None, Some(0)));
        assert_eq!(index.judge(&Prints::of(&text(2, 300))), (None, Some(1)));
        let (copy, number) = index.judge(&Prints::of(&edited(&original, 50)));
        assert_eq!((copy.unwrap().of, copy.unwrap().exact, number), (0, false, Some(2)));
        let shouted = Prints::of(&original.to_uppercase());
        let same = Copy { of: 0, exact: true, distance: 0 };
        assert_eq!(index.judge(&shouted), (Some(same), None), "an equal text adds no entry");
        let (copy, _) = index.judge(&Prints::of(&edited(&original, 40)));
        assert_eq!(copy.unwrap().of, 0);
        assert_eq!(index.len(), 4);
    }

    #[test]
    fn what_is_equal_to_a_copy_is_a_copy_of_the_first() {
        let mut index = NearIndex::new(1_000);
        let original = text(1, 300);
        index.judge(&Prints::of(&original));
        index.judge(&Prints::of(&edited(&original, 50)));
        let copy = index.find(&Prints::of(&edited(&original, 50))).unwrap();
        assert_eq!((copy.of, copy.exact), (0, false));
    }

    #[test]
    fn short_texts_are_copies_only_when_equal() {
        let mut index = NearIndex::new(10);
        index.judge(&Prints::of("Add this to your cart"));
        assert_eq!(index.judge(&Prints::of("Add this to your list")).0, None);
        assert!(index.judge(&Prints::of("add  this to YOUR cart")).0.unwrap().exact);
        assert!(index.judge(&Prints::of("")).0.is_none());
        assert!(index.judge(&Prints::of(" ")).0.unwrap().exact);
    }

    #[test]
    fn the_oldest_are_forgotten_and_memory_stays() {
        let mut index = NearIndex::new(500);
        for seed in 0..500 {
            assert_eq!(index.judge(&Prints::of(&text(seed, 60))), (None, Some(seed as u32)));
        }
        let bytes = index.bytes();
        for seed in 500..5_000 {
            let prints = Prints::of(&text(seed, 60));
            assert_eq!(index.judge(&prints), (None, Some(seed as u32)));
            let earlier = index.find(&Prints::of(&text(seed - 499, 60))).unwrap();
            assert_eq!((earlier.of, earlier.exact), (seed as u32 - 499, true));
            assert_eq!(index.find(&Prints::of(&text(seed - 500, 60))), None);
        }
        assert_eq!((index.bytes(), index.len()), (bytes, 500));
    }

    #[test]
    fn growing_loses_nothing() {
        let mut index = NearIndex::new(100_000);
        for seed in 0..3_000 {
            index.add(&Prints::of(&text(seed, 40)));
        }
        for seed in 0..3_000 {
            let copy = index.find(&Prints::of(&text(seed, 40))).unwrap();
            assert_eq!((copy.of, copy.exact), (seed as u32, true));
        }
    }
}
