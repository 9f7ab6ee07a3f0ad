//! What is there to know of a block, as numbers for the model?
//!
//! The block itself, the elements and classes around it, its neighbours, the heading above it, the
//! records it is among, which simple methods would take it, and what sort of page it stands on.
//! The order of the numbers is part of the model: change it and train again.

use std::collections::HashMap;

use crate::content::blocks::{Block, Blocks};
use crate::content::candidates::{Candidates, starts};
use crate::content::context::{Contexts, NONE, flag};
use crate::content::element::Element;
use crate::content::lexicon::{Lexicon, hash, text_words};
use crate::content::likeness::{LIKENESSES, Likeness};
use crate::content::tree::Tree;

/// A line with more words is judged by its words no more.
pub(crate) const SHORT_WORDS_MAX: u32 = 12;

/// What all blocks of a page share.
#[derive(Debug)]
pub(crate) struct Surroundings<'s> {
    pub(crate) tree: &'s Tree<'s>,
    pub(crate) blocks: &'s Blocks,
    pub(crate) contexts: &'s Contexts,
    pub(crate) candidates: &'s Candidates,
    pub(crate) likeness: &'s Likeness,
    /// Title and description as the head has them.
    pub(crate) title: &'s str,
    pub(crate) description: &'s str,
    /// The texts of the page's structured data, one after the other.
    pub(crate) data: &'s str,
    /// How likely each page type is.
    pub(crate) types: &'s [f32],
}

/// All blocks' features, one row after the other.
#[derive(Debug)]
pub struct Rows {
    pub values: Vec<f32>,
    pub width: usize,
}

impl Rows {
    pub fn row(&self, at: usize) -> &[f32] {
        &self.values[at * self.width..(at + 1) * self.width]
    }

    pub fn len(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// What is computed once per block and looked at from its neighbours too.
#[derive(Clone, Copy, Debug, Default)]
struct Brief {
    words: f32,
    link_share: f32,
    worded: f32,
    score: f32,
    class: f32,
    heading: f32,
    long: f32,
}

pub(crate) fn rows(page: &Surroundings<'_>, lexicon: &dyn Lexicon) -> Rows {
    let maker = Maker::new(page, lexicon);
    let mut values = Vec::new();
    let mut width = 0;
    for at in 0..page.blocks.list.len() {
        let before = values.len();
        maker.row(at, &mut values);
        width = values.len() - before;
    }
    Rows { values, width }
}

struct Maker<'m> {
    page: &'m Surroundings<'m>,
    briefs: Vec<Brief>,
    /// Sums over the blocks before: words, linked words, words of long blocks.
    sums: Vec<[f32; 3]>,
    starts: Vec<usize>,
    /// The last heading at or before each block.
    headings: Vec<Option<usize>>,
    first_h1: Option<usize>,
    last_h1: Option<usize>,
    repeats: HashMap<u32, u32>,
    hashes: Vec<u32>,
    /// How often a block's text stood there before.
    said_before: Vec<u32>,
    /// For each measure of likeness and class: how many blocks, words of one, and their means.
    alike: [Vec<Alike>; LIKENESSES],
    all_words: f32,
}

/// What blocks that are made alike have in common.
#[derive(Clone, Copy, Debug)]
struct Alike {
    blocks: f32,
    words: f32,
    link_share: f32,
    score: f32,
    repeats: f32,
}

impl<'m> Maker<'m> {
    fn new(page: &'m Surroundings<'m>, lexicon: &dyn Lexicon) -> Self {
        let list = &page.blocks.list;
        let mut sums = vec![[0.0; 3]];
        let mut briefs = Vec::with_capacity(list.len());
        let mut headings = Vec::with_capacity(list.len());
        let mut heading = None;
        let mut repeats = HashMap::new();
        let mut hashes = Vec::with_capacity(list.len());
        let mut said_before = Vec::with_capacity(list.len());
        let (mut first_h1, mut last_h1) = (None, None);
        for (at, block) in list.iter().enumerate() {
            let element = tagged(page, block);
            if element.heading_level().is_some() {
                heading = Some(at);
            }
            if element == Element::H1 {
                first_h1 = first_h1.or(Some(at));
                last_h1 = Some(at);
            }
            headings.push(heading);
            let text = page.blocks.text_of(block);
            let hash = hash(&text[..text.floor_char_boundary(200)]);
            let times = repeats.entry(hash).or_insert(0);
            said_before.push(*times);
            *times += 1;
            hashes.push(hash);
            let words = block.words as f32;
            let brief = Brief {
                words,
                link_share: block.link_words as f32 / words,
                worded: f32::from(u8::from(element == Element::P)),
                score: line_score(block, text, lexicon),
                class: page.contexts.list[block.holder].sum,
                heading: element.heading_level().map_or(0.0, f32::from),
                long: f32::from(u8::from(words >= 15.0)),
            };
            briefs.push(brief);
            let [all, linked, long] = sums[at];
            sums.push([all + words, linked + block.link_words as f32, long + words * brief.long]);
        }
        let all_words = sums[list.len()][0].max(1.0);
        let starts = starts(page.tree, page.blocks);
        let repeated = |at: usize| repeats.get(&hashes[at]).is_some_and(|&count: &u32| count > 1);
        let alike = std::array::from_fn(|measure| {
            let mean =
                |value: &dyn Fn(usize) -> f32| page.likeness.means(measure, page.blocks, value);
            let link_shares = mean(&|at| briefs[at].link_share);
            let scores = mean(&|at| briefs[at].score);
            let repeats = mean(&|at| bit(repeated(at)));
            // Weighted by words as all means are: what a word of the class stands in.
            let words = mean(&|at| briefs[at].words);
            let sizes = page.likeness.sizes(measure);
            let make = |class: usize| Alike {
                blocks: sizes[class] as f32,
                words: words[class],
                link_share: link_shares[class],
                score: scores[class],
                repeats: repeats[class],
            };
            (0..sizes.len()).map(make).collect()
        });
        Self {
            page,
            briefs,
            sums,
            starts,
            headings,
            first_h1,
            last_h1,
            repeats,
            hashes,
            said_before,
            alike,
            all_words,
        }
    }

