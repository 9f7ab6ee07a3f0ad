//! Which adapter does each setting choose?
//!
//! The one place where settings become ports. Everything behind it knows ports only.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use engine::roles::crew::Membership;
use engine::roles::ledger::Ledger;
use engine::{Books, EngineOptions, SteadyClock};
use fetch::{
    DnsResolver, FetcherOptions, Guard, HttpFetcher, Introduction, ProxiedResolver, Proxies,
};
use local::{CdxjSink, Duplicates, EngineSettings, Pages, ShardSettings, WarcFiles};
use ports::shard_store::VisitLine;
use ports::{
    ArchiveEnd, Claims, Clock, Depot, ForeignStore, MemorySpool, PortError, PortErrorKind,
    PortResult, Resolver, ShardStore, Sink, Spool,
};
use search::SearchIndex;
use types::record::RetryPolicy;
use types::{CrawlUrl, ShardId};

use crate::captures::Captures;
use crate::dir::{Dir, Mark};
use crate::recall;
use crate::settings::{Fsync, Settings, StoreSettings, sheet};
use crate::table;

/// The way to the web.
#[derive(Clone)]
pub struct Net {
    /// Where a host is visited: its own addresses, or those of its proxies.
    pub resolver: Arc<dyn Resolver>,
    pub dns: Arc<DnsResolver>,
    pub fetcher: Arc<HttpFetcher>,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net").field("fetcher", &self.fetcher).finish_non_exhaustive()
    }
}

/// Must be called inside of the runtime.
pub fn net(
    settings: &Settings,
    clock: SteadyClock,
    spool: Arc<dyn Spool>,
) -> Result<Net, fetch::Error> {
    let guard = guard(settings);
    let clock: Arc<dyn Clock> = Arc::new(clock);
    let dns = DnsResolver::new(&settings.dns, Arc::clone(&guard), Arc::clone(&clock))?;
    let dns = Arc::new(dns);
    let mut resolver: Arc<dyn Resolver> = Arc::clone(&dns) as Arc<dyn Resolver>;
    let proxies = sheet::for_proxies(&settings.sheet);
    let proxies = Proxies::new(&settings.fetch.proxies, &proxies, Arc::clone(&resolver))?;
    let proxies = proxies.map(Arc::new);
    if let Some(proxies) = &proxies {
        let (proxies, clock) = (Arc::clone(proxies), Arc::clone(&clock));
        resolver = Arc::new(ProxiedResolver { proxies, clock });
    }
    let fetcher = Arc::new(fetcher(settings, guard, proxies, clock, spool)?);
    Ok(Net { resolver, dns, fetcher })
}

/// Where crawls of this machine meet; none if they do not.
pub fn claims(settings: &Settings) -> Option<Arc<dyn Claims>> {
    match settings.politeness.claims_dir.as_deref() {
        Some("off") => None,
        folder => meeting_place(folder.map(PathBuf::from)),
    }
}

#[cfg(target_os = "linux")]
fn meeting_place(folder: Option<PathBuf>) -> Option<Arc<dyn Claims>> {
    let folder = folder.unwrap_or_else(local::claims::usual_folder);
    match local::claims::FolderClaims::open(&folder) {
        Ok(claims) => Some(Arc::new(claims)),
        Err(error) => {
            tracing::warn!(%error, "other crawls on this machine are not seen");
            None
        }
    }
}

/// Locks that belong to an open file, not to a process, are known to Linux only.
#[cfg(not(target_os = "linux"))]
fn meeting_place(_: Option<PathBuf>) -> Option<Arc<dyn Claims>> {
    None
}

fn guard(settings: &Settings) -> Arc<Guard> {
    Arc::new(Guard::new(&settings.network, settings.identity.contact.is_some()))
}

fn fetcher(
    settings: &Settings,
    guard: Arc<Guard>,
    proxies: Option<Arc<Proxies>>,
    clock: Arc<dyn Clock>,
    spool: Arc<dyn Spool>,
) -> Result<HttpFetcher, fetch::Error> {
    HttpFetcher::new(&FetcherOptions {
        network: settings.network.clone(),
        fetch: settings.fetch.clone(),
        who: Introduction {
            user_agent: settings.identity.header(),
            from: settings.identity.from.clone(),
        },
        robots_bytes_max: settings.robots.bytes_max,
        guard,
        proxies,
        sheets: sheet::for_requests(&settings.sheet),
        clock,
        spool,
    })
}

