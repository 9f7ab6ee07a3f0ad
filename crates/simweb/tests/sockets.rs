//! Webs on real sockets, visited by a client that knows nothing but bytes.

#![expect(clippy::unwrap_used, reason = "a test that meets a surprise should fail")]

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use lycosa_simweb::serve::{Ready, Running, ServeOptions, Source, start};
use lycosa_simweb::{
    Dns, Faults, Fixture, Journal, Place, Rules, SimClock, SimFetcher, Web, World, WorldSpec,
    checks,
};
use ports::{Ended, Fetcher, Purpose, Request};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use types::{CrawlUrl, Timestamp, Validators};

struct Net {
    running: Running,
    web: Arc<dyn Web>,
    folder: tempfile::TempDir,
}

impl Net {
    async fn start(source: Source) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = ServeOptions {
            source: source.clone(),
            ca_dir: Some(folder.path().to_owned()),
            journal: Some(folder.path().join("journal.jsonl")),
            journal_in_memory: true,
            seeds: 3,
            ..ServeOptions::default()
        };
        let running = start(options).await.unwrap();
        let Ready { http, https, closed, .. } = *running.ready();
        let web: Arc<dyn Web> = match source {
            Source::World(spec) => Arc::new(World::new(spec.with_ports(http, https, closed))),
            Source::Fixture(fixture) => Arc::new(fixture.with_ports(http, https, closed)),
            Source::Crowd(crowd) => Arc::new(crowd.with_port(http)),
        };
        Self { running, web, folder }
    }

    async fn fixture(text: &str) -> Self {
        Self::start(Source::Fixture(Fixture::parse(text).unwrap())).await
    }

    fn ready(&self) -> &Ready {
        self.running.ready()
    }

    /// A URL of the fixture with the port it is served on.
    fn place(&self, url: &str) -> Place {
        let mut place = Place::parse(url).unwrap();
        place.port = match place.port {
            80 => self.ready().http,
            443 => self.ready().https,
            other => other,
        };
        place
    }

    fn address(&self, host: &str) -> IpAddr {
        match self.web.resolve(host) {
            Dns::Addresses { addresses, .. } => addresses[0],
            other => panic!("{host}: {other:?}"),
        }
    }

    async fn connect(&self, place: &Place) -> io::Result<TcpStream> {
        TcpStream::connect((self.address(&place.host), place.port)).await
    }

    async fn get(&self, url: &str) -> Got {
        let place = self.place(url);
        let stream = self.connect(&place).await.unwrap();
        if place.tls {
            exchange(self.handshake(stream, &place.host).await.unwrap(), &place).await
        } else {
            exchange(stream, &place).await
        }
    }

    async fn handshake(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.ready().ca).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).unwrap();
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}

/// What a client got, and how it ended.
#[derive(Debug)]
struct Got {
    wire: Vec<u8>,
    /// None: the answer is whole. Otherwise how the connection ended too early.
    broken: Option<io::ErrorKind>,
    took: Duration,
}

impl Got {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.wire).into_owned()
    }
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, place: &Place) -> Got {
    let begun = Instant::now();
    let host = &place.host;
    let request = format!(
        "GET {} HTTP/1.1\r\nhost: {host}:{}\r\nuser-agent: raw\r\naccept-encoding: gzip\r\n\r\n",
        place.target, place.port
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let (wire, broken) = read_answer(&mut stream).await;
    Got { wire, broken, took: begun.elapsed() }
}

/// Reads one answer by its framing.
async fn read_answer<S: AsyncRead + Unpin>(stream: &mut S) -> (Vec<u8>, Option<io::ErrorKind>) {
    let mut wire = Vec::new();
    loop {
        if is_whole(&wire) {
            return (wire, None);
        }
        match stream.read_buf(&mut wire).await {
            Ok(0) => {
                let until_close = head_of(&wire).is_some_and(|head| {
                    !head.contains("content-length") && !head.contains("chunked")
                });
                return (wire, (!until_close).then_some(io::ErrorKind::UnexpectedEof));
            }
            Ok(_) => {}
            Err(error) => return (wire, Some(error.kind())),
        }
    }
}

fn head_of(wire: &[u8]) -> Option<&str> {
    let end = wire.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    std::str::from_utf8(&wire[..end]).ok()
}

fn is_whole(wire: &[u8]) -> bool {
    let Some(head) = head_of(wire) else { return false };
    let body = &wire[head.len()..];
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    match length {
        Some(length) => body.len() >= length.parse::<usize>().unwrap(),
        None if head.contains("chunked") => lycosa_simweb::wire::dechunk(body).1,
        None => head.contains(" 304 "),
    }
}

#[tokio::test]
async fn a_plain_page_comes_over_a_kept_connection() {
    let net = Net::fixture("--- a.test/\nhello\n--- a.test/x close\nbye").await;
    let place = net.place("http://a.test/");
    let mut stream = net.connect(&place).await.unwrap();
    for (target, says) in [("/", "hello\n"), ("/nowhere", "404"), ("/x", "bye\n")] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: A.test\r\nUser-Agent: raw\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let (wire, broken) = read_answer(&mut stream).await;
        assert_eq!(broken, None);
        assert!(String::from_utf8(wire).unwrap().contains(says), "{target}");
    }
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0, "the server closed");
    let entries = net.running.journal().entries();
    let seen: Vec<_> =
        entries.iter().map(|e| (&*e.host, &*e.path, e.status, e.body_bytes)).collect();
    assert_eq!(seen[0], ("a.test", "/", 200, 6));
    assert_eq!(seen[2], ("a.test", "/x", 200, 4));
    assert!(entries.iter().all(|e| e.connection == entries[0].connection && !e.aborted));
    assert!(entries.iter().all(|e| e.ended.unwrap() >= e.arrived && &*e.user_agent == "raw"));
    // The same is in the file once it is stopped.
    let path = net.folder.path().join("journal.jsonl");
    net.running.stop().await.unwrap();
    assert_eq!(Journal::read(&path).unwrap(), entries);
}

