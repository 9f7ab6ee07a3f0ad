//! Whose robots.txt is where, and what does it change?
//!
//! A robots.txt that redirects to another host is asked for there like a page: in that host's
//! turn, with its pause. Errands and pages take turns, one errand an origin; a host that cannot
//! be asked gives them back unanswered, so that whoever waits can go on.

use std::collections::VecDeque;

use types::{HostKey, Origin, Timestamp};

use crate::active::Phase;
use crate::robots::RobotsMark;
use crate::{Frontier, RobotsErrand};

/// Hosts that are not active and have errands, at most.
const ERRAND_HOSTS_MAX: usize = 10_000;
/// Errands of one host, at most.
const ERRANDS_MAX: usize = 256;

/// Adds the errand, or takes it for a newer one of its origin. False if there is no room.
fn add(errands: &mut VecDeque<RobotsErrand>, errand: RobotsErrand) -> bool {
    if let Some(old) = errands.iter_mut().find(|old| old.origin == errand.origin) {
        *old = errand;
        return true;
    }
    let room = errands.len() < ERRANDS_MAX;
    if room {
        errands.push_back(errand);
    }
    room
}

impl Frontier {
    /// Somebody's robots.txt is said to be at this host. False if too many are.
    pub fn ask_robots(&mut self, now: Timestamp, errand: RobotsErrand) -> bool {
        let host_key = errand.url.host_key();
        if let Some(host) = self.hosts.get_mut(&host_key) {
            let added = add(&mut host.errands, errand);
            let at = host.turn(now);
            // It may rest because its own robots.txt is out of reach; an errand needs none.
            if added && matches!(host.phase, Phase::Idle | Phase::Scheduled { .. }) {
                self.schedule(now, &host_key, at);
            }
            return added;
        }
        let known = self.errands.contains_key(&host_key);
        if !known && self.errands.len() >= ERRAND_HOSTS_MAX {
            return false;
        }
        let added = add(self.errands.entry(host_key.clone()).or_default(), errand);
        self.rouse(&host_key);
        self.front.push(&host_key, 0);
        added
    }

    /// A host that sleeps wakes up before its time; others are left alone.
    fn rouse(&mut self, host_key: &HostKey) {
        if self.asleep.remove(host_key) {
            self.front.push(host_key, 0);
        }
    }

    /// What an origin's robots.txt came to, for an origin of this shard.
    pub fn robots_known(&mut self, now: Timestamp, origin: &Origin, mark: RobotsMark) {
        let Some(host) = self.hosts.get_mut(&origin.host) else {
            // It sleeps because nobody knew its rules. What it may do now is in the store.
            self.rouse(&origin.host);
            return;
        };
        if matches!(mark, RobotsMark::Known { .. }) {
            host.rewind_at = Some(now);
        }
        host.robots.set(now, origin, mark);
        host.lengthen_pause(&self.options.politeness);
        if matches!(host.phase, Phase::Scheduled { .. } | Phase::Idle) && !host.back.is_exhausted()
        {
            let at = host.state.not_before.max(now);
            self.schedule(now, &origin.host, at);
        }
    }
}
