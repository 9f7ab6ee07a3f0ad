//! What does a frontier remember for others?
//!
//! Crawlers that are not lycosa keep their URLs with us: as they wrote them, in queues of their
//! naming, in crawls of their naming. Our own rules do not touch them: no canonical form, no
//! robots.txt, no hosts. Times are whole seconds since 1970, as their API has them.
//!
//! Always: what [`ForeignStore::commit`] has written is there after a crash, all of it or nothing.

use serde::{Deserialize, Serialize};
use types::UrlId;
pub use types::foreign::{QueueName, QueueState, Seconds, Space};

use crate::error::PortResult;

/// What is known of a URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignUrl {
    pub url: Box<str>,
    /// Opaque to us; the names are sorted.
    pub metadata: Vec<(Box<str>, Vec<Box<str>>)>,
    pub created: Seconds,
    /// When it may be fetched (again); none when it is done with.
    pub due: Option<Seconds>,
    /// Somebody was given it, and has it to himself before then; 0 when nobody has it.
    pub held_until: Seconds,
}

impl ForeignUrl {
    pub fn id(&self) -> UrlId {
        UrlId::of(&self.url)
    }

    /// The moment under which it stands in its queue.
    pub fn place(&self) -> Option<Seconds> {
        self.due.map(|due| due.max(self.held_until))
    }
}

/// What holds for all crawls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignSettings {
    /// While false, nothing is served.
    pub active: bool,
    /// Seconds between two servings of a queue that has no delay of its own.
    pub delay: u32,
    /// Crawls by name. A number is never used again.
    pub crawls: Vec<(Box<str>, Space)>,
    pub last_space: Space,
}

impl Default for ForeignSettings {
    fn default() -> Self {
        Self { active: true, delay: 1, crawls: Vec::new(), last_space: Space(0) }
    }
}

/// The first URLs of a queue, please: so many that stand there by `now`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstWant {
    pub queue: QueueName,
    pub now: Seconds,
    pub limit: usize,
}

/// In the order of the queue: by moment, then by URL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct First {
    pub urls: Vec<ForeignUrl>,
    /// Under which moment the next one stands, if there is one.
    pub next: Option<Seconds>,
}

/// One URL as it was, and as it will be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignChange {
    pub queue: QueueName,
    /// Where it stood in its queue.
    pub place: Option<Seconds>,
    /// None deletes it.
    pub new: Option<ForeignUrl>,
    pub url: Box<str>,
}

/// Changes that become durable together. Each URL and each queue stands in it once.
#[derive(Debug, Clone, Default)]
pub struct ForeignBatch {
    pub urls: Vec<ForeignChange>,
    pub queues: Vec<(QueueName, QueueState)>,
    pub settings: Option<ForeignSettings>,
    /// On the disk when the commit returns; else with the operating system.
    pub durable: bool,
}

/// Where a walk over URLs has come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForeignCursor {
    pub after: Option<Vec<u8>>,
    pub done: bool,
}

pub trait ForeignStore: Send {
    fn settings(&mut self) -> PortResult<ForeignSettings>;

    /// Every queue with its state and the moment under which its first URL stands, in the order of
    /// their names.
    fn each_queue(
        &mut self,
        each: &mut dyn FnMut(QueueName, QueueState, Option<Seconds>),
    ) -> PortResult<()>;

    /// What is known of each of these URLs.
    fn find(&mut self, urls: &[(&QueueName, &str)]) -> PortResult<Vec<Option<ForeignUrl>>>;

    /// What stands first in queues.
    fn first(&mut self, wants: &[FirstWant]) -> PortResult<Vec<First>>;

    fn commit(&mut self, batch: &ForeignBatch) -> PortResult<()>;

    /// The next URLs of a crawl, or of one of its queues, in the order of their keys.
    fn urls(
        &mut self,
        space: Space,
        key: Option<&str>,
        cursor: &mut ForeignCursor,
        limit: usize,
    ) -> PortResult<Vec<(QueueName, ForeignUrl)>>;

    /// Forgets a queue, or a whole crawl. Whoever asks after a crash asks again.
    fn forget(&mut self, space: Space, key: Option<&str>) -> PortResult<()>;

    /// Bytes on disk.
    fn disk_bytes(&self) -> PortResult<u64>;
}
