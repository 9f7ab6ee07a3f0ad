//! Whose links wait for a turn?
//!
//! A commit takes as long as the links in it ask for, and everybody in it waits for all of it. A
//! page, or a sitemap, may bring ten thousand new ones; a few hosts that send nothing else would
//! leave no time to the others. So visits with very many links are committed one at a time, and
//! the store rests from them for a multiple of what the last one took.
//!
//! Always: whoever waits here is not settled, so its host is not visited again before it was its
//! turn; its lease does not run out meanwhile, because the waiting is ours. There are no more of them
//! than there are slots. When very many wait, or the crawl is to stop, the store does not rest; but
//! it still takes them one at a time, because a commit of hundreds of them is a gigabyte.
//!
//! Not here: what such a page costs to read (`pool`), or how many of its links are taken (`follow`).

use std::collections::VecDeque;

use types::{Timestamp, VisitId};

use super::{Mode, Owner};
use crate::report::Report;

/// Links with which a visit is heavy: far more than an ordinary page has, and a tenth of what hurt
/// (ten thousand a page made commits take half a second).
const LINKS_MIN: usize = 1_000;
/// For how many times as long as the commit of a heavy visit took no other one is begun: they have
/// a quarter of the store's time at most.
const REST: u32 = 3;
/// With more of them, a rest would only make everybody's memory wait.
const WAITING_MAX: usize = 128;

/// The visits that wait, and whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Heavy {
    waiting: VecDeque<Report>,
    turn: Turn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Nobody's; the next may begin from this moment on.
    Free { from: Timestamp },
    /// One is in the group that gathers.
    Gathered,
    /// Its group was sent on its way at this moment.
    UnderWay { since: Timestamp },
}

impl Default for Turn {
    fn default() -> Self {
        Self::Free { from: Timestamp::ZERO }
    }
}

impl Turn {
    fn is_free(self, now: Timestamp) -> bool {
        matches!(self, Self::Free { from } if from <= now)
    }

    fn sent(&mut self, now: Timestamp) {
        if *self == Self::Gathered {
            *self = Self::UnderWay { since: now };
        }
    }

    fn kept(&mut self, now: Timestamp) {
        if let Self::UnderWay { since } = *self {
            *self = Self::Free { from: now + now.since(since) * REST };
        }
    }
}

impl Heavy {
    /// The group that gathers is sent on its way.
    pub(super) fn sent(&mut self, now: Timestamp) {
        self.turn.sent(now);
    }

    /// The group that was under way is kept.
    pub(super) fn kept(&mut self, now: Timestamp) {
        self.turn.kept(now);
    }

    /// Whether a visit has come to its end and waits for its turn.
    pub(super) fn has(&self, visit: VisitId) -> bool {
        self.waiting.iter().any(|report| report.visit == visit)
    }

    fn may_begin(&self, now: Timestamp, mode: Mode) -> bool {
        // Whoever waits for the end waits for all of them, so nobody gains by a rest.
        let restless = mode != Mode::Running || self.waiting.len() > WAITING_MAX;
        self.turn.is_free(if restless { Timestamp::MAX } else { now })
    }

    /// Nobody wants them any more.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

impl Owner {
    /// A visit has come to its end. What it tells is heard now, or when it is its turn.
    pub(super) fn on_report(&mut self, report: Report) {
        if report.links() >= LINKS_MIN {
            self.heavy.waiting.push_back(report);
        } else {
            self.settle(report);
        }
    }

    /// Settles the heavy visit whose turn it is; says when to look again.
    pub(super) fn take_turn(&mut self, now: Timestamp) -> Option<Timestamp> {
        while self.heavy.may_begin(now, self.mode) {
            let report = self.heavy.waiting.pop_front()?;
            // One that nobody leased leaves nothing to commit, and the turn to the next.
            if self.frontier.lease(report.visit).is_some() {
                self.heavy.turn = Turn::Gathered;
            }
            self.settle(report);
        }
        match self.heavy.turn {
            Turn::Free { from } if !self.heavy.waiting.is_empty() => Some(from),
            // Whatever comes of it wakes us up.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_heavy_visit_is_followed_by_a_rest_of_three_times_its_commit() {
        let at = |millis| Timestamp::from_secs(100) + Duration::from_millis(millis);
        let mut turn = Turn::default();
        assert!(turn.is_free(at(0)));
        // A group without one changes nothing.
        turn.sent(at(0));
        turn.kept(at(50));
        assert!(turn.is_free(at(50)));
        turn = Turn::Gathered;
        // Another group, sent before it, comes back: it is still to be sent.
        turn.kept(at(60));
        assert_eq!(turn, Turn::Gathered);
        turn.sent(at(100));
        assert!(!turn.is_free(at(10_000)));
        turn.kept(at(140));
        assert!(!turn.is_free(at(259)));
        assert!(turn.is_free(at(260)));
    }
}
