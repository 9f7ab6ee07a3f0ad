//! Through proxies: what they are told, what the server sees, and what happens when one is gone.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use lycosa_fetch::{
    FetchSettings, FetcherOptions, Guard, HttpFetcher, Introduction, ProxiedResolver, Proxies,
    ProxyUrl,
};
use ports::{Ended, Exchange, Fetcher as _, Purpose, Request, Resolution, Resolver};
use simweb::serve::proxy::ProxyServer;
use types::{ByHost, ByteSize, CrawlUrl, Fault, HostKey, Refusal, Timestamp, Validators};

use crate::support::{RealClock, Server, network};

const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage";

/// Everybody lives at one address.
struct Everybody(IpAddr);

#[async_trait]
impl Resolver for Everybody {
    async fn resolve(&self, _: &HostKey) -> Resolution {
        let until = Timestamp::from_secs(u64::from(u32::MAX));
        Resolution::Addresses { addresses: vec![self.0], until }
    }
}

struct Client {
    fetcher: HttpFetcher,
    resolver: ProxiedResolver,
}

impl Client {
    fn new(proxies: &[String], target: IpAddr) -> Self {
        let urls: Vec<ProxyUrl> = proxies.iter().map(|url| url.parse().unwrap()).collect();
        let everybody = Arc::new(Everybody(target));
        let proxies = Proxies::new(&urls, &ByHost::default(), everybody).unwrap().unwrap();
        let (proxies, clock) = (Arc::new(proxies), RealClock::new());
        let network = network();
        let fetcher = HttpFetcher::new(&FetcherOptions {
            guard: Arc::new(Guard::new(&network, false)),
            network,
            fetch: FetchSettings::default(),
            who: Introduction { user_agent: "lycosa-test".to_owned(), from: None },
            sheets: ByHost::default(),
            proxies: Some(Arc::clone(&proxies)),
            spool: Arc::new(ports::MemorySpool),
            robots_bytes_max: ByteSize::kib(500),
            clock: clock.clone(),
        });
        Self { fetcher: fetcher.unwrap(), resolver: ProxiedResolver { proxies, clock } }
    }

    /// The addresses that a host's gate is asked for.
    async fn addresses(&self, host: &str) -> Vec<IpAddr> {
        match self.resolver.resolve(&HostKey::new(host)).await {
            Resolution::Addresses { addresses, .. } => addresses,
            other => panic!("{other:?}"),
        }
    }

    /// One visit, by the first of them.
    async fn get(&self, host: &str, port: u16) -> Exchange {
        let address = self.addresses(host).await[0];
        let request = Request {
            url: CrawlUrl::parse(&format!("http://{host}:{port}/")).unwrap(),
            address,
            purpose: Purpose::Page,
            validators: Validators::default(),
        };
        self.fetcher.fetch(request, &mut |_| ()).await
    }
}

fn ip(last: u8) -> IpAddr {
    [127, 0, 0, last].into()
}

fn body(exchange: &Exchange) -> &[u8] {
    assert_eq!(exchange.end, Ended::Answered);
    &exchange.response.as_ref().unwrap().body
}

#[tokio::test]
async fn both_kinds_carry_the_same_request_to_the_address_that_we_looked_up() {
    let server = Server::always(PAGE).await;
    let port = server.address.port();
    for (scheme, password) in [("http", false), ("http", true), ("socks5", false), ("socks5", true)]
    {
        let wanted = password.then_some(("ann", "a:b@c"));
        let proxy = ProxyServer::start(ip(2), wanted).await.unwrap();
        let auth = if password { "ann:a:b@c@" } else { "" };
        let client = Client::new(&[format!("{scheme}://{auth}{}", proxy.address)], ip(1));
        // The proxy is the address before whose gate the host waits.
        assert_eq!(client.addresses("a.test").await, [ip(2)]);
        let exchange = client.get("a.test", port).await;
        assert_eq!(body(&exchange), b"page", "{scheme}");
        assert_eq!(proxy.connected(), [SocketAddr::new(ip(1), port)]);
        let request = String::from_utf8(exchange.request.to_vec()).unwrap();
        assert!(request.starts_with(&format!("GET / HTTP/1.1\r\nHost: a.test:{port}\r\n")));
        assert!(!request.to_lowercase().contains("proxy"), "{request}");
        // An open connection serves again.
        client.get("a.test", port).await;
        assert_eq!(proxy.connected().len(), 1);
    }
}

