//! Where in the archive is the answer of this URL at this moment?
//!
//! Every index but the newest of a shard is sorted, and is searched by halves where it lies. The newest
//! may still grow in the order of the visits, so its answers are held in memory: an index of a WARC
//! file of 1 GB has some hundred thousand lines, of which a URL, a date and a place are kept. It is
//! read again when something is not found and the file has become longer.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use warc::WarcDate;
use warc::cdxj::{Line, REVISIT_MIME};

/// The indexes of an archive.
#[derive(Debug)]
pub struct Indexes {
    folder: PathBuf,
    /// The newest of each shard, by path.
    growing: Mutex<HashMap<PathBuf, Growing>>,
}

/// An index that may be in any order.
#[derive(Debug, Default)]
struct Growing {
    /// Of its whole lines.
    bytes: u64,
    /// `date14 url` → file and offset.
    places: HashMap<String, (String, u64)>,
}

impl Indexes {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, growing: Mutex::default() }
    }

    /// File and offset of the response (never a revisit) to this URL at this date.
    pub fn find(&self, url: &str, date: WarcDate) -> anyhow::Result<Option<(String, u64)>> {
        let digits = date.digits14();
        let key = format!("{} {digits} ", warc::surt(url));
        for (path, newest) in self.list()? {
            let say = || format!("search {}", path.display());
            let found = if newest {
                self.in_growing(&path, &format!("{digits} {url}")).with_context(say)?
            } else {
                in_sorted(&path, key.as_bytes(), url).with_context(say)?
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// All indexes, and whether each is the newest of its shard.
    fn list(&self) -> anyhow::Result<Vec<(PathBuf, bool)>> {
        let say = || format!("list {}", self.folder.display());
        let entries = match self.folder.read_dir() {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(say),
        };
        // Names end with a number of fixed width, so the last of a stem is the newest.
        let mut newest: BTreeMap<String, PathBuf> = BTreeMap::new();
        let mut older = Vec::new();
        for entry in entries {
            let path = entry.with_context(say)?.path();
            if path.extension().is_none_or(|extension| extension != "cdxj") {
                continue;
            }
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let stem = name.trim_end_matches(|char: char| char.is_ascii_digit()).to_owned();
            match newest.entry(stem) {
                std::collections::btree_map::Entry::Vacant(free) => {
                    free.insert(path);
                }
                std::collections::btree_map::Entry::Occupied(mut known) => {
                    let (new, old) = if path > *known.get() {
                        (path, known.get().clone())
                    } else {
                        (known.get().clone(), path)
                    };
                    known.insert(new);
                    older.push((old, false));
                }
            }
        }
        // Most of what is referred to was fetched in the round before, which is rarely the newest file.
        older.sort_unstable_by(|a, b| b.0.cmp(&a.0));
        older.extend(newest.into_values().map(|path| (path, true)));
        Ok(older)
    }

    fn in_growing(&self, path: &Path, key: &str) -> anyhow::Result<Option<(String, u64)>> {
        let mut all = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let growing = all.entry(path.to_owned()).or_default();
        if let Some(found) = growing.places.get(key) {
            return Ok(Some(found.clone()));
        }
        growing.catch_up(path)?;
        Ok(growing.places.get(key).cloned())
    }
}

impl Growing {
    /// Reads what has been appended since. A file that was sorted meanwhile has its old lines in other
    /// places, so it is read from the start.
    fn catch_up(&mut self, path: &Path) -> io::Result<()> {
        let file = match File::open(path) {
            Ok(file) => file,
            // Its shard has begun another one and this listing is old, or it was removed.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if file.metadata()?.len() == self.bytes {
            return Ok(());
        }
        let mut input = BufReader::with_capacity(128 << 10, file);
        *self = Self::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = input.read_until(b'\n', &mut line)? as u64;
            if !line.ends_with(b"\n") {
                return Ok(());
            }
            self.bytes += read;
            let parsed = std::str::from_utf8(&line).ok().and_then(Line::parse);
            if let Some((timestamp, url, place)) = parsed.and_then(answer_of) {
                self.places.insert(format!("{timestamp} {url}"), place);
            }
        }
    }
}

/// Date, URL and place of a line, if it is a response's.
fn answer_of(line: Line) -> Option<(String, String, (String, u64))> {
    let is_revisit = line.mime.as_deref() == Some(REVISIT_MIME);
    let place = (line.filename?, line.offset?);
    (!is_revisit).then_some((line.timestamp, line.url?, place))
}

/// Searches a sorted index by halves for a line that begins with `key` and has this URL.
fn in_sorted(path: &Path, key: &[u8], url: &str) -> anyhow::Result<Option<(String, u64)>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let (mut low, mut high) = (0, file.metadata()?.len());
    // A window holds the few lines around a place.
    let mut input = BufReader::with_capacity(4 << 10, file);
    let mut line = Vec::new();
    while low < high {
        let middle = low + (high - low) / 2;
        let start = line_start(&mut input, middle)?;
        line.clear();
        let read = if start < high { input.read_until(b'\n', &mut line)? as u64 } else { 0 };
        if read > 0 && line.as_slice() < key {
            low = start + read;
        } else {
            high = middle;
        }
    }
    line_start(&mut input, low)?;
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 || !line.starts_with(key) {
            return Ok(None);
        }
        let parsed = std::str::from_utf8(&line).ok().and_then(Line::parse);
        // Several URLs share a key.
        if let Some((_, found, place)) = parsed.and_then(answer_of)
            && found == url
        {
            return Ok(Some(place));
        }
    }
}