/// Whether a crawl could begin with these settings: what they name is read, and nothing is asked
/// of the network. The system's name servers are no setting, so they are left out.
pub fn check(settings: &Settings) -> Result<(), fetch::Error> {
    let clock = SteadyClock::start(types::Timestamp::ZERO);
    fetcher(settings, guard(settings), None, Arc::new(clock), Arc::new(MemorySpool)).map(|_| ())
}

/// The ends of large answers in flight, in a folder that is this process's alone.
pub fn spool(folder: &Path) -> PortResult<Arc<dyn Spool>> {
    Ok(Arc::new(local::FolderSpool::open(folder)?))
}

/// What a crawl makes of its visits for all shards together.
#[derive(Debug, Clone, Default)]
pub struct Outputs {
    pub duplicates: Option<Duplicates>,
    pub pages: Option<Pages>,
    pub search: Option<SearchIndex>,
}

impl Outputs {
    pub fn open(dir: &Dir, mark: &Mark, settings: &Settings) -> PortResult<Self> {
        let mut outputs = Self::default();
        if settings.duplicates.enabled && settings.read.content {
            let limits = prints_limits(settings);
            outputs.duplicates =
                Some(local::open_duplicates(&dir.state(), engine_of(mark)?, limits)?);
        }
        if settings.pages.enabled {
            let duplicates = outputs.duplicates.clone();
            outputs.pages = Some(Pages::open(&dir.pages(), &dir.state(), duplicates)?);
        }
        Ok(outputs)
    }

    /// With the full-text index, where visits are made and archived here.
    pub fn with_search(mut self, dir: &Dir, mark: &Mark, settings: &Settings) -> PortResult<Self> {
        if wants_readings(settings) {
            let judge = self.duplicates.clone().map(|duplicates| -> search::Judge {
                Box::new(move |url: &CrawlUrl| {
                    let found = duplicates.membership(url)?;
                    Ok(found.map(|found| search::Family {
                        number: found.family,
                        original: found.original,
                    }))
                })
            });
            let recall = recall::from_archive(dir, mark, settings);
            let helpers = search::Helpers { judge, recall };
            let memory = settings.search.memory_max.0;
            self.search = Some(SearchIndex::open(&dir.search(), memory, helpers)?);
        }
        Ok(self)
    }

    /// Those of a crawl at rest, to look at.
    pub fn at_rest(dir: &Dir, mark: &Mark) -> PortResult<Self> {
        let is_there = local::engine::prints_folder(&dir.state()).exists();
        let open = || {
            let limits = prints_limits(&Settings::default());
            local::open_duplicates(&dir.state(), engine_of(mark)?, limits)
        };
        Ok(Self { duplicates: is_there.then(open).transpose()?, ..Self::default() })
    }

    /// What hears of a shard's visits. Pages are written and indexed after whose copies they are is known.
    fn sinks(&self, shard: ShardId) -> Vec<Box<dyn Sink>> {
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        if let Some(duplicates) = &self.duplicates {
            sinks.push(Box::new(duplicates.sink(shard)));
        }
        if let Some(pages) = &self.pages {
            sinks.push(Box::new(pages.sink(shard)));
        }
        if let Some(search) = &self.search {
            sinks.push(Box::new(search.sink(shard)));
        }
        sinks
    }
}

/// Whether the text of pages is wanted beyond their visit.
const fn wants_readings(settings: &Settings) -> bool {
    settings.search.enabled && settings.read.content
}

/// Most of what is written are new rows of small families.
fn prints_limits(settings: &Settings) -> EngineSettings {
    let cache_bytes_max = settings.duplicates.cache_max.0;
    EngineSettings { cache_bytes_max, memtable_bytes_max: 64 << 20, threads: 1, readers: 1 }
}

/// The books of all shards, opened. They have not settled their past: `engine::open` does.
pub fn books(
    dir: &Dir,
    mark: &Mark,
    settings: &Settings,
    outputs: &Outputs,
) -> anyhow::Result<Vec<Books>> {
    let stores = open_stores(dir, mark, &settings.store)
        .with_context(|| format!("open {}", dir.root().display()))?;
    let mut all = Vec::new();
    for (shard, store) in (0..).zip(stores) {
        let mut books = Books { store, archive: None, sinks: Vec::new() };
        if settings.archive.enabled {
            let names = archive_names(mark, settings, shard)?;
            books.archive = Some(Box::new(WarcFiles::open(&dir.archive(), names.clone())?));
            books.sinks.push(Box::new(LateCdxj::new(dir, names)));
            if settings.table.enabled {
                books.sinks.push(Box::new(table_sink(dir, mark, settings, ShardId(shard))?));
            }
        }
        books.sinks.extend(outputs.sinks(ShardId(shard)));
        all.push(books);
    }
    Ok(all)
}

