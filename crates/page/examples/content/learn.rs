//! From pages with known main text to a model.
//!
//! Whatever a later stage is fed with from an earlier one is judged by a model that has not seen
//! the page's domain: the lexicon leaves the domain's own pages out, page types and first
//! judgements come from inner folds. So each stage learns to trust the one before as far as it can
//! be trusted on pages nobody has seen.

use std::collections::{BTreeMap, HashMap, HashSet};

use lycosa_page::content::study::{
    Forest, Lexicon, Model, Rows, TYPES, Tables, probabilities, rows,
};

use crate::boost::{Settings, Table, train};
use crate::fold;
use crate::pages::Sample;

pub struct Learnt {
    pub model: Model,
}

const INNER_FOLDS: u64 = 3;

const TYPE_SETTINGS: Settings = Settings {
    trees: 80,
    leaves: 8,
    rate: 0.1,
    worst: 0.0,
    others: 0.8,
    columns: 0.4,
    weight_min: 2.0,
    lambda: 2.0,
};

/// Forests that are averaged for the second judgement.
const SECOND_FORESTS: u64 = 2;

const BLOCK_SETTINGS: Settings = Settings {
    trees: 100,
    leaves: 40,
    rate: 0.12,
    worst: 0.15,
    others: 0.15,
    columns: 0.3,
    weight_min: 3.0,
    lambda: 5.0,
};

pub fn learn(samples: &[&Sample]) -> Learnt {
    let counts = Counts::of(samples);
    let (types, type_shares) = learn_types(samples);
    let scores = counts.tables(None);
    let lexicons: HashMap<&str, Tables> = {
        let domains: HashSet<&str> = samples.iter().map(|sample| sample.domain.as_str()).collect();
        domains.into_iter().map(|domain| (domain, counts.tables(Some(domain)))).collect()
    };

    let first_rows: Vec<Rows> = samples
        .iter()
        .zip(&type_shares)
        .map(|(sample, types)| {
            let lexicon: &dyn Lexicon = &lexicons[sample.domain.as_str()];
            rows(&sample.known.url, &sample.html(), types, lexicon, &|_| None).0
        })
        .collect();
    // What judges pages that nobody has seen is the mean of the forests that judged these: each has
    // seen two thirds of them, together they have seen all.
    let mut firsts = Vec::new();
    let mut thoughts: Vec<Vec<f32>> = vec![Vec::new(); samples.len()];
    for part in 0..INNER_FOLDS {
        let is_out = |sample: &Sample| fold(&format!("{}~", sample.domain), INNER_FOLDS) == part;
        let forest = learn_blocks(samples, &first_rows, part, |sample| !is_out(sample));
        for (at, sample) in samples.iter().enumerate().filter(|(_, sample)| is_out(sample)) {
            debug_assert_eq!(sample.labels.len(), first_rows[at].len());
            thoughts[at] = probabilities(&forest, &first_rows[at]);
        }
        firsts.push(forest);
    }
    drop(first_rows);
    let second_rows: Vec<Rows> = samples
        .iter()
        .enumerate()
        .map(|(at, sample)| {
            let lexicon: &dyn Lexicon = &lexicons[sample.domain.as_str()];
            let thought = |_: &Rows| Some(thoughts[at].clone());
            let (_, second) =
                rows(&sample.known.url, &sample.html(), &type_shares[at], lexicon, &thought);
            second.expect("a thought was given")
        })
        .collect();
    let seconds: Vec<Forest> = (0..SECOND_FORESTS)
        .map(|seed| learn_blocks(samples, &second_rows, seed, |_| true))
        .collect();
    let (first, second) = (Forest::mean(&firsts), Forest::mean(&seconds));
    Learnt { model: Model { lexicon: scores, types, first, second } }
}

/// The forests, and for each page what forests say that have not seen its domain.
fn learn_types(samples: &[&Sample]) -> (Vec<Forest>, Vec<Vec<f32>>) {
    let learn_from = |wanted: &dyn Fn(&Sample) -> bool| -> Vec<Forest> {
        let chosen: Vec<&&Sample> = samples.iter().filter(|sample| wanted(sample)).collect();
        let portraits: Vec<&[f32]> =
            chosen.iter().map(|sample| sample.page.portrait.as_slice()).collect();
        let table = Table::new(&portraits);
        let weights = vec![1.0; chosen.len()];
        TYPES
            .iter()
            .map(|&kind| {
                let targets: Vec<f32> = chosen
                    .iter()
                    .map(|sample| f32::from(u8::from(sample.known.kind == kind)))
                    .collect();
                train(&table, &targets, &weights, &TYPE_SETTINGS, 0)
            })
            .collect()
    };
    let mut shares = vec![Vec::new(); samples.len()];
    for part in 0..INNER_FOLDS {
        let is_out = |sample: &Sample| fold(&format!("{}^", sample.domain), INNER_FOLDS) == part;
        let model = Model { types: learn_from(&|sample| !is_out(sample)), ..Model::default() };
        for (at, sample) in samples.iter().enumerate().filter(|(_, sample)| is_out(sample)) {
            shares[at] = model.type_shares(&sample.page.portrait);
        }
    }
    (learn_from(&|_| true), shares)
}

