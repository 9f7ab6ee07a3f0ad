//! Which blocks of a page are made alike?
//!
//! A template writes the author of every post, the price of every product and every entry of a menu
//! into the same elements with the same classes. Blocks are alike by their last elements, and more
//! so by a longer way up to the root; what is true of one is mostly true of all of them.

use std::collections::HashMap;

use crate::content::blocks::{Block, Blocks};
use crate::content::context::Contexts;
use crate::content::tree::Tree;

/// How many elements above a block must agree, for each measure of likeness.
const REACHES: [usize; LIKENESSES] = [2, 5];

/// How many measures there are.
pub(crate) const LIKENESSES: usize = 2;

#[derive(Debug)]
pub(crate) struct Likeness {
    /// For each block the class it belongs to, by each measure.
    pub(crate) classes: Vec<[u32; LIKENESSES]>,
    /// How many classes there are.
    counts: [u32; LIKENESSES],
}

impl Likeness {
    pub(crate) fn of(tree: &Tree<'_>, blocks: &Blocks, contexts: &Contexts) -> Self {
        let mut known: [HashMap<u32, u32>; LIKENESSES] = Default::default();
        let class_of = |block: &Block| {
            let shapes = shapes(tree, block, contexts);
            let mut classes = [0; LIKENESSES];
            for (place, shape) in shapes.into_iter().enumerate() {
                let next = known[place].len() as u32;
                classes[place] = *known[place].entry(shape).or_insert(next);
            }
            classes
        };
        let classes = blocks.list.iter().map(class_of).collect();
        Self { classes, counts: known.map(|known| known.len() as u32) }
    }

    /// The mean of a value over each class, weighted by words.
    pub(crate) fn means(
        &self,
        measure: usize,
        blocks: &Blocks,
        value: impl Fn(usize) -> f32,
    ) -> Vec<f32> {
        let mut sums = vec![(0.0_f32, 0.0_f32); self.counts[measure] as usize];
        for (at, (classes, block)) in self.classes.iter().zip(&blocks.list).enumerate() {
            let sum = &mut sums[classes[measure] as usize];
            sum.0 += value(at) * block.words as f32;
            sum.1 += block.words as f32;
        }
        sums.into_iter().map(|(sum, words)| sum / words.max(1.0)).collect()
    }

    /// How many blocks each class has.
    pub(crate) fn sizes(&self, measure: usize) -> Vec<u32> {
        let mut sizes = vec![0; self.counts[measure] as usize];
        self.classes.iter().for_each(|classes| sizes[classes[measure] as usize] += 1);
        sizes
    }
}

/// A hash of the elements around a block and their first classes, for each reach.
fn shapes(tree: &Tree<'_>, block: &Block, contexts: &Contexts) -> [u32; LIKENESSES] {
    // What the block begins with tells a name that is a link from a text beside it.
    let first = block.nodes.start.min(tree.nodes.len() - 1);
    let mut hash = contexts.list[first].shape;
    let mut shapes = [0; LIKENESSES];
    let mut node = block.holder;
    let mut steps = 0;
    for (shape, reach) in shapes.iter_mut().zip(REACHES) {
        while steps < reach {
            hash = hash.wrapping_mul(0x0100_0193).wrapping_add(contexts.list[node].shape);
            node = tree.nodes[node].parent();
            steps += 1;
        }
        *shape = hash;
    }
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::lexicon::Tables;

    #[test]
    fn what_a_template_writes_twice_is_alike() {
        let html = "<ul><li><b class=name>Ann</b><p>one two</p><li><b class=name>Bob</b><p>three</p></ul>\
                    <div><p>four</p></div>";
        let tree = Tree::parse(html, false);
        let blocks = Blocks::of(&tree);
        let contexts = Contexts::of(&tree, &Tables::default());
        let likeness = Likeness::of(&tree, &blocks, &contexts);
        let classes: Vec<u32> = likeness.classes.iter().map(|classes| classes[0]).collect();
        assert_eq!(classes, [0, 1, 0, 1, 2]);
        assert_eq!(likeness.sizes(0), [2, 2, 1]);
        let means = likeness.means(0, &blocks, |at| at as f32);
        assert_eq!(means, [1.0, (2.0 + 3.0) / 3.0, 4.0]);
    }
}
