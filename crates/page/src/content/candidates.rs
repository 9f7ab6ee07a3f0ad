//! What would each simple method take for the main content?
//!
//! Four that know nothing of each other. *Density*: the element whose blocks have most words
//! outside links, links and stubs counting against it. *Run*: the stretch of the page with the
//! best such sum, whatever elements it crosses. *Meaning*: what the page itself calls its main part
//! (`main`, `article`, `itemprop`). *Data*: the text in its JSON-LD. The model is told which
//! of them hold a block, and how much they hold; so it chooses per page whom to believe.

use std::ops::Range;

use crate::content::blocks::{Block, Blocks};
use crate::content::context::{Contexts, flag};
use crate::content::tree::{NodeId, Tree};

#[derive(Debug)]
pub(crate) struct Candidates {
    /// By density: a range of blocks.
    pub(crate) dense: Range<usize>,
    /// The best run of blocks.
    pub(crate) run: Range<usize>,
    /// The flag of the method by meaning, 0 if the page says nothing.
    pub(crate) meant: u32,
}

impl Candidates {
    pub(crate) fn of(tree: &Tree<'_>, blocks: &Blocks, contexts: &Contexts) -> Self {
        let worths: Vec<f32> = blocks.list.iter().map(worth).collect();
        Self {
            dense: densest(tree, blocks, &worths),
            run: best_run(&worths),
            meant: meant(blocks, contexts),
        }
    }
}

/// What a block speaks for its surroundings being content.
fn worth(block: &Block) -> f32 {
    let words = block.words as f32;
    let plain = words - block.link_words as f32;
    plain.min(80.0) - 2.0 * block.link_words as f32 - 4.0
}

fn best_run(worths: &[f32]) -> Range<usize> {
    let (mut best, mut best_sum) = (0..0, 0.0);
    let (mut from, mut sum) = (0, 0.0);
    for (at, worth) in worths.iter().enumerate() {
        if sum <= 0.0 {
            (from, sum) = (at, 0.0);
        }
        sum += worth;
        if sum > best_sum {
            (best, best_sum) = (from..at + 1, sum);
        }
    }
    best
}

/// The block element with the best sum; of equal ones the innermost.
fn densest(tree: &Tree<'_>, blocks: &Blocks, worths: &[f32]) -> Range<usize> {
    let mut sums = vec![0.0];
    let mut sum = 0.0;
    for worth in worths {
        sum += worth;
        sums.push(sum);
    }
    let starts = starts(tree, blocks);
    let (mut best, mut best_sum) = (0..0, 0.0);
    for (id, node) in tree.nodes.iter().enumerate() {
        if node.element.is_block() {
            let range = starts[id]..starts[node.end()];
            let sum = sums[range.end] - sums[range.start];
            if sum >= best_sum && sum > 0.0 {
                (best, best_sum) = (range, sum);
            }
        }
    }
    best
}

/// For each node, and one past the last, how many blocks begin before it.
pub(crate) fn starts(tree: &Tree<'_>, blocks: &Blocks) -> Vec<usize> {
    let mut starts = Vec::with_capacity(tree.nodes.len() + 1);
    let mut begun = 0;
    for id in 0..=tree.nodes.len() {
        while blocks.list.get(begun).is_some_and(|block| block.nodes.start < id) {
            begun += 1;
        }
        starts.push(begun);
    }
    starts
}

/// The most telling mark that holds a fair part of the words.
fn meant(blocks: &Blocks, contexts: &Contexts) -> u32 {
    let held = |flag: u32| -> u32 {
        let blocks = blocks.list.iter();
        blocks.filter(|block| flags(contexts, block.holder) & flag != 0).map(|b| b.words).sum()
    };
    let all: u32 = blocks.list.iter().map(|block| block.words).sum();
    [flag::BODY, flag::ARTICLE, flag::MAIN]
        .into_iter()
        .find(|&flag| held(flag) * 8 >= all.max(1))
        .unwrap_or(0)
}

fn flags(contexts: &Contexts, node: NodeId) -> u32 {
    contexts.list[node].flags
}
