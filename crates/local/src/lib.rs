//! The durable state of one machine.
//!
//! [`shard::Shard`] is the shard store, written once over the narrow [`kv::Kv`], which has three
//! engines: in memory (on a simulated [`sim_disk::Disk`] that can lose power), fjall, RocksDB.
//! [`archive::WarcArchive`] puts the exact bytes of visits into WARC files.
//!
//! Not here: what deserves to be stored (`engine`), nor how a record looks inside (`types`,
//! `warc`).

pub mod archive;
pub mod cdxj;
#[cfg(target_os = "linux")]
pub mod claims;
pub mod depot;
pub mod duplicates;
pub mod engine;
pub mod erase;
pub mod files;
#[cfg(feature = "fjall")]
pub mod fjall;
pub mod foreign;
pub mod kv;
pub mod memory;
pub mod pages;
#[cfg(any(feature = "fjall", feature = "rocksdb", test))]
mod readers;
#[cfg(feature = "rocksdb")]
pub mod rocks;
pub mod shard;
mod side;
pub mod sim_disk;
pub mod sim_files;
pub mod spool;

pub use archive::ArchiveSettings;
pub use cdxj::CdxjSink;
pub use depot::FolderDepot;
pub use duplicates::{DuplicateCounts, Duplicates, Membership, Standing};
pub use engine::{Engine, EngineSettings, open_duplicates, open_foreign, open_shards};
pub use files::WarcFiles;
pub use foreign::Foreign;
pub use kv::Kv;
pub use memory::MemoryKv;
pub use pages::Pages;
pub use shard::{Shard, ShardSettings};
pub use sim_disk::Disk;
pub use sim_files::MemoryArchive;
pub use spool::FolderSpool;
