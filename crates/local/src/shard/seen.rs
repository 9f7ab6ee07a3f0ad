//! Do we know this URL?
//!
//! For all URLs of a batch at once: the filter answers first (no: new), then the recent ones (known,
//! or never met), and what is left is read from `url` in one sorted sweep. Only the last is the
//! truth; the others save its price.
//!
//! A URL is stored under the hash of its text. Where another URL of its host has that id already,
//! it goes to the hash with a salt of 1, and so on; a reader goes the same way. Always: between a
//! URL's first id and its own, every id is taken by another text.

use std::ops::ControlFlow;

use ports::{PortError, PortResult};
use types::{CrawlUrl, Record, Refusal, State, UrlId, UrlRef};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::filter::Print;
use super::group::{Group, Row, RowIndex, Verdict, near_of};
use super::recent::Met;
use super::stored::{self, Stored};
use super::{Shard, keys};
use crate::kv::{Family, Kv, ManyFn};

/// Ids that are tried for one URL. Two texts with one of 2^128 hashes are an attack; more than a
/// few are beyond it.
pub(super) const SALTS_MAX: u64 = 16;

/// Questions whose memory is asked for together.
const AHEAD: usize = 32;

/// How a URL's text becomes its id; a salt above 0 gives another one.
pub type IdFn = fn(&str, u64) -> UrlId;

/// The id that every part of lycosa uses, and the further ones that only the store knows.
pub fn url_id(text: &str, salt: u64) -> UrlId {
    match salt {
        0 => UrlId::of(text),
        salt => UrlId(xxh3_128_with_seed(text.as_bytes(), salt)),
    }
}

/// A refusal that another offer overrules: whoever offers the URL has judged it by today's
/// settings and by a perhaps shorter way.
pub(super) fn is_open_to_offers(state: &State) -> bool {
    matches!(state, State::Blocked(Refusal::Setting { .. } | Refusal::Hops { .. }))
}

impl<K: Kv> Shard<K> {
    /// Gives every row of the group its verdict, and its id.
    pub(super) fn judge(&mut self, group: &mut Group<'_>) -> PortResult<()> {
        let mut exact = Keys::default();
        for at in 0..group.rows.len() {
            if at.is_multiple_of(AHEAD) {
                let end = group.rows.len().min(at + AHEAD);
                self.look_ahead(&group.rows[at..end]);
            }
            let row = &group.rows[at];
            if row.clashes || matches!(row.verdict, Verdict::Lent) {
                continue;
            }
            if let Some(verdict) = self.guess(row) {
                match verdict {
                    Verdict::New => self.seen.new += 1,
                    _ => self.seen.recent += 1,
                }
                group.rows[at].verdict = verdict;
                continue;
            }
            let id = row.id;
            let host = row.host;
            exact.push(group.hosts.prefix(host), id, at);
        }
        let mut sought: Vec<RowIndex> = self.read_exact(group, &mut exact)?;
        sought.extend((0..group.rows.len()).filter(|&at| group.rows[at].clashes));
        // In the order of the batch, so that the same batch always gives the same ids.
        sought.sort_unstable();
        sought.into_iter().try_for_each(|at| self.seek(group, at))
    }

    /// Brings what the next questions need into the processor's cache, all of it side by side: the
    /// tables are far larger, and one answer after the other would wait for memory each time.
    fn look_ahead(&self, rows: &[Row<'_>]) {
        let filter = self.upkeep.filter.as_ref();
        let touch = |row: &Row<'_>| {
            let block = filter.map_or(0, |filter| filter.touch(Print::of(row.id)));
            block ^ self.recent.touch(row.id)
        };
        std::hint::black_box(rows.iter().fold(0, |sum, row| sum ^ touch(row)));
    }

