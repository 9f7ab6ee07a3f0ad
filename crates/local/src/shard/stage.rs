//! What will a batch change?
//!
//! Each function stages one kind of rows; nothing is written and nothing in memory moves before
//! the whole batch is there.
//!
//! Always: a key stands in a batch once, because engines differ in what they do with two.

use std::collections::{BTreeMap, BTreeSet};

use ports::shard_store::{
    Arrival, CommitBatch, Committed, Found, FoundSet, LetterBody, Onward, Tally, VisitCommit,
};
use ports::{PortResult, RobotsEntry, codec};
use types::{
    CrawlUrl, Discovery, HostRule, HostState, Origin, QueueKey, Record, Refusal, ShardId,
    SiteState, State, Timestamp, UrlId, UrlRef, VisitId, host,
};

use super::group::{Group, HostIndex, Offer, RowIndex, Verdict, improved, nearest};
use super::keys::{self, HostKind};
use super::meta::{self, Counters};
use super::seen::is_open_to_offers;
use super::{Shard, log, stored, upkeep};
use crate::kv::{Batch, Family, Kv};

/// Counted when a link finds no place; see `seen`.
const UNPLACED: &str = "links_unplaced";
/// Counted when a link leads to what was forgotten; see `erase`. It stands among the reasons for which the
/// engine does not take links.
const FORGOTTEN: &str = "skipped.forgotten";

/// What a batch will change, before it has.
#[derive(Debug, Default)]
pub(super) struct Staged {
    pub(super) batch: Batch,
    pub(super) counters: Counters,
    pub(super) tally: Tally,
    pub(super) letters: BTreeMap<ShardId, u64>,
    pub(super) outbox: BTreeMap<ShardId, u64>,
    pub(super) visit_bound: Option<u64>,
    /// Which due entries come (true) and go.
    pub(super) dues: BTreeMap<Vec<u8>, bool>,
    /// What stands at the places of visited URLs in their queues.
    pub(super) places: BTreeMap<Vec<u8>, Option<UrlId>>,
    pub(super) next_due: Option<Timestamp>,
    pub(super) queued: Vec<(RowIndex, QueueKey)>,
    /// Ids that the filter must learn.
    pub(super) new_ids: Vec<UrlId>,
    /// Targets of redirects that are nearer now, by the shard that owns them.
    pub(super) onward: BTreeMap<ShardId, FoundSet>,
    pub(super) answer: Committed,
}

impl<K: Kv> Shard<K> {
    /// The new records of visited URLs, and what becomes of their places in queues.
    pub(super) fn stage_changes(
        &self,
        staged: &mut Staged,
        group: &mut Group<'_>,
        batch: &CommitBatch,
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
                    let nearer = nearest(stored.found, record.found);
                    if nearer != record.found {
                        record.found = nearer;
                        staged.lead_on(&record, batch.onward);
                    }
                    stored.due
                }
                Verdict::Lent => None,
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
                staged.places.insert(key, stays.then_some(id));
                group.hosts.moved(host, change.key, stays);
                if stays {
                    staged.counters.queued += 1;
                    present.insert((host, change.key));
                } else {
                    staged.counters.queued -= 1;
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
    pub(super) fn stage_links(
        &self,
        staged: &mut Staged,
        group: &mut Group<'_>,
        batch: &CommitBatch,
    ) {
        for at in 0..group.rows.len() {
            let row = &mut group.rows[at];
            let Some(Offer { near, band }) = row.offer else { continue };
            staged.answer.known += row.finds;
            let found = Discovery {
                at: batch.at,
                depth: near.depth,
                hops: near.hops,
                seed: near.seed,
                band,
            };
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
                    staged.lead_on(record, batch.onward);
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
                Verdict::Forgotten => {
                    staged.answer.known -= row.finds;
                    staged.tally.add(FORGOTTEN, row.finds);
                    continue;
                }
                Verdict::Known(_) | Verdict::Recent | Verdict::Lent | Verdict::Open => continue,
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
                staged.queued.push((at, key));
            }
        }
    }

