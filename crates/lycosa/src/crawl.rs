//! One run of a crawl, from a directory and settings to a report.
//!
//! Looks up the seeds, takes the directory, settles what the last run left, lets the engine work
//! while people, the disk and other processes may steer or ask, and tells how it ended.

pub mod control;
mod live;
mod measures;
mod net_metrics;
pub mod progress;
pub mod rejudge;
pub mod report;
mod round;
mod serve;
pub mod survey;
mod watch;

use std::sync::Arc;

use anyhow::Context as _;
use engine::{Ending, Engine, EngineParts, Events, Opened, Pool, SteadyClock};
use frontier::Scope;
use ports::{Clock as _, MemorySpool, ShardStore};
use serde::Serialize;
use types::{Canon, CrawlUrl, Timestamp};

use crate::cli::flags::OutputFlags;
use crate::dir::{Dir, HeldDir, Mark, write_secret, write_whole};
use crate::exit::{Exit, Fail, Outcome};
use crate::explain::{self, Explanation};
use crate::seeds::{contact_missing, nobody_may_be_visited, preflight};
use crate::settings::Settings;
use crate::settings::layers::Resolved;
use crate::settings::render;
use crate::status::{ShardStanding, Status};
use crate::telemetry::{self, Stderr};
use crate::waiting::is_failure;
use crate::wiring::{self, Outputs};

pub use live::Live;
pub use report::Report;

/// What is to be crawled, and where it is kept.
#[derive(Debug)]
pub struct Plan {
    pub dir: Dir,
    pub resolved: Resolved,
    pub output: OutputFlags,
    /// Settings that differ from those of the last run, as people read them.
    pub changes: Vec<String>,
    /// Visit every page again.
    pub again: bool,
    /// Keep `/metrics` up after the end, until an interrupt.
    pub stay: bool,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    pub exit: Exit,
    pub report: Report,
}

/// Crawls; the report is written and told.
pub async fn run(plan: Plan, seeds: Vec<CrawlUrl>) -> Outcome {
    let stderr = Stderr::default();
    let ended = Box::pin(crawl(&plan, seeds, &stderr)).await?;
    if !plan.output.quiet && !plan.output.json {
        stderr.say(ended.report.text().trim_end());
        stderr.say(&farewell(&plan, &ended));
    }
    Ok(ended.exit)
}

/// The same without the last words. Millions of seeds are not kept longer than until they are stored.
pub async fn crawl(plan: &Plan, seeds: Vec<CrawlUrl>, stderr: &Stderr) -> Result<Ended, Fail> {
    let settings = &plan.resolved.settings;
    let early = SteadyClock::start(Timestamp::ZERO);
    // To look up names; nothing is fetched with it.
    let net = wiring::net(settings, early, Arc::new(MemorySpool))?;
    if nobody_may_be_visited(settings) {
        return Err(contact_missing());
    }
    let fresh = !plan.dir.is_crawl();
    if !seeds.is_empty() {
        let looked = preflight(&seeds, net.resolver, settings).await;
        if fresh {
            looked.verdict()?;
        }
        for (_, trouble) in &looked.troubles {
            stderr.say(&format!("lycosa: {trouble}"));
        }
    }
    // An address that is taken must not leave a new directory behind; a directory that is in use
    // is the more telling of the two.
    let (held, listener) = if fresh {
        let listener = serve::listen(&settings.api).await?;
        (plan.dir.hold_or_make(&settings.store, early.now())?, listener)
    } else {
        (plan.dir.hold()?, serve::listen(&settings.api).await?)
    };
    telemetry::start(plan.output.loudness(), Some(&plan.dir.logs()), stderr)?;
    let kept = render::kept_file(&plan.resolved);
    let write = if settings.has_secret() { write_secret } else { write_whole };
    write(&plan.dir.settings(), kept.as_bytes()).context("write lycosa.toml")?;
    for change in &plan.changes {
        tracing::info!(change, "setting changed");
    }
    let progress = progress::Progress::new(plan.output, stderr);
    let outputs = Outputs::open(&plan.dir, &held.mark, settings)
        .and_then(|outputs| outputs.with_search(&plan.dir, &held.mark, settings))
        .with_context(|| format!("open {}", plan.dir.root().display()))?;
    let (mut opened, clock) = open(plan, &seeds, (&held, &outputs), &progress)?;
    drop(seeds);
    if !fresh && settings.identity.contact.is_none() {
        let net = wiring::net(settings, clock, Arc::new(MemorySpool))?;
        let mut seeds = Vec::new();
        opened.each_seed(|seed| seeds.push(seed.clone()))?;
        let looked = preflight(&seeds, net.resolver, settings).await;
        if looked.needs_contact {
            looked.verdict()?;
        }
    }
    let run = Run { plan, held: &held, outputs: &outputs, progress: &progress, clock };
    Box::pin(run.work(opened, listener)).await
}

