//! What does a fixture know of itself? What a plain reading of its text says.

use std::time::Duration;

use super::{
    ATTEMPTS, Access, Course, Home, Place, Truth, ask, from_plan, home_of, is_redirect, reaches,
};
use crate::fixture::Fixture;
use crate::plain;
use crate::robots_txt::HOPS_MAX;
use crate::web::{Body, Plan};

impl Truth for Fixture {
    fn home(&self, place: &Place) -> Home {
        home_of(self, place)
    }

    fn robots(&self, place: &Place, product: &str) -> Access {
        match self.robots_text(place) {
            RobotsFile::Text(text) if plain::allows(&text, product, &place.target) => {
                Access::Allowed
            }
            RobotsFile::Text(_) => Access::Forbidden,
            RobotsFile::Absent => Access::Allowed,
            RobotsFile::Unreachable => Access::Unreachable,
        }
    }

    fn course(&self, place: &Place) -> Course {
        let mut last = Course::Fails("nothing");
        for nth in 0..ATTEMPTS {
            last = from_plan(place, &ask(self, place, nth));
            if !matches!(last, Course::Fails(_)) {
                break;
            }
        }
        last
    }

    fn is_robots_hop(&self, place: &Place) -> bool {
        let homes = self.origins();
        homes.iter().any(|home| self.robots_hops(home).contains(place))
    }

    fn crawl_delay(&self, place: &Place, product: &str) -> Option<Duration> {
        match self.robots_text(place) {
            RobotsFile::Text(text) => plain::crawl_delay(&text, product),
            _ => None,
        }
    }
}

enum RobotsFile {
    Text(String),
    Absent,
    Unreachable,
}

impl Fixture {
    /// The places between an origin and its robots.txt, itself included; too many end early.
    fn robots_hops(&self, place: &Place) -> Vec<Place> {
        let mut hops = vec![place.robots()];
        while hops.len() as u64 <= HOPS_MAX + 1 {
            let at = &hops[hops.len() - 1];
            let plan = self.settled(at);
            let next = plan.header("location").and_then(|location| at.join(location));
            match next {
                Some(next) if is_redirect(plan.status) => hops.push(next),
                _ => break,
            }
        }
        hops
    }

    fn robots_text(&self, place: &Place) -> RobotsFile {
        let hops = self.robots_hops(place);
        if hops.len() as u64 > HOPS_MAX + 1 {
            return RobotsFile::Absent;
        }
        let last = &hops[hops.len() - 1];
        if home_of(self, last) != Home::Lives {
            return RobotsFile::Unreachable;
        }
        let plan = self.settled(last);
        match (&plan.body, plan.status) {
            _ if !reaches(&plan) => RobotsFile::Unreachable,
            (Body::Bytes(body), 200..=299) => {
                RobotsFile::Text(String::from_utf8_lossy(body).into_owned())
            }
            (_, 429) => RobotsFile::Unreachable,
            (_, 400..=499) => RobotsFile::Absent,
            _ => RobotsFile::Unreachable,
        }
    }

    /// The answer that comes after all others.
    fn settled(&self, place: &Place) -> Plan {
        ask(self, place, u32::MAX)
    }
}