    fn row(&self, at: usize, out: &mut Vec<f32>) {
        let block = &self.page.blocks.list[at];
        self.text_itself(at, block, out);
        self.structure(block, out);
        self.holders(at, block, out);
        self.neighbours(at, out);
        self.place(at, out);
        self.records(block, out);
        self.kin(at, out);
        self.methods(at, block, out);
        out.extend_from_slice(self.page.types);
    }

    fn text_itself(&self, at: usize, block: &Block, out: &mut Vec<f32>) {
        let text = self.page.blocks.text_of(block);
        let brief = &self.briefs[at];
        let (mut letters, mut upper, mut digits, mut marks, mut commas) = (0, 0, 0, 0, 0);
        for c in text.chars().take(2_000) {
            letters += u32::from(c.is_alphabetic());
            upper += u32::from(c.is_uppercase());
            digits += u32::from(c.is_ascii_digit());
            marks += u32::from(matches!(c, '.' | '!' | '?' | '。' | ';' | ':'));
            commas += u32::from(matches!(c, ',' | '،' | '、'));
        }
        let characters = text.len().clamp(1, 2_000) as f32;
        let last = text.chars().next_back().unwrap_or(' ');
        out.extend([
            brief.words,
            text.len() as f32 / brief.words,
            brief.link_share,
            block.links as f32,
            block.strong_words as f32 / brief.words,
            upper as f32 / letters.max(1) as f32,
            digits as f32 / characters,
            marks as f32,
            commas as f32,
            bit(matches!(last, '.' | '!' | '?' | '。' | '"' | '”')),
            bit(matches!(last, ':')),
            bit(matches!(last, '…' | '»' | '›' | '→' | '>')),
            bit(text.contains(['©', '®'])),
            bit(text.contains(['$', '€', '£'])),
            bit(text.contains(['|', '·', '•'])),
            bit(text.starts_with(|c: char| c.is_lowercase())),
            block.images as f32,
            brief.score,
            self.repeats.get(&self.hashes[at]).copied().unwrap_or(1) as f32,
            self.said_before[at] as f32,
            bit(is_in(text, self.page.title, 3)),
            bit(is_in(text, self.page.description, 12)),
            bit(text.contains('\n')),
            bit(shows_date(block, text)),
        ]);
    }

