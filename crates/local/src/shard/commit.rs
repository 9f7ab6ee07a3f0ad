//! How does a group of visits become one batch?
//!
//! First everything is read and staged (`stage`), then one write makes it so, and only then does
//! what is held in memory follow: a commit that failed has changed nothing.

use std::collections::{BTreeMap, BTreeSet};

use ports::shard_store::{Arrival, CommitBatch, Committed, VisitCommit};
use ports::{PortResult, failpoint};
use types::{QueueKey, ShardId, Task};

use super::Shard;
use super::group::{Group, HostIndex, Row, RowIndex, Verdict, near_of};
use super::keys;
use super::meta::Counters;
use super::seen::{Keys, is_open_to_offers};
use super::stage::Staged;
use crate::kv::{Durability, Family, Kv};

impl<K: Kv> Shard<K> {
    pub(super) fn commit_group(&mut self, batch: &CommitBatch) -> PortResult<Committed> {
        let visits = self.unsettled(&batch.visits);
        let (arrivals, letters) = self.unread(&batch.arrivals);
        let mut staged = Staged {
            counters: Counters { closed: false, ..self.meta.counters },
            letters,
            next_due: self.next_due,
            ..Staged::default()
        };
        let nothing_new = visits.is_empty() && arrivals.is_empty();
        if !nothing_new || (batch.visits.is_empty() && batch.arrivals.is_empty()) {
            staged.tally = batch.tally.clone();
        }

        let links = visits.iter().map(|visit| visit.links.len() + 1).sum::<usize>()
            + arrivals.iter().map(|arrival| arrival.links.len()).sum::<usize>();
        let mut group = Group::new(links, self.meta.format.hash_seed);
        let changed = self.gather(&mut group, &visits, &arrivals)?;
        self.judge(&mut group)?;
        self.refuse_forgotten(&mut group)?;
        let present = self.queue_entries(&mut group, &visits, &changed)?;
        self.load_heads(&mut group, &changed)?;

        self.stage_changes(&mut staged, &mut group, batch, &visits, &changed, present);
        self.stage_links(&mut staged, &mut group, batch);
        self.stage_rows(&mut staged, &mut group);
        self.stage_hosts(&mut staged, &mut group, batch, &visits, &arrivals);
        self.stage_mail(&mut staged, &visits);
        self.stage_meta(&mut staged, batch, &visits);

        failpoint("before_commit");
        let durability = if batch.durable { Durability::Disk } else { Durability::Os };
        self.kv.commit(&staged.batch, durability)?;
        failpoint("after_commit");
        Ok(self.apply(staged, group, &visits, batch))
    }