/// Opens the books and lets them settle their past; adds what is new.
fn open(
    plan: &Plan,
    seeds: &[CrawlUrl],
    (held, outputs): (&HeldDir, &Outputs),
    progress: &progress::Progress,
) -> Result<(Opened, SteadyClock), Fail> {
    let settings = &plan.resolved.settings;
    let mut books = wiring::books(&plan.dir, &held.mark, settings, outputs)?;
    let change = rejudge::Change::find(&plan.dir, &held.mark, &mut books, settings)?;
    let now = Timestamp::from(std::time::SystemTime::now());
    let mut opened = engine::open(books, now, wiring::retry(settings))
        .with_context(|| format!("open {}", plan.dir.root().display()))?;
    let clock = SteadyClock::start(opened.latest);
    let now = clock.now();
    if let Some(done) = change.apply(&mut opened, now)? {
        let rejudge::Done { rejudged, offered, accepted, beyond } = done;
        tracing::info!(rejudged, offered, accepted, "rules changed, urls judged again");
        progress.say(&format!(
            "the rules have changed: {rejudged} refused URLs are judged again, {accepted} new URLs \
             of {offered} links in the archive are in scope now"
        ));
        if let Some(sentence) = beyond.sentence() {
            tracing::warn!(pages = beyond.pages(), "links cannot be judged again");
            progress.say(&format!("lycosa: {sentence}"));
        }
    }
    let mut round = round::Round::find(&mut opened)?;
    if plan.again {
        round = Some(round::Round::begin(&mut opened, now)?);
    }
    if let Some(round) = round {
        let due = round.queue(&mut opened)?;
        if due > 0 {
            tracing::info!(due, "every page is due again");
            progress.say(&format!("{} to visit again", counted(due, "URL")));
        }
    }
    let added = opened.seed(seeds, now)?;
    tracing::info!(seeds = seeds.len(), added, lost = opened.lost, "crawl opened");
    Ok((opened, clock))
}

/// A run that is set up.
struct Run<'a> {
    plan: &'a Plan,
    held: &'a HeldDir,
    outputs: &'a Outputs,
    progress: &'a progress::Progress,
    clock: SteadyClock,
}

/// What goes on beside the crawl; ends when it is dropped.
struct Companions {
    tasks: Vec<tokio::task::JoinHandle<()>>,
    _control: control::Control,
}

impl Drop for Companions {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

#[derive(Serialize)]
struct Start<'a> {
    event: &'static str,
    directory: String,
    resumed: bool,
    seeds: u64,
    pages: u64,
    serving: Option<String>,
    lycosa: &'a str,
}

