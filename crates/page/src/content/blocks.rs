//! Into which pieces does the text of a page fall?
//!
//! A block is a run of text without a block element's border in it: a paragraph, a heading, a cell,
//! the words between two `<div>`. Two line breaks in a row part blocks as well, as old pages write
//! paragraphs that way. What is main content is decided block by block.
//!
//! Always: blocks are in document order; all their text lies in one buffer; white space is
//! collapsed but in `<pre>`.

use std::ops::Range;

use crate::content::element::{Element, Flow};
use crate::content::tree::{NodeId, Tree};

/// The page with most text in the development set has 12,000; more are counted as one.
pub(crate) const BLOCKS_MAX: usize = 20_000;

#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The nodes it was read from, without a block element among them.
    pub(crate) nodes: Range<NodeId>,
    /// The block element around it.
    pub(crate) holder: NodeId,
    /// Its place in [`Blocks::text`].
    pub(crate) text: Range<usize>,
    pub(crate) words: u32,
    pub(crate) link_words: u32,
    pub(crate) strong_words: u32,
    pub(crate) links: u32,
    /// Images since the block before.
    pub(crate) images: u32,
    pub(crate) preformatted: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Blocks {
    pub(crate) text: String,
    pub(crate) list: Vec<Block>,
}

impl Blocks {
    pub(crate) fn of(tree: &Tree<'_>) -> Self {
        let mut cutter = Cutter::new(tree);
        let mut id = 1;
        while id < tree.nodes.len() && cutter.blocks.list.len() < BLOCKS_MAX {
            id = cutter.visit(id);
        }
        cutter.flush(tree.nodes.len());
        cutter.blocks
    }

    pub(crate) fn text_of(&self, block: &Block) -> &str {
        &self.text[block.text.clone()]
    }
}

struct Cutter<'t, 'a> {
    tree: &'t Tree<'a>,
    blocks: Blocks,
    /// Open block elements: where each ends.
    open: Vec<(NodeId, NodeId)>,
    /// Open inline elements that matter end here.
    link_end: NodeId,
    strong_end: NodeId,
    pre_end: NodeId,
    /// The block that is being gathered.
    from: NodeId,
    text_from: usize,
    words: u32,
    link_words: u32,
    strong_words: u32,
    links: u32,
    images: u32,
    /// White space is due before the next word.
    space: bool,
    breaks: u32,
}

impl<'t, 'a> Cutter<'t, 'a> {
    fn new(tree: &'t Tree<'a>) -> Self {
        Self {
            tree,
            blocks: Blocks::default(),
            open: vec![(0, tree.nodes.len())],
            link_end: 0,
            strong_end: 0,
            pre_end: 0,
            from: 1,
            text_from: 0,
            words: 0,
            link_words: 0,
            strong_words: 0,
            links: 0,
            images: 0,
            space: false,
            breaks: 0,
        }
    }

    /// Takes in a node; gives the next one to look at.
    fn visit(&mut self, id: NodeId) -> NodeId {
        while self.open.len() > 1 && self.open.last().is_some_and(|&(_, end)| end <= id) {
            self.flush(id);
            self.open.pop();
        }
        let node = &self.tree.nodes[id];
        match node.element {
            Element::Text | Element::Literal => self.text(id),
            Element::Br => self.line_break(id),
            Element::Img => self.images += 1,
            element => match element.flow() {
                Flow::Silent => return node.end(),
                Flow::Block => {
                    self.flush(id);
                    self.open.push((id, node.end()));
                    if element == Element::Pre {
                        self.pre_end = node.end();
                    }
                }
                Flow::Inline => self.inline(id),
            },
        }
        id + 1
    }

    fn inline(&mut self, id: NodeId) {
        let end = self.tree.nodes[id].end();
        self.space |= stands_alone(self.tree, id);
        match self.tree.element(id) {
            Element::A => {
                self.link_end = self.link_end.max(end);
                self.links += 1;
            }
            Element::B | Element::Strong => self.strong_end = self.strong_end.max(end),
            _ => {}
        }
    }

    fn text(&mut self, id: NodeId) {
        let text = self.tree.text(id);
        let words_before = self.words;
        if id < self.pre_end {
            self.words += count_words(&text);
            self.blocks.text.push_str(&text);
        } else {
            self.space |= text.starts_with(char::is_whitespace);
            for word in text.split_whitespace() {
                if self.space && self.blocks.text.len() > self.text_from {
                    let after_break = self.blocks.text.ends_with('\n');
                    self.blocks.text.push_str(if after_break { "" } else { " " });
                }
                self.words += count_words(word);
                self.blocks.text.push_str(word);
                self.space = true;
                self.breaks = 0;
            }
            self.space =
                text.ends_with(char::is_whitespace) || self.space && text.trim_ascii().is_empty();
        }
        let words = self.words - words_before;
        if id < self.link_end {
            self.link_words += words;
        }
        if id < self.strong_end {
            self.strong_words += words;
        }
    }

