//! `lycosa frontier`: a frontier as a service, for workers of our own and for other crawlers.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use engine::roles::crew::{Crew, CrewOptions};
use engine::roles::ledger::Ledger;
use engine::{Ending, Engine, EngineParts, Events, Pool, SteadyClock, Steering};
use frontier::Scope;
use ports::MemorySpool;
use service::foreign::desk::{Desk, DeskOptions};
use service::{LogLevels, ServeError, ServerOptions, Tls};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use types::{Canon, CrawlUrl, Timestamp};

use super::block_on;
use super::flags::{CrawlFlags, OutputFlags, SettingFlags, resolve};
use crate::crawl::Live;
use crate::crawl::control::Control;
use crate::dir::{Dir, HeldDir, write_whole};
use crate::exit::{Exit, Fail, Outcome};
use crate::seeds;
use crate::settings::layers::Resolved;
use crate::settings::{Fsync, Settings, render};
use crate::telemetry::{self, Stderr};
use crate::wiring::{self, Outputs};

#[derive(Debug, Args)]
pub struct FrontierArgs {
    /// The directory that holds queues and state; made if it is not there
    dir: PathBuf,
    /// Seeds for workers; they can also be sent later
    #[arg(value_name = "URL")]
    urls: Vec<String>,
    /// Read seeds from a file, one a line; `#` begins a comment
    #[arg(short = 'l', long, value_name = "FILE")]
    list: Vec<PathBuf>,
    /// Where to listen; any but a loopback address needs api.token
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7071")]
    listen: SocketAddr,
    /// Where to serve REST and /metrics; short for -s api.listen=ADDR
    #[arg(long, value_name = "ADDR", conflicts_with = "serve")]
    rest: Option<SocketAddr>,
    /// Certificates to serve with, as PEM; then callers must use TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Their private key, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    #[command(flatten)]
    crawl: CrawlFlags,
    #[command(flatten)]
    settings: SettingFlags,
    #[command(flatten)]
    speak: OutputFlags,
}

/// How long workers have to report what is under way when the service is told to end. What they
/// do not report in time is fetched again.
const GRACE: Duration = Duration::from_secs(5);

pub fn run(args: &FrontierArgs) -> Outcome {
    let dir = Dir::new(&args.dir);
    let kept = dir.is_crawl().then(|| dir.settings()).filter(|file| file.exists());
    let resolved = resolve(kept.as_deref(), &args.settings, Some(&args.crawl))?;
    let settings = &resolved.settings;
    let token = settings.api.token.clone();
    for address in [Some(args.listen), args.rest].into_iter().flatten() {
        if let Some(why) = service::door::closed(address, token.as_deref()) {
            return Err(Fail::settings(why));
        }
    }
    let options = ServerOptions { token, tls: tls(args)? };
    let seeds = seeds::gather(&args.urls, &args.list, &Canon::new(&settings.url))?;
    let now = Timestamp::from(std::time::SystemTime::now());
    let held = dir.hold_or_make(&settings.store, now)?;
    let levels = telemetry::start(args.speak.loudness(), Some(&dir.logs()), &Stderr::default())?;
    let levels = LogLevels::new(move |part, level| levels.set(part, level));
    let kept = render::kept_file(&resolved);
    write_whole(&dir.settings(), kept.as_bytes()).context("write lycosa.toml")?;
    let store = wiring::foreign(&held.dir, &held.mark, settings)?;
    let desk = Desk::open(store, desk_options(settings))?;
    block_on(serve(args, &held, &resolved, seeds, desk, options, levels))
}

fn desk_options(settings: &Settings) -> DeskOptions {
    DeskOptions { durable: settings.store.fsync != Fsync::Off, queues_max: QUEUES_MAX }
}

/// Queues of all foreign crawls together: some three gigabytes of memory.
const QUEUES_MAX: usize = 10_000_000;

