//! `GET /frontier/v1/hosts`: who waits, and how much; `PUT /frontier/v1/hosts/{host}/rate`: how slowly.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use ports::shard_store::{HostRow, WaitingHost};
use ports::{PortResult, ShardStore};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use types::{CrawlUrl, HostKey, HostRule, HumanDuration, Timestamp};

use super::Here;
use super::answer::{Body, Refused, read};
use super::query::Query;

/// Hosts in one answer, where the caller does not say, and at most.
const HOSTS: u64 = 100;
const HOSTS_MAX: u64 = 1_000;
/// How far a queue is counted: the crawl waits meanwhile.
const WAITING_COUNTED_MAX: u64 = 1_000;
/// Longest delay of a host's own. Who wants more does not want to visit it.
const DELAY_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Hosts with URLs that wait.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HostPage {
    hosts: Vec<HostTold>,
    /// Send it as `after` for the next page; there is none if it is missing.
    next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HostTold {
    host: String,
    /// URLs in its queue.
    waiting: u64,
    /// There are more: only so many were counted.
    waiting_more: bool,
    /// Pages that it has given us.
    pages: u64,
    /// All requests, robots.txt included.
    requests: u64,
    /// Faults in a row.
    faults: u32,
    /// It failed so often that it is left alone until its next visit.
    parked: bool,
    /// Not before then; missing if it was never visited.
    next_visit: Option<String>,
    /// Its own delay, if it was given one.
    delay_ms: Option<u32>,
}

pub(super) async fn list(
    State(shared): Here,
    RawQuery(query): RawQuery,
) -> Result<Json<HostPage>, Refused> {
    let query = Query::read(query.as_deref(), &["after", "limit"])?;
    let limit = query.number("limit", HOSTS, 1..=HOSTS_MAX)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut after = query.text("after").map(host_key).transpose()?;
    let ctx = &shared.steering.ctx;
    // Shards come one after the other, and a host's name tells in which it is.
    let first = after.as_ref().map_or(0, |host| host.site().shard(ctx.options.shards).0);
    let mut hosts = Vec::new();
    for keeper in ctx.keepers.iter().skip(usize::from(first)) {
        let (from, room) = (after.take(), limit - hosts.len());
        let read = keeper.ask(move |books| rows(&mut *books.store, from.as_ref(), room)).await;
        let rows = read
            .ok_or_else(Refused::closing)?
            .map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        hosts.extend(rows.into_iter().map(told));
        if hosts.len() == limit {
            break;
        }
    }
    let full = hosts.len() == limit;
    let next = hosts.last().filter(|_| full).map(|last: &HostTold| last.host.clone());
    Ok(Json(HostPage { hosts, next }))
}

fn rows(
    store: &mut dyn ShardStore,
    after: Option<&HostKey>,
    limit: usize,
) -> PortResult<Vec<HostRow>> {
    let mut rows = Vec::new();
    for WaitingHost { host, .. } in store.hosts(after, limit)? {
        rows.extend(store.host(&host, WAITING_COUNTED_MAX + 1)?);
    }
    Ok(rows)
}

fn told(row: HostRow) -> HostTold {
    let HostRow { host, state, rule, waiting, .. } = row;
    HostTold {
        host: host.to_string(),
        waiting: waiting.min(WAITING_COUNTED_MAX),
        waiting_more: waiting > WAITING_COUNTED_MAX,
        pages: state.pages,
        requests: state.requests,
        faults: state.faults,
        parked: state.parked,
        next_visit: (state.not_before > Timestamp::ZERO).then(|| state.not_before.rfc3339_millis()),
        delay_ms: rule.delay_ms,
    }
}

/// How slowly a host is visited.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rate {
    /// Least pause between two visits, such as `"30s"`; null takes away what was set. It counts beside
    /// politeness.delay, the Crawl-delay and what the host's health asks for: the longest of them holds.
    #[serde(deserialize_with = "Option::deserialize")]
    delay: Option<HumanDuration>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RateReply {
    host: String,
    delay_ms: Option<u32>,
    /// The least pause that follows from it and from politeness.delay.
    pause_ms: u64,
}

pub(super) async fn rate(
    State(shared): Here,
    Path(name): Path<String>,
    body: Body,
) -> Result<Json<RateReply>, Refused> {
    let host = host_key(&name)?;
    let Rate { delay } = read(body, r#"{"delay": "30s"}"#)?;
    if delay.is_some_and(|delay| delay.get() > DELAY_MAX) {
        let why = format!("a delay is at most {}", HumanDuration(DELAY_MAX));
        return Err(Refused::new(StatusCode::UNPROCESSABLE_ENTITY, why));
    }
    let ctx = &shared.steering.ctx;
    let (keeper, asked) = (ctx.keeper(host.site().shard(ctx.options.shards)), host.clone());
    let row = keeper.ask(move |books| books.store.host(&asked, 1)).await;
    if !matches!(row.ok_or_else(Refused::closing)?, Ok(Some(_))) {
        let why = format!("no URL of {host} is known; send one to /frontier/v1/urls first");
        return Err(Refused::new(StatusCode::NOT_FOUND, why));
    }
    let millis = |delay: HumanDuration| u32::try_from(delay.get().as_millis()).unwrap_or(u32::MAX);
    let rule = HostRule { delay_ms: delay.map(millis) };
    shared.steering.rule(host.clone(), rule).await.ok_or_else(Refused::closing)?;
    let pause = ctx.options.politeness.delay.get().max(rule.delay().unwrap_or_default());
    let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
    Ok(Json(RateReply { host: host.to_string(), delay_ms: rule.delay_ms, pause_ms }))
}

/// The host of that name, in the form in which it is known.
fn host_key(name: &str) -> Result<HostKey, Refused> {
    let plain = !name.is_empty() && !name.contains(['/', '?', '#', '@', '\\']);
    // A name may be an IPv6 address in brackets; what follows another colon would be a port.
    let portless = name.starts_with('[') && name.ends_with(']') || !name.contains(':');
    let url = CrawlUrl::parse(&format!("http://{name}/")).ok().filter(|_| plain && portless);
    url.map(|url| url.host_key()).ok_or_else(|| {
        let why = format!("`{name}` is no host; write its name alone, such as www.example.org");
        Refused::bad(why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_in_its_canonical_form() {
        let key = |name| host_key(name).map(|host| host.to_string()).ok();
        assert_eq!(key("WWW.Example.ORG."), Some("www.example.org".to_owned()));
        assert_eq!(key("bücher.example"), Some("xn--bcher-kva.example".to_owned()));
        assert_eq!(key("127.0.0.1"), Some("127.0.0.1".to_owned()));
        assert!(key("[::1]").is_some());
        for bad in ["", "a.test:80", "a.test/x", "u@a.test", "a b", "a.test?x"] {
            assert_eq!(key(bad), None, "{bad}");
        }
    }
}
