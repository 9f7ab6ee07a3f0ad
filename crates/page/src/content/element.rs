//! Which elements shape a text, and how?
//!
//! One table of names; all that the tree and the text ask of an element is answered from here. An
//! element we do not know (a component of some framework) counts as a block, as `<div>` does: half
//! of them are, and words that run together cost more than a line break too many.

use crate::tag::{Name, key};

/// How an element stands in the text around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It begins and ends a block.
    Block,
    /// It runs along in the line.
    Inline,
    /// It is not shown as text, nor what is in it.
    Silent,
}

macro_rules! elements {
    ($($element:ident $key:ident $name:literal $flow:ident)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Element {
            /// A run of text, not an element.
            Text,
            /// Text in which `&` means `&`.
            Literal,
            Unknown,
            $($element,)*
        }

        $(const $key: u64 = key($name.as_bytes());)*

        impl Element {
            pub(crate) fn of(name: &Name<'_>) -> Self {
                let element = match name.key {
                    $($key => Self::$element,)*
                    _ => return Self::Unknown,
                };
                if name.text.eq_ignore_ascii_case(element.name()) { element } else { Self::Unknown }
            }

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$element => $name,)*
                    Self::Text | Self::Literal => "#text",
                    Self::Unknown => "?",
                }
            }

            pub(crate) fn flow(self) -> Flow {
                match self {
                    $(Self::$element => Flow::$flow,)*
                    Self::Text | Self::Literal => Flow::Inline,
                    Self::Unknown => Flow::Block,
                }
            }
        }
    };
}

elements! {
    A A "a" Inline
    Abbr ABBR "abbr" Inline
    Address ADDRESS "address" Block
    Area AREA "area" Silent
    Article ARTICLE "article" Block
    Aside ASIDE "aside" Block
    Audio AUDIO "audio" Silent
    B B "b" Inline
    Base BASE "base" Silent
    Bdi BDI "bdi" Inline
    Bdo BDO "bdo" Inline
    Big BIG "big" Inline
    Blockquote BLOCKQUOTE "blockquote" Block
    Body BODY "body" Block
    Br BR "br" Inline
    Button BUTTON "button" Block
    Canvas CANVAS "canvas" Silent
    Caption CAPTION "caption" Block
    Center CENTER "center" Block
    Cite CITE "cite" Inline
    Code CODE "code" Inline
    Col COL "col" Silent
    Data DATA "data" Inline
    Datalist DATALIST "datalist" Silent
    Dd DD "dd" Block
    Del DEL "del" Inline
    Details DETAILS "details" Block
    Dfn DFN "dfn" Inline
    Dialog DIALOG "dialog" Block
    Div DIV "div" Block
    Dl DL "dl" Block
    Dt DT "dt" Block
    Em EM "em" Inline
    Embed EMBED "embed" Silent
    Fieldset FIELDSET "fieldset" Block
    Figcaption FIGCAPTION "figcaption" Block
    Figure FIGURE "figure" Block
    Font FONT "font" Inline
    Footer FOOTER "footer" Block
    Form FORM "form" Block
    Frame FRAME "frame" Silent
    H1 H1 "h1" Block
    H2 H2 "h2" Block
    H3 H3 "h3" Block
    H4 H4 "h4" Block
    H5 H5 "h5" Block
    H6 H6 "h6" Block
    Head HEAD "head" Silent
    Header HEADER "header" Block
    Hgroup HGROUP "hgroup" Block
    Hr HR "hr" Block
    Html HTML "html" Block
    I I "i" Inline
    Iframe IFRAME "iframe" Silent
    Img IMG "img" Inline
    Input INPUT "input" Silent
    Ins INS "ins" Inline
    Kbd KBD "kbd" Inline
    Label LABEL "label" Inline
    Legend LEGEND "legend" Block
    Li LI "li" Block
    Link LINK "link" Silent
    Main MAIN "main" Block
    Map MAP "map" Silent
    Mark MARK "mark" Inline
    Math MATH "math" Inline
    Annotation ANNOTATION "annotation" Silent
    AnnotationXml ANNOTATION_XML "annotation-xml" Silent
    Menu MENU "menu" Block
    Meta META "meta" Silent
    Meter METER "meter" Inline
    Nav NAV "nav" Block
    Noscript NOSCRIPT "noscript" Block
    Object OBJECT "object" Silent
    Ol OL "ol" Block
    Optgroup OPTGROUP "optgroup" Silent
    Option OPTION "option" Silent
    Output OUTPUT "output" Inline
    P P "p" Block
    Param PARAM "param" Silent
    Picture PICTURE "picture" Inline
    Pre PRE "pre" Block
    Progress PROGRESS "progress" Inline
    Q Q "q" Inline
    Rp RP "rp" Silent
    Rt RT "rt" Silent
    Ruby RUBY "ruby" Inline
    S S "s" Inline
    Samp SAMP "samp" Inline
    Script SCRIPT "script" Silent
    Search SEARCH "search" Block
    Section SECTION "section" Block
    Select SELECT "select" Silent
    Slot SLOT "slot" Inline
    Small SMALL "small" Inline
    Source SOURCE "source" Silent
    Span SPAN "span" Inline
    Strike STRIKE "strike" Inline
    Strong STRONG "strong" Inline
    Style STYLE "style" Silent
    Sub SUB "sub" Inline
    Summary SUMMARY "summary" Block
    Sup SUP "sup" Inline
    Svg SVG "svg" Silent
    Table TABLE "table" Block
    Tbody TBODY "tbody" Block
    Td TD "td" Block
    Template TEMPLATE "template" Silent
    Textarea TEXTAREA "textarea" Silent
    Tfoot TFOOT "tfoot" Block
    Th TH "th" Block
    Thead THEAD "thead" Block
    Time TIME "time" Inline
    Title TITLE "title" Silent
    Tr TR "tr" Block
    Track TRACK "track" Silent
    Tt TT "tt" Inline
    U U "u" Inline
    Ul UL "ul" Block
    Var VAR "var" Inline
    Video VIDEO "video" Silent
    Wbr WBR "wbr" Inline
}

