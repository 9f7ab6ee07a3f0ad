//! How does a group of visits become one batch?
//!
//! First everything is read and staged, then one write makes it so, and only then does what is
//! held in memory follow: a commit that failed has changed nothing.
//!
//! Always: a key stands in a batch once, because engines differ in what they do with two.

use std::collections::{BTreeMap, BTreeSet};

use ports::shard_store::{Arrival, CommitBatch, Committed, LetterBody, Tally, VisitCommit};
use ports::{PortResult, RobotsEntry, failpoint};
use types::{
    CrawlUrl, Discovery, Origin, QueueKey, Record, ShardId, SiteState, State, Task, Timestamp,
    UrlId,
};

use super::group::{Group, HostIndex, Offer, RowIndex, Verdict, improved, near_of, nearest};
use super::keys::{self, HostKind};
use super::meta::{self, Counters};
use super::seen::{Keys, is_open_to_offers};
use super::{Shard, upkeep};
use crate::kv::{Batch, Durability, Family, Kv};

/// Counted when a link finds no place; see `seen`.
const UNPLACED: &str = "links_unplaced";

/// What a batch will change, before it has.
#[derive(Debug, Default)]
struct Staged {
    batch: Batch,
    counters: Counters,
    tally: Tally,
    letters: BTreeMap<ShardId, u64>,
    outbox: BTreeMap<ShardId, u64>,
    visit_bound: Option<u64>,
    /// Which due entries come (true) and go.
    dues: BTreeMap<Vec<u8>, bool>,
    /// What stands at the places of visited URLs in their queues.
    places: BTreeMap<Vec<u8>, Option<UrlId>>,
    next_due: Option<Timestamp>,
    queued: Vec<(RowIndex, QueueKey)>,
    /// Ids that the filter must learn.
    new_ids: Vec<UrlId>,
    answer: Committed,
}

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
        let present = self.queue_entries(&mut group, &visits, &changed)?;
        self.load_facts(&mut group, &visits, &changed)?;

        self.stage_changes(&mut staged, &mut group, &visits, &changed, present);
        self.stage_links(&mut staged, &mut group, batch.at)?;
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
            changed.push(group.visited(text, (self.settings.ids)(text, 0))?);
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
        let changes = visits.iter().filter_map(|visit| visit.url.as_ref());
        let places: Vec<_> = changes.zip(changed).map(|(change, &row)| (change.key, row)).collect();
        let mut keys = Keys::default();
        for (n, (key, row)) in places.iter().enumerate() {
            let host = group.rows[*row].host;
            keys.push_key(&keys::queue(group.hosts.prefix(host), *key), n);
        }
        let mut present = BTreeSet::new();
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

    /// Loads the facts of every host whose queue may change.
    fn load_facts(
        &mut self,
        group: &mut Group<'_>,
        visits: &[&VisitCommit],
        changed: &[RowIndex],
    ) -> PortResult<()> {
        debug_assert_eq!(visits.iter().filter(|v| v.url.is_some()).count(), changed.len());
        let stirs = |verdict: &Verdict| matches!(verdict, Verdict::New | Verdict::Stored(_));
        let rows = group.rows.iter().filter(|row| stirs(&row.verdict));
        let mut hosts: Vec<_> = rows.map(|row| row.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        self.facts_of(&mut group.hosts, &hosts)
    }

    /// The new records of visited URLs, and what becomes of their places in queues.
    fn stage_changes(
        &self,
        staged: &mut Staged,
        group: &mut Group<'_>,
        visits: &[&VisitCommit],
        changed: &[RowIndex],
        mut present: BTreeSet<(HostIndex, QueueKey)>,
    ) {
        let changes = visits.iter().filter_map(|visit| visit.url.as_ref());
        for (change, &at) in changes.zip(changed) {
            let mut record = change.record.clone();
            let row = &mut group.rows[at];
            let (host, id) = (row.host, row.id);
            let due_before = match &row.verdict {
                Verdict::Stored(stored) => {
                    // A link may have shown a shorter way while the visit was out.
                    record.found = nearest(stored.found, record.found);
                    stored.due
                }
                _ => {
                    staged.accept(id);
                    None
                }
            };
            let due = record.due;
            let stays = record.state == State::Queued && due.is_none();
            row.verdict = Verdict::Stored(Box::new(record));
            row.changed = true;

            let was = present.contains(&(host, change.key));
            if was != stays {
                let key = keys::queue(group.hosts.prefix(host), change.key);
                let facts = group.hosts.facts_mut(host);
                staged.places.insert(key, stays.then_some(id));
                if stays {
                    staged.counters.queued += 1;
                    facts.add(change.key);
                    present.insert((host, change.key));
                } else {
                    staged.counters.queued -= 1;
                    facts.remove(change.key);
                    present.remove(&(host, change.key));
                }
            }
            if due != due_before {
                let prefix = group.hosts.prefix(host);
                staged.move_due(prefix, id, due_before, due);
            }
        }
    }

    /// New URLs come in; known ones that were found nearer, or wait for another offer, change.
    fn stage_links(
        &self,
        staged: &mut Staged,
        group: &mut Group<'_>,
        now: Timestamp,
    ) -> PortResult<()> {
        for at in 0..group.rows.len() {
            let row = &mut group.rows[at];
            let Some(Offer { near, band }) = row.offer else { continue };
            staged.answer.known += row.finds;
            let found =
                Discovery { at: now, depth: near.depth, hops: near.hops, seed: near.seed, band };
            let (queue, seed) = match &mut row.verdict {
                Verdict::New => {
                    let url = CrawlUrl::from_canonical(row.text)
                        .expect("the group takes only canonical texts");
                    row.verdict = Verdict::Stored(Box::new(Record::new(url, found)));
                    staged.answer.known -= 1;
                    staged.accept(row.id);
                    (true, near.seed)
                }
                Verdict::Stored(record) => {
                    let better = improved(record.found, found);
                    let queue = is_open_to_offers(&record.state);
                    let seed = better.seed && !record.found.seed;
                    if better == record.found && !queue {
                        continue;
                    }
                    record.found = better;
                    if queue {
                        record.state = State::Queued;
                    }
                    (queue, seed)
                }
                Verdict::Unplaced => {
                    staged.answer.known -= row.finds;
                    staged.tally.add(UNPLACED, row.finds);
                    continue;
                }
                Verdict::Known(_) | Verdict::Recent | Verdict::Open => continue,
            };
            row.changed = true;
            let Some(record) = row.record_mut() else { continue };
            if seed {
                meta::put_seed(&mut staged.batch, staged.counters.seed_seq, &record.url);
                staged.counters.seed_seq += 1;
            }
            if queue {
                let band = record.found.band;
                let (host, id) = (row.host, row.id);
                let key = staged.next_key(band);
                staged.enqueue(&keys::queue(group.hosts.prefix(host), key), id);
                group.hosts.facts_mut(host).add(key);
                staged.queued.push((at, key));
            }
        }
        Ok(())
    }

    fn stage_rows(&self, staged: &mut Staged, group: &mut Group<'_>) {
        for at in 0..group.rows.len() {
            if !group.rows[at].changed {
                continue;
            }
            let key = group.key(at, group.rows[at].id);
            if let Verdict::Stored(record) = &group.rows[at].verdict {
                staged.batch.put_value(Family::Url, &key, &**record);
            }
        }
        for (key, id) in &staged.places {
            match id {
                Some(id) => staged.batch.put(Family::Queue, key, &id.to_be_bytes()),
                None => staged.batch.delete(Family::Queue, key),
            }
        }
        for (key, comes) in &staged.dues {
            if *comes {
                staged.batch.put(Family::Due, key, &[]);
            } else {
                staged.batch.delete(Family::Due, key);
            }
        }
    }

    fn stage_hosts<'a>(
        &self,
        staged: &mut Staged,
        group: &mut Group<'a>,
        batch: &'a CommitBatch,
        visits: &[&'a VisitCommit],
        arrivals: &[&'a Arrival],
    ) {
        // The last word on each counts.
        let states = batch.hosts.iter().map(|(host, state)| (host, state));
        for (host, state) in states.chain(visits.iter().map(|v| (&v.host, &v.host_state))) {
            let host = group.hosts.index(host.as_str());
            group.hosts.slots[host].state = Some(state);
        }
        for at in 0..group.hosts.slots.len() {
            let slot = &group.hosts.slots[at];
            if slot.state.is_none() && !slot.facts_changed {
                continue;
            }
            let prefix = group.hosts.prefix(at).to_vec();
            let slot = &group.hosts.slots[at];
            if let Some(state) = slot.state {
                let key = keys::host(&prefix, HostKind::State);
                staged.batch.put_value(Family::Host, &key, state);
            }
            if let (true, Some(facts)) = (slot.facts_changed, &slot.facts) {
                let key = keys::host(&prefix, HostKind::Queue);
                if facts.is_empty() {
                    staged.batch.delete(Family::Host, &key);
                } else {
                    staged.batch.put_value(Family::Host, &key, facts);
                }
            }
        }
        let sites: BTreeMap<&str, &SiteState> = visits
            .iter()
            .filter_map(|v| v.site.as_ref())
            .map(|(site, state)| (site.as_str(), state))
            .collect();
        for (site, state) in sites {
            let key = keys::host(&keys::host_prefix(site), HostKind::Site);
            staged.batch.put_value(Family::Host, &key, state);
        }
        let robots: BTreeMap<&Origin, &RobotsEntry> = arrivals
            .iter()
            .filter_map(|arrival| arrival.robots.as_ref())
            .chain(visits.iter().filter_map(|v| v.robots.as_ref()))
            .map(|(origin, entry)| (origin, entry))
            .collect();
        for (origin, entry) in robots {
            let key = keys::robots(&keys::host_prefix(origin.host.as_str()), origin);
            staged.batch.put_value(Family::Host, &key, entry);
        }
    }

    /// Letters for other shards, and lines for the log.
    fn stage_mail(&self, staged: &mut Staged, visits: &[&VisitCommit]) {
        for visit in visits {
            for (to, body) in &visit.letters {
                let next = staged.outbox.get(to).or(self.meta.outbox.get(to));
                let seq = next.copied().unwrap_or(1);
                let row: (_, &LetterBody) = (visit.visit, body);
                staged.batch.put_value(Family::Outbox, &keys::outbox(*to, seq), &row);
                staged.outbox.insert(*to, seq + 1);
            }
            if let Some(line) = &visit.line {
                staged.counters.visit_seq += 1;
                let mut line = line.clone();
                line.seq = staged.counters.visit_seq;
                staged.batch.put_value(Family::Visit, &keys::seq(line.seq), &line);
                staged.answer.lines.push(line);
            }
        }
        staged.answer.letters_for = staged.outbox.keys().copied().collect();
    }

    fn stage_meta(&self, staged: &mut Staged, batch: &CommitBatch, visits: &[&VisitCommit]) {
        let out = &mut staged.batch;
        for visit in visits {
            out.delete(Family::Grant, &keys::seq(visit.visit.0));
            let ended = visit.host_state.last_end;
            staged.counters.latest = staged.counters.latest.max(ended);
        }
        staged.counters.latest = staged.counters.latest.max(batch.at);
        for (from, seq) in &staged.letters {
            meta::put_letter(out, *from, *seq);
        }
        for (to, next) in &staged.outbox {
            meta::put_outbox(out, *to, *next);
        }
        for (name, by) in &staged.tally.0 {
            meta::put_tally(out, name, self.meta.tally.get(name) + by);
        }
        if let Some(end) = batch.archive_end {
            meta::put_archive_end(out, end);
        }
        // A refusal needs no grant, so its number may be the first beyond the bound.
        let last = visits.iter().map(|visit| visit.visit.count()).max();
        staged.visit_bound = last.and_then(|last| self.visits.bound_for(last));
        if let Some(bound) = staged.visit_bound {
            meta::put_visit_bound(out, bound);
        }
        meta::put_counters(out, &staged.counters);
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
            match &row.verdict {
                Verdict::Stored(record) if is_open_to_offers(&record.state) => {
                    self.recent.forget(row.id);
                }
                Verdict::Stored(record) => {
                    self.recent.insert(row.id, row.text, near_of(&record.found));
                }
                Verdict::Known(near) => self.recent.insert(row.id, row.text, *near),
                Verdict::New | Verdict::Recent | Verdict::Open | Verdict::Unplaced => {}
            }
        }
        self.keep_facts(&mut group.hosts);
        answer.accepted.reserve(staged.queued.len());
        for (at, key) in staged.queued {
            let row = &mut group.rows[at];
            if let Verdict::Stored(record) = std::mem::replace(&mut row.verdict, Verdict::Open) {
                answer.accepted.push(Task { key, id: row.id, record: *record });
            }
        }
        answer
    }
}

