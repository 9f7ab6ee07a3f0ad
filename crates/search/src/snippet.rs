//! Which piece of a page shows best why it was found?
//!
//! The one with the most different words of the question, and among those the one with the most of
//! them, the first if several are equal. It begins and ends between words, as far as there are any.

use std::collections::HashMap;
use std::ops::Range;

use frostem::Stemmer;

use crate::words::Words;

/// Bytes of a piece: some three lines on a screen, also in scripts whose characters are twice as wide and
/// have three bytes each.
const BYTES: usize = 280;
/// What stands before the first word that was found.
const LEAD_BYTES: usize = 60;
/// Words that are looked at. A text with more of them has said it.
const HITS_MAX: usize = 10_000;

/// A piece of a page, in one line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snippet {
    pub text: String,
    /// Where in it the words of the question stand, in bytes; in order, none within another.
    pub highlights: Vec<Range<usize>>,
}

/// A word of the question where it was found; words that stand for each other have one number.
#[derive(Debug, Clone, Copy)]
struct Hit {
    start: usize,
    end: usize,
    number: usize,
}

/// The best piece of a text for these words, each with the number of what it stands for.
pub(crate) fn snippet(
    text: &str,
    stemmer: Option<Stemmer>,
    wanted: &HashMap<String, usize>,
) -> Snippet {
    let hits: Vec<Hit> = Words::new(text, stemmer)
        .filter_map(|word| {
            let number = *wanted.get(&word.text)?;
            Some(Hit { start: word.start, end: word.end, number })
        })
        .take(HITS_MAX)
        .collect();
    let piece = cut_out(text, best(&hits));
    show(text, piece, &hits)
}

/// Where the first of the hits begins that a piece shows.
fn best(hits: &[Hit]) -> usize {
    let (mut best, mut best_worth) = (0, (0, 0));
    let mut counts: HashMap<usize, usize> = HashMap::new();
    let (mut last, mut within) = (0, 0);
    for (first, hit) in hits.iter().enumerate() {
        while let Some(next) =
            hits.get(last).filter(|next| next.end <= hit.start + BYTES - LEAD_BYTES)
        {
            *counts.entry(next.number).or_default() += 1;
            (last, within) = (last + 1, within + 1);
        }
        if (counts.len(), within) > best_worth {
            (best, best_worth) = (hit.start, (counts.len(), within));
        }
        if last > first {
            within -= 1;
            if let Some(count) = counts.get_mut(&hit.number) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&hit.number);
                }
            }
        } else {
            // A word longer than a piece.
            last = first + 1;
        }
    }
    best
}

/// A piece around a place.
fn cut_out(text: &str, at: usize) -> Range<usize> {
    let mut start = text.floor_char_boundary(at.saturating_sub(LEAD_BYTES));
    // What fits behind is better than what is cut off before.
    if text.len() - start < BYTES {
        start = text.floor_char_boundary(text.len().saturating_sub(BYTES));
    }
    if start > 0
        && let Some(blank) = text[start..at.max(start)].find(char::is_whitespace)
    {
        start += blank;
    }
    let mut end = text.floor_char_boundary((start + BYTES).min(text.len()));
    if end < text.len()
        && let Some(blank) =
            text[start..end].rfind(char::is_whitespace).filter(|blank| *blank > BYTES / 2)
    {
        end = start + blank;
    }
    start..end
}

