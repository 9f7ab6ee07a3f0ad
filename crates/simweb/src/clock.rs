//! What time is it in a simulation, and on a server?

use std::time::{Instant, SystemTime};

use ports::Clock;
use types::Timestamp;

/// The time of the Tokio runtime: virtual when its clock is paused, real otherwise.
#[derive(Debug, Clone, Copy)]
pub struct SimClock {
    start: Timestamp,
    begun: tokio::time::Instant,
}

impl SimClock {
    /// The clock shows `start` now. To be made inside the runtime whose time it tells.
    pub fn new(start: Timestamp) -> Self {
        Self { start, begun: tokio::time::Instant::now() }
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        self.start + self.begun.elapsed()
    }
}

/// Wall time at the start, carried on by the monotonic clock: it never goes back.
#[derive(Debug, Clone, Copy)]
pub struct ServerClock {
    start: Timestamp,
    begun: Instant,
}

impl ServerClock {
    pub fn new() -> Self {
        Self { start: SystemTime::now().into(), begun: Instant::now() }
    }
}

impl Default for ServerClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ServerClock {
    fn now(&self) -> Timestamp {
        self.start + self.begun.elapsed()
    }
}
