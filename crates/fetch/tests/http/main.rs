//! The fetcher against small servers on loopback.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod hostile;
mod http2;
mod large;
mod limits;
mod proxy;
mod reuse;
mod support;
mod tls;
mod wire;
