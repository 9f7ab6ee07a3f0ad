//! What waits at which host, and what wakes up?
//!
//! Reads of the near part of queues for the frontier; URLs that fall due move into their queues;
//! refused ones that are judged again go back into theirs.

use std::ops::ControlFlow;

use ports::shard_store::{
    HostRow, HostWake, Judge, RefillWant, Refilled, Revised, ScanCursor, Woken,
};
use ports::{PortResult, RobotsEntry, codec};
use serde::de::DeserializeOwned;
use types::{HostKey, Origin, QueueKey, Record, State, Task, Timestamp, UrlId};

use super::Shard;
use super::facts::QueueFacts;
use super::group::Hosts;
use super::keys::{self, HostKind};
use super::meta;
use super::seen::Keys;
use super::stored::{self, Stored};
use crate::kv::{Batch, Durability, Family, Kv, after_prefix};

impl<K: Kv> Shard<K> {
    pub(super) fn refill_hosts(&mut self, wants: &[RefillWant]) -> PortResult<Vec<Refilled>> {
        let mut answers = Vec::with_capacity(wants.len());
        let mut records = Keys::default();
        let mut tasks: Vec<(usize, QueueKey, UrlId)> = Vec::new();
        for (n, want) in wants.iter().enumerate() {
            let prefix = keys::host_prefix(want.host.as_str());
            let facts = self.facts_at(want.host.as_str(), &prefix)?;
            let (places, more) = self.places(&prefix, &facts, want)?;
            for (key, id) in places {
                records.push(&prefix, id, tasks.len());
                tasks.push((n, key, id));
            }
            let state = match want.state {
                true => Some(self.wake_state(&want.host, &prefix)?),
                false => None,
            };
            let host = want.host.clone();
            answers.push(Refilled { host, tasks: Vec::new(), more, state });
        }
        let mut found: Vec<Option<Record>> = vec![None; tasks.len()];
        records.read(&self.kv, Family::Url, |at, bytes| {
            let host = wants[tasks[at].0].host.as_str();
            found[at] = bytes.map(|bytes| stored::read(host, bytes)).transpose()?;
            Ok(())
        })?;
        for ((n, key, id), record) in tasks.into_iter().zip(found) {
            match record {
                Some(record) => answers[n].tasks.push(Task { key, id, record }),
                None => tracing::error!(%id, "a queue entry without a record"),
            }
        }
        Ok(answers)
    }

    /// The first entries of a queue after a place, band by band, each from its own head: what was
    /// deleted before it is never waded through. Also whether there are more.
    fn places(
        &self,
        prefix: &[u8],
        facts: &QueueFacts,
        want: &RefillWant,
    ) -> PortResult<(Vec<(QueueKey, UrlId)>, bool)> {
        let mut places = Vec::new();
        let mut more = false;
        for band in facts.bands() {
            let head = QueueKey { band: band.band, seq: band.head };
            let start = want.after.map_or(head, |after| head.max(after.after()));
            if more || start.band > band.band || want.after == Some(QueueKey::MAX) {
                continue;
            }
            let last = QueueKey { band: band.band, seq: u64::MAX };
            let until = keys::queue(prefix, last);
            self.kv.scan(
                Family::Queue,
                &keys::queue(prefix, start),
                Some(&until),
                &mut |key, id| {
                    if places.len() == want.limit {
                        more = true;
                        return Ok(ControlFlow::Break(()));
                    }
                    places.push((keys::read_queue(key)?, keys::read_id(id)?));
                    Ok(ControlFlow::Continue(()))
                },
            )?;
        }
        Ok((places, more))
    }

    fn wake_state(&self, host: &HostKey, prefix: &[u8]) -> PortResult<HostWake> {
        let site = keys::host_prefix(host.site().as_str());
        Ok(HostWake {
            host: self.host_value(&keys::host(prefix, HostKind::State))?.unwrap_or_default(),
            site: self.host_value(&keys::host(&site, HostKind::Site))?.unwrap_or_default(),
            robots: self.robots_of(host, prefix)?,
        })
    }

