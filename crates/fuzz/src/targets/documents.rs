//! Any bytes as a document that is no page: page.
//!
//! Four targets, a parser each or two: PDF; office documents, which are zips of XML; pictures; and XML,
//! JSON and plain text.
//!
//! Holds: reading ends, and the same bytes give the same; a text has as many words as it says; text
//! and markdown are there or not together; links, headings and what is told of the document are
//! bounded; every link that resolves can be visited.

use page::{Input, extract};

use crate::{Shape, Target};

pub const PDF: Target = Target {
    name: "pdf",
    words: &[
        b"1 0 obj",
        b"2 0 obj",
        b"3 0 obj",
        b"endobj",
        b"<<",
        b">>",
        b"[",
        b"]",
        b"stream\n",
        b"endstream",
        b"trailer",
        b"/Root 1 0 R",
        b"/Pages 2 0 R",
        b"/Kids[3 0 R]",
        b"/Type/Page",
        b"/Type/Catalog",
        b"/Type/ObjStm",
        b"/N 3",
        b"/First 20",
        b"/Contents 4 0 R",
        b"/Length 9999",
        b"/Filter/FlateDecode",
        b"/Filter[/ASCII85Decode/LZWDecode]",
        b"/Filter/ASCIIHexDecode",
        b"/Filter/RunLengthDecode",
        b"/DecodeParms<</Predictor 15/Columns 4>>",
        b"/Encrypt 9 0 R",
        b"/Resources<</Font<</F1 5 0 R>>>>",
        b"/XObject<</X 4 0 R>>",
        b"/Subtype/Form",
        b"/X Do",
        b"/Type0",
        b"/ToUnicode 6 0 R",
        b"/Encoding/Identity-H",
        b"/Differences[65/eacute/uni20AC]",
        b"/Widths[500 600]",
        b"/W[1[500]7 9 1000]",
        b"beginbfrange <00> <ff> <0041> endbfrange",
        b"BT /F1 12 Tf",
        b"72 700 Td",
        b"(text) Tj",
        b"[(a) -300 (b)] TJ",
        b"1 0 0 1 5 5 Tm",
        b"ET",
        b"BI ID",
        b" EI ",
        b"q",
        b"Q",
        b"1e308 cm",
        b"-1",
        b"\\(",
        b"<FEFF0041>",
        b"%",
        b"\0",
        b"\xff",
        b"/Annots[<</A<</URI(https://b.test/)>>/Rect[0 0 9 9]>>]",
        b"/Outlines 7 0 R",
        b"/First 7 0 R",
    ],
    seeds: Vec::new,
    check: |input| check("application/pdf", input),
    inputs: 4_000,
};

pub const OFFICE: Target = Target {
    name: "office",
    words: &[
        b"PK\x03\x04",
        b"PK\x01\x02",
        b"PK\x05\x06",
        b"word/document.xml",
        b"content.xml",
        b"<w:p>",
        b"</w:p>",
        b"<w:t>",
        b"</w:t>",
        b"<w:hyperlink r:id='r1'>",
        b"<w:tr>",
        b"</w:tr>",
        b"<w:tc>",
        b"</w:tc>",
        b"<text:h text:outline-level='9'>",
        b"<text:p>",
        b"</text:p>",
        b"<text:a xlink:href='https://b.test/'>",
        b"&amp;",
        b"\xff\xff\xff\xff",
        b"\0\0\0\0",
    ],
    seeds: office_seeds,
    check: |input| check("application/vnd.oasis.opendocument.text", input),
    inputs: 4_000,
};

pub const IMAGE: Target = Target {
    name: "image",
    words: &[
        b"\x89PNG\r\n\x1a\n",
        b"IHDR",
        b"eXIf",
        b"\xff\xd8\xff",
        b"\xff\xe1",
        b"Exif\0\0",
        b"MM\0*",
        b"II*\0",
        b"\xff\xc0",
        b"GIF89a",
        b"RIFF\0\0\0\0WEBP",
        b"VP8X",
        b"VP8L",
        b"VP8 ",
        b"BM",
        b"\0\0\x01\0",
        b"\0\0\0\x1cftypavif",
        b"ispe",
        b"<svg",
        b" viewBox='0 0 4 3'",
        b"<title>",
        b"\x87\x69",
        b"\x88\x25",
        b"\xff\xff\xff\xff",
        b"\0\0\0\x08",
        b"\0\x02",
    ],
    seeds: Vec::new,
    check: |input| check("image/png", input),
    inputs: 6_000,
};