/// The piece in one line, with what was found in it.
fn show(text: &str, piece: Range<usize>, hits: &[Hit]) -> Snippet {
    let mut shown = Snippet::default();
    if piece.start > 0 {
        shown.text.push('…');
    }
    let first = hits.partition_point(|hit| hit.start < piece.start);
    let mut hits = hits[first..].iter().filter(|hit| hit.end <= piece.end).peekable();
    let mut begun: Option<(usize, usize)> = None;
    let mut blank = true;
    for (offset, c) in text[piece.clone()].char_indices() {
        let at = piece.start + offset;
        if let Some((_, end)) = begun.filter(|(_, end)| at >= *end) {
            debug_assert!(end <= at);
            shown.end(&mut begun);
        }
        while let Some(hit) = hits.next_if(|hit| hit.start <= at) {
            // One that goes on where the last one has not ended makes it longer.
            let (start, end) = begun.unwrap_or((shown.text.len(), hit.end));
            begun = Some((start, end.max(hit.end)));
        }
        if c.is_whitespace() || c.is_control() {
            if !blank {
                shown.text.push(' ');
            }
            blank = true;
        } else if !is_direction(c) {
            shown.text.push(c);
            blank = false;
        }
    }
    shown.end(&mut begun);
    shown.text.truncate(shown.text.trim_end().len());
    if piece.end < text.len() {
        shown.text.push('…');
    }
    shown
}

impl Snippet {
    fn end(&mut self, begun: &mut Option<(usize, usize)>) {
        let Some((start, _)) = begun.take() else { return };
        let end = self.text.trim_end().len();
        if start < end {
            self.highlights.push(start..end);
        }
    }
}

/// Characters that turn the direction of what follows: a page must not turn that of a terminal.
pub fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::stemmer;

    fn of(text: &str, words: &[&str]) -> Snippet {
        let wanted = words.iter().enumerate().map(|(n, word)| ((*word).to_owned(), n)).collect();
        let snippet = snippet(text, stemmer("en"), &wanted);
        for range in &snippet.highlights {
            assert!(!snippet.text[range.clone()].is_empty(), "{snippet:?}");
        }
        assert!(snippet.highlights.windows(2).all(|two| two[0].end <= two[1].start), "{snippet:?}");
        snippet
    }

    fn marked(snippet: &Snippet) -> Vec<&str> {
        snippet.highlights.iter().map(|range| &snippet.text[range.clone()]).collect()
    }

    #[test]
    fn a_short_text_is_shown_whole() {
        let shown = of("The wolf\n  spider\tRUNS.", &["wolf", "run"]);
        assert_eq!(shown.text, "The wolf spider RUNS.");
        assert_eq!(marked(&shown), ["wolf", "RUNS"]);
        assert_eq!(of("", &["wolf"]), Snippet::default());
        assert_eq!(of("nothing of it", &["wolf"]).text, "nothing of it");
    }

    #[test]
    fn the_piece_with_most_of_the_words_is_shown() {
        let filler = "lorem ipsum dolor sit amet ".repeat(40);
        let text =
            format!("A wolf. {filler} Here a wolf meets a spider at night. {filler} A spider.");
        let shown = of(&text, &["wolf", "spider", "night"]);
        assert_eq!(marked(&shown), ["wolf", "spider", "night"]);
        assert!(shown.text.starts_with('…') && shown.text.ends_with('…'), "{}", shown.text);
        assert!(shown.text.len() <= BYTES + 6);
        assert!(shown.text.contains("Here a wolf meets"), "{}", shown.text);
    }

    #[test]
    fn characters_that_overlap_make_one_highlight() {
        let shown = of("私は東京都に住む。", &["東京", "京都", "東", "京"]);
        assert_eq!(marked(&shown), ["東京都"]);
    }

    #[test]
    fn what_could_disturb_a_terminal_is_left_out() {
        let shown = of("a \u{1b}[31mwolf\u{202e} b\u{7}c", &["wolf"]);
        assert_eq!(shown.text, "a [31mwolf b c");
    }

    #[test]
    fn any_text_has_a_piece() {
        for text in ["é".repeat(1_000), "x".repeat(1_000), "東".repeat(500), " \n".repeat(400)] {
            let shown = of(&text, &["東", "東東", "x"]);
            assert!(shown.text.len() <= BYTES + 6, "{}", shown.text.len());
        }
        // A word longer than a piece, and one after it.
        let text = format!("{} wolf", "x".repeat(1_000));
        let long = "x".repeat(crate::words::WORD_BYTES_MAX);
        assert_eq!(marked(&of(&text, &[&long, "wolf"])), ["wolf"]);
    }
}
