//! What does a page say about itself, and what does it link to?
//!
//! One pass over the tokens. Elements are handled as they come; nothing is remembered of the tree
//! but the open anchor, whether we are still in the head, and open templates.
//!
//! Templates are inert, as in browsers: what is in one does not count, unless it declares a shadow
//! root. `<meta name=robots>` and `<link rel=canonical>` count only before `</head>` or `<body>`,
//! so that text a visitor left on the page cannot speak for it; an element misplaced in the head
//! does not end it for us.
//!
//! Not here: joining links with the base (`Document`, [`crate::Link::resolve`]).

use robots::Directives;

use crate::Limits;
use crate::links::{LinkId, LinkKind, Links, rel_words};
use crate::refresh;
use crate::srcset;
use crate::tag::Tag;
use crate::text::{Words, push_attribute, push_href};
use crate::tokens::{StartTag, Token, Tokens};

/// Language tags are short; 35 bytes are the least that RFC 5646 asks for.
const LANG_BYTES_MAX: usize = 64;

/// What the page says, before anything is resolved.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) title: Option<String>,
    pub(crate) lang: Option<String>,
    /// `href` of the first `<base>` that has one.
    pub(crate) base: Option<String>,
    /// `href` of the first `<link rel=canonical>`.
    pub(crate) canonical: Option<String>,
    /// Seconds and place in the list of the first refresh that leads elsewhere.
    pub(crate) refresh: Option<(u32, LinkId)>,
    /// The rules of `<meta name=robots>` and of those that call us by name.
    pub(crate) robots: Directives,
    pub(crate) links: Links,
}

/// Reads a whole page. `xml`: it is XHTML. `product`: our name in robots metas.
pub(crate) fn read(page: &str, xml: bool, product: &str, limits: &Limits) -> Found {
    let mut reader = Reader {
        product,
        limits,
        found: Found { links: Links::new(limits), ..Found::default() },
        anchor: None,
        words: Words::new(limits.text_bytes_max),
        alt: Words::new(limits.text_bytes_max),
        title: None,
        in_head: true,
        templates: Templates::default(),
        scratch: String::new(),
    };
    let mut tokens = Tokens::new(page, xml);
    loop {
        tokens.wants_text = reader.wants_text();
        let Some(token) = tokens.next() else {
            break;
        };
        match token {
            Token::Start(start) => reader.start(&start),
            Token::End(tag, _) => reader.end(tag),
            Token::Text(text) => reader.text(text),
            Token::Cdata(text) => reader.words.add_literal(text),
        }
    }
    reader.close_anchor();
    reader.close_title();
    reader.found
}

struct Reader<'r> {
    product: &'r str,
    limits: &'r Limits,
    found: Found,
    /// The anchor whose text is being gathered.
    anchor: Option<LinkId>,
    words: Words,
    /// Of the first image in the anchor that has one.
    alt: Words,
    /// The title that is being gathered.
    title: Option<Words>,
    in_head: bool,
    templates: Templates,
    scratch: String,
}

