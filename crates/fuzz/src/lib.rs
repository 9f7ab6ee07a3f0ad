//! Which input breaks what must always hold?
//!
//! A small fuzzer for stable Rust: inputs from a corpus are changed by chance (`mutate`), run
//! through a target's properties (`trial`), and kept when something new comes of them (`shape`).
//! [`hunt`] is the one door; the targets are one file each in [`targets`], but for the settings of
//! the binary, whose target is `crates/lycosa/src/settings/fuzz.rs`.
//!
//! Always: a run follows from its seed, and memory and time of an input are bounded (`watch`).
//!
//! Not here: properties of what needs more than one input, such as a crawl (the simulation).

pub mod targets;

mod hunt;
mod watch;

mod chance;
mod mutate;

mod folders;
mod shape;
mod trial;

pub use hunt::hunt;
pub use shape::Shape;

/// One thing that takes input from outside.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of its folders.
    pub name: &'static str,
    /// What means something to it: key words, marks, numbers.
    pub words: &'static [&'static [u8]],
    /// Inputs made by our own code, beside the files: where the format is not for people.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Panics where a property does not hold; answers what the input came to.
    pub check: fn(&[u8]) -> Shape,
    /// How many inputs every run of the tests makes: two seconds or so.
    pub inputs: u64,
}

/// The line between the two parts of an input that has two.
pub const PART: &[u8] = b"\n----\n";

/// The part before the line `----`, and the one behind it; without such a line all is behind.
pub fn parts(input: &[u8]) -> (&[u8], &[u8]) {
    match input.windows(PART.len()).position(|window| window == PART) {
        Some(at) => (&input[..at], &input[at + PART.len()..]),
        None => (&[], input),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_has_one_part_or_two() {
        assert_eq!(parts(b"a\n----\nb\n----\nc"), (&b"a"[..], &b"b\n----\nc"[..]));
        assert_eq!(parts(b"ab"), (&b""[..], &b"ab"[..]));
    }
}