    fn structure(&self, block: &Block, out: &mut Vec<f32>) {
        let element = tagged(self.page, block);
        out.push(kind_of(element));
        out.push(element.heading_level().map_or(0.0, f32::from));
        let context = &self.page.contexts.list[block.holder];
        let flags = context.flags;
        for place in 0..flag::COUNT {
            out.push(bit(flags & (1 << place) != 0));
        }
        out.extend([
            context.sum,
            context.least,
            context.most,
            context.nearest,
            context.own,
            f32::from(self.page.tree.nodes[block.holder].depth),
        ]);
    }

    /// How full of text are the elements around it?
    fn holders(&self, at: usize, block: &Block, out: &mut Vec<f32>) {
        let mut node = block.holder;
        for level in 0..5 {
            let range = self.starts[node]..self.starts[self.page.tree.nodes[node].end()];
            let [words, linked, long] = self.within(range.clone());
            out.extend([
                words / self.all_words,
                linked / words.max(1.0),
                long / words.max(1.0),
                range.len() as f32,
            ]);
            if level > 0 {
                out.push((at - range.start.min(at)) as f32 / range.len().max(1) as f32);
                out.push(kind_of(self.page.tree.element(node)));
                out.push(self.page.contexts.list[node].own);
            }
            // Up to the next element that holds more.
            let held = range.len();
            while node > 0 {
                node = self.page.tree.nodes[node].parent();
                let end = self.page.tree.nodes[node].end();
                if self.starts[end] - self.starts[node] > held {
                    break;
                }
            }
        }
    }

    fn within(&self, range: std::ops::Range<usize>) -> [f32; 3] {
        let (from, to) = (self.sums[range.start], self.sums[range.end.max(range.start)]);
        [to[0] - from[0], to[1] - from[1], to[2] - from[2]]
    }

    fn neighbours(&self, at: usize, out: &mut Vec<f32>) {
        for step in [-3_isize, -2, -1, 1, 2, 3] {
            let brief = at
                .checked_add_signed(step)
                .and_then(|at| self.briefs.get(at).copied())
                .unwrap_or_default();
            out.extend([brief.words, brief.link_share, brief.score, brief.class, brief.heading]);
            if step.abs() == 1 {
                out.push(brief.worded);
            }
        }
        for reach in [5, 15] {
            let from = at.saturating_sub(reach);
            let to = (at + reach + 1).min(self.briefs.len());
            let [words, linked, long] = self.within(from..to);
            out.extend([
                words / (to - from) as f32,
                linked / words.max(1.0),
                long / words.max(1.0),
            ]);
        }
    }

