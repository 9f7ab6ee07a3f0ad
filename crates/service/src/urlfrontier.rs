//! The URLFrontier API, version 2.6: any of its clients works.
//!
//! Each call is translated, and done at the desk. Where its documents are silent, this does what
//! the server does that its clients were written against; docs/frontier-service.md tells where we
//! differ on purpose.

mod puts;

use std::pin::Pin;

use futures_util::Stream;
use ports::foreign_store::ForeignUrl;
use ports::{PortError, PortErrorKind, PortResult};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::foreign::Handle;
use crate::foreign::desk::{Call, Desk, Item, Walk};
use crate::foreign::names;
use crate::log_level::LogLevels;
use wire::urlfrontier::url_frontier_server::UrlFrontier;
use wire::urlfrontier::{self as api, get_params, log_level_params, url_item};

/// Answers that wait for a slow reader.
const ANSWERS_MAX: usize = 256;
/// Seconds for which a URL is held where the caller leaves that to us.
const HOLD: u32 = 30;
/// Rows of a list where the caller does not say.
const PAGE: usize = 100;

/// The service, as tonic wants it.
#[derive(Debug, Clone)]
pub struct Service {
    desk: Handle,
    /// How others reach us.
    address: String,
    levels: LogLevels,
}

impl Service {
    pub fn new(desk: Handle, address: String, levels: LogLevels) -> Self {
        Self { desk, address, levels }
    }

