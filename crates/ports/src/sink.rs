//! Who else wants to hear of committed visits?
//!
//! A sink reads the visit log in order and keeps its own cursor inside its own commit, so that
//! after a crash nothing is doubled and nothing missed.

use crate::error::PortResult;
use crate::shard_store::VisitLine;

pub trait Sink: Send {
    /// A fixed name, for messages.
    fn name(&self) -> &'static str;

    /// The log position after which this sink wants lines; 0 for all.
    fn cursor(&self) -> u64;

    /// Takes committed lines in order. Lines at or before the cursor are ignored.
    fn feed(&mut self, lines: &[VisitLine]) -> PortResult<()>;

    /// The crawl ends for now: whatever is buffered becomes durable.
    fn close(&mut self) -> PortResult<()>;
}
