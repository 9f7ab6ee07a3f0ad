//! A crawl that is told to stop while very much is under way: what is kept, and in what portions?

#![expect(clippy::unwrap_used, reason = "parts of tests")]

mod common;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use common::{Machine, in_virtual_time};
use lycosa_engine::Ending;
use ports::ShardStore as _;
use ports::shard_store::ScanCursor;
use simweb::{Ask, Dns, Door, Plan, Web};
use types::State;

const HOSTS: u8 = 12;
const LINKS: usize = 1_500;

/// Every home page takes ten seconds, and links to a thousand and more.
struct Heavy;

impl Web for Heavy {
    fn resolve(&self, host: &str) -> Dns {
        let n: u8 = host.trim_start_matches('h').trim_end_matches(".test").parse().unwrap();
        let addresses = vec![IpAddr::V4(Ipv4Addr::new(127, 1, 1, n + 1))];
        Dns::Addresses { addresses, ttl: Duration::from_secs(600), alias: None, large: false }
    }

    fn door(&self, _: &str, _: u16, _: bool) -> Door {
        Door::Open
    }

    fn answer(&self, ask: &Ask<'_>) -> Plan {
        if ask.target == "/robots.txt" {
            return Plan::new(404, "text/plain", "");
        }
        let links: String = (0..LINKS).map(|n| format!("<a href=/{n}>n</a>")).collect();
        let mut plan = Plan::new(200, "text/html", links);
        plan.delay = Duration::from_secs(10);
        plan
    }
}

#[test]
fn at_the_end_pages_with_very_many_links_are_kept_one_by_one_and_all_of_them() {
    let (groups, records) = in_virtual_time(async {
        let mut machine = Machine::new(1, Arc::new(Heavy));
        // Over while the home pages are on their way, all of them.
        machine.max_time = Some(Duration::from_secs(8));
        let seeds: Vec<String> = (0..HOSTS).map(|n| format!("http://h{n}.test/")).collect();
        let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
        assert_eq!(machine.run(&seeds).await.unwrap(), Ending::TimeLimit);
        let groups = machine.groups.0.lock().unwrap().clone();
        let mut store = machine.shard(0).unwrap();
        let (mut cursor, mut records) = (ScanCursor::default(), Vec::new());
        loop {
            let more = store.records(&mut cursor, 1_000).unwrap();
            if more.is_empty() {
                break;
            }
            records.extend(more);
        }
        (groups, records)
    });
    let hosts = usize::from(HOSTS);
    let pages = &groups[groups.len() - hosts..];
    assert!(pages.iter().all(|visits| *visits == 1), "commits of {groups:?} visits");
    assert_eq!(records.len(), hosts * (1 + LINKS));
    let read = records.iter().filter(|record| record.state == State::Parsed).count();
    assert_eq!(read, hosts);
}
