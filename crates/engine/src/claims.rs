//! May this crawl go there, or is another one of this machine at it?
//!
//! A host and its address are claimed before the first request and left when the host goes out of
//! memory. On loopback a port is part of their names: there every server is a world of its own.
//!
//! Always: a host that may not go on holds nothing, so two crawls cannot wait for each other.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use frontier::politeness::AddressKey;
use frontier::{Errand, Lease};
use ports::PortResult;
use ports::claims::{ClaimKey, Claimed, Claims};
use types::{HostKey, Timestamp};

/// How long a host that another crawl visits is left alone before we ask again.
const RETRY: Duration = Duration::from_secs(5);

/// Longest rest that another crawl can ask for: beyond it, its clock was wrong.
const REST_MAX: Duration = Duration::from_secs(24 * 3_600);

/// What this crawl has claimed. Without claims to be made, everything may go.
#[derive(Default)]
pub struct ClaimBook {
    claims: Option<Arc<dyn Claims>>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    hosts: HashMap<HostKey, Holding>,
    places: HashMap<ClaimKey, Place>,
}

/// What one host holds.
#[derive(Default)]
struct Holding {
    /// Where it was visited: nothing more is to be claimed there.
    ends: Vec<(IpAddr, u16)>,
    places: Vec<ClaimKey>,
}

/// A place that is ours.
struct Place {
    /// How many hosts hold it: many may live at one address.
    hosts: usize,
    /// It rests until then, whichever of them comes.
    not_before: Timestamp,
}

/// What the others let us do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    /// Ours, from then on.
    Go(Timestamp),
    /// Another crawl has it; ask again then.
    Ask(Timestamp),
}

impl ClaimBook {
    pub fn new(claims: Option<Arc<dyn Claims>>) -> Self {
        Self { claims, held: Mutex::default() }
    }

    /// Whether the visit may be made. `rested` is a full pause from now, for a place whose last
    /// visitor died; `shared` addresses belong to too many to be claimed.
    pub fn may(
        &self,
        lease: &Lease,
        now: Timestamp,
        rested: impl Fn() -> Timestamp,
        shared: impl Fn(IpAddr) -> bool,
    ) -> May {
        let (Some(claims), Some(address)) = (&self.claims, lease.address) else {
            return May::Go(now);
        };
        let end = (address, port(lease));
        let mut held = self.held.lock().expect("no panic while locked");
        if held.hosts.get(&lease.host).is_some_and(|holding| holding.ends.contains(&end)) {
            return May::Go(now);
        }
        let mut from = now;
        for key in places(&lease.host, end, shared(address)) {
            match held.claim(&**claims, &lease.host, key, now, &rested) {
                Ok(Some(not_before)) => from = from.max(not_before),
                refused => {
                    if let Err(error) = refused {
                        tracing::warn!(%error, host = %lease.host, "host not claimed");
                    }
                    held.leave(&**claims, &lease.host, lease.not_before.max(now));
                    return May::Ask(now + RETRY);
                }
            }
        }
        held.hosts.entry(lease.host.clone()).or_default().ends.push(end);
        May::Go(from)
    }

    /// The host is out of memory; nobody goes there before `until`.
    pub fn left(&self, host: &HostKey, until: Timestamp) {
        if let Some(claims) = &self.claims {
            self.held.lock().expect("no panic while locked").leave(&**claims, host, until);
        }
    }
}

impl Held {
    /// From when on the host may visit a place; none if that is another crawl's.
    fn claim(
        &mut self,
        claims: &dyn Claims,
        host: &HostKey,
        key: ClaimKey,
        now: Timestamp,
        rested: impl Fn() -> Timestamp,
    ) -> PortResult<Option<Timestamp>> {
        let place = match self.places.entry(key) {
            Entry::Occupied(ours) => ours.into_mut(),
            Entry::Vacant(free) => {
                let not_before = match claims.claim(key, now)? {
                    Claimed::Ours { not_before } => not_before.min(now + REST_MAX),
                    Claimed::Orphan => rested(),
                    Claimed::Taken => return Ok(None),
                };
                free.insert(Place { hosts: 0, not_before })
            }
        };
        let holding = self.hosts.entry(host.clone()).or_default();
        if !holding.places.contains(&key) {
            holding.places.push(key);
            place.hosts += 1;
        }
        Ok(Some(place.not_before))
    }

