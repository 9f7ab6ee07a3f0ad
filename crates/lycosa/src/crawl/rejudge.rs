//! The rules have changed since the last run: what must be judged again?
//!
//! A fingerprint of the rules lies in the state. When it differs, refused URLs go back into their
//! queues, where the gate judges them anew; URLs that are queued are judged at their turn in any
//! case. Links that were never accepted, because the old scope left them out, are read again from
//! the archive's metadata records; pages that are not in the archive are counted and told.
//!
//! The fingerprint is renewed last: a crash in between repeats the work, which changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use engine::{Books, Opened};
use frontier::Scope;
use ports::shard_store::{Rejudge, ScanCursor};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use types::record::LastVisit;
use types::{CrawlUrl, Timestamp};

use super::counted;
use crate::dir::{Dir, Mark};
use crate::settings::Settings;
use crate::wiring;

const NOTE: &str = "rules";

/// The rules by which URLs are accepted or refused.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Rules {
    scope: Json,
    addresses: Json,
    redirects: Json,
    robots: Json,
}

impl Rules {
    pub fn of(settings: &Settings) -> Self {
        let crawl = &settings.crawl;
        let ports: Vec<String> = settings.network.ports.iter().map(ToString::to_string).collect();
        Self {
            scope: json!([
                crawl.scope.as_str(),
                crawl.include,
                crawl.exclude,
                crawl.max_depth,
                crawl.url_bytes_max,
                settings.url,
            ]),
            addresses: json!([settings.network.allow, ports, settings.identity.contact.is_some(),]),
            redirects: json!(settings.fetch.redirects_max),
            robots: json!([settings.robots.obey, settings.identity.product, ignored(settings)]),
        }
    }

    fn scope_differs(&self, old: &Self) -> bool {
        self.scope != old.scope
    }

    fn rejudge(&self, old: &Self) -> Rejudge {
        Rejudge {
            settings: self.scope != old.scope
                || self.addresses != old.addresses
                || self.redirects != old.redirects,
            robots: self.robots != old.robots,
        }
    }
}

/// Hosts whose robots.txt does not count, or counts in spite of all.
fn ignored(settings: &Settings) -> Vec<(String, bool)> {
    let sheets =
        settings.sheet.iter().filter_map(|sheet| Some((&sheet.hosts, sheet.ignore_robots?)));
    let hosts = sheets.flat_map(|(hosts, said)| hosts.iter().map(move |host| (host, said)));
    hosts.map(|(host, said)| (host.to_string(), said)).collect()
}

/// What is to be done, found before the shards settle their past.
#[derive(Debug)]
pub struct Change {
    rules: Rules,
    old: Option<Rules>,
    /// Links of the archive that the new scope takes.
    links: Option<PathBuf>,
    beyond: Beyond,
}

/// What was done.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Done {
    pub rejudged: u64,
    pub offered: usize,
    pub accepted: usize,
    pub beyond: Beyond,
}

/// Pages whose links cannot be read again.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Beyond {
    /// They were visited while nothing was archived.
    unarchived: u64,
    /// Their files are not there any more.
    moved_away: u64,
    files: BTreeSet<String>,
}

impl Beyond {
    pub const fn pages(&self) -> u64 {
        self.unarchived + self.moved_away
    }

    /// What cannot be judged again and why; none if everything can.
    pub fn sentence(&self) -> Option<String> {
        if self.pages() == 0 {
            return None;
        }
        let mut why = Vec::new();
        if self.unarchived > 0 {
            why.push(format!("{} not archived (archive.enabled = false)", self.unarchived));
        }
        if let Some(file) = self.files.first() {
            let files = counted(self.files.len() as u64, "missing archive file");
            why.push(format!("{} in {files}, such as {file}", self.moved_away));
        }
        Some(format!(
            "the links of {} cannot be judged again by the new rules ({}); what is linked from \
             there alone stays out, unless you add it as a seed",
            counted(self.pages(), "page"),
            why.join("; ")
        ))
    }

