//! Which open connection can serve the next visit to a host?
//!
//! At most one waits per host, for the same scheme, port and address; a visit that needs another
//! closes it first. Those that wait too long are closed by a small task that lives only as long
//! as there are any.
//!
//! Always: at most `keep_alive_max` wait, at most one per host.
//!
//! Not here: whether the one that is taken is still alive (`record` finds out before it writes).

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use tokio::time::{Instant, sleep_until};
use types::{CrawlUrl, HostKey, Scheme};

use crate::connection::Connection;

/// Open connections that wait for their host's next visit.
pub(crate) struct Pool {
    waiting: Mutex<Waiting>,
    keep_alive: Duration,
}

struct Waiting {
    by_host: LruCache<HostKey, Idle>,
    /// A task is there to close what waits too long.
    swept: bool,
}

struct Idle {
    connection: Connection,
    end: End,
    until: Instant,
}

/// What a connection leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct End {
    scheme: Scheme,
    port: u16,
    address: IpAddr,
}

impl End {
    fn of(url: &CrawlUrl, address: IpAddr) -> Self {
        Self { scheme: url.scheme(), port: url.port(), address }
    }
}

impl Pool {
    pub(crate) fn new(keep_alive: Duration, max: usize) -> Self {
        let keep_alive = if max == 0 { Duration::ZERO } else { keep_alive };
        let max = NonZeroUsize::new(max).unwrap_or(NonZeroUsize::MIN);
        // Not `LruCache::new`, which would make room for all of them at once.
        let mut by_host = LruCache::unbounded();
        by_host.resize(max);
        Self { waiting: Mutex::new(Waiting { by_host, swept: false }), keep_alive }
    }

    /// The connection that leads there. Any other of the same host is closed.
    pub(crate) fn take(&self, url: &CrawlUrl, address: IpAddr) -> Option<Connection> {
        let idle = self.lock().by_host.pop(url.host())?;
        let fits = idle.end == End::of(url, address) && Instant::now() < idle.until;
        fits.then_some(idle.connection)
    }

    /// Lets a connection wait, at most as long as its server says.
    pub(crate) fn put(
        self: &Arc<Self>,
        url: &CrawlUrl,
        address: IpAddr,
        connection: Connection,
        server_says: Option<Duration>,
    ) {
        // A second less than it says: its clock started before ours.
        let server_says = server_says.map(|span| span.saturating_sub(Duration::from_secs(1)));
        let span = server_says.map_or(self.keep_alive, |span| span.min(self.keep_alive));
        if span.is_zero() {
            return;
        }
        let idle = Idle { connection, end: End::of(url, address), until: Instant::now() + span };
        let mut waiting = self.lock();
        let replaced = waiting.by_host.push(url.host_key(), idle);
        let sweep = !std::mem::replace(&mut waiting.swept, true);
        drop(waiting);
        // Closed here and not under the lock: it is a system call.
        drop(replaced);
        if sweep {
            tokio::spawn(sweep_until_empty(Arc::downgrade(self)));
        }
    }

    /// Closes all that wait; how many there were.
    pub(crate) fn close_all(&self) -> usize {
        let mut waiting = self.lock();
        let mut closed = Vec::with_capacity(waiting.by_host.len());
        while let Some((_, idle)) = waiting.by_host.pop_lru() {
            closed.push(idle);
        }
        drop(waiting);
        closed.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().by_host.len()
    }

    /// Closes what has waited too long; the moment when the next one will have.
    fn sweep(&self, now: Instant) -> Option<Instant> {
        let mut waiting = self.lock();
        let expired: Vec<HostKey> = waiting
            .by_host
            .iter()
            .filter(|(_, idle)| idle.until <= now)
            .map(|(host, _)| host.clone())
            .collect();
        let closed: Vec<_> = expired.iter().filter_map(|host| waiting.by_host.pop(host)).collect();
        let next = waiting.by_host.iter().map(|(_, idle)| idle.until).min();
        waiting.swept = next.is_some();
        drop(waiting);
        drop(closed);
        next
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn sweep_until_empty(pool: std::sync::Weak<Pool>) {
    // Not more often: a sweep looks at all that wait.
    const PAUSE: Duration = Duration::from_millis(100);
    loop {
        let Some(next) = pool.upgrade().and_then(|pool| pool.sweep(Instant::now())) else { return };
        sleep_until(next.max(Instant::now() + PAUSE)).await;
    }
}
