//! What can a crawl be turned into, for those who do not read WARC?
//!
//! Each format has a file below; this one goes over the archive for those that are made of pages, asks the
//! filter, and counts. Order is that of the archive: file by file, visit by visit.
//!
//! Only files are read, so an export works while the crawl runs. It has what was whole when it came by.
//!
//! Always: a file gets its name when it is whole. A record that cannot be read is told on stderr, counted,
//! and makes the exit code 1; what can be read is exported all the same.

mod cdxj;
pub mod filter;
mod output;
mod pipeline;
mod reading;
mod wacz;
mod wet;

use std::fs;
use std::io::{IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use tables::{LinkRow, LinkTable, Row, UrlTable};
use types::{CrawlUrl, Timestamp};
use warc::{WarcDate, cdxj::Line};

use crate::captures::{Capture, Captures, Raw};
use crate::dir::{Dir, Mark};
use crate::exit::Fail;
use crate::settings::Settings;
use crate::table;
use filter::Filter;
use output::{Draft, Output, is_gz};
use pipeline::News;
use reading::{Page, Reading};
use wet::Wet;

/// What is made of the crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One JSON line a page: its text and what is known of it
    Jsonl,
    /// Markdown with front matter; with -o FOLDER/ a file a page
    Markdown,
    /// WARC records with the text of pages
    Wet,
    /// The table of captures, with the columns of Common Crawl's index
    Parquet,
    /// One sorted index of all captures
    Cdxj,
    /// The links of all pages, as Parquet
    Links,
    /// All of the archive in one file for replay tools
    Wacz,
}

/// What is asked.
#[derive(Debug)]
pub struct Wish {
    pub format: Format,
    pub filter: Filter,
    pub limit: Option<u64>,
    /// Whether pages that had not changed are exported again, as of their later dates.
    pub revisits: bool,
    /// Whether JSON lines have markdown, too.
    pub markdown: bool,
    pub output: Option<PathBuf>,
}

/// What was exported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    pub items: u64,
    /// Records that could not be read.
    pub damaged: u64,
}

/// A page may have so many links in the table of links.
const LINKS_MAX: usize = 100_000;

/// Makes the export.
pub fn run(dir: &Dir, mark: &Mark, settings: &Settings, wish: &Wish) -> Result<Exported, Fail> {
    let captures = Captures::open(dir, mark)?;
    let links_max =
        if wish.format == Format::Links { LINKS_MAX } else { page::Limits::default().links_max };
    let export = Export {
        dir,
        captures: &captures,
        wish,
        reading: Reading::new(settings, links_max),
        crawl: table::crawl_name(mark),
    };
    match wish.format {
        Format::Jsonl => export.jsonl(),
        Format::Markdown => export.markdown(),
        Format::Wet => export.wet(),
        Format::Parquet => export.parquet(),
        Format::Links => export.links(),
        Format::Cdxj => export.cdxj(),
        Format::Wacz => export.wacz(),
    }
}

struct Export<'a> {
    dir: &'a Dir,
    captures: &'a Captures,
    wish: &'a Wish,
    reading: Reading,
    crawl: String,
}

