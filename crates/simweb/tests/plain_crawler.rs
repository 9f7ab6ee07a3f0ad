//! A crawler without ambition, through a world with every fault: it must get past all checks.
//!
//! It visits one URL at a time, reads robots.txt with the fixture's plain reader, finds links by
//! looking for `href="`, and tries three times. If the world's plans and its oracle disagreed, or
//! a check accused the innocent, it would show here.

#![expect(clippy::unwrap_used, reason = "a test that meets a surprise should fail")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lycosa_simweb::checks::{self, assert_none};
use lycosa_simweb::truth::Access;
use lycosa_simweb::{
    Faults, Fixture, Journal, Place, Rules, SimClock, SimFetcher, SimResolver, Truth, Web, World,
    WorldSpec,
};
use ports::{Clock, Ended, Exchange, Fetcher, Purpose, Request, Resolution, Resolver};
use types::{CrawlUrl, HostKey, Timestamp, Validators};

const PAUSE: Duration = Duration::from_secs(1);
const REDIRECTS_MAX: u32 = 5;

struct Crawler {
    fetcher: SimFetcher,
    resolver: SimResolver,
    clock: Arc<dyn Clock>,
    /// What a robots.txt says, as a fixture that holds nothing else.
    robots: BTreeMap<Place, Option<Fixture>>,
}

impl Crawler {
    /// Three attempts at most, with pauses and as the server wishes.
    async fn get(&self, place: &Place) -> Option<Exchange> {
        let mut last = None;
        for _ in 0..3 {
            let Resolution::Addresses { addresses, .. } =
                self.resolver.resolve(&HostKey::new(&place.host)).await
            else {
                return None;
            };
            let url = CrawlUrl::parse(&place.to_string()).unwrap();
            let purpose = if url.path() == "/robots.txt" { Purpose::Robots } else { Purpose::Page };
            let request =
                Request { url, address: addresses[0], purpose, validators: Validators::default() };
            let exchange = self.fetcher.fetch(request, &mut |_| {}).await;
            let status = exchange.response.as_ref().map_or(0, |response| response.status);
            let wait = exchange.response.as_ref().and_then(|response| {
                let text = response.header("retry-after")?;
                let until = Timestamp::from_http_date(text).map(|at| at.since(self.clock.now()));
                text.parse().ok().map(Duration::from_secs).or(until)
            });
            tokio::time::sleep(PAUSE.max(wait.unwrap_or_default())).await;
            let fine = exchange.end == Ended::Answered && !matches!(status, 408 | 429 | 500..);
            last = Some(exchange);
            if fine {
                break;
            }
        }
        last
    }

    async fn may_fetch(&mut self, place: &Place) -> bool {
        let robots = place.robots();
        if !self.robots.contains_key(&robots) {
            let rules = self.read_robots(&robots).await;
            self.robots.insert(robots.clone(), rules);
        }
        let rules = &self.robots[&robots];
        rules.as_ref().is_some_and(|rules| rules.robots(place, "lycosa") == Access::Allowed)
    }

    async fn read_robots(&self, robots: &Place) -> Option<Fixture> {
        let none = || Fixture::parse(&format!("--- {robots} 404")).unwrap();
        let mut at = robots.clone();
        for _ in 0..=REDIRECTS_MAX {
            let response = self.get(&at).await?.response?;
            match response.status {
                301..=308 => at = at.join(response.header("location")?)?,
                200..=299 => {
                    let text = String::from_utf8_lossy(&response.body).into_owned();
                    return Some(Fixture::parse(&format!("--- {robots}\n{text}")).unwrap());
                }
                429 | 500.. => return None,
                _ => return Some(none()),
            }
        }
        Some(none())
    }

    async fn crawl(&mut self, seeds: &[String]) {
        let mut known: BTreeSet<Place> = BTreeSet::new();
        let mut queue: VecDeque<(Place, u32)> = VecDeque::new();
        queue.extend(seeds.iter().map(|seed| (Place::parse(seed).unwrap(), 0)));
        while let Some((place, hops)) = queue.pop_front() {
            let is_trap = place.target.starts_with("/calendar/2001/4")
                || place.target.starts_with("/deep/more/more/");
            if hops > REDIRECTS_MAX || is_trap || !known.insert(place.clone()) {
                continue;
            }
            if !self.may_fetch(&place).await {
                continue;
            }
            let Some(response) = self.get(&place).await.and_then(|exchange| exchange.response)
            else {
                continue;
            };
            if let (301..=308, Some(location)) = (response.status, response.header("location")) {
                queue.push_front((place.join(location).unwrap(), hops + 1));
            }
            let is_html = response.header("content-type").is_some_and(|kind| kind.contains("html"));
            let is_open = response.header("x-robots-tag").is_none();
            if response.status == 200 && is_html && is_open {
                let text = String::from_utf8_lossy(&response.body);
                queue.extend(links(&place, &text).into_iter().map(|link| (link, 0)));
            }
        }
    }
}

fn links(place: &Place, html: &str) -> Vec<Place> {
    if html.contains("content=\"nofollow\"") {
        return Vec::new();
    }
    // Whatever is cut in the middle has no end.
    let hrefs = html.split("href=\"").skip(1).filter(|rest| rest.contains('>'));
    let tags = hrefs.filter_map(|rest| rest.split_once('>').map(|(tag, _)| tag));
    let open = tags.filter(|tag| !tag.contains("nofollow"));
    open.filter_map(|tag| place.join(tag.split('"').next()?)).collect()
}

async fn crawl(spec: WorldSpec) {
    let world = Arc::new(World::new(spec));
    let seeds = world.seeds(1);
    let clock: Arc<dyn Clock> = Arc::new(SimClock::new(Timestamp::from_secs(1_794_774_000)));
    let journal = Journal::new(Arc::clone(&clock));
    let web: Arc<dyn Web> = Arc::<World>::clone(&world);
    let mut crawler = Crawler {
        fetcher: SimFetcher::new(Arc::clone(&web), Arc::clone(&clock), journal.clone())
            .with_latency(1, Duration::from_millis(30)),
        resolver: SimResolver::new(web, Arc::clone(&clock)),
        clock,
        robots: BTreeMap::new(),
    };
    crawler.crawl(&seeds).await;
    let entries = journal.entries();
    let oracle = world.oracle(&seeds, &Rules::default());
    assert!(oracle.archived().count() > 500, "{:?}", oracle.counts());
    assert_none(&checks::coverage(&entries, &*world, &oracle));
    assert_none(&checks::robots_obeyed(&entries, &*world, "lycosa"));
    assert_none(&checks::gaps(&entries, |_| PAUSE));
    assert_none(&checks::address_gaps(&entries, PAUSE, 1));
    assert_none(&checks::addresses(&entries, &*world));
    assert_none(&checks::duplicates(&entries, &*world));
}

#[tokio::test(start_paused = true)]
async fn a_plain_crawler_gets_through_a_healthy_world() {
    crawl(WorldSpec::tiny(11, 60, 800)).await;
}

#[tokio::test(start_paused = true)]
async fn a_plain_crawler_gets_through_a_world_with_every_fault() {
    for seed in 21..24 {
        crawl(WorldSpec::tiny(seed, 150, 1_500).with_faults(Faults::all())).await;
    }
}