#[tokio::test]
async fn arrival_is_the_first_byte_and_the_end_is_the_last() {
    let net = Net::fixture("--- a.test/ slow=200ms\nhello").await;
    let place = net.place("http://a.test/");
    let mut stream = net.connect(&place).await.unwrap();
    stream.write_all(b"GET / HT").await.unwrap();
    // The server runs on this thread and reads while the test yields; then time passes, which is
    // what this test is about.
    let began = Instant::now();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    stream.write_all(b"TP/1.1\r\nhost: a.test\r\n\r\n").await.unwrap();
    let whole = read_answer(&mut stream).await;
    assert_eq!(whole.1, None);
    let took = began.elapsed();
    let entry = net.running.journal().entries().remove(0);
    let seen = entry.ended.unwrap().since(entry.arrived);
    assert!(seen >= Duration::from_millis(300), "from the first byte on: {seen:?}");
    assert!(seen <= took + Duration::from_millis(1), "{seen:?} of {took:?}");
}

#[tokio::test]
async fn a_page_comes_over_tls_with_a_certificate_for_its_name() {
    let net = Net::fixture(
        "--- https://a.test/
         secret
         --- https://b.test/
         !door b.test bad-certificate",
    )
    .await;
    assert!(net.get("https://a.test/").await.text().ends_with("\r\n\r\nsecret\n"));
    let entry = net.running.journal().entries().remove(0);
    assert!(entry.tls && entry.port == net.ready().https);
    let stream = net.connect(&net.place("https://b.test/")).await.unwrap();
    let error = net.handshake(stream, "b.test").await.unwrap_err();
    assert!(error.to_string().contains("not valid for name"), "{error}");
}

#[tokio::test]
async fn behaviours_are_real_on_the_wire() {
    let net = Net::fixture(
        "--- a.test/slow slow=300ms
         late
         --- a.test/drip drip=5/50ms
         0123456789abcdefghi
         --- a.test/cut cut=4
         0123456789
         --- a.test/torn reset=4
         0123456789
         --- a.test/reset reset
         --- a.test/empty cut
         --- a.test/raw not-http
         whatever
         --- a.test/close until-close
         open end
         --- https://b.test/torn reset=4
         0123456789",
    )
    .await;
    let slow = net.get("http://a.test/slow").await;
    assert!(slow.took >= Duration::from_millis(300) && slow.broken.is_none());
    let drip = net.get("http://a.test/drip").await;
    assert!(drip.took >= Duration::from_millis(150), "{:?}", drip.took);
    assert!(drip.text().ends_with("0123456789abcdefghi\n"));
    let cut = net.get("http://a.test/cut").await;
    assert_eq!(cut.broken, Some(io::ErrorKind::UnexpectedEof));
    assert!(cut.text().ends_with("\r\n\r\n0123"));
    let torn = net.get("http://a.test/torn").await;
    assert_eq!(torn.broken, Some(io::ErrorKind::ConnectionReset));
    assert!(torn.text().ends_with("\r\n\r\n0123"));
    let reset = net.get("http://a.test/reset").await;
    assert_eq!((reset.broken, reset.wire.len()), (Some(io::ErrorKind::ConnectionReset), 0));
    let empty = net.get("http://a.test/empty").await;
    assert_eq!((empty.broken, empty.wire.len()), (Some(io::ErrorKind::UnexpectedEof), 0));
    assert_eq!(net.get("http://a.test/raw").await.text(), "whatever\n");
    assert!(net.get("http://a.test/close").await.text().ends_with("open end\n"));
    assert_eq!(net.get("https://b.test/torn").await.broken, Some(io::ErrorKind::ConnectionReset));
    let broken: Vec<_> = net
        .running
        .journal()
        .entries()
        .iter()
        .filter(|e| e.aborted)
        .map(|e| e.path.to_string())
        .collect();
    assert_eq!(broken, ["/cut", "/torn", "/reset", "/empty", "/torn"]);
}

