//! Which words does a text have, whatever its language?
//!
//! A word is a run of letters and digits, in lower case, without diacritics (`Żółć` is `zolc`), so that it
//! is found by whoever cannot type them. Beside it stands its stem, if the language of the text has a
//! stemmer: `running` is also `run`. Both have the same place in the text, so that a phrase is a phrase of
//! words, and a word is found by itself whatever language the asker had in mind.
//!
//! Scripts without blanks between words are cut without a dictionary: Han, kana and Hangul into single
//! characters and overlapping pairs, Thai, Lao, Khmer and Burmese into pairs only (a single letter of
//! theirs says nothing). A query of two characters or more is a phrase of pairs, which finds exactly that
//! run of characters.
//!
//! Always: the same text gives the same words in a page and in a query; offsets are those of the text.

use std::borrow::Cow;
use std::fmt;

use frostem::{Algorithm, Stemmer};
use icu_normalizer::properties::CanonicalCombiningClassMapBorrowed;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

/// A longer word is cut here, in pages and in queries alike: no language needs more, dumps of base64 do.
pub const WORD_BYTES_MAX: usize = 64;

/// Shorter words have no endings.
const STEMMED_CHARS_MIN: usize = 3;

/// The stemmer of a language by its tag, such as `pt-BR`.
pub fn stemmer(language: &str) -> Option<Stemmer> {
    let primary = language.split(['-', '_']).next().unwrap_or_default().to_ascii_lowercase();
    // What the tags say beside what Snowball knows.
    let name = match primary.as_str() {
        "nb" | "nn" => "no",
        other => other,
    };
    // Its full names are no tags: one of them could be meant for something else.
    if !(2..=3).contains(&name.len()) {
        return None;
    }
    Algorithm::from_name(name).ok().map(Stemmer::new)
}

/// What a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Word,
    /// Of the word before.
    Stem,
    /// One character of a script without blanks.
    Single,
    /// Two of them.
    Pair,
}

/// A word and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    pub kind: Kind,
    /// In bytes of the text.
    pub start: usize,
    pub end: usize,
    /// How many words are before it.
    pub position: usize,
}

/// How characters make words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    /// Han, kana, Hangul.
    Ideograph,
    /// Thai, Lao, Khmer, Burmese.
    Unspaced,
    /// Belongs to the character before it.
    Mark,
    /// Is no part of a word, and does not end one.
    Silent,
    Gap,
}

fn class(c: char) -> Class {
    if c.is_ascii() {
        return if c.is_ascii_alphanumeric() { Class::Letter } else { Class::Gap };
    }
    match c {
        // Soft hyphen, joiners, directions, the Arabic lengthener.
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{640}' => Class::Silent,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' => {
            if c.is_alphabetic() || is_mark(c) {
                Class::Unspaced
            } else if c.is_numeric() {
                Class::Letter
            } else {
                Class::Gap
            }
        }
        '\u{1100}'..='\u{11ff}'
        | '\u{2e80}'..='\u{2fdf}'
        | '\u{3005}'..='\u{3007}'
        | '\u{3040}'..='\u{318f}'
        | '\u{31a0}'..='\u{31bf}'
        | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{a960}'..='\u{a97f}'
        | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ffdc}'
        | '\u{1aff0}'..='\u{1b16f}'
        | '\u{20000}'..='\u{3ffff}' => {
            if c.is_alphanumeric() || is_mark(c) {
                Class::Ideograph
            } else {
                Class::Gap
            }
        }
        _ if c.is_alphanumeric() => Class::Letter,
        _ if is_mark(c) => Class::Mark,
        _ => Class::Gap,
    }
}

fn combining(c: char) -> u8 {
    const CLASSES: CanonicalCombiningClassMapBorrowed<'static> =
        CanonicalCombiningClassMapBorrowed::new();
    CLASSES.get_u8(c)
}

fn is_mark(c: char) -> bool {
    // Signs that stand for themselves are letters to Rust.
    combining(c) != 0 || matches!(c, '\u{fe00}'..='\u{fe0f}')
}

/// Marks that readers leave out: accents, the points of Hebrew and Arabic. Those of Indic scripts are
/// vowels, or their absence.
const fn is_left_out(class: u8) -> bool {
    matches!(class, 1 | 10..=36 | 202..=240)
}

/// A word as it is looked up: in lower case, decomposed, without accents.
fn fold(lower: &str) -> Cow<'_, str> {
    if lower.is_ascii() {
        return Cow::Borrowed(lower);
    }
    let mut folded = String::with_capacity(lower.len());
    for c in DecomposingNormalizerBorrowed::new_nfkd().normalize_iter(lower.chars()) {
        match c {
            'ß' | 'ẞ' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'þ' => folded.push_str("th"),
            'ø' => folded.push('o'),
            'ł' => folded.push('l'),
            'đ' | 'ð' => folded.push('d'),
            'ħ' => folded.push('h'),
            'ı' => folded.push('i'),
            'ŧ' => folded.push('t'),
            'ς' => folded.push('σ'),
            _ if class(c) == Class::Silent || is_left_out(combining(c)) => {}
            // Some compatibility forms are capitals.
            _ => folded.extend(c.to_lowercase()),
        }
    }
    Cow::Owned(folded)
}

