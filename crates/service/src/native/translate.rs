//! How do leases and reports look on the wire?
//!
//! Times are the tricky part: the two processes have a clock each. A worker tells its own time with
//! every report; what it says happened so long ago, happened so long before the report came. That is
//! a little later than it was, so a host's pause is never shorter for it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use engine::report::{Done, PageDone, Report, RobotsStep};
use engine::roles::crew::Verdict;
use engine::stages::follow::Followed;
use frontier::{Errand, Lease, RobotsErrand, Touch};
use ports::shard_store::{Found, FoundSet, RobotsFound};
use types::outcome::{Failure, Truncated};
use types::record::LastVisit;
use types::{
    Answer, CrawlUrl, Discovery, Fault, Held, Outcome, QueueKey, Record, Refusal, ShardId, Task,
    TextFacts, Timestamp, UrlId, Validators, VisitId,
};
use wire::lycosa as api;

use api::crawl_task::Kind;

// ── leases ───────────────────────────────────────────────────────────────────────────────────

/// A lease as a worker is told of it; none if there is nothing to be asked.
pub(crate) fn task(lease: &Lease, not_modified_max: u32) -> Option<api::CrawlTask> {
    let address = lease.address?.to_string();
    let visit = lease.visit.0;
    let pause_ms = u64::try_from(lease.pause.as_millis()).unwrap_or(u64::MAX);
    Some(match &lease.errand {
        Errand::Page(Task { record, .. }) => {
            // A worker archives what it fetches.
            let condition = record.condition(not_modified_max, true);
            let text = |value: Option<&Box<str>>| value.map_or(String::new(), |v| v.to_string());
            api::CrawlTask {
                url: record.url.to_string(),
                domain: record.url.site().as_str().to_owned(),
                depth: u32::from(record.found.depth),
                visit,
                address,
                kind: Kind::Page.into(),
                etag: text(condition.and_then(|known| known.etag.as_ref())),
                last_modified: text(condition.and_then(|known| known.last_modified.as_ref())),
                held: held_told(record),
                hops: u32::from(record.found.hops),
                seed: record.found.seed,
                origin: String::new(),
                pause_ms,
            }
        }
        Errand::Robots(errand) => api::CrawlTask {
            url: errand.url.to_string(),
            domain: errand.url.site().as_str().to_owned(),
            visit,
            address,
            kind: Kind::Robots.into(),
            hops: u32::from(errand.hops),
            origin: errand.origin.to_string(),
            pause_ms,
            ..api::CrawlTask::default()
        },
        Errand::Refuse(..) => return None,
    })
}

/// The page that we have, if we have it whole.
fn held_told(record: &Record) -> Option<api::Held> {
    let (held, last) = (record.held?, record.last.as_ref()?);
    let digest = last.answer.digest.map_or(Vec::new(), |digest| digest.to_vec());
    Some(api::Held { visit: held.visit.0, date_us: held.at.micros(), digest })
}

/// The lease that a task tells of; none if it makes no sense.
pub(super) fn lease(task: &api::CrawlTask, now: Timestamp) -> Option<Lease> {
    let url = CrawlUrl::from_canonical(&task.url).ok()?;
    let address: IpAddr = task.address.parse().ok()?;
    let host = url.host_key();
    let errand = match task.kind() {
        Kind::Page => {
            let found = Discovery {
                at: now,
                depth: u16::try_from(task.depth).ok()?,
                hops: u8::try_from(task.hops).ok()?,
                seed: task.seed,
                band: 0,
            };
            let id = url.id();
            let mut record = Record::new(url, found);
            let validators =
                Validators { etag: some(&task.etag), last_modified: some(&task.last_modified) };
            if let Some(api::Held { visit, date_us, digest }) = &task.held {
                let digest = digest.as_slice().try_into().ok();
                let answer = Answer { status: 200, validators, digest, ..Answer::default() };
                let last =
                    LastVisit { at: now, answer, moved_to: None, target_refused: None, warc: None };
                record.last = Some(Box::new(last));
                let (visit, at) = (VisitId(*visit), Timestamp::from_micros(*date_us));
                record.held = Some(Held { visit, at, unchanged: 0, told: 0 });
            }
            Errand::Page(Task { key: QueueKey::MIN, id, record })
        }
        Kind::Robots => {
            let origin = CrawlUrl::parse(&format!("{}/robots.txt", task.origin)).ok()?.origin();
            Errand::Robots(RobotsErrand { origin, url, hops: u8::try_from(task.hops).ok()? })
        }
    };
    Some(Lease {
        visit: VisitId(task.visit),
        host,
        errand,
        address: Some(address),
        granted_at: now,
        not_before: now,
        pause: Duration::from_millis(task.pause_ms),
        name_wait: Duration::ZERO,
    })
}

