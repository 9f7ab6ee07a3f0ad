//! Where in a PDF is which object?
//!
//! The file is searched from its beginning for `5 0 obj`; a later object of the same number takes the
//! place of an earlier one, as when a file is changed by appending to it. Tables of places are not
//! read at all: they are wrong in the files that need care, and useless in a file that was cut.
//! Objects that are packed in streams are found when their stream is.
//!
//! Always: what is unpacked altogether is bounded by a budget, so reading ends soon whatever the file
//! says; objects that lead in circles are not followed.

use std::cell::Cell;
use std::collections::HashMap;

use memchr::memmem;

use super::filters;
use super::object::{Dict, Object, Parser, is_space};

/// Bytes that all streams of a file may come to. A book has some ten million.
const UNPACKED_BYTES_MAX: usize = 64 << 20;

/// Bytes of one stream.
const STREAM_BYTES_MAX: usize = 16 << 20;

/// Work on a file: bytes that are looked at once more, members copied, codes of fonts. Several times
/// what the largest real files take, and about a second.
const WORK_MAX: usize = 256 << 20;

/// Objects that are remembered. The largest files have half a million.
const OBJECTS_MAX: usize = 500_000;

/// References to references.
const HOPS_MAX: usize = 8;

#[derive(Clone, Copy, Debug)]
enum Place {
    /// Behind `obj` in the file.
    File(usize),
    /// In an unpacked stream.
    Stream { stream: u32, at: usize },
}

#[derive(Debug)]
pub(super) struct File<'b> {
    bytes: &'b [u8],
    places: HashMap<u32, Place>,
    /// Unpacked streams of objects.
    streams: Vec<Vec<u8>>,
    /// The last word of trailers on each of their names.
    pub(super) trailer: Trailer,
    left: Cell<usize>,
    work_left: Cell<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Trailer {
    pub(super) root: Option<Object>,
    pub(super) info: Option<Object>,
    locked: bool,
}

impl Trailer {
    fn add(&mut self, dict: &Dict) {
        let newest = |known: &mut Option<Object>, name: &str| {
            if let Some(object) = dict.get(name) {
                *known = Some(object.clone());
            }
        };
        newest(&mut self.root, "Root");
        newest(&mut self.info, "Info");
        self.locked |= dict.get("Encrypt").is_some();
    }
}

impl<'b> File<'b> {
    pub(super) fn open(bytes: &'b [u8]) -> Self {
        let mut file = Self {
            bytes,
            places: HashMap::new(),
            streams: Vec::new(),
            trailer: Trailer::default(),
            left: Cell::new(UNPACKED_BYTES_MAX),
            work_left: Cell::new(WORK_MAX),
        };
        file.find_trailers();
        let packed = file.find_objects();
        packed.into_iter().for_each(|at| file.open_packed(at));
        file
    }

    /// Pays for work; false when nothing is left to pay with, and reading must end.
    pub(super) fn pay(&self, units: usize) -> bool {
        let left = self.work_left.get();
        self.work_left.set(left.saturating_sub(units.max(1)));
        left > 0
    }

    /// The object at a place, paid for by its bytes.
    fn parse(&self, bytes: &[u8], at: usize) -> Option<Object> {
        if self.work_left.get() == 0 {
            return None;
        }
        let mut parser = Parser::new(bytes, at.min(bytes.len()));
        let object = parser.next();
        self.pay(parser.at.saturating_sub(at));
        object
    }

    /// Whether its streams and strings are encrypted; they are not read then.
    pub(super) fn is_locked(&self) -> bool {
        self.trailer.locked
    }

    fn find_trailers(&mut self) {
        for at in memmem::find_iter(self.bytes, b"trailer") {
            if let Some(Object::Dict(dict)) = self.parse(self.bytes, at + 7) {
                self.trailer.add(&dict);
            }
        }
    }

    /// Notes all objects of the file; gives the places of those that hold others.
    fn find_objects(&mut self) -> Vec<usize> {
        let mut packed = Vec::new();
        for at in memmem::find_iter(self.bytes, b"obj") {
            let Some(number) = number_before(&self.bytes[..at]) else { continue };
            let behind = at + 3;
            if self.places.len() < OBJECTS_MAX {
                self.places.insert(number, Place::File(behind));
            }
            let start = &self.bytes[behind..self.bytes.len().min(behind + 1_000)];
            let start = &start[..memmem::find(start, b"stream").unwrap_or(start.len())];
            if memmem::find(start, b"/ObjStm").is_some() {
                packed.push(behind);
            } else if memmem::find(start, b"/XRef").is_some()
                && let Some(Object::Dict(dict)) = self.parse(self.bytes, behind)
            {
                self.trailer.add(&dict);
            }
        }
        packed
    }