fn learn_blocks(
    samples: &[&Sample],
    rows: &[Rows],
    seed: u64,
    wanted: impl Fn(&Sample) -> bool,
) -> Forest {
    let (mut table, mut targets, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    // A page whose truth is empty was not reviewed to the end: it teaches nothing.
    let known = |sample: &Sample| wanted(sample) && !sample.known.truth.trim().is_empty();
    for (sample, rows) in samples.iter().zip(rows).filter(|(sample, _)| known(sample)) {
        // A page counts as a page, however long; within it a block counts by its words.
        let all: f32 = sample.page.blocks.iter().map(|block| weight(block.words)).sum();
        for at in 0..rows.len() {
            table.push(rows.row(at));
            targets.push(sample.labels[at]);
            weights.push(200.0 * weight(sample.page.blocks[at].words) / all);
        }
    }
    train(&Table::new(&table), &targets, &weights, &BLOCK_SETTINGS, seed)
}

fn weight(words: u32) -> f32 {
    (words as f32).powf(0.7)
}

/// For each word, over pages: the sum of shares that are content, and how many pages.
type Shares = HashMap<u32, (f32, f32)>;

struct Counts<'s> {
    domains: BTreeMap<&'s str, [Shares; 2]>,
    all: [Shares; 2],
    /// On how many domains a word occurs.
    spread: [HashMap<u32, u32>; 2],
}

/// A word that fewer domains use tells of the domain, not of the web.
const DOMAINS_MIN: u32 = 6;
/// How many pages' worth of doubt a word starts with.
const DOUBT: f32 = 4.0;

impl<'s> Counts<'s> {
    fn of(samples: &[&'s Sample]) -> Self {
        let mut counts = Self {
            domains: BTreeMap::new(),
            all: [Shares::new(), Shares::new()],
            spread: [HashMap::new(), HashMap::new()],
        };
        for sample in samples.iter().filter(|sample| !sample.known.truth.trim().is_empty()) {
            let page = page_shares(sample);
            let domain = counts.domains.entry(&sample.domain).or_default();
            for (which, shares) in page.into_iter().enumerate() {
                for (word, (content, all)) in shares {
                    let known = domain[which].entry(word).or_insert_with(|| {
                        *counts.spread[which].entry(word).or_default() += 1;
                        (0.0, 0.0)
                    });
                    known.0 += content / all;
                    known.1 += 1.0;
                    let sum = counts.all[which].entry(word).or_default();
                    sum.0 += content / all;
                    sum.1 += 1.0;
                }
            }
        }
        counts
    }

    /// The scores, without what one domain adds.
    fn tables(&self, without: Option<&str>) -> Tables {
        let mut tables = Tables::default();
        let nothing = [Shares::new(), Shares::new()];
        let own = without.and_then(|domain| self.domains.get(domain)).unwrap_or(&nothing);
        for (which, own) in own.iter().enumerate() {
            let table = if which == 0 { &mut tables.classes } else { &mut tables.words };
            let (content, pages) = self.all[which]
                .values()
                .fold((0.0, 0.0), |sum, share| (sum.0 + share.0, sum.1 + share.1));
            let base = (content / f32::max(pages, 1.0)).clamp(0.05, 0.95);
            for (word, &(content, pages)) in &self.all[which] {
                let out = own.get(word).copied().unwrap_or((0.0, 0.0));
                let domains = self.spread[which][word] - u32::from(out.1 > 0.0);
                if domains < DOMAINS_MIN {
                    continue;
                }
                let (content, pages) = ((content - out.0).max(0.0), pages - out.1);
                let yes = content + DOUBT * base;
                let no = (pages - content).max(0.0) + DOUBT * (1.0 - base);
                table.insert(*word, (yes / no).ln() - (base / (1.0 - base)).ln());
            }
        }
        tables
    }
}

/// Of one page: classes by words of text below them, words of short lines by lines.
fn page_shares(sample: &Sample) -> [Shares; 2] {
    let mut shares = [Shares::new(), Shares::new()];
    for (block, &label) in sample.page.blocks.iter().zip(&sample.labels) {
        let words = block.words as f32;
        for &class in &block.classes {
            let share = shares[0].entry(class).or_default();
            share.0 += words * label;
            share.1 += words;
        }
        for &word in &block.line {
            let share = shares[1].entry(word).or_default();
            share.0 += label;
            share.1 += 1.0;
        }
    }
    shares
}
