//! Our own API: a frontier and its workers, in two processes.
//!
//! [`server`] lets workers into the engine's crew, [`client`] is how a worker reaches it, and
//! [`translate`] says how leases and reports look on the wire, in both directions.

pub mod client;
pub(crate) mod server;
pub(crate) mod translate;

/// A page may have thousands of links, each of them long.
pub(crate) const REPORT_BYTES_MAX: usize = 64 << 20;
