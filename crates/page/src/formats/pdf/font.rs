//! Which characters do the codes of a font stand for, and how wide are they?
//!
//! Asked in this order: the font's map to Unicode; the map by which codes of Chinese, Japanese and
//! Korean fonts are chosen; its encoding, by names of glyphs; the encoding that is written in the
//! font's own file. What nobody tells is left out.

use std::collections::HashMap;

use encoding_rs::{BIG5, EUC_KR, Encoding, GBK, MACINTOSH, SHIFT_JIS, UTF_16BE, WINDOWS_1252};

use super::file::File;
use super::glyphs;
use super::object::{Dict, Object, Parser};

/// Codes that a map may name, repeats counted; all of a font's glyphs are fewer.
const CODES_MAX: usize = 70_000;

/// What a code costs of the file's budget.
const CODE_WORK: usize = 32;

#[derive(Debug)]
pub(super) struct Font {
    /// Codes have two bytes.
    wide: bool,
    map: HashMap<u32, String>,
    /// By the code where the map says nothing.
    fallback: Fallback,
    /// In thousandths of the size.
    widths: HashMap<u32, f32>,
    usual_width: f32,
}

#[derive(Debug)]
enum Fallback {
    Names(Vec<Option<String>>),
    Encoding(&'static Encoding),
    Nothing,
}

impl Font {
    pub(super) fn of(file: &File<'_>, dict: &Dict) -> Self {
        let kind = file.member(dict, "Subtype");
        let map = dict.get("ToUnicode").and_then(|map| file.stream(map));
        let map = map.map(|(_, text)| read_map(&text)).unwrap_or_default();
        file.pay(CODE_WORK * (256 + map.len()));
        if kind.name() == Some(b"Type0") {
            return Self::composite(file, dict, map);
        }
        let (widths, usual_width) = simple_widths(file, dict);
        let fallback = Fallback::Names(simple_names(file, dict));
        Self { wide: false, map, fallback, widths, usual_width }
    }

    fn composite(file: &File<'_>, dict: &Dict, map: HashMap<u32, String>) -> Self {
        let below = file.member(dict, "DescendantFonts");
        let below = below.list().and_then(|list| list.first()).map(|font| file.get(font));
        let below = below.as_ref().and_then(Object::dict).cloned().unwrap_or_default();
        let usual_width = file.member(&below, "DW").number().unwrap_or(1000.0) as f32;
        let widths = composite_widths(file, &below);
        let name = file.member(dict, "Encoding");
        let name = String::from_utf8_lossy(name.name().unwrap_or_default()).into_owned();
        let fallback = match name.as_str() {
            name if name.starts_with("Uni") => Fallback::Encoding(UTF_16BE),
            name if name.contains("RKSJ") => Fallback::Encoding(SHIFT_JIS),
            name if name.starts_with("GB") => Fallback::Encoding(GBK),
            name if name.contains("B5") => Fallback::Encoding(BIG5),
            name if name.starts_with("KSC") => Fallback::Encoding(EUC_KR),
            _ => Fallback::Nothing,
        };
        Self { wide: true, map, fallback, widths, usual_width }
    }