impl Run<'_> {
    async fn work(
        &self,
        mut opened: Opened,
        listener: Option<tokio::net::TcpListener>,
    ) -> Result<Ended, Fail> {
        let settings = &self.plan.resolved.settings;
        let spool = wiring::spool(&self.held.dir.spool())?;
        let net = wiring::net(settings, self.clock, spool)?;
        let (resumed, lost) = (opened.resumed && !self.held.new, opened.lost);
        let pages_before = opened.tally.get("pages");
        let mut seeds = 0;
        opened.each_seed(|_| seeds += 1)?;
        let events = Events::default();
        events.lost(lost);
        let mut options = wiring::engine_options(settings, &self.held.mark);
        if let Some(round) = round::Round::find(&mut opened)? {
            options.max_pages = options.max_pages.map(|max| round.pages_max(max));
            options.max_bytes = options.max_bytes.map(|max| round.bytes_max(max));
        }
        let engine = Engine::new(
            opened,
            EngineParts {
                options,
                clock: self.clock,
                fetcher: Arc::clone(&net.fetcher) as Arc<dyn ports::Fetcher>,
                resolver: Arc::clone(&net.resolver),
                claims: wiring::claims(settings),
                pool: Pool::threads(),
                scope: Scope::new(&settings.crawl).map_err(Fail::settings)?,
                canon: Canon::new(&settings.url),
                events: events.clone(),
                threads: true,
                crew: None,
            },
        )?;
        let run = (engine.steering(), net, self.outputs.clone());
        let live = Arc::new(Live::new(run, self.held, settings, pages_before));
        let (companions, serving) = self.accompany(&live, listener)?;
        let started = self.clock.now();
        self.greet(resumed, seeds, pages_before, serving);
        let ended = Box::pin(engine.run()).await;
        let elapsed = live.elapsed();
        // Whoever watches the metrics may look at the end in peace.
        if self.plan.stay && ended.as_ref().is_ok_and(|ended| ended.ending == Ending::Done) {
            let wish = watch::stop_wish()?;
            self.progress.say("done; /metrics stays up until Ctrl-C or SIGTERM");
            wish.await;
        }
        drop(companions);
        self.progress.finish();
        let engine::Ended { ending, books } = ended.map_err(|error| self.advise(error))?;
        let mut stores: Vec<_> = books.into_iter().map(|books| books.store).collect();
        let facts = report::RunFacts {
            ending,
            exit: report::exit_of(ending),
            started,
            ended: self.clock.now(),
            elapsed,
            pages_before,
            visits_lost: lost,
        };
        self.conclude(facts, seeds, &mut stores)
    }

    /// An error of ours, with what to do about it.
    fn advise(&self, error: engine::EngineError) -> Fail {
        let fail = Fail::from(error);
        let dir = self.plan.dir.root().display();
        let hint = match fail.exit {
            Exit::DiskFull => format!("make room, then go on with: lycosa resume {dir}"),
            _ => format!("nothing that was accepted is lost; go on with: lycosa resume {dir}"),
        };
        Fail::new(fail.exit, format!("{:#}; {hint}", fail.error))
    }

    fn accompany(
        &self,
        live: &Arc<Live>,
        listener: Option<tokio::net::TcpListener>,
    ) -> Result<(Companions, Option<String>), Fail> {
        let mut tasks = vec![
            watch::signals(Arc::clone(live), self.progress.clone())?,
            self.progress.start(Arc::clone(live)),
        ];
        let settings = &self.plan.resolved.settings;
        let free_min = settings.store.disk_free_min.get();
        if free_min > 0 {
            let folder = self.plan.dir.root().to_owned();
            tasks.push(watch::disk(Arc::clone(live), folder, free_min, self.progress.clone()));
        }
        let mut serving = None;
        if let Some(listener) = listener {
            let token = settings.api.token.as_deref();
            let (address, task) = serve::start(listener, Arc::clone(live), token)?;
            serving = Some(format!("http://{address}/metrics"));
            tasks.push(task);
        }
        let control = control::Control::start(&self.plan.dir, Arc::clone(live))?;
        Ok((Companions { tasks, _control: control }, serving))
    }

    fn greet(&self, resumed: bool, seeds: u64, pages: u64, serving: Option<String>) {
        let settings = &self.plan.resolved.settings;
        let root = self.plan.dir.root().display();
        let word = if resumed { "resuming" } else { "crawling" };
        self.progress.say(&format!(
            "{word} {root}: {}, {} so far, scope {}, {} between requests to a host",
            counted(seeds, "seed"),
            counted(pages, "page"),
            settings.crawl.scope.as_str(),
            settings.politeness.delay
        ));
        for change in &self.plan.changes {
            self.progress.say(&format!("changed since the last run: {change}"));
        }
        if !settings.robots.obey {
            tracing::warn!("robots.txt is NOT obeyed: for your own sites only");
        }
        for warning in settings.sheet_warnings() {
            tracing::warn!("{warning}");
        }
        if let Some(url) = &serving {
            self.progress.say(&format!("metrics at {url}"));
        }
        self.progress.print(&Start {
            event: "start",
            directory: root.to_string(),
            resumed,
            seeds,
            pages,
            serving,
            lycosa: env!("CARGO_PKG_VERSION"),
        });
    }

    /// Looks at what is there now, writes the report and decides the exit code.
    fn conclude(
        &self,
        mut facts: report::RunFacts,
        seeds: u64,
        stores: &mut [Box<dyn ShardStore>],
    ) -> Result<Ended, Fail> {
        let (dir, mark) = (&self.plan.dir, &self.held.mark);
        let settings = &self.plan.resolved.settings;
        let standings = stores.iter_mut().map(|store| ShardStanding::read(&mut **store, false));
        let status = Status::of(standings.collect::<Result<_, _>>()?).with(self.outputs);
        let mut survey = None;
        // A second interrupt wants its end now.
        if facts.ending != Ending::Abandoned {
            let (found, skipped) = survey::survey(stores, settings, facts.ended)?;
            survey = Some(found);
            write_whole(&dir.skipped(), &skipped).context("write reports/skipped.jsonl")?;
        }
        if facts.ending == Ending::Done && !some_seed_answered(stores)? {
            facts.exit = Exit::Failure;
            for sentence in self.seed_troubles(stores)? {
                eprintln!("lycosa: {sentence}");
            }
        }
        let resolved = &self.plan.resolved;
        let about = report::About { dir, mark, resolved, seeds, now: facts.ended };
        let report = Report::new(&about, Some(facts.told(status.pages)), &status, survey);
        report.write(dir).context("write the report")?;
        self.progress.print(&report);
        let ending = report::ending_name(facts.ending);
        tracing::info!(ending, pages = status.pages, "crawl ended");
        Ok(Ended { exit: facts.exit, report })
    }

    /// Why no seed could be fetched.
    fn seed_troubles(&self, stores: &mut [Box<dyn ShardStore>]) -> anyhow::Result<Vec<String>> {
        const SHOWN_MAX: usize = 3;
        let settings = &self.plan.resolved.settings;
        let mut seeds = Vec::new();
        for store in &mut *stores {
            seeds.append(&mut store.seeds(0, SHOWN_MAX)?);
        }
        let mut sentences = Vec::new();
        for seed in seeds.iter().take(SHOWN_MAX) {
            let about = (&self.held.mark, settings, self.outputs);
            let told = explain_in(stores, seed, about, self.clock.now())?;
            sentences
                .push(format!("no seed could be fetched: {seed}: {}: {}", told.state, told.why));
        }
        Ok(sentences)
    }
}

