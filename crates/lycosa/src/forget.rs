//! How is something forgotten everywhere?
//!
//! From the archive and its indexes, the state, the list of pages, the prints of texts, the full-text index, the
//! table, logs and reports of a crawl at rest, and so that no byte of it is left in a file of the directory. What stays are tombstones in
//! the state (`local::shard::erase`) and a line in `logs/forget.jsonl`: a hash, numbers, a date, a reason.
//!
//! 1. The journal says what is to be done. While it is there nobody else opens the crawl.
//! 2. The crawl settles its past, so that every output has heard of every visit and the logs are empty.
//! 3. Revisits that would lose their payload are made whole. Files of the archive are written anew, each
//!    record that stays at its old offset; then the outputs forget, then the state.
//! 4. Each database is copied row by row: its files may still hold what was deleted. When all copies are on
//!    the disk, the journal says so, and they take the places of the old ones.
//! 5. The report is made anew, the audit log gets its line, the journal goes.
//!
//! Always: each step can be done again. A death anywhere is followed by the same command, or by
//! `lycosa forget DIR` alone, which goes on by the journal.
//!
//! Not here, because they are not ours to change: what other pages say of it (their links, their redirects,
//! their text), backups, exports, and what lies in other places. They are named at the end.

mod outputs;
pub mod target;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use engine::Books;
use local::engine::{prints_folder, shard_folder};
use local::erase::{self, Moved};
use ports::shard_store::{CommitBatch, Erasure, ScanCursor};
use ports::{ArchiveEnd, PortResult, ShardStore, failpoint};
use serde::{Deserialize, Serialize};
use types::{Canon, CrawlUrl, HostKey, Record, Timestamp};
use warc::{Algorithm, Digest};

use self::outputs::{Erases, Wish};
use self::target::Target;
use crate::crawl::report_at_rest;
use crate::dir::{Dir, HeldDir, write_whole};
use crate::exit::Fail;
use crate::settings::layers::Resolved;
use crate::wiring::{self, Outputs};

/// The audit log's name in `logs/`.
pub const AUDIT_FILE: &str = "forget.jsonl";
/// Records looked at in one go.
const STEP: usize = 4_096;

/// What is done, in the state folder while it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Journal {
    /// Of its line in the audit log.
    id: String,
    what: String,
    reason: String,
    at: Timestamp,
    phase: Phase,
    counts: Counts,
    grown: Vec<Grown>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Phase {
    /// Everything up to the copies; all of it may be done again.
    Erasing,
    /// The copies are whole: what is left is to put them into their places.
    Swapping,
}

/// A file of the archive at whose end revisits were made whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grown {
    pub file: String,
    pub bytes: u64,
    pub moved: Vec<Moved>,
}

/// How much of what went, or would.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub urls: u64,
    pub seeds: u64,
    pub records: u64,
    pub record_bytes: u64,
    /// Files of the archive that they were in.
    pub files: u64,
    /// Revisits that were made whole, because what they referred to went.
    pub made_whole: u64,
    /// Entries of other outputs, by what these are.
    pub outputs: BTreeMap<String, u64>,
}

/// What was done, for people and scripts.
#[derive(Debug, Serialize)]
pub struct Told {
    pub directory: String,
    pub dry_run: bool,
    #[serde(flatten)]
    pub counts: Counts,
    /// What this command does not reach.
    pub left: Vec<String>,
}

impl Told {
    pub fn text(&self) -> String {
        let Counts { urls, seeds, records, record_bytes, files, made_whole, outputs } =
            &self.counts;
        let word = if self.dry_run { "would be forgotten" } else { "forgotten" };
        let seeds = if *seeds > 0 { format!(", {seeds} of them seeds") } else { String::new() };
        let mut out = format!(
            "{word}: {}{seeds}\n  archive    {}, {} in {}\n",
            counted(*urls, "URL"),
            counted(*records, "record"),
            crate::status::size(*record_bytes),
            counted(*files, "file"),
        );
        if *made_whole > 0 {
            out += &format!("             {} made whole\n", counted(*made_whole, "revisit"));
        }
        for (name, count) in outputs.iter().filter(|(_, count)| **count > 0) {
            out += &format!("  and        {count} {name}\n");
        }
        for left in &self.left {
            out += &format!("  not here   {left}\n");
        }
        out
    }
}

