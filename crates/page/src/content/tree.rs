//! Which element holds which?
//!
//! A tree in one list, in document order: what a node holds follows it, up to its `end`. So a
//! subtree is a range, to walk a page is to count, and nothing here can recurse. Tags and text stay
//! where they are in the page; attributes are read when somebody asks.
//!
//! End tags that may be left out are put in as the HTML standard says. Where it repairs crossed
//! tags by moving nodes (`<b><p></b></p>`, text between table rows), we leave them in place: that
//! changes where bold ends, not what a page says, and it is what makes hostile pages quadratic.
//!
//! Always: time and memory are linear in the page; deeper than [`DEPTH_MAX`] everything lies flat,
//! after [`NODES_MAX`] nodes the page ends.

use std::borrow::Cow;

use crate::attributes::Attributes;
use crate::content::element::Element;
use crate::tokens::{StartTag, Token, Tokens};

/// Real pages stay below a hundred; browsers flatten at 512.
const DEPTH_MAX: usize = 256;

/// The largest pages of real sites have about 100,000; beyond it is a dump or a trap.
const NODES_MAX: usize = 400_000;

/// A node's place in the tree; the root is 0.
pub(crate) type NodeId = usize;

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) element: Element,
    /// An element of SVG or MathML.
    pub(crate) foreign: bool,
    pub(crate) depth: u16,
    parent: u32,
    end: u32,
    /// Of text its own place in the page; of an element, that of its attributes.
    from: u32,
    to: u32,
}

impl Node {
    pub(crate) fn parent(&self) -> NodeId {
        self.parent as usize
    }

    /// The first node that is not in this one.
    pub(crate) fn end(&self) -> NodeId {
        self.end as usize
    }
}

#[derive(Debug)]
pub(crate) struct Tree<'a> {
    pub(crate) page: &'a str,
    pub(crate) nodes: Vec<Node>,
}

impl<'a> Tree<'a> {
    pub(crate) fn parse(page: &'a str, xml: bool) -> Self {
        let mut builder = Builder::new(page);
        for token in Tokens::all(page, xml) {
            match token {
                Token::Start(start) => builder.start(&start),
                Token::End(_, name) => builder.end(Element::of(&name)),
                Token::Text(text) => builder.text(text, Element::Text),
                Token::Cdata(text) => builder.text(text, Element::Literal),
            }
            if builder.tree.nodes.len() >= NODES_MAX {
                break;
            }
        }
        builder.close_to(0);
        builder.tree.nodes[0].end = builder.tree.nodes.len() as u32;
        builder.tree
    }

    pub(crate) fn element(&self, id: NodeId) -> Element {
        self.nodes[id].element
    }

    /// The element whose attributes begin at this place in the page.
    pub(crate) fn node_at(&self, at: usize) -> Option<NodeId> {
        // Nodes are in the order of the page, but for the root, which may have been told late.
        let below = self.nodes.get(1..)?;
        let id = 1 + below.partition_point(|node| (node.from as usize) < at);
        let node = self.nodes.get(id)?;
        (node.from as usize == at && !node.element.is_text()).then_some(id)
    }

