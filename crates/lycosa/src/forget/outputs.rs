//! Which outputs of a crawl can forget?
//!
//! Everything that is made of visits and lies beside the archive and the state: the indexes, the list of
//! pages, the prints of texts, the full-text index, the table, the logs. Whoever adds an output adds it to
//! [`all`].

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use local::Duplicates;
use local::erase::{Fate, lines};
use serde_json::Value;
use warc::cdxj::Line;

use super::Grown;
use super::target::Target;
use crate::dir::Dir;

/// What an output is asked to forget.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    pub target: &'a Target,
    /// Records that lie elsewhere in their files now.
    pub grown: &'a [Grown],
    /// Only count.
    pub dry: bool,
}

/// An output that can forget.
///
/// A death on the way is followed by the same wish again. What it leaves behind must hold nothing of what
/// was to go: an index that only hides what was deleted has to merge its files.
pub trait Erases {
    /// What it is, for people.
    fn name(&self) -> &'static str;

    /// Answers how many entries went, or would.
    fn erase(&self, wish: &Wish<'_>) -> anyhow::Result<u64>;
}

/// All outputs of a crawl at rest.
pub fn all(dir: &Dir, duplicates: Option<Duplicates>) -> Vec<Box<dyn Erases>> {
    let mut all: Vec<Box<dyn Erases>> = vec![
        Box::new(Indexes(dir.indexes())),
        Box::new(PageList { folder: dir.pages(), state: dir.state() }),
    ];
    if let Some(duplicates) = duplicates {
        all.push(Box::new(Prints(duplicates)));
    }
    all.push(Box::new(Search(dir.search())));
    all.push(Box::new(Table { table: dir.table(), state: dir.state() }));
    all.push(Box::new(Logs([dir.logs(), dir.reports()])));
    all
}

/// Folders and files of a crawl's directory in which [`all`], the archive and the state are.
pub const KNOWN: [&str; 11] = [
    "lycosa.toml",
    "archive",
    "indexes",
    "state",
    "logs",
    "pages",
    "reports",
    "search",
    "table",
    "report.json",
    "report.html",
];

/// The files of a folder whose names end so, in order.
pub fn files(folder: &Path, ends: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("list {}", folder.display()))?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("list {}", folder.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if ends.iter().any(|end| name.ends_with(end)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

struct Indexes(PathBuf);

impl Erases for Indexes {
    fn name(&self) -> &'static str {
        "lines of indexes"
    }

    fn erase(&self, wish: &Wish<'_>) -> anyhow::Result<u64> {
        let mut judge = |bytes: &[u8]| index_line(bytes, wish);
        let mut erased = 0;
        for path in files(&self.0, &[".cdxj"])? {
            erased += lines(&path, &mut judge, !wish.dry)?;
        }
        Ok(erased)
    }
}

fn index_line(bytes: &[u8], wish: &Wish<'_>) -> Fate {
    let Ok(text) = std::str::from_utf8(bytes) else { return Fate::Stays };
    let Some(line) = Line::parse(text) else { return Fate::Stays };
    if line.url.as_deref().is_some_and(|url| wish.target.takes_uri(url)) {
        return Fate::Goes;
    }
    let file = wish.grown.iter().find(|grown| Some(&grown.file) == line.filename.as_ref());
    let moved =
        file.and_then(|grown| grown.moved.iter().find(|moved| Some(moved.from) == line.offset));
    match moved.and_then(|moved| moved_line(text, moved)) {
        Some(line) => Fate::Becomes(line.into_bytes()),
        None => Fate::Stays,
    }
}

/// The line of a revisit that is a response now, and lies elsewhere.
fn moved_line(text: &str, moved: &local::erase::Moved) -> Option<String> {
    let mut parts = text.trim_end().splitn(3, ' ');
    let (key, date, json) = (parts.next()?, parts.next()?, parts.next()?);
    let mut json: Value = serde_json::from_str(json).ok()?;
    let fields = json.as_object_mut()?;
    fields.insert("offset".to_owned(), moved.to.to_string().into());
    fields.insert("length".to_owned(), moved.length.to_string().into());
    match &moved.mime {
        Some(mime) => fields.insert("mime".to_owned(), mime.as_str().into()),
        None => fields.remove("mime"),
    };
    Some(format!("{key} {date} {json}\n"))
}

struct PageList {
    folder: PathBuf,
    state: PathBuf,
}

impl Erases for PageList {
    fn name(&self) -> &'static str {
        "lines of pages.jsonl"
    }

    fn erase(&self, wish: &Wish<'_>) -> anyhow::Result<u64> {
        let mut judge = |bytes: &[u8]| page_line(bytes, wish.target);
        Ok(local::pages::erase(&self.folder, &self.state, &mut judge, !wish.dry)?)
    }
}

fn page_line(bytes: &[u8], target: &Target) -> Fate {
    let Ok(mut line) = serde_json::from_slice::<Value>(bytes) else { return Fate::Stays };
    let names = |field: &str| line[field].as_str().is_some_and(|url| target.takes_uri(url));
    if names("url") {
        return Fate::Goes;
    }
    if !names("duplicate_of") {
        return Fate::Stays;
    }
    // It is a copy of nothing that we have.
    if let Some(fields) = line.as_object_mut() {
        fields.remove("duplicate_of");
        fields.remove("duplicate");
    }
    Fate::Becomes(format!("{line}\n").into_bytes())
}

struct Prints(Duplicates);

impl Erases for Prints {
    fn name(&self) -> &'static str {
        "prints of texts"
    }