#[tokio::test]
async fn a_mute_server_waits_until_the_client_leaves() {
    let net = Net::fixture("--- a.test/ mute").await;
    let place = net.place("http://a.test/");
    let visit = net.get("http://a.test/");
    assert!(tokio::time::timeout(Duration::from_millis(100), visit).await.is_err());
    // The server notices on its own; the test waits for that, not for a time.
    loop {
        let entry = net.running.journal().entries().remove(0);
        if entry.ended.is_some() {
            assert!(entry.aborted && entry.status == 0);
            break;
        }
        tokio::task::yield_now().await;
    }
    assert!(net.connect(&place).await.is_ok());
}

#[tokio::test]
async fn nobody_listens_on_the_closed_port() {
    let net = Net::fixture("!door r.test refused").await;
    let place = net.place(&format!("http://r.test:{}/", net.ready().closed));
    let error = net.connect(&place).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let net = Net::fixture("--- a.test/").await;
    let say = async |text: String| {
        let mut stream = net.connect(&net.place("http://a.test/")).await.unwrap();
        // The server may hang up before it has read everything.
        let _ = stream.write_all(text.as_bytes()).await;
        String::from_utf8(read_answer(&mut stream).await.0).unwrap()
    };
    assert!(say("nonsense\r\n\r\n".to_owned()).await.starts_with("HTTP/1.1 400 "));
    let post = "POST / HTTP/1.1\r\nhost: a.test\r\n\r\n".to_owned();
    assert!(say(post).await.starts_with("HTTP/1.1 405 "));
    let long = format!("GET /{} HTTP/1.1\r\nhost: a.test\r\n", "x".repeat(17_000));
    assert!(say(long).await.starts_with("HTTP/1.1 431 "));
}

// ── names ──

async fn over_udp(server: SocketAddr, query: &Message) -> Message {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(&query.to_vec().unwrap(), server).await.unwrap();
    let mut buffer = [0; 4_096];
    let (length, _) = socket.recv_from(&mut buffer).await.unwrap();
    Message::from_vec(&buffer[..length]).unwrap()
}

async fn over_tcp(server: SocketAddr, query: &Message) -> Message {
    let mut stream = TcpStream::connect(server).await.unwrap();
    let bytes = query.to_vec().unwrap();
    stream.write_u16(u16::try_from(bytes.len()).unwrap()).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    let mut answer = vec![0; usize::from(stream.read_u16().await.unwrap())];
    stream.read_exact(&mut answer).await.unwrap();
    Message::from_vec(&answer).unwrap()
}

fn question(host: &str, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(format!("{host}.")).unwrap(), kind));
    message
}

fn v4(message: &Message) -> Vec<String> {
    let address = |data: &RData| match data {
        RData::A(a) => Some(a.0.to_string()),
        _ => None,
    };
    message.answers.iter().filter_map(|record| address(&record.data)).collect()
}

#[tokio::test]
async fn names_are_told_over_udp_and_tcp() {
    let net = Net::fixture(
        "--- a.test/
         !address a.test 127.0.0.9
         !dns gone.test nxdomain
         !dns ill.test servfail
         !dns big.test large
         !dns www.test alias edge.cdn.test",
    )
    .await;
    let dns = net.ready().dns;
    let answer = over_udp(dns, &question("A.Test", RecordType::A)).await;
    assert_eq!(v4(&answer), ["127.0.0.9"]);
    assert!(answer.answers[0].ttl > 0);
    assert_eq!(v4(&over_tcp(dns, &question("a.test", RecordType::A)).await), ["127.0.0.9"]);
    let none = over_udp(dns, &question("a.test", RecordType::AAAA)).await;
    assert_eq!((none.metadata.response_code, none.answers.len()), (ResponseCode::NoError, 0));
    let code = async |host: &str| {
        over_udp(dns, &question(host, RecordType::A)).await.metadata.response_code
    };
    assert_eq!(code("gone.test").await, ResponseCode::NXDomain);
    assert_eq!(code("nobody.example").await, ResponseCode::NXDomain);
    assert_eq!(code("ill.test").await, ResponseCode::ServFail);
    let big = over_udp(dns, &question("big.test", RecordType::A)).await;
    assert!(big.metadata.truncation && big.answers.is_empty());
    let whole = over_tcp(dns, &question("big.test", RecordType::A)).await;
    assert!(!whole.metadata.truncation && v4(&whole).len() == 1);
    let alias = over_udp(dns, &question("www.test", RecordType::A)).await;
    assert!(
        matches!(&alias.answers[0].data, RData::CNAME(name) if name.0.to_ascii() == "edge.cdn.test.")
    );
    assert_eq!(alias.answers[1].name.to_ascii(), "edge.cdn.test.");
}

