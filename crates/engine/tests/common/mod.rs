//! A whole crawler in virtual time: the engine on memory ports, before a simulated web.
//!
//! A `Machine` outlives its crawler: its disk, its web and the web's journal stay when the
//! crawler is killed, and its time goes on.

#![expect(clippy::unwrap_used, reason = "a part of tests")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use frontier::{CrawlSettings, Politeness, Scope, ScopeKind, Sizes};
use local::{ArchiveSettings, Disk, Duplicates, MemoryArchive, MemoryKv, Shard, ShardSettings};
use lycosa_engine::{
    Books, Ending, Engine, EngineError, EngineOptions, EngineParts, Events, Pool, SteadyClock,
};
use ports::shard_store::VisitLine;
use ports::{Archive, Claims, Clock, Fetcher, PortResult, Sink};
use simweb::{Journal, SimFetcher, SimResolver, Web};
use types::record::RetryPolicy;
use types::{Canon, CrawlUrl, ShardId, Timestamp};

pub struct Machine {
    pub seed: u64,
    pub shards: u16,
    pub disk: Disk,
    pub web: Arc<dyn Web>,
    pub clock: SteadyClock,
    pub journal: Journal,
    pub crawl: CrawlSettings,
    pub politeness: Politeness,
    pub concurrency: usize,
    pub max_time: Option<Duration>,
    /// Without it visits leave nothing but their records.
    pub archive: bool,
    /// Whether pages are read for their text, and compared.
    pub content: bool,
    pub file_bytes_max: u64,
    pub latency: Duration,
    /// How long a settled visit may wait for others before it is committed.
    pub commit_wait: Duration,
    /// Retries that a host may owe; 0 is no limit.
    pub host_retries: u32,
    /// New URLs between two savings of the filter of seen ones.
    pub checkpoint_urls: u64,
    pub sizes: Sizes,
    /// After each step everything is compared with everything else.
    pub audited: bool,
    /// Other crawls on this machine.
    pub claims: Option<Arc<dyn Claims>>,
    /// How many visits were committed together, each time.
    pub groups: Groups,
    /// What stands between the crawler and the web.
    pub fetcher: Box<dyn Fn(SimFetcher) -> Arc<dyn Fetcher>>,
}

/// 2026-11-15T20:20:00Z, when the first line of this was written.
pub const START: Timestamp = Timestamp::from_secs(1_794_774_000);

impl Machine {
    /// To be made inside the runtime whose time it lives in.
    pub fn new(seed: u64, web: Arc<dyn Web>) -> Self {
        let clock = SteadyClock::at(START);
        Self {
            seed,
            shards: 1,
            disk: Disk::new(),
            web,
            clock,
            journal: Journal::new(Arc::new(clock)),
            crawl: CrawlSettings { scope: ScopeKind::Any, ..CrawlSettings::default() },
            politeness: Politeness::default(),
            concurrency: 16,
            max_time: None,
            archive: true,
            content: true,
            file_bytes_max: 1 << 30,
            latency: Duration::ZERO,
            commit_wait: Duration::from_millis(200),
            host_retries: 0,
            checkpoint_urls: 2_000,
            sizes: Sizes::default(),
            audited: true,
            claims: None,
            groups: Groups::default(),
            fetcher: Box::new(|fetcher| Arc::new(fetcher)),
        }
    }

    pub fn retry(&self) -> RetryPolicy {
        let (delay, host_max) = (Duration::from_secs(10), self.host_retries);
        RetryPolicy { attempts_max: 3, delay, lost_max: 3, host_max }
    }

    pub fn options(&self) -> EngineOptions {
        EngineOptions {
            shards: self.shards,
            product: "lycosa".to_owned(),
            robots: lycosa_engine::RobotsSettings::default(),
            retry: self.retry(),
            redirects_max: 5,
            not_modified_max: 2,
            page_limits: page::Limits::default(),
            content: self.content,
            readings: false,
            archive: self.archive,
            archive_level: 1,
            crawl_id: u128::from(self.seed),
            concurrency: self.concurrency,
            patience: self.crawl.patience.get(),
            max_pages: self.crawl.max_pages,
            max_bytes: None,
            max_time: self.max_time,
            commit_wait: self.commit_wait,
            durable: true,
            politeness: self.politeness.clone(),
            sheets: Arc::default(),
            seed: self.seed,
        }
    }

