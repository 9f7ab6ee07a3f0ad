//! Which entries stand under a key, among millions?
//!
//! A key hashes to a line of 64 bytes with room for ten entries: their numbers, and sixteen bits of
//! each that tell most strangers apart without a look at the entry itself. So a look-up waits for
//! memory once, not once an entry. A line that is full moves behind a new one.
//!
//! Always: numbers of entries that are forgotten are overwritten, and a table that has grown by them
//! says so (`is_crowded`) before it has twice its lines.

/// No number.
pub(super) const NONE: u32 = u32::MAX;

/// Entries of a line.
const SLOTS: usize = 10;

/// Lines of one key that are read. Thousands of entries under one key are a template's doing, and
/// the rest of them would say the same.
const LINES_MAX: usize = 256;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line {
    numbers: [u32; SLOTS],
    tags: [u16; SLOTS],
    next: u32,
}

const EMPTY: Line = Line { numbers: [NONE; SLOTS], tags: [0; SLOTS], next: NONE };

pub(super) struct Table {
    /// One for each chain, then those that were full.
    lines: Vec<Line>,
    chains: usize,
    /// Lines when the table was made anew, and as many as there are chains.
    lines_max: usize,
}

impl Table {
    /// `chains` is a power of two.
    pub fn new(chains: usize) -> Self {
        debug_assert!(chains.is_power_of_two());
        Self { lines: vec![EMPTY; chains], chains, lines_max: 2 * chains }
    }

    pub fn bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
    }

    pub fn is_crowded(&self) -> bool {
        self.lines.len() >= self.lines_max
    }

    /// To be called when all that is remembered was put in: so many lines are needed at least.
    pub fn settle(&mut self) {
        self.lines_max = self.lines.len() + self.chains;
    }

    pub fn put(&mut self, key: u64, tag: u16, number: u32, is_live: impl Fn(u32) -> bool) {
        let at = self.chain(key);
        let free = self.lines[at].numbers.iter().position(|number| !is_live(*number));
        let slot = free.unwrap_or_else(|| {
            let full = std::mem::replace(&mut self.lines[at], EMPTY);
            self.lines[at].next =
                u32::try_from(self.lines.len()).expect("fewer lines than numbers");
            self.lines.push(full);
            0
        });
        let line = &mut self.lines[at];
        (line.numbers[slot], line.tags[slot]) = (number, tag);
    }

    /// Reads a little of what a look-up of this key will read.
    pub fn touch(&self, key: u64) -> u32 {
        self.lines[self.chain(key)].next
    }

    /// Numbers under this key whose tag will do; also such that were forgotten.
    pub fn find(&self, key: u64, will_do: impl Fn(u16) -> bool, found: &mut impl FnMut(u32)) {
        let mut at = self.chain(key);
        for _ in 0..LINES_MAX {
            let line = &self.lines[at];
            for (tag, number) in line.tags.iter().zip(line.numbers) {
                if number != NONE && will_do(*tag) {
                    found(number);
                }
            }
            if line.next == NONE {
                return;
            }
            at = line.next as usize;
        }
    }

    fn chain(&self, key: u64) -> usize {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) as usize & (self.chains - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(table: &Table, key: u64) -> Vec<u32> {
        let mut all = Vec::new();
        table.find(key, |tag| tag == key as u16, &mut |number| all.push(number));
        all.sort_unstable();
        all
    }

    #[test]
    fn every_number_is_found_under_its_key() {
        let mut table = Table::new(16);
        for number in 0..1_000 {
            table.put(u64::from(number % 50), number as u16 % 50, number, |other| other != NONE);
        }
        for key in 0..50 {
            let want: Vec<u32> =
                (0..1_000).filter(|number| u64::from(number % 50) == key).collect();
            assert_eq!(found(&table, key), want);
        }
        assert!(table.is_crowded());
        table.settle();
        assert!(!table.is_crowded());
    }

    #[test]
    fn what_is_forgotten_makes_room() {
        let mut table = Table::new(1);
        for number in 0..1_000 {
            table.put(7, 7, number, |other| other != NONE && other + 5 >= number);
        }
        assert_eq!(table.lines.len(), 1);
        assert!(found(&table, 7).ends_with(&[996, 997, 998, 999]));
    }
}
