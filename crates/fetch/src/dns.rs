//! Where does a host live, and may we go there?
//!
//! An answer is remembered for its time to live, held within bounds of ours; so is that there is
//! none. Which name server is asked is up to `upstreams`; UDP, and TCP where the answer does not
//! fit. Every address passes the guard before anyone sees it.
//!
//! Always: at most one query per name is under way; who comes meanwhile waits for its answer.
//! Memory is bounded by `dns.cache_entries_max` (`memory`), sockets by the number of queries at once.
//!
//! Not here: the port, which is the URL's and is checked when it is connected (`http`).

mod memory;
mod upstreams;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hickory_resolver::proto::rr::Name;
use ports::{Clock, Resolution, Resolver};
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;
use types::HostKey;

use self::memory::Memory;
use self::upstreams::Upstreams;
use crate::error::Error;
use crate::guard::{Guard, Refused};
use crate::latency::{DnsStats, Meter};
use crate::settings::DnsSettings;

/// Names asked for at once; each takes two sockets for a moment.
const QUERIES_MAX: usize = 256;
/// Addresses kept of one host: more are never tried.
const ADDRESSES_MAX: usize = 16;

/// Resolves names by DNS.
pub struct DnsResolver {
    settings: DnsSettings,
    upstreams: Upstreams,
    guard: Arc<Guard>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    queries: Semaphore,
    meter: Meter,
}

struct State {
    known: Memory,
    asked: HashMap<HostKey, Arc<OnceCell<Resolution>>>,
}

impl DnsResolver {
    pub fn new(
        settings: &DnsSettings,
        guard: Arc<Guard>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let known = Memory::new(settings.cache_entries_max);
        Ok(Self {
            settings: settings.clone(),
            upstreams: Upstreams::new(settings)?,
            guard,
            clock,
            state: Mutex::new(State { known, asked: HashMap::new() }),
            queries: Semaphore::new(QUERIES_MAX),
            meter: Meter::default(),
        })
    }

    pub fn stats(&self) -> DnsStats {
        let entries = self.lock().known.len();
        DnsStats { sick: self.upstreams.sick(self.clock.now()), ..self.meter.read(entries) }
    }

    /// Asks the servers until one can tell.
    async fn query(&self, host: &HostKey) -> Resolution {
        let fail = |why: &str, span: Duration| {
            let until = self.clock.now() + span;
            Resolution::Failed { why: why.into(), until }
        };
        let negative = self.settings.negative_ttl.get();
        let Ok(mut name) = Name::from_ascii(host.as_str()) else {
            return fail("not a name that DNS can carry", negative);
        };
        // Whole as it is: the search list of this machine is not the web's.
        name.set_fqdn(true);
        let _permit = self.queries.acquire().await.expect("the semaphore is never closed");
        let started = Instant::now();
        let answer = self.upstreams.ask(&name, || self.clock.now()).await;
        self.meter.query(started.elapsed(), answer.is_ok());
        match answer {
            Ok(lookup) => {
                let ttl = lookup.as_lookup().answers().iter().map(|record| record.ttl).min();
                let ttl = Duration::from_secs(ttl.unwrap_or(0).into());
                let (min, max) = (self.settings.ttl_min.get(), self.settings.ttl_max.get());
                self.judge(lookup.iter(), ttl.max(min).min(max))
            }
            Err(error) if error.is_nx_domain() => fail("no such name", negative),
            Err(error) if error.is_no_records_found() => fail("the name has no address", negative),
            Err(error) => fail(&error.to_string(), self.settings.failure_ttl.get()),
        }
    }

    /// Lets the guard look at the addresses, IPv4 first: what remains is where we may go.
    fn judge(&self, addresses: impl Iterator<Item = IpAddr>, ttl: Duration) -> Resolution {
        let until = self.clock.now() + ttl;
        // A v4-mapped address is the IPv4 address, also for the pauses between requests to it.
        let mut all: Vec<IpAddr> = addresses.map(|address| address.to_canonical()).collect();
        all.sort_by_key(IpAddr::is_ipv6);
        let mut open = Vec::with_capacity(all.len().min(ADDRESSES_MAX));
        let mut forbidden = None;
        for address in all {
            match self.guard.check_address(address) {
                Ok(()) if open.len() < ADDRESSES_MAX && !open.contains(&address) => {
                    open.push(address);
                }
                Ok(()) => {}
                Err(refused) => {
                    forbidden.get_or_insert(refused);
                }
            }
        }
        match (open.is_empty(), forbidden) {
            (false, _) => Resolution::Addresses { addresses: open, until },
            (true, Some(Refused::Address { address, range })) => {
                Resolution::Forbidden { address, range: range.into(), until }
            }
            (true, _) => Resolution::Failed { why: "the name has no address".into(), until },
        }
    }

    /// What needs no question: an address, and names that mean this machine.
    fn literal(&self, host: &HostKey) -> Option<Resolution> {
        let ttl = self.settings.ttl_max.get();
        if let Some(address) = host.address() {
            return Some(self.judge(std::iter::once(address), ttl));
        }
        let name = host.as_str();
        let local = name == "localhost" || name.ends_with(".localhost");
        local.then(|| {
            let loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            self.judge(loopback.into_iter(), ttl)
        })
    }

    /// The answer that is known, or the question that is under way, perhaps just begun.
    fn recall(&self, host: &HostKey) -> Result<Resolution, Asked<'_>> {
        let now = self.clock.now();
        let mut state = self.lock();
        if let Some(known) = state.known.get(host, now) {
            return Ok(known);
        }
        let cell = Arc::clone(state.asked.entry(host.clone()).or_default());
        Err(Asked { resolver: self, host: host.clone(), cell })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Resolver for DnsResolver {
    async fn resolve(&self, host: &HostKey) -> Resolution {
        if let Some(resolution) = self.literal(host) {
            return resolution;
        }
        let asked = match self.recall(host) {
            Ok(known) => {
                self.meter.hit();
                return known;
            }
            Err(asked) => asked,
        };
        // Whoever is first asks; if he goes away, the next of those who wait takes over.
        let ask = async || {
            let resolution = self.query(host).await;
            self.lock().known.put(host.clone(), resolution.clone());
            resolution
        };
        asked.cell.get_or_init(ask).await.clone()
    }

    async fn renew(&self, host: &HostKey) -> Resolution {
        if let Some(resolution) = self.literal(host) {
            return resolution;
        }
        let resolution = self.query(host).await;
        if !matches!(resolution, Resolution::Failed { .. }) {
            self.lock().known.put(host.clone(), resolution.clone());
        }
        resolution
    }
}

/// Someone who waits for the answer to a question.
struct Asked<'a> {
    resolver: &'a DnsResolver,
    host: HostKey,
    cell: Arc<OnceCell<Resolution>>,
}

impl Drop for Asked<'_> {
    /// The last one clears the question away, answered or not.
    fn drop(&mut self) {
        let mut state = self.resolver.lock();
        if let Entry::Occupied(entry) = state.asked.entry(self.host.clone()) {
            // Ours and the map's.
            if Arc::ptr_eq(entry.get(), &self.cell) && Arc::strong_count(&self.cell) == 2 {
                entry.remove();
            }
        }
    }
}

impl std::fmt::Debug for DnsResolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DnsResolver").field("settings", &self.settings).finish_non_exhaustive()
    }
}