// ── reports ──────────────────────────────────────────────────────────────────────────────────

/// A report as a worker sends it.
pub(super) fn report(report: &Report) -> api::Report {
    let mut told = api::Report { visit: report.visit.0, ..api::Report::default() };
    match &report.touch {
        Touch::Answered { sent, ended, .. } => {
            (told.sent_us, told.ended_us) = (sent.micros(), ended.micros());
        }
        Touch::Faulted { sent, ended, fault, retry_after, .. } => {
            told.sent_us = sent.map_or(0, Timestamp::micros);
            told.ended_us = ended.micros();
            told.fault = Some(fault_told(fault));
            told.retry_after_s = retry_after.map(|wait| wait.as_secs());
        }
        Touch::Untouched => told.ended_us = report.at.micros(),
        Touch::Lost { .. } => told.fault = Some(fault_told(&Fault::Lost)),
    }
    match &report.done {
        Done::Page(done) => {
            match &done.outcome {
                Outcome::Refused(refusal) => told.refusal = Some(refusal_told(refusal)),
                // One that was never sent is no touch, but a failure all the same.
                Outcome::Failed(failure) => told.fault = Some(fault_told(&failure.fault)),
                _ => {}
            }
            told.answer = done.outcome.answer().map(answer_told);
            if let (Some(answer), Outcome::Moved { to: Some(to), .. }) =
                (&mut told.answer, &done.outcome)
            {
                answer.moved_to = to.to_string();
            }
            if let (Some(answer), Outcome::Unchanged(_)) = (&mut told.answer, &done.outcome) {
                answer.unchanged = true;
            }
            let links = done.followed.by_shard.values().flat_map(FoundSet::iter);
            told.links = links.map(|found| found.url.to_owned()).collect();
            let skipped = done.followed.skipped.iter();
            told.skipped = skipped.map(|(why, links)| (why.to_string(), *links)).collect();
        }
        Done::Robots { step, status, .. } => {
            let status = status.map(|status| Answer { status, ..Answer::default() });
            told.answer = status.as_ref().map(answer_told);
            match step {
                RobotsStep::Moved(to) => {
                    told.answer.get_or_insert_default().moved_to = to.to_string();
                }
                RobotsStep::Found(RobotsFound::Text(text)) => told.robots = Some(text.to_vec()),
                RobotsStep::Found(RobotsFound::Absent) => {}
                RobotsStep::Found(RobotsFound::Unreachable(why)) => {
                    told.unreachable = why.to_string();
                }
                RobotsStep::Refused(refusal) => told.refusal = Some(refusal_told(refusal)),
            }
        }
        Done::GivenBack | Done::NoRules { .. } => told.given_back = true,
        Done::Lost { .. } => told.fault = Some(fault_told(&Fault::Lost)),
    }
    told
}

