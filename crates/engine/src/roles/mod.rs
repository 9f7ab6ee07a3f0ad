//! The parts that a node can play. On one machine all of them run in one process.

pub mod crew;
pub mod frontier;
pub mod ledger;
pub mod outpost;
pub mod worker;
