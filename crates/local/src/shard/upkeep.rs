//! How does the filter outlive the process?
//!
//! It is saved to a file every so many new URLs and at the end; the ids since then are in the
//! `fresh` family. The order is the promise: the file is durable before its note in `meta`, and the
//! note is written before `fresh` is trimmed. A crash between two steps costs time, never an
//! answer: every id is in the file or in `fresh`.
//!
//! Without a usable file the store answers exactly, only slower, while the filter is built from
//! the keys of `url` a few at a time. It grows in the same way.

use std::ops::{ControlFlow, Range};

use ports::{PortResult, failpoint};
use types::UrlId;

use super::filter::{Filter, Stamp};
use super::meta::{self, FilterNote};
use super::{Shard, keys};
use crate::kv::{Batch, Durability, Family, Kv};

/// Entries of `fresh` trimmed with each commit: a few milliseconds where a million at once would
/// hold up a second of commits.
const TRIM_STEP: u64 = 8192;

/// The filter's file, beside the database.
pub const FILTER_FILE: &str = "seen.filter";

/// The filter, and what is being done for it.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    /// None while the first one is built: the store alone answers then.
    pub(super) filter: Option<Filter>,
    rebuild: Option<Rebuild>,
    /// The `fresh` number at which the last file was saved, or could not be.
    saved_at: u64,
    generation: u64,
    /// Numbers of `fresh` that the file covers and that are still there.
    stale: Range<u64>,
}

/// A filter that learns the keys of `url`; it serves when it knows all.
#[derive(Debug)]
struct Rebuild {
    filter: Filter,
    from: Vec<u8>,
}

impl Upkeep {
    /// A new URL was written.
    pub(super) fn learn(&mut self, id: UrlId) {
        if let Some(filter) = &mut self.filter {
            filter.add(id);
        }
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.filter.add(id);
        }
    }
}

pub(super) fn fresh_key(seq: u64) -> [u8; 8] {
    keys::seq(seq)
}

impl<K: Kv> Shard<K> {
    /// Reads the filter's file and adds what is newer. Must come before the first verdict.
    pub(super) fn load_filter(&mut self) -> PortResult<()> {
        let note = self.meta.filter;
        self.upkeep.generation = note.generation;
        self.upkeep.saved_at = note.covered;
        self.upkeep.stale = self.first_fresh()?.unwrap_or(note.covered + 1)..note.covered + 1;
        let loaded = match self.kv.load_side(FILTER_FILE)? {
            None => None,
            Some(mut file) => match Filter::read(&mut *file) {
                // `fresh` was trimmed for a newer file than this: it does not know all.
                Ok((_, stamp)) if stamp.generation < note.generation => {
                    tracing::warn!(stamp.generation, note.generation, "an old filter is not used");
                    None
                }
                Ok(loaded) => Some(loaded),
                Err(error) => {
                    tracing::warn!(%error, "a damaged filter is not used; it is built anew");
                    None
                }
            },
        };
        if let Some((mut filter, stamp)) = loaded {
            self.upkeep.generation = stamp.generation;
            // All that is there, whatever its number: after a power loss numbers are used again.
            self.kv.scan(Family::Fresh, &[], None, &mut |_, id| {
                filter.add(keys::read_id(id)?);
                Ok(ControlFlow::Continue(()))
            })?;
            self.upkeep.filter = Some(filter);
        }
        if self.upkeep.filter.is_none() {
            self.begin_rebuild();
            if self.meta.counters.known <= self.settings.rebuild_at_open_max {
                self.rebuild_step(usize::MAX)?;
            }
        }
        Ok(())
    }

