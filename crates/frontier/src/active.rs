//! What does an active host do next?
//!
//! Its queue's near part, what is known of it, and in which phase it is. It decides what comes
//! first; when it may go is the heap's business (`lib`).

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use types::{CrawlUrl, HostRule, HostState, QueueKey, Refusal, Site, Task, Timestamp};

use crate::back::Back;
use crate::host::{self, Manners};
use crate::lease::{Place, RobotsErrand};
use crate::politeness::Politeness;
use crate::robots::{RobotsMark, RobotsMarks};
use crate::suspects::Suspects;

/// An active host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) site: Site,
    pub(crate) state: HostState,
    pub(crate) rule: HostRule,
    pub(crate) back: Back,
    pub(crate) phase: Phase,
    pub(crate) place: Option<Place>,
    /// Somebody is looking up its name.
    pub(crate) asked: bool,
    /// Since when its turn has come and its name is not known; then, how long that took.
    pub(crate) nameless_since: Option<Timestamp>,
    pub(crate) name_wait: Duration,
    pub(crate) robots: RobotsMarks,
    pub(crate) errands: VecDeque<RobotsErrand>,
    /// The last turn was an errand's: now it is a page's, if there is one.
    pub(crate) errand_had_turn: bool,
    /// Its name could not be resolved when last tried.
    pub(crate) unresolved: bool,
    /// When pages that were passed over may be visited, at the soonest.
    pub(crate) rewind_at: Option<Timestamp>,
    /// Its turn is only when a robots.txt is asked for again: a page of another origin need not
    /// wait for that.
    pub(crate) waits_for_robots: bool,
    /// Which of its addresses is used; moves on after a failed connection.
    pub(crate) address_turn: usize,
    pub(crate) over_budget: bool,
    /// Visits that are settled and not yet in the store.
    pub(crate) uncommitted: usize,
    /// Its least pause.
    pub(crate) delay: Duration,
    pub(crate) obeys_robots: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its state is being read.
    Waking,
    /// Its address is being looked up.
    Resolving,
    /// In the heap; the number tells its latest entry from older ones.
    Scheduled {
        number: u64,
        at: Timestamp,
    },
    /// Its time has come, its address is busy.
    AtDoor,
    Leased,
    /// Waits for a refill.
    Starved,
    /// Nothing is waiting, or nothing that may be visited.
    Idle,
}

pub(crate) enum Pick {
    Page(QueueKey),
    /// A page of an origin that we ask nothing of.
    Refused(QueueKey, Refusal),
    /// The robots request at the front of the host's own list.
    Errand,
    /// The same, but the host cannot be asked for too long: somebody waits for an answer.
    Unanswered,
    /// A robots.txt of the host's own, which is asked for not before then.
    Robots(RobotsErrand, Timestamp),
    /// Nothing may be asked before then.
    Rest(Timestamp),
    /// The pages at hand wait, for robots.txt or because they are suspects; there may be others.
    Wait(Timestamp),
    Nothing,
}

/// A host that rests longer than this answers nobody who asks for a robots.txt.
const ERRAND_PATIENCE: Duration = Duration::from_secs(60);

pub(crate) enum PlaceNow {
    Unknown,
    At(IpAddr),
    Forbidden(Refusal),
}