    async fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Desk) -> PortResult<T> + Send + 'static,
    ) -> Result<T, Status> {
        self.desk.ask(job).await.map_err(|error| status(&error))
    }
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl UrlFrontier for Service {
    type GetURLsStream = Answers<api::UrlInfo>;
    type PutURLsStream = Answers<api::AckMessage>;
    type PutDiscoveredStream = Answers<api::BatchAck>;
    type ListURLsStream = Answers<api::UrlItem>;

    async fn list_nodes(
        &self,
        _: Request<api::Empty>,
    ) -> Result<Response<api::StringList>, Status> {
        Ok(Response::new(api::StringList { values: vec![self.address.clone()] }))
    }

    async fn list_crawls(
        &self,
        _: Request<api::Local>,
    ) -> Result<Response<api::StringList>, Status> {
        let crawls = self.ask(|desk| Ok(desk.crawls())).await?;
        let values = crawls.into_iter().map(String::from).collect();
        Ok(Response::new(api::StringList { values }))
    }

    async fn delete_crawl(
        &self,
        request: Request<api::DeleteCrawlMessage>,
    ) -> Result<Response<api::Long>, Status> {
        let crawl = names::crawl(&request.into_inner().value);
        let value = self.ask(move |desk| desk.delete_crawl(&crawl)).await?;
        Ok(Response::new(api::Long { value }))
    }

    async fn list_queues(
        &self,
        request: Request<api::Pagination>,
    ) -> Result<Response<api::QueueList>, Status> {
        let api::Pagination { start, size, include_inactive, crawl_id, .. } = request.into_inner();
        let crawl = names::crawl(&crawl_id);
        let (id, now) = (String::from(crawl.clone()), self.desk.now());
        let page = (start as usize, page(size));
        let queues =
            self.ask(move |desk| Ok(desk.list_queues(&crawl, include_inactive, now, page))).await?;
        let values: Vec<String> = queues.into_iter().map(String::from).collect();
        let size = values.len() as u32;
        Ok(Response::new(api::QueueList { values, total: 0, start, size, crawl_id: id }))
    }

    async fn get_ur_ls(
        &self,
        request: Request<api::GetParams>,
    ) -> Result<Response<Self::GetURLsStream>, Status> {
        let params = request.into_inner();
        let key = Some(params.key).filter(|key| !key.is_empty()).map(Box::from);
        let crawl = match params.item {
            // Only where a queue is named, an empty crawl is the default one.
            Some(get_params::Item::CrawlId(id)) if key.is_some() => Some(names::crawl(&id)),
            Some(get_params::Item::CrawlId(id)) => Some(id.into()),
            Some(get_params::Item::AnyCrawlId(_)) | None => None,
        };
        if crawl.is_none() && key.is_some() {
            tracing::warn!("a queue was asked for without its crawl: nothing is served");
        }
        let call = Call {
            crawl,
            key,
            urls_max: params.max_urls_per_queue,
            queues_max: params.max_queues,
            hold: if params.delay_requestable == 0 { HOLD } else { params.delay_requestable },
        };
        let (desk, now) = (self.desk.clone(), self.desk.now());
        let called_at = desk.events.get_called();
        Ok(answers(move |out| async move {
            let serving = desk.ask(move |desk| Ok(desk.call(&call, now))).await?;
            let Some(mut serving) = serving else {
                desk.events.get_answered(called_at);
                return Ok(());
            };
            loop {
                let (items, back) =
                    desk.ask(move |desk| Ok((desk.serve(&mut serving)?, serving))).await?;
                serving = back;
                if items.is_empty() {
                    desk.events.get_answered(called_at);
                    return Ok(());
                }
                desk.events.served(items.len());
                for item in items {
                    let info = info(item.crawl, item.key, item.url);
                    if out.send(Ok(info)).await.is_err() {
                        // What was not sent is held, and comes back when that ends.
                        return Ok(());
                    }
                }
            }
        }))
    }

    async fn put_ur_ls(
        &self,
        request: Request<Streaming<api::UrlItem>>,
    ) -> Result<Response<Self::PutURLsStream>, Status> {
        let desk = self.desk.clone();
        desk.events.put_called();
        let acks = puts::acks(request.into_inner(), desk);
        Ok(Response::new(Box::pin(acks)))
    }

    async fn put_discovered(
        &self,
        request: Request<Streaming<api::DiscoveredBatch>>,
    ) -> Result<Response<Self::PutDiscoveredStream>, Status> {
        let desk = self.desk.clone();
        desk.events.put_discovered_called();
        let acks = puts::batch_acks(request.into_inner(), desk);
        Ok(Response::new(Box::pin(acks)))
    }

    async fn get_stats(
        &self,
        request: Request<api::QueueWithinCrawlParams>,
    ) -> Result<Response<api::Stats>, Status> {
        let api::QueueWithinCrawlParams { key, crawl_id, .. } = request.into_inner();
        let (crawl, now) = (names::crawl(&crawl_id), self.desk.now());
        let id = String::from(crawl.clone());
        let stats = self.ask(move |desk| Ok(desk.stats(&crawl, named(&key), now))).await?;
        let counts = [("completed", stats.completed), ("active_queues", stats.active_queues)];
        Ok(Response::new(api::Stats {
            size: stats.active,
            in_process: u32::try_from(stats.held).unwrap_or(u32::MAX),
            counts: counts.map(|(name, count)| (name.to_owned(), count)).into(),
            number_of_queues: stats.queues,
            crawl_id: id,
        }))
    }

    async fn delete_queue(
        &self,
        request: Request<api::QueueWithinCrawlParams>,
    ) -> Result<Response<api::Long>, Status> {
        let api::QueueWithinCrawlParams { key, crawl_id, .. } = request.into_inner();
        let crawl = names::crawl(&crawl_id);
        let value = self.ask(move |desk| desk.delete_queue(&crawl, &key)).await?;
        Ok(Response::new(api::Long { value }))
    }

    async fn block_queue_until(
        &self,
        request: Request<api::BlockQueueParams>,
    ) -> Result<Response<api::Empty>, Status> {
        let api::BlockQueueParams { key, time, crawl_id, .. } = request.into_inner();
        let crawl = names::crawl(&crawl_id);
        self.ask(move |desk| desk.block(&crawl, &key, time)).await?;
        Ok(Response::new(api::Empty {}))
    }

    async fn set_active(
        &self,
        request: Request<api::Active>,
    ) -> Result<Response<api::Empty>, Status> {
        let active = request.into_inner().state;
        self.ask(move |desk| desk.set_active(active)).await?;
        Ok(Response::new(api::Empty {}))
    }

    async fn get_active(&self, _: Request<api::Local>) -> Result<Response<api::Boolean>, Status> {
        let state = self.ask(|desk| Ok(desk.is_active())).await?;
        Ok(Response::new(api::Boolean { state }))
    }

    async fn set_delay(
        &self,
        request: Request<api::QueueDelayParams>,
    ) -> Result<Response<api::Empty>, Status> {
        let api::QueueDelayParams { key, delay_requestable, crawl_id, .. } = request.into_inner();
        let crawl = names::crawl(&crawl_id);
        // Clients write −1 to take a queue's own delay away.
        let delay = Some(delay_requestable).filter(|delay| *delay != u32::MAX);
        self.ask(move |desk| desk.set_delay(&crawl, named(&key), delay)).await?;
        Ok(Response::new(api::Empty {}))
    }

    async fn set_log_level(
        &self,
        request: Request<api::LogLevelParams>,
    ) -> Result<Response<api::Empty>, Status> {
        let api::LogLevelParams { package, level, .. } = request.into_inner();
        use log_level_params::Level;
        let level = match Level::try_from(level).unwrap_or(Level::Debug) {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        };
        self.levels.set(&package, level);
        Ok(Response::new(api::Empty {}))
    }

    async fn set_crawl_limit(
        &self,
        request: Request<api::CrawlLimitParams>,
    ) -> Result<Response<api::Empty>, Status> {
        let api::CrawlLimitParams { key, limit, crawl_id, .. } = request.into_inner();
        let crawl = names::crawl(&crawl_id);
        let text = format!("there is no queue {key:?} in crawl {crawl:?}");
        match self.ask(move |desk| desk.set_limit(&crawl, &key, limit)).await? {
            true => Ok(Response::new(api::Empty {})),
            false => Err(Status::unknown(text)),
        }
    }

    async fn get_url_status(
        &self,
        request: Request<api::UrlStatusRequest>,
    ) -> Result<Response<api::UrlItem>, Status> {
        let api::UrlStatusRequest { url, key, crawl_id } = request.into_inner();
        let crawl = names::crawl(&crawl_id);
        let Some(key) = names::key(&key, &url).map(Box::<str>::from) else {
            return Err(Status::invalid_argument(format!(
                "which queue is {url:?} in? Name its key"
            )));
        };
        let text = format!("{url:?} is not in queue {key:?} of crawl {crawl:?}");
        let (asked, queue) = (crawl.clone(), key.clone());
        match self.ask(move |desk| desk.url(&asked, &queue, &url)).await? {
            Some(url) => Ok(Response::new(item(Item { crawl, key, url }))),
            None => Err(Status::not_found(text)),
        }
    }

    async fn list_ur_ls(
        &self,
        request: Request<api::ListUrlParams>,
    ) -> Result<Response<Self::ListURLsStream>, Status> {
        let params = request.into_inner();
        let filter = Filter::new(params.filter, params.ignore_case);
        let (crawl, key) = (names::crawl(&params.crawl_id), params.key);
        let (start, size) = (params.start as usize, page(params.size));
        let desk = self.desk.clone();
        Ok(answers(move |out| async move {
            let mut met = 0;
            let mut walk = desk.ask(move |desk| Ok(desk.walk(&crawl, named(&key)))).await?;
            loop {
                let (back, items) = step(&desk, walk).await?;
                walk = back;
                if items.is_empty() {
                    return Ok(());
                }
                for found in items.into_iter().filter(|item| filter.takes(&item.url.url)) {
                    met += 1;
                    if met <= start {
                        continue;
                    }
                    if out.send(Ok(item(found))).await.is_err() || met == start + size {
                        return Ok(());
                    }
                }
            }
        }))
    }

    async fn count_ur_ls(
        &self,
        request: Request<api::CountUrlParams>,
    ) -> Result<Response<api::Long>, Status> {
        let params = request.into_inner();
        let filter = Filter::new(params.filter, params.ignore_case);
        let (crawl, key) = (names::crawl(&params.crawl_id), params.key);
        let mut walk = self.ask(move |desk| Ok(desk.walk(&crawl, named(&key)))).await?;
        let mut value = 0;
        loop {
            let step = step(&self.desk, walk).await;
            let (back, items) = step.map_err(|error| status(&error))?;
            walk = back;
            if items.is_empty() {
                return Ok(Response::new(api::Long { value }));
            }
            value += items.iter().filter(|item| filter.takes(&item.url.url)).count() as u64;
        }
    }

    async fn purge_ur_ls(
        &self,
        request: Request<api::PurgeUrlParams>,
    ) -> Result<Response<api::Long>, Status> {
        let api::PurgeUrlParams { key, crawl_id, days } = request.into_inner();
        let crawl = names::crawl(&crawl_id);
        let now = self.desk.now();
        let made_by = now.saturating_sub(u64::from(days) * 86_400);
        let walk = self.ask(move |desk| Ok(desk.walk(&crawl, named(&key)))).await?;
        let Some(mut walk) = walk else { return Ok(Response::new(api::Long { value: 0 })) };
        let mut value = 0;
        loop {
            let purge = move |desk: &mut Desk| Ok((desk.purge(&mut walk, made_by, now)?, walk));
            let (gone, back) = self.ask(purge).await?;
            walk = back;
            match gone {
                Some(gone) => value += gone,
                None => return Ok(Response::new(api::Long { value })),
            }
        }
    }
}

