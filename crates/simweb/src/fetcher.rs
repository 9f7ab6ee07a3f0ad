//! What would a real fetcher have seen, and when?
//!
//! A plan is played in the runtime's time, which a simulation has paused: the request leaves,
//! arrives, the answer comes as fast or as slowly as the plan says, and the limits cut where
//! limits cut. No socket is involved, but the bytes are those of the wire, both ways.
//!
//! Always: the journal tells the truth. A request whose first byte has left has an entry, also
//! when this future is dropped a moment later: what is on its way arrives.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ports::{Clock, Ended, Exchange, Fetcher, Protocol, Purpose, Request, Response, Times};
use types::outcome::Truncated;
use types::{CrawlUrl, Fault, Scheme, Timestamp};

use crate::chance::{mix, scale};
use crate::journal::{Arrival, End, Journal, Pending};
use crate::receive::{ACCEPT_ENCODING, fill, request_bytes, respond};
use crate::web::{Ask, Door, Drip, Fate, Framing, Plan, Web};
use crate::wire;

/// What a fetcher puts up with. The defaults are those of the crawler's settings.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub connect: Duration,
    pub first_byte: Duration,
    pub idle: Duration,
    /// From the start to the last byte.
    pub total: Duration,
    /// Least bytes a second, over a window of `rate_window`.
    pub rate_min: u64,
    pub rate_window: Duration,
    /// Bytes of the body that are taken from the wire.
    pub body_bytes_max: u64,
    /// Bytes of the decoded body that are kept for reading.
    pub read_bytes_max: usize,
    /// Bytes of a robots.txt.
    pub robots_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(20),
            idle: Duration::from_secs(20),
            total: Duration::from_secs(30),
            rate_min: 1_024,
            rate_window: Duration::from_secs(10),
            body_bytes_max: 15 * 1024 * 1024,
            read_bytes_max: 2 * 1024 * 1024,
            robots_bytes_max: 500 * 1024,
        }
    }
}

/// A fetcher in process and in virtual time.
pub struct SimFetcher {
    web: Arc<dyn Web>,
    clock: Arc<dyn Clock>,
    journal: Journal,
    limits: Limits,
    user_agent: String,
    /// Longest way to a server, and the seed that spreads the servers.
    latency: (u64, Duration),
    /// The one open connection of each host.
    open: Mutex<HashMap<Box<str>, Connection>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Connection {
    id: u64,
    address: IpAddr,
    port: u16,
    tls: bool,
    idle_since: Timestamp,
}

/// A server closes an idle connection after this (as ours does).
const IDLE_MAX: Duration = Duration::from_secs(75);
/// Idle connections that are kept; beyond, all of them are closed.
const CONNECTIONS_MAX: usize = 20_000;

impl std::fmt::Debug for SimFetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimFetcher").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl SimFetcher {
    pub fn new(web: Arc<dyn Web>, clock: Arc<dyn Clock>, journal: Journal) -> Self {
        Self {
            web,
            clock,
            journal,
            limits: Limits::default(),
            user_agent: "Mozilla/5.0 (compatible; lycosa/0.1; +mailto:test@a.test)".to_owned(),
            latency: (0, Duration::ZERO),
            open: Mutex::default(),
        }
    }

    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    pub fn with_user_agent(mut self, user_agent: &str) -> Self {
        user_agent.clone_into(&mut self.user_agent);
        self
    }

    /// Servers lie up to `one_way_max` away, each at its own distance, in whole milliseconds.
    pub fn with_latency(mut self, seed: u64, one_way_max: Duration) -> Self {
        self.latency = (seed, one_way_max);
        self
    }

    fn one_way(&self, address: IpAddr) -> Duration {
        let (seed, most) = self.latency;
        let millis = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        if millis == 0 {
            return Duration::ZERO;
        }
        let place = match address {
            IpAddr::V4(v4) => u64::from(u32::from(v4)),
            IpAddr::V6(v6) => u128::from(v6) as u64,
        };
        // Timers have a resolution of one millisecond; a finer latency would not come true.
        Duration::from_millis(scale(mix(seed, place), millis + 1))
    }

    fn take_connection(&self, url: &CrawlUrl, address: IpAddr) -> (Connection, bool) {
        let mut open = self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let tls = url.scheme() == Scheme::Https;
        let now = self.clock.now();
        let wanted = |c: &Connection| {
            (c.address, c.port, c.tls) == (address, url.port(), tls)
                && now.since(c.idle_since) < IDLE_MAX
        };
        match open.remove(url.host()) {
            Some(known) if wanted(&known) => (known, false),
            _ => {
                let id = self.journal.connection();
                (Connection { id, address, port: url.port(), tls, idle_since: now }, true)
            }
        }
    }

