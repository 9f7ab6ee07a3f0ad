//! What stands under which key?
//!
//! The engines' families are used as they suit (`kv`): what may be missing is asked for where they
//! have filters of keys. Numbers are big-endian.
//!
//! | family | key | value |
//! |---|---|---|
//! | `host` | 0, URL id u128 | the page: family, rank, digest, SimHash, URL |
//! | | 1, digest 16 bytes | the families of that text |
//! | | 2 + table u8, block u32 | the families that stand there ([`Place`]); then their SimHashes, if it is for those |
//! | `url` | family u64 | its print |
//! | | family u64, 0 | how many members it has |
//! | `queue` | family u64, rank 11 bytes, URL id u128 | nothing |
//! | `meta` | `counts` | format, counts, the next family's number |
//! | | `taken`, shard u16 | how far its log is taken |

use page::fingerprint::{Place, Prints, SimHash, Sketch};
use ports::{PortError, PortResult, codec};
use serde::{Deserialize, Serialize};
use types::{CrawlUrl, PageLine, ShardId, TextFacts, Timestamp, UrlId};

use crate::kv::{Family, Kv, get_vec};

pub(super) const PAGES: Family = Family::Host;
pub(super) const BLOCKS: Family = Family::Host;
pub(super) const PRINTS: Family = Family::Url;
pub(super) const MEMBERS: Family = Family::Queue;
pub(super) const META: Family = Family::Meta;

pub(super) const COUNTS: &[u8] = b"counts";
pub(super) const CURSOR: &[u8] = b"taken";

const PAGE: u8 = 0;
const DIGEST: u8 = 1;
const TABLE: u8 = 2;

/// Families that a block names. Hundreds under one key are a template's doing; the next would say
/// the same, and each is compared.
pub(super) const BLOCK_FAMILIES_MAX: usize = 128;

/// Which member of a family is its original: the smallest. A seed before others, then what is nearer
/// to a seed, then what came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rank {
    /// Of a seed, and so before `true`.
    pub is_no_seed: bool,
    pub depth: u16,
    pub at: Timestamp,
}

impl Rank {
    const BYTES: usize = 11;

    pub fn of(page: &PageLine, at: Timestamp) -> Self {
        Self { is_no_seed: !page.seed, depth: page.depth, at }
    }

    /// Sorted as ranks are.
    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = u8::from(self.is_no_seed);
        bytes[1..3].copy_from_slice(&self.depth.to_be_bytes());
        bytes[3..].copy_from_slice(&self.at.micros().to_be_bytes());
        bytes
    }
}

/// A page that has a print.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Page {
    pub family: u64,
    pub rank: Rank,
    /// Half of the text's: enough to tell whether two are equal.
    pub digest: [u8; 16],
    pub simhash: u64,
    pub url: CrawlUrl,
}

/// Half of a SHA-256: nobody finds two texts with the same.
pub(super) fn short_digest(digest: &[u8; 32]) -> [u8; 16] {
    *digest.first_chunk().expect("a digest has 32 bytes")
}

/// The prints of a line, if it has any: a text without a word is like no other.
pub(super) fn prints_of(page: &PageLine) -> Option<Prints> {
    let TextFacts { digest, simhash, words, .. } = *page.text.as_ref()?;
    // Without a sketch it is a copy of what equals it only, as a short text is.
    let sketch = page.sketch.as_deref().and_then(|bytes| bytes.try_into().ok());
    let sketch = Sketch::from_bytes(sketch.unwrap_or([0; Sketch::BYTES]));
    (words > 0).then_some(Prints { digest, simhash: SimHash(simhash), sketch })
}

pub(super) fn page(id: UrlId) -> Vec<u8> {
    [&[PAGE][..], &id.to_be_bytes()].concat()
}

/// Where pages begin and end.
pub(super) const ALL_PAGES: (&[u8], &[u8]) = (&[PAGE], &[PAGE + 1]);
/// Where blocks do, those of digests first.
pub(super) const ALL_BLOCKS: &[u8] = &[DIGEST];

pub(super) fn read_page(bytes: &[u8]) -> PortResult<Page> {
    codec::decode("a page's print", bytes)
}

/// The keys under which a text is found: by its digest, then by what is nearly the same.
pub(super) fn blocks(prints: &Prints) -> impl Iterator<Item = (Option<Place>, Vec<u8>)> {
    let digest = [&[DIGEST][..], &short_digest(&prints.digest)].concat();
    let places = prints.places().map(|place| {
        let key = [&[TABLE + place.table][..], &place.key.to_be_bytes()].concat();
        (Some(place), key)
    });
    std::iter::once((None, digest)).chain(places)
}

/// Which families stand at a place.
///
/// Where they do so for their SimHashes, these stand beside them: a place can have as many as
/// [`BLOCK_FAMILIES_MAX`], and nearly all are told apart without a read of their prints. Rows of
/// versions that did not know this have none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub families: Vec<u64>,
    /// One for each family, or none at all.
    pub simhashes: Vec<SimHash>,
}

impl Block {
    pub fn remove(&mut self, family: u64) {
        let Some(n) = self.families.iter().position(|other| *other == family) else { return };
        self.families.remove(n);
        if n < self.simhashes.len() {
            self.simhashes.remove(n);
        }
    }
}

pub(super) fn read_block(bytes: &[u8]) -> PortResult<Block> {
    const WHAT: &str = "a block of prints";
    let (families, rest) = codec::decode_first::<Vec<u64>>(WHAT, bytes)?;
    let (simhashes, more) = rest.as_chunks();
    if !more.is_empty() || !(simhashes.is_empty() || simhashes.len() == families.len()) {
        let why = format!("{} bytes of SimHashes for {} families", rest.len(), families.len());
        return Err(PortError::corrupt(format!("read {WHAT}"), why));
    }
    let simhashes = simhashes.iter().map(|bytes| SimHash(u64::from_le_bytes(*bytes))).collect();
    Ok(Block { families, simhashes })
}

