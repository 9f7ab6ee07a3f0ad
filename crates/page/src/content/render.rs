//! How is the chosen text written down?
//!
//! Twice, from the same blocks: as plain text with paragraphs, headings, lists, tables and code
//! kept apart, and as markdown. A block is written as what its elements make of it: the first block
//! of a list item gets its bullet, the cells of a row share a line, lines of code are fenced.
//!
//! Plain text: blocks apart by an empty line; items of one list and rows of one table on lines of
//! their own; cells apart by ` | `.

use std::ops::Range;

use url::Url;

use crate::content::blocks::{Block, Blocks, stands_alone};
use crate::content::element::{Element, Flow};
use crate::content::tree::{NodeId, Tree};
use crate::links::resolve;

/// The chosen blocks, in order.
#[derive(Debug)]
pub(crate) struct Chosen<'c> {
    pub(crate) tree: &'c Tree<'c>,
    pub(crate) blocks: &'c Blocks,
    pub(crate) taken: &'c [bool],
    /// What links and images are relative to.
    pub(crate) base: Option<&'c Url>,
}

/// What a block is by the elements around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Role {
    heading: Option<u8>,
    /// The innermost item, its list, how deep it lies and which one it is.
    item: Option<NodeId>,
    list: NodeId,
    depth: usize,
    row: Option<NodeId>,
    cell: NodeId,
    table: NodeId,
    is_header_cell: bool,
    quotes: usize,
    code: bool,
    term: bool,
}

/// Levels that are looked at above a block; the tree is at most that deep.
const LEVELS_MAX: usize = 256;

fn role(tree: &Tree<'_>, block: &Block) -> Role {
    let mut role = Role { code: block.preformatted, ..Role::default() };
    let mut node = block.holder;
    for _ in 0..LEVELS_MAX {
        let element = tree.element(node);
        match element {
            Element::Li if role.item.is_none() && role.row.is_none() => role.item = Some(node),
            Element::Ul | Element::Ol | Element::Menu if role.item.is_some() => {
                role.depth += 1;
                if role.list == 0 {
                    role.list = node;
                }
            }
            Element::Td | Element::Th if role.cell == 0 && role.item.is_none() => {
                role.cell = node;
                role.is_header_cell = element == Element::Th;
            }
            Element::Tr if role.row.is_none() && role.cell != 0 => role.row = Some(node),
            Element::Table if role.table == 0 && role.row.is_some() => role.table = node,
            Element::Blockquote => role.quotes += 1,
            Element::Dt => role.term = true,
            _ => {
                if role.heading.is_none() && role.item.is_none() {
                    role.heading = element.heading_level();
                }
            }
        }
        if node == 0 {
            break;
        }
        node = tree.nodes[node].parent();
    }
    role
}

