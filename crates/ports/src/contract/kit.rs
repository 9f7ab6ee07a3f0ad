//! Short words for the suites.

use std::time::Duration;

use types::record::RetryPolicy;
use types::{
    CrawlUrl, HostKey, HostState, Outcome, ShardId, State, Task, Timestamp, UrlId, VisitId,
};

use super::Reopen;
use crate::shard_store::{
    Arrival, CommitBatch, Committed, Found, FoundSet, Grant, RefillWant, Refilled, ShardStore,
    UrlChange, VisitCommit,
};

pub(super) const POLICY: RetryPolicy =
    RetryPolicy { attempts_max: 3, delay: Duration::from_secs(10), lost_max: 3, host_max: 0 };

pub(super) fn at(secs: u64) -> Timestamp {
    Timestamp::from_secs(1_800_000_000 + secs)
}

pub(super) fn url(text: &str) -> CrawlUrl {
    CrawlUrl::from_canonical(text).unwrap()
}

pub(super) fn host(name: &str) -> HostKey {
    HostKey::new(name)
}

pub(super) fn visit_id(count: u64) -> VisitId {
    VisitId::new(ShardId(0), count)
}

/// A link at depth 3 in band 4; the tests change what they are about.
pub(super) fn found(url: &str) -> Found<'_> {
    Found { url, id: UrlId::of(url), depth: 3, hops: 0, band: 4, seed: false }
}

pub(super) fn set<'a>(links: impl IntoIterator<Item = Found<'a>>) -> FoundSet {
    let mut set = FoundSet::default();
    links.into_iter().for_each(|found| set.push(found));
    set
}

pub(super) fn links(urls: &[&str]) -> FoundSet {
    set(urls.iter().map(|url| found(url)))
}

pub(super) fn arrive(links: FoundSet) -> CommitBatch {
    let arrivals = vec![Arrival { links, ..Arrival::default() }];
    CommitBatch { at: at(1), arrivals, ..CommitBatch::default() }
}

pub(super) fn settle(visits: Vec<VisitCommit>) -> CommitBatch {
    CommitBatch { at: at(2), visits, ..CommitBatch::default() }
}

/// The commit of a visit after which its URL is in `state`.
pub(super) fn visited(count: u64, task: &Task, state: State) -> VisitCommit {
    let mut record = task.record.clone();
    record.state = state;
    VisitCommit { url: Some(UrlChange { key: task.key, record }), ..robots_visit(count, task) }
}

/// The commit of a visit that came to `outcome`.
pub(super) fn came_to(count: u64, task: &Task, outcome: &Outcome) -> VisitCommit {
    let mut record = task.record.clone();
    record.settle(visit_id(count), outcome, at(2), POLICY);
    VisitCommit { url: Some(UrlChange { key: task.key, record }), ..robots_visit(count, task) }
}

/// A visit of the task's host that was for no URL.
pub(super) fn robots_visit(count: u64, task: &Task) -> VisitCommit {
    VisitCommit {
        visit: visit_id(count),
        host: task.record.url.host_key(),
        host_state: HostState::default(),
        site: None,
        url: None,
        robots: None,
        links: FoundSet::default(),
        letters: Vec::new(),
        line: None,
    }
}

pub(super) fn grant_of(count: u64, task: &Task) -> Grant {
    Grant {
        visit: visit_id(count),
        host: task.record.url.host_key(),
        url: Some(task.id),
        at: at(1),
    }
}

/// Opens and recovers: the store, and the next visit's number.
pub(super) fn open<R: Reopen>(state: &mut R) -> (R::Store, u64) {
    let mut store = state.open().unwrap();
    let recovery = store.recover(at(0), POLICY).unwrap();
    (store, recovery.next_visit)
}

/// A new state with these URLs accepted.
pub(super) fn with<R: Reopen>(state: &mut R, urls: &[&str]) -> (R::Store, u64, Vec<Task>) {
    let (mut store, next) = open(state);
    let Committed { accepted, .. } = store.commit(arrive(links(urls))).unwrap();
    assert_eq!(accepted.len(), urls.len());
    (store, next, accepted)
}

/// The whole queue of a host.
pub(super) fn queue(store: &mut impl ShardStore, host: &str) -> Vec<Task> {
    let refilled = refill(store, host, None, 1_000);
    assert!(!refilled.more);
    refilled.tasks
}

pub(super) fn refill(
    store: &mut impl ShardStore,
    host: &str,
    after: Option<types::QueueKey>,
    limit: usize,
) -> Refilled {
    let want = RefillWant { host: HostKey::new(host), after, limit, state: false };
    let mut answers = store.refill(&[want]).unwrap();
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

pub(super) fn urls_of(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.record.url.as_str()).collect()
}

pub(super) fn check_audit<R: Reopen>(state: &R, store: &R::Store) {
    let faults = state.audit(store);
    assert!(faults.is_empty(), "{faults:#?}");
}
