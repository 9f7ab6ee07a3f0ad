//! One request, one answer, byte for byte: the fetcher over real sockets.
//!
//! Each visit in turn: may we go there, is there memory, is a connection open, what came, and
//! what is in it. The parts know nothing of each other; this file is where they meet.
//!
//! Always: one connection per host, one request per visit. A visit is tried a second time, on a
//! fresh connection, only if the first had been closed by the server before a byte was written;
//! when in doubt it is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hyper::client::conn::http1;
use ports::{Clock, Ended, Exchange, Fetcher, Protocol, Request, Response, Spool, Times};
use tokio::time::{Instant, timeout_at};
use types::{ByHost, ByteSize, Fault, Timestamp};

use crate::bandwidth::Bandwidth;
use crate::body::{BodyReader, Coded};
use crate::budget::{Budget, Hold};
use crate::connect::{ConnectError, Connector, Dial, Sockets};
use crate::connection::Connection;
use crate::cookies::CookieJar;
use crate::error::Error;
use crate::exchange::{Answer, Driven, Recorded, Terms};
use crate::guard::Guard;
use crate::head::{self, Introduction, RequestFields};
use crate::limits::{ByteLimits, Limit, Pace, TimeLimits};
use crate::overflow;
use crate::pool::Pool;
use crate::proxy::{NoRoute, Proxies, Route, Routes};
use crate::record::Stream;
use crate::settings::{FetchSettings, NetworkSettings};
use crate::sheet::{RequestSheet, RequestSheets, star_secrets};
use crate::{exchange, http2};

/// Memory that a visit has before it begins: most pages, compressed, need no more.
const FIRST_BYTES: usize = 32 << 10;

/// Longest wait for a turn. A lease lasts fifteen minutes, and what comes after the wait takes five of
/// them at most (`network.timeout_total_large`).
const TURN_WAIT_MAX: Duration = Duration::from_secs(300);

/// What a fetcher is made of.
pub struct FetcherOptions {
    pub network: NetworkSettings,
    pub fetch: FetchSettings,
    pub who: Introduction,
    /// What holds for some hosts only.
    pub sheets: ByHost<RequestSheet>,
    /// How much of a robots.txt is read (`robots.bytes_max`).
    pub robots_bytes_max: ByteSize,
    pub guard: Arc<Guard>,
    /// None where everything goes straight to its server.
    pub proxies: Option<Arc<Proxies>>,
    pub clock: Arc<dyn Clock>,
    /// Where the ends of large answers lie.
    pub spool: Arc<dyn Spool>,
}

/// Fetches over HTTP/1.1, with or without TLS, and over HTTP/2 where a server offers it.
pub struct HttpFetcher {
    guard: Arc<Guard>,
    proxies: Option<Arc<Proxies>>,
    clock: Arc<dyn Clock>,
    fields: RequestFields,
    times: TimeLimits,
    bytes: ByteLimits,
    budget: Arc<Budget>,
    connector: Connector,
    builder: http1::Builder,
    pool: Arc<Pool>,
    reader: BodyReader,
    jar: CookieJar,
    bandwidth: Bandwidth,
    spool: Arc<dyn Spool>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    opened: AtomicU64,
    reused: AtomicU64,
    stale: AtomicU64,
}

/// What a fetcher has done, and holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FetchStats {
    /// Connections opened since the start.
    pub opened: u64,
    /// Visits that took one that was open.
    pub reused: u64,
    /// Open connections that turned out to be closed when they were to be used.
    pub stale: u64,
    /// Connections that wait for their host's next visit.
    pub waiting: usize,
    /// Bytes of the common budget that are in use.
    pub held_bytes: usize,
}

impl HttpFetcher {
    pub fn new(options: &FetcherOptions) -> Result<Self, Error> {
        let from = options.network.source_address.clone();
        Self::with_dial(options, Arc::new(Sockets { from }))
    }

