//! Is this id certainly new?
//!
//! A Bloom filter in blocks of one cache line: one memory access an answer. "No" is certain,
//! "perhaps" is asked of the store.
//!
//! It is 256 filters, one for each first byte of an id's print, and each grows by an eighth when it
//! is full. They begin at different sizes, so they are never full together. So the whole takes
//! 10.7 to 12 bits an id at every moment, and growing never needs a second one of its size: a part
//! is made anew from the prints of its ids, which are on disk (see `prints`).

use types::UrlId;

/// Filters in a filter.
pub(super) const PARTS: usize = 256;

/// Ids for which a block of 512 bits is made: 10.7 bits each. With six bits set for an id, 0.8 % of
/// the new ones are "perhaps" when a part is full and 0.4 % after it has grown (measured below).
const IDS_PER_BLOCK: u64 = 48;
const PROBES: u32 = 6;
/// A full part grows by one of so many parts of its size.
const GROWTH: u64 = 8;

/// What the filter knows an id by: 48 bits of it, of which the first eight choose the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Print(u64);

/// Bits of a print below its part.
const REST_BITS: u32 = 40;
const REST_MASK: u64 = (1 << REST_BITS) - 1;

impl Print {
    pub(super) fn of(id: UrlId) -> Self {
        Self(((id.0 >> 64) as u64 ^ id.0 as u64) >> 16)
    }

    pub(super) fn new(part: usize, rest: u64) -> Self {
        Self((part as u64) << REST_BITS | rest & REST_MASK)
    }

    pub(super) fn part(self) -> usize {
        (self.0 >> REST_BITS) as usize
    }

    pub(super) fn rest(self) -> u64 {
        self.0 & REST_MASK
    }
}

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Block([u64; 8]);

#[derive(Debug)]
struct Part {
    blocks: Vec<Block>,
    count: u64,
}

/// What is known of the ids that were added.
pub(super) struct Filter {
    parts: Vec<Part>,
}

impl Filter {
    /// Room for so many ids in each part, and for `ids_min` in all at least.
    pub(super) fn with_room(counts: &[u64; PARTS], ids_min: u64) -> Self {
        let least = ids_min / PARTS as u64;
        let part = |(n, count): (usize, &u64)| {
            let blocks = blocks_for((*count).max(least));
            // The first part is full at once, the last after a growth's worth of ids.
            let later = blocks * n as u64 / (GROWTH * PARTS as u64);
            Part::new(blocks + later)
        };
        Self { parts: counts.iter().enumerate().map(part).collect() }
    }

    /// True if the id was added, and for a few others.
    pub(super) fn may_have(&self, print: Print) -> bool {
        self.parts[print.part()].may_have(print)
    }

    /// A word of what [`Self::may_have`] will look at.
    pub(super) fn touch(&self, print: Print) -> u64 {
        let part = &self.parts[print.part()];
        part.blocks[part.block(print)].0[0]
    }

    pub(super) fn add(&mut self, print: Print) {
        self.parts[print.part()].add(print);
    }

    /// Prints in it.
    pub(super) fn count(&self) -> u64 {
        self.parts.iter().map(|part| part.count).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| size_of_val(&*part.blocks) as u64).sum()
    }

    /// A part that has more ids than it was made for.
    pub(super) fn full_part(&self) -> Option<usize> {
        self.parts.iter().position(|part| part.count > part.blocks.len() as u64 * IDS_PER_BLOCK)
    }

    /// Makes a part anew, an eighth larger than these prints need, which are all that it has.
    pub(super) fn grow(&mut self, part: usize, prints: &[Print]) {
        let blocks = blocks_for(prints.len() as u64);
        let mut grown = Part::new(blocks + (blocks / GROWTH).max(1));
        prints.iter().for_each(|print| grown.add(*print));
        self.parts[part] = grown;
    }

    /// Of so many ids that nobody has added, for how many it says "perhaps".
    pub(super) fn errors_among(&self, samples: u32) -> u32 {
        let strange = (0..u64::from(samples)).map(|n| Print(mixed(n ^ 0x5eed) >> 16));
        strange.filter(|print| self.may_have(*print)).count() as u32
    }
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filter").field("count", &self.count()).field("of", &self.bytes()).finish()
    }
}

impl Part {
    fn new(blocks: u64) -> Self {
        Self { blocks: vec![Block([0; 8]); blocks as usize], count: 0 }
    }