pub(super) fn write_block(block: &Block) -> Vec<u8> {
    let mut bytes = codec::encode(&block.families);
    bytes.extend(block.simhashes.iter().flat_map(|simhash| simhash.0.to_le_bytes()));
    bytes
}

pub(super) fn print(family: u64) -> Vec<u8> {
    family.to_be_bytes().to_vec()
}

pub(super) fn write_print(prints: &Prints) -> Vec<u8> {
    let Prints { digest, simhash, sketch } = prints;
    [&[codec::LAYOUT][..], digest, &simhash.0.to_le_bytes(), &sketch.to_bytes()].concat()
}

pub(super) fn read_print(bytes: &[u8]) -> PortResult<Prints> {
    let broken = || PortError::corrupt("read a print", "its length is not as it should be");
    let rest = bytes.strip_prefix(&[codec::LAYOUT]).ok_or_else(broken)?;
    let (digest, rest) = rest.split_first_chunk().ok_or_else(broken)?;
    let (simhash, sketch) = rest.split_first_chunk().ok_or_else(broken)?;
    Ok(Prints {
        digest: *digest,
        simhash: SimHash(u64::from_le_bytes(*simhash)),
        sketch: Sketch::from_bytes(sketch.try_into().map_err(|_| broken())?),
    })
}

/// The key of the number of members.
pub(super) fn size(family: u64) -> Vec<u8> {
    [&family.to_be_bytes()[..], &[0]].concat()
}

pub(super) fn read_size(bytes: &[u8]) -> PortResult<u64> {
    codec::decode("the size of a family", bytes)
}

pub(super) fn members_of(kv: &dyn Kv, family: u64) -> PortResult<u64> {
    get_vec(kv, PRINTS, &size(family))?.map_or(Ok(0), |bytes| read_size(&bytes))
}

/// What all members' keys begin with.
pub(super) fn members(family: u64) -> Vec<u8> {
    family.to_be_bytes().to_vec()
}

pub(super) fn member(family: u64, rank: Rank, id: UrlId) -> Vec<u8> {
    [&family.to_be_bytes()[..], &rank.to_bytes(), &id.to_be_bytes()].concat()
}

/// Family and page of a member.
pub(super) fn read_member(key: &[u8]) -> PortResult<(u64, UrlId)> {
    let broken = || PortError::corrupt("read a family", "a member's key is not as it should be");
    let (family, rest) = key.split_first_chunk().ok_or_else(broken)?;
    let id = rest.get(Rank::BYTES..).and_then(|id| id.try_into().ok()).ok_or_else(broken)?;
    Ok((u64::from_be_bytes(*family), UrlId(u128::from_be_bytes(id))))
}

pub(super) fn cursor(shard: ShardId) -> Vec<u8> {
    [CURSOR, &shard.0.to_be_bytes()].concat()
}

pub(super) fn read_cursor(key: &[u8]) -> PortResult<ShardId> {
    let shard = key.strip_prefix(CURSOR).and_then(|rest| rest.try_into().ok());
    let shard = shard.ok_or_else(|| PortError::corrupt("read a place in the log", "no shard"))?;
    Ok(ShardId(u16::from_be_bytes(shard)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_go_first_then_what_is_near_then_what_came_first() {
        let rank = |seed: bool, depth, secs| Rank {
            is_no_seed: !seed,
            depth,
            at: Timestamp::from_secs(secs),
        };
        let sorted = [
            rank(true, 0, 5),
            rank(true, 0, 600),
            rank(true, 2, 1),
            rank(false, 0, 9),
            rank(false, 1, 2),
            rank(false, 1, 3),
            rank(false, 300, 1),
        ];
        assert!(sorted.is_sorted());
        assert!(sorted.map(Rank::to_bytes).is_sorted(), "and so are their keys");
    }

    #[test]
    fn blocks_read_back_also_those_of_before() {
        let mut block = Block { families: vec![1, 500], simhashes: vec![SimHash(7), SimHash(!0)] };
        assert_eq!(read_block(&write_block(&block)).unwrap(), block);
        block.remove(1);
        assert_eq!(block, Block { families: vec![500], simhashes: vec![SimHash(!0)] });
        let old = Block { families: vec![3, 4], simhashes: Vec::new() };
        assert_eq!(write_block(&old), codec::encode(&vec![3_u64, 4]));
        assert_eq!(read_block(&codec::encode(&vec![3_u64, 4])).unwrap(), old);
        let mut torn = codec::encode(&vec![3_u64, 4]);
        torn.extend([0; 8]);
        assert!(read_block(&torn).is_err(), "one SimHash of two families");
        torn.extend([0; 7]);
        assert!(read_block(&torn).is_err());
    }

    #[test]
    fn keys_and_prints_read_back() {
        let rank = Rank { is_no_seed: true, depth: 7, at: Timestamp::from_secs(9) };
        let id = UrlId::of("http://a.test/");
        let key = member(3, rank, id);
        assert_eq!(read_member(&key).unwrap(), (3, id));
        assert!(key.starts_with(&members(3)) && read_member(&key[1..]).is_err());
        assert_eq!(read_cursor(&cursor(ShardId(513))).unwrap(), ShardId(513));
        let prints = Prints::of("one two three four five six seven eight nine ten");
        assert_eq!(read_print(&write_print(&prints)).unwrap(), prints);
        assert!(read_print(&write_print(&prints)[1..]).is_err());
    }
}
