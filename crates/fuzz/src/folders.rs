//! Where do inputs lie?
//!
//! `corpus/TARGET/` has small inputs made by hand, each named for what it shows. `findings/TARGET/`
//! has what once broke something, named by its hash; it stays when the bug is gone, because every
//! run of the tests goes through both folders.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Target;
use crate::shape::Shape;

/// A file and its bytes.
pub type Input = (PathBuf, Vec<u8>);

/// All inputs of a target that are kept in files, in the order of their names.
pub fn inputs(target: &Target) -> Vec<Input> {
    [corpus(target), findings(target)].concat()
}

pub fn corpus(target: &Target) -> Vec<Input> {
    read(&folder("corpus", target.name))
}

fn findings(target: &Target) -> Vec<Input> {
    read(&folder("findings", target.name))
}

/// Writes a finding down and says how to see it again.
pub fn keep(target: &Target, input: &[u8]) -> String {
    let mut hash = Shape::default();
    input.iter().for_each(|&byte| hash.add(u64::from(byte)));
    let folder = folder("findings", target.name);
    let path = folder.join(hash.digits());
    let again = format!("cargo xtask fuzz --target {} --seconds 0", target.name);
    match fs::create_dir_all(&folder).and_then(|()| fs::write(&path, input)) {
        Ok(()) => format!("kept in {}, seen again by `{again}`", path.display()),
        Err(error) => format!("not kept ({error}): {:?}", String::from_utf8_lossy(input)),
    }
}

fn folder(kind: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(kind).join(name)
}

/// A folder that is not there has no files.
fn read(folder: &Path) -> Vec<Input> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("list a folder of inputs").path());
    let mut paths: Vec<_> = paths.filter(|path| path.is_file()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).expect("read an input");
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}
