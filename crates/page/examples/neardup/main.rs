//! How well are near duplicates found, and how fast?
//!
//! `cargo xtask bench neardup`. `truth [FOLDER]` makes texts of which is known what copies what, and
//! judges them; FOLDER holds real pages (wcxb-dev), without it words are made up. `features [FOLDER]`
//! compares what a SimHash may be made of. `lookup N` asks an index of N prints.

mod features;
mod lookup;
mod sources;
mod truth;

fn main() {
    let mut words = std::env::args().skip(1);
    let chore = words.next().unwrap_or_default();
    let word = words.next();
    match chore.as_str() {
        "truth" => truth::run(&sources::texts(word.as_deref())),
        "features" => features::run(&sources::texts(word.as_deref())),
        "lookup" => {
            let count = word.and_then(|word| word.parse().ok()).unwrap_or(10_000_000);
            lookup::run(count);
        }
        _ => eprintln!("neardup truth [FOLDER] | features [FOLDER] | lookup [N]"),
    }
}

/// Chance from a seed: every run judges the same texts.
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.draw() % end.max(1) as u64) as usize
    }

    pub fn between(&mut self, from: usize, to: usize) -> usize {
        from + self.below(to - from + 1)
    }
}
