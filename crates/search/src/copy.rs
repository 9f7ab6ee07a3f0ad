//! How is an index saved while somebody writes to it?
//!
//! Files of an index never change once `meta.json` names them; they only go away. So a snapshot is the
//! words of that one file and an open handle on each that it names, taken while nobody may remove any.
//! Copying them can take its time after that.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ports::{PortError, PortResult};
use tantivy::Directory as _;
use tantivy::directory::{META_LOCK, MmapDirectory};

use crate::fault::port;
use crate::schema;

const META: &str = "meta.json";
/// The list of files that tantivy may remove when nobody needs them any more, in its form.
const MANAGED: &str = ".managed.json";

/// An index as it was at one moment.
#[derive(Debug)]
pub struct Snapshot {
    folder: PathBuf,
    meta: Vec<u8>,
    files: Vec<(PathBuf, File)>,
}

impl Snapshot {
    /// Takes hold of the latest commit; none if there is no index.
    pub fn take(folder: &Path) -> PortResult<Option<Self>> {
        let doing = || format!("save the index in {}", folder.display());
        let failed = |error: io::Error| PortError::io(doing(), &error);
        let meta_path = folder.join(META);
        if !meta_path.exists() {
            return Ok(None);
        }
        let directory = MmapDirectory::open(folder).map_err(|error| port(doing())(error.into()))?;
        let (index, _) = schema::open(directory).map_err(port(doing()))?;
        // Nothing is removed as long as this is held; commits go on.
        let lock = index.directory().acquire_lock(&META_LOCK);
        let _lock = lock.map_err(|error| port(doing())(error.into()))?;
        let (meta, names) = loop {
            let before = fs::read(&meta_path).map_err(failed)?;
            let names = index.load_metas().map_err(port(doing()))?.list_segment_files();
            if fs::read(&meta_path).map_err(failed)? == before {
                break (before, names);
            }
        };
        let mut files = Vec::new();
        for name in names {
            match File::open(folder.join(&name)) {
                Ok(file) => files.push((name, file)),
                // Named are all that there may be; one without deletions has no file of them.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(Some(Self { folder: folder.to_owned(), meta, files }))
    }

    /// Puts the index into a folder, which is made; on the disk when this is done. Says how many bytes were
    /// copied: files that are still there become links, where the disk is the same.
    pub fn save(self, to: &Path) -> PortResult<u64> {
        self.put(to).map_err(|error| {
            let doing = format!("copy the full-text index to {}", to.display());
            PortError::io(doing, &error)
        })
    }

    fn put(mut self, to: &Path) -> io::Result<u64> {
        fs::create_dir_all(to)?;
        let mut copied = 0;
        for (name, file) in &mut self.files {
            let path = to.join(&*name);
            if fs::hard_link(self.folder.join(&*name), &path).is_err() {
                let mut out = File::create(&path)?;
                copied += io::copy(file, &mut out)?;
                out.sync_all()?;
            }
        }
        let names = self.files.iter().map(|(name, _)| name.display().to_string());
        let names: Vec<String> =
            names.chain([META.to_owned()]).map(|n| format!("\"{n}\"")).collect();
        write(&to.join(MANAGED), format!("[{}]", names.join(",")).as_bytes())?;
        write(&to.join(META), &self.meta)?;
        File::open(to)?.sync_all()?;
        Ok(copied + self.meta.len() as u64)
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut out = File::create(path)?;
    out.write_all(bytes)?;
    out.sync_all()
}
