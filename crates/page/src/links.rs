//! What does a page point to?
//!
//! All links of a page share one buffer and one list: a link costs no allocation, and looking at it
//! none either. [`Link`] is a view.
//!
//! Always: links keep the order of the page, repeats included. Past `links_max` they are counted,
//! not kept.
//!
//! Not here: which of them are ours to visit (the frontier's scope).

use url::Url;

use crate::Limits;
use crate::text::push_href;

/// One link, as the page has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<'a> {
    /// As written, character references decoded, white space off as browsers do. It may be
    /// relative, and of any scheme; see [`Link::resolve`].
    pub href: &'a str,
    pub kind: LinkKind,
    /// The text of an anchor, or else the `alt` of its first image; the `alt` of an area.
    pub text: &'a str,
    /// The `rel` attribute, its words separated by single spaces.
    pub rel: &'a str,
    /// The page does not vouch for it: `rel` has `nofollow`, `ugc` or `sponsored`.
    pub nofollow: bool,
}

impl Link<'_> {
    /// Whether `rel` has this word.
    pub fn has_rel(&self, word: &str) -> bool {
        self.rel.split(' ').any(|known| known.eq_ignore_ascii_case(word))
    }

    /// The absolute http(s) URL it leads to. `None` for `javascript:`, `mailto:`, `data:` and all
    /// others that no crawler can fetch, and for what is no URL.
    pub fn resolve(&self, base: &Url) -> Option<Url> {
        resolve(base, self.href)
    }
}

/// Joins, and keeps what can be fetched.
pub(crate) fn resolve(base: &Url, href: &str) -> Option<Url> {
    if scheme(href).is_some_and(|scheme| !is_http(scheme)) {
        return None;
    }
    base.join(href).ok().filter(|url| is_http(url.scheme()) && url.has_host())
}

fn is_http(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// The scheme that an absolute URL begins with.
fn scheme(href: &str) -> Option<&str> {
    let end = href
        .bytes()
        .position(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')))?;
    (href.as_bytes()[end] == b':' && href.starts_with(|c: char| c.is_ascii_alphabetic()))
        .then(|| &href[..end])
}

/// What a link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkKind {
    /// `<a href>`, also in SVG.
    Anchor,
    /// `<area href>` of an image map.
    Area,
    /// `<iframe src>` and `<frame src>`.
    Frame,
    /// `<meta http-equiv=refresh>` with a URL.
    Refresh,
    /// `<link rel=canonical>`.
    Canonical,
    /// `<link rel=alternate>`: the page in another language or for another device.
    Alternate,
    /// `<link rel=next>`.
    Next,
    /// `<link rel=prev>`.
    Prev,
    /// `<link rel=amphtml>`.
    Amp,
    /// `<link rel=alternate>` with the type of a feed.
    Feed,
    /// `<link rel=stylesheet>`.
    Stylesheet,
    /// `<link rel=icon>` and its relatives.
    Icon,
    /// `<img>`, `srcset`, `poster`, `<input type=image>`, `<body background>`, SVG images.
    Image,
    /// `<script src>`.
    Script,
    /// `<video>`, `<audio>`, their `<source>` and `<track>`.
    Media,
    /// `<object data>` and `<embed src>`.
    Object,
    /// Any other `<link>`: hints to the browser, licences, search descriptions.
    Other,
}

impl LinkKind {
    /// Its name in our output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anchor => "anchor",
            Self::Area => "area",
            Self::Frame => "frame",
            Self::Refresh => "refresh",
            Self::Canonical => "canonical",
            Self::Alternate => "alternate",
            Self::Next => "next",
            Self::Prev => "prev",
            Self::Amp => "amp",
            Self::Feed => "feed",
            Self::Stylesheet => "stylesheet",
            Self::Icon => "icon",
            Self::Image => "image",
            Self::Script => "script",
            Self::Media => "media",
            Self::Object => "object",
            Self::Other => "other",
        }
    }

    /// Whether a reader could go there: a page, as opposed to a part of this one.
    pub fn leads_to_page(self) -> bool {
        use LinkKind::*;
        matches!(self, Anchor | Area | Frame | Refresh | Canonical | Alternate | Next | Prev | Amp)
    }

    /// Whether the page needs it to be shown as its author meant it.
    pub fn is_requisite(self) -> bool {
        use LinkKind::*;
        matches!(self, Frame | Stylesheet | Icon | Image | Script | Media | Object)
    }
}

/// The longest `rel` that is kept.
const REL_BYTES_MAX: usize = 256;

/// The links of one page.
#[derive(Debug, Default)]
pub(crate) struct Links {
    buffer: String,
    entries: Vec<Entry>,
    links_max: usize,
    href_bytes_max: usize,
    /// How many there was no room for: too many, or too long.
    pub(crate) dropped: u64,
    /// Where in the page the tag is that is being read.
    pub(crate) at: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    href: Span,
    text: Span,
    rel: Span,
    kind: LinkKind,
    nofollow: bool,
    /// Where the attributes of its tag begin.
    at: u32,
}

/// A part of the buffer. 32 bits are enough: all that is in the buffer stood on the page, and
/// pages are cut at [`crate::BODY_BYTES_MAX`].
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    end: u32,
}

/// A link that got its place in the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkId(usize);

impl Links {
    pub(crate) fn new(limits: &Limits) -> Self {
        let Limits { links_max, href_bytes_max, .. } = *limits;
        Self { links_max, href_bytes_max, ..Self::default() }
    }

