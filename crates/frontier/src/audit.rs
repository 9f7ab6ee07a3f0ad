//! Does everything in the frontier agree with everything else?
//!
//! What the heads of the other files promise, looked at from outside: each active host is where
//! its phase says and nowhere else, counters count what is there, and the gates of addresses hold
//! the visits that have leases and no others. For simulations, after each step; it takes time in
//! proportion to what is in memory and allocates nothing when all is well.

use types::HostKey;

use crate::active::{Host, Phase};
use crate::lease::Errand;
use crate::politeness::{AddressKey, Addresses};
use crate::{Frontier, Held, Reverse};

impl Frontier {
    /// The first thing that does not agree, in words.
    pub fn audit(&self, addresses: &Addresses) -> Result<(), String> {
        for (name, host) in &self.hosts {
            self.audit_host(name, host)?;
        }
        self.audit_phases()?;
        self.audit_leases(addresses)?;
        self.audit_suspects()?;
        self.audit_places()
    }

    fn audit_host(&self, name: &HostKey, host: &Host) -> Result<(), String> {
        let back = &host.back;
        let say = |what: &str| Err(format!("{name} is {:?} and {what}", host.phase));
        match host.phase {
            Phase::Waking | Phase::Starved if !back.is_refilling() => {
                return say("nobody reads its queue");
            }
            Phase::Idle if !host.errands.is_empty() => return say("has a robots.txt to ask for"),
            Phase::Idle if back.iter().next().is_some() && !host.over_budget => {
                return say("has pages waiting");
            }
            _ => {}
        }
        if let Err(what) = back.audit() {
            return say(&what);
        }
        // One is with its lease, the others are settled and on their way to the store.
        if back.taken() > host.uncommitted + usize::from(host.phase == Phase::Leased) {
            return say("has taken more URLs than it has visits");
        }
        Ok(())
    }

    /// As many hosts in each place as have its phase. Numbers of turns are unique, so equal counts
    /// mean equal sets.
    fn audit_phases(&self) -> Result<(), String> {
        let count = |is: fn(&Phase) -> bool| self.hosts.values().filter(|h| is(&h.phase)).count();
        let scheduled = count(|phase| matches!(phase, Phase::Scheduled { .. }));
        let turns = self.heap.iter().filter(|Reverse(turn)| self.is_current(turn)).count();
        let pending =
            count(|phase| matches!(phase, Phase::Waking | Phase::Resolving | Phase::Starved));
        let at_door = count(|phase| *phase == Phase::AtDoor);
        let waiting = self.doors.waiting();
        let queued = waiting.filter(|name| self.is(name, Phase::AtDoor)).count();
        for (what, phases, found) in [
            ("scheduled hosts and turns in the heap", scheduled, turns),
            ("hosts that wait for an answer", pending, self.pending),
            ("hosts at a door and in its queue", at_door, queued),
            ("all in the queues of doors", at_door, self.doors.waiting().count()),
            ("hosts of sites", count(|phase| *phase != Phase::Waking), self.hosts_of_sites()),
        ] {
            if phases != found {
                return Err(format!("{what}: {phases} and {found}"));
            }
        }
        Ok(())
    }

    fn hosts_of_sites(&self) -> usize {
        self.sites.values().map(|slot| slot.hosts).sum()
    }

    fn is(&self, name: &HostKey, phase: Phase) -> bool {
        self.hosts.get(name).is_some_and(|host| host.phase == phase)
    }

    /// One lease a host, one place in an address's gate a lease.
    fn audit_leases(&self, addresses: &Addresses) -> Result<(), String> {
        let mut pages = 0;
        let mut with_address = 0;
        for (visit, held) in &self.leases {
            let lease = &held.lease;
            let host = self.hosts.get(&lease.host);
            let Some(host) = host.filter(|host| host.phase == Phase::Leased) else {
                return Err(format!("{visit} has a lease for {}, which is not leased", lease.host));
            };
            if let Some(task) = lease.errand.task()
                && !host.back.has_taken(task.id)
            {
                return Err(format!("{visit} visits {}, which nobody took", task.record.url));
            }
            pages += u64::from(matches!(lease.errand, Errand::Page(_)));
            with_address += usize::from(lease.address.is_some());
        }
        let leased = self.hosts.values().filter(|host| host.phase == Phase::Leased).count();
        if leased != self.leases.len() {
            return Err(format!("{leased} hosts are leased by {} leases", self.leases.len()));
        }
        let of_sites: u64 = self.sites.values().map(|slot| slot.in_flight).sum();
        if pages != of_sites {
            return Err(format!("{pages} pages are under way, sites know of {of_sites}"));
        }
        let mut inside = 0;
        for (door, visit) in addresses.inside(self.options.shard) {
            inside += 1;
            let address = self.leases.get(&visit).and_then(|held| held.lease.address);
            if address.map(AddressKey::from) != Some(door) {
                return Err(format!("{visit} is at {door:?} without a lease for it"));
            }
        }
        if inside != with_address {
            return Err(format!("{with_address} leases have an address, {inside} are at one"));
        }
        Ok(())
    }

    /// Suspects in flight are as many as are known.
    fn audit_suspects(&self) -> Result<(), String> {
        let lost = |held: &Held| match &held.lease.errand {
            Errand::Page(task) => task.record.lost,
            _ => 0,
        };
        let company = self.leases.values().filter(|held| lost(held) == 1).count();
        let alone = self.leases.values().filter(|held| lost(held) > 1).count();
        let known = self.suspects.standing();
        if (company, alone) != (known.0, usize::from(known.1)) {
            return Err(format!("{company} suspects in company, {alone} alone; known: {known:?}"));
        }
        Ok(())
    }

    /// A host is asleep, in a front queue, or active.
    fn audit_places(&self) -> Result<(), String> {
        self.asleep.audit()?;
        for (name, place) in self
            .asleep
            .hosts()
            .map(|name| (name, "asleep"))
            .chain(self.front.hosts().map(|name| (name, "in a front queue")))
            .chain(self.errands.keys().map(|name| (name, "waiting with a robots.txt to ask for")))
        {
            if let Some(host) = self.hosts.get(name) {
                return Err(format!("{name} is {place} and active: {:?}", host.phase));
            }
        }
        let both = self.asleep.hosts().find(|name| self.front.has(name));
        both.map_or(Ok(()), |name| Err(format!("{name} is asleep and in a front queue")))
    }
}
