//! Which files are in a zip, and what do they hold?
//!
//! By its directory at the end; an archive that was cut has none, and is read from its beginning.
//!
//! Always: no bytes panic; names, files and what is unpacked altogether are bounded.

use std::cell::Cell;
use std::io::Read as _;

use memchr::memmem;

/// Files that are listed. A book of slides has some thousand.
const FILES_MAX: usize = 20_000;

/// Bytes that all files together may be unpacked to.
const UNPACKED_BYTES_MAX: usize = 64 << 20;

#[derive(Debug)]
struct Entry<'z> {
    name: &'z [u8],
    /// Its packed bytes, and whether they are packed.
    packed: &'z [u8],
    is_packed: bool,
}

#[derive(Debug)]
pub(super) struct Zip<'z> {
    entries: Vec<Entry<'z>>,
    left: Cell<usize>,
}

impl<'z> Zip<'z> {
    pub(super) fn open(bytes: &'z [u8]) -> Self {
        let mut entries = by_directory(bytes).unwrap_or_default();
        if entries.is_empty() {
            entries = by_headers(bytes);
        }
        Self { entries, left: Cell::new(UNPACKED_BYTES_MAX) }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| str::from_utf8(entry.name).ok())
    }

    /// A file as text, as far as it can be unpacked.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let entry = self.entries.iter().find(|entry| entry.name == name.as_bytes())?;
        let bytes_max = self.left.get();
        let mut bytes = Vec::new();
        if entry.is_packed {
            // Damage ends it; what came before is kept.
            let unpacked = flate2::read::DeflateDecoder::new(entry.packed);
            let _kept = unpacked.take(bytes_max as u64).read_to_end(&mut bytes);
        } else {
            bytes.extend(&entry.packed[..entry.packed.len().min(bytes_max)]);
        }
        self.left.set(bytes_max - bytes.len().max(64).min(bytes_max));
        Some(crate::sitemap::decode_xml(&bytes).into_owned())
    }
}

fn short(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?)))
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize)
}

fn by_directory(bytes: &[u8]) -> Option<Vec<Entry<'_>>> {
    let end = memmem::rfind(bytes, b"PK\x05\x06")?;
    let mut at = long(bytes, end + 16)?;
    let mut entries = Vec::new();
    while bytes.get(at..)?.starts_with(b"PK\x01\x02") && entries.len() < FILES_MAX {
        let (name, extra, comment) =
            (short(bytes, at + 28)?, short(bytes, at + 30)?, short(bytes, at + 32)?);
        let packed = long(bytes, at + 20)?;
        let header = long(bytes, at + 42)?;
        let name_bytes = bytes.get(at + 46..at + 46 + name)?;
        // Where the bytes begin is told by the header before them.
        let data = header + 30 + short(bytes, header + 26)? + short(bytes, header + 28)?;
        let method = short(bytes, at + 10)?;
        if let Some(packed) = bytes.get(data..data.saturating_add(packed))
            && matches!(method, 0 | 8)
        {
            entries.push(Entry { name: name_bytes, packed, is_packed: method == 8 });
        }
        at += 46 + name + extra + comment;
    }
    Some(entries)
}

/// From header to header. What is packed need not say how long it is: up to the next header then.
fn by_headers(bytes: &[u8]) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    let starts: Vec<usize> = memmem::find_iter(bytes, b"PK\x03\x04").take(FILES_MAX).collect();
    for (place, &at) in starts.iter().enumerate() {
        let next = starts.get(place + 1).copied().unwrap_or(bytes.len());
        let entry = || {
            let method = short(bytes, at + 8).filter(|method| matches!(method, 0 | 8))?;
            let (name, extra) = (short(bytes, at + 26)?, short(bytes, at + 28)?);
            let packed = bytes.get(at + 30 + name + extra..next)?;
            let told = long(bytes, at + 18)?;
            let packed = if told > 0 { packed.get(..told).unwrap_or(packed) } else { packed };
            let name = bytes.get(at + 30..at + 30 + name)?;
            Some(Entry { name, packed, is_packed: method == 8 })
        };
        entries.extend(entry());
    }
    entries
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Write as _;

    /// A zip with these files.
    pub(in crate::formats) fn zipped(files: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut directory = Vec::new();
        for (name, text) in files {
            let mut packer =
                flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(text.as_bytes()).unwrap();
            let packed = packer.finish().unwrap();
            let mut middle = vec![20, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            middle.extend((packed.len() as u32).to_le_bytes());
            middle.extend((text.len() as u32).to_le_bytes());
            middle.extend((name.len() as u16).to_le_bytes());
            middle.extend([0, 0]);
            directory.extend(b"PK\x01\x02\x14\0");
            directory.extend(&middle);
            directory.extend([0; 10]);
            directory.extend((bytes.len() as u32).to_le_bytes());
            directory.extend(name.as_bytes());
            bytes.extend(b"PK\x03\x04");
            bytes.extend(&middle);
            bytes.extend(name.as_bytes());
            bytes.extend(packed);
        }
        let at = bytes.len() as u32;
        bytes.extend(&directory);
        bytes.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
        bytes.extend((directory.len() as u32).to_le_bytes());
        bytes.extend(at.to_le_bytes());
        bytes.extend([0, 0]);
        bytes
    }

    #[test]
    fn files_are_found_whole_and_cut() {
        let bytes = zipped(&[("a.xml", "<a>one</a>"), ("b/c", &"two ".repeat(1_000))]);
        let zip = Zip::open(&bytes);
        assert_eq!(zip.names().collect::<Vec<_>>(), ["a.xml", "b/c"]);
        assert_eq!(zip.text("a.xml").unwrap(), "<a>one</a>");
        assert_eq!(zip.text("b/c").unwrap().len(), 4_000);
        assert_eq!(zip.text("d"), None);
        for end in 0..bytes.len() {
            let zip = Zip::open(&bytes[..end]);
            zip.text("a.xml");
            zip.text("b/c");
        }
        let cut = &bytes[..bytes.len() - 60];
        assert_eq!(Zip::open(cut).text("a.xml").unwrap(), "<a>one</a>");
    }
}
