//! How large is a picture, and what does it say of itself?
//!
//! Width and height of PNG, JPEG, GIF, WebP, BMP, ICO, TIFF, AVIF and SVG from their heads; of EXIF
//! what people ask for: when, where, by whom, with which camera, which way up. Nothing is decoded.
//!
//! Always: no bytes panic; as much is looked at as heads have parts.

use serde_json::{Map, Value, json};

use super::xml::{Walk, walk};
use super::{Reading, Source};
use crate::links::LinkKind;

/// Parts of a file that are passed on the way to its size.
const PARTS_MAX: usize = 10_000;

/// Entries of a directory of EXIF; real ones have some fifty.
const ENTRIES_MAX: usize = 500;

const TEXT_BYTES_MAX: usize = 2_000;

pub(super) fn read(source: &Source<'_>) -> Reading {
    let bytes = source.body;
    let mut about = Map::new();
    about.insert("@type".to_owned(), "ImageObject".into());
    about.insert("@source".to_owned(), "image".into());
    let mut reading = Reading::default();
    let head = Head::of(bytes);
    if head.is_none() {
        read_svg(source, &mut about, &mut reading);
    }
    if let Some(head) = head {
        about.insert("encodingFormat".to_owned(), head.format.into());
        if let Some((width, height)) = head.size.filter(|(width, height)| width * height > 0) {
            about.insert("width".to_owned(), width.into());
            about.insert("height".to_owned(), height.into());
        }
        if let Some(exif) = head.exif {
            describe(exif, &mut about, &mut reading);
        }
    }
    reading.about = Some(Value::Object(about));
    reading
}

struct Head<'b> {
    format: &'static str,
    size: Option<(u64, u64)>,
    /// From the byte order on.
    exif: Option<&'b [u8]>,
}

impl<'b> Head<'b> {
    fn of(bytes: &'b [u8]) -> Option<Self> {
        let plain = |format, size| Some(Head { format, size, exif: None });
        if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            return Some(png(bytes));
        }
        if bytes.starts_with(b"\xff\xd8\xff") {
            return Some(jpeg(bytes));
        }
        if bytes.starts_with(b"GIF8") {
            return plain("image/gif", little(bytes, 6, 2).zip(little(bytes, 8, 2)));
        }
        if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            return Some(webp(bytes));
        }
        if bytes.starts_with(b"BM") && bytes.len() > 26 {
            // Upside down is written as a negative height.
            let side =
                |at| little(bytes, at, 4).map(|side| u64::from((side as i32).unsigned_abs()));
            return plain("image/bmp", side(18).zip(side(22)));
        }
        if bytes.starts_with(b"\0\0\x01\0") {
            // Zero stands for 256.
            let side = |at| little(bytes, at, 1).map(|side| if side == 0 { 256 } else { side });
            return plain("image/x-icon", side(6).zip(side(7)));
        }
        if bytes.starts_with(b"II*\0") || bytes.starts_with(b"MM\0*") {
            let number = |tag| Tiff::open(bytes)?.first()?.number(tag);
            let size = number(0x100).zip(number(0x101));
            return Some(Head { format: "image/tiff", size, exif: Some(bytes) });
        }
        if bytes.get(4..8) == Some(b"ftyp") {
            let format = if bytes.get(8..11) == Some(b"avi") { "image/avif" } else { "image/heic" };
            // Of several sizes the largest is the picture, the others are its thumbnails.
            let sizes = memchr::memmem::find_iter(bytes, b"ispe").take(64);
            let sizes = sizes.filter_map(|at| big(bytes, at + 8, 4).zip(big(bytes, at + 12, 4)));
            return plain(format, sizes.max_by_key(|(width, height)| width * height));
        }
        None
    }
}

