//! `lycosa frontier`: the queues of other crawlers, as a service.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use engine::SteadyClock;
use service::foreign::desk::{Desk, DeskOptions};
use service::{LogLevels, ServeError, ServerOptions, Tls};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use types::Timestamp;

use super::block_on;
use super::flags::{OutputFlags, SettingFlags, resolve};
use crate::dir::Dir;
use crate::exit::{Exit, Fail, Outcome};
use crate::settings::{Fsync, Settings};
use crate::telemetry::{self, Stderr};
use crate::wiring;

#[derive(Debug, Args)]
pub struct FrontierArgs {
    /// The directory that holds the queues; made if it is not there
    dir: PathBuf,
    /// Where to listen; any but a loopback address needs api.token
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7071")]
    listen: SocketAddr,
    /// Certificates to serve with, as PEM; then callers must use TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Their private key, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingFlags,
    #[command(flatten)]
    speak: OutputFlags,
}

pub fn run(args: &FrontierArgs) -> Outcome {
    let dir = Dir::new(&args.dir);
    let kept = dir.is_crawl().then(|| dir.settings()).filter(|file| file.exists());
    let settings = resolve(kept.as_deref(), &args.settings, None)?.settings;
    let token = settings.api.token.clone();
    if !args.listen.ip().is_loopback() && token.is_none() {
        return Err(Fail::settings(format!(
            "{} can be reached by others: set a token as well (-s api.token=…), or listen on \
             127.0.0.1",
            args.listen
        )));
    }
    let options = ServerOptions { token, tls: tls(args)? };
    let now = Timestamp::from(std::time::SystemTime::now());
    let held = dir.hold_or_make(&settings.store, now)?;
    let levels = telemetry::start(args.speak.loudness(), Some(&dir.logs()), &Stderr::default())?;
    let levels = LogLevels::new(move |part, level| levels.set(part, level));
    let store = wiring::foreign(&held.dir, &held.mark, &settings)?;
    let desk = Desk::open(store, desk_options(&settings))?;
    block_on(serve(args, desk, options, levels, SteadyClock::start(now)))
}

fn desk_options(settings: &Settings) -> DeskOptions {
    DeskOptions { durable: settings.store.fsync != Fsync::Off, queues_max: QUEUES_MAX }
}

/// Queues of all crawls together: some three gigabytes of memory.
const QUEUES_MAX: usize = 10_000_000;

fn tls(args: &FrontierArgs) -> Result<Option<Tls>, Fail> {
    let (Some(certificates), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    let read = |path: &PathBuf| {
        std::fs::read(path)
            .map_err(|error| Fail::usage(format!("cannot read {}: {error}", path.display())))
    };
    Ok(Some(Tls { certificates: read(certificates)?, key: read(key)? }))
}

async fn serve(
    args: &FrontierArgs,
    desk: Desk,
    options: ServerOptions,
    levels: LogLevels,
    clock: SteadyClock,
) -> Outcome {
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        Fail::failure(format!(
            "cannot listen on {}: {error}; choose another address with --listen",
            args.listen
        ))
    })?;
    let address = listener.local_addr().context("our own address")?;
    let (handle, mut ended) = service::foreign::start(desk, Arc::new(clock));
    let mut terminate = signal(SignalKind::terminate()).context("hear of SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("hear of Ctrl-C")?;
    say(args, address)?;
    let mut fault = None;
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            end = &mut ended => fault = Some(end),
        }
    };
    service::serve(listener, options, handle, levels, stop).await.map_err(|error| match error {
        ServeError::Tls(_) => Fail::usage(format!("--tls-cert, --tls-key: {error}")),
        ServeError::Token => Fail::settings(format!("api.token: {error}")),
        other => Fail::from(anyhow::Error::from(other)),
    })?;
    // Every way to the desk is gone: it ends what it is doing, and closes.
    let end = match fault {
        Some(end) => end,
        None => ended.await,
    };
    end.context("the desk has died; see the log")??;
    Ok(Exit::Done)
}

fn say(args: &FrontierArgs, address: SocketAddr) -> Result<(), Fail> {
    let mut out = std::io::stdout();
    if args.speak.json {
        writeln!(out, "{}", serde_json::json!({"event": "listening", "address": address}))?;
        out.flush()?;
    } else if !args.speak.quiet {
        eprintln!("{} serves URLFrontier 2.6 on {address}; Ctrl-C ends it", args.dir.display());
    }
    Ok(())
}