/// The next URLs of a walk, if there is one.
async fn step(desk: &Handle, walk: Option<Walk>) -> PortResult<(Option<Walk>, Vec<Item>)> {
    let Some(mut walk) = walk else { return Ok((None, Vec::new())) };
    let step = move |desk: &mut Desk| Ok((desk.step(&mut walk)?, walk));
    let (items, walk) = desk.ask(step).await?;
    Ok((Some(walk), items))
}

/// A stream that a task of its own fills, as fast as it is read.
fn answers<T: Send + 'static, F>(
    fill: impl FnOnce(mpsc::Sender<Result<T, Status>>) -> F + Send + 'static,
) -> Response<Answers<T>>
where
    F: Future<Output = PortResult<()>> + Send + 'static,
{
    let (out, answers) = mpsc::channel(ANSWERS_MAX);
    tokio::spawn(async move {
        if let Err(error) = fill(out.clone()).await {
            let _ = out.send(Err(status(&error))).await; // it may have hung up
        }
    });
    Response::new(Box::pin(ReceiverStream::new(answers)))
}

fn status(error: &PortError) -> Status {
    match error.kind {
        PortErrorKind::DiskFull => Status::resource_exhausted(error.to_string()),
        PortErrorKind::Corrupt => Status::data_loss(error.to_string()),
        _ => Status::unavailable(error.to_string()),
    }
}

