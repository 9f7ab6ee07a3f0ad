//! What does a world know of itself? Everything, by construction.

use std::time::Duration;

use super::{Access, Course, Home, KnownLink, Place, Truth, ask, from_plan, home_of};
use crate::faults::FaultKind;
use crate::page::{Link, parent};
use crate::path::{Shape, Target};
use crate::robots_txt::RobotsKind;
use crate::world::{Host, World};

impl Truth for World {
    fn home(&self, place: &Place) -> Home {
        home_of(self, place)
    }

    fn robots(&self, place: &Place, product: &str) -> Access {
        use FaultKind::{
            RobotsBusy, RobotsDenied, RobotsError, RobotsFar, RobotsHtml, RobotsLoop, RobotsMute,
            RobotsReset,
        };
        let Some(host) = self.find_host(&place.host) else { return Access::Unreachable };
        match host.fault {
            Some(RobotsError | RobotsBusy | RobotsMute | RobotsReset) => Access::Unreachable,
            Some(RobotsDenied | RobotsFar | RobotsLoop | RobotsHtml) => Access::Allowed,
            _ if self.allows(&host, &place.target, product) => Access::Allowed,
            _ => Access::Forbidden,
        }
    }

    fn course(&self, place: &Place) -> Course {
        match self.find_host(&place.host) {
            Some(host) if host.tls == place.tls => self.course_of(&host, place),
            _ => answers(404),
        }
    }

    fn is_robots_hop(&self, place: &Place) -> bool {
        place.target.starts_with("/robots-") && place.target.ends_with(".txt")
    }

    fn crawl_delay(&self, place: &Place, _product: &str) -> Option<Duration> {
        let host = self.find_host(&place.host)?;
        let silent = host.fault.is_some_and(|fault| {
            use FaultKind as F;
            let heard = matches!(
                fault,
                F::RobotsErrorThenFine
                    | F::RobotsMoved
                    | F::RobotsLarge
                    | F::RobotsBom
                    | F::RobotsCr
            );
            RobotsKind::is_robots_fault(fault) && !heard
        });
        let secs = host.crawl_delay.filter(|_| !silent)?;
        Some(Duration::from_secs(u64::from(secs)))
    }
}

impl World {
    /// By construction: the shape of a page's path decides, and of other paths only the targets
    /// of some redirects are named by a rule.
    fn allows(&self, host: &Host, target: &str, product: &str) -> bool {
        let shape = match self.target(host, target) {
            Target::Page(page) => self.shape(host, page),
            _ if target.starts_with("/private/") => Shape::Private,
            _ => Shape::Plain,
        };
        host.robots.allows(shape, product)
    }

    fn course_of(&self, host: &Host, place: &Place) -> Course {
        match self.target(host, &place.target) {
            Target::Page(page) => self.page_course(host, page, place),
            Target::Month { .. } | Target::Deep { .. } => Course::Trap,
            // No fault and no counting there: the first answer is the last.
            _ => self.first_answer(place),
        }
    }

    fn page_course(&self, host: &Host, page: u64, place: &Place) -> Course {
        use FaultKind as F;
        let Some(fault) = self.page_fault(host, page) else {
            return full(self.known_links(host, page, Some(true)));
        };
        let links = |certain| self.known_links(host, page, certain);
        match fault {
            F::Error => Course::Fails("500"),
            F::Mute => Course::Fails("first byte"),
            F::Reset => Course::Fails("reset"),
            F::NotHttp => Course::Fails("not HTTP"),
            F::Drip | F::Cut | F::Torn => truncated(links(Some(false))),
            // The wire is whole; what can be decoded is not.
            F::BrokenGzip => full(links(Some(false))),
            F::Huge | F::Endless => truncated(Vec::new()),
            F::Copy => full(self.known_links(host, parent(page), Some(true))),
            F::Nofollow | F::NofollowHeader | F::RelNofollow => full(links(None)),
            F::Calendar | F::DeepPath => {
                let mut links = links(Some(true));
                let trap = if fault == F::Calendar { "/calendar/2001/1" } else { "/deep/" };
                links.extend(place.join(trap).map(certain_link));
                full(links)
            }
            F::ErrorThenFine
            | F::Busy
            | F::Unavailable
            | F::UnavailableUntil
            | F::Slow
            | F::WrongCharset
            | F::Noindex => full(links(Some(true))),
            _ => self.first_answer(place),
        }
    }

    /// `certain`: whether they are all seen; none if they are all nofollow.
    fn known_links(&self, host: &Host, page: u64, certain: Option<bool>) -> Vec<KnownLink> {
        let mut links = Vec::new();
        self.links(host, page, &mut links);
        let to = |link: &Link| -> Place {
            let target_host = self.host(link.host);
            Place {
                tls: target_host.tls,
                host: self.host_name(link.host),
                port: target_host.port,
                target: self.path(&target_host, link.page),
            }
        };
        links
            .iter()
            .map(|link| KnownLink {
                to: to(link),
                nofollow: certain.is_none(),
                certain: certain.unwrap_or(true),
            })
            .collect()
    }

    /// For answers that are the same each time and have no links: redirects, refusals, binaries.
    fn first_answer(&self, place: &Place) -> Course {
        from_plan(place, &ask(self, place, 0))
    }
}

fn answers(status: u16) -> Course {
    Course::Answers { status, truncated: false, links: Vec::new(), redirect: None }
}

fn full(links: Vec<KnownLink>) -> Course {
    Course::Answers { status: 200, truncated: false, links, redirect: None }
}

fn truncated(links: Vec<KnownLink>) -> Course {
    Course::Answers { status: 200, truncated: true, links, redirect: None }
}

fn certain_link(to: Place) -> KnownLink {
    KnownLink { to, nofollow: false, certain: true }
}
