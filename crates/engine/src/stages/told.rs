//! What does somebody's account of a visit mean, who has none of our code?
//!
//! A worker of ours judges what it has met and reports an outcome. Others tell what happened on the
//! wire: a status, some headers, the links. It is judged here, by the rules for our own exchanges,
//! as if we had been there; the body alone stays where it was read.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use frontier::{Errand, Lease};
use ports::shard_store::{Found, FoundSet};
use ports::{Ended, Exchange, Protocol, Response, Times};
use types::outcome::Truncated;
use types::{Answer, Base, Fault, Outcome, Refusal, ShardId, Timestamp, UrlId};

use super::fetch;
use super::follow::{self, Followed};
use crate::ctx::Ctx;
use crate::life;
use crate::report::{Done, Report, RobotsStep};

/// What somebody tells of a visit.
#[derive(Debug)]
pub struct Told {
    /// When the last byte came, or the worker gave up.
    pub ended: Timestamp,
    /// From the request to that.
    pub took: Duration,
    pub account: Account,
}

#[derive(Debug)]
pub enum Account {
    Answered(Heard),
    /// There was no answer.
    Broken(Fault),
    /// The worker did not ask, and says why.
    Blocked(Box<str>),
    /// The worker did not ask; somebody else may.
    GivenBack,
}

/// An answer.
#[derive(Debug, Default)]
pub struct Heard {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(Box<str>, Box<[u8]>)>,
    /// Of a robots.txt.
    pub body: Bytes,
    pub body_bytes: u64,
    /// SHA-1 of the payload.
    pub digest: Option<[u8; 20]>,
    pub title: Option<Box<str>>,
    pub truncated: Option<Truncated>,
    pub noindex: bool,
    pub nofollow: bool,
    pub noarchive: bool,
    /// As they stand on the page.
    pub links: Vec<String>,
}

/// The report that a worker of ours would have made.
pub fn report(ctx: &Ctx, lease: &Lease, told: Told) -> Report {
    let Told { ended, took, account } = told;
    // Nothing was sent before it was leased, whatever the other's clock says: a pause that counted from
    // an earlier end would be shorter than it is.
    let ended = ended.max(lease.granted_at);
    let sent = (ended - took).max(lease.granted_at);
    let (end, heard) = match account {
        Account::GivenBack => return Report::given_back(lease),
        Account::Blocked(why) => return blocked(lease, why),
        Account::Answered(heard) => (Ended::Answered, Some(heard)),
        Account::Broken(fault) => (Ended::Broken(fault), None),
    };
    let never_left = matches!(&end, Ended::Broken(Fault::Dns(_) | Fault::Connect(_)));
    let exchange = Exchange {
        times: Times {
            started: sent,
            sent: (!never_left).then_some(sent),
            first_byte: None,
            ended,
        },
        protocol: Protocol::Http11,
        tls: None,
        request: Bytes::new(),
        response: heard.as_ref().map(response),
        end,
        hold: None,
    };
    let (touch, done) = match &lease.errand {
        Errand::Robots(errand) => {
            let outcome = fetch::judge(&exchange, &errand.url, &ctx.canon, false);
            let bytes_max = ctx.options.robots.bytes_max.as_len();
            let (step, status) = life::robots_step(&exchange, &outcome, errand, bytes_max);
            let touch = fetch::touch(&exchange, &outcome, false);
            (touch, Done::Robots { errand: errand.clone(), step, status })
        }
        Errand::Page(task) | Errand::Refuse(task, _) => {
            let url = &task.record.url;
            // What its lease told; see `translate::task` of the service.
            let condition = task.record.condition(ctx.options.not_modified_max, true);
            let outcome = fetch::judge(&exchange, url, &ctx.canon, condition.is_some());
            let touch = fetch::touch(&exchange, &outcome, !task.record.is_revisit());
            let heard = heard.unwrap_or_default();
            let followed = links(ctx, &Base::from(url), &heard);
            let outcome = with_facts(outcome, &heard);
            let task = task.clone();
            (touch, Done::page(task, outcome, followed))
        }
    };
    Report { visit: lease.visit, touch, at: sent, done, packed: None, hold: None }
}

fn blocked(lease: &Lease, why: Box<str>) -> Report {
    let refusal = Refusal::Setting { key: "worker".into(), value: "blocked".into(), found: why };
    match &lease.errand {
        Errand::Page(task) | Errand::Refuse(task, _) => {
            Report::refused(lease, task.clone(), refusal)
        }
        Errand::Robots(errand) => {
            Report::robots(lease, errand.clone(), RobotsStep::Refused(refusal))
        }
    }
}

fn response(heard: &Heard) -> Response {
    Response {
        status: heard.status,
        headers: heard.headers.clone(),
        wire: Bytes::new(),
        rest: None,
        head_bytes: 0,
        body: heard.body.clone(),
        truncated: heard.truncated,
        body_cut: false,
    }
}

/// What only a reader of the body knows.
fn with_facts(mut outcome: Outcome, heard: &Heard) -> Outcome {
    let fill = |answer: &mut Answer| {
        answer.body_bytes = heard.body_bytes;
        answer.digest = heard.digest;
        answer.title.clone_from(&heard.title);
        answer.links = u32::try_from(heard.links.len()).unwrap_or(u32::MAX);
        answer.noindex = heard.noindex;
        answer.nofollow = heard.nofollow;
        answer.noarchive = heard.noarchive;
    };
    match &mut outcome {
        Outcome::Fetched(answer) | Outcome::Unchanged(answer) | Outcome::Moved { answer, .. } => {
            fill(answer);
        }
        Outcome::Failed(failure) => failure.answer.iter_mut().for_each(fill),
        Outcome::Refused(_) => {}
    }
    outcome
}

/// All that could be visited at all; scope is judged where its shard is known.
fn links(ctx: &Ctx, base: &Base, heard: &Heard) -> Followed {
    let mut set = FoundSet::default();
    let mut skipped: BTreeMap<Box<str>, u64> = BTreeMap::new();
    let mut skip = |why: &str| *skipped.entry(why.into()).or_default() += 1;
    for link in &heard.links {
        match ctx.canon.join(base, link) {
            Ok(_) if heard.nofollow => skip("nofollow"),
            Ok(url) => {
                let (url, id) = (url.as_str(), UrlId::of(url.as_str()));
                set.push(Found { url, id, depth: 0, hops: 0, band: 0, seed: false });
            }
            Err(error) => skip(follow::unusable(&error)),
        }
    }
    let by_shard = BTreeMap::from([(ShardId(0), set)]);
    Followed { by_shard, skipped, ..Followed::default() }
}
