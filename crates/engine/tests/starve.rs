//! Does a slow or a huge host take anything from the others?
//!
//! In virtual time, so the answer is exact: the same hosts, once all alike, once with tarpits among
//! them that let every request hang and with a host whose pages link to hundreds of others. Every
//! day a thousand hosts; `cargo xtask starve` has ten thousand, ten of them tarpits.

#![expect(clippy::unwrap_used, reason = "parts of tests")]

mod common;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use common::{Machine, in_virtual_time};
use simweb::{Ask, Dns, Door, Plan, Web};

const SECONDS: u64 = 20;
/// Links of a page of the huge host.
const HUGE_LINKS: u64 = 300;

struct Hosts {
    /// The first so many let every page hang, and the one after them is huge.
    tarpits: Option<u64>,
}

fn index(host: &str) -> u64 {
    host.trim_start_matches('h').trim_end_matches(".test").parse().unwrap()
}

impl Web for Hosts {
    fn resolve(&self, host: &str) -> Dns {
        let address = IpAddr::V4(Ipv4Addr::from_bits(0x7f01_0001 + index(host) as u32));
        let ttl = Duration::from_secs(3_600);
        Dns::Addresses { addresses: vec![address], ttl, alias: None, large: false }
    }

    fn door(&self, _: &str, _: u16, _: bool) -> Door {
        Door::Open
    }

    fn answer(&self, ask: &Ask<'_>) -> Plan {
        if ask.target == "/robots.txt" {
            return Plan::new(404, "text/plain", "");
        }
        let page: u64 = ask.target.trim_start_matches('/').parse().unwrap_or(0);
        let links = match self.tarpits {
            Some(huge) if index(ask.host) == huge => HUGE_LINKS,
            _ => 2,
        };
        let link = |n: u64| format!("<a href=/{}>n</a>", page * links + n);
        let mut plan = Plan::new(200, "text/html", (1..=links).map(link).collect::<String>());
        plan.delay = Duration::from_millis(50);
        if self.tarpits.is_some_and(|tarpits| index(ask.host) < tarpits) {
            plan.delay = Duration::from_secs(600);
        }
        plan
    }
}

/// Requests that the hosts from `first` on got, of so many hosts, and those of the one before them.
fn requests(hosts: u64, first: u64, tarpits: Option<u64>) -> (usize, usize) {
    in_virtual_time(async move {
        let mut machine = Machine::new(1, Arc::new(Hosts { tarpits }));
        machine.archive = false;
        machine.audited = false;
        machine.concurrency = 1_000;
        let seeds: Vec<String> = (0..hosts).map(|n| format!("http://h{n}.test/0")).collect();
        let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
        let run = tokio::time::timeout(Duration::from_secs(SECONDS), machine.run(&seeds));
        assert!(run.await.is_err(), "there is always more to do");
        let entries = machine.journal.entries();
        let from = |at: u64| entries.iter().filter(|e| index(e.host.as_ref()) >= at).count();
        (from(first), from(first - 1) - from(first))
    })
}

#[test]
fn tarpits_and_a_huge_host_take_nothing_from_the_others() {
    let hosts = std::env::var("LYCOSA_STARVE_HOSTS").map_or(1_000, |text| text.parse().unwrap());
    let tarpits = (hosts / 1_000).max(1);
    let (alike, _) = requests(hosts, tarpits + 1, None);
    let (among, huge) = requests(hosts, tarpits + 1, Some(tarpits));
    let part = among as f64 / alike as f64;
    println!(
        "{hosts} hosts, {tarpits} tarpits and a huge one: the others got {among} requests in {SECONDS} s, \
         {alike} without them: {:.1} %; the huge one got {huge}",
        part * 100.0
    );
    // All could go on all the time: about one request a second each.
    assert!(alike as u64 > hosts * SECONDS * 8 / 10, "{alike}");
    assert!(part >= 0.95, "{part}");
    assert!(huge as u64 >= SECONDS * 8 / 10, "nor do they take anything from it: {huge}");
}