/// What a worker's words on its lease mean. `at` turns its times into ours. Says what makes no
/// sense.
pub(super) fn understood(
    told: api::Report,
    lease: &Lease,
    at: impl Fn(u64) -> Timestamp,
) -> Result<Report, String> {
    let sent = (told.sent_us > 0).then(|| at(told.sent_us));
    let ended = at(told.ended_us);
    let left_at = sent.unwrap_or(ended);
    let report = |touch, done| Report {
        visit: lease.visit,
        touch,
        at: left_at,
        done,
        packed: None,
        hold: None,
    };
    if told.given_back {
        return Ok(report(Touch::Untouched, Done::GivenBack));
    }
    let page = matches!(&lease.errand, Errand::Page(task) if !task.record.is_revisit());
    let retry_after = told.retry_after_s.map(Duration::from_secs);
    let moved_to = match &told.answer {
        Some(answer) if !answer.moved_to.is_empty() => Some(canonical(&answer.moved_to)?),
        _ => None,
    };
    let unchanged = told.answer.as_ref().is_some_and(|answer| answer.unchanged);
    let answer = told.answer.map(answer_understood).transpose()?;
    let fault = told.fault.map(|fault| fault_understood(&fault, answer.as_ref())).transpose()?;
    let refusal = told.refusal.map(refusal_understood).transpose()?;
    let touch = match (&refusal, &fault, &answer) {
        (Some(_), ..) => Touch::Untouched,
        (None, Some(Fault::Lost), _) | (None, None, None) => {
            let task = lease.errand.task().cloned();
            return Ok(report(Touch::Lost { at: ended, sent: true }, Done::Lost { task }));
        }
        (None, Some(fault), answer) => Touch::Faulted {
            sent,
            ended,
            fault: fault.clone(),
            retry_after,
            page: page && answer.is_some(),
        },
        (None, None, Some(answer)) => {
            Touch::Answered { sent: left_at, ended, status: answer.status, page }
        }
    };
    if let Errand::Robots(errand) = &lease.errand {
        let step = match (refusal, moved_to) {
            (Some(refusal), _) => RobotsStep::Refused(refusal),
            (None, Some(to)) => RobotsStep::Moved(to),
            (None, None) => RobotsStep::Found(match told.robots {
                _ if !told.unreachable.is_empty() => {
                    RobotsFound::Unreachable(told.unreachable.as_str().into())
                }
                Some(text) => RobotsFound::Text(text.into()),
                // Without a word on it, what has failed is out of reach.
                None => match fault {
                    Some(fault) => RobotsFound::Unreachable(fault.to_string().into()),
                    None => RobotsFound::Absent,
                },
            }),
        };
        let status = answer.map(|answer| answer.status);
        return Ok(report(touch, Done::Robots { errand: errand.clone(), step, status }));
    }
    let task = lease.errand.task().ok_or("it was about nothing")?.clone();
    let outcome = match (refusal, fault, answer, moved_to) {
        (Some(refusal), ..) => Outcome::Refused(refusal),
        (None, Some(fault), answer, _) => Outcome::Failed(Failure { fault, retry_after, answer }),
        (None, None, Some(answer), Some(to)) => {
            let lasting = matches!(answer.status, 301 | 308);
            Outcome::Moved { to: Some(to), lasting, answer }
        }
        (None, None, Some(answer), None) if unchanged => Outcome::Unchanged(answer),
        (None, None, Some(answer), None) => Outcome::Fetched(answer),
        (None, None, None, _) => return Err("nothing is said of it".to_owned()),
    };
    let mut links = FoundSet::default();
    for link in &told.links {
        let url = canonical(link)?;
        let id = UrlId::of(url.as_str());
        links.push(Found { url: url.as_str(), id, depth: 0, hops: 0, band: 0, seed: false });
    }
    let skipped: BTreeMap<Box<str>, u64> =
        told.skipped.into_iter().map(|(why, links)| (why.into(), links)).collect();
    let by_shard = BTreeMap::from([(ShardId(0), links)]);
    let followed = Followed { by_shard, skipped, ..Followed::default() };
    let dated =
        Some(Timestamp::from_micros(if told.sent_us > 0 { told.sent_us } else { told.ended_us }));
    Ok(report(touch, Done::Page(Box::new(PageDone { task, outcome, followed, dated }))))
}

