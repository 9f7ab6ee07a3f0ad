//! Of which earlier text is this a copy?
//!
//! Candidates come three ways. An equal digest: the same text. A SimHash within three bits: the 64
//! bits are cut into five blocks, of which two must be equal then, so ten tables keyed by two blocks
//! find it (pigeonhole). A band of the sketch that is equal: twelve tables (MinHash with
//! locality-sensitive hashing). What the last two find counts only when the whole sketches agree.
//!
//! Always: memory is bounded by the number of entries; the oldest are forgotten first. A text that
//! equals one which is remembered adds no entry.
//!
//! [`Prints::places`] and [`Prints::is_copy_at`] are the same look-up for whoever keeps prints elsewhere:
//! which keys a text stands under, and which of those that stand there it copies.
//!
//! Not here: prints on disk, and a cache over them.

use std::fmt;

use super::sketch::BANDS;
use super::table::{NONE, Table};
use super::{Prints, SimHash, Sketch};

/// SimHashes that differ in more bits are not looked for.
pub const DISTANCE_MAX: u32 = 3;

/// Sketches must agree this much. A text with 5 % of its words changed keeps about 0.9 of its word
/// pairs, of which both together have 0.82; the sketch may err by some 0.1.
pub const SIMILARITY_MIN: f64 = 0.66;

/// Entries for each chain of a table before it gets twice as many chains; a line has room for ten,
/// and keys of real texts fall in heaps.
const LOAD_MAX: usize = 6;

/// Chains of a table at the beginning.
const CHAINS_MIN: usize = 64;

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

/// A table, and a key in it. Texts that are nearly the same meet at one place at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Below [`TABLES`]: first those of the SimHash, then those of the bands.
    pub table: u8,
    pub key: u32,
}

/// Tables of nearly equal texts.
pub const TABLES: usize = BLOCK_PAIRS.len() + BANDS;

impl Prints {
    /// Where the text stands, and is looked for. One that is too short to be compared stands nowhere:
    /// it is a copy only of what has its digest.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        let simhashes = BLOCK_PAIRS.iter().map(|blocks| blocks.key(self.simhash));
        let bands = (0..BANDS).map(|band| self.sketch.band(band));
        let tables = if self.sketch.is_telling() { TABLES } else { 0 };
        let keys = simhashes.chain(bands).take(tables);
        keys.zip(0..).map(|(key, table)| Place { table, key })
    }

    /// Whether this is nearly the other text, which was found at this place.
    pub fn is_copy_at(&self, place: Place, other: &Self) -> bool {
        self.may_copy_at(place, other.simhash) && agree(&self.sketch, &other.sketch)
    }

    /// Whether it may be, of a text with this SimHash: most that meet at a place are told apart by it,
    /// without a look at their sketches.
    pub fn may_copy_at(&self, place: Place, other: SimHash) -> bool {
        !place.is_by_simhash() || self.simhash.distance(other) <= DISTANCE_MAX
    }
}

impl Place {
    /// Whether those who stand here do so for their SimHashes; or for a band of their sketches.
    pub const fn is_by_simhash(self) -> bool {
        (self.table as usize) < BLOCK_PAIRS.len()
    }
}

/// Whether two texts hold nearly the same.
fn agree(one: &Sketch, other: &Sketch) -> bool {
    one.similarity(other).is_some_and(|similarity| similarity >= SIMILARITY_MIN)
}

/// Remembers prints, and finds the earliest of which new ones are a copy.
pub struct NearIndex {
    entries_max: usize,
    /// Numbers that were given.
    given: u32,
    // By number, round and round; apart, because no look-up needs all three.
    simhashes: Vec<SimHash>,
    digests: Vec<u128>,
    sketches: Vec<Sketch>,
    /// Chains of each table.
    chains: usize,
    by_digest: Table,
    by_simhash: Vec<Table>,
    by_band: Vec<Table>,
}

