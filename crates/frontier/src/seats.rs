//! Who waits for a busy address?
//!
//! Hosts whose time has come while their address is busy queue up at its door, first come, first
//! served. Each door is looked at when its time comes, or when somebody came out; so a thousand
//! hosts at one address cost one look, not a thousand.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use foldhash::fast::FixedState;
use types::{HostKey, Timestamp};

use crate::politeness::{AddressKey, Addresses, Busy};

/// When another shard holds the door, nobody tells us that it is free; look again after this.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Hosts that wait at one door at most. An address serves so many in about a minute; who comes
/// later gets a time to come back instead of a seat, and leaves memory until then.
const SEATS_MAX: usize = 128;

#[derive(Debug, Default)]
pub(crate) struct Doors {
    queues: HashMap<AddressKey, Queue, FixedState>,
    /// When doors are looked at, one entry a queue.
    looks: BTreeSet<(Timestamp, AddressKey)>,
}

#[derive(Debug)]
struct Queue {
    hosts: VecDeque<(HostKey, IpAddr)>,
    look_at: Timestamp,
    /// Until then somebody has a time to come back.
    booked_until: Timestamp,
}

impl Doors {
    /// The host found its address busy. If all seats are taken, it is told when to come back.
    pub(crate) fn wait(
        &mut self,
        host: &HostKey,
        address: IpAddr,
        busy: Busy,
        by: Timestamp,
        delay: Duration,
    ) -> Result<(), Timestamp> {
        let key = AddressKey::from(address);
        let step = delay.max(LOOK_AGAIN);
        let look_at = match busy {
            Busy::Until(at) => at,
            Busy::Occupied => by + step,
        };
        let queue = self.queues.entry(key).or_insert_with(|| {
            self.looks.insert((look_at, key));
            Queue { hosts: VecDeque::new(), look_at, booked_until: Timestamp::ZERO }
        });
        if queue.hosts.len() >= SEATS_MAX {
            let seated = by + step.saturating_mul(SEATS_MAX as u32);
            queue.booked_until = queue.booked_until.max(seated) + step;
            return Err(queue.booked_until);
        }
        queue.hosts.push_back((host.clone(), address));
        Ok(())
    }

    /// Somebody came out, or a request has left: the door may be looked at.
    pub(crate) fn poke(&mut self, address: IpAddr, now: Timestamp) {
        let key = AddressKey::from(address);
        if let Some(queue) = self.queues.get_mut(&key)
            && now < queue.look_at
        {
            self.looks.remove(&(queue.look_at, key));
            queue.look_at = now;
            self.looks.insert((now, key));
        }
    }

    /// The first host whose door is free by then. It must try the door at once.
    pub(crate) fn next(&mut self, by: Timestamp, addresses: &mut Addresses) -> Option<HostKey> {
        while let Some((at, key)) = self.looks.first().copied()
            && at <= by
        {
            self.looks.pop_first();
            let queue = self.queues.get_mut(&key).expect("a look is a queue's");
            let (_, address) = queue.hosts.front().expect("an empty queue is removed");
            let verdict = addresses.peek(*address, by);
            queue.look_at = match verdict {
                Err(Busy::Until(at)) => at,
                Ok(()) | Err(Busy::Occupied) => by + LOOK_AGAIN,
            };
            if verdict.is_err() {
                self.looks.insert((queue.look_at, key));
                continue;
            }
            let (host, _) = queue.hosts.pop_front().expect("it has a front");
            if queue.hosts.is_empty() {
                self.queues.remove(&key);
            } else {
                self.looks.insert((queue.look_at, key));
            }
            return Some(host);
        }
        None
    }

    /// Everybody who waits at a door.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &HostKey> {
        self.queues.values().flat_map(|queue| &queue.hosts).map(|(host, _)| host)
    }

    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        self.looks.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::politeness::Politeness;
    use types::{ShardId, VisitId};

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_busy_address_is_looked_at_once_however_often_it_is_poked() {
        let mut addresses = Addresses::new(&Politeness::default(), None).unwrap();
        let mut doors = Doors::default();
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let visit = VisitId::new(ShardId(0), 1);
        addresses.reserve(address, visit, at(0)).unwrap();
        addresses.sent(address, visit, at(0));
        let delay = Duration::from_millis(500);
        for n in 0..100 {
            let host = HostKey::new(&format!("h{n}.test"));
            doors.wait(&host, address, Busy::Until(at(510)), at(0), delay).unwrap();
        }
        for n in 0..10_000 {
            doors.poke(address, at(n / 100));
            assert_eq!(doors.next(at(n / 100), &mut addresses), None);
            assert_eq!(doors.looks.len(), 1);
        }
    }

    #[test]
    fn who_finds_no_seat_is_told_when_to_come_back() {
        let mut doors = Doors::default();
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let delay = Duration::from_millis(500);
        let mut wait = |n: usize| {
            let host = HostKey::new(&format!("h{n}.test"));
            doors.wait(&host, address, Busy::Occupied, at(0), delay)
        };
        assert!((0..SEATS_MAX).all(|n| wait(n).is_ok()));
        assert_eq!(wait(1_000), Err(at(64_500)));
        assert_eq!(wait(1_001), Err(at(65_000)), "not all at the same time");
        assert_eq!(doors.waiting().count(), SEATS_MAX);
    }
}
