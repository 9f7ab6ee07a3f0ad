//! What time is it, and how do we wait for a moment?
//!
//! Wall time at the start, carried on by the monotonic clock: a gap between two requests cannot
//! shrink because somebody set the machine's clock. Under a paused runtime the same clock is
//! virtual, so a simulation needs no other one.

use std::time::SystemTime;

use ports::Clock;
use tokio::time::Instant;
use types::Timestamp;

#[derive(Debug, Clone, Copy)]
pub struct SteadyClock {
    wall: Timestamp,
    start: Instant,
}

impl SteadyClock {
    /// From the machine's clock, but not before `latest`: a state that is younger than the clock
    /// says that the clock was set back.
    pub fn start(latest: Timestamp) -> Self {
        Self::at(Timestamp::from(SystemTime::now()).max(latest))
    }

    /// From a given moment; for simulations.
    pub fn at(wall: Timestamp) -> Self {
        Self { wall, start: Instant::now() }
    }

    /// The runtime's word for a moment.
    pub fn instant(&self, at: Timestamp) -> Instant {
        self.start + at.since(self.wall)
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        self.wall + self.start.elapsed()
    }
}