    fn line_break(&mut self, id: NodeId) {
        if id < self.pre_end {
            self.blocks.text.push('\n');
            return;
        }
        self.breaks += 1;
        if self.breaks > 1 {
            self.flush(id);
        } else if self.blocks.text.len() > self.text_from {
            self.blocks.text.push('\n');
        }
        self.space = false;
    }

    /// Ends the block before node `id`.
    fn flush(&mut self, id: NodeId) {
        let text = &mut self.blocks.text;
        text.truncate(self.text_from.max(text.trim_end().len()));
        if text.len() > self.text_from && self.words > 0 {
            let (holder, _) = self.open.last().copied().unwrap_or((0, 0));
            self.blocks.list.push(Block {
                nodes: self.from..id,
                holder,
                text: self.text_from..text.len(),
                words: self.words,
                link_words: self.link_words.min(self.words),
                strong_words: self.strong_words.min(self.words),
                links: self.links,
                images: self.images,
                preformatted: self.from < self.pre_end,
            });
            self.images = 0;
        } else {
            text.truncate(self.text_from);
        }
        self.from = id;
        self.text_from = self.blocks.text.len();
        (self.words, self.link_words, self.strong_words, self.links) = (0, 0, 0, 0);
        self.space = false;
        self.breaks = 0;
    }
}

/// Whether an inline element is set apart from the one before, without white space: links, labels
/// and times in a row are laid out as boxes, as nobody means their words to run together.
pub(crate) fn stands_alone(tree: &Tree<'_>, id: NodeId) -> bool {
    use Element::*;
    let element = tree.element(id);
    if !matches!(element, A | Label | Time | Span) {
        return false;
    }
    let parent = tree.nodes[id].parent();
    // The sibling before ends here; its last node is the one before, or holds it.
    let mut before = id - 1;
    while before > parent && tree.nodes[before].parent() != parent {
        before = tree.nodes[before].parent();
    }
    if before <= parent || tree.element(before) != element || tree.nodes[before].end() != id {
        return false;
    }
    // A span may be one letter of a word; a change to upper case is a new one.
    element != Span || ends_low(tree, id) && begins_high(tree, id)
}

fn ends_low(tree: &Tree<'_>, id: NodeId) -> bool {
    let last = &tree.nodes[id - 1];
    last.element.is_text()
        && tree.text(id - 1).ends_with(|c: char| c.is_lowercase() || c.is_ascii_digit())
}

fn begins_high(tree: &Tree<'_>, id: NodeId) -> bool {
    let first = (id + 1..tree.nodes[id].end()).find(|&id| tree.element(id).is_text());
    first.is_some_and(|id| tree.text(id).starts_with(char::is_uppercase))
}

/// How many words a text has: runs of letters and digits.
pub(crate) fn count_words(text: &str) -> u32 {
    let mut words = 0;
    let mut inside = false;
    for c in text.chars() {
        let is_word = is_word(c);
        words += u32::from(is_word && !inside);
        inside = is_word;
    }
    words
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(html: &str) -> Vec<String> {
        let tree = Tree::parse(html, false);
        let blocks = Blocks::of(&tree);
        blocks.list.iter().map(|block| blocks.text_of(block).to_owned()).collect()
    }

    #[test]
    fn block_elements_and_double_breaks_part_the_text() {
        assert_eq!(
            blocks("<p>a <b>b</b>c<i> d</i></p> e <div>f<br>g<br><br>h</div><ul><li>i<li>j</ul>"),
            ["a bc d", "e", "f\ng", "h", "i", "j"]
        );
    }

    #[test]
    fn white_space_is_kept_only_where_it_means_something() {
        assert_eq!(blocks("<p> a\n\n b&nbsp;c </p>"), ["a b c"]);
        assert_eq!(blocks("<pre>a\n  b</pre>"), ["a\n  b"]);
    }

    #[test]
    fn links_in_a_row_are_words_of_their_own() {
        assert_eq!(blocks("<p><a>Home</a><a>Shop</a></p>"), ["Home Shop"]);
        assert_eq!(blocks("<p><span>M</span><span>ay</span><span>June</span>"), ["May June"]);
    }

    #[test]
    fn what_is_not_shown_is_not_text() {
        assert_eq!(
            blocks("<script>x</script><style>x</style><svg><text>x</text></svg><p>a"),
            ["a"]
        );
    }
}
