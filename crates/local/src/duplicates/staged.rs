//! What do some lines of the log change?
//!
//! Rows are read once, changed in memory, and written in one batch: a line sees what the ones before it
//! have changed. What most lines need is read ahead, in the order of the keys.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use page::fingerprint::{Place, Prints, SimHash};
use ports::shard_store::VisitLine;
use ports::{PortError, PortResult, codec};
use types::{News, PageLine, UrlId};

use super::rows::{self, BLOCK_FAMILIES_MAX, BLOCKS, Block, MEMBERS, PAGES, PRINTS, Page, Rank};
use super::{Done, DuplicateCounts};
use crate::kv::{Batch, Family, Kv, get_vec};

pub(super) struct Staged<'a> {
    kv: &'a dyn Kv,
    rows: BTreeMap<(Family, Vec<u8>), Row>,
    counts: DuplicateCounts,
    next: u64,
}

struct Row {
    value: Option<Vec<u8>>,
    changed: bool,
}

impl<'a> Staged<'a> {
    pub(super) fn new(kv: &'a dyn Kv, counts: DuplicateCounts, next: u64) -> Self {
        Self { kv, rows: BTreeMap::new(), counts, next }
    }

    /// Reads what the lines will ask for: their pages, and the blocks of their texts.
    pub(super) fn look_ahead(&mut self, lines: &[VisitLine]) -> PortResult<()> {
        let mut keys = Vec::new();
        for line in lines {
            let Some(page) = &line.page else { continue };
            keys.push(rows::page(line.url.id()));
            if let Some(prints) = rows::prints_of(page) {
                keys.extend(rows::blocks(&prints).map(|(_, key)| key));
            }
        }
        keys.sort_unstable();
        keys.dedup();
        let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        // Pages and blocks are of one family.
        self.kv.get_many(BLOCKS, &wanted, &mut |n, value| {
            let row = Row { value: value.map(<[u8]>::to_vec), changed: false };
            self.rows.insert((BLOCKS, keys[n].clone()), row);
            Ok(())
        })
    }

    /// A page as the line tells it takes the place of the page as it was.
    pub(super) fn take(&mut self, line: &VisitLine) -> PortResult<()> {
        let Some(told) = &line.page else { return Ok(()) };
        let key = rows::page(line.url.id());
        let old = self.get(PAGES, &key)?.map(rows::read_page).transpose()?;
        let Some(prints) = rows::prints_of(told) else {
            return match (old, told.news) {
                // There is another page now, and nothing can be said of its text.
                (Some(old), News::Other) => self.forget(line.url.id(), &old),
                _ => Ok(()),
            };
        };
        match old {
            Some(old) if old.digest == rows::short_digest(&prints.digest) => {
                self.rank(line, &old, Rank::of(told, old.rank.at))
            }
            Some(old) => {
                self.forget(line.url.id(), &old)?;
                self.join(line, told, &prints, Some(&old))
            }
            None => self.join(line, told, &prints, None),
        }
    }

    /// Gives a page to the family that its text belongs to, or makes it the first of a new one.
    fn join(
        &mut self,
        line: &VisitLine,
        told: &PageLine,
        prints: &Prints,
        old: Option<&Page>,
    ) -> PortResult<()> {
        self.counts.judged += 1;
        let family = match self.find(prints)? {
            Some((family, exact)) => {
                *(if exact { &mut self.counts.exact } else { &mut self.counts.near }) += 1;
                family
            }
            None => self.found(prints)?,
        };
        // Whoever changes a little stays where it was in its family.
        let since = old.filter(|old| old.family == family).map_or(line.at, |old| old.rank.at);
        let rank = Rank::of(told, since);
        let id = line.url.id();
        let page = Page {
            family,
            rank,
            digest: rows::short_digest(&prints.digest),
            simhash: prints.simhash.0,
            url: line.url.clone(),
        };
        self.put(PAGES, rows::page(id), codec::encode(&page));
        self.put(MEMBERS, rows::member(family, rank, id), Vec::new());
        let members = self.size(family)? + 1;
        self.put(PRINTS, rows::size(family), codec::encode(&members));
        self.counts.pages += 1;
        Ok(())
    }

    /// The family whose text this is, or else the oldest of which it nearly is; and whether it is the
    /// same.
    fn find(&mut self, prints: &Prints) -> PortResult<Option<(u64, bool)>> {
        let mut nearest = None;
        for (place, key) in rows::blocks(prints) {
            let Block { families, simhashes } = self.block(&key)?;
            let Some(place) = place else {
                match families.first() {
                    Some(family) => return Ok(Some((*family, true))),
                    None => continue,
                }
            };
            for (n, family) in families.into_iter().enumerate() {
                let is_older = nearest.is_none_or(|nearest| family < nearest);
                let may_be = |simhash: &SimHash| prints.may_copy_at(place, *simhash);
                if is_older
                    && simhashes.get(n).is_none_or(may_be)
                    && prints.is_copy_at(place, &self.print(family)?)
                {
                    nearest = Some(family);
                }
            }
        }
        Ok(nearest.map(|family| (family, false)))
    }

