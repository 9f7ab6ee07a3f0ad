//! `lycosa worker`: makes the visits of a frontier in another process.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use anyhow::Context as _;
use clap::Args;
use engine::roles::crew::Membership;
use engine::roles::outpost::{self, Left, Link as _, Outpost, Wish};
use engine::{Ctx, Events, Pool, RobotsBook, SteadyClock};
use frontier::{Addresses, CrawlSettings, Scope, ScopeKind};
use ports::Spool;
use service::native::client::{Address, RemoteFrontier};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use types::{Canon, Timestamp};

use super::block_on;
use super::flags::{OutputFlags, SettingFlags, resolve};
use crate::exit::{Exit, Fail, Outcome};
use crate::settings::Settings;
use crate::telemetry::{self, Stderr};
use crate::wiring;

#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Where a frontier listens, such as http://127.0.0.1:7071; repeatable
    #[arg(long, value_name = "URL", required = true)]
    frontier: Vec<String>,
    /// Where archives are kept, a folder for each crawl
    #[arg(short = 'o', long, value_name = "DIR", default_value = "worker")]
    output: PathBuf,
    /// A name for the frontier's log [default: the directory's]
    #[arg(long)]
    name: Option<String>,
    /// Visits at once, for each frontier
    #[arg(short = 'c', long, value_name = "N", default_value_t = 256)]
    concurrency: u32,
    /// Certificates that are trusted when a frontier is reached by https, as PEM
    #[arg(long, value_name = "FILE")]
    frontier_ca: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingFlags,
    #[command(flatten)]
    speak: OutputFlags,
}

pub fn run(args: &WorkerArgs) -> Outcome {
    let settings = resolve(None, &args.settings, None)?.settings;
    if args.concurrency == 0 {
        return Err(Fail::usage("-c 0: a worker makes at least one visit at a time"));
    }
    let root = args.output.display();
    let unwritable = |error: std::io::Error| {
        let sentence = format!("cannot write to {root}: {error}; choose another folder with -o");
        Fail::unwritable(&error, sentence)
    };
    std::fs::create_dir_all(&args.output).map_err(unwritable)?;
    let lock = std::fs::File::create(args.output.join("lock")).map_err(unwritable)?;
    if lock.try_lock().is_err() {
        return Err(Fail::failure(format!(
            "{root} is in use by another worker; choose another folder with -o"
        )));
    }
    let logs = args.output.join("logs");
    telemetry::start(args.speak.loudness(), Some(&logs), &Stderr::default())?;
    block_on(work(args, settings))
}

