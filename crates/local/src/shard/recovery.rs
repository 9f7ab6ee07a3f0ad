//! What did the last process leave open?
//!
//! Grants that were noted and never settled: their visits are lost. Each counts against its URL
//! as `Record::settle` says; one that was lost too often leaves its queue as a dead letter. All of
//! it is one batch, so a crash in here is as if it had not begun.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ports::shard_store::{Grant, Recovery};
use ports::{PortResult, codec, failpoint};
use types::outcome::{Failure, Fault};
use types::record::{After, RetryPolicy};
use types::{Outcome, QueueKey, Record, ShardId, State, Timestamp, UrlId, VisitId};

use super::group::{HostIndex, Hosts};
use super::keys;
use super::meta::{self, Counters};
use super::visits::{self, VisitNumbers};
use super::{Shard, stored};
use crate::kv::{Batch, Durability, Family, Kv};

/// A process that was killed may have given away numbers of letters and log lines that a power
/// loss took back here, while whoever got them remembers. The next process begins beyond them.
const NUMBERS_SKIPPED: u64 = 1 << 32;

/// By key in `url`: record, host, id, and whether it leaves its queue.
type Settled = BTreeMap<Vec<u8>, (Record, HostIndex, UrlId, bool)>;

impl<K: Kv> Shard<K> {
    pub(super) fn recover_all(
        &mut self,
        now: Timestamp,
        policy: RetryPolicy,
    ) -> PortResult<Recovery> {
        let lost = self.grants()?;
        let mut batch = Batch::default();
        let mut counters = self.meta.counters;
        let mut outbox = self.meta.outbox.clone();
        if self.meta.resumed && !counters.closed {
            counters.visit_seq += NUMBERS_SKIPPED;
            for (to, next) in &mut outbox {
                *next += NUMBERS_SKIPPED;
                meta::put_outbox(&mut batch, *to, *next);
            }
        }
        counters.closed = false;
        for grant in &lost {
            batch.delete(Family::Grant, &keys::seq(grant.visit.0));
            counters.latest = counters.latest.max(grant.at);
        }
        let names: Vec<_> = lost.iter().map(|grant| grant.host.clone()).collect();
        let mut hosts = Hosts::new(self.hasher());
        let mut settled: Settled = BTreeMap::new();
        for (grant, host) in lost.iter().zip(&names) {
            let Some(id) = grant.url else { continue };
            let host = hosts.index(host.as_str());
            let key = keys::url(hosts.prefix(host), id);
            let record = match settled.remove(&key) {
                Some((record, ..)) => Some(record),
                None => self.record_at(&key)?,
            };
            let Some(mut record) = record else { continue };
            let goes = lose(&mut record, grant.visit, now.max(grant.at), policy);
            settled.insert(key, (record, host, id, goes));
        }
        self.bury(&mut batch, &mut hosts, &settled, &mut counters)?;
        for (key, (record, ..)) in &settled {
            batch.put_with(Family::Url, key, |out| stored::write(record, out));
        }
        let base = self.visits.base();
        let bound = base + visits::BLOCK;
        meta::put_visit_bound(&mut batch, bound);
        meta::put_counters(&mut batch, &counters);
        failpoint("recovery");
        self.kv.commit(&batch, Durability::Disk)?;

        self.meta.counters = counters;
        self.meta.outbox = outbox;
        self.visits = VisitNumbers::new(base);
        self.visits.bounded(bound);
        self.load_filter()?;
        self.next_due = self.first_due(&[])?;
        let letters_for = self.receivers()?;
        self.floors.visits =
            self.first_visit()?.map_or(counters.visit_seq, |first| first.saturating_sub(1));
        Ok(Recovery {
            lost,
            archive_end: self.meta.archive_end,
            next_visit: base,
            resumed: self.meta.resumed,
            letters_for,
            next_due: self.next_due,
            latest: counters.latest,
        })
    }

    fn grants(&self) -> PortResult<Vec<Grant>> {
        let mut grants = Vec::new();
        self.kv.scan(Family::Grant, &[], None, &mut |_, value| {
            grants.push(codec::decode("a grant", value)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(grants)
    }

    /// Takes dead letters out of their queues.
    fn bury(
        &mut self,
        batch: &mut Batch,
        hosts: &mut Hosts<'_>,
        settled: &Settled,
        counters: &mut Counters,
    ) -> PortResult<()> {
        for (record, host, id, _) in settled.values().filter(|(.., goes)| *goes) {
            tracing::warn!(url = %record.url, "a URL that kills its visits");
            let heads = self.heads_of(hosts.slots[*host].name)?;
            let prefix = hosts.prefix(*host);
            // A grant does not say where its URL stands, but what was in flight stood near the front.
            let mut place = None;
            self.walk(prefix, &heads, QueueKey::MIN, |key, stands| {
                place = (stands == *id).then_some(key);
                Ok(if place.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            if let Some(place) = place {
                batch.delete(Family::Queue, &keys::queue(prefix, place));
                counters.queued -= 1;
            }
        }
        Ok(())
    }

    fn first_visit(&self) -> PortResult<Option<u64>> {
        let mut first = None;
        self.kv.scan(Family::Visit, &[], None, &mut |key, _| {
            first = Some(keys::read_seq(key)?);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(first)
    }

    /// Shards for which letters wait. Notes where each one's begin.
    fn receivers(&mut self) -> PortResult<Vec<ShardId>> {
        let mut shards: Vec<ShardId> = Vec::new();
        let floors = &mut self.floors.letters;
        loop {
            let from = match shards.last() {
                None => keys::outbox(ShardId(0), 0),
                Some(ShardId(u16::MAX)) => return Ok(shards),
                Some(last) => keys::outbox(ShardId(last.0 + 1), 0),
            };
            let before = shards.len();
            self.kv.scan(Family::Outbox, &from, None, &mut |key, _| {
                let (to, seq) = keys::read_outbox(key)?;
                floors.insert(to, seq.saturating_sub(1));
                shards.push(to);
                Ok(ControlFlow::Break(()))
            })?;
            if shards.len() == before {
                return Ok(shards);
            }
        }
    }
}

/// The visit died with its process. Answers whether the URL leaves its queue.
fn lose(record: &mut Record, visit: VisitId, at: Timestamp, policy: RetryPolicy) -> bool {
    if record.state != State::Queued {
        return false;
    }
    let failure = Failure { fault: Fault::Lost, retry_after: None, answer: None };
    record.settle(visit, &Outcome::Failed(failure), at, policy) == After::Done
}