#[tokio::test]
async fn a_proxy_that_is_gone_costs_no_visit_and_the_next_takes_its_hosts() {
    let server = Server::always(PAGE).await;
    let port = server.address.port();
    let proxies = [
        ProxyServer::start(ip(2), None).await.unwrap(),
        ProxyServer::start(ip(3), None).await.unwrap(),
    ];
    let urls = proxies.each_ref().map(|proxy| format!("http://{}", proxy.address));
    let client = Client::new(&urls, ip(1));
    let first = client.addresses("a.test").await;
    assert_eq!(first.len(), 2);
    let [dead, alive] = if first[0] == ip(2) { [0, 1] } else { [1, 0] };
    let mut proxies = proxies.map(Some);
    drop(proxies[dead].take());
    // Its listener goes with its task, at the next turn.
    tokio::task::yield_now().await;
    let exchange = client.get("a.test", port).await;
    assert_eq!(body(&exchange), b"page");
    assert_eq!(proxies[alive].as_ref().unwrap().connected().len(), 1);
    let live = proxies[alive].as_ref().unwrap().address.ip();
    assert_eq!(client.addresses("a.test").await[0], live, "its hosts wait at the other's gate now");
    // With all of them gone there is a fault, and nothing has left.
    drop(proxies[alive].take());
    tokio::task::yield_now().await;
    let exchange = client.get("b.test", port).await;
    let Ended::Broken(Fault::Proxy(why)) = &exchange.end else { panic!("{:?}", exchange.end) };
    assert!(why.starts_with("http://127.0.0."), "{why}");
    assert_eq!(exchange.times.sent, None);
}

#[tokio::test]
async fn what_a_proxy_refuses_is_no_fault_of_the_host() {
    let proxy = ProxyServer::start(ip(2), Some(("ann", "right"))).await.unwrap();
    for scheme in ["http", "socks5"] {
        let client = Client::new(&[format!("{scheme}://ann:wrong@{}", proxy.address)], ip(1));
        let exchange = client.get("a.test", 8080).await;
        let Ended::Broken(fault @ Fault::Proxy(_)) = &exchange.end else { panic!("{exchange:?}") };
        assert_eq!(fault.blame(), types::Blame::Us);
        assert!(!fault.to_string().contains("wrong"), "{fault}");
    }
    assert_eq!(proxy.connected(), []);
    // A server that does not take the connection is one's own fault again.
    for scheme in ["http", "socks5"] {
        let client = Client::new(&[format!("{scheme}://ann:right@{}", proxy.address)], ip(1));
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let exchange = client.get("a.test", closed.port()).await;
        assert!(matches!(&exchange.end, Ended::Broken(Fault::Connect(_))), "{:?}", exchange.end);
    }
}

#[tokio::test]
async fn the_guard_holds_for_whoever_is_behind_a_proxy() {
    let proxy = ProxyServer::start(ip(2), None).await.unwrap();
    for target in ["10.0.0.1", "169.254.169.254", "::1", "192.0.2.1"] {
        let client = Client::new(&[format!("socks5://{}", proxy.address)], target.parse().unwrap());
        let exchange = client.get("a.test", 80).await;
        let refused = matches!(&exchange.end, Ended::Refused(Refusal::Address { .. }));
        assert!(refused, "{target}: {:?}", exchange.end);
    }
    assert_eq!(proxy.connected(), []);
}
