//! What did the crawl come to?
//!
//! `report.json` and `report.html`, each written whole or not at all, at the end of every run;
//! `reports/skipped.jsonl` beside them; and the few lines that people read. `lycosa report` makes the same
//! of a crawl at rest or at work; what only a run knows of itself is then that of the last one.

mod html;
mod plot;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use engine::Ending;
use local::DuplicateCounts;
use serde::{Deserialize, Serialize};
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
    /// When this was found.
    pub made: String,
    /// None before the end of the first run.
    #[serde(flatten)]
    pub last: Option<LastRun>,
    pub totals: Totals,
    /// Answers by status, over the crawl's life.
    pub statuses: BTreeMap<String, u64>,
    /// Failed visits by fault, over the crawl's life; a URL may have several.
    pub failures: BTreeMap<String, u64>,
    /// Links that were not taken, by the setting that decided, over the crawl's life.
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

/// How the last run went.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LastRun {
    pub ending: String,
    pub exit_code: u8,
    pub started: String,
    pub ended: String,
    pub run: Run,
}

impl LastRun {
    /// As its report tells; none if there is no report that can be read.
    pub fn read(dir: &Dir) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(dir.report()).ok()?).ok()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
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
}

impl RunFacts {
    /// `pages` is how many there are now.
    pub fn told(&self, pages: u64) -> LastRun {
        let seconds = self.elapsed.as_secs_f64();
        let pages = pages.saturating_sub(self.pages_before);
        LastRun {
            ending: ending_name(self.ending).to_owned(),
            exit_code: self.exit as u8,
            started: self.started.rfc3339(),
            ended: self.ended.rfc3339(),
            run: Run {
                seconds,
                pages,
                pages_per_second: pages as f64 / seconds.max(1e-3),
                visits_lost: self.visits_lost,
            },
        }
    }
}

/// Of which crawl a report is.
#[derive(Debug)]
pub struct About<'a> {
    pub dir: &'a Dir,
    pub mark: &'a Mark,
    pub resolved: &'a Resolved,
    pub seeds: u64,
    pub now: Timestamp,
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
        about: &About<'_>,
        last: Option<LastRun>,
        status: &Status,
        survey: Option<Survey>,
    ) -> Self {
        let archive = archive_files(about.dir);
        Self {
            event: "result",
            lycosa: env!("CARGO_PKG_VERSION"),
            directory: about.dir.root().display().to_string(),
            crawl: format!("{:016x}", about.mark.crawl_id),
            made: about.now.rfc3339(),
            last,
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
            settings: changed(about.resolved),
            seeds: about.seeds,
        }
    }

    /// Puts it into the directory, in both forms.
    pub fn write(&self, dir: &Dir) -> anyhow::Result<()> {
        write_whole(&dir.report(), &self.json()?)?;
        write_whole(&dir.report_page(), self.html().as_bytes())?;
        Ok(())
    }

    pub fn json(&self) -> anyhow::Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }

    /// A page that needs nothing else.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// The end of a run, for people.
    pub fn text(&self) -> String {
        let bytes = size(self.totals.body_bytes);
        let mut out = match &self.last {
            Some(LastRun { ending, run, .. }) => format!(
                "{ending}: {} pages ({bytes}) in {:.1} s, {:.1} pages/s\n",
                run.pages, run.seconds, run.pages_per_second
            ),
            None => format!("no run has ended yet: {} pages ({bytes})\n", self.totals.pages),
        };
        let mut line = |name: &str, text: String| {
            let _ = writeln!(out, "  {name:<10} {text}");
        };
        if self.last.as_ref().is_some_and(|last| last.run.pages != self.totals.pages) {
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
                line("waiting", counted(&urls.deferred));
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
        if self.last.is_some() {
            line("report", format!("{0}/report.html, {0}/report.json", self.directory));
        }
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
