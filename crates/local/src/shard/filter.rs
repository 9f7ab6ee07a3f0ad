//! Is this id certainly new?
//!
//! A Bloom filter in blocks of one cache line: one memory access an answer. "No" is certain,
//! "perhaps" is asked of the store. It grows by being built anew, half again as large as needed,
//! so it takes between 8 and 12 bits a URL; at 8 bits 3 % of new ids cost a lookup (measured
//! below), which the store's own filters answer.
//!
//! Its file: a head, the blocks, a checksum of both. A file that is not whole is no file.

use std::io::{self, Read, Write};

use types::UrlId;
use xxhash_rust::xxh3::Xxh3;

const BLOCK_WORDS: usize = 8;
const BLOCK_BITS: u64 = 512;
/// Bits set for an id; 5 is best at 8 bits an id and near the best at 12.
const PROBES: u32 = 5;
const BITS_PER_ID: u64 = 8;

const MAGIC: &[u8; 8] = b"lycoseen";
const FILE_VERSION: u64 = 1;
const HEAD_WORDS: usize = 6;
/// 2^30 blocks are 64 GiB: no head that claims more is ours.
const BLOCKS_MAX: u64 = 1 << 30;

/// What is known of the ids in a filter.
pub(super) struct Filter {
    words: Vec<u64>,
    capacity: u64,
    count: u64,
}

/// What a filter's file covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) generation: u64,
    /// Every id up to this number of the `fresh` log is in it.
    pub(super) covered: u64,
}

impl Filter {
    pub(super) fn with_capacity(ids: u64) -> Self {
        let blocks = (ids * BITS_PER_ID).div_ceil(BLOCK_BITS).clamp(1, BLOCKS_MAX);
        let words = vec![0; blocks as usize * BLOCK_WORDS];
        Self { words, capacity: ids, count: 0 }
    }

    /// True if the id was added, and for a few others.
    pub(super) fn may_have(&self, id: UrlId) -> bool {
        let block = self.block(id);
        let words = &self.words[block..block + BLOCK_WORDS];
        probes(id).all(|(word, mask)| words[word] & mask != 0)
    }

    pub(super) fn add(&mut self, id: UrlId) {
        let block = self.block(id);
        let mut fresh = false;
        for (word, mask) in probes(id) {
            let word = &mut self.words[block + word];
            fresh |= *word & mask == 0;
            *word |= mask;
        }
        self.count += u64::from(fresh);
    }

    /// Ids in it, less those that looked the same.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The first word of an id's block.
    fn block(&self, id: UrlId) -> usize {
        let blocks = (self.words.len() / BLOCK_WORDS) as u128;
        // Fastrange: the upper half of the id as a fraction of the whole.
        (((id.0 >> 64) * blocks) >> 64) as usize * BLOCK_WORDS
    }

    pub(super) fn write(&self, stamp: Stamp, out: &mut dyn Write) -> io::Result<()> {
        let mut sum = Xxh3::new();
        let mut put = |bytes: &[u8]| {
            sum.update(bytes);
            out.write_all(bytes)
        };
        let blocks = (self.words.len() / BLOCK_WORDS) as u64;
        put(MAGIC)?;
        let head =
            [FILE_VERSION, stamp.generation, stamp.covered, self.capacity, self.count, blocks];
        put(&bytes_of(&head))?;
        for words in self.words.chunks(8 << 10) {
            put(&bytes_of(words))?;
        }
        let sum = sum.digest();
        out.write_all(&sum.to_le_bytes())
    }

    /// The filter of a file, if it is whole and ours.
    pub(super) fn read(input: &mut dyn Read) -> io::Result<(Self, Stamp)> {
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let mut sum = Xxh3::new();
        let mut get = |bytes: &mut [u8]| {
            input.read_exact(bytes)?;
            sum.update(bytes);
            io::Result::Ok(())
        };
        let mut magic = [0; MAGIC.len()];
        get(&mut magic)?;
        let mut head = [0; HEAD_WORDS * 8];
        get(&mut head)?;
        let [version, generation, covered, capacity, count, blocks] =
            words_of(&head).try_into().map_err(|_| bad("head"))?;
        if magic != *MAGIC || version != FILE_VERSION || !(1..=BLOCKS_MAX).contains(&blocks) {
            return Err(bad("it is not a filter of this version"));
        }
        let total = blocks as usize * BLOCK_WORDS;
        // Grows with what is read: a head that lies must not allocate what is not there.
        let mut words = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        while words.len() < total {
            let take = buffer.len().min((total - words.len()) * 8);
            get(&mut buffer[..take])?;
            words.extend(words_of(&buffer[..take]));
        }
        let want = sum.digest();
        let mut found = [0; 8];
        input.read_exact(&mut found)?;
        if u64::from_le_bytes(found) != want {
            return Err(bad("the checksum is wrong"));
        }
        Ok((Self { words, capacity, count }, Stamp { generation, covered }))
    }
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filter").field("count", &self.count).field("of", &self.capacity).finish()
    }
}

/// Word and bit of each probe: nine bits of the lower half of the id for each.
fn probes(id: UrlId) -> impl Iterator<Item = (usize, u64)> {
    let low = id.0 as u64;
    (0..PROBES).map(move |n| {
        let bits = low >> (n * 9);
        ((bits >> 6 & 7) as usize, 1 << (bits & 63))
    })
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> UrlId {
        UrlId::of(&format!("http://a.test/{n}"))
    }

    #[test]
    fn it_never_forgets_and_seldom_errs() {
        let capacity = 100_000;
        let mut filter = Filter::with_capacity(capacity);
        for n in 0..capacity {
            filter.add(id(n));
        }
        assert!((0..capacity).all(|n| filter.may_have(id(n))));
        let wrong = (capacity..2 * capacity).filter(|n| filter.may_have(id(*n))).count();
        assert!(wrong < 3_500, "{wrong} of 100,000 at 8 bits an id");
        assert!(filter.count() > capacity * 95 / 100);

        let mut roomy = Filter::with_capacity(capacity * 3 / 2);
        (0..capacity).for_each(|n| roomy.add(id(n)));
        let wrong = (capacity..2 * capacity).filter(|n| roomy.may_have(id(*n))).count();
        assert!(wrong < 800, "{wrong} of 100,000 at 12 bits an id");
    }

    #[test]
    fn a_file_comes_back_and_a_damaged_one_does_not() {
        let mut filter = Filter::with_capacity(5_000);
        (0..1_000).for_each(|n| filter.add(id(n)));
        let stamp = Stamp { generation: 3, covered: 1_000 };
        let mut file = Vec::new();
        filter.write(stamp, &mut file).unwrap();
        let (read, found) = Filter::read(&mut &file[..]).unwrap();
        assert_eq!((found, read.count(), read.capacity()), (stamp, filter.count(), 5_000));
        assert!((0..1_000).all(|n| read.may_have(id(n))));

        for at in (0..file.len()).step_by(97).chain([0, 8, file.len() - 1]) {
            let mut spoilt = file.clone();
            spoilt[at] ^= 0x10;
            assert!(Filter::read(&mut &spoilt[..]).is_err(), "byte {at}");
            assert!(Filter::read(&mut &file[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_head_that_lies_about_its_size_allocates_nothing() {
        let mut file = Vec::new();
        Filter::with_capacity(100).write(Stamp { generation: 1, covered: 0 }, &mut file).unwrap();
        file[8 + 40..8 + 48].copy_from_slice(&BLOCKS_MAX.to_le_bytes());
        assert!(Filter::read(&mut &file[..]).is_err());
    }
}
