//! How does a crawl become one file that any replay tool opens?
//!
//! As WACZ 1.1.1: a zip with the WARC files as they are, stored and not packed again, so that a reader can
//! seek in them; an index in compressed blocks with an index of the blocks; the list of pages; and what names
//! and digests all of them.
//!
//! What a running crawl writes at the moment is left out: of a file that grows the whole members are taken,
//! and of the index the lines that point at those.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Seek, Write};
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use types::Timestamp;
use warc::cdxj::Line;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::cdxj;
use crate::captures::Captures;
use crate::dir::Dir;

/// Lines of a block of the index.
const BLOCK_LINES_MAX: usize = 3_000;
const BUFFER_BYTES: usize = 1 << 20;

/// A member of the package.
#[derive(Debug, Serialize)]
struct Resource {
    name: String,
    path: String,
    hash: String,
    bytes: u64,
}

/// What a package came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packed {
    pub files: u64,
    pub captures: u64,
}

/// Writes the package. `progress` hears of bytes of the archive that were copied.
pub fn write(
    dir: &Dir,
    captures: &Captures,
    now: Timestamp,
    out: &mut (impl Write + Seek),
    mut progress: impl FnMut(u64),
) -> anyhow::Result<Packed> {
    let mut package = Package {
        zip: ZipWriter::new(BufWriter::with_capacity(BUFFER_BYTES, out)),
        resources: Vec::new(),
    };
    let mut packed = Packed::default();
    // The name of each file, and how much of it was taken.
    let mut taken: HashMap<String, u64> = HashMap::new();
    let files = captures.files()?;
    for path in &files {
        let say = || format!("read {}", path.display());
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = whole_bytes(path, &files).with_context(say)?;
        let mut file = File::open(path).with_context(say)?.take(bytes);
        package.add(&format!("archive/{name}"), |out| {
            copy(&mut file, out, &mut progress).with_context(say)
        })?;
        taken.insert(name, bytes);
        packed.files += 1;
    }
    let (index, blocks, captures, pages) = index(dir, &taken)?;
    packed.captures = captures;
    package.add("indexes/index.cdx.gz", |out| copy_all(index, out))?;
    package.add("indexes/index.idx", |out| Ok(out.write_all(blocks.as_bytes())?))?;
    let list = dir.pages().join(local::pages::FILE);
    package.add("pages/pages.jsonl", |out| match File::open(&list) {
        Ok(file) => copy_lines(file, out).with_context(|| format!("read {}", list.display())),
        // Nobody has listed them, so the index says which answers may be pages.
        Err(error) if error.kind() == io::ErrorKind::NotFound => copy_all(pages, out),
        Err(error) => Err(error).with_context(|| format!("read {}", list.display())),
    })?;
    package.finish(now)?;
    Ok(packed)
}

/// The package in the making.
struct Package<W: Write + Seek> {
    zip: ZipWriter<W>,
    resources: Vec<Resource>,
}

impl<W: Write + Seek> Package<W> {
    fn begin(&mut self, path: &str) -> anyhow::Result<()> {
        // Sizes beyond 4 GB are allowed from the start: nobody knows before.
        let stored = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(true);
        self.zip.start_file(path, stored).with_context(|| format!("add {path}"))
    }

    fn add(
        &mut self,
        path: &str,
        write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.begin(path)?;
        let mut digested = Digested { out: &mut self.zip, sha256: Sha256::new(), bytes: 0 };
        write(&mut digested)?;
        let Digested { sha256, bytes, .. } = digested;
        let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
        let hash = hash(sha256);
        self.resources.push(Resource { name, path: path.to_owned(), hash, bytes });
        Ok(())
    }

    fn finish(mut self, now: Timestamp) -> anyhow::Result<()> {
        let said = json!({
            "profile": "data-package",
            "wacz_version": "1.1.1",
            "created": now.rfc3339(),
            "software": concat!("lycosa/", env!("CARGO_PKG_VERSION")),
            "resources": self.resources,
        });
        let text = serde_json::to_vec_pretty(&said)?;
        self.begin("datapackage.json")?;
        self.zip.write_all(&text)?;
        let digest = json!({
            "path": "datapackage.json",
            "hash": hash(Sha256::new().chain_update(&text)),
        });
        self.begin("datapackage-digest.json")?;
        self.zip.write_all(&serde_json::to_vec_pretty(&digest)?)?;
        self.zip.finish()?.flush()?;
        Ok(())
    }
}

fn hash(sha256: Sha256) -> String {
    let digits: String = sha256.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

/// Digests what passes.
struct Digested<'a, W: Write + Seek> {
    out: &'a mut ZipWriter<W>,
    sha256: Sha256,
    bytes: u64,
}

impl<W: Write + Seek> Write for Digested<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sha256.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn copy(
    input: &mut dyn io::Read,
    out: &mut dyn Write,
    progress: &mut impl FnMut(u64),
) -> anyhow::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = input.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        out.write_all(&buffer[..read])?;
        progress(read as u64);
    }
}