    fn erase(&self, wish: &Wish<'_>) -> anyhow::Result<u64> {
        Ok(self.0.erase(&|url| wish.target.takes(url), !wish.dry)?)
    }
}

struct Search(PathBuf);

impl Erases for Search {
    fn name(&self) -> &'static str {
        "pages of the full-text index"
    }

    fn erase(&self, wish: &Wish<'_>) -> anyhow::Result<u64> {
        let mut is_named = |url: &str| wish.target.takes_uri(url);
        Ok(match wish.dry {
            true => search::count(&self.0, &mut is_named)?,
            false => search::erase(&self.0, &mut is_named)?,
        })
    }
}

struct Table {
    table: PathBuf,
    state: PathBuf,
}

impl Erases for Table {
    fn name(&self) -> &'static str {
        "rows of the table"
    }

    fn erase(&self, wish: &Wish<'_>) -> anyhow::Result<u64> {
        let mut judge = |place: tables::RowPlace<'_>| table_row(place, wish);
        let mut erased = tables::erase(&self.table, &mut judge, !wish.dry)?;
        // All rows are in parts when a crawl has settled, unless its table was turned off since.
        let mut judge = |bytes: &[u8]| waiting_row(bytes, wish.target);
        for path in files(&self.state, &[".rows", ".full"])? {
            erased += lines(&path, &mut judge, !wish.dry)?;
        }
        Ok(erased)
    }
}

fn table_row(place: tables::RowPlace<'_>, wish: &Wish<'_>) -> tables::RowFate {
    use tables::RowFate::{Goes, Moved, Stays};
    if wish.target.takes_uri(place.url) {
        return Goes;
    }
    let name = place.filename.rsplit('/').next().unwrap_or_default();
    let file = wish.grown.iter().find(|grown| grown.file == name);
    let moved = file.and_then(|grown| grown.moved.iter().find(|moved| moved.from == place.offset));
    moved.map_or(Stays, |moved| Moved {
        offset: moved.to,
        length: moved.length,
        mime: moved.mime.clone(),
    })
}

fn waiting_row(bytes: &[u8], target: &Target) -> Fate {
    let row = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
    match row["url"].as_str().is_some_and(|url| target.takes_uri(url)) {
        true => Fate::Goes,
        false => Fate::Stays,
    }
}

/// Logs and lists of words about URLs.
struct Logs([PathBuf; 2]);

impl Erases for Logs {
    fn name(&self) -> &'static str {
        "lines of logs"
    }

    fn erase(&self, wish: &Wish<'_>) -> anyhow::Result<u64> {
        let mut judge = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(line) if wish.target.is_named_in(line) => Fate::Goes,
            _ => Fate::Stays,
        };
        let mut erased = 0;
        for folder in &self.0 {
            for path in files(folder, &[".jsonl", ".log"])? {
                // What was forgotten is not named there.
                if path.file_name().is_some_and(|name| name != super::AUDIT_FILE) {
                    erased += lines(&path, &mut judge, !wish.dry)?;
                }
            }
        }
        Ok(erased)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use local::erase::Moved;
    use types::Canon;

    #[test]
    fn a_line_of_an_index_goes_follows_or_stays() {
        let target = Target::parse("a.test", &Canon::default()).unwrap();
        let moved = Moved { from: 7, to: 900, length: 33, mime: Some("text/html".into()) };
        let grown = [Grown { file: "x.warc.gz".into(), bytes: 933, moved: vec![moved] }];
        let wish = Wish { target: &target, grown: &grown, dry: false };
        let line = |url: &str, offset: u64| {
            format!(
                "key 20261118000000 {{\"url\": \"{url}\", \"mime\": \"warc/revisit\", \"offset\": \
                 \"{offset}\", \"length\": \"5\", \"filename\": \"x.warc.gz\"}}\n"
            )
        };
        assert_eq!(index_line(line("http://a.test/", 7).as_bytes(), &wish), Fate::Goes);
        assert_eq!(index_line(line("http://b.test/", 8).as_bytes(), &wish), Fate::Stays);
        let Fate::Becomes(new) = index_line(line("http://b.test/", 7).as_bytes(), &wish) else {
            panic!("it has moved");
        };
        let new = Line::parse(std::str::from_utf8(&new).unwrap()).unwrap();
        assert_eq!(
            (new.offset, new.length, new.mime.as_deref()),
            (Some(900), Some(33), Some("text/html"))
        );
    }

    #[test]
    fn a_copy_of_a_page_that_goes_is_a_copy_of_nothing() {
        let target = Target::parse("http://a.test/", &Canon::default()).unwrap();
        let page = br#"{"url":"http://b.test/","duplicate_of":"http://a.test/","duplicate":"exact","seq":3}"#;
        let Fate::Becomes(new) = page_line(page, &target) else { panic!("it names the page") };
        assert!(
            !String::from_utf8(new.clone()).unwrap().contains("a.test") && new.ends_with(b"\n")
        );
        assert_eq!(page_line(br#"{"url":"http://a.test/","seq":4}"#, &target), Fate::Goes);
        assert_eq!(page_line(br#"{"format":"json-pages-1.0"}"#, &target), Fate::Stays);
    }
}