impl NearIndex {
    /// Remembers the last `entries_max` different texts.
    pub fn new(entries_max: usize) -> Self {
        let mut index = Self {
            entries_max: entries_max.clamp(1, NONE as usize),
            given: 0,
            simhashes: Vec::new(),
            digests: Vec::new(),
            sketches: Vec::new(),
            chains: CHAINS_MIN,
            by_digest: Table::new(1),
            by_simhash: Vec::new(),
            by_band: Vec::new(),
        };
        index.rebuild();
        index
    }

    /// How many texts are remembered.
    pub fn len(&self) -> usize {
        self.simhashes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.simhashes.is_empty()
    }

    /// Bytes of memory that are taken.
    pub fn bytes(&self) -> usize {
        let tables = self.by_simhash.iter().chain(&self.by_band).chain([&self.by_digest]);
        tables.map(Table::bytes).sum::<usize>()
            + self.simhashes.capacity() * size_of::<SimHash>()
            + self.digests.capacity() * size_of::<u128>()
            + self.sketches.capacity() * size_of::<Sketch>()
    }

    /// The earliest text that is remembered and of which this is a copy.
    pub fn find(&self, prints: &Prints) -> Option<Copy> {
        self.look_ahead(prints);
        self.find_near(prints, self.find_exact(prints))
    }

    /// Finds, and remembers the text unless an equal one is. The second answer is its number.
    pub fn judge(&mut self, prints: &Prints) -> (Option<Copy>, Option<u32>) {
        self.look_ahead(prints);
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
        if self.len() < self.entries_max && self.len() >= self.chains * LOAD_MAX {
            self.chains *= 2;
            self.rebuild();
        } else if self.is_crowded() {
            self.rebuild();
        }
        let (simhash, digest, sketch) = (prints.simhash, short_digest(prints), prints.sketch);
        if self.len() < self.entries_max {
            self.make_room();
            self.simhashes.push(simhash);
            self.digests.push(digest);
            self.sketches.push(sketch);
        } else {
            let slot = self.slot(number);
            self.simhashes[slot] = simhash;
            self.digests[slot] = digest;
            self.sketches[slot] = sketch;
        }
        self.given += 1;
        self.link(number);
        Some(number)
    }

    /// By an eighth, not to twice as much: that is a lot of memory for nothing.
    fn make_room(&mut self) {
        let len = self.len();
        if len == self.simhashes.capacity() {
            let more = (len / 8).max(64).min(self.entries_max - len);
            self.simhashes.reserve_exact(more);
            self.digests.reserve_exact(more);
            self.sketches.reserve_exact(more);
        }
    }

    fn slot(&self, number: u32) -> usize {
        let number = number as usize;
        // A division costs as much as a miss of the cache.
        if number < self.entries_max { number } else { number % self.entries_max }
    }

    fn oldest(&self) -> u32 {
        self.given - u32::try_from(self.len()).expect("every entry has a number of its own")
    }

    /// Brings the lines of all tables into the processor's cache, side by side: the tables are far
    /// larger, and one after the other each would be waited for. Then what stands behind them.
    fn look_ahead(&self, prints: &Prints) {
        let mut nexts = [0; 1 + BLOCK_PAIRS.len() + BANDS];
        nexts[0] = self.by_digest.touch(short_digest(prints) as u64);
        if prints.sketch.is_telling() {
            let (by_simhash, by_band) = nexts[1..].split_at_mut(BLOCK_PAIRS.len());
            let pairs = self.by_simhash.iter().zip(&BLOCK_PAIRS);
            for (next, (table, blocks)) in by_simhash.iter_mut().zip(pairs) {
                *next = table.touch(u64::from(blocks.key(prints.simhash)));
            }
            for (n, (next, table)) in by_band.iter_mut().zip(&self.by_band).enumerate() {
                *next = table.touch(u64::from(prints.sketch.band(n)));
            }
        }
        let tables = [&self.by_digest].into_iter().chain(&self.by_simhash).chain(&self.by_band);
        let seen = tables.zip(nexts).fold(0, |seen, (table, next)| seen ^ table.touch_run(next));
        std::hint::black_box(seen);
    }

