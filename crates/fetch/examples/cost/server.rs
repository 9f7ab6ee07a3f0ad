//! A server that does as little as it can: the same answer to whatever it is asked.
//!
//! It is this program once more, started with `serve`, and ends when its standard input does.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::{Case, HOSTS};

/// The server's process, and where it listens.
pub(crate) struct Served {
    child: Child,
    ports: Vec<u16>,
    /// The certificate to trust, as a file.
    pub(crate) ca: PathBuf,
}

impl Served {
    pub(crate) fn start() -> Self {
        let program = std::env::current_exe().expect("we were started from a file");
        let mut child = Command::new(program)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process for the server");
        let out = child.stdout.take().expect("its output is ours");
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).expect("it says where it listens");
        let mut words = line.split_whitespace();
        let ca = words.next().expect("a file").into();
        let ports = words.map(|word| word.parse().expect("a port")).collect();
        Self { child, ports, ca }
    }

    pub(crate) fn port(&self, case: Case) -> u16 {
        let at = Case::ALL.iter().position(|&known| known == case).expect("all are listed");
        self.ports[at]
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().expect("it ends with its input");
    }
}

pub(crate) fn host(number: usize) -> String {
    format!("www.host{number}.test")
}

/// HTML that looks like some: a head, paragraphs, forty links.
pub(crate) fn page() -> Vec<u8> {
    let mut page = b"<!doctype html><title>cost</title><body>".to_vec();
    let mut state = 1u32;
    while page.len() < 20_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let words = ["wolf", "spider", "walks", "out", "and", "does", "not", "wait"];
        page.extend(words[(state >> 29) as usize].bytes());
        match state >> 24 & 63 {
            0 => page.extend(format!("</p><p><a href=\"/{state:x}\">more</a> ").bytes()),
            _ => page.push(b' '),
        }
    }
    page
}

pub(crate) fn run() {
    let folder = std::env::temp_dir();
    let pem = folder.join(format!("lycosa-cost-{}.pem", std::process::id()));
    let (certificate, key) = certificate(&pem);
    let config = |case| Arc::new(tls(case, certificate.clone(), key.clone_key()));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut said = pem.display().to_string();
    for case in Case::ALL {
        let listen = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = runtime.block_on(listen).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        said.push_str(&format!(" {port}"));
        let acceptor = case.is_tls().then(|| TlsAcceptor::from(config(case)));
        runtime.spawn(accept(listener, case, acceptor));
    }
    println!("{said}");
    std::io::stdin().lines().for_each(drop);
    std::fs::remove_file(&pem).expect("the file was ours");
}

async fn accept(listener: TcpListener, case: Case, acceptor: Option<TlsAcceptor>) {
    let answer = Bytes::from(answer(case));
    while let Ok((tcp, _)) = listener.accept().await {
        let (answer, acceptor) = (answer.clone(), acceptor.clone());
        tokio::spawn(serve(tcp, case, acceptor, answer));
    }
}

async fn serve(tcp: TcpStream, case: Case, acceptor: Option<TlsAcceptor>, answer: Bytes) {
    tcp.set_nodelay(true).expect("a socket");
    let Some(acceptor) = acceptor else { return http1(tcp, case, &answer).await };
    // Who hangs up is no concern of ours.
    let Ok(tls) = acceptor.accept(tcp).await else { return };
    match case {
        Case::Http2 => http2(tls, answer).await,
        _ => http1(tls, case, &answer).await,
    }
}

async fn http1(mut stream: impl AsyncRead + AsyncWrite + Unpin, case: Case, answer: &[u8]) {
    let mut buffer = [0; 4096];
    // A request comes in one piece.
    while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
        if stream.write_all(answer).await.is_err() || stream.flush().await.is_err() {
            return;
        }
        if case == Case::TlsClose {
            // The client is gone if this fails, which is as good.
            let _gone = stream.shutdown().await;
            return;
        }
    }
}

async fn http2(stream: impl AsyncRead + AsyncWrite + Unpin, page: Bytes) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        let mut response = http::Response::builder();
        for (name, value) in FIELDS {
            response = response.header(name, value);
        }
        let response = response.header("content-length", page.len()).body(()).expect("good fields");
        let Ok(mut body) = respond.send_response(response, false) else { return };
        // The window is larger than a page.
        if body.send_data(page.clone(), true).is_err() {
            return;
        }
    }
}

const FIELDS: [(&str, &str); 9] = [
    ("server", "cost"),
    ("date", "Sun, 15 Nov 2026 20:20:00 GMT"),
    ("content-type", "text/html; charset=utf-8"),
    ("last-modified", "Sun, 15 Nov 2026 20:20:00 GMT"),
    ("etag", "\"abcdef0123456789\""),
    ("cache-control", "max-age=600"),
    ("vary", "Accept-Encoding"),
    ("x-frame-options", "DENY"),
    ("strict-transport-security", "max-age=31536000"),
];

/// Head and body; over HTTP/2 the body alone.
fn answer(case: Case) -> Vec<u8> {
    let page = page();
    let (fields, body) = match case {
        Case::Http2 => return page,
        Case::Chunked => ("transfer-encoding: chunked\r\n".to_owned(), chunked(&page)),
        Case::Gzip => {
            let body = gzip(&page);
            (format!("content-encoding: gzip\r\ncontent-length: {}\r\n", body.len()), body)
        }
        Case::TlsClose => {
            (format!("connection: close\r\ncontent-length: {}\r\n", page.len()), page)
        }
        Case::Plain | Case::Tls => (format!("content-length: {}\r\n", page.len()), page),
    };
    let usual: String = FIELDS.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("HTTP/1.1 200 OK\r\n{usual}{fields}\r\n");
    [head.into_bytes(), body].concat()
}

fn chunked(page: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for chunk in page.chunks(4000) {
        body.extend(format!("{:x}\r\n", chunk.len()).bytes());
        body.extend(chunk);
        body.extend(b"\r\n");
    }
    body.extend(b"0\r\n\r\n");
    body
}

fn gzip(page: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(page).expect("writes into memory");
    encoder.finish().expect("writes into memory")
}

/// One for all hosts, by an authority whose own certificate goes to the file.
fn certificate(pem: &std::path::Path) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let make = || -> Result<_, rcgen::Error> {
        let mut params = CertificateParams::new(vec![])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let names: Vec<String> = (0..HOSTS).map(host).collect();
        let certificate = CertificateParams::new(names)?.signed_by(&key, &issuer)?;
        Ok((issuer.pem(), certificate.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der())))
    };
    let (authority, certificate, key) = make().expect("a certificate");
    std::fs::write(pem, authority).expect("a file for the certificate");
    (certificate, key.into())
}

fn tls(
    case: Case,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the usual versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a good certificate");
    config.alpn_protocols =
        vec![if case == Case::Http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    if case == Case::TlsClose {
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    config
}
