//! Is this text the same as another, or nearly?
//!
//! Three prints of a text, each for one question. The digest (SHA-256 of the normalised text): is it
//! the same? The [`SimHash`]: 64 bits that differ in few places for texts that differ little; good to
//! look up. The [`Sketch`]: 128 bytes from which the overlap of two texts is estimated; good to be
//! sure. [`NearIndex`] finds the earlier ones of which a text is a copy.
//!
//! A print is of the main text, not of the page: templates make pages look alike.
//!
//! Always: the same text gives the same prints, on every machine and in every version of these
//! forms; they are stored.
//!
//! Not here: where prints are stored, and what becomes of a copy (the engine).

mod lines;
mod near;
mod normal;
mod simhash;
mod sketch;
mod table;

use sha2::{Digest as _, Sha256};

pub use near::{Copy, NearIndex, Place, TABLES};
pub use simhash::SimHash;
pub use sketch::Sketch;

pub use normal::normalise;

/// The prints of one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prints {
    /// SHA-256 of the normalised text.
    pub digest: [u8; 32],
    pub simhash: SimHash,
    pub sketch: Sketch,
}

impl Prints {
    pub fn of(text: &str) -> Self {
        let normal = normalise(text);
        let words: Vec<&str> = normal::words(&normal).collect();
        Self {
            digest: Sha256::digest(normal.as_bytes()).into(),
            simhash: SimHash::of(&words),
            sketch: Sketch::of(&words),
        }
    }
}
