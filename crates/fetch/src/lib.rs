//! How do we reach the web, and what exactly did it say?
//!
//! [`DnsResolver`] finds where a host lives; the [`Guard`] stands between it and the world.

pub mod guard;
pub mod settings;

pub mod dns;

mod error;
mod latency;

pub use crate::dns::DnsResolver;
pub use crate::error::Error;
pub use crate::guard::{Guard, Refused};
pub use crate::latency::{DnsStats, LATENCY_BOUNDS_MS};
pub use crate::settings::{DnsSettings, FetchSettings, Network, NetworkSettings, PortRange, Upstream};
