//! What does a host of the world allow, and how does its robots.txt say it?
//!
//! What is forbidden is known by construction: a page's path has a [`Shape`], and each kind of
//! robots.txt forbids certain shapes. The text is written to mean exactly that, with the traps
//! that crawlers fall into; a test holds text and table together through a second, plain reader
//! of robots.txt (`truth`).

use crate::chance::{mix, scale};
use crate::faults::FaultKind;
use crate::path::Shape;
use crate::web::{Ask, Fate, Plan};
use crate::world::{About, Host, World, ascii};

/// Rules after this many bytes do not count (RFC 9309, 2.5: at least 500 KiB are read).
const READ_BYTES: usize = 500 * 1024;
const LARGE_BYTES: usize = 600 * 1024;
/// More redirects than this and the file counts as absent.
pub(crate) const HOPS_MAX: u64 = 5;

/// What a robots.txt forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RobotsKind {
    /// There is none.
    Absent,
    /// A file that forbids nothing.
    Open,
    /// `/private/` is forbidden.
    Simple,
    /// `/private/` but not `/private/open/`; `/tmp/*.bak` but not with a query.
    Traps,
    /// Others may not enter at all; `lycosa` may, but not to `/tmp/`.
    Invited,
    /// `lycosa` may enter neither `/private/` nor `/tmp/`, said in two groups; others may.
    Watched,
    /// `lycosa` may not enter at all; others may.
    Shut,
}

impl RobotsKind {
    pub(crate) fn pick(hash: u64, has_rules: bool, can_be_shut: bool) -> Self {
        use RobotsKind::{Absent, Invited, Open, Shut, Simple, Traps, Watched};
        let kinds: &[Self] = match (has_rules, can_be_shut) {
            (false, _) => &[Absent, Open],
            (true, false) => &[Simple, Traps, Invited, Watched],
            (true, true) => &[Simple, Traps, Invited, Watched, Shut],
        };
        kinds[scale(hash, kinds.len() as u64) as usize]
    }

    pub(crate) fn is_robots_fault(fault: FaultKind) -> bool {
        fault.name().starts_with("robots-")
    }

    /// Whether a page of this shape may be fetched by this product.
    pub(crate) fn allows(self, shape: Shape, product: &str) -> bool {
        use Shape::{Bak, BakQuery, Private, PrivateOpen};
        let ours = product.eq_ignore_ascii_case("lycosa");
        match self {
            Self::Absent | Self::Open => true,
            Self::Simple => !matches!(shape, Private | PrivateOpen),
            Self::Traps => !matches!(shape, Private | Bak),
            Self::Invited => ours && !matches!(shape, Bak | BakQuery),
            Self::Watched => !ours || !matches!(shape, Private | PrivateOpen | Bak | BakQuery),
            Self::Shut => !ours,
        }
    }

    /// The text, with one `User-agent` group that carries the delay.
    fn text(self, delay: Option<u32>) -> String {
        let delay = delay.map(|secs| format!("Crawl-delay: {secs}\n")).unwrap_or_default();
        match self {
            Self::Absent | Self::Open => format!("User-agent: *\nDisallow:\n{delay}"),
            Self::Simple => format!("User-agent: *\nDisallow: /private/\n{delay}"),
            Self::Traps => format!(
                "# The longest rule decides, not the first.\n\
                 user-agent : *\n\
                 Disallow: /private/ # not for robots\n\
                 {delay}\
                 Allow: /private/open/\n\
                 Disallow: /tmp/*.bak$\n\
                 Disallow: /nowhere/*/else\n"
            ),
            Self::Invited => format!(
                "User-agent: *\nDisallow: /\n\n\
                 User-agent: LYCOSA\nUser-agent: otherbot\nDisallow: /tmp/\n{delay}"
            ),
            Self::Watched => format!(
                "User-agent: lycosa\nDisallow: /private/\n{delay}\n\
                 User-agent: *\nDisallow:\n{delay}\n\
                 User-agent: lycosa\nDisallow: /tmp/\n"
            ),
            Self::Shut => format!(
                "User-agent: *\nAllow: /\n{delay}\nUser-agent: lycosa/0.1\nDisallow: /\n{delay}"
            ),
        }
    }
}

