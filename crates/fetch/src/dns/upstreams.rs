//! Which name server do we ask, and which next?
//!
//! The one that last answered first, then the others in turn. One that does not answer at all is
//! sick for a while, the longer the more often, and is asked only when no other has anything to
//! say; a good answer makes it well at once. "I could not find out" (SERVFAIL) speaks of the name
//! as often as of the server: the next one is asked, nobody is sick.
//!
//! Not here: what is remembered (`dns`).

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup_ip::LookupIp;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::Name;
use hickory_resolver::system_conf::read_system_conf;
use tokio::time::timeout;
use types::Timestamp;

use super::QUERIES_MAX;
use crate::error::Error;
use crate::settings::DnsSettings;

/// How long a server is left alone after its first failure; twice as long after each more.
const SICK_FIRST: Duration = Duration::from_secs(1);
/// And never longer: it may be the only good one tomorrow.
const SICK_MAX: Duration = Duration::from_secs(60);

/// The name servers, and how they are.
pub(super) struct Upstreams {
    all: Vec<Upstream>,
    /// The one that last answered.
    preferred: AtomicUsize,
    attempts: usize,
    timeout: Duration,
}

struct Upstream {
    resolver: TokioResolver,
    /// Times in a row that it did not answer.
    failures: AtomicU32,
    sick_until: AtomicU64,
}

impl Upstreams {
    pub(super) fn new(settings: &DnsSettings) -> Result<Self, Error> {
        let all = resolvers(settings)?.into_iter().map(|resolver| Upstream {
            resolver,
            failures: AtomicU32::new(0),
            sick_until: AtomicU64::new(0),
        });
        Ok(Self {
            all: all.collect(),
            preferred: AtomicUsize::new(0),
            attempts: settings.attempts.max(1) as usize,
            timeout: settings.timeout.get(),
        })
    }

    /// How many do not answer at the moment.
    pub(super) fn sick(&self, now: Timestamp) -> usize {
        self.all.iter().filter(|upstream| upstream.is_sick(now)).count()
    }

    /// Asks the servers until one can tell. `now` is asked whenever one has failed.
    pub(super) async fn ask(
        &self,
        name: &Name,
        now: impl Fn() -> Timestamp,
    ) -> Result<LookupIp, NetError> {
        let mut error = NetError::NoConnections;
        for _ in 0..self.attempts {
            let mut heard = false;
            for at in self.order(now()) {
                let upstream = &self.all[at];
                // Somebody well has said that he cannot tell: no need to wait for the sick.
                if heard && upstream.is_sick(now()) {
                    continue;
                }
                // hickory minds its time; this is for what it may forget.
                let lookup = upstream.resolver.lookup_ip(name.clone());
                match timeout(2 * self.timeout, lookup).await.unwrap_or(Err(NetError::Timeout)) {
                    Err(other) if !other.is_no_records_found() => {
                        heard |= upstream.note(&other, now());
                        error = other;
                    }
                    answer => {
                        upstream.recover();
                        self.preferred.store(at, Ordering::Relaxed);
                        return answer;
                    }
                }
            }
        }
        Err(error)
    }

    /// The preferred one first, the sick last.
    fn order(&self, now: Timestamp) -> Vec<usize> {
        let count = self.all.len();
        let first = self.preferred.load(Ordering::Relaxed);
        let mut order: Vec<usize> = (0..count).map(|turn| (first + turn) % count).collect();
        order.sort_by_key(|&at| self.all[at].is_sick(now));
        order
    }
}

impl Upstream {
    fn is_sick(&self, now: Timestamp) -> bool {
        self.sick_until.load(Ordering::Relaxed) > now.0
    }

    fn recover(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.sick_until.store(0, Ordering::Relaxed);
    }

    /// Takes down that it could not tell; whether it has answered at all.
    fn note(&self, error: &NetError, now: Timestamp) -> bool {
        if matches!(error, NetError::Dns(_)) {
            self.recover();
            return true;
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).min(16);
        let span = SICK_FIRST.saturating_mul(1 << failures).min(SICK_MAX);
        self.sick_until.store((now + span).0, Ordering::Relaxed);
        false
    }
}

/// One resolver per server, so that the order and the change from one to the next are ours:
/// hickory's own pool stays with a server that answers "I could not find out".
fn resolvers(settings: &DnsSettings) -> Result<Vec<TokioResolver>, Error> {
    let bad = |error: NetError| Error::Dns(error.to_string().into());
    let (servers, hosts) = match settings.upstreams.is_empty() {
        true => (read_system_conf().map_err(bad)?.0.name_servers, ResolveHosts::Always),
        false => {
            let servers = settings.upstreams.iter().map(|upstream| {
                let mut server = NameServerConfig::udp_and_tcp(upstream.0.ip());
                for connection in &mut server.connections {
                    connection.port = upstream.0.port();
                }
                server
            });
            (servers.collect(), ResolveHosts::Never)
        }
    };
    if servers.is_empty() {
        return Err(Error::Dns("there are none".into()));
    }
    let build = |server: NameServerConfig| {
        let config = ResolverConfig::from_name_servers(vec![server]);
        let provider = TokioRuntimeProvider::default();
        let mut builder = TokioResolver::builder_with_config(config, provider);
        *builder.options_mut() = options(settings, hosts);
        builder.build().map_err(bad)
    };
    servers.into_iter().map(build).collect()
}

fn options(settings: &DnsSettings, hosts: ResolveHosts) -> ResolverOpts {
    let mut options = ResolverOpts::default();
    options.timeout = settings.timeout.get();
    options.attempts = 0;
    options.cache_size = 0;
    options.use_hosts_file = hosts;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.num_concurrent_reqs = 1;
    options.max_active_requests = QUERIES_MAX;
    options
}