fn big(bytes: &[u8], at: usize, count: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

fn little(bytes: &[u8], at: usize, count: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

fn png(bytes: &[u8]) -> Head<'_> {
    let size = big(bytes, 16, 4).zip(big(bytes, 20, 4));
    let mut exif = None;
    let mut at = 8;
    for _ in 0..PARTS_MAX {
        let Some(length) = big(bytes, at, 4) else { break };
        if bytes.get(at + 4..at + 8) == Some(b"eXIf") {
            exif = bytes.get(at + 8..);
            break;
        }
        at = at.saturating_add(12).saturating_add(length as usize);
    }
    Head { format: "image/png", size, exif }
}

fn jpeg(bytes: &[u8]) -> Head<'_> {
    let mut head = Head { format: "image/jpeg", size: None, exif: None };
    let mut at = 2;
    for _ in 0..PARTS_MAX {
        // Marks may be filled up with ff.
        while bytes.get(at) == Some(&0xff) && bytes.get(at + 1) == Some(&0xff) {
            at += 1;
        }
        let (Some(0xff), Some(&mark)) = (bytes.get(at), bytes.get(at + 1)) else { break };
        let Some(length) = big(bytes, at + 2, 2) else { break };
        match mark {
            // The frame, of any kind of JPEG but tables and thumbnails.
            0xc0..=0xcf if !matches!(mark, 0xc4 | 0xc8 | 0xcc) => {
                head.size = big(bytes, at + 7, 2).zip(big(bytes, at + 5, 2));
                break;
            }
            0xe1 if bytes.get(at + 4..at + 10) == Some(b"Exif\0\0") => {
                head.exif = bytes.get(at + 10..);
            }
            0xd9 | 0xda => break,
            _ => {}
        }
        at += 2 + length as usize;
    }
    head
}

fn webp(bytes: &[u8]) -> Head<'_> {
    let size = match bytes.get(12..16) {
        Some(b"VP8 ") => {
            let side = |at| little(bytes, at, 2).map(|side| side & 0x3fff);
            side(26).zip(side(28))
        }
        Some(b"VP8L") => {
            little(bytes, 21, 4).map(|bits| ((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        Some(b"VP8X") => {
            let side = |at| little(bytes, at, 3).map(|side| side + 1);
            side(24).zip(side(27))
        }
        _ => None,
    };
    let exif = memchr::memmem::find(bytes, b"EXIF").and_then(|at| bytes.get(at + 8..));
    let exif = exif.map(|exif| exif.strip_prefix(b"Exif\0\0").unwrap_or(exif));
    Head { format: "image/webp", size, exif }
}

/// EXIF is a TIFF without a picture.
#[derive(Clone, Copy)]
struct Tiff<'b> {
    bytes: &'b [u8],
    is_big: bool,
}

impl<'b> Tiff<'b> {
    fn open(bytes: &'b [u8]) -> Option<Self> {
        match bytes.get(..4)? {
            b"II*\0" => Some(Self { bytes, is_big: false }),
            b"MM\0*" => Some(Self { bytes, is_big: true }),
            _ => None,
        }
    }

    fn get(&self, at: usize, count: usize) -> Option<u64> {
        if self.is_big { big(self.bytes, at, count) } else { little(self.bytes, at, count) }
    }

    fn first(self) -> Option<Directory<'b>> {
        self.directory(self.get(4, 4)? as usize)
    }

    fn directory(self, at: usize) -> Option<Directory<'b>> {
        let count = self.get(at, 2)? as usize;
        Some(Directory { tiff: self, at: at.checked_add(2)?, count: count.min(ENTRIES_MAX) })
    }
}

#[derive(Clone, Copy)]
struct Directory<'b> {
    tiff: Tiff<'b>,
    at: usize,
    count: usize,
}

impl<'b> Directory<'b> {
    /// Where the entry of a tag is.
    fn entry(&self, tag: u64) -> Option<usize> {
        let mut places = (0..self.count).map(|n| self.at + 12 * n);
        places.find(|&at| self.tiff.get(at, 2) == Some(tag))
    }

    fn number(&self, tag: u64) -> Option<u64> {
        let at = self.entry(tag)?;
        match self.tiff.get(at + 2, 2)? {
            3 => self.tiff.get(at + 8, 2),
            4 => self.tiff.get(at + 8, 4),
            _ => None,
        }
    }

