//! How does a worker reach its frontier?

use std::time::Duration;

use async_trait::async_trait;
use engine::SteadyClock;
use engine::report::Report;
use engine::roles::crew::{Membership, Verdict};
use engine::roles::outpost::{Link, LinkError};
use frontier::Lease;
use ports::Clock as _;
use tokio::sync::mpsc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};
use types::{Timestamp, VisitId};
use wire::lycosa as api;
use wire::lycosa::frontier_client::FrontierClient;

use super::{REPORT_BYTES_MAX, translate};

/// Longest wait for a connection, and for an answer.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(60);
/// A connection over which nothing came for so long is asked whether it is alive.
const ALIVE: Duration = Duration::from_secs(10);
/// Reports are sent in requests of about this many bytes.
const REQUEST_BYTES: usize = 1 << 20;

/// A frontier in another process.
#[derive(Debug, Clone)]
pub struct RemoteFrontier {
    client: FrontierClient<InterceptedService<Channel, Key>>,
    name: String,
    clock: SteadyClock,
}

/// Where it is, and how it lets us in.
#[derive(Debug, Clone, Default)]
pub struct Address {
    /// `http://host:port`, or `https://…` with TLS.
    pub url: String,
    pub token: Option<String>,
    /// Certificates of our own that are trusted, as PEM; then no others are.
    pub authority: Option<Vec<u8>>,
}

impl RemoteFrontier {
    /// Connects when it is first used.
    ///
    /// # Errors
    /// When the address or the token cannot be used.
    pub fn new(address: &Address, name: &str, clock: SteadyClock) -> Result<Self, String> {
        let url = &address.url;
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err("it has no scheme".to_owned());
        }
        let endpoint = Endpoint::from_shared(url.clone()).map_err(|error| error.to_string())?;
        let mut endpoint = endpoint
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(ALIVE)
            .keep_alive_timeout(ALIVE)
            .keep_alive_while_idle(true);
        if url.starts_with("https://") {
            let mut tls = ClientTlsConfig::new();
            if let Some(pem) = &address.authority {
                tls = tls.ca_certificate(Certificate::from_pem(pem));
            }
            endpoint = endpoint.tls_config(tls).map_err(|error| error.to_string())?;
        }
        let token = address.token.as_ref().map(|token| format!("Bearer {token}").parse());
        let token = token.transpose().map_err(|_| "the token cannot be sent in a header")?;
        let channel = endpoint.connect_lazy();
        let client = FrontierClient::with_interceptor(channel, Key(token))
            .max_encoding_message_size(REPORT_BYTES_MAX);
        Ok(Self { client, name: name.to_owned(), clock })
    }
}

