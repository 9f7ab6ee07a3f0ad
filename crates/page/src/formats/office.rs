//! What do documents, tables and slides of office programs say?
//!
//! OOXML (docx, xlsx, pptx) and OpenDocument (odt, ods, odp) are XML in a zip. Of all of them the
//! same is read: paragraphs, headings, cells, links, and who wrote it when.
//!
//! Always: bounded by what is unpacked of the zip, and by the text that is kept.

use std::collections::HashMap;

use serde_json::json;

use super::xml::{Walk, walk};
use super::zip::Zip;
use super::{Reading, Source};
use crate::content::Heading;
use crate::links::LinkKind;

const TEXT_BYTES_MAX: usize = 8 << 20;
const HEADINGS_MAX: usize = 500;
const LINKS_MAX: usize = 10_000;

/// Slides and sheets that are looked for by their numbers.
const PARTS_MAX: usize = 2_000;

pub(super) fn read(source: &Source<'_>) -> Reading {
    let zip = Zip::open(source.body);
    let has = |name: &str| zip.names().any(|known| known == name);
    let mut writer = Writer::default();
    let format = if has("content.xml") {
        writer.read_open_document(&zip);
        "application/vnd.oasis.opendocument"
    } else if has("word/document.xml") {
        writer.part(&zip, "word/document.xml", &[]);
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    } else if zip.names().any(|name| name.starts_with("ppt/")) {
        writer.numbered(&zip, "ppt/slides/slide", &[]);
        "application/vnd.openxmlformats-officedocument.presentationml.presentation"
    } else if zip.names().any(|name| name.starts_with("xl/")) {
        let shared = shared_strings(&zip);
        writer.numbered(&zip, "xl/worksheets/sheet", &shared);
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    } else {
        ""
    };
    let mut reading = Reading {
        text: writer.out.trim().to_owned(),
        markdown: Some(writer.markdown.trim().to_owned()),
        headings: writer.headings,
        links: writer.links,
        about: Some(json!({
            "@type": "DigitalDocument", "@source": "office", "encodingFormat": format,
        })),
        ..Reading::default()
    };
    for part in ["docProps/core.xml", "meta.xml"] {
        describe(&zip, part, &mut reading);
    }
    reading
}

/// Title, author and dates.
fn describe(zip: &Zip<'_>, part: &str, reading: &mut Reading) {
    let Some(xml) = zip.text(part) else { return };
    let mut name = String::new();
    walk(&xml, |step| match step {
        Walk::Start { name: found, .. } => name = local(found).to_ascii_lowercase(),
        Walk::End(_) => name.clear(),
        Walk::Text(text) => {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            if text.is_empty() || text.len() > 2_000 {
                return;
            }
            let date = || crate::date::parse(&text).map(|moment| moment.text);
            match name.as_str() {
                "title" => reading.title = Some(text),
                "creator" | "initial-creator" => reading.author = Some(text),
                "description" | "subject" => reading.description = Some(text),
                "language" => reading.language = Some(text),
                "created" | "creation-date" => reading.published = date(),
                "modified" | "date" => reading.modified = date(),
                _ => {}
            }
        }
    });
}

fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

/// The texts that cells of a table point to.
fn shared_strings(zip: &Zip<'_>) -> Vec<String> {
    let Some(xml) = zip.text("xl/sharedStrings.xml") else { return Vec::new() };
    let mut strings = Vec::new();
    let mut inside = false;
    walk(&xml, |step| match step {
        Walk::Start { name, .. } => match local(name) {
            "si" => strings.push(String::new()),
            "t" => inside = true,
            _ => {}
        },
        Walk::End(name) => inside &= local(name) != "t",
        Walk::Text(text) => {
            if let (true, Some(string)) = (inside, strings.last_mut()) {
                string.push_str(text);
            }
        }
    });
    strings
}

