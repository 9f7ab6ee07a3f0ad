//! What do tantivy's errors mean to whoever calls us?

use std::io;

use ports::{PortError, PortErrorKind};
use tantivy::TantivyError;
use tantivy::directory::error::{LockError, OpenDirectoryError, OpenReadError, OpenWriteError};

/// A full disk in the words of the system. Some errors have come through a thread that left no more of them.
const FULL: &str = "os error 28";

/// With what was being done, as the start of a sentence.
pub(crate) fn port(doing: impl Into<String>) -> impl FnOnce(TantivyError) -> PortError {
    let doing = doing.into();
    move |error| {
        if let Some(cause) = io_of(&error) {
            return PortError::io(doing, cause);
        }
        let kind = match &error {
            _ if error.to_string().contains(FULL) => PortErrorKind::DiskFull,
            TantivyError::LockFailure(..) => PortErrorKind::Locked,
            TantivyError::SchemaError(_) | TantivyError::IncompatibleIndex(_) => {
                PortErrorKind::Version
            }
            TantivyError::DataCorruption(_) => PortErrorKind::Corrupt,
            _ => PortErrorKind::Io,
        };
        PortError::new(kind, doing, error)
    }
}

fn io_of(error: &TantivyError) -> Option<&io::Error> {
    match error {
        TantivyError::IoError(cause)
        | TantivyError::LockFailure(LockError::IoError(cause), _)
        | TantivyError::OpenDirectoryError(OpenDirectoryError::IoError {
            io_error: cause, ..
        })
        | TantivyError::OpenReadError(OpenReadError::IoError { io_error: cause, .. })
        | TantivyError::OpenWriteError(OpenWriteError::IoError { io_error: cause, .. }) => {
            Some(cause)
        }
        _ => None,
    }
}
