//! What do we ask of the outside?
//!
//! Few traits, shaped for batches: a call is per page or per group of pages, never per link. The
//! engine knows these and nothing behind them; adapters implement them and know nothing of the
//! engine. What crosses a process boundary has its bytes in [`codec`].
//!
//! The stores ([`ShardStore`], [`Archive`]) are synchronous on purpose: their engines are, and
//! the engine runs them on store threads, or inline under virtual time.

pub mod archive;
pub mod claims;
pub mod clock;
pub mod codec;
#[cfg(feature = "contract")]
pub mod contract;
pub mod depot;
pub mod error;
pub mod failpoint;
pub mod fetcher;
pub mod foreign_store;
pub mod resolver;
pub mod robots_entry;
pub mod shard_store;
pub mod sink;
pub mod spool;

pub use archive::{Archive, ArchiveEnd};
pub use claims::Claims;
pub use clock::Clock;
pub use depot::{Depot, Parcel};
pub use error::{PortError, PortErrorKind, PortResult};
pub use failpoint::failpoint;
pub use fetcher::{
    Ended, Exchange, Fetcher, Held, Protocol, Purpose, Request, Response, Rest, Times,
};
pub use foreign_store::ForeignStore;
pub use resolver::{Resolution, Resolver};
pub use robots_entry::RobotsEntry;
pub use shard_store::ShardStore;
pub use sink::Sink;
pub use spool::{Blob, Draft, MemorySpool, Spool, Stored, Unwritten};