/// Where the links of a part lead, by their names in it.
fn targets(zip: &Zip<'_>, part: &str) -> HashMap<String, String> {
    let (folder, file) = part.rsplit_once('/').unwrap_or(("", part));
    let Some(xml) = zip.text(&format!("{folder}/_rels/{file}.rels")) else { return HashMap::new() };
    let mut targets = HashMap::new();
    walk(&xml, |step| {
        if let Walk::Start { attributes, .. } = step {
            let get = |name: &str| attributes.iter().find(|(key, _)| key == name).map(|(_, v)| v);
            if let (Some(id), Some(target), Some(mode)) =
                (get("id"), get("target"), get("targetmode"))
                && mode == "External"
            {
                targets.insert(id.clone(), target.clone());
            }
        }
    });
    targets
}

/// Gathers text and markdown of one document.
#[derive(Default)]
struct Writer {
    out: String,
    markdown: String,
    headings: Vec<Heading>,
    links: Vec<(LinkKind, String, String)>,
    /// The paragraph that is being read.
    line: String,
    level: Option<u8>,
    item: bool,
    /// The open link, and where in the paragraph its text begins.
    link: Option<(String, usize)>,
    /// Cells of the open row.
    row: Option<Vec<String>>,
    /// Bytes of text that were taken; a cell can name a long text of many.
    taken: usize,
}

impl Writer {
    fn numbered(&mut self, zip: &Zip<'_>, start: &str, shared: &[String]) {
        for number in 1..=PARTS_MAX {
            let name = format!("{start}{number}.xml");
            if !zip.names().any(|known| known == name) {
                break;
            }
            self.part(zip, &name, shared);
        }
    }

    /// A part of an OOXML document: text in `w:t`, `a:t` or a cell's `v`, paragraphs in `p`.
    fn part(&mut self, zip: &Zip<'_>, name: &str, shared: &[String]) {
        let Some(xml) = zip.text(name) else { return };
        let targets = targets(zip, name);
        let mut inside = false;
        let mut shared_cell = false;
        walk(&xml, |step| match step {
            Walk::Start { name, attributes, empty } => {
                let get = |name: &str| {
                    let found = attributes.iter().find(|(key, _)| local(key) == name);
                    found.map(|(_, value)| value.as_str())
                };
                match local(name) {
                    "t" | "v" | "is" => inside = !empty,
                    "tab" => self.line.push(' '),
                    "br" | "cr" => self.line.push('\n'),
                    "pStyle" => self.level = get("val").and_then(heading_level),
                    "numPr" => self.item = true,
                    "hyperlink" | "hlinkClick" => {
                        if let Some(target) = get("id").and_then(|id| targets.get(id)) {
                            self.open_link(target);
                        }
                    }
                    "tr" | "row" => self.row = Some(Vec::new()),
                    "c" => shared_cell = get("t") == Some("s"),
                    _ => {}
                }
            }
            Walk::End(name) => match local(name) {
                "t" | "v" | "is" => inside = false,
                "hyperlink" => self.close_link(),
                "p" => self.end_paragraph(),
                "tc" | "c" => self.end_cell(),
                "tr" | "row" => self.end_row(),
                _ => {}
            },
            Walk::Text(text) if inside => match shared_cell {
                true => {
                    let at = text.trim().parse::<usize>().ok();
                    self.push(at.and_then(|at| shared.get(at)).map_or("", String::as_str));
                }
                false => self.push(text),
            },
            Walk::Text(_) => {}
        });
        self.end_row();
        self.end_paragraph();
    }

