//! What if a visit itself breaks?
//!
//! A fetcher that now and then panics, before, during or after its request, or hangs until its
//! lease runs out, which is what a bug of ours or a page that kills its reader would do. Every URL
//! is broken once at most, so that none becomes a dead letter by this alone.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use local::sim_disk::Chance;
use ports::{Exchange, Fetcher, Request};
use simweb::SimFetcher;
use types::Timestamp;

/// What befalls visits; it outlives the crawler, as its machine does.
#[derive(Debug, Clone)]
pub struct Fates(Arc<Mutex<Drawn>>);

#[derive(Debug)]
struct Drawn {
    chance: Chance,
    spared: BTreeSet<String>,
    broken: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy)]
enum Fate {
    Well,
    Panics(Moment),
    Hangs(Moment),
}

/// When it breaks, counted from where the request begins.
#[derive(Debug, Clone, Copy)]
enum Moment {
    AtOnce,
    After(Duration),
    AtTheEnd,
}

/// One visit in so many breaks, or dawdles.
const BREAKS: u64 = 60;
const DAWDLES: u64 = 20;
/// Together with the fetcher's own limits less than a lease.
const DAWDLE_MILLIS: u64 = 15_000;

impl Fates {
    /// The spared are never broken: if the pages that all others hang from were lost, nothing
    /// would be left to look at.
    pub fn new(seed: u64, spared: &[&str]) -> Self {
        let spared = spared.iter().map(|url| (*url).to_owned()).collect();
        let drawn = Drawn { chance: Chance(seed), spared, broken: BTreeSet::new() };
        Self(Arc::new(Mutex::new(drawn)))
    }

    /// URLs of visits that broke.
    pub fn broken(&self) -> BTreeSet<String> {
        self.lock().broken.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Drawn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long it takes until it begins; others go on in the meantime.
    fn dawdle(&self, fate: Fate) -> Duration {
        let mut drawn = self.lock();
        let share = if let Fate::Well = fate { DAWDLES } else { 2 };
        match drawn.chance.below(share) {
            0 => Duration::from_millis(drawn.chance.below(DAWDLE_MILLIS)),
            _ => Duration::ZERO,
        }
    }

    fn draw(&self, url: &str) -> Fate {
        let mut drawn = self.lock();
        if drawn.chance.below(BREAKS) > 0 || drawn.spared.contains(url) {
            return Fate::Well;
        }
        if !drawn.broken.insert(url.to_owned()) {
            return Fate::Well;
        }
        let moment = match drawn.chance.below(4) {
            0 => Moment::AtOnce,
            1 | 2 => Moment::After(Duration::from_millis(drawn.chance.below(300))),
            _ => Moment::AtTheEnd,
        };
        match drawn.chance.below(4) {
            0 => Fate::Hangs(moment),
            _ => Fate::Panics(moment),
        }
    }
}

/// A fetcher whose visits break as their fates say.
#[derive(Debug)]
pub struct Unsteady {
    pub fetcher: SimFetcher,
    pub fates: Fates,
}

#[async_trait]
impl Fetcher for Unsteady {
    async fn fetch(&self, request: Request, sent: &mut (dyn FnMut(Timestamp) + Send)) -> Exchange {
        let fate = self.fates.draw(request.url.as_str());
        let mut fetch = self.fetcher.fetch(request, sent);
        let dawdle = self.fates.dawdle(fate);
        if !dawdle.is_zero() {
            tokio::time::sleep(dawdle).await;
        }
        let (Fate::Panics(moment) | Fate::Hangs(moment)) = fate else { return fetch.await };
        match moment {
            Moment::AtOnce => {}
            Moment::After(span) => {
                // It may be over before; then it breaks with the answer in its hands.
                let _ = tokio::time::timeout(span, &mut fetch).await;
            }
            Moment::AtTheEnd => drop((&mut fetch).await),
        }
        if let Fate::Hangs(_) = fate {
            // The exchange is held all the while, as by a fetcher that waits for a lock.
            std::future::pending::<()>().await;
        }
        // Without the hook that would print each of them.
        std::panic::resume_unwind(Box::new("the simulation breaks this visit"));
    }
}
