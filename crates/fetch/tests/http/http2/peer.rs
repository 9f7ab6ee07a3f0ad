//! A server of frames, written one by one: what no library would send can be sent.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lycosa_fetch::HttpFetcher;
use ports::Exchange;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use types::CrawlUrl;

use crate::support::*;
use crate::tls::{Authority, trusting};

/// `:status: 200`, and nothing else.
pub(crate) const OK_FIELDS: &[u8] = &[0x88];

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// Fields of an answer, none of them compressed.
pub(crate) fn head(status: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [(":status", status)].iter().chain(fields) {
        block.push(0);
        put(&mut block, name.as_bytes());
        put(&mut block, value.as_bytes());
    }
    block
}

/// A string: its length in seven bits, or more, then itself.
fn put(block: &mut Vec<u8>, text: &[u8]) {
    if let Some(mut rest) = text.len().checked_sub(127) {
        block.push(127);
        while rest >= 128 {
            block.push((rest % 128 + 128) as u8);
            rest /= 128;
        }
        block.push(rest as u8);
    } else {
        block.push(text.len() as u8);
    }
    block.extend_from_slice(text);
}

/// A server over TLS that speaks HTTP/2 by a script, and HTTP/1.1 with those who ask for it.
pub(crate) struct Http2Server {
    server: Server,
    authority: Authority,
    requests: Arc<AtomicUsize>,
    plain: Arc<AtomicUsize>,
}

impl Http2Server {
    pub(crate) async fn start<F>(
        name: &str,
        script: impl Fn(Peer, usize) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let authority = Authority::new(name);
        let mut config = authority.server_config(&["a.test"]);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let requests = Arc::new(AtomicUsize::new(0));
        let plain = Arc::new(AtomicUsize::new(0));
        let script = Arc::new(script);
        let server = Server::start({
            let (requests, plain) = (Arc::clone(&requests), Arc::clone(&plain));
            move |peer, number| {
                let (acceptor, script) = (acceptor.clone(), Arc::clone(&script));
                let (requests, plain) = (Arc::clone(&requests), Arc::clone(&plain));
                async move {
                    let Ok(mut tls) = acceptor.accept(peer.stream).await else { return };
                    if tls.get_ref().1.alpn_protocol() == Some(b"h2") {
                        return script(Peer { tls, requests, greeted: false }, number).await;
                    }
                    while read_head(&mut tls).await.is_some() {
                        plain.fetch_add(1, Ordering::SeqCst);
                        let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                        tls.write_all(ok).await.unwrap();
                    }
                }
            }
        })
        .await;
        Self { server, authority, requests, plain }
    }

    pub(crate) fn pem(&self) -> PathBuf {
        self.authority.pem.clone()
    }

    pub(crate) fn fetcher(&self) -> HttpFetcher {
        trusting(&self.authority)
    }

    pub(crate) async fn visit(&self, fetcher: &HttpFetcher) -> Exchange {
        let url = format!("https://a.test:{}/", self.server.address.port());
        visit(fetcher, page(CrawlUrl::parse(&url).unwrap())).await
    }

    pub(crate) fn connections(&self) -> usize {
        self.server.connections()
    }

    /// Requests over HTTP/2.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// Requests over HTTP/1.1.
    pub(crate) fn plain_requests(&self) -> usize {
        self.plain.load(Ordering::SeqCst)
    }
}

/// One connection.
pub(crate) struct Peer {
    tls: TlsStream<TcpStream>,
    requests: Arc<AtomicUsize>,
    greeted: bool,
}

impl Peer {
    /// Waits for a request: the number of its stream; none if the client is gone.
    pub(crate) async fn request(&mut self) -> Option<u32> {
        if !self.greeted {
            self.greeted = true;
            let mut preface = [0; 24];
            self.tls.read_exact(&mut preface).await.ok()?;
            self.frame(SETTINGS, 0, 0, &[]).await;
        }
        loop {
            let (kind, flags, stream) = self.read_frame().await?;
            match kind {
                HEADERS => {
                    self.requests.fetch_add(1, Ordering::SeqCst);
                    return Some(stream);
                }
                SETTINGS if flags & 1 == 0 => {
                    self.frame(SETTINGS, 1, 0, &[]).await;
                }
                _ => {}
            }
        }
    }

    async fn read_frame(&mut self) -> Option<(u8, u8, u32)> {
        let mut head = [0; 9];
        self.tls.read_exact(&mut head).await.ok()?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.tls.read_exact(&mut payload).await.ok()?;
        Some((kind, flags, u32::from_be_bytes(stream)))
    }

    /// Sends a frame; whether the client took it.
    pub(crate) async fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.raw(&frame(kind, flags, stream, payload)).await
    }

    pub(crate) async fn raw(&mut self, bytes: &[u8]) -> bool {
        self.tls.write_all(bytes).await.is_ok() && self.tls.flush().await.is_ok()
    }

    /// A whole answer.
    pub(crate) async fn answer(&mut self, stream: u32, fields: &[u8], body: &[u8]) {
        self.frame(HEADERS, END_HEADERS, stream, fields).await;
        self.frame(DATA, END_STREAM, stream, body).await;
    }

    /// Reads what comes until the client closes.
    pub(crate) async fn drain(&mut self) {
        while self.read_frame().await.is_some() {}
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}