    fn place(&self, at: usize, out: &mut Vec<f32>) {
        let count = self.briefs.len() as f32;
        let [_, _, all_long] = self.sums[self.briefs.len()];
        let [before, _, long_before] = self.sums[at];
        out.extend([
            at as f32,
            at as f32 / count,
            count - at as f32,
            before / self.all_words,
            long_before / all_long.max(1.0),
            (all_long - long_before) / all_long.max(1.0),
            count,
            self.all_words,
            all_long / self.all_words,
            self.first_h1.map_or(-1_000.0, |h1| at as f32 - h1 as f32),
            self.last_h1.map_or(-1_000.0, |h1| at as f32 - h1 as f32),
        ]);
        match self.headings[at] {
            Some(heading) => {
                let brief = &self.briefs[heading];
                let holder = self.page.blocks.list[heading].holder;
                out.extend([
                    (at - heading) as f32,
                    brief.heading,
                    brief.score,
                    brief.words,
                    brief.class,
                    f32::from(self.page.tree.nodes[holder].depth)
                        - f32::from(self.page.tree.nodes[self.page.blocks.list[at].holder].depth),
                ]);
            }
            None => out.extend([-1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        }
    }

    fn records(&self, block: &Block, out: &mut Vec<f32>) {
        let context = &self.page.contexts.list[block.holder];
        for group in [context.outer_group, context.inner_group] {
            if group == NONE {
                out.extend([0.0; 7]);
                continue;
            }
            let group = &self.page.contexts.groups[group as usize];
            let records = group.records as f32;
            out.extend([
                records,
                group.words as f32 / records,
                group.link_words as f32 / group.words.max(1) as f32,
                group.words as f32 / self.all_words,
                f32::from(self.page.tree.nodes[group.parent].depth),
                group.prices as f32 / records,
                group.dates as f32 / records,
            ]);
        }
    }

    /// What is true of the blocks that are made like this one.
    fn kin(&self, at: usize, out: &mut Vec<f32>) {
        for (alike, &class) in self.alike.iter().zip(&self.page.likeness.classes[at]) {
            let alike = &alike[class as usize];
            out.extend([alike.blocks, alike.words, alike.link_share, alike.score, alike.repeats]);
        }
    }

    fn methods(&self, at: usize, block: &Block, out: &mut Vec<f32>) {
        let candidates = self.page.candidates;
        for range in [&candidates.dense, &candidates.run] {
            let [words, linked, _] = self.within(range.clone());
            let outside = if at < range.start {
                at as f32 - range.start as f32
            } else if at >= range.end {
                (at + 1 - range.end) as f32
            } else {
                0.0
            };
            out.extend([
                bit(range.contains(&at)),
                outside,
                words / self.all_words,
                linked / words.max(1.0),
            ]);
        }
        let flags = self.page.contexts.list[block.holder].flags;
        out.push(if candidates.meant == 0 { -1.0 } else { bit(flags & candidates.meant != 0) });
        out.push(candidates.meant.trailing_zeros() as f32);
        let data_words = self.page.data.len() as f32 / 6.0;
        out.push(data_words / self.all_words);
        out.push(bit(is_in(self.page.blocks.text_of(block), self.page.data, 15)));
    }
}

fn bit(is: bool) -> f32 {
    f32::from(u8::from(is))
}

/// A short line with a sum of money in it.
pub(crate) fn shows_price(block: &Block, text: &str) -> bool {
    block.words <= SHORT_WORDS_MAX
        && text.contains(['$', '€', '£', '¥'])
        && text.bytes().any(|byte| byte.is_ascii_digit())
}

/// A short line that looks like a date or an age: a number beside a month, a weekday or `ago`.
pub(crate) fn shows_date(block: &Block, text: &str) -> bool {
    const NAMES: [&str; 17] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", "ago",
        "day", "hour", "week", "year",
    ];
    if block.words > SHORT_WORDS_MAX || !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let named = text_words(text).any(|word| {
        let start = word.get(..3).unwrap_or("").to_ascii_lowercase();
        word.len() <= 9 && NAMES.iter().any(|name| name[..3] == start)
    });
    // 2024-05-17, 17.05.2024, 5/17/24
    let marks = |mark: char| text.matches(mark).count() == 2;
    named || block.words <= 6 && (marks('-') || marks('.') || marks('/'))
}

/// Whether the start of a text, at least so many bytes of it, stands in another.
fn is_in(text: &str, other: &str, bytes_min: usize) -> bool {
    let start = &text[..text.floor_char_boundary(60)];
    start.len() >= bytes_min && !other.is_empty() && other.contains(start)
}

/// The element that says what a block is: its holder, or a heading that holds just that.
fn tagged(page: &Surroundings<'_>, block: &Block) -> Element {
    let mut node = block.holder;
    for _ in 0..3 {
        let element = page.tree.element(node);
        if element.heading_level().is_some() {
            return element;
        }
        node = page.tree.nodes[node].parent();
    }
    page.tree.element(block.holder)
}

/// Sorts elements by how often they hold content, so that one cut of a tree parts them.
fn kind_of(element: Element) -> f32 {
    use Element::*;
    match element {
        Nav | Footer => 0.0,
        Button | Label | Form => 1.0,
        Aside | Header => 2.0,
        Html | Body => 3.0,
        Unknown => 4.0,
        Div => 5.0,
        Section => 6.0,
        Ul | Ol => 7.0,
        Li => 8.0,
        Th => 9.0,
        Td => 10.0,
        Tr | Table => 11.0,
        Dt => 12.0,
        Dd => 13.0,
        Summary | Details => 14.0,
        Figcaption | Caption | Figure => 15.0,
        H1 => 16.0,
        H2 => 17.0,
        H3 => 18.0,
        H4 => 19.0,
        H5 | H6 => 20.0,
        Main => 21.0,
        Article => 22.0,
        Blockquote => 23.0,
        Pre => 24.0,
        P => 25.0,
        _ => 4.5,
    }
}

/// The mean score of a short line's words.
fn line_score(block: &Block, text: &str, lexicon: &dyn Lexicon) -> f32 {
    if block.words > SHORT_WORDS_MAX {
        return 0.0;
    }
    let (mut sum, mut words) = (0.0, 0.0_f32);
    for word in text_words(text) {
        sum += lexicon.word(hash(word));
        words += 1.0;
    }
    sum / words.max(1.0).sqrt()
}
