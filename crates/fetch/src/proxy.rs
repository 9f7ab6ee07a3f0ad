//! Through whom do we go?
//!
//! A proxy (HTTP `CONNECT`, or SOCKS5) carries a connection to the server; what is said over it is
//! the same as without, and so is the archive. Names are resolved here and the proxy is told the
//! address, so that the guard holds for every target, whoever connects it. The proxies themselves
//! are not guarded: the user has named them.
//!
//! A host stays with one proxy, the one that a hash of both names likes best, until that one fails;
//! then it rests for a while, and the next takes its hosts. For the gates of addresses the proxy is
//! the address ([`ProxiedResolver`]): so it is the proxy that is treated gently. A visit that finds
//! its proxy gone goes by another at once, although it has waited at the first one's gate: the
//! host, whose fault it is not, would have to wait otherwise.

mod handshake;
mod url;

use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ports::{Clock, Resolution, Resolver};
use tokio::net::TcpStream;
use tokio::time::Instant;
use types::{ByHost, Fault, HostKey, Refusal};

pub(crate) use self::handshake::Unconnected;
use self::url::Kind;
pub use self::url::ProxyUrl;
use crate::error::Error;

/// A proxy that has failed rests so long; twice as long after each further failure, up to the last.
const REST_MIN: Duration = Duration::from_secs(15);
const REST_MAX: Duration = Duration::from_secs(600);
/// How soon a host is told of proxies that rest, or have come back.
const PLACE_MAX: Duration = Duration::from_secs(60);
/// Proxies that one visit tries.
const TRIED_MAX: usize = 3;

/// All proxies, and which hosts go through which.
pub struct Proxies {
    all: Vec<Proxy>,
    /// Places in `all`.
    usual: Vec<usize>,
    by_host: ByHost<Option<Vec<usize>>>,
    resolver: Arc<dyn Resolver>,
}

struct Proxy {
    url: ProxyUrl,
    address: SocketAddr,
    health: Mutex<Health>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Health {
    failures: u32,
    rests_until: Option<Instant>,
}

/// The ways that a visit may go.
pub(crate) struct Routes<'a> {
    /// At least one, the best first.
    proxies: Vec<&'a Proxy>,
    /// The server's own address.
    pub(crate) target: IpAddr,
}

/// The way of one connection.
#[derive(Clone, Copy)]
pub(crate) struct Route<'a> {
    proxy: &'a Proxy,
    target: IpAddr,
}

/// Why there is no way.
pub(crate) enum NoRoute {
    Refused(Refusal),
    Fault(Fault),
}

impl Proxies {
    /// `usual` for all hosts, but for those of which `by_host` says otherwise; an empty list goes
    /// straight. None if nobody goes through a proxy. Looks names of proxies up.
    pub fn new(
        usual: &[ProxyUrl],
        by_host: &ByHost<Option<Vec<ProxyUrl>>>,
        resolver: Arc<dyn Resolver>,
    ) -> Result<Option<Self>, Error> {
        let all = std::cell::RefCell::new(Vec::new());
        let place = |url: &ProxyUrl| -> Result<usize, Error> {
            let mut all = all.borrow_mut();
            if let Some(at) = all.iter().position(|known: &Proxy| known.url == *url) {
                return Ok(at);
            }
            let bad = |why: &str| Error::Proxy { proxy: url.to_string().into(), why: why.into() };
            let named = (url.host.trim_matches(['[', ']']), url.port).to_socket_addrs();
            let mut named = named.map_err(|error| bad(&error.to_string()))?;
            let address = named.next().ok_or_else(|| bad("its name has no address"))?;
            all.push(Proxy { url: url.clone(), address, health: Mutex::default() });
            Ok(all.len() - 1)
        };
        let places = |urls: &[ProxyUrl]| urls.iter().map(place).collect::<Result<Vec<_>, _>>();
        let usual = places(usual)?;
        let by_host = by_host.try_map(|urls| urls.as_deref().map(places).transpose())?;
        let all = all.into_inner();
        Ok((!all.is_empty()).then_some(Self { all, usual, by_host, resolver }))
    }

