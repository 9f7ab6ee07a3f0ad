//! Where are the tags and the text of a page?
//!
//! The HTML standard's tokenizer, cut down to what a link reader needs: start tags with their
//! attributes in place, end tags, and the text between. Comments, doctypes, scripts and styles are
//! stepped over. Nothing is copied: tokens are slices of the page.
//!
//! Where the standard asks the tree (which text mode follows a tag, are we in SVG), the tag names
//! answer. Scripting counts as off, as we run none, so `<noscript>` holds markup.
//!
//! Always: every byte is looked at a bounded number of times, whatever the page holds.
//!
//! Why not a library: `lol_html`, the fastest one, keeps a stack of open elements to match its
//! selectors and takes 100 µs for the 20 KB page of `benches/page.rs`; this takes 23. In a million
//! pages of random tags (none of those it treats differently by design: `template`, `noscript`) its
//! anchors differed from the tree of html5ever in 1,688, these in 4. It stays as the oracle of
//! `tests/soup.rs`. Known to differ from browsers: what follows a `<frameset>` counts here, and so
//! does `<a>` in MathML.

use memchr::{memchr, memchr2, memmem};

use crate::attributes::{Attributes, End, is_space};
use crate::foreign::Foreign;
use crate::tag::{Name, Tag};

/// A piece of a page.
#[derive(Clone, Debug)]
pub(crate) enum Token<'a> {
    Start(StartTag<'a>),
    End(Tag, Name<'a>),
    /// Character references are not decoded yet.
    Text(&'a str),
    /// Text in which `&` means `&`.
    Cdata(&'a str),
}

/// A start tag, complete up to its `>`.
#[derive(Clone, Debug)]
pub(crate) struct StartTag<'a> {
    pub(crate) tag: Tag,
    pub(crate) name: Name<'a>,
    /// An element of SVG or MathML.
    pub(crate) foreign: bool,
    pub(crate) self_closed: bool,
    page: &'a str,
    /// Where its attributes begin, the first byte behind the name.
    pub(crate) attributes_at: usize,
}

impl<'a> StartTag<'a> {
    /// The values of the attributes with these names (in lower case), as written. Of duplicates
    /// the first counts.
    pub(crate) fn pick<const N: usize>(&self, names: [&str; N]) -> [Option<&'a str>; N] {
        let mut values = [None; N];
        for attribute in Attributes::new(self.page.as_bytes(), self.attributes_at) {
            let name = &self.page[attribute.name];
            for (wanted, value) in names.iter().zip(&mut values) {
                if value.is_none() && name.eq_ignore_ascii_case(wanted) {
                    *value = Some(&self.page[attribute.value.clone()]);
                }
            }
        }
        values
    }
}

/// The tokens of a page, in order; of the tags, those that [`Tag`] knows, unless all are wanted.
#[derive(Debug)]
pub(crate) struct Tokens<'a> {
    /// Whether to give text as well. To be set between tokens.
    pub(crate) wants_text: bool,
    /// Whether to give every tag, and the text of scripts and the like: for the tree.
    wants_all: bool,
    page: &'a str,
    at: usize,
    /// The element whose text is next, when it is not ordinary text.
    inside: Option<Tag>,
    /// The element that was closed as it was opened; its end tag is next.
    closed: Option<(Tag, Name<'a>)>,
    foreign: Foreign<'a>,
    /// XHTML: `<script/>` is closed, and CDATA sections stand anywhere.
    xml: bool,
}

impl<'a> Tokens<'a> {
    pub(crate) fn new(page: &'a str, xml: bool) -> Self {
        let foreign = Foreign::new();
        Self {
            wants_text: true,
            wants_all: false,
            page,
            at: 0,
            inside: None,
            closed: None,
            foreign,
            xml,
        }
    }

    /// All tags by their names, and all text.
    pub(crate) fn all(page: &'a str, xml: bool) -> Self {
        Self { wants_all: true, ..Self::new(page, xml) }
    }

    fn bytes(&self) -> &'a [u8] {
        self.page.as_bytes()
    }

    /// Moves to `to` and gives the text up to there.
    fn text_to(&mut self, to: usize) -> Option<Token<'a>> {
        let from = std::mem::replace(&mut self.at, to);
        (self.wants_text && from < to).then(|| Token::Text(&self.page[from..to]))
    }

    /// The next `<`. Often it is right here, as tag follows tag.
    #[inline]
    fn next_bracket(&self, from: usize) -> Option<usize> {
        match self.bytes().get(from)? {
            b'<' => Some(from),
            _ => memchr(b'<', &self.bytes()[from..]).map(|length| from + length),
        }
    }

    fn skip_past(&mut self, end: Option<usize>) {
        self.at = end.map_or(self.page.len(), |end| end + 1);
    }

    /// Where the text of `element` ends: at its end tag, or never.
    fn text_end(&self, element: Tag) -> usize {
        let rest = &self.bytes()[self.at..];
        let length = match element {
            Tag::Plaintext => None,
            Tag::Script => script_end(rest),
            _ => memchr::memchr_iter(b'<', rest).find(|&at| is_end_tag_of(element, &rest[at..])),
        };
        length.map_or(self.page.len(), |length| self.at + length)
    }

    /// What stands at a `<` that begins markup. `None`: nothing of interest, look further.
    fn markup(&mut self) -> Option<Token<'a>> {
        match self.bytes()[self.at + 1] {
            b'!' => self.declaration(),
            b'/' if self.bytes().get(self.at + 2).is_some_and(u8::is_ascii_alphabetic) => {
                self.end_tag()
            }
            b'/' | b'?' => {
                self.skip_past(memchr(b'>', &self.bytes()[self.at..]).map(|n| self.at + n));
                None
            }
            _ => self.start_tag(),
        }
    }

    fn start_tag(&mut self) -> Option<Token<'a>> {
        let name = Name::at(self.page, self.at + 1);
        let attributes_at = self.at + 1 + name.text.len();
        let (end, at) = Attributes::new(self.bytes(), attributes_at).finish();
        self.at = at;
        if end == End::Missing {
            return None;
        }
        let mut start = StartTag {
            tag: Tag::of(&name),
            name,
            foreign: false,
            self_closed: end == End::SelfClosed,
            page: self.page,
            attributes_at,
        };
        start.foreign = self.foreign.open(&start);
        if (self.xml || start.foreign) && start.self_closed {
            self.closed = Some((start.tag, name)).filter(|_| self.gives(start.tag));
        } else if !start.foreign && holds_raw_text(start.tag) {
            self.inside = Some(start.tag);
        }
        self.gives(start.tag).then_some(Token::Start(start))
    }

    #[inline]
    fn gives(&self, tag: Tag) -> bool {
        tag != Tag::Other || self.wants_all
    }

    fn end_tag(&mut self) -> Option<Token<'a>> {
        let name = Name::at(self.page, self.at + 2);
        let attributes_at = self.at + 2 + name.text.len();
        let (end, at) = Attributes::new(self.bytes(), attributes_at).finish();
        self.at = at;
        if end == End::Missing {
            return None;
        }
        let tag = Tag::of(&name);
        self.foreign.close(tag, &name);
        self.gives(tag).then_some(Token::End(tag, name))
    }

    /// `<!`: a comment, a doctype, a CDATA section, or something broken that counts as comment.
    fn declaration(&mut self) -> Option<Token<'a>> {
        let rest = &self.bytes()[self.at..];
        if rest.starts_with(b"<!--") {
            self.skip_past(comment_end(rest).map(|n| self.at + n));
            return None;
        }
        if rest.starts_with(b"<![CDATA[") && (self.xml || self.foreign.allows_cdata()) {
            let start = self.at + b"<![CDATA[".len();
            let length = memmem::find(&self.bytes()[start..], b"]]>");
            let end = length.map_or(self.page.len(), |length| start + length);
            self.skip_past(length.map(|_| end + 2));
            return self.wants_text.then(|| Token::Cdata(&self.page[start..end]));
        }
        // A `>` ends a doctype even within quotes.
        self.skip_past(memchr(b'>', rest).map(|n| self.at + n));
        None
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        if let Some((tag, name)) = self.closed.take() {
            return Some(Token::End(tag, name));
        }
        if let Some(element) = self.inside.take() {
            let end = self.text_end(element);
            if self.wants_all || matches!(element, Tag::Title | Tag::Textarea) {
                if let text @ Some(_) = self.text_to(end) {
                    return text;
                }
            } else {
                self.at = end;
            }
        }
        let mut from = self.at;
        while let Some(at) = self.next_bracket(from) {
            match self.bytes().get(at + 1) {
                Some(b'!' | b'/' | b'?' | b'a'..=b'z' | b'A'..=b'Z') => {}
                // "a < b" is text.
                _ => {
                    from = at + 1;
                    continue;
                }
            }
            if let text @ Some(_) = self.text_to(at) {
                return text;
            }
            if let token @ Some(_) = self.markup() {
                return token;
            }
            from = self.at;
        }
        self.text_to(self.page.len())
    }
}

