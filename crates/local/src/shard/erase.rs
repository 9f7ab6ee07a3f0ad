//! How is a URL forgotten, and how does it stay away?
//!
//! Everything that names it goes: its row, its place in the queue, its due time, its seed, and where a whole
//! host goes, what was learnt of the host. What stays is a tombstone: a salted hash of the URL or of the
//! host, with the date and the reason. A link that would be new is looked up among them, so that it does not
//! come back; where nothing was ever forgotten that costs nothing.
//!
//! Always: a URL's rows and its tombstone change in one batch, so a death in between loses neither. What was
//! forgotten already is passed over, so the same call can be made again.
//!
//! A URL whose first id belongs to one that goes (two texts with one of 2^128 hashes) would be taken for new
//! afterwards: it would be visited once more, and nothing else.
//!
//! Not here: that deleted rows leave the files. A [`super::Shard::copy`] holds only what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use ports::shard_store::{Erased, Erasure, Forgotten, FoundSet, LetterBody, ScanCursor};
use ports::{PortError, PortResult, codec, failpoint};
use types::{CrawlUrl, HostKey, State, UrlId, VisitId};
use warc::{Algorithm, Digest};

use super::group::{Group, Verdict};
use super::keys;
use super::meta;
use super::seen::Keys;
use super::{Shard, stored};
use crate::kv::{Batch, Durability, Family, Kv, after_prefix, get_vec};

/// Records looked at for one batch.
const STEP: usize = 4_096;

/// What a tombstone is of.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum Of {
    Url = 0,
    Host = 1,
}

impl<K: Kv> Shard<K> {
    pub(super) fn erase_all(&mut self, erasure: &Erasure<'_>) -> PortResult<Erased> {
        let mut erased = Erased::default();
        self.erase_named(erasure)?;
        let mut cursor = ScanCursor::default();
        while !cursor.done {
            erased.urls += self.erase_step(&mut cursor, erasure)?;
            failpoint("forget_rows");
        }
        erased.hosts = self.erase_hosts(erasure)?;
        erased.letters = self.erase_letters(erasure)?;
        erased.seeds = self.erase_seeds(erasure)?;
        self.kv.sync()?;
        self.kv.purge()?;
        Ok(erased)
    }

    /// The tombstone of a URL, or of its host.
    pub(super) fn forgotten_of(&self, url: &CrawlUrl) -> PortResult<Option<Forgotten>> {
        let host = url.host_key();
        for (of, text) in [(Of::Url, url.as_str()), (Of::Host, host.as_str())] {
            if let Some(bytes) = get_vec(&self.kv, Family::Meta, &self.tombstone(of, text))? {
                let (at, reason) = codec::decode("a tombstone", &bytes)?;
                return Ok(Some(Forgotten { at, reason }));
            }
        }
        Ok(None)
    }

    /// Links that would be new and were forgotten are not taken.
    pub(super) fn refuse_forgotten(&self, group: &mut Group<'_>) -> PortResult<()> {
        if !self.meta.forgets {
            return Ok(());
        }
        let mut wanted = Keys::default();
        for (at, row) in group.rows.iter().enumerate() {
            if matches!(row.verdict, Verdict::New) && !row.visited {
                wanted.push_key(&self.tombstone(Of::Url, row.text), at);
                let host = group.hosts.slots[row.host].name;
                wanted.push_key(&self.tombstone(Of::Host, host), at);
            }
        }
        let rows = &mut group.rows;
        wanted.read(&self.kv, Family::Meta, |at, found| {
            if found.is_some() {
                rows[at].verdict = Verdict::Forgotten;
            }
            Ok(())
        })
    }

    /// The key of a tombstone. Salted, so that nobody who has the directory and a list of URLs can look
    /// for them in another.
    fn tombstone(&self, of: Of, text: &str) -> Vec<u8> {
        let seed = self.meta.format.hash_seed.to_be_bytes();
        let digest =
            Digest::of(Algorithm::Sha256, &[b"forgotten", &seed, &[of as u8], text.as_bytes()]);
        meta::forgotten_key(&digest.as_bytes()[..16])
    }

