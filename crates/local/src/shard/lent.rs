//! Which waiting URLs are as their visitor was told?
//!
//! A visit brings back the record that it was given, changed. Whether the stored one has changed
//! meanwhile, and whether the URL still stands in its queue, would take two reads of rows that
//! nobody else needs; on a large state both are reads of the disk. So we remember what we gave
//! out, with how near the URL was found, and forget it as soon as a link changes that. What is not
//! remembered is read.
//!
//! Always: what is remembered is so. An entry holds the number of the place in the queue, and no
//! number is ever used twice in a shard. A visitor who was told before a change tells another
//! nearness than the one that was remembered since.

use ports::PortResult;
use types::{QueueKey, UrlId};

use super::lines::{Line, Lines};
use super::recent::Near;

/// Sets of eight entries, 8 MiB in all: twice as much as the frontier holds of hosts' queues.
const SET_BITS: u32 = 17;
/// An entry: bits of the id beyond those of its set, the nearness, the number of the place. A shard
/// that has given out as many numbers reads its rows.
const NUMBER_BITS: u32 = 38;
const DEPTH_BITS: u32 = 6;
const HOPS_BITS: u32 = 3;
const MARK_SHIFT: u32 = NUMBER_BITS + DEPTH_BITS + HOPS_BITS + 1;

#[derive(Debug)]
pub(super) struct Lent {
    sets: Lines,
}

impl Lent {
    pub(super) fn new() -> PortResult<Self> {
        Ok(Self { sets: Lines::new(1 << SET_BITS)? })
    }

    /// The URL waits in its queue there, and whoever visits it knows its record.
    pub(super) fn insert(&mut self, id: UrlId, key: QueueKey, near: Near) {
        let Some(new) = entry(id, key, near) else { return };
        let set = self.set(id);
        if !has(set, new) {
            set.copy_within(..56, 8);
            set[..8].copy_from_slice(&new.to_le_bytes());
        }
    }

    /// Whether that is still so.
    pub(super) fn has(&self, id: UrlId, key: QueueKey, near: Near) -> bool {
        entry(id, key, near).is_some_and(|entry| has(&self.sets.all()[spot(id)], entry))
    }

    /// Its record has changed, or it has left.
    pub(super) fn forget(&mut self, id: UrlId) {
        for entry in self.set(id).as_chunks_mut::<8>().0 {
            if u64::from_le_bytes(*entry) >> MARK_SHIFT == mark(id) {
                *entry = [0; 8];
            }
        }
    }

    fn set(&mut self, id: UrlId) -> &mut Line {
        &mut self.sets.all_mut()[spot(id)]
    }
}

fn has(set: &Line, entry: u64) -> bool {
    set.as_chunks().0.iter().any(|bytes| u64::from_le_bytes(*bytes) == entry)
}

/// Never 0, which is an empty place: numbers count from 1.
fn entry(id: UrlId, key: QueueKey, near: Near) -> Option<u64> {
    let (depth, hops) = (u64::from(near.depth), u64::from(near.hops));
    let fits = key.seq > 0 && key.seq >> NUMBER_BITS == 0;
    let fits = fits && depth >> DEPTH_BITS == 0 && hops >> HOPS_BITS == 0;
    let near = (depth << HOPS_BITS | hops) << 1 | u64::from(near.seed);
    fits.then_some(mark(id) << MARK_SHIFT | near << NUMBER_BITS | key.seq)
}

fn spot(id: UrlId) -> usize {
    id.0 as usize & ((1 << SET_BITS) - 1)
}

fn mark(id: UrlId) -> u64 {
    id.0 as u64 >> SET_BITS & ((1 << (u64::BITS - MARK_SHIFT)) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Near = Near { depth: 3, hops: 1, seed: false };

    const fn key(seq: u64) -> QueueKey {
        QueueKey { band: 3, seq }
    }

    #[test]
    fn what_was_given_out_is_remembered_until_it_changes() {
        let mut lent = Lent::new().unwrap();
        let (a, b) = (UrlId(5), UrlId(5 | 1 << SET_BITS));
        lent.insert(a, key(7), NEAR);
        lent.insert(b, key(8), NEAR);
        lent.insert(a, key(7), NEAR);
        assert!(lent.has(a, key(7), NEAR) && lent.has(b, key(8), NEAR));
        assert!(!lent.has(a, key(8), NEAR) && !lent.has(b, key(7), NEAR));
        for other in [
            Near { depth: 4, ..NEAR },
            Near { hops: 0, ..NEAR },
            Near { seed: true, ..NEAR },
            Near { depth: 3 + (1 << DEPTH_BITS), ..NEAR },
            Near { hops: 1 + (1 << HOPS_BITS), ..NEAR },
        ] {
            assert!(!lent.has(a, key(7), other), "{other:?}");
        }
        lent.forget(a);
        assert!(!lent.has(a, key(7), NEAR) && lent.has(b, key(8), NEAR));
    }

    #[test]
    fn the_newest_push_the_oldest_out_and_large_numbers_are_not_remembered() {
        let mut lent = Lent::new().unwrap();
        let id = |n: u64| UrlId(u128::from(n) << SET_BITS);
        (1..=9).for_each(|n| lent.insert(id(n), key(n), NEAR));
        assert!(!lent.has(id(1), key(1), NEAR));
        assert!((2..=9).all(|n| lent.has(id(n), key(n), NEAR)));
        for odd in [0, 1 << NUMBER_BITS, u64::MAX] {
            lent.insert(UrlId(1), key(odd), NEAR);
            assert!(!lent.has(UrlId(1), key(odd), NEAR));
        }
    }
}