    fn robots_of(&self, host: &HostKey, prefix: &[u8]) -> PortResult<Vec<(Origin, RobotsEntry)>> {
        let mut entries = Vec::new();
        let from = keys::host(prefix, HostKind::Robots);
        let until = after_prefix(&from);
        self.kv.scan(Family::Host, &from, until.as_deref(), &mut |key, value| {
            let origin = keys::read_robots(host.clone(), &key[prefix.len()..])?;
            entries.push((origin, codec::decode("a robots entry", value)?));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(entries)
    }

    pub(super) fn host_value<T: DeserializeOwned>(&self, key: &[u8]) -> PortResult<Option<T>> {
        let mut found = None;
        self.kv.get(Family::Host, key, &mut |bytes| {
            found = Some(codec::decode("a host's row", bytes)?);
            Ok(())
        })?;
        Ok(found)
    }

    pub(super) fn host_row(&mut self, host: &HostKey) -> PortResult<Option<HostRow>> {
        let prefix = keys::host_prefix(host.as_str());
        let state = self.host_value(&keys::host(&prefix, HostKind::State))?;
        let facts = self.facts_at(host.as_str(), &prefix)?;
        if state.is_none() && facts.is_empty() {
            return Ok(None);
        }
        Ok(Some(host_row(host.clone(), state.unwrap_or_default(), &facts)))
    }

    pub(super) fn waiting_hosts(
        &mut self,
        after: Option<&HostKey>,
        limit: usize,
    ) -> PortResult<Vec<HostRow>> {
        let mut from = match after {
            Some(host) => keys::after_host(&keys::host_prefix(host.as_str())),
            None => keys::ours().to_vec(),
        };
        let until = after_prefix(&keys::ours());
        let mut rows = Vec::new();
        loop {
            let mut skip = None;
            let mut state = None;
            self.kv.scan(Family::Host, &from, until.as_deref(), &mut |key, value| {
                let (prefix, rest) = keys::read_host(key)?;
                match rest.first() {
                    Some(0) => state = Some((prefix.to_vec(), codec::decode("a host", value)?)),
                    Some(1) => {
                        let facts: QueueFacts = codec::decode("a queue's facts", value)?;
                        let state = state.take().filter(|(of, _)| of == prefix);
                        let state = state.map(|(_, state)| state).unwrap_or_default();
                        rows.push(host_row(keys::prefix_host(prefix)?, state, &facts));
                        if rows.len() >= limit {
                            return Ok(ControlFlow::Break(()));
                        }
                    }
                    // A robots.txt may be large, and a host may have many: a seek passes them.
                    Some(3) => {
                        skip = Some(keys::after_host(prefix));
                        return Ok(ControlFlow::Break(()));
                    }
                    _ => {}
                }
                Ok(ControlFlow::Continue(()))
            })?;
            match skip {
                Some(next) => from = next,
                None => return Ok(rows),
            }
        }
    }

    pub(super) fn wake_due(&mut self, now: Timestamp, limit: usize) -> PortResult<Woken> {
        let Some(first) = self.next_due.filter(|due| *due <= now) else {
            return Ok(Woken { tasks: Vec::new(), next_due: self.next_due });
        };
        let keys = self.due_keys(first, now, limit)?;
        let mut records = Keys::default();
        let mut entries = Vec::with_capacity(keys.len());
        for key in &keys {
            let (at, prefix, id) = keys::read_due(key)?;
            records.push(&prefix, id, entries.len());
            entries.push((at, prefix, id, None::<Record>));
        }
        records.read(&self.kv, Family::Url, |n, bytes| {
            let host = keys::prefix_host(&entries[n].1)?;
            entries[n].3 = bytes.map(|bytes| stored::read(host.as_str(), bytes)).transpose()?;
            Ok(())
        })?;
        let mut batch = Batch::default();
        keys.iter().for_each(|key| batch.delete(Family::Due, key));
        let mut moves = Vec::with_capacity(entries.len());
        for (at, prefix, id, record) in entries {
            // An entry that the record does not name any more only goes.
            if let Some(record) = record.filter(|record| record.due == Some(at)) {
                moves.push((prefix, id, record));
            }
        }
        let tasks = self.requeue(batch, moves, keys.len() as u64)?;
        // Nothing is left before the last of them: what was deleted is not waded through.
        let from = keys.last().map_or_else(|| first.micros().to_be_bytes().to_vec(), Vec::clone);
        self.next_due = self.first_due(&from)?;
        Ok(Woken { tasks, next_due: self.next_due })
    }

    /// The first keys of `due` that are due by `now`.
    fn due_keys(&self, first: Timestamp, now: Timestamp, limit: usize) -> PortResult<Vec<Vec<u8>>> {
        let mut keys = Vec::new();
        let from = first.micros().to_be_bytes();
        let until = now.micros().checked_add(1).map(u64::to_be_bytes);
        let until = until.as_ref().map(<[u8; 8]>::as_slice);
        self.kv.scan(Family::Due, &from, until, &mut |key, _| {
            if keys.len() == limit {
                return Ok(ControlFlow::Break(()));
            }
            keys.push(key.to_vec());
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(keys)
    }

    /// When the first entry of `due` at or after a key is due.
    pub(super) fn first_due(&self, from: &[u8]) -> PortResult<Option<Timestamp>> {
        let mut first = None;
        self.kv.scan(Family::Due, from, None, &mut |key, _| {
            first = Some(keys::read_due(key)?.0);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(first)
    }

    pub(super) fn revise_records(
        &mut self,
        cursor: &mut ScanCursor,
        limit: usize,
        judge: &mut Judge<'_>,
    ) -> PortResult<Revised> {
        let (mut batch, mut moves) = (Batch::default(), Vec::new());
        let mut changed = Vec::new();
        self.scan_records(cursor, limit, |key, value| {
            let row = Stored::read(value)?;
            if row.state()? == State::Queued {
                return Ok(());
            }
            let (prefix, _) = keys::read_host(key)?;
            let record = row.record(keys::prefix_host(prefix)?.as_str())?;
            let Some(new) = judge(&record).filter(|new| new.url == record.url) else {
                return Ok(());
            };
            let id = keys::read_id(key)?;
            changed.push(id);
            if new.state == State::Queued {
                moves.push((prefix.to_vec(), id, new));
            } else {
                batch.put_with(Family::Url, key, |out| stored::write(&new, out));
            }
            Ok(())
        })?;
        let queued = self.requeue(batch, moves, 0)?;
        // What was refused may be open to offers now, or the other way round.
        changed.iter().for_each(|id| self.recent.forget(*id));
        Ok(Revised { changed: changed.len() as u64, queued })
    }

    /// The next `limit` rows of `url` in our own space.
    pub(super) fn scan_records(
        &self,
        cursor: &mut ScanCursor,
        limit: usize,
        mut each: impl FnMut(&[u8], &[u8]) -> PortResult<()>,
    ) -> PortResult<()> {
        if cursor.done {
            return Ok(());
        }
        let from = match &cursor.after {
            // The smallest key after that one.
            Some(after) => [after.as_slice(), &[0]].concat(),
            None => keys::ours().to_vec(),
        };
        let until = after_prefix(&keys::ours());
        let mut last = None;
        let mut count = 0;
        cursor.done = true;
        self.kv.scan(Family::Url, &from, until.as_deref(), &mut |key, value| {
            if count == limit {
                cursor.done = false;
                return Ok(ControlFlow::Break(()));
            }
            count += 1;
            last = Some(key.to_vec());
            each(key, value)?;
            Ok(ControlFlow::Continue(()))
        })?;
        cursor.after = last.or(cursor.after.take());
        Ok(())
    }

    /// Puts records into their hosts' queues, in one batch with what is in `batch` already;
    /// `due_gone` entries of `due` leave with it.
    fn requeue(
        &mut self,
        mut batch: Batch,
        moves: Vec<(Vec<u8>, UrlId, Record)>,
        due_gone: u64,
    ) -> PortResult<Vec<Task>> {
        if batch.is_empty() && moves.is_empty() {
            return Ok(Vec::new());
        }
        let urls: Vec<_> = moves.iter().map(|(.., record)| record.url.clone()).collect();
        let mut hosts = Hosts::new(self.hasher());
        let indexes: Vec<_> = urls.iter().map(|url| hosts.index(url.host())).collect();
        let all: Vec<_> = (0..hosts.slots.len()).collect();
        self.facts_of(&mut hosts, &all)?;

        let mut counters = self.meta.counters;
        counters.scheduled = counters.scheduled.saturating_sub(due_gone);
        let mut tasks = Vec::with_capacity(moves.len());
        for ((prefix, id, mut record), host) in moves.into_iter().zip(indexes) {
            record.state = State::Queued;
            record.due = None;
            counters.queue_seq += 1;
            counters.queued += 1;
            let key = QueueKey { band: record.found.band, seq: counters.queue_seq };
            hosts.facts_mut(host).add(key);
            let row = keys::url(&prefix, id);
            batch.put_with(Family::Url, &row, |out| stored::write(&record, out));
            batch.put(Family::Queue, &keys::queue(&prefix, key), &id.to_be_bytes());
            tasks.push(Task { key, id, record });
        }
        for at in all {
            let key = keys::host(hosts.prefix(at), HostKind::Queue);
            batch.put_value(Family::Host, &key, hosts.facts_mut(at));
        }
        meta::put_counters(&mut batch, &counters);
        self.kv.commit(&batch, Durability::Os)?;
        self.meta.counters = counters;
        self.keep_facts(&mut hosts);
        Ok(tasks)
    }

    /// Loads the facts of these hosts of a batch.
    pub(super) fn facts_of(&mut self, hosts: &mut Hosts<'_>, wanted: &[usize]) -> PortResult<()> {
        let mut unknown = Keys::default();
        for &host in wanted {
            let slot = &mut hosts.slots[host];
            if slot.facts.is_some() {
                continue;
            }
            match self.facts.get(slot.name) {
                Some(facts) => slot.facts = Some(facts.clone()),
                None => {
                    slot.facts = Some(QueueFacts::default());
                    let key = keys::host(hosts.prefix(host), HostKind::Queue);
                    unknown.push_key(&key, host);
                }
            }
        }
        unknown.read(&self.kv, Family::Host, |host, bytes| {
            if let Some(bytes) = bytes {
                hosts.slots[host].facts = Some(codec::decode("a queue's facts", bytes)?);
            }
            Ok(())
        })
    }

    /// The facts of one host.
    pub(super) fn facts_at(&mut self, host: &str, prefix: &[u8]) -> PortResult<QueueFacts> {
        if let Some(facts) = self.facts.get(host) {
            return Ok(facts.clone());
        }
        let stored = self.host_value(&keys::host(prefix, HostKind::Queue))?;
        let facts: QueueFacts = stored.unwrap_or_default();
        self.facts.put(host.into(), facts.clone());
        Ok(facts)
    }

    /// The batch is written: what was staged for its hosts is the truth.
    pub(super) fn keep_facts(&mut self, hosts: &mut Hosts<'_>) {
        for slot in &mut hosts.slots {
            if let Some(facts) = slot.facts.take() {
                match self.facts.get_mut(slot.name) {
                    Some(kept) => *kept = facts,
                    None => {
                        self.facts.put(slot.name.into(), facts);
                    }
                }
            }
        }
    }
}

fn host_row(host: HostKey, state: types::HostState, facts: &QueueFacts) -> HostRow {
    let best_band = facts.best_band().unwrap_or(u8::MAX);
    HostRow { host, state, waiting: facts.waiting(), best_band }
}