/// The table of captures of one shard.
fn table_sink(
    dir: &Dir,
    mark: &Mark,
    settings: &Settings,
    shard: ShardId,
) -> anyhow::Result<tables::TableSink> {
    let captures = Captures::open(dir, mark).map_err(|fail| fail.error)?;
    let place = table::place(dir, mark, shard);
    let look = table::look(captures, shard);
    Ok(tables::TableSink::open(place, settings.table.part_rows_max, look)?)
}

/// The books of all shards where visits are made and archived elsewhere.
pub fn books_elsewhere(
    dir: &Dir,
    mark: &Mark,
    settings: &Settings,
    outputs: &Outputs,
    ledger: &Ledger,
) -> anyhow::Result<Vec<Books>> {
    let stores = open_stores(dir, mark, &settings.store)
        .with_context(|| format!("open {}", dir.root().display()))?;
    let books = (0..).map(ShardId).zip(stores).map(|(shard, store)| {
        let mut sinks = outputs.sinks(shard);
        sinks.push(Box::new(ledger.sink(shard)));
        Books { store, archive: None, sinks }
    });
    Ok(books.collect())
}

/// Where a worker keeps what it fetches for one crawl.
pub fn depot(folder: &Path, worker: &str, settings: &Settings) -> anyhow::Result<Box<dyn Depot>> {
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let mut names = local::ArchiveSettings::new(ShardId(0), "lycosa");
    names.file_bytes_max = settings.archive.file_bytes_max.get();
    names.level = warc::Level::new(settings.archive.level)?;
    names.info.push(("http-header-user-agent".to_owned(), settings.identity.header()));
    names.info.push(("hostname".to_owned(), worker.to_owned()));
    if let Some(contact) = &settings.identity.contact {
        names.info.push(("operator".to_owned(), contact.clone()));
    }
    Ok(Box::new(local::FolderDepot::open(folder, names)?))
}

/// The stores of all shards, to look at. Reading them changes nothing, except that the state of an
/// older version is brought to the format of this one.
pub fn stores(dir: &Dir, mark: &Mark) -> PortResult<Vec<Box<dyn ShardStore>>> {
    open_stores(dir, mark, &StoreSettings::default())
}

fn open_stores(
    dir: &Dir,
    mark: &Mark,
    settings: &StoreSettings,
) -> PortResult<Vec<Box<dyn ShardStore>>> {
    let engine = engine_of(mark)?;
    let shards = (0..mark.shards).map(|shard| {
        let seed = mark.crawl_id ^ u64::from(shard);
        ShardSettings {
            checkpoint_urls: settings.checkpoint_urls,
            recent_bytes_max: settings.recent_max.0 / u64::from(mark.shards.max(1)),
            ..ShardSettings::new(ShardId(shard), seed)
        }
    });
    let shards: Vec<_> = shards.collect();
    local::open_shards(&dir.state(), engine, &shards, limits(settings))
}

/// The queues of foreign crawls.
pub fn foreign(dir: &Dir, mark: &Mark, settings: &Settings) -> PortResult<Box<dyn ForeignStore>> {
    local::open_foreign(&dir.state(), engine_of(mark)?, limits(&settings.store))
}

fn engine_of(mark: &Mark) -> PortResult<local::Engine> {
    let engine = mark.engine.parse();
    engine.map_err(|why: String| PortError::new(PortErrorKind::Version, "open the state", why))
}

fn limits(settings: &StoreSettings) -> EngineSettings {
    EngineSettings { cache_bytes_max: settings.cache_max.0, ..Default::default() }
}

/// The index beside the archive, opened when it is first asked. Only then has the archive been cut
/// to what the store knows, and its last file ends where the index must.
struct LateCdxj {
    archive: PathBuf,
    indexes: PathBuf,
    names: local::ArchiveSettings,
    sink: Mutex<Option<CdxjSink>>,
}

impl LateCdxj {
    fn new(dir: &Dir, names: local::ArchiveSettings) -> Self {
        let (archive, indexes) = (dir.archive(), dir.indexes());
        Self { archive, indexes, names, sink: Mutex::new(None) }
    }

