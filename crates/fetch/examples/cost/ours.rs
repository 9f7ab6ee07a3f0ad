//! Our fetcher, as a crawl uses it.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use lycosa_fetch::{
    FetchSettings, FetcherOptions, Guard, HttpFetcher, Introduction, NetworkSettings,
};
use ports::{Fetcher, Purpose, Request};
use types::{ByteSize, CrawlUrl, Validators};

use crate::server::{Served, host};
use crate::{Case, RealClock, at_once};

pub(crate) const USER_AGENT: &str =
    "Mozilla/5.0 (compatible; lycosa/0.1.0; +https://example.org/bot)";

pub(crate) struct Ours {
    fetcher: Arc<HttpFetcher>,
    case: Case,
    port: u16,
}

impl Ours {
    pub(crate) fn new(case: Case, served: &Served) -> Self {
        let network = NetworkSettings {
            allow: vec!["127.0.0.0/8".parse().expect("a range")],
            tls_ca: vec![served.ca.clone()],
            ..NetworkSettings::default()
        };
        let options = FetcherOptions {
            guard: Arc::new(Guard::new(&network, false)),
            network,
            fetch: FetchSettings::default(),
            who: Introduction { user_agent: USER_AGENT.to_owned(), from: None },
            sheets: types::ByHost::default(),
            proxies: None,
            spool: Arc::new(ports::MemorySpool),
            robots_bytes_max: ByteSize::kib(500),
            clock: Arc::new(RealClock { start: Instant::now() }),
        };
        let fetcher = Arc::new(HttpFetcher::new(&options).expect("good settings"));
        Self { fetcher, case, port: served.port(case) }
    }

    pub(crate) async fn fetch(&self, each: usize) {
        at_once(|number| {
            let fetcher = Arc::clone(&self.fetcher);
            let scheme = if self.case.is_tls() { "https" } else { "http" };
            let url = format!("{scheme}://{}:{}/some/path/page.html", host(number), self.port);
            let url = CrawlUrl::parse(&url).expect("a URL");
            async move {
                for _ in 0..each {
                    let request = Request {
                        url: url.clone(),
                        address: Ipv4Addr::LOCALHOST.into(),
                        purpose: Purpose::Page,
                        validators: Validators::default(),
                    };
                    let exchange = fetcher.fetch(request, &mut |_| ()).await;
                    let response = exchange.response.expect("an answer");
                    assert_eq!(response.truncated, None);
                    assert!(response.body.len() >= 20_000);
                }
            }
        })
        .await;
    }
}
