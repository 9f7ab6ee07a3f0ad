//! Boosted decision trees for a yes or no, learnt from weighted rows.
//!
//! The usual way: features are cut into at most 255 bins by their quantiles, a tree grows where the
//! gain is largest, gains come from histograms of first and second derivatives of the logistic
//! loss, and the larger child's histogram is its parent's less its sibling's. Targets may lie
//! between 0 and 1. All chance comes from the seed.

use lycosa_page::content::study::{Branch, DecisionTree, Forest, logistic};

const BINS: usize = 256;

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub trees: usize,
    pub leaves: usize,
    pub rate: f32,
    /// The share of rows that a tree sees because they are judged worst, and of the others.
    pub worst: f32,
    pub others: f32,
    /// The share of features that a tree sees.
    pub columns: f32,
    /// Least second derivative in a leaf, and what is added to it.
    pub weight_min: f32,
    pub lambda: f32,
}

/// Rows with features in bins.
pub struct Table {
    /// Per feature, the upper end of each bin but the last.
    cuts: Vec<Vec<f32>>,
    columns: Vec<Vec<u8>>,
    rows: usize,
}

/// Rows that quantiles are taken from.
const SAMPLE_ROWS: usize = 60_000;

impl Table {
    /// `rows` are slices of one width.
    pub fn new(rows: &[&[f32]]) -> Self {
        let width = rows.first().map_or(0, |row| row.len());
        let step = rows.len().div_ceil(SAMPLE_ROWS).max(1);
        let mut cuts = Vec::new();
        let mut columns = Vec::new();
        for feature in 0..width {
            let sample = rows.iter().step_by(step).map(|row| row[feature]).collect();
            let cut = quantiles(sample);
            let bin = |row: &&[f32]| cut.partition_point(|&cut| cut < row[feature]) as u8;
            columns.push(rows.iter().map(bin).collect());
            cuts.push(cut);
        }
        Self { cuts, columns, rows: rows.len() }
    }
}

fn quantiles(mut values: Vec<f32>) -> Vec<f32> {
    values.sort_by(f32::total_cmp);
    let mut distinct = values.clone();
    distinct.dedup();
    let mut cuts: Vec<f32> = if distinct.len() < BINS {
        distinct.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect()
    } else {
        (1..BINS - 1).map(|at| values[at * values.len() / (BINS - 1)]).collect()
    };
    cuts.dedup();
    cuts
}

/// A small generator, good enough to sample rows with.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn share(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1_u64 << 24) as f32
    }
}

pub fn train(
    table: &Table,
    targets: &[f32],
    weights: &[f32],
    settings: &Settings,
    seed: u64,
) -> Forest {
    let mut chance = Chance::new(7 + seed);
    let all: f32 = weights.iter().sum();
    let positive: f32 = targets.iter().zip(weights).map(|(y, w)| y * w).sum();
    let share = (positive / all.max(1e-9)).clamp(1e-4, 1.0 - 1e-4);
    let base = (share / (1.0 - share)).ln();
    let mut forest = Forest { base, ..Forest::default() };
    let mut sums = vec![base; table.rows];
    let (mut first, mut second) = (vec![0.0; table.rows], vec![0.0; table.rows]);
    for _ in 0..settings.trees {
        for row in 0..table.rows {
            let p = logistic(sums[row]);
            first[row] = weights[row] * (p - targets[row]);
            second[row] = weights[row] * (p * (1.0 - p)).max(1e-6);
        }
        let rows = sample(&mut first, &mut second, settings, &mut chance);
        let columns: Vec<usize> =
            (0..table.columns.len()).filter(|_| chance.share() < settings.columns).collect();
        let grower = Grower { table, first: &first, second: &second, columns, settings };
        let tree = grower.grow(rows);
        let mut branches = Vec::new();
        tree.write(table, 0, &mut branches);
        forest.trees.push(DecisionTree::new(&branches).expect("grown to be one, with few leaves"));
        for (row, sum) in sums.iter_mut().enumerate() {
            *sum += tree.value(table, row);
        }
    }
    forest
}

/// The rows that a tree is grown on: those that are judged worst, and a few of the others, which
/// count for those that were left out. Most rows are soon judged well and have little to teach.
fn sample(
    first: &mut [f32],
    second: &mut [f32],
    settings: &Settings,
    chance: &mut Chance,
) -> Vec<u32> {
    let step = first.len().div_ceil(SAMPLE_ROWS).max(1);
    let mut faults: Vec<f32> = first.iter().step_by(step).map(|fault| fault.abs()).collect();
    faults.sort_by(|a, b| b.total_cmp(a));
    let worst = faults.get((faults.len() as f32 * settings.worst) as usize).copied();
    let worst = worst.unwrap_or(0.0);
    let counts_for = 1.0 / settings.others;
    let mut rows = Vec::new();
    for row in 0..first.len() {
        if first[row].abs() < worst {
            if chance.share() >= settings.others {
                continue;
            }
            first[row] *= counts_for;
            second[row] *= counts_for;
        }
        rows.push(row as u32);
    }
    rows
}

/// A tree while it grows; node 0 is the root.
struct Grown {
    nodes: Vec<GrownNode>,
}

#[derive(Clone, Copy)]
enum GrownNode {
    Leaf(f32),
    Split { feature: usize, bin: u8, left: usize, right: usize },
}

impl Grown {
    fn value(&self, table: &Table, row: usize) -> f32 {
        let mut place = 0;
        loop {
            match self.nodes[place] {
                GrownNode::Leaf(value) => return value,
                GrownNode::Split { feature, bin, left, right } => {
                    place = if table.columns[feature][row] <= bin { left } else { right };
                }
            }
        }
    }