    fn open_packed(&mut self, at: usize) {
        let Some((dict, bytes)) = self.stream_at(at) else { return };
        let setting = |name: &str| dict.get(name).map(|object| self.get(object))?.number();
        let (Some(count), Some(first)) = (setting("N"), setting("First")) else { return };
        let stream = self.streams.len() as u32;
        let mut numbers = Parser::new(&bytes, 0);
        numbers.references = false;
        for _ in 0..count.clamp(0.0, OBJECTS_MAX as f64) as usize {
            let pair = (numbers.next(), numbers.next());
            let (Some(Object::Number(number)), Some(Object::Number(offset))) = pair else { break };
            let place = Place::Stream { stream, at: (first + offset).clamp(0.0, 1e9) as usize };
            let own = number as u32;
            // One that stands in the file behind this stream is newer.
            let newer = matches!(self.places.get(&own), Some(Place::File(there)) if *there > at);
            if !newer && self.places.len() < OBJECTS_MAX {
                self.places.insert(own, place);
            }
        }
        self.streams.push(bytes);
    }

    /// All numbers that are known, in order.
    pub(super) fn numbers(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.places.keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }

    /// What an object is, wherever it stands.
    pub(super) fn get(&self, object: &Object) -> Object {
        let Object::Reference(number) = *object else {
            return if self.pay(object.weight()) { object.clone() } else { Object::Null };
        };
        let mut found = self.numbered(number);
        for _ in 0..HOPS_MAX {
            let Object::Reference(number) = found else { return found };
            found = self.numbered(number);
        }
        Object::Null
    }

    pub(super) fn numbered(&self, number: u32) -> Object {
        let found = match self.places.get(&number) {
            Some(&Place::File(at)) => self.parse(self.bytes, at),
            Some(&Place::Stream { stream, at }) => {
                self.streams.get(stream as usize).and_then(|bytes| self.parse(bytes, at))
            }
            None => None,
        };
        found.unwrap_or(Object::Null)
    }

    /// The member of a dictionary, looked up.
    pub(super) fn member(&self, dict: &Dict, name: &str) -> Object {
        dict.get(name).map_or(Object::Null, |object| self.get(object))
    }

    /// A stream, unpacked. What it may be, nobody knows before its object is read.
    pub(super) fn stream(&self, object: &Object) -> Option<(Dict, Vec<u8>)> {
        let Object::Reference(number) = *object else { return None };
        match self.places.get(&number)? {
            Place::File(at) => self.stream_at(*at),
            Place::Stream { .. } => None,
        }
    }

    fn stream_at(&self, at: usize) -> Option<(Dict, Vec<u8>)> {
        let mut parser = Parser::new(self.bytes, at);
        if self.work_left.get() == 0 {
            return None;
        }
        let object = parser.next();
        self.pay(parser.at - at);
        let Some(Object::Dict(dict)) = object else { return None };
        parser.skip_space();
        let behind = self.bytes[parser.at..].strip_prefix(b"stream")?;
        let behind = behind.strip_prefix(b"\r").unwrap_or(behind);
        let behind = behind.strip_prefix(b"\n").unwrap_or(behind);
        let packed = self.extent(&dict, behind);
        self.pay(packed.len());
        let bytes_max = self.left.get().min(STREAM_BYTES_MAX);
        let bytes = filters::unpack(&dict, packed, bytes_max, &|object| self.get(object))?;
        // At least something: an empty stream that is asked for again and again costs too.
        self.left.set(self.left.get().saturating_sub(bytes.len().max(64)));
        (bytes_max > 0).then_some((dict, bytes))
    }

    /// The bytes of a stream: as many as it says, if it ends there; else up to the word.
    fn extent<'s>(&self, dict: &Dict, behind: &'s [u8]) -> &'s [u8] {
        let length = match dict.get("Length") {
            Some(Object::Reference(number)) => match self.places.get(number) {
                Some(&Place::File(at)) => self.parse(self.bytes, at),
                _ => None,
            },
            other => other.cloned(),
        };
        if let Some(length) = length.and_then(|length| length.number())
            && let Some(rest) = behind.get(length.clamp(0.0, 1e12) as usize..)
        {
            let spaces = rest.iter().take(4).take_while(|byte| is_space(**byte)).count();
            if rest[spaces..].starts_with(b"endstream") {
                return &behind[..length as usize];
            }
        }
        &behind[..memmem::find(behind, b"endstream").unwrap_or(behind.len())]
    }
}

/// `12 0 ` at the end of this: the number of an object.
fn number_before(bytes: &[u8]) -> Option<u32> {
    let back = |bytes: &[u8], wanted: fn(u8) -> bool, most: usize| {
        let count = bytes.iter().rev().take(most).take_while(|byte| wanted(**byte)).count();
        (count > 0).then(|| bytes.len() - count)
    };
    let digit = |byte: u8| byte.is_ascii_digit();
    let bytes = &bytes[..back(bytes, is_space, 8)?];
    let bytes = &bytes[..back(bytes, digit, 5)?];
    let bytes = &bytes[..back(bytes, is_space, 8)?];
    let start = back(bytes, digit, 9)?;
    str::from_utf8(&bytes[start..]).ok()?.parse().ok()
}
