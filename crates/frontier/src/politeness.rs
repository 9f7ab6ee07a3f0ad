//! How long do we wait, and how many may talk to one address?
//!
//! Two gates stand before every request. The host's gate is its entry in the heap (`lib`): one
//! request in flight, then a pause. The address's gate is here, shared by all shards of a
//! process, because hosts of different shards may live at one address: from the moment one
//! request leaves, no other leaves for that address before `ip_delay` is over, and no more than
//! `ip_connections` are under way.
//!
//! Always: between the grant of a lease and the news that its request has left (`sent`), nobody
//! else is let through. A slow connect can therefore never let two requests arrive together. Who
//! is inside is known by the visit: when it is over it is out, whatever it has told us before.
//!
//! IPv6 counts by /64: one machine may own all of it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use types::{HumanDuration, ShardId, Timestamp, VisitId};

/// How gently we treat hosts and addresses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Politeness {
    /// Least pause of a host: from the last byte of an answer to the first of the next request.
    pub delay: HumanDuration,
    /// The pause is also at least this many times the host's last answer time...
    pub delay_factor: f64,
    /// ...up to this. Without effect when `delay` is 0s.
    pub delay_max: HumanDuration,
    /// A longer `Crawl-delay` moves the host to the slow lane, where it is honoured in full.
    pub crawl_delay_max: HumanDuration,
    /// Longest extra pause after failures; a host that reaches it is parked for as long.
    pub backoff_max: HumanDuration,
    /// Faults in a row after which a host is parked.
    pub park_after: u32,
    /// From request to request at one address.
    pub ip_delay: HumanDuration,
    /// Requests in flight at one address.
    pub ip_connections: u32,
    /// Networks (such as those of a CDN) that many unrelated hosts share.
    pub shared_networks: Vec<String>,
    /// `ip_delay` for addresses in `shared_networks`.
    pub shared_delay: HumanDuration,
    /// `ip_connections` for addresses in `shared_networks`.
    pub shared_connections: u32,
    /// Folder in which the crawls of this machine tell each other what they visit: a host and its
    /// address belong to one of them at a time, and the others wait. Without a value, a folder of
    /// yours in the system's folder for temporary files; `off` does without.
    pub claims_dir: Option<String>,
    /// Pages of one registered domain over the crawl's life; 0 means no cap. A page that is visited
    /// again is not counted again.
    pub domain_pages_max: u64,
    /// The same of one host.
    pub host_pages_max: u64,
}

impl Default for Politeness {
    fn default() -> Self {
        Self {
            delay: HumanDuration::from_secs(1),
            delay_factor: 1.0,
            delay_max: HumanDuration::from_secs(30),
            crawl_delay_max: HumanDuration::from_secs(300),
            backoff_max: HumanDuration::from_secs(3_600),
            park_after: 8,
            ip_delay: HumanDuration::from_millis(500),
            ip_connections: 4,
            shared_networks: Vec::new(),
            shared_delay: HumanDuration::from_millis(50),
            shared_connections: 64,
            claims_dir: None,
            domain_pages_max: 100_000,
            host_pages_max: 100_000,
        }
    }
}

/// The gates of all addresses.
#[derive(Debug)]
pub struct Addresses {
    delay: Duration,
    connections: u32,
    shared: Vec<IpNet>,
    shared_delay: Duration,
    shared_connections: u32,
    /// On resume no address is visited before its full delay from the opening is over.
    opened_at: Option<Timestamp>,
    doors: HashMap<AddressKey, Door>,
    sweep_at: usize,
}

/// Forgotten doors are swept out when this many are known; a door costs about 100 bytes.
const DOORS_SWEEP_MIN: usize = 4_096;

/// Added to every pause. A server sees the end of an answer a little later than we do, and the next
/// request perhaps a little earlier after it: this keeps the pause whole as the server sees it.
pub(crate) const GAP_SLACK: Duration = Duration::from_millis(10);

/// What counts as one address: an IPv4 address, or an IPv6 /64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressKey(IpAddr);

impl std::fmt::Display for AddressKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl From<IpAddr> for AddressKey {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self(address),
            IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
                Some(v4) => Self(IpAddr::V4(v4)),
                None => {
                    let network = v6.to_bits() & !u128::from(u64::MAX);
                    Self(IpAddr::V6(Ipv6Addr::from_bits(network)))
                }
            },
        }
    }
}

#[derive(Debug)]
struct Door {
    next_at: Timestamp,
    /// Visits with a lease for this address; no more than may be in flight.
    inside: Vec<Inside>,
}

#[derive(Debug)]
struct Inside {
    visit: VisitId,
    /// Its request has left.
    sent: bool,
}

impl Door {
    fn has_unsent(&self) -> bool {
        self.inside.iter().any(|inside| !inside.sent)
    }
}

/// Not now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    /// The delay is over then.
    Until(Timestamp),
    /// Somebody must come out first: an answer must end.
    Occupied,
}