    fn first_fresh(&self) -> PortResult<Option<u64>> {
        let mut first = None;
        self.kv.scan(Family::Fresh, &[], None, &mut |key, _| {
            first = Some(keys::read_seq(key)?);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(first)
    }

    /// What is due after a commit. Its failure is not the commit's: it is told and tried later.
    pub(super) fn upkeep(&mut self) {
        let step = self.settings.rebuild_step;
        let result = self.rebuild_step(step).and_then(|()| {
            if self.filter_is_poor() {
                self.begin_rebuild();
            }
            let since = self.meta.counters.fresh_seq.saturating_sub(self.upkeep.saved_at);
            if since >= self.settings.checkpoint_urls {
                self.save_filter()?;
            }
            self.trim_step()
        });
        if let Err(error) = result {
            // Tried again after as many new URLs as before.
            self.upkeep.saved_at = self.meta.counters.fresh_seq;
            tracing::warn!(%error, "the filter of seen URLs was not kept");
        }
    }

    /// Too full to be of use, or a fifth of it speaks of URLs that are gone.
    fn filter_is_poor(&self) -> bool {
        let Some(filter) = &self.upkeep.filter else { return false };
        let dead = filter.count().saturating_sub(self.meta.counters.known);
        self.upkeep.rebuild.is_none()
            && (filter.count() > filter.capacity()
                || (filter.count() > self.settings.filter_urls_min && dead > filter.count() / 5))
    }

    fn begin_rebuild(&mut self) {
        let known = self.meta.counters.known;
        let capacity = (known + known / 2).max(self.settings.filter_urls_min);
        tracing::debug!(known, capacity, "the filter of seen URLs is built");
        let filter = Filter::with_capacity(capacity);
        self.upkeep.rebuild = Some(Rebuild { filter, from: Vec::new() });
    }

    /// Adds the next keys of `url`.
    fn rebuild_step(&mut self, limit: usize) -> PortResult<()> {
        let Some(rebuild) = &mut self.upkeep.rebuild else { return Ok(()) };
        let Rebuild { filter, from } = rebuild;
        let mut next = None;
        let mut count = 0;
        self.kv.scan(Family::Url, from, None, &mut |key, _| {
            if count == limit {
                next = Some(key.to_vec());
                return Ok(ControlFlow::Break(()));
            }
            count += 1;
            filter.add(keys::read_id(key)?);
            Ok(ControlFlow::Continue(()))
        })?;
        match next {
            Some(next) => *from = next,
            None => {
                self.upkeep.filter = self.upkeep.rebuild.take().map(|rebuild| rebuild.filter);
            }
        }
        Ok(())
    }

    /// Saves the filter, then notes it; then what it covers may be trimmed.
    pub(super) fn save_filter(&mut self) -> PortResult<()> {
        let Some(filter) = &self.upkeep.filter else { return Ok(()) };
        let covered = self.meta.counters.fresh_seq;
        let generation = self.upkeep.generation + 1;
        self.kv
            .save_side(FILTER_FILE, &mut |out| filter.write(Stamp { generation, covered }, out))?;
        self.upkeep.generation = generation;
        failpoint("filter_checkpoint");

        let note = FilterNote { generation, covered };
        let mut batch = Batch::default();
        meta::put_filter(&mut batch, note);
        self.kv.commit(&batch, Durability::Os)?;
        self.meta.filter = note;
        self.upkeep.saved_at = covered;
        let first = self.upkeep.stale.start.min(covered + 1);
        self.upkeep.stale = first..covered + 1;
        Ok(())
    }

    /// Trims the next entries of `fresh` that the file covers.
    fn trim_step(&mut self) -> PortResult<()> {
        let Range { start, end } = self.upkeep.stale;
        if start >= end {
            return Ok(());
        }
        let until = end.min(start + TRIM_STEP);
        self.kv.delete_range(Family::Fresh, &fresh_key(start), &fresh_key(until))?;
        self.upkeep.stale = until..end;
        Ok(())
    }

    /// Whether `fresh` holds ids that the filter's file does not.
    pub(super) fn filter_is_behind(&self) -> bool {
        self.meta.filter.covered < self.meta.counters.fresh_seq
    }
}
