//! How does a web of ours answer on real sockets?
//!
//! One plain and one TLS listener serve every address of 127.0.0.0/8 on one port each, so a world
//! of a million hosts needs two sockets; a name server tells who lives where. All of it stays on
//! loopback: the listeners are bound to the loopback device where the system allows it, and a
//! connection whose ends are not both loopback is dropped in any case.
//!
//! Hosts that refuse connections live on a third port, which is bound (so nobody else gets it)
//! but not listened on: the kernel answers with a reset, as for any closed port.
//!
//! Always: what a plan says happens on the wire; delays, drips, cuts and resets are real ones.

mod dns;
mod head;
mod http;
mod http2;
pub mod proxy;
mod socket;
mod stamped;
mod tls;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ports::Clock;
use rustls::HandshakeKind;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::clock::ServerClock;
use crate::crowd::Crowd;
use crate::fixture::Fixture;
use crate::journal::Journal;
use crate::spec::WorldSpec;
use crate::web::Web;
use crate::world::World;

/// The journal's file is never further behind than this.
const FLUSH_EVERY: Duration = Duration::from_millis(100);

/// What to serve, and where.
#[derive(Debug, Clone, Default)]
pub struct ServeOptions {
    pub source: Source,
    /// 0 takes a free port.
    pub http_port: u16,
    pub https_port: u16,
    pub dns_port: u16,
    /// Where `simweb-ca.pem` is written; the current folder by default.
    pub ca_dir: Option<PathBuf>,
    /// Requests as JSON lines.
    pub journal: Option<PathBuf>,
    /// Also keep the journal in memory, for [`Running::journal`].
    pub journal_in_memory: bool,
    /// How many seeds the ready line names; 1 if 0.
    pub seeds: usize,
    /// Whether HTTP/2 is spoken over TLS with whoever can.
    pub http2: bool,
}

/// Which web.
#[derive(Debug, Clone)]
pub enum Source {
    /// Its ports are set to those that are served.
    World(WorldSpec),
    Fixture(Fixture),
    Crowd(Crowd),
}

impl Default for Source {
    fn default() -> Self {
        Self::World(WorldSpec::default())
    }
}

/// The line that says: now you may ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    pub http: u16,
    pub https: u16,
    /// A port on which nobody listens.
    pub closed: u16,
    /// `127.0.0.1:port`, UDP and TCP.
    pub dns: SocketAddr,
    /// The certificate to trust, as PEM.
    pub ca: PathBuf,
    pub seed_urls: Vec<String>,
}

/// A web that is being served. Stops when told to, or when dropped.
#[derive(Debug)]
pub struct Running {
    ready: Ready,
    journal: Journal,
    handshakes: Arc<Handshakes>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    /// Keeps the closed port closed for everyone.
    _closed: socket2::Socket,
}

/// What all connections share.
pub(crate) struct Server {
    pub(crate) web: Arc<dyn Web>,
    pub(crate) clock: ServerClock,
    pub(crate) journal: Journal,
    pub(crate) handshakes: Arc<Handshakes>,
}

/// How often a TLS session was begun, and how often one was taken up again.
#[derive(Debug, Default)]
pub struct Handshakes {
    full: AtomicU64,
    resumed: AtomicU64,
}

impl Handshakes {
    pub fn full(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }

    pub fn resumed(&self) -> u64 {
        self.resumed.load(Ordering::Relaxed)
    }

    fn count(&self, kind: Option<HandshakeKind>) {
        match kind {
            Some(HandshakeKind::Resumed) => &self.resumed,
            _ => &self.full,
        }
        .fetch_add(1, Ordering::Relaxed);
    }
}

/// Serves until standard input ends or the process is told to terminate. Prints one JSON line
/// ([`Ready`]) when requests may come.
pub async fn run(options: ServeOptions) -> io::Result<()> {
    let running = start(options).await?;
    println!("{}", serde_json::to_string(running.ready())?);
    stop_signal().await?;
    running.stop().await
}

/// Serves in this process.
pub async fn start(options: ServeOptions) -> io::Result<Running> {
    let plain = socket::listen(options.http_port)?;
    let secret = socket::listen(options.https_port)?;
    let closed = socket::reserve()?;
    let names = dns::bind(options.dns_port).await?;
    let (http, https) = (plain.local_addr()?.port(), secret.local_addr()?.port());
    let closed_port = socket::port_of(&closed)?;
    let wanted = options.seeds.max(1);
    let (web, seed_urls): (Arc<dyn Web>, _) = match options.source {
        Source::World(spec) => {
            let world = World::new(spec.with_ports(http, https, closed_port));
            let seeds = world.seeds(wanted);
            (Arc::new(world), seeds)
        }
        Source::Fixture(fixture) => {
            let fixture = fixture.with_ports(http, https, closed_port);
            let seeds = fixture.seeds();
            (Arc::new(fixture), seeds)
        }
        Source::Crowd(crowd) => {
            let crowd = crowd.with_port(http);
            let seeds = crowd.seeds();
            (Arc::new(crowd), seeds)
        }
    };
    let authority = tls::Authority::new(Arc::clone(&web))?;
    let ca = options.ca_dir.as_deref().unwrap_or(Path::new(".")).join("simweb-ca.pem");
    std::fs::write(&ca, authority.pem())?;
    let clock = ServerClock::new();
    let shared_clock: Arc<dyn Clock> = Arc::new(clock);
    let journal = match &options.journal {
        Some(path) => Journal::to_file(shared_clock, path, options.journal_in_memory)?,
        None if options.journal_in_memory => Journal::new(shared_clock),
        None => Journal::nowhere(shared_clock),
    };
    let ready = Ready { http, https, closed: closed_port, dns: names.address()?, ca, seed_urls };
    let handshakes = Arc::new(Handshakes::default());
    let server = Arc::new(Server {
        web: Arc::clone(&web),
        clock,
        journal: journal.clone(),
        handshakes: Arc::clone(&handshakes),
    });
    let (stop, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    tasks.spawn(http::accept(plain, None, Arc::clone(&server), stopped.clone()));
    let acceptor = Some(authority.acceptor(options.http2)?);
    tasks.spawn(http::accept(secret, acceptor, server, stopped.clone()));
    tasks.spawn(names.run(web, stopped.clone()));
    tasks.spawn(keep_flushing(journal.clone(), stopped));
    Ok(Running { ready, journal, handshakes, stop, tasks, _closed: closed })
}

impl Running {
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    pub fn handshakes(&self) -> &Handshakes {
        &self.handshakes
    }

    /// Where a host's pages are, as a client without a name server must know.
    pub fn http_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ready.http).into()
    }

    /// Ends all connections and leaves the journal complete.
    pub async fn stop(mut self) -> io::Result<()> {
        // Nobody listening means that all tasks have ended already.
        let _ = self.stop.send(true);
        while self.tasks.join_next().await.is_some() {}
        self.journal.flush()
    }
}

async fn keep_flushing(journal: Journal, mut stopped: watch::Receiver<bool>) {
    let mut tick = tokio::time::interval(FLUSH_EVERY);
    loop {
        tokio::select! {
            biased;
            _ = stopped.changed() => return,
            _ = tick.tick() => {
                if let Err(error) = journal.flush() {
                    panic!("write the journal: {error}");
                }
            }
        }
    }
}

/// The end of standard input, SIGTERM or Ctrl-C.
async fn stop_signal() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut ignored = [0; 64];
    let mut stdin = tokio::io::stdin();
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            read = stdin.read(&mut ignored) => match read {
                Ok(0) | Err(_) => return Ok(()),
                Ok(_) => {}
            },
        }
    }
}