impl Addresses {
    /// `opened_at` is given on resume. Fails with a sentence when a network is not one.
    pub fn new(policy: &Politeness, opened_at: Option<Timestamp>) -> Result<Self, String> {
        let shared = policy
            .shared_networks
            .iter()
            .map(|text| {
                text.parse().map_err(|_| {
                    format!("politeness.shared_networks: `{text}` is not a network; write 203.0.113.0/24")
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            delay: policy.ip_delay.get(),
            connections: policy.ip_connections.max(1),
            shared,
            shared_delay: policy.shared_delay.get(),
            shared_connections: policy.shared_connections.max(1),
            opened_at,
            doors: HashMap::new(),
            sweep_at: DOORS_SWEEP_MIN,
        })
    }

    fn limits(&self, address: IpAddr) -> (Duration, u32) {
        if self.is_shared(address) {
            (self.shared_delay, self.shared_connections)
        } else {
            (self.delay, self.connections)
        }
    }

    /// Whether [`Addresses::reserve`] would let somebody through.
    pub fn peek(&mut self, address: IpAddr, by: Timestamp) -> Result<(), Busy> {
        self.door(address, by).map(|_| ())
    }

    /// Takes the door for one request, which leaves not before the moment returned; that is `by`
    /// at the latest. It must be given back by [`Addresses::release`].
    pub fn reserve(
        &mut self,
        address: IpAddr,
        visit: VisitId,
        by: Timestamp,
    ) -> Result<Timestamp, Busy> {
        let door = self.door(address, by)?;
        door.inside.push(Inside { visit, sent: false });
        Ok(door.next_at)
    }

    fn door(&mut self, address: IpAddr, by: Timestamp) -> Result<&mut Door, Busy> {
        let (delay, connections) = self.limits(address);
        let first = self.opened_at.map_or(Timestamp::ZERO, |opened| opened + delay);
        let key = AddressKey::from(address);
        let door =
            self.doors.entry(key).or_insert_with(|| Door { next_at: first, inside: Vec::new() });
        if by < door.next_at {
            return Err(Busy::Until(door.next_at));
        }
        if door.inside.len() >= connections as usize {
            return Err(Busy::Occupied);
        }
        // The delay of one that has not left yet has not even begun. Without a delay there is no
        // gap to keep, and requests may leave side by side.
        if door.has_unsent() && !delay.is_zero() {
            return Err(Busy::Until(by + delay));
        }
        Ok(door)
    }

    /// Whether many unrelated hosts live there.
    pub fn is_shared(&self, address: IpAddr) -> bool {
        self.shared.iter().any(|network| network.contains(&address))
    }

    /// The request has left, at that moment.
    pub fn sent(&mut self, address: IpAddr, visit: VisitId, at: Timestamp) {
        let (delay, _) = self.limits(address);
        if let Some(door) = self.doors.get_mut(&AddressKey::from(address)) {
            if let Some(inside) = door.inside.iter_mut().find(|inside| inside.visit == visit) {
                inside.sent = true;
            }
            if !delay.is_zero() {
                door.next_at = door.next_at.max(at + delay + GAP_SLACK);
            }
        }
    }

    /// The visit is over; `sent` tells when its request left, if it did.
    pub fn release(
        &mut self,
        address: IpAddr,
        visit: VisitId,
        sent: Option<Timestamp>,
        now: Timestamp,
    ) {
        let key = AddressKey::from(address);
        let is_unsent = |inside: &Inside| inside.visit == visit && !inside.sent;
        if let Some(at) = sent
            && self.doors.get(&key).is_some_and(|door| door.inside.iter().any(is_unsent))
        {
            // It forgot to tell; the pause holds all the same.
            self.sent(address, visit, at);
        }
        if let Some(door) = self.doors.get_mut(&key) {
            door.inside.retain(|inside| inside.visit != visit);
        }
        if self.doors.len() >= self.sweep_at {
            self.doors.retain(|_, door| !door.inside.is_empty() || door.next_at > now);
            self.sweep_at = (self.doors.len() * 2).max(DOORS_SWEEP_MIN);
        }
    }

    /// Visits of that shard that are inside, and where; for audits.
    pub(crate) fn inside(&self, shard: ShardId) -> impl Iterator<Item = (AddressKey, VisitId)> {
        let all = self
            .doors
            .iter()
            .flat_map(|(key, door)| door.inside.iter().map(|inside| (*key, inside.visit)));
        all.filter(move |(_, visit)| visit.shard() == shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn visit(n: u64) -> VisitId {
        VisitId::new(ShardId(0), n)
    }

    fn doors(connections: u32) -> Addresses {
        let policy = Politeness { ip_connections: connections, ..Politeness::default() };
        Addresses::new(&policy, None).unwrap()
    }

    #[test]
    fn the_delay_counts_from_the_moment_the_request_left() {
        let mut doors = doors(4);
        let a = address("192.0.2.1");
        doors.reserve(a, visit(1), at(0)).unwrap();
        let too_early = Err(Busy::Until(at(900)));
        assert_eq!(doors.reserve(a, visit(2), at(400)), too_early, "it has not left yet");
        doors.sent(a, visit(1), at(400));
        assert_eq!(doors.reserve(a, visit(2), at(900)), Err(Busy::Until(at(910))));
        assert!(doors.reserve(a, visit(2), at(910)).is_ok());
    }

    #[test]
    fn a_door_can_be_taken_for_a_moment_that_is_to_come() {
        let mut doors = doors(4);
        let a = address("192.0.2.1");
        assert!(doors.reserve(a, visit(1), at(0)).is_ok());
        doors.sent(a, visit(1), at(0));
        assert_eq!(doors.reserve(a, visit(2), at(500)), Err(Busy::Until(at(510))));
        assert_eq!(
            doors.reserve(a, visit(2), at(600)),
            Ok(at(510)),
            "it goes at 510 ms, not earlier"
        );
        assert_eq!(doors.reserve(a, visit(3), at(600)), Err(Busy::Until(at(1_100))));
    }

    #[test]
    fn a_visit_that_never_told_when_its_request_left_is_out_when_it_is_over() {
        let mut doors = doors(1);
        let a = address("192.0.2.1");
        doors.reserve(a, visit(1), at(0)).unwrap();
        // Its worker died, or its fetcher forgot: the request counts as sent at the latest moment.
        doors.release(a, visit(1), Some(at(700)), at(700));
        assert_eq!(doors.reserve(a, visit(2), at(700)), Err(Busy::Until(at(1_210))));
        assert!(doors.reserve(a, visit(2), at(1_210)).is_ok());
        // Late news of the first visit does not speak for the second.
        doors.sent(a, visit(1), at(1_300));
        assert_eq!(doors.reserve(a, visit(3), at(9_000)), Err(Busy::Occupied));
        doors.release(a, visit(1), None, at(9_000));
        assert_eq!(doors.reserve(a, visit(3), at(9_000)), Err(Busy::Occupied));
        doors.release(a, visit(2), None, at(9_000));
        assert!(doors.reserve(a, visit(3), at(9_000)).is_ok());
    }

    #[test]
    fn a_request_that_never_left_frees_the_door_without_a_pause() {
        let mut doors = doors(4);
        let a = address("192.0.2.1");
        doors.reserve(a, visit(1), at(0)).unwrap();
        doors.release(a, visit(1), None, at(5));
        assert!(doors.reserve(a, visit(2), at(5)).is_ok());
    }

    #[test]
    fn no_more_than_the_allowed_number_are_in_flight() {
        let mut doors = doors(2);
        let a = address("192.0.2.1");
        for n in 0..2 {
            doors.reserve(a, visit(n), at(n * 1_000)).unwrap();
            doors.sent(a, visit(n), at(n * 1_000));
        }
        assert_eq!(doors.reserve(a, visit(2), at(5_000)), Err(Busy::Occupied));
        doors.release(a, visit(0), Some(at(0)), at(5_000));
        assert!(doors.reserve(a, visit(2), at(5_000)).is_ok());
    }

    #[test]
    fn an_ipv6_network_is_one_address_and_a_mapped_address_is_its_ipv4() {
        let mut doors = doors(4);
        doors.reserve(address("2001:db8:1:2::1"), visit(1), at(0)).unwrap();
        doors.sent(address("2001:db8:1:2::1"), visit(1), at(0));
        assert!(doors.reserve(address("2001:db8:1:2:ffff::9"), visit(2), at(1)).is_err());
        assert!(doors.reserve(address("2001:db8:1:3::1"), visit(2), at(1)).is_ok());
        doors.reserve(address("192.0.2.1"), visit(3), at(0)).unwrap();
        assert!(doors.reserve(address("::ffff:192.0.2.1"), visit(4), at(0)).is_err());
    }

    #[test]
    fn after_a_restart_every_address_waits_its_full_delay() {
        let mut doors = Addresses::new(&Politeness::default(), Some(at(1_000))).unwrap();
        let a = address("192.0.2.1");
        assert_eq!(doors.reserve(a, visit(1), at(1_001)), Err(Busy::Until(at(1_500))));
        assert!(doors.reserve(a, visit(1), at(1_500)).is_ok());
    }

    #[test]
    fn a_shared_network_has_limits_of_its_own() {
        let policy =
            Politeness { shared_networks: vec!["198.51.100.0/24".into()], ..Politeness::default() };
        let mut doors = Addresses::new(&policy, None).unwrap();
        let cdn = address("198.51.100.7");
        doors.reserve(cdn, visit(1), at(0)).unwrap();
        doors.sent(cdn, visit(1), at(0));
        assert!(doors.reserve(cdn, visit(2), at(60)).is_ok());
        let policy = Politeness { shared_networks: vec!["cdn".into()], ..policy };
        assert!(Addresses::new(&policy, None).unwrap_err().contains("shared_networks"));
    }

    #[test]
    fn doors_that_nobody_needs_are_forgotten() {
        let mut doors = doors(1);
        for n in 0..20_000_u32 {
            let a = IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0b00_0000 + n));
            let now = at(u64::from(n) * 1_000);
            doors.reserve(a, visit(1), now).unwrap();
            doors.sent(a, visit(1), now);
            doors.release(a, visit(1), Some(now), now);
        }
        assert!(doors.doors.len() <= DOORS_SWEEP_MIN + 1, "{}", doors.doors.len());
    }
}
