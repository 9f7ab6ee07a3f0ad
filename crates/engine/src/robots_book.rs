//! What do the robots.txt files that we know permit?
//!
//! A bounded memory of rules, chosen for our product token, in front of the texts in the store.
//! How the state of an origin changes with each attempt is [`renew`], a pure function.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use frontier::RobotsMark;
use lru::LruCache;
use ports::robots_entry::{RobotsAccess, RobotsEntry};
use ports::shard_store::RobotsFound;
use robots::{Group, Robots};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use types::{ByteSize, HumanDuration, Origin, Timestamp};

/// How robots.txt files are treated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RobotsSettings {
    /// Whether robots.txt is obeyed. `false` is for your own sites only, and warns loudly.
    pub obey: bool,
    /// How long a robots.txt is used before it is asked for again; at most 24h by RFC 9309.
    pub ttl: HumanDuration,
    /// What lies beyond is not read.
    pub bytes_max: ByteSize,
}

impl Default for RobotsSettings {
    fn default() -> Self {
        Self {
            obey: true,
            ttl: HumanDuration::from_secs(24 * 3_600),
            bytes_max: ByteSize::kib(500),
        }
    }
}

/// Wait after the first failed attempt; doubled by each further one, up to an hour.
const RETRY_MIN: Duration = Duration::from_secs(30);
const RETRY_MAX: Duration = Duration::from_secs(3_600);

/// The new state of an origin's robots.txt after an attempt.
pub fn renew(
    old: Option<RobotsEntry>,
    found: RobotsFound,
    now: Timestamp,
    settings: &RobotsSettings,
) -> RobotsEntry {
    let fresh = |access| RobotsEntry {
        access,
        checked_at: now,
        expires_at: now + settings.ttl.get().min(robots::TTL_MAX),
        failures: 0,
        trouble: None,
    };
    let why = match found {
        RobotsFound::Text(text) => return fresh(RobotsAccess::Rules { text, read_at: now }),
        RobotsFound::Absent => return fresh(RobotsAccess::Absent),
        RobotsFound::Unreachable(why) => why,
    };
    let failures = old.as_ref().map_or(0, |old| old.failures).saturating_add(1);
    let access = match old.map(|old| old.access) {
        // A copy speaks for the site for 30 days; then nobody does.
        Some(RobotsAccess::Rules { text, read_at })
            if now.since(read_at) <= robots::COPY_AGE_MAX =>
        {
            RobotsAccess::Rules { text, read_at }
        }
        Some(RobotsAccess::Unreachable { since }) => RobotsAccess::Unreachable { since },
        _ => RobotsAccess::Unreachable { since: now },
    };
    let wait = RETRY_MIN.saturating_mul(1 << (failures - 1).min(16)).min(RETRY_MAX);
    RobotsEntry { access, checked_at: now, expires_at: now + wait, failures, trouble: Some(why) }
}

/// Rules as the gate uses them.
#[derive(Debug)]
pub struct Rules {
    pub group: Group,
    /// False when nobody could tell: nothing may be fetched.
    pub reachable: bool,
    /// They are asked for again from then on: a little before they end.
    pub renew_at: Timestamp,
    pub expires_at: Timestamp,
}

/// How much of their time is left when rules are renewed: an hour of a day.
const RENEWED_PART: u32 = 24;

impl Rules {
    pub fn of(entry: &RobotsEntry, product: &str, settings: &RobotsSettings) -> Self {
        let group = match &entry.access {
            RobotsAccess::Rules { text, .. } => {
                Robots::parse_limited(text, settings.bytes_max.as_len()).group(product)
            }
            RobotsAccess::Absent | RobotsAccess::Unreachable { .. } => Group::default(),
        };
        let RobotsEntry { checked_at, expires_at, .. } = *entry;
        let life = expires_at.since(checked_at);
        let renew_at = checked_at + (life - life / RENEWED_PART);
        Self { group, reachable: !entry.is_unreachable(), renew_at, expires_at }
    }

    /// What the frontier needs to know of them.
    pub fn mark(&self) -> RobotsMark {
        if self.reachable {
            let delay = self.group.crawl_delay().map(Duration::from_secs_f64);
            let (until, renew_at) = (self.expires_at, self.renew_at);
            RobotsMark::Known { until, renew_at, crawl_delay: delay }
        } else {
            RobotsMark::Unreachable { retry_at: self.expires_at }
        }
    }
}

/// The memory. What was pushed out is read from the store again.
#[derive(Debug, Default)]
pub struct RobotsBook(Mutex<Shelf>);

#[derive(Debug)]
struct Shelf {
    rules: LruCache<Origin, Arc<Rules>, foldhash::fast::FixedState>,
    bytes: usize,
}