    /// The visits that were not committed before.
    fn unsettled<'a>(&self, visits: &'a [VisitCommit]) -> Vec<&'a VisitCommit> {
        let mut met = BTreeSet::new();
        let mut fresh = |visit: &VisitCommit| {
            let repeat = self.visits.is_settled(visit.visit.count()) || !met.insert(visit.visit);
            if repeat {
                tracing::debug!(visit = %visit.visit, "visit was settled before");
            }
            !repeat
        };
        visits.iter().filter(|visit| fresh(visit)).collect()
    }

    /// The arrivals that were not committed before, and where that leaves their senders.
    fn unread<'a>(&self, arrivals: &'a [Arrival]) -> (Vec<&'a Arrival>, BTreeMap<ShardId, u64>) {
        let mut marks = BTreeMap::new();
        let mut fresh = |arrival: &Arrival| {
            let Some((from, seq)) = arrival.letter else { return true };
            let mark = marks.get(&from).or(self.meta.letters.get(&from)).copied();
            // Letters count from 1.
            let fresh = seq > mark.unwrap_or(0);
            if fresh {
                marks.insert(from, seq);
            }
            fresh
        };
        let arrivals = arrivals.iter().filter(|arrival| fresh(arrival)).collect();
        (arrivals, marks)
    }

    /// Brings all URLs into the group. Answers the row of each visited URL, in order.
    fn gather<'a>(
        &self,
        group: &mut Group<'a>,
        visits: &[&'a VisitCommit],
        arrivals: &[&'a Arrival],
    ) -> PortResult<Vec<RowIndex>> {
        let mut changed = Vec::with_capacity(visits.len());
        for change in visits.iter().filter_map(|visit| visit.url.as_ref()) {
            let text = change.record.url.as_str();
            let id = (self.settings.ids)(text, 0);
            let row = group.visited(text, id)?;
            if self.lent.has(id, change.key, near_of(&change.record.found)) {
                group.rows[row].verdict = Verdict::Lent;
            }
            changed.push(row);
        }
        let sets = visits.iter().map(|visit| &visit.links);
        let sets = sets.chain(arrivals.iter().map(|arrival| &arrival.links));
        for found in sets.flat_map(|links| links.iter()) {
            group.found(found)?;
        }
        Ok(changed)
    }

    /// Which visited URLs stand in their queues where the visits say, so that the count of
    /// waiting URLs stays exact whatever the caller remembers.
    fn queue_entries(
        &self,
        group: &mut Group<'_>,
        visits: &[&VisitCommit],
        changed: &[RowIndex],
    ) -> PortResult<BTreeSet<(HostIndex, QueueKey)>> {
        let mut places = Vec::with_capacity(changed.len());
        let mut keys = Keys::default();
        let mut present = BTreeSet::new();
        let changes = visits.iter().filter_map(|visit| visit.url.as_ref());
        for (change, &row) in changes.zip(changed) {
            let Row { host, id, .. } = group.rows[row];
            if self.lent.has(id, change.key, near_of(&change.record.found)) {
                present.insert((host, change.key));
                continue;
            }
            keys.push_key(&keys::queue(group.hosts.prefix(host), change.key), places.len());
            places.push((change.key, row));
        }
        let rows = &group.rows;
        keys.read(&self.kv, Family::Queue, |n, value| {
            let (key, row) = places[n];
            if let Some(value) = value
                && keys::read_id(value)? == rows[row].id
            {
                present.insert((rows[row].host, key));
            }
            Ok(())
        })?;
        Ok(present)
    }

    /// Loads the heads of every queue that visited URLs may leave, and seeks those anew that lie
    /// far back.
    fn load_heads(&mut self, group: &mut Group<'_>, changed: &[RowIndex]) -> PortResult<()> {
        let mut hosts: Vec<_> = changed.iter().map(|&row| group.rows[row].host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        for host in hosts {
            let mut heads = self.heads_of(group.hosts.slots[host].name)?;
            let overdue = heads.overdue();
            for head in &overdue {
                let prefix = group.hosts.prefix(host);
                heads.begins(self.first_place(prefix, *head)?);
            }
            let slot = &mut group.hosts.slots[host];
            slot.heads_changed = !overdue.is_empty();
            slot.heads = Some(heads);
        }
        Ok(())
    }

    /// The batch is written: what is held in memory follows.
    fn apply(
        &mut self,
        staged: Staged,
        mut group: Group<'_>,
        visits: &[&VisitCommit],
        batch: &CommitBatch,
    ) -> Committed {
        let mut answer = staged.answer;
        self.meta.counters = staged.counters;
        self.meta.tally.merge(&staged.tally);
        self.meta.letters.extend(staged.letters);
        self.meta.outbox.extend(staged.outbox);
        self.meta.archive_end = batch.archive_end.or(self.meta.archive_end);
        visits.iter().for_each(|visit| self.visits.settle(visit.visit.count()));
        if let Some(bound) = staged.visit_bound {
            self.visits.bounded(bound);
        }
        self.next_due = staged.next_due;
        answer.next_due = self.next_due;
        staged.new_ids.iter().for_each(|id| self.upkeep.learn(*id));
        for row in &group.rows {
            if row.changed {
                self.lent.forget(row.id);
            }
            match &row.verdict {
                Verdict::Stored(record) if is_open_to_offers(&record.state) => {
                    self.recent.forget(row.id);
                }
                Verdict::Stored(record) => {
                    self.recent.insert(row.id, row.text, near_of(&record.found));
                }
                Verdict::Known(near) => self.recent.insert(row.id, row.text, *near),
                Verdict::New
                | Verdict::Recent
                | Verdict::Lent
                | Verdict::Open
                | Verdict::Forgotten
                | Verdict::Unplaced => {}
            }
        }
        self.keep_heads(&mut group.hosts);
        answer.accepted.reserve(staged.queued.len());
        for (at, key) in staged.queued {
            let row = &mut group.rows[at];
            if let Verdict::Stored(record) = std::mem::replace(&mut row.verdict, Verdict::Open) {
                self.lent.insert(row.id, key, near_of(&record.found));
                answer.accepted.push(Task { key, id: row.id, record: *record });
            }
        }
        answer
    }
}
