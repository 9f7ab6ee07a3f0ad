//! Does everything in a shard agree with everything else?
//!
//! Reads the whole state and compares: each queued URL has one place, each place a queued URL,
//! the facts and counters say what is there, the filter knows every id. For tests, simulations
//! and doubts; it takes time and memory in proportion to the state.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ports::{PortResult, codec};
use types::{QueueKey, State, Timestamp};

use super::facts::QueueFacts;
use super::filter::Print;
use super::keys::{self, HostKind};
use super::seen::SALTS_MAX;
use super::{Shard, meta, stored};
use crate::kv::{Family, Kv};

/// How many wait at a host, and the first number of each band.
type Counted = (u64, BTreeMap<u8, u64>);

impl<K: Kv> Shard<K> {
    /// Everything that does not agree, in words; empty when all is well.
    pub fn audit(&self) -> PortResult<Vec<String>> {
        let mut faults = Vec::new();
        let mut say = |fault: String| faults.push(fault);
        let mut places = self.all_places()?;
        let mut dues = self.all_dues()?;
        let mut seeds = 0;
        let mut known = 0;
        self.each_row(Family::Url, |key, value| {
            known += 1;
            let (prefix, _) = keys::read_host(key)?;
            let record = stored::read(keys::prefix_host(prefix)?.as_str(), value)?;
            let url = &record.url;
            let id = keys::read_id(key)?;
            let ids = self.settings.ids;
            if !(0..SALTS_MAX).any(|salt| ids(url.as_str(), salt) == id) {
                say(format!("{url} lies under an id that is not its own"));
            }
            let waits = record.state == State::Queued && record.due.is_none();
            let stands = places.remove(key).unwrap_or_default();
            if stands.len() != usize::from(waits) {
                say(format!("{url} is {:?} and stands in {stands:?}", record.state));
            }
            let due = dues.remove(key).unwrap_or_default();
            if due != Vec::from_iter(record.due) {
                say(format!("{url} is due at {:?} and listed for {due:?}", record.due));
            }
            if self.upkeep.filter.as_ref().is_some_and(|filter| !filter.may_have(Print::of(id))) {
                say(format!("the filter does not know {url}"));
            }
            seeds += u64::from(record.found.seed);
            Ok(())
        })?;
        places.into_values().for_each(|at| say(format!("{at:?} lead to no record")));
        dues.into_values().for_each(|at| say(format!("{at:?} lead to no record")));

        let counted = self.count_queues()?;
        let facts = self.all_facts()?;
        for (prefix, (waiting, heads)) in &counted {
            let Some(facts) = facts.get(prefix) else {
                say(format!("{prefix:?} has a queue and no facts"));
                continue;
            };
            let bands: BTreeMap<_, _> = facts.bands().iter().map(|b| (b.band, b)).collect();
            if facts.waiting() != *waiting || bands.keys().ne(heads.keys()) {
                say(format!("{prefix:?} has {waiting} waiting in {heads:?}, and says {facts:?}"));
            }
            for (band, first) in heads {
                if bands.get(band).is_some_and(|band| band.head > *first) {
                    say(format!("the head of {prefix:?} lies beyond its first: {facts:?}"));
                }
            }
        }
        for (prefix, facts) in &facts {
            if !counted.contains_key(prefix) {
                say(format!("{prefix:?} has facts and no queue: {facts:?}"));
            }
        }
        let counters = self.meta.counters;
        let queued: u64 = counted.values().map(|(waiting, _)| waiting).sum();
        let scheduled = self.all_dues()?.values().map(|due| due.len() as u64).sum::<u64>();
        let listed = meta::seeds(&self.kv)?.len() as u64;
        for (what, counter, found) in [
            ("known", counters.known, known),
            ("queued", counters.queued, queued),
            ("scheduled", counters.scheduled, scheduled),
            ("seeds", listed, seeds),
        ] {
            if counter != found {
                say(format!("{what}: {counter} by count, {found} found"));
            }
        }
        Ok(faults)
    }

    /// Places in queues, by the key of their URL.
    fn all_places(&self) -> PortResult<BTreeMap<Vec<u8>, Vec<QueueKey>>> {
        let mut places: BTreeMap<_, Vec<_>> = BTreeMap::new();
        self.each_row(Family::Queue, |key, value| {
            let (prefix, _) = keys::read_host(key)?;
            let url = keys::url(prefix, keys::read_id(value)?);
            places.entry(url).or_default().push(keys::read_queue(key)?);
            Ok(())
        })?;
        Ok(places)
    }

    fn all_dues(&self) -> PortResult<BTreeMap<Vec<u8>, Vec<Timestamp>>> {
        let mut dues: BTreeMap<_, Vec<_>> = BTreeMap::new();
        self.each_row(Family::Due, |key, _| {
            let (at, prefix, id) = keys::read_due(key)?;
            dues.entry(keys::url(&prefix, id)).or_default().push(at);
            Ok(())
        })?;
        Ok(dues)
    }

    fn all_facts(&self) -> PortResult<BTreeMap<Vec<u8>, QueueFacts>> {
        let mut facts = BTreeMap::new();
        self.each_row(Family::Host, |key, value| {
            let (prefix, rest) = keys::read_host(key)?;
            if rest == [HostKind::Queue as u8] {
                facts.insert(prefix.to_vec(), codec::decode("a queue's facts", value)?);
            }
            Ok(())
        })?;
        Ok(facts)
    }

    /// By host prefix.
    fn count_queues(&self) -> PortResult<BTreeMap<Vec<u8>, Counted>> {
        let mut queues: BTreeMap<Vec<u8>, Counted> = BTreeMap::new();
        self.each_row(Family::Queue, |key, _| {
            let (prefix, _) = keys::read_host(key)?;
            let place = keys::read_queue(key)?;
            let (waiting, heads) = queues.entry(prefix.to_vec()).or_default();
            *waiting += 1;
            heads.entry(place.band).or_insert(place.seq);
            Ok(())
        })?;
        Ok(queues)
    }

    fn each_row(
        &self,
        family: Family,
        mut each: impl FnMut(&[u8], &[u8]) -> PortResult<()>,
    ) -> PortResult<()> {
        self.kv.scan(family, &[], None, &mut |key, value| {
            each(key, value)?;
            Ok(ControlFlow::Continue(()))
        })
    }
}