// ── the same bytes in both ways ──

async fn same_bytes(net: &Net, places: &[Place]) {
    let clock: Arc<dyn ports::Clock> = Arc::new(SimClock::new(Timestamp::ZERO));
    let journal = Journal::new(Arc::clone(&clock));
    let fetcher = SimFetcher::new(Arc::clone(&net.web), clock, journal.clone());
    for place in places {
        let got = net.get(&place.to_string()).await;
        let request = Request {
            url: CrawlUrl::parse(&place.to_string()).unwrap(),
            address: net.address(&place.host),
            purpose: Purpose::Page,
            validators: Validators::default(),
        };
        let exchange = fetcher.fetch(request, &mut |_| {}).await;
        match exchange.response {
            Some(response) => {
                assert_eq!(got.text(), String::from_utf8_lossy(&response.wire), "{place}");
                assert_eq!(got.wire, response.wire, "{place}");
                let sound = matches!(
                    response.truncated,
                    None | Some(types::outcome::Truncated::Unspecified)
                );
                assert_eq!(got.broken.is_none(), sound, "{place}");
            }
            None => {
                assert!(matches!(exchange.end, Ended::Broken(_)));
                let is_http = got.wire.starts_with(b"HTTP/");
                assert!(got.broken.is_some() || !is_http, "{place}: {}", got.text());
            }
        }
    }
    // Both journals tell the same story, but for the times.
    let story = |journal: &Journal| -> Vec<_> {
        let entries = journal.entries();
        entries.iter().map(|e| (e.url(), e.status, e.body_bytes, e.aborted, e.address)).collect()
    };
    assert_eq!(story(&journal), story(net.running.journal()));
}

#[tokio::test]
async fn in_process_and_over_sockets_the_bytes_of_a_fixture_are_the_same() {
    let net = Net::fixture(
        "--- a.test/
         plain
         --- a.test/chunked chunked filler=20000
         --- a.test/gzip gzip chunked
         hello hello hello
         --- a.test/cut cut=3
         0123456789
         --- a.test/torn reset=3 chunked filler=9000
         --- a.test/reset reset
         --- a.test/empty cut
         --- a.test/moved 302 Location: http://b.test/
         --- a.test/open until-close
         to the end
         --- a.test/drip drip=10/10ms filler=55
         --- a.test/large filler=300000
         --- https://b.test/
         secret
         --- b.test/",
    )
    .await;
    let paths = [
        "", "chunked", "gzip", "cut", "torn", "reset", "empty", "moved", "open", "drip", "large",
        "404",
    ];
    let mut places: Vec<_> =
        paths.iter().map(|path| net.place(&format!("http://a.test/{path}"))).collect();
    places.push(net.place("https://b.test/"));
    same_bytes(&net, &places).await;
}

#[tokio::test]
async fn in_process_and_over_sockets_the_bytes_of_a_world_are_the_same() {
    // Left out: what takes its time, and dates, since the clocks differ.
    let faults: Faults =
        "all,mute=0,slow=0,drip=0,endless=0,huge=0,unavailable-until=0".parse().unwrap();
    let spec = WorldSpec::tiny(4, 60, 900).with_faults(faults);
    let net = Net::start(Source::World(spec.clone())).await;
    let Ready { http, https, closed, .. } = *net.ready();
    let world = World::new(spec.with_ports(http, https, closed));
    let oracle = world.oracle(&net.ready().seed_urls, &Rules::default());
    let asked = oracle.expected.iter().filter(|(_, e)| matches!(e.name(), "archived" | "fails"));
    let places: Vec<_> = asked.filter_map(|(url, _)| Place::parse(url)).take(500).collect();
    assert_eq!(places.len(), 500);
    same_bytes(&net, &places).await;
    let entries = net.running.journal().entries();
    checks::assert_none(&checks::addresses(&entries, &*net.web));
}