    /// Looks at every page that has been visited.
    fn find(
        dir: &Dir,
        mark: &Mark,
        books: &mut [Books],
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let mut beyond = Self::default();
        for (shard, books) in (0..).zip(books) {
            let names = wiring::archive_names(mark, settings, shard)?;
            // Every page asks, few files answer.
            let mut there: BTreeMap<u32, bool> = BTreeMap::new();
            let mut cursor = ScanCursor::default();
            while !cursor.done {
                for record in books.store.records(&mut cursor, STEP)? {
                    let Some(last) = record.last.filter(|last| has_links(last)) else { continue };
                    let Some(place) = last.warc else {
                        beyond.unarchived += 1;
                        continue;
                    };
                    let name = || names.file_name(place.file);
                    let exists = || dir.archive().join(name()).exists();
                    if !*there.entry(place.file).or_insert_with(exists) {
                        beyond.moved_away += 1;
                        beyond.files.insert(name());
                    }
                }
            }
        }
        Ok(beyond)
    }
}

/// Records read in one go.
const STEP: usize = 4_096;

/// Whether there was a link on it that the new rules could take.
fn has_links(last: &LastVisit) -> bool {
    (last.answer.links > 0 && !last.answer.nofollow) || last.target_refused.is_some()
}

impl Change {
    /// Compares the rules with those of the last run, and reads the archive if the scope differs.
    pub fn find(
        dir: &Dir,
        mark: &Mark,
        books: &mut [Books],
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let rules = Rules::of(settings);
        let Some(first) = books.first_mut() else { anyhow::bail!("a crawl has a shard") };
        // A note that cannot be read is one of another time: everything is judged again.
        let noted = first.store.note(NOTE)?;
        let old = noted.map(|bytes| serde_json::from_slice(&bytes).unwrap_or_default());
        let mut change = Self { rules, old, links: None, beyond: Beyond::default() };
        if change.old.as_ref().is_some_and(|old| change.rules.scope_differs(old)) {
            change.links = Some(read_links(dir, books, settings)?);
            change.beyond = Beyond::find(dir, mark, books, settings)?;
        }
        Ok(change)
    }

    /// Puts back what was refused and offers the links; says what was done, if anything.
    pub fn apply(self, opened: &mut Opened, now: Timestamp) -> anyhow::Result<Option<Done>> {
        let changed = self.old.as_ref().is_some_and(|old| *old != self.rules);
        let mut done = Done { beyond: self.beyond, ..Done::default() };
        if let Some(old) = &self.old
            && changed
        {
            done.rejudged = opened.rejudge(self.rules.rejudge(old))?;
        }
        if let Some(path) = &self.links {
            offer_links(path, opened, now, &mut done)?;
            std::fs::remove_file(path).context("remove the list of links")?;
        }
        if self.old.as_ref() != Some(&self.rules) {
            opened.set_note(NOTE, &serde_json::to_vec(&self.rules)?)?;
        }
        Ok(changed.then_some(done))
    }
}

/// Links offered in one go.
const BATCH: usize = 10_000;

fn offer_links(
    path: &Path,
    opened: &mut Opened,
    now: Timestamp,
    done: &mut Done,
) -> anyhow::Result<()> {
    let mut batch: Vec<(CrawlUrl, u16)> = Vec::new();
    let mut offer = |batch: &mut Vec<(CrawlUrl, u16)>| -> anyhow::Result<()> {
        done.offered += batch.len();
        done.accepted +=
            opened.offer(batch.iter().map(|(url, depth)| (url, *depth)), false, now)?;
        batch.clear();
        Ok(())
    };
    for line in BufReader::new(File::open(path)?).lines() {
        let line = line?;
        let Some((depth, url)) = line.split_once(' ') else { continue };
        let (Ok(depth), Ok(url)) = (depth.parse(), CrawlUrl::from_canonical(url)) else { continue };
        batch.push((url, depth));
        if batch.len() == BATCH {
            offer(&mut batch)?;
        }
    }
    if !batch.is_empty() {
        offer(&mut batch)?;
    }
    Ok(())
}

/// The largest metadata record: 10,000 links of 2 KB.
const METADATA_BYTES_MAX: u64 = 64 << 20;

