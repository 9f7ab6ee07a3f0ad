//! What should be in a store, kept in plain maps: too simple to be wrong.

use std::collections::BTreeMap;

use types::{
    CrawlUrl, Discovery, HostKey, HostState, QueueKey, Record, Refusal, State, Task, Timestamp,
};

use super::kit::url;
use crate::shard_store::Found;

/// What should be there.
#[derive(Default)]
pub(super) struct Model {
    pub(super) records: BTreeMap<CrawlUrl, Record>,
    /// Places in queues, by reversed host.
    pub(super) queues: BTreeMap<String, BTreeMap<QueueKey, CrawlUrl>>,
    pub(super) seeds: Vec<CrawlUrl>,
    pub(super) hosts: BTreeMap<HostKey, HostState>,
    pub(super) mark: u64,
    pub(super) letters: Vec<u64>,
    pub(super) log: Vec<u64>,
    pub(super) granted: BTreeMap<u64, Task>,
    pub(super) settled: Vec<u64>,
}

/// URLs that should now stand in a queue, in order, and whether they are new.
pub(super) type Wanted = Vec<(CrawlUrl, bool)>;

pub(super) fn count_new(want: &Wanted) -> usize {
    want.iter().filter(|(_, new)| *new).count()
}

impl Model {
    /// What offers of one batch lead to.
    pub(super) fn offer(&mut self, offers: &[(String, Found<'_>)], now: Timestamp) -> Wanted {
        // One batch is judged as a whole: each URL once, with the best of its finds.
        let mut merged: Vec<(CrawlUrl, Discovery)> = Vec::new();
        for (text, found) in offers {
            let url = url(text);
            let Found { depth, hops, seed, band, .. } = *found;
            let found = Discovery { at: now, depth, hops, seed, band };
            match merged.iter_mut().find(|(known, _)| *known == url) {
                Some((_, best)) => *best = nearest(*best, found),
                None => merged.push((url, found)),
            }
        }
        let mut want = Vec::new();
        for (url, found) in merged {
            let Some(record) = self.records.get_mut(&url) else {
                if found.seed {
                    self.seeds.push(url.clone());
                }
                self.records.insert(url.clone(), Record::new(url.clone(), found));
                want.push((url, true));
                continue;
            };
            if found.seed && !record.found.seed {
                self.seeds.push(url.clone());
            }
            let old = record.found;
            if found.depth < old.depth || found.hops < old.hops || (found.seed && !old.seed) {
                record.found = nearest(old, found);
            }
            if matches!(record.state, State::Blocked(Refusal::Setting { .. })) {
                record.state = State::Queued;
                want.push((url, false));
            }
        }
        want
    }

    /// The store has queued these; they must be the wanted ones.
    pub(super) fn enqueue(&mut self, tasks: &[Task], want: &Wanted) {
        let got: Vec<_> = tasks.iter().map(|task| &task.record.url).collect();
        assert_eq!(got, want.iter().map(|(url, _)| url).collect::<Vec<_>>());
        for task in tasks {
            let url = &task.record.url;
            assert_eq!(task.record, self.records[url]);
            assert_eq!(task.key.band, task.record.found.band);
            let queue = self.queues.entry(url.host_key().reversed()).or_default();
            assert!(queue.keys().all(|key| key.seq < task.key.seq), "numbers count up");
            queue.insert(task.key, url.clone());
        }
    }

    pub(super) fn leave(&mut self, url: &CrawlUrl, key: QueueKey) {
        let host = url.host_key().reversed();
        let queue = self.queues.get_mut(&host).unwrap();
        assert_eq!(queue.remove(&key).as_ref(), Some(url));
        if queue.is_empty() {
            self.queues.remove(&host);
        }
    }
}

pub(super) fn nearest(a: Discovery, b: Discovery) -> Discovery {
    Discovery {
        at: a.at.min(b.at),
        depth: a.depth.min(b.depth),
        hops: a.hops.min(b.hops),
        seed: a.seed || b.seed,
        band: a.band.min(b.band),
    }
}
