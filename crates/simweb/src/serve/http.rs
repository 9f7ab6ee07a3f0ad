//! How does one connection go?
//!
//! Request, answer, request, answer, one at a time. A request has arrived when the kernel took it
//! in (see `stamped`); an answer has ended when its last byte was taken by the socket. While the
//! server waits on purpose (slow, mute, dripping), it notices when the client leaves.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use ports::Clock;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use types::Timestamp;

use super::Server;
use super::head::{self, HEAD_BYTES_MAX, Head};
use super::http2;
use super::socket;
use super::stamped::Stamped;
use super::tls::HTTP2;
use crate::journal::{Arrival, End, Pending};
use crate::web::{Ask, Fate, Framing, Plan};
use crate::wire;

/// Open connections of one listener; more wait in the backlog.
const CONNECTIONS_MAX: usize = 50_000;
/// An idle connection is closed after this, as common servers do.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(75);
/// How long a request may take to come in, or a TLS handshake.
const HEAD_MAX: Duration = Duration::from_secs(30);
/// Nobody waits longer for a server that never answers.
pub(super) const MUTE_MAX: Duration = Duration::from_secs(3_600);
/// Larger answers go out piece by piece instead of in one write.
const ONE_WRITE_BYTES: u64 = 128 * 1024;

/// Takes connections until told to stop, then ends them all.
pub(super) async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    server: Arc<Server>,
    mut stopped: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stopped.changed() => break,
            accepted = accept_one(&listener, &room) => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, place)) = accepted else {
            // Out of file handles, most likely: let some connections end first.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let (server, tls) = (Arc::clone(&server), tls.clone());
        connections.spawn(async move {
            // How a connection ended is in the journal; the error says no more.
            let _ = welcome(stream, tls, server).await;
            drop(place);
        });
    }
    connections.shutdown().await;
}

async fn accept_one(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

async fn welcome(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    server: Arc<Server>,
) -> io::Result<()> {
    if !socket::is_local(&stream) {
        return Ok(());
    }
    stream.set_nodelay(true)?;
    let local = stream.local_addr()?;
    let id = server.journal.connection();
    let (address, port) = (local.ip(), local.port());
    let stream = Stamped::new(stream);
    match tls {
        None => Connection::new(stream, server, address, port, false, id).run().await,
        Some(acceptor) => {
            let stream = tokio::time::timeout(HEAD_MAX, acceptor.accept(stream)).await??;
            let session = stream.get_ref().1;
            server.handshakes.count(session.handshake_kind());
            if session.alpn_protocol() == Some(HTTP2) {
                return http2::serve(stream, server, address, port, id).await;
            }
            Connection::new(stream, server, address, port, true, id).run().await
        }
    }
}

/// A stream over TCP.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {
    fn below(&self) -> &Stamped;
}

impl Stream for Stamped {
    fn below(&self) -> &Stamped {
        self
    }
}

impl Stream for TlsStream<Stamped> {
    fn below(&self) -> &Stamped {
        self.get_ref().0
    }
}

struct Connection<S> {
    stream: S,
    server: Arc<Server>,
    address: IpAddr,
    port: u16,
    tls: bool,
    id: u64,
    buffer: BytesMut,
    /// When the last bytes went out, taken before they did: a server that is put aside between a
    /// write and its look at the clock would find the client's next pause too short.
    wrote: Timestamp,
}

/// What comes after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Next,
    Close,
    Tear,
}

impl<S: Stream> Connection<S> {
    fn new(stream: S, server: Arc<Server>, address: IpAddr, port: u16, tls: bool, id: u64) -> Self {
        Self {
            stream,
            server,
            address,
            port,
            tls,
            id,
            buffer: BytesMut::with_capacity(2_048),
            wrote: Timestamp::ZERO,
        }
    }

