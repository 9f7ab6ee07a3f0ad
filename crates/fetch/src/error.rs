//! What can be wrong with the settings of a fetcher or a resolver.
//!
//! Faults of the net are not here: those are data (`types::Fault`).

use std::path::PathBuf;

use thiserror::Error;

#[derive(Debug, Error)]
pub enum Error {
    #[error("network.tls_ca: {}: {why}", path.display())]
    TlsCa { path: PathBuf, why: Box<str> },
    #[error("TLS cannot be set up: {0}")]
    Tls(Box<str>),
    #[error("fetch.headers: `{name}`: {why}")]
    Header { name: Box<str>, why: Box<str> },
    #[error("fetch.proxies: {proxy}: {why}")]
    Proxy { proxy: Box<str>, why: Box<str> },
    #[error("the system's name servers cannot be read: {0}; name some with dns.upstreams")]
    Dns(Box<str>),
}
