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
const LEAF: u16 = u16::MAX;

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
    pub nodes: Vec<Branch>,
    /// Where each tree begins.
    pub roots: Vec<u32>,
}

/// An inner node of a tree, or a leaf.
#[derive(Clone, Copy, Debug)]
pub struct Branch {
    /// [`LEAF`] for a leaf, whose value is `at`.
    feature: u16,
    /// How many nodes further its right side is; the left side is the next node.
    right: u16,
    /// Up to here to the left, else to the right.
    at: f32,
}

impl Branch {
    pub fn leaf(value: f32) -> Self {
        Self { feature: LEAF, at: value, right: 0 }
    }

    /// `right`: how many nodes further that side is; left is the next one.
    pub fn split(feature: u16, at: f32, right: u16) -> Self {
        Self { feature, right, at }
    }
}

impl Forest {
    /// The sum over the trees, before the logistic function.
    pub fn sum(&self, row: &[f32]) -> f32 {
        let mut sum = self.base;
        for &root in &self.roots {
            let mut place = root as usize;
            loop {
                let branch = self.nodes[place];
                if branch.feature == LEAF {
                    sum += branch.at;
                    break;
                }
                let value = row.get(usize::from(branch.feature)).copied().unwrap_or(0.0);
                place += if value <= branch.at { 1 } else { usize::from(branch.right) };
            }
        }
        sum
    }

    /// The sums of many rows of one width, one after the other in `values`.
    ///
    /// Tree by tree over a sheet of rows, so that tree and sheet stay in the processor's first cache; and
    /// eight rows walk down a tree side by side, a step each at a time, so that it need not guess
    /// where a walk ends and has eight reads to wait for at once.
    pub fn sums(&self, values: &[f32], width: usize) -> Vec<f32> {
        let mut sums = vec![self.base; values.len().checked_div(width).unwrap_or(0)];
        let sheets = values.chunks(SHEET * width.max(1)).zip(sums.chunks_mut(SHEET));
        for (rows, sums) in sheets {
            for tree in self.trees() {
                let lanes = rows.chunks(LANES * width).zip(sums.chunks_mut(LANES));
                lanes.for_each(|(rows, sums)| walk(tree, rows, width, sums));
            }
        }
        sums
    }

    /// One forest whose sum is the mean of the sums of these.
    pub fn mean(forests: &[Self]) -> Self {
        let share = 1.0 / forests.len().max(1) as f32;
        let mut mean = Self::default();
        for forest in forests {
            let place = mean.nodes.len() as u32;
            mean.base += forest.base * share;
            mean.roots.extend(forest.roots.iter().map(|root| root + place));
            mean.nodes.extend(forest.nodes.iter().map(|node| match node.feature {
                LEAF => Branch::leaf(node.at * share),
                _ => *node,
            }));
        }
        mean
    }

    /// The trees, one after the other.
    fn trees(&self) -> impl Iterator<Item = &[Branch]> {
        let ends = self.roots.iter().skip(1).map(|&root| root as usize).chain([self.nodes.len()]);
        self.roots.iter().zip(ends).map(|(&root, end)| &self.nodes[root as usize..end])
    }

    /// Whether branches lead forward and stay in their tree: walking one ends whatever the file holds.
    fn is_sound(&self) -> bool {
        let begins = self.roots.iter().map(|&root| root as usize);
        let rises =
            begins.clone().zip(begins.skip(1).chain([self.nodes.len()])).all(|(a, b)| a < b);
        rises
            && self.trees().all(|tree| {
                let mut branches = tree.iter().enumerate();
                branches.all(|(place, branch)| {
                    let forward =
                        branch.right > 0 && place + usize::from(branch.right) < tree.len();
                    branch.feature == LEAF || forward
                })
            })
    }

    pub fn probability(&self, row: &[f32]) -> f32 {
        logistic(self.sum(row))
    }
}

/// Adds what a tree says of each row. One that has reached its leaf waits there.
fn walk(tree: &[Branch], rows: &[f32], width: usize, sums: &mut [f32]) {
    let mut places = [0; LANES];
    let places = &mut places[..sums.len()];
    loop {
        let mut moved = false;
        for (place, row) in places.iter_mut().zip(rows.chunks_exact(width)) {
            let branch = tree[*place];
            let is_leaf = branch.feature == LEAF;
            let feature = if is_leaf { 0 } else { usize::from(branch.feature) };
            let value = row[feature.min(width - 1)];
            let step = if value <= branch.at { 1 } else { usize::from(branch.right) };
            *place += if is_leaf { 0 } else { step };
            moved |= !is_leaf;
        }
        if !moved {
            break;
        }
    }
    for (sum, place) in sums.iter_mut().zip(places) {
        *sum += tree[*place].at;
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
            put(&mut out, forest.roots.len() as u32);
            forest.roots.iter().for_each(|&root| put(&mut out, root));
            put(&mut out, forest.nodes.len() as u32);
            for (place, branch) in forest.nodes.iter().enumerate() {
                out.extend(branch.feature.to_le_bytes());
                put(&mut out, branch.at.to_bits());
                if branch.feature != LEAF {
                    put(&mut out, place as u32 + u32::from(branch.right));
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
        let mut nodes = Vec::new();
        for place in 0..count {
            let (feature, rest) = self.0.split_first_chunk::<2>()?;
            self.0 = rest;
            let feature = u16::from_le_bytes(*feature);
            let at = self.float()?;
            let right = if feature == LEAF { place } else { self.number()? };
            let right = u16::try_from(right.checked_sub(place)?).ok()?;
            nodes.push(Branch { feature, right, at });
        }
        let forest = Forest { base, nodes, roots };
        forest.is_sound().then_some(forest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stump() -> Forest {
        let nodes = vec![Branch::split(1, 0.5, 2), Branch::leaf(-1.0), Branch::leaf(2.0)];
        Forest { base: 0.25, nodes, roots: vec![0] }
    }

    #[test]
    fn the_mean_of_forests_is_the_mean_of_their_sums() {
        let mut other = stump();
        other.nodes[2] = Branch::leaf(4.0);
        let mean = Forest::mean(&[stump(), other]);
        assert_eq!(mean.sum(&[0.0, 1.0]), 0.25 + 3.0);
        assert_eq!(mean.sum(&[0.0, 0.0]), 0.25 - 1.0);
    }

    #[test]
    fn many_rows_sum_up_as_each_alone() {
        let nodes = vec![
            Branch::split(1, 0.5, 2),
            Branch::leaf(-1.0),
            Branch::split(0, 3.0, 2),
            Branch::leaf(2.0),
            Branch::leaf(7.0),
            Branch::split(0, 1.0, 2),
            Branch::leaf(0.5),
            Branch::leaf(-0.5),
        ];
        let forest = Forest { base: 0.25, nodes, roots: vec![0, 5] };
        assert!(forest.is_sound());
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
        for (right, roots) in [(0, vec![0]), (2, vec![0]), (1, vec![0, 1]), (1, vec![1, 0])] {
            let nodes = vec![Branch::split(0, 0.0, right), Branch::leaf(0.0)];
            let first = Forest { base: 0.0, nodes, roots };
            assert!(Model::load(&Model { first, ..Model::default() }.save()).is_none());
        }
    }

    #[test]
    fn the_shipped_model_loads() {
        assert_eq!(SHIPPED.types.len(), TYPES.len());
        assert!(!SHIPPED.first.roots.is_empty());
    }
}