fn tls(args: &FrontierArgs) -> Result<Option<Tls>, Fail> {
    let (Some(certificates), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    let read = |path: &PathBuf| {
        std::fs::read(path)
            .map_err(|error| Fail::usage(format!("cannot read {}: {error}", path.display())))
    };
    Ok(Some(Tls { certificates: read(certificates)?, key: read(key)? }))
}

/// The crawl whose visits are made elsewhere.
struct Crawl {
    engine: Engine,
    crew: Arc<Crew>,
    steering: Steering,
    net: wiring::Net,
    outputs: Outputs,
    clock: SteadyClock,
    pages_before: u64,
}

fn open_crawl(held: &HeldDir, settings: &Settings, seeds: &[CrawlUrl]) -> Result<Crawl, Fail> {
    let ledger = Ledger::default();
    let outputs = Outputs::open(&held.dir, &held.mark, settings)
        .with_context(|| format!("open {}", held.dir.root().display()))?;
    let books = wiring::books_elsewhere(&held.dir, &held.mark, settings, &outputs, &ledger)?;
    let now = Timestamp::from(std::time::SystemTime::now());
    let mut opened = engine::open(books, now, wiring::retry(settings))
        .with_context(|| format!("open {}", held.dir.root().display()))?;
    let clock = SteadyClock::start(opened.latest);
    let added = opened.seed(seeds, ports::Clock::now(&clock))?;
    let (lost, pages_before) = (opened.lost, opened.tally.get("pages"));
    tracing::info!(seeds = seeds.len(), added, lost, "frontier opened");
    // Pages are fetched by workers, which have a spool of their own.
    let net = wiring::net(settings, clock, Arc::new(MemorySpool))?;
    let mut options = wiring::engine_options(settings, &held.mark);
    // Reports come in groups, and a host waits for its own: they are committed as they come.
    options.commit_wait = Duration::ZERO;
    let crew = CrewOptions {
        lease: settings.workers.lease.get(),
        capacity_max: options.concurrency,
        crawl_id: options.crawl_id,
        product: options.product.clone(),
    };
    let crew = Crew::new(crew, clock, ledger);
    let events = Events::default();
    events.lost(lost);
    let parts = EngineParts {
        options,
        clock,
        fetcher: Arc::clone(&net.fetcher) as Arc<dyn ports::Fetcher>,
        // Through whom a worker goes is the worker's business.
        resolver: Arc::clone(&net.dns) as Arc<dyn ports::Resolver>,
        claims: wiring::claims(settings),
        pool: Pool::threads(),
        scope: Scope::new(&settings.crawl).map_err(Fail::settings)?,
        canon: Canon::new(&settings.url),
        events,
        threads: true,
        crew: Some(Arc::clone(&crew)),
    };
    let engine = Engine::new(opened, parts)?;
    let steering = engine.steering();
    Ok(Crawl { engine, crew, steering, net, outputs, clock, pages_before })
}

async fn serve(
    args: &FrontierArgs,
    held: &HeldDir,
    resolved: &Resolved,
    seeds: Vec<CrawlUrl>,
    desk: Desk,
    options: ServerOptions,
    levels: LogLevels,
) -> Outcome {
    let settings = &resolved.settings;
    let listener = bind(args.listen, "--listen").await?;
    let rest = match args.rest.or(settings.api.listen.0) {
        Some(address) => Some(bind(address, "--rest").await?),
        None => None,
    };
    let addresses = Addresses::of(&listener, rest.as_ref())?;
    let Crawl { engine, crew, steering, net, outputs, clock, pages_before } =
        open_crawl(held, settings, &seeds)?;
    drop(seeds);
    let run = (steering.clone(), net, outputs);
    let live = Arc::new(Live::new(run, held, settings, pages_before));
    let _control = Control::start(&held.dir, live)?;
    let (handle, mut desk_ended) = service::foreign::start(desk, Arc::new(clock));
    let mut terminate = signal(SignalKind::terminate()).context("hear of SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("hear of Ctrl-C")?;
    let watcher = tokio::spawn(Arc::clone(&crew).watch());
    let mut crawl = Box::pin(engine.run());
    let (stop, stopped) = watch::channel(());
    let told = || {
        let mut stopped = stopped.clone();
        async move {
            // It is told by being let go of.
            let _ = stopped.changed().await;
        }
    };
    let crew_and_steering = || (Arc::clone(&crew), steering.clone());
    let rest = async {
        match rest {
            Some(listener) => {
                let (options, crawl) = (options.clone(), crew_and_steering());
                service::rest::serve(listener, options, &handle, crawl, told()).await
            }
            None => Ok(()),
        }
    };
    let grpc = service::serve(
        listener,
        options.clone(),
        handle.clone(),
        crew_and_steering(),
        levels,
        told(),
    );
    let mut serving = Box::pin(async { tokio::try_join!(grpc, rest).map(|_| ()) });
    say(args, &addresses)?;
    let mut ended = None;
    let mut desk_fault = None;
    tokio::select! {
        served = &mut serving => served.map_err(serve_fault)?,
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        end = &mut desk_ended => desk_fault = Some(end),
        end = &mut crawl => ended = Some(end),
    }
    // No more tasks; reports are taken while the engine ends.
    crew.close();
    let ended = match ended {
        Some(ended) => ended,
        None => {
            steering.stop(Ending::Interrupted).await;
            let finish = async {
                if let Ok(ended) = tokio::time::timeout(GRACE, &mut crawl).await {
                    return ended;
                }
                steering.stop(Ending::Abandoned).await;
                crawl.await
            };
            tokio::pin!(finish);
            loop {
                tokio::select! {
                    ended = &mut finish => break ended,
                    served = &mut serving => served.map_err(serve_fault)?,
                }
            }
        }
    };
    watcher.abort();
    drop(stop);
    serving.await.map_err(serve_fault)?;
    let end = match desk_fault {
        Some(end) => end,
        None => {
            handle.close().await;
            desk_ended.await
        }
    };
    end.context("the desk has died; see the log")??;
    Ok(match ended?.ending {
        Ending::PageLimit => Exit::PageLimit,
        Ending::SizeLimit => Exit::SizeLimit,
        Ending::TimeLimit => Exit::TimeLimit,
        _ => Exit::Done,
    })
}

async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, Fail> {
    TcpListener::bind(address).await.map_err(|error| {
        Fail::failure(format!(
            "cannot listen on {address}: {error}; choose another address with {flag}"
        ))
    })
}

/// Where we listen.
struct Addresses {
    grpc: SocketAddr,
    rest: Option<SocketAddr>,
}

impl Addresses {
    fn of(grpc: &TcpListener, rest: Option<&TcpListener>) -> Result<Self, Fail> {
        let grpc = grpc.local_addr().context("our own address")?;
        let rest = rest.map(TcpListener::local_addr).transpose().context("our own address")?;
        Ok(Self { grpc, rest })
    }
}

fn serve_fault(error: ServeError) -> Fail {
    match error {
        ServeError::Tls(_) | ServeError::Pem(_) => {
            Fail::usage(format!("--tls-cert, --tls-key: {error}"))
        }
        ServeError::Token(_) => Fail::settings(format!("api.token: {error}")),
        other => Fail::from(anyhow::Error::from(other)),
    }
}

fn say(args: &FrontierArgs, addresses: &Addresses) -> Result<(), Fail> {
    let Addresses { grpc, rest } = addresses;
    let mut out = std::io::stdout();
    if args.speak.json {
        let said = serde_json::json!({"event": "listening", "address": grpc, "rest": rest});
        writeln!(out, "{said}")?;
        out.flush()?;
    } else if !args.speak.quiet {
        let rest = rest.map_or(String::new(), |rest| format!(", and REST on {rest}"));
        eprintln!(
            "{} serves URLFrontier 2.6 and lycosa.v1 on {grpc}{rest}; Ctrl-C ends it",
            args.dir.display()
        );
    }
    Ok(())
}