    /// What a string shows, and its width in thousandths of the size, letter by letter.
    pub(super) fn read(&self, string: &[u8], mut take: impl FnMut(&str, f32, bool)) {
        let step = if self.wide { 2 } else { 1 };
        for code in string.chunks(step) {
            let value = code.iter().fold(0, |value, &byte| value << 8 | u32::from(byte));
            let width = self.widths.get(&value).copied().unwrap_or(self.usual_width);
            let is_space = code == [b' '];
            match (self.map.get(&value), &self.fallback) {
                (Some(text), _) => take(text, width, is_space),
                (None, Fallback::Names(names)) => {
                    let name = names.get(value as usize).and_then(Option::as_deref);
                    take(name.unwrap_or(""), width, is_space);
                }
                (None, Fallback::Encoding(encoding)) => {
                    let (text, broken) = encoding.decode_without_bom_handling(code);
                    take(if broken { "" } else { &text }, width, is_space);
                }
                (None, Fallback::Nothing) => take("", width, is_space),
            }
        }
    }
}

fn simple_widths(file: &File<'_>, dict: &Dict) -> (HashMap<u32, f32>, f32) {
    let first = file.member(dict, "FirstChar").number().unwrap_or(0.0).clamp(0.0, 255.0) as u32;
    let list = file.member(dict, "Widths");
    let mut widths = HashMap::new();
    for (at, width) in list.list().unwrap_or_default().iter().take(256).enumerate() {
        if let Some(width) = file.get(width).number() {
            widths.insert(first + at as u32, width as f32);
        }
    }
    // The fonts that every reader has need no widths; half of the size is about their mean.
    let base = file.member(dict, "BaseFont");
    let is_courier = base.name().is_some_and(|name| name.starts_with(b"Courier"));
    (widths, if is_courier { 600.0 } else { 500.0 })
}

/// `[ 1 [500 600] 7 9 1000 ]`: codes 1 and 2 one by one, codes 7 to 9 alike.
fn composite_widths(file: &File<'_>, below: &Dict) -> HashMap<u32, f32> {
    let mut widths = HashMap::new();
    let mut left = CODES_MAX;
    let list = file.member(below, "W");
    let mut rest = list.list().unwrap_or_default();
    while let [first, second, behind @ ..] = rest {
        let Some(first) = first.number().map(|first| first.clamp(0.0, 65_535.0) as u32) else {
            break;
        };
        match (file.get(second), behind) {
            (Object::List(each), _) => {
                for (at, width) in each.iter().take(left).enumerate() {
                    widths.insert(first + at as u32, width.number().unwrap_or(1000.0) as f32);
                }
                left = left.saturating_sub(each.len());
                rest = behind;
            }
            (Object::Number(last), [width, behind @ ..]) => {
                let width = width.number().unwrap_or(1000.0) as f32;
                let codes = first..=last.clamp(0.0, 65_535.0) as u32;
                let count = codes.clone().count();
                widths.extend(codes.take(left).map(|code| (code, width)));
                left = left.saturating_sub(count);
                rest = behind;
            }
            _ => break,
        }
        if left == 0 {
            break;
        }
    }
    file.pay(CODE_WORK * (CODES_MAX - left));
    widths
}

/// What each of the 256 codes shows.
fn simple_names(file: &File<'_>, dict: &Dict) -> Vec<Option<String>> {
    let encoding = file.member(dict, "Encoding");
    let own = encoding.dict();
    let base = encoding
        .name()
        .map(<[u8]>::to_vec)
        .or_else(|| Some(own?.get("BaseEncoding")?.name()?.to_vec()));
    let descriptor = file.member(dict, "FontDescriptor");
    let descriptor = descriptor.dict();
    let mut names = match base.as_deref() {
        Some(b"WinAnsiEncoding") => by_encoding(WINDOWS_1252),
        Some(b"MacRomanEncoding") => by_encoding(MACINTOSH),
        _ => {
            let built_in = descriptor.and_then(|descriptor| {
                let program = descriptor.get("FontFile")?;
                built_in_names(&file.stream(program)?.1)
            });
            built_in.unwrap_or_else(standard)
        }
    };
    let differences = own.map(|own| file.member(own, "Differences"));
    let mut code = 0;
    for object in differences.as_ref().and_then(Object::list).unwrap_or_default() {
        match file.get(object) {
            Object::Number(number) => code = number.clamp(0.0, 256.0) as usize,
            Object::Name(name) => {
                if let Some(shown) = names.get_mut(code) {
                    *shown = glyphs::shown(&name);
                }
                code += 1;
            }
            _ => {}
        }
    }
    names
}

fn by_encoding(encoding: &'static Encoding) -> Vec<Option<String>> {
    let shown = |code: u8| {
        let (text, broken) = encoding.decode_without_bom_handling(std::slice::from_ref(&code));
        (!broken && code >= 32).then(|| String::from(text))
    };
    (0..=255).map(shown).collect()
}

/// Adobe's standard encoding: ASCII with other quotation marks, and a few more above it.
fn standard() -> Vec<Option<String>> {
    const ABOVE: [(u8, &str); 58] = [
        (0x27, "’"),
        (0x60, "‘"),
        (0xa1, "¡"),
        (0xa2, "¢"),
        (0xa3, "£"),
        (0xa4, "⁄"),
        (0xa5, "¥"),
        (0xa6, "ƒ"),
        (0xa7, "§"),
        (0xa8, "¤"),
        (0xa9, "'"),
        (0xaa, "“"),
        (0xab, "«"),
        (0xac, "‹"),
        (0xad, "›"),
        (0xae, "fi"),
        (0xaf, "fl"),
        (0xb1, "–"),
        (0xb2, "†"),
        (0xb3, "‡"),
        (0xb4, "·"),
        (0xb6, "¶"),
        (0xb7, "•"),
        (0xb8, "‚"),
        (0xb9, "„"),
        (0xba, "”"),
        (0xbb, "»"),
        (0xbc, "…"),
        (0xbd, "‰"),
        (0xbf, "¿"),
        (0xc1, "`"),
        (0xc2, "´"),
        (0xc3, "ˆ"),
        (0xc4, "˜"),
        (0xc5, "¯"),
        (0xc6, "˘"),
        (0xc7, "˙"),
        (0xc8, "¨"),
        (0xca, "˚"),
        (0xcb, "¸"),
        (0xcd, "˝"),
        (0xce, "˛"),
        (0xcf, "ˇ"),
        (0xd0, "—"),
        (0xe1, "Æ"),
        (0xe3, "ª"),
        (0xe8, "Ł"),
        (0xe9, "Ø"),
        (0xea, "Œ"),
        (0xeb, "º"),
        (0xf1, "æ"),
        (0xf5, "ı"),
        (0xf8, "ł"),
        (0xf9, "ø"),
        (0xfa, "œ"),
        (0xfb, "ß"),
        (0x2d, "-"),
        (0x20, " "),
    ];
    let mut names: Vec<Option<String>> = (0..=255_u8)
        .map(|code| (0x20..0x7f).contains(&code).then(|| char::from(code).to_string()))
        .collect();
    for (code, text) in ABOVE {
        names[usize::from(code)] = Some(text.to_owned());
    }
    names
}

/// The encoding in the clear part of a Type 1 font: `dup 65 /A put`.
fn built_in_names(program: &[u8]) -> Option<Vec<Option<String>>> {
    let from = memchr::memmem::find(program, b"/Encoding")?;
    let end = memchr::memmem::find(program, b"eexec").unwrap_or(program.len());
    let mut parser = Parser::content(program.get(from..end)?);
    let mut names = vec![None; 256];
    let mut found = false;
    let mut code = None;
    while let Some(object) = parser.next() {
        match object {
            Object::Number(number) => code = Some(number.clamp(0.0, 256.0) as usize),
            Object::Name(name) => {
                if let Some(shown) = code.take().and_then(|code| names.get_mut(code)) {
                    *shown = glyphs::shown(&name);
                    found = true;
                }
            }
            Object::Word(word) if word == b"def" || word == b"readonly" => break,
            _ => {}
        }
    }
    found.then_some(names)
}

/// The map of a font to Unicode: `beginbfchar`, `beginbfrange`.
fn read_map(text: &[u8]) -> HashMap<u32, String> {
    let mut map = HashMap::new();
    let mut left = CODES_MAX;
    let mut parser = Parser::content(text);
    let mut waiting: Vec<Object> = Vec::new();
    while let Some(object) = parser.next() {
        let Object::Word(word) = object else {
            if waiting.len() < CODES_MAX {
                waiting.push(object);
            }
            continue;
        };
        match word.as_slice() {
            b"endbfchar" => {
                for pair in waiting.chunks_exact(2).take(left) {
                    left -= 1;
                    if let (Some(code), Some(text)) = (code_of(&pair[0]), pair[1].string()) {
                        map.insert(code, utf_16(text));
                    }
                }
            }
            b"endbfrange" => {
                waiting.chunks_exact(3).for_each(|range| add_range(&mut map, range, &mut left));
            }
            _ => {}
        }
        waiting.clear();
        if left == 0 {
            break;
        }
    }
    map
}

fn add_range(map: &mut HashMap<u32, String>, range: &[Object], left: &mut usize) {
    let (Some(first), Some(last)) = (code_of(&range[0]), code_of(&range[1])) else { return };
    let codes = (first..=last.min(first.saturating_add(0xffff))).take(*left);
    *left = left.saturating_sub((last.saturating_sub(first) as usize).saturating_add(1));
    match &range[2] {
        Object::List(texts) => {
            for (code, text) in codes.zip(texts) {
                map.insert(code, utf_16(text.string().unwrap_or_default()));
            }
        }
        Object::String(text) => {
            // The last unit counts on.
            let Some((start, last)) = text.split_last_chunk::<2>() else { return };
            let start = start.to_vec();
            let last = u16::from_be_bytes(*last);
            for (step, code) in codes.enumerate() {
                let unit = last.wrapping_add(step as u16).to_be_bytes();
                map.insert(code, utf_16(&[start.as_slice(), &unit].concat()));
            }
        }
        _ => {}
    }
}

fn code_of(object: &Object) -> Option<u32> {
    let code = object.string().filter(|code| (1..=4).contains(&code.len()))?;
    Some(code.iter().fold(0, |value, &byte| value << 8 | u32::from(byte)))
}

fn utf_16(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let text: String = char::decode_utf16(units.take(32)).flatten().collect();
    glyphs::unligated(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_to_unicode_has_single_codes_and_ranges() {
        let map = read_map(
            b"1 begincodespacerange <00> <ff> endcodespacerange 2 beginbfchar <01> <00480069>\n\
              <02> <D83DDE00> endbfchar 2 beginbfrange <10> <12> <0041> <20> <21> [<0061> <FB01>]\n\
              endbfrange",
        );
        let shown = |code: u32| map.get(&code).map(String::as_str);
        assert_eq!(shown(1), Some("Hi"));
        assert_eq!(shown(2), Some("😀"));
        assert_eq!((shown(0x10), shown(0x12), shown(0x13)), (Some("A"), Some("C"), None));
        assert_eq!((shown(0x20), shown(0x21)), (Some("a"), Some("fi")));
    }

    #[test]
    fn a_font_file_tells_its_encoding() {
        let names = built_in_names(
            b"/Encoding 256 array 0 1 255 {1 index exch /.notdef put} for\n\
              dup 11 /ff put dup 65 /Aacute put readonly def currentfile eexec\x01\x02",
        );
        let names = names.unwrap();
        assert_eq!(names[11].as_deref(), Some("ff"));
        assert_eq!(names[65].as_deref(), Some("Á"));
    }
}
