//! What time is it?

use types::Timestamp;

/// A clock that never goes back: wall time at the start, carried on by the monotonic clock. In a
/// simulation it is the virtual time of the run.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}
