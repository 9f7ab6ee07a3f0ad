//! Which blocks of a page are in its known main text?
//!
//! The words of page and truth are aligned by their longest common subsequence, so that a word of
//! the menu that also occurs in the article is not taken for it; a block's label is the part of its
//! words that is aligned. Where the truth has another order than the page, runs of four words that
//! occur in it count as well.

use std::collections::{HashMap, HashSet};

use lycosa_page::content::study::Page;

use crate::pages::words;

/// Cells of the alignment; more are judged by runs of words alone.
const CELLS_MAX: usize = 600_000_000;

pub fn labels(page: &Page, truth: &str) -> Vec<f32> {
    let mut ids: HashMap<String, u32> = HashMap::new();
    let mut id = |word: String| {
        let next = ids.len() as u32;
        *ids.entry(word).or_insert(next)
    };
    let truth: Vec<u32> = words(truth).into_iter().map(&mut id).collect();
    let blocks: Vec<Vec<u32>> = page
        .blocks
        .iter()
        .map(|block| words(&block.text).into_iter().map(&mut id).collect())
        .collect();
    let flat: Vec<u32> = blocks.iter().flatten().copied().collect();
    let matched = aligned(&flat, &truth);
    let runs: HashSet<&[u32]> = truth.windows(4).collect();
    let mut at = 0;
    let label = |block: &Vec<u32>| {
        let hits = matched[at..at + block.len()].iter().filter(|&&hit| hit).count();
        at += block.len();
        let by_order = hits as f32 / block.len().max(1) as f32;
        let windows = block.len().saturating_sub(3);
        if windows < 2 {
            return by_order;
        }
        let known = block.windows(4).filter(|run| runs.contains(run)).count();
        by_order.max(known as f32 / windows as f32)
    };
    blocks.iter().map(label).collect()
}

/// Which words of `text` are in the longest common subsequence with `truth`.
fn aligned(text: &[u32], truth: &[u32]) -> Vec<bool> {
    let mut matched = vec![false; text.len()];
    let width = truth.len() + 1;
    if text.is_empty() || truth.is_empty() || text.len() * width > CELLS_MAX {
        return matched;
    }
    // One bit a cell: whether dropping the word of the text loses nothing.
    let mut drops = vec![0_u64; (text.len() * width).div_ceil(64)];
    let mut below = vec![0_u16; width];
    let mut row = vec![0_u16; width];
    for at in (0..text.len()).rev() {
        for column in (0..truth.len()).rev() {
            let mut best = row[column + 1].max(below[column]);
            if text[at] == truth[column] {
                best = best.max(below[column + 1].saturating_add(1));
            }
            row[column] = best;
            if best == below[column] {
                let cell = at * width + column;
                drops[cell / 64] |= 1 << (cell % 64);
            }
        }
        std::mem::swap(&mut row, &mut below);
        row[truth.len()] = 0;
    }
    let (mut at, mut column) = (0, 0);
    while at < text.len() && column < truth.len() {
        let cell = at * width + column;
        if drops[cell / 64] & (1 << (cell % 64)) != 0 {
            at += 1;
        } else if text[at] == truth[column] {
            matched[at] = true;
            at += 1;
            column += 1;
        } else {
            column += 1;
        }
    }
    matched
}
