//! The URLs of others, over any engine.
//!
//! The layout is the shard's (`shard::keys`), in spaces of their own:
//!
//! | family | key | value |
//! |---|---|---|
//! | `url` | queue, id u128 | the URL |
//! | `queue` | queue, moment u64, text of the URL | nothing |
//! | `host` | queue | the queue's state, or that it is being deleted |
//! | `meta` | `foreign` | crawls and settings |
//!
//! where a queue is its crawl's space u32, its key escaped, 0. A URL that somebody holds stands in
//! its queue under the moment at which that ends: a lease that nobody returns needs no clean-up.

use std::borrow::Cow;
use std::ops::ControlFlow;

use ports::foreign_store::{
    First, FirstWant, ForeignBatch, ForeignCursor, ForeignSettings, ForeignStore, ForeignUrl,
    QueueName, QueueState, Seconds, Space,
};
use ports::{PortError, PortResult, codec};
use serde::{Deserialize, Serialize};
use types::UrlId;

use crate::kv::{Batch, Durability, Family, Kv, after_prefix};

const SETTINGS: &[u8] = b"foreign";
const SPACE_BYTES: usize = 4;
const ID_BYTES: usize = 16;
const MOMENT_BYTES: usize = 8;

/// Stands for a byte of a key that would end it, or would stand for one.
const ESCAPE: u8 = 1;

/// What is written of a queue.
#[derive(Debug, Serialize, Deserialize)]
enum Row<'a> {
    Here(Cow<'a, QueueState>),
    /// Its URLs are being deleted.
    Going,
}

pub struct Foreign {
    kv: Box<dyn Kv>,
    settings: ForeignSettings,
}

impl Foreign {
    /// # Errors
    /// When what is there cannot be read.
    pub fn open(kv: Box<dyn Kv>) -> PortResult<Self> {
        let mut settings = ForeignSettings::default();
        kv.get(Family::Meta, SETTINGS, &mut |bytes| {
            settings = codec::decode("the settings of foreign crawls", bytes)?;
            Ok(())
        })?;
        Ok(Self { kv, settings })
    }

    /// Deletes what a crash has left of queues and crawls that were to go.
    fn sweep(&mut self) -> PortResult<()> {
        let mut going: Vec<Vec<u8>> = Vec::new();
        let mut from = space_prefix(Space(1)).to_vec();
        let known = |space| self.settings.crawls.iter().any(|(_, known)| *known == space);
        self.kv.scan(Family::Host, &from, None, &mut |key, value| {
            let (queue, _) = read_queue(key)?;
            let row = codec::decode_borrowed("a queue", value)?;
            if !known(queue.space) {
                going.push(key[..SPACE_BYTES].to_vec());
            } else if matches!(row, Row::Going) {
                going.push(key.to_vec());
            }
            Ok(ControlFlow::Continue(()))
        })?;
        going.dedup();
        for prefix in going {
            from.clone_from(&prefix);
            self.delete_under(&from)?;
        }
        Ok(())
    }

    fn delete_under(&mut self, prefix: &[u8]) -> PortResult<()> {
        let until = after_prefix(prefix).unwrap_or_else(|| vec![u8::MAX; SPACE_BYTES + 1]);
        // The queue's own row goes last: it is what a crash is recognised by.
        for family in [Family::Queue, Family::Url, Family::Host] {
            self.kv.delete_range(family, prefix, &until)?;
        }
        Ok(())
    }