fn canonical(text: &str) -> Result<CrawlUrl, String> {
    match CrawlUrl::parse(text) {
        Ok(url) if url.as_str() == text => Ok(url),
        Ok(url) => Err(format!("`{text}` is not canonical: send `{url}`")),
        Err(error) => Err(format!("`{text}` is no URL: {error}")),
    }
}

fn some(text: &str) -> Option<Box<str>> {
    (!text.is_empty()).then(|| text.into())
}

fn answer_told(answer: &Answer) -> api::Answer {
    let text = |value: &Option<Box<str>>| value.as_ref().map_or(String::new(), |v| v.to_string());
    api::Answer {
        status: u32::from(answer.status),
        content_type: text(&answer.content_type),
        body_bytes: answer.body_bytes,
        took_ms: answer.took_ms,
        digest: answer.digest.map_or(Vec::new(), |digest| digest.to_vec()),
        etag: text(&answer.validators.etag),
        last_modified: text(&answer.validators.last_modified),
        title: text(&answer.title),
        links: answer.links,
        truncated: answer.truncated.map_or(String::new(), |why| why.as_str().to_owned()),
        noindex: answer.noindex,
        nofollow: answer.nofollow,
        noarchive: answer.noarchive,
        moved_to: String::new(),
        unchanged: false,
        text: answer.text.as_deref().map(|facts| api::Text {
            digest: facts.digest.to_vec(),
            simhash: facts.simhash,
            sketch: answer.sketch.as_deref().unwrap_or_default().to_vec(),
            words: facts.words,
            language: text(&facts.language),
        }),
    }
}

fn answer_understood(told: api::Answer) -> Result<Answer, String> {
    let status = u16::try_from(told.status).ok().filter(|status| (100..1000).contains(status));
    let digest: Option<[u8; 20]> = match told.digest.len() {
        0 => None,
        _ => Some(told.digest.try_into().map_err(|_| "a digest has 20 bytes".to_owned())?),
    };
    let truncated = truncated(&told.truncated)?;
    let (text, sketch) = match told.text {
        Some(text) => text_understood(text)?,
        None => (None, None),
    };
    Ok(Answer {
        status: status.ok_or_else(|| format!("{} is no status", told.status))?,
        content_type: some(&told.content_type),
        body_bytes: told.body_bytes,
        took_ms: told.took_ms,
        digest,
        validators: Validators { etag: some(&told.etag), last_modified: some(&told.last_modified) },
        title: some(&told.title),
        links: told.links,
        truncated,
        noindex: told.noindex,
        nofollow: told.nofollow,
        noarchive: told.noarchive,
        text,
        sketch,
        // What a page says stays with the worker that has archived it.
        reading: None,
    })
}

type TextUnderstood = (Option<Box<TextFacts>>, Option<Box<[u8]>>);

fn text_understood(told: api::Text) -> Result<TextUnderstood, String> {
    let digest = told.digest.try_into().map_err(|_| "the digest of a text has 32 bytes")?;
    // The reader of sketches knows their length; here is only a bound.
    if told.sketch.len() > SKETCH_BYTES_MAX || told.language.len() > LANGUAGE_BYTES_MAX {
        return Err("a sketch or a language of this length is none".to_owned());
    }
    let (simhash, words, language) = (told.simhash, told.words, some(&told.language));
    let sketch = (!told.sketch.is_empty()).then(|| told.sketch.into());
    Ok((Some(Box::new(TextFacts { digest, simhash, words, language })), sketch))
}

/// What a worker may say of a text at most.
const SKETCH_BYTES_MAX: usize = 1 << 10;
const LANGUAGE_BYTES_MAX: usize = 64;

fn fault_told(fault: &Fault) -> api::Fault {
    let detail = match fault {
        Fault::Dns(what)
        | Fault::Connect(what)
        | Fault::Tls(what)
        | Fault::Timeout(what)
        | Fault::Reset(what)
        | Fault::BadHttp(what)
        | Fault::Ours(what)
        | Fault::Proxy(what) => what.to_string(),
        Fault::Status(status) => status.to_string(),
        Fault::Lost => String::new(),
    };
    api::Fault { kind: fault.name().to_owned(), detail }
}