    /// The proxies of a host, the best first. Those that rest come last, the next to wake first.
    fn of(&self, host: &str) -> Vec<&Proxy> {
        let said = self.by_host.find(host, |places| places.as_ref());
        let places = said.unwrap_or(&self.usual);
        let now = Instant::now();
        let mut ranked: Vec<_> = places
            .iter()
            .map(|&at| &self.all[at])
            .map(|proxy| (proxy.rests(now), std::cmp::Reverse(liking(host, &proxy.url)), proxy))
            .collect();
        ranked.sort_by_key(|(rests, liking, _)| (*rests, *liking));
        ranked.into_iter().map(|(_, _, proxy)| proxy).collect()
    }

    /// The ways to a host, first those by the address that the lease names; none if it goes straight
    /// there.
    pub(crate) async fn routes(
        &self,
        host: &HostKey,
        address: IpAddr,
    ) -> Result<Option<Routes<'_>>, NoRoute> {
        let mut proxies = self.of(host.as_str());
        if proxies.is_empty() {
            return Ok(None);
        }
        let (now, leased) = (Instant::now(), |proxy: &&Proxy| proxy.address.ip() == address);
        proxies.sort_by_key(|proxy| !(leased(proxy) && proxy.rests(now).is_none()));
        proxies.truncate(TRIED_MAX);
        // Known already: the host was resolved before it was leased.
        match self.resolver.resolve(host).await {
            Resolution::Addresses { addresses, .. } => match addresses.first() {
                Some(target) => Ok(Some(Routes { proxies, target: *target })),
                None => Err(NoRoute::Fault(Fault::Dns("it has no address".into()))),
            },
            Resolution::Forbidden { address, range, .. } => {
                Err(NoRoute::Refused(Refusal::Address { address, range }))
            }
            Resolution::Failed { why, .. } => Err(NoRoute::Fault(Fault::Dns(why))),
        }
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|proxy| &proxy.url)).finish()
    }
}

/// How well a host and a proxy go together: the same in every process, and so evenly spread that a
/// proxy that goes away leaves its hosts to all others.
fn liking(host: &str, proxy: &ProxyUrl) -> u64 {
    let mut hasher = foldhash::fast::FixedState::default().build_hasher();
    hasher.write(host.as_bytes());
    hasher.write(proxy.host.as_bytes());
    hasher.write_u16(proxy.port);
    hasher.finish()
}

impl Proxy {
    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when it rests, if it does.
    fn rests(&self, now: Instant) -> Option<Instant> {
        self.health().rests_until.filter(|until| now < *until)
    }

    /// Visits that were under way together fail together: only the first of them counts.
    fn failed(&self, now: Instant, why: &str) {
        if self.rests(now).is_some() {
            return;
        }
        let mut health = self.health();
        health.failures = health.failures.saturating_add(1);
        let rest = REST_MIN.saturating_mul(1 << (health.failures - 1).min(16)).min(REST_MAX);
        health.rests_until = Some(now + rest);
        let failures = health.failures;
        drop(health);
        tracing::warn!(proxy = %self.url, failures, rest_s = rest.as_secs(), why, "proxy failed");
    }
}

impl<'a> Routes<'a> {
    pub(crate) fn all(&self) -> impl Iterator<Item = Route<'a>> + '_ {
        self.proxies.iter().map(|proxy| Route { proxy, target: self.target })
    }
}

impl Route<'_> {
    /// Whom to connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.proxy.address
    }

    /// Has the proxy connect the server.
    pub(crate) async fn open(&self, stream: &mut TcpStream, port: u16) -> Result<(), Unconnected> {
        let target = SocketAddr::new(self.target, port);
        let ProxyUrl { kind, auth, .. } = &self.proxy.url;
        match kind {
            Kind::Http => handshake::connect(stream, target, auth.as_ref()).await,
            Kind::Socks5 => handshake::socks5(stream, target, auth.as_ref()).await,
        }
    }

    pub(crate) fn worked(&self) {
        *self.proxy.health() = Health::default();
    }

    /// It did not; what that means for the visit.
    pub(crate) fn failed(&self, why: &str) -> Fault {
        self.proxy.failed(Instant::now(), why);
        Fault::Proxy(format!("{}: {why}", self.proxy.url).into())
    }
}

/// Answers with the addresses of a host's proxies, where it has any: theirs are the gates before
/// which it waits. What we do not visit, and what has no address, stays so.
pub struct ProxiedResolver {
    pub proxies: Arc<Proxies>,
    pub clock: Arc<dyn Clock>,
}

