//! Was this visit committed before?
//!
//! Visit numbers count up and are never given twice: a bound on the disk lies above all that were
//! ever used, and moves up in blocks before a request with a larger number can leave. A new
//! process begins at the bound it finds. So a number below its beginning belongs to an earlier
//! process: that visit was either committed or settled as lost when the shard was recovered (its
//! grant is gone either way), and is not taken again. Of its own numbers the process remembers
//! which ones are settled, as ranges: there are as many gaps as visits in flight.

use std::collections::BTreeMap;

/// Numbers set aside with one write to the disk. A restart wastes at most these, of 2^48.
pub(super) const BLOCK: u64 = 4096;

/// Gaps between settled numbers that are remembered. Far more than leases can be in flight; the
/// oldest are given up for settled beyond it.
const RANGES_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct VisitNumbers {
    /// This process's first number.
    base: u64,
    /// As on the disk: no number at or above it was used.
    bound: u64,
    /// Settled numbers of this process: start → end (excluded).
    settled: BTreeMap<u64, u64>,
}

impl VisitNumbers {
    pub(super) fn new(bound: u64) -> Self {
        Self { base: bound, bound, settled: BTreeMap::new() }
    }

    pub(super) fn base(&self) -> u64 {
        self.base
    }

    pub(super) fn is_settled(&self, number: u64) -> bool {
        let before = self.settled.range(..=number).next_back();
        number < self.base || before.is_some_and(|(_, end)| number < *end)
    }

    pub(super) fn settle(&mut self, number: u64) {
        if self.is_settled(number) {
            return;
        }
        let end = self.settled.remove(&(number + 1)).unwrap_or(number + 1);
        match self.settled.range_mut(..number).next_back() {
            Some((_, before)) if *before == number => *before = end,
            _ => {
                self.settled.insert(number, end);
            }
        }
        if self.settled.len() > RANGES_MAX
            && let Some((_, end)) = self.settled.pop_first()
        {
            self.base = end;
        }
    }

    /// The bound to write before this number is used, if it must move.
    pub(super) fn bound_for(&self, number: u64) -> Option<u64> {
        (number >= self.bound).then_some(number + BLOCK)
    }

    /// The bound is on the disk.
    pub(super) fn bounded(&mut self, bound: u64) {
        self.bound = bound;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settled_numbers_melt_into_ranges() {
        let mut numbers = VisitNumbers::new(100);
        assert!(numbers.is_settled(99) && !numbers.is_settled(100));
        for number in [102, 100, 101, 105, 104] {
            assert!(!numbers.is_settled(number));
            numbers.settle(number);
            assert!(numbers.is_settled(number));
        }
        assert_eq!(numbers.settled, BTreeMap::from([(100, 103), (104, 106)]));
        numbers.settle(103);
        assert_eq!(numbers.settled, BTreeMap::from([(100, 106)]));
        assert!(!numbers.is_settled(106));
    }

    #[test]
    fn the_bound_moves_before_it_is_reached() {
        let mut numbers = VisitNumbers::new(0);
        assert_eq!(numbers.bound_for(0), Some(BLOCK));
        numbers.bounded(BLOCK);
        assert_eq!(numbers.bound_for(BLOCK - 1), None);
        assert_eq!(numbers.bound_for(BLOCK), Some(2 * BLOCK));
    }
}
