//! What waits in a queue?

use serde::{Deserialize, Serialize};

use crate::record::Record;
use crate::url::UrlId;

/// Where a URL stands in its host's queue: smaller goes first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct QueueKey {
    pub band: u8,
    pub seq: u64,
}

impl QueueKey {
    pub const MIN: Self = Self { band: 0, seq: 0 };
    pub const MAX: Self = Self { band: u8::MAX, seq: u64::MAX };

    /// The key right before this one; none before the first.
    pub const fn before(self) -> Option<Self> {
        match (self.band, self.seq) {
            (0, 0) => None,
            (band, 0) => Some(Self { band: band - 1, seq: u64::MAX }),
            (band, seq) => Some(Self { band, seq: seq - 1 }),
        }
    }

    /// The key right after this one.
    pub const fn after(self) -> Self {
        match (self.band, self.seq) {
            (u8::MAX, u64::MAX) => Self::MAX,
            (band, u64::MAX) => Self { band: band + 1, seq: 0 },
            (band, seq) => Self { band, seq: seq + 1 },
        }
    }
}

/// A queued URL in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub key: QueueKey,
    pub id: UrlId,
    pub record: Record,
}

/// What is counted for a registrable domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SiteState {
    pub pages: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_neighbours() {
        let key = QueueKey { band: 3, seq: 0 };
        assert_eq!(key.before(), Some(QueueKey { band: 2, seq: u64::MAX }));
        assert_eq!(key.before().unwrap().after(), key);
        assert_eq!(QueueKey::MIN.before(), None);
        assert_eq!(QueueKey::MAX.after(), QueueKey::MAX);
    }
}