    /// The text of a text node.
    pub(crate) fn text(&self, id: NodeId) -> Cow<'a, str> {
        let node = &self.nodes[id];
        let raw = &self.page[node.from as usize..node.to as usize];
        match node.element {
            Element::Text => htmlize::unescape(raw),
            _ => Cow::Borrowed(raw),
        }
    }

    /// The text of a script, as written.
    pub(crate) fn raw_text(&self, id: NodeId) -> &'a str {
        match self.nodes.get(id + 1) {
            Some(node) if id + 1 < self.nodes[id].end() && node.element.is_text() => {
                &self.page[node.from as usize..node.to as usize]
            }
            _ => "",
        }
    }

    /// All text below a node, white space collapsed, at most so many bytes of it.
    pub(crate) fn text_below(&self, id: NodeId, bytes_max: usize) -> String {
        let mut words = crate::text::Words::new(bytes_max);
        let mut at = id + 1;
        while at < self.nodes[id].end() {
            let node = &self.nodes[at];
            match node.element {
                Element::Text => words.add(&self.page[node.from as usize..node.to as usize]),
                Element::Literal => {
                    words.add_literal(&self.page[node.from as usize..node.to as usize]);
                }
                Element::Script | Element::Style | Element::Template => {
                    at = node.end();
                    continue;
                }
                element if element.is_block() || element == Element::Br => words.add_literal(" "),
                _ => {}
            }
            at += 1;
        }
        words.into_string()
    }

    /// The attributes of an element: name and value as written.
    pub(crate) fn attributes(&self, id: NodeId) -> impl Iterator<Item = (&'a str, &'a str)> {
        let page = self.page;
        let node = &self.nodes[id];
        // A text node has none; its range holds no tag.
        let at = if node.element.is_text() { page.len() } else { node.from as usize };
        Attributes::new(page.as_bytes(), at)
            .map(move |attribute| (&page[attribute.name], &page[attribute.value]))
    }

    /// The value of one attribute, character references decoded.
    pub(crate) fn attribute(&self, id: NodeId, name: &str) -> Option<Cow<'a, str>> {
        self.attributes(id)
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| htmlize::unescape_attribute(value))
    }

    /// The elements right below a node, in order.
    pub(crate) fn children(&self, id: NodeId) -> Children<'_, 'a> {
        Children { tree: self, at: id + 1, end: self.nodes[id].end() }
    }
}

#[derive(Debug)]
pub(crate) struct Children<'t, 'a> {
    tree: &'t Tree<'a>,
    at: NodeId,
    end: NodeId,
}

impl Iterator for Children<'_, '_> {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        while self.at < self.end {
            let id = self.at;
            self.at = self.tree.nodes[id].end();
            if !self.tree.element(id).is_text() {
                return Some(id);
            }
        }
        None
    }
}

struct Builder<'a> {
    tree: Tree<'a>,
    /// Open elements, the root first.
    open: Vec<NodeId>,
    /// Start tags below the deepest level that were not closed yet.
    sunken: usize,
    has: Singles,
}

/// Elements a page has once; their second start tag means nothing.
#[derive(Default)]
struct Singles {
    html: Option<NodeId>,
    head: Option<NodeId>,
    body: Option<NodeId>,
}

impl<'a> Builder<'a> {
    fn new(page: &'a str) -> Self {
        let root = Node {
            element: Element::Html,
            foreign: false,
            depth: 0,
            parent: 0,
            end: 0,
            from: page.len() as u32,
            to: 0,
        };
        let nodes = Vec::with_capacity(page.len() / 24 + 1);
        let mut tree = Tree { page, nodes };
        tree.nodes.push(root);
        Self { tree, open: vec![0], sunken: 0, has: Singles::default() }
    }

    fn start(&mut self, start: &StartTag<'_>) {
        let element = Element::of(&start.name);
        if !start.foreign && self.is_repeated(element) {
            // Its attributes may still be the ones that count: `<html lang>` after a stray tag.
            if element == Element::Html && self.has.html.is_none() {
                self.has.html = Some(0);
                self.tree.nodes[0].from = start.attributes_at as u32;
            }
            return;
        }
        if !start.foreign {
            self.imply_end_tags(element);
        }
        let id = self.push(element, start.attributes_at, 0);
        self.tree.nodes[id].foreign = start.foreign;
        match element {
            Element::Head => self.has.head = Some(id),
            Element::Body => self.has.body = Some(id),
            _ => {}
        }
        let closed = if start.foreign { start.self_closed } else { element.is_void() };
        if closed {
            return;
        }
        if self.open.len() >= DEPTH_MAX {
            self.sunken += 1;
        } else {
            self.open.push(id);
        }
    }

