//! Where in a path can a segment be?
//!
//! Searching a 2 KB path once is quick, searching it for each of 40,000 wildcard rules is not. So
//! for a group with many of them the path is indexed: for each length of segment that is asked
//! for, a hash table of the path's substrings of that length, with the first and the last place
//! of each. A segment is then found, or found missing, in the time it takes to hash it.
//!
//! Always: a segment that occurs is found, and no place named is later than its first or earlier
//! than its last one. The hash may be wrong the other way (it is not keyed): then a segment is
//! searched for in vain, which is linear.
//!
//! Not here: the search itself (`matching`).

/// Longest path that is indexed. Longer URLs are refused elsewhere or rare; without an index they
/// are still judged in linear time.
const PATH_BYTES_MAX: usize = 4096;

/// Longest substrings that get a table; longer segments are looked up in pieces. With the limit
/// above this bounds the tables to 4 MiB, while one URL is judged.
const PIECE_BYTES_MAX: usize = 64;

/// An index of one path, filled as lengths are asked for.
pub(crate) struct Probe {
    /// `prefixes[i]` is the hash of the path's first `i` bytes.
    prefixes: Vec<u64>,
    /// One table for each length of substring; empty until it is needed.
    tables: Vec<Vec<Slot>>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    tag: u32,
    first: u16,
    last: u16,
}

/// No substring starts here: `PATH_BYTES_MAX` is below it.
const EMPTY: Slot = Slot { tag: 0, first: u16::MAX, last: 0 };

impl Probe {
    /// An index of `path`, unless it is too long for one.
    pub(crate) fn of(path: &[u8]) -> Option<Probe> {
        if path.len() > PATH_BYTES_MAX {
            return None;
        }
        let mut prefixes = Vec::with_capacity(path.len() + 1);
        prefixes.push(0);
        prefixes.extend(path.iter().scan(0, |hash, &byte| {
            *hash = add_byte(*hash, byte);
            Some(*hash)
        }));
        Some(Probe { prefixes, tables: vec![Vec::new(); PIECE_BYTES_MAX + 1] })
    }

    /// The first and the last place that `segment` may start at; `None` if it does not occur.
    pub(crate) fn places(&mut self, segment: &[u8]) -> Option<(usize, usize)> {
        if segment.len() <= PIECE_BYTES_MAX {
            return self.find(segment);
        }
        let (mut first, mut last) = (0, self.prefixes.len());
        let mut offset = 0;
        while offset < segment.len() {
            // The last piece may overlap the one before, so that all have full length.
            let start = offset.min(segment.len() - PIECE_BYTES_MAX);
            let piece = self.find(&segment[start..start + PIECE_BYTES_MAX])?;
            first = first.max(piece.0.saturating_sub(start));
            last = last.min(piece.1.checked_sub(start)?);
            offset = start + PIECE_BYTES_MAX;
        }
        (first <= last).then_some((first, last))
    }

    fn find(&mut self, piece: &[u8]) -> Option<(usize, usize)> {
        if self.tables[piece.len()].is_empty() {
            self.tables[piece.len()] = table(&self.prefixes, piece.len());
        }
        let hash = piece.iter().fold(0, |hash, &byte| add_byte(hash, byte));
        let table = &self.tables[piece.len()];
        let slot = table[slot_of(table, hash)];
        let found = (usize::from(slot.first), usize::from(slot.last));
        (slot.first != EMPTY.first).then_some(found)
    }
}

/// The places of all substrings of `len` bytes.
fn table(prefixes: &[u64], len: usize) -> Vec<Slot> {
    // At most half full, so that a search for a free slot is short.
    let mut table = vec![EMPTY; (2 * prefixes.len()).next_power_of_two()];
    let shift = (0..len).fold(1, |power: u64, _| power.wrapping_mul(BASE));
    let ends = prefixes.get(len..).unwrap_or_default();
    for (place, (start, end)) in (0u16..).zip(prefixes.iter().zip(ends)) {
        let hash = end.wrapping_sub(start.wrapping_mul(shift));
        let at = slot_of(&table, hash);
        let first = place.min(table[at].first);
        table[at] = Slot { tag: tag(hash), first, last: place };
    }
    table
}

/// The slot that holds `hash`, or the empty one where it would go.
fn slot_of(table: &[Slot], hash: u64) -> usize {
    let mask = table.len() - 1;
    let mut at = (mix(hash) >> 40) as usize & mask;
    while table[at].first != EMPTY.first && table[at].tag != tag(hash) {
        at = (at + 1) & mask;
    }
    at
}

fn tag(hash: u64) -> u32 {
    mix(hash) as u32
}

/// A polynomial in an odd base, so that the hash of a substring follows from those of two
/// prefixes.
fn add_byte(hash: u64, byte: u8) -> u64 {
    hash.wrapping_mul(BASE).wrapping_add(u64::from(byte) + 1)
}

/// Spreads a polynomial's value, whose low bits depend on little, over the word.
fn mix(hash: u64) -> u64 {
    let spread = hash.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    spread ^ (spread >> 32)
}

const BASE: u64 = 0x9E37_79B9_7F4A_7C15; // 2^64 / golden ratio

#[cfg(test)]
mod tests {
    use memchr::memmem;

    use super::*;

    #[test]
    fn every_substring_is_found_between_its_first_and_last_place() {
        let path: Vec<u8> = (0..700u32).map(|i| b'a' + (i * i % 7 + i / 90) as u8).collect();
        let mut probe = Probe::of(&path).unwrap();
        for start in 0..path.len() {
            for len in [0, 1, 2, 3, 9, 63, 64, 65, 128, 200] {
                let Some(segment) = path.get(start..start + len) else { continue };
                let (first, last) = probe.places(segment).unwrap();
                assert!(first <= memmem::find(&path, segment).unwrap());
                assert!(last >= memmem::rfind(&path, segment).unwrap());
            }
        }
    }

    #[test]
    fn what_does_not_occur_is_not_found() {
        let path = [&[b'a'; 200][..], &[b'b'; 200]].concat();
        let mut probe = Probe::of(&path).unwrap();
        assert_eq!(probe.places(b"c"), None);
        assert_eq!(probe.places(b"ba"), None);
        // Its pieces occur, but not in this order.
        assert_eq!(probe.places(&[[b'b'; 64], [b'a'; 64]].concat()), None);
        assert_eq!(probe.places(&[b'a'; 64]), Some((0, 136)));
        assert_eq!(probe.places(&[b'a'; 401]), None);
    }

    #[test]
    fn a_path_too_long_is_not_indexed() {
        assert!(Probe::of(&[b'a'; PATH_BYTES_MAX]).is_some());
        assert!(Probe::of(&[b'a'; PATH_BYTES_MAX + 1]).is_none());
    }
}