    fn may_have(&self, print: Print) -> bool {
        let Block(words) = &self.blocks[self.block(print)];
        probes(print).all(|(word, mask)| words[word] & mask != 0)
    }

    fn add(&mut self, print: Print) {
        let block = self.block(print);
        let Block(words) = &mut self.blocks[block];
        probes(print).for_each(|(word, mask)| words[word] |= mask);
        self.count += 1;
    }

    /// Fastrange: the rest of the print as a fraction of the whole.
    fn block(&self, print: Print) -> usize {
        let place = u128::from(print.rest()) * self.blocks.len() as u128;
        (place >> REST_BITS) as usize
    }
}

fn blocks_for(ids: u64) -> u64 {
    ids.div_ceil(IDS_PER_BLOCK).max(1)
}

/// Word and bit of each probe: nine bits of a mix of the print for each. Neighbours of one block
/// have nearly the same print, so it must be mixed well.
fn probes(print: Print) -> impl Iterator<Item = (usize, u64)> {
    let mixed = mixed(print.0);
    (0..PROBES).map(move |n| {
        let bits = mixed >> (n * 9);
        ((bits >> 6 & 7) as usize, 1 << (bits & 63))
    })
}

/// Every bit of the answer depends on every bit of the number (the finish of splitmix64).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(n: u64) -> Print {
        Print::of(UrlId::of(&format!("http://a.test/{n}")))
    }

    /// Adds ids as the store does: a full part is made anew from all of its prints.
    fn fill(filter: &mut Filter, all: &mut [Vec<Print>], numbers: std::ops::Range<u64>) {
        for n in numbers {
            let print = print(n);
            filter.add(print);
            all[print.part()].push(print);
            if let Some(part) = filter.full_part() {
                filter.grow(part, &all[part]);
            }
        }
    }

    #[test]
    fn it_grows_and_never_forgets_and_seldom_errs() {
        let mut filter = Filter::with_room(&[0; PARTS], 30_000);
        let mut all = vec![Vec::new(); PARTS];
        let mut known = 0;
        for ids in [400_000, 450_000, 500_000, 550_000, 600_000] {
            fill(&mut filter, &mut all, known..ids);
            known = ids;
            let bits = filter.bytes() as f64 * 8.0 / ids as f64;
            // Parts are whole blocks, a few dozen of them here.
            assert!((10.6..12.1).contains(&bits), "{bits} bits an id at {ids}");
            let strangers = 9_000_000..9_100_000;
            let wrong = strangers.filter(|n| filter.may_have(print(*n))).count();
            assert!(wrong < 1_000, "{wrong} of 100,000 strangers at {ids} ids");
            let sampled = filter.errors_among(100_000);
            assert!(sampled.abs_diff(wrong as u32) < 150, "{sampled} by samples, {wrong} by URLs");
        }
        assert!((0..known).all(|n| filter.may_have(print(n))));
        assert_eq!(filter.count(), known);
    }

    #[test]
    fn a_full_filter_errs_less_than_once_in_a_hundred_and_a_roomy_one_half_as_often() {
        let ids = 48 * 16 * PARTS as u64;
        let mut counts = [0; PARTS];
        (0..ids).for_each(|n| counts[print(n).part()] += 1);
        let mut full = Filter { parts: counts.iter().map(|c| Part::new(blocks_for(*c))).collect() };
        (0..ids).for_each(|n| full.add(print(n)));
        let wrong = full.errors_among(100_000);
        assert!((500..1_000).contains(&wrong), "{wrong} of 100,000 at 10.7 bits an id");
        let mut roomy =
            Filter { parts: counts.iter().map(|c| Part::new(blocks_for(*c) * 9 / 8)).collect() };
        (0..ids).for_each(|n| roomy.add(print(n)));
        let wrong = roomy.errors_among(100_000);
        assert!((200..500).contains(&wrong), "{wrong} of 100,000 at 12 bits an id");
    }

    #[test]
    fn a_print_is_made_of_its_part_and_the_rest() {
        let whole = print(7);
        assert_eq!(Print::new(whole.part(), whole.rest()), whole);
        let parts: std::collections::BTreeSet<_> = (0..10_000).map(|n| print(n).part()).collect();
        assert_eq!(parts.len(), PARTS);
    }
}