/// A character of a script without blanks: half-width forms are the same as the others.
fn unify(c: char) -> char {
    match c {
        '\u{ff66}'..='\u{ffdc}' | '\u{f900}'..='\u{faff}' | '\u{2e80}'..='\u{2fdf}' => {
            let forms = ComposingNormalizerBorrowed::new_nfkc();
            forms.normalize_iter(std::iter::once(c)).next().unwrap_or(c)
        }
        _ => c,
    }
}

fn cut(word: &mut String) {
    word.truncate(word.floor_char_boundary(WORD_BYTES_MAX));
}

/// A run of characters without blanks that is being cut up.
#[derive(Debug, Clone, Copy)]
struct Run {
    end: usize,
    /// Single characters count too.
    singles: bool,
    /// The run has one character only.
    alone: bool,
    /// The pair of the character that was just given.
    pair_due: bool,
}

/// The words of a text, one after another.
pub struct Words<'a> {
    text: &'a str,
    /// How far it is read.
    at: usize,
    /// The position of the next word.
    position: usize,
    stemmer: Option<Stemmer>,
    run: Option<Run>,
    /// Comes next.
    stem: Option<Word>,
}

impl<'a> Words<'a> {
    pub fn new(text: &'a str, stemmer: Option<Stemmer>) -> Self {
        Self { text, at: 0, position: 0, stemmer, run: None, stem: None }
    }

    /// Where the run of characters ends that belong together, from a place on.
    fn run_end(&self, first: Class) -> usize {
        for (offset, c) in self.text[self.at..].char_indices() {
            let class = class(c);
            if class != first && !matches!(class, Class::Mark | Class::Silent) {
                return self.at + offset;
            }
        }
        self.text.len()
    }

    fn word(&mut self) -> Option<Word> {
        let (start, end) = (self.at, self.run_end(Class::Letter));
        self.at = end;
        let raw = &self.text[start..end];
        let (mut text, mut lower);
        if raw.is_ascii() {
            text = raw.to_ascii_lowercase();
            lower = None;
        } else {
            // Stemmers know the letters of their language, so they come before the folding.
            let small = raw.to_lowercase();
            text = fold(&small).into_owned();
            lower = Some(small);
        }
        if text.is_empty() {
            return None;
        }
        if let (Some(stemmer), true) = (&self.stemmer, raw.len() <= WORD_BYTES_MAX) {
            let written = lower
                .take()
                .map(|small| ComposingNormalizerBorrowed::new_nfc().normalize(&small).into_owned());
            let written = written.as_deref().unwrap_or(&text);
            self.stem = stem(stemmer, written, &text).map(|text| Word {
                text,
                kind: Kind::Stem,
                start,
                end,
                position: self.position,
            });
        }
        cut(&mut text);
        let word = Word { text, kind: Kind::Word, start, end, position: self.position };
        self.position += 1;
        Some(word)
    }

    /// The next single character or pair of a run.
    fn piece(&mut self, mut run: Run) -> Option<Word> {
        let mut chars = self.text[self.at..run.end].char_indices();
        let mut visible = chars.by_ref().filter(|(_, c)| class(*c) != Class::Silent);
        let Some((_, first)) = visible.next() else {
            self.at = run.end;
            self.run = None;
            return None;
        };
        let second = visible.next();
        let start = self.at;
        let whole = |offset: usize, c: char| start + offset + c.len_utf8();
        if (run.singles || run.alone) && !run.pair_due {
            run.pair_due = true;
            self.run = Some(run);
            let end = start + first.len_utf8();
            let text = unify(first).to_string();
            return Some(Word { text, kind: Kind::Single, start, end, position: self.position });
        }
        let position = self.position;
        self.position += 1;
        run.pair_due = false;
        let Some((offset, next)) = second else {
            self.at = run.end;
            self.run = None;
            return None;
        };
        self.at = start + offset;
        self.run = Some(run);
        // The last character of a run has no pair of its own where single ones do not count.
        let end = whole(offset, next);
        let text = String::from_iter([unify(first), unify(next)]);
        Some(Word { text, kind: Kind::Pair, start, end, position })
    }
}

impl fmt::Debug for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Words").field("at", &self.at).finish_non_exhaustive()
    }
}