impl World {
    /// The answer for `/robots.txt`, or for `/robots-{hop}.txt` on the way to it.
    pub(crate) fn robots_plan(&self, host: &Host, hop: u64, ask: &Ask<'_>) -> Plan {
        use FaultKind::{
            RobotsBom, RobotsBusy, RobotsCr, RobotsDenied, RobotsElsewhere, RobotsError,
            RobotsErrorThenFine, RobotsFar, RobotsHtml, RobotsLarge, RobotsLoop, RobotsMoved,
            RobotsMute, RobotsReset,
        };
        let file = |text: String| Plan::new(200, "text/plain; charset=utf-8", text);
        let text = || self.robots_text(host);
        let hash = self.hash(About::Detail, host.index, u64::MAX);
        match host.fault {
            Some(RobotsDenied) => Plan::brief(403),
            Some(RobotsError) => Plan::brief(500),
            Some(RobotsErrorThenFine) if u64::from(ask.nth) <= hash % 2 => {
                Plan::brief(503).with("retry-after", "1")
            }
            Some(RobotsBusy) => Plan::brief(429).with("retry-after", "2"),
            Some(RobotsMute) => Plan { fate: Fate::Mute, ..Plan::brief(200) },
            Some(RobotsReset) => Plan { fate: Fate::Reset(None), ..Plan::brief(200) },
            Some(RobotsMoved | RobotsFar) if hop < self.robots_hops(host) => {
                Plan::redirect([301, 302, 307, 308][(hash % 4) as usize], robots_path(hop + 1))
            }
            Some(RobotsLoop) => Plan::redirect(302, robots_path((hop + 1) % 3)),
            Some(RobotsElsewhere) => {
                // The first host is always there; its rules then hold for this one.
                let mut location = ascii(|out| self.push_origin(&self.host(0), out));
                location.push_str("/robots-shared.txt");
                Plan::redirect(301, location)
            }
            Some(RobotsHtml) => {
                let mut plan = Plan::brief(404);
                plan.status = 200;
                plan
            }
            Some(RobotsLarge) => file(large(&text())),
            Some(RobotsBom) => file(format!("\u{feff}{}", text())),
            Some(RobotsCr) => file(text().replace('\n', "\r")),
            _ if host.robots == RobotsKind::Absent
                && host.crawl_delay.is_none()
                && !host.sitemap =>
            {
                Plan::brief(404)
            }
            _ => file(text()),
        }
    }

    fn robots_text(&self, host: &Host) -> String {
        let mut text = host.robots.text(host.crawl_delay);
        if host.sitemap {
            let origin = ascii(|out| self.push_origin(host, out));
            text.push_str(&format!("\nSitemap: {origin}/sitemap.xml\n"));
        }
        text
    }

    /// The file that `robots-elsewhere` hosts point to.
    pub(crate) fn shared_robots_plan() -> Plan {
        Plan::new(200, "text/plain", RobotsKind::Simple.text(None))
    }

    pub(crate) fn robots_hops(&self, host: &Host) -> u64 {
        let hash = mix(self.hash(About::Detail, host.index, u64::MAX), 2);
        match host.fault {
            Some(FaultKind::RobotsMoved) => 1 + hash % HOPS_MAX,
            Some(FaultKind::RobotsFar) => HOPS_MAX + 1 + hash % 3,
            _ => 0,
        }
    }

    pub(crate) fn sitemap_plan(&self, host: &Host) -> Plan {
        if !host.sitemap {
            return Plan::brief(404);
        }
        /// The standard allows 50,000.
        const SITEMAP_URLS_MAX: u64 = 1_000;
        let mut xml = b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
            <urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n"
            .to_vec();
        for page in 0..host.pages.min(SITEMAP_URLS_MAX) {
            xml.extend_from_slice(b"<url><loc>");
            self.push_origin(host, &mut xml);
            self.push_path(host, page, &mut xml);
            xml.extend_from_slice(b"</loc></url>\n");
        }
        xml.extend_from_slice(b"</urlset>\n");
        Plan::new(200, "application/xml", xml)
    }
}

pub(crate) fn robots_path(hop: u64) -> String {
    match hop {
        0 => "/robots.txt".to_owned(),
        _ => format!("/robots-{hop}.txt"),
    }
}

/// Padded so that `Disallow: /` comes after the bytes that count.
fn large(text: &str) -> String {
    let mut large = text.to_owned();
    large.push_str("\nUser-agent: *\n");
    while large.len() < READ_BYTES + 1_024 {
        large.push_str("# This line is here to make the file too long to be read to its end.\n");
    }
    large.push_str("Disallow: /\n");
    while large.len() < LARGE_BYTES {
        large.push_str("# And more of the same.\n");
    }
    large
}
