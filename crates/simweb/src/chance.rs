//! How does a seed become a decision?
//!
//! By hashing what the decision is about: no state, no order of calls, so any page of a world can
//! be computed at any time without the others.

/// Two numbers into one, evenly (a folded multiplication, as in wyhash).
pub(crate) const fn mix(a: u64, b: u64) -> u64 {
    let product = (a ^ 0x9E37_79B9_7F4A_7C15) as u128 * (b ^ 0xD1B5_4A32_D192_ED03) as u128;
    product as u64 ^ (product >> 64) as u64
}

/// A row of numbers from one (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `bound`, which is not 0.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        scale(self.next(), bound)
    }

    /// From 0 up to, not including, 1.
    pub(crate) const fn unit(&mut self) -> f64 {
        unit(self.next())
    }
}

/// A hash scaled down to a number below `bound`.
pub(crate) const fn scale(hash: u64, bound: u64) -> u64 {
    ((hash as u128 * bound as u128) >> 64) as u64
}

pub(crate) const fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

/// The `n`th of a row that fills [0, 1) evenly from the start (multiples of the golden ratio):
/// something with a share of one in twenty comes up within the first twenty or so, in every
/// world, not merely on average.
pub(crate) const fn even(start: u64, n: u64) -> f64 {
    unit(start.wrapping_add(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_share_comes_up_early_in_every_world() {
        for seed in 0..100 {
            let first = (0..).find(|&n| even(mix(seed, 1), n) < 0.02).unwrap();
            assert!(first <= 100, "seed {seed}: only at {first}");
        }
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_it() {
        let mut chance = Chance::new(7);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[chance.below(5) as usize] = true;
        }
        assert_eq!(seen, [true; 5]);
    }
}
