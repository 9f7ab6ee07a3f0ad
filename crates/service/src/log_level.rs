//! How much is logged of what, changed while the service runs.

use std::sync::Arc;

/// Somebody who can change it.
#[derive(Clone)]
pub struct LogLevels(Arc<Set>);

type Set = dyn Fn(&str, &str) + Send + Sync;

impl LogLevels {
    /// `set` is given a part of the program, or nothing for all of it, and a level by name.
    pub fn new(set: impl Fn(&str, &str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(set))
    }

    pub fn set(&self, part: &str, level: &str) {
        (self.0)(part, level);
    }
}

impl std::fmt::Debug for LogLevels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogLevels")
    }
}
