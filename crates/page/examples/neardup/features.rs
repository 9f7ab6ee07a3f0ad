//! What should a SimHash be made of?
//!
//! The same edits for every choice of features and weights: how far the bits drift, how many copies
//! stay within three, how far apart texts are that have nothing in common, and how many of ten million
//! such would share a block of sixteen bits, which is what a look-up by blocks has to read.

use std::collections::BTreeMap;

use lycosa_page::fingerprint::normalise;
use xxhash_rust::xxh3::xxh3_64;

use crate::Chance;
use crate::sources::Text;

const WORDS: usize = 300;

/// A name, and how to cut a text's words into features.
type Features = (&'static str, fn(&[String]) -> Vec<String>);

const FEATURES: [Features; 7] = [
    ("words", |words| words.to_vec()),
    ("2-word shingles", |words| shingles(words, 2)),
    ("3-word shingles", |words| shingles(words, 3)),
    ("3 characters", |words| characters(&words.join(" "), 3)),
    ("4 characters", |words| characters(&words.join(" "), 4)),
    ("5 characters", |words| characters(&words.join(" "), 5)),
    ("4 within words", |words| {
        words.iter().flat_map(|word| characters(&format!(" {word} "), 4)).collect()
    }),
];

/// A name, and what a feature counts that stands there so often.
type Weight = (&'static str, fn(f64) -> f64);

const WEIGHTS: [Weight; 3] = [("count", |count| count), ("root", f64::sqrt), ("one", |_| 1.0)];

pub fn run(texts: &[Text]) {
    let development = texts.iter().filter(|text| !text.held_out);
    let texts: Vec<Vec<String>> = development
        .map(|text| normalise(&text.words.join(" ")))
        .map(|text| {
            text.split(|c: char| !c.is_alphanumeric())
                .filter(|w| !w.is_empty())
                .take(WORDS)
                .map(str::to_owned)
                .collect()
        })
        .filter(|words: &Vec<String>| words.len() == WORDS)
        .collect();
    println!("{} texts of {WORDS} words; of the words 1, 2, 5, 10 % replaced", texts.len());
    println!(
        "features          weight   median bits at 1, 2, 5, 10 %   within 3 at 1, 2, 5, 10 %   strangers: median, least, per 10 M in a block"
    );
    for (name, cut) in FEATURES {
        for (weight_name, weight) in WEIGHTS {
            let hash = |words: &[String]| simhash(&cut(words), weight);
            let originals: Vec<u64> = texts.iter().map(|words| hash(words)).collect();
            let mut chance = Chance::new(1);
            let (mut medians, mut within) = (Vec::new(), Vec::new());
            for percent in [1, 2, 5, 10] {
                let copies =
                    texts.iter().map(|words| hash(&replaced(words, percent, &texts, &mut chance)));
                let mut bits: Vec<u32> = originals
                    .iter()
                    .zip(copies)
                    .map(|(one, other)| (one ^ other).count_ones())
                    .collect();
                bits.sort_unstable();
                medians.push(format!("{:>2}", bits[bits.len() / 2]));
                let near = bits.iter().filter(|bits| **bits <= 3).count();
                within.push(format!("{:.2}", near as f64 / bits.len() as f64));
            }
            let (median, least, shared) = strangers(&originals);
            println!(
                "{name:<17} {weight_name:<8} {:<30} {:<27} {median}, {least}, {shared:.0}",
                medians.join(" "),
                within.join(" ")
            );
        }
    }
}

fn replaced(
    words: &[String],
    percent: usize,
    texts: &[Vec<String>],
    chance: &mut Chance,
) -> Vec<String> {
    let mut out = words.to_vec();
    for _ in 0..(words.len() * percent).div_ceil(100) {
        let at = chance.below(out.len());
        let other = &texts[chance.below(texts.len())];
        out[at] = other[chance.below(other.len())].clone();
    }
    out
}

fn strangers(hashes: &[u64]) -> (u32, u32, f64) {
    let mut bits = Vec::new();
    let mut shared = 0;
    for (n, one) in hashes.iter().enumerate() {
        for other in &hashes[n + 1..] {
            let differing = one ^ other;
            bits.push(differing.count_ones());
            shared += (0..4).filter(|block| differing >> (16 * block) & 0xffff == 0).count();
        }
    }
    bits.sort_unstable();
    (bits[bits.len() / 2], bits[0], shared as f64 / bits.len() as f64 * 1e7)
}

fn shingles(words: &[String], length: usize) -> Vec<String> {
    words.windows(length).map(|run| run.join(" ")).collect()
}

fn characters(text: &str, length: usize) -> Vec<String> {
    let all: Vec<char> = text.chars().collect();
    if all.len() < length {
        return vec![text.to_owned()];
    }
    all.windows(length).map(|run| run.iter().collect()).collect()
}

fn simhash(features: &[String], weight: fn(f64) -> f64) -> u64 {
    let mut counts: BTreeMap<u64, f64> = BTreeMap::new();
    for feature in features {
        *counts.entry(xxh3_64(feature.as_bytes())).or_default() += 1.0;
    }
    let mut votes = [0.0; 64];
    for (hash, count) in counts {
        for (bit, vote) in votes.iter_mut().enumerate() {
            *vote += if hash >> bit & 1 == 1 { weight(count) } else { -weight(count) };
        }
    }
    votes.iter().enumerate().fold(0, |all, (bit, vote)| all | u64::from(*vote > 0.0) << bit)
}
