//! How do we come by what cargo cannot build?
//!
//! Python tools live in an environment of their own below the target folder. What the system
//! itself lacks is installed on Debian as root; elsewhere the one line to type is printed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::repo::{self, Repo};

/// Tests find the Python with the tools in this variable.
pub const VARIABLE: &str = "LYCOSA_PYTHON";

/// The outside judges of our archives (setuptools is for the one that asks for its resources), and
/// what a client of our frontier service is made of.
const TOOLS: &[&str] = &[
    "warcio==1.7.5",
    "cdxj-indexer==1.4.6",
    "setuptools<81",
    "grpcio==1.76.0",
    "grpcio-tools==1.76.0",
    "grpcio-health-checking==1.76.0",
    "grpcio-reflection==1.76.0",
    // The engine that asks our tables, and what it tells times with.
    "duckdb==2.0.0",
    "pytz==2026.6",
];

/// The Python that has the tools; made at the first call.
pub fn venv(repo: &Repo) -> Result<PathBuf> {
    let folder = repo.target.join("python");
    let python = folder.join("bin/python");
    let stamp = folder.join("tools.txt");
    let wanted = TOOLS.join("\n");
    if python.is_file() && fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(python);
    }
    if !speaks(&["-c", "import venv, ensurepip"]) {
        install(&["python3", "python3-venv"])?;
    }
    let mut make = Command::new("python3");
    repo::run(make.args(["-m", "venv", "--clear"]).arg(&folder)).context("make a venv")?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(TOOLS);
    repo::run(&mut pip).context("install the Python tools")?;
    repo::write(&stamp, &wanted)?;
    Ok(python)
}

fn speaks(args: &[&str]) -> bool {
    let mut python = Command::new("python3");
    python.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    python.status().is_ok_and(|status| status.success())
}

/// RocksDB's bindings are made at build time, which needs libclang.
pub fn need_libclang() -> Result<()> {
    let known = std::env::var_os("LIBCLANG_PATH").is_some()
        || ["/usr/lib", "/usr/lib64", "/usr/local/lib"].iter().any(|folder| has_libclang(folder));
    if known { Ok(()) } else { install(&["libclang-dev", "g++", "make"]) }
}

/// In the folder, or one or two folders below, where distributions put it.
fn has_libclang(folder: &str) -> bool {
    let mut open = vec![(PathBuf::from(folder), 0)];
    while let Some((folder, depth)) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if is_libclang(&entry.file_name().to_string_lossy()) {
                return true;
            }
            if depth < 2 && entry.path().is_dir() {
                open.push((entry.path(), depth + 1));
            }
        }
    }
    false
}

/// `libclang.so.1`, `libclang-14.so`; a machine may well have only `libclang-cpp.so`, which is
/// another library.
fn is_libclang(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("libclang") else { return false };
    let version = rest.strip_prefix('-').unwrap_or_default();
    rest.starts_with(".so") || version.starts_with(|c: char| c.is_ascii_digit())
}

/// Installs packages of the system, or says how.
fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    let line = format!("apt-get install -y --no-install-recommends {list}");
    let debian = Path::new("/etc/debian_version").exists();
    let root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    if !debian || !root {
        bail!("something is missing on this machine; install it and try again:\n    {line}");
    }
    println!("installing {list}");
    let mut update = Command::new("apt-get");
    repo::run(update.args(["update", "-qq"])).context("refresh the package lists")?;
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    apt.args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages);
    repo::run(&mut apt).with_context(|| format!("by hand: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libclang_is_not_taken_for_granted_because_its_neighbour_is_there() {
        for name in ["libclang.so", "libclang.so.1", "libclang-14.so.1", "libclang-14.0.6.so"] {
            assert!(is_libclang(name), "{name}");
        }
        for name in ["libclang-cpp.so.14", "libclang_rt.asan.a", "libc.so", "libclangAST.a"] {
            assert!(!is_libclang(name), "{name}");
        }
    }
}