/// Why an answer is not whole; empty if it is.
pub(crate) fn truncated(text: &str) -> Result<Option<Truncated>, String> {
    Ok(match text {
        "" => None,
        "length" => Some(Truncated::Length),
        "time" => Some(Truncated::Time),
        "disconnect" => Some(Truncated::Disconnect),
        "unspecified" => Some(Truncated::Unspecified),
        other => {
            return Err(format!(
                "truncated is length, time, disconnect or unspecified, not `{other}`"
            ));
        }
    })
}

pub(crate) fn fault_understood(
    told: &api::Fault,
    answer: Option<&Answer>,
) -> Result<Fault, String> {
    let detail = told.detail.as_str().into();
    Ok(match told.kind.as_str() {
        "dns" => Fault::Dns(detail),
        "connect" => Fault::Connect(detail),
        "tls" => Fault::Tls(detail),
        "timeout" => Fault::Timeout(detail),
        "reset" => Fault::Reset(detail),
        "bad-http" => Fault::BadHttp(detail),
        "status" => {
            let status = answer.map(|answer| answer.status).or_else(|| told.detail.parse().ok());
            Fault::Status(status.ok_or("a fault of kind status needs an answer with its status")?)
        }
        "lost" => Fault::Lost,
        "ours" => Fault::Ours(detail),
        "proxy" => Fault::Proxy(detail),
        other => {
            return Err(format!("a fault is one of {}, not `{other}`", Fault::NAMES.join(", ")));
        }
    })
}

fn refusal_told(refusal: &Refusal) -> api::Refusal {
    match refusal {
        Refusal::Setting { key, value, found } => api::Refusal {
            key: key.to_string(),
            value: value.to_string(),
            found: found.to_string(),
            address: String::new(),
        },
        Refusal::Address { address, range } => api::Refusal {
            value: range.to_string(),
            address: address.to_string(),
            ..api::Refusal::default()
        },
        // These are the frontier's to say; a worker has none of them.
        other => api::Refusal {
            key: other.class().to_owned(),
            found: other.to_string(),
            ..api::Refusal::default()
        },
    }
}

fn refusal_understood(told: api::Refusal) -> Result<Refusal, String> {
    if told.address.is_empty() {
        let (key, value, found) = (told.key.into(), told.value.into(), told.found.into());
        return Ok(Refusal::Setting { key, value, found });
    }
    let address = told.address.parse();
    let address = address.map_err(|_| format!("`{}` is no address", told.address))?;
    Ok(Refusal::Address { address, range: told.value.into() })
}

// ── verdicts ─────────────────────────────────────────────────────────────────────────────────

pub(super) fn verdicts_told(verdicts: &[Verdict]) -> api::Ack {
    let told = verdicts.iter().map(|verdict| match verdict {
        Verdict::Kept => api::Verdict::Kept.into(),
        Verdict::Stale => api::Verdict::Stale.into(),
    });
    api::Ack { verdicts: told.collect() }
}

