//! From the tree to a verdict on each block.
//!
//! First each block is judged by its features; then all are judged again, each knowing what was
//! thought of its neighbours, of the elements that hold it, of the heading above. A doubtful line
//! in the middle of sure ones is content, a good sentence among teasers is not.

use serde_json::Value;
use url::Url;

use crate::content::blocks::Blocks;
use crate::content::candidates::{Candidates, starts};
use crate::content::context::{Contexts, NONE};
use crate::content::element::Element;
use crate::content::features::{Rows, Surroundings, rows, shows_date, shows_price};
use crate::content::lexicon::Lexicon;
use crate::content::likeness::{LIKENESSES, Likeness};
use crate::content::model::{Forest, Model, logistic};
use crate::content::portrait::portrait;
use crate::content::structured;
use crate::content::tree::Tree;

/// What the head and the structured data say: blocks are compared with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hints {
    title: String,
    description: String,
    /// The texts of the structured data.
    data: String,
}

impl Hints {
    /// `linked`: the page's JSON-LD.
    pub(crate) fn of(tree: &Tree<'_>, linked: &[Value]) -> Self {
        let mut data = structured::texts(linked);
        data.truncate(data.floor_char_boundary(DATA_BYTES_MAX));
        let mut hints = Self { data, ..Self::default() };
        for id in 1..tree.nodes.len() {
            match tree.element(id) {
                Element::Title if hints.title.is_empty() && !tree.nodes[id].foreign => {
                    hints.title = tree.text_below(id, TITLE_BYTES_MAX);
                }
                Element::Meta if hints.description.is_empty() => {
                    let name =
                        tree.attribute(id, "name").or_else(|| tree.attribute(id, "property"));
                    if name.is_some_and(|name| name.eq_ignore_ascii_case("description")) {
                        let text = tree.attribute(id, "content").unwrap_or_default();
                        let end = text.floor_char_boundary(DESCRIPTION_BYTES_MAX);
                        hints.description = text[..end].to_owned();
                    }
                }
                _ => {}
            }
        }
        hints
    }
}

/// No reader shows more of a title, or of a description.
const TITLE_BYTES_MAX: usize = 1_000;
const DESCRIPTION_BYTES_MAX: usize = 4_000;

/// Every block is looked for in the data: 20,000 blocks in 64 KB are a billion bytes, the most
/// that may be spent on it.
const DATA_BYTES_MAX: usize = 64_000;

/// A page, ready to be judged.
#[derive(Debug)]
pub(crate) struct Case<'c> {
    pub(crate) tree: &'c Tree<'c>,
    pub(crate) blocks: Blocks,
    pub(crate) contexts: Contexts,
    pub(crate) candidates: Candidates,
    pub(crate) likeness: Likeness,
    pub(crate) portrait: Vec<f32>,
}

impl<'c> Case<'c> {
    pub(crate) fn new(tree: &'c Tree<'c>, url: Option<&Url>, lexicon: &dyn Lexicon) -> Self {
        let blocks = Blocks::of(tree);
        let mut contexts = Contexts::of(tree, lexicon);
        for block in &blocks.list {
            let context = contexts.list[block.holder];
            let outer = Some(context.outer_group).filter(|&outer| outer != context.inner_group);
            for group in [Some(context.inner_group), outer].into_iter().flatten() {
                if group != NONE {
                    let group = &mut contexts.groups[group as usize];
                    group.words += block.words;
                    group.link_words += block.link_words;
                    group.prices += u32::from(shows_price(block, blocks.text_of(block)));
                    group.dates += u32::from(shows_date(block, blocks.text_of(block)));
                }
            }
        }
        let candidates = Candidates::of(tree, &blocks, &contexts);
        let likeness = Likeness::of(tree, &blocks, &contexts);
        let portrait = portrait(tree, &blocks, &contexts, url);
        Self { tree, blocks, contexts, candidates, likeness, portrait }
    }

    pub(crate) fn rows(&self, hints: &Hints, types: &[f32], lexicon: &dyn Lexicon) -> Rows {
        let surroundings = Surroundings {
            tree: self.tree,
            blocks: &self.blocks,
            contexts: &self.contexts,
            candidates: &self.candidates,
            likeness: &self.likeness,
            title: &hints.title,
            description: &hints.description,
            data: &hints.data,
            types,
        };
        rows(&surroundings, lexicon)
    }

    /// The rows once more, each with what was thought of those around.
    pub(crate) fn second_rows(&self, rows: &Rows, thought: &[f32]) -> Rows {
        let echo = Echo::new(self, thought);
        let mut values = Vec::with_capacity(rows.values.len() + rows.len() * 40);
        for at in 0..rows.len() {
            values.extend_from_slice(rows.row(at));
            echo.row(at, &mut values);
        }
        let width = if rows.is_empty() { 0 } else { values.len() / rows.len() };
        Rows { values, width }
    }

