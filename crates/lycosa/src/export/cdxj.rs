//! How do the indexes of all files become one, sorted?
//!
//! Each index of a closed file is sorted already; one that grows is not. Every file becomes a run: itself
//! if it is sorted, or sorted pieces of it in a folder of our own. Runs are merged, a hundred and more at a
//! time, until one is left.
//!
//! Always: memory is that of one piece, open files are those of one merge. The order is that of bytes,
//! as `LC_ALL=C sort` has it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Lines that are sorted in memory.
const PIECE_BYTES_MAX: usize = 64 << 20;
/// Runs that are merged in one go: far fewer than files that may be open.
const RUNS_MAX: usize = 128;
const BUFFER_BYTES: usize = 64 << 10;

/// Gives all lines of the indexes in `folder` in order, each with its line end. Pieces go to a folder
/// below `scratch`, which is gone afterwards.
pub fn merged(
    folder: &Path,
    scratch: &Path,
    each: &mut dyn FnMut(&[u8]) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<()> {
    let mut pieces = Pieces::new(scratch);
    let mut runs = Vec::new();
    for path in indexes(folder)? {
        add_runs(&path, &mut runs, &mut pieces)
            .with_context(|| format!("read {}", path.display()))?;
    }
    while runs.len() > RUNS_MAX {
        let rest = runs.split_off(RUNS_MAX);
        let (path, mut out) = pieces.begin()?;
        merge(&runs, &mut |line| {
            out.write_all(line)?;
            Ok(ControlFlow::Continue(()))
        })?;
        out.flush()?;
        pieces.drop_those_of(&runs)?;
        // It goes behind the others, so that every line is copied as often as any.
        runs = rest;
        runs.push(Run { path, bytes: None });
    }
    merge(&runs, each)
}

fn indexes(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let say = || format!("list {}", folder.display());
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(say),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.with_context(say)?.path();
        if path.extension().is_some_and(|extension| extension == "cdxj") {
            found.push(path);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Sorted lines in a file.
#[derive(Debug)]
struct Run {
    path: PathBuf,
    /// So much of it; a file that grows meanwhile is not read further.
    bytes: Option<u64>,
}

/// Looks whether an index is sorted, and sorts it if not.
fn add_runs(path: &Path, runs: &mut Vec<Run>, pieces: &mut Pieces) -> anyhow::Result<()> {
    let (sorted, bytes) = survey(path)?;
    if sorted {
        runs.push(Run { path: path.to_owned(), bytes: Some(bytes) });
        return Ok(());
    }
    let mut input = Lines::open(&Run { path: path.to_owned(), bytes: Some(bytes) })?;
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut held = 0;
    loop {
        let more = input.advance()?;
        if more {
            held += input.line.len();
            lines.push(input.line.clone());
        }
        if held >= PIECE_BYTES_MAX || !more && !lines.is_empty() {
            lines.sort_unstable();
            let (path, mut out) = pieces.begin()?;
            lines.iter().try_for_each(|line| out.write_all(line))?;
            out.flush()?;
            runs.push(Run { path, bytes: None });
            lines.clear();
            held = 0;
        }
        if !more {
            return Ok(());
        }
    }
}

/// Whether the whole lines of a file are sorted, and how many bytes they have.
fn survey(path: &Path) -> io::Result<(bool, u64)> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, File::open(path)?);
    let (mut line, mut before) = (Vec::new(), Vec::new());
    let (mut sorted, mut bytes) = (true, 0);
    loop {
        line.clear();
        let read = input.read_until(b'\n', &mut line)? as u64;
        if !line.ends_with(b"\n") {
            return Ok((sorted, bytes));
        }
        bytes += read;
        sorted &= before <= line;
        std::mem::swap(&mut line, &mut before);
    }
}

/// A run that is read.
struct Lines {
    input: BufReader<io::Take<File>>,
    line: Vec<u8>,
}

impl Lines {
    fn open(run: &Run) -> io::Result<Self> {
        let file = io::Read::take(File::open(&run.path)?, run.bytes.unwrap_or(u64::MAX));
        Ok(Self { input: BufReader::with_capacity(BUFFER_BYTES, file), line: Vec::new() })
    }

    fn advance(&mut self) -> io::Result<bool> {
        self.line.clear();
        Ok(self.input.read_until(b'\n', &mut self.line)? > 0)
    }
}

fn merge(
    runs: &[Run],
    each: &mut dyn FnMut(&[u8]) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<()> {
    let mut open = Vec::new();
    let mut heap = BinaryHeap::new();
    for (at, run) in runs.iter().enumerate() {
        let say = || format!("read {}", run.path.display());
        let mut lines = Lines::open(run).with_context(say)?;
        if lines.advance().with_context(say)? {
            heap.push(Reverse((std::mem::take(&mut lines.line), at)));
        }
        open.push(lines);
    }
    while let Some(Reverse((line, at))) = heap.pop() {
        if each(&line)?.is_break() {
            return Ok(());
        }
        let lines = &mut open[at];
        lines.line = line;
        if lines.advance().with_context(|| format!("read {}", runs[at].path.display()))? {
            heap.push(Reverse((std::mem::take(&mut lines.line), at)));
        }
    }
    Ok(())
}

/// Files of our own, gone in the end.
struct Pieces {
    folder: PathBuf,
    made: usize,
}

impl Pieces {
    fn new(scratch: &Path) -> Self {
        let folder = scratch.join(format!(".lycosa-export-{}", uuid::Uuid::new_v4()));
        Self { folder, made: 0 }
    }

    fn begin(&mut self) -> anyhow::Result<(PathBuf, BufWriter<File>)> {
        let say = || format!("make room to sort in {}", self.folder.display());
        fs::create_dir_all(&self.folder).with_context(say)?;
        let path = self.folder.join(format!("run-{}", self.made));
        self.made += 1;
        let file = File::create_new(&path).with_context(say)?;
        Ok((path, BufWriter::with_capacity(BUFFER_BYTES, file)))
    }

    fn drop_those_of(&self, runs: &[Run]) -> anyhow::Result<()> {
        for run in runs.iter().filter(|run| run.path.starts_with(&self.folder)) {
            fs::remove_file(&run.path).with_context(|| format!("remove {}", run.path.display()))?;
        }
        Ok(())
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if self.made > 0
            && let Err(error) = fs::remove_dir_all(&self.folder)
        {
            tracing::warn!(%error, "files to sort are left in {}", self.folder.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_indexes_becomes_one_in_the_order_of_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let mut all = Vec::new();
        for file in 0..300_usize {
            let mut lines: Vec<String> =
                (0..20).map(|n| format!("{:03} {file}\n", (n * 7 + file * 13) % 101)).collect();
            // Most are sorted; one ends with a torn line.
            if file % 50 != 7 {
                lines.sort();
            }
            let torn = if file == 9 { "000 torn" } else { "" };
            all.extend(lines.iter().cloned());
            let name = format!("lycosa-00-{file:05}.cdxj");
            fs::write(folder.path().join(name), lines.concat() + torn).unwrap();
        }
        all.sort();
        let scratch = tempfile::tempdir().unwrap();
        let mut text = Vec::new();
        merged(folder.path(), scratch.path(), &mut |line| {
            text.extend_from_slice(line);
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), all.concat());
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);

        let mut few = 0;
        merged(folder.path(), scratch.path(), &mut |_| {
            few += 1;
            Ok(if few == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
        .unwrap();
        assert_eq!(few, 3);
    }
}
