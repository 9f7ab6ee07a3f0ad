//! The words all crates share.
//!
//! Plain data with rules and nothing else: no I/O, no clock, no randomness. Whoever needs a URL
//! here has one that is canonical, because [`CrawlUrl`] cannot exist otherwise; whoever needs a
//! moment is given a [`Timestamp`].

pub mod by_host;
pub mod canonical;
pub mod foreign;
pub mod host;
pub mod host_state;
pub mod outcome;
mod plain;
pub mod record;
pub mod size;
pub mod task;
pub mod text;
pub mod time;
pub mod url;

pub use by_host::{ByHost, HostGlob, matches_glob};
pub use canonical::{Canon, CanonSettings};
pub use host::{HostKey, Origin, Scheme, ShardId, Site};
pub use host_state::{HostRule, HostState};
pub use outcome::{Answer, Blame, Failure, Fault, Outcome, Refusal, Retry};
pub use record::{Discovery, Held, LastVisit, Record, State, Validators, VisitId, WarcRef};
pub use size::{ByteRate, ByteSize};
pub use task::{QueueKey, SiteState, Task};
pub use text::{News, PageLine, Published, Reading, TextFacts};
pub use time::{HumanDuration, Timestamp};
pub use url::{Base, CrawlUrl, UrlError, UrlId, UrlRef};