impl Reader<'_> {
    fn start(&mut self, start: &StartTag<'_>) {
        if self.templates.inert() {
            if start.tag == Tag::Template {
                self.templates.open(false);
            }
            return;
        }
        self.found.links.at = start.attributes_at;
        if start.foreign {
            self.start_foreign(start);
        } else {
            self.start_html(start);
        }
    }

    fn start_foreign(&mut self, start: &StartTag<'_>) {
        let [href, xlink, rel] = start.pick(["href", "xlink:href", "rel"]);
        let href = href.or(xlink);
        match start.tag {
            Tag::A => self.anchor(href, rel),
            Tag::Image | Tag::Use => self.requisite(LinkKind::Image, href),
            Tag::Script => self.requisite(LinkKind::Script, href),
            _ => {}
        }
    }

    fn start_html(&mut self, start: &StartTag<'_>) {
        match start.tag {
            Tag::A => {
                let [href, rel] = start.pick(["href", "rel"]);
                self.anchor(href, rel);
            }
            Tag::Area => self.area(start),
            Tag::Base => self.base(start),
            Tag::Body => {
                self.in_head = false;
                let [background] = start.pick(["background"]);
                self.requisite(LinkKind::Image, background);
            }
            Tag::Embed | Tag::Object => {
                let [src, data] = start.pick(["src", "data"]);
                let href = if start.tag == Tag::Embed { src } else { data };
                self.requisite(LinkKind::Object, href);
            }
            Tag::Frame | Tag::Iframe => {
                let [src] = start.pick(["src"]);
                self.requisite(LinkKind::Frame, src);
                self.lazy(start, LinkKind::Frame);
            }
            Tag::Html => self.lang(start),
            // Browsers take `<image>` for a misspelling.
            Tag::Img | Tag::Image => self.image(start),
            Tag::Input => {
                let [kind, src] = start.pick(["type", "src"]);
                if kind.is_some_and(|kind| kind.eq_ignore_ascii_case("image")) {
                    self.requisite(LinkKind::Image, src);
                }
            }
            Tag::Link => self.link(start),
            Tag::Meta => self.meta(start),
            Tag::Script => {
                let [src] = start.pick(["src"]);
                self.requisite(LinkKind::Script, src);
            }
            Tag::Source => {
                let [src, srcset] = start.pick(["src", "srcset"]);
                self.requisite(LinkKind::Media, src);
                self.srcset(srcset);
                self.lazy(start, LinkKind::Media);
            }
            Tag::Template => {
                let [shadow] = start.pick(["shadowrootmode"]);
                self.templates.open(shadow.is_some_and(|mode| {
                    mode.eq_ignore_ascii_case("open") || mode.eq_ignore_ascii_case("closed")
                }));
            }
            Tag::Title if self.found.title.is_none() => {
                self.title = Some(Words::new(self.limits.title_bytes_max));
            }
            Tag::Audio | Tag::Track | Tag::Video => {
                let [src, poster] = start.pick(["src", "poster"]);
                self.requisite(LinkKind::Media, src);
                if start.tag == Tag::Video {
                    self.requisite(LinkKind::Image, poster);
                }
                self.lazy(start, LinkKind::Media);
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: Tag) {
        match tag {
            Tag::Template => self.templates.close(),
            _ if self.templates.inert() => {}
            Tag::A => self.close_anchor(),
            Tag::Head => self.in_head = false,
            Tag::Title => self.close_title(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        match &mut self.title {
            Some(title) => title.add(text),
            None => self.words.add(text),
        }
    }

    fn wants_text(&self) -> bool {
        self.title.is_some() || self.anchor.is_some() && !self.templates.inert()
    }

    /// An anchor within an anchor ends the outer one, with or without href.
    fn anchor(&mut self, href: Option<&str>, rel: Option<&str>) {
        self.close_anchor();
        self.anchor = href.and_then(|href| self.found.links.push(LinkKind::Anchor, href));
        if let (Some(link), Some(rel)) = (self.anchor, rel) {
            self.found.links.set_rel(link, rel);
        }
    }

    fn close_anchor(&mut self) {
        if let Some(link) = self.anchor.take() {
            let shown = if self.words.is_empty() { &self.alt } else { &self.words };
            self.found.links.set_text(link, shown.as_str());
            self.words.clear();
            self.alt.clear();
        }
    }

    fn close_title(&mut self) {
        if let Some(title) = self.title.take() {
            self.found.title = Some(title.into_string());
        }
    }

    fn area(&mut self, start: &StartTag<'_>) {
        let [href, rel, alt] = start.pick(["href", "rel", "alt"]);
        let Some(link) = href.and_then(|href| self.found.links.push(LinkKind::Area, href)) else {
            return;
        };
        if let Some(rel) = rel {
            self.found.links.set_rel(link, rel);
        }
        if let Some(alt) = alt {
            let mut words = Words::new(self.limits.text_bytes_max);
            words.add_attribute(alt);
            self.found.links.set_text(link, words.as_str());
        }
    }

    fn base(&mut self, start: &StartTag<'_>) {
        let [href] = start.pick(["href"]);
        if let Some(href) = href
            && self.found.base.is_none()
            && href.len() <= self.limits.href_bytes_max
        {
            let base = self.found.base.insert(String::new());
            push_href(base, href);
        }
    }

    fn lang(&mut self, start: &StartTag<'_>) {
        let [lang, xml_lang] = start.pick(["lang", "xml:lang"]);
        if self.found.lang.is_none()
            && let Some(lang) = lang.or(xml_lang)
        {
            let mut words = Words::new(LANG_BYTES_MAX);
            words.add_attribute(lang);
            self.found.lang = Some(words.into_string()).filter(|lang| !lang.is_empty());
        }
    }

    fn image(&mut self, start: &StartTag<'_>) {
        let [src, srcset, alt] = start.pick(["src", "srcset", "alt"]);
        self.requisite(LinkKind::Image, src);
        self.srcset(srcset);
        self.lazy(start, LinkKind::Image);
        if let Some(alt) = alt
            && self.anchor.is_some()
            && self.alt.is_empty()
        {
            self.alt.add_attribute(alt);
        }
    }

    /// What a script puts in the place of `src` when the reader scrolls there: no browser and no
    /// standard knows these names, but lazy loaders agree on few.
    fn lazy(&mut self, start: &StartTag<'_>, kind: LinkKind) {
        if !self.limits.lazy {
            return;
        }
        let one = ["data-src", "data-original", "data-lazy-src", "data-lazy", "data-original-src"];
        for href in start.pick(one) {
            self.requisite(kind, href);
        }
        for list in start.pick(["data-srcset", "data-lazy-srcset"]) {
            self.srcset(list);
        }
    }

    fn srcset(&mut self, srcset: Option<&str>) {
        let Some(srcset) = srcset else {
            return;
        };
        let mut decoded = std::mem::take(&mut self.scratch);
        decoded.clear();
        push_attribute(&mut decoded, srcset);
        for url in srcset::urls(&decoded) {
            self.found.links.push_decoded(LinkKind::Image, url);
        }
        self.scratch = decoded;
    }

    fn link(&mut self, start: &StartTag<'_>) {
        let [href, rel, media_type, srcset] = start.pick(["href", "rel", "type", "imagesrcset"]);
        self.srcset(srcset);
        let (Some(href), Some(rel)) = (href, rel) else {
            return;
        };
        let kind = link_kind(rel, media_type.unwrap_or(""));
        let Some(link) = self.found.links.push(kind, href) else {
            return;
        };
        self.found.links.set_rel(link, rel);
        if kind == LinkKind::Canonical && self.in_head && self.found.canonical.is_none() {
            self.found.canonical = Some(self.found.links.href(link).to_owned());
        }
    }

    fn meta(&mut self, start: &StartTag<'_>) {
        let [name, pragma, content] = start.pick(["name", "http-equiv", "content"]);
        let Some(content) = content else {
            return;
        };
        if pragma.is_some_and(|pragma| pragma.trim_ascii().eq_ignore_ascii_case("refresh")) {
            let mut decoded = String::new();
            push_attribute(&mut decoded, content);
            if let Some((seconds, Some(url))) = refresh::parse(&decoded)
                && let Some(link) = self.found.links.push_decoded(LinkKind::Refresh, url)
            {
                self.found.refresh.get_or_insert((seconds, link));
            }
        }
        if let Some(name) = name
            && self.in_head
        {
            // It judges by the name whether the rules are for us.
            self.found.robots.add_meta(
                &htmlize::unescape_attribute(name),
                &htmlize::unescape_attribute(content),
                self.product,
            );
        }
    }

    fn requisite(&mut self, kind: LinkKind, href: Option<&str>) {
        if let Some(href) = href {
            self.found.links.push(kind, href);
        }
    }
}

/// What a `<link>` is for. One that is several things is the one that browsers act on.
fn link_kind(rel: &str, media_type: &str) -> LinkKind {
    let is = |word: &str| rel_words(rel).any(|known| known.eq_ignore_ascii_case(word));
    let media_type = media_type.split(';').next().unwrap_or("").trim_ascii();
    let has_type = |types: &[&str]| types.iter().any(|t| media_type.eq_ignore_ascii_case(t));
    if is("stylesheet") {
        LinkKind::Stylesheet
    } else if is("icon") || is("apple-touch-icon") || is("mask-icon") {
        LinkKind::Icon
    } else if is("canonical") {
        LinkKind::Canonical
    } else if is("amphtml") {
        LinkKind::Amp
    } else if is("alternate") {
        if has_type(&["application/rss+xml", "application/atom+xml", "application/feed+json"]) {
            LinkKind::Feed
        } else if has_type(&["", "text/html", "application/xhtml+xml"]) {
            LinkKind::Alternate
        } else {
            LinkKind::Other
        }
    } else if is("next") {
        LinkKind::Next
    } else if is("prev") || is("previous") {
        LinkKind::Prev
    } else {
        LinkKind::Other
    }
}

/// How deep we are in templates.
#[derive(Debug, Default)]
struct Templates {
    open: u32,
    /// How many were open when an inert one began.
    inert_from: Option<u32>,
}

impl Templates {
    fn inert(&self) -> bool {
        self.inert_from.is_some()
    }

    /// The content of a shadow root is shown; that of any other template is not.
    fn open(&mut self, shadow_root: bool) {
        if !shadow_root {
            self.inert_from.get_or_insert(self.open);
        }
        self.open += 1;
    }

    fn close(&mut self) {
        self.open = self.open.saturating_sub(1);
        if self.inert_from == Some(self.open) {
            self.inert_from = None;
        }
    }
}