/// Writes the links of the archive that the scope takes to a file, a line each.
fn read_links(dir: &Dir, books: &mut [Books], settings: &Settings) -> anyhow::Result<PathBuf> {
    let mut scope = Scope::new(&settings.crawl).map_err(anyhow::Error::msg)?;
    for books in books.iter_mut() {
        engine::each_seed(&mut *books.store, |seed| scope.add_seed(seed))?;
    }
    let path = dir.state().join("rejudge.tmp");
    let mut out = BufWriter::new(File::create(&path).context("begin the list of links")?);
    let mut names: Vec<PathBuf> = match std::fs::read_dir(dir.archive()) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => Vec::new(),
    };
    names.retain(|name| name.to_string_lossy().ends_with(".warc.gz"));
    names.sort();
    let canon = types::Canon::new(&settings.url);
    for name in names {
        let file = File::open(&name).with_context(|| format!("open {}", name.display()))?;
        let mut reader = warc::Reader::new(BufReader::with_capacity(1 << 17, file));
        loop {
            let header = match reader.next_record() {
                Ok(Some(header)) => header,
                Ok(None) => break,
                Err(error) => {
                    // A tail that the last run left torn is cut when the shard is opened.
                    tracing::debug!(file = %name.display(), %error, "end of an archive file");
                    break;
                }
            };
            if header.fields.get("WARC-Type") != Some("metadata") {
                continue;
            }
            let url = header.fields.get("WARC-Target-URI").unwrap_or_default();
            let Ok(page) = CrawlUrl::from_canonical(url) else { continue };
            let Ok(Some(block)) = reader.block(METADATA_BYTES_MAX) else { continue };
            if is_nofollow(&page, books)? {
                continue;
            }
            judge_links(&warc::Fields::parse(&block), &scope, &canon, &mut out)?;
        }
    }
    out.flush()?;
    Ok(path)
}

/// The page itself asked that none of its links be followed.
fn is_nofollow(page: &CrawlUrl, books: &mut [Books]) -> anyhow::Result<bool> {
    let shards = u16::try_from(books.len()).context("shards are counted in a u16")?;
    let shard = usize::from(page.site().shard(shards).0);
    let record = books[shard].store.record(page)?;
    Ok(record.and_then(|record| record.last).is_some_and(|last| last.answer.nofollow))
}

fn judge_links(
    fields: &warc::Fields,
    scope: &Scope,
    canon: &types::Canon,
    out: &mut impl std::io::Write,
) -> std::io::Result<()> {
    let depth: u16 = fields.get("depth").and_then(|depth| depth.parse().ok()).unwrap_or(0);
    for link in fields.all("outlink") {
        let mut words = link.split(' ');
        let (Some(url), kind, mark) = (words.next(), words.next(), words.next()) else { continue };
        if mark == Some("nofollow") {
            continue;
        }
        // A redirect's target stays at the depth of the URL that named it.
        let depth = match kind {
            Some("L") => depth.saturating_add(1),
            Some("R") => depth,
            _ => continue,
        };
        let Ok(url) = canon.parse(url) else { continue };
        if scope.judge((&url).into(), depth).is_ok() {
            writeln!(out, "{depth} {url}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontier::{CrawlSettings, ScopeKind};

    #[test]
    fn only_rules_that_changed_are_applied_again() {
        let before = Settings::default();
        let mut after = before.clone();
        after.politeness.delay = types::HumanDuration::from_secs(9);
        assert_eq!(Rules::of(&before), Rules::of(&after));
        after.crawl.scope = ScopeKind::Domain;
        let (old, new) = (Rules::of(&before), Rules::of(&after));
        assert!(new.scope_differs(&old) && new.rejudge(&old).settings);
        assert!(!new.rejudge(&old).robots);
        let mut after = before;
        after.robots.obey = false;
        let new = Rules::of(&after);
        assert!(!new.scope_differs(&old) && new.rejudge(&old).robots);
    }

    #[test]
    fn links_of_the_archive_are_taken_by_kind_mark_and_scope() {
        let settings = CrawlSettings { scope: ScopeKind::Domain, ..CrawlSettings::default() };
        let mut scope = Scope::new(&settings).unwrap();
        scope.add_seed(&CrawlUrl::parse("http://www.a.test/").unwrap());
        let fields = warc::Fields::parse(
            b"depth: 2\r\noutlink: http://b.a.test/x L\r\noutlink: http://b.a.test/y L nofollow\r\n\
              outlink: http://b.a.test/i.png E\r\noutlink: http://c.test/ L\r\n\
              outlink: http://d.a.test/ R\r\n",
        );
        let mut out = Vec::new();
        judge_links(&fields, &scope, &types::Canon::default(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "3 http://b.a.test/x\n2 http://d.a.test/\n");
    }
}
