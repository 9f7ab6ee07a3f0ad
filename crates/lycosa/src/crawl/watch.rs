//! Who may end a crawl from outside?
//!
//! People, by signals: the first lets pages in flight finish, the second stops at once. And the
//! disk: with less free space than `store.disk_free_min` the crawl pauses, so that somebody can
//! make room, and ends if nobody does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::Ending;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::Live;
use super::progress::Progress;
use crate::exit::Exit;

/// Two signals within this time are one.
const ECHO: Duration = Duration::from_millis(50);

/// Turns signals into the crawl's end.
pub fn signals(
    live: Arc<Live>,
    progress: Progress,
) -> std::io::Result<tokio::task::JoinHandle<()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(tokio::spawn(async move {
        either(&mut interrupt, &mut terminate).await;
        // `timeout` and terminals tell us and our whole group: one wish, heard twice.
        tokio::time::sleep(ECHO).await;
        let echo = either(&mut interrupt, &mut terminate);
        // Most often there is none.
        let _ = tokio::time::timeout(Duration::ZERO, echo).await;
        let in_flight = live.steering.limits.in_flight.load(Ordering::Relaxed).max(0);
        progress.say(&format!(
            "stopping: {in_flight} pages in flight are finished first; press Ctrl-C again to stop \
             at once"
        ));
        live.steering.stop(Ending::Interrupted).await;
        either(&mut interrupt, &mut terminate).await;
        progress.say("stopping at once; what was in flight will be fetched again");
        live.steering.stop(Ending::Abandoned).await;
        either(&mut interrupt, &mut terminate).await;
        // Whoever asks three times means it. A kill loses nothing either.
        std::process::exit(Exit::Abandoned as i32);
    }))
}

/// Waits until somebody wants an end, when nothing is left to finish. Signals are heard from the
/// call on, not from the first poll.
pub fn stop_wish() -> std::io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move { either(&mut interrupt, &mut terminate).await })
}

async fn either(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// How often the disk is looked at, and how long a pause may last.
const LOOK: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Pauses the crawl while the disk is nearly full; ends it when that lasts.
pub fn disk(
    live: Arc<Live>,
    folder: PathBuf,
    free_min: u64,
    progress: Progress,
) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let mut since: Option<Instant> = None;
        let mut tick = tokio::time::interval(LOOK);
        loop {
            tick.tick().await;
            let Some(free) = free_bytes(&folder) else { continue };
            let low = free < free_min;
            match (low, since) {
                (true, None) => {
                    since = Some(Instant::now());
                    live.pause(true);
                    tracing::warn!(free, free_min, "disk nearly full, crawl paused");
                    progress.say(&format!(
                        "paused: only {} free on the disk, less than store.disk_free_min = {}; \
                         make room within {} s",
                        crate::status::size(free),
                        crate::status::size(free_min),
                        PAUSE_MAX.as_secs()
                    ));
                }
                (true, Some(begun)) if begun.elapsed() >= PAUSE_MAX => {
                    live.steering.stop(Ending::DiskLow).await;
                    return;
                }
                (false, Some(_)) => {
                    since = None;
                    live.pause(false);
                    progress.say("there is room on the disk again: going on");
                }
                _ => {}
            }
        }
    })
}

/// Bytes that we may still write there; none if the system does not tell.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}