    /// How likely each block is content.
    pub(crate) fn judge(&self, hints: &Hints, types: &[f32], model: &Model) -> Vec<f32> {
        let rows = self.rows(hints, types, &model.lexicon);
        let first = probabilities(&model.first, &rows);
        if model.second.trees.is_empty() {
            return first;
        }
        probabilities(&model.second, &self.second_rows(&rows, &first))
    }
}

pub fn probabilities(forest: &Forest, rows: &Rows) -> Vec<f32> {
    forest.sums(&rows.values, rows.width).into_iter().map(logistic).collect()
}

/// What was thought of the blocks around one.
struct Echo<'e> {
    case: &'e Case<'e>,
    thought: &'e [f32],
    /// Sums over the blocks before: words, and words times probability.
    sums: Vec<[f32; 2]>,
    starts: Vec<usize>,
    headings: Vec<Option<usize>>,
    /// For each block, where the part below its heading begins and ends.
    sections: Vec<(usize, usize)>,
    /// What was thought of all blocks that are made alike.
    alike: [Vec<f32>; LIKENESSES],
    most: f32,
}

impl<'e> Echo<'e> {
    fn new(case: &'e Case<'e>, thought: &'e [f32]) -> Self {
        let mut sums = vec![[0.0; 2]];
        let mut heading = None;
        let mut headings = Vec::with_capacity(thought.len());
        for (at, block) in case.blocks.list.iter().enumerate() {
            let words = block.words as f32;
            let [all, likely] = sums[at];
            sums.push([all + words, likely + words * thought[at]]);
            headings.push(heading);
            if case.tree.element(block.holder).heading_level().is_some() {
                heading = Some(at);
            }
        }
        let starts = starts(case.tree, &case.blocks);
        let sections = sections(&headings);
        let alike = std::array::from_fn(|measure| {
            case.likeness.means(measure, &case.blocks, |at| thought[at])
        });
        let most = thought.iter().copied().fold(0.0, f32::max);
        Self { case, thought, sums, starts, headings, sections, alike, most }
    }

    /// The mean over a range of blocks, by words.
    fn mean(&self, from: usize, to: usize) -> f32 {
        let (to, from) = (self.sums[to.max(from)], self.sums[from]);
        (to[1] - from[1]) / (to[0] - from[0]).max(1.0)
    }

    fn row(&self, at: usize, out: &mut Vec<f32>) {
        let count = self.thought.len();
        let own = self.thought[at];
        out.push(own);
        for step in [-4_isize, -3, -2, -1, 1, 2, 3, 4] {
            let near = at.checked_add_signed(step).and_then(|at| self.thought.get(at));
            out.push(near.copied().unwrap_or(-1.0));
        }
        for reach in [3, 8, 20] {
            out.push(self.mean(at.saturating_sub(reach), at));
            out.push(self.mean(at + 1, (at + 1 + reach).min(count)));
        }
        out.push(self.mean(0, at));
        out.push(self.mean(at + 1, count));
        out.push(self.mean(0, count));
        out.push(self.most);
        // The share of the likely words that lies before.
        out.push(self.sums[at][1] / self.sums[count][1].max(0.1));
        out.push(self.headings[at].map_or(-1.0, |heading| self.thought[heading]));
        let (from, to) = self.sections[at];
        out.push(self.mean(from, to));
        for (alike, &class) in self.alike.iter().zip(&self.case.likeness.classes[at]) {
            out.push(alike[class as usize]);
        }
        self.holders(at, out);
        let context = &self.case.contexts.list[self.case.blocks.list[at].holder];
        for group in [context.outer_group, context.inner_group] {
            if group == NONE {
                out.push(-1.0);
                continue;
            }
            let parent = self.case.contexts.groups[group as usize].parent;
            let end = self.case.tree.nodes[parent].end();
            out.push(self.mean(self.starts[parent], self.starts[end]));
        }
    }

    fn holders(&self, at: usize, out: &mut Vec<f32>) {
        let tree = self.case.tree;
        let mut node = self.case.blocks.list[at].holder;
        for _ in 0..6 {
            let range = self.starts[node]..self.starts[tree.nodes[node].end()];
            out.push(self.mean(range.start, range.end));
            while node > 0 {
                node = tree.nodes[node].parent();
                let end = tree.nodes[node].end();
                if self.starts[end] - self.starts[node] > range.len() {
                    break;
                }
            }
        }
    }
}

/// For each block the range of blocks that stand below the same heading.
fn sections(headings: &[Option<usize>]) -> Vec<(usize, usize)> {
    let mut sections = Vec::with_capacity(headings.len());
    let mut from = 0;
    while from < headings.len() {
        let same = headings[from..].iter().take_while(|&&heading| heading == headings[from]);
        let to = from + same.count();
        sections.resize(to, (from, to));
        from = to;
    }
    sections
}
