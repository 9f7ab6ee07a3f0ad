//! Which blocks of a page are in its known main text?
//!
//! The words of page and truth are aligned by their longest common subsequence, so that a word of
//! the menu that also occurs in the article is not taken for it; a block's label is the part of its
//! words that is aligned. Where the truth has another order than the page, runs of four words that
//! occur in it count as well, but none more often than the truth has it: what a page says twice (a
//! post and its quotation, the same paragraph for small and for large screens) is content once.

use std::collections::HashMap;

use lycosa_page::content::study::Page;

use crate::pages::words;

/// Cells of the alignment, a bit each; larger pages are judged by runs of words alone.
const CELLS_MAX: usize = 1 << 31;

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
    let mut at = 0;
    let by_order: Vec<f32> = blocks
        .iter()
        .map(|block| {
            let hits = matched[at..at + block.len()].iter().filter(|&&hit| hit).count();
            at += block.len();
            hits as f32 / block.len().max(1) as f32
        })
        .collect();
    let mut runs: HashMap<&[u32], u32> = HashMap::new();
    truth.windows(4).for_each(|run| *runs.entry(run).or_default() += 1);
    let mut take = |block: &Vec<u32>| {
        let left = |run: &&[u32]| {
            let count = runs.get_mut(*run).filter(|count| **count > 0);
            count.map(|count| *count -= 1).is_some()
        };
        block.windows(4).filter(left).count()
    };
    for (block, _) in blocks.iter().zip(&by_order).filter(|(_, share)| **share >= 0.5) {
        take(block);
    }
    let label = |(block, &by_order): (&Vec<u32>, &f32)| {
        let windows = block.len().saturating_sub(3);
        if by_order >= 0.5 || windows < 2 {
            return by_order;
        }
        by_order.max(take(block) as f32 / windows as f32)
    };
    blocks.iter().zip(&by_order).map(label).collect()
}

/// Which words of `text` are in the longest common subsequence with `truth`; of equally long ones
/// the one that lies latest in the text, because menus come before what they lead to.
///
/// A row of the usual table, less the row's own left neighbours, is a row of bits, and the next one
/// follows from it by an addition (Crochemore and others, 2001): 64 cells at once.
fn aligned(text: &[u32], truth: &[u32]) -> Vec<bool> {
    let mut matched = vec![false; text.len()];
    let width = truth.len().div_ceil(64);
    if text.is_empty() || truth.is_empty() || text.len() * truth.len() > CELLS_MAX {
        return matched;
    }
    // Both are read from their ends, so that the walk back goes from their beginnings.
    let mut places: HashMap<u32, Vec<u64>> = HashMap::new();
    for (column, &word) in truth.iter().rev().enumerate() {
        let bits = places.entry(word).or_insert_with(|| vec![0; width]);
        bits[column / 64] |= 1 << (column % 64);
    }
    // A cell's bit is clear where the subsequence grows with that word of the truth. Words that the
    // truth does not have leave the row as it is, so they share it.
    let mut rows = vec![vec![u64::MAX; width]];
    let mut row_of = vec![0];
    for word in text.iter().rev() {
        if let Some(bits) = places.get(word) {
            rows.push(next_row(&rows[rows.len() - 1], bits));
        }
        row_of.push(rows.len() - 1);
    }
    let grows = |row: usize, column: usize| {
        rows[row_of[row]][(column - 1) / 64] & (1 << ((column - 1) % 64)) == 0
    };
    let (mut row, mut column) = (text.len(), truth.len());
    while row > 0 && column > 0 {
        if !grows(row, column) {
            column -= 1;
        } else {
            row -= 1;
            if !grows(row, column) {
                matched[text.len() - 1 - row] = true;
                column -= 1;
            }
        }
    }
    matched
}

fn next_row(row: &[u64], places: &[u64]) -> Vec<u64> {
    let mut carry = false;
    let step = |(&row, &places): (&u64, &u64)| {
        let hits = row & places;
        let (sum, over) = row.overflowing_add(hits);
        let (sum, over_again) = sum.overflowing_add(u64::from(carry));
        carry = over || over_again;
        sum | (row & !places)
    };
    row.iter().zip(places).map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_aligned_in_order_and_late() {
        let hits = |text: &[u32], truth: &[u32]| -> Vec<usize> {
            let matched = aligned(text, truth);
            (0..text.len()).filter(|&at| matched[at]).collect()
        };
        assert_eq!(hits(&[1, 2, 9, 1, 2, 3], &[1, 2, 3]), [3, 4, 5]);
        assert_eq!(hits(&[3, 1, 2, 3, 9, 3], &[1, 2, 3]), [1, 2, 5]);
        assert_eq!(hits(&[7, 8], &[1]), [0_usize; 0]);
        let long: Vec<u32> = (0..300).collect();
        let text: Vec<u32> = (0..600).map(|at| if at % 2 == 0 { at / 2 } else { 999 }).collect();
        assert_eq!(hits(&text, &long).len(), 300);
    }
}
