//! What is written in a PDF: numbers, names, strings, lists, dictionaries.
//!
//! One parser for the file and for the content of its pages, where operators stand between the
//! objects.
//!
//! Always: no bytes panic; nesting and lengths are bounded, and what is beyond is left out.

/// Lists in lists; real files nest a few.
const DEPTH_MAX: usize = 32;

/// Members of one list or dictionary.
const MEMBERS_MAX: usize = 100_000;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Object {
    Null,
    Number(f64),
    Name(Vec<u8>),
    String(Vec<u8>),
    List(Vec<Object>),
    Dict(Dict),
    /// Another object, by its number.
    Reference(u32),
    /// An operator of a page's content, or a word we do not know.
    Word(Vec<u8>),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Dict(Vec<(Vec<u8>, Object)>);

impl Dict {
    pub(super) fn get(&self, name: &str) -> Option<&Object> {
        self.0.iter().find(|(known, _)| known == name.as_bytes()).map(|(_, value)| value)
    }

    pub(super) fn is_type(&self, name: &str) -> bool {
        self.get("Type").and_then(Object::name) == Some(name.as_bytes())
    }
}

impl Object {
    /// How many objects it is made of: what a copy costs.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::List(list) => 1 + list.iter().map(Self::weight).sum::<usize>(),
            Self::Dict(dict) => 1 + dict.0.iter().map(|(_, value)| value.weight()).sum::<usize>(),
            Self::String(text) => 1 + text.len() / 64,
            _ => 1,
        }
    }

    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn name(&self) -> Option<&[u8]> {
        match self {
            Self::Name(name) => Some(name),
            _ => None,
        }
    }

    pub(super) fn string(&self) -> Option<&[u8]> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn list(&self) -> Option<&[Object]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    pub(super) fn dict(&self) -> Option<&Dict> {
        match self {
            Self::Dict(dict) => Some(dict),
            _ => None,
        }
    }
}

/// Reads objects from `at` on.
#[derive(Debug)]
pub(super) struct Parser<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) at: usize,
    /// Whether `5 0 R` is a reference; in the content of a page it is not.
    pub(super) references: bool,
}

impl<'b> Parser<'b> {
    pub(super) fn new(bytes: &'b [u8], at: usize) -> Self {
        Self { bytes, at, references: true }
    }

    pub(super) fn content(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0, references: false }
    }

    /// The next object; none at the end.
    pub(super) fn next(&mut self) -> Option<Object> {
        self.object(0)
    }

    fn object(&mut self, depth: usize) -> Option<Object> {
        loop {
            self.skip_space();
            let byte = *self.bytes.get(self.at)?;
            return Some(match byte {
                b'/' => Object::Name(self.name()),
                b'(' => Object::String(self.literal()),
                b'<' if self.bytes.get(self.at + 1) == Some(&b'<') => {
                    self.at += 2;
                    Object::Dict(self.dict(depth))
                }
                b'<' => Object::String(self.hexadecimal()),
                b'[' => {
                    self.at += 1;
                    Object::List(self.list(depth))
                }
                b'0'..=b'9' | b'+' | b'-' | b'.' => self.number(),
                // A stray end is passed over.
                b']' | b'}' | b'{' | b')' | b'>' => {
                    self.at += 1;
                    continue;
                }
                _ => Object::Word(self.word()),
            });
        }
    }

    pub(super) fn skip_space(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            if byte == b'%' {
                let rest = &self.bytes[self.at..];
                self.at += memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
            } else if is_space(byte) {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    fn regular(&mut self) -> &'b [u8] {
        let from = self.at;
        let rest = &self.bytes[from..];
        let is_end = |byte: &u8| is_space(*byte) || is_delimiter(*byte);
        self.at += rest.iter().position(is_end).unwrap_or(rest.len());
        &self.bytes[from..self.at]
    }

    fn name(&mut self) -> Vec<u8> {
        self.at += 1;
        let raw = self.regular();
        if !raw.contains(&b'#') {
            return raw.to_vec();
        }
        let mut name = Vec::with_capacity(raw.len());
        let mut rest = raw;
        while let Some((&byte, behind)) = rest.split_first() {
            rest = behind;
            let pair = (behind.first().and_then(hex), behind.get(1).and_then(hex));
            if let (b'#', (Some(high), Some(low))) = (byte, pair) {
                name.push(high << 4 | low);
                rest = &behind[2..];
            } else {
                name.push(byte);
            }
        }
        name
    }

    fn word(&mut self) -> Vec<u8> {
        let word = self.regular();
        if word.is_empty() {
            self.at += 1;
        }
        word.to_vec()
    }

    fn number(&mut self) -> Object {
        let number = read_number(self.regular());
        // `12 0 R`: two whole numbers and the letter.
        if self.references && number >= 0.0 && number.fract() == 0.0 {
            let back = self.at;
            self.skip_space();
            let generation = self.regular();
            if !generation.is_empty() && generation.iter().all(u8::is_ascii_digit) {
                self.skip_space();
                if self.regular() == b"R" {
                    return Object::Reference(number as u32);
                }
            }
            self.at = back;
        }
        Object::Number(number)
    }

    fn literal(&mut self) -> Vec<u8> {
        self.at += 1;
        let mut text = Vec::new();
        let mut open = 1;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'(' => open += 1,
                b')' => {
                    open -= 1;
                    if open == 0 {
                        break;
                    }
                }
                b'\\' => {
                    self.escape(&mut text);
                    continue;
                }
                _ => {}
            }
            text.push(byte);
        }
        text
    }

    fn escape(&mut self, text: &mut Vec<u8>) {
        let Some(&byte) = self.bytes.get(self.at) else { return };
        self.at += 1;
        match byte {
            b'n' => text.push(b'\n'),
            b'r' => text.push(b'\r'),
            b't' => text.push(b'\t'),
            b'b' => text.push(8),
            b'f' => text.push(12),
            b'\r' => self.at += usize::from(self.bytes.get(self.at) == Some(&b'\n')),
            b'\n' => {}
            b'0'..=b'7' => {
                let mut value = u32::from(byte - b'0');
                for _ in 0..2 {
                    let Some(digit @ b'0'..=b'7') = self.bytes.get(self.at) else { break };
                    value = value * 8 + u32::from(digit - b'0');
                    self.at += 1;
                }
                text.push(value as u8);
            }
            other => text.push(other),
        }
    }

    fn hexadecimal(&mut self) -> Vec<u8> {
        self.at += 1;
        let rest = &self.bytes[self.at..];
        let end = memchr::memchr(b'>', rest).unwrap_or(rest.len());
        self.at += (end + 1).min(rest.len());
        from_hex(&rest[..end])
    }

    fn list(&mut self, depth: usize) -> Vec<Object> {
        let mut list = Vec::new();
        loop {
            self.skip_space();
            match self.bytes.get(self.at) {
                None => return list,
                Some(b']') => {
                    self.at += 1;
                    return list;
                }
                // The list was never closed: it ends with its object.
                Some(b'e') if self.bytes[self.at..].starts_with(b"endobj") => return list,
                Some(_) if depth >= DEPTH_MAX || list.len() >= MEMBERS_MAX => return list,
                Some(_) => list.extend(self.object(depth + 1)),
            }
        }
    }

    fn dict(&mut self, depth: usize) -> Dict {
        let mut dict = Dict::default();
        loop {
            self.skip_space();
            let rest = &self.bytes[self.at..];
            if rest.starts_with(b">>") {
                self.at += 2;
                return dict;
            }
            let over = depth >= DEPTH_MAX || dict.0.len() >= MEMBERS_MAX;
            if rest.is_empty() || over || rest.starts_with(b"endobj") {
                return dict;
            }
            if rest[0] != b'/' {
                // Not a name: a value too many.
                let before = self.at;
                if matches!(self.object(depth + 1), Some(Object::Word(_)) | None) {
                    // `stream` behind an open dictionary.
                    self.at = before;
                    return dict;
                }
                continue;
            }
            let name = self.name();
            self.skip_space();
            if self.bytes[self.at..].starts_with(b">>") {
                continue;
            }
            if let Some(value) = self.object(depth + 1) {
                dict.0.push((name, value));
            }
        }
    }
}

