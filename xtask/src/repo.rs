//! Where are we, and how is a command run?

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// The workspace.
#[derive(Debug, Clone)]
pub struct Repo {
    pub root: PathBuf,
    /// Where cargo builds; scratch of ours lies there too.
    pub target: PathBuf,
}

impl Repo {
    /// From the folder in which cargo was called, upwards.
    pub fn find() -> Result<Self> {
        let here = env::current_dir().context("find the current folder")?;
        let root = here.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file());
        let root = root.context("this is not inside the lycosa workspace")?.to_owned();
        let target = match env::var_os("CARGO_TARGET_DIR") {
            // Cargo takes a relative one from where it was called.
            Some(target) => here.join(target),
            None => root.join("target"),
        };
        Ok(Self { root, target })
    }

    /// Cargo in the workspace's root; the same cargo that runs us.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root);
        command
    }

    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    pub fn read(&self, relative: impl AsRef<Path>) -> Result<String> {
        read(&self.path(relative))
    }
}

pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

pub fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// Runs a command to its end, with our own input and output.
pub fn run(command: &mut Command) -> Result<()> {
    let line = line_of(command);
    let status = command.status().with_context(|| format!("start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// A command as one would type it. The folder in which a tool lies is left out.
pub fn line_of(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// All files below a folder, in order, as paths relative to `root`. Build folders are passed over.
pub fn files_below(root: &Path, folder: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![root.join(folder)];
    while let Some(folder) = open.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))?;
        for entry in entries {
            let path = entry.context("list a folder")?.path();
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            if name == "target" || name.starts_with('.') {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if let Ok(relative) = path.strip_prefix(root) {
                files.push(relative.to_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}