    /// Opens the store of one shard.
    pub fn shard(&self, n: u16) -> PortResult<Shard<MemoryKv>> {
        let kv = MemoryKv::open(&self.disk, &format!("state-{n}"))?;
        let mut settings = ShardSettings::small(ShardId(n), self.seed);
        settings.checkpoint_urls = self.checkpoint_urls;
        // So small that what does not fit, and what grows, is met in every crawl.
        settings.recent_bytes_max = 2 << 10;
        settings.heads_max = 1 << 3;
        settings.filter_urls_min = 1 << 8;
        Shard::open(kv, settings)
    }

    /// Opens the prints of all pages.
    pub fn duplicates(&self) -> PortResult<Duplicates> {
        Duplicates::open(Box::new(MemoryKv::open(&self.disk, "prints")?))
    }

    /// Opens the stores of all shards.
    pub fn books(&self) -> PortResult<Vec<Books>> {
        let duplicates = self.duplicates()?;
        (0..self.shards)
            .map(|n| {
                let store = Box::new(self.shard(n)?);
                let archive = self.archive.then(|| self.archive(n)).transpose()?;
                let prints = Box::new(duplicates.sink(ShardId(n)));
                let sinks: Vec<Box<dyn Sink>> = vec![prints, Box::new(self.groups.clone())];
                Ok(Books { store, archive, sinks })
            })
            .collect()
    }

    fn archive(&self, n: u16) -> PortResult<Box<dyn Archive>> {
        let mut settings = ArchiveSettings::new(ShardId(n), "sim");
        settings.file_bytes_max = self.file_bytes_max;
        let archive = MemoryArchive::open(&self.disk, &format!("archive-{n}"), settings)?;
        Ok(Box::new(archive))
    }

    /// Starts a crawler on this machine.
    pub fn start(&self, seeds: &[&str]) -> Result<Engine, EngineError> {
        let now = self.clock.now();
        let mut opened = lycosa_engine::open(self.books()?, now, self.retry())?;
        let seeds: Vec<_> = seeds.iter().map(|url| CrawlUrl::parse(url).unwrap()).collect();
        opened.seed(&seeds, now)?;
        let clock: Arc<dyn Clock> = Arc::new(self.clock);
        let fetcher =
            SimFetcher::new(Arc::clone(&self.web), Arc::clone(&clock), self.journal.clone())
                .with_latency(self.seed, self.latency);
        let engine = Engine::new(
            opened,
            EngineParts {
                options: self.options(),
                clock: self.clock,
                fetcher: (self.fetcher)(fetcher),
                resolver: Arc::new(SimResolver::new(Arc::clone(&self.web), clock)),
                claims: self.claims.clone(),
                pool: Pool::Inline,
                scope: Scope::new(&self.crawl).map_err(EngineError::Setting)?,
                canon: Canon::default(),
                events: Events::default(),
                threads: false,
                crew: None,
            },
        )?;
        let engine = engine.sized(self.sizes);
        Ok(if self.audited { engine.audited() } else { engine })
    }

    pub async fn run(&self, seeds: &[&str]) -> Result<Ending, EngineError> {
        Ok(self.start(seeds)?.run().await?.ending)
    }
}

/// Hears how many visits each commit had.
#[derive(Clone, Default)]
pub struct Groups(pub Arc<Mutex<Vec<usize>>>);

impl Sink for Groups {
    fn name(&self) -> &'static str {
        "groups"
    }

    fn cursor(&self) -> u64 {
        u64::MAX
    }

    fn feed(&mut self, lines: &[VisitLine]) -> PortResult<()> {
        self.0.lock().unwrap().push(lines.len());
        Ok(())
    }

    fn close(&mut self) -> PortResult<()> {
        Ok(())
    }
}

/// Runs in virtual time, on one thread.
pub fn in_virtual_time<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(work)
}