    /// A family with this print, and no member yet.
    fn found(&mut self, prints: &Prints) -> PortResult<u64> {
        let family = self.next;
        self.next += 1;
        self.counts.originals += 1;
        self.put(PRINTS, rows::print(family), rows::write_print(prints));
        for (place, key) in rows::blocks(prints) {
            let mut block = self.block(&key)?;
            if block.families.len() >= BLOCK_FAMILIES_MAX {
                continue;
            }
            if place.is_some_and(Place::is_by_simhash) {
                self.complete(&mut block)?;
                block.simhashes.push(prints.simhash);
            }
            block.families.push(family);
            self.put(BLOCKS, key, rows::write_block(&block));
        }
        Ok(family)
    }

    /// Looks up the SimHashes of a row that was written before they stood in it.
    fn complete(&mut self, block: &mut Block) -> PortResult<()> {
        if block.simhashes.is_empty() {
            let simhashes = block.families.iter().map(|family| Ok(self.print(*family)?.simhash));
            block.simhashes = simhashes.collect::<PortResult<_>>()?;
        }
        Ok(())
    }

    /// The page leaves its family; the last one takes the family's print along.
    pub(super) fn forget(&mut self, id: UrlId, page: &Page) -> PortResult<()> {
        let family = page.family;
        self.delete(PAGES, rows::page(id));
        self.delete(MEMBERS, rows::member(family, page.rank, id));
        self.counts.pages -= 1;
        let members = self.size(family)?.saturating_sub(1);
        if members > 0 {
            self.put(PRINTS, rows::size(family), codec::encode(&members));
            return Ok(());
        }
        let prints = self.print(family)?;
        self.delete(PRINTS, rows::size(family));
        self.delete(PRINTS, rows::print(family));
        for (_, key) in rows::blocks(&prints) {
            let mut block = self.block(&key)?;
            block.remove(family);
            match block.families.is_empty() {
                true => self.delete(BLOCKS, key),
                false => self.put(BLOCKS, key, rows::write_block(&block)),
            }
        }
        self.counts.originals -= 1;
        Ok(())
    }

    /// The text is the same; the page may have come nearer.
    fn rank(&mut self, line: &VisitLine, page: &Page, rank: Rank) -> PortResult<()> {
        if page.rank == rank {
            return Ok(());
        }
        let id = line.url.id();
        self.delete(MEMBERS, rows::member(page.family, page.rank, id));
        self.put(MEMBERS, rows::member(page.family, rank, id), Vec::new());
        self.put(PAGES, rows::page(id), codec::encode(&Page { rank, ..page.clone() }));
        Ok(())
    }

    fn block(&mut self, key: &[u8]) -> PortResult<Block> {
        self.get(BLOCKS, key)?.map_or_else(|| Ok(Block::default()), rows::read_block)
    }

    fn print(&mut self, family: u64) -> PortResult<Prints> {
        let found = self.get(PRINTS, &rows::print(family))?;
        let found = found.ok_or_else(|| PortError::corrupt("find a print", "it is gone"))?;
        rows::read_print(found)
    }

    fn size(&mut self, family: u64) -> PortResult<u64> {
        self.get(PRINTS, &rows::size(family))?.map_or(Ok(0), rows::read_size)
    }

    fn get(&mut self, family: Family, key: &[u8]) -> PortResult<Option<&[u8]>> {
        let row = match self.rows.entry((family, key.to_vec())) {
            Entry::Occupied(row) => row.into_mut(),
            Entry::Vacant(row) => {
                row.insert(Row { value: get_vec(self.kv, family, key)?, changed: false })
            }
        };
        Ok(row.value.as_deref())
    }

    fn put(&mut self, family: Family, key: Vec<u8>, value: Vec<u8>) {
        self.rows.insert((family, key), Row { value: Some(value), changed: true });
    }

    fn delete(&mut self, family: Family, key: Vec<u8>) {
        self.rows.insert((family, key), Row { value: None, changed: true });
    }

    /// What is to be written, and what is true then.
    pub(super) fn finish(self) -> Done {
        let mut batch = Batch::default();
        for ((family, key), row) in self.rows.into_iter().filter(|(_, row)| row.changed) {
            match row.value {
                Some(value) => batch.put(family, &key, &value),
                None => batch.delete(family, &key),
            }
        }
        (batch, self.counts, self.next)
    }
}
