//! A world with every fault we know, crawled by the real binary over real sockets, with 1, 2 and
//! 16 shards. The size for every day is here; `cargo xtask world` runs the one of a release.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use simweb::{Expectation, FaultKind, Faults, Rules, WorldSpec};

use crate::common::{Ran, Site};
use crate::judge::{self, Archive, Manners};

const MANNERS: Manners =
    Manners { delay: Duration::from_millis(40), ip_delay: Duration::from_millis(20) };

/// A number from the environment, for the long size.
pub fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Traps are as deep as the crawl goes; nothing else is so deep.
fn spec() -> WorldSpec {
    WorldSpec {
        seed: 20_261_115,
        hosts: number("LYCOSA_WORLD_HOSTS", 150),
        pages: number("LYCOSA_WORLD_PAGES", 4_000),
        hosts_per_address: 2,
        crawl_delay: 0.04,
        crawl_delay_secs: 1,
        ..WorldSpec::default()
    }
    .with_faults(faults())
}

/// Every kind. Pages that fail for ever are rarer than usual: each costs its host a longer pause
/// than the last, which is right, and would make this test an hour long.
fn faults() -> Faults {
    use FaultKind::{Drip, Error, Mute, NotHttp, Reset};
    let hopeless = [Drip, Error, Mute, NotHttp, Reset];
    hopeless.into_iter().fold(Faults::all(), |faults, kind| faults.with(kind, 0.001))
}

/// One crawl, judged; gives what was kept, by URL without its port.
fn crawl(shards: u16) -> BTreeSet<(String, Vec<u16>)> {
    let spec = spec();
    let site = Site::world(&spec);
    let begun = Instant::now();
    let mut command = crate::common::lycosa(site.path());
    command.args(["crawl", "-o", "crawl", "--scope", "any", "--depth", "40", "--quiet"]);
    command.args(MANNERS.words()).args(site.flags()).args(&site.ready.seed_urls);
    // Long enough for the robots.txt that answers at its third attempt, after 30 s and 60 s.
    command.args(["-s", "crawl.patience=70s", "-s", "fetch.retry_delay=1s"]);
    command.args(["-s", "network.timeout_first_byte=10s", "-s", "network.timeout_idle=5s"]);
    command.args(["-s", "network.timeout_total=15s", "-s", "network.timeout_connect=5s"]);
    command.args(["-s", &format!("store.shards={shards}")]);
    Ran::from(command.output().expect("it starts")).exits(0);
    let took = begun.elapsed();

    let entries = site.journal();
    let world = site.truth(&spec);
    let oracle = world.oracle(&site.ready.seed_urls, &Rules::default());
    judge::polite(&entries, &world, MANNERS);
    judge::complete(&entries, &world, &oracle);
    simweb::checks::assert_none(&simweb::checks::duplicates(&entries, &world));
    let archive = Archive::read(&site.dir());
    archive.holds(&oracle, &world);
    let reasons = judge::reasons(&site, &oracle, &archive);
    println!(
        "{shards} shards: {} requests in {:.0} s, {} files with {} records; expected {:?}; not \
         fetched: {reasons:?}",
        entries.len(),
        took.as_secs_f64(),
        archive.files,
        archive.records,
        oracle.counts()
    );
    assert!(oracle.archived().count() as u64 * 10 >= spec.pages * 7, "most of the world is there");

    let settled =
        |url: &str| !matches!(oracle.get(url), None | Some(Expectation::Maybe | Expectation::Trap));
    let ports =
        [site.ready.http, site.ready.https, site.ready.closed].map(|port| format!(":{port}"));
    let bare = |url: &str| ports.iter().fold(url.to_owned(), |url, port| url.replace(port, ""));
    let kept = archive.answers.into_iter().filter(|(url, _)| settled(url));
    kept.map(|(url, statuses)| (bare(&url), statuses)).collect()
}

#[test]
fn a_world_of_faults_is_kept_whole_with_1_2_and_16_shards() {
    let kept: Vec<_> = std::thread::scope(|scope| {
        let crawls = [1, 2, 16].map(|shards| scope.spawn(move || crawl(shards)));
        crawls.into_iter().map(|crawl| crawl.join().expect("it is judged")).collect()
    });
    assert_eq!(kept[0], kept[1], "1 and 2 shards keep the same");
    assert_eq!(kept[0], kept[2], "1 and 16 shards keep the same");
}
