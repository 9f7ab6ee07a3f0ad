//! What does a world look like, in a few numbers?

use serde::{Deserialize, Serialize};

use crate::faults::Faults;

/// The recipe of a [`crate::World`]. Two worlds with equal recipes are equal to the byte.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorldSpec {
    pub seed: u64,
    pub hosts: u64,
    /// All pages together, spread over the hosts by Zipf's law; about, since every host has one.
    pub pages: u64,
    /// Every host has as many pages as anyone asks for; `pages` has no effect.
    pub endless: bool,
    /// Smallest and largest body of a page. The middle one is near 20 KB by default.
    pub page_bytes: (u32, u32),
    /// Bodies of about 1 KB with few links, for simulations of many exchanges.
    pub tiny_bodies: bool,
    /// Links on a page, on average.
    pub links: u32,
    /// Share of links that lead to another host.
    pub links_away: f64,
    /// Share of links that repeat an earlier one of the page.
    pub links_repeated: f64,
    pub http_port: u16,
    pub https_port: u16,
    /// Where hosts live that refuse connections: a port on which nobody listens.
    pub closed_port: u16,
    /// Share of hosts that speak TLS.
    pub https: f64,
    /// Hosts under one registrable domain.
    pub hosts_per_domain: u64,
    /// Hosts that share one address.
    pub hosts_per_address: u64,
    /// Share of hosts whose robots.txt forbids something.
    pub robots_rules: f64,
    /// Share of hosts whose robots.txt names a Crawl-delay, and how long it is in seconds.
    pub crawl_delay: f64,
    pub crawl_delay_secs: u32,
    /// Longest `Retry-After` of busy servers, in seconds.
    pub retry_after_secs: u64,
    /// Share of hosts with a sitemap, named in robots.txt.
    pub sitemaps: f64,
    /// Share of pages that come with validators.
    pub validators: f64,
    /// Share of pages whose text changes, and how often in seconds.
    pub changing: f64,
    pub change_secs: u64,
    pub faults: Faults,
}

impl Default for WorldSpec {
    fn default() -> Self {
        Self {
            seed: 1,
            hosts: 100,
            pages: 10_000,
            endless: false,
            page_bytes: (5_000, 60_000),
            tiny_bodies: false,
            links: 40,
            links_away: 0.15,
            links_repeated: 0.1,
            http_port: 80,
            https_port: 443,
            closed_port: 8_666,
            https: 0.3,
            hosts_per_domain: 3,
            hosts_per_address: 1,
            robots_rules: 0.5,
            crawl_delay: 0.0,
            crawl_delay_secs: 2,
            retry_after_secs: 3,
            sitemaps: 0.3,
            validators: 0.5,
            changing: 0.0,
            change_secs: 3_600,
            faults: Faults::none(),
        }
    }
}

impl WorldSpec {
    /// A world of small pages, for simulations.
    pub fn tiny(seed: u64, hosts: u64, pages: u64) -> Self {
        Self { seed, hosts, pages, tiny_bodies: true, links: 14, ..Self::default() }
    }

    pub fn with_faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    pub fn with_ports(mut self, http: u16, https: u16, closed: u16) -> Self {
        (self.http_port, self.https_port, self.closed_port) = (http, https, closed);
        self
    }

    /// The spec with every number inside what the world can compute.
    pub(crate) fn bounded(mut self) -> Self {
        // Names and addresses are counted from 127.1.0.1; sixteen million fit.
        self.hosts = self.hosts.clamp(1, HOSTS_MAX);
        self.hosts_per_domain = self.hosts_per_domain.clamp(1, SUBDOMAINS.len() as u64);
        self.hosts_per_address = self.hosts_per_address.max(1);
        self.pages = self.pages.clamp(self.hosts, PAGES_MAX);
        self.links = self.links.clamp(LINKS_MIN, LINKS_MAX);
        let (least, most) = self.page_bytes;
        self.page_bytes = (least.max(500), most.max(least.max(500)));
        if self.tiny_bodies {
            self.page_bytes = (700, 1_500);
        }
        self.change_secs = self.change_secs.max(1);
        self.retry_after_secs = self.retry_after_secs.max(1);
        self
    }
}

pub(crate) const HOSTS_MAX: u64 = 16_000_000;
pub(crate) const PAGES_MAX: u64 = 1 << 40;
/// Room for the tree of pages (8), of hosts (4) and the way home.
const LINKS_MIN: u32 = 13;
const LINKS_MAX: u32 = 5_000;

pub(crate) const SUBDOMAINS: [&str; 8] =
    ["www", "blog", "shop", "docs", "news", "forum", "wiki", "old"];