/// An ordinary robots.txt costs about 1 KB when parsed, one that means harm more than a MB: both
/// their number and their bytes are bounded.
const ORIGINS_MAX: NonZeroUsize = NonZeroUsize::new(50_000).unwrap();
const BYTES_MAX: usize = 64 << 20;

impl Default for Shelf {
    fn default() -> Self {
        let hasher = foldhash::fast::FixedState::default();
        Self { rules: LruCache::with_hasher(ORIGINS_MAX, hasher), bytes: 0 }
    }
}

impl RobotsBook {
    pub fn get(&self, origin: &Origin) -> Option<Arc<Rules>> {
        self.0.lock().expect("no panic while locked").rules.get(origin).cloned()
    }

    pub fn put(&self, origin: Origin, rules: Arc<Rules>) {
        let mut shelf = self.0.lock().expect("no panic while locked");
        shelf.bytes += rules.group.memory_bytes();
        if let Some((_, old)) = shelf.rules.push(origin, rules) {
            shelf.bytes -= old.group.memory_bytes();
        }
        // The newest stays, whatever it costs.
        while shelf.bytes > BYTES_MAX && shelf.rules.len() > 1 {
            let Some((_, old)) = shelf.rules.pop_lru() else { break };
            shelf.bytes -= old.group.memory_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn text(body: &str) -> RobotsFound {
        RobotsFound::Text(body.as_bytes().into())
    }

    fn down() -> RobotsFound {
        RobotsFound::Unreachable("503".into())
    }

    #[test]
    fn a_good_copy_speaks_for_the_site_for_thirty_days_of_outage() {
        let settings = RobotsSettings::default();
        let day = 86_400;
        let good = renew(None, text("User-agent: *\nDisallow: /p"), at(0), &settings);
        assert_eq!(good.expires_at, at(day));
        let mut entry = renew(Some(good), down(), at(day), &settings);
        assert!(!entry.is_unreachable());
        assert_eq!(entry.expires_at, at(day + 30), "asked again soon");
        entry = renew(Some(entry), down(), at(30 * day), &settings);
        assert!(!entry.is_unreachable());
        entry = renew(Some(entry), down(), at(31 * day), &settings);
        assert!(entry.is_unreachable(), "a copy of 31 days speaks for nobody");
    }

    #[test]
    fn without_a_copy_an_outage_forbids_everything_and_each_wait_is_longer() {
        let settings = RobotsSettings::default();
        let mut entry = renew(None, down(), at(0), &settings);
        assert!(entry.is_unreachable());
        let mut waits = vec![];
        for _ in 0..9 {
            waits.push(entry.expires_at.since(entry.checked_at).as_secs());
            entry = renew(Some(entry), down(), at(1_000), &settings);
        }
        assert_eq!(waits, [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
        assert_eq!(entry.access, RobotsAccess::Unreachable { since: at(0) });
        let rules = Rules::of(&entry, "lycosa", &settings);
        assert!(matches!(rules.mark(), RobotsMark::Unreachable { .. }));
    }

    #[test]
    fn the_memory_is_bounded_by_bytes_not_only_by_number() {
        let settings = RobotsSettings::default();
        let lines = "Disallow: /a\n".repeat(38_000);
        let huge = renew(None, text(&format!("User-agent: *\n{lines}")), at(0), &settings);
        let rules = Arc::new(Rules::of(&huge, "x", &settings));
        let book = RobotsBook::default();
        let origin =
            |n: usize| types::CrawlUrl::parse(&format!("http://h{n}.test/")).unwrap().origin();
        for n in 0..200 {
            book.put(origin(n % 150), Arc::clone(&rules));
            let shelf = book.0.lock().unwrap();
            assert!(shelf.bytes <= BYTES_MAX);
            assert_eq!(shelf.bytes, shelf.rules.len() * rules.group.memory_bytes());
        }
        assert!(book.get(&origin(49)).is_some() && book.get(&origin(0)).is_none());
    }

    #[test]
    fn no_file_means_everything_is_allowed() {
        let settings = RobotsSettings::default();
        let rules = Rules::of(&renew(None, RobotsFound::Absent, at(0), &settings), "x", &settings);
        assert!(rules.reachable && rules.group.judge("/anything").allowed);
    }

    #[test]
    fn a_ttl_beyond_a_day_is_a_day() {
        let settings = RobotsSettings {
            ttl: HumanDuration::from_secs(1_000_000),
            ..RobotsSettings::default()
        };
        let entry = renew(None, RobotsFound::Absent, at(0), &settings);
        assert_eq!(entry.expires_at, at(86_400));
    }
}
