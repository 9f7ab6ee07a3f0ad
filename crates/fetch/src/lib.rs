//! How do we reach the web, and what exactly did it say?
//!
//! The [`Guard`] stands between us and the world: only addresses that the settings open are
//! talked to.

pub mod guard;
pub mod settings;

pub use crate::guard::{Guard, Refused};
pub use crate::settings::{DnsSettings, FetchSettings, Network, NetworkSettings, PortRange, Upstream};