    fn read_open_document(&mut self, zip: &Zip<'_>) {
        let Some(xml) = zip.text("content.xml") else { return };
        let mut open = 0_usize;
        let mut items = 0_usize;
        walk(&xml, |step| match step {
            Walk::Start { name, attributes, empty } => {
                let get = |name: &str| {
                    let found = attributes.iter().find(|(key, _)| local(key) == name);
                    found.map(|(_, value)| value.as_str())
                };
                match name {
                    "text:p" | "text:h" if !empty => {
                        open += 1;
                        self.item = items > 0;
                        if name == "text:h" {
                            let level = get("outline-level").and_then(|level| level.parse().ok());
                            self.level = Some(level.unwrap_or(1_u8).clamp(1, 6));
                        }
                    }
                    "text:list-item" if !empty => items += 1,
                    "text:s" | "text:tab" => self.line.push(' '),
                    "text:line-break" => self.line.push('\n'),
                    "text:a" => {
                        if let Some(href) = get("href") {
                            self.open_link(href);
                        }
                    }
                    "table:table-row" => self.row = Some(Vec::new()),
                    _ => {}
                }
            }
            Walk::End(name) => match name {
                "text:a" => self.close_link(),
                "text:p" | "text:h" => {
                    open = open.saturating_sub(1);
                    self.end_paragraph();
                }
                "text:list-item" => items = items.saturating_sub(1),
                "table:table-cell" => self.end_cell(),
                "table:table-row" => self.end_row(),
                _ => {}
            },
            Walk::Text(text) if open > 0 => self.push(text),
            Walk::Text(_) => {}
        });
        self.end_row();
        self.end_paragraph();
    }

    fn push(&mut self, text: &str) {
        if self.taken + text.len() <= TEXT_BYTES_MAX {
            self.taken += text.len();
            self.line.push_str(text);
        }
    }

    fn open_link(&mut self, target: &str) {
        self.close_link();
        self.link = Some((target.to_owned(), self.line.len()));
    }

    fn close_link(&mut self) {
        let Some((target, from)) = self.link.take() else { return };
        let text = self.line.get(from..).unwrap_or_default().split_whitespace();
        let text: String = text.collect::<Vec<_>>().join(" ").chars().take(200).collect();
        if self.links.len() < LINKS_MAX {
            self.links.push((LinkKind::Anchor, target, text));
        }
    }

    fn end_paragraph(&mut self) {
        self.close_link();
        if self.row.is_some() {
            // The paragraphs of a cell stand in one line.
            self.line.push(' ');
            return;
        }
        let line = tidy(&std::mem::take(&mut self.line));
        let (level, item) = (self.level.take(), std::mem::take(&mut self.item));
        if line.is_empty() {
            return;
        }
        let mark = match level {
            Some(level) => "#".repeat(usize::from(level)) + " ",
            None if item => "- ".to_owned(),
            None => String::new(),
        };
        let (text_mark, gap) = if item { ("- ", "\n") } else { ("", "\n\n") };
        self.out.push_str(&format!("{text_mark}{line}{gap}"));
        self.markdown.push_str(&format!("{mark}{line}{gap}"));
        if let (Some(level), true) = (level, self.headings.len() < HEADINGS_MAX) {
            self.headings.push(Heading { level, text: line.replace('\n', " ") });
        }
    }

    fn end_cell(&mut self) {
        self.close_link();
        let line = tidy(&std::mem::take(&mut self.line)).replace('\n', " ");
        if let Some(row) = &mut self.row {
            row.push(line);
        }
    }

    fn end_row(&mut self) {
        let Some(row) = self.row.take() else { return };
        let line = row.join(" | ");
        if row.iter().all(String::is_empty) {
            return;
        }
        self.out.push_str(&line);
        self.out.push('\n');
        self.markdown.push_str(&format!("| {line} |\n"));
    }
}

/// `Heading2`, `berschrift1`, `Title`: the level of a style.
fn heading_level(style: &str) -> Option<u8> {
    let style = style.to_ascii_lowercase();
    if style == "title" {
        return Some(1);
    }
    let named = ["heading", "berschrift", "titre", "titolo", "ttulo", "rubrik", "kop"];
    let is_heading = named.iter().any(|name| style.contains(name));
    let level = style.bytes().next_back().filter(u8::is_ascii_digit)? - b'0';
    (is_heading && (1..=6).contains(&level)).then_some(level)
}