    /// A fetcher whose connections are made by somebody else.
    pub fn with_dial(options: &FetcherOptions, dial: Arc<dyn Dial>) -> Result<Self, Error> {
        let FetcherOptions { network, fetch, who, sheets, robots_bytes_max, .. } = options;
        let sheets = RequestSheets::new(sheets)?;
        let bytes = ByteLimits::new(fetch, robots_bytes_max.as_len());
        let mut builder = http1::Builder::new();
        builder
            .title_case_headers(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .allow_spaces_after_header_name_in_responses(true)
            .ignore_invalid_headers_in_responses(true)
            .max_buf_size(bytes.head + (16 << 10))
            .max_header_size(bytes.head);
        // hyper has room for 100 fields on the stack; another number costs an allocation.
        if fetch.headers_max != 100 {
            builder.max_headers(fetch.headers_max);
        }
        Ok(Self {
            guard: Arc::clone(&options.guard),
            proxies: options.proxies.clone(),
            clock: Arc::clone(&options.clock),
            spool: Arc::clone(&options.spool),
            fields: RequestFields::new(who, fetch, sheets)?,
            times: TimeLimits::new(network),
            bytes,
            budget: Arc::new(Budget::new(fetch.memory_max.as_len())),
            connector: Connector::new(network, fetch.http2, dial)?,
            builder,
            pool: Arc::new(Pool::new(network.keep_alive.get(), network.keep_alive_max)),
            reader: BodyReader::new(fetch.decoded_ratio_max),
            jar: CookieJar::default(),
            bandwidth: Bandwidth::new(network.bandwidth_max.0),
            counts: Counts::default(),
        })
    }

    pub fn stats(&self) -> FetchStats {
        FetchStats {
            opened: self.counts.opened.load(Ordering::Relaxed),
            reused: self.counts.reused.load(Ordering::Relaxed),
            stale: self.counts.stale.load(Ordering::Relaxed),
            waiting: self.pool.len(),
            held_bytes: self.budget.held_bytes(),
        }
    }

    /// Closes the connections that wait for a next visit; how many there were. Visits under way
    /// go on.
    pub fn close_idle(&self) -> usize {
        self.pool.close_all()
    }

    async fn visit(
        &self,
        request: &Request,
        routes: Option<&Routes<'_>>,
        mut hold: Hold,
        visit: &mut Visit<'_>,
    ) -> Result<Exchange, Fault> {
        let begun = Instant::now();
        let mut open = self.pool.take(&request.url, request.address);
        loop {
            let message = self.fields.request(request, self.cookies(request));
            let message = message.ok_or(Fault::Ours("its URL makes no request".into()))?;
            let reused = open.is_some();
            let mut connection = match open.take() {
                Some(connection) => connection,
                None => self.open_by(request, routes, begun).await?,
            };
            visit.tls = connection.tls();
            let pace = Pace::new(&self.times, begun, Instant::now());
            let (bytes, purpose, spool) = (&self.bytes, request.purpose, &self.spool);
            let mut terms = Terms { pace, bytes, purpose, spool };
            let (at, callback) = (&mut visit.sent, &mut *visit.callback);
            let mut sent = |now| {
                *at = Some(now);
                callback(now);
            };
            let driven = connection.exchange(message, &mut terms, &mut hold, &mut sent).await;
            let mut record = connection.take_record();
            star_secrets(&mut record.sent);
            if connection.wants_http1() {
                self.connector.avoid_http2(&request.url);
            }
            if reused {
                let count = match driven {
                    Driven::Stale => &self.counts.stale,
                    _ => &self.counts.reused,
                };
                count.fetch_add(1, Ordering::Relaxed);
            }
            match driven {
                // It can happen once: the next connection is a fresh one.
                Driven::Stale if reused => {}
                Driven::Stale => return Err(Fault::Reset("closed before the request".into())),
                Driven::Broken(fault) => {
                    return Ok(visit.broken(self.clock.now(), record, Ended::Broken(fault)));
                }
                Driven::Answered(answer) => {
                    let ended = match answer.truncated {
                        None => record.last_read_at,
                        Some(_) => None,
                    };
                    let ended = ended.unwrap_or_else(|| self.clock.now());
                    if let Some(server_says) = answer.reusable {
                        self.pool.put(&request.url, request.address, connection, server_says);
                    } else {
                        drop(connection);
                    }
                    let times = visit.times(record.first_byte_at, ended);
                    let exchange = self.answered(times, visit.tls, answer, record, hold).await;
                    self.take_cookies(request, &exchange);
                    return Ok(exchange);
                }
            }
        }
    }

    /// Waits for the line, then for memory. That is a pause of ours: nobody is connected yet, no clock
    /// of the visit runs. It has an end all the same, because whoever waits holds a lease.
    async fn turn(&self) -> Option<Hold> {
        let deadline = Instant::now() + TURN_WAIT_MAX;
        if !self.bandwidth.reserve(deadline).await {
            return None;
        }
        let hold = timeout_at(deadline, self.budget.hold(FIRST_BYTES)).await;
        if hold.is_err() {
            self.bandwidth.settle(0);
        }
        hold.ok()
    }

    fn cookies(&self, request: &Request) -> Option<String> {
        let url = &request.url;
        let wanted = self.fields.sheets.keeps_cookies(url.host());
        wanted.then(|| self.jar.header(url, self.clock.now())).flatten()
    }

    fn take_cookies(&self, request: &Request, exchange: &Exchange) {
        if let Some(response) = &exchange.response
            && self.fields.sheets.keeps_cookies(request.url.host())
        {
            let lines = response.header_values("set-cookie");
            self.jar.take(&request.url, lines, exchange.times.ended);
        }
    }

    /// Opens a connection, by another proxy if one is gone.
    async fn open_by(
        &self,
        request: &Request,
        routes: Option<&Routes<'_>>,
        begun: Instant,
    ) -> Result<Connection, Fault> {
        let Some(routes) = routes else { return self.open(request, None, begun).await };
        let mut begun = begun;
        let mut gone = Fault::Proxy("there is none".into());
        for route in routes.all() {
            match self.open(request, Some(&route), begun).await {
                Err(fault @ Fault::Proxy(_)) => gone = fault,
                opened => return opened,
            }
            begun = Instant::now();
        }
        Err(gone)
    }

    /// Opens a connection within its time.
    async fn open(
        &self,
        request: &Request,
        route: Option<&Route<'_>>,
        begun: Instant,
    ) -> Result<Connection, Fault> {
        let deadline = begun + self.times.connect;
        let connect =
            || timeout_at(deadline, self.connector.connect(&request.url, request.address, route));
        let timeout = |_| match route {
            // Whoever kept us waiting: with another proxy we shall know.
            Some(route) => route.failed("no connection in time"),
            None => Fault::Timeout(Limit::Connect.name().into()),
        };
        let mut connected = connect().await.map_err(timeout)?;
        if let Err(ConnectError::NoFiles) = connected {
            // Those that wait are a convenience, this one is needed.
            let closed = self.pool.close_all();
            tracing::warn!(closed, "no more files may be opened: closed idle connections");
            connected = connect().await.map_err(timeout)?;
        }
        let connected = connected.map_err(|error| match error {
            ConnectError::Fault(fault) => fault,
            ConnectError::NoFiles => Fault::Connect("we have too many files open".into()),
        })?;
        self.counts.opened.fetch_add(1, Ordering::Relaxed);
        let tls = connected.tls;
        match connected.stream {
            Stream::Tls(stream) if connected.http2 => {
                let head_max = self.bytes.head;
                let connection = http2::Connection::new(stream, tls, head_max, &self.clock).await?;
                Ok(Connection::Http2(Box::new(connection)))
            }
            stream => {
                let (builder, clock) = (&self.builder, &self.clock);
                let connection = exchange::Connection::new(stream, tls, builder, clock).await?;
                Ok(Connection::Http1(Box::new(connection)))
            }
        }
    }

    /// Cuts the record to the answer and reads its body.
    async fn answered(
        &self,
        times: Times,
        tls: Option<&'static str>,
        answer: Answer,
        record: Recorded,
        mut hold: Hold,
    ) -> Exchange {
        let (mut received, rest) = match record.overflow {
            Some(overflow) => overflow.close(record.received, answer.end).await,
            None => (record.received, None),
        };
        let end = answer.end.min(received.len());
        // A short answer in a large buffer would hold memory for nothing while it is read.
        if received.capacity() > 2 * received.len() {
            received.shrink_to_fit();
        }
        hold.shrink_to(received.capacity());
        let wire = Bytes::from(received).slice(answer.head.start..end);
        let head_bytes = answer.head.len();
        let headers = head::fields(&wire[..head_bytes]);
        let readable = match &rest {
            Some(rest) => {
                hold.take_seat().await;
                let bytes = head_bytes.saturating_add(answer.limits.held);
                overflow::load(&wire, rest, bytes, &mut hold).await
            }
            None => wire.clone(),
        };
        let coded = Coded {
            wire: &readable,
            start: head_bytes,
            goes_on: rest
                .as_ref()
                .is_some_and(|rest| (readable.len() - wire.len()) as u64 != rest.stored.bytes()),
            chunked: answer.chunked,
            headers: &headers,
            limit: answer.limits.decoded,
        };
        let plain = self.reader.read(&coded, &mut hold).await;
        let body_cut = plain.cut || answer.truncated.is_some();
        let response = Response {
            status: answer.status.as_u16(),
            headers,
            head_bytes,
            body: plain.body,
            truncated: answer.truncated,
            body_cut,
            wire,
            rest,
        };
        Exchange {
            times,
            protocol: answer.protocol,
            tls,
            request: record.sent.into(),
            response: Some(response),
            end: Ended::Answered,
            hold: Some(Box::new(hold)),
        }
    }
}

#[async_trait]
impl Fetcher for HttpFetcher {
    fn let_go(&self) {
        self.close_idle();
    }