/// Elements whose text is no markup.
#[inline]
fn holds_raw_text(tag: Tag) -> bool {
    matches!(
        tag,
        Tag::Iframe
            | Tag::Noembed
            | Tag::Noframes
            | Tag::Plaintext
            | Tag::Script
            | Tag::Style
            | Tag::Textarea
            | Tag::Title
            | Tag::Xmp
    )
}

/// Whether `rest` begins with `</name` as a whole word.
fn is_end_tag_of(element: Tag, rest: &[u8]) -> bool {
    rest.get(1) == Some(&b'/') && is_word(&rest[2..], element.name())
}

/// Whether `rest` begins with the tag name `word` as a whole.
fn is_word(rest: &[u8], word: &str) -> bool {
    rest.get(..word.len()).is_some_and(|name| name.eq_ignore_ascii_case(word.as_bytes()))
        && rest.get(word.len()).is_some_and(|&byte| matches!(byte, b'>' | b'/') || is_space(byte))
}

/// The `>` that ends a comment; `rest` begins with `<!--`.
fn comment_end(rest: &[u8]) -> Option<usize> {
    let text = b"<!--".len();
    memchr::memchr_iter(b'>', rest).find(|&at| {
        // `<!-->` and `<!--->` are empty comments; `--!>` ends one as `-->` does.
        at == text
            || at == text + 1 && rest[text] == b'-'
            || at >= text + 2 && rest[..at].ends_with(b"--")
            || at >= text + 3 && rest[..at].ends_with(b"--!")
    })
}

