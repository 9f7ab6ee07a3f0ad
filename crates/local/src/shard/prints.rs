//! Which ids does the filter know, on disk?
//!
//! A file beside the database, `seen.prints`, that only grows: a head, then segments of a million
//! ids each. A segment holds the prints of its ids in the order of the filter's parts, five bytes
//! each (the part is told by the place), so that a part can be read out of every segment by itself
//! when it grows. Opening reads the whole: a second for a hundred million URLs.
//!
//! ```text
//! head     magic 8, version u64, generation u64
//! segment  count u64, how many of each part 256 × u32, prints count × 5, checksum u64
//! ```
//!
//! All numbers are little-endian. How much of the file counts is noted in the store (`upkeep`);
//! what lies beyond was never finished, and the next segment is written over it.

use std::io::{self, Read};

use ports::{PortError, PortResult};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::filter::{Filter, PARTS, Print};
use crate::kv::Kv;

/// The file's name.
pub const PRINTS_FILE: &str = "seen.prints";

const MAGIC: &[u8; 8] = b"lycprint";
const VERSION: u64 = 1;
const HEAD_BYTES: u64 = 24;
const SEGMENT_HEAD_BYTES: u64 = 8 + 4 * PARTS as u64;
const SUM_BYTES: u64 = 8;
const PRINT_BYTES: u64 = 5;

/// The prints of all ids: those of the file, and the newest, which are still to be written.
#[derive(Debug, Default)]
pub(super) struct Prints {
    generation: u64,
    /// How much of the file counts; 0 means that not even its head was written.
    end: u64,
    segments: Vec<Segment>,
    pending: Vec<Print>,
}

#[derive(Debug)]
struct Segment {
    /// Where its prints begin.
    at: u64,
    counts: [u32; PARTS],
}

impl Segment {
    fn count(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    fn end(&self) -> u64 {
        self.at + self.count() * PRINT_BYTES + SUM_BYTES
    }
}

impl Prints {
    /// An empty file, which takes the place of whatever is there with its first segment.
    pub(super) fn begin(generation: u64) -> Self {
        Self { generation, ..Self::default() }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn add(&mut self, print: Print) {
        self.pending.push(print);
    }

    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Reads the first `end` bytes of the file, and a filter of all that they hold with room for
    /// `ids_min`. None if it is not the file that is meant, or damaged. Generation 0 has no file;
    /// later ones have none before their first segment.
    pub(super) fn load(
        kv: &impl Kv,
        generation: u64,
        end: u64,
        ids_min: u64,
    ) -> PortResult<Option<(Self, Filter)>> {
        if generation > 0 && end == 0 {
            let filter = Filter::with_room(&[0; PARTS], ids_min);
            return Ok(Some((Self::begin(generation), filter)));
        }
        let Some(mut file) = kv.load_side(PRINTS_FILE, 0)? else { return Ok(None) };
        if let Err(error) = check_head(&mut file, generation) {
            tracing::warn!(%error, "the prints of seen URLs are not used");
            return Ok(None);
        }
        drop(file);
        let mut prints = Self { generation, end: HEAD_BYTES, ..Self::default() };
        let mut counts = [0; PARTS];
        while prints.end < end {
            let Some(mut file) = kv.load_side(PRINTS_FILE, prints.end)? else { return Ok(None) };
            let Ok(segment) = read_segment_head(&mut file, prints.end) else { return Ok(None) };
            counts.iter_mut().zip(segment.counts).for_each(|(sum, n)| *sum += u64::from(n));
            prints.end = segment.end();
            prints.segments.push(segment);
        }
        if prints.end != end {
            tracing::warn!(prints.end, end, "the prints of seen URLs end elsewhere than noted");
            return Ok(None);
        }
        let mut filter = Filter::with_room(&counts, ids_min);
        let Some(mut file) = kv.load_side(PRINTS_FILE, HEAD_BYTES)? else { return Ok(None) };
        for segment in &prints.segments {
            if let Err(error) = segment.read_into(&mut file, &mut filter) {
                tracing::warn!(%error, "the prints of seen URLs are damaged; they are read anew");
                return Ok(None);
            }
        }
        drop(file);
        Ok(Some((prints, filter)))
    }

    /// Writes what is pending as a segment. When this fails, everything is as before.
    pub(super) fn write(&mut self, kv: &mut impl Kv) -> PortResult<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.pending.sort_unstable();
        let mut bytes = Vec::with_capacity(2_048 + self.pending.len() * PRINT_BYTES as usize);
        if self.end == 0 {
            bytes.extend_from_slice(MAGIC);
            bytes.extend_from_slice(&VERSION.to_le_bytes());
            bytes.extend_from_slice(&self.generation.to_le_bytes());
        }
        let start = bytes.len();
        let mut counts = [0_u32; PARTS];
        self.pending.iter().for_each(|print| counts[print.part()] += 1);
        bytes.extend_from_slice(&(self.pending.len() as u64).to_le_bytes());
        counts.iter().for_each(|count| bytes.extend_from_slice(&count.to_le_bytes()));
        for print in &self.pending {
            let [a, b, c, d, e, ..] = print.rest().to_le_bytes();
            bytes.extend_from_slice(&[a, b, c, d, e]);
        }
        let sum = xxh3_64(&bytes[start..]);
        bytes.extend_from_slice(&sum.to_le_bytes());
        kv.append_side(PRINTS_FILE, self.end, &bytes)?;

        let at = self.end + start as u64 + SEGMENT_HEAD_BYTES;
        self.end += bytes.len() as u64;
        self.segments.push(Segment { at, counts });
        self.pending.clear();
        Ok(())
    }

