//! Whose is this host, among the crawls of one machine?
//!
//! Two crawls that know nothing of each other would each be polite and together not. So a crawl
//! claims a place (a host, an address) before it visits it, and leaves it when it has done with it.
//! A process that dies has left everything, and whoever comes next is told so.

use types::{Timestamp, UrlId};

use crate::PortResult;

pub trait Claims: Send + Sync {
    /// Claims a place that this process has not claimed.
    ///
    /// # Errors
    /// When nobody can tell; the caller must not go there.
    fn claim(&self, place: ClaimKey, now: Timestamp) -> PortResult<Claimed>;

    /// Leaves a place that was claimed; nobody may visit it before `until`.
    ///
    /// # Errors
    /// When the others cannot be told. It is left all the same.
    fn leave(&self, place: ClaimKey, until: Timestamp) -> PortResult<()>;
}

/// A host or an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClaimKey(pub u64);

impl ClaimKey {
    /// From a text that no other place has.
    pub fn of(text: &str) -> Self {
        Self(UrlId::of(text).0 as u64)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// It is ours; nobody visits it before this moment.
    Ours { not_before: Timestamp },
    /// It is ours; who had it before died, perhaps after a request of a moment ago.
    Orphan,
    /// Another crawl has it.
    Taken,
}
