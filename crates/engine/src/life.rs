//! The life of one URL, from its lease to the report of its visit.
//!
//! ```text
//! lease ─► gate ─► fetch ─► read ─► report ─► (its owner settles it, the keeper stores it,
//!          robots   one      links,            its links go on to the frontier)
//!          scope    request  records
//! ```
//!
//! A visit makes one request at most. Everything the web can do to it is an outcome, so a visit
//! always ends in a report; only a process that dies leaves none, and then the noted grant speaks
//! for it at the next start.

use std::net::IpAddr;
use std::sync::Arc;

use frontier::{Errand, Lease, RobotsErrand, Touch};
use ports::shard_store::RobotsFound;
use ports::{Ended, Exchange, Held, Purpose, Request, Response, failpoint};
use robots::{Access, Reply};
use types::outcome::Failure;
use types::{Discovery, Fault, Outcome, Task, Timestamp, Validators};

use crate::ctx::Ctx;
use crate::pool::Weight;
use crate::report::{Done, Report, RobotsStep};
use crate::roles::worker::Departure;
use crate::stages::gate::{self, Gate};
use crate::stages::read::{Packed, ReadVisit, Visited};
use crate::stages::{fetch, read};

pub async fn visit(ctx: &Arc<Ctx>, lease: Lease, departure: &Departure) -> Report {
    match admit(ctx, &lease).await {
        Ok(address) => make(ctx, &lease, address, departure).await,
        Err(report) => *report,
    }
}

/// The first half: may it be made? Scope and rules are where the frontier is. Answers the address
/// that may be asked, or the report of a visit that is over before it began.
pub async fn admit(ctx: &Ctx, lease: &Lease) -> Result<IpAddr, Box<Report>> {
    let report = match (&lease.errand, lease.address) {
        (Errand::Page(task), Some(address)) => match gate::check(ctx, task).await {
            Gate::Open => return Ok(address),
            Gate::Closed(refusal) => Report::refused(lease, task.clone(), refusal),
            Gate::NoRules(origin) => Report::no_rules(lease, origin),
        },
        (Errand::Robots(_), Some(address)) => return Ok(address),
        (Errand::Robots(errand), None) => {
            let why = "the host that it points to cannot be asked now";
            let step = RobotsStep::Found(RobotsFound::Unreachable(why.into()));
            Report::robots(lease, errand.clone(), step)
        }
        (Errand::Refuse(task, refusal), _) => Report::refused(lease, task.clone(), refusal.clone()),
        (Errand::Page(_), None) => unreachable!("a page is leased with its address"),
    };
    Err(Box::new(report))
}

/// The second half, here or in another process: one request, and what is read from its answer.
pub async fn make(ctx: &Arc<Ctx>, lease: &Lease, address: IpAddr, departure: &Departure) -> Report {
    match lease.errand.clone() {
        Errand::Page(task) => page(ctx, lease, task, address, departure).await,
        Errand::Robots(errand) => robots_txt(ctx, lease, errand, address, departure).await,
        Errand::Refuse(task, refusal) => Report::refused(lease, task, refusal),
    }
}

async fn page(
    ctx: &Arc<Ctx>,
    lease: &Lease,
    task: Task,
    address: IpAddr,
    departure: &Departure,
) -> Report {
    let url = task.record.url.clone();
    let request = fetch::page_request(&ctx.options, &task.record, address);
    let conditional = !request.validators.is_empty();
    let exchange = fetch::fetch(ctx, lease.visit, request, departure).await;
    if exchange.end == Ended::NoTurn {
        return Report::given_back(lease);
    }

    let outcome = fetch::judge(&exchange, &url, &ctx.canon, conditional);
    let touch = fetch::touch(&exchange, &outcome, !task.record.is_revisit());
    let earlier = read::earlier(&task.record, &outcome, ctx.options.crawl_id);
    let visited = Visited { visit: lease.visit, url, found: task.record.found, address, earlier };
    let (at, read, hold) =
        in_pool(ctx, exchange, move |ctx, exchange| read::page(ctx, &visited, outcome, exchange))
            .await;
    let ReadVisit { outcome, followed, packed } = match read {
        Ok(read) => read,
        Err(why) => return Report::broke(lease, task, touch, at, why),
    };
    let done = Done::page(task, outcome, followed);
    let hold = left(hold, packed.as_ref());
    Report { visit: lease.visit, touch, at, done, packed, hold }
}

