//! Which blocks are taken, given how likely each is content?
//!
//! The set with the best F1 to be expected. For a set S that is
//! 2·Σ(S) p·w / (Σ(S) w + Σ(all) p·w), where w are words and p probabilities; the best set holds
//! the likeliest blocks down to some probability, so one look at each cut finds it. A fixed
//! threshold would be too high for pages of which all is a little uncertain.

/// Which blocks to take. `blocks`: probability and words of each.
pub fn select(blocks: &[(f32, u32)]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by(|&a, &b| blocks[b].0.total_cmp(&blocks[a].0).then(a.cmp(&b)));
    let expected: f64 = blocks.iter().map(|&(p, words)| f64::from(p) * f64::from(words)).sum();
    let (mut hits, mut taken) = (0.0, 0.0);
    let (mut best, mut best_count) = (0.0, 0);
    for (count, &at) in order.iter().enumerate() {
        let (p, words) = blocks[at];
        hits += f64::from(p) * f64::from(words);
        taken += f64::from(words);
        let f1 = 2.0 * hits / (taken + expected);
        if f1 > best {
            (best, best_count) = (f1, count + 1);
        }
    }
    let mut selected = vec![false; blocks.len()];
    order[..best_count].iter().for_each(|&at| selected[at] = true);
    selected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sure_ones_are_taken_and_the_unlikely_left() {
        assert_eq!(
            select(&[(0.95, 100), (0.02, 50), (0.9, 10), (0.1, 5)]),
            [true, false, true, false]
        );
    }

    #[test]
    fn where_all_is_uncertain_the_best_of_it_is_taken() {
        assert_eq!(select(&[(0.3, 100), (0.05, 100)]), [true, false]);
        assert!(select(&[]).is_empty());
        assert_eq!(select(&[(0.0, 10)]), [false]);
    }
}
