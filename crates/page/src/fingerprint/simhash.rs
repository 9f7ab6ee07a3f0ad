//! Which 64 bits change little when a text changes little?
//!
//! Features are the runs of four characters within words (` the `, with its spaces, has three), and
//! words of one or two characters whole; each counts as often as it stands there. Every feature
//! votes on every bit by its hash, the majority decides.
//!
//! Chosen by measurement (benches/RESULTS.md): of texts of 300 words with 5 % of the words replaced,
//! half are within three bits; 3-word shingles drift by ten and more. A replaced word takes only its
//! own features with it, because none spans two words, and features that stand often hold the vote.
//! Texts that have nothing to do with each other are 26 to 29 bits apart.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

/// Characters of a feature.
const RUN: usize = 4;

/// 64 bits; texts that are alike differ in few.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SimHash(pub u64);

impl SimHash {
    pub(super) fn of(words: &[&str]) -> Self {
        let mut votes = Votes::default();
        let mut padded = String::new();
        for word in words {
            padded.clear();
            padded.push(' ');
            padded.push_str(word);
            padded.push(' ');
            each_run(&padded, |run| votes.add(xxh3_64(run)));
        }
        Self(votes.majority())
    }

    /// How many bits differ.
    pub fn distance(self, other: Self) -> u32 {
        (self.0 ^ other.0).count_ones()
    }
}

impl fmt::Display for SimHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for SimHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimHash({self})")
    }
}

fn each_run(padded: &str, mut take: impl FnMut(&[u8])) {
    let bytes = padded.as_bytes();
    if bytes.len() <= RUN {
        return take(bytes);
    }
    if padded.is_ascii() {
        return bytes.windows(RUN).for_each(take);
    }
    let mut ends = padded.char_indices().map(|(at, _)| at).skip(RUN).chain([bytes.len()]);
    let Some(mut end) = ends.next() else { return take(bytes) };
    for (start, _) in padded.char_indices() {
        take(&bytes[start..end]);
        match ends.next() {
            Some(next) => end = next,
            None => return,
        }
    }
}

/// Votes are counted in bytes, eight bits at a time, and carried over before a byte can overflow:
/// that is six times as fast as one counter a bit.
struct Votes {
    /// How many of the last hashes had a bit: bit `8 * byte + n` in byte `byte` of word `n`.
    small: [u64; 8],
    added: u8,
    ones: [u32; 64],
    total: u32,
}

impl Default for Votes {
    fn default() -> Self {
        Self { small: [0; 8], added: 0, ones: [0; 64], total: 0 }
    }
}

impl Votes {
    fn add(&mut self, hash: u64) {
        const LOWEST: u64 = 0x0101_0101_0101_0101;
        for (n, counters) in self.small.iter_mut().enumerate() {
            *counters += hash >> n & LOWEST;
        }
        self.added += 1;
        if self.added == u8::MAX {
            self.carry();
        }
    }

    fn carry(&mut self) {
        for (n, counters) in self.small.iter_mut().enumerate() {
            for (byte, count) in counters.to_le_bytes().into_iter().enumerate() {
                self.ones[8 * byte + n] += u32::from(count);
            }
            *counters = 0;
        }
        self.total += u32::from(self.added);
        self.added = 0;
    }

    fn majority(mut self) -> u64 {
        self.carry();
        let bits = self.ones.iter().enumerate();
        bits.fold(0, |all, (n, ones)| {
            all | u64::from(2 * u64::from(*ones) > u64::from(self.total)) << n
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn votes_are_counted_as_one_by_one() {
        let mut votes = Votes::default();
        let mut counted = [0_i64; 64];
        for n in 0..1_000_u64 {
            let hash = xxh3_64(&n.to_le_bytes()) | 5;
            votes.add(hash);
            for (bit, count) in counted.iter_mut().enumerate() {
                *count += if hash >> bit & 1 == 1 { 1 } else { -1 };
            }
        }
        let majority = votes.majority();
        for (bit, count) in counted.iter().enumerate() {
            assert_eq!(majority >> bit & 1 == 1, *count > 0, "bit {bit}");
        }
    }

    #[test]
    fn runs_are_cut_at_characters() {
        let runs = |text: &str| {
            let mut all = Vec::new();
            each_run(text, |run| all.push(String::from_utf8(run.to_vec()).unwrap()));
            all
        };
        assert_eq!(runs(" the "), [" the", "the "]);
        assert_eq!(runs(" a "), [" a "]);
        assert_eq!(runs(" über "), [" übe", "über", "ber "]);
        assert_eq!(runs(" é "), [" é "]);
        assert_eq!(runs(" 東 "), [" 東 "]);
    }

    #[test]
    fn a_simhash_is_sixteen_digits_and_never_changes() {
        assert_eq!(SimHash::of(&[]).to_string(), "0000000000000000");
        assert_eq!(SimHash::of(&["hello", "world"]).to_string().len(), 16);
        assert_eq!(SimHash(0xff).distance(SimHash(0x0f)), 4);
    }
}
