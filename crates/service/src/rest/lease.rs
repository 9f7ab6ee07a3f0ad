//! `GET /frontier/v1/next`: leases for whoever has time; `POST /frontier/v1/heartbeat`: still at it.

use std::time::Duration;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use engine::roles::crew::Crew;
use frontier::Lease;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use types::{ShardId, VisitId};
use wire::lycosa::crawl_task::Kind;

use super::answer::{Body, Refused, read};
use super::query::Query;
use super::{Here, REQUEST_TIME_MAX};
use crate::native::translate;

/// Leases in one answer, where the caller does not say, and at most.
const URLS: u64 = 10;
const URLS_MAX: u64 = 1_000;
/// Seconds that a call waits for its first lease.
const WAIT: u64 = 1;
const WAIT_MAX: u64 = REQUEST_TIME_MAX.as_secs() / 2;
/// It takes the frontier so long to find out that nobody is ready.
const WAIT_MIN: Duration = Duration::from_millis(200);
/// Visits in one heartbeat.
const VISITS_MAX: usize = 10_000;

/// Leases, each of another host.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Batch {
    /// So long they last. A request must not be sent later, and the outcome must be told, or a heartbeat
    /// sent, before; otherwise the visit is given to somebody else.
    lease_ms: u64,
    /// The name in robots.txt files under which this crawl visits.
    product: String,
    leases: Vec<Task>,
}

/// The right to send one request.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Task {
    /// By which its outcome is told: `PUT /frontier/v1/urls/{id}`.
    id: String,
    kind: TaskKind,
    url: String,
    host: String,
    /// The registered domain.
    domain: String,
    /// The only address that may be connected.
    address: String,
    /// Links from the nearest seed.
    depth: u32,
    /// Redirects since the last link, or since the robots.txt that was asked for.
    hops: u32,
    seed: bool,
    /// For a conditional request, if it is there.
    etag: Option<String>,
    last_modified: Option<String>,
    /// Of a robots.txt: the origin it speaks for, which may be another one than that of the URL.
    origin: Option<String>,
    /// Host and address have had their pauses then; it has passed.
    not_before: String,
    /// The least pause that the host gets after this visit. The frontier keeps it.
    pause_ms: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum TaskKind {
    Page,
    Robots,
}

pub(super) async fn next(
    State(shared): Here,
    RawQuery(query): RawQuery,
) -> Result<Json<Batch>, Refused> {
    let query = Query::read(query.as_deref(), &["urls", "wait", "lease"])?;
    let longest = shared.crew.lease_time();
    let urls = query.number("urls", URLS, 1..=URLS_MAX)?;
    let wait = query.number("wait", WAIT, 0..=WAIT_MAX)?;
    let lease = query.number("lease", longest.as_secs().max(1), 1..=longest.as_secs().max(1))?;
    let lease = Duration::from_secs(lease).min(longest);
    let wait = Duration::from_secs(wait).max(WAIT_MIN);
    let urls = usize::try_from(urls).unwrap_or(usize::MAX);
    let leases = Crew::call(&shared.crew, urls, lease, wait).await.map_err(|full| {
        let why = format!("{full}; ask again when some of their visits are over");
        Refused::new(StatusCode::SERVICE_UNAVAILABLE, why)
    })?;
    let not_modified_max = shared.steering.ctx.options.not_modified_max;
    Ok(Json(Batch {
        lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
        product: shared.steering.ctx.options.product.clone(),
        leases: leases.iter().filter_map(|lease| told(lease, not_modified_max)).collect(),
    }))
}

fn told(lease: &Lease, not_modified_max: u32) -> Option<Task> {
    let task = translate::task(lease, not_modified_max)?;
    let some = |text: String| (!text.is_empty()).then_some(text);
    Some(Task {
        id: lease.visit.to_string(),
        kind: match task.kind() {
            Kind::Page => TaskKind::Page,
            Kind::Robots => TaskKind::Robots,
        },
        host: lease.host.to_string(),
        url: task.url,
        domain: task.domain,
        address: task.address,
        depth: task.depth,
        hops: task.hops,
        seed: task.seed,
        etag: some(task.etag),
        last_modified: some(task.last_modified),
        origin: some(task.origin),
        not_before: lease.not_before.rfc3339_millis(),
        pause_ms: task.pause_ms,
    })
}

/// Visits that somebody is still making.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Heartbeat {
    /// Their leases begin anew.
    visits: Vec<String>,
    /// Those of them whose requests have just left: others may be sent to the same address after its
    /// pause, before the answer is there.
    #[serde(default)]
    sent: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Beaten {
    /// Of those, visits that are over: what has not been sent must not be.
    ended: Vec<String>,
}

pub(super) async fn heartbeat(State(shared): Here, body: Body) -> Result<Json<Beaten>, Refused> {
    let heard: Heartbeat = read(body, r#"{"visits": ["0-17"]}"#)?;
    if heard.visits.len() + heard.sent.len() > VISITS_MAX {
        return Err(Refused::bad(format!("at most {VISITS_MAX} visits in one heartbeat")));
    }
    let ids = |texts: &[String]| texts.iter().map(|text| visit(text)).collect();
    let (visits, sent): (Result<Vec<_>, _>, Result<Vec<_>, _>) =
        (ids(&heard.visits), ids(&heard.sent));
    shared.crew.left(&sent?);
    let ended = shared.crew.renew(&visits?);
    Ok(Json(Beaten { ended: ended.iter().map(VisitId::to_string).collect() }))
}

/// The visit of that name.
pub(super) fn visit(text: &str) -> Result<VisitId, Refused> {
    let parts = text.split_once('-');
    let parts = parts.and_then(|(shard, count)| Some((shard.parse().ok()?, count.parse().ok()?)));
    match parts {
        Some((shard, count)) if VisitId::new(ShardId(shard), count).to_string() == text => {
            Ok(VisitId::new(ShardId(shard), count))
        }
        _ => {
            let why =
                format!("`{text}` is no id of a lease; those of /frontier/v1/next look like 0-17");
            Err(Refused::new(StatusCode::NOT_FOUND, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_visit_leads_back_to_it() {
        for id in [VisitId::new(ShardId(0), 1), VisitId::new(ShardId(65_535), (1 << 48) - 1)] {
            assert_eq!(visit(&id.to_string()).unwrap(), id);
        }
        for bad in ["", "7", "0-", "-1", "0-x", "0--1", "70000-1", "0-281474976710656", "00-1"] {
            assert!(visit(bad).is_err(), "{bad}");
        }
    }
}