    fn leave(&mut self, claims: &dyn Claims, host: &HostKey, until: Timestamp) {
        for key in self.hosts.remove(host).unwrap_or_default().places {
            let Entry::Occupied(mut place) = self.places.entry(key) else { continue };
            place.get_mut().hosts -= 1;
            if place.get().hosts > 0 {
                continue;
            }
            // What it had to rest when we came, it has to rest for the next one too.
            let until = until.max(place.remove().not_before);
            if let Err(error) = claims.leave(key, until) {
                tracing::warn!(%error, %host, "host not left to others");
            }
        }
    }
}

impl std::fmt::Debug for ClaimBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClaimBook").finish_non_exhaustive()
    }
}

fn port(lease: &Lease) -> u16 {
    match &lease.errand {
        Errand::Page(task) | Errand::Refuse(task, _) => task.record.url.port(),
        Errand::Robots(errand) => errand.url.port(),
    }
}

/// What a visit needs: its host, and the address where that lives.
fn places(
    host: &HostKey,
    (address, port): (IpAddr, u16),
    shared: bool,
) -> impl Iterator<Item = ClaimKey> {
    let port = if address.is_loopback() { port } else { 0 };
    let host = ClaimKey::of(&format!("host {host} {port}"));
    let address = ClaimKey::of(&format!("address {} {port}", AddressKey::from(address)));
    [Some(host), (!shared).then_some(address)].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontier::RobotsErrand;
    use types::{CrawlUrl, ShardId, VisitId};

    const NOW: Timestamp = Timestamp::from_secs(1_000);
    const RESTED: Timestamp = Timestamp::from_secs(1_001);

    /// Every place has lost its visitor, but for one that is another crawl's.
    struct Orphans {
        taken: Option<ClaimKey>,
        left: Mutex<Vec<Timestamp>>,
    }

    impl Claims for Orphans {
        fn claim(&self, key: ClaimKey, _: Timestamp) -> PortResult<Claimed> {
            Ok(if self.taken == Some(key) { Claimed::Taken } else { Claimed::Orphan })
        }

        fn leave(&self, _: ClaimKey, until: Timestamp) -> PortResult<()> {
            self.left.lock().unwrap().push(until);
            Ok(())
        }
    }

    fn lease(host: &str) -> Lease {
        let url = CrawlUrl::parse(&format!("http://{host}/robots.txt")).unwrap();
        Lease {
            visit: VisitId::new(ShardId(0), 1),
            host: url.host_key(),
            errand: Errand::Robots(RobotsErrand { origin: url.origin(), url, hops: 0 }),
            address: Some("192.0.2.1".parse().unwrap()),
            granted_at: NOW,
            not_before: NOW,
            pause: Duration::ZERO,
            name_wait: Duration::ZERO,
        }
    }

    fn ask(book: &ClaimBook, host: &str, now: Timestamp) -> May {
        book.may(&lease(host), now, || RESTED, |_| false)
    }

    #[test]
    fn an_address_that_must_rest_rests_for_every_host_that_lives_there() {
        let book = ClaimBook::new(Some(Arc::new(Orphans { taken: None, left: Mutex::default() })));
        assert_eq!(ask(&book, "a.test", NOW), May::Go(RESTED));
        assert_eq!(ask(&book, "b.test", NOW), May::Go(RESTED));
        // Who has waited once goes on without being asked.
        assert_eq!(ask(&book, "a.test", RESTED), May::Go(RESTED));
    }

    #[test]
    fn a_host_that_may_not_go_on_leaves_what_it_has_with_the_rest_it_found() {
        let end = ("192.0.2.1".parse().unwrap(), 80);
        let taken = places(&HostKey::new("a.test"), end, false).nth(1);
        let claims = Arc::new(Orphans { taken, left: Mutex::default() });
        let book = ClaimBook::new(Some(Arc::clone(&claims) as Arc<dyn Claims>));
        assert_eq!(ask(&book, "a.test", NOW), May::Ask(NOW + RETRY));
        assert_eq!(*claims.left.lock().unwrap(), [RESTED]);
        assert!(book.held.lock().unwrap().places.is_empty());
    }
}