fn copy_all(mut file: File, out: &mut dyn Write) -> anyhow::Result<()> {
    file.rewind()?;
    io::copy(&mut file, out)?;
    Ok(())
}

/// The whole lines of a file that may grow.
fn copy_lines(file: File, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        input.read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            return Ok(());
        }
        out.write_all(&line)?;
    }
}

/// How much of a WARC file is whole members. Only the last of a shard can end with less.
fn whole_bytes(path: &Path, all: &[std::path::PathBuf]) -> anyhow::Result<u64> {
    let stem = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = name.trim_end_matches(".gz").trim_end_matches(".warc").to_owned();
        name.trim_end_matches(|char: char| char.is_ascii_digit()).to_owned()
    };
    let is_last = !all.iter().any(|other| other.as_path() > path && stem(other) == stem(path));
    if !is_last {
        return Ok(path.metadata()?.len());
    }
    let file = BufReader::with_capacity(BUFFER_BYTES, File::open(path)?);
    Ok(warc::last_complete(file, 0)?.end)
}

/// The index in blocks, what finds a block, how many lines there are, and the pages among them.
fn index(dir: &Dir, taken: &HashMap<String, u64>) -> anyhow::Result<(File, String, u64, File)> {
    let scratch = std::env::temp_dir();
    let mut blocks = Blocks::new(unnamed()?);
    let mut pages = BufWriter::new(unnamed()?);
    writeln!(pages, r#"{{"format":"json-pages-1.0","id":"pages","title":"All pages"}}"#)?;
    let mut lines = 0;
    cdxj::merged(&dir.indexes(), &scratch, &mut |line| {
        let Some(parsed) = std::str::from_utf8(line).ok().and_then(Line::parse) else {
            return Ok(ControlFlow::Continue(()));
        };
        let end = parsed.offset.unwrap_or(0) + parsed.length.unwrap_or(0);
        let whole = parsed.filename.as_ref().and_then(|name| taken.get(name));
        if whole.is_none_or(|whole| end > *whole) {
            return Ok(ControlFlow::Continue(()));
        }
        lines += 1;
        blocks.push(line)?;
        if is_page(&parsed) {
            let at = parsed.timestamp;
            let ts = warc::WarcDate::parse(&dashed(&at)).map(|date| date.to_string());
            let id = format!("{lines:x}");
            serde_json::to_writer(&mut pages, &json!({"id": id, "url": parsed.url, "ts": ts}))?;
            pages.write_all(b"\n")?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let (index, found) = blocks.finish()?;
    Ok((index, found, lines, pages.into_inner().map_err(io::IntoInnerError::into_error)?))
}

fn is_page(line: &Line) -> bool {
    let html = matches!(line.mime.as_deref(), Some("text/html" | "application/xhtml+xml"));
    html && line.status.as_deref() == Some("200")
}

/// `20261118203000` as `2026-11-18T20:30:00Z`.
fn dashed(digits: &str) -> String {
    let part = |from, to| digits.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(8, 10),
        part(10, 12),
        part(12, 14)
    )
}

/// A file without a name, for what is not large and not known before.
fn unnamed() -> anyhow::Result<File> {
    let path = std::env::temp_dir().join(format!(".lycosa-export-{}", uuid::Uuid::new_v4()));
    let file = File::options().read(true).write(true).create_new(true).open(&path);
    let file = file.with_context(|| format!("make {}", path.display()))?;
    std::fs::remove_file(&path).with_context(|| format!("unlink {}", path.display()))?;
    Ok(file)
}

/// Lines in gzip members of some thousands each, and a line for each member.
struct Blocks {
    out: BufWriter<File>,
    at: u64,
    block: GzEncoder<Vec<u8>>,
    lines: usize,
    /// The key and moment of the block's first line.
    first: String,
    found: String,
}

impl Blocks {
    fn new(out: File) -> Self {
        let found = r#"!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}"#;
        Self {
            out: BufWriter::with_capacity(BUFFER_BYTES, out),
            at: 0,
            block: encoder(),
            lines: 0,
            first: String::new(),
            found: format!("{found}\n"),
        }
    }

    fn push(&mut self, line: &[u8]) -> anyhow::Result<()> {
        if self.lines == 0 {
            let text = String::from_utf8_lossy(line);
            let mut words = text.splitn(3, ' ');
            let (key, at) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            self.first = format!("{key} {at}");
        }
        self.block.write_all(line)?;
        self.lines += 1;
        if self.lines >= BLOCK_LINES_MAX { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> anyhow::Result<()> {
        let block = std::mem::replace(&mut self.block, encoder()).finish()?;
        let said = json!({
            "offset": self.at,
            "length": block.len(),
            "digest": hash(Sha256::new().chain_update(&block)),
            "filename": "index.cdx.gz",
        });
        self.found.push_str(&format!("{} {said}\n", self.first));
        self.out.write_all(&block)?;
        self.at += block.len() as u64;
        self.lines = 0;
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<(File, String)> {
        if self.lines > 0 {
            self.end_block()?;
        }
        Ok((self.out.into_inner().map_err(io::IntoInnerError::into_error)?, self.found))
    }
}

fn encoder() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::default())
}