/// What lets us in.
#[derive(Clone)]
struct Key(Option<MetadataValue<Ascii>>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Interceptor for Key {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

fn within<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(ANSWER);
    request
}

/// Waits for an answer, but not for ever: a frontier that is frozen keeps its connections.
async fn answered<T>(
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, LinkError> {
    match tokio::time::timeout(ANSWER, call).await {
        Ok(answer) => answer.map(tonic::Response::into_inner).map_err(|status| trouble(&status)),
        Err(_) => Err(LinkError::Away("no answer".to_owned())),
    }
}

fn trouble(status: &Status) -> LinkError {
    let said = || format!("{}: {}", status.code(), status.message());
    match status.code() {
        Code::NotFound => LinkError::Gone,
        Code::Unauthenticated
        | Code::PermissionDenied
        | Code::InvalidArgument
        | Code::Unimplemented
        | Code::OutOfRange => LinkError::Refused(format!("the frontier refuses us: {}", said())),
        _ => LinkError::Away(said()),
    }
}

#[async_trait]
impl Link for RemoteFrontier {
    async fn join(&self, capacity: usize) -> Result<Membership, LinkError> {
        let capacity = u32::try_from(capacity).unwrap_or(u32::MAX);
        let request = within(api::JoinRequest { name: self.name.clone(), capacity });
        let joined = answered(self.client.clone().join(request)).await?;
        let crawl_id: [u8; 16] = joined
            .crawl_id
            .try_into()
            .map_err(|_| LinkError::Refused("the frontier does not name its crawl".to_owned()))?;
        Ok(Membership {
            session: joined.session,
            capacity: joined.capacity as usize,
            lease: Duration::from_millis(joined.lease_ms),
            crawl_id: u128::from_be_bytes(crawl_id),
            product: joined.product,
        })
    }

    async fn tasks(&self, membership: &Membership) -> Result<mpsc::Receiver<Lease>, LinkError> {
        let (send, receive) = mpsc::channel(membership.capacity.max(1));
        let request = Request::new(api::WorkerId { session: membership.session });
        let mut stream = answered(self.client.clone().get_crawl_tasks(request)).await?;
        let clock = self.clock;
        tokio::spawn(async move {
            loop {
                match stream.message().await {
                    Ok(Some(task)) => {
                        let Some(lease) = translate::lease(&task, clock.now()) else {
                            tracing::error!(visit = task.visit, url = task.url, "task is no task");
                            continue;
                        };
                        if send.send(lease).await.is_err() {
                            return;
                        }
                    }
                    Ok(None) => return,
                    Err(status) => {
                        tracing::debug!(%status, "stream of tasks broke");
                        return;
                    }
                }
            }
        });
        Ok(receive)
    }

    async fn report(&self, session: u64, reports: &[Report]) -> Result<Vec<Verdict>, LinkError> {
        let mut verdicts = Vec::with_capacity(reports.len());
        let mut group = Vec::new();
        let mut bytes = 0;
        let mut reports = reports.iter().peekable();
        while let Some(report) = reports.next() {
            let told = translate::report(report);
            bytes += told.links.iter().map(String::len).sum::<usize>()
                + told.robots.as_ref().map_or(0, Vec::len)
                + 1_024;
            group.push(told);
            if bytes >= REQUEST_BYTES || reports.peek().is_none() {
                let now_us = self.clock.now().micros();
                let reports = std::mem::take(&mut group);
                let count = reports.len();
                let request = within(api::ReportRequest { session, now_us, reports });
                let ack = answered(self.client.clone().report_links(request)).await?;
                if ack.verdicts.len() != count {
                    let why = "the frontier has not answered for every visit";
                    return Err(LinkError::Refused(why.to_owned()));
                }
                verdicts.extend(translate::verdicts_understood(&ack));
                bytes = 0;
            }
        }
        Ok(verdicts)
    }

    async fn heartbeat(
        &self,
        session: u64,
        under_way: &[VisitId],
    ) -> Result<Vec<VisitId>, LinkError> {
        let visits = under_way.iter().map(|visit| visit.0).collect();
        let request = within(api::HeartbeatRequest { session, visits });
        let reply = answered(self.client.clone().heartbeat(request)).await?;
        Ok(reply.ended.into_iter().map(VisitId).collect())
    }

    async fn sent(
        &self,
        session: u64,
        departures: &[(VisitId, Timestamp)],
    ) -> Result<(), LinkError> {
        let departures = departures.iter();
        let departures = departures
            .map(|(visit, at)| api::Departure { visit: visit.0, sent_us: at.micros() })
            .collect();
        let now_us = self.clock.now().micros();
        let request = within(api::SentRequest { session, now_us, departures });
        answered(self.client.clone().sent(request)).await.map(|_| ())
    }

    async fn drain(&self, session: u64) -> Result<(), LinkError> {
        answered(self.client.clone().drain(within(api::WorkerId { session }))).await.map(|_| ())
    }

    async fn known(&self, visits: &[VisitId]) -> Result<Vec<Verdict>, LinkError> {
        let visits = visits.iter().map(|visit| visit.0).collect();
        let request = within(api::SettleRequest { visits });
        let ack = answered(self.client.clone().settle(request)).await?;
        Ok(translate::verdicts_understood(&ack))
    }
}
