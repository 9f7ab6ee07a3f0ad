//! Where does a host's queue begin?
//!
//! In a log-structured store a popped queue is a field of tombstones, and a read from its first
//! possible place wades through all of them. So each band of a host has a place before which
//! nothing is left. It is sought and noted only after many have left: a queue that few have left
//! is short to wade through, and a URL that comes in needs no row but its own.

use ports::{PortError, PortResult};
use types::QueueKey;

/// How many must leave a band before its head is sought again.
const LEFT_MAX: u32 = 64;
/// A band and a number.
const ROW_BYTES: usize = 9;

/// The heads of one host's queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Heads {
    /// Bands that something has left, best first.
    bands: Vec<Head>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    band: u8,
    /// No entry of this band stands before this number.
    seq: u64,
    /// Left since that was found out; not stored.
    left: u32,
}

impl Heads {
    pub(super) fn read(row: &[u8]) -> PortResult<Self> {
        let (heads, []) = row.as_chunks::<ROW_BYTES>() else {
            let what = format_args!("the row is {row:02x?}");
            return Err(PortError::corrupt("read the heads of a queue", what));
        };
        let head = |[band, seq @ ..]: &[u8; ROW_BYTES]| Head {
            band: *band,
            seq: u64::from_be_bytes(*seq),
            left: 0,
        };
        Ok(Self { bands: heads.iter().map(head).collect() })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for head in self.bands.iter().filter(|head| head.seq > 0) {
            out.push(head.band);
            out.extend_from_slice(&head.seq.to_be_bytes());
        }
    }

    /// The stretches of the queue in which entries may stand, from a place on; each ends before
    /// its second key.
    pub(super) fn stretches(&self, from: QueueKey) -> Vec<(QueueKey, QueueKey)> {
        let mut stretches = Vec::with_capacity(self.bands.len() + 1);
        let mut from = from;
        for head in &self.bands {
            let until = QueueKey { band: head.band, seq: 0 };
            if from < until {
                stretches.push((from, until));
            }
            from = from.max(QueueKey { band: head.band, seq: head.seq });
        }
        stretches.push((from, QueueKey::MAX));
        stretches
    }

    /// An entry comes to a place that was given away before. Answers whether a head moved.
    pub(super) fn comes_back(&mut self, key: QueueKey) -> bool {
        match self.find(key.band) {
            Ok(at) if self.bands[at].seq > key.seq => {
                self.bands[at].seq = key.seq;
                true
            }
            _ => false,
        }
    }

    /// An entry leaves.
    pub(super) fn leaves(&mut self, key: QueueKey) {
        match self.find(key.band) {
            Ok(at) => self.bands[at].left += 1,
            Err(at) => self.bands.insert(at, Head { band: key.band, seq: 0, left: 1 }),
        }
    }

    /// The heads that lie so far back that they must be sought anew.
    pub(super) fn overdue(&self) -> Vec<QueueKey> {
        let overdue = self.bands.iter().filter(|head| head.left >= LEFT_MAX);
        overdue.map(|head| QueueKey { band: head.band, seq: head.seq }).collect()
    }

    /// The first entry of this band has been found.
    pub(super) fn begins(&mut self, key: QueueKey) {
        if let Ok(at) = self.find(key.band) {
            self.bands[at] = Head { band: key.band, seq: key.seq, left: 0 };
        }
    }

    fn find(&self, band: u8) -> Result<usize, usize> {
        self.bands.binary_search_by_key(&band, |head| head.band)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(band: u8, seq: u64) -> QueueKey {
        QueueKey { band, seq }
    }

    #[test]
    fn stretches_leave_out_what_lies_before_the_heads() {
        let mut heads = Heads::default();
        assert_eq!(heads.stretches(QueueKey::MIN), [(QueueKey::MIN, QueueKey::MAX)]);
        for band in [3, 0, 7] {
            heads.leaves(key(band, 1));
        }
        heads.begins(key(3, 50));
        heads.begins(key(7, 9));
        assert_eq!(
            heads.stretches(QueueKey::MIN),
            [(key(0, 0), key(3, 0)), (key(3, 50), key(7, 0)), (key(7, 9), QueueKey::MAX)]
        );
        assert_eq!(
            heads.stretches(key(3, 20)),
            [(key(3, 50), key(7, 0)), (key(7, 9), QueueKey::MAX)]
        );
        assert_eq!(heads.stretches(key(5, 1))[0], (key(5, 1), key(7, 0)));
        assert_eq!(heads.stretches(key(7, 10)), [(key(7, 10), QueueKey::MAX)]);
    }

    #[test]
    fn a_head_is_sought_when_many_have_left_and_moves_back_for_what_comes_before_it() {
        let mut heads = Heads::default();
        for n in 1..LEFT_MAX {
            heads.leaves(key(2, u64::from(n)));
            assert!(heads.overdue().is_empty());
        }
        heads.leaves(key(2, 999));
        assert_eq!(heads.overdue(), [key(2, 0)]);
        heads.begins(key(2, 200));
        assert!(heads.overdue().is_empty());
        assert!(!heads.comes_back(key(2, 200)) && !heads.comes_back(key(1, 5)));
        assert!(heads.comes_back(key(2, 77)));
        assert_eq!(heads.stretches(key(2, 0)), [(key(2, 77), QueueKey::MAX)]);
    }

    #[test]
    fn a_row_is_read_back_without_what_is_not_known() {
        let mut heads = Heads::default();
        heads.leaves(key(2, 1));
        heads.leaves(key(9, 1));
        heads.begins(key(9, 258));
        let mut row = Vec::new();
        heads.write(&mut row);
        assert_eq!(row, [9, 0, 0, 0, 0, 0, 0, 1, 2]);
        let read = Heads::read(&row).unwrap();
        assert_eq!(read.stretches(key(9, 0)), [(key(9, 258), QueueKey::MAX)]);
        assert!(Heads::read(&row[1..]).is_err());
    }
}