    fn find_exact(&self, prints: &Prints) -> Option<u32> {
        let digest = short_digest(prints);
        let oldest = self.oldest();
        let mut equal = None;
        let is_mine = |tag| tag == tag_of_digest(digest);
        self.by_digest.find(digest as u64, is_mine, &mut |number| {
            if number >= oldest && self.digests[self.slot(number)] == digest {
                equal = Some(equal.map_or(number, |first: u32| first.min(number)));
            }
        });
        equal
    }

    fn find_near(&self, prints: &Prints, exact: Option<u32>) -> Option<Copy> {
        let mut earliest = exact;
        if prints.sketch.is_telling() {
            let oldest = self.oldest();
            let mut confirm = |number: u32| {
                let is_earlier = earliest.is_none_or(|earliest| number < earliest);
                if number >= oldest && is_earlier && self.agrees(number, prints) {
                    earliest = Some(number);
                }
            };
            self.find_by_simhash(prints.simhash, &mut confirm);
            self.find_by_band(&prints.sketch, &mut confirm);
        }
        earliest.map(|of| Copy {
            of,
            exact: exact == Some(of),
            distance: self.simhashes[self.slot(of)].distance(prints.simhash),
        })
    }

    fn agrees(&self, number: u32, prints: &Prints) -> bool {
        agree(&self.sketches[self.slot(number)], &prints.sketch)
    }

    /// Every entry within [`DISTANCE_MAX`] bits.
    fn find_by_simhash(&self, simhash: SimHash, found: &mut impl FnMut(u32)) {
        for (table, blocks) in self.by_simhash.iter().zip(&BLOCK_PAIRS) {
            let mine = blocks.tag(simhash);
            let will_do = |tag: u16| (tag ^ mine).count_ones() <= DISTANCE_MAX;
            table.find(u64::from(blocks.key(simhash)), will_do, &mut |number| {
                // A number that was forgotten leads to another entry here, and is refused later.
                if self.simhashes[self.slot(number)].distance(simhash) <= DISTANCE_MAX {
                    found(number);
                }
            });
        }
    }

    /// Every entry with an equal band, and hardly any other.
    fn find_by_band(&self, sketch: &Sketch, found: &mut impl FnMut(u32)) {
        for (n, table) in self.by_band.iter().enumerate() {
            let band = sketch.band(n);
            table.find(u64::from(band), |tag| tag == tag_of_band(band), found);
        }
    }

    /// Puts an entry into its tables.
    fn link(&mut self, number: u32) {
        let (slot, oldest) = (self.slot(number), self.oldest());
        let is_live = |other: u32| other != NONE && other >= oldest;
        let digest = self.digests[slot];
        self.by_digest.put(digest as u64, tag_of_digest(digest), number, is_live);
        // What is too short to be compared is looked for by its digest only.
        let (simhash, sketch) = (self.simhashes[slot], &self.sketches[slot]);
        if !sketch.is_telling() {
            return;
        }
        for (table, blocks) in self.by_simhash.iter_mut().zip(&BLOCK_PAIRS) {
            table.put(u64::from(blocks.key(simhash)), blocks.tag(simhash), number, is_live);
        }
        for (n, table) in self.by_band.iter_mut().enumerate() {
            let band = sketch.band(n);
            table.put(u64::from(band), tag_of_band(band), number, is_live);
        }
    }

    fn is_crowded(&self) -> bool {
        let mut tables = self.by_simhash.iter().chain(&self.by_band).chain([&self.by_digest]);
        tables.any(Table::is_crowded)
    }

