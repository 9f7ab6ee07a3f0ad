//! How does a page leave the index without a trace?
//!
//! A deleted document is only marked: its words and its text stay in the files until they are merged into
//! new ones. Here they are, at once: whatever has marked documents is written anew, and files that nobody
//! needs are removed.

use std::path::Path;

use ports::{PortResult, failpoint};
use tantivy::directory::MmapDirectory;
use tantivy::indexer::NoMergePolicy;
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, TantivyDocument};
use types::UrlId;

use crate::fault::port;
use crate::note::Note;
use crate::schema::{self, Fields, stored};
use crate::writer::MEMORY_BYTES_MIN;

/// Erases the pages whose URLs are named, from the index of a crawl at rest; says how many. Where there is
/// no index there is nothing to erase. Killed on its way, it does the rest when it is called again.
pub fn erase(folder: &Path, is_named: &mut dyn FnMut(&str) -> bool) -> PortResult<u64> {
    let doing = || format!("erase pages from the index in {}", folder.display());
    let Some((index, fields)) = open(folder, &doing)? else { return Ok(0) };
    let note = Note::of(&index).map_err(port(doing()))??;
    let named = named(&index, fields, is_named).map_err(port(doing()))?;
    rewrite(&index, fields, &note, &named).map_err(port(doing()))?;
    Ok(named.len() as u64)
}

/// How many pages [`erase`] would take.
pub fn count(folder: &Path, is_named: &mut dyn FnMut(&str) -> bool) -> PortResult<u64> {
    let doing = || format!("look for pages in the index in {}", folder.display());
    let Some((index, fields)) = open(folder, &doing)? else { return Ok(0) };
    Ok(named(&index, fields, is_named).map_err(port(doing()))?.len() as u64)
}

/// The index of a folder, if there is one.
fn open(folder: &Path, doing: &dyn Fn() -> String) -> PortResult<Option<(Index, Fields)>> {
    if !folder.is_dir() {
        return Ok(None);
    }
    let directory = MmapDirectory::open(folder).map_err(|error| port(doing())(error.into()))?;
    if !Index::exists(&directory).map_err(|error| port(doing())(error.into()))? {
        return Ok(None);
    }
    schema::open(directory).map(Some).map_err(port(doing()))
}

fn named(
    index: &Index,
    fields: Fields,
    is_named: &mut dyn FnMut(&str) -> bool,
) -> tantivy::Result<Vec<UrlId>> {
    /// Blocks of texts that are kept in memory: they are read one after another.
    const BLOCKS: usize = 2;
    // One that watches for commits would hold the files that are to go.
    let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual);
    let reader: IndexReader = reader.try_into()?;
    let mut named = Vec::new();
    for segment in reader.searcher().segment_readers() {
        let store = segment.get_store_reader(BLOCKS)?;
        for document in store.iter::<TantivyDocument>(segment.alive_bitset()) {
            let document = document?;
            let url = stored(&document, fields.url).unwrap_or_default();
            if is_named(url) {
                named.push(UrlId::of(url));
            }
        }
    }
    Ok(named)
}

fn rewrite(index: &Index, fields: Fields, note: &Note, named: &[UrlId]) -> tantivy::Result<()> {
    let memory = usize::try_from(MEMORY_BYTES_MIN).unwrap_or(usize::MAX);
    let mut writer: IndexWriter = index.writer_with_num_threads(1, memory)?;
    // What is merged is said here.
    writer.set_merge_policy(Box::new(NoMergePolicy));
    for id in named {
        writer.delete_term(fields.id_term(*id));
    }
    let mut prepared = writer.prepare_commit()?;
    prepared.set_payload(&note.to_string());
    prepared.commit()?;
    failpoint("search_erase");
    for segment in index.searchable_segment_metas()? {
        if segment.has_deletes() {
            writer.merge(&[segment.id()]).wait()?;
        }
    }
    // Before that, threads that are just ending may still hold what they have merged.
    writer.wait_merging_threads()?;
    let mut needed = index.load_metas()?.list_segment_files();
    needed.insert("meta.json".into());
    let removed = index.clone().directory_mut().garbage_collect(move || needed)?;
    match removed.failed_to_delete_files.first() {
        None => Ok(()),
        Some(path) => {
            let why = format!("{} cannot be removed", path.display());
            Err(std::io::Error::other(why).into())
        }
    }
}
