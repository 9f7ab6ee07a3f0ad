//! How do workers come to the engine's crew?

use std::pin::Pin;
use std::sync::Arc;

use engine::report::Report;
use engine::roles::crew::{Crew, Full, Gone};
use engine::{Injected, Steering};
use futures_util::{Stream, StreamExt as _};
use ports::Clock as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use types::{Timestamp, VisitId};
use wire::lycosa as api;
use wire::lycosa::frontier_server::Frontier;

use super::translate;

/// Names are for logs.
const NAME_BYTES_MAX: usize = 255;
/// Visits, or URLs, in one request.
const ITEMS_MAX: usize = 65_536;

/// The service, as tonic wants it.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    crew: Arc<Crew>,
    steering: Steering,
}

impl Service {
    pub(crate) fn new(crew: Arc<Crew>, steering: Steering) -> Self {
        Self { crew, steering }
    }

    /// Turns moments of a worker's clock, which says `now_us`, into ours: so long before now as it
    /// was before theirs.
    fn our_time(&self, now_us: u64) -> impl Fn(u64) -> Timestamp + use<> {
        let now = self.steering.ctx.clock.now();
        move |us| Timestamp(now.micros().saturating_sub(now_us.saturating_sub(us)))
    }

    fn understood(
        &self,
        session: u64,
        told: api::Report,
        at: impl Fn(u64) -> Timestamp,
    ) -> Result<Report, Status> {
        let visit = VisitId(told.visit);
        match self.crew.lease(session, visit) {
            Some(lease) => translate::understood(told, &lease, at)
                .map_err(|why| Status::invalid_argument(format!("visit {}: {why}", visit.0))),
            // What it says does not matter: it was said before, or comes too late.
            None => Ok(Report::void(visit, at(0))),
        }
    }
}

type Tasks = Pin<Box<dyn Stream<Item = Result<api::CrawlTask, Status>> + Send>>;

#[tonic::async_trait]
impl Frontier for Service {
    type GetCrawlTasksStream = Tasks;

    async fn join(
        &self,
        request: Request<api::JoinRequest>,
    ) -> Result<Response<api::Membership>, Status> {
        let api::JoinRequest { name, capacity } = request.into_inner();
        if name.len() > NAME_BYTES_MAX || capacity == 0 {
            let why = format!("a name of at most {NAME_BYTES_MAX} bytes, and a capacity above 0");
            return Err(Status::invalid_argument(why));
        }
        let joined = self.crew.join(&name, capacity as usize).map_err(full)?;
        Ok(Response::new(api::Membership {
            session: joined.session,
            capacity: u32::try_from(joined.capacity).unwrap_or(u32::MAX),
            lease_ms: u64::try_from(joined.lease.as_millis()).unwrap_or(u64::MAX),
            crawl_id: joined.crawl_id.to_be_bytes().to_vec(),
            product: joined.product,
        }))
    }

    async fn get_crawl_tasks(
        &self,
        request: Request<api::WorkerId>,
    ) -> Result<Response<Self::GetCrawlTasksStream>, Status> {
        let leases = self.crew.tasks(request.into_inner().session).map_err(gone)?;
        let not_modified_max = self.steering.ctx.options.not_modified_max;
        let tasks = ReceiverStream::new(leases).filter_map(move |lease| {
            let task = translate::task(&lease, not_modified_max);
            async move { task.map(Ok) }
        });
        Ok(Response::new(Box::pin(tasks)))
    }

    async fn report_links(
        &self,
        request: Request<api::ReportRequest>,
    ) -> Result<Response<api::Ack>, Status> {
        let api::ReportRequest { session, now_us, reports } = request.into_inner();
        bounded(reports.len())?;
        let at = self.our_time(now_us);
        let understood = reports.into_iter().map(|told| self.understood(session, told, &at));
        let reports = understood.collect::<Result<Vec<_>, _>>()?;
        let verdicts = self.crew.report(session, reports).await.map_err(gone)?;
        Ok(Response::new(translate::verdicts_told(&verdicts)))
    }

    async fn heartbeat(
        &self,
        request: Request<api::HeartbeatRequest>,
    ) -> Result<Response<api::HeartbeatReply>, Status> {
        let api::HeartbeatRequest { session, visits } = request.into_inner();
        bounded(visits.len())?;
        let visits: Vec<VisitId> = visits.into_iter().map(VisitId).collect();
        let ended = self.crew.heartbeat(session, &visits).map_err(gone)?;
        let ended = ended.into_iter().map(|visit| visit.0).collect();
        Ok(Response::new(api::HeartbeatReply { ended }))
    }

    async fn sent(
        &self,
        request: Request<api::SentRequest>,
    ) -> Result<Response<api::Empty>, Status> {
        let api::SentRequest { session, now_us, departures } = request.into_inner();
        bounded(departures.len())?;
        let at = self.our_time(now_us);
        let left = departures.iter().map(|left| (VisitId(left.visit), at(left.sent_us)));
        self.crew.sent(session, &left.collect::<Vec<_>>()).map_err(gone)?;
        Ok(Response::new(api::Empty {}))
    }

    async fn drain(&self, request: Request<api::WorkerId>) -> Result<Response<api::Empty>, Status> {
        self.crew.drain(request.into_inner().session).map_err(gone)?;
        Ok(Response::new(api::Empty {}))
    }

    async fn settle(
        &self,
        request: Request<api::SettleRequest>,
    ) -> Result<Response<api::Ack>, Status> {
        let visits = request.into_inner().visits;
        bounded(visits.len())?;
        let visits: Vec<VisitId> = visits.into_iter().map(VisitId).collect();
        let verdicts = self.crew.known(&visits).await.map_err(closing)?;
        Ok(Response::new(translate::verdicts_told(&verdicts)))
    }

    async fn inject(
        &self,
        request: Request<api::InjectRequest>,
    ) -> Result<Response<api::InjectReply>, Status> {
        let urls = request.into_inner().urls;
        bounded(urls.len())?;
        let injected = self.steering.inject(&urls, true).await;
        let injected = injected.ok_or_else(|| closing(Gone))?;
        let errors = injected.into_iter().map(|injected| match injected {
            Injected::Accepted(_) | Injected::Known(_) => String::new(),
            Injected::Refused(why) => why,
        });
        let errors = errors.collect();
        Ok(Response::new(api::InjectReply { errors }))
    }
}

fn bounded(items: usize) -> Result<(), Status> {
    if items <= ITEMS_MAX {
        return Ok(());
    }
    Err(Status::invalid_argument(format!("{items} items: at most {ITEMS_MAX} in one request")))
}

fn gone(gone: Gone) -> Status {
    Status::not_found(gone.to_string())
}

/// Whoever asks this needs no session: it is to ask again.
fn closing(_: Gone) -> Status {
    Status::unavailable("the frontier is closing")
}

fn full(full: Full) -> Status {
    Status::resource_exhausted(full.to_string())
}
