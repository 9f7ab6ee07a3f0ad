//! Small servers on loopback, and a fetcher to visit them with.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use lycosa_fetch::{FetchSettings, FetcherOptions, Guard, HttpFetcher, NetworkSettings};
use ports::{Clock, Ended, Exchange, Fetcher, Purpose, Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use types::{ByteSize, CrawlUrl, Fault, Timestamp, Validators};

/// Wall time at the start, carried on by the monotonic clock.
pub(crate) struct RealClock {
    wall: Timestamp,
    start: Instant,
}

impl RealClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { wall: std::time::SystemTime::now().into(), start: Instant::now() })
    }
}

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        self.wall + self.start.elapsed()
    }
}

pub(crate) fn network() -> NetworkSettings {
    NetworkSettings { allow: vec!["127.0.0.0/8".parse().unwrap()], ..NetworkSettings::default() }
}

pub(crate) fn fetcher() -> HttpFetcher {
    fetcher_with(network(), FetchSettings::default())
}

pub(crate) fn fetcher_with(network: NetworkSettings, fetch: FetchSettings) -> HttpFetcher {
    let guard = Arc::new(Guard::new(&network, false));
    HttpFetcher::new(&FetcherOptions {
        network,
        fetch,
        who: lycosa_fetch::Introduction { user_agent: "lycosa-test".to_owned(), from: None },
        sheets: types::ByHost::default(),
        proxies: None,
        spool: Arc::new(ports::MemorySpool),
        robots_bytes_max: ByteSize::kib(500),
        guard,
        clock: RealClock::new(),
    })
    .unwrap()
}

/// A server that runs one script per connection.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
pub(crate) struct Seen {
    connections: AtomicUsize,
    open: AtomicUsize,
    open_max: AtomicUsize,
    requests: Mutex<Vec<String>>,
}

impl Server {
    /// `script` is called with each connection and its number, from zero.
    pub(crate) async fn start<F>(script: impl Fn(Peer, usize) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let number = seen.connections.fetch_add(1, Ordering::SeqCst);
                    let open = seen.open.fetch_add(1, Ordering::SeqCst) + 1;
                    seen.open_max.fetch_max(open, Ordering::SeqCst);
                    let seen = Arc::clone(&seen);
                    let peer = Peer { stream, seen: Arc::clone(&seen), _open: Open(seen) };
                    tokio::spawn(script(peer, number));
                }
            }
        });
        Self { address, seen }
    }

    /// Answers every request on a connection with the same bytes.
    pub(crate) async fn always(answer: impl Into<Vec<u8>>) -> Self {
        let answer: Arc<[u8]> = answer.into().into();
        Self::start(move |mut peer, _| {
            let answer = Arc::clone(&answer);
            async move {
                while peer.request().await.is_some() {
                    peer.send(&answer).await;
                }
            }
        })
        .await
    }

    /// Answers one request a connection, then closes it.
    pub(crate) async fn once(answer: impl Into<Vec<u8>>) -> Self {
        let answer: Arc<[u8]> = answer.into().into();
        Self::start(move |mut peer, _| {
            let answer = Arc::clone(&answer);
            async move {
                peer.request().await;
                peer.send(&answer).await;
            }
        })
        .await
    }

    pub(crate) fn url(&self, path: &str) -> CrawlUrl {
        CrawlUrl::parse(&format!("http://a.test:{}{path}", self.address.port())).unwrap()
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.seen.requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn open_max(&self) -> usize {
        self.seen.open_max.load(Ordering::SeqCst)
    }

    /// Visits a path of this server.
    pub(crate) async fn visit(&self, fetcher: &HttpFetcher, path: &str) -> Exchange {
        visit(fetcher, page(self.url(path))).await
    }
}

/// One accepted connection.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    seen: Arc<Seen>,
    _open: Open,
}

/// Counts a connection as long as somebody has it.
struct Open(Arc<Seen>);

impl Peer {
    /// Reads one request and notes it; none if the client closed.
    pub(crate) async fn request(&mut self) -> Option<String> {
        let head = read_head(&mut self.stream).await?;
        self.seen.requests.lock().unwrap().push(head.clone());
        Some(head)
    }

    /// The client may be gone; that is its right.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Waits until the client closes; `true` if it sent nothing meanwhile.
    pub(crate) async fn closed(&mut self) -> bool {
        let mut byte = [0];
        matches!(self.stream.read(&mut byte).await, Ok(0) | Err(_))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) async fn read_head(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

pub(crate) fn page(url: CrawlUrl) -> Request {
    Request {
        url,
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        purpose: Purpose::Page,
        validators: Validators::default(),
    }
}

/// Makes a visit and checks what holds for every one of them.
pub(crate) async fn visit(fetcher: &HttpFetcher, request: Request) -> Exchange {
    let mut sent = Vec::new();
    let exchange = fetcher.fetch(request, &mut |at| sent.push(at)).await;
    let times = exchange.times;
    assert_eq!(sent, times.sent.into_iter().collect::<Vec<_>>(), "sent is told once, or never");
    assert_eq!(times.sent.is_some(), !exchange.request.is_empty());
    let moments = [Some(times.started), times.sent, times.first_byte, Some(times.ended)];
    assert!(moments.iter().flatten().is_sorted(), "{times:?}");
    assert_eq!(exchange.response.is_some(), exchange.end == Ended::Answered);
    exchange
}

pub(crate) fn answer(exchange: &Exchange) -> &Response {
    exchange.response.as_ref().unwrap_or_else(|| panic!("no answer: {:?}", exchange.end))
}

pub(crate) fn fault(exchange: &Exchange) -> &Fault {
    match &exchange.end {
        Ended::Broken(fault) => fault,
        other => panic!("not broken: {other:?}"),
    }
}
