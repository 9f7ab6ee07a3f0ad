//! The plain work of a visit, one file a stage, in the order in which a URL passes them.

pub mod fetch;
pub mod follow;
pub mod gate;
pub mod read;
pub mod store;
pub mod told;
