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

/// Looks at two clocks of which one at least lies close together.
const TRIES: usize = 3;

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

    /// A moment that the kernel has named, on this clock; now if it has named none.
    pub(crate) fn at(&self, wall: Option<SystemTime>) -> Timestamp {
        let Some(wall) = wall else { return self.now() };
        // How long ago it was. We may be put aside between two looks at the clocks; what counts
        // is the try in which they lay closest together.
        let tries = (0..TRIES).map(|_| {
            let before = self.now();
            let ago = wall.elapsed().unwrap_or_default();
            (self.now().since(before), before - ago)
        });
        tries.min().map_or_else(|| self.now(), |(_, at)| at)
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