    /// What can be said without a look at the store.
    fn guess(&mut self, row: &Row<'_>) -> Option<Verdict> {
        if row.visited {
            return None;
        }
        let offer = row.offer?;
        let filter = self.upkeep.filter.as_ref();
        if filter.is_some_and(|filter| !filter.may_have(Print::of(row.id))) {
            return Some(Verdict::New);
        }
        match self.recent.find(row.id, row.text) {
            Met::Known(near) => near.covers(offer.near).then_some(Verdict::Recent),
            Met::Never => Some(Verdict::New),
            Met::Unsure => None,
        }
    }

    /// Reads the rows that are left. Answers those whose id belongs to another text.
    fn read_exact(&mut self, group: &mut Group<'_>, exact: &mut Keys) -> PortResult<Vec<RowIndex>> {
        let (rows, seen) = (&mut group.rows, &mut self.seen);
        let mut taken = Vec::new();
        exact.read(&self.kv, Family::Url, |at, bytes| {
            let row = &mut rows[at];
            if !row.visited {
                let answers = if bytes.is_some() { &mut seen.exact } else { &mut seen.in_vain };
                *answers += 1;
            }
            match bytes {
                None => row.verdict = Verdict::New,
                Some(bytes) => match known(row, bytes)? {
                    Some(verdict) => row.verdict = verdict,
                    None => taken.push(at),
                },
            }
            Ok(())
        })?;
        Ok(taken)
    }

    /// Seeks the id of a row whose first id belongs to another text.
    fn seek(&self, group: &mut Group<'_>, at: RowIndex) -> PortResult<()> {
        let (text, host) = (group.rows[at].text, group.rows[at].host);
        for salt in 0..SALTS_MAX {
            let id = (self.settings.ids)(text, salt);
            // New ones of this batch are not in the store yet.
            let staged = |(n, row): (usize, &Row<'_>)| {
                n != at && row.host == host && row.id == id && matches!(row.verdict, Verdict::New)
            };
            if group.rows.iter().enumerate().any(staged) {
                continue;
            }
            let key = group.key(at, id);
            let row = &mut group.rows[at];
            let mut verdict = Some(Verdict::New);
            self.kv.get(Family::Url, &key, &mut |bytes| {
                verdict = known(row, bytes)?;
                Ok(())
            })?;
            if let Some(verdict) = verdict {
                row.id = id;
                row.verdict = verdict;
                return Ok(());
            }
        }
        // Nothing that a page can say may stop the crawl: the link is dropped, and counted.
        tracing::warn!(url = text, "no place for a URL: its hashes are all taken");
        group.rows[at].verdict = Verdict::Unplaced;
        Ok(())
    }

    /// The id, key and record of a URL.
    pub(super) fn find(&self, url: &CrawlUrl) -> PortResult<Option<(UrlId, Vec<u8>, Record)>> {
        let prefix = keys::host_prefix(url.host());
        for salt in 0..SALTS_MAX {
            let id = (self.settings.ids)(url.as_str(), salt);
            let key = keys::url(&prefix, id);
            match self.record_at(&key)? {
                None => return Ok(None),
                Some(record) if record.url == *url => return Ok(Some((id, key, record))),
                Some(_) => {}
            }
        }
        Ok(None)
    }

    pub(super) fn record_at(&self, key: &[u8]) -> PortResult<Option<Record>> {
        let mut found = None;
        self.kv.get(Family::Url, key, &mut |bytes| {
            let (prefix, _) = keys::read_host(key)?;
            found = Some(stored::read(keys::prefix_host(prefix)?.as_str(), bytes)?);
            Ok(())
        })?;
        Ok(found)
    }
}

/// What a stored row says to one of the batch; none if it is another URL's.
fn known(row: &Row<'_>, bytes: &[u8]) -> PortResult<Option<Verdict>> {
    let stored = Stored::read(bytes)?;
    let url = UrlRef::from_canonical(row.text)
        .map_err(|error| PortError::corrupt("look for a URL", error))?;
    if !stored.is_of(url) {
        return Ok(None);
    }
    let near = near_of(&stored.found);
    let settled = row.offer.is_none_or(|offer| near.covers(offer.near));
    if settled && !row.visited && !is_open_to_offers(&stored.state()?) {
        return Ok(Some(Verdict::Known(near)));
    }
    Ok(Some(Verdict::Stored(Box::new(stored.record(url.host())?))))
}

