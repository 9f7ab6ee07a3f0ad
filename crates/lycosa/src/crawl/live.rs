//! How is a running crawl asked and steered?
//!
//! What the control socket, the metrics server, the progress line and the watchers share: the
//! engine's steering, and the settings and times of this run.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::Steering;
use ports::Clock as _;
use ports::shard_store::ScanCursor;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::survey::{Survey, Walk};
use crate::backup::{Backup, Saved};
use crate::dir::{Dir, HeldDir, Mark};
use crate::dlq::{self, Deed, Filter, Page};
use crate::explain::{self, Explanation};
use crate::settings::Settings;
use crate::status::{ShardStanding, Status};
use crate::wiring::{self, Net, Outputs};

const ABOUT_TO_END: &str = "the crawl is about to end; ask again in a moment";
const TOO_BUSY: &str = "the crawl is about to end, or others ask the same of it; try again later";

/// A crawl that runs, as others see it.
#[derive(Debug)]
pub struct Live {
    pub steering: Steering,
    pub net: Net,
    pub outputs: Outputs,
    dir: Dir,
    settings: Settings,
    mark: Mark,
    started: Instant,
    pages_before: u64,
    paused: AtomicBool,
    /// Held while a backup is made.
    backup: Mutex<()>,
    /// Held while somebody's survey goes on.
    survey: Mutex<()>,
}

impl Live {
    pub fn new(
        (steering, net, outputs): (Steering, Net, Outputs),
        held: &HeldDir,
        settings: &Settings,
        pages_before: u64,
    ) -> Self {
        Self {
            steering,
            net,
            outputs,
            dir: held.dir.clone(),
            settings: settings.clone(),
            mark: held.mark.clone(),
            started: Instant::now(),
            pages_before,
            paused: AtomicBool::new(false),
            backup: Mutex::new(()),
            survey: Mutex::new(()),
        }
    }

    /// Time since this run began.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
        self.steering.limits.halt(paused);
    }

    /// How things stand, with the hosts that have most to do.
    pub async fn status(&self) -> Status {
        self.standing(true).await
    }

    /// The same without the hosts, where they are not shown.
    pub async fn standing(&self, hosts: bool) -> Status {
        let mut shards = Vec::new();
        for keeper in &self.steering.ctx.keepers {
            // A keeper that is gone has nothing to tell: the crawl is about to end.
            let read = keeper.ask(move |books| ShardStanding::read(&mut *books.store, hosts)).await;
            shards.push(read.and_then(Result::ok).unwrap_or_default());
        }
        let limits = &self.steering.limits;
        let elapsed = self.started.elapsed().max(Duration::from_millis(1));
        let pages = limits.pages();
        let run_pages = pages.saturating_sub(self.pages_before);
        Status {
            process: Some(std::process::id()),
            pages,
            archive_bytes: limits.archive_bytes(),
            in_flight: u64::try_from(limits.in_flight.load(Ordering::Relaxed)).unwrap_or(0),
            run_seconds: Some(elapsed.as_secs_f64()),
            run_pages: Some(run_pages),
            pages_per_second: Some(run_pages as f64 / elapsed.as_secs_f64()),
            paused: self.paused.load(Ordering::Relaxed),
            ..Status::of(shards).with(&self.outputs)
        }
    }

    /// How things stand, what has become of all URLs, and how many seeds there are. The crawl goes on
    /// between two steps of the walk.
    pub async fn survey(&self) -> Result<(Status, Survey, u64), String> {
        let _alone = self.survey.try_lock().map_err(|_| "another report is being made")?;
        let say = |error: anyhow::Error| format!("{error:#}");
        let mut walk = Walk::new(self.settings.clone(), self.steering.ctx.clock.now());
        let mut seeds = 0;
        for keeper in &self.steering.ctx.keepers {
            let counted = keeper.ask(|books| {
                let mut seeds = 0;
                engine::each_seed(&mut *books.store, |_| seeds += 1).map(|()| seeds)
            });
            seeds += counted.await.ok_or(ABOUT_TO_END)?.map_err(|error| say(error.into()))?;
            let mut cursor = ScanCursor::default();
            let mut goes_on = true;
            while goes_on && !cursor.done {
                let step = keeper.ask(move |books| {
                    let goes_on = walk.step(&mut *books.store, &mut cursor)?;
                    anyhow::Ok((goes_on, walk, cursor))
                });
                (goes_on, walk, cursor) = step.await.ok_or(ABOUT_TO_END)?.map_err(say)?;
            }
            walk.leave_host();
        }
        let (survey, _) = walk.finish().map_err(say)?;
        Ok((self.standing(false).await, survey, seeds))
    }

    /// The next dead letters of a shard; none if there is no such shard.
    pub async fn dead_letters(
        &self,
        filter: &Filter,
        shard: u16,
        after: Option<Vec<u8>>,
    ) -> Result<Option<Page>, String> {
        let Some(keeper) = self.steering.ctx.keepers.get(usize::from(shard)) else {
            return Ok(None);
        };
        let filter = filter.ready()?;
        let page = keeper.ask(move |books| dlq::page(&mut *books.store, &filter, after)).await;
        page.ok_or(ABOUT_TO_END)?.map(Some).map_err(|error| error.to_string())
    }

    /// Tries dead letters again, or drops them. Answers how many.
    pub async fn revise(&self, deed: Deed, filter: &Filter) -> Result<u64, String> {
        let filter = filter.ready()?;
        let judge = || -> engine::Reviser {
            let filter = filter.clone();
            Box::new(move |record| deed.judge(&filter, record))
        };
        Ok(self.steering.revise(judge).await.ok_or(TOO_BUSY)?)
    }

    /// Saves everything in a new folder while the crawl goes on.
    pub async fn backup(&self, dest: PathBuf) -> Result<Saved, String> {
        let _alone = self.backup.try_lock().map_err(|_| "another backup is being made")?;
        let say = |error: anyhow::Error| format!("{error:#}");
        let backup = Backup::begin(&self.dir, &dest).map_err(|fail| say(fail.error))?;
        let outputs = || backup.outputs(&self.outputs);
        let copies = self.steering.copy(outputs, |shard| backup.shard(shard)).await;
        let (outputs, shards) = copies.ok_or(ABOUT_TO_END)?;
        let finished = tokio::task::spawn_blocking(move || backup.finish(outputs, shards)).await;
        finished.map_err(|error| error.to_string())?.map_err(say)
    }

    /// Explains a URL, as somebody typed it.
    pub async fn explain(&self, text: &str) -> Result<Explanation, String> {
        let ctx = &self.steering.ctx;
        let url = ctx.canon.parse(text).map_err(|error| error.to_string())?;
        let scope = ctx.scope.read().expect("no panic while locked").clone();
        let shard = url.site().shard(self.mark.shards);
        let names = wiring::archive_names(&self.mark, &self.settings, shard.0)
            .map_err(|error| error.to_string())?;
        let (settings, outputs) = (self.settings.clone(), self.outputs.clone());
        let now = ctx.clock.now();
        let told = ctx.keeper(shard).ask(move |books| {
            let duplicates = outputs.duplicates.as_ref();
            let (scope, settings, names) = (&scope, &settings, &names);
            let rules = explain::Rules { scope, settings, names, duplicates, now };
            explain::explain(&mut *books.store, &url, &rules)
        });
        match told.await {
            Some(told) => told.map_err(|error| error.to_string()),
            None => Err(ABOUT_TO_END.to_owned()),
        }
    }
}
