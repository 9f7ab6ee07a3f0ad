//! How does the filter outlive the process?
//!
//! The prints of its ids are written to a file every so many new URLs; the ids since then are in
//! the `fresh` family. The order is the promise: the file is durable before its note in `meta`, and
//! the note is written before `fresh` is trimmed. A crash between two steps costs time, never an
//! answer: every id is in the file or in `fresh`.
//!
//! Without a usable file the store answers exactly, only slower, while file and filter are made
//! anew from the keys of `url`, a few at a time.

use std::ops::{ControlFlow, Range};

use ports::shard_store::FilterFacts;
use ports::{PortResult, failpoint};
use types::UrlId;

use super::filter::{Filter, PARTS, Print};
use super::meta::{self, FilterNote};
use super::prints::Prints;
use super::{Shard, keys};
use crate::kv::{Batch, Durability, Family, Kv};

/// Entries of `fresh` trimmed with each commit: a few milliseconds where a million at once would
/// hold up a second of commits.
const TRIM_STEP: u64 = 8192;
/// Parts of the filter made anew with each commit, a few milliseconds each.
const GROW_STEP: usize = 4;
/// Strange ids that are tried on the filter to know how often it errs.
const SAMPLES: u32 = 20_000;
/// At the end of a process, fewer ids than this part of a segment stay in `fresh`: a file of many
/// short segments would be slow to read part by part.
const SHORT_SEGMENT: u64 = 16;

/// The filter, and what is being done for it.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    /// None while the first one is built: the store alone answers then.
    pub(super) filter: Option<Filter>,
    prints: Prints,
    rebuild: Option<Rebuild>,
    /// The `fresh` number at which the last segment was written, or could not be.
    saved_at: u64,
    /// Numbers of `fresh` that the file covers and that are still there.
    stale: Range<u64>,
    errors: u32,
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
        let print = Print::of(id);
        if let Some(filter) = &mut self.filter {
            filter.add(print);
        }
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.filter.add(print);
        }
        self.prints.add(print);
    }

    pub(super) fn facts(&self) -> FilterFacts {
        FilterFacts {
            urls: self.filter.as_ref().map_or(0, Filter::count),
            bytes: self.filter.as_ref().map_or(0, Filter::bytes),
            errors_per_million: self.errors,
        }
    }
}

pub(super) fn fresh_key(seq: u64) -> [u8; 8] {
    keys::seq(seq)
}

impl<K: Kv> Shard<K> {
    /// Makes the filter of the file, and adds what is newer. Must come before the first verdict.
    pub(super) fn load_filter(&mut self) -> PortResult<()> {
        let note = self.meta.filter;
        self.upkeep.saved_at = note.covered;
        self.upkeep.stale = self.first_fresh()?.unwrap_or(note.covered + 1)..note.covered + 1;
        let ids_min = self.settings.filter_urls_min;
        match Prints::load(&self.kv, note.generation, note.bytes, ids_min)? {
            None => {
                self.begin_rebuild();
                if self.meta.counters.known <= self.settings.rebuild_at_open_max {
                    self.rebuild_step(usize::MAX)?;
                }
            }
            Some((prints, filter)) => {
                self.upkeep.prints = prints;
                self.upkeep.filter = Some(filter);
                self.learn_fresh(note.covered)?;
                self.upkeep.sample();
            }
        }
        Ok(())
    }

