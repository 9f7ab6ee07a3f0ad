//! Which blocks are taken, given how likely each is content?
//!
//! The set with the best F score to be expected. For a set S that is
//! (1+b)·Σ(S) p·w / (Σ(S) w + b·Σ(all) p·w), where w are words, p probabilities, and b says how much
//! more it matters to find what is there than to leave out what is not; with b = 1 it is F1. The
//! best set holds the likeliest blocks down to some probability, so one look at each cut finds it. A
//! fixed threshold would be too high for pages of which all is a little uncertain.

/// A little more than F1 asks for: it costs less than 0.001 of it, and of the sentences that a page
/// must not lose it finds one more in three hundred (wcxb-dev, out of fold).
const RECALL_WORTH: f64 = 1.15;

/// Where the best set is expected to be worse than this, the page has no main content: a shell that
/// a script would fill, a notice that something went wrong.
const EXPECTED_MIN: f64 = 0.25;

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
        let score = (1.0 + RECALL_WORTH) * hits / (taken + RECALL_WORTH * expected);
        if score > best {
            (best, best_count) = (score, count + 1);
        }
    }
    let mut selected = vec![false; blocks.len()];
    if best < EXPECTED_MIN {
        return selected;
    }
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
        assert_eq!(select(&[(0.3, 100), (0.1, 100)]), [true, false]);
        assert!(select(&[]).is_empty());
        assert_eq!(select(&[(0.0, 10)]), [false]);
    }

    #[test]
    fn of_a_page_without_content_nothing_is_taken() {
        assert_eq!(select(&[(0.08, 15), (0.03, 100)]), [false, false]);
    }
}
