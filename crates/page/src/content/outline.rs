//! What does a page show of itself besides its text: headings, pictures, other languages, an icon?
//!
//! One walk over the tree. Addresses are absolute and of http(s); what is none is left out.
//!
//! Always: in the order of the page, and bounded.

use url::Url;

use crate::content::element::Element;
use crate::content::tree::{NodeId, Tree};
use crate::links::resolve;

/// The longest articles have some two hundred of either; more is a catalogue.
const HEADINGS_MAX: usize = 500;
const IMAGES_MAX: usize = 500;
/// There are fewer than 200 languages that pages are written in.
const ALTERNATES_MAX: usize = 200;

/// Longer ones are text.
const HEADING_BYTES_MAX: usize = 300;
const ALT_BYTES_MAX: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// 1 to 6.
    pub level: u8,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub url: String,
    /// Empty where the page gives none.
    pub alt: String,
}

/// The same page for other readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternate {
    /// As written: a language tag, or `x-default`.
    pub hreflang: String,
    pub url: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    pub headings: Vec<Heading>,
    pub images: Vec<Image>,
    pub alternates: Vec<Alternate>,
    pub favicon: Option<String>,
}

impl Outline {
    pub(crate) fn of(tree: &Tree<'_>, base: Option<&Url>) -> Self {
        let mut outline = Self::default();
        let mut touch_icon = None;
        let mut heading_end = 0;
        let mut id = 1;
        while id < tree.nodes.len() {
            match tree.element(id) {
                Element::Template => {
                    id = tree.nodes[id].end();
                    continue;
                }
                Element::Link => outline.link(tree, id, base, &mut touch_icon),
                Element::Img => outline.image(tree, id, base),
                element => {
                    // What stands in a heading is a part of it, and is read once.
                    if let Some(level) = element.heading_level().filter(|_| id >= heading_end) {
                        outline.heading(tree, id, level);
                        heading_end = tree.nodes[id].end();
                    }
                }
            }
            id += 1;
        }
        outline.favicon = outline.favicon.or(touch_icon);
        outline
    }

    fn heading(&mut self, tree: &Tree<'_>, id: NodeId, level: u8) {
        if self.headings.len() < HEADINGS_MAX {
            let text = tree.text_below(id, HEADING_BYTES_MAX);
            if !text.is_empty() {
                self.headings.push(Heading { level, text });
            }
        }
    }

    fn image(&mut self, tree: &Tree<'_>, id: NodeId, base: Option<&Url>) {
        if self.images.len() >= IMAGES_MAX {
            return;
        }
        // Pictures that are loaded late have a stand-in as `src`, often one that is no address.
        let named = ["src", "data-src", "data-lazy-src", "data-original"];
        let Some(url) = named.into_iter().find_map(|name| address(tree, id, name, base)) else {
            return;
        };
        let alt = tree.attribute(id, "alt").unwrap_or_default();
        let alt = alt.split_whitespace().collect::<Vec<_>>().join(" ");
        let alt = alt[..alt.floor_char_boundary(ALT_BYTES_MAX)].to_owned();
        self.images.push(Image { url, alt });
    }

    fn link(
        &mut self,
        tree: &Tree<'_>,
        id: NodeId,
        base: Option<&Url>,
        touch_icon: &mut Option<String>,
    ) {
        let Some(rel) = tree.attribute(id, "rel") else { return };
        let is =
            |word: &str| rel.split_ascii_whitespace().any(|rel| rel.eq_ignore_ascii_case(word));
        if is("alternate") && self.alternates.len() < ALTERNATES_MAX {
            let hreflang = tree.attribute(id, "hreflang").unwrap_or_default().trim().to_owned();
            if let (false, Some(url)) = (hreflang.is_empty(), address(tree, id, "href", base)) {
                self.alternates.push(Alternate { hreflang, url });
            }
        } else if is("icon") && self.favicon.is_none() {
            self.favicon = address(tree, id, "href", base);
        } else if (is("apple-touch-icon") || is("apple-touch-icon-precomposed"))
            && touch_icon.is_none()
        {
            *touch_icon = address(tree, id, "href", base);
        }
    }
}

fn address(tree: &Tree<'_>, id: NodeId, name: &str, base: Option<&Url>) -> Option<String> {
    let href = tree.attribute(id, name)?;
    let href = href.trim();
    if href.is_empty() {
        return None;
    }
    resolve(base?, href).map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(html: &str) -> Outline {
        let base = Url::parse("https://a.test/x/").unwrap();
        Outline::of(&Tree::parse(html, false), Some(&base))
    }

    #[test]
    fn headings_and_pictures_come_in_order() {
        let outline = read(
            "<h1>One <b>two</b></h1><img src=i.png alt=' a  b '><h3></h3><h2>Three</h2>\
             <img src=data:x data-src=/late.png><img><template><h2>no</h2></template>",
        );
        let headings: Vec<(u8, &str)> =
            outline.headings.iter().map(|heading| (heading.level, &*heading.text)).collect();
        assert_eq!(headings, [(1, "One two"), (2, "Three")]);
        let images: Vec<(&str, &str)> =
            outline.images.iter().map(|image| (&*image.url, &*image.alt)).collect();
        assert_eq!(images, [("https://a.test/x/i.png", "a b"), ("https://a.test/late.png", "")]);
    }

    #[test]
    fn other_languages_and_the_icon_are_found_in_links() {
        let outline = read(
            "<link rel=alternate hreflang=de href=/de><link rel=alternate href=/feed>\
             <link rel='alternate nofollow' hreflang=x-default href=/>\
             <link rel=apple-touch-icon href=t.png><link rel='shortcut icon' href=/f.ico>",
        );
        let others: Vec<(&str, &str)> =
            outline.alternates.iter().map(|other| (&*other.hreflang, &*other.url)).collect();
        assert_eq!(others, [("de", "https://a.test/de"), ("x-default", "https://a.test/")]);
        assert_eq!(outline.favicon.as_deref(), Some("https://a.test/f.ico"));
        let outline = read("<link rel=apple-touch-icon href=t.png>");
        assert_eq!(outline.favicon.as_deref(), Some("https://a.test/x/t.png"));
    }

    #[test]
    fn catalogues_are_cut() {
        let outline = read(&"<h2>a</h2><img src=b>".repeat(10_000));
        assert_eq!((outline.headings.len(), outline.images.len()), (HEADINGS_MAX, IMAGES_MAX));
        read(&"<h1><div>".repeat(100_000));
    }
}
