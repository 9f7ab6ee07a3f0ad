//! How do we reach the web, and what exactly did it say?
//!
//! Two ports over real sockets: [`HttpFetcher`] (one request, one answer, byte for byte) and
//! [`DnsResolver`] (names to addresses, remembered and bounded), with the [`Guard`] between them
//! and the world. Nothing a server sends can make us use more memory, more time or another
//! address than the settings say.

pub mod guard;
pub mod settings;

pub mod dns;
pub mod http;

mod bandwidth;
mod body;
mod budget;
mod coding;
mod connect;
mod connection;
mod cookies;
mod error;
mod exchange;
mod framing;
mod head;
mod http2;
mod latency;
mod limits;
mod meter;
mod overflow;
mod pool;
mod proxy;
mod record;
mod sheet;
mod unpack;

pub use crate::connect::{Dial, Sockets};
pub use crate::dns::DnsResolver;
pub use crate::error::Error;
pub use crate::guard::{Guard, Refused};
pub use crate::head::Introduction;
pub use crate::http::{FetchStats, FetcherOptions, HttpFetcher};
pub use crate::latency::{DnsStats, LATENCY_BOUNDS_MS};
pub use crate::proxy::{ProxiedResolver, Proxies, ProxyUrl};
pub use crate::settings::{
    DnsSettings, FetchSettings, Network, NetworkSettings, PortRange, Upstream,
};
pub use crate::sheet::{BasicAuth, RequestSheet};
pub use crate::unpack::{Unpacked, unpack};