    /// All prints of one part.
    pub(super) fn of_part(&self, kv: &impl Kv, part: usize) -> PortResult<Vec<Print>> {
        let newest = self.pending.iter().filter(|print| print.part() == part);
        let mut prints: Vec<_> = newest.copied().collect();
        let mut buffer = Vec::new();
        for segment in &self.segments {
            let before: u64 = segment.counts[..part].iter().map(|n| u64::from(*n)).sum();
            let file = kv.load_side(PRINTS_FILE, segment.at + before * PRINT_BYTES)?;
            let bytes = u64::from(segment.counts[part]) * PRINT_BYTES;
            buffer.clear();
            let read = file.map_or(Ok(0), |file| file.take(bytes).read_to_end(&mut buffer));
            let read =
                read.map_err(|error| PortError::io(format!("read {PRINTS_FILE}"), &error))?;
            if read as u64 != bytes {
                let doing = format!("read {PRINTS_FILE}");
                return Err(PortError::corrupt(doing, "it is shorter than it was"));
            }
            prints.extend(prints_in(&buffer, part));
        }
        Ok(prints)
    }
}

impl Segment {
    /// Adds its prints to a filter. `file` stands at its head.
    fn read_into(&self, file: &mut dyn Read, filter: &mut Filter) -> io::Result<()> {
        let mut sum = Xxh3::new();
        let mut head = [0; SEGMENT_HEAD_BYTES as usize];
        file.read_exact(&mut head)?;
        sum.update(&head);
        let mut buffer = Vec::new();
        for (part, count) in self.counts.iter().enumerate() {
            buffer.clear();
            let bytes = u64::from(*count) * PRINT_BYTES;
            if file.take(bytes).read_to_end(&mut buffer)? as u64 != bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            sum.update(&buffer);
            prints_in(&buffer, part).for_each(|print| filter.add(print));
        }
        let mut found = [0; SUM_BYTES as usize];
        file.read_exact(&mut found)?;
        if u64::from_le_bytes(found) != sum.digest() {
            return Err(bad("the checksum is wrong"));
        }
        Ok(())
    }
}

fn prints_in(bytes: &[u8], part: usize) -> impl Iterator<Item = Print> {
    let (prints, _) = bytes.as_chunks();
    prints.iter().map(move |&[a, b, c, d, e]: &[u8; PRINT_BYTES as usize]| {
        Print::new(part, u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]))
    })
}

fn check_head(file: &mut dyn Read, generation: u64) -> io::Result<()> {
    let mut head = [0; HEAD_BYTES as usize];
    file.read_exact(&mut head)?;
    let (words, _) = head.as_chunks();
    let [magic, version, found]: [[u8; 8]; 3] = words.try_into().map_err(|_| bad("no head"))?;
    if magic != *MAGIC || u64::from_le_bytes(version) != VERSION {
        return Err(bad("it is not a file of this version"));
    }
    if u64::from_le_bytes(found) != generation {
        return Err(bad("it is not the newest file"));
    }
    Ok(())
}