/// The stem of a word, if it is another one.
fn stem(stemmer: &Stemmer, written: &str, folded: &str) -> Option<String> {
    if written.chars().take(STEMMED_CHARS_MIN).count() < STEMMED_CHARS_MIN
        || written.bytes().any(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    let mut stem = fold(&stemmer.stem(written)).into_owned();
    cut(&mut stem);
    (!stem.is_empty() && stem != folded).then_some(stem)
}

impl Iterator for Words<'_> {
    type Item = Word;

    fn next(&mut self) -> Option<Word> {
        if let Some(stem) = self.stem.take() {
            return Some(stem);
        }
        loop {
            if let Some(run) = self.run {
                if let Some(piece) = self.piece(run) {
                    return Some(piece);
                }
                continue;
            }
            let next = self.text[self.at..].chars().next()?;
            match class(next) {
                Class::Letter => {
                    if let Some(word) = self.word() {
                        return Some(word);
                    }
                }
                found @ (Class::Ideograph | Class::Unspaced) => {
                    let end = self.run_end(found);
                    let visible = |c: &char| class(*c) != Class::Silent;
                    let chars = self.text[self.at..end].chars().filter(visible).take(2).count();
                    self.run = Some(Run {
                        end,
                        singles: found == Class::Ideograph,
                        alone: chars < 2,
                        pair_due: false,
                    });
                }
                Class::Mark | Class::Silent | Class::Gap => self.at += next.len_utf8(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, language: &str) -> Vec<(String, usize)> {
        let words = Words::new(text, stemmer(language));
        words
            .inspect(|word| assert!(text.get(word.start..word.end).is_some_and(|w| !w.is_empty())))
            .map(|word| (word.text, word.position))
            .collect()
    }

    fn texts(text: &str, language: &str) -> Vec<String> {
        all(text, language).into_iter().map(|(word, _)| word).collect()
    }

    #[test]
    fn words_are_in_lower_case_and_without_accents() {
        assert_eq!(texts("Żółć, Größe; L'été 2026!", ""), ["zolc", "grosse", "l", "ete", "2026"]);
        assert_eq!(texts("İstanbul ΣΊΣΥΦΟΣ Ёлка й", ""), ["istanbul", "σισυφοσ", "елка", "и"]);
        assert_eq!(
            texts("ＡＢＣ ﬁn co\u{ad}operate e\u{301}te", ""),
            ["abc", "fin", "cooperate", "ete"]
        );
    }

    #[test]
    fn a_stem_stands_beside_its_word_and_takes_no_place_of_its_own() {
        let words = all("running dogs run", "en");
        let expected = [("running", 0), ("run", 0), ("dogs", 1), ("dog", 1), ("run", 2)]
            .map(|(w, p)| (w.to_owned(), p));
        assert_eq!(words, expected);
        assert_eq!(texts("Häuser", "de-AT"), ["hauser", "haus"]);
        assert_eq!(texts("running", "zh"), ["running"]);
        assert_eq!(texts("books", "nb").first().unwrap(), "books");
    }

    #[test]
    fn scripts_without_blanks_are_cut_into_characters_and_pairs() {
        let expected =
            [("東", 0), ("東京", 0), ("京", 1), ("京都", 1), ("都", 2), ("v", 3), ("カ", 4)];
        let expected = expected.map(|(word, position)| (word.to_owned(), position));
        assert_eq!(all("東京都 V。ｶ", "ja"), expected);
        assert_eq!(texts("한국", "ko"), ["한", "한국", "국"]);
        assert_eq!(texts("ไทย", "th"), ["ไท", "ทย"]);
        assert_eq!(texts("iPhone手机", "zh"), ["iphone", "手", "手机", "机"]);
    }

    #[test]
    fn a_pair_follows_the_pair_before_it_so_that_a_phrase_of_pairs_is_a_run_of_characters() {
        let pairs: Vec<_> = Words::new("ภาษาไทย", None)
            .map(|word| (word.position, word.end - word.start))
            .collect();
        assert!(pairs.windows(2).all(|two| two[1].0 == two[0].0 + 1), "{pairs:?}");
        assert!(pairs.iter().all(|(_, bytes)| *bytes == 6));
    }

    #[test]
    fn words_without_end_are_cut_and_any_text_is_read() {
        let long = "a".repeat(1_000);
        assert_eq!(texts(&long, "en"), [&long[..WORD_BYTES_MAX]]);
        let long = "é".repeat(1_000);
        assert!(texts(&long, "fr")[0].len() <= WORD_BYTES_MAX);
        // Every character alone, before a letter, and after one.
        for c in (0..=0x3_ffff).filter_map(char::from_u32) {
            for text in [format!("{c}"), format!("{c}x"), format!("x{c}東{c}")] {
                let words = Words::new(&text, None);
                let mut last = 0;
                for word in words {
                    assert!(text.is_char_boundary(word.start) && text.is_char_boundary(word.end));
                    assert!(word.position >= last && !word.text.is_empty(), "{text:?} {word:?}");
                    last = word.position;
                }
            }
        }
    }

    #[test]
    fn marks_of_indic_scripts_are_part_of_their_words() {
        assert_eq!(texts("हिन्दी भाषा", "").len(), 2);
        assert_eq!(texts("العَرَبِيَّة", ""), ["العربية"]);
    }
}