    fn text(&self, tag: u64) -> Option<String> {
        let at = self.entry(tag)?;
        let count = self.tiff.get(at + 4, 4)? as usize;
        let from = if count <= 4 { at + 8 } else { self.tiff.get(at + 8, 4)? as usize };
        let bytes = self.tiff.bytes.get(from..from.checked_add(count.min(TEXT_BYTES_MAX))?)?;
        let text = String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next()?);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(text).filter(|text| !text.is_empty())
    }

    /// Degrees out of degrees, minutes and seconds.
    fn degrees(&self, tag: u64) -> Option<f64> {
        let from = self.tiff.get(self.entry(tag)? + 8, 4)? as usize;
        let part = |n: usize| {
            let (above, below) =
                (self.tiff.get(from + 8 * n, 4)?, self.tiff.get(from + 8 * n + 4, 4)?);
            Some(above as f64 / below.max(1) as f64)
        };
        let degrees = part(0)? + part(1)? / 60.0 + part(2)? / 3600.0;
        (degrees <= 180.0).then(|| (degrees * 1e6).round() / 1e6)
    }
}

fn describe(exif: &[u8], about: &mut Map<String, Value>, reading: &mut Reading) {
    let Some(first) = Tiff::open(exif).and_then(Tiff::first) else { return };
    let below = |tag| first.tiff.directory(first.number(tag)? as usize);
    let mut told = Map::new();
    for (tag, name) in
        [(0x10f, "make"), (0x110, "model"), (0x131, "software"), (0x8298, "copyright")]
    {
        if let Some(text) = first.text(tag) {
            told.insert(name.to_owned(), text.into());
        }
    }
    if let Some(orientation) = first.number(0x112).filter(|way| (1..=8).contains(way)) {
        told.insert("orientation".to_owned(), orientation.into());
    }
    let taken = below(0x8769).and_then(|own| own.text(0x9003)).or_else(|| first.text(0x132));
    reading.published = taken.and_then(|date| moment(&date));
    reading.author = first.text(0x13b);
    if let Some(text) = first.text(0x10e) {
        reading.description = Some(text.clone());
        reading.text = text;
    }
    if let Some(place) = below(0x8825) {
        let signed = |tag: u64, minus: &str| {
            let degrees = place.degrees(tag + 1)?;
            Some(if place.text(tag).as_deref() == Some(minus) { -degrees } else { degrees })
        };
        if let (Some(north), Some(east)) = (signed(1, "S"), signed(3, "W")) {
            let place = json!({"@type": "GeoCoordinates", "latitude": north, "longitude": east});
            about.insert("contentLocation".to_owned(), place);
        }
    }
    if !told.is_empty() {
        about.insert("exifData".to_owned(), Value::Object(told));
    }
}

/// `2024:05:17 09:30:00` has colons where a date has dashes.
fn moment(text: &str) -> Option<String> {
    let (day, time) = text.split_once(' ').unwrap_or((text, ""));
    let text = match time {
        "" => day.replace(':', "-"),
        time => format!("{}T{time}", day.replace(':', "-")),
    };
    crate::date::parse(&text).map(|moment| moment.text)
}

