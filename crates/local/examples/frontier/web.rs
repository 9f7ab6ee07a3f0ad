//! The links of pages without end.
//!
//! Every URL has a number, in the order in which it is first found. A few hosts have very many and
//! most have few. New ones come by eights of one host: a page leads to new pages of one or two
//! hosts, most often its own. What is linked again follows Zipf's law twice over: old pages that everybody
//! knows, the oldest most often, and new ones, the newest most often.

use std::fmt::Write as _;

use libdeflater::{CompressionLvl, Compressor};
use ports::shard_store::{Found, FoundSet};
use types::UrlId;

/// Links of a page, and how many of them are new.
const LINKS: u64 = 100;
const NEW: u64 = 10;
/// New URLs in a row that are of one host.
const RUN: u64 = 8;
/// URLs that count as new; half of all while there are fewer than twice as many.
const RECENT: u64 = 10_000_000;

const WORDS: [&str; 16] = [
    "market", "river", "notes", "garden", "system", "report", "winter", "engine", "story", "value",
    "history", "paper", "member", "number", "place", "guide",
];

pub struct Web {
    hosts: u64,
    /// URLs that were found so far.
    found: u64,
    chance: u64,
    text: String,
}

impl Web {
    pub fn new(hosts: u64) -> Self {
        Self { hosts, found: 0, chance: 1, text: String::new() }
    }

    /// The links of one page.
    pub fn links(&mut self) -> FoundSet {
        let mut set = FoundSet::default();
        for n in 0..LINKS {
            let number = match n % LINKS {
                n if n < NEW || self.found == 0 => {
                    self.found += 1;
                    self.found - 1
                }
                n if n % 2 == 0 => self.zipf(self.found - self.newest()),
                _ => self.found - 1 - self.zipf(self.newest()),
            };
            let mut text = std::mem::take(&mut self.text);
            text.clear();
            self.write(number, &mut text);
            let id = UrlId::of(&text);
            set.push(Found { url: &text, id, depth: 3, hops: 0, band: 3, seed: false });
            self.text = text;
        }
        set
    }

    fn newest(&self) -> u64 {
        RECENT.min(self.found.div_ceil(2))
    }

    /// A number below `count`, by Zipf's law with an exponent of 1.
    fn zipf(&mut self, count: u64) -> u64 {
        let drawn = ((count as f64 + 1.0).ln() * self.fraction()).exp() - 1.0;
        (drawn as u64).min(count.saturating_sub(1))
    }

    fn fraction(&mut self) -> f64 {
        self.chance = self.chance.wrapping_add(1);
        (mixed(self.chance) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The URL with a number: some 65 bytes.
    pub fn write(&self, number: u64, out: &mut String) {
        let mix = mixed(number ^ 0x77eb);
        let word = |n: u32| WORDS[(mix >> (4 * n) & 15) as usize];
        let year = 2_000 + mix % 27;
        let host = self.host_of(number);
        // The writer is a string: it takes all.
        let _ = write!(
            out,
            "https://www.{}-{host:x}.example.org/{}/{year}/{}-{}-{number:x}.html",
            WORDS[(host % 16) as usize],
            word(3),
            word(4),
            word(5),
        );
    }

    /// The host of a URL: the cube makes a few large and most small.
    fn host_of(&self, number: u64) -> u64 {
        let mix = mixed((number / RUN) ^ 0x77eb);
        let part = (mix >> 24) as f64 / (1_u64 << 40) as f64;
        ((part * part * part) * self.hosts as f64) as u64
    }
}

/// Bytes a URL takes when all are sorted and packed together, by a sample of every hundredth host.
pub fn packed_text_bytes(web: &Web, known: u64) -> f64 {
    let step = (web.hosts / 100).max(1);
    let mut texts = Vec::new();
    for number in 0..known {
        let host = web.host_of(number);
        // A stretch of neighbours, as they lie in a block.
        if host % step < step.div_ceil(100) && texts.len() < 2_000_000 {
            let mut text = String::new();
            web.write(number, &mut text);
            texts.push(text);
        }
    }
    texts.sort_unstable();
    let mut packer = Compressor::new(CompressionLvl::new(6).expect("a level"));
    let (mut packed, mut block) = (0, Vec::new());
    let mut out = vec![0; packer.deflate_compress_bound(20 << 10)];
    for text in &texts {
        block.extend_from_slice(text.as_bytes());
        if block.len() >= 16 << 10 {
            packed += packer.deflate_compress(&block, &mut out).expect("it fits");
            block.clear();
        }
    }
    packed += packer.deflate_compress(&block, &mut out).expect("it fits");
    packed as f64 / texts.len().max(1) as f64
}

fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