    /// Appends a link, its href as the attribute has it. `None`: there was no room, or it is no
    /// link at all.
    pub(crate) fn push(&mut self, kind: LinkKind, raw: &str) -> Option<LinkId> {
        // Megabytes of embedded images are not even decoded.
        if is_data(raw) {
            return None;
        }
        if self.entries.len() >= self.links_max || raw.len() / 2 > self.href_bytes_max {
            self.dropped += 1;
            return None;
        }
        let start = self.buffer.len();
        push_href(&mut self.buffer, raw);
        self.settle(kind, start)
    }

    /// The same for a href whose character references are decoded.
    pub(crate) fn push_decoded(&mut self, kind: LinkKind, href: &str) -> Option<LinkId> {
        if is_data(href) {
            return None;
        }
        let start = self.buffer.len();
        self.buffer.push_str(href.trim_matches(|c| c <= ' '));
        self.settle(kind, start)
    }

    /// Makes a link of what stands in the buffer from `start` on.
    fn settle(&mut self, kind: LinkKind, start: usize) -> Option<LinkId> {
        let href = &self.buffer[start..];
        // An empty `src` loads nothing, and a fragment of this page is here already.
        let nothing = kind.is_requisite() && (href.is_empty() || href.starts_with('#'));
        let no_room = self.entries.len() >= self.links_max || href.len() > self.href_bytes_max;
        if nothing || no_room {
            self.dropped += u64::from(!nothing);
            self.buffer.truncate(start);
            return None;
        }
        let (text, rel) = (Span::default(), Span::default());
        let href = self.span_from(start);
        let at = self.at as u32;
        self.entries.push(Entry { href, text, rel, kind, nofollow: false, at });
        Some(LinkId(self.entries.len() - 1))
    }

    pub(crate) fn set_text(&mut self, link: LinkId, text: &str) {
        let start = self.buffer.len();
        self.buffer.push_str(text);
        self.entries[link.0].text = self.span_from(start);
    }

    pub(crate) fn set_rel(&mut self, link: LinkId, raw: &str) {
        let start = self.buffer.len();
        let rel = &raw[..raw.floor_char_boundary(REL_BYTES_MAX)];
        for word in rel_words(&htmlize::unescape_attribute(rel)) {
            if self.buffer.len() > start {
                self.buffer.push(' ');
            }
            self.buffer.push_str(word);
        }
        self.entries[link.0].rel = self.span_from(start);
        self.entries[link.0].nofollow = robots::Rel::parse(&self.buffer[start..]).disowns();
    }

    pub(crate) fn href(&self, link: LinkId) -> &str {
        self.text_of(self.entries[link.0].href)
    }

    /// For each link where in the page the attributes of its tag begin.
    pub(crate) fn places(&self) -> impl ExactSizeIterator<Item = usize> {
        self.entries.iter().map(|entry| entry.at as usize)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Link<'_>> + Clone {
        self.entries.iter().map(|entry| Link {
            href: self.text_of(entry.href),
            kind: entry.kind,
            text: self.text_of(entry.text),
            rel: self.text_of(entry.rel),
            nofollow: entry.nofollow,
        })
    }

    fn span_from(&self, start: usize) -> Span {
        Span { start: start as u32, end: self.buffer.len() as u32 }
    }

    fn text_of(&self, span: Span) -> &str {
        &self.buffer[span.start as usize..span.end as usize]
    }
}

/// The words of a `rel` attribute; authors also put commas between them.
pub(crate) fn rel_words(rel: &str) -> impl Iterator<Item = &str> {
    rel.split(|c: char| c == ',' || c.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

/// `data:` URLs hold what they point to; there is nothing to fetch.
fn is_data(href: &str) -> bool {
    let href = href.trim_ascii_start().as_bytes();
    href.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"data:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(href: &str) -> Option<String> {
        let base = Url::parse("https://a.test/dir/page?q#f").unwrap();
        resolve(&base, href).map(String::from)
    }

    #[test]
    fn a_link_resolves_against_its_base() {
        for (href, expected) in [
            ("", "https://a.test/dir/page?q"),
            ("x", "https://a.test/dir/x"),
            ("/x", "https://a.test/x"),
            ("?x", "https://a.test/dir/page?x"),
            ("#x", "https://a.test/dir/page?q#x"),
            ("//b.test/x", "https://b.test/x"),
            ("HTTP://B.test/x", "http://b.test/x"),
            ("https:x", "https://a.test/dir/x"),
            ("x:y/z:1", "x:y/z:1"),
            ("./x:y", "https://a.test/dir/x:y"),
            ("1x:y", "https://a.test/dir/1x:y"),
            ("\\\\b.test\\x", "https://b.test/x"),
        ] {
            let expected = (!expected.starts_with("x:")).then(|| expected.to_owned());
            assert_eq!(resolved(href), expected, "{href:?}");
        }
    }

    #[test]
    fn what_cannot_be_fetched_does_not_resolve() {
        for href in [
            "javascript:void(0)",
            "JavaScript:void(0)",
            "mailto:a@b.test",
            "data:text/html,x",
            "tel:+1",
            "about:blank",
            "blob:https://a.test/x",
            "ftp://a.test/",
            "view-source:http://a.test/",
            "http://",
            "http://[",
            "https://a b/",
        ] {
            assert_eq!(resolved(href), None, "{href:?}");
        }
    }

    #[test]
    fn rel_words_are_found_in_any_case_and_order() {
        let mut links = Links::new(&Limits::default());
        let link = links.push(LinkKind::Anchor, "x").unwrap();
        links.set_rel(link, "  NoOpener,\tNEXT\n u&#103;c ");
        let link = links.iter().next().unwrap();
        assert_eq!(link.rel, "NoOpener NEXT ugc");
        assert!(link.has_rel("next") && link.has_rel("noopener") && !link.has_rel("ne"));
        assert!(link.nofollow);
    }
}
