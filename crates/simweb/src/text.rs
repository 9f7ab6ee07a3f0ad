//! Where do the words of a world come from?
//!
//! From a pool of sentences that is made once in a process and from which pages copy whole runs:
//! writing a page is copying memory, so the server is never what a benchmark measures. The words
//! are made of syllables; a few are frequent and most are rare, so that a page compresses about
//! as well as a page of the real web.

use std::sync::OnceLock;

use crate::chance::{Chance, mix, scale};

/// Different words in the pool. Fewer would compress too well, more too badly.
const WORDS: usize = 600;
const POOL_BYTES: usize = 512 * 1024;

const ONSETS: [&str; 16] =
    ["b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr"];
const VOWELS: [&str; 8] = ["a", "e", "i", "o", "u", "ai", "ea", "ou"];
const CODAS: [&str; 8] = ["", "", "", "n", "r", "s", "l", "nt"];

/// The sentences that all worlds of this process copy from.
#[derive(Debug)]
pub struct Pool {
    words: Vec<String>,
    text: Vec<u8>,
    /// Where each sentence starts, and at the end where the last one ends.
    starts: Vec<u32>,
}

pub fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(Pool::new)
}

impl Pool {
    fn new() -> Self {
        let mut chance = Chance::new(0x7E87);
        let words = words(&mut chance);
        let mut text = Vec::with_capacity(POOL_BYTES + 256);
        let mut starts = Vec::new();
        while text.len() < POOL_BYTES {
            starts.push(text.len() as u32);
            let start = text.len();
            for n in 0..6 + chance.below(12) {
                if n > 0 {
                    text.extend_from_slice(if chance.below(12) == 0 { b", " } else { b" " });
                }
                // Frequency falls with the rank, about as in a language.
                let rank = (WORDS as f64).powf(chance.unit()) as usize - 1;
                text.extend_from_slice(words[rank.min(WORDS - 1)].as_bytes());
            }
            text[start].make_ascii_uppercase();
            text.extend_from_slice(b". ");
        }
        starts.push(text.len() as u32);
        Self { words, text, starts }
    }

    /// A word, always the same for the same hash.
    pub(crate) fn word(&self, hash: u64) -> &str {
        &self.words[scale(hash, WORDS as u64) as usize]
    }

    /// Whole sentences from anywhere in the pool, about `bytes` of them.
    pub(crate) fn sentences(&self, hash: u64, bytes: usize) -> &[u8] {
        let bytes = bytes.min(POOL_BYTES / 4);
        let first = scale(hash, (self.starts.len() as u64 - 1) * 3 / 4) as usize;
        let start = self.starts[first] as usize;
        // Sentences are about 70 bytes; the exact end is looked for from a good guess.
        let mut last = (first + bytes / 70).min(self.starts.len() - 1).max(first + 1);
        while last + 1 < self.starts.len() && (self.starts[last] as usize) < start + bytes {
            last += 1;
        }
        while last > first + 1 && self.starts[last - 1] as usize >= start + bytes {
            last -= 1;
        }
        &self.text[start..self.starts[last] as usize]
    }
}

fn words(chance: &mut Chance) -> Vec<String> {
    let mut words: Vec<String> = Vec::with_capacity(WORDS);
    let mut known = std::collections::BTreeSet::new();
    let mut pick = |from: &[&'static str]| from[chance.below(from.len() as u64) as usize];
    while words.len() < WORDS {
        let mut word = String::new();
        // Frequent words are short.
        for _ in 0..1 + (words.len() + 60) / 120 % 3 {
            word.push_str(pick(&ONSETS));
            word.push_str(pick(&VOWELS));
            word.push_str(pick(&CODAS));
        }
        if word.len() > 1 && known.insert(word.clone()) {
            words.push(word);
        }
    }
    words
}

/// A name for something numbered: a word that depends on the seed.
pub(crate) fn name(seed: u64, number: u64) -> &'static str {
    pool().word(mix(seed, number))
}

/// The digits of a number, without an allocation.
pub(crate) fn with_decimal<T>(mut number: u64, take: impl FnOnce(&[u8]) -> T) -> T {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return take(&digits[at..]);
        }
    }
}

pub(crate) fn push_decimal(out: &mut Vec<u8>, number: u64) {
    with_decimal(number, |digits| out.extend_from_slice(digits));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_whole_and_about_as_long_as_asked() {
        for n in 0..2_000 {
            let want = 50 + n as usize;
            let text = pool().sentences(mix(n, 3), want);
            assert!(text[0].is_ascii_uppercase() && text.ends_with(b". "));
            assert!(text.len() >= want && text.len() < want + 250, "{} for {want}", text.len());
        }
    }

    #[test]
    fn numbers_are_written_as_people_do() {
        for number in [0, 7, 10, 1_234_567, u64::MAX] {
            let mut out = Vec::new();
            push_decimal(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }
}
