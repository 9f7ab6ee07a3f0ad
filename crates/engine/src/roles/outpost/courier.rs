//! How does a report reach the frontier, whatever happens on the way?
//!
//! One group at a time: put down, reported until it is answered, settled. If the session ends in
//! between, the frontier is asked what it knows of the group; it was restarted, or has given us up,
//! but what it has committed it knows.

use std::sync::Arc;

use ports::{Clock as _, Depot, Parcel, PortResult};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use types::VisitId;

use super::{BACKOFF_MAX, BACKOFF_MIN, Link, LinkError};
use crate::EngineError;
use crate::ctx::Ctx;
use crate::report::{Done, Report};
use crate::roles::crew::Verdict;

/// The depot is here, or on its way with a group.
pub(super) enum Courier {
    Here(Box<dyn Depot>),
    Away(JoinHandle<Returned>),
}

/// The depot, and whether the session still holds.
pub(super) type Returned = Result<(Box<dyn Depot>, bool), EngineError>;

impl Courier {
    pub(super) fn is_here(&self) -> bool {
        matches!(self, Self::Here(_))
    }

    /// Sends a group; only one that is here can.
    pub(super) fn send(
        self,
        ctx: &Arc<Ctx>,
        link: &Arc<dyn Link>,
        session: u64,
        group: Vec<Report>,
    ) -> Self {
        let Self::Here(depot) = self else { return self };
        let (ctx, link) = (Arc::clone(ctx), Arc::clone(link));
        Self::Away(tokio::spawn(deliver(ctx, link, session, group, depot)))
    }

    /// Waits for one that is away.
    pub(super) async fn returned(&mut self) -> Returned {
        match self {
            Self::Away(task) => task.await.map_err(|error| EngineError::Died(error.to_string()))?,
            Self::Here(_) => std::future::pending().await,
        }
    }
}

async fn deliver(
    ctx: Arc<Ctx>,
    link: Arc<dyn Link>,
    session: u64,
    mut group: Vec<Report>,
    mut depot: Box<dyn Depot>,
) -> Returned {
    let parcels: Vec<Parcel> = group.iter_mut().filter_map(parcel).collect();
    let archived: Vec<VisitId> = parcels.iter().map(|parcel| parcel.visit).collect();
    let depot = blocking(move || depot.put(parcels).map(|()| depot)).await??;
    let mut backoff = BACKOFF_MIN;
    let mut holds = true;
    let verdicts = loop {
        let answer = if holds {
            link.report(session, &group).await.map(|verdicts| of(&archived, &group, &verdicts))
        } else {
            link.known(&archived).await
        };
        match answer {
            Ok(verdicts) => break verdicts,
            Err(LinkError::Gone) => holds = false,
            Err(LinkError::Refused(why)) => return Err(EngineError::Setting(why)),
            Err(error) => tracing::warn!(%error, visits = group.len(), "a report is not answered"),
        }
        sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF_MAX);
    };
    let refused = verdicts.iter().filter(|verdict| **verdict == Verdict::Stale).count();
    if refused > 0 {
        tracing::warn!(refused, "visits were not ours any more; their answers are dropped");
    }
    Ok((settle(depot, verdicts, &ctx).await?, holds))
}

/// The verdicts about those that have something in the depot.
fn of(archived: &[VisitId], group: &[Report], verdicts: &[Verdict]) -> Vec<Verdict> {
    let mut judged = group.iter().map(|report| report.visit).zip(verdicts);
    // Both are in the order of the group.
    archived
        .iter()
        .map(|visit| judged.find(|(other, _)| other == visit).map_or(Verdict::Stale, |(_, v)| *v))
        .collect()
}

pub(super) async fn settle(
    mut depot: Box<dyn Depot>,
    verdicts: Vec<Verdict>,
    ctx: &Ctx,
) -> Result<Box<dyn Depot>, EngineError> {
    let now = ctx.clock.now();
    let committed: Vec<bool> = verdicts.iter().map(|verdict| *verdict == Verdict::Kept).collect();
    Ok(blocking(move || depot.settle(&committed, now).map(|()| depot)).await??)
}

/// The bytes of a visit that has any.
fn parcel(report: &mut Report) -> Option<Parcel> {
    let packed = report.packed.as_mut()?;
    let (url, status) = match &report.done {
        Done::Page(done) => (done.task.record.url.clone(), done.outcome.answer()?.status),
        Done::Robots { errand, status, .. } => (errand.url.clone(), (*status)?),
        _ => return None,
    };
    let parcel = Parcel {
        visit: report.visit,
        url,
        at: report.at,
        status,
        content_type: packed.mime.clone(),
        digest: packed.digest,
        bytes: std::mem::take(&mut packed.bytes),
        response: packed.response.clone(),
    };
    // They are on the disk in a moment.
    report.hold = None;
    Some(parcel)
}

/// Runs what waits for the disk where nobody else waits.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> PortResult<T> + Send + 'static,
) -> Result<PortResult<T>, EngineError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| EngineError::Died(error.to_string()))
}
