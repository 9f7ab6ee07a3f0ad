//! Which entries stand under a key, among millions?
//!
//! A key hashes to a line of 64 bytes with room for ten entries: their numbers, and sixteen bits of
//! each that tell most strangers apart without a look at the entry itself. So a look-up waits for
//! memory once, not once an entry. What a line has no room for stands in a run of lines side by side,
//! which is moved to one twice as long when it is full: a second wait, and then the processor reads
//! ahead by itself, however many there are.
//!
//! Always: numbers of entries that are forgotten are overwritten, and a table that has grown by them
//! says so (`is_crowded`) before it has twice its lines. Beyond [`RUN_LINES_MAX`] lines of one chain,
//! new numbers are left out: thousands of entries under one key are a template's doing, and the
//! earliest of them, which are kept, say the same.

use super::lines::{Line, Lines};

/// No number.
pub(super) const NONE: u32 = u32::MAX;

/// Entries of a line.
const SLOTS: usize = 10;

/// The longest run.
const RUN_LINES_MAX: usize = 256;

/// Lines that are reserved for each chain: its own, and runs. Twice as many as ever were needed.
const LINES_PER_CHAIN: usize = 6;

/// Where a line keeps its tags, and where its chain goes on. In the first line of a run the last word
/// is how many lines it has. Numbers and places are one more than they are: zero is none.
const TAGS: usize = SLOTS;
const NEXT: usize = 15;

fn tag_of(line: &Line, slot: usize) -> u16 {
    (line[TAGS + slot / 2] >> (16 * (slot % 2))) as u16
}

fn set_entry(line: &mut Line, slot: usize, number: u32, tag: u16) {
    line[slot] = number + 1;
    let shift = 16 * (slot % 2);
    let word = &mut line[TAGS + slot / 2];
    *word = *word & !(0xffff << shift) | u32::from(tag) << shift;
}

pub(super) struct Table {
    /// One for each chain, then runs.
    lines: Lines,
    /// Lines that are taken, or were.
    taken: usize,
    /// Runs that were outgrown, by the power of two that is their length.
    free: [Vec<u32>; 9],
    chains: usize,
    /// Lines when the table was made anew, and as many as there are chains.
    lines_max: usize,
}

impl Table {
    /// `chains` is a power of two.
    pub fn new(chains: usize) -> Self {
        debug_assert!(chains.is_power_of_two());
        Self {
            lines: Lines::new(LINES_PER_CHAIN * chains),
            taken: chains,
            free: Default::default(),
            chains,
            lines_max: 2 * chains,
        }
    }

    pub fn bytes(&self) -> usize {
        self.taken * size_of::<Line>()
    }

    pub fn is_crowded(&self) -> bool {
        self.taken >= self.lines_max
    }

    /// To be called when all that is remembered was put in: so many lines are needed at least.
    pub fn settle(&mut self) {
        self.lines_max = self.taken + self.chains;
    }

    pub fn put(&mut self, key: u64, tag: u16, number: u32, is_live: impl Fn(u32) -> bool) {
        let head = self.chain(key);
        let free =
            |line: &Line| (0..SLOTS).find(|&slot| line[slot] == 0 || !is_live(line[slot] - 1));
        if let Some(slot) = free(&self.lines.all()[head]) {
            return set_entry(&mut self.lines.all_mut()[head], slot, number, tag);
        }
        let (from, length) = self.run(head);
        let mut run = (from..from + length).rev();
        let found = run.find_map(|at| Some((at, free(&self.lines.all()[at])?)));
        let place = found.or_else(|| Some((self.lengthen(head, from, length)?, 0)));
        if let Some((at, slot)) = place {
            set_entry(&mut self.lines.all_mut()[at], slot, number, tag);
        }
    }

    /// The run behind the head of a chain: where, and how many lines.
    fn run(&self, head: usize) -> (usize, usize) {
        match self.lines.all()[head][NEXT] {
            0 => (0, 0),
            next => {
                let from = next as usize - 1;
                (from, self.lines.all()[from][NEXT] as usize)
            }
        }
    }

    /// Moves a run that is full to one twice as long. Gives its first empty line; none where it may
    /// not grow.
    fn lengthen(&mut self, head: usize, from: usize, length: usize) -> Option<usize> {
        let wanted = (2 * length).max(1);
        if wanted > RUN_LINES_MAX {
            return None;
        }
        let power = wanted.trailing_zeros() as usize;
        let to = match self.free[power].pop() {
            Some(run) => run as usize,
            None => {
                let to = self.taken;
                if to + wanted > self.lines.all().len() {
                    return None;
                }
                self.taken += wanted;
                to
            }
        };
        let lines = self.lines.all_mut();
        lines.copy_within(from..from + length, to);
        lines[to + length..to + wanted].fill([0; 16]);
        lines[to][NEXT] = wanted as u32;
        lines[head][NEXT] = to as u32 + 1;
        if length > 0 {
            self.free[length.trailing_zeros() as usize].push(from as u32);
        }
        Some(to + length)
    }

    /// Reads a little of what a look-up of this key will read; gives where it goes on.
    pub fn touch(&self, key: u64) -> u32 {
        self.lines.all()[self.chain(key)][NEXT]
    }

    /// The same for what `touch` gave.
    pub fn touch_run(&self, next: u32) -> u32 {
        next.checked_sub(1).map_or(0, |from| self.lines.all()[from as usize][NEXT])
    }

    /// Numbers under this key whose tag will do; also such that were forgotten.
    pub fn find(&self, key: u64, will_do: impl Fn(u16) -> bool, found: &mut impl FnMut(u32)) {
        let head = self.chain(key);
        let (from, length) = self.run(head);
        let lines = self.lines.all();
        for line in std::iter::once(&lines[head]).chain(&lines[from..from + length]) {
            for slot in 0..SLOTS {
                if line[slot] != 0 && will_do(tag_of(line, slot)) {
                    found(line[slot] - 1);
                }
            }
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
        let mut table = Table::new(64);
        for number in 0..1_000 {
            table.put(u64::from(number % 50), number as u16 % 50, number, |other| other != NONE);
        }
        for key in 0..50 {
            let want: Vec<u32> =
                (0..1_000).filter(|number| u64::from(number % 50) == key).collect();
            assert_eq!(found(&table, key), want);
        }
    }

    #[test]
    fn a_table_with_as_many_lines_again_is_crowded() {
        let mut table = Table::new(64);
        for number in 0..1_000 {
            table.put(7, 7, number, |_| true);
        }
        assert_eq!(found(&table, 7).len(), 1_000);
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
        assert_eq!(table.taken, 1);
        assert!(found(&table, 7).ends_with(&[996, 997, 998, 999]));
    }

    #[test]
    fn of_too_many_under_one_key_the_earliest_are_kept() {
        let mut table = Table::new(1 << 10);
        for number in 0..10_000 {
            table.put(7, 7, number, |_| true);
        }
        let kept = found(&table, 7);
        assert_eq!(kept.len(), SLOTS * (1 + RUN_LINES_MAX));
        assert!(kept.iter().enumerate().all(|(at, number)| at as u32 == *number));
    }
}
