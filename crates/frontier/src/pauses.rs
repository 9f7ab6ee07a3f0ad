//! Who else has a word in how long a host rests?
//!
//! Beside what a visit teaches (`host`): other crawls of the machine, and whoever runs this one.
//!
//! Always: a host's next visit never moves earlier, whoever speaks.

use types::{HostKey, HostRule, Timestamp};

use crate::active::Phase;
use crate::{Frontier, Lease, host};

impl Frontier {
    /// Nobody goes to the host before `until`: another crawl has a word in it.
    pub fn put_off(&mut self, now: Timestamp, host_key: &HostKey, until: Timestamp) {
        let Some(host) = self.hosts.get_mut(host_key) else { return };
        host.state.not_before = host.state.not_before.max(until);
        if matches!(host.phase, Phase::Scheduled { .. }) {
            let at = host.turn(now);
            self.schedule(now, host_key, at);
        }
    }

    /// Whoever runs the crawl has said something of the host; it is in the store. A host that is not
    /// active hears of it when it wakes up.
    pub fn rule(&mut self, now: Timestamp, host_key: &HostKey, rule: HostRule) {
        let Some(host) = self.hosts.get_mut(host_key) else { return };
        host.rule = rule;
        host.lengthen_pause(&self.options.politeness);
        // Its turn may be later now; it is never sooner.
        if let Phase::Scheduled { at, .. } = host.phase
            && at < host.turn(now)
        {
            let at = host.turn(now);
            self.schedule(now, host_key, at);
        }
    }

    /// A full pause of the host and of any address from now.
    pub fn full_pause(&self, now: Timestamp, host_key: &HostKey) -> Timestamp {
        let policy = &self.options.politeness;
        let host = self.hosts.get(host_key);
        let delay = || self.options.sheets.delay(host_key.as_str(), policy);
        let pause = host.map_or_else(delay, |host| host::pause(&host.state, &host.manners(policy)));
        now + pause.max(policy.ip_delay.get())
    }

    /// Whether its host has got a longer pause since the visit was leased.
    pub fn is_early(&self, lease: &Lease) -> bool {
        let host = self.hosts.get(&lease.host);
        lease.address.is_some() && host.is_some_and(|host| host.state.not_before > lease.not_before)
    }
}