fn named(key: &str) -> Option<&str> {
    Some(key).filter(|key| !key.is_empty())
}

fn page(size: u32) -> usize {
    if size == 0 { PAGE } else { size as usize }
}

fn info(crawl: Box<str>, key: Box<str>, url: ForeignUrl) -> api::UrlInfo {
    let list = |values: Vec<Box<str>>| api::StringList {
        values: values.into_iter().map(String::from).collect(),
    };
    api::UrlInfo {
        url: url.url.into(),
        key: key.into(),
        metadata: url.metadata.into_iter().map(|(name, all)| (name.into(), list(all))).collect(),
        crawl_id: crawl.into(),
    }
}

/// As a known URL: when it may be fetched, or 0 if it is done with.
fn item(item: Item) -> api::UrlItem {
    let (created, due) = (item.url.created, item.url.due.unwrap_or(0));
    let info = Some(info(item.crawl, item.key, item.url));
    let known = api::KnownUrlItem { info, refetchable_from_date: due };
    api::UrlItem {
        item: Some(url_item::Item::Known(known)),
        id: String::new(),
        creation_date: created,
    }
}

/// Which URLs are meant.
struct Filter {
    part: String,
    ignore_case: bool,
}

impl Filter {
    fn new(part: Option<String>, ignore_case: Option<bool>) -> Self {
        let ignore_case = ignore_case.unwrap_or(false);
        let part = part.filter(|part| !part.trim().is_empty()).unwrap_or_default();
        Self { part: if ignore_case { part.to_lowercase() } else { part }, ignore_case }
    }

    fn takes(&self, url: &str) -> bool {
        match self.ignore_case {
            true => url.to_lowercase().contains(&self.part),
            false => url.contains(&self.part),
        }
    }
}
