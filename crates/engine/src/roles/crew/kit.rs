//! A crew without a frontier, for tests.

use std::sync::Arc;
use std::time::Duration;

use frontier::{Errand, Lease};
use tokio::sync::mpsc;
use types::{CrawlUrl, Discovery, QueueKey, Record, ShardId, Task, Timestamp, VisitId};

use super::{Crew, CrewOptions};
use crate::clock::SteadyClock;
use crate::roles::ledger::Ledger;

pub(super) const LEASE: Duration = Duration::from_secs(30);

pub(super) fn crew(capacity_max: usize) -> (Arc<Crew>, Ledger) {
    let ledger = Ledger::default();
    let options =
        CrewOptions { lease: LEASE, capacity_max, crawl_id: 1, product: "lycosa".to_owned() };
    let clock = SteadyClock::at(Timestamp::from_secs(1_000));
    (Crew::new(options, clock, ledger.clone()), ledger)
}

pub(super) fn lease(host: &str, count: u64) -> Lease {
    let url = CrawlUrl::parse(&format!("http://{host}/{count}")).unwrap();
    let at = Timestamp::from_secs(1_000);
    let found = Discovery { at, depth: 0, hops: 0, seed: false, band: 0 };
    let record = Record::new(url, found);
    Lease {
        visit: VisitId::new(ShardId(0), count),
        host: record.url.host_key(),
        errand: Errand::Page(Task { key: QueueKey::MIN, id: record.url.id(), record }),
        address: Some("127.0.0.1".parse().unwrap()),
        granted_at: at,
        not_before: at,
        pause: Duration::from_secs(1),
        name_wait: Duration::ZERO,
    }
}

/// A worker, its session and its tasks.
pub(super) fn worker(crew: &Crew, capacity: usize) -> (u64, mpsc::Receiver<Lease>) {
    let session = crew.join("w", capacity).unwrap().session;
    (session, crew.tasks(session).unwrap())
}

pub(super) fn given(tasks: &mut mpsc::Receiver<Lease>) -> Vec<u64> {
    std::iter::from_fn(|| tasks.try_recv().ok()).map(|lease| lease.visit.count()).collect()
}
