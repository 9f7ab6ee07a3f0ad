//! What did we learn from a document?
//!
//! Plain data, and views into it. A document owns all it says; the body it was read from can go.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8};
use robots::Directives;
use url::Url;

use crate::charset::Charset;
use crate::kind::ContentKind;
use crate::links::{Link, LinkId, Links};

/// A document, read.
#[derive(Debug)]
pub struct Document {
    /// What sort of thing it is.
    pub kind: ContentKind,
    /// Its encoding; `None` where there is no text.
    pub charset: Option<Charset>,
    /// The text of the first `<title>`, white space collapsed.
    pub title: Option<String>,
    /// The language that the root element declares, as written.
    pub lang: Option<String>,
    /// The page that this one says it is a copy of: the first `<link rel=canonical>` in the head,
    /// or else the `Link` header. It may be the page itself.
    pub canonical: Option<Url>,
    /// The rules for robots of headers and page together, as far as they are for us.
    pub robots: Directives,
    /// The body was longer than [`crate::Limits::body_bytes_max`]; the rest was not read.
    pub cut: bool,
    pub(crate) base: Option<Url>,
    pub(crate) refresh: Option<(u32, LinkId)>,
    pub(crate) links: Links,
}

impl Document {
    /// The query of a link in this document's encoding, as browsers write it; what has no
    /// character there becomes a numeric reference, as in forms.
    pub fn encode_query<'t>(&self, text: &'t str) -> Cow<'t, [u8]> {
        let named = self.charset.and_then(|charset| Encoding::for_label(charset.name.as_bytes()));
        named.unwrap_or(UTF_8).encode(text).0
    }

    /// What its links are relative to: its own URL, or where `<base>` points. `None` only if the
    /// URL we were given is not absolute.
    pub fn base(&self) -> Option<&Url> {
        self.base.as_ref()
    }

    /// All it links to, in its own order, repeats included.
    pub fn links(&self) -> impl ExactSizeIterator<Item = Link<'_>> + Clone {
        self.links.iter()
    }

    /// How many links there was no room for: more than [`crate::Limits::links_max`], or longer
    /// than [`crate::Limits::href_bytes_max`].
    pub fn links_dropped(&self) -> u64 {
        self.links.dropped
    }

    /// Where the page sends its reader by `<meta http-equiv=refresh>`, and after how many seconds.
    /// It is among the links as well.
    pub fn refresh(&self) -> Option<(u32, &str)> {
        self.refresh.map(|(seconds, link)| (seconds, self.links.href(link)))
    }
}