/// Keys to be read together, each with what it is for; their bytes lie in one buffer.
#[derive(Debug, Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    spans: Vec<(usize, usize, usize)>,
}

impl Keys {
    pub(super) fn push(&mut self, prefix: &[u8], id: UrlId, what: usize) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(&id.to_be_bytes());
        self.spans.push((start, self.bytes.len(), what));
    }

    pub(super) fn push_key(&mut self, key: &[u8], what: usize) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.spans.push((start, self.bytes.len(), what));
    }

    /// Reads all keys in their order, each once, and tells everyone who asked.
    pub(super) fn read(
        &mut self,
        kv: &dyn Kv,
        family: Family,
        mut each: impl FnMut(usize, Option<&[u8]>) -> PortResult<()>,
    ) -> PortResult<()> {
        let sorted = self.sorted();
        read_each(kv, family, &sorted, &mut each)
    }

    /// The same for rows of a few hosts, of which many are wanted: where they lie close together,
    /// going over them is far cheaper than to look each up in every file.
    pub(super) fn read_near(
        &mut self,
        kv: &dyn Kv,
        family: Family,
        mut each: impl FnMut(usize, Option<&[u8]>) -> PortResult<()>,
    ) -> PortResult<()> {
        let sorted = self.sorted();
        let host = |wanted: &Wanted<'_>| wanted.key.len() - size_of::<UrlId>();
        let same = |a: &Wanted<'_>, b: &Wanted<'_>| a.key[..host(a)] == b.key[..host(b)];
        let mut scattered = Vec::new();
        for wanted in sorted.chunk_by(same) {
            let walked = match wanted.len() >= WALK_KEYS_MIN {
                true => walk(kv, family, wanted, &mut each)?,
                false => 0,
            };
            scattered.extend_from_slice(&wanted[walked..]);
        }
        read_each(kv, family, &scattered, &mut each)
    }

    /// The keys in their order, each once, with all who ask for it.
    fn sorted(&mut self) -> Vec<Wanted<'_>> {
        let bytes = &self.bytes;
        self.spans.sort_unstable_by(|a, b| bytes[a.0..a.1].cmp(&bytes[b.0..b.1]));
        let chunks = self.spans.chunk_by(|a, b| bytes[a.0..a.1] == bytes[b.0..b.1]);
        chunks.map(|spans| Wanted { key: &bytes[spans[0].0..spans[0].1], spans }).collect()
    }
}

/// Keys of one host that are worth a walk, and rows that it may pass for each of them. A host of
/// millions of URLs has few of them among its wanted ones: there the walk ends soon.
const WALK_KEYS_MIN: usize = 8;
const WALK_ROWS_PER_KEY: usize = 6;

/// A key to be read, and who asks for it.
#[derive(Debug, Clone, Copy)]
struct Wanted<'a> {
    key: &'a [u8],
    spans: &'a [(usize, usize, usize)],
}

impl Wanted<'_> {
    fn tell(&self, value: Option<&[u8]>, each: &mut ManyFn<'_>) -> PortResult<()> {
        self.spans.iter().try_for_each(|span| each(span.2, value))
    }
}

fn read_each(
    kv: &dyn Kv,
    family: Family,
    wanted: &[Wanted<'_>],
    each: &mut ManyFn<'_>,
) -> PortResult<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let keys: Vec<&[u8]> = wanted.iter().map(|wanted| wanted.key).collect();
    kv.get_many(family, &keys, &mut |n, value| wanted[n].tell(value, each))
}

