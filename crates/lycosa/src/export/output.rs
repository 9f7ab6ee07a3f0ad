//! Where does an export go?
//!
//! To stdout, or to a file that has another name until it is whole. A name that ends in `.gz` is packed on
//! the way. What did not become whole is removed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::exit::Fail;

const BUFFER_BYTES: usize = 256 << 10;

/// An export on its way.
pub struct Output {
    out: Out,
    file: Option<Draft>,
}

enum Out {
    Stdout(BufWriter<io::Stdout>),
    File(BufWriter<File>),
    Packed(Box<GzEncoder<BufWriter<File>>>),
}

impl Output {
    /// `packed`: whether `.gz` means that we pack; formats that are packed by themselves do not want
    /// that.
    pub fn begin(path: Option<&Path>, packed: bool) -> Result<Self, Fail> {
        let Some(path) = path else {
            let out = Out::Stdout(BufWriter::with_capacity(BUFFER_BYTES, io::stdout()));
            return Ok(Self { out, file: None });
        };
        let (draft, file) = Draft::begin(path)?;
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        let out = match packed && is_gz(path) {
            true => Out::Packed(Box::new(GzEncoder::new(file, Compression::default()))),
            false => Out::File(file),
        };
        Ok(Self { out, file: Some(draft) })
    }

    /// Everything is written: a file gets its name.
    pub fn finish(self) -> anyhow::Result<()> {
        let file = match self.out {
            Out::Stdout(mut out) => {
                out.flush()?;
                None
            }
            Out::File(out) => Some(out),
            Out::Packed(out) => Some(out.finish()?),
        };
        match (file, self.file) {
            (Some(out), Some(draft)) => {
                draft.finish(&out.into_inner().map_err(io::IntoInnerError::into_error)?)
            }
            _ => Ok(()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Out::Stdout(out) => out.write(bytes),
            Out::File(out) => out.write(bytes),
            Out::Packed(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::Stdout(out) => out.flush(),
            Out::File(out) => out.flush(),
            Out::Packed(out) => out.flush(),
        }
    }
}

/// Whether a name asks for gzip.
pub fn is_gz(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"))
}

/// A file that has not its final name yet. Dropped, it is gone.
#[derive(Debug)]
pub struct Draft {
    draft: PathBuf,
    path: PathBuf,
    done: bool,
}

impl Draft {
    /// Begins `path` under another name beside it.
    pub fn begin(path: &Path) -> Result<(Self, File), Fail> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let draft = path.with_file_name(name);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&draft);
        let file = file.map_err(|error| {
            let sentence =
                format!("cannot write {}: {error}; choose another file with -o", path.display());
            Fail::unwritable(&error, sentence)
        })?;
        Ok((Self { draft, path: path.to_owned(), done: false }, file))
    }

    /// Gives it its name.
    pub fn finish(mut self, file: &File) -> anyhow::Result<()> {
        let put = || -> io::Result<()> {
            file.sync_all()?;
            fs::rename(&self.draft, &self.path)
        };
        put().with_context(|| format!("finish {}", self.path.display()))?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.done
            && let Err(error) = fs::remove_file(&self.draft)
        {
            tracing::warn!(%error, "half an export is left in {}", self.draft.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl.gz");
        let mut output = Output::begin(Some(&path), true).unwrap();
        output.write_all(b"one line\n").unwrap();
        assert!(!path.exists());
        drop(output);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "half of it is nothing");
        let mut output = Output::begin(Some(&path), true).unwrap();
        output.write_all(b"one line\n").unwrap();
        output.finish().unwrap();
        let mut text = String::new();
        let file = File::open(&path).unwrap();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
        assert_eq!(text, "one line\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let nowhere = folder.path().join("none/x");
        let fail = Output::begin(Some(&nowhere), false).err().unwrap();
        assert!(fail.error.to_string().contains("-o"), "{}", fail.error);
    }
}
