//! What does a visit find around it?
//!
//! One value per run, shared by all visits: the ports, the rules, the counters. Nothing here is
//! global, and nothing is read from a configuration at the point of use.

use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use frontier::{Addresses, Scope};
use ports::{Fetcher, Resolver};
use types::record::RetryPolicy;
use types::{Canon, ShardId};

use crate::claims::ClaimBook;
use crate::clock::SteadyClock;
use crate::events::Events;
use crate::keeper::KeeperHandle;
use crate::pool::Pool;
use crate::robots_book::{RobotsBook, RobotsSettings};

/// The engine's part of the settings, resolved.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    pub shards: u16,
    /// Our token in robots.txt.
    pub product: String,
    pub robots: RobotsSettings,
    pub retry: RetryPolicy,
    pub redirects_max: u8,
    /// A server is believed so often in a row that a page has not changed; 0: for ever.
    pub not_modified_max: u32,
    pub page_limits: page::Limits,
    /// Whether the text of pages is read, not only their links.
    pub content: bool,
    /// Whether a sink wants that text, too. It is held until its group is committed.
    pub readings: bool,
    pub archive: bool,
    pub archive_level: u8,
    /// Tells the records of this crawl from those of any other.
    pub crawl_id: u128,
    pub concurrency: usize,
    pub patience: Duration,
    pub max_pages: Option<u64>,
    pub max_bytes: Option<u64>,
    pub max_time: Option<Duration>,
    /// Longest wait of a settled visit for its group's commit.
    pub commit_wait: Duration,
    pub durable: bool,
    pub politeness: frontier::Politeness,
    /// What holds for some hosts only.
    pub sheets: Arc<frontier::HostSheets>,
    /// Seeds the orders that are left to chance, so that a run can be replayed.
    pub seed: u64,
}

impl EngineOptions {
    /// Whether the robots.txt of this host counts.
    pub fn obeys_robots(&self, host: &str) -> bool {
        self.sheets.obeys_robots(host).unwrap_or(self.robots.obey)
    }
}

pub struct Ctx {
    pub clock: SteadyClock,
    pub fetcher: Arc<dyn Fetcher>,
    pub resolver: Arc<dyn Resolver>,
    pub pool: Pool,
    pub robots: RobotsBook,
    pub scope: RwLock<Scope>,
    pub canon: Canon,
    /// The gates of addresses, common to all shards.
    pub addresses: Mutex<Addresses>,
    /// What other crawls of this machine let us visit.
    pub claims: ClaimBook,
    pub events: Events,
    pub options: EngineOptions,
    pub keepers: Vec<KeeperHandle>,
}

impl Ctx {
    pub fn keeper(&self, shard: ShardId) -> &KeeperHandle {
        &self.keepers[usize::from(shard.0)]
    }
}

impl std::fmt::Debug for Ctx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ctx").field("options", &self.options).finish_non_exhaustive()
    }
}