async fn robots_txt(
    ctx: &Arc<Ctx>,
    lease: &Lease,
    errand: RobotsErrand,
    address: IpAddr,
    departure: &Departure,
) -> Report {
    let request = Request {
        url: errand.url.clone(),
        address,
        purpose: Purpose::Robots,
        validators: Validators::default(),
    };
    let exchange = fetch::fetch(ctx, lease.visit, request, departure).await;
    if exchange.end == Ended::NoTurn {
        return Report::given_back(lease);
    }
    failpoint("robots_fetch");
    let outcome = fetch::judge(&exchange, &errand.url, &ctx.canon, false);
    let touch = fetch::touch(&exchange, &outcome, false);
    let bytes_max = ctx.options.robots.bytes_max.as_len();
    let (step, status) = robots_step(&exchange, &outcome, &errand, bytes_max);
    let found =
        Discovery { at: lease.granted_at, depth: 0, hops: errand.hops, seed: false, band: 0 };
    let url = errand.url.clone();
    let visited = Visited { visit: lease.visit, url, found, address, earlier: None };
    let (at, packed, hold) =
        in_pool(ctx, exchange, move |ctx, exchange| read::robots(ctx, &visited, exchange)).await;
    let packed = packed.unwrap_or(None);
    let hold = left(hold, packed.as_ref());
    Report {
        visit: lease.visit,
        touch,
        at,
        done: Done::Robots { errand, step, status },
        packed,
        hold,
    }
}

/// What an answer to a robots.txt request means, and its status if there was one.
pub(crate) fn robots_step(
    exchange: &Exchange,
    outcome: &Outcome,
    errand: &RobotsErrand,
    bytes_max: usize,
) -> (RobotsStep, Option<u16>) {
    if let (Outcome::Refused(refusal), 0) = (outcome, errand.hops) {
        return (RobotsStep::Refused(refusal.clone()), None);
    }
    let status = outcome.answer().map(|answer| answer.status);
    let reply = match (outcome, status) {
        (Outcome::Moved { to: Some(to), .. }, _)
            if u32::from(errand.hops) < robots::REDIRECTS_MAX =>
        {
            return (RobotsStep::Moved(to.clone()), status);
        }
        (Outcome::Moved { .. }, _) => Reply::TooManyRedirects,
        (_, Some(status)) => Reply::Status(status),
        (_, None) => Reply::Silence,
    };
    let found = match Access::of(reply) {
        Access::Parse => match &exchange.response {
            // Half a file may lack the half that forbids.
            Some(response) if !response.is_whole(bytes_max) => {
                RobotsFound::Unreachable("its answer broke off".into())
            }
            Some(response) => RobotsFound::Text(response.body[..].into()),
            None => RobotsFound::Text(Box::default()),
        },
        Access::AllowAll => RobotsFound::Absent,
        Access::Unreachable => RobotsFound::Unreachable(trouble(outcome).into()),
    };
    (RobotsStep::Found(found), status)
}

fn trouble(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed(Failure { fault, .. }) => fault.to_string(),
        Outcome::Refused(refusal) => refusal.to_string(),
        other => match other.answer() {
            Some(answer) => format!("the server answered {}", answer.status),
            None => Fault::BadHttp("no answer".into()).to_string(),
        },
    }
}

type Hold = Option<Box<dyn Held>>;

/// Of an answer that was read its records are left, until they are on the disk.
fn left(mut hold: Hold, packed: Option<&Packed>) -> Hold {
    hold.as_mut()?.keep(packed.map_or(0, Packed::memory_bytes));
    hold
}

/// Runs the CPU part of a visit. The wire bytes go when it is done; they are counted until then.
async fn in_pool<T: Send + 'static>(
    ctx: &Arc<Ctx>,
    mut exchange: Exchange,
    work: impl FnOnce(&Ctx, &Exchange) -> T + Send + 'static,
) -> (Timestamp, Result<T, String>, Hold) {
    let at = exchange.times.sent.unwrap_or(exchange.times.started);
    let hold = exchange.hold.take();
    let shared = Arc::clone(ctx);
    let weight = exchange.response.as_ref().map_or(Weight::Light, weight);
    let result = ctx.pool.run(weight, move || work(&shared, &exchange)).await;
    (at, result.map_err(|died| died.0), hold)
}

/// By what there is to read and what there is to archive, whichever is more.
fn weight(response: &Response) -> Weight {
    Weight::of(response.body_wire_bytes().max(response.body.len() as u64))
}

/// A visit that nobody will report.
pub fn lost(lease: &Lease, now: Timestamp, sent: bool) -> Report {
    let done = match &lease.errand {
        Errand::Page(task) | Errand::Refuse(task, _) => Done::Lost { task: Some(task.clone()) },
        Errand::Robots(_) => Done::Lost { task: None },
    };
    let touch = Touch::Lost { at: now, sent };
    Report { visit: lease.visit, touch, at: now, done, packed: None, hold: None }
}