impl Staged {
    /// A URL gets its row: the filter must learn it, now and after a crash.
    fn accept(&mut self, id: UrlId) {
        self.counters.known += 1;
        self.counters.fresh_seq += 1;
        let key = upkeep::fresh_key(self.counters.fresh_seq);
        self.batch.put(Family::Fresh, &key, &id.to_be_bytes());
        self.new_ids.push(id);
    }

    fn next_key(&mut self, band: u8) -> QueueKey {
        self.counters.queue_seq += 1;
        QueueKey { band, seq: self.counters.queue_seq }
    }

    fn enqueue(&mut self, key: &[u8], id: UrlId) {
        self.batch.put(Family::Queue, key, &id.to_be_bytes());
        self.counters.queued += 1;
    }

    fn move_due(
        &mut self,
        prefix: &[u8],
        id: UrlId,
        before: Option<Timestamp>,
        after: Option<Timestamp>,
    ) {
        if let Some(at) = before {
            self.dues.insert(keys::due(at, prefix, id), false);
            self.counters.scheduled = self.counters.scheduled.saturating_sub(1);
        }
        if let Some(at) = after {
            self.dues.insert(keys::due(at, prefix, id), true);
            self.counters.scheduled += 1;
            self.next_due = Some(self.next_due.map_or(at, |next| next.min(at)));
        }
    }
}
