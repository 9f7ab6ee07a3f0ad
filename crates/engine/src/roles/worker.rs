//! Who makes the visits?
//!
//! A task per lease, bounded by the slots that the owner holds. Whatever happens to a task, its
//! owner hears of it: a visit that panics reports itself lost on its way out.
//!
//! Always: a visit that is settled is over. One whose lease ran out is ended, so that it cannot
//! send its request when the host is somebody else's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use frontier::Lease;
use ports::Clock;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use types::VisitId;

use crate::ctx::Ctx;
use crate::life;
use crate::report::Report;

#[derive(Debug)]
pub struct Worker {
    ctx: Arc<Ctx>,
    reports: mpsc::Sender<Report>,
    visits: JoinSet<()>,
    handles: BTreeMap<VisitId, AbortHandle>,
}

impl Worker {
    /// `reports` must have room for one report of every visit under way.
    pub fn new(ctx: Arc<Ctx>, reports: mpsc::Sender<Report>) -> Self {
        Self { ctx, reports, visits: JoinSet::new(), handles: BTreeMap::new() }
    }

    pub fn start(&mut self, lease: Lease) {
        while self.visits.try_join_next().is_some() {}
        let ctx = Arc::clone(&self.ctx);
        let mut duty = Duty {
            lease: lease.clone(),
            sent: AtomicBool::new(false),
            ctx: Arc::clone(&ctx),
            reports: self.reports.clone(),
            done: false,
        };
        let visit = lease.visit;
        let handle = self.visits.spawn(async move {
            let report = life::visit(&ctx, lease, &duty.sent).await;
            duty.done = true;
            // The owner is gone only when the crawl is being abandoned.
            let _ = duty.reports.try_send(report);
        });
        self.handles.insert(visit, handle);
    }

    /// The visit is settled; if it goes on all the same, it ends here.
    pub fn end(&mut self, visit: VisitId) {
        if let Some(handle) = self.handles.remove(&visit) {
            handle.abort();
        }
    }

    /// Abandons all visits at once. Their grants stay noted; the next start settles them.
    pub fn abandon(&mut self) {
        self.visits.abort_all();
    }
}

/// The duty to report, which outlives a panic.
struct Duty {
    lease: Lease,
    sent: AtomicBool,
    ctx: Arc<Ctx>,
    reports: mpsc::Sender<Report>,
    done: bool,
}

impl Drop for Duty {
    fn drop(&mut self) {
        if !self.done && std::thread::panicking() {
            let sent = self.sent.load(Ordering::Relaxed);
            let report = life::lost(&self.lease, self.ctx.clock.now(), sent);
            let _ = self.reports.try_send(report); // as above
        }
    }
}