pub const DATA: Target = Target {
    name: "data",
    words: &[
        b"{\"url\":\"/a\"",
        b"{",
        b"}",
        b"[",
        b"]",
        b"\"",
        b":",
        b",",
        b"\\u00e4",
        b"\"https://b.test/x\"",
        b"\"The lamps are lit at night\"",
        b"<a href='x'>",
        b"</a>",
        b"<title>",
        b"<rss><channel>",
        b"<item>",
        b"<feed>",
        b"<entry>",
        b"<content>",
        b"&lt;p&gt;",
        b"<![CDATA[",
        b"]]>",
        b"<?xml?>",
        b"https://b.test/(x).",
        b"http://",
        b"://",
        "。「」".as_bytes(),
        b"\xff",
        b"\0",
    ],
    seeds: Vec::new,
    check: check_data,
    inputs: 6_000,
};

/// Each of the kinds, whatever the bytes look like.
fn check_data(input: &[u8]) -> Shape {
    let kinds = ["application/json", "application/xml", "text/plain"];
    kinds.map(|kind| check(kind, input))[input.len() % 3]
}

fn check(content_type: &str, body: &[u8]) -> Shape {
    let input =
        Input { content_type: Some(content_type), ..Input::new("https://a.test/d/f", body) };
    let (document, content) = extract(input);
    let (again, content_again) = extract(input);
    assert!(document.links().eq(again.links()), "the same bytes");
    let mut shape = Shape::default();
    shape.add(document.kind as u64);
    let base = document.base().expect("the address is absolute");
    for link in document.links() {
        if let Some(url) = link.resolve(base) {
            assert!(matches!(url.scheme(), "http" | "https"), "{url}");
        }
    }
    shape.add_size(document.links().len());
    let (Some(content), Some(again)) = (content, content_again) else { return shape };
    assert_eq!((&content.text, &content.markdown), (&again.text, &again.markdown));
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let words = content.text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).count();
    assert_eq!(words, content.word_count as usize);
    assert_eq!(content.text.trim().is_empty(), content.markdown.trim().is_empty());
    assert!(content.structured_data.len() <= 500 && content.outline.headings.len() <= 500);
    shape.add_size(words);
    shape.add_size(content.outline.headings.len());
    let metadata = &content.metadata;
    let known = [&metadata.title, &metadata.author, &metadata.published, &metadata.modified];
    shape.add(known.iter().fold(0, |all, known| all << 1 | u64::from(known.is_some())));
    shape
}

/// Files that are not packed, so that a change in them is a change of the XML.
fn office_seeds() -> Vec<Vec<u8>> {
    let rels = "<Relationships><Relationship Id='r1' Target='https://b.test/' TargetMode='External'/></Relationships>";
    let word = "<w:document><w:p><w:pPr><w:pStyle w:val='Heading1'/></w:pPr><w:t>Head</w:t></w:p><w:p><w:hyperlink r:id='r1'><w:t>link</w:t></w:hyperlink></w:p><w:tbl><w:tr><w:tc><w:p><w:t>a</w:t></w:p></w:tc></w:tr></w:tbl></w:document>";
    let open = "<office:text><text:h text:outline-level='2'>Head</text:h><text:p>see <text:a xlink:href='https://b.test/'>b</text:a></text:p><text:list-item><text:p>one</text:p></text:list-item></office:text>";
    let sheet = "<sheetData><row><c t='s'><v>0</v></c><c><v>3</v></c></row></sheetData>";
    let meta = "<office:meta><dc:title>T</dc:title><dc:creator>Ann</dc:creator><dc:date>2024-05-01</dc:date></office:meta>";
    vec![
        zipped(&[("word/document.xml", word), ("word/_rels/document.xml.rels", rels)]),
        zipped(&[("content.xml", open), ("meta.xml", meta)]),
        zipped(&[
            ("xl/sharedStrings.xml", "<si><t>Lamp</t></si>"),
            ("xl/worksheets/sheet1.xml", sheet),
        ]),
        zipped(&[("ppt/slides/slide1.xml", "<a:p><a:t>One</a:t></a:p>")]),
    ]
}

fn zipped(files: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, text) in files {
        bytes.extend(b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0\0\0\0\0");
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend((name.len() as u16).to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend(name.as_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}
