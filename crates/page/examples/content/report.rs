//! How good was it, in numbers?
//!
//! F1 is as the set's own program has it: words as multisets; where nothing is to be found,
//! finding nothing scores 1 and anything else 0. Snippets are counted in two ways. *By words*: a
//! snippet is found where its words follow each other, over all snippets. *Own*: as the set's
//! program does, the lower-cased snippet as it is, mark for mark, and the mean over pages, of which
//! those without a snippet count in full.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::pages::{Known, Sample, f1, words};

/// What was found in one page.
#[derive(Debug)]
pub struct Found {
    id: String,
    kind: String,
    judged_kind: String,
    f1: f64,
    truth_is_empty: bool,
    /// Snippets that must be there, and that must not: how many are, of how many.
    with: Snippets,
    without: Snippets,
    lines: String,
}

#[derive(Debug)]
struct Snippets {
    all: usize,
    by_words: usize,
    own: usize,
}

impl Snippets {
    fn of(snippets: &[String], text: &str, squeezed: &str) -> Self {
        let lower = text.to_lowercase();
        let by_words = snippets.iter().filter(|snippet| squeezed.contains(&squeeze(snippet)));
        let own = snippets.iter().filter(|snippet| lower.contains(&snippet.to_lowercase()));
        Self { all: snippets.len(), by_words: by_words.count(), own: own.count() }
    }

    /// The part that is there, as the set's program has it.
    fn own_share(&self) -> f64 {
        if self.all == 0 { 1.0 } else { self.own as f64 / self.all as f64 }
    }
}

impl Found {
    /// What a model made of a page, block by block.
    pub fn of(sample: &Sample, text: &str, judged_kind: &str, verdicts: &[(f32, bool)]) -> Self {
        let mut found = Self::in_text(&sample.known, text, judged_kind);
        for (at, block) in sample.page.blocks.iter().enumerate() {
            let (sure, taken) = verdicts[at];
            let start: String = block.text.chars().take(90).collect();
            let _ = writeln!(
                found.lines,
                "{} {:.2} {:.2} {:4} {}",
                if taken { '+' } else { ' ' },
                sure,
                sample.labels[at],
                block.words,
                start.replace('\n', " ")
            );
        }
        found
    }

    /// What is in a text that anybody took from a page.
    pub fn in_text(known: &Known, text: &str, judged_kind: &str) -> Self {
        let squeezed = squeeze(text);
        let mut lines = String::new();
        for (mark, snippets, wanted) in
            [("misses", &known.with, true), ("has", &known.without, false)]
        {
            for snippet in snippets {
                if squeezed.contains(&squeeze(snippet)) != wanted {
                    let _ = writeln!(lines, "! {mark}: {}", snippet.replace('\n', "⏎"));
                }
            }
        }
        Self {
            id: format!("{} {}", known.id, known.url),
            kind: known.kind.clone(),
            judged_kind: judged_kind.to_owned(),
            f1: f1(text, &known.truth),
            truth_is_empty: known.truth.trim().is_empty(),
            with: Snippets::of(&known.with, text, &squeezed),
            without: Snippets::of(&known.without, text, &squeezed),
            lines,
        }
    }
}

/// Words alone: the truth has other quotation marks than the pages. Many snippets end in the middle
/// of a word, so there is no border around them.
fn squeeze(text: &str) -> String {
    words(text).join(" ")
}

#[derive(Debug, Default)]
pub struct Report {
    found: Vec<Found>,
}

impl Report {
    pub fn add(&mut self, found: Found) {
        self.found.push(found);
    }

    pub fn print(&self) {
        let mut kinds: BTreeMap<&str, Vec<&Found>> = BTreeMap::new();
        for found in &self.found {
            kinds.entry(&found.kind).or_default().push(found);
            kinds.entry("~ all").or_default().push(found);
            if !found.truth_is_empty {
                kinds.entry("~ with a truth").or_default().push(found);
            }
        }
        println!("                                        in % by words        in % own");
        println!("page type       pages     F1  type right   with without    with without");
        for (kind, found) in kinds {
            let count = found.len() as f64;
            let mean =
                |of: &dyn Fn(&Found) -> f64| found.iter().map(|f| of(f)).sum::<f64>() / count;
            let by_words = |of: &dyn Fn(&Found) -> &Snippets| {
                let there: usize = found.iter().map(|found| of(found).by_words).sum();
                let all: usize = found.iter().map(|found| of(found).all).sum();
                100.0 * there as f64 / all.max(1) as f64
            };
            println!(
                "{kind:14} {:6} {:.4} {:9.1} % {:6.1} {:7.1} {:7.1} {:7.1}",
                found.len(),
                mean(&|found| found.f1),
                100.0 * mean(&|found| f64::from(u8::from(found.kind == found.judged_kind))),
                by_words(&|found| &found.with),
                100.0 - by_words(&|found| &found.without),
                100.0 * mean(&|found| found.with.own_share()),
                // Without any it counts as full there, too: that is 1 left out of 1.
                100.0
                    * mean(&|found| match found.without.all {
                        0 => 1.0,
                        _ => 1.0 - found.without.own_share(),
                    }),
            );
        }
    }

    /// Writes every page, the worst first: snippets that are wrong, and of every block whether it
    /// was taken, how likely it was thought to be content, and how much of it is.
    pub fn dump(&self, path: &str) {
        let mut found: Vec<&Found> = self.found.iter().collect();
        found.sort_by(|a, b| a.f1.total_cmp(&b.f1));
        let mut out = String::new();
        for found in found {
            let _ = writeln!(
                out,
                "=== {} {} judged {} F1 {:.3}\n{}",
                found.id, found.kind, found.judged_kind, found.f1, found.lines
            );
        }
        std::fs::write(path, out).expect("the dump can be written");
    }
}
