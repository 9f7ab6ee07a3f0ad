//! What do names of classes, and words of short lines, tell about what is main content?
//!
//! Two tables of scores by hash, learnt from pages: how likely what stands below a class or id with
//! that word is main content, and how likely a short line with that word is. Above zero speaks for
//! it, below against; words that few sites use are not in it.

use std::collections::HashMap;

/// Scores for words.
pub trait Lexicon {
    /// Of a word in a class or id.
    fn class(&self, hash: u32) -> f32;
    /// Of a word in a short line.
    fn word(&self, hash: u32) -> f32;
}

#[derive(Debug, Default)]
pub struct Tables {
    pub classes: HashMap<u32, f32>,
    pub words: HashMap<u32, f32>,
}

impl Lexicon for Tables {
    fn class(&self, hash: u32) -> f32 {
        self.classes.get(&hash).copied().unwrap_or(0.0)
    }

    fn word(&self, hash: u32) -> f32 {
        self.words.get(&hash).copied().unwrap_or(0.0)
    }
}

/// FNV-1a over the lower-cased word.
pub(crate) fn hash(word: &str) -> u32 {
    let mut hash = 0x811c_9dc5;
    let mut add = |byte: u8| hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    if word.is_ascii() {
        word.bytes().for_each(|byte| add(byte.to_ascii_lowercase()));
    } else {
        let mut bytes = [0; 4];
        for c in word.chars().flat_map(char::to_lowercase) {
            c.encode_utf8(&mut bytes).bytes().for_each(&mut add);
        }
    }
    hash
}

/// The words of a class or id: `navBar-item_2` is nav, bar, item.
pub(crate) fn class_words(value: &str) -> impl Iterator<Item = &str> {
    value
        .split(|c: char| !c.is_ascii_alphabetic())
        .flat_map(CamelCase)
        .filter(|word| word.len() > 1)
}

struct CamelCase<'a>(&'a str);

impl<'a> Iterator for CamelCase<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let bytes = self.0.as_bytes();
        let border = (1..bytes.len())
            .find(|&at| bytes[at].is_ascii_uppercase() && bytes[at - 1].is_ascii_lowercase());
        let (word, rest) = self.0.split_at(border.unwrap_or(bytes.len()));
        self.0 = rest;
        Some(word)
    }
}

/// The words of a text, for [`Lexicon::word`].
pub(crate) fn text_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_classes_fall_into_words() {
        let words: Vec<&str> = class_words("navBar-item_2 x LEFT postBody").collect();
        assert_eq!(words, ["nav", "Bar", "item", "LEFT", "post", "Body"]);
        assert_eq!(hash("NavÄ"), hash("navä"));
    }
}
