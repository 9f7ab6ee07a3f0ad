//! One suite a port: every adapter runs it, so that all keep the same promises.
//!
//! Behind the cargo feature `contract`; release builds do not carry it.
//!
//! The suites panic with the broken promise, as tests do. They begin each case with a state of its
//! own from `make`.

#![expect(clippy::unwrap_used, reason = "a suite is a test that others run")]

mod archive;
mod book;
mod kit;
mod mail;
mod model;
mod queues;
mod urls;
mod visits;

pub use archive::ReopenArchive;

use types::UrlId;

use crate::error::PortResult;
use crate::shard_store::ShardStore;

/// A promise in words, and what checks it.
type Case<R> = (&'static str, fn(&mut R));

/// A shard's state that can be opened again and again.
pub trait Reopen {
    type Store: ShardStore;

    /// Opens the state. The store before this one was dropped: closed, or as by a kill.
    fn open(&mut self) -> PortResult<Self::Store>;

    /// From the next open on, texts get their ids like this: for collisions.
    fn use_ids(&mut self, ids: fn(&str, u64) -> UrlId);

    /// Whatever the store can say against its own consistency.
    fn audit(&self, store: &Self::Store) -> Vec<String>;

    /// Random sequences of operations for this engine; opening costs some of them dearly.
    fn sequences(&self) -> u64 {
        1_000
    }
}

/// All promises of [`ShardStore`].
pub fn shard_store<R: Reopen>(make: impl Fn() -> R) {
    let cases: Vec<Case<R>> =
        [urls::cases(), visits::cases(), queues::cases(), mail::cases()].concat();
    for (name, case) in cases {
        // Seen only when the suite fails: which promise was it?
        eprintln!("contract: {name}");
        case(&mut make());
    }
    eprintln!("contract: random operations agree with a model");
    model::random_operations(make);
}

/// All promises of [`crate::Archive`].
pub fn archive<R: ReopenArchive>(make: impl Fn() -> R) {
    for (name, case) in archive::cases::<R>() {
        eprintln!("contract: {name}");
        case(&mut make());
    }
}
