//! What would a whole web answer, if it were computed instead of stored?
//!
//! Hosts and pages are numbers; names, addresses, sizes, links, faults and texts are hashes of
//! those numbers and the seed. Any page can be asked for at any time, and costs a few
//! microseconds. Hosts form a tree (a home page links to four more hosts) and so do the pages of
//! a host (a page links to eight more), so everything can be reached from the first home page;
//! on top come links by popularity, across hosts and within.
//!
//! Always: a name and a path that the world has written lead back to the numbers they came from;
//! any other name does not exist and any other path is a 404.
//!
//! Not here: what a page says and links to (`page`), what robots.txt says (`robots_txt`).

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::chance::{even, mix, scale, unit};
use crate::faults::{FaultKind, Place};
use crate::robots_txt::RobotsKind;
use crate::spec::{PAGES_MAX, SUBDOMAINS, WorldSpec};
use crate::text;
use crate::web::{Ask, Dns, Door, Plan, Web};

/// Pages that hang from one page, and hosts that hang from one home page.
pub(crate) const PAGE_BRANCHES: u64 = 8;
pub(crate) const HOST_BRANCHES: u64 = 4;

/// The address of hosts that must never be connected.
pub const PRIVATE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// A web computed from a seed.
#[derive(Debug, Clone)]
pub struct World {
    pub(crate) spec: WorldSpec,
    /// Pages of the largest host; the nth has this many divided by n.
    largest: f64,
    addresses: u64,
    host_faults: Vec<(f64, FaultKind)>,
    page_faults: Vec<(f64, FaultKind)>,
}

/// What is fixed about one host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Host {
    pub(crate) index: u64,
    pub(crate) fault: Option<FaultKind>,
    pub(crate) tls: bool,
    pub(crate) port: u16,
    pub(crate) pages: u64,
    pub(crate) robots: RobotsKind,
    pub(crate) crawl_delay: Option<u32>,
    pub(crate) sitemap: bool,
}

/// What a decision is about, so that two decisions of one host or page are independent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum About {
    HostFault = 1,
    Tls,
    Robots,
    CrawlDelay,
    Sitemap,
    Domain,
    Alias,
    PageFault,
    Shape,
    Slug,
    Size,
    Links,
    Text,
    Change,
    Validators,
    Detail,
}

impl World {
    pub fn new(spec: WorldSpec) -> Self {
        let spec = spec.bounded();
        Self {
            largest: largest_host(spec.hosts, spec.pages),
            addresses: spec.hosts.div_ceil(spec.hosts_per_address),
            host_faults: spec.faults.ladder(Place::Host),
            page_faults: spec.faults.ladder(Place::Page),
            spec,
        }
    }

    pub fn spec(&self) -> &WorldSpec {
        &self.spec
    }

    /// Home pages of the `n` largest hosts. From the first alone everything can be reached; those
    /// in the first quarter of the hosts are well.
    pub fn seeds(&self, n: usize) -> Vec<String> {
        let home = |index| self.url(&self.host(index), 0);
        (0..self.spec.hosts).take(n).map(home).collect()
    }

    /// The fault of the page behind a URL (or of its host, when the host has one).
    pub fn fault_at(&self, host: &str, target: &str) -> Option<FaultKind> {
        let host = self.find_host(host)?;
        if host.fault.is_some() {
            return host.fault;
        }
        self.page_fault(&host, self.find_page(&host, target)?)
    }

    pub(crate) fn hash(&self, about: About, host: u64, page: u64) -> u64 {
        mix(mix(mix(self.spec.seed, about as u64), host), page)
    }

    // ── hosts ──

    pub(crate) fn host(&self, index: u64) -> Host {
        let fault = self.host_fault(index);
        let draw = |about, share| unit(self.hash(about, index, 0)) < share;
        let tls = match fault {
            Some(FaultKind::BadCertificate) => true,
            // A refused connection is refused before anyone speaks TLS.
            Some(FaultKind::Refused) => false,
            _ => draw(About::Tls, self.spec.https),
        };
        let port = match (fault, tls) {
            (Some(FaultKind::Refused), _) => self.spec.closed_port,
            (_, true) => self.spec.https_port,
            (_, false) => self.spec.http_port,
        };
        Host {
            index,
            fault,
            tls,
            port,
            pages: self.pages_of(index),
            robots: self.robots_of(index, fault),
            crawl_delay: draw(About::CrawlDelay, self.spec.crawl_delay)
                .then_some(self.spec.crawl_delay_secs),
            sitemap: draw(About::Sitemap, self.spec.sitemaps),
        }
    }

