//! What did the crawl come to?
//!
//! `report.json`, written whole or not at all, at the end of every run; `reports/skipped.jsonl`
//! beside it; and the few lines that people read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use engine::Ending;
use local::DuplicateCounts;
use serde::Serialize;
use types::Timestamp;

use super::survey::Survey;
use crate::dir::{Dir, Mark, write_whole};
use crate::exit::Exit;
use crate::settings::layers::{Origin, Resolved};
use crate::settings::render;
use crate::status::{Status, copies, counted, size};

#[derive(Debug, Serialize)]
pub struct Report {
    pub event: &'static str,
    pub lycosa: &'static str,
    pub directory: String,
    pub crawl: String,
    pub ending: &'static str,
    pub exit_code: u8,
    pub started: String,
    pub ended: String,
    pub run: Run,
    pub totals: Totals,
    /// Answers by status, over the crawl's life.
    pub statuses: BTreeMap<String, u64>,
    /// Failed visits by fault, over the crawl's life; a URL may have several.
    pub failures: BTreeMap<String, u64>,
    /// Links that this run did not take, by the setting that decided.
    pub links_skipped: BTreeMap<String, u64>,
    /// Pages with a text, and those that are copies; none where they are not compared.
    pub duplicates: Option<DuplicateCounts>,
    /// None after a second interrupt, which does not wait for it.
    pub urls: Option<Survey>,
    pub archive: Vec<ArchiveFile>,
    /// Settings that are not at their defaults.
    pub settings: BTreeMap<String, serde_json::Value>,
    pub seeds: u64,
}

#[derive(Debug, Serialize)]
pub struct Run {
    pub seconds: f64,
    pub pages: u64,
    pub pages_per_second: f64,
    /// Visits of the last run that died with it.
    pub visits_lost: usize,
}

#[derive(Debug, Serialize)]
pub struct Totals {
    pub pages: u64,
    /// Visits that found a page as we had it.
    pub unchanged: u64,
    pub known: u64,
    pub queued: u64,
    pub scheduled: u64,
    pub body_bytes: u64,
    pub archive_bytes: u64,
    pub robots_requests: u64,
}

#[derive(Debug, Serialize)]
pub struct ArchiveFile {
    pub file: String,
    pub bytes: u64,
}

/// What a run knows of itself when it ends.
#[derive(Debug)]
pub struct RunFacts {
    pub ending: Ending,
    pub exit: Exit,
    pub started: Timestamp,
    pub ended: Timestamp,
    pub elapsed: Duration,
    pub pages_before: u64,
    pub visits_lost: usize,
    pub seeds: u64,
}

pub const fn ending_name(ending: Ending) -> &'static str {
    match ending {
        Ending::Done => "done",
        Ending::Interrupted => "interrupted",
        Ending::Abandoned => "abandoned",
        Ending::PageLimit => "page limit",
        Ending::SizeLimit => "size limit",
        Ending::TimeLimit => "time limit",
        Ending::DiskLow => "disk nearly full",
    }
}

pub const fn exit_of(ending: Ending) -> Exit {
    match ending {
        Ending::Done => Exit::Done,
        Ending::Interrupted => Exit::Interrupted,
        Ending::Abandoned => Exit::Abandoned,
        Ending::PageLimit => Exit::PageLimit,
        Ending::SizeLimit => Exit::SizeLimit,
        Ending::TimeLimit => Exit::TimeLimit,
        Ending::DiskLow => Exit::DiskLow,
    }
}

