//! What does a PDF say, and where does it lead?
//!
//! A reader of our own: the crates for it panic on broken files, or take as long as the file likes.
//! Here time and memory are bounded by counting (bytes unpacked, operators run, text kept), so it
//! needs neither a process nor a clock of its own to be safe in a crawl. `file` finds the objects of a
//! file however broken it is, `filters` unpacks them, `font` knows what letters mean, `show` runs the
//! programs of its pages.
//!
//! Always: no bytes panic, and a file of any content is read in a second or so at most.
//!
//! Not here: text in pictures; files under lock and key, of which the number of pages is told.

mod file;
mod filters;
mod font;
mod glyphs;
mod object;
mod show;

use std::collections::HashSet;
use std::rc::Rc;

use file::File;
use object::{Dict, Object};
use show::{Piece, Showing, lines};

/// Pages that are read; their text is bounded beside it.
const PAGES_MAX: usize = 5_000;

/// The Bible has four million.
const TEXT_BYTES_MAX: usize = 8 << 20;

const LINKS_MAX: usize = 10_000;
const HEADINGS_MAX: usize = 500;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Pdf {
    pub(crate) title: Option<String>,
    pub(crate) author: Option<String>,
    pub(crate) subject: Option<String>,
    /// As ISO 8601.
    pub(crate) created: Option<String>,
    pub(crate) modified: Option<String>,
    pub(crate) language: Option<String>,
    pub(crate) text: String,
    pub(crate) pages: usize,
    /// Addresses as written, with the text that they lie under.
    pub(crate) links: Vec<(String, String)>,
    /// Of its table of contents: level from 1, and text.
    pub(crate) headings: Vec<(u8, String)>,
    /// It is encrypted: text and links are not read.
    pub(crate) locked: bool,
}

pub(crate) fn read(bytes: &[u8]) -> Pdf {
    let file = File::open(bytes);
    let mut pdf = Pdf { locked: file.is_locked(), ..Pdf::default() };
    let root = root(&file);
    let pages = pages(&file, &root);
    pdf.pages = pages.len();
    if pdf.locked {
        return pdf;
    }
    describe(&file, &root, &mut pdf);
    let mut showing = Showing::new(&file, TEXT_BYTES_MAX);
    let mut largest = None;
    for (at, (page, resources)) in pages.iter().enumerate() {
        let pieces = showing.page(page, resources);
        if at == 0 {
            largest = headline(&pieces);
        }
        links(&file, page, &pieces, &mut pdf.links);
        let text = lines(&pieces);
        if !text.is_empty() {
            if !pdf.text.is_empty() {
                pdf.text.push_str("\n\n");
            }
            pdf.text.push_str(&text);
        }
        if showing.is_spent() {
            break;
        }
    }
    pdf.title = pdf.title.or(largest);
    headings(&file, &root, &mut pdf.headings);
    pdf
}

/// The catalogue; in a file that has lost its trailer, whichever object says it is one.
fn root(file: &File<'_>) -> Dict {
    if let Some(Object::Dict(root)) = file.trailer.root.as_ref().map(|root| file.get(root))
        && root.get("Pages").is_some()
    {
        return root;
    }
    let all = file.numbers().into_iter().rev().map(|number| file.numbered(number));
    let mut catalogues = all.filter_map(|object| match object {
        Object::Dict(dict) if dict.is_type("Catalog") => Some(dict),
        _ => None,
    });
    catalogues.next().unwrap_or_default()
}