    /// Only hosts from which no others hang can be ill.
    fn host_fault(&self, index: u64) -> Option<FaultKind> {
        if index == 0 || index * HOST_BRANCHES + 1 < self.spec.hosts {
            return None;
        }
        draw(&self.host_faults, even(self.hash(About::HostFault, 0, 0), index))
    }

    pub(crate) fn pages_of(&self, index: u64) -> u64 {
        if self.spec.endless {
            return PAGES_MAX;
        }
        ((self.largest / (index + 1) as f64) as u64).max(1)
    }

    fn robots_of(&self, index: u64, fault: Option<FaultKind>) -> RobotsKind {
        let hash = self.hash(About::Robots, index, 0);
        let has_rules = unit(hash) < self.spec.robots_rules;
        let can_be_shut = index * HOST_BRANCHES + 1 >= self.spec.hosts && index > 0;
        match fault {
            Some(fault) if RobotsKind::is_robots_fault(fault) => RobotsKind::Simple,
            _ => RobotsKind::pick(mix(hash, 1), has_rules, can_be_shut),
        }
    }

    pub(crate) fn push_host_name(&self, index: u64, out: &mut Vec<u8>) {
        let domain = index / self.spec.hosts_per_domain;
        let sub = (index % self.spec.hosts_per_domain) as usize;
        out.extend_from_slice(SUBDOMAINS[sub].as_bytes());
        out.push(b'.');
        out.extend_from_slice(self.domain_word(domain).as_bytes());
        text::push_decimal(out, domain);
        out.extend_from_slice(b".test");
    }

    pub fn host_name(&self, index: u64) -> String {
        ascii(|out| self.push_host_name(index, out))
    }

    fn domain_word(&self, domain: u64) -> &'static str {
        text::name(self.spec.seed ^ About::Domain as u64, domain)
    }

    pub(crate) fn find_host(&self, name: &str) -> Option<Host> {
        self.host_index(name).map(|index| self.host(index))
    }

    fn host_index(&self, name: &str) -> Option<u64> {
        let (sub, domain) = name.strip_suffix(".test")?.split_once('.')?;
        let sub = SUBDOMAINS.iter().position(|known| *known == sub)? as u64;
        let digits = domain.trim_start_matches(|c: char| c.is_ascii_lowercase());
        let number: u64 = digits.parse().ok()?;
        let word = &domain[..domain.len() - digits.len()];
        let index = number.checked_mul(self.spec.hosts_per_domain)?.checked_add(sub)?;
        let known = sub < self.spec.hosts_per_domain
            && index < self.spec.hosts
            && word == self.domain_word(number)
            && (digits == "0" || !digits.starts_with('0'));
        known.then_some(index)
    }

    /// Hosts of different domains share an address.
    fn address_of(&self, index: u64) -> Ipv4Addr {
        let first = u32::from(Ipv4Addr::new(127, 1, 0, 1));
        Ipv4Addr::from(first + (index % self.addresses) as u32)
    }

    // ── URLs ──

    pub(crate) fn push_origin(&self, host: &Host, out: &mut Vec<u8>) {
        out.extend_from_slice(if host.tls { b"https://" } else { b"http://" });
        self.push_host_name(host.index, out);
        if host.port != if host.tls { 443 } else { 80 } {
            out.push(b':');
            text::push_decimal(out, u64::from(host.port));
        }
    }

    pub(crate) fn url(&self, host: &Host, page: u64) -> String {
        ascii(|out| {
            self.push_origin(host, out);
            self.push_path(host, page, out);
        })
    }

    /// Fault of a page; only pages from which no others hang can be ill.
    pub(crate) fn page_fault(&self, host: &Host, page: u64) -> Option<FaultKind> {
        if !self.is_leaf(host, page) {
            return None;
        }
        draw(&self.page_faults, even(self.hash(About::PageFault, host.index, 0), page))
    }

    /// In an endless world every page has others below it; there the first few stay healthy.
    pub(crate) fn is_leaf(&self, host: &Host, page: u64) -> bool {
        if self.spec.endless {
            return page > PAGE_BRANCHES;
        }
        page > 0 && page * PAGE_BRANCHES + 1 >= host.pages
    }
}