pub(super) fn verdicts_understood(ack: &api::Ack) -> Vec<Verdict> {
    let understood = ack.verdicts().map(|verdict| match verdict {
        api::Verdict::Kept => Verdict::Kept,
        api::Verdict::Stale => Verdict::Stale,
    });
    understood.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000);

    fn url(text: &str) -> CrawlUrl {
        CrawlUrl::parse(text).unwrap()
    }

    fn page_lease() -> Lease {
        let found = Discovery { at: NOW, depth: 3, hops: 1, seed: true, band: 0 };
        let mut record = Record::new(url("http://a.test/p?q=1"), found);
        let validators = Validators { etag: Some("\"x\"".into()), last_modified: None };
        let answer = Answer { status: 200, validators, digest: Some([3; 20]), ..Answer::default() };
        let last = LastVisit { at: NOW, answer, moved_to: None, target_refused: None, warc: None };
        record.last = Some(Box::new(last));
        record.held = Some(Held { visit: VisitId(12), at: NOW, unchanged: 0, told: 0 });
        Lease {
            visit: VisitId::new(ShardId(2), 77),
            host: record.url.host_key(),
            errand: Errand::Page(Task { key: QueueKey::MIN, id: record.url.id(), record }),
            address: Some("127.0.0.9".parse().unwrap()),
            granted_at: NOW,
            not_before: NOW,
            pause: Duration::from_millis(1_500),
            name_wait: Duration::ZERO,
        }
    }

    /// Of a page that was never visited, so that it counts.
    fn first_lease() -> Lease {
        let mut lease = page_lease();
        if let Errand::Page(task) = &mut lease.errand {
            (task.record.last, task.record.held) = (None, None);
        }
        lease
    }

    fn robots_lease() -> Lease {
        let home = url("https://a.test:8443/robots.txt");
        let errand = RobotsErrand { origin: home.origin(), url: url("http://b.test/r"), hops: 2 };
        Lease { errand: Errand::Robots(errand), ..page_lease() }
    }

    #[test]
    fn a_lease_comes_over_the_wire_whole() {
        for lease in [page_lease(), robots_lease()] {
            let there = super::lease(&task(&lease, 0).unwrap(), NOW).unwrap();
            assert_eq!((there.visit, there.address), (lease.visit, lease.address));
            assert_eq!(there.pause, lease.pause);
            match (&lease.errand, &there.errand) {
                (Errand::Page(a), Errand::Page(b)) => assert_eq!(a, b),
                (Errand::Robots(a), Errand::Robots(b)) => assert_eq!(a, b),
                other => panic!("{other:?}"),
            }
        }
    }

    fn there_and_back(told: &Report, lease: &Lease) -> Report {
        // The clock of the frontier is a minute ahead.
        understood(report(told), lease, |us| Timestamp(us + 60_000_000)).unwrap()
    }

    fn page_report(outcome: Outcome, touch: Touch) -> Report {
        let Errand::Page(task) = page_lease().errand else { unreachable!("made so") };
        let mut links = FoundSet::default();
        let to = "http://b.test/";
        links.push(Found { url: to, id: UrlId::of(to), depth: 0, hops: 0, band: 0, seed: false });
        let followed = Followed {
            by_shard: BTreeMap::from([(ShardId(0), links)]),
            skipped: BTreeMap::from([("scheme".into(), 4)]),
            ..Followed::default()
        };
        let done = Done::Page(Box::new(PageDone { task, outcome, followed, dated: None }));
        Report { visit: VisitId(5), touch, at: NOW, done, packed: None, hold: None }
    }

    fn answer(status: u16) -> Answer {
        Answer {
            status,
            content_type: Some("text/html".into()),
            body_bytes: 9,
            took_ms: 8,
            digest: Some([7; 20]),
            title: Some("a title".into()),
            links: 6,
            truncated: Some(Truncated::Time),
            nofollow: true,
            text: Some(Box::new(TextFacts {
                digest: [6; 32],
                simhash: u64::MAX - 1,
                words: 5,
                language: Some("de".into()),
            })),
            sketch: Some(vec![4; 132].into()),
            ..Answer::default()
        }
    }

    #[test]
    fn every_outcome_comes_over_the_wire_whole() {
        let later = |at: Timestamp| at + Duration::from_secs(60);
        let ended = NOW + Duration::from_secs(2);
        let answered = |status| Touch::Answered { sent: NOW, ended, status, page: true };
        let faulted = |fault, page| Touch::Faulted {
            sent: Some(NOW),
            ended,
            fault,
            retry_after: Some(Duration::from_secs(30)),
            page,
        };
        let failed = |fault, answer| {
            Outcome::Failed(Failure { fault, retry_after: Some(Duration::from_secs(30)), answer })
        };
        let range =
            Refusal::Address { address: "10.0.0.1".parse().unwrap(), range: "private".into() };
        let moved =
            Outcome::Moved { to: Some(url("http://c.test/")), lasting: true, answer: answer(301) };
        let outcomes = [
            (Outcome::Fetched(answer(404)), answered(404)),
            (Outcome::Unchanged(answer(304)), answered(304)),
            (moved, answered(301)),
            (failed(Fault::Status(503), Some(answer(503))), faulted(Fault::Status(503), true)),
            (
                failed(Fault::Timeout("total".into()), None),
                faulted(Fault::Timeout("total".into()), false),
            ),
            (Outcome::Refused(range), Touch::Untouched),
        ];
        for (outcome, touch) in outcomes {
            let told = page_report(outcome.clone(), touch.clone());
            let heard = there_and_back(&told, &first_lease());
            let Done::Page(done) = heard.done else { panic!("{:?}", heard.done) };
            assert_eq!(done.outcome, outcome);
            let expected = match touch {
                Touch::Answered { status, page, .. } => {
                    Touch::Answered { sent: later(NOW), ended: later(ended), status, page }
                }
                Touch::Faulted { fault, retry_after, page, .. } => Touch::Faulted {
                    sent: Some(later(NOW)),
                    ended: later(ended),
                    fault,
                    retry_after,
                    page,
                },
                other => other,
            };
            assert_eq!(heard.touch, expected);
            let links: Vec<_> = done.followed.by_shard[&ShardId(0)].iter().map(|l| l.url).collect();
            assert_eq!((links, done.followed.skipped["scheme"]), (vec!["http://b.test/"], 4));
        }
    }

    #[test]
    fn every_step_to_a_robots_txt_comes_over_the_wire_whole() {
        let refusal = Refusal::Setting { key: "k".into(), value: "v".into(), found: "f".into() };
        let steps = [
            RobotsStep::Moved(url("http://c.test/robots.txt")),
            RobotsStep::Found(RobotsFound::Text(b"User-agent: *".as_slice().into())),
            RobotsStep::Found(RobotsFound::Text(Box::default())),
            RobotsStep::Found(RobotsFound::Absent),
            RobotsStep::Found(RobotsFound::Unreachable("its answer broke off".into())),
            RobotsStep::Refused(refusal),
        ];
        for step in steps {
            let Errand::Robots(errand) = robots_lease().errand else { unreachable!("made so") };
            let expected = format!("{step:?}");
            let touch = Touch::Answered { sent: NOW, ended: NOW, status: 200, page: false };
            let done = Done::Robots { errand, step, status: Some(200) };
            let told = Report { visit: VisitId(5), touch, at: NOW, done, packed: None, hold: None };
            let Done::Robots { step, status, .. } = there_and_back(&told, &robots_lease()).done
            else {
                panic!()
            };
            assert_eq!((format!("{step:?}"), status), (expected, Some(200)));
        }
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let fault_of = |told| understood(told, &page_lease(), Timestamp).map(|_| ()).unwrap_err();
        let with = |answer| api::Report { answer: Some(answer), ..api::Report::default() };
        let status = api::Answer { status: 70_000, ..api::Answer::default() };
        assert_eq!(fault_of(with(status)), "70000 is no status");
        let moved =
            api::Answer { status: 301, moved_to: "HTTP://A/".into(), ..api::Answer::default() };
        assert_eq!(fault_of(with(moved)), "`HTTP://A/` is not canonical: send `http://a/`");
        let fault = api::Fault { kind: "gremlins".into(), ..api::Fault::default() };
        let told = api::Report { fault: Some(fault), ..api::Report::default() };
        assert!(fault_of(told).contains("dns, connect"));
    }

    #[test]
    fn a_report_that_says_nothing_is_a_lost_visit() {
        let heard = understood(api::Report::default(), &page_lease(), Timestamp).unwrap();
        assert!(matches!(heard.done, Done::Lost { .. }));
    }
}
