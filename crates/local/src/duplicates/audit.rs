//! Do all rows agree with each other?
//!
//! For tests and simulations: it reads everything.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use page::fingerprint::SimHash;
use ports::PortResult;
use types::UrlId;

use super::Store;
use super::rows::{self, ALL_BLOCKS, ALL_PAGES, BLOCKS, MEMBERS, PAGES, PRINTS, Page};

pub(super) fn each_page(store: &Store, each: &mut dyn FnMut(Page)) -> PortResult<()> {
    let (from, until) = ALL_PAGES;
    store.kv.scan(PAGES, from, Some(until), &mut |_, value| {
        each(rows::read_page(value)?);
        Ok(ControlFlow::Continue(()))
    })
}

/// What is wrong, in sentences.
pub(super) fn audit(store: &Store) -> PortResult<Vec<String>> {
    let mut wrong = Vec::new();
    let mut members: BTreeMap<u64, Vec<(UrlId, Vec<u8>)>> = BTreeMap::new();
    store.kv.scan(MEMBERS, &[], None, &mut |key, _| {
        let (family, id) = rows::read_member(key)?;
        members.entry(family).or_default().push((id, key.to_vec()));
        Ok(ControlFlow::Continue(()))
    })?;
    let mut pages = 0;
    each_page(store, &mut |page| {
        pages += 1;
        let id = page.url.id();
        let key = rows::member(page.family, page.rank, id);
        let of = members.get(&page.family).map_or(&[][..], Vec::as_slice);
        if of.iter().filter(|(member, _)| *member == id).count() != 1 || !of.contains(&(id, key)) {
            wrong.push(format!("{} is not one of family {}", page.url, page.family));
        }
    })?;
    let listed: usize = members.values().map(Vec::len).sum();
    if listed != pages {
        wrong.push(format!("{listed} members of families, {pages} pages"));
    }
    let (counts, originals) = (store.counts, members.len() as u64);
    if (counts.pages, counts.originals) != (pages as u64, originals) {
        wrong.push(format!("{pages} pages and {originals} families were counted as {counts:?}"));
    }
    for (&family, of) in &members {
        let size = rows::members_of(&*store.kv, family)?;
        if size != of.len() as u64 {
            wrong.push(format!("family {family} has {} members and knows of {size}", of.len()));
        }
    }
    let mut prints = 0;
    let mut simhashes: BTreeMap<u64, SimHash> = BTreeMap::new();
    let mut places: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
    store.kv.scan(PRINTS, &[], None, &mut |key, value| {
        if let Ok(family) = key.try_into().map(u64::from_be_bytes) {
            prints += 1;
            if !members.contains_key(&family) || family >= store.next {
                wrong.push(format!("family {family} has a print and no member"));
            }
            let print = rows::read_print(value)?;
            simhashes.insert(family, print.simhash);
            for (_, key) in rows::blocks(&print) {
                places.entry(key).or_default().push(family);
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if prints != members.len() {
        wrong.push(format!("{prints} prints of {} families", members.len()));
    }
    store.kv.scan(BLOCKS, ALL_BLOCKS, None, &mut |key, value| {
        let block = rows::read_block(value)?;
        for (family, simhash) in block.families.iter().zip(&block.simhashes) {
            if simhashes.get(family) != Some(simhash) {
                wrong.push(format!("block {key:?} has another SimHash for family {family}"));
            }
        }
        let mut named = block.families;
        named.sort_unstable();
        let stand = places.remove(key).unwrap_or_default();
        // A block that was full has left some out.
        let full = stand.len() > rows::BLOCK_FAMILIES_MAX;
        let left_out = stand.iter().any(|family| named.binary_search(family).is_err());
        if named.iter().any(|family| !stand.contains(family)) || (left_out && !full) {
            wrong.push(format!("block {key:?} names {named:?}, and {stand:?} stand there"));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if let Some((key, families)) = places.first_key_value() {
        wrong.push(format!("{families:?} stand at {key:?}, where nothing is"));
    }
    Ok(wrong)
}