/// Whether a server has said something about a seed itself. A 5xx or a 429 counts as a page, since
/// it was asked for and is archived, but it speaks of the server's health only.
fn some_seed_answered(stores: &mut [Box<dyn ShardStore>]) -> anyhow::Result<bool> {
    /// Seeds read at once: nearly always one of the first has answered.
    const STEP: usize = 1_024;
    for store in stores {
        let mut from = 0;
        loop {
            let seeds = store.seeds(from, STEP)?;
            for seed in &seeds {
                let last = store.record(seed)?.and_then(|record| record.last);
                if last.is_some_and(|last| !is_failure(last.answer.status)) {
                    return Ok(true);
                }
            }
            from += seeds.len() as u64;
            if seeds.len() < STEP {
                break;
            }
        }
    }
    Ok(false)
}

/// What a crawl at rest came to.
pub fn report_at_rest(
    stores: &mut [Box<dyn ShardStore>],
    (dir, mark): (&Dir, &Mark),
    resolved: &Resolved,
    now: Timestamp,
) -> anyhow::Result<Report> {
    let mut standings = Vec::new();
    let mut seeds = 0;
    for store in &mut *stores {
        standings.push(ShardStanding::read(&mut **store, false)?);
        engine::each_seed(&mut **store, |_| seeds += 1)?;
    }
    let status = Status::of(standings).with(&Outputs::at_rest(dir, mark)?);
    let (urls, _) = survey::survey(stores, &resolved.settings, now)?;
    let about = report::About { dir, mark, resolved, seeds, now };
    Ok(Report::new(&about, report::LastRun::read(dir), &status, Some(urls)))
}

