//! Where does a host live, and may we go there?
//!
//! The answer is already checked by the address guard: an address that is given here is one that
//! may be connected, and it is the one that will be (no second look-up, so no rebinding).

use std::net::IpAddr;

use async_trait::async_trait;
use types::{HostKey, Timestamp};

#[async_trait]
pub trait Resolver: Send + Sync {
    async fn resolve(&self, host: &HostKey) -> Resolution;

    /// The same, asked of those who know although what is remembered still holds: for whoever needs
    /// an answer that holds for longer. If they cannot tell, what is remembered stays.
    async fn renew(&self, host: &HostKey) -> Resolution {
        self.resolve(host).await
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// At least one, in the order of preference; good until then.
    Addresses { addresses: Vec<IpAddr>, until: Timestamp },
    /// It lives only where we do not go.
    Forbidden { address: IpAddr, range: Box<str>, until: Timestamp },
    /// The name does not exist, or nobody could tell.
    Failed { why: Box<str>, until: Timestamp },
}