    /// Under which moment the first URL of a queue stands.
    fn first_moment(&self, prefix: &[u8]) -> PortResult<Option<Seconds>> {
        let mut first = None;
        let until = after_prefix(prefix);
        self.kv.scan(Family::Queue, prefix, until.as_deref(), &mut |key, _| {
            first = Some(read_place(prefix, key)?.0);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(first)
    }
}

impl std::fmt::Debug for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Foreign").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl ForeignStore for Foreign {
    fn settings(&mut self) -> PortResult<ForeignSettings> {
        Ok(self.settings.clone())
    }

    fn each_queue(
        &mut self,
        each: &mut dyn FnMut(QueueName, QueueState, Option<Seconds>),
    ) -> PortResult<()> {
        self.sweep()?;
        let mut queues: Vec<(Vec<u8>, QueueName, QueueState)> = Vec::new();
        let mut from = space_prefix(Space(1)).to_vec();
        loop {
            self.kv.scan(Family::Host, &from, None, &mut |key, value| {
                let (queue, _) = read_queue(key)?;
                if let Row::Here(state) = codec::decode_borrowed("a queue", value)? {
                    queues.push((key.to_vec(), queue, state.into_owned()));
                }
                let full = queues.len() == QUEUES_AT_ONCE;
                Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            let more = queues.len() == QUEUES_AT_ONCE;
            if let Some((key, ..)) = queues.last() {
                from = [key.as_slice(), &[0]].concat();
            }
            for (prefix, queue, state) in queues.drain(..) {
                let first = self.first_moment(&prefix)?;
                each(queue, state, first);
            }
            if !more {
                return Ok(());
            }
        }
    }

    fn find(&mut self, urls: &[(&QueueName, &str)]) -> PortResult<Vec<Option<ForeignUrl>>> {
        let keys = urls.iter().map(|(queue, url)| url_key(&queue_prefix(queue), UrlId::of(url)));
        let keys: Vec<Vec<u8>> = keys.collect();
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by(|a, b| keys[*a].cmp(&keys[*b]));
        let groups: Vec<&[usize]> = order.chunk_by(|a, b| keys[*a] == keys[*b]).collect();
        let sorted: Vec<&[u8]> = groups.iter().map(|group| keys[group[0]].as_slice()).collect();
        let mut found = vec![None; urls.len()];
        self.kv.get_many(Family::Url, &sorted, &mut |n, value| {
            let Some(value) = value else { return Ok(()) };
            let url: ForeignUrl = codec::decode("a foreign URL", value)?;
            for &at in groups[n] {
                found[at] = Some(url.clone());
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn first(&mut self, wants: &[FirstWant]) -> PortResult<Vec<First>> {
        let mut answers = vec![First::default(); wants.len()];
        let mut keys: Vec<(Vec<u8>, usize)> = Vec::new();
        for (n, want) in wants.iter().enumerate() {
            let prefix = queue_prefix(&want.queue);
            let until = after_prefix(&prefix);
            let mut count = 0;
            self.kv.scan(Family::Queue, &prefix, until.as_deref(), &mut |key, _| {
                let (moment, text) = read_place(&prefix, key)?;
                if moment > want.now || count == want.limit {
                    answers[n].next = Some(moment);
                    return Ok(ControlFlow::Break(()));
                }
                count += 1;
                keys.push((url_key(&prefix, UrlId::of(text)), n));
                Ok(ControlFlow::Continue(()))
            })?;
        }
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by(|a, b| keys[*a].0.cmp(&keys[*b].0));
        let sorted: Vec<&[u8]> = order.iter().map(|at| keys[*at].0.as_slice()).collect();
        let mut found: Vec<Option<ForeignUrl>> = vec![None; keys.len()];
        self.kv.get_many(Family::Url, &sorted, &mut |n, value| {
            let value = value.ok_or_else(|| broken("a place in a queue", sorted[n]))?;
            found[order[n]] = Some(codec::decode("a foreign URL", value)?);
            Ok(())
        })?;
        for ((_, n), url) in keys.iter().zip(found) {
            answers[*n].urls.extend(url);
        }
        Ok(answers)
    }

    fn commit(&mut self, batch: &ForeignBatch) -> PortResult<()> {
        let mut out = Batch::default();
        for change in &batch.urls {
            let prefix = queue_prefix(&change.queue);
            let place = change.new.as_ref().and_then(ForeignUrl::place);
            if change.place != place {
                if let Some(old) = change.place {
                    out.delete(Family::Queue, &place_key(&prefix, old, &change.url));
                }
                if let Some(new) = place {
                    out.put(Family::Queue, &place_key(&prefix, new, &change.url), &[]);
                }
            }
            let key = url_key(&prefix, UrlId::of(&change.url));
            match &change.new {
                Some(url) => out.put_value(Family::Url, &key, url),
                None => out.delete(Family::Url, &key),
            }
        }
        for (queue, state) in &batch.queues {
            let row = Row::Here(Cow::Borrowed(state));
            out.put_value(Family::Host, &queue_prefix(queue), &row);
        }
        if let Some(settings) = &batch.settings {
            out.put_value(Family::Meta, SETTINGS, settings);
        }
        let durability = if batch.durable { Durability::Disk } else { Durability::Os };
        self.kv.commit(&out, durability)?;
        if let Some(settings) = &batch.settings {
            self.settings.clone_from(settings);
        }
        Ok(())
    }

    fn urls(
        &mut self,
        space: Space,
        key: Option<&str>,
        cursor: &mut ForeignCursor,
        limit: usize,
    ) -> PortResult<Vec<(QueueName, ForeignUrl)>> {
        let mut urls = Vec::new();
        if cursor.done {
            return Ok(urls);
        }
        let prefix = prefix_of(space, key);
        let until = after_prefix(&prefix);
        let from = match &cursor.after {
            Some(after) => [after.as_slice(), &[0]].concat(),
            None => prefix,
        };
        let mut last = None;
        cursor.done = true;
        self.kv.scan(Family::Url, &from, until.as_deref(), &mut |key, value| {
            if urls.len() == limit {
                cursor.done = false;
                return Ok(ControlFlow::Break(()));
            }
            let (queue, _) = read_queue(key)?;
            urls.push((queue, codec::decode("a foreign URL", value)?));
            last = Some(key.to_vec());
            Ok(ControlFlow::Continue(()))
        })?;
        cursor.after = last.or(cursor.after.take());
        Ok(urls)
    }

    fn forget(&mut self, space: Space, key: Option<&str>) -> PortResult<()> {
        let prefix = prefix_of(space, key);
        let mut batch = Batch::default();
        if key.is_some() {
            batch.put_value(Family::Host, &prefix, &Row::Going);
        } else {
            self.settings.crawls.retain(|(_, known)| *known != space);
            batch.put_value(Family::Meta, SETTINGS, &self.settings);
        }
        // From here on it is gone, whatever a crash leaves of it.
        self.kv.commit(&batch, Durability::Disk)?;
        self.delete_under(&prefix)
    }

    fn disk_bytes(&self) -> PortResult<u64> {
        self.kv.disk_bytes()
    }
}

/// Queues that are read together when a state is opened.
const QUEUES_AT_ONCE: usize = 4_096;

fn space_prefix(space: Space) -> [u8; SPACE_BYTES] {
    space.0.to_be_bytes()
}

fn prefix_of(space: Space, key: Option<&str>) -> Vec<u8> {
    match key {
        Some(key) => queue_prefix(&QueueName { space, key: key.into() }),
        None => space_prefix(space).to_vec(),
    }
}

/// What all keys of a queue begin with. No other queue's begin with it.
fn queue_prefix(queue: &QueueName) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(SPACE_BYTES + queue.key.len() + 1 + ID_BYTES);
    prefix.extend_from_slice(&space_prefix(queue.space));
    for byte in queue.key.bytes() {
        if byte <= ESCAPE {
            prefix.extend_from_slice(&[ESCAPE, byte + 1]);
        } else {
            prefix.push(byte);
        }
    }
    prefix.push(0);
    prefix
}

/// The queue of a key, and what follows it.
fn read_queue(key: &[u8]) -> PortResult<(QueueName, &[u8])> {
    let bad = || broken("a queue's name", key);
    let (space, rest) = key.split_first_chunk().ok_or_else(bad)?;
    let end = rest.iter().position(|&byte| byte == 0).ok_or_else(bad)?;
    let mut name = Vec::with_capacity(end);
    let mut bytes = rest[..end].iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            ESCAPE => name.push(bytes.next().ok_or_else(bad)?.saturating_sub(1)),
            byte => name.push(byte),
        }
    }
    let key = String::from_utf8(name).map_err(|_| bad())?.into_boxed_str();
    Ok((QueueName { space: Space(u32::from_be_bytes(*space)), key }, &rest[end + 1..]))
}

fn url_key(prefix: &[u8], id: UrlId) -> Vec<u8> {
    [prefix, &id.to_be_bytes()].concat()
}

fn place_key(prefix: &[u8], moment: Seconds, url: &str) -> Vec<u8> {
    [prefix, &moment.to_be_bytes(), url.as_bytes()].concat()
}

/// Moment and text of a place in a queue.
fn read_place<'a>(prefix: &[u8], key: &'a [u8]) -> PortResult<(Seconds, &'a str)> {
    let bad = || broken("a place in a queue", key);
    let rest = key.get(prefix.len()..).ok_or_else(bad)?;
    let (moment, text) = rest.split_first_chunk::<MOMENT_BYTES>().ok_or_else(bad)?;
    Ok((Seconds::from_be_bytes(*moment), std::str::from_utf8(text).map_err(|_| bad())?))
}

fn broken(what: &str, bytes: &[u8]) -> PortError {
    PortError::corrupt(format!("read {what}"), format_args!("the row is {bytes:02x?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(space: u32, key: &str) -> QueueName {
        QueueName { space: Space(space), key: key.into() }
    }

    #[test]
    fn every_layout_is_pinned_and_read_back() {
        let name = queue(7, "a.test");
        let prefix = queue_prefix(&name);
        assert_eq!(prefix, b"\0\0\0\x07a.test\0");
        assert_eq!(place_key(&prefix, 258, "u"), b"\0\0\0\x07a.test\0\0\0\0\0\0\0\x01\x02u");
        assert_eq!(url_key(&prefix, UrlId(5))[prefix.len()..], 5_u128.to_be_bytes());
        for key in ["", "a.test", "a\0b", "\u{1}", "\u{1}\0\u{2}", "ö\u{10ffff}"] {
            let name = queue(u32::MAX, key);
            let prefix = queue_prefix(&name);
            let url = url_key(&prefix, UrlId(1));
            assert_eq!(read_queue(&url).unwrap(), (name, &UrlId(1).to_be_bytes()[..]));
            let place = place_key(&prefix, 9, "http://ü/");
            assert_eq!(read_place(&prefix, &place).unwrap(), (9, "http://ü/"));
        }
    }

    #[test]
    fn no_queue_lies_among_another_ones_rows() {
        let keys = ["", "\0", "\u{1}", "a", "a\0", "a\u{1}", "a\u{2}", "ab"];
        for a in keys {
            for b in keys.into_iter().filter(|b| *b != a) {
                let (a, b) = (queue_prefix(&queue(1, a)), queue_prefix(&queue(1, b)));
                assert!(!a.starts_with(&b), "{a:?} begins with {b:?}");
            }
        }
    }
}
