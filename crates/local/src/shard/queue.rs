//! What waits at which host, and what wakes up?
//!
//! Reads of the near part of queues for the frontier; URLs that fall due move into their queues;
//! refused ones that are judged again go back into theirs.

use std::ops::ControlFlow;

use ports::shard_store::{
    HostRow, HostWake, Judge, RefillWant, Refilled, Revised, ScanCursor, WaitingHost, Woken,
};
use ports::{PortResult, RobotsEntry, codec};
use serde::de::DeserializeOwned;
use types::{HostKey, HostState, Origin, QueueKey, Record, State, Task, Timestamp, UrlId};

use super::Shard;
use super::group::{Hosts, near_of};
use super::heads::Heads;
use super::keys::{self, HostKind};
use super::meta;
use super::seen::Keys;
use super::stage::read_host;
use super::stored::{self, Stored};
use crate::kv::{Batch, Durability, Family, Kv, after_prefix};

impl<K: Kv> Shard<K> {
    pub(super) fn refill_hosts(&mut self, wants: &[RefillWant]) -> PortResult<Vec<Refilled>> {
        let mut answers = Vec::with_capacity(wants.len());
        let mut records = Keys::default();
        let mut tasks: Vec<(usize, QueueKey, UrlId)> = Vec::new();
        for (n, want) in wants.iter().enumerate() {
            let prefix = keys::host_prefix(want.host.as_str());
            let heads = self.heads_of(want.host.as_str())?;
            let (places, more) = self.places(&prefix, &heads, want)?;
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
        records.read_near(&self.kv, Family::Url, |at, bytes| {
            let host = wants[tasks[at].0].host.as_str();
            found[at] = bytes.map(|bytes| stored::read(host, bytes)).transpose()?;
            Ok(())
        })?;
        for ((n, key, id), record) in tasks.into_iter().zip(found) {
            match record {
                Some(record) => {
                    self.lent.insert(id, key, near_of(&record.found));
                    answers[n].tasks.push(Task { key, id, record });
                }
                None => tracing::error!(%id, "a queue entry without a record"),
            }
        }
        Ok(answers)
    }

    /// The first entries of a queue after a place, and whether there are more.
    fn places(
        &self,
        prefix: &[u8],
        heads: &Heads,
        want: &RefillWant,
    ) -> PortResult<(Vec<(QueueKey, UrlId)>, bool)> {
        let mut places = Vec::new();
        let mut more = false;
        let from = want.after.map_or(QueueKey::MIN, QueueKey::after);
        self.walk(prefix, heads, from, |key, id| {
            if places.len() == want.limit {
                more = true;
                return Ok(ControlFlow::Break(()));
            }
            places.push((key, id));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok((places, more))
    }

    /// Goes over the entries of a queue from a place on. What was deleted before the heads is never
    /// waded through.
    pub(super) fn walk(
        &self,
        prefix: &[u8],
        heads: &Heads,
        from: QueueKey,
        mut each: impl FnMut(QueueKey, UrlId) -> PortResult<ControlFlow<()>>,
    ) -> PortResult<()> {
        let mut ended = false;
        for (from, until) in heads.stretches(from) {
            let (from, until) = (keys::queue(prefix, from), keys::queue(prefix, until));
            self.kv.scan(Family::Queue, &from, Some(&until), &mut |key, id| {
                let flow = each(keys::read_queue(key)?, keys::read_id(id)?)?;
                ended = flow.is_break();
                Ok(flow)
            })?;
            if ended {
                break;
            }
        }
        Ok(())
    }

    /// Where the entries of a head's band begin now. An empty band begins with the next that comes.
    pub(super) fn first_place(&self, prefix: &[u8], head: QueueKey) -> PortResult<QueueKey> {
        let mut first = QueueKey { seq: self.meta.counters.queue_seq + 1, ..head };
        let until = keys::queue(prefix, QueueKey { seq: u64::MAX, ..head });
        self.kv.scan(Family::Queue, &keys::queue(prefix, head), Some(&until), &mut |key, _| {
            first = keys::read_queue(key)?;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(first)
    }

    fn wake_state(&self, host: &HostKey, prefix: &[u8]) -> PortResult<HostWake> {
        let site = keys::host_prefix(host.site().as_str());
        Ok(HostWake {
            host: self.host_state(prefix)?.unwrap_or_default(),
            rule: self.host_value(&keys::host(prefix, HostKind::Rule))?.unwrap_or_default(),
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

    fn host_state(&self, prefix: &[u8]) -> PortResult<Option<HostState>> {
        let mut found = None;
        self.kv.get(Family::Host, &keys::host(prefix, HostKind::State), &mut |bytes| {
            found = Some(read_host(bytes)?);
            Ok(())
        })?;
        Ok(found)
    }

    pub(super) fn host_value<T: DeserializeOwned>(&self, key: &[u8]) -> PortResult<Option<T>> {
        let mut found = None;
        self.kv.get(Family::Host, key, &mut |bytes| {
            found = Some(codec::decode("a host's row", bytes)?);
            Ok(())
        })?;
        Ok(found)
    }

    pub(super) fn host_row(
        &mut self,
        host: &HostKey,
        counted_max: u64,
    ) -> PortResult<Option<HostRow>> {
        let prefix = keys::host_prefix(host.as_str());
        let state = self.host_state(&prefix)?;
        let heads = self.heads_of(host.as_str())?;
        let (mut waiting, mut best_band) = (0, None);
        self.walk(&prefix, &heads, QueueKey::MIN, |key, _| {
            best_band.get_or_insert(key.band);
            let full = waiting >= counted_max;
            waiting += u64::from(!full);
            Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if state.is_none() && best_band.is_none() {
            return Ok(None);
        }
        let best_band = best_band.unwrap_or(u8::MAX);
        Ok(Some(HostRow {
            host: host.clone(),
            state: state.unwrap_or_default(),
            rule: self.host_value(&keys::host(&prefix, HostKind::Rule))?.unwrap_or_default(),
            waiting,
            best_band,
        }))
    }

    pub(super) fn waiting_hosts(
        &mut self,
        after: Option<&HostKey>,
        limit: usize,
    ) -> PortResult<Vec<WaitingHost>> {
        let mut from = match after {
            Some(host) => keys::after_host(&keys::host_prefix(host.as_str())),
            None => keys::ours().to_vec(),
        };
        let until = after_prefix(&keys::ours());
        let mut hosts = Vec::new();
        while hosts.len() < limit {
            // The first row of the next host: an entry, if too few have left for a head.
            let mut first = None;
            self.kv.scan(Family::Queue, &from, until.as_deref(), &mut |key, value| {
                let (prefix, rest) = keys::read_host(key)?;
                first = Some((prefix.to_vec(), rest.first().copied(), Heads::default()));
                if let Some((_, None, heads)) = &mut first {
                    *heads = Heads::read(value)?;
                }
                Ok(ControlFlow::Break(()))
            })?;
            let Some((prefix, mut band, heads)) = first else { break };
            if band.is_none() {
                self.walk(&prefix, &heads, QueueKey::MIN, |key, _| {
                    band = Some(key.band);
                    Ok(ControlFlow::Break(()))
                })?;
            }
            if let Some(best_band) = band {
                hosts.push(WaitingHost { host: keys::prefix_host(&prefix)?, best_band });
            }
            from = keys::after_host(&prefix);
        }
        Ok(hosts)
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
        changed.iter().for_each(|id| self.lent.forget(*id));
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
        let mut counters = self.meta.counters;
        counters.scheduled = counters.scheduled.saturating_sub(due_gone);
        let mut tasks = Vec::with_capacity(moves.len());
        for (prefix, id, mut record) in moves {
            record.state = State::Queued;
            record.due = None;
            counters.queue_seq += 1;
            counters.queued += 1;
            let key = QueueKey { band: record.found.band, seq: counters.queue_seq };
            let row = keys::url(&prefix, id);
            batch.put_with(Family::Url, &row, |out| stored::write(&record, out));
            batch.put(Family::Queue, &keys::queue(&prefix, key), &id.to_be_bytes());
            tasks.push(Task { key, id, record });
        }
        meta::put_counters(&mut batch, &counters);
        self.kv.commit(&batch, Durability::Os)?;
        self.meta.counters = counters;
        Ok(tasks)
    }

    /// Where the queue of a host begins.
    pub(super) fn heads_of(&mut self, host: &str) -> PortResult<Heads> {
        if let Some(heads) = self.heads.get(host) {
            return Ok(heads.clone());
        }
        let mut heads = Heads::default();
        let prefix = keys::host_prefix(host);
        self.kv.get(Family::Queue, keys::heads(&prefix), &mut |row| {
            heads = Heads::read(row)?;
            Ok(())
        })?;
        self.heads.put(host.into(), heads.clone());
        Ok(heads)
    }

    /// The batch is written: what was staged for its hosts is the truth.
    pub(super) fn keep_heads(&mut self, hosts: &mut Hosts<'_>) {
        for slot in &mut hosts.slots {
            let Some(heads) = slot.heads.take() else { continue };
            match self.heads.get_mut(slot.name) {
                Some(kept) => *kept = heads,
                None => drop(self.heads.put(slot.name.into(), heads)),
            }
        }
    }
}
