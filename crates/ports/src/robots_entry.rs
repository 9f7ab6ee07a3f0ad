//! What do we know of an origin's robots.txt?
//!
//! The text is kept, not the parsed rules: our product token may change between runs, and
//! `explain` shows the line that decided.

use serde::{Deserialize, Serialize};
use types::Timestamp;

/// The state of one origin's robots.txt, as stored with its host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RobotsEntry {
    pub access: RobotsAccess,
    /// When the last attempt ended.
    pub checked_at: Timestamp,
    /// Asked again after then.
    pub expires_at: Timestamp,
    /// Attempts in a row that found it unreachable.
    pub failures: u16,
    /// Why the last attempt failed, when it did.
    pub trouble: Option<Box<str>>,
}

/// What the rules are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RobotsAccess {
    /// A text with rules, as last read then. After a failure it stands for up to 30 days.
    Rules { text: Box<[u8]>, read_at: Timestamp },
    /// There is no file: everything is allowed.
    Absent,
    /// Nobody could tell, and there is no good copy: nothing is fetched.
    Unreachable { since: Timestamp },
}

impl RobotsEntry {
    pub const fn is_unreachable(&self) -> bool {
        matches!(self.access, RobotsAccess::Unreachable { .. })
    }
}