fn read_segment_head(file: &mut dyn Read, start: u64) -> io::Result<Segment> {
    let mut head = [0; SEGMENT_HEAD_BYTES as usize];
    file.read_exact(&mut head)?;
    let (count, counts) = head.split_first_chunk().ok_or_else(|| bad("no head"))?;
    let (counts, _) = counts.as_chunks();
    let mut each = [0; PARTS];
    each.iter_mut().zip(counts).for_each(|(n, bytes)| *n = u32::from_le_bytes(*bytes));
    let segment = Segment { at: start + SEGMENT_HEAD_BYTES, counts: each };
    if u64::from_le_bytes(*count) != segment.count() {
        return Err(bad("its counts do not agree"));
    }
    Ok(segment)
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryKv;
    use types::UrlId;

    fn print(n: u64) -> Print {
        Print::of(UrlId::of(&format!("http://a.test/{n}")))
    }

    /// A segment for each pair of numbers: from the first up to the second.
    fn written(kv: &mut MemoryKv, segments: &[(u64, u64)]) -> Prints {
        let mut prints = Prints::begin(3);
        for &(from, until) in segments {
            (from..until).for_each(|n| prints.add(print(n)));
            prints.write(kv).unwrap();
        }
        prints
    }

    #[test]
    fn what_was_written_comes_back_as_a_filter_and_part_by_part() {
        let mut kv = MemoryKv::new();
        let mut prints = written(&mut kv, &[(0, 3_000), (3_000, 3_001), (3_001, 5_000)]);
        prints.write(&mut kv).unwrap();
        let (loaded, filter) = Prints::load(&kv, 3, prints.end(), 100).unwrap().unwrap();
        assert_eq!((loaded.end(), loaded.segments.len(), filter.count()), (prints.end(), 3, 5_000));
        assert!((0..5_000).all(|n| filter.may_have(print(n))));

        (5_000..6_000).for_each(|n| prints.add(print(n)));
        let mut all: Vec<Print> =
            (0..PARTS).flat_map(|part| prints.of_part(&kv, part).unwrap()).collect();
        let mut want: Vec<_> = (0..6_000).map(print).collect();
        all.sort_unstable();
        want.sort_unstable();
        assert!(all == want, "every print in its part, the pending ones included");
    }

    #[test]
    fn a_tail_that_was_never_noted_is_written_over() {
        let mut kv = MemoryKv::new();
        let noted = written(&mut kv, &[(0, 1_000)]);
        written(&mut kv, &[(0, 1_000), (1_000, 2_000)]);
        let (mut prints, _) = Prints::load(&kv, 3, noted.end(), 100).unwrap().unwrap();
        (7_000..7_010).for_each(|n| prints.add(print(n)));
        prints.write(&mut kv).unwrap();
        let (_, filter) = Prints::load(&kv, 3, prints.end(), 100).unwrap().unwrap();
        assert_eq!(filter.count(), 1_010);
        assert!(filter.may_have(print(7_000)) && filter.may_have(print(7)));
    }

    #[test]
    fn a_file_that_is_damaged_short_or_another_is_not_used() {
        let mut kv = MemoryKv::new();
        let prints = written(&mut kv, &[(0, 400), (400, 700)]);
        let end = prints.end();
        let mut whole = Vec::new();
        kv.load_side(PRINTS_FILE, 0).unwrap().unwrap().read_to_end(&mut whole).unwrap();
        assert!(Prints::load(&kv, 4, end, 1).unwrap().is_none(), "another generation");
        assert!(Prints::load(&kv, 3, end + 1, 1).unwrap().is_none(), "longer than noted");
        let mut put = |bytes: &[u8]| {
            kv.append_side(PRINTS_FILE, 0, bytes).unwrap();
            Prints::load(&kv, 3, end, 1).unwrap().is_some()
        };
        assert!(put(&whole));
        for at in (0..whole.len()).step_by(61).chain([0, 8, 23, 24, whole.len() - 1]) {
            let mut spoilt = whole.clone();
            spoilt[at] ^= 0x10;
            assert!(!put(&spoilt), "byte {at}");
            assert!(!put(&whole[..at]), "cut at {at}");
        }
    }
}