/// Goes over the rows from the first wanted key on. Answers how many keys it came by before it
/// had passed too many rows.
fn walk(
    kv: &dyn Kv,
    family: Family,
    wanted: &[Wanted<'_>],
    each: &mut ManyFn<'_>,
) -> PortResult<usize> {
    let (first, last) = (wanted[0].key, wanted[wanted.len() - 1].key);
    let until = [last, &[0]].concat();
    let mut rows = wanted.len() * WALK_ROWS_PER_KEY;
    let mut done = 0;
    let mut weary = false;
    kv.scan(family, first, Some(&until), &mut |key, value| {
        while let Some(next) = wanted.get(done)
            && next.key <= key
        {
            next.tell((next.key == key).then_some(value), each)?;
            done += 1;
        }
        rows -= 1;
        weary = rows == 0;
        let enough = weary || done == wanted.len();
        Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if weary {
        return Ok(done);
    }
    // The rows came to their end: the others are not there.
    wanted[done..].iter().try_for_each(|wanted| wanted.tell(None, each))?;
    Ok(wanted.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::{Batch, Durability};
    use crate::memory::MemoryKv;

    /// Rows 0, 2, 4 … of one host and of its neighbours.
    fn rows(count: u128) -> MemoryKv {
        let mut kv = MemoryKv::new();
        let mut batch = Batch::default();
        for host in ["a.test", "b.test", "c.test"] {
            for n in (0..count).step_by(2) {
                let key = keys::url(&keys::host_prefix(host), UrlId(n));
                batch.put(Family::Url, &key, &n.to_be_bytes());
            }
        }
        kv.commit(&batch, Durability::Os).unwrap();
        kv
    }

    #[test]
    fn a_walk_finds_what_single_reads_find() {
        let kv = rows(2_000);
        // Close together, far apart, absent in the middle and at the end, few, and asked for twice.
        let sets: [Vec<u128>; 6] = [
            (100..160).collect(),
            (0..2_000).step_by(97).collect(),
            (1_990..2_040).collect(),
            (0..4).collect(),
            [5; 20].to_vec(),
            (0..30).chain(1_000..1_030).chain(5_000..5_020).collect(),
        ];
        for ids in sets {
            let asked = || {
                let mut keys = Keys::default();
                for (at, id) in ids.iter().enumerate() {
                    let host = if at % 3 == 0 { "a.test" } else { "b.test" };
                    keys.push(&keys::host_prefix(host), UrlId(*id), at);
                }
                keys
            };
            let mut found = [vec![None; ids.len()], vec![None; ids.len()]];
            let [single, walked] = &mut found;
            let value = |bytes: Option<&[u8]>| Some(bytes.map(<[u8]>::to_vec));
            let mut keys = asked();
            keys.read(&kv, Family::Url, |at, bytes| {
                assert_eq!(single[at].take(), None, "told once");
                single[at] = value(bytes);
                Ok(())
            })
            .unwrap();
            let mut keys = asked();
            keys.read_near(&kv, Family::Url, |at, bytes| {
                assert_eq!(walked[at].take(), None, "told once");
                walked[at] = value(bytes);
                Ok(())
            })
            .unwrap();
            assert_eq!(single, walked);
            assert!(single.iter().all(Option::is_some), "everyone is told");
            let there = single.iter().zip(&ids).filter(|(found, _)| **found != Some(None));
            assert!(there.clone().all(|(_, id)| *id < 2_000 && id % 2 == 0));
            assert_eq!(there.count(), ids.iter().filter(|id| **id < 2_000 && *id % 2 == 0).count());
        }
    }

    #[test]
    fn salts_give_other_ids_and_none_gives_the_one_that_all_know() {
        let ids: std::collections::BTreeSet<_> =
            (0..SALTS_MAX).map(|salt| url_id("http://a.test/", salt).0).collect();
        assert_eq!(ids.len() as u64, SALTS_MAX);
        assert_eq!(url_id("http://a.test/", 0), UrlId::of("http://a.test/"));
    }
}
