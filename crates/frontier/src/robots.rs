//! What does the frontier know of robots.txt?
//!
//! Only when to ask again and how long to pause: the rules themselves are the gate's. A host may
//! have several origins (schemes, ports); the longest `Crawl-delay` of them counts for the host.

use std::time::Duration;

use types::{Origin, Refusal, Scheme, Timestamp};

/// How one origin's robots.txt stands.
#[derive(Debug, Clone, PartialEq)]
pub enum RobotsMark {
    /// Its rules are known, good until then. From `renew_at` on they are asked for again, while they
    /// still hold: whatever comes of that, the host's pages go on.
    Known { until: Timestamp, renew_at: Timestamp, crawl_delay: Option<Duration> },
    /// Nobody could tell, and there is no good copy: its pages wait.
    Unreachable { retry_at: Timestamp },
    /// It points to another host, which is being asked.
    Chasing { until: Timestamp },
    /// Nothing is asked of that origin, so nobody needs its rules: its pages are refused.
    Refused { refusal: Refusal, until: Timestamp },
}

impl RobotsMark {
    pub(crate) const fn until(&self) -> Timestamp {
        match self {
            Self::Known { until, .. } | Self::Chasing { until } | Self::Refused { until, .. } => {
                *until
            }
            Self::Unreachable { retry_at } => *retry_at,
        }
    }
}

/// The marks of one host's origins.
#[derive(Debug, Clone, Default)]
pub struct RobotsMarks {
    marks: Vec<(Scheme, u16, RobotsMark)>,
}

/// A host has few origins; more than this are not remembered and asked again.
const ORIGINS_MAX: usize = 16;

impl RobotsMarks {
    pub(crate) fn new(marks: Vec<(Origin, RobotsMark)>) -> Self {
        let marks = marks.into_iter().map(|(o, mark)| (o.scheme, o.port, mark));
        Self { marks: marks.take(ORIGINS_MAX).collect() }
    }

    pub(crate) fn get(&self, scheme: Scheme, port: u16) -> Option<&RobotsMark> {
        self.marks.iter().find(|(s, p, _)| (*s, *p) == (scheme, port)).map(|(_, _, mark)| mark)
    }

    pub(crate) fn set(&mut self, now: Timestamp, origin: &Origin, mut mark: RobotsMark) {
        // Where the answer is looked for elsewhere, the rules that we have go on as long as they hold.
        if let RobotsMark::Chasing { until: answered_by } = mark
            && let Some(RobotsMark::Known { until, crawl_delay, .. }) =
                self.get(origin.scheme, origin.port)
            && *until > now
        {
            let (until, crawl_delay) = (*until, *crawl_delay);
            mark = RobotsMark::Known { until, renew_at: answered_by.min(until), crawl_delay };
        }
        self.marks.retain(|(s, p, _)| (*s, *p) != (origin.scheme, origin.port));
        if self.marks.len() >= ORIGINS_MAX {
            self.marks.remove(0);
        }
        self.marks.push((origin.scheme, origin.port, mark));
    }

    pub(crate) fn crawl_delay(&self) -> Option<Duration> {
        self.marks
            .iter()
            .filter_map(|(_, _, mark)| match mark {
                RobotsMark::Known { crawl_delay, .. } => *crawl_delay,
                _ => None,
            })
            .max()
    }
}