    fn write(&self, table: &Table, place: usize, out: &mut Vec<Branch>) {
        match self.nodes[place] {
            GrownNode::Leaf(value) => out.push(Branch::Leaf(value)),
            GrownNode::Split { feature, bin, left, right } => {
                let at = out.len();
                out.push(Branch::Leaf(0.0));
                self.write(table, left, out);
                let cut = table.cuts[feature][usize::from(bin)];
                let further = (out.len() - at) as u8;
                out[at] = Branch::Split { feature: feature as u8, at: cut, right: further };
                self.write(table, right, out);
            }
        }
    }
}

type Histogram = Vec<[f32; 2]>;

struct Grower<'g> {
    table: &'g Table,
    first: &'g [f32],
    second: &'g [f32],
    columns: Vec<usize>,
    settings: &'g Settings,
}

/// A leaf that may be split.
struct Tip {
    place: usize,
    rows: Vec<u32>,
    histogram: Histogram,
    best: Option<Cut>,
}

#[derive(Clone, Copy)]
struct Cut {
    gain: f32,
    feature: usize,
    bin: u8,
}

impl Grower<'_> {
    fn grow(&self, rows: Vec<u32>) -> Grown {
        let mut tree = Grown { nodes: vec![GrownNode::Leaf(self.leaf(&rows))] };
        let histogram = self.histogram(&rows);
        let best = self.best(&histogram);
        let mut tips = vec![Tip { place: 0, rows, histogram, best }];
        for _ in 1..self.settings.leaves {
            let gain = |tip: &Tip| tip.best.map_or(0.0, |best| best.gain);
            let Some(place) =
                (0..tips.len()).max_by(|&a, &b| gain(&tips[a]).total_cmp(&gain(&tips[b])))
            else {
                break;
            };
            let Some(cut) = tips[place].best else { break };
            let tip = tips.swap_remove(place);
            tips.extend(self.split(tip, cut, &mut tree));
        }
        tree
    }

    fn split(&self, tip: Tip, cut: Cut, tree: &mut Grown) -> [Tip; 2] {
        let column = &self.table.columns[cut.feature];
        let (left, right): (Vec<u32>, Vec<u32>) =
            tip.rows.iter().partition(|&&row| column[row as usize] <= cut.bin);
        let places = [tree.nodes.len(), tree.nodes.len() + 1];
        tree.nodes[tip.place] = GrownNode::Split {
            feature: cut.feature,
            bin: cut.bin,
            left: places[0],
            right: places[1],
        };
        let small_is_left = left.len() <= right.len();
        let small = self.histogram(if small_is_left { &left } else { &right });
        let mut large = tip.histogram;
        for (sum, part) in large.iter_mut().zip(&small) {
            sum[0] -= part[0];
            sum[1] -= part[1];
        }
        let histograms = if small_is_left { [small, large] } else { [large, small] };
        let mut tips = Vec::new();
        for ((rows, histogram), place) in [left, right].into_iter().zip(histograms).zip(places) {
            tree.nodes.push(GrownNode::Leaf(self.leaf(&rows)));
            let best = self.best(&histogram);
            tips.push(Tip { place, rows, histogram, best });
        }
        let second = tips.pop();
        let first = tips.pop();
        match (first, second) {
            (Some(first), Some(second)) => [first, second],
            _ => unreachable!("two children were made"),
        }
    }

    fn leaf(&self, rows: &[u32]) -> f32 {
        let (mut g, mut h) = (0.0_f64, 0.0_f64);
        for &row in rows {
            g += f64::from(self.first[row as usize]);
            h += f64::from(self.second[row as usize]);
        }
        (-g / (h + f64::from(self.settings.lambda))) as f32 * self.settings.rate
    }

    fn histogram(&self, rows: &[u32]) -> Histogram {
        let mut histogram = vec![[0.0; 2]; self.columns.len() * BINS];
        let derivatives: Vec<[f32; 2]> =
            rows.iter().map(|&row| [self.first[row as usize], self.second[row as usize]]).collect();
        for (place, &feature) in self.columns.iter().enumerate() {
            let column = &self.table.columns[feature];
            let bins = &mut histogram[place * BINS..(place + 1) * BINS];
            for (&row, d) in rows.iter().zip(&derivatives) {
                let bin = &mut bins[usize::from(column[row as usize])];
                bin[0] += d[0];
                bin[1] += d[1];
            }
        }
        histogram
    }

    fn best(&self, histogram: &Histogram) -> Option<Cut> {
        let lambda = self.settings.lambda;
        let score = |g: f32, h: f32| g * g / (h + lambda);
        let mut best: Option<Cut> = None;
        for (place, &feature) in self.columns.iter().enumerate() {
            let bins = &histogram[place * BINS..(place + 1) * BINS];
            let (all_g, all_h) =
                bins.iter().fold((0.0, 0.0), |(g, h), bin| (g + bin[0], h + bin[1]));
            let (mut g, mut h) = (0.0, 0.0);
            for (bin, sums) in bins.iter().enumerate().take(self.table.cuts[feature].len()) {
                g += sums[0];
                h += sums[1];
                if h < self.settings.weight_min || all_h - h < self.settings.weight_min {
                    continue;
                }
                let gain = score(g, h) + score(all_g - g, all_h - h) - score(all_g, all_h);
                if gain > best.map_or(1e-4, |best| best.gain) {
                    best = Some(Cut { gain, feature, bin: bin as u8 });
                }
            }
        }
        best
    }
}
