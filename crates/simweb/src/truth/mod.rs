//! What does a web know of itself?
//!
//! The answer sheet: which links a page has, what its host forbids, what a request comes to in
//! the end. A [`crate::World`] knows it by construction, a
//! [`crate::Fixture`] by a plain reading of its text.
//! None of it goes through the crawler's own parsers: two readers that share a mistake would
//! agree on it.

mod fixture;
mod world;

use std::fmt;
use std::time::Duration;

use crate::answer::{HUGE_BYTES, LINKS_CERTAIN_BYTES};
use crate::plain;
use crate::web::{Ask, Body, Dns, Door, Fate, Framing, Plan, Web};

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

/// Attempts before a crawler gives up on a URL (`fetch.attempts_max`).
const ATTEMPTS: u32 = 3;
/// What a crawler waits for the first byte (`network.timeout_first_byte`).
const PATIENCE: Duration = Duration::from_secs(20);

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