    pub(super) fn stage_rows(&self, staged: &mut Staged, group: &mut Group<'_>) {
        for at in 0..group.rows.len() {
            if !group.rows[at].changed {
                continue;
            }
            let key = group.key(at, group.rows[at].id);
            if let Verdict::Stored(record) = &group.rows[at].verdict {
                staged.batch.put_with(Family::Url, &key, |out| stored::write(record, out));
            }
        }
        if !staged.new_ids.is_empty() {
            // One row for all of them, under the number of the last.
            let key = upkeep::fresh_key(staged.counters.fresh_seq);
            let ids = &staged.new_ids;
            staged.batch.put_with(Family::Fresh, &key, |out| {
                ids.iter().for_each(|id| out.extend_from_slice(&id.to_be_bytes()));
            });
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

    pub(super) fn stage_hosts<'a>(
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
            if slot.state.is_none() && !slot.heads_changed {
                continue;
            }
            let prefix = group.hosts.prefix(at).to_vec();
            let slot = &group.hosts.slots[at];
            if let Some(state) = slot.state {
                let key = keys::host(&prefix, HostKind::State);
                staged.batch.put_with(Family::Host, &key, |out| write_host(state, out));
            }
            if let (true, Some(heads)) = (slot.heads_changed, &slot.heads) {
                staged.batch.put_with(Family::Queue, keys::heads(&prefix), |out| heads.write(out));
            }
        }
        let rules: BTreeMap<&str, &HostRule> =
            batch.rules.iter().map(|(host, rule)| (host.as_str(), rule)).collect();
        for (host, rule) in rules {
            let key = keys::host(&keys::host_prefix(host), HostKind::Rule);
            match rule.is_empty() {
                true => staged.batch.delete(Family::Host, &key),
                false => staged.batch.put_value(Family::Host, &key, rule),
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
    pub(super) fn stage_mail(&self, staged: &mut Staged, visits: &[&VisitCommit]) {
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
                staged
                    .batch
                    .put_with(Family::Visit, &keys::seq(line.seq), |out| log::write(&line, out));
                staged.answer.lines.push(line);
            }
        }
        for (to, links) in std::mem::take(&mut staged.onward) {
            let next = staged.outbox.get(&to).or(self.meta.outbox.get(&to));
            let seq = next.copied().unwrap_or(1);
            // No visit has sent it; the number is what its reader goes by.
            let row = (VisitId::new(self.settings.shard, 0), LetterBody::Links(links));
            staged.batch.put_value(Family::Outbox, &keys::outbox(to, seq), &row);
            staged.outbox.insert(to, seq + 1);
        }
        staged.answer.letters_for = staged.outbox.keys().copied().collect();
    }

    pub(super) fn stage_meta(
        &self,
        staged: &mut Staged,
        batch: &CommitBatch,
        visits: &[&VisitCommit],
    ) {
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
}

/// A host's state as it is stored; read by [`read_host`].
fn write_host(state: &HostState, out: &mut Vec<u8>) {
    codec::encode_into(state, out);
    codec::encode_more(&state.retry_debt, out);
}

pub(super) fn read_host(bytes: &[u8]) -> PortResult<HostState> {
    let (state, rest) = codec::decode_first("a host's state", bytes)?;
    let retry_debt = codec::decode_more("a host's state", rest)?.unwrap_or_default();
    Ok(HostState { retry_debt, ..state })
}

impl Staged {
    /// The URL is nearer than it was when it redirected us: so is its target. Whether that is
    /// still wanted is judged when its turn comes.
    fn lead_on(&mut self, record: &Record, onward: Option<Onward>) {
        let (Some(last), Some(Onward { shards, hops_max })) = (&record.last, onward) else {
            return;
        };
        let taken =
            last.target_refused.as_ref().is_none_or(|why| matches!(why, Refusal::Hops { .. }));
        let found = record.found;
        let hops = found.hops.saturating_add(1);
        let Some(to) = last.moved_to.as_deref().filter(|_| taken && hops <= hops_max) else {
            return;
        };
        // A damaged text leads nowhere.
        let Ok(url) = UrlRef::from_canonical(to) else { return };
        let shard = host::shard_of(url.site(), shards);
        let Discovery { depth, band, seed, .. } = found;
        let found = Found { url: to, id: UrlId::of(to), depth, hops, band, seed };
        self.onward.entry(shard).or_default().push(found);
    }

    /// A URL gets its row: the filter must learn it, now and after a crash.
    fn accept(&mut self, id: UrlId) {
        self.counters.known += 1;
        self.counters.fresh_seq += 1;
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
