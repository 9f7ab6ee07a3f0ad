//! TLS: who is trusted, and what is recorded.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lycosa_fetch::{Error, FetchSettings, HttpFetcher, NetworkSettings};
use ports::Exchange;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{HandshakeKind, ServerConfig};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;
use types::outcome::Truncated;
use types::{CrawlUrl, Fault};

use crate::support::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// Its certificate as a file, for `network.tls_ca`.
    pub(crate) pem: PathBuf,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let pem = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.pem"));
        std::fs::write(&pem, issuer.pem()).unwrap();
        Self { issuer, pem }
    }

    pub(crate) fn server_config(&self, names: &[&str]) -> ServerConfig {
        self.server_config_with(names, |_| ())
    }

    fn server_config_with(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> ServerConfig {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config
    }
}

struct TlsServer {
    server: Server,
    resumed: Arc<AtomicUsize>,
}

impl TlsServer {
    /// Answers up to `requests_max` requests of a connection.
    async fn start(config: ServerConfig, answer: &'static str, requests_max: usize) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let resumed = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&resumed);
        let server = Server::start(move |mut peer, _| {
            let (acceptor, resumed) = (acceptor.clone(), Arc::clone(&counter));
            async move {
                let Ok(mut tls) = acceptor.accept(&mut peer.stream).await else { return };
                let session = tls.get_ref().1;
                assert_eq!(session.alpn_protocol(), Some(&b"http/1.1"[..]));
                if session.handshake_kind() == Some(HandshakeKind::Resumed) {
                    resumed.fetch_add(1, Ordering::SeqCst);
                }
                for _ in 0..requests_max {
                    if read_head(&mut tls).await.is_none() {
                        return;
                    }
                    tls.write_all(answer.as_bytes()).await.unwrap();
                    tls.flush().await.unwrap();
                }
                // Dropped without a farewell, as many servers do.
            }
        })
        .await;
        Self { server, resumed }
    }

    async fn visit(&self, fetcher: &HttpFetcher, host: &str) -> Exchange {
        let url = format!("https://{host}:{}/", self.server.address.port());
        visit(fetcher, page(CrawlUrl::parse(&url).unwrap())).await
    }
}

pub(crate) fn trusting(authority: &Authority) -> HttpFetcher {
    let network = NetworkSettings { tls_ca: vec![authority.pem.clone()], ..network() };
    fetcher_with(network, FetchSettings::default())
}

#[tokio::test]
async fn a_certificate_of_a_trusted_authority_is_good_for_its_names_alone() {
    let authority = Authority::new("names");
    let config = authority.server_config(&["a.test", "127.0.0.1"]);
    let server = TlsServer::start(config, OK, 9).await;
    let fetcher = trusting(&authority);
    for host in ["a.test", "127.0.0.1"] {
        let exchange = server.visit(&fetcher, host).await;
        assert_eq!(&*answer(&exchange).wire, OK.as_bytes(), "{host}");
        assert_eq!(exchange.tls, Some("TLSv1.3"));
        assert!(exchange.request.starts_with(b"GET / HTTP/1.1\r\nHost: "));
    }
    let exchange = server.visit(&fetcher, "b.test").await;
    assert!(matches!(fault(&exchange), Fault::Tls(_)), "{:?}", exchange.end);
    assert_eq!(exchange.times.sent, None);
}

#[tokio::test]
async fn an_unknown_authority_is_refused_unless_nobody_is_asked() {
    let authority = Authority::new("unknown");
    let server = TlsServer::start(authority.server_config(&["a.test"]), OK, 9).await;
    let exchange = server.visit(&fetcher(), "a.test").await;
    match fault(&exchange) {
        Fault::Tls(why) => assert!(why.contains("certificate"), "{why}"),
        other => panic!("{other:?}"),
    }
    let network = NetworkSettings { tls_verify: false, ..network() };
    let anyone = fetcher_with(network, FetchSettings::default());
    let exchange = server.visit(&anyone, "other.test").await;
    assert_eq!(answer(&exchange).status, 200);
}

