//! Which digest is written, and when are two the same?
//!
//! `sha1:` with upper-case Base32 by default: replay tools and indexes compare that text, and
//! SHA-1 here names content, it does not defend it. `sha256:` is written in lower-case hex,
//! because its Base32 would need `=`, which the standard's grammar forbids. When reading, either
//! encoding, either case and the old labels `sha-1:` and `sha-256:` count.

use std::fmt;

use data_encoding::{BASE32, BASE32_NOPAD, HEXLOWER};
use sha1::Digest as _;

/// A digest algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Algorithm {
    /// What replay tools expect.
    #[default]
    Sha1,
    /// For archives that must hold against forgery.
    Sha256,
}

/// The digest of some bytes; equal by value, however it was written.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Digest {
    Sha1([u8; 20]),
    Sha256([u8; 32]),
}

impl Digest {
    /// The digest of the slices, one after the other.
    #[must_use]
    pub fn of(algorithm: Algorithm, slices: &[&[u8]]) -> Self {
        let mut hasher = Hasher::new(algorithm);
        for slice in slices {
            hasher.update(slice);
        }
        hasher.finish()
    }

    /// Reads `algorithm:value`; `None` for an algorithm we do not know or a value that is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (label, value) = text.trim().split_once(':')?;
        match label.to_ascii_lowercase().as_str() {
            "sha1" | "sha-1" => decode(value).map(Self::Sha1),
            "sha256" | "sha-256" => decode(value).map(Self::Sha256),
            _ => None,
        }
    }

    /// How these bytes were digested.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::Sha1(_) => Algorithm::Sha1,
            Self::Sha256(_) => Algorithm::Sha256,
        }
    }

    /// The raw value.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Sha1(bytes) => bytes,
            Self::Sha256(bytes) => bytes,
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sha1(bytes) => write!(out, "sha1:{}", BASE32.encode(bytes)),
            Self::Sha256(bytes) => write!(out, "sha256:{}", HEXLOWER.encode(bytes)),
        }
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

fn decode<const N: usize>(value: &str) -> Option<[u8; N]> {
    let value = value.trim_end_matches('=');
    // The length tells the encoding: hex needs 2 N digits, Base32 only 1.6 N.
    let bytes = if value.len() == 2 * N {
        HEXLOWER.decode(value.to_ascii_lowercase().as_bytes())
    } else {
        BASE32_NOPAD.decode(value.to_ascii_uppercase().as_bytes())
    };
    bytes.ok()?.try_into().ok()
}

/// A digest in the making.
#[derive(Debug, Clone)]
pub struct Hasher(State);

#[derive(Debug, Clone)]
enum State {
    Sha1(sha1::Sha1),
    Sha256(sha2::Sha256),
}

impl Hasher {
    /// Nothing digested yet.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm {
            Algorithm::Sha1 => State::Sha1(sha1::Sha1::new()),
            Algorithm::Sha256 => State::Sha256(sha2::Sha256::new()),
        })
    }

    /// More bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Sha1(state) => state.update(bytes),
            State::Sha256(state) => state.update(bytes),
        }
    }

    /// The digest of all bytes so far.
    #[must_use]
    pub fn finish(self) -> Digest {
        match self.0 {
            State::Sha1(state) => Digest::Sha1(state.finalize().into()),
            State::Sha256(state) => Digest::Sha256(state.finalize().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_written_as_replay_tools_expect() {
        assert_eq!(
            Digest::of(Algorithm::Sha1, &[]).to_string(),
            "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"
        );
        assert_eq!(
            Digest::of(Algorithm::Sha256, &[b"ab", b"c"]).to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn a_digest_is_the_same_in_any_dress() {
        let empty = Digest::of(Algorithm::Sha1, &[]);
        for text in [
            "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
            "SHA-1:3i42h3s6nnfq2msvx7xzkyayscx5qbyj",
            "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709",
            " sha1:DA39A3EE5E6B4B0D3255BFEF95601890AFD80709 ",
        ] {
            assert_eq!(Digest::parse(text), Some(empty), "{text}");
        }
        let abc = Digest::of(Algorithm::Sha256, &[b"abc"]);
        let base32 = format!("sha-256:{}", BASE32.encode(abc.as_bytes()));
        assert_eq!(Digest::parse(&base32), Some(abc));
        assert_eq!(Digest::parse(base32.trim_end_matches('=')), Some(abc));
        for text in ["", "sha1", "sha1:", "sha1:xyz", "md5:d41d8cd98f00b204e9800998ecf8427e"] {
            assert_eq!(Digest::parse(text), None, "{text}");
        }
    }
}
