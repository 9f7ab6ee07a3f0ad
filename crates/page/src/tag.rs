//! Which element does a tag name mean?
//!
//! Only names that change how we read are known; all others are [`Tag::Other`]. A name is packed
//! into one integer while its end is looked for, so that the lookup is a few comparisons and no
//! string is made.

use crate::attributes::is_space;

macro_rules! tags {
    ($($tag:ident $key:ident $name:literal)*) => {
        /// An element whose name means something to us.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Tag {
            Other,
            $($tag,)*
        }

        $(const $key: u64 = key($name.as_bytes());)*

        impl Tag {
            /// The element that `name` stands for.
            #[inline]
            pub(crate) fn of(name: &Name<'_>) -> Self {
                let tag = match name.key {
                    $($key => Self::$tag,)*
                    _ => return Self::Other,
                };
                let same = tag.name().len() == name.text.len()
                    && (name.text.len() <= PACKED_BYTES
                        || name.text.eq_ignore_ascii_case(tag.name()));
                if same { tag } else { Self::Other }
            }

            /// Its name in lower case; empty for [`Tag::Other`].
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$tag => $name,)*
                    Self::Other => "",
                }
            }
        }
    };
}

tags! {
    A A "a"
    AnnotationXml ANNOTATION_XML "annotation-xml"
    Area AREA "area"
    Audio AUDIO "audio"
    Base BASE "base"
    Body BODY "body"
    Desc DESC "desc"
    Embed EMBED "embed"
    Font FONT "font"
    ForeignObject FOREIGN_OBJECT "foreignobject"
    Frame FRAME "frame"
    Head HEAD "head"
    Html HTML "html"
    Iframe IFRAME "iframe"
    Image IMAGE "image"
    Img IMG "img"
    Input INPUT "input"
    Link LINK "link"
    Math MATH "math"
    Meta META "meta"
    Mi MI "mi"
    Mn MN "mn"
    Mo MO "mo"
    Ms MS "ms"
    Mtext MTEXT "mtext"
    Noembed NOEMBED "noembed"
    Noframes NOFRAMES "noframes"
    Object OBJECT "object"
    Plaintext PLAINTEXT "plaintext"
    Script SCRIPT "script"
    Source SOURCE "source"
    Style STYLE "style"
    Svg SVG "svg"
    Template TEMPLATE "template"
    Textarea TEXTAREA "textarea"
    Title TITLE "title"
    Track TRACK "track"
    Use USE "use"
    Video VIDEO "video"
    Xmp XMP "xmp"
}

/// The name of a tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'a> {
    /// As written.
    pub(crate) text: &'a str,
    /// In lower case, as one number. Beyond [`PACKED_BYTES`] different names may meet.
    pub(crate) key: u64,
}

/// How much of a name one number holds exactly.
const PACKED_BYTES: usize = size_of::<u64>();

impl<'a> Name<'a> {
    /// The name at `start`, where a letter is, up to white space, `/` or `>`.
    #[inline]
    pub(crate) fn at(page: &'a str, start: usize) -> Self {
        let mut key = 0;
        let mut end = start;
        for &byte in &page.as_bytes()[start..] {
            if matches!(byte, b'>' | b'/') || is_space(byte) {
                break;
            }
            key = pack(key, byte);
            end += 1;
        }
        Self { text: &page[start..end], key }
    }
}

const fn pack(key: u64, byte: u8) -> u64 {
    key.rotate_left(u8::BITS) ^ byte.to_ascii_lowercase() as u64
}

/// The name as one number, in lower case.
pub(crate) const fn key(name: &[u8]) -> u64 {
    let mut packed = 0;
    let mut at = 0;
    while at < name.len() {
        packed = pack(packed, name[at]);
        at += 1;
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_in_any_case_and_only_as_a_whole() {
        for (name, tag) in [
            ("a", Tag::A),
            ("A", Tag::A),
            ("foreignObject", Tag::ForeignObject),
            ("annotation-xml", Tag::AnnotationXml),
            ("TEXTAREA", Tag::Textarea),
            ("a/", Tag::A),
            ("a>b", Tag::A),
            ("title x", Tag::Title),
            ("a<b", Tag::Other),
            ("a\0", Tag::Other),
            ("a\0\0\0\0\0\0\0\0", Tag::Other),
            ("plaintexs", Tag::Other),
            ("ab", Tag::Other),
            ("annotation-xmll", Tag::Other),
            ("annotation-xml-and-more", Tag::Other),
            ("ä", Tag::Other),
        ] {
            assert_eq!(Tag::of(&Name::at(name, 0)), tag, "{name:?}");
        }
        assert_eq!(Tag::ForeignObject.name(), "foreignobject");
    }
}