#[tokio::test]
async fn a_tls_connection_serves_again_and_a_new_one_resumes_the_session() {
    let authority = Authority::new("again");
    let server = TlsServer::start(authority.server_config(&["a.test"]), OK, 3).await;
    let fetcher = trusting(&authority);
    for _ in 0..3 {
        answer(&server.visit(&fetcher, "a.test").await);
    }
    assert_eq!((server.server.connections(), fetcher.stats().reused), (1, 2));
    fetcher.close_idle();
    answer(&server.visit(&fetcher, "a.test").await);
    assert_eq!(server.server.connections(), 2);
    assert_eq!(server.resumed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_body_that_ends_without_a_farewell_may_not_be_whole() {
    let authority = Authority::new("farewell");
    let unsized_answer = "HTTP/1.1 200 OK\r\n\r\nperhaps more";
    let config = authority.server_config(&["a.test"]);
    let server = TlsServer::start(config, unsized_answer, 1).await;
    let exchange = server.visit(&trusting(&authority), "a.test").await;
    let response = answer(&exchange);
    assert_eq!(&*response.wire, unsized_answer.as_bytes());
    assert_eq!(response.truncated, Some(Truncated::Disconnect));
    // With a length there is no doubt.
    let server = TlsServer::start(authority.server_config(&["a.test"]), OK, 1).await;
    let exchange = server.visit(&trusting(&authority), "a.test").await;
    assert_eq!(answer(&exchange).truncated, None);
}

#[tokio::test]
async fn a_server_without_tls_fails_the_handshake() {
    let server = Server::start(|mut peer, _| async move {
        peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        peer.closed().await;
    })
    .await;
    let url = format!("https://a.test:{}/", server.address.port());
    let exchange = visit(&fetcher(), page(CrawlUrl::parse(&url).unwrap())).await;
    assert!(matches!(fault(&exchange), Fault::Tls(_)), "{:?}", exchange.end);
}

#[tokio::test]
async fn a_certificate_out_of_its_time_is_refused() {
    type Change = fn(&mut CertificateParams);
    let changes: [(&str, Change); 2] = [
        ("expired", |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1)),
        ("not-yet", |params| params.not_before = rcgen::date_time_ymd(4000, 1, 1)),
    ];
    for (name, change) in changes {
        let authority = Authority::new(name);
        let config = authority.server_config_with(&["a.test"], change);
        let server = TlsServer::start(config, OK, 9).await;
        let exchange = server.visit(&trusting(&authority), "a.test").await;
        match fault(&exchange) {
            Fault::Tls(why) => assert!(why.contains("certificate"), "{why}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(exchange.times.sent, None);
        // Whoever trusts everybody goes on.
        let network = NetworkSettings { tls_verify: false, ..network() };
        let anyone = fetcher_with(network, FetchSettings::default());
        assert_eq!(answer(&server.visit(&anyone, "a.test").await).status, 200);
    }
}

/// What a server may do instead of a handshake, as raw bytes; then it closes or tears.
async fn no_handshake(bytes: &'static [u8], tears: bool) -> Exchange {
    let server = Server::start(move |mut peer, _| async move {
        // The greeting is read: what is left in a socket turns a close into a reset.
        let mut greeting = [0; 4096];
        let _read = tokio::io::AsyncReadExt::read(&mut peer.stream, &mut greeting).await.unwrap();
        peer.send(bytes).await;
        if tears {
            peer.stream.set_zero_linger().unwrap();
        }
    })
    .await;
    let url = format!("https://a.test:{}/", server.address.port());
    visit(&fetcher(), page(CrawlUrl::parse(&url).unwrap())).await
}

#[tokio::test]
async fn a_handshake_that_breaks_is_a_fault_of_tls() {
    for (bytes, tears) in [
        (&b""[..], false),
        (b"", true),
        // An alert: no such name. Half a record. A record of nonsense. A record too long.
        (&[0x15, 3, 3, 0, 2, 2, 112], false),
        (&[0x16, 3, 3, 1, 0, 2], false),
        (&[0x16, 3, 3, 0, 4, 9, 9, 9, 9], false),
        (&[0x16, 3, 3, 0xff, 0xff], false),
        (b"220 mail.test ESMTP\r\n", false),
    ] {
        let exchange = no_handshake(bytes, tears).await;
        assert!(matches!(fault(&exchange), Fault::Tls(_)), "{bytes:?}: {:?}", exchange.end);
        assert_eq!(exchange.times.sent, None);
    }
}

#[tokio::test]
async fn a_body_that_turns_to_nonsense_is_kept_up_to_there() {
    let authority = Authority::new("nonsense");
    let acceptor = TlsAcceptor::from(Arc::new(authority.server_config(&["a.test"])));
    let server = Server::start(move |peer, _| {
        let acceptor = acceptor.clone();
        async move {
            let mut tls = acceptor.accept(peer.stream).await.unwrap();
            read_head(&mut tls).await;
            tls.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n").await.unwrap();
            tls.write_all(&[b'x'; 100_000]).await.unwrap();
            tls.flush().await.unwrap();
            // A record that no key of this session has made.
            let (mut tcp, _) = tls.into_inner();
            tcp.write_all(&[0x17, 3, 3, 0, 20]).await.unwrap();
            tcp.write_all(&[9; 20]).await.unwrap();
        }
    })
    .await;
    let url = format!("https://a.test:{}/", server.address.port());
    let exchange = visit(&trusting(&authority), page(CrawlUrl::parse(&url).unwrap())).await;
    let response = answer(&exchange);
    // What was decrypted together with the nonsense is lost; that is one record or two.
    assert!((60_000..=100_000).contains(&response.body.len()), "{}", response.body.len());
    let why = response.truncated;
    assert!(matches!(why, Some(Truncated::Disconnect | Truncated::Unspecified)), "{why:?}");
    assert!(response.body_cut);
}

#[test]
fn a_file_without_certificates_is_an_error_that_names_it() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("empty.pem");
    std::fs::write(&path, "nothing").unwrap();
    for path in [path, PathBuf::from("no/such/file.pem")] {
        let network = NetworkSettings { tls_ca: vec![path.clone()], ..network() };
        let guard = Arc::new(lycosa_fetch::Guard::new(&network, false));
        let error = HttpFetcher::new(&lycosa_fetch::FetcherOptions {
            network,
            fetch: FetchSettings::default(),
            who: lycosa_fetch::Introduction { user_agent: "x".to_owned(), from: None },
            sheets: types::ByHost::default(),
            proxies: None,
            spool: Arc::new(ports::MemorySpool),
            robots_bytes_max: types::ByteSize::kib(500),
            guard,
            clock: RealClock::new(),
        })
        .unwrap_err();
        assert!(matches!(error, Error::TlsCa { .. }));
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
    }
}