    async fn run(mut self) -> io::Result<()> {
        while let Some((arrived, end)) = self.next_head().await? {
            let head = self.buffer.split_to(end);
            match self.answer(&head, arrived).await? {
                After::Next => {}
                After::Close => {
                    // A TLS client may be gone already.
                    let _ = self.stream.shutdown().await;
                    return Ok(());
                }
                After::Tear => {
                    socket::tear(self.stream.below().tcp());
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Waits for a whole head: when its first bytes came, and where it ends in the buffer.
    async fn next_head(&mut self) -> io::Result<Option<(Timestamp, usize)>> {
        if self.buffer.is_empty() {
            let read = self.stream.read_buf(&mut self.buffer);
            match tokio::time::timeout(IDLE_MAX, read).await {
                Ok(Ok(1..)) => {}
                Ok(Err(error)) => return Err(error),
                Ok(Ok(0)) | Err(_) => return Ok(None),
            }
        }
        let arrived = self.server.clock.at(self.stream.below().came());
        loop {
            if let Some(end) = head::end(&self.buffer) {
                return Ok(Some((arrived, end)));
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                self.refuse(431).await?;
                return Ok(None);
            }
            let read = self.stream.read_buf(&mut self.buffer);
            if tokio::time::timeout(HEAD_MAX, read).await?? == 0 {
                return Ok(None);
            }
        }
    }

    async fn answer(&mut self, head: &[u8], arrived: Timestamp) -> io::Result<After> {
        let Some(head) = head::parse(head) else {
            self.refuse(400).await?;
            return Ok(After::Close);
        };
        let host = lower(head.host);
        let pending = self.server.journal.begin(&Arrival {
            at: arrived,
            host: &host,
            address: self.address,
            port: self.port,
            tls: self.tls,
            path: head.target,
            user_agent: head.header("user-agent").unwrap_or(""),
            connection: self.id,
        });
        let mut plan = match head.method {
            "GET" | "HEAD" => self.server.web.answer(&Ask {
                host: &host,
                port: self.port,
                tls: self.tls,
                target: head.target,
                headers: &head.headers,
                nth: pending.nth(),
                at: arrived,
            }),
            _ => Plan::brief(405),
        };
        plan.close |= head.closes;
        self.play(&head, &plan, pending).await
    }

    /// Makes the plan come true.
    async fn play(&mut self, head: &Head<'_>, plan: &Plan, pending: Pending) -> io::Result<After> {
        if !self.wait(plan.delay).await {
            return Ok(After::Close);
        }
        let before_any = match plan.fate {
            Fate::Mute => {
                self.wait(MUTE_MAX).await;
                Some(After::Close)
            }
            Fate::Cut(None) => Some(After::Close),
            Fate::Reset(None) => Some(After::Tear),
            _ => None,
        };
        if let Some(after) = before_any {
            return Ok(after);
        }
        let most = match plan.fate {
            Fate::Cut(Some(bytes)) | Fate::Reset(Some(bytes)) => bytes,
            _ if head.method == "HEAD" => 0,
            _ => u64::MAX,
        };
        let (sent, done) = match plan.drip {
            None => self.send(plan, most).await,
            Some(_) => self.drip(plan, most).await,
        };
        let broken = done.is_err() || plan.fate != Fate::Whole;
        pending.finish(&End {
            at: if done.is_ok() { self.wrote } else { self.server.clock.now() },
            status: if plan.framing == Framing::Raw { 0 } else { plan.status },
            head_bytes: wire::head(plan).len() as u64,
            body_bytes: sent,
            aborted: broken,
        });
        done?;
        Ok(match plan.fate {
            Fate::Reset(_) => After::Tear,
            _ if plan.ends_connection() => After::Close,
            _ => After::Next,
        })
    }

    /// All at once, or as fast as the client reads. Says how much of the body went out.
    async fn send(&mut self, plan: &Plan, most: u64) -> (u64, io::Result<()>) {
        let mut out = wire::head(plan);
        let mut sent = 0;
        for piece in wire::pieces(plan) {
            let take = usize::try_from((most - sent).min(piece.len() as u64))
                .expect("no longer than the piece");
            if take == 0 {
                break;
            }
            if out.len() as u64 + take as u64 > ONE_WRITE_BYTES {
                if let Err(error) = self.write(&out).await {
                    return (sent, Err(error));
                }
                out.clear();
            }
            if take as u64 > ONE_WRITE_BYTES {
                if let Err(error) = self.write(&piece[..take]).await {
                    return (sent, Err(error));
                }
            } else {
                out.extend_from_slice(&piece[..take]);
            }
            sent += take as u64;
        }
        let done = self.write(&out).await;
        (sent, done)
    }

    /// The head, then drop by drop.
    async fn drip(&mut self, plan: &Plan, most: u64) -> (u64, io::Result<()>) {
        let drop_bytes = plan.drip.map_or(usize::MAX, |drip| drip.bytes.max(1) as usize);
        let every = plan.drip.map_or(Duration::ZERO, |drip| drip.every);
        let mut sent = 0;
        let mut left_over = BytesMut::new();
        let mut pieces = wire::pieces(plan).peekable();
        if let Err(error) = self.write(&wire::head(plan)).await {
            return (sent, Err(error));
        }
        loop {
            while left_over.len() < drop_bytes && pieces.peek().is_some() {
                left_over.extend(pieces.next());
            }
            let room = usize::try_from(most - sent).unwrap_or(usize::MAX);
            let next = left_over.split_to(left_over.len().min(drop_bytes).min(room));
            if next.is_empty() {
                return (sent, Ok(()));
            }
            if sent > 0 && !self.wait(every).await {
                return (sent, Err(io::ErrorKind::ConnectionAborted.into()));
            }
            if let Err(error) = self.write(&next).await {
                return (sent, Err(error));
            }
            sent += next.len() as u64;
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.wrote = self.server.clock.now();
        self.stream.write_all(bytes).await?;
        self.stream.flush().await?;
        if bytes.len() as u64 > ONE_WRITE_BYTES {
            // So much waits for the client to read.
            self.wrote = self.server.clock.now();
        }
        Ok(())
    }

    async fn refuse(&mut self, status: u16) -> io::Result<()> {
        let plan = Plan { close: true, framing: Framing::Length, ..Plan::brief(status) };
        self.send(&plan, u64::MAX).await.1
    }

    /// Whether the client is still there after this time. What it sends meanwhile is kept.
    async fn wait(&mut self, span: Duration) -> bool {
        if span.is_zero() {
            return true;
        }
        let over = tokio::time::sleep(span);
        tokio::pin!(over);
        loop {
            if self.buffer.len() > HEAD_BYTES_MAX {
                over.await;
                return true;
            }
            tokio::select! {
                () = &mut over => return true,
                read = self.stream.read_buf(&mut self.buffer) => {
                    if matches!(read, Ok(0) | Err(_)) {
                        return false;
                    }
                }
            }
        }
    }
}

/// Most clients write hosts in lower case; only others cost an allocation.
pub(super) fn lower(host: &str) -> std::borrow::Cow<'_, str> {
    if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        host.to_ascii_lowercase().into()
    } else {
        host.into()
    }
}
