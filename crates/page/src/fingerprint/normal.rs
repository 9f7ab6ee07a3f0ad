//! Which differences between two texts do not count?
//!
//! Case, the ways Unicode has to write one character (NFKC: ligatures, full-width letters, composed
//! or not), white space, and characters nobody sees. What is left is compared; words are cut from
//! it for the prints that tolerate more.

use icu_normalizer::ComposingNormalizerBorrowed;

/// The text as it is compared: NFKC, lower case, one space between words.
pub fn normalise(text: &str) -> String {
    let folded = if text.is_ascii() { text.to_ascii_lowercase() } else { folded(text) };
    let mut out = String::with_capacity(folded.len());
    for word in folded.split(|c: char| c.is_whitespace() || c.is_ascii_control()) {
        if !word.is_empty() && !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

fn folded(text: &str) -> String {
    let nfkc = ComposingNormalizerBorrowed::new_nfkc();
    // What nobody sees goes first: behind it, a letter and its accent may find each other.
    let seen: String = text.chars().filter(|c| !is_unseen(*c)).collect();
    // Lower case can undo the composition (`İ`), so it is made anew.
    nfkc.normalize(&nfkc.normalize(&seen).to_lowercase()).into_owned()
}

/// Soft hyphens, joiners, marks of direction: a copy has them or not.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// Letters and digits in runs; each character of a script that is written without spaces alone.
pub(super) fn words(normal: &str) -> impl Iterator<Item = &str> {
    let runs = normal.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty());
    runs.flat_map(|run| Words { rest: run })
}

struct Words<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let first = self.rest.chars().next()?;
        let end = if is_spaceless(first) {
            first.len_utf8()
        } else {
            self.rest.find(is_spaceless).unwrap_or(self.rest.len())
        };
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(word)
    }
}

/// Scripts without spaces: Thai to Khmer, kana, Han.
fn is_spaceless(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_alike_is_alike() {
        for text in
            ["Straße  ﬁne\n", "\tSTRAẞE fine", "straße fi\u{ad}ne\u{200b}", "ＳＴＲＡßＥ fine"]
        {
            assert_eq!(normalise(text), "straße fine");
        }
        assert_eq!(normalise("e\u{301}É"), "éé");
        assert_eq!(normalise(" \u{200b} a \u{200b} b "), "a b");
        assert_eq!(normalise(""), "");
    }

    #[test]
    fn the_normal_form_of_a_normal_form_is_itself() {
        for text in ["İstanbul ǅ ΑΣ ﬀ", "Ａ\u{301} \u{1e9e}", "한국어 ᄒ ㄱ", "ϓ\u{308}"]
        {
            let once = normalise(text);
            assert_eq!(normalise(&once), once, "{text}");
        }
    }

    #[test]
    fn words_are_runs_and_single_signs() {
        let cut = |text| words(text).collect::<Vec<_>>();
        assert_eq!(cut("it's 3.5 o–k"), ["it", "s", "3", "5", "o", "k"]);
        assert_eq!(cut("東京tower日"), ["東", "京", "tower", "日"]);
        assert_eq!(cut("…"), Vec::<&str>::new());
    }
}
