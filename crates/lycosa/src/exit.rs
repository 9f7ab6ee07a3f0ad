//! How does the process end, and what does it say then?
//!
//! The numbers are a contract: scripts act on them. An error is one sentence on stderr that ends
//! with what to type instead.

use std::fmt;
use std::process::ExitCode;

use ports::{PortError, PortErrorKind};

use crate::settings::layers::SettingsError;

/// Every way in which a command can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done; also when URLs were deferred.
    Done = 0,
    /// A failure: directory locked or unwritable, no seed could be fetched, `warc check` found
    /// damage, `explain` does not know the URL.
    Failure = 1,
    /// Wrong usage: syntax, no or bad seed, missing contact.
    Usage = 2,
    /// The disk is full.
    DiskFull = 3,
    /// A bad key or value from `-s`, environment or file; a directory of another version.
    Settings = 4,
    /// The first interrupt; resumable, as are all that follow.
    Interrupted = 11,
    /// The second interrupt.
    Abandoned = 13,
    SizeLimit = 14,
    TimeLimit = 15,
    /// Less free disk than `store.disk_free_min`.
    DiskLow = 16,
    PageLimit = 17,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command could not do what it was asked.
#[derive(Debug)]
pub struct Fail {
    pub exit: Exit,
    pub error: anyhow::Error,
}

pub type Outcome = Result<Exit, Fail>;

impl Fail {
    pub fn new(exit: Exit, sentence: impl fmt::Display) -> Self {
        Self { exit, error: anyhow::anyhow!("{sentence}") }
    }

    pub fn usage(sentence: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, sentence)
    }

    pub fn failure(sentence: impl fmt::Display) -> Self {
        Self::new(Exit::Failure, sentence)
    }

    pub fn settings(sentence: impl fmt::Display) -> Self {
        Self::new(Exit::Settings, sentence)
    }

    /// A failure to write, in a sentence of its own; a full disk keeps its code.
    pub fn unwritable(error: &std::io::Error, sentence: impl fmt::Display) -> Self {
        let exit = if is_full(error) { Exit::DiskFull } else { Exit::Failure };
        Self::new(exit, sentence)
    }

    /// Whoever read our output has seen enough: no error at all.
    pub fn is_broken_pipe(&self) -> bool {
        self.error.chain().any(|cause| {
            cause
                .downcast_ref::<std::io::Error>()
                .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
        })
    }
}

impl<E: Into<anyhow::Error>> From<E> for Fail {
    fn from(error: E) -> Self {
        let error = error.into();
        Self { exit: exit_of(&error), error }
    }
}

fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

fn exit_of(error: &anyhow::Error) -> Exit {
    for cause in error.chain() {
        if cause.is::<SettingsError>() {
            return Exit::Settings;
        }
        match cause.downcast_ref::<fetch::Error>() {
            // What the system says of itself is no setting of ours.
            Some(fetch::Error::Dns(_)) => return Exit::Failure,
            Some(_) => return Exit::Settings,
            None => {}
        }
        if let Some(port) = cause.downcast_ref::<PortError>() {
            return of_port(port.kind);
        }
        if let Some(engine::EngineError::Port(port)) = cause.downcast_ref::<engine::EngineError>() {
            return of_port(port.kind);
        }
        if let Some(io) = cause.downcast_ref::<std::io::Error>()
            && is_full(io)
        {
            return Exit::DiskFull;
        }
    }
    Exit::Failure
}

const fn of_port(kind: PortErrorKind) -> Exit {
    match kind {
        PortErrorKind::DiskFull => Exit::DiskFull,
        PortErrorKind::Version => Exit::Settings,
        PortErrorKind::Locked | PortErrorKind::Corrupt | PortErrorKind::Io => Exit::Failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn the_cause_decides_the_number() {
        let exit = |error: anyhow::Error| Fail::from(error).exit;
        assert_eq!(exit(SettingsError("x".to_owned()).into()), Exit::Settings);
        let port = |kind| PortError::new(kind, "open", "x");
        assert_eq!(exit(port(PortErrorKind::Version).into()), Exit::Settings);
        assert_eq!(exit(port(PortErrorKind::DiskFull).into()), Exit::DiskFull);
        let wrapped: anyhow::Result<()> =
            Err(port(PortErrorKind::Locked)).context("open the directory");
        assert_eq!(exit(wrapped.unwrap_err()), Exit::Failure);
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert_eq!(exit(full.into()), Exit::DiskFull);
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        let pipe = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(Fail::from(pipe).is_broken_pipe());
        assert!(!Fail::failure("x").is_broken_pipe());
    }
}