impl Element {
    /// It has no end tag and no children.
    pub(crate) fn is_void(self) -> bool {
        use Element::*;
        matches!(
            self,
            Area | Base
                | Br
                | Col
                | Embed
                | Frame
                | Hr
                | Img
                | Input
                | Link
                | Meta
                | Param
                | Source
                | Track
                | Wbr
        )
    }

    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Literal)
    }

    pub(crate) fn is_block(self) -> bool {
        self.flow() == Flow::Block
    }

    /// 1 to 6.
    pub(crate) fn heading_level(self) -> Option<u8> {
        use Element::*;
        Some(match self {
            H1 => 1,
            H2 => 2,
            H3 => 3,
            H4 => 4,
            H5 => 5,
            H6 => 6,
            _ => return None,
        })
    }

    /// Its start tag ends an open paragraph.
    pub(crate) fn ends_paragraph(self) -> bool {
        use Element::*;
        matches!(
            self,
            Address
                | Article
                | Aside
                | Blockquote
                | Center
                | Details
                | Dialog
                | Dd
                | Div
                | Dl
                | Dt
                | Fieldset
                | Figcaption
                | Figure
                | Footer
                | Form
                | H1
                | H2
                | H3
                | H4
                | H5
                | H6
                | Header
                | Hgroup
                | Hr
                | Li
                | Main
                | Menu
                | Nav
                | Ol
                | P
                | Pre
                | Search
                | Section
                | Summary
                | Table
                | Ul
        )
    }

    /// No end tag within it reaches beyond it.
    pub(crate) fn is_wall(self) -> bool {
        use Element::*;
        matches!(self, Table | Td | Th | Caption | Template | Object | Svg | Math | Html)
    }
}
