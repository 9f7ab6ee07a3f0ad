//! From a free slot to a visit under way.
//!
//! A lease is taken from the frontier, its grant is noted by the keeper, and the visit starts when
//! its moment has come. Whatever ends before that gives back what it held.

use std::sync::Arc;
use std::time::Duration;

use frontier::{Errand, Lease, Next};
use ports::shard_store::Grant;
use types::Timestamp;

use super::{EXPIRY_TICK, Owner, stays};
use crate::claims::May;
use crate::keeper::Job;
use crate::report::Report;

/// Leases are taken this long before their moment while slots are plenty, so that it does not
/// wait for the keeper: a commit that is under way takes its time.
const AHEAD: Duration = Duration::from_millis(100);

impl Owner {
    /// Takes leases from the frontier while there are slots.
    pub(super) fn lease(&mut self, now: Timestamp, wants_slot: &mut bool) -> Option<Timestamp> {
        // Before any of them may come back.
        for (host, until) in self.frontier.left() {
            let rested = now + self.ctx.options.politeness.ip_delay.get();
            self.ctx.claims.left(&host, until.max(rested));
        }
        loop {
            if !self.limits.may_start() {
                return None;
            }
            let spare = self.spare.take();
            let Some(permit) = spare.or_else(|| Arc::clone(&self.slots).try_acquire_owned().ok())
            else {
                // Whoever has something to do later looks again then: slots may come from workers
                // that join, of which nobody tells us.
                let at = self.frontier.wake_at(now);
                *wants_slot = at.is_some_and(|at| at <= now);
                return at.filter(|at| *at > now);
            };
            // A slot that waits for its moment is one that nobody else can use.
            let plenty = self.slots.available_permits() * 2 >= self.ctx.options.concurrency;
            let ahead = if plenty { AHEAD } else { Duration::ZERO };
            let next = {
                let mut addresses = self.ctx.addresses.lock().expect("no panic while locked");
                self.frontier.next(now, ahead, &mut addresses)
            };
            match next {
                Next::Visit(lease) => {
                    self.activity += 1;
                    if lease.address.is_some() {
                        self.ctx.events.name_wait(lease.name_wait);
                    }
                    self.held.insert(lease.visit, permit);
                    if !self.is_claimed(now, &lease) {
                        continue;
                    }
                    if matches!(lease.errand, Errand::Page(_)) && !self.limits.page_started() {
                        // Another shard has taken the last one.
                        self.give_back(now, &lease);
                        return None;
                    }
                    self.to_grant.push(*lease);
                }
                Next::Wait(at) => return at.map(|at| at.max(now + Duration::from_millis(1))),
            }
        }
    }

    /// Whether the visit may be made for all that other crawls of this machine do. If not, it is
    /// given back, and its host is put off.
    fn is_claimed(&mut self, now: Timestamp, lease: &Lease) -> bool {
        let rested = || self.frontier.full_pause(now, &lease.host);
        let shared =
            |address| self.ctx.addresses.lock().expect("no panic while locked").is_shared(address);
        let until = match self.ctx.claims.may(lease, now, rested, shared) {
            May::Go(from) if from <= lease.not_before => return true,
            May::Go(from) => from,
            May::Ask(at) => {
                self.ctx.events.taken(&lease.host);
                at
            }
        };
        self.give_back(now, lease);
        self.ask_robots_again(now, lease);
        self.frontier.put_off(now, &lease.host, until);
        false
    }

    /// Notes the grants of new leases; their requests leave when that is done, and not before
    /// their moment.
    pub(super) async fn grant(&mut self) {
        if self.jobs.granting || self.to_grant.is_empty() {
            return;
        }
        let leases = std::mem::take(&mut self.to_grant);
        let grants = leases.iter().map(|lease| Grant {
            visit: lease.visit,
            host: lease.host.clone(),
            url: lease.errand.task().map(|task| task.id),
            at: lease.granted_at,
        });
        let grants = grants.collect();
        self.jobs.grant = leases;
        self.jobs.granting = true;
        self.keeper.submit(Job::Grant(grants)).await;
    }

    /// Starts the visits whose moment has come; says when the next one's comes.
    pub(super) fn start(&mut self, now: Timestamp) -> Option<Timestamp> {
        loop {
            let first = self.granted.first_entry()?;
            let (at, visit) = *first.key();
            if at > now {
                return Some(at);
            }
            let lease = first.remove();
            // One whose lease ran out meanwhile is settled as lost already.
            if self.frontier.lease(visit).is_none() {
                continue;
            }
            if self.frontier.is_early(&lease) {
                // Its host's rules have become known, and ask for a longer pause.
                self.on_report(Report::given_back(&lease));
            } else {
                self.hands.start(lease);
            }
        }
    }

    pub(super) fn expire(&mut self, now: Timestamp) {
        if now < self.expire_at {
            return;
        }
        self.expire_at = now + EXPIRY_TICK;
        for lease in self.frontier.expired(now) {
            if self.heavy.has(lease.visit) {
                continue;
            }
            tracing::warn!(visit = %lease.visit, host = %lease.host, "lease expired");
            self.on_report(crate::life::lost(&lease, now, true));
        }
    }

    /// Leases whose grants were never noted have never been: nothing was sent, nothing is owed.
    pub(super) fn give_back_ungranted(&mut self) {
        let now = self.now();
        for lease in std::mem::take(&mut self.to_grant) {
            if let Errand::Page(_) = lease.errand {
                self.limits.page_ended(false);
            }
            self.give_back(now, &lease);
        }
    }

    /// Somebody waits for a robots.txt that was not asked for; the host's own would be asked for
    /// anyway. There is room: it has just left.
    pub(super) fn ask_robots_again(&mut self, now: Timestamp, lease: &Lease) {
        if let Errand::Robots(errand) = &lease.errand
            && errand.hops > 0
        {
            self.frontier.ask_robots(now, errand.clone());
        }
    }

    fn give_back(&mut self, now: Timestamp, lease: &Lease) {
        let touch = frontier::Touch::Untouched;
        {
            let mut addresses = self.ctx.addresses.lock().expect("no panic while locked");
            self.frontier.settle(now, lease.visit, &touch, stays(lease), &mut addresses);
        }
        self.frontier.committed(now, &lease.host, None);
        self.held.remove(&lease.visit);
    }
}
