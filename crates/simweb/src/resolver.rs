//! How does an in-process crawl find the hosts of a web?

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::{Clock, Resolution, Resolver};
use types::HostKey;

use crate::web::{Dns, Web};

/// How long a failed look-up is remembered.
const FAILURE_TTL: Duration = Duration::from_secs(60);
/// What a resolver waits for a name server that does not answer.
const SILENCE: Duration = Duration::from_secs(10);

/// Resolves names by asking the web itself. Its guard is simple, and independent of the
/// crawler's: loopback may be connected, everything else may not.
pub struct SimResolver {
    web: Arc<dyn Web>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for SimResolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimResolver").finish_non_exhaustive()
    }
}

impl SimResolver {
    pub fn new(web: Arc<dyn Web>, clock: Arc<dyn Clock>) -> Self {
        Self { web, clock }
    }
}

#[async_trait]
impl Resolver for SimResolver {
    async fn resolve(&self, host: &HostKey) -> Resolution {
        if let Some(address) = host.address() {
            return self.judge(vec![address], Duration::from_secs(86_400));
        }
        let failed = |why: &str| Resolution::Failed {
            why: why.into(),
            until: self.clock.now() + FAILURE_TTL,
        };
        match self.web.resolve(host.as_str()) {
            Dns::Addresses { addresses, ttl, .. } => self.judge(addresses, ttl),
            Dns::NoSuchName => failed("no such name"),
            Dns::ServerFailure => failed("server failure"),
            Dns::Silence => {
                tokio::time::sleep(SILENCE).await;
                failed("no answer")
            }
        }
    }
}

impl SimResolver {
    fn judge(&self, addresses: Vec<IpAddr>, ttl: Duration) -> Resolution {
        let until = self.clock.now() + ttl;
        let (allowed, refused): (Vec<_>, Vec<_>) =
            addresses.into_iter().partition(IpAddr::is_loopback);
        match (allowed.is_empty(), refused.first()) {
            (true, Some(&address)) => {
                Resolution::Forbidden { address, range: "not loopback".into(), until }
            }
            (true, None) => Resolution::Failed { why: "no address".into(), until },
            (false, _) => Resolution::Addresses { addresses: allowed, until },
        }
    }
}