fn counted(n: u64, what: &str) -> String {
    crate::crawl::counted(n, what)
}

/// Counts what would go.
pub fn look(dir: &Dir, resolved: &Resolved, target: &Target) -> Result<Told, Fail> {
    let held = hold(dir)?;
    let mut counts = Counts::default();
    for store in &mut wiring::stores(dir, &held.mark)? {
        let mut cursor = ScanCursor::default();
        while !cursor.done {
            let records = store.records(&mut cursor, STEP)?;
            counts.urls += records.iter().filter(|record| target.takes(&record.url)).count() as u64;
        }
        engine::each_seed(&mut **store, |seed| counts.seeds += u64::from(target.takes(seed)))?;
    }
    for found in erase::check(&archive_files(dir)?, &|uri: &str| target.takes_uri(uri))? {
        counts.take(&found);
        counts.made_whole += found.orphans() as u64;
    }
    let prints = Outputs::at_rest(dir, &held.mark)?;
    let wish = Wish { target, grown: &[], dry: true };
    counts.ask(&outputs::all(dir, prints.duplicates), &wish)?;
    Ok(Told { directory: shown(dir), dry_run: true, counts, left: left(dir, resolved, target)? })
}

/// Forgets it. An erasure that was interrupted is finished first.
pub fn forget(
    dir: &Dir,
    resolved: &Resolved,
    what: Option<&str>,
    reason: &str,
    now: Timestamp,
) -> Result<Told, Fail> {
    let canon = Canon::new(&resolved.settings.url);
    let parse = |text: &str| Target::parse(text, &canon).map_err(Fail::usage);
    // Before anything is done.
    what.map(parse).transpose()?;
    let held = hold(dir)?;
    let mut told = None;
    if let Some(journal) = Journal::read(dir)? {
        let target = parse(&journal.what)?;
        told = Some(Work { held: &held, resolved, target, journal }.finish()?);
    }
    if let Some(what) = what {
        let target = parse(what)?;
        // Whoever has begun must be able to end.
        erase::check(&archive_files(dir)?, &|uri: &str| target.takes_uri(uri))?;
        let journal = Journal {
            id: uuid::Uuid::new_v4().to_string(),
            what: what.to_owned(),
            reason: reason.to_owned(),
            at: now,
            phase: Phase::Erasing,
            counts: Counts::default(),
            grown: Vec::new(),
        };
        journal.write(dir)?;
        failpoint("forget_begun");
        told = Some(Work { held: &held, resolved, target, journal }.finish()?);
    }
    told.ok_or_else(|| {
        Fail::usage(
            "what is to be forgotten? Name a URL, a host, or a pattern such as *.example.org",
        )
    })
}

fn hold(dir: &Dir) -> Result<HeldDir, Fail> {
    let root = dir.root().display();
    if let Some(process) = dir.holder() {
        return Err(Fail::failure(format!(
            "{root} is in use by another lycosa, process {process}, whose memory cannot be made to forget: \
             stop it first (kill -TERM {process}), and go on afterwards with: lycosa resume {root}"
        )));
    }
    // Who serves a frontier keeps no archive: its workers do, and they settle with its logs.
    if dir.state().join("foreign").exists() {
        return Err(Fail::failure(format!(
            "{root} belongs to `lycosa frontier`: its archives are with its workers; forget there what they \
             hold, and delete the URLs of other crawlers through their own queues"
        )));
    }
    dir.hold_to_erase()
}

impl Journal {
    fn read(dir: &Dir) -> anyhow::Result<Option<Self>> {
        match fs::read(dir.erasure()) {
            Ok(text) => {
                let doing = || format!("read {}", dir.erasure().display());
                serde_json::from_slice(&text).map(Some).with_context(doing)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("read {}", dir.erasure().display())),
        }
    }

    fn write(&self, dir: &Dir) -> anyhow::Result<()> {
        write_whole(&dir.erasure(), &serde_json::to_vec_pretty(self)?)
            .and_then(|()| sync(&dir.state()))
            .with_context(|| format!("write {}", dir.erasure().display()))
    }
}

impl Counts {
    fn take(&mut self, found: &erase::Found) {
        self.records += found.records;
        self.record_bytes += found.bytes;
        self.files += u64::from(!found.is_empty());
    }