impl Web for World {
    fn resolve(&self, host: &str) -> Dns {
        // Aliases resolve too, for a resolver that asks for them.
        let edge = host.strip_prefix("edge-").and_then(|rest| rest.strip_suffix(".cdn.test"));
        let edge = edge.and_then(|digits| digits.parse().ok()).filter(|&n| n < self.spec.hosts);
        let Some(index) = edge.or_else(|| self.host_index(host)) else { return Dns::NoSuchName };
        let address = match self.host_fault(index) {
            Some(FaultKind::NoSuchName) => return Dns::NoSuchName,
            Some(FaultKind::DnsFailure) => return Dns::ServerFailure,
            Some(FaultKind::PrivateAddress) => PRIVATE_ADDRESS,
            _ => self.address_of(index),
        };
        let hash = self.hash(About::Alias, index, 0);
        Dns::Addresses {
            addresses: vec![IpAddr::V4(address)],
            ttl: Duration::from_secs(60 + scale(hash, 3_600)),
            alias: (hash.is_multiple_of(10) && edge.is_none())
                .then(|| format!("edge-{index}.cdn.test")),
            large: hash % 16 == 1,
        }
    }

    fn door(&self, host: &str, _port: u16, _tls: bool) -> Door {
        match self.host_index(host).and_then(|index| self.host_fault(index)) {
            Some(FaultKind::Refused) => Door::Refused,
            Some(FaultKind::BadCertificate) => Door::BadCertificate,
            _ => Door::Open,
        }
    }

    fn answer(&self, ask: &Ask<'_>) -> Plan {
        match self.find_host(ask.host) {
            Some(host) if host.tls == ask.tls => self.answer_for(&host, ask),
            _ => Plan::brief(404),
        }
    }
}

/// The first rung of a ladder above the draw.
fn draw(ladder: &[(f64, FaultKind)], draw: f64) -> Option<FaultKind> {
    ladder.iter().find(|(top, _)| draw < *top).map(|(_, kind)| *kind)
}

/// Such that the shares of all hosts, by Zipf's law but at least a page each, make up `pages`.
fn largest_host(hosts: u64, pages: u64) -> f64 {
    let total = |largest: f64| -> f64 {
        // Beyond this rank every host has one page.
        let rich = (largest as u64).min(hosts);
        (1..=rich).map(|rank| (largest / rank as f64).floor()).sum::<f64>() + (hosts - rich) as f64
    };
    let (mut low, mut high) = (1.0, pages as f64 + 1.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if total(middle) > pages as f64 { high = middle } else { low = middle }
    }
    low
}

/// A text that is ASCII by construction.
pub(crate) fn ascii(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::with_capacity(64);
    write(&mut out);
    String::from_utf8(out).expect("names, paths and numbers of a world are ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_hosts_and_others_do_not_exist() {
        let world = World::new(WorldSpec { hosts: 1_000, ..WorldSpec::default() });
        for index in 0..1_000 {
            let name = world.host_name(index);
            assert_eq!(world.host_index(&name), Some(index), "{name}");
        }
        let name = world.host_name(999);
        for other in [format!("x{name}"), name.replace("333", "0333"), name.replace("333", "334")] {
            assert_eq!(world.resolve(&other), Dns::NoSuchName, "{other}");
        }
        assert_eq!(World::new(WorldSpec::default()).host_index(&name), None);
    }

    #[test]
    fn the_pages_add_up_and_most_belong_to_few_hosts() {
        for (hosts, pages) in [(1, 1), (1, 500), (100, 10_000), (3_000, 100_000)] {
            let world = World::new(WorldSpec { hosts, pages, ..WorldSpec::default() });
            let counts: Vec<_> = (0..hosts).map(|index| world.pages_of(index)).collect();
            let total: u64 = counts.iter().sum();
            assert!(total <= pages && total * 100 >= pages * 98, "{total} of {pages}");
            if hosts >= 100 {
                let tenth: u64 = counts[..hosts as usize / 10].iter().sum();
                assert!(tenth * 2 > total, "a tenth of the hosts has half the pages");
            }
        }
    }

    #[test]
    fn addresses_are_loopback_and_shared_across_domains() {
        let spec = WorldSpec { hosts: 90, hosts_per_address: 3, ..WorldSpec::default() };
        let world = World::new(spec);
        let of = |index: u64| world.resolve(&world.host_name(index));
        let (Dns::Addresses { addresses: a, .. }, Dns::Addresses { addresses: b, .. }) =
            (of(5), of(35))
        else {
            panic!("healthy hosts resolve")
        };
        assert_eq!(a, b);
        assert!(a[0].is_loopback());
        assert_ne!(types::HostKey::new(&world.host_name(5)).site().as_str(), {
            let other = world.host_name(35);
            other.split_once('.').unwrap().1.to_owned()
        });
    }
}