    fn is_repeated(&self, element: Element) -> bool {
        match element {
            Element::Html => true,
            Element::Head => self.has.head.is_some() || self.has.body.is_some(),
            Element::Body => self.has.body.is_some(),
            _ => false,
        }
    }

    fn push(&mut self, element: Element, from: usize, to: usize) -> NodeId {
        let id = self.tree.nodes.len();
        let parent = self.open.last().copied().unwrap_or(0);
        self.tree.nodes.push(Node {
            element,
            foreign: false,
            depth: self.tree.nodes[parent].depth + 1,
            parent: parent as u32,
            end: id as u32 + 1,
            from: from as u32,
            to: to as u32,
        });
        id
    }

    fn text(&mut self, text: &str, element: Element) {
        // Slices of the page: where they lie is a difference of addresses.
        let from = text.as_ptr() as usize - self.tree.page.as_ptr() as usize;
        self.push(element, from, from + text.len());
    }

    fn top(&self) -> Element {
        self.tree.element(self.open.last().copied().unwrap_or(0))
    }

    fn imply_end_tags(&mut self, next: Element) {
        use Element::*;
        // What a page shows begins where the head ends, also when nobody says so.
        if let Some(head) = self.has.head
            && self.open.get(1) == Some(&head)
            && self.open.len() == 2
            && !belongs_in_head(next)
        {
            self.close_to(1);
        }
        if next.ends_paragraph() {
            self.close(&[P], &[Button]);
        }
        match next {
            Li => self.close(&[Li], &[Ul, Ol, Menu]),
            Dd | Dt => self.close(&[Dd, Dt], &[Dl]),
            Tr => self.close_table_part(&[Tr]),
            Td | Th => self.close_table_part(&[Td, Th]),
            Thead | Tbody | Tfoot => self.close_table_part(&[Thead, Tbody, Tfoot, Caption]),
            Option | Optgroup => self.close(&[Option], &[Select, Datalist]),
            A => self.close_inline(A),
            Button => self.close(&[Button], &[]),
            H1 | H2 | H3 | H4 | H5 | H6 if self.top().heading_level().is_some() => {
                self.close_to(self.open.len() - 1);
            }
            _ => {}
        }
    }

    /// Closes the nearest open one of these, unless a wall or one of `walls` is in between.
    fn close(&mut self, elements: &[Element], walls: &[Element]) {
        for place in (1..self.open.len()).rev() {
            let element = self.tree.element(self.open[place]);
            if elements.contains(&element) {
                return self.close_to(place);
            }
            if element.is_wall() || walls.contains(&element) {
                return;
            }
        }
    }

    /// Rows and cells end each other within their table.
    fn close_table_part(&mut self, elements: &[Element]) {
        for place in (1..self.open.len()).rev() {
            let element = self.tree.element(self.open[place]);
            if elements.contains(&element) {
                return self.close_to(place);
            }
            if element == Element::Table || element == Element::Template {
                return;
            }
        }
    }

    /// Closes an open inline element if nothing but inline elements are in between.
    fn close_inline(&mut self, wanted: Element) {
        for place in (1..self.open.len()).rev() {
            let element = self.tree.element(self.open[place]);
            if element == wanted {
                return self.close_to(place);
            }
            if element.is_block() {
                return;
            }
        }
    }

    fn end(&mut self, element: Element) {
        use Element::*;
        if self.sunken > 0 {
            self.sunken -= 1;
            return;
        }
        match element {
            Html | Body => {}
            Unknown => self.close(&[Unknown], &[]),
            Table | Td | Th | Caption | Template | Object | Svg | Math => self.close_wall(element),
            Tr | Thead | Tbody | Tfoot => self.close_table_part(&[element]),
            H1 | H2 | H3 | H4 | H5 | H6 => self.close(&[H1, H2, H3, H4, H5, H6], &[]),
            _ if element.is_block() => self.close(&[element], &[]),
            Script | Style | Title | Textarea | Select | Iframe | Head => {
                self.close(&[element], &[]);
            }
            _ => self.close_inline(element),
        }
    }