impl fmt::Debug for ProxiedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxiedResolver").field("proxies", &self.proxies).finish_non_exhaustive()
    }
}

#[async_trait]
impl Resolver for ProxiedResolver {
    async fn resolve(&self, host: &HostKey) -> Resolution {
        self.proxied(host, self.proxies.resolver.resolve(host).await)
    }

    async fn renew(&self, host: &HostKey) -> Resolution {
        self.proxied(host, self.proxies.resolver.renew(host).await)
    }
}

impl ProxiedResolver {
    fn proxied(&self, host: &HostKey, resolution: Resolution) -> Resolution {
        let Resolution::Addresses { addresses: own, until } = resolution else { return resolution };
        let mut addresses: Vec<IpAddr> = Vec::new();
        for proxy in self.proxies.of(host.as_str()) {
            if !addresses.contains(&proxy.address.ip()) {
                addresses.push(proxy.address.ip());
            }
        }
        if addresses.is_empty() {
            return Resolution::Addresses { addresses: own, until };
        }
        Resolution::Addresses { addresses, until: until.min(self.clock.now() + PLACE_MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Timestamp;

    struct Nowhere;

    #[async_trait]
    impl Resolver for Nowhere {
        async fn resolve(&self, _: &HostKey) -> Resolution {
            Resolution::Addresses { addresses: vec![[192, 0, 2, 1].into()], until: Timestamp::ZERO }
        }
    }

    fn pool(usual: &[&str], by_host: &[(&str, &[&str])]) -> Proxies {
        let urls = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let by_host = by_host
            .iter()
            .map(|(host, proxies)| (vec![host.parse().unwrap()], Some(urls(proxies))));
        let usual: Vec<ProxyUrl> = urls(usual);
        Proxies::new(&usual, &by_host.collect(), Arc::new(Nowhere)).unwrap().unwrap()
    }

    const THREE: [&str; 3] = ["http://127.0.0.2:1", "http://127.0.0.3:1", "socks5://127.0.0.4:1"];

    #[test]
    fn a_host_stays_with_its_proxy_until_that_one_fails() {
        let pool = pool(&THREE, &[]);
        let first = |host: &str| pool.of(host)[0].url.to_string();
        let hosts: Vec<String> = (0..300).map(|n| format!("h{n}.test")).collect();
        let before: Vec<_> = hosts.iter().map(|host| first(host)).collect();
        assert_eq!(before, hosts.iter().map(|host| first(host)).collect::<Vec<_>>());
        for proxy in THREE {
            let share = before.iter().filter(|chosen| *chosen == proxy).count();
            assert!((60..=140).contains(&share), "{proxy} has {share} of 300 hosts");
        }
        pool.all[0].failed(Instant::now(), "a test");
        for (host, before) in hosts.iter().zip(&before) {
            let now = first(host);
            assert_ne!(now, THREE[0]);
            assert!(before == THREE[0] || *before == now, "{host} had no reason to move");
        }
        *pool.all[0].health() = Health::default();
        assert_eq!(before, hosts.iter().map(|host| first(host)).collect::<Vec<_>>());
    }

    #[test]
    fn a_sheet_has_its_hosts_go_another_way_or_straight() {
        let pool = pool(&THREE[..1], &[("a.test", &THREE[2..]), ("b.test", &[])]);
        assert_eq!(pool.of("a.test")[0].url.to_string(), THREE[2]);
        assert!(pool.of("b.test").is_empty());
        assert_eq!(pool.of("c.test")[0].url.to_string(), THREE[0]);
    }

    #[test]
    fn a_proxy_that_keeps_failing_rests_longer_and_all_at_rest_are_better_than_none() {
        let pool = pool(&THREE[..2], &[]);
        let mut now = Instant::now();
        let mut rests = Vec::new();
        for _ in 0..40 {
            // The second is of a visit that was under way with the first.
            pool.all[0].failed(now, "x");
            pool.all[0].failed(now, "x");
            let until = pool.all[0].rests(now).unwrap();
            rests.push(until - now);
            now = until;
        }
        assert_eq!(rests[..3], [REST_MIN, REST_MIN * 2, REST_MIN * 4]);
        assert_eq!(*rests.last().unwrap(), REST_MAX);
        pool.all[0].failed(now, "x");
        pool.all[1].failed(now, "x");
        assert_eq!(pool.of("a.test")[0].url.to_string(), THREE[1], "the next to wake");
    }
}