    fn bury_in(&self, batch: &mut Batch, of: Of, text: &str, erasure: &Erasure<'_>) {
        batch.put_value(Family::Meta, &self.tombstone(of, text), &(erasure.at, erasure.reason));
    }

    /// What was named gets its tombstone whether it was known or not. One that it has already stays.
    fn erase_named(&mut self, erasure: &Erasure<'_>) -> PortResult<()> {
        let mut batch = Batch::default();
        let url = erasure.named_url.map(|url| (Of::Url, url.as_str()));
        let host = erasure.named_host.map(|host| (Of::Host, host.as_str()));
        for (of, text) in url.into_iter().chain(host) {
            if get_vec(&self.kv, Family::Meta, &self.tombstone(of, text))?.is_none() {
                self.bury_in(&mut batch, of, text, erasure);
            }
        }
        self.kv.commit(&batch, Durability::Os)?;
        self.meta.forgets |= !batch.is_empty();
        Ok(())
    }

    /// Forgets URLs among the next records, in one batch.
    fn erase_step(&mut self, cursor: &mut ScanCursor, erasure: &Erasure<'_>) -> PortResult<u64> {
        let mut batch = Batch::default();
        let mut counters = self.meta.counters;
        let mut gone = Vec::new();
        // Those that stand in a queue, by their host's prefix.
        let mut queued: BTreeMap<Vec<u8>, BTreeSet<UrlId>> = BTreeMap::new();
        self.scan_records(cursor, STEP, |key, value| {
            let (prefix, _) = keys::read_host(key)?;
            let record = stored::read(keys::prefix_host(prefix)?.as_str(), value)?;
            if !(erasure.takes)(&record.url) {
                return Ok(());
            }
            let id = keys::read_id(key)?;
            batch.delete(Family::Url, key);
            counters.known = counters.known.saturating_sub(1);
            match record.due {
                Some(due) => {
                    batch.delete(Family::Due, &keys::due(due, prefix, id));
                    counters.scheduled = counters.scheduled.saturating_sub(1);
                }
                None if record.state == State::Queued => {
                    queued.entry(prefix.to_vec()).or_default().insert(id);
                }
                None => {}
            }
            gone.push((id, record.url));
            Ok(())
        })?;
        for (prefix, ids) in queued {
            let until = keys::after_host(&prefix);
            self.kv.scan(Family::Queue, &prefix, Some(&until), &mut |key, value| {
                if !keys::is_heads(key) && ids.contains(&keys::read_id(value)?) {
                    batch.delete(Family::Queue, key);
                    counters.queued = counters.queued.saturating_sub(1);
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        if gone.is_empty() {
            return Ok(0);
        }
        let mut hosts = BTreeSet::new();
        for (_, url) in &gone {
            let host = url.host_key();
            if (erasure.takes_host)(&host) {
                hosts.insert(host);
            } else {
                self.bury_in(&mut batch, Of::Url, url.as_str(), erasure);
            }
        }
        for host in &hosts {
            self.bury_in(&mut batch, Of::Host, host.as_str(), erasure);
        }
        meta::put_counters(&mut batch, &counters);
        self.kv.commit(&batch, Durability::Os)?;
        self.meta.counters = counters;
        self.meta.forgets = true;
        for (id, _) in &gone {
            self.recent.forget(*id);
            self.lent.forget(*id);
        }
        self.next_due = self.first_due(&[])?;
        Ok(gone.len() as u64)
    }

    /// What was learnt of hosts that go as a whole.
    fn erase_hosts(&mut self, erasure: &Erasure<'_>) -> PortResult<u64> {
        let mut prefixes: BTreeMap<Vec<u8>, HostKey> = BTreeMap::new();
        for family in [Family::Host, Family::Queue] {
            let until = after_prefix(&keys::ours());
            self.kv.scan(family, &keys::ours(), until.as_deref(), &mut |key, _| {
                let (prefix, _) = keys::read_host(key)?;
                if !prefixes.contains_key(prefix) {
                    let host = keys::prefix_host(prefix)?;
                    if (erasure.takes_host)(&host) {
                        prefixes.insert(prefix.to_vec(), host);
                    }
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        for (prefix, host) in &prefixes {
            let mut batch = Batch::default();
            let until = keys::after_host(prefix);
            for family in [Family::Host, Family::Queue] {
                self.kv.scan(family, prefix, Some(&until), &mut |key, _| {
                    // Entries went with their URLs; the heads are left.
                    if family == Family::Host || keys::is_heads(key) {
                        batch.delete(family, key);
                    }
                    Ok(ControlFlow::Continue(()))
                })?;
            }
            self.bury_in(&mut batch, Of::Host, host.as_str(), erasure);
            self.kv.commit(&batch, Durability::Os)?;
            self.meta.forgets = true;
            self.heads.pop(host.as_str());
        }
        Ok(prefixes.len() as u64)
    }

    /// Letters to other shards lose what names it. They keep their numbers: who reads them counts.
    fn erase_letters(&mut self, erasure: &Erasure<'_>) -> PortResult<u64> {
        let mut batch = Batch::default();
        let mut changed = 0;
        self.kv.scan(Family::Outbox, &[], None, &mut |key, value| {
            let (visit, body): (VisitId, LetterBody) = codec::decode("a letter", value)?;
            if let Some(body) = without(&body, erasure)? {
                batch.put_value(Family::Outbox, key, &(visit, body));
                changed += 1;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        self.kv.commit(&batch, Durability::Os)?;
        Ok(changed)
    }

    /// The last seed takes the place of one that goes, so that they stay numbered without a gap.
    fn erase_seeds(&mut self, erasure: &Erasure<'_>) -> PortResult<u64> {
        let mut gone = 0;
        let mut at = 0;
        while at < self.meta.counters.seed_seq {
            let seeds = meta::seeds(&self.kv, at, STEP)?;
            let Some(place) = seeds.iter().position(|url| (erasure.takes)(url)) else {
                at += seeds.len().max(1) as u64;
                continue;
            };
            at += place as u64;
            let mut counters = self.meta.counters;
            counters.seed_seq -= 1;
            let last = meta::seeds(&self.kv, counters.seed_seq, 1)?;
            let mut batch = Batch::default();
            meta::delete_seed(&mut batch, counters.seed_seq);
            if let (Some(last), true) = (last.first(), at < counters.seed_seq) {
                meta::put_seed(&mut batch, at, last);
            }
            meta::put_counters(&mut batch, &counters);
            self.kv.commit(&batch, Durability::Os)?;
            self.meta.counters = counters;
            gone += 1;
        }
        Ok(gone)
    }
}

/// What is left of a letter; none if it stays as it is.
fn without(body: &LetterBody, erasure: &Erasure<'_>) -> PortResult<Option<LetterBody>> {
    let links = match body {
        LetterBody::Links(links) => links,
        LetterBody::RobotsAsk { origin, url, .. } => {
            let goes = (erasure.takes)(url) || (erasure.takes_host)(&origin.host);
            return Ok(goes.then(|| LetterBody::Links(FoundSet::default())));
        }
        LetterBody::RobotsAnswer { origin, .. } => {
            let goes = (erasure.takes_host)(&origin.host);
            return Ok(goes.then(|| LetterBody::Links(FoundSet::default())));
        }
    };
    let mut kept = FoundSet::default();
    for found in links.iter() {
        let url = CrawlUrl::from_canonical(found.url)
            .map_err(|error| PortError::corrupt("read a letter", error))?;
        if !(erasure.takes)(&url) {
            kept.push(found);
        }
    }
    Ok((kept.len() < links.len()).then_some(LetterBody::Links(kept)))
}