fn tidy(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::zip::tests::zipped;

    fn reading(files: &[(&str, &str)]) -> Reading {
        let body = zipped(files);
        read(&Source { body: &body, text: "", url: None })
    }

    #[test]
    fn a_document_has_headings_paragraphs_tables_and_links() {
        let reading = reading(&[
            (
                "word/document.xml",
                "<w:document><w:body><w:p><w:pPr><w:pStyle w:val='Heading1'/></w:pPr><w:r><w:t>Lamps</w:t></w:r></w:p>\
                 <w:p><w:r><w:t xml:space='preserve'>See </w:t></w:r><w:hyperlink r:id='rId4'><w:r><w:t>the shop</w:t></w:r></w:hyperlink>\
                 <w:r><w:t> &amp; more.</w:t></w:r></w:p><w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>first</w:t></w:r></w:p>\
                 <w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>\
                 </w:body></w:document>",
            ),
            (
                "word/_rels/document.xml.rels",
                "<Relationships><Relationship Id='rId4' Target='https://a.test/shop' TargetMode='External'/></Relationships>",
            ),
            (
                "docProps/core.xml",
                "<cp:coreProperties><dc:title>All lamps</dc:title><dc:creator>Ann</dc:creator>\
                 <dcterms:created>2024-05-17T09:30:00Z</dcterms:created></cp:coreProperties>",
            ),
        ]);
        assert_eq!(reading.text, "Lamps\n\nSee the shop & more.\n\n- first\na | b");
        assert_eq!(
            reading.markdown.unwrap(),
            "# Lamps\n\nSee the shop & more.\n\n- first\n| a | b |"
        );
        assert_eq!(reading.title.as_deref(), Some("All lamps"));
        assert_eq!(reading.author.as_deref(), Some("Ann"));
        assert_eq!(reading.published.as_deref(), Some("2024-05-17T09:30:00Z"));
        let link = (LinkKind::Anchor, "https://a.test/shop".to_owned(), "the shop".to_owned());
        assert_eq!(reading.links, [link]);
        assert_eq!(reading.headings.len(), 1);
    }

    #[test]
    fn tables_slides_and_open_documents_are_read() {
        let table = reading(&[
            (
                "xl/sharedStrings.xml",
                "<sst><si><t>Lamp</t></si><si><r><t>Pri</t></r><r><t>ce</t></r></si></sst>",
            ),
            (
                "xl/worksheets/sheet1.xml",
                "<worksheet><sheetData><row><c t='s'><v>0</v></c><c t='s'><v>1</v></c></row>\
                 <row><c><v>3</v></c><c t='inlineStr'><is><t>x</t></is></c></row></sheetData></worksheet>",
            ),
        ]);
        assert_eq!(table.text, "Lamp | Price\n3 | x");
        let slides = reading(&[
            ("ppt/slides/slide1.xml", "<p:sld><a:p><a:r><a:t>One</a:t></a:r></a:p></p:sld>"),
            ("ppt/slides/slide2.xml", "<p:sld><a:p><a:r><a:t>Two</a:t></a:r></a:p></p:sld>"),
        ]);
        assert_eq!(slides.text, "One\n\nTwo");
        let open = reading(&[
            (
                "content.xml",
                "<office:text><text:h text:outline-level='2'>Head</text:h><text:p>see <text:a xlink:href='https://b.test/'>b</text:a></text:p></office:text>",
            ),
            ("meta.xml", "<office:meta><dc:title>T</dc:title></office:meta>"),
        ]);
        assert_eq!(open.text, "Head\n\nsee b");
        assert_eq!((open.title.as_deref(), open.headings[0].level), (Some("T"), 2));
        assert_eq!(open.links[0].1, "https://b.test/");
    }

    #[test]
    fn what_is_no_office_document_is_empty() {
        for bytes in [&b""[..], b"PK\x03\x04", b"PK\x05\x06 and nothing"] {
            let source = Source { body: bytes, text: "", url: None };
            assert_eq!(read(&source).text, "");
        }
    }
}
