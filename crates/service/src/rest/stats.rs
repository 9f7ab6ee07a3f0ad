//! `GET /frontier/v1/stats`: how much there is, and how fast it goes.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use engine::Limits;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;

use super::Here;
use super::answer::Refused;

/// Over how long the rate of now is taken, and how often it is looked at.
const WINDOW: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_secs(1);

/// The crawl as it stands.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct Stats {
    /// URLs with a record.
    known: u64,
    /// URLs in queues: they wait for their host's turn, or are being visited.
    queued: u64,
    /// URLs that wait for their time, to be tried again.
    scheduled: u64,
    /// Visits that are given out or being committed.
    in_flight: u64,
    /// Answers about pages, over the crawl's life.
    pages: u64,
    /// Since this process began.
    run_pages: u64,
    run_seconds: f64,
    /// In the last minute.
    pages_per_second: f64,
    filter: Filter,
}

/// The filter before the exact test whether a URL is known.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct Filter {
    /// URLs that it knows.
    urls: u64,
    bytes: u64,
    /// Strange URLs that it takes for known ones, measured by samples. The exact test follows: no URL is
    /// lost by it.
    false_positive_ratio: f64,
}

pub(super) async fn stats(State(shared): Here) -> Result<Json<Stats>, Refused> {
    let limits = &shared.steering.limits;
    let pages = limits.pages();
    let mut stats = Stats {
        pages,
        in_flight: u64::try_from(limits.in_flight.load(Ordering::Relaxed)).unwrap_or(0),
        run_pages: pages.saturating_sub(shared.throughput.pages_before),
        run_seconds: shared.throughput.began.elapsed().as_secs_f64(),
        pages_per_second: shared.throughput.per_second(),
        ..Stats::default()
    };
    let mut errors = 0.0;
    for keeper in &shared.steering.ctx.keepers {
        let read = keeper.ask(|books| (books.store.counts(), books.store.seen().filter)).await;
        let (counts, filter) = read.ok_or_else(Refused::closing)?;
        stats.known += counts.known;
        stats.queued += counts.queued;
        stats.scheduled += counts.scheduled;
        stats.filter.urls += filter.urls;
        stats.filter.bytes += filter.bytes;
        errors += filter.urls as f64 * f64::from(filter.errors_per_million) / 1e6;
    }
    if stats.filter.urls > 0 {
        stats.filter.false_positive_ratio = errors / stats.filter.urls as f64;
    }
    Ok(Json(stats))
}

/// How many pages there were, from second to second.
pub(super) struct Throughput {
    began: Instant,
    pages_before: u64,
    /// Oldest first, as many as fit into the window.
    samples: Mutex<VecDeque<(Instant, u64)>>,
}

impl Throughput {
    pub(super) fn new(pages: u64) -> Self {
        let began = Instant::now();
        let samples = Mutex::new(VecDeque::from([(began, pages)]));
        Self { began, pages_before: pages, samples }
    }

    /// Looks again and again.
    pub(super) async fn watch(&self, limits: &Limits) {
        let mut tick = tokio::time::interval(TICK);
        loop {
            tick.tick().await;
            self.note(Instant::now(), limits.pages());
        }
    }

    fn note(&self, now: Instant, pages: u64) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.push_back((now, pages));
        // The oldest is just within the window, or the only one.
        while samples.len() > 2 && now - samples[1].0 >= WINDOW {
            samples.pop_front();
        }
    }

    fn per_second(&self) -> f64 {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        match (samples.front(), samples.back()) {
            (Some((from, before)), Some((to, after))) if to > from => {
                after.saturating_sub(*before) as f64 / (*to - *from).as_secs_f64()
            }
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_minute() {
        let throughput = Throughput::new(100);
        assert!(throughput.per_second() == 0.0);
        let at = |second| throughput.began + Duration::from_secs(second);
        (1..=300).for_each(|second| throughput.note(at(second), 100 + 7 * second));
        assert!((throughput.per_second() - 7.0).abs() < 1e-9);
        assert!(throughput.samples.lock().unwrap().len() <= 62);
        (301..=400).for_each(|second| throughput.note(at(second), 2_200));
        assert!(throughput.per_second() == 0.0, "nothing for more than a minute");
    }
}