impl Report {
    pub fn new(
        dir: &Dir,
        mark: &Mark,
        resolved: &Resolved,
        facts: &RunFacts,
        status: &Status,
        survey: Option<Survey>,
    ) -> Self {
        let seconds = facts.elapsed.as_secs_f64();
        let pages = status.pages.saturating_sub(facts.pages_before);
        let archive = archive_files(dir);
        Self {
            event: "result",
            lycosa: env!("CARGO_PKG_VERSION"),
            directory: dir.root().display().to_string(),
            crawl: format!("{:016x}", mark.crawl_id),
            ending: ending_name(facts.ending),
            exit_code: facts.exit as u8,
            started: facts.started.rfc3339(),
            ended: facts.ended.rfc3339(),
            run: Run {
                seconds,
                pages,
                pages_per_second: pages as f64 / seconds.max(1e-3),
                visits_lost: facts.visits_lost,
            },
            totals: Totals {
                pages: status.pages,
                unchanged: status.unchanged,
                known: status.known,
                queued: status.queued,
                scheduled: status.scheduled,
                body_bytes: status.body_bytes,
                archive_bytes: archive.iter().map(|file| file.bytes).sum(),
                robots_requests: status.robots_requests,
            },
            statuses: status.statuses.clone(),
            failures: status.failed.clone(),
            links_skipped: status.links_skipped.clone(),
            duplicates: status.duplicates,
            urls: survey,
            archive,
            settings: changed(resolved),
            seeds: facts.seeds,
        }
    }

    pub fn write(&self, dir: &Dir) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        write_whole(&dir.report(), &text)?;
        Ok(())
    }

    /// The end of a run, for people.
    pub fn text(&self) -> String {
        let mut out = format!(
            "{}: {} pages ({}) in {:.1} s, {:.1} pages/s\n",
            self.ending,
            self.run.pages,
            size(self.totals.body_bytes),
            self.run.seconds,
            self.run.pages_per_second
        );
        let mut line = |name: &str, text: String| {
            let _ = writeln!(out, "  {name:<10} {text}");
        };
        if self.totals.pages != self.run.pages {
            line("in all", format!("{} pages", self.totals.pages));
        }
        if self.totals.unchanged > 0 {
            line(
                "unchanged",
                format!("{} visits found a page as we had it", self.totals.unchanged),
            );
        }
        if !self.statuses.is_empty() {
            line("answers", counted(&self.statuses));
        }
        if let Some(urls) = &self.urls {
            if !urls.refused.is_empty() {
                line("refused", counted(&urls.refused));
            }
            if !urls.dead_letters.is_empty() {
                line("given up", counted(&urls.dead_letters));
            }
            if !urls.deferred.is_empty() {
                let named = urls.deferred.iter().map(|(name, n)| ((*name).to_owned(), *n));
                line("waiting", counted(&named.collect()));
            }
        }
        if let Some(counts) = self.duplicates.filter(|counts| counts.copies() > 0) {
            line("copies", copies(&counts));
        }
        if !self.links_skipped.is_empty() {
            line("not taken", format!("links by {}", counted(&self.links_skipped)));
        }
        let files = self.archive.len();
        let bytes = size(self.totals.archive_bytes);
        let files = super::counted(files as u64, "file");
        line("archive", format!("{}/archive: {files}, {bytes}", self.directory));
        line("report", format!("{}/report.json", self.directory));
        out
    }

    /// Whether another run would find something to do.
    pub fn leaves_work(&self) -> bool {
        self.totals.queued + self.totals.scheduled > 0
    }
}

fn archive_files(dir: &Dir) -> Vec<ArchiveFile> {
    let Ok(entries) = std::fs::read_dir(dir.archive()) else { return Vec::new() };
    let files = entries.flatten().filter_map(|entry| {
        let file = entry.file_name().into_string().ok()?;
        let bytes = entry.metadata().ok()?.len();
        file.ends_with(".warc.gz").then_some(ArchiveFile { file, bytes })
    });
    let mut files: Vec<_> = files.collect();
    files.sort_by(|a, b| a.file.cmp(&b.file));
    files
}

fn changed(resolved: &Resolved) -> BTreeMap<String, serde_json::Value> {
    let mut changed = BTreeMap::new();
    let defaults = crate::settings::layers::Layers::default().finish();
    let defaults = defaults.expect("the defaults are usable");
    for table in crate::settings::keys::tables() {
        for key in table.keys.iter().filter(|key| key.path != "api.token") {
            let value = resolved.value(&key.path);
            if *resolved.origin(&key.path) != Origin::Default && value != defaults.value(&key.path)
            {
                let value = value.map(|value| render::shown_value(&key.name, value));
                let value = serde_json::to_value(value).unwrap_or_default();
                changed.insert(key.path.clone(), value);
            }
        }
    }
    changed
}