    fn ask(&mut self, outputs: &[Box<dyn Erases>], wish: &Wish<'_>) -> anyhow::Result<()> {
        for output in outputs {
            let count = output.erase(wish).with_context(|| format!("erase {}", output.name()))?;
            *self.outputs.entry(output.name().to_owned()).or_default() += count;
        }
        Ok(())
    }
}

/// An erasure that is under way.
struct Work<'a> {
    held: &'a HeldDir,
    resolved: &'a Resolved,
    target: Target,
    journal: Journal,
}

impl Work<'_> {
    fn finish(mut self) -> Result<Told, Fail> {
        let dir = &self.held.dir;
        if self.journal.phase == Phase::Erasing {
            self.erase()?;
            self.journal.phase = Phase::Swapping;
            self.journal.write(dir)?;
            failpoint("forget_copied");
        }
        for folder in self.databases() {
            swap(&folder)?;
            failpoint("forget_swap");
        }
        if dir.report().exists() || dir.report_page().exists() {
            let mut stores = wiring::stores(dir, &self.held.mark)?;
            let about = (dir, &self.held.mark);
            let now = Timestamp::from(std::time::SystemTime::now());
            report_at_rest(&mut stores, about, self.resolved, now)?.write(dir)?;
        }
        self.audit()?;
        failpoint("forget_told");
        fs::remove_file(dir.erasure()).context("remove the journal")?;
        sync(&dir.state()).context("remove the journal")?;
        Ok(Told {
            directory: shown(dir),
            dry_run: false,
            counts: self.journal.counts.clone(),
            left: left(dir, self.resolved, &self.target)?,
        })
    }

    /// Everything up to whole copies of the databases.
    fn erase(&mut self) -> Result<(), Fail> {
        let dir = self.held.dir.clone();
        for folder in [dir.archive(), dir.indexes(), dir.pages(), dir.logs(), dir.reports()] {
            erase::clear_drafts(&folder)?;
        }
        self.keep_what_has_grown()?;
        let (mut books, duplicates) = self.settle()?;
        self.make_whole(&mut books)?;
        for path in archive_files(&dir)? {
            let found = erase::erase(&path, &|uri: &str| self.target.takes_uri(uri))?;
            self.journal.counts.take(&found);
            if !found.is_empty() {
                self.journal.write(&dir)?;
            }
        }
        let all = outputs::all(&dir, duplicates.clone());
        let wish = Wish { target: &self.target, grown: &self.journal.grown, dry: false };
        self.journal.counts.ask(&all, &wish)?;
        self.journal.write(&dir)?;
        self.erase_rows(&mut books)?;
        self.journal.write(&dir)?;
        self.copy(&mut books, duplicates.as_ref())
    }

    /// A file at whose end something was made whole before we died is known to the journal, and not yet to
    /// the state, which would cut it back.
    fn keep_what_has_grown(&self) -> Result<(), Fail> {
        if self.journal.grown.is_empty() {
            return Ok(());
        }
        let (dir, mark) = (&self.held.dir, &self.held.mark);
        for (shard, mut store) in (0..).zip(wiring::stores(dir, mark)?) {
            let retry = wiring::retry(&self.resolved.settings);
            let end = store.recover(self.journal.at, retry)?.archive_end;
            self.keep_grown_end(shard, &mut *store, end)?;
            store.close()?;
        }
        Ok(())
    }

    fn keep_grown_end(
        &self,
        shard: u16,
        store: &mut dyn ShardStore,
        end: Option<ArchiveEnd>,
    ) -> Result<(), Fail> {
        let (dir, mark) = (&self.held.dir, &self.held.mark);
        let names = wiring::archive_names(mark, &self.resolved.settings, shard)?;
        for grown in &self.journal.grown {
            let is_last = end.is_some_and(|end| names.serial(&grown.file) == Some(end.file));
            let there = fs::metadata(dir.archive().join(&grown.file)).map_or(0, |data| data.len());
            if let (true, Some(end)) = (is_last && there == grown.bytes, end) {
                let archive_end = Some(ArchiveEnd { bytes: grown.bytes, ..end });
                store.commit(CommitBatch {
                    archive_end,
                    durable: true,
                    ..CommitBatch::default()
                })?;
            }
        }
        Ok(())
    }

    fn settle(&self) -> Result<(Vec<Books>, Option<local::Duplicates>), Fail> {
        let (dir, mark) = (&self.held.dir, &self.held.mark);
        let settings = &self.resolved.settings;
        let opened = Outputs::open(dir, mark, settings)?.with_search(dir, mark, settings)?;
        let books = wiring::books(dir, mark, settings, &opened)?;
        let mut books = engine::settle(books, self.journal.at, wiring::retry(settings))?;
        // They hold files that are about to be others.
        for books in &mut books {
            books.archive = None;
            books.sinks.clear();
        }
        // Where pages are not compared any more, they may have been.
        let duplicates = match opened.duplicates {
            Some(duplicates) => Some(duplicates),
            None => Outputs::at_rest(dir, mark)?.duplicates,
        };
        Ok((books, duplicates))
    }

    fn make_whole(&mut self, books: &mut [Books]) -> Result<(), Fail> {
        let dir = self.held.dir.clone();
        let files = archive_files(&dir)?;
        let (target, journal) = (&self.target, &mut self.journal);
        let mut failed = None;
        let made = erase::make_whole(
            &files,
            &|uri: &str| target.takes_uri(uri),
            &mut |path: &Path, moved: &[Moved], bytes: u64| {
                let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                journal.grown.retain(|grown| grown.file != file);
                journal.grown.push(Grown { file, bytes, moved: moved.to_vec() });
                journal.write(&dir).map_err(|error| {
                    let told = ports::PortError::new(
                        ports::PortErrorKind::Io,
                        "write the journal",
                        &error,
                    );
                    failed = Some(error);
                    told
                })
            },
        );
        if let Some(error) = failed {
            return Err(error.into());
        }
        self.journal.counts.made_whole += made?;
        if self.journal.grown.is_empty() {
            return Ok(());
        }
        for (shard, books) in (0..).zip(books) {
            let names = wiring::archive_names(&self.held.mark, &self.resolved.settings, shard)?;
            let end = books.store.archive_end();
            self.keep_grown_end(shard, &mut *books.store, end)?;
            let mut judge = |record: &Record| {
                let mut record = record.clone();
                let place = record.last.as_mut()?.warc.as_mut()?;
                let grown = &self.journal.grown;
                let file =
                    grown.iter().find(|grown| names.serial(&grown.file) == Some(place.file))?;
                let moved = file.moved.iter().find(|moved| moved.from == place.offset)?;
                (place.offset, place.length) = (moved.to, moved.length);
                Some(record)
            };
            let mut cursor = ScanCursor::default();
            while !cursor.done {
                books.store.revise(&mut cursor, STEP, &mut judge)?;
            }
        }
        Ok(())
    }

    fn erase_rows(&mut self, books: &mut [Books]) -> Result<(), Fail> {
        let target = &self.target;
        let (url, host) = match target {
            Target::Url(url) => (Some(url), None),
            Target::Host(host) => (None, Some(host)),
            Target::Urls(_) | Target::Hosts(_) => (None, None),
        };
        let erasure = Erasure {
            takes: &|url: &CrawlUrl| target.takes(url),
            takes_host: &|host: &HostKey| target.takes_host(host),
            named_url: url,
            named_host: host,
            at: self.journal.at,
            reason: &self.journal.reason,
        };
        for books in books {
            let erased = books.store.erase(&erasure)?;
            self.journal.counts.urls += erased.urls;
            self.journal.counts.seeds += erased.seeds;
        }
        Ok(())
    }

    /// The databases of the crawl.
    fn databases(&self) -> Vec<PathBuf> {
        let state = self.held.dir.state();
        let shards = (0..self.held.mark.shards).map(|shard| shard_folder(&state, shard));
        shards.chain([prints_folder(&state)]).collect()
    }

    /// A copy of each database beside it, row by row.
    fn copy(
        &self,
        books: &mut [Books],
        duplicates: Option<&local::Duplicates>,
    ) -> Result<(), Fail> {
        let state = self.held.dir.state();
        let make =
            |folder: &Path,
             copy: &mut dyn FnMut(&Path) -> PortResult<ports::shard_store::CopyJob>| {
                let new = beside(folder, NEW);
                remove(&new)?;
                copy(&new)?()?;
                anyhow::Ok(())
            };
        for (shard, books) in (0..).zip(books) {
            books.store.close()?;
            let store = &mut books.store;
            make(&shard_folder(&state, shard), &mut |new: &Path| {
                store.copy(new).map(|copy| copy.job)
            })?;
        }
        if let Some(duplicates) = duplicates {
            make(&prints_folder(&state), &mut |new: &Path| duplicates.copy(new))?;
        }
        Ok(sync(&state).context("sync the state folder")?)
    }

    /// A line that says that something was forgotten, and not what. It is written once.
    fn audit(&self) -> Result<(), Fail> {
        #[derive(Serialize)]
        struct Line<'a> {
            id: &'a str,
            at: String,
            lycosa: &'static str,
            kind: &'static str,
            sha256: String,
            reason: &'a str,
            #[serde(flatten)]
            counts: &'a Counts,
        }
        let Journal { id, what, reason, at, counts, .. } = &self.journal;
        let digest = Digest::of(Algorithm::Sha256, &[what.trim().as_bytes()]);
        let line = Line {
            id,
            at: at.rfc3339(),
            lycosa: env!("CARGO_PKG_VERSION"),
            kind: self.target.kind(),
            sha256: digest.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect(),
            reason,
            counts,
        };
        let mut text = serde_json::to_string(&line)?;
        text.push('\n');
        let folder = self.held.dir.logs();
        let path = folder.join(AUDIT_FILE);
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(&folder)?;
            let before = match fs::read_to_string(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                before => before.unwrap_or_default(),
            };
            if before.lines().any(|line| line.contains(id.as_str())) {
                return Ok(());
            }
            let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
            // A line that a death has torn ends here.
            if !before.is_empty() && !before.ends_with('\n') {
                file.write_all(b"\n")?;
            }
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            sync(&folder)
        };
        Ok(write().with_context(|| format!("write {}", path.display()))?)
    }
}