/// Where `</script` ends a script. Within `<!--` a nested `<script>` hides one end tag, a habit
/// from the days when scripts were wrapped in comments.
fn script_end(rest: &[u8]) -> Option<usize> {
    enum State {
        Plain,
        Escaped,
        DoubleEscaped,
    }
    let mut state = State::Plain;
    let mut at = 0;
    loop {
        let rest_of_it = &rest[at..];
        at += match state {
            State::Plain => memchr(b'<', rest_of_it)?,
            _ => memchr2(b'<', b'-', rest_of_it)?,
        };
        let here = &rest[at..];
        let closes = is_end_tag_of(Tag::Script, here);
        match state {
            State::Escaped | State::DoubleEscaped if here.starts_with(b"-->") => {
                state = State::Plain;
            }
            State::Plain | State::Escaped if closes => return Some(at),
            State::Plain if here.starts_with(b"<!--") => {
                state = State::Escaped;
                // Its dashes may already be those of `-->`.
                at += 1;
            }
            State::Escaped if here[0] == b'<' && is_word(&here[1..], "script") => {
                state = State::DoubleEscaped;
            }
            State::DoubleEscaped if closes => state = State::Escaped,
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(html: &str, xml: bool) -> String {
        let shown = Tokens::new(html, xml).map(|token| match token {
            Token::Start(start) => format!("<{:?}>", start.tag),
            Token::End(tag, _) => format!("</{tag:?}>"),
            Token::Text(text) => format!("{text:?}"),
            Token::Cdata(text) => format!("cdata {text:?}"),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_page_falls_into_known_tags_and_text() {
        for (html, expected) in [
            ("a<b>c</b>d", r#""a" "c" "d""#),
            ("<a>1 < 2</a >", r#"<A> "1 < 2" </A>"#),
            ("a<!-- b -->c", r#""a" "c""#),
            ("<title>a<b></title>", r#"<Title> "a<b>" </Title>"#),
            ("<title></title>", "<Title> </Title>"),
            ("<script>a</script>b", r#"<Script> </Script> "b""#),
            ("<svg><style>a</svg>", r#"<Svg> <Style> "a" </Svg>"#),
            ("<svg><![CDATA[a]]>b", r#"<Svg> cdata "a" "b""#),
            ("<svg><![CDATA[a", r#"<Svg> cdata "a""#),
            ("a</b", r#""a""#),
            ("a<", r#""a<""#),
        ] {
            assert_eq!(show(html, false), expected, "{html}");
        }
        assert_eq!(show("<script/><a/>", false), "<Script>");
        assert_eq!(show("<script/><a/>b", true), r#"<Script> </Script> <A> </A> "b""#);
        assert_eq!(show("<svg><a/>b", false), r#"<Svg> <A> </A> "b""#);
    }

    #[test]
    fn text_is_left_out_on_demand() {
        let mut tokens = Tokens::new("a<a>b</a>c<title>d</title>", false);
        tokens.wants_text = false;
        assert_eq!(tokens.count(), 4);
    }

    #[test]
    fn a_script_ends_where_browsers_end_it() {
        for (rest, end) in [
            ("</script>", Some(0)),
            ("a</SCRIPT\n>", Some(1)),
            ("</scriptx></script/", Some(10)),
            ("</script", None),
            ("<!--</script>", Some(4)),
            ("<!--<script></script>", None),
            ("<!--<script></script></script>", Some(21)),
            ("<!--<script>--></script>", Some(15)),
            ("<!--><script></script>", Some(13)),
            ("<!---><script></script>", Some(14)),
            ("<!--<scripts></script>", Some(13)),
            ("<!-<script></script>", Some(11)),
        ] {
            assert_eq!(script_end(rest.as_bytes()), end, "{rest}");
        }
    }
}
