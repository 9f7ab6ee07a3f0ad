//! The parts that a node can play. On one machine all of them run in one process.

pub mod frontier;
pub mod worker;
