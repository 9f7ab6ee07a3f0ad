//! Does everything in a shard agree with everything else?
//!
//! Reads the whole state and compares: each queued URL has one place, each place a queued URL,
//! no place lies before its head, the counters say what is there, the filter knows every id. For tests, simulations
//! and doubts; it takes time and memory in proportion to the state.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ports::PortResult;
use types::{QueueKey, State, Timestamp};

use super::filter::Print;
use super::heads::Heads;
use super::keys;
use super::seen::SALTS_MAX;
use super::{Shard, meta, stored};
use crate::kv::{Family, Kv};

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

        let queued = self.check_queues(&mut say)?;
        let counters = self.meta.counters;
        let scheduled = self.all_dues()?.values().map(|due| due.len() as u64).sum::<u64>();
        let listed = meta::seeds(&self.kv, 0, usize::MAX)?.len() as u64;
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
            if keys::is_heads(key) {
                return Ok(());
            }
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

    /// Counts what waits. No entry may stand before the head of its band.
    fn check_queues(&self, say: &mut impl FnMut(String)) -> PortResult<u64> {
        let mut queued = 0;
        let mut heads = (Vec::new(), Heads::default());
        self.each_row(Family::Queue, |key, value| {
            let (prefix, _) = keys::read_host(key)?;
            if keys::is_heads(key) {
                heads = (prefix.to_vec(), Heads::read(value)?);
                return Ok(());
            }
            queued += 1;
            let place = keys::read_queue(key)?;
            let inside = |(from, until): &(_, _)| (*from..*until).contains(&place);
            if heads.0 == prefix && !heads.1.stretches(QueueKey::MIN).iter().any(inside) {
                say(format!("{place:?} of {prefix:?} stands before its head: {:?}", heads.1));
            }
            Ok(())
        })?;
        Ok(queued)
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
