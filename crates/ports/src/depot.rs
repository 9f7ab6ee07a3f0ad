//! Where does a worker in another process keep what it has fetched?
//!
//! Whether a visit counts is the frontier's to say, after it was reported; and it may be reported
//! only when its bytes are safe. So they are put down first, reported, and go to the archive when
//! the frontier has committed them. If either process dies in between, the worker finds what it has
//! put down and asks what became of it.
//!
//! Always: the archive holds no visit that the frontier does not know, and every one that was
//! archived here and that it does.

use std::ops::Range;

use types::{CrawlUrl, Timestamp, VisitId};

use crate::error::PortResult;
use crate::spool::Blob;

/// The bytes of one visit, and what its index line says.
#[derive(Debug)]
pub struct Parcel {
    pub visit: VisitId,
    pub url: CrawlUrl,
    pub at: Timestamp,
    pub status: u16,
    pub content_type: Option<Box<str>>,
    pub digest: Option<[u8; 20]>,
    /// Whole gzip members.
    pub bytes: Blob,
    /// Where the response lies in them.
    pub response: Range<usize>,
}

pub trait Depot: Send {
    /// What was put down and not settled, because a process died.
    fn unsettled(&self) -> Vec<VisitId>;

    /// Puts visits down; they survive a power loss after this. What was put down before must be
    /// settled.
    fn put(&mut self, parcels: Vec<Parcel>) -> PortResult<()>;

    /// Which of the visits put down last are committed, in their order: those go to the archive, the
    /// others nowhere.
    fn settle(&mut self, committed: &[bool], now: Timestamp) -> PortResult<()>;

    /// The work ends for now: what is buffered becomes durable.
    fn close(&mut self) -> PortResult<()>;
}
