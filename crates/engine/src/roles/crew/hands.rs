//! How does a shard's owner give its visits to the crew?
//!
//! Where the frontier is, a visit is admitted before it goes out, and its links are judged when it
//! comes back: scope and rules are here.

use std::sync::Arc;

use frontier::{Errand, Lease};
use ports::Clock as _;
use tokio::sync::mpsc;
use types::{Outcome, VisitId};

use super::{Crew, Verdict};
use crate::ctx::Ctx;
use crate::life;
use crate::pool::Weight;
use crate::report::{Done, Report};
use crate::roles::worker::Hands;
use crate::stages::follow::{self, Followed};

/// One shard's way to the crew.
#[derive(Debug)]
pub struct CrewHands {
    pub(super) crew: Arc<Crew>,
    pub(super) ctx: Arc<Ctx>,
    pub(super) reports: mpsc::Sender<Report>,
}

impl Hands for CrewHands {
    fn start(&mut self, lease: Lease) {
        let (crew, ctx, reports) =
            (Arc::clone(&self.crew), Arc::clone(&self.ctx), self.reports.clone());
        tokio::spawn(async move {
            let report = match life::admit(&ctx, &lease).await {
                Ok(_) => match crew.dispatch(lease) {
                    Ok(()) => return,
                    // Its worker has just left.
                    Err(lease) => Report::given_back(&lease),
                },
                Err(report) => *report,
            };
            // The owner is gone only at the end.
            let _ = reports.try_send(report);
        });
    }

    fn settled(&mut self, visit: VisitId) {
        // One that was reported is not held any more; this is one that has run out.
        let mut state = self.crew.state();
        if let Some(held) = state.visits.remove(&visit) {
            state.reported(held.session);
        }
    }

    fn kept(&mut self, visit: VisitId) {
        self.crew.state().answer(visit, Verdict::Kept);
    }

    fn refused(&mut self, visit: VisitId) {
        self.crew.state().answer(visit, Verdict::Stale);
    }

    fn abandon(&mut self) {
        let mut state = self.crew.state();
        state.visits.clear();
        state.waiting.clear();
    }
}

/// Judges the links of a worker's report by our scope, which it does not know.
pub(super) async fn judged(ctx: &Arc<Ctx>, lease: &Lease, report: Report) -> Report {
    let Report { visit, touch, at, done, packed, hold } = report;
    let mut done = match done {
        Done::Page(done) => done,
        other => return Report { visit, touch, at, done: other, packed, hold },
    };
    let shared = Arc::clone(ctx);
    let judged = ctx.pool.run(Weight::Light, move || {
        let scope = shared.scope.read().expect("no panic while locked");
        let options = &shared.options;
        let (url, found) = (&done.task.record.url, done.task.record.found);
        done.followed = match &done.outcome {
            Outcome::Moved { to: Some(to), .. } => {
                follow::redirect(url, to, &found, options.redirects_max, &scope, options.shards)
            }
            _ => {
                let Followed { by_shard, skipped, .. } = std::mem::take(&mut done.followed);
                let links = by_shard.into_values().next().unwrap_or_default();
                follow::judge(&links, &found, &scope, options.shards, skipped)
            }
        };
        done
    });
    match (judged.await, &lease.errand) {
        (Ok(done), _) => Report { visit, touch, at, done: Done::Page(done), packed, hold },
        (Err(died), Errand::Page(task)) => Report::broke(lease, task.clone(), touch, at, died.0),
        (Err(_), _) => life::lost(lease, ctx.clock.now(), true),
    }
}
