//! hyper as anybody would use it: a connection kept open, a request, the body collected.

use std::io::Read as _;
use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use flate2::read::GzDecoder;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

use crate::ours::USER_AGENT;
use crate::server::{Served, host};
use crate::{Case, HOSTS, at_once};

type Request = http::Request<Empty<Bytes>>;

pub(crate) struct Bare {
    case: Case,
    port: u16,
    tls: TlsConnector,
    /// A connection for each host, once it was opened.
    open: Arc<Vec<Mutex<Option<Sender>>>>,
}

enum Sender {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

impl Sender {
    async fn send(&mut self, request: Request) -> hyper::Result<http::Response<Incoming>> {
        match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }
}

impl Bare {
    pub(crate) fn new(case: Case, served: &Served) -> Self {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let certificate = CertificateDer::from_pem_file(&served.ca).expect("a certificate");
        roots.add(certificate).expect("a good certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the usual versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let open = (0..HOSTS).map(|_| Mutex::new(None)).collect();
        Self {
            case,
            port: served.port(case),
            tls: TlsConnector::from(Arc::new(config)),
            open: Arc::new(open),
        }
    }

    pub(crate) async fn fetch(&self, each: usize) {
        at_once(|number| {
            let (case, port) = (self.case, self.port);
            let (tls, open) = (self.tls.clone(), Arc::clone(&self.open));
            async move {
                let mut sender = open[number].lock().await;
                for _ in 0..each {
                    if sender.is_none() {
                        *sender = Some(connect(case, number, port, &tls).await);
                    }
                    let open = sender.as_mut().expect("opened above");
                    let answer = open.send(request(case, number, port)).await.expect("an answer");
                    let body = answer.into_body().collect().await.expect("a body").to_bytes();
                    assert!(plain(case, body).len() >= 20_000);
                    if case == Case::TlsClose {
                        *sender = None;
                    }
                }
            }
        })
        .await;
    }
}

async fn connect(case: Case, number: usize, port: u16, tls: &TlsConnector) -> Sender {
    let tcp = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("a connection");
    tcp.set_nodelay(true).expect("a socket");
    if !case.is_tls() {
        return http1_over(tcp).await;
    }
    let name = ServerName::try_from(host(number)).expect("a name");
    let stream = tls.connect(name, tcp).await.expect("a handshake");
    if case != Case::Http2 {
        return http1_over(stream).await;
    }
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, driver) = handshake.expect("a handshake");
    tokio::spawn(driver);
    Sender::Http2(sender)
}

async fn http1_over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Sender {
    let (sender, driver) = http1::handshake(TokioIo::new(stream)).await.expect("a handshake");
    tokio::spawn(driver);
    Sender::Http1(sender)
}

/// The fields that our fetcher sends.
fn request(case: Case, number: usize, port: u16) -> Request {
    let authority = format!("{}:{port}", host(number));
    let path = "/some/path/page.html";
    let request = match case {
        Case::Http2 => http::Request::builder().uri(format!("https://{authority}{path}")),
        _ => http::Request::builder().uri(path).header("host", authority),
    };
    request
        .header("user-agent", USER_AGENT)
        .header("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
        .header("accept-encoding", "gzip, deflate, br, zstd")
        .body(Empty::new())
        .expect("a request")
}

fn plain(case: Case, body: Bytes) -> Bytes {
    if case != Case::Gzip {
        return body;
    }
    let mut plain = Vec::with_capacity(32 << 10);
    GzDecoder::new(&body[..]).read_to_end(&mut plain).expect("a page");
    plain.into()
}
