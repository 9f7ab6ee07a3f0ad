//! Are we inside SVG or MathML?
//!
//! There the tokenizer behaves differently: `<style>` and `<title>` hold markup, `<![CDATA[` is a
//! section and not a comment, and `<a>` may point with `xlink:href`. The standard knows this from
//! its stack of open elements; we keep the foreign ones of that stack, and of the HTML elements a
//! rough count by name. So a `</div>` that fits an open element outside also ends a drawing whose
//! `</svg>` was forgotten, and a stray one does not.
//!
//! Always: at most [`OPEN_MAX`] elements are remembered; deeper ones are as if closed at once.

use crate::tag::{Name, Tag};
use crate::tokens::StartTag;

/// Drawings nest a few dozen groups at most.
const OPEN_MAX: usize = 512;

/// The open foreign elements, outermost first. Empty on most of most pages.
#[derive(Debug)]
pub(crate) struct Foreign<'a> {
    open: Vec<Element<'a>>,
    /// How many HTML elements are open, by a hash of their name. Too many where end tags may be
    /// left out.
    html: [u16; 1 << BUCKET_BITS],
}

/// The names of a page rarely fill half of these.
const BUCKET_BITS: u32 = 6;

fn bucket(name: &Name<'_>) -> usize {
    // 2^64 divided by the golden ratio spreads similar keys (Knuth, 6.4).
    (name.key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BUCKET_BITS)) as usize
}

#[derive(Clone, Copy, Debug)]
struct Element<'a> {
    name: &'a str,
    /// What its children are.
    holds: Space,
    /// It holds HTML, but no element of it so far.
    bare: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    Html,
    Svg,
    Math,
}

impl<'a> Foreign<'a> {
    pub(crate) fn new() -> Self {
        Self { open: Vec::new(), html: [0; 1 << BUCKET_BITS] }
    }

    /// Whether a CDATA section may stand here.
    pub(crate) fn allows_cdata(&self) -> bool {
        self.is_inside() || self.open.last().is_some_and(|element| element.bare)
    }

    #[inline]
    fn is_inside(&self) -> bool {
        self.space() != Space::Html
    }

    #[inline]
    fn space(&self) -> Space {
        self.open.last().map_or(Space::Html, |element| element.holds)
    }

    /// A start tag was read. Tells whether its element is a foreign one.
    #[inline]
    pub(crate) fn open(&mut self, start: &StartTag<'a>) -> bool {
        let foreign = (!self.open.is_empty() || matches!(start.tag, Tag::Svg | Tag::Math))
            && self.open_inside(start);
        if !foreign {
            let count = &mut self.html[bucket(&start.name)];
            *count = count.saturating_add(1);
        }
        foreign
    }

    #[inline(never)]
    fn open_inside(&mut self, start: &StartTag<'a>) -> bool {
        if self.is_inside() && breaks_out(start) {
            self.leave();
        }
        let holds = match (self.space(), start.tag) {
            (Space::Html, Tag::Svg) => Space::Svg,
            (Space::Html, Tag::Math) => Space::Math,
            // Elsewhere among formulas `<svg>` is a formula, too.
            (Space::Math, Tag::Svg) if self.is_in_annotation() => Space::Svg,
            (Space::Svg, Tag::Desc | Tag::Title | Tag::ForeignObject)
            | (Space::Math, Tag::Mi | Tag::Mn | Tag::Mo | Tag::Ms | Tag::Mtext) => Space::Html,
            (Space::Math, Tag::AnnotationXml) if holds_html(start) => Space::Html,
            (Space::Html, _) => {
                if let Some(element) = self.open.last_mut() {
                    element.bare = false;
                }
                return false;
            }
            (space, _) => space,
        };
        if !start.self_closed && self.open.len() < OPEN_MAX {
            let bare = holds == Space::Html;
            self.open.push(Element { name: start.name.text, holds, bare });
        }
        true
    }

    fn is_in_annotation(&self) -> bool {
        self.open.last().is_some_and(|open| open.name.eq_ignore_ascii_case("annotation-xml"))
    }

    /// An end tag was read.
    #[inline]
    pub(crate) fn close(&mut self, tag: Tag, name: &Name<'_>) {
        if !self.open.is_empty() && self.close_inside(tag, name) {
            return;
        }
        let count = &mut self.html[bucket(name)];
        *count = count.saturating_sub(1);
    }

