//! What does a web know of itself?
//!
//! The answer sheet: which links a page has, what its host forbids, what a request comes to in
//! the end. A [`World`] knows it by construction, a [`Fixture`] by a plain reading of its text.
//! None of it goes through the crawler's own parsers: two readers that share a mistake would
//! agree on it.

use std::fmt;
use std::time::Duration;

use crate::answer::{HUGE_BYTES, LINKS_CERTAIN_BYTES};
use crate::faults::FaultKind;
use crate::fixture::Fixture;
use crate::page::{Link, parent};
use crate::path::Target;
use crate::plain;
use crate::robots_txt::{HOPS_MAX, RobotsKind};
use crate::web::{Ask, Body, Dns, Door, Fate, Framing, Plan, Web};
use crate::world::{Host, World};

/// A web that can be asked for the truth.
pub trait Truth: Web {
    /// Whether the host can be talked to at all.
    fn home(&self, place: &Place) -> Home;

    /// What the robots.txt of the place's origin says of it, in the end.
    fn robots(&self, place: &Place, product: &str) -> Access;

    /// What asking for it comes to, with three attempts.
    fn course(&self, place: &Place) -> Course;

    /// Requested on the way to a robots.txt, to which no rules apply.
    fn is_robots_hop(&self, place: &Place) -> bool;

    /// The Crawl-delay that holds for this product, if its robots.txt names one.
    fn crawl_delay(&self, place: &Place, product: &str) -> Option<Duration>;
}

/// A URL in its parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub tls: bool,
    pub host: String,
    pub port: u16,
    /// Path and query.
    pub target: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    Lives,
    /// Cannot be reached: the word says why.
    Away(&'static str),
    /// Lives where nobody may go.
    OffLimits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Allowed,
    Forbidden,
    /// Nobody can tell, so nothing may be fetched.
    Unreachable,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Course {
    Answers {
        status: u16,
        /// The body does not come to its end.
        truncated: bool,
        links: Vec<KnownLink>,
        redirect: Option<Place>,
    },
    /// No answer that counts, however often one asks.
    Fails(&'static str),
    /// One of endlessly many.
    Trap,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownLink {
    pub to: Place,
    pub nofollow: bool,
    /// Whether the link is seen may depend on how much of the body came.
    pub certain: bool,
}

impl Place {
    /// An absolute http(s) URL as worlds and fixtures write them.
    pub fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let rest = rest.split('#').next()?;
        let slash = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(slash);
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (authority, if tls { 443 } else { 80 }),
        };
        let target = match target.as_bytes().first() {
            None => "/".to_owned(),
            Some(b'?') => format!("/{target}"),
            _ => target.to_owned(),
        };
        (!host.is_empty()).then(|| Self { tls, host: host.to_ascii_lowercase(), port, target })
    }

    /// A link of a document here, without the finer points (`..` is not resolved).
    pub fn join(&self, href: &str) -> Option<Self> {
        let href = href.split('#').next()?;
        let scheme = if self.tls { "https" } else { "http" };
        if href.contains("://") {
            return Self::parse(href);
        }
        if let Some(rest) = href.strip_prefix("//") {
            return Self::parse(&format!("{scheme}://{rest}"));
        }
        if href.split('/').next()?.contains(':') {
            return None;
        }
        let path = self.target.split('?').next()?;
        let target = match href.as_bytes().first() {
            None => self.target.clone(),
            Some(b'/') => href.to_owned(),
            Some(b'?') => format!("{path}{href}"),
            _ => format!("{}{href}", &path[..=path.rfind('/')?]),
        };
        Some(Self { target, ..self.clone() })
    }

    /// The same origin's robots.txt.
    pub fn robots(&self) -> Self {
        Self { target: "/robots.txt".to_owned(), ..self.clone() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, usual) = if self.tls { ("https", 443) } else { ("http", 80) };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port != usual {
            write!(f, ":{}", self.port)?;
        }
        f.write_str(&self.target)
    }
}

fn home_of(web: &dyn Web, place: &Place) -> Home {
    match web.resolve(&place.host) {
        Dns::Addresses { addresses, .. } if addresses.iter().any(|a| a.is_loopback()) => {
            match web.door(&place.host, place.port, place.tls) {
                Door::Open => Home::Lives,
                Door::Refused => Home::Away("refused"),
                Door::Silent => Home::Away("silent"),
                Door::BadCertificate if place.tls => Home::Away("certificate"),
                Door::BadCertificate => Home::Lives,
            }
        }
        Dns::Addresses { .. } => Home::OffLimits,
        Dns::NoSuchName => Home::Away("no such name"),
        Dns::ServerFailure | Dns::Silence => Home::Away("name server"),
    }
}

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
    /// By construction: the shape of a page's path decides, and no rule names other paths.
    fn allows(&self, host: &Host, target: &str, product: &str) -> bool {
        let shape = match self.target(host, target) {
            Target::Page(page) => self.shape(host, page),
            _ => crate::path::Shape::Plain,
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

/// Attempts before a crawler gives up on a URL (`fetch.attempts_max`).
const ATTEMPTS: u32 = 3;
/// What a crawler waits for the first byte (`network.timeout_first_byte`).
const PATIENCE: Duration = Duration::from_secs(20);

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

fn ask(web: &dyn Web, place: &Place, nth: u32) -> Plan {
    web.answer(&Ask {
        host: &place.host,
        port: place.port,
        tls: place.tls,
        target: &place.target,
        headers: &[],
        nth,
        at: types::Timestamp::ZERO,
    })
}

/// Whether anything of the answer reaches a crawler of usual patience.
fn reaches(plan: &Plan) -> bool {
    plan.delay <= PATIENCE
        && plan.framing != Framing::Raw
        && !matches!(plan.fate, Fate::Mute | Fate::Cut(None) | Fate::Reset(None))
}

fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

fn from_plan(place: &Place, plan: &Plan) -> Course {
    if !reaches(plan) {
        return Course::Fails("no answer");
    }
    if matches!(plan.status, 408 | 429 | 500..) {
        return Course::Fails("status");
    }
    let location = plan.header("location").filter(|_| is_redirect(plan.status));
    let cut = plan.fate != Fate::Whole || plan.drip.is_some() || plan.body.len() >= HUGE_BYTES;
    let is_html = plan.header("content-type").is_some_and(|kind| kind.contains("html"));
    let coded = plan.header("content-encoding").is_some();
    let links = match &plan.body {
        Body::Bytes(body) if is_html && !coded && plan.status == 200 => {
            let all_nofollow =
                plan.header("x-robots-tag").is_some_and(|value| value.contains("nofollow"));
            let certain = !cut && body.len() <= LINKS_CERTAIN_BYTES;
            plain::links(&String::from_utf8_lossy(body))
                .into_iter()
                .filter_map(|(href, nofollow)| {
                    let to = place.join(&href)?;
                    Some(KnownLink { to, nofollow: nofollow || all_nofollow, certain })
                })
                .collect()
        }
        _ => Vec::new(),
    };
    Course::Answers {
        status: plan.status,
        truncated: cut,
        links,
        redirect: location.and_then(|location| place.join(location)),
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