/// Pages with their resources, in order; without a tree of them, in the order of their numbers.
fn pages(file: &File<'_>, root: &Dict) -> Vec<(Dict, Rc<Dict>)> {
    let mut pages = Vec::new();
    let mut seen = HashSet::new();
    // What is still to be visited, the next one last.
    let mut waiting: Vec<(Object, Rc<Dict>)> =
        root.get("Pages").map(|pages| (pages.clone(), Rc::default())).into_iter().collect();
    while let Some((object, inherited)) = waiting.pop() {
        if let Object::Reference(number) = object
            && !seen.insert(number)
        {
            continue;
        }
        let Object::Dict(dict) = file.get(&object) else { continue };
        let own = match file.member(&dict, "Resources") {
            Object::Dict(own) => Rc::new(own),
            _ => inherited,
        };
        match file.member(&dict, "Kids") {
            Object::List(kids) => {
                let kids = kids.into_iter().take(PAGES_MAX).rev();
                waiting.extend(kids.map(|kid| (kid, Rc::clone(&own))));
            }
            _ => pages.push((dict, own)),
        }
        if pages.len() >= PAGES_MAX || seen.len() > 4 * PAGES_MAX {
            break;
        }
    }
    if pages.is_empty() {
        let all = file.numbers().into_iter().map(|number| file.numbered(number));
        let loose = all.filter_map(|object| match object {
            Object::Dict(dict) if dict.is_type("Page") => Some(dict),
            _ => None,
        });
        for page in loose.take(PAGES_MAX) {
            let resources = file.member(&page, "Resources");
            pages.push((page, Rc::new(resources.dict().cloned().unwrap_or_default())));
        }
    }
    pages
}

fn describe(file: &File<'_>, root: &Dict, pdf: &mut Pdf) {
    let info = file.trailer.info.as_ref().map(|info| file.get(info));
    let info = info.as_ref().and_then(Object::dict).cloned().unwrap_or_default();
    let told = |name: &str| {
        let text = text_of(file.member(&info, name).string()?);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(text).filter(|text| !text.is_empty() && text.len() <= 2_000)
    };
    let xmp = root.get("Metadata").and_then(|xmp| file.stream(xmp));
    let xmp = xmp.map(|(_, xmp)| String::from_utf8_lossy(&xmp).into_owned()).unwrap_or_default();
    // Names of files stand there more often than nothing does.
    let is_title = |title: &String| {
        let lower = title.to_ascii_lowercase();
        let ends = [".doc", ".docx", ".indd", ".tex", ".dvi", ".qxd", ".xls", ".ppt"];
        lower != "untitled" && !ends.iter().any(|end| lower.ends_with(end))
    };
    pdf.title = told("Title").or_else(|| in_xmp(&xmp, "dc:title")).filter(is_title);
    pdf.author = told("Author").or_else(|| in_xmp(&xmp, "dc:creator"));
    pdf.subject = told("Subject").or_else(|| in_xmp(&xmp, "dc:description"));
    pdf.created = told("CreationDate").and_then(|date| date_of(&date));
    pdf.modified = told("ModDate").and_then(|date| date_of(&date));
    let language = file.member(root, "Lang");
    pdf.language = language.string().map(text_of).filter(|tag| !tag.trim().is_empty());
}

/// The text of an element of the metadata: `<dc:title><rdf:Alt><rdf:li …>It</rdf:li>…`.
fn in_xmp(xmp: &str, name: &str) -> Option<String> {
    let from = xmp.find(&format!("<{name}"))?;
    let element = &xmp[from..];
    let element = &element[..element.find(&format!("</{name}"))?];
    let mut words = crate::text::Words::new(2_000);
    let texts = element.split('<').skip(1).filter_map(|part| part.split_once('>'));
    texts.for_each(|(_, text)| {
        words.add_literal(" ");
        words.add(text);
    });
    Some(words.into_string()).filter(|text| !text.is_empty())
}

/// A string outside of pages: UTF-16 or UTF-8 by its mark, else nearly Latin-1.
fn text_of(string: &[u8]) -> String {
    let text = match encoding_rs::Encoding::for_bom(string) {
        Some((encoding, mark)) => encoding.decode_without_bom_handling(&string[mark..]).0,
        None => encoding_rs::WINDOWS_1252.decode_without_bom_handling(string).0,
    };
    text.chars().filter(|c| !c.is_control() || c.is_whitespace()).collect()
}

/// `D:20240517093000+02'00'`, from the year on as far as it goes.
fn date_of(text: &str) -> Option<String> {
    let rest = text.trim().trim_start_matches("D:");
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let field = |from: usize, to: usize| rest.get(from..to).filter(|_| digits >= to);
    let (year, month, day) = (field(0, 4)?, field(4, 6)?, field(6, 8)?);
    let day = format!("{year}-{month}-{day}");
    let Some((hour, minute)) = field(8, 10).zip(field(10, 12)) else {
        return crate::date::parse(&day).map(|moment| moment.text);
    };
    let second = field(12, 14).unwrap_or("00");
    let zone = rest[digits..].replace('\'', "");
    let zone = match zone.as_bytes() {
        [b'+' | b'-', b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', ..] => {
            format!("{}:{}", &zone[..3], &zone[3..5])
        }
        [b'+' | b'-', b'0'..=b'9', b'0'..=b'9', ..] => format!("{}:00", &zone[..3]),
        _ => "Z".to_owned(),
    };
    crate::date::parse(&format!("{day}T{hour}:{minute}:{second}{zone}")).map(|moment| moment.text)
}