    fn keep_connection(&self, host: &str, mut connection: Connection) {
        connection.idle_since = self.clock.now();
        let mut open = self.open.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if open.len() >= CONNECTIONS_MAX {
            open.clear();
        }
        open.insert(host.into(), connection);
    }
}

#[async_trait]
impl Fetcher for SimFetcher {
    async fn fetch(&self, request: Request, sent: &mut (dyn FnMut(Timestamp) + Send)) -> Exchange {
        let started = self.clock.now();
        let one_way = self.one_way(request.address);
        let wire = request_bytes(&request, &self.user_agent);
        let mut visit = Visit {
            fetcher: self,
            request: &request,
            one_way,
            times: Times { started, sent: None, first_byte: None, ended: started },
        };
        let came = visit.run(sent).await;
        let (response, end) = match came {
            Ok(response) => (Some(response), Ended::Answered),
            Err(fault) => (None, Ended::Broken(fault)),
        };
        let mut times = visit.times;
        times.ended = self.clock.now();
        Exchange {
            times,
            protocol: Protocol::Http11,
            tls: (request.url.scheme() == Scheme::Https).then_some("TLSv1.3"),
            request: wire,
            response,
            end,
            hold: None,
        }
    }
}

/// One exchange under way.
struct Visit<'a> {
    fetcher: &'a SimFetcher,
    request: &'a Request,
    one_way: Duration,
    times: Times,
}