    fn close_wall(&mut self, wanted: Element) {
        for place in (1..self.open.len()).rev() {
            let element = self.tree.element(self.open[place]);
            if element == wanted {
                return self.close_to(place);
            }
            if wanted != Element::Table && element == Element::Table {
                return;
            }
        }
    }

    /// Closes all from this place in the stack on.
    fn close_to(&mut self, place: usize) {
        let end = self.tree.nodes.len() as u32;
        for id in self.open.drain(place.max(1).min(self.open.len())..) {
            self.tree.nodes[id].end = end;
        }
    }
}

fn belongs_in_head(element: Element) -> bool {
    use Element::*;
    matches!(
        element,
        Base | Link | Meta | Noscript | Script | Style | Template | Title | Object | Img | Iframe
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree as nested names.
    fn show(html: &str) -> String {
        let tree = Tree::parse(html, false);
        let mut out = String::new();
        let mut ends: Vec<NodeId> = Vec::new();
        for id in 1..tree.nodes.len() {
            while ends.last().is_some_and(|&end| end <= id) {
                ends.pop();
                out.push(')');
            }
            let node = &tree.nodes[id];
            if node.element.is_text() {
                out.push_str(&tree.text(id));
            } else {
                out.push_str(node.element.name());
                out.push('(');
                ends.push(node.end());
            }
        }
        ends.iter().for_each(|_| out.push(')'));
        out
    }

    #[test]
    fn end_tags_that_may_be_left_out_are_put_in() {
        for (html, expected) in [
            ("<p>a<p>b<div>c</div>", "p(a)p(b)div(c)"),
            ("<ul><li>a<li>b<ul><li>c</ul></ul>", "ul(li(a)li(bul(li(c))))"),
            ("<dl><dt>a<dd>b<dt>c", "dl(dt(a)dd(b)dt(c))"),
            ("<table><tr><td>a<td>b<tr><td>c</table>d", "table(tr(td(a)td(b))tr(td(c)))d"),
            ("<a>a<a>b", "a(a)a(b)"),
            ("<head><title>t</title><p>a", "head(title(t))p(a)"),
            ("<div><p>a</div>b", "div(p(a))b"),
            ("<div><span>a</div>b", "div(span(a))b"),
            ("<td>a</div>b", "td(ab)"),
            ("<b><p>a</b>b</p>c", "b(p(ab)c)"),
            ("<table><tr><td><table><tr><td>a</table>b", "table(tr(td(table(tr(td(a)))b)))"),
            ("a<br>b<img>c", "abr()bimg()c"),
            ("<x-y>a</x-y>b", "?(a)b"),
            ("<h1>a<h2>b", "h1(a)h2(b)"),
        ] {
            assert_eq!(show(html), expected, "{html}");
        }
    }

    #[test]
    fn nesting_without_end_stays_flat_and_quick() {
        let html = "<div>".repeat(50_000) + "x" + &"</div>".repeat(50_000) + "<p>y";
        let tree = Tree::parse(&html, false);
        assert!(tree.nodes.iter().all(|node| usize::from(node.depth) <= DEPTH_MAX));
        let html = "<b>".repeat(1_000_000);
        let tree = Tree::parse(&html, false);
        assert_eq!(tree.nodes.len(), NODES_MAX);
    }

    #[test]
    fn attributes_are_read_in_place() {
        let tree = Tree::parse("<HTML LANG=en><p Class='a &amp; b' id=x>t", false);
        assert_eq!(tree.attribute(0, "lang").as_deref(), Some("en"));
        assert_eq!(tree.attribute(1, "class").as_deref(), Some("a & b"));
        assert_eq!(tree.attribute(1, "id").as_deref(), Some("x"));
        assert_eq!(tree.attribute(2, "id"), None);
    }
}