    /// Adds what is in `fresh` and not in the file.
    fn learn_fresh(&mut self, covered: u64) -> PortResult<()> {
        let upkeep = &mut self.upkeep;
        self.kv.scan(Family::Fresh, &fresh_key(covered + 1), None, &mut |_, ids| {
            keys::read_ids(ids)?.for_each(|id| upkeep.learn(id));
            Ok(ControlFlow::Continue(()))
        })
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
            self.grow_step()?;
            if self.is_stale() {
                self.begin_rebuild();
            }
            let since = self.meta.counters.fresh_seq.saturating_sub(self.upkeep.saved_at);
            if since >= self.settings.checkpoint_urls && self.upkeep.filter.is_some() {
                self.save_prints()?;
            }
            self.trim_step()
        });
        if let Err(error) = result {
            // Tried again after as many new URLs as before.
            self.upkeep.saved_at = self.meta.counters.fresh_seq;
            tracing::warn!(%error, "the filter of seen URLs was not kept");
        }
    }

    /// Makes full parts of the filter larger.
    fn grow_step(&mut self) -> PortResult<()> {
        let Upkeep { filter: Some(filter), prints, .. } = &mut self.upkeep else { return Ok(()) };
        for _ in 0..GROW_STEP {
            let Some(part) = filter.full_part() else { break };
            filter.grow(part, &prints.of_part(&self.kv, part)?);
        }
        Ok(())
    }

    /// A fifth of the filter speaks of URLs that are gone.
    fn is_stale(&self) -> bool {
        let Some(filter) = &self.upkeep.filter else { return false };
        let count = filter.count();
        let dead = count.saturating_sub(self.meta.counters.known + self.meta.filter.doubled);
        count > self.settings.filter_urls_min && dead > count / 5
    }

    /// File and filter begin anew. Until they know all, the store alone answers: two filters would
    /// be twice the memory.
    fn begin_rebuild(&mut self) {
        let known = self.meta.counters.known;
        tracing::debug!(known, "the filter of seen URLs is built");
        self.upkeep.filter = None;
        self.upkeep.prints = Prints::begin(self.meta.filter.generation + 1);
        let share = known / PARTS as u64;
        let filter = Filter::with_room(&[share; PARTS], self.settings.filter_urls_min);
        self.upkeep.rebuild = Some(Rebuild { filter, from: Vec::new() });
    }

    /// Adds the next keys of `url`.
    fn rebuild_step(&mut self, limit: usize) -> PortResult<()> {
        let Some(Rebuild { filter, from }) = &mut self.upkeep.rebuild else { return Ok(()) };
        let prints = &mut self.upkeep.prints;
        let mut next = None;
        let mut count = 0;
        self.kv.scan(Family::Url, from, None, &mut |key, _| {
            if count == limit {
                next = Some(key.to_vec());
                return Ok(ControlFlow::Break(()));
            }
            count += 1;
            let print = Print::of(keys::read_id(key)?);
            filter.add(print);
            prints.add(print);
            Ok(ControlFlow::Continue(()))
        })?;
        if let Some(next) = next {
            *from = next;
            if prints.pending() as u64 >= self.settings.checkpoint_urls {
                prints.write(&mut self.kv)?;
            }
            return Ok(());
        }
        self.upkeep.filter = self.upkeep.rebuild.take().map(|rebuild| rebuild.filter);
        self.save_prints()
    }

    /// Writes the prints that are not on disk yet, then notes it; then what they cover may be
    /// trimmed.
    fn save_prints(&mut self) -> PortResult<()> {
        let covered = self.meta.counters.fresh_seq;
        self.upkeep.prints.write(&mut self.kv)?;
        failpoint("filter_checkpoint");

        let (prints, known) = (&self.upkeep.prints, self.meta.counters.known);
        let before = self.meta.filter;
        let doubled = match prints.generation() == before.generation {
            true => before.doubled,
            // URLs that came in while the keys were read may have been read as well.
            false => self.upkeep.filter.as_ref().map_or(0, Filter::count).saturating_sub(known),
        };
        let (generation, bytes) = (prints.generation(), prints.end());
        let note = FilterNote { generation, bytes, covered, doubled };
        let mut batch = Batch::default();
        meta::put_filter(&mut batch, note);
        self.kv.commit(&batch, Durability::Os)?;
        self.meta.filter = note;
        self.upkeep.saved_at = covered;
        let first = self.upkeep.stale.start.min(covered + 1);
        self.upkeep.stale = first..covered + 1;
        self.upkeep.sample();
        Ok(())
    }

    /// At the end of a process.
    pub(super) fn close_filter(&mut self) -> PortResult<()> {
        let behind = self.meta.counters.fresh_seq.saturating_sub(self.meta.filter.covered);
        if self.upkeep.filter.is_some() && behind >= self.settings.checkpoint_urls / SHORT_SEGMENT {
            self.save_prints()?;
        }
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
}

impl Upkeep {
    fn sample(&mut self) {
        let Some(filter) = &self.filter else { return };
        self.errors = filter.errors_among(SAMPLES) * (1_000_000 / SAMPLES);
    }
}
