//! Where does chance come from, so that a run can be made again?
//!
//! SplitMix64: one number of state, and the seed is all there is to remember.

/// A stream of numbers that follows from its seed.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if there is none. The bias is far below what anybody could see.
    pub const fn below(&mut self, bound: usize) -> usize {
        match bound {
            0 => 0,
            bound => (self.next() % bound as u64) as usize,
        }
    }

    pub const fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> Option<&'a T> {
        from.get(self.below(from.len())).copied()
    }

    /// Mostly small: half of all are below 4, a quarter below 16, and so on up to `bound`.
    pub const fn small(&mut self, bound: usize) -> usize {
        let mut room = 4;
        while room < bound && self.one_in(2) {
            room *= 4;
        }
        self.below(if room < bound { room } else { bound })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        // The first numbers of the reference implementation for this seed.
        let mut chance = Chance::new(1_234_567);
        assert_eq!(chance.next(), 6_457_827_717_110_365_317);
        assert_eq!(chance.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_stay_below_their_bound() {
        let mut chance = Chance::new(1);
        for bound in [0, 1, 2, 7, 1000] {
            for _ in 0..100 {
                let number = chance.below(bound);
                assert!(number < bound.max(1));
                assert!(chance.small(bound) < bound.max(1));
            }
        }
        assert_eq!(chance.pick::<u8>(&[]), None);
    }
}
