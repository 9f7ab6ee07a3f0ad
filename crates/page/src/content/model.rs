//! How likely is a block main content, and which type is a page?
//!
//! Forests of small decision trees, boosted: a forest's answer is the sum of one leaf per tree,
//! through the logistic function. They are learnt by `examples/content` (`cargo xtask train`) and
//! lie in `model.bin`, with the tables of the lexicon.
//!
//! Always: a tree's branches lead forward, so that any file that loads also ends.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::content::lexicon::Tables;

/// The page types that are learnt, in the order of the forests.
pub const TYPES: [&str; 7] =
    ["article", "forum", "product", "collection", "listing", "documentation", "service"];

const MAGIC: &[u8; 8] = b"lycosa-2";
/// What stands for a leaf in the file, where another node has its feature.
const LEAF: u16 = u16::MAX;

/// No tree has more nodes, and no row more numbers: so the place of either is a byte, and a step down a
/// tree needs no check.
const NODES: usize = 256;
const COLUMNS: usize = 256;

/// Rows that are walked side by side, and rows that are judged by one tree before the next.
const LANES: usize = 8;
const SHEET: usize = 32;

#[derive(Debug, Default)]
pub struct Model {
    pub lexicon: Tables,
    /// One per page type.
    pub types: Vec<Forest>,
    /// Judges a block by itself.
    pub first: Forest,
    /// Judges it again, knowing what was thought of the others.
    pub second: Forest,
}

/// The model that is shipped.
pub(crate) static SHIPPED: LazyLock<Model> =
    LazyLock::new(|| Model::load(include_bytes!("model.bin")).expect("the file is tested to load"));

#[derive(Clone, Debug, Default)]
pub struct Forest {
    pub base: f32,
    pub trees: Vec<DecisionTree>,
}

/// An inner node of a tree, or a leaf.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Branch {
    Leaf(f32),
    /// Up to `at` to the left, which is the next node; else to the right, which is so many nodes further.
    Split {
        feature: u8,
        at: f32,
        right: u8,
    },
}

/// The same, to walk by.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// Up to where to the left; or a leaf's value.
    at: f32,
    feature: u8,
    /// The places of the left and of the right side. A leaf's are its own: who has reached it stays.
    next: [u8; 2],
}

/// A tree whose branches lead forward and stay in it, so that every walk ends.
#[derive(Clone, Debug)]
pub struct DecisionTree {
    nodes: Box<[Node; NODES]>,
    len: usize,
}

impl DecisionTree {
    /// None where a branch leads nowhere, or there are too many.
    pub fn new(branches: &[Branch]) -> Option<Self> {
        let len = branches.len();
        if len == 0 || len > NODES {
            return None;
        }
        let mut nodes = Box::new([Node::default(); NODES]);
        for (place, (branch, node)) in (0..=u8::MAX).zip(branches.iter().zip(nodes.iter_mut())) {
            *node = match *branch {
                Branch::Leaf(at) => Node { at, feature: 0, next: [place; 2] },
                Branch::Split { feature, at, right } => {
                    let right = place.checked_add(right).filter(|&to| to > place)?;
                    // The left side is no further away.
                    if usize::from(right) >= len {
                        return None;
                    }
                    Node { at, feature, next: [place + 1, right] }
                }
            };
        }
        Some(Self { nodes, len })
    }

    pub fn branches(&self) -> impl Iterator<Item = Branch> {
        let nodes = (0..=u8::MAX).zip(&self.nodes[..self.len]);
        nodes.map(|(place, &Node { at, feature, next: [left, right] })| match left == place {
            true => Branch::Leaf(at),
            false => Branch::Split { feature, at, right: right - place },
        })
    }

    /// What it says of one row; numbers that are missing are zero.
    fn value(&self, row: &[f32]) -> f32 {
        let mut place = 0;
        loop {
            let node = self.nodes[usize::from(place)];
            let value = row.get(usize::from(node.feature)).copied().unwrap_or(0.0);
            let next = node.step(value);
            if next == place {
                return node.at;
            }
            place = next;
        }
    }

    /// Adds what it says of each row.
    fn add(&self, rows: &[[f32; COLUMNS]; LANES], sums: &mut [f32; LANES]) {
        let mut places = [0_u8; LANES];
        loop {
            let mut moved = 0;
            for (place, row) in places.iter_mut().zip(rows) {
                let node = self.nodes[usize::from(*place)];
                let next = node.step(row[usize::from(node.feature)]);
                moved |= next ^ *place;
                *place = next;
            }
            if moved == 0 {
                break;
            }
        }
        for (sum, place) in sums.iter_mut().zip(places) {
            *sum += self.nodes[usize::from(place)].at;
        }
    }
}

impl Node {
    /// Taken from the node's memory, not by a jump: half of all jumps would be guessed wrong.
    fn step(&self, value: f32) -> u8 {
        let is_left = value <= self.at;
        self.next[usize::from(!is_left)]
    }
}

