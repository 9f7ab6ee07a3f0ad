//! What does an active host do next?
//!
//! Its queue's near part, what is known of it, and in which phase it is. It decides what comes
//! first; when it may go is the heap's business (`lib`).

use std::collections::VecDeque;
use std::net::IpAddr;

use types::{CrawlUrl, HostState, QueueKey, Refusal, Site, Timestamp};

use crate::back::Back;
use crate::lease::{Place, RobotsErrand};
use crate::robots::{RobotsMark, RobotsMarks};

/// An active host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) site: Site,
    pub(crate) state: HostState,
    pub(crate) back: Back,
    pub(crate) phase: Phase,
    pub(crate) place: Option<Place>,
    pub(crate) robots: RobotsMarks,
    pub(crate) errands: VecDeque<RobotsErrand>,
    /// Which of its addresses is used; moves on after a failed connection.
    pub(crate) address_turn: usize,
    pub(crate) over_budget: bool,
    /// Visits that are settled and not yet in the store.
    pub(crate) uncommitted: usize,
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
    /// The robots request at the front of the host's own list.
    Errand,
    Robots(RobotsErrand),
    /// Nothing may be asked before then.
    Rest(Timestamp),
    Nothing,
}

pub(crate) enum PlaceNow {
    Unknown,
    At(IpAddr),
    Forbidden(Refusal),
}

impl Host {
    /// What the store knows of it is all there is to know.
    pub(crate) fn is_stored(&self) -> bool {
        self.uncommitted == 0 && self.back.is_settled() && self.errands.is_empty()
    }

    /// What comes first: an errand, then the first page whose robots.txt is known, or the
    /// robots.txt of the first page whose is not.
    pub(crate) fn pick(&self, now: Timestamp, obey_robots: bool) -> Pick {
        if now < self.state.not_before {
            return Pick::Rest(self.state.not_before);
        }
        if !self.errands.is_empty() {
            return Pick::Errand;
        }
        if let PlaceNow::Forbidden(_) = self.place_now(now)
            && let Some(task) = self.back.iter().next()
        {
            // Nobody needs the rules of a host that is not asked anything: its pages are refused.
            return Pick::Page(task.key);
        }
        let mut rest: Option<Timestamp> = None;
        for task in self.back.iter() {
            if !obey_robots {
                return Pick::Page(task.key);
            }
            let url = &task.record.url;
            match self.robots.get(url.scheme(), url.port()) {
                Some(mark) if mark.until() > now => match mark {
                    RobotsMark::Known { .. } => return Pick::Page(task.key),
                    RobotsMark::Unreachable { retry_at: at }
                    | RobotsMark::Chasing { until: at } => {
                        rest = Some(rest.map_or(*at, |least| least.min(*at)));
                    }
                },
                _ => {
                    let origin = url.origin();
                    let url = CrawlUrl::from_canonical(&origin.robots_url())
                        .expect("made of a canonical URL's parts");
                    return Pick::Robots(RobotsErrand { origin, url, hops: 0 });
                }
            }
        }
        rest.map_or(Pick::Nothing, Pick::Rest)
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
