//! Documents that are no pages, through the one door: what they say, and where they lead.

#![expect(clippy::unwrap_used, reason = "parts of tests")]

use std::io::Write as _;

use lycosa_page::{Content, ContentKind, Document, Input, Limits, LinkPlace, extract};

fn read(content_type: Option<&str>, body: &[u8]) -> (Document, Content) {
    let input = Input { content_type, ..Input::new("https://a.test/dir/file", body) };
    let (document, content) = extract(input);
    (document, content.expect("somebody reads it"))
}

fn links(document: &Document) -> Vec<(String, String)> {
    let base = document.base().unwrap();
    let all = document.links();
    all.map(|link| (link.resolve(base).unwrap().into(), link.text.to_owned())).collect()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn stream(dict: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = format!("<<{dict}/Length {}>>\nstream\n", bytes.len()).into_bytes();
    out.extend(bytes);
    out.extend(b"\nendstream");
    out
}

/// A file of these objects, numbered from 1, and its trailer.
fn pdf(objects: &[Vec<u8>], trailer: &str) -> Vec<u8> {
    let mut out = b"%PDF-1.7\n".to_vec();
    for (at, object) in objects.iter().enumerate() {
        out.extend(format!("{} 0 obj\n", at + 1).bytes());
        out.extend(object);
        out.extend(b"\nendobj\n");
    }
    out.extend(format!("trailer\n<<{trailer}>>\nstartxref\n0\n%%EOF").bytes());
    out
}

const PROGRAM: &[u8] = b"BT /F1 24 Tf 72 700 Td (All about lamps) Tj ET\n\
    BT /F1 10 Tf 72 660 Td [(The lamps ) -20 (are) -300 (lit)] TJ 0 -12 Td (at night, \\(caf\\351\\).) Tj\n\
    0 -40 Td (Another paragraph.) Tj ET";

fn small_pdf() -> Vec<u8> {
    pdf(
        &[
            b"<</Type/Catalog/Pages 2 0 R/Lang(en-GB)/Outlines 7 0 R>>".to_vec(),
            b"<</Type/Pages/Kids[3 0 R]/Count 1/Resources<</Font<</F1 5 0 R>>>>>>".to_vec(),
            b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Annots[<</Subtype/Link/Rect[70 655 200 672]\
              /A<</S/URI/URI(https://b.test/lamps)>>>>]>>"
                .to_vec(),
            stream("/Filter/FlateDecode", &packed(PROGRAM)),
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>".to_vec(),
            b"<</Title(\xfe\xff\0L\0a\0m\0p\0s)/Author(Ann)/CreationDate(D:20240517093000+02'00')>>"
                .to_vec(),
            b"<</First 8 0 R>>".to_vec(),
            b"<</Title(Chapter one)/Next 8 0 R>>".to_vec(),
        ],
        "/Root 1 0 R/Info 6 0 R",
    )
}

#[test]
fn a_pdf_has_text_title_and_links() {
    for content_type in [Some("application/pdf"), Some("text/html"), None] {
        let (document, content) = read(content_type, &small_pdf());
        assert_eq!(document.kind, ContentKind::Pdf);
        assert_eq!(document.title.as_deref(), Some("Lamps"));
        assert_eq!(
            content.text,
            "All about lamps\n\nThe lamps are lit\nat night, (café).\n\nAnother paragraph."
        );
        assert_eq!(content.metadata.author.as_deref(), Some("Ann"));
        assert_eq!(content.metadata.published.as_deref(), Some("2024-05-17T09:30:00+02:00"));
        assert_eq!(content.structured_data[0]["numberOfPages"], 1);
        assert_eq!(content.outline.headings[0].text, "Chapter one");
        let link = ("https://b.test/lamps".to_owned(), "The lamps are lit".to_owned());
        assert_eq!(links(&document), [link]);
    }
}

#[test]
fn a_pdf_without_a_title_has_its_headline() {
    let mut bytes = small_pdf();
    let at = bytes.windows(7).position(|window| window == b"/Title(").unwrap();
    bytes[at + 1..at + 6].copy_from_slice(b"Other");
    assert_eq!(read(None, &bytes).0.title.as_deref(), Some("All about lamps"));
}

#[test]
fn objects_in_streams_and_maps_to_unicode_are_read() {
    let packed_objects = b"1 0 2 33 3 99 <</Type/Catalog/Pages 2 0 R>>    \
        <</Type/Pages/Kids[3 0 R]/Resources<</Font<</F1 5 0 R>>>>>>       <</Type/Page/Contents 4 0 R>>";
    let first = packed_objects.windows(2).position(|window| window == b"<<").unwrap();
    let offsets: Vec<usize> = ["<</Type/Catalog", "<</Type/Pages", "<</Type/Page/"]
        .iter()
        .map(|start| {
            let start = start.as_bytes();
            packed_objects.windows(start.len()).position(|window| window == start).unwrap() - first
        })
        .collect();
    let numbers = format!("1 {} 2 {} 3 {} ", offsets[0], offsets[1], offsets[2]);
    let body = [numbers.as_bytes(), &packed_objects[first..]].concat();
    let dict = format!("/Type/ObjStm/N 3/First {}/Filter/FlateDecode", numbers.len());
    let mut bytes = b"%PDF-1.5\n".to_vec();
    let map = b"beginbfchar <0001> <65e5> <0002> <672c> endbfchar";
    for (number, object) in [
        (9, stream(&dict, &packed(&body))),
        (4, stream("", b"BT /F1 12 Tf 50 50 Td <00010002> Tj ET")),
        (5, b"<</Type/Font/Subtype/Type0/Encoding/Identity-H/ToUnicode 6 0 R>>".to_vec()),
        (6, stream("", map)),
        (7, stream("/Type/XRef/Root 1 0 R", b"")),
    ] {
        bytes.extend(format!("{number} 0 obj\n").bytes());
        bytes.extend(object);
        bytes.extend(b"\nendobj\n");
    }
    assert_eq!(read(None, &bytes).1.text, "日本");
}

#[test]
fn a_broken_pdf_gives_what_is_left_of_it() {
    let whole = small_pdf();
    // Without its end there is no trailer, and no page tree is needed to find the page.
    let at = whole.windows(7).position(|window| window == b"trailer").unwrap();
    assert!(read(None, &whole[..at]).1.text.contains("Another paragraph."));
    for end in (0..whole.len()).step_by(7) {
        read(Some("application/pdf"), &whole[..end]);
    }
    let mut chance = 1_u32;
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..8 {
            chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = chance as usize / 7 % bytes.len();
            bytes[at] = (chance >> 16) as u8;
        }
        read(Some("application/pdf"), &bytes);
    }
}

#[test]
fn a_pdf_that_leads_in_circles_ends() {
    let bytes = pdf(
        &[
            b"<</Type/Catalog/Pages 2 0 R/Outlines 1 0 R/First 1 0 R/Next 1 0 R>>".to_vec(),
            b"<</Type/Pages/Kids[2 0 R 3 0 R 3 0 R]>>".to_vec(),
            b"<</Type/Page/Contents 4 0 R/Resources<</XObject<</X 4 0 R>>/Font 5 0 R>>>>".to_vec(),
            stream("/Subtype/Form/Length 4 0 R", b"/X Do /X Do /X Do /X Do /F Tf (x) Tj"),
            b"5 0 R".to_vec(),
        ],
        "/Root 1 0 R/Info 5 0 R",
    );
    let (_, content) = read(None, &bytes);
    assert_eq!(content.text, "");
}

#[test]
fn a_pdf_under_lock_tells_its_pages_only() {
    let (_, content) = read(None, &pdf(&[b"<</Type/Page>>".to_vec()], "/Encrypt 9 0 R"));
    assert_eq!(content.structured_data[0]["encrypted"], true);
    assert_eq!(content.structured_data[0]["numberOfPages"], 1);
}

#[test]
fn plain_text_leads_where_it_says() {
    let (document, content) = read(Some("text/plain"), "See https://b.test/x. Grüße".as_bytes());
    assert_eq!(content.text, "See https://b.test/x. Grüße");
    assert_eq!(links(&document)[0].0, "https://b.test/x");
}

#[test]
fn feeds_json_and_pictures_come_by_the_same_door() {
    let rss = b"<rss><channel><title>News</title><item><title>One</title><link>/1</link></item></channel></rss>";
    for content_type in [Some("application/rss+xml"), Some("text/html"), None] {
        let (document, content) = read(content_type, rss);
        assert_eq!(content.metadata.title.as_deref(), Some("News"), "{content_type:?}");
        assert_eq!(links(&document), [("https://a.test/1".to_owned(), "One".to_owned())]);
    }
    let json = br#"{"name": "Lamp", "url": "https://b.test/lamp"}"#;
    assert_eq!(links(&read(None, json).0)[0].0, "https://b.test/lamp");
    let (document, content) = read(None, b"GIF89a\x40\x01\xf0\0\0\0\0");
    assert_eq!(
        (document.kind, content.structured_data[0]["width"].as_u64()),
        (ContentKind::Image, Some(320))
    );
}

#[test]
fn what_nobody_reads_has_no_content() {
    let input =
        Input { content_type: Some("video/mp4"), ..Input::new("https://a.test/", b"\0\x01") };
    assert!(extract(input).1.is_none());
}

#[test]
fn a_link_knows_where_it_stands() {
    let paragraph = "In the evening the lamps along the river are lit one after the other, and the people of the town walk there. ";
    let html = format!(
        "<html><body><nav><ul><li><a href=/home>Home</a><li><a href=/shop>Shop</a></ul></nav>\
         <main><article><h1>Lamps</h1><p>{paragraph}<a href=/river>The river</a> is wide.</p><p>{}</p></article></main>\
         <footer><a href=/imprint>Imprint</a></footer></body></html>",
        paragraph.repeat(6)
    );
    let (document, content) = read(Some("text/html"), html.as_bytes());
    let placed: Vec<(&str, LinkPlace)> =
        document.links().map(|link| link.href).zip(content.places.iter().copied()).collect();
    assert_eq!(
        placed,
        [
            ("/home", LinkPlace::Navigation),
            ("/shop", LinkPlace::Navigation),
            ("/river", LinkPlace::Content),
            ("/imprint", LinkPlace::Navigation),
        ]
    );
}

#[test]
fn lazy_pictures_and_state_are_links_when_asked_for() {
    let html = b"<img src=a.png data-src=b.png data-srcset='c.png 1x, d.png 2x'>\
        <script id=__NEXT_DATA__ type=application/json>{\"href\":\"/next\"}</script>";
    let plain = Input { content_type: Some("text/html"), ..Input::new("https://a.test/", html) };
    let (document, content) = extract(plain);
    assert_eq!(document.links().map(|link| link.href).collect::<Vec<_>>(), ["a.png"]);
    assert!(content.unwrap().state_links.is_empty());
    let limits = Limits { lazy: true, state: true, ..Limits::default() };
    let (document, content) = extract(Input { limits, ..plain });
    let hrefs: Vec<&str> = document.links().map(|link| link.href).collect();
    assert_eq!(hrefs, ["a.png", "b.png", "c.png", "d.png"]);
    assert_eq!(content.unwrap().state_links[0].as_str(), "https://a.test/next");
}

#[test]
fn a_page_that_only_a_script_would_fill_has_the_text_of_its_state() {
    let sentence = "The lamps along the river are lit one after the other. ";
    let html = format!(
        "<div id=__next></div><script id=__NEXT_DATA__ type=application/json>\
         {{\"props\":{{\"title\":\"x\",\"body\":\"<p>{}</p>\"}}}}</script>",
        sentence.repeat(10)
    );
    let (_, content) = read(Some("text/html"), html.as_bytes());
    assert_eq!(content.text, sentence.repeat(10).trim());
}