/// A number as files write it; `--5` and `1.2.3` are seen too.
fn read_number(text: &[u8]) -> f64 {
    let (mut value, mut scale, mut negative) = (0.0, 0.0, false);
    for &byte in text.iter().take(40) {
        match byte {
            b'-' => negative = true,
            b'.' if scale == 0.0 => scale = 1.0,
            b'0'..=b'9' => {
                value = value * 10.0 + f64::from(byte - b'0');
                scale *= 10.0;
            }
            _ => {}
        }
    }
    let value = if scale > 1.0 { value / scale } else { value };
    if negative { -value } else { value }
}

pub(super) fn from_hex(digits: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(digits.len() / 2 + 1);
    let mut high = None;
    for digit in digits.iter().filter_map(hex) {
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push(high << 4 | digit),
        }
    }
    // A digit that is missing at the end is zero.
    bytes.extend(high.map(|high| high << 4));
    bytes
}

fn hex(byte: &u8) -> Option<u8> {
    char::from(*byte).to_digit(16).map(|digit| digit as u8)
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, 0 | b'\t' | b'\n' | 12 | b'\r' | b' ')
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'/' | b'%')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Object {
        Parser::new(text.as_bytes(), 0).next().unwrap()
    }

    #[test]
    fn every_kind_of_object_is_read() {
        assert_eq!(one(" % note\n-1.50"), Object::Number(-1.5));
        assert_eq!(one("/A#20b"), Object::Name(b"A b".to_vec()));
        assert_eq!(one("(a\\(b\\051 (c) \\n)"), Object::String(b"a(b) (c) \n".to_vec()));
        assert_eq!(one("<48 65 6>"), Object::String(b"He`".to_vec()));
        assert_eq!(
            one("[1 2 0 R (x)]"),
            Object::List(vec![
                Object::Number(1.0),
                Object::Reference(2),
                Object::String(b"x".to_vec())
            ])
        );
        let dict = one("<< /A 1 /B << /C /D >> /E [] >>");
        let inner = dict.dict().unwrap().get("B").unwrap().dict().unwrap();
        assert_eq!(inner.get("C").unwrap().name(), Some(&b"D"[..]));
        assert_eq!(one("endobj"), Object::Word(b"endobj".to_vec()));
    }

    #[test]
    fn what_is_broken_ends() {
        for text in ["<<", "<< /A", "[1 2", "(abc", "<41", "<< /A [ /B << /C endobj", "<< 1 2 >>"] {
            one(text);
        }
        one(&"[".repeat(100_000));
        one(&"<</A".repeat(100_000));
        assert_eq!(Parser::new(b" >> ] } ", 0).next(), None);
    }
}