/// Goes to the first line that begins at `at` or behind.
fn line_start(input: &mut BufReader<File>, at: u64) -> io::Result<u64> {
    let Some(before) = at.checked_sub(1) else {
        input.seek(SeekFrom::Start(0))?;
        return Ok(0);
    };
    input.seek(SeekFrom::Start(before))?;
    Ok(before + input.skip_until(b'\n')? as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(url: &str, date: &str, mime: &str, offset: u64) -> String {
        let key = warc::surt(url);
        format!(
            "{key} {date} {{\"url\": \"{url}\", \"mime\": \"{mime}\", \"offset\": \"{offset}\", \
             \"filename\": \"a.warc.gz\"}}\n"
        )
    }

    fn date(second: i64) -> WarcDate {
        WarcDate::from_unix_seconds(1_793_867_400 + second)
    }

    #[test]
    fn an_answer_is_found_in_sorted_and_in_growing_indexes_and_a_revisit_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let url = |n: usize| format!("http://a.test/page-{}{n}", "x".repeat(n % 90));
        let mut lines: Vec<String> = (0..500)
            .map(|n| line(&url(n), &date(n as i64).digits14(), "text/html", n as u64 * 10))
            .collect();
        lines.push(line("http://a.test/same", &date(0).digits14(), REVISIT_MIME, 1));
        // Another URL with the same key.
        lines.push(line("http://A.test/Page-0", &date(0).digits14(), "text/html", 2));
        std::fs::write(folder.path().join("lycosa-00-00001.cdxj"), lines.concat()).unwrap();
        let growing = folder.path().join("lycosa-00-00001.cdxj");
        lines.sort_unstable();
        std::fs::write(folder.path().join("lycosa-00-00000.cdxj"), lines.concat()).unwrap();
        let find = |indexes: &Indexes, url: &str, second| {
            indexes.find(url, date(second)).unwrap().map(|(_, offset)| offset)
        };
        for only_growing in [false, true] {
            let indexes = Indexes::new(folder.path().to_owned());
            for n in 0..500 {
                assert_eq!(find(&indexes, &url(n), n as i64), Some(n as u64 * 10), "{n}");
            }
            assert_eq!(find(&indexes, &url(3), 4), None);
            assert_eq!(find(&indexes, "http://a.test/same", 0), None);
            assert_eq!(find(&indexes, "http://A.test/Page-0", 0), Some(2));
            assert_eq!(find(&indexes, "http://zzz.test/", 0), None);
            if only_growing {
                let more = line("http://b.test/new", &date(7).digits14(), "text/html", 77);
                let text = std::fs::read_to_string(&growing).unwrap() + &more + "torn";
                std::fs::write(&growing, text).unwrap();
                assert_eq!(find(&indexes, "http://b.test/new", 7), Some(77));
            } else {
                std::fs::remove_file(folder.path().join("lycosa-00-00000.cdxj")).unwrap();
            }
        }
    }

    #[test]
    fn without_indexes_nothing_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let indexes = Indexes::new(folder.path().join("none"));
        assert_eq!(indexes.find("http://a.test/", date(0)).unwrap(), None);
    }
}
