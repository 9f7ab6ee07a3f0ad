//! Does an owner keep its promises at every step?
//!
//! Only where a simulation asks for it: it takes time in proportion to what is in memory.

use super::Owner;

impl Owner {
    /// # Panics
    /// If anything does not agree: what follows could not be trusted.
    pub(super) fn audit(&self) {
        let verdict = {
            let addresses = self.ctx.addresses.lock().expect("no panic while locked");
            self.frontier.audit(&addresses)
        };
        if let Err(what) = verdict {
            panic!("{}: {what}", self.shard);
        }
        let settled = self.group.visits.iter().map(|visit| visit.visit);
        for visit in settled.chain(self.to_grant.iter().map(|lease| lease.visit)) {
            assert!(self.held.contains_key(&visit), "{visit} is not committed and holds no slot");
        }
        let under_way = self.frontier.in_flight() + self.group.visits.len();
        assert!(
            self.held.len() >= under_way && under_way <= self.ctx.options.concurrency.max(1),
            "{}: {under_way} visits under way, {} slots held",
            self.shard,
            self.held.len()
        );
    }
}
