//! How good was it, in numbers?

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::pages::{Sample, f1, words};

/// What was found in one page.
#[derive(Debug)]
pub struct Found {
    id: String,
    kind: String,
    judged_kind: String,
    f1: f64,
    truth_is_empty: bool,
    with: (usize, usize),
    without: (usize, usize),
    blocks: String,
}

impl Found {
    pub fn of(sample: &Sample, text: &str, judged_kind: &str, verdicts: &[(f32, bool)]) -> Self {
        let mut blocks = String::new();
        for (at, block) in sample.page.blocks.iter().enumerate() {
            let (sure, taken) = verdicts[at];
            let start: String = block.text.chars().take(90).collect();
            let _ = writeln!(
                blocks,
                "{} {:.2} {:.2} {:4} {}",
                if taken { '+' } else { ' ' },
                sure,
                sample.labels[at],
                block.words,
                start.replace('\n', " ")
            );
        }
        let squeezed = squeeze(text);
        let holds = |snippet: &&String| squeezed.contains(&squeeze(snippet));
        Self {
            id: format!("{} {}", sample.known.id, sample.known.url),
            kind: sample.known.kind.clone(),
            judged_kind: judged_kind.to_owned(),
            f1: f1(text, &sample.known.truth),
            truth_is_empty: sample.known.truth.trim().is_empty(),
            with: (sample.known.with.iter().filter(holds).count(), sample.known.with.len()),
            without: (
                sample.known.without.iter().filter(|snippet| !holds(snippet)).count(),
                sample.known.without.len(),
            ),
            blocks,
        }
    }
}

/// A snippet is found by its words: the truth has other quotation marks than the pages.
fn squeeze(text: &str) -> String {
    format!(" {} ", words(text).join(" "))
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
        println!("page type       pages    F1   type judged right   with  without");
        for (kind, found) in kinds {
            let count = found.len() as f64;
            let f1: f64 = found.iter().map(|found| found.f1).sum();
            let right = found.iter().filter(|found| found.kind == found.judged_kind).count();
            let rate = |of: &dyn Fn(&Found) -> (usize, usize)| {
                let (hits, all) = found.iter().fold((0, 0), |sum, found| {
                    let (hits, all) = of(found);
                    (sum.0 + hits, sum.1 + all)
                });
                100.0 * hits as f64 / all.max(1) as f64
            };
            println!(
                "{kind:14} {:6} {:.4} {:19.1} % {:6.1} {:7.1}",
                found.len(),
                f1 / count,
                100.0 * right as f64 / count,
                rate(&|found| found.with),
                rate(&|found| found.without),
            );
        }
    }

    /// Writes every page with its blocks, the worst first: whether taken, how likely, how right.
    pub fn dump(&self, path: &str) {
        let mut found: Vec<&Found> = self.found.iter().collect();
        found.sort_by(|a, b| a.f1.total_cmp(&b.f1));
        let mut out = String::new();
        for found in found {
            let _ = writeln!(
                out,
                "=== {} {} judged {} F1 {:.3}\n{}",
                found.id, found.kind, found.judged_kind, found.f1, found.blocks
            );
        }
        std::fs::write(path, out).expect("the dump can be written");
    }
}