impl Chosen<'_> {
    fn each(&self) -> impl Iterator<Item = (&Block, Role)> {
        let list = self.blocks.list.iter().zip(self.taken);
        list.filter(|(_, taken)| **taken).map(|(block, _)| (block, role(self.tree, block)))
    }

    /// The plain text.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let mut before: Option<Role> = None;
        for (block, role) in self.each() {
            let text = self.blocks.text_of(block).trim_matches('\n').trim_end();
            if let Some(before) = before {
                out.push_str(match join(&before, &role) {
                    Join::Cell => " | ",
                    Join::Line => "\n",
                    Join::Paragraph => "\n\n",
                });
            }
            if before.is_none_or(|before| before.item != role.item) && role.item.is_some() {
                out.push_str("- ");
            }
            out.push_str(text);
            before = Some(role);
        }
        out
    }

    pub(crate) fn markdown(&self) -> String {
        let mut out = String::new();
        let mut before: Option<Role> = None;
        let mut table = Table::default();
        for (block, role) in self.each() {
            if role.row.is_some() && !role.code {
                if table.id != role.table && !table.rows.is_empty() {
                    table.write(&mut out);
                }
                let content = self.inline(block);
                table.add(&role, &content);
                before = Some(role);
                continue;
            }
            table.write(&mut out);
            self.markdown_block(block, &role, before.as_ref(), &mut out);
            before = Some(role);
        }
        table.write(&mut out);
        out.truncate(out.trim_end().len());
        out
    }

    fn markdown_block(&self, block: &Block, role: &Role, before: Option<&Role>, out: &mut String) {
        let quote = "> ".repeat(role.quotes.min(4));
        let same_item = role.item.is_some() && before.is_some_and(|b| b.item == role.item);
        let same_list =
            role.item.is_some() && before.is_some_and(|b| b.item.is_some()) && !same_item;
        if !out.is_empty() {
            let quotes = before.map_or(0, |b| b.quotes).min(role.quotes);
            out.push('\n');
            if !same_list {
                out.push_str("> ".repeat(quotes.min(4)).trim_end());
                out.push('\n');
            }
        }
        let indent = "  ".repeat(role.depth.saturating_sub(1).min(8));
        let mut lead = quote.clone();
        if role.item.is_some() {
            lead.push_str(&indent);
            lead.push_str(if same_item { "  " } else { self.bullet(role) });
        }
        if role.code {
            let text = self.blocks.text_of(block).trim_matches('\n').trim_end();
            let fence = fence(text);
            let continued = format!("{quote}{indent}");
            out.push_str(&format!("{lead}{fence}\n"));
            for line in text.lines() {
                out.push_str(&format!("{continued}{line}\n"));
            }
            out.push_str(&format!("{continued}{fence}"));
            return;
        }
        let content = self.inline(block);
        if let Some(level) = role.heading {
            out.push_str(&format!("{quote}{} ", "#".repeat(usize::from(level))));
            out.push_str(&content.replace('\n', " "));
            return;
        }
        out.push_str(&lead);
        if role.term {
            out.push_str(&format!("**{}**", content.trim_matches('*')));
            return;
        }
        let hang: String = quote + if role.item.is_some() { "  " } else { "" } + &indent;
        for (at, line) in content.lines().enumerate() {
            if at > 0 {
                // Two spaces: the break was on the page.
                out.push_str("  \n");
                out.push_str(&hang);
            }
            out.push_str(line);
        }
    }

    fn bullet(&self, role: &Role) -> &'static str {
        if self.tree.element(role.list) == Element::Ol { "1. " } else { "- " }
    }

    /// The text of a block with emphasis, code, links and images marked.
    fn inline(&self, block: &Block) -> String {
        let mut writer =
            Inline { chosen: self, out: String::new(), open: Vec::new(), space: false };
        writer.run(block.nodes.clone());
        writer.out.truncate(writer.out.trim_end().len());
        writer.out
    }
}

enum Join {
    Cell,
    Line,
    Paragraph,
}

fn join(before: &Role, after: &Role) -> Join {
    if after.row.is_some() && before.row == after.row {
        return if before.cell == after.cell { Join::Line } else { Join::Cell };
    }
    let same_table = after.table != 0 && before.table == after.table;
    let same_lists = after.item.is_some() && before.item.is_some() && after.item != before.item;
    if same_table || same_lists { Join::Line } else { Join::Paragraph }
}

/// A fence that is longer than any within.
fn fence(text: &str) -> String {
    let longest =
        text.lines().map(|line| line.bytes().take_while(|&byte| byte == b'`').count()).max();
    "`".repeat(longest.unwrap_or(0).max(2) + 1)
}

/// A table whose rows are being gathered.
#[derive(Default)]
struct Table {
    id: NodeId,
    rows: Vec<Vec<String>>,
    row: Option<NodeId>,
    cell: NodeId,
}

/// Cells of a row that are written; wider tables are layout.
const CELLS_MAX: usize = 100;

impl Table {
    fn add(&mut self, role: &Role, content: &str) {
        let content = content.replace('\n', " ").replace('|', "\\|");
        if self.row != role.row || self.rows.is_empty() {
            self.rows.push(Vec::new());
            self.cell = 0;
        }
        (self.id, self.row) = (role.table, role.row);
        let Some(row) = self.rows.last_mut() else { return };
        if self.cell == role.cell
            && let Some(cell) = row.last_mut()
        {
            cell.push_str("<br>");
            cell.push_str(&content);
        } else if row.len() < CELLS_MAX {
            row.push(content);
        }
        self.cell = role.cell;
    }