/// The text in the largest letters of the first page, if it is no more than a headline.
fn headline(pieces: &[Piece]) -> Option<String> {
    let letters = pieces.iter().filter(|piece| piece.text.chars().any(char::is_alphabetic));
    let size = letters.map(|piece| piece.size).max_by(f32::total_cmp)?;
    let largest: Vec<&Piece> = pieces.iter().filter(|piece| piece.size > 0.95 * size).collect();
    let smaller = pieces.iter().any(|piece| piece.size < 0.9 * size);
    let words: Vec<&str> =
        largest.iter().flat_map(|piece| piece.text.split_whitespace()).take(40).collect();
    let all = largest.iter().map(|piece| piece.text.len()).sum::<usize>();
    if !smaller || !(4..=300).contains(&all) {
        return None;
    }
    let pieces = largest.iter().map(|piece| Piece {
        text: piece.text.clone(),
        from: piece.from,
        to: piece.to,
        size: piece.size,
    });
    let title = lines(&pieces.collect::<Vec<_>>());
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    (!words.is_empty()).then_some(title)
}

/// The addresses that lie over a page.
fn links(file: &File<'_>, page: &Dict, pieces: &[Piece], links: &mut Vec<(String, String)>) {
    let notes = file.member(page, "Annots");
    for note in notes.list().unwrap_or_default() {
        if links.len() >= LINKS_MAX {
            return;
        }
        let Object::Dict(note) = file.get(note) else { continue };
        let Object::Dict(action) = file.member(&note, "A") else { continue };
        let Object::String(address) = file.member(&action, "URI") else { continue };
        let place = file.member(&note, "Rect");
        // Every piece of the page is looked at.
        if !file.pay(pieces.len()) {
            return;
        }
        let text = place.list().map(|place| text_under(file, place, pieces)).unwrap_or_default();
        links.push((text_of(&address).trim().to_owned(), text));
    }
}

fn text_under(file: &File<'_>, place: &[Object], pieces: &[Piece]) -> String {
    let place: Vec<f32> =
        place.iter().filter_map(|side| Some(file.get(side).number()? as f32)).collect();
    let &[a, b, c, d] = place.as_slice() else { return String::new() };
    let (left, right, below, above) = (a.min(c), a.max(c), b.min(d), b.max(d));
    let under = pieces.iter().filter(|piece| {
        let middle = (piece.from.0 + piece.to.0) / 2.0;
        (left..=right).contains(&middle)
            && (below - 1.0..=above).contains(&(piece.from.1 + 0.25 * piece.size))
    });
    let mut words = crate::text::Words::new(200);
    under.for_each(|piece| {
        words.add_literal(" ");
        words.add_literal(&piece.text);
    });
    words.into_string()
}

/// The table of contents that readers show beside the pages.
fn headings(file: &File<'_>, root: &Dict, headings: &mut Vec<(u8, String)>) {
    let Object::Dict(outlines) = file.member(root, "Outlines") else { return };
    let mut seen = HashSet::new();
    let mut waiting: Vec<(Object, u8)> =
        outlines.get("First").map(|first| (first.clone(), 1)).into_iter().collect();
    while let Some((object, level)) = waiting.pop() {
        let Object::Reference(number) = object else { continue };
        if headings.len() >= HEADINGS_MAX || !seen.insert(number) {
            continue;
        }
        let Object::Dict(entry) = file.get(&object) else { continue };
        if let Object::String(title) = file.member(&entry, "Title") {
            let title = text_of(&title).split_whitespace().collect::<Vec<_>>().join(" ");
            if !title.is_empty() {
                headings.push((level, title.chars().take(300).collect()));
            }
        }
        waiting.extend(entry.get("Next").map(|next| (next.clone(), level)));
        waiting.extend(entry.get("First").map(|first| (first.clone(), (level + 1).min(6))));
    }
}
