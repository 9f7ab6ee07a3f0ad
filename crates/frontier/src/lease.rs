//! What goes into the frontier, and what comes out of it?
//!
//! Plain data: what it is told, what it wants, the right to make a visit, and what must be
//! written down when the visit is over.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use types::{
    CrawlUrl, Fault, HostKey, HostRule, HostState, Origin, QueueKey, Refusal, ShardId, Site,
    SiteState, Task, Timestamp, VisitId,
};

use crate::politeness::Politeness;
use crate::robots::RobotsMark;
use crate::sheets::HostSheets;

/// What the frontier is told once.
#[derive(Debug, Clone)]
pub struct FrontierOptions {
    pub shard: ShardId,
    pub politeness: Politeness,
    /// When false, no robots.txt is asked for.
    pub obey_robots: bool,
    /// What holds for some hosts only.
    pub sheets: Arc<HostSheets>,
    pub sizes: Sizes,
    /// On resume: no host is visited before its full delay from then is over.
    pub opened_at: Option<Timestamp>,
    pub next_visit: u64,
    pub seed: u64,
}

/// How much is held in memory, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// A visit that has not come to its end for this long is lost.
    pub lease_time: Duration,
    /// Hosts in memory with their queues; about 1 KB each, and the tasks of their near parts.
    pub active_max: usize,
    /// Hosts in the front queues; about 100 bytes each.
    pub front_max: usize,
    /// Tasks of one host in memory, and when more are asked for.
    pub near_max: usize,
    pub near_low: usize,
    /// Tasks of all hosts in memory, some 300 bytes each: when many hosts are active, each has
    /// fewer than `near_max`.
    pub near_total: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            lease_time: Duration::from_secs(15 * 60),
            active_max: 50_000,
            front_max: 1_000_000,
            near_max: 64,
            near_low: 8,
            near_total: 400_000,
        }
    }
}

impl Sizes {
    /// Tasks that each of so many hosts may have in memory, and when it asks for more.
    pub fn near(&self, hosts: usize) -> (usize, usize) {
        let max = (self.near_total / hosts.max(1)).clamp(1, self.near_max);
        let low = if max < self.near_max { self.near_low.min(max / 4) } else { self.near_low };
        (max, low)
    }
}

impl FrontierOptions {
    pub fn new(shard: ShardId) -> Self {
        Self {
            shard,
            politeness: Politeness::default(),
            obey_robots: true,
            sheets: Arc::default(),
            sizes: Sizes::default(),
            opened_at: None,
            next_visit: 1,
            seed: 0,
        }
    }
}

/// What the frontier asks of the outside.
#[derive(Debug, Default)]
pub struct Wants {
    pub refill: Vec<Refill>,
    pub resolve: Vec<HostKey>,
    /// Names whose addresses hold no longer than until the next visit. Nobody waits for the answer.
    pub renew: Vec<HostKey>,
    /// The front queues ran dry and something did not fit into them: scan the hosts again.
    pub scan: bool,
}

impl Wants {
    pub fn is_empty(&self) -> bool {
        self.refill.is_empty() && self.resolve.is_empty() && self.renew.is_empty() && !self.scan
    }
}

/// The next part of a host's queue, please.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refill {
    pub host: HostKey,
    pub after: Option<QueueKey>,
    pub limit: usize,
    /// The host wakes up: all that is stored of it is wanted too.
    pub wake: bool,
}

/// What is stored of a host that wakes up.
#[derive(Debug, Clone, Default)]
pub struct Wake {
    pub state: HostState,
    pub rule: HostRule,
    pub site: SiteState,
    pub robots: Vec<(Origin, RobotsMark)>,
}

/// Where a host lives, or why we cannot go there.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    Addresses { addresses: Vec<IpAddr>, until: Timestamp },
    Forbidden { refusal: Refusal, until: Timestamp },
    Failed { why: Box<str> },
}

#[derive(Debug)]
pub enum Next {
    /// Go, at the moment that the lease names.
    Visit(Box<Lease>),
    /// Nothing is to be leased before then; none when nothing is known to wait.
    Wait(Option<Timestamp>),
}

/// The right to make one visit.
#[derive(Debug, Clone)]
pub struct Lease {
    pub visit: VisitId,
    pub host: HostKey,
    pub errand: Errand,
    /// The one address that may be connected; none when nothing is to be sent.
    pub address: Option<IpAddr>,
    pub granted_at: Timestamp,
    /// The request leaves then, or later: host and address have had their pauses.
    pub not_before: Timestamp,
    /// The least pause that the host gets afterwards, as far as is known before its answer.
    pub pause: Duration,
    /// How long the visit could have gone and its host's name was still being looked up.
    pub name_wait: Duration,
}

#[derive(Debug, Clone)]
pub enum Errand {
    Page(Task),
    Robots(RobotsErrand),
    /// The host lives where we do not go.
    Refuse(Task, Refusal),
}

impl Errand {
    pub fn task(&self) -> Option<&Task> {
        match self {
            Self::Page(task) | Self::Refuse(task, _) => Some(task),
            Self::Robots(_) => None,
        }
    }
}

/// A request for a robots.txt, perhaps at another host than the one it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RobotsErrand {
    pub origin: Origin,
    pub url: CrawlUrl,
    pub hops: u8,
}

/// What became of the URL of a visit.
#[derive(Debug)]
pub enum Fate {
    /// It leaves the queue when the visit is committed.
    Leaves,
    /// It stays where it was, perhaps with something noted in its record.
    Stays(Box<Task>),
}

/// What must be written down with a settled visit.
#[derive(Debug)]
pub struct Settled {
    pub host: HostKey,
    pub state: HostState,
    pub site: (Site, SiteState),
    /// When the host's request before this one had ended; the measured gap begins there.
    pub last_end_before: Option<Timestamp>,
    /// A milestone that somebody should hear of.
    pub alert: Option<Alert>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alert {
    Parked { faults: u32, last: Fault },
    Denied { times: u32 },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_hosts_have_few_tasks_each() {
        let sizes = Sizes::default();
        assert_eq!(sizes.near(0), (64, 8));
        assert_eq!(sizes.near(6_250), (64, 8));
        assert_eq!(sizes.near(50_000), (8, 2));
        assert_eq!(sizes.near(10_000_000), (1, 0));
    }
}