impl Forest {
    /// The sum over the trees, before the logistic function.
    pub fn sum(&self, row: &[f32]) -> f32 {
        self.trees.iter().fold(self.base, |sum, tree| sum + tree.value(row))
    }

    /// The sums of many rows of one width, one after the other in `values`.
    ///
    /// DecisionTree by tree over a sheet of rows, so that tree and sheet stay in the processor's first cache; and
    /// eight rows walk down a tree side by side, a step each at a time, so that it need not guess
    /// where a walk ends and has eight reads to wait for at once.
    pub fn sums(&self, values: &[f32], width: usize) -> Vec<f32> {
        let mut sums = Vec::with_capacity(values.len().checked_div(width).unwrap_or(0));
        let mut sheet = vec![[[0.0; COLUMNS]; LANES]; SHEET / LANES];
        let used = width.min(COLUMNS);
        for rows in values.chunks(SHEET * width.max(1)) {
            let rows = rows.chunks(width);
            let count = rows.len();
            for (place, row) in sheet.iter_mut().flatten().zip(rows) {
                place[..used].copy_from_slice(&row[..used]);
            }
            let mut lanes = [[self.base; LANES]; SHEET / LANES];
            for tree in &self.trees {
                let taken = count.div_ceil(LANES);
                sheet[..taken].iter().zip(&mut lanes).for_each(|(rows, sums)| tree.add(rows, sums));
            }
            sums.extend(lanes.iter().flatten().take(count));
        }
        sums
    }

    /// One forest whose sum is the mean of the sums of these.
    pub fn mean(forests: &[Self]) -> Self {
        let share = 1.0 / forests.len().max(1) as f32;
        let mut mean = Self::default();
        for forest in forests {
            mean.base += forest.base * share;
            let trees = forest.trees.iter().cloned().map(|mut tree| {
                for (place, node) in (0..=u8::MAX).zip(tree.nodes.iter_mut()) {
                    if node.next[0] == place {
                        node.at *= share;
                    }
                }
                tree
            });
            mean.trees.extend(trees);
        }
        mean
    }

    pub fn probability(&self, row: &[f32]) -> f32 {
        logistic(self.sum(row))
    }
}

pub fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

impl Model {
    /// How likely each of [`TYPES`] is; they sum up to 1.
    pub fn type_shares(&self, portrait: &[f32]) -> Vec<f32> {
        let mut shares: Vec<f32> =
            self.types.iter().map(|forest| forest.probability(portrait) + 1e-4).collect();
        shares.resize(TYPES.len(), 1e-4);
        let sum: f32 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= sum);
        shares
    }

    pub fn save(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for table in [&self.lexicon.classes, &self.lexicon.words] {
            let mut entries: Vec<_> = table.iter().collect();
            entries.sort_by_key(|entry| *entry.0);
            put(&mut out, entries.len() as u32);
            for (hash, score) in entries {
                put(&mut out, *hash);
                put(&mut out, score.to_bits());
            }
        }
        put(&mut out, self.types.len() as u32);
        for forest in self.types.iter().chain([&self.first, &self.second]) {
            put(&mut out, forest.base.to_bits());
            put(&mut out, forest.trees.len() as u32);
            let mut root = 0;
            for tree in &forest.trees {
                put(&mut out, root);
                root += tree.len as u32;
            }
            put(&mut out, root);
            let branches = forest.trees.iter().flat_map(DecisionTree::branches);
            for (place, branch) in (0_u32..).zip(branches) {
                match branch {
                    Branch::Leaf(value) => {
                        out.extend(LEAF.to_le_bytes());
                        put(&mut out, value.to_bits());
                    }
                    Branch::Split { feature, at, right } => {
                        out.extend(u16::from(feature).to_le_bytes());
                        put(&mut out, at.to_bits());
                        put(&mut out, place + u32::from(right));
                    }
                }
            }
        }
        out
    }

    /// `None`: not a model of this version.
    pub fn load(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes.strip_prefix(MAGIC)?);
        let mut model = Self::default();
        for table in [&mut model.lexicon.classes, &mut model.lexicon.words] {
            *table = reader.table()?;
        }
        for _ in 0..reader.number()? {
            model.types.push(reader.forest()?);
        }
        model.first = reader.forest()?;
        model.second = reader.forest()?;
        reader.0.is_empty().then_some(model)
    }
}

fn put(out: &mut Vec<u8>, number: u32) {
    out.extend(number.to_le_bytes());
}

struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number))
    }

    fn float(&mut self) -> Option<f32> {
        self.number().map(f32::from_bits)
    }

    fn table(&mut self) -> Option<HashMap<u32, f32>> {
        (0..self.number()?).map(|_| Some((self.number()?, self.float()?))).collect()
    }

    fn forest(&mut self) -> Option<Forest> {
        let base = self.float()?;
        let roots = (0..self.number()?).map(|_| self.number()).collect::<Option<Vec<_>>>()?;
        let count = self.number()?;
        let mut branches = Vec::new();
        for place in 0..count {
            branches.push(self.branch(place)?);
        }
        let ends = roots.iter().skip(1).copied().chain([count]);
        let tree = |(root, end): (&u32, u32)| {
            DecisionTree::new(branches.get(*root as usize..end as usize)?)
        };
        let trees = roots.iter().zip(ends).map(tree).collect::<Option<Vec<_>>>()?;
        Some(Forest { base, trees })
    }

    fn branch(&mut self, place: u32) -> Option<Branch> {
        let (feature, rest) = self.0.split_first_chunk::<2>()?;
        self.0 = rest;
        let feature = u16::from_le_bytes(*feature);
        let at = self.float()?;
        if feature == LEAF {
            return Some(Branch::Leaf(at));
        }
        let right = u8::try_from(self.number()?.checked_sub(place)?).ok()?;
        Some(Branch::Split { feature: u8::try_from(feature).ok()?, at, right })
    }
}

#[cfg(test)]
mod tests {
    use super::Branch::Leaf;
    use super::*;

    fn split(feature: u8, at: f32, right: u8) -> Branch {
        Branch::Split { feature, at, right }
    }

    fn stump() -> Forest {
        let nodes = [split(1, 0.5, 2), Leaf(-1.0), Leaf(2.0)];
        Forest { base: 0.25, trees: vec![DecisionTree::new(&nodes).unwrap()] }
    }

    #[test]
    fn the_mean_of_forests_is_the_mean_of_their_sums() {
        let mut other = stump();
        other.trees[0].nodes[2].at = 4.0;
        let mean = Forest::mean(&[stump(), other]);
        assert_eq!(mean.sum(&[0.0, 1.0]), 0.25 + 3.0);
        assert_eq!(mean.sum(&[0.0, 0.0]), 0.25 - 1.0);
    }

    #[test]
    fn many_rows_sum_up_as_each_alone() {
        let trees = [
            &[split(1, 0.5, 2), Leaf(-1.0), split(0, 3.0, 2), Leaf(2.0), Leaf(7.0)][..],
            &[split(0, 1.0, 2), Leaf(0.5), Leaf(-0.5)],
        ];
        let trees = trees.map(|nodes| DecisionTree::new(nodes).unwrap()).to_vec();
        let forest = Forest { base: 0.25, trees };
        let values: Vec<f32> = (0..138).map(|n| (n * 7 % 11) as f32 / 2.0).collect();
        let alone: Vec<f32> = values.chunks(2).map(|row| forest.sum(row)).collect();
        assert_eq!(forest.sums(&values, 2), alone);
        assert!(forest.sums(&[], 0).is_empty());
    }

    #[test]
    fn a_forest_adds_up_its_leaves() {
        assert_eq!(stump().sum(&[9.0, 0.5]), -0.75);
        assert_eq!(stump().sum(&[9.0, 0.6]), 2.25);
        assert_eq!(stump().sum(&[]), -0.75, "a row that is too short does no harm");
    }

    #[test]
    fn a_model_is_saved_and_loaded() {
        let mut model = Model { types: vec![stump()], first: stump(), ..Model::default() };
        model.lexicon.words.insert(7, 0.5);
        let bytes = model.save();
        let again = Model::load(&bytes).unwrap();
        assert_eq!(again.save(), bytes);
        assert_eq!(again.first.sum(&[0.0, 1.0]), 2.25);
        assert!(Model::load(&bytes[..bytes.len() - 1]).is_none());
        assert!(Model::load(b"other").is_none());
    }

    #[test]
    fn a_branch_that_leads_back_or_out_of_its_tree_is_refused() {
        for right in [0, 2, 200] {
            assert!(DecisionTree::new(&[split(0, 0.0, right), Leaf(0.0)]).is_none(), "{right}");
        }
        assert!(DecisionTree::new(&[split(0, 0.0, 1), Leaf(0.0)]).is_some());
        assert!(DecisionTree::new(&[]).is_none());
        let long = vec![Leaf(0.0); NODES + 1];
        assert!(DecisionTree::new(&long).is_none());
        assert!(DecisionTree::new(&long[..NODES]).is_some());
        let bytes = Model { first: stump(), ..Model::default() }.save();
        for byte in 0..bytes.len() {
            let mut other = bytes.clone();
            other[byte] ^= 0x55;
            // Whatever loads ends.
            if let Some(model) = Model::load(&other) {
                model.first.sum(&[0.0, 1.0]);
            }
        }
    }

    #[test]
    fn the_shipped_model_loads() {
        assert_eq!(SHIPPED.types.len(), TYPES.len());
        assert!(!SHIPPED.first.trees.is_empty());
    }
}