async fn work(args: &WorkerArgs, settings: Settings) -> Outcome {
    let (wish_to, wish) = watch::channel(Wish::Work);
    let mut outposts = JoinSet::new();
    let (ready_to, mut ready) = tokio::sync::mpsc::channel(args.frontier.len());
    for url in &args.frontier {
        let place = Place {
            root: args.output.clone(),
            url: url.clone(),
            name: name(args),
            capacity: args.concurrency as usize,
            authority: args.frontier_ca.clone(),
        };
        let (settings, wish, ready) = (settings.clone(), wish.clone(), ready_to.clone());
        outposts.spawn(async move { place.man(&settings, wish, ready).await });
    }
    drop(ready_to);
    let mut terminate = signal(SignalKind::terminate()).context("hear of SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("hear of Ctrl-C")?;
    let mut left = Left::Drained;
    loop {
        tokio::select! {
            biased;
            ended = outposts.join_next() => match ended {
                None => break,
                Some(ended) => {
                    let end = ended.context("a worker has died; see the log")?;
                    // One that fails ends all: what is under way elsewhere is drained first.
                    match end {
                        Ok(Left::Drained) => {}
                        Ok(Left::Abandoned) => left = Left::Abandoned,
                        Err(fail) => {
                            wish_to.send_modify(|wish| *wish = (*wish).max(Wish::Drain));
                            while outposts.join_next().await.is_some() {}
                            return Err(fail);
                        }
                    }
                }
            },
            Some((url, capacity)) = ready.recv() => say(args, &url, capacity)?,
            _ = terminate.recv() => next_wish(&wish_to),
            _ = interrupt.recv() => next_wish(&wish_to),
        }
    }
    Ok(if left == Left::Drained { Exit::Done } else { Exit::Abandoned })
}

fn next_wish(wish: &watch::Sender<Wish>) {
    wish.send_modify(|wish| {
        *wish = if *wish == Wish::Work { Wish::Drain } else { Wish::Abandon };
    });
    if *wish.borrow() == Wish::Drain {
        tracing::info!("draining: visits under way are finished and reported first");
    }
}

fn name(args: &WorkerArgs) -> String {
    args.name.clone().unwrap_or_else(|| {
        let folder = args.output.file_name().map_or("worker".into(), |name| name.to_string_lossy());
        format!("{folder}-{}", std::process::id())
    })
}

/// What one frontier gets of this process.
struct Place {
    root: PathBuf,
    url: String,
    name: String,
    capacity: usize,
    authority: Option<PathBuf>,
}

impl Place {
    async fn man(
        self,
        settings: &Settings,
        mut wish: watch::Receiver<Wish>,
        ready: tokio::sync::mpsc::Sender<(String, usize)>,
    ) -> Result<Left, Fail> {
        let clock = SteadyClock::start(Timestamp::ZERO);
        let link = Arc::new(self.link(settings, clock)?);
        // One that is not there yet is waited for.
        let joined = outpost::persist(&mut wish, "join", || link.join(self.capacity)).await;
        let joined = joined.map_err(|error| Fail::failure(format!("{}: {error}", self.url)))?;
        let Some(membership) = joined else { return Ok(Left::Drained) };
        // Whoever would print it is gone only when we end.
        let _ = ready.send((self.url.clone(), membership.capacity)).await;
        drop(ready);
        let folder = self.root.join(format!("{:016x}", membership.crawl_id));
        let depot = wiring::depot(&folder, &self.name, settings)?;
        let spool = wiring::spool(&folder.join("spool"))?;
        let ctx = Arc::new(ctx(settings, clock, &membership, spool)?);
        let outpost = Outpost { ctx, link, capacity: self.capacity, wish };
        Ok(outpost.run(depot, membership).await?)
    }

    fn link(&self, settings: &Settings, clock: SteadyClock) -> Result<RemoteFrontier, Fail> {
        let authority = self.authority.as_deref().map(read).transpose()?;
        let address =
            Address { url: self.url.clone(), token: settings.api.token.clone(), authority };
        RemoteFrontier::new(&address, &self.name, clock).map_err(|why| {
            Fail::usage(format!(
                "--frontier {}: {why}; write it like http://127.0.0.1:7071",
                self.url
            ))
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Fail> {
    std::fs::read(path)
        .map_err(|error| Fail::usage(format!("cannot read {}: {error}", path.display())))
}

/// What visits find around them here. Scope, rules and pauses are the frontier's: every link that
/// could be visited is handed on.
fn ctx(
    settings: &Settings,
    clock: SteadyClock,
    membership: &Membership,
    spool: Arc<dyn Spool>,
) -> Result<Ctx, Fail> {
    let net = wiring::net(settings, clock, spool)?;
    let everything =
        CrawlSettings { scope: ScopeKind::Any, max_depth: u16::MAX, ..settings.crawl.clone() };
    let options = wiring::outpost_options(settings, membership);
    Ok(Ctx {
        clock,
        fetcher: net.fetcher,
        resolver: net.resolver,
        pool: Pool::threads(),
        robots: RobotsBook::default(),
        scope: RwLock::new(Scope::new(&everything).map_err(Fail::settings)?),
        canon: Canon::new(&settings.url),
        addresses: Mutex::new(Addresses::new(&options.politeness, None).map_err(Fail::settings)?),
        claims: engine::ClaimBook::new(None),
        events: Events::default(),
        options,
        keepers: Vec::new(),
    })
}

fn say(args: &WorkerArgs, url: &str, capacity: usize) -> Result<(), Fail> {
    let mut out = std::io::stdout();
    if args.speak.json {
        let line = serde_json::json!({"event": "joined", "frontier": url, "capacity": capacity});
        writeln!(out, "{line}")?;
        out.flush()?;
    } else if !args.speak.quiet {
        eprintln!("working for {url}, {capacity} visits at once; Ctrl-C finishes them and leaves");
    }
    Ok(())
}
