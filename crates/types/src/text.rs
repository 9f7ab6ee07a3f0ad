//! What is known of a page's text when its bytes are gone?
//!
//! Facts of the main text, small enough for the crawl db's row, and the line by which the sinks hear
//! of a page. How they are taken is the reader's matter (`page`), how texts are compared too.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::outcome::{Answer, Outcome, Truncated};
use crate::record::Discovery;

/// Facts of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextFacts {
    /// SHA-256 of the normalised text. All of it: 16 bytes less would save a twentieth of a row, and
    /// then nobody could look a text up by the digest that they have taken themselves.
    pub digest: [u8; 32],
    #[serde(with = "fixed")]
    pub simhash: u64,
    pub words: u32,
    /// BCP 47.
    pub language: Option<Box<str>>,
}

impl TextFacts {
    /// 64 hexadecimal digits.
    pub fn digest_hex(&self) -> String {
        self.digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// 16 hexadecimal digits.
    pub fn simhash_hex(&self) -> String {
        format!("{:016x}", self.simhash)
    }
}

/// What a page says, as far as an index of its words wants it. It lives in memory only, from the visit
/// to the sinks; whoever comes later reads the archive again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// A line each.
    pub headings: Box<str>,
    /// The main text, up to a bound that its reader has.
    pub text: Box<str>,
    /// When it says that it was published.
    pub published: Option<Published>,
}

/// A date as a page gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// ISO 8601, as exact as the page was.
    pub text: Box<str>,
    /// Seconds since 1970; some texts are older.
    pub seconds: i64,
}

/// What a visit has told of its page, for the log of visits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageLine {
    pub news: News,
    pub depth: u16,
    pub seed: bool,
    pub title: Option<Box<str>>,
    pub body_bytes: u64,
    pub truncated: Option<Truncated>,
    pub noindex: bool,
    pub nofollow: bool,
    pub noarchive: bool,
    pub text: Option<TextFacts>,
    /// See [`Answer::sketch`].
    pub sketch: Option<Box<[u8]>>,
    /// As the visit has read it, while it is in memory; the log does not have it.
    #[serde(skip)]
    pub reading: Option<Arc<Reading>>,
}

/// What an answer says of the page that was known before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum News {
    /// This is the page now, or there is none here any more.
    Other,
    /// It is the one that we have, by the server's word or byte for byte.
    Same,
    /// Nothing: it speaks of the server's health.
    Nothing,
}

impl PageLine {
    /// `held` says that we still have the page that we had before this answer.
    pub fn new(outcome: &Outcome, answer: &Answer, found: &Discovery, held: bool) -> Self {
        let news = match (outcome, held) {
            (_, false) => News::Other,
            (Outcome::Failed(_), true) => News::Nothing,
            (_, true) => News::Same,
        };
        Self {
            news,
            depth: found.depth,
            seed: found.seed,
            title: answer.title.clone(),
            body_bytes: answer.body_bytes,
            truncated: answer.truncated,
            noindex: answer.noindex,
            nofollow: answer.nofollow,
            noarchive: answer.noarchive,
            text: answer.text.as_deref().cloned(),
            sketch: answer.sketch.clone(),
            reading: answer.reading.clone(),
        }
    }
}

/// Eight bytes: a number whose bits are all used would take ten as a varint.
mod fixed {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    pub fn serialize<S: Serializer>(value: &u64, to: S) -> Result<S::Ok, S::Error> {
        value.to_le_bytes().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        <[u8; 8]>::deserialize(from).map(u64::from_le_bytes)
    }
}