    fn write(&mut self, out: &mut String) {
        let rows = std::mem::take(&mut self.rows);
        *self = Self::default();
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        if width == 0 {
            return;
        }
        if !out.is_empty() {
            out.push_str("\n\n");
        }
        // One column is no table, but a layout.
        if width == 1 {
            let cells: Vec<String> = rows.into_iter().flatten().collect();
            out.push_str(&cells.join("\n\n").replace("<br>", "\n\n"));
            return;
        }
        for (at, row) in rows.iter().enumerate() {
            out.push('|');
            for column in 0..width {
                out.push_str(&format!(" {} |", row.get(column).map_or("", String::as_str)));
            }
            if at == 0 {
                out.push_str("\n|");
                out.push_str(&" --- |".repeat(width));
            }
            if at + 1 < rows.len() {
                out.push('\n');
            }
        }
    }
}

struct Inline<'i> {
    chosen: &'i Chosen<'i>,
    out: String,
    /// Open marks: where the element ends, and what is written there.
    open: Vec<(NodeId, String, usize)>,
    space: bool,
}

impl Inline<'_> {
    fn run(&mut self, nodes: Range<NodeId>) {
        let tree = self.chosen.tree;
        let mut id = nodes.start;
        // A link around the whole block began before it.
        if let Some(link) = self.link_around(nodes.start) {
            self.open_mark(nodes.end, "[", &format!("]({link})"));
        }
        while id < nodes.end {
            self.close_marks(id);
            let node = &tree.nodes[id];
            if node.element.is_text() {
                self.text(&tree.text(id));
            } else if node.element.flow() == Flow::Silent {
                id = node.end();
                continue;
            } else {
                self.element(id, nodes.end);
            }
            id += 1;
        }
        self.close_marks(NodeId::MAX);
    }

    fn link_around(&self, start: NodeId) -> Option<String> {
        let tree = self.chosen.tree;
        let mut node = start;
        for _ in 0..6 {
            node = tree.nodes[node].parent();
            if tree.element(node) == Element::A {
                return self.address(node, "href");
            }
        }
        None
    }

    fn element(&mut self, id: NodeId, end: NodeId) {
        let tree = self.chosen.tree;
        let until = tree.nodes[id].end().min(end);
        self.space |= stands_alone(tree, id);
        match tree.element(id) {
            Element::B | Element::Strong => self.open_mark(until, "**", "**"),
            Element::I | Element::Em => self.open_mark(until, "*", "*"),
            Element::Code | Element::Kbd | Element::Samp | Element::Tt => {
                self.open_mark(until, "`", "`");
            }
            Element::Del | Element::S | Element::Strike => self.open_mark(until, "~~", "~~"),
            Element::A => {
                if let Some(link) = self.address(id, "href") {
                    self.open_mark(until, "[", &format!("]({link})"));
                }
            }
            Element::Br => {
                self.out.truncate(self.out.trim_end_matches(' ').len());
                if !self.out.is_empty() {
                    self.out.push('\n');
                }
                self.space = false;
            }
            Element::Img => self.image(id),
            _ => {}
        }
    }

    fn image(&mut self, id: NodeId) {
        let alt = self.chosen.tree.attribute(id, "alt").unwrap_or_default();
        let alt = alt.split_whitespace().collect::<Vec<_>>().join(" ");
        if let (false, Some(address)) = (alt.is_empty(), self.address(id, "src")) {
            self.put_space();
            self.out.push_str(&format!("![{}]({address})", alt.replace(['[', ']'], "")));
        }
    }

    fn address(&self, id: NodeId, name: &str) -> Option<String> {
        let href = self.chosen.tree.attribute(id, name)?;
        let url = resolve(self.chosen.base?, href.trim())?;
        Some(url.as_str().replace('(', "%28").replace(')', "%29"))
    }

    fn open_mark(&mut self, end: NodeId, before: &str, after: &str) {
        // The same mark within itself says nothing.
        if self
            .open
            .iter()
            .any(|(_, known, _)| known == after || known.starts_with("](") && before == "[")
        {
            return;
        }
        self.put_space();
        self.out.push_str(before);
        self.open.push((end, after.to_owned(), self.out.len()));
    }

    fn close_marks(&mut self, id: NodeId) {
        while let Some((end, after, from)) = self.open.last().cloned() {
            if end > id {
                return;
            }
            self.open.pop();
            let text_end = self.out.trim_end().len().max(from);
            if text_end == from {
                // Nothing in it: take the mark back.
                let before = if after.starts_with("](") { 1 } else { after.len() };
                self.out.truncate(from - before);
            } else {
                self.space |= self.out.len() > text_end;
                self.out.truncate(text_end);
                self.out.push_str(&after);
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.space |= text.starts_with(char::is_whitespace);
        let in_code = self.open.iter().any(|(_, after, _)| after == "`");
        for word in text.split_whitespace() {
            self.put_space();
            if in_code {
                self.out.push_str(word);
            } else {
                push_escaped(&mut self.out, word);
            }
            self.space = true;
        }
        self.space = text.ends_with(char::is_whitespace) || self.space && text.trim().is_empty();
    }

    fn put_space(&mut self) {
        let at_start = self.out.is_empty()
            || self.out.ends_with(['\n', '[', ' '])
            || self.open.last().is_some_and(|&(_, _, from)| from == self.out.len());
        if self.space && !at_start {
            self.out.push(' ');
        }
        self.space = false;
    }
}

/// Characters that would become marks.
fn push_escaped(out: &mut String, word: &str) {
    for (at, c) in word.char_indices() {
        let inner_underscore =
            c == '_' && at > 0 && word[at + 1..].starts_with(|next: char| next.is_alphanumeric());
        if matches!(c, '*' | '`' | '[' | ']' | '\\' | '<') || c == '_' && !inner_underscore {
            out.push('\\');
        }
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(html: &str) -> (String, String) {
        let tree = Tree::parse(html, false);
        let blocks = Blocks::of(&tree);
        let taken = vec![true; blocks.list.len()];
        let base = Url::parse("https://a.test/x/").unwrap();
        let chosen = Chosen { tree: &tree, blocks: &blocks, taken: &taken, base: Some(&base) };
        (chosen.text(), chosen.markdown())
    }

    #[test]
    fn paragraphs_and_headings_stand_apart() {
        let (text, markdown) =
            both("<h1>Big</h1><p>one <b>two</b>, <a href=../y>three</a></p><p>four<br>five</p>");
        assert_eq!(text, "Big\n\none two, three\n\nfour\nfive");
        assert_eq!(markdown, "# Big\n\none **two**, [three](https://a.test/y)\n\nfour  \nfive");
    }

    #[test]
    fn lists_keep_their_items_together() {
        let (text, markdown) =
            both("<p>a</p><ul><li>b<li>c<ol><li>d</ol><li><p>e</p><p>f</p></ul><p>g");
        assert_eq!(text, "a\n\n- b\n- c\n- d\n- e\n\nf\n\ng");
        assert_eq!(markdown, "a\n\n- b\n- c\n  1. d\n- e\n\n  f\n\ng");
    }

    #[test]
    fn tables_keep_their_rows() {
        let (text, markdown) =
            both("<table><tr><th>k<th>v<tr><td>a|b<td>1<tr><td><p>c</p><p>d</p><td>2</table><p>e");
        assert_eq!(text, "k | v\na|b | 1\nc\nd | 2\n\ne");
        assert_eq!(markdown, "| k | v |\n| --- | --- |\n| a\\|b | 1 |\n| c<br>d | 2 |\n\ne");
    }

    #[test]
    fn code_keeps_its_lines() {
        let (text, markdown) = both("<p>run <code>a  b</code>:</p><pre>if x:\n  y\n```\n</pre>");
        assert_eq!(text, "run a b:\n\nif x:\n  y\n```");
        assert_eq!(markdown, "run `a b`:\n\n````\nif x:\n  y\n```\n````");
    }

    #[test]
    fn quotes_images_and_signs_are_marked() {
        let (_, markdown) = both(
            "<blockquote><p>a<p>b</blockquote><p>1*2 snake_case <img src=i.png alt='An  image'> <b> </b><i>x </i>y",
        );
        assert_eq!(
            markdown,
            "> a\n>\n> b\n\n1\\*2 snake_case ![An image](https://a.test/x/i.png) *x* y"
        );
    }
}
