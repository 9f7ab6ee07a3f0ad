//! Who waits for a busy address?
//!
//! Hosts whose time has come while their address is busy queue up at its door, first come, first
//! served. Each door is looked at when its time comes, or when somebody came out; so a thousand
//! hosts at one address cost one look, not a thousand.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use foldhash::fast::FixedState;
use types::{HostKey, Timestamp};

use crate::politeness::{AddressKey, Addresses, Busy};

/// When another shard holds the door, nobody tells us that it is free; look again after this.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
pub(crate) struct Doors {
    queues: HashMap<AddressKey, VecDeque<(HostKey, IpAddr)>, FixedState>,
    looks: BinaryHeap<Reverse<(Timestamp, AddressKey)>>,
}

impl Doors {
    /// The host found its address busy.
    pub(crate) fn wait(
        &mut self,
        host: &HostKey,
        address: IpAddr,
        busy: Busy,
        by: Timestamp,
        delay: Duration,
    ) {
        let key = AddressKey::from(address);
        let at = match busy {
            Busy::Until(at) => at,
            Busy::Occupied => by + delay.max(LOOK_AGAIN),
        };
        let queue = self.queues.entry(key).or_default();
        queue.push_back((host.clone(), address));
        if queue.len() == 1 {
            self.looks.push(Reverse((at, key)));
        }
    }

    /// Somebody came out, or a request has left: the door may be looked at.
    pub(crate) fn poke(&mut self, address: IpAddr, now: Timestamp) {
        let key = AddressKey::from(address);
        if self.queues.contains_key(&key) {
            self.looks.push(Reverse((now, key)));
        }
    }

    /// The first host whose door is free by then. It must try the door at once.
    pub(crate) fn next(&mut self, by: Timestamp, addresses: &mut Addresses) -> Option<HostKey> {
        while let Some(Reverse((at, key))) = self.looks.peek().copied()
            && at <= by
        {
            self.looks.pop();
            let Some(queue) = self.queues.get_mut(&key) else { continue };
            let Some((_, address)) = queue.front() else { continue };
            match addresses.peek(*address, by) {
                Ok(()) => {
                    let (host, _) = queue.pop_front().expect("it has a front");
                    if queue.is_empty() {
                        self.queues.remove(&key);
                    } else {
                        self.looks.push(Reverse((by + LOOK_AGAIN, key)));
                    }
                    return Some(host);
                }
                Err(Busy::Until(at)) => self.looks.push(Reverse((at, key))),
                Err(Busy::Occupied) => self.looks.push(Reverse((by + LOOK_AGAIN, key))),
            }
        }
        None
    }

    /// Everybody who waits at a door.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &HostKey> {
        self.queues.values().flatten().map(|(host, _)| host)
    }

    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        self.looks.peek().map(|Reverse((at, _))| *at)
    }
}
