//! How does what an owner has settled become durable?
//!
//! Visits gather in a group; the keeper makes it so, and only then do their slots come back.

use std::sync::Arc;

use foldhash::HashSet;
use ports::shard_store::Onward;
use types::{Task, Timestamp, UrlId};

use super::{Envelope, GROUP_MAX, Mode, Owner};
use crate::keeper::Job;
use crate::robots_book::Rules;
use crate::stages::store::Kept;

impl Owner {
    /// Sends the group on its way when it is large or old enough, or nothing else is to come.
    pub(super) async fn keep(&mut self, now: Timestamp) -> Option<Timestamp> {
        let since = self.group_since?;
        if self.jobs.keeping {
            return None;
        }
        let ripe = since + self.ctx.options.commit_wait;
        let count = self.group.visits.len() + self.group.arrivals.len();
        let nothing_else = self.frontier.in_flight() == 0;
        let slots_run_out = self.slots.available_permits() * 2 < self.ctx.options.concurrency;
        if now < ripe
            && count < GROUP_MAX
            && !nothing_else
            && !(slots_run_out && count * 4 >= self.ctx.options.concurrency)
            && self.mode == Mode::Running
        {
            return Some(ripe);
        }
        let mut group = std::mem::take(&mut self.group);
        group.at = now;
        group.durable = self.ctx.options.durable;
        let hops_max = self.ctx.options.redirects_max;
        group.onward = Some(Onward { shards: self.ctx.options.shards, hops_max });
        self.group_since = None;
        self.envelopes_under_way.append(&mut self.envelopes);
        self.jobs.keeping = true;
        self.heavy.sent(now);
        self.keeper.submit(Job::Keep(Box::new(group))).await;
        None
    }

    pub(super) async fn close_when_done(&mut self) {
        let idle = self.held.is_empty()
            && self.group_since.is_none()
            && !self.jobs.keeping
            && !self.jobs.granting;
        if self.mode == Mode::Draining && idle {
            self.revisions.clear();
            self.mode = Mode::Closing;
            self.keeper.submit(Job::Close).await;
        }
    }

    pub(super) fn on_kept(&mut self, now: Timestamp, kept: Kept) {
        self.jobs.keeping = false;
        self.heavy.kept(now);
        self.limits.archived(kept.archive_bytes.saturating_sub(self.archive_bytes));
        self.archive_bytes = kept.archive_bytes;
        self.ctx.events.archive_bytes.set(self.limits.archive_bytes());
        self.ctx.events.seen(self.shard, &self.seen, &kept.seen);
        self.seen = kept.seen;
        self.next_due = match (self.next_due, kept.committed.next_due) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        for (origin, entry) in kept.robots {
            let rules = Rules::of(&entry, &self.ctx.options.product, &self.ctx.options.robots);
            self.frontier.robots_known(now, &origin, rules.mark());
            self.ctx.robots.put(origin, Arc::new(rules));
        }
        // A refill that was read before this commit has been heard of before it, so a host that
        // wakes up after it knows its rule.
        for (host, rule) in kept.rules {
            self.frontier.rule(now, &host, rule);
        }
        self.answer_offers(&kept.committed.accepted);
        let accepted = kept.committed.accepted.len();
        for task in kept.committed.accepted {
            self.frontier.offer(now, task);
        }
        let visits = kept.visits.len();
        self.ctx.events.committed(visits, accepted, kept.committed.known, kept.took);
        for (visit, host, url) in kept.visits {
            self.frontier.committed(now, &host, url);
            self.held.remove(&visit);
            self.hands.kept(visit);
        }
        for to in kept.committed.letters_for {
            self.post.entry(to).or_default().waiting = true;
        }
        for envelope in self.envelopes_under_way.drain(..) {
            if let Envelope::Plain(taken) = envelope {
                let _ = taken.send(()); // a sender that is gone asks again after its restart
            }
        }
    }

    /// Tells those who brought URLs which of them are new.
    fn answer_offers(&mut self, accepted: &[Task]) {
        let offers = self.envelopes_under_way.extract_if(.., |e| matches!(e, Envelope::Offer(..)));
        let mut offers = offers.peekable();
        if offers.peek().is_none() {
            return;
        }
        let new: HashSet<UrlId> = accepted.iter().map(|task| task.record.url.id()).collect();
        for offer in offers {
            if let Envelope::Offer(ids, tell) = offer {
                // Whoever asked may have gone.
                let _ = tell.send(ids.iter().map(|id| new.contains(id)).collect());
            }
        }
    }
}