    /// Tells whether the tag closed something foreign, and nothing else.
    #[inline(never)]
    fn close_inside(&mut self, tag: Tag, name: &Name<'_>) -> bool {
        let inside = self.is_inside();
        let last = self.open.len() - 1;
        let fits = self.open.iter().enumerate().rposition(|(at, element)| {
            // Among HTML, only what led here or all of the drawing can be meant.
            element.name.eq_ignore_ascii_case(name.text)
                && (inside || at == last || matches!(tag, Tag::Svg | Tag::Math))
        });
        if let Some(at) = fits {
            self.open.truncate(at);
        } else if inside && self.closes_outside(tag, name) {
            self.leave();
        }
        fits.is_some()
    }

    fn closes_outside(&self, tag: Tag, name: &Name<'_>) -> bool {
        match tag {
            // They end nothing until the page ends.
            Tag::Body | Tag::Head | Tag::Html => false,
            _ => self.html[bucket(name)] > 0 || matches!(name.text, "p" | "P" | "br" | "BR"),
        }
    }

    /// Back to the nearest HTML.
    fn leave(&mut self) {
        while self.is_inside() {
            self.open.pop();
        }
    }
}

/// Start tags that end foreign content wherever they stand (HTML standard, 13.2.6.5), sorted.
#[rustfmt::skip]
const BREAKOUTS: [&str; 44] = [
    "b", "big", "blockquote", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em",
    "embed", "h1", "h2", "h3", "h4", "h5", "h6", "head", "hr", "i", "img", "li", "listing", "menu",
    "meta", "nobr", "ol", "p", "pre", "ruby", "s", "small", "span", "strike", "strong", "sub",
    "sup", "table", "tt", "u", "ul", "var",
];

fn breaks_out(start: &StartTag<'_>) -> bool {
    if start.tag == Tag::Font {
        return start.pick(["color", "face", "size"]).iter().any(Option::is_some);
    }
    let name = || start.name.text.bytes().map(|byte| byte.to_ascii_lowercase());
    BREAKOUTS.binary_search_by(|known| known.bytes().cmp(name())).is_ok()
}

fn holds_html(start: &StartTag<'_>) -> bool {
    let [encoding] = start.pick(["encoding"]);
    encoding.is_some_and(|encoding| {
        encoding.eq_ignore_ascii_case("text/html")
            || encoding.eq_ignore_ascii_case("application/xhtml+xml")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::{Token, Tokens};

    /// Which of the elements in `html` are foreign, by name.
    fn foreign(html: &str) -> String {
        Tokens::new(html, false)
            .filter_map(|token| match token {
                Token::Start(start) if start.foreign => Some(start.name.text),
                _ => None,
            })
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn the_border_is_where_the_standard_has_it() {
        for (html, expected) in [
            ("<p><svg><g><use></svg><a>", "svg use"),
            ("<svg/><a>", "svg"),
            ("<svg><g/><use></g><a></svg><a>", "svg use a"),
            ("<svg><div><a>", "svg"),
            ("<svg><g></p><a>", "svg"),
            ("<svg><font><a><font size=1><a>", "svg font a"),
            ("<svg><desc><a></desc><a>", "svg desc a"),
            ("<svg><foreignObject><p><a></foreignObject><a>", "svg foreignObject a"),
            (
                "<svg><foreignObject><svg><a></svg><a></foreignObject><use>",
                "svg foreignObject svg a use",
            ),
            ("<math><mi><a></mi><a></math><a>", "math mi a"),
            ("<math><annotation-xml><a>", "math annotation-xml a"),
            ("<math><annotation-xml encoding=text/HTML><a>", "math annotation-xml"),
            ("<svg><svg></svg><a></svg><a>", "svg svg a"),
            ("<a><svg><use></a><a>", "svg use"),
            ("<svg><a><use></a><a></svg><a>", "svg a use a"),
            ("<td><svg></td><script></script>", "svg"),
            ("<svg></td><script></script>", "svg script"),
            ("<svg></body><a>", "svg a"),
            ("<svg><foreignObject><a></a></svg><a>", "svg foreignObject"),
            ("</svg><a>", ""),
            // Found by comparing with the standard's tree: such an `svg` is a name among formulas.
            ("<math><svg><foreignObject><a>", "math svg foreignObject a"),
            (
                "<math><annotation-xml><svg><foreignObject><a>",
                "math annotation-xml svg foreignObject",
            ),
        ] {
            assert_eq!(foreign(html), expected, "{html}");
        }
    }

    #[test]
    fn the_names_are_sorted_for_the_search() {
        assert!(BREAKOUTS.is_sorted());
    }

    #[test]
    fn what_is_open_does_not_pile_up() {
        let html = "<svg><desc>".repeat(10_000);
        assert_eq!(Tokens::new(&html, false).count(), 20_000);
    }
}