    /// All tables anew, the oldest entry first.
    fn rebuild(&mut self) {
        // The old ones go before the new ones come: both together would be twice the memory.
        (self.by_simhash, self.by_band) = (Vec::new(), Vec::new());
        self.by_digest = Table::new(self.chains);
        self.by_simhash = BLOCK_PAIRS.iter().map(|_| Table::new(self.chains)).collect();
        self.by_band = (0..BANDS).map(|_| Table::new(self.chains)).collect();
        for number in self.oldest()..self.given {
            self.link(number);
        }
        self.by_digest.settle();
        self.by_simhash.iter_mut().chain(&mut self.by_band).for_each(Table::settle);
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

fn tag_of_digest(digest: u128) -> u16 {
    (digest >> 64) as u16
}

/// Bits of a band that its chain does not tell already.
fn tag_of_band(band: u32) -> u16 {
    (band ^ band >> 16) as u16
}

/// Two of the five blocks of a SimHash, as a key, and two others, for the tag.
struct BlockPair {
    key: [u32; 2],
    tag: [u32; 2],
}

/// Bits of a block; the last has one less.
const BLOCK_BITS: u32 = 13;

impl BlockPair {
    const fn of(one: u32, other: u32, tag: [u32; 2]) -> Self {
        Self {
            key: [BLOCK_BITS * one, BLOCK_BITS * other],
            tag: [BLOCK_BITS * tag[0], BLOCK_BITS * tag[1]],
        }
    }

    fn key(&self, simhash: SimHash) -> u32 {
        let [one, other] = self.key.map(|at| (simhash.0 >> at) as u32 & ((1 << BLOCK_BITS) - 1));
        one | other << BLOCK_BITS
    }

    /// Bits as they are, not hashed: of two SimHashes no more differ in them than in the whole.
    fn tag(&self, simhash: SimHash) -> u16 {
        let [one, other] = self.tag.map(|at| (simhash.0 >> at & 0xff) as u16);
        one | other << 8
    }
}

const BLOCK_PAIRS: [BlockPair; 10] = [
    BlockPair::of(0, 1, [2, 3]),
    BlockPair::of(0, 2, [1, 3]),
    BlockPair::of(0, 3, [1, 2]),
    BlockPair::of(0, 4, [1, 2]),
    BlockPair::of(1, 2, [0, 3]),
    BlockPair::of(1, 3, [0, 2]),
    BlockPair::of(1, 4, [0, 2]),
    BlockPair::of(2, 3, [0, 1]),
    BlockPair::of(2, 4, [0, 1]),
    BlockPair::of(3, 4, [0, 1]),
];

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
                    index.find_by_simhash(near, &mut |number| found.push(number));
                    assert!(found.contains(&0), "{one} {other} {third}");
                }
            }
        }
    }

    #[test]
    fn places_are_those_of_the_index() {
        let (one, near) = (text(1, 300), edited(&text(1, 300), 40));
        let texts =
            [one.clone(), near, edited(&one, 9), edited(&one, 2), text(2, 300), "a b".into()];
        for mine in texts.iter().map(|text| Prints::of(text)) {
            for other in texts.iter().map(|text| Prints::of(text)) {
                let mut index = NearIndex::new(1);
                index.add(&other);
                let theirs: Vec<Place> = other.places().collect();
                let mut met = mine.places().filter(|place| theirs.contains(place));
                let is_copy = met.any(|place| mine.is_copy_at(place, &other));
                let found = index.find(&mine).is_some();
                assert_eq!(is_copy || mine.digest == other.digest, found);
            }
        }
        assert_eq!(Prints::of(&texts[0]).places().count(), TABLES);
        assert_eq!(Prints::of("a b").places().count(), 0);
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
        // Tables may hold forgotten numbers until they are made anew, but not more and more.
        assert!(index.bytes() <= 3 * bytes, "{} from {bytes}", index.bytes());
        assert_eq!(index.len(), 500);
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
