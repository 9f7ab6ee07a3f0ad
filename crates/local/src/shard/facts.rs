//! How many URLs wait at a host, and where does its queue begin?
//!
//! One small row a host, in the same batch as every change of its queue. For each band it knows
//! how many wait and a place before which nothing is left, so that a read seeks past what was
//! deleted: in a log-structured store a popped queue is a field of tombstones.

use serde::{Deserialize, Serialize};
use types::QueueKey;

/// A host's queue in short.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct QueueFacts {
    /// Bands with waiting URLs, best first.
    bands: Vec<Band>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Band {
    pub(super) band: u8,
    pub(super) waiting: u64,
    /// No entry of this band stands before this number.
    pub(super) head: u64,
}

impl QueueFacts {
    pub(super) fn waiting(&self) -> u64 {
        self.bands.iter().map(|band| band.waiting).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bands.is_empty()
    }

    pub(super) fn best_band(&self) -> Option<u8> {
        self.bands.first().map(|band| band.band)
    }

    pub(super) fn bands(&self) -> &[Band] {
        &self.bands
    }

    /// An entry came to the queue.
    pub(super) fn add(&mut self, key: QueueKey) {
        match self.bands.binary_search_by_key(&key.band, |band| band.band) {
            Ok(at) => {
                let band = &mut self.bands[at];
                band.waiting += 1;
                band.head = band.head.min(key.seq);
            }
            Err(at) => {
                self.bands.insert(at, Band { band: key.band, waiting: 1, head: key.seq });
            }
        }
    }

    /// An entry that was there has left.
    pub(super) fn remove(&mut self, key: QueueKey) {
        let Ok(at) = self.bands.binary_search_by_key(&key.band, |band| band.band) else { return };
        let band = &mut self.bands[at];
        band.waiting = band.waiting.saturating_sub(1);
        if band.waiting == 0 {
            self.bands.remove(at);
        } else if band.head == key.seq {
            band.head += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(band: u8, seq: u64) -> QueueKey {
        QueueKey { band, seq }
    }

    #[test]
    fn the_head_follows_what_leaves_and_moves_back_for_what_comes_before_it() {
        let mut facts = QueueFacts::default();
        for seq in 5..8 {
            facts.add(key(2, seq));
        }
        facts.add(key(0, 9));
        assert_eq!((facts.waiting(), facts.best_band()), (4, Some(0)));
        facts.remove(key(0, 9));
        assert_eq!((facts.waiting(), facts.best_band()), (3, Some(2)));
        facts.remove(key(2, 5));
        assert_eq!(facts.bands(), [Band { band: 2, waiting: 2, head: 6 }]);
        // Out of order: the head stays at what is still there.
        facts.remove(key(2, 7));
        assert_eq!(facts.bands(), [Band { band: 2, waiting: 1, head: 6 }]);
        facts.add(key(2, 3));
        assert_eq!(facts.bands(), [Band { band: 2, waiting: 2, head: 3 }]);
        facts.remove(key(2, 3));
        facts.remove(key(2, 6));
        assert!(facts.is_empty() && facts.best_band().is_none());
        facts.remove(key(2, 6));
        assert_eq!(facts.waiting(), 0);
    }
}