/// Explains a URL from stores at rest.
pub fn explain_in(
    stores: &mut [Box<dyn ShardStore>],
    url: &CrawlUrl,
    (mark, settings, outputs): (&Mark, &Settings, &Outputs),
    now: Timestamp,
) -> anyhow::Result<Explanation> {
    let mut scope = Scope::new(&settings.crawl).map_err(anyhow::Error::msg)?;
    for store in &mut *stores {
        engine::each_seed(&mut **store, |seed| scope.add_seed(seed))?;
    }
    let shard = url.site().shard(mark.shards).0;
    let names = wiring::archive_names(mark, settings, shard)?;
    let duplicates = outputs.duplicates.as_ref();
    let rules = explain::Rules { scope: &scope, settings, names: &names, duplicates, now };
    let store = stores.get_mut(usize::from(shard)).context("a shard is missing")?;
    Ok(explain::explain(&mut **store, url, &rules)?)
}

/// `1 seed`, `2 seeds`.
pub fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// What to do next.
fn farewell(plan: &Plan, ended: &Ended) -> String {
    let dir = plan.dir.root().display();
    let crawl = &plan.resolved.settings.crawl;
    match ended.exit {
        Exit::Done if !ended.report.leaves_work() => {
            format!("ask about a URL with: lycosa explain {dir} URL")
        }
        Exit::PageLimit => {
            let more = twice(crawl.max_pages.unwrap_or_default(), 1_000);
            format!("resume with a higher limit: lycosa resume {dir} --limit {more}")
        }
        Exit::SizeLimit => {
            // The last page may have gone far beyond the limit.
            let limit = crawl.max_bytes.unwrap_or_default().get();
            let written = ended.report.totals.archive_bytes;
            let reached = if limit == 0 { 0 } else { limit.max(written.next_multiple_of(1_000)) };
            let more = types::ByteSize(twice(reached, 1_000_000_000));
            format!("resume with a higher limit: lycosa resume {dir} --size-limit {more}")
        }
        Exit::TimeLimit if crawl.max_time.is_some_and(|time| time.get().is_zero()) => {
            format!("resume with a higher limit: lycosa resume {dir} --time-limit 1h")
        }
        Exit::DiskLow => format!("make room, then resume with: lycosa resume {dir}"),
        _ => format!("resume with: lycosa resume {dir}"),
    }
}

/// A limit to go on with. Twice nothing would be nothing again.
const fn twice(limit: u64, instead_of_zero: u64) -> u64 {
    if limit == 0 { instead_of_zero } else { limit.saturating_mul(2) }
}
