//! How long does a look-up take among ten million prints, and how much memory do they need?
//!
//! Prints are drawn by chance, but SimHashes as alike as those of real texts (28 bits apart): what
//! is common in a language makes bits lean to one side, and a look-up reads more for it.

use std::hint::black_box;
use std::time::Instant;

use lycosa_page::fingerprint::{NearIndex, Prints, SimHash, Sketch};

use crate::Chance;

const LOOKUPS: usize = 200_000;

pub fn run(count: usize) {
    let mut chance = Chance::new(9);
    let mut index = NearIndex::new(count);
    let mut some = Vec::new();
    let began = Instant::now();
    for n in 0..count {
        let prints = drawn(&mut chance);
        index.add(&prints);
        if n % (count / 1_000).max(1) == 0 {
            some.push(prints);
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{count} prints added in {seconds:.1} s, {:.2} µs each", seconds * 1e6 / count as f64);
    let bytes = index.bytes() as f64;
    println!("memory {:.2} GB, {:.0} bytes a print", bytes / 1e9, bytes / count as f64);
    measure("strangers", &index, 0.0, &mut || drawn(&mut chance));
    let mut chance = Chance::new(10);
    measure("copies", &index, 1.0, &mut || {
        let at = chance.below(some.len());
        changed(&some[at], &mut chance)
    });
}

fn measure(what: &str, index: &NearIndex, found_min: f64, next: &mut dyn FnMut() -> Prints) {
    let asked: Vec<Prints> = (0..LOOKUPS).map(|_| next()).collect();
    let mut took = Vec::with_capacity(LOOKUPS);
    let mut found = 0;
    for prints in &asked {
        let began = Instant::now();
        let copy = black_box(index.find(black_box(prints)));
        took.push(began.elapsed().as_nanos());
        found += usize::from(copy.is_some());
    }
    took.sort_unstable();
    let at = |share: f64| took[((LOOKUPS - 1) as f64 * share) as usize] as f64 / 1e3;
    println!(
        "{what:<10} {LOOKUPS} look-ups: median {:.2} µs, p99 {:.2} µs, p99.9 {:.2} µs; {:.4} found",
        at(0.5),
        at(0.99),
        at(0.999),
        found as f64 / LOOKUPS as f64
    );
    assert!(found as f64 / LOOKUPS as f64 >= found_min * 0.99, "copies are not found");
}

/// Of two such SimHashes 28 bits differ: each bit is the language's in 68 of 100 cases.
fn drawn(chance: &mut Chance) -> Prints {
    let mut simhash = 0x5a96_3c0f_e187_d24b_u64;
    for bit in 0..64 {
        simhash ^= u64::from(chance.below(100) >= 68) << bit;
    }
    let mut sketch = [0; Sketch::BYTES];
    for byte in sketch.chunks_mut(8) {
        byte.copy_from_slice(&chance.draw().to_le_bytes()[..byte.len()]);
    }
    sketch[Sketch::BYTES - 4..].copy_from_slice(&300_u32.to_le_bytes());
    let mut digest = [0; 32];
    for bytes in digest.chunks_mut(8) {
        bytes.copy_from_slice(&chance.draw().to_le_bytes());
    }
    Prints { digest, simhash: SimHash(simhash), sketch: Sketch::from_bytes(sketch) }
}

/// As 5 % of edits leave them: a few bits, and a sixth of the sketch.
fn changed(prints: &Prints, chance: &mut Chance) -> Prints {
    let mut sketch = prints.sketch.to_bytes();
    for _ in 0..22 {
        sketch[chance.below(128)] = chance.draw() as u8;
    }
    let mut simhash = prints.simhash.0;
    for _ in 0..3 {
        simhash ^= 1 << chance.below(64);
    }
    let mut digest = prints.digest;
    digest[0] ^= 1;
    Prints { digest, simhash: SimHash(simhash), sketch: Sketch::from_bytes(sketch) }
}