impl Host {
    pub(crate) fn manners<'a>(&self, policy: &'a Politeness) -> Manners<'a> {
        Manners { policy, delay: self.delay, asked: self.delay_asked() }
    }

    /// What the store knows of it is all there is to know.
    pub(crate) fn is_stored(&self) -> bool {
        self.uncommitted == 0 && self.back.is_settled() && self.errands.is_empty()
    }

    /// The pause that was asked for, by the host's robots.txt or by whoever runs the crawl.
    fn delay_asked(&self) -> Option<Duration> {
        self.robots.crawl_delay().max(self.rule.delay())
    }

    /// A longer pause that was asked for holds at once, also for the one that has begun.
    pub(crate) fn lengthen_pause(&mut self, policy: &Politeness) {
        if self.state.last_end > Timestamp::ZERO {
            let pause = host::pause(&self.state, &self.manners(policy));
            self.state.not_before = self.state.not_before.max(self.state.last_end + pause);
        }
    }

    /// What comes first: errands and pages in turn; of the pages the first whose robots.txt is
    /// known, or the robots.txt of the first whose is not.
    pub(crate) fn pick(&self, now: Timestamp, suspects: &Suspects) -> Pick {
        if self.errands_wait_in_vain(now) {
            return Pick::Unanswered;
        }
        if now < self.state.not_before {
            return Pick::Rest(self.state.not_before);
        }
        if !self.errands.is_empty() && !self.errand_had_turn {
            return Pick::Errand;
        }
        match self.pick_page(now, suspects) {
            Pick::Wait(_) | Pick::Nothing if !self.errands.is_empty() => Pick::Errand,
            pick => pick,
        }
    }

    /// Whether a page's robots.txt is out of reach, or being looked for elsewhere.
    pub(crate) fn waits_for(&self, task: &Task, now: Timestamp) -> bool {
        let url = &task.record.url;
        matches!(
            self.robots.get(url.scheme(), url.port()),
            Some(mark @ (RobotsMark::Unreachable { .. } | RobotsMark::Chasing { .. }))
                if mark.until() > now
        )
    }

    /// Somebody waits for a robots.txt from here, and will get none soon.
    pub(crate) fn errands_wait_in_vain(&self, now: Timestamp) -> bool {
        let rests = self.state.not_before > now + ERRAND_PATIENCE;
        !self.errands.is_empty() && (rests || self.unresolved)
    }

    /// When it can do something: at once if somebody waits in vain, or else after its rest.
    pub(crate) fn turn(&self, now: Timestamp) -> Timestamp {
        if self.errands_wait_in_vain(now) { now } else { self.state.not_before.max(now) }
    }

    fn pick_page(&self, now: Timestamp, suspects: &Suspects) -> Pick {
        if let PlaceNow::Forbidden(_) = self.place_now(now)
            && let Some(task) = self.back.iter().next()
        {
            // Nobody needs the rules of a host that is not asked anything: its pages are refused.
            return Pick::Page(task.key);
        }
        let mut rest: Option<Timestamp> = None;
        for task in self.back.iter() {
            if let Some(at) = suspects.wait(task, now) {
                rest = Some(rest.map_or(at, |least| least.min(at)));
                continue;
            }
            if !self.obeys_robots {
                return Pick::Page(task.key);
            }
            let url = &task.record.url;
            match self.robots.get(url.scheme(), url.port()) {
                Some(mark) if mark.until() > now => match mark {
                    RobotsMark::Known { renew_at, .. } if *renew_at <= now => {
                        return Pick::Robots(own_robots(url), *renew_at);
                    }
                    RobotsMark::Known { .. } => return Pick::Page(task.key),
                    RobotsMark::Refused { refusal, .. } => {
                        return Pick::Refused(task.key, refusal.clone());
                    }
                    RobotsMark::Unreachable { retry_at: at }
                    | RobotsMark::Chasing { until: at } => {
                        rest = Some(rest.map_or(*at, |least| least.min(*at)));
                    }
                },
                mark => {
                    let at = mark.map_or(Timestamp::ZERO, RobotsMark::until);
                    return Pick::Robots(own_robots(url), at);
                }
            }
        }
        rest.map_or(Pick::Nothing, Pick::Wait)
    }

    /// Whether its address will have to be asked for at a moment from now on.
    pub(crate) fn moves_before(&self, at: Timestamp) -> bool {
        match &self.place {
            Some(Place::Addresses { until, .. } | Place::Forbidden { until, .. }) => *until <= at,
            _ => false,
        }
    }

    pub(crate) fn place_now(&self, now: Timestamp) -> PlaceNow {
        match &self.place {
            Some(Place::Addresses { addresses, until })
                if *until > now && !addresses.is_empty() =>
            {
                PlaceNow::At(addresses[self.address_turn % addresses.len()])
            }
            Some(Place::Forbidden { refusal, until }) if *until > now => {
                PlaceNow::Forbidden(refusal.clone())
            }
            _ => PlaceNow::Unknown,
        }
    }
}

/// Where a page's own robots.txt is.
fn own_robots(url: &CrawlUrl) -> RobotsErrand {
    let origin = url.origin();
    let url =
        CrawlUrl::from_canonical(&origin.robots_url()).expect("made of a canonical URL's parts");
    RobotsErrand { origin, url, hops: 0 }
}