impl Visit<'_> {
    async fn run(&mut self, sent: &mut (dyn FnMut(Timestamp) + Send)) -> Result<Response, Fault> {
        let connection = self.connect().await?;
        let left = self.fetcher.clock.now();
        self.times.sent = Some(left);
        sent(left);
        // The request is on its way: from here on it has an entry, come what may.
        let pending = self.fetcher.journal.begin(&Arrival {
            at: left + self.one_way,
            host: self.request.url.host(),
            address: connection.address,
            port: connection.port,
            tls: connection.tls,
            path: self.request.url.path_and_query(),
            user_agent: &self.fetcher.user_agent,
            connection: connection.id,
        });
        let plan = self.ask(&pending, left + self.one_way);
        pause(self.one_way).await;
        if let Err(fault) = self.head(&plan).await {
            if plan.framing == Framing::Raw && plan.fate == Fate::Whole {
                let (at, body_bytes) = (self.fetcher.clock.now(), plan.body.len());
                pending.finish(&End { at, status: 0, head_bytes: 0, body_bytes, aborted: false });
            }
            return Err(fault);
        }
        let (response, complete) = self.body(&plan, pending).await?;
        if complete && !plan.ends_connection() {
            self.fetcher.keep_connection(self.request.url.host(), connection);
        }
        Ok(response)
    }

    async fn connect(&self) -> Result<Connection, Fault> {
        let url = &self.request.url;
        let tls = url.scheme() == Scheme::Https;
        let limits = &self.fetcher.limits;
        match self.fetcher.web.door(url.host(), url.port(), tls) {
            Door::Open => {}
            Door::Refused => {
                pause(2 * self.one_way).await;
                return Err(Fault::Connect("connection refused".into()));
            }
            Door::Silent => {
                pause(limits.connect).await;
                return Err(Fault::Timeout("connect".into()));
            }
            Door::BadCertificate => {
                pause(4 * self.one_way).await;
                return Err(Fault::Tls("the certificate is for another name".into()));
            }
        }
        let (connection, fresh) = self.fetcher.take_connection(url, self.request.address);
        if fresh {
            // A round trip for TCP, another for TLS 1.3.
            pause(if tls { 4 } else { 2 } * self.one_way).await;
        }
        Ok(connection)
    }

    fn ask(&self, pending: &Pending, at: Timestamp) -> Plan {
        let url = &self.request.url;
        let validators = &self.request.validators;
        let mut headers = vec![
            ("user-agent", self.fetcher.user_agent.as_str()),
            ("accept-encoding", ACCEPT_ENCODING),
        ];
        headers.extend(validators.etag.iter().map(|etag| ("if-none-match", &**etag)));
        headers.extend(validators.last_modified.iter().map(|at| ("if-modified-since", &**at)));
        self.fetcher.web.answer(&Ask {
            host: url.host(),
            port: url.port(),
            tls: url.scheme() == Scheme::Https,
            target: url.path_and_query(),
            headers: &headers,
            nth: pending.nth(),
            at,
        })
    }

    /// Waits for the head, or for whatever comes instead.
    async fn head(&mut self, plan: &Plan) -> Result<(), Fault> {
        let limits = &self.fetcher.limits;
        let waited =
            self.times.sent.map_or(Duration::ZERO, |at| self.fetcher.clock.now().since(at));
        let comes_after = waited + plan.delay + self.one_way;
        let patience = limits.first_byte.min(limits.total);
        if plan.fate == Fate::Mute || comes_after > patience {
            pause(patience.saturating_sub(waited)).await;
            return Err(Fault::Timeout("first byte".into()));
        }
        pause(plan.delay).await;
        match (plan.fate, plan.framing) {
            (Fate::Reset(None), _) => {
                pause(self.one_way).await;
                Err(Fault::Reset("connection reset by the server".into()))
            }
            (Fate::Cut(None), _) => {
                pause(self.one_way).await;
                Err(Fault::Reset("closed before an answer".into()))
            }
            (_, Framing::Raw) => {
                pause(self.one_way).await;
                self.times.first_byte = Some(self.fetcher.clock.now());
                Err(Fault::BadHttp("the answer does not begin with HTTP/".into()))
            }
            _ => {
                self.times.first_byte = Some(self.fetcher.clock.now() + self.one_way);
                Ok(())
            }
        }
    }

    /// Takes the body as far as plan and limits let it come.
    async fn body(&mut self, plan: &Plan, pending: Pending) -> Result<(Response, bool), Fault> {
        let limits = &self.fetcher.limits;
        let most = match self.request.purpose {
            Purpose::Page => limits.body_bytes_max,
            // One more, by which the reader sees that there is more.
            Purpose::Robots => limits.robots_bytes_max + 1,
        };
        let mut wire = wire::head(plan);
        let head_bytes = wire.len();
        let (given, fate_cuts) = match plan.fate {
            Fate::Cut(Some(bytes)) | Fate::Reset(Some(bytes)) => (bytes, true),
            _ => (u64::MAX, false),
        };
        let arrives = self.arrives(plan);
        let take = given.min(most).min(arrives.bytes);
        let whole = fill(&mut wire, plan, take);
        let truncated = match whole {
            true => None,
            false if take == arrives.bytes && take < given => Some(Truncated::Time),
            false if take == given && fate_cuts => Some(Truncated::Disconnect),
            false => Some(Truncated::Length),
        };
        let body_bytes = (wire.len() - head_bytes) as u64;
        pause(arrives.after(body_bytes, truncated)).await;
        pending.finish(&End {
            at: self.fetcher.clock.now(),
            status: plan.status,
            head_bytes: head_bytes as u64,
            body_bytes,
            aborted: truncated.is_some(),
        });
        pause(self.one_way).await;
        let response = respond(plan, wire.freeze(), head_bytes, truncated, limits.read_bytes_max);
        Ok((response, truncated.is_none()))
    }

    /// How much of the body a patient reader gets before a limit of time, and when.
    fn arrives(&self, plan: &Plan) -> Arriving {
        let Some(drip) = plan.drip else {
            return Arriving { bytes: u64::MAX, patience: Duration::ZERO, drip: None };
        };
        let limits = &self.fetcher.limits;
        let spent = self.fetcher.clock.now().since(self.times.started);
        let mut patience = limits.total.saturating_sub(spent);
        let per_window =
            limits.rate_window.as_secs_f64() / drip.every.as_secs_f64() * f64::from(drip.bytes);
        if per_window < limits.rate_min as f64 * limits.rate_window.as_secs_f64() {
            patience = patience.min(limits.rate_window);
        }
        if drip.every > limits.idle {
            patience = patience.min(limits.idle);
        }
        let drops = (patience.as_nanos() / drip.every.as_nanos().max(1)) as u64 + 1;
        Arriving { bytes: drops * u64::from(drip.bytes), patience, drip: Some(drip) }
    }
}

/// The pace of a body.
#[derive(Debug, Clone, Copy)]
struct Arriving {
    bytes: u64,
    patience: Duration,
    drip: Option<Drip>,
}

impl Arriving {
    /// When the last of so many bytes has come, or the reader has given up on more.
    fn after(&self, bytes: u64, truncated: Option<Truncated>) -> Duration {
        match self.drip {
            _ if truncated == Some(Truncated::Time) => self.patience,
            None => Duration::ZERO,
            Some(drip) => {
                let pauses = bytes.div_ceil(u64::from(drip.bytes.max(1))).saturating_sub(1);
                drip.every * u32::try_from(pauses).unwrap_or(u32::MAX)
            }
        }
    }
}

/// A pause of nothing is none: it would let others run first, and cost a timer.
async fn pause(span: Duration) {
    if span > Duration::ZERO {
        tokio::time::sleep(span).await;
    }
}
