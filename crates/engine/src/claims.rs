//! May this crawl go there, or is another one of this machine at it?
//!
//! A host and its address are claimed before the first request and left when the host goes out of
//! memory. On loopback a port is part of their names: there every server is a world of its own.
//!
//! Always: a host that may not go on holds nothing, so two crawls cannot wait for each other.

use std::collections::HashMap;
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
    hosts: HashMap<HostKey, Vec<ClaimKey>>,
    /// How many hosts hold a place: many may live at one address.
    places: HashMap<ClaimKey, usize>,
}

/// What the others let us do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    Go,
    /// Ours, but it rests until then.
    At(Timestamp),
    /// Ours, after a full pause from now: who visited it last has died.
    AfterPause,
    /// Another crawl has it; ask again then.
    Ask(Timestamp),
}

impl ClaimBook {
    pub fn new(claims: Option<Arc<dyn Claims>>) -> Self {
        Self { claims, held: Mutex::default() }
    }

    /// Whether the visit may be made. `shared` addresses belong to too many to be claimed.
    pub fn may(&self, lease: &Lease, shared: bool, now: Timestamp) -> May {
        let (Some(claims), Some(address)) = (&self.claims, lease.address) else { return May::Go };
        let mut held = self.held.lock().expect("no panic while locked");
        let mut may = May::Go;
        for place in places(lease, address, shared) {
            match held.claim(&**claims, &lease.host, place, now) {
                Ok(None) => {}
                Ok(Some(Claimed::Ours { not_before })) if not_before <= now => {}
                Ok(Some(Claimed::Ours { not_before })) => {
                    may = may.and(May::At(not_before.min(now + REST_MAX)));
                }
                Ok(Some(Claimed::Orphan)) => may = may.and(May::AfterPause),
                Ok(Some(Claimed::Taken)) => {
                    held.leave(&**claims, &lease.host, lease.not_before.max(now));
                    return May::Ask(now + RETRY);
                }
                Err(error) => {
                    tracing::warn!(%error, host = %lease.host, "host not claimed");
                    held.leave(&**claims, &lease.host, lease.not_before.max(now));
                    return May::Ask(now + RETRY);
                }
            }
        }
        may
    }

    /// The host is out of memory; nobody goes there before `until`.
    pub fn left(&self, host: &HostKey, until: Timestamp) {
        if let Some(claims) = &self.claims {
            self.held.lock().expect("no panic while locked").leave(&**claims, host, until);
        }
    }
}

impl May {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Go, other) => other,
            (Self::At(a), Self::At(b)) => Self::At(a.max(b)),
            (this, Self::At(_) | Self::Go) => this,
            (_, other) => other,
        }
    }
}

impl Held {
    /// None if the place is ours already.
    fn claim(
        &mut self,
        claims: &dyn Claims,
        host: &HostKey,
        place: ClaimKey,
        now: Timestamp,
    ) -> PortResult<Option<Claimed>> {
        if self.hosts.get(host).is_some_and(|places| places.contains(&place)) {
            return Ok(None);
        }
        let claimed = match self.places.get(&place) {
            Some(_) => None,
            None => match claims.claim(place, now)? {
                Claimed::Taken => return Ok(Some(Claimed::Taken)),
                ours => Some(ours),
            },
        };
        *self.places.entry(place).or_default() += 1;
        self.hosts.entry(host.clone()).or_default().push(place);
        Ok(claimed)
    }

    fn leave(&mut self, claims: &dyn Claims, host: &HostKey, until: Timestamp) {
        for place in self.hosts.remove(host).unwrap_or_default() {
            let hosts = self.places.entry(place).or_default();
            *hosts = hosts.saturating_sub(1);
            if *hosts == 0 {
                self.places.remove(&place);
                if let Err(error) = claims.leave(place, until) {
                    tracing::warn!(%error, %host, "host not left to others");
                }
            }
        }
    }
}

impl std::fmt::Debug for ClaimBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClaimBook").finish_non_exhaustive()
    }
}

/// What a visit needs: its host, and the address where that lives.
fn places(lease: &Lease, address: IpAddr, shared: bool) -> impl Iterator<Item = ClaimKey> {
    let port = match &lease.errand {
        Errand::Page(task) | Errand::Refuse(task, _) => task.record.url.port(),
        Errand::Robots(errand) => errand.url.port(),
    };
    let port = if address.is_loopback() { port } else { 0 };
    let host = ClaimKey::of(&format!("host {} {port}", lease.host));
    let address = ClaimKey::of(&format!("address {} {port}", AddressKey::from(address)));
    [Some(host), (!shared).then_some(address)].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_word_counts() {
        let (soon, late) = (May::At(Timestamp(5)), May::At(Timestamp(9)));
        assert_eq!(May::Go.and(soon), soon);
        assert_eq!(late.and(soon), late);
        assert_eq!(soon.and(late), late);
        assert_eq!(soon.and(May::AfterPause), May::AfterPause);
        assert_eq!(May::AfterPause.and(late), May::AfterPause);
    }
}
