//! Does an input break what must hold?
//!
//! A target's check panics where a property does not hold, and the code under test where it has a
//! bug; both are caught here, quietly, with the place in the source that tells one bug from
//! another.
//!
//! Not here: an input that never comes back, or takes all memory (`watch`).

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::Target;
use crate::shape::Shape;

/// How an input failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Where in the source: `file:line`.
    pub place: String,
    pub message: String,
}

/// Runs one input.
pub fn run(target: &Target, input: &[u8]) -> Result<Shape, Failure> {
    listen();
    HEARD.set(Some(None));
    // The check has no state but its input, so nothing is left half done behind a panic.
    let result = panic::catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
    let heard = HEARD.take().flatten();
    result.map_err(|_| {
        let unknown = || Failure { place: "unknown".to_owned(), message: String::new() };
        heard.unwrap_or_else(unknown)
    })
}

thread_local! {
    /// Set while an input runs on this thread; then what its panic said.
    static HEARD: RefCell<Option<Option<Failure>>> = const { RefCell::new(None) };
}

/// From now on the panics of inputs are kept instead of printed; others are printed as before.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let ours = HEARD.with_borrow_mut(|heard| {
                let Some(heard) = heard else { return false };
                let place = info
                    .location()
                    .map_or_else(String::new, |at| format!("{}:{}", at.file(), at.line()));
                let message = info.payload_as_str().unwrap_or("a panic without words").to_owned();
                *heard = Some(Failure { place, message });
                true
            });
            if !ours {
                before(info);
            }
        }));
    });
}

/// Runs that a smaller input is looked for.
const TRIES_MAX: usize = 3_000;

/// A smaller input that fails at the same place, found by taking pieces out.
pub fn smaller(target: &Target, input: &[u8], failure: &Failure) -> Vec<u8> {
    let fails = |input: &[u8]| run(target, input).is_err_and(|other| other.place == failure.place);
    let mut best = input.to_vec();
    // What was only slow cannot be told by a panic.
    if !fails(input) {
        return best;
    }
    let (mut size, mut tries) = (best.len().div_ceil(2), 0);
    while size > 0 && tries < TRIES_MAX {
        let before = best.len();
        let mut at = 0;
        while at < best.len() && tries < TRIES_MAX {
            let mut less = best.clone();
            less.drain(at..best.len().min(at + size));
            tries += 1;
            if fails(&less) {
                best = less;
            } else {
                at += size;
            }
        }
        // Once more with the same size where it helped.
        if best.len() == before {
            size /= 2;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target {
        name: "test",
        words: &[],
        seeds: Vec::new,
        check: |input| {
            assert!(!input.contains(&b'!'), "found one");
            Shape::default()
        },
        inputs: 1,
    };

    #[test]
    fn a_failure_is_caught_and_made_small() {
        assert!(run(&TARGET, b"fine").is_ok());
        let input = [b"much before".repeat(20), b"!".to_vec(), b"and behind".repeat(20)].concat();
        let failure = run(&TARGET, &input).unwrap_err();
        assert_eq!(failure.message, "found one");
        assert!(failure.place.contains("trial.rs:"), "{}", failure.place);
        assert_eq!(smaller(&TARGET, &input, &failure), b"!");
    }
}