impl Export<'_> {
    fn output(&self, packed: bool) -> Result<Output, Fail> {
        Output::begin(self.wish.output.as_deref(), packed)
    }

    fn jsonl(&self) -> Result<Exported, Fail> {
        let mut out = self.output(true)?;
        let make = |page: Page| Ok(Some(page.json_line(self.wish.markdown)));
        let exported = self.pages(make, |line| Ok(out.write_all(&line)?))?;
        out.finish()?;
        Ok(exported)
    }

    fn markdown(&self) -> Result<Exported, Fail> {
        let make = |page: Page| {
            let has_words = page.content.as_ref().is_some_and(|it| !it.markdown.trim().is_empty());
            Ok(has_words.then(|| (file_name(&page.capture), page.markdown())))
        };
        if let Some(folder) = self.wish.output.as_deref().filter(|path| is_folder(path)) {
            let exported = self.pages(make, |(name, text)| {
                let path = folder.join(name);
                let parent = path.parent().unwrap_or(folder);
                fs::create_dir_all(parent).with_context(|| format!("make {}", parent.display()))?;
                let mut out = Output::begin(Some(&path), false).map_err(|fail| fail.error)?;
                out.write_all(text.as_bytes())?;
                out.finish()
            })?;
            return Ok(exported);
        }
        let mut out = self.output(true)?;
        let mut first = true;
        let exported = self.pages(make, |(_, text)| {
            if !std::mem::take(&mut first) {
                out.write_all(b"\n")?;
            }
            Ok(out.write_all(text.as_bytes())?)
        })?;
        out.finish()?;
        Ok(exported)
    }

    fn wet(&self) -> Result<Exported, Fail> {
        let path = self.wish.output.as_deref();
        let packed = path.is_some_and(is_gz);
        // Records are packed one by one, so the file is not.
        let mut out = self.output(false)?;
        let name = path.and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let name = if name.is_empty() { "export.warc.wet".into() } else { name };
        out.write_all(&Wet::new(packed).opening(&name, warc_date(now()))?)?;
        // A packer is large, and whoever has done with one hands it on.
        let packers: Mutex<Vec<Wet>> = Mutex::default();
        let make = |page: Page| -> anyhow::Result<Option<Vec<u8>>> {
            if page.text().is_empty() {
                return Ok(None);
            }
            let idle = packers.lock().expect("no panic while locked").pop();
            let mut wet = idle.unwrap_or_else(|| Wet::new(packed));
            let record = wet.page(&page)?;
            packers.lock().expect("no panic while locked").push(wet);
            Ok(Some(record))
        };
        let exported = self.pages(make, |record| Ok(out.write_all(&record)?))?;
        out.finish()?;
        Ok(exported)
    }

    fn links(&self) -> Result<Exported, Fail> {
        let mut out = LinkTable::new(self.output(false)?).map_err(anyhow::Error::from)?;
        let filter = &self.wish.filter;
        let make = |capture: Capture| {
            let language_matters = !filter.languages.is_empty();
            let document = if language_matters {
                let page = self.reading.page(capture.clone());
                if !filter.takes_language(page.language()) {
                    return Ok(None);
                }
                page.document
            } else {
                self.reading.document(&capture)
            };
            let Some(base) = document.base() else { return Ok(None) };
            let links = document.links().filter_map(|link| {
                let to = link.resolve(base)?;
                let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
                Some((to, given(link.text), given(link.rel), link.kind))
            });
            Ok(Some((capture.url, links.collect::<Vec<_>>())))
        };
        let exported = self.captures(is_page, make, |(from, links)| {
            for (to, anchor, rel, kind) in links {
                out.push(&LinkRow {
                    from: from.as_str(),
                    to: to.as_str(),
                    anchor: anchor.as_deref(),
                    rel: rel.as_deref(),
                    kind: kind.as_str(),
                })?;
            }
            Ok(())
        })?;
        out.finish().map_err(anyhow::Error::from)?.finish()?;
        Ok(exported)
    }

    fn parquet(&self) -> Result<Exported, Fail> {
        let out = self.output(false)?;
        let mut out = UrlTable::alone(out, &self.crawl).map_err(anyhow::Error::from)?;
        let filter = &self.wish.filter;
        let mut misfits = 0;
        let make = |capture: Capture| -> anyhow::Result<Option<Row>> {
            if !table::wants_page(&capture) || capture.is_robots() {
                let takes = filter.takes_language(None);
                let read = takes && table::wants_page(&capture);
                let document = read.then(|| self.reading.document(&capture));
                let page = document.as_ref().map(|document| (document, None));
                return Ok(takes.then(|| table::row(&capture, page)));
            }
            let page = self.reading.page(capture);
            let language = page.language();
            let row = || table::row(&page.capture, Some((&page.document, language)));
            Ok(filter.takes_language(language).then(row))
        };
        let exported = self.captures(
            |_| true,
            make,
            |row: Row| {
                if !row.fits() {
                    misfits += 1;
                    return Ok(());
                }
                Ok(out.push(&row)?)
            },
        )?;
        out.finish().map_err(anyhow::Error::from)?.finish()?;
        if misfits > 0 {
            eprintln!(
                "lycosa: {misfits} records begin beyond 2 GB of their files; the table's columns have \
                 no room for that, so they have no row"
            );
        }
        Ok(Exported { items: exported.items - misfits, ..exported })
    }

    fn cdxj(&self) -> Result<Exported, Fail> {
        let mut out = self.output(true)?;
        let filter = &self.wish.filter;
        let limit = self.wish.limit.unwrap_or(u64::MAX);
        let mut exported = Exported::default();
        let scratch = self.wish.output.as_deref().and_then(Path::parent);
        let scratch = match scratch {
            Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
            Some(folder) => folder.to_owned(),
            None => std::env::temp_dir(),
        };
        cdxj::merged(&self.dir.indexes(), &scratch, &mut |line| {
            if exported.items >= limit {
                return Ok(ControlFlow::Break(()));
            }
            if filter.is_empty() || takes_line(filter, line) {
                out.write_all(line)?;
                exported.items += 1;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        out.finish()?;
        Ok(exported)
    }

    fn wacz(&self) -> Result<Exported, Fail> {
        let path = self.wish.output.as_deref().ok_or_else(|| {
            Fail::usage("a WACZ is read from its end, so it must be a file: add -o FILE.wacz")
        })?;
        let (draft, mut file) = Draft::begin(path)?;
        let bar = self.progress()?;
        let packed =
            wacz::write(self.dir, self.captures, now(), &mut file, |bytes| bar.inc(bytes))?;
        bar.finish_and_clear();
        draft.finish(&file)?;
        Ok(Exported { items: packed.captures, damaged: 0 })
    }

    /// Goes over all pages that are wanted and have something to read.
    fn pages<P: Send>(
        &self,
        make: impl Fn(Page) -> anyhow::Result<Option<P>> + Sync,
        finish: impl FnMut(P) -> anyhow::Result<()>,
    ) -> anyhow::Result<Exported> {
        let filter = &self.wish.filter;
        let read = |capture: Capture| {
            let page = self.reading.page(capture);
            // Whoever asks for a type gets it, also where nobody can read it.
            let wanted = !filter.types.is_empty() || page.is_readable();
            if !wanted || !filter.takes_language(page.language()) {
                return Ok(None);
            }
            make(page)
        };
        self.captures(is_page, read, finish)
    }

    /// Goes over all captures that are wanted; of those that `usual` does not take, robots.txt and revisits
    /// among them, only what was asked for.
    fn captures<P: Send>(
        &self,
        usual: impl Fn(&Raw) -> bool + Sync,
        make: impl Fn(Capture) -> anyhow::Result<Option<P>> + Sync,
        mut finish: impl FnMut(P) -> anyhow::Result<()>,
    ) -> anyhow::Result<Exported> {
        let Wish { filter, revisits, limit, .. } = self.wish;
        let everything = self.wish.format == Format::Parquet;
        let prepare = |raw: Raw| -> anyhow::Result<Option<P>> {
            let (Some(url), Some(at)) = (raw.url(), raw.at()) else { return Ok(None) };
            let is_robots = url.path_and_query() == "/robots.txt";
            let kind = everything || !is_robots && (*revisits || !raw.is_revisit());
            if !kind || !filter.takes(&url, at) {
                return Ok(None);
            }
            // A page that had not changed may have come as 304.
            let usual = |_: u16| usual(&raw) || *revisits && raw.is_revisit();
            if !filter.takes_status(raw.status(), usual) {
                return Ok(None);
            }
            let capture = self.captures.decode(&raw)?;
            // A large one is in memory twice until here.
            drop(raw);
            match capture {
                Some(capture) if filter.takes_type(capture.media_type().as_deref()) => {
                    make(capture)
                }
                _ => Ok(None),
            }
        };
        let limit = limit.unwrap_or(u64::MAX);
        let mut exported = Exported::default();
        let bar = self.progress()?;
        if limit > 0 {
            pipeline::run(self.captures.raw(), prepare, |news| {
                match news {
                    News::One(one) => {
                        finish(one)?;
                        exported.items += 1;
                    }
                    News::Damaged(error) => {
                        exported.damaged += 1;
                        bar.suspend(|| eprintln!("lycosa: {error:#}"));
                    }
                    News::Read(bytes) => bar.set_position(bytes),
                }
                let enough = exported.items >= limit;
                Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
        }
        bar.finish_and_clear();
        Ok(exported)
    }

    /// On a terminal that does not show the export itself.
    fn progress(&self) -> anyhow::Result<ProgressBar> {
        let to_terminal = self.wish.output.is_none() && std::io::stdout().is_terminal();
        if !std::io::stderr().is_terminal() || to_terminal {
            return Ok(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {eta}")?;
        Ok(ProgressBar::new(self.captures.bytes()?).with_style(style))
    }
}

/// What counts for a page where nobody asks for a status.
fn is_page(raw: &Raw) -> bool {
    (200..300).contains(&raw.status())
}

fn takes_line(filter: &Filter, line: &[u8]) -> bool {
    let Some(line) = std::str::from_utf8(line).ok().and_then(Line::parse) else { return false };
    let url = line.url.as_deref().and_then(|url| CrawlUrl::parse(url).ok());
    let digits = line.timestamp.get(..14).unwrap_or_default();
    let at = moment_of(digits);
    let (Some(url), Some(at)) = (url, at) else { return false };
    let status = line.status.and_then(|status| status.parse().ok()).unwrap_or(0);
    let mime = line.mime.map(|mime| mime.to_ascii_lowercase());
    filter.takes(&url, at)
        && filter.takes_status(status, |_| true)
        && filter.takes_type(mime.as_deref())
}

/// `20261118203000`.
fn moment_of(digits: &str) -> Option<Timestamp> {
    let part = |from, to| digits.get(from..to);
    let text = format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0, 4)?,
        part(4, 6)?,
        part(6, 8)?,
        part(8, 10)?,
        part(10, 12)?,
        part(12, 14)?
    );
    filter::moment(&text).ok()
}

fn warc_date(at: Timestamp) -> WarcDate {
    WarcDate::from_unix_seconds(i64::try_from(at.secs()).unwrap_or(i64::MAX))
}

fn now() -> Timestamp {
    Timestamp::from(std::time::SystemTime::now())
}

/// Whether `-o` names a folder: one that is there, or a name that ends like one.
pub fn is_folder(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Longest part of a file's name that is taken from its URL.
const SLUG_BYTES_MAX: usize = 100;

/// `a.test/docs-page-2f6c81aa-20261118203000.md`: readable, and of no other capture.
fn file_name(capture: &Capture) -> PathBuf {
    let mut slug = String::new();
    for char in capture.url.path_and_query().chars() {
        let plain = char.is_ascii_alphanumeric() || matches!(char, '.' | '_');
        match plain {
            true => slug.push(char),
            false if !slug.ends_with('-') => slug.push('-'),
            false => {}
        }
    }
    slug.truncate(SLUG_BYTES_MAX);
    let slug = slug.trim_matches(['-', '.']);
    let slug = if slug.is_empty() { "index" } else { slug };
    // The end of the id tells URLs apart whose names look the same.
    let id = capture.url.id().0 as u64;
    let at = capture.at.digits14();
    let host = capture.url.host().replace([':', '[', ']'], "_");
    PathBuf::from(host).join(format!("{slug}-{id:016x}-{at}.md"))
}

#[cfg(test)]
mod tests;