    async fn fetch(&self, request: Request, sent: &mut (dyn FnMut(Timestamp) + Send)) -> Exchange {
        let mut visit = Visit { started: self.clock.now(), sent: None, tls: None, callback: sent };
        let routes = match &self.proxies {
            Some(proxies) => proxies.routes(&request.url.host_key(), request.address).await,
            None => Ok(None),
        };
        let over = |end| visit.broken(visit.started, Recorded::default(), end);
        let routes = match routes {
            Ok(routes) => routes,
            Err(NoRoute::Refused(refusal)) => return over(Ended::Refused(refusal)),
            Err(NoRoute::Fault(fault)) => return over(Ended::Broken(fault)),
        };
        let target = routes.as_ref().map_or(request.address, |routes| routes.target);
        if let Err(address) = self.guard.check(target, request.url.port()) {
            return over(Ended::Refused(self.guard.refusal(address)));
        }
        let Some(hold) = self.turn().await else {
            return visit.broken(visit.started, Recorded::default(), Ended::NoTurn);
        };
        visit.started = self.clock.now();
        let exchange = match self.visit(&request, routes.as_ref(), hold, &mut visit).await {
            Ok(exchange) => exchange,
            Err(fault) => visit.broken(self.clock.now(), Recorded::default(), Ended::Broken(fault)),
        };
        let bytes = exchange.response.as_ref();
        let bytes = bytes.map_or(0, |answer| answer.head_bytes as u64 + answer.body_wire_bytes());
        self.bandwidth.settle(bytes);
        exchange
    }
}

/// What is known of a visit while it is under way.
struct Visit<'a> {
    started: Timestamp,
    sent: Option<Timestamp>,
    tls: Option<&'static str>,
    callback: &'a mut (dyn FnMut(Timestamp) + Send),
}

impl Visit<'_> {
    fn times(&self, first_byte: Option<Timestamp>, ended: Timestamp) -> Times {
        Times { started: self.started, sent: self.sent, first_byte, ended }
    }

    fn broken(&self, now: Timestamp, record: Recorded, end: Ended) -> Exchange {
        Exchange {
            times: self.times(record.first_byte_at, now),
            protocol: Protocol::Http11,
            tls: self.tls,
            request: record.sent.into(),
            response: None,
            end,
            hold: None,
        }
    }
}

impl std::fmt::Debug for HttpFetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpFetcher").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for FetcherOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FetcherOptions")
            .field("network", &self.network)
            .field("fetch", &self.fetch)
            .field("who", &self.who)
            .field("sheets", &self.sheets)
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}