/// A drawing in XML: its size is what its element says, or else that of its view.
fn read_svg(source: &Source<'_>, about: &mut Map<String, Value>, reading: &mut Reading) {
    let text = crate::sitemap::decode_xml(source.body);
    let start = &text[..text.floor_char_boundary(4_096)];
    if !start.contains("<svg") && !start.contains(":svg") {
        return;
    }
    about.insert("encodingFormat".to_owned(), "image/svg+xml".into());
    let mut size = None;
    let mut name = String::new();
    walk(&text, |step| match step {
        Walk::Start { name: found, attributes, .. } => {
            name = found.rsplit(':').next().unwrap_or(found).to_ascii_lowercase();
            let get = |wanted: &str| {
                let found = attributes.iter().find(|(key, _)| key == wanted);
                found.map(|(_, value)| value.as_str())
            };
            if name == "svg" && size.is_none() {
                let side = |name: &str| {
                    let number = get(name)?.trim().trim_end_matches("px");
                    number.parse::<f64>().ok()
                };
                let view: Vec<f64> = get("viewbox")
                    .unwrap_or_default()
                    .split([' ', ','])
                    .filter_map(|number| number.parse().ok())
                    .collect();
                let view = (view.len() == 4).then(|| (view[2], view[3]));
                size = Some(side("width").zip(side("height")).or(view));
            }
            if name == "a"
                && let Some(href) = get("href").or_else(|| get("xlink:href"))
            {
                reading.links.push((LinkKind::Anchor, href.to_owned(), String::new()));
            }
        }
        Walk::End(_) => name.clear(),
        Walk::Text(text) => {
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            match name.as_str() {
                "title" if reading.title.is_none() => reading.title = Some(line),
                "desc" if reading.description.is_none() => reading.description = Some(line),
                "text" | "tspan" if !line.is_empty() && reading.text.len() < 100_000 => {
                    reading.text.push_str(if reading.text.is_empty() { "" } else { "\n" });
                    reading.text.push_str(&line);
                }
                _ => {}
            }
        }
    });
    if let Some((width, height)) = size.flatten().filter(|(w, h)| w.is_finite() && h.is_finite()) {
        about.insert("width".to_owned(), width.into());
        about.insert("height".to_owned(), height.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(bytes: &[u8]) -> (Value, Reading) {
        let mut reading = read(&Source { body: bytes, text: "", url: None });
        (reading.about.take().unwrap(), reading)
    }

    fn size(bytes: &[u8]) -> (u64, u64) {
        let about = about(bytes).0;
        let side = |name: &str| about[name].as_f64().unwrap_or(0.0) as u64;
        (side("width"), side("height"))
    }

    #[test]
    fn every_format_tells_its_size() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\x02\0\0\0\x30\x08\x06\0\0\0";
        assert_eq!(size(png), (258, 48));
        assert_eq!(size(b"GIF89a\x40\x01\xf0\0\0\0\0"), (320, 240));
        let jpeg = b"\xff\xd8\xff\xe0\0\x04JF\xff\xff\xc2\0\x0b\x08\0\x10\0\x20\x03\0\0\0";
        assert_eq!(size(jpeg), (32, 16));
        let webp = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x0f\0\0\x07\0\0";
        assert_eq!(size(webp), (16, 8));
        assert_eq!(size(b"\0\0\x01\0\x01\0\x20\0\0\0"), (32, 256));
        let avif = b"\0\0\0\x1cftypavif\0\0\0\0\0\0\0\x14ispe\0\0\0\0\0\0\0\x40\0\0\0\x20";
        assert_eq!(size(avif), (64, 32));
        assert_eq!(size(b"<svg width='20px' height='10'><title>T</title></svg>"), (20, 10));
        assert_eq!(size(b"<?xml version='1.0'?><svg viewBox='0 0 40 30'/>"), (40, 30));
    }

    #[test]
    fn exif_is_told() {
        let mut exif = b"MM\0*\0\0\0\x08\0\x03".to_vec();
        // Make as text behind the directory, orientation, a directory below.
        exif.extend(b"\x01\x0f\0\x02\0\0\0\x06\0\0\0\x32");
        exif.extend(b"\x01\x12\0\x03\0\0\0\x01\0\x06\0\0");
        exif.extend(b"\x87\x69\0\x04\0\0\0\x01\0\0\0\x38");
        exif.extend([0; 4]);
        exif.extend(b"Canon\0");
        exif.extend(b"\0\x01\x90\x03\0\x02\0\0\0\x14\0\0\0\x46");
        exif.extend(b"2024:05:17 09:30:00\0");
        let mut jpeg = b"\xff\xd8\xff\xe1".to_vec();
        jpeg.extend((exif.len() as u16 + 8).to_be_bytes());
        jpeg.extend(b"Exif\0\0");
        jpeg.extend(&exif);
        jpeg.extend(b"\xff\xc0\0\x0b\x08\0\x10\0\x20\x03\0\0\0");
        let (about, reading) = about(&jpeg);
        assert_eq!(about["exifData"], json!({"make": "Canon", "orientation": 6}));
        assert_eq!((&about["width"], &about["height"]), (&json!(32), &json!(16)));
        assert_eq!(reading.published.as_deref(), Some("2024-05-17T09:30:00Z"));
    }

    #[test]
    fn broken_heads_do_no_harm() {
        for bytes in [
            &b""[..],
            b"\xff\xd8\xff",
            b"\x89PNG\r\n\x1a\n",
            b"GIF89a",
            b"BM",
            b"II*\0\xff\xff\xff\xff",
            b"MM\0*\0\0\0\x08\xff\xff",
        ] {
            about(bytes);
        }
    }
}
