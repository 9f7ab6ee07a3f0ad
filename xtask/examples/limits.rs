//! How fast could a crawler be that fetches and does nothing else, or that only looks for links?
//!
//!     limits fetch|scan < URLS
//!
//! The crawler's own fetcher, one request a host at a time, no robots, no queue, no archive, no
//! state. Prints how many pages it had. `cargo xtask bench crawl` measures it from outside, with
//! the same URLs and in the same way as the crawler.

use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use fetch::{FetchSettings, FetcherOptions, Guard, HttpFetcher, NetworkSettings};
use ports::{Clock, Fetcher as _, Purpose, Request};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use types::{ByteSize, CrawlUrl, Timestamp, Validators};

/// As many as a crawl has by default.
const IN_FLIGHT_MAX: usize = 1_000;

struct Wall;

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        Timestamp::from(SystemTime::now())
    }
}

struct Work {
    fetcher: HttpFetcher,
    scan: bool,
    seats: Semaphore,
    pages: AtomicU64,
    links: AtomicU64,
}

fn main() -> anyhow::Result<()> {
    let scan = match std::env::args().nth(1).as_deref() {
        Some("fetch") => false,
        Some("scan") => true,
        _ => bail!("usage: limits fetch|scan < URLS"),
    };
    let mut hosts: BTreeMap<String, Vec<CrawlUrl>> = BTreeMap::new();
    for line in std::io::stdin().lock().lines() {
        let url = CrawlUrl::parse(&line.context("read a URL")?)?;
        hosts.entry(url.host().to_owned()).or_default().push(url);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (pages, links) = runtime.block_on(visit_all(hosts, scan))?;
    println!("{pages} pages, {links} links");
    Ok(())
}

async fn visit_all(
    hosts: BTreeMap<String, Vec<CrawlUrl>>,
    scan: bool,
) -> anyhow::Result<(u64, u64)> {
    let network = NetworkSettings {
        allow: vec!["127.0.0.0/8".parse().map_err(anyhow::Error::msg)?],
        ..NetworkSettings::default()
    };
    let guard = Arc::new(Guard::new(&network, true));
    let fetcher = HttpFetcher::new(&FetcherOptions {
        network,
        fetch: FetchSettings::default(),
        who: fetch::Introduction { user_agent: "limits".to_owned(), from: None },
        sheets: types::ByHost::default(),
        proxies: None,
        spool: Arc::new(ports::MemorySpool),
        robots_bytes_max: ByteSize::kib(500),
        guard,
        clock: Arc::new(Wall),
    })?;
    let work = Arc::new(Work {
        fetcher,
        scan,
        seats: Semaphore::new(IN_FLIGHT_MAX),
        pages: AtomicU64::new(0),
        links: AtomicU64::new(0),
    });
    let mut visits = JoinSet::new();
    for urls in hosts.into_values() {
        visits.spawn(host(Arc::clone(&work), urls));
    }
    while let Some(ended) = visits.join_next().await {
        ended??;
    }
    Ok((work.pages.load(Ordering::Relaxed), work.links.load(Ordering::Relaxed)))
}

/// All pages of a host, one after the other.
async fn host(work: Arc<Work>, urls: Vec<CrawlUrl>) -> anyhow::Result<()> {
    for url in urls {
        let _seat = work.seats.acquire().await?;
        let request = Request {
            url: url.clone(),
            // One listener serves all of 127/8, and the Host header says who is meant.
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            purpose: Purpose::Page,
            validators: Validators::default(),
        };
        let exchange = work.fetcher.fetch(request, &mut |_| ()).await;
        let Some(response) = exchange.response else { bail!("no answer from {url}") };
        work.pages.fetch_add(1, Ordering::Relaxed);
        if work.scan {
            let document = page::read(page::Input {
                content_type: response.header("content-type"),
                ..page::Input::new(url.as_str(), &response.body)
            });
            work.links.fetch_add(document.links().len() as u64, Ordering::Relaxed);
        }
    }
    Ok(())
}
