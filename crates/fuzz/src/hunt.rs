//! Is there an input that breaks it?
//!
//! First every file of the target, exactly; then inputs made from them, for a number of inputs in
//! every run of the tests, or for a time when `cargo xtask fuzz` asks by the environment. The first
//! that fails is made small, written down, and ends the hunt.
//!
//! Always: the inputs of a round follow from its seed. So even one that kills the process is found
//! again: the last line names the seed before it.

use std::collections::BTreeSet;
use std::env;
use std::time::{Duration, Instant};

use crate::chance::Chance;
use crate::mutate::{Material, mutate};
use crate::shape::Shape;
use crate::trial::{self, Failure};
use crate::watch::{SLOW, Watch};
use crate::{Target, folders};

/// How long to hunt, in seconds; none: the size of every day.
const SECONDS: &str = "LYCOSA_FUZZ_SECONDS";
/// The first round's seed.
const SEED: &str = "LYCOSA_FUZZ_SEED";
/// Only this target.
const TARGET: &str = "LYCOSA_FUZZ_TARGET";

/// The seed of every day.
const SEED_EVERY_DAY: u64 = 0x1c05a;

/// A round has a seed and a line of its own.
const ROUND: Duration = Duration::from_secs(10);

/// Room of an input: a few pages of text, and now and then enough for what is quadratic to show.
const BYTES_MAX: usize = 4 << 10;
const BYTES_GREAT: usize = 64 << 10;
const GREAT_ONE_IN: usize = 512;

/// Inputs that are kept to make others from.
const POOL_MAX: usize = 2_048;

/// Goes through the files of a target, then hunts as long as the environment says.
///
/// # Panics
/// If an input fails.
pub fn hunt(target: &Target) {
    if env::var(TARGET).is_ok_and(|wanted| wanted != target.name) {
        return;
    }
    replay(target);
    match number(SECONDS) {
        None => round(target, SEED_EVERY_DAY, &|inputs, _| inputs < target.inputs),
        Some(seconds) => {
            let until = Instant::now() + Duration::from_secs(seconds);
            let mut seed = number(SEED).unwrap_or(SEED_EVERY_DAY);
            while Instant::now() < until {
                round(target, seed, &|_, since| since.elapsed() < ROUND && Instant::now() < until);
                seed = seed.wrapping_add(1);
            }
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: that is no number")))
}

/// Every file, exactly as it is.
fn replay(target: &Target) {
    let inputs = folders::inputs(target);
    assert!(!inputs.is_empty(), "{}: no corpus", target.name);
    let broken = Watch::over(target, |watch| {
        inputs.iter().find_map(|(path, bytes)| {
            watch.begin(bytes);
            trial::run(target, bytes).err().map(|failure| (path, failure))
        })
    });
    if let Some((path, Failure { place, message })) = broken {
        panic!("{}: {} fails at {place}: {message}", target.name, path.display());
    }
}

/// One round of made inputs, as long as `more` says.
fn round(target: &Target, seed: u64, more: &dyn Fn(u64, Instant) -> bool) {
    let since = Instant::now();
    let mut hunt = Hunt::new(target, seed);
    let failed = Watch::over(target, |watch| {
        loop {
            if !more(hunt.inputs, since) {
                return None;
            }
            // The clock is asked once for many.
            for _ in 0..64 {
                if let Err(failure) = hunt.next(watch) {
                    return Some(failure);
                }
            }
        }
    });
    let Hunt { inputs, pool, input, .. } = hunt;
    let rate = inputs as f64 / since.elapsed().as_secs_f64();
    println!(
        "{:<10} {inputs:>9} inputs, {rate:>7.0} a second, {} kept, seed {seed:#x}",
        target.name,
        pool.len()
    );
    if let Some(failure) = failed {
        let small = trial::smaller(target, &input, &failure);
        let kept = folders::keep(target, &small);
        let Failure { place, message } = failure;
        panic!("{}: an input fails at {place}: {message}; {kept}", target.name);
    }
}

struct Hunt<'a> {
    target: &'a Target,
    chance: Chance,
    pool: Vec<Vec<u8>>,
    seen: BTreeSet<Shape>,
    /// The one that runs.
    input: Vec<u8>,
    inputs: u64,
}

impl<'a> Hunt<'a> {
    fn new(target: &'a Target, seed: u64) -> Self {
        let files = folders::inputs(target).into_iter().map(|(_, bytes)| bytes);
        let mut pool: Vec<_> = files.chain((target.seeds)()).collect();
        pool.truncate(POOL_MAX);
        let (chance, seen) = (Chance::new(seed), BTreeSet::new());
        Self { target, chance, pool, seen, input: Vec::new(), inputs: 0 }
    }

    fn next(&mut self, watch: &Watch) -> Result<(), Failure> {
        let great = self.chance.one_in(GREAT_ONE_IN);
        let bytes_max = if great { BYTES_GREAT } else { BYTES_MAX };
        let from = Material { pool: &self.pool, words: self.target.words, bytes_max };
        mutate(&mut self.chance, &from, &mut self.input);
        self.inputs += 1;
        watch.begin(&self.input);
        let began = Instant::now();
        let shape = trial::run(self.target, &self.input)?;
        if began.elapsed() > SLOW {
            self.judge_slow()?;
        }
        // Great ones would fill the pool with what is slow.
        if !great && self.seen.insert(shape) {
            self.learn();
        }
        Ok(())
    }

    /// The machine may have been busy: only what is slow again is slow.
    fn judge_slow(&self) -> Result<(), Failure> {
        let began = Instant::now();
        trial::run(self.target, &self.input)?;
        let took = began.elapsed();
        if took < SLOW {
            return Ok(());
        }
        let message = format!("{} bytes took {:.1} s", self.input.len(), took.as_secs_f64());
        Err(Failure { place: "the clock".to_owned(), message })
    }

    fn learn(&mut self) {
        if self.pool.len() < POOL_MAX {
            self.pool.push(self.input.clone());
        } else {
            let at = self.chance.below(POOL_MAX);
            self.pool[at].clone_from(&self.input);
        }
    }
}