const NEW: &str = "new";
const OLD: &str = "old";

/// Another folder of the same name, with an ending.
fn beside(folder: &Path, ending: &str) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    folder.with_file_name(name)
}

/// Puts the copy of a database into its place. Whatever was done of it before is passed over.
fn swap(folder: &Path) -> anyhow::Result<()> {
    let (new, old) = (beside(folder, NEW), beside(folder, OLD));
    let work = || -> std::io::Result<()> {
        if new.exists() {
            if folder.exists() {
                remove(&old)?;
                fs::rename(folder, &old)?;
            }
            fs::rename(&new, folder)?;
            folder.parent().map_or(Ok(()), sync)?;
        }
        remove(&old)
    };
    work().with_context(|| format!("replace {}", folder.display()))
}

fn remove(folder: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

fn shown(dir: &Dir) -> String {
    dir.root().display().to_string()
}

/// The files of the archive: ours, and those that somebody has put there.
fn archive_files(dir: &Dir) -> anyhow::Result<Vec<PathBuf>> {
    outputs::files(&dir.archive(), &[".warc.gz", ".warc"])
}

/// What this command does not reach, for whoever must.
fn left(dir: &Dir, resolved: &Resolved, target: &Target) -> anyhow::Result<Vec<String>> {
    let mut left = vec![
        "backups of this directory (`lycosa backup`), also where they share files with it by links"
            .to_owned(),
        "exports, and copies in object stores with their older versions".to_owned(),
        "what other pages say of it: their text, links and redirects are theirs".to_owned(),
    ];
    let settings = fs::read_to_string(dir.settings()).unwrap_or_default();
    if settings.lines().any(|line| target.is_named_in(line)) {
        left.push(format!("{} names it; edit it by hand", dir.settings().display()));
    }
    if let Target::Urls(_) = target {
        left.push(
            "URLs of that pattern that are not known yet: keep them out by crawl.exclude"
                .to_owned(),
        );
    }
    if !resolved.settings.archive.enabled {
        left.push(
            "visits were not archived here by the last settings (archive.enabled)".to_owned(),
        );
    }
    let entries = fs::read_dir(dir.root()).context("list the directory")?;
    for entry in entries {
        let name = entry.context("list the directory")?.file_name();
        let name = name.to_string_lossy();
        if !outputs::KNOWN.contains(&&*name) {
            left.push(format!("{name} in this directory, which lycosa does not look into"));
        }
    }
    for path in outputs::files(&dir.archive(), &[""])? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if ![".warc.gz", ".warc"].iter().any(|end| name.ends_with(end)) {
            left.push(format!("archive/{name}, which is no WARC file that lycosa can write anew"));
        }
    }
    Ok(left)
}
