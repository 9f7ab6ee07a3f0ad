//! `POST /frontier/v1/urls`: URLs from outside; `PUT /frontier/v1/urls/{id}`: what became of a lease.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use engine::Injected;
use engine::roles::crew::{Holding, Verdict};
use engine::stages::told::{self, Account, Heard, Told};
use frontier::{Errand, Lease};
use ports::Clock as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use types::outcome::Truncated;
use types::{Timestamp, VisitId};
use wire::lycosa as api;

use super::answer::{Body, Refused, read};
use super::lease::visit;
use super::{Here, Shared};
use crate::native::translate;

/// URLs in one request.
const URLS_MAX: usize = 10_000;

// ── URLs from outside ────────────────────────────────────────────────────────────────────────

/// URLs for the crawl: one, or many.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Inject {
    #[serde(default)]
    urls: Vec<String>,
    #[serde(default)]
    url: Option<String>,
    /// Whether they widen the scope of the crawl, as seeds do. If not, they must be in it.
    #[serde(default = "yes")]
    seed: bool,
}

const fn yes() -> bool {
    true
}

/// What became of each, in order.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct InjectReply {
    accepted: u64,
    known: u64,
    refused: u64,
    results: Vec<InjectResult>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct InjectResult {
    /// As it was sent.
    url: String,
    /// As it will be requested.
    canonical: Option<String>,
    status: InjectStatus,
    /// Why it was refused.
    reason: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum InjectStatus {
    /// On the disk, and will be visited.
    Accepted,
    /// It was known before; nothing has changed.
    Known,
    Refused,
}

pub(super) async fn inject(State(shared): Here, body: Body) -> Result<Json<InjectReply>, Refused> {
    let shape = r#"{"urls": ["https://example.org/"]}"#;
    let Inject { mut urls, url, seed } = read(body, shape)?;
    urls.extend(url);
    if urls.is_empty() {
        let why = format!("there is no URL in it; send JSON such as {shape}");
        return Err(Refused::new(StatusCode::UNPROCESSABLE_ENTITY, why));
    }
    if urls.len() > URLS_MAX {
        let why = format!("{} URLs: at most {URLS_MAX} in one request", urls.len());
        return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    let injected = shared.steering.inject(&urls, seed).await.ok_or_else(Refused::closing)?;
    let mut reply = InjectReply::default();
    for (url, injected) in urls.into_iter().zip(injected) {
        let (canonical, status, reason, count) = match injected {
            Injected::Accepted(url) => {
                (Some(url.to_string()), InjectStatus::Accepted, None, &mut reply.accepted)
            }
            Injected::Known(url) => {
                (Some(url.to_string()), InjectStatus::Known, None, &mut reply.known)
            }
            Injected::Refused(why) => (None, InjectStatus::Refused, Some(why), &mut reply.refused),
        };
        *count += 1;
        reply.results.push(InjectResult { url, canonical, status, reason });
    }
    Ok(Json(reply))
}

// ── what became of a lease ───────────────────────────────────────────────────────────────────

/// What became of a visit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Update {
    outcome: UpdateOutcome,
    /// Milliseconds from the request to the last byte, or until the worker gave up.
    #[serde(default)]
    took_ms: u64,
    /// How long ago that was, in milliseconds.
    #[serde(default)]
    ended_ms_ago: u64,
    /// Of an answer. What 429, 5xx, 304 or a redirect mean is judged by the frontier.
    status: Option<u16>,
    /// Of an answer: at least `location`, `retry-after`, `content-type`, `etag` and `last-modified`, where
    /// they were sent. Redirects are not followed: their targets are visited like any other URL.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Of a robots.txt: its text.
    body: Option<String>,
    /// Size of the answer's body.
    #[serde(default)]
    body_bytes: u64,
    /// SHA-1 of the payload, 40 hexadecimal digits.
    sha1: Option<String>,
    title: Option<String>,
    /// Why the body is not whole: length, time, disconnect or unspecified.
    truncated: Option<String>,
    #[serde(default)]
    noindex: bool,
    /// The page asks that its links are not followed: they are counted, and not taken.
    #[serde(default)]
    nofollow: bool,
    #[serde(default)]
    noarchive: bool,
    /// As they stand on the page, in its order; relative ones are joined to the URL of the lease.
    #[serde(default)]
    links: Vec<String>,
    /// Of a failed visit: dns, connect, tls, timeout, reset or bad-http.
    fault: Option<String>,
    /// What exactly failed, or why it was blocked.
    detail: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum UpdateOutcome {
    /// There was an answer, whatever its status.
    Fetched,
    /// There was none.
    Failed,
    /// The worker does not visit this URL, and says why in `detail`.
    Blocked,
    /// Nothing was sent, and somebody else may have it.
    Returned,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Updated {
    id: String,
    /// It was told before; this time it counted for nothing.
    repeated: bool,
}

pub(super) async fn update(
    State(shared): Here,
    Path(id): Path<String>,
    body: Body,
) -> Result<Json<Updated>, Refused> {
    let visit = visit(&id)?;
    let update: Update = read(body, r#"{"outcome": "fetched", "status": 200, "links": []}"#)?;
    match shared.crew.holding(visit) {
        Holding::Held(session, lease) => {
            let told = account(update, &lease, shared.steering.ctx.clock.now())
                .map_err(|why| Refused::new(StatusCode::UNPROCESSABLE_ENTITY, why))?;
            let report = told::report(&shared.steering.ctx, &lease, told);
            match shared.crew.report(session, vec![report]).await.as_deref() {
                Ok([Verdict::Kept]) => Ok(Json(Updated { id, repeated: false })),
                // Its time was over in this very moment, or we are closing.
                _ => repeated(&shared, visit, id).await,
            }
        }
        Holding::Over => repeated(&shared, visit, id).await,
        Holding::Unknown => {
            let why = format!("no lease has ever had the id {id}; take one at /frontier/v1/next");
            Err(Refused::new(StatusCode::NOT_FOUND, why))
        }
    }
}

/// What is said of a visit that nobody makes any more.
async fn repeated(shared: &Shared, visit: VisitId, id: String) -> Result<Json<Updated>, Refused> {
    match shared.crew.known(&[visit]).await.as_deref() {
        Ok([Verdict::Kept]) => Ok(Json(Updated { id, repeated: true })),
        Ok(_) => {
            let why = format!(
                "the lease {id} has run out, and its URL is somebody else's; drop what you have \
                 fetched, and send heartbeats for what takes longer"
            );
            Err(Refused::new(StatusCode::CONFLICT, why))
        }
        Err(_) => Err(Refused::closing()),
    }
}

/// What the words mean; or what to send instead.
fn account(update: Update, lease: &Lease, now: Timestamp) -> Result<Told, String> {
    let ended = now - Duration::from_millis(update.ended_ms_ago);
    let took = Duration::from_millis(update.took_ms);
    if update.outcome != UpdateOutcome::Fetched && update.status.is_some() {
        let why = "a visit with a status was fetched: send it with \"outcome\": \"fetched\", we judge \
                   what the status means";
        return Err(why.to_owned());
    }
    let account = match update.outcome {
        UpdateOutcome::Fetched => Account::Answered(heard(update, lease)?),
        UpdateOutcome::Failed => {
            let kind = update.fault.ok_or("say what failed: \"fault\": \"timeout\", for one")?;
            let detail = update.detail.unwrap_or_default();
            Account::Broken(translate::fault_understood(&api::Fault { kind, detail }, None)?)
        }
        UpdateOutcome::Blocked => {
            Account::Blocked(update.detail.ok_or("say why, in \"detail\"")?.into())
        }
        UpdateOutcome::Returned => Account::GivenBack,
    };
    Ok(Told { ended, took, account })
}

fn heard(update: Update, lease: &Lease) -> Result<Heard, String> {
    let status = update.status.filter(|status| (100..1_000).contains(status));
    let status = status.ok_or("send the answer's status: \"status\": 200, for one")?;
    let robots = matches!(lease.errand, Errand::Robots(_));
    if robots && update.body.is_none() && (200..300).contains(&status) {
        return Err("this is a robots.txt: send its text as \"body\"".to_owned());
    }
    let digest = update.sha1.map(|text| hex(&text)).transpose()?;
    let truncated = update.truncated.as_deref().map(cut).transpose()?;
    let headers = update.headers.into_iter();
    let headers =
        headers.map(|(name, value)| (name.to_lowercase().into(), value.into_bytes().into()));
    Ok(Heard {
        status,
        headers: headers.collect(),
        body: if robots { update.body.unwrap_or_default().into() } else { Default::default() },
        body_bytes: update.body_bytes,
        digest,
        title: update.title.map(Into::into),
        truncated,
        noindex: update.noindex,
        nofollow: update.nofollow,
        noarchive: update.noarchive,
        links: update.links,
    })
}

fn cut(text: &str) -> Result<Truncated, String> {
    translate::truncated(text)?.ok_or_else(|| "truncated is empty: leave it out".to_owned())
}

fn hex(text: &str) -> Result<[u8; 20], String> {
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let pairs = text.as_bytes().as_chunks().0;
    let bytes = pairs.iter().map(|&[high, low]| Some(value(high)? << 4 | value(low)?));
    let bytes = bytes.collect::<Option<Vec<u8>>>().filter(|_| text.len() == 40);
    bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| format!("`{text}` is no SHA-1 in 40 hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_forty_digits() {
        assert_eq!(hex(&"0fF0".repeat(10)).unwrap()[..2], [0x0f, 0xf0]);
        for bad in ["", "00", &"0".repeat(39), &"0".repeat(41), &"x".repeat(40), &"+1".repeat(20)] {
            assert!(hex(bad).is_err(), "{bad}");
        }
    }
}