    fn with<T>(&self, work: impl FnOnce(&mut CdxjSink) -> PortResult<T>) -> PortResult<T> {
        let mut sink = self.sink.lock().expect("no panic while locked");
        if sink.is_none() {
            *sink = Some(CdxjSink::open(&self.indexes, self.names.clone(), self.end()?)?);
        }
        work(sink.as_mut().expect("opened above"))
    }

    fn end(&self) -> PortResult<Option<ArchiveEnd>> {
        let failed = |error: std::io::Error| PortError::io("list the archive", &error);
        let mut end = None;
        for entry in std::fs::read_dir(&self.archive).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if let Some(file) = name.to_str().and_then(|name| self.names.serial(name)) {
                let bytes = entry.metadata().map_err(failed)?.len();
                end = end.max(Some(ArchiveEnd { file, bytes }));
            }
        }
        Ok(end)
    }
}

impl Sink for LateCdxj {
    fn name(&self) -> &'static str {
        "cdxj"
    }

    fn cursor(&self) -> u64 {
        // What keeps it from opening is told by the first feed.
        self.with(|sink| Ok(sink.cursor())).unwrap_or(0)
    }

    fn feed(&mut self, lines: &[VisitLine]) -> PortResult<()> {
        self.with(|sink| sink.feed(lines))
    }

    fn close(&mut self) -> PortResult<()> {
        self.with(CdxjSink::close)
    }
}

/// How the archive's files of a shard are called.
pub fn archive_names(
    mark: &Mark,
    settings: &Settings,
    shard: u16,
) -> anyhow::Result<local::ArchiveSettings> {
    let mut names = local::ArchiveSettings::new(ShardId(shard), "lycosa");
    names.file_bytes_max = settings.archive.file_bytes_max.get();
    names.level = warc::Level::new(settings.archive.level)?;
    let mut say = |field: &str, value: String| names.info.push((field.to_owned(), value));
    say("isPartOf", format!("{:016x}", mark.crawl_id));
    say("http-header-user-agent", settings.identity.header());
    if let Some(contact) = &settings.identity.contact {
        say("operator", contact.clone());
    }
    say("robots", if settings.robots.obey { "obey" } else { "ignore" }.to_owned());
    Ok(names)
}

pub fn retry(settings: &Settings) -> RetryPolicy {
    RetryPolicy {
        attempts_max: u8::try_from(settings.fetch.attempts_max).unwrap_or(u8::MAX),
        delay: settings.fetch.retry_delay.get(),
        lost_max: 3,
        host_max: settings.fetch.host_retries_max,
    }
}

/// Longest wait of a settled visit for its group's commit.
const BATCH_WAIT: Duration = Duration::from_millis(200);

pub fn engine_options(settings: &Settings, mark: &Mark) -> EngineOptions {
    options(settings, mark.shards, u128::from(mark.crawl_id))
}

/// Of a worker: its links go to one heap, and the frontier sorts them.
pub fn outpost_options(settings: &Settings, membership: &Membership) -> EngineOptions {
    let product = membership.product.clone();
    // Nobody asks a worker what its pages say.
    EngineOptions { product, readings: false, ..options(settings, 1, membership.crawl_id) }
}

/// How much is read of a page.
pub fn page_limits(settings: &Settings) -> page::Limits {
    page::Limits {
        body_bytes_max: settings.fetch.html_bytes_max.as_len(),
        ..page::Limits::default()
    }
}

fn options(settings: &Settings, shards: u16, crawl_id: u128) -> EngineOptions {
    let crawl = &settings.crawl;
    EngineOptions {
        shards,
        product: settings.identity.product.clone(),
        robots: settings.robots.clone(),
        retry: retry(settings),
        redirects_max: settings.fetch.redirects_max,
        not_modified_max: settings.fetch.not_modified_max,
        page_limits: page_limits(settings),
        content: settings.read.content,
        readings: wants_readings(settings),
        archive: settings.archive.enabled,
        archive_level: settings.archive.level,
        crawl_id,
        concurrency: crawl.concurrency as usize,
        patience: crawl.patience.get(),
        max_pages: crawl.max_pages,
        max_bytes: crawl.max_bytes.map(types::ByteSize::get),
        max_time: crawl.max_time.map(types::HumanDuration::get),
        commit_wait: if settings.store.fsync == Fsync::Visit { Duration::ZERO } else { BATCH_WAIT },
        durable: settings.store.fsync != Fsync::Off,
        politeness: settings.politeness.clone(),
        sheets: Arc::new(sheet::for_hosts(&settings.sheet)),
        seed: crawl_id as u64,
    }
}
