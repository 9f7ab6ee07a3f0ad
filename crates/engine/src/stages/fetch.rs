//! What did the server's answer mean?
//!
//! The request itself is the fetcher's. Here its end becomes an [`Outcome`]: a redirect is data,
//! 429 and 5xx speak of the server's health, everything else is an answer about the page.

use std::time::Duration;

use frontier::Touch;
use ports::{Ended, Exchange, Purpose, Request, Response};
use types::outcome::Failure;
use types::{
    Answer, Base, Canon, CrawlUrl, Fault, Outcome, Record, Timestamp, Validators, VisitId,
};

use crate::ctx::{Ctx, EngineOptions};
use crate::roles::worker::Departure;

/// Longest `Retry-After` that is taken as meant; a longer one is a mistake or a joke.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30 * 86_400);

/// One request to the pinned address. The address's gate hears of it the moment it leaves.
pub async fn fetch(ctx: &Ctx, visit: VisitId, request: Request, departure: &Departure) -> Exchange {
    let address = request.address;
    let mut on_sent = |at: Timestamp| {
        departure.at(visit, at);
        ctx.addresses.lock().expect("no panic while locked").sent(address, visit, at);
    };
    tracing::trace!(%visit, url = %request.url, %address, "request");
    ctx.fetcher.fetch(request, &mut on_sent).await
}

/// A page that we have whole is asked for only if it has changed.
pub fn page_request(
    options: &EngineOptions,
    record: &Record,
    address: std::net::IpAddr,
) -> Request {
    let condition = record.condition(options.not_modified_max, options.archive);
    let validators = condition.cloned().unwrap_or_default();
    Request { url: record.url.clone(), address, purpose: Purpose::Page, validators }
}

/// What the exchange came to, before anybody has read the body. `conditional`: we have asked for
/// a change only.
pub fn judge(exchange: &Exchange, url: &CrawlUrl, canon: &Canon, conditional: bool) -> Outcome {
    let response = match (&exchange.end, &exchange.response) {
        (Ended::Answered, Some(response)) => response,
        (Ended::Broken(fault), _) => return broken(fault.clone()),
        (Ended::Refused(refusal), _) => return Outcome::Refused(refusal.clone()),
        (Ended::Answered, None) => return broken(Fault::BadHttp("no answer".into())),
        (Ended::NoTurn, _) => return broken(Fault::Ours("it had no turn".into())),
    };
    let answer = answer(response, exchange);
    match response.status {
        status @ (408 | 421 | 429 | 500..=599) => Outcome::Failed(Failure {
            fault: Fault::Status(status),
            retry_after: retry_after(response, exchange.times.ended),
            answer: Some(answer),
        }),
        304 if conditional => Outcome::Unchanged(answer),
        304 => Outcome::Failed(Failure {
            fault: Fault::BadHttp("304 to a request without a condition".into()),
            retry_after: None,
            answer: Some(answer),
        }),
        status @ (301 | 302 | 303 | 307 | 308) => match location(response, url, canon) {
            Some(to) => {
                Outcome::Moved { to: Some(to), lasting: matches!(status, 301 | 308), answer }
            }
            None => Outcome::Fetched(answer),
        },
        _ => Outcome::Fetched(answer),
    }
}

fn broken(fault: Fault) -> Outcome {
    Outcome::Failed(Failure { fault, retry_after: None, answer: None })
}

/// What the visit was like for the host; `page`: an answer is a page that was not counted before.
pub fn touch(exchange: &Exchange, outcome: &Outcome, page: bool) -> Touch {
    let ended = exchange.times.ended;
    match outcome {
        Outcome::Refused(_) => Touch::Untouched,
        Outcome::Failed(failure) => Touch::Faulted {
            sent: exchange.times.sent,
            ended,
            fault: failure.fault.clone(),
            retry_after: failure.retry_after,
            page: page && failure.answer.is_some(),
        },
        _ => Touch::Answered {
            sent: exchange.times.sent.unwrap_or(exchange.times.started),
            ended,
            status: outcome.answer().map_or(0, |answer| answer.status),
            page,
        },
    }
}

fn answer(response: &Response, exchange: &Exchange) -> Answer {
    let short = |value: &&str| value.len() <= VALIDATOR_BYTES_MAX;
    let text = |name| response.header(name).filter(short).map(Into::into);
    let started = exchange.times.sent.unwrap_or(exchange.times.started);
    let took = exchange.times.ended.since(started).as_millis();
    Answer {
        status: response.status,
        content_type: response.header("content-type").map(media_type),
        body_bytes: response.body_wire_bytes(),
        took_ms: u32::try_from(took).unwrap_or(u32::MAX),
        validators: Validators { etag: text("etag"), last_modified: text("last-modified") },
        truncated: response.truncated,
        ..Answer::default()
    }
}

/// Longest validator that is kept: it lies in the URL's row. Without it the page is asked for whole.
const VALIDATOR_BYTES_MAX: usize = 256;

/// Longest media type that is kept; registered ones are far shorter.
const MEDIA_TYPE_MAX: usize = 100;

fn media_type(value: &str) -> Box<str> {
    let end = value.find([';', ',']).unwrap_or(value.len());
    let plain = value[..end].trim().to_ascii_lowercase();
    plain.chars().take(MEDIA_TYPE_MAX).collect::<String>().into()
}

fn location(response: &Response, url: &CrawlUrl, canon: &Canon) -> Option<CrawlUrl> {
    let value = response.header_values("location").next()?;
    // Servers send raw bytes in Location; browsers take UTF-8 as text, and the rest as it is.
    let text = match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => value.iter().fold(String::new(), |mut text, &byte| {
            match byte.is_ascii() {
                true => text.push(char::from(byte)),
                false => text.push_str(&format!("%{byte:02X}")),
            }
            text
        }),
    };
    canon.join(&Base::from(url), &text).ok()
}

/// Seconds or a date, both from the moment the answer came.
fn retry_after(response: &Response, now: Timestamp) -> Option<Duration> {
    let value = response.header("retry-after")?;
    let wait = match value.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => Timestamp::from_http_date(value)?.since(now),
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ports::{Protocol, Times};

    fn exchange(status: u16, headers: &[(&str, &str)]) -> Exchange {
        let at = Timestamp::from_secs(1_794_774_000);
        let response = Response {
            status,
            headers: headers.iter().map(|(n, v)| ((*n).into(), v.as_bytes().into())).collect(),
            wire: bytes::Bytes::from_static(b"HTTP/1.1 200 OK\r\n\r\nbody"),
            rest: None,
            head_bytes: 19,
            body: bytes::Bytes::from_static(b"body"),
            truncated: None,
            body_cut: false,
        };
        Exchange {
            times: Times { started: at, sent: Some(at), first_byte: Some(at), ended: at },
            protocol: Protocol::Http11,
            tls: None,
            request: bytes::Bytes::new(),
            response: Some(response),
            end: Ended::Answered,
            hold: None,
        }
    }

    fn say(status: u16, headers: &[(&str, &str)]) -> Outcome {
        let url = CrawlUrl::parse("http://a.test/x/y").unwrap();
        judge(&exchange(status, headers), &url, &Canon::default(), true)
    }

    #[test]
    fn only_a_page_that_we_have_whole_is_asked_for_on_condition() {
        let url = CrawlUrl::parse("http://a.test/").unwrap();
        let found =
            types::Discovery { at: Timestamp::ZERO, depth: 0, hops: 0, seed: true, band: 0 };
        let delay = Duration::from_secs(10);
        let policy =
            types::record::RetryPolicy { attempts_max: 3, delay, lost_max: 3, host_max: 0 };
        let condition = |status: u16, truncated| {
            let mut record = Record::new(url.clone(), found);
            let Outcome::Fetched(mut answer) = say(200, &[("etag", "\"1\"")]) else { panic!() };
            (answer.status, answer.truncated) = (status, truncated);
            let outcome = match status {
                503 => Outcome::Failed(Failure {
                    fault: Fault::Status(503),
                    retry_after: None,
                    answer: Some(answer),
                }),
                _ => Outcome::Fetched(answer),
            };
            record.settle(VisitId(1), &outcome, Timestamp::ZERO, policy);
            record.condition(0, false).and_then(|known| known.etag.clone())
        };
        assert_eq!(condition(200, None).as_deref(), Some("\"1\""));
        assert_eq!(condition(503, None), None, "a 304 would make us keep an error for the page");
        assert_eq!(condition(200, Some(types::outcome::Truncated::Time)), None);
        let plain = exchange(304, &[]);
        assert!(matches!(judge(&plain, &url, &Canon::default(), false), Outcome::Failed(_)));
    }

    #[test]
    fn a_redirect_is_data_and_one_to_nowhere_is_an_answer() {
        let Outcome::Moved { to, lasting, .. } = say(301, &[("location", "../z#f")]) else {
            panic!()
        };
        assert_eq!((to.unwrap().as_str(), lasting), ("http://a.test/z", true));
        assert!(matches!(say(302, &[("location", "/é")]), Outcome::Moved { lasting: false, .. }));
        let mut raw = exchange(302, &[("location", "")]);
        raw.response.as_mut().unwrap().headers[0].1 = b"/\xe9\xff?q=\xe9".as_slice().into();
        let url = CrawlUrl::parse("http://a.test/x/y").unwrap();
        let Outcome::Moved { to, .. } = judge(&raw, &url, &Canon::default(), false) else {
            panic!()
        };
        assert_eq!(to.unwrap().as_str(), "http://a.test/%E9%FF?q=%E9");
        for bad in ["", "javascript:alert(1)", "file:///etc/passwd", "http://"] {
            let outcome = say(302, &[("location", bad)]);
            // An empty Location is the page itself: a loop, which follow refuses.
            assert!(bad.is_empty() || matches!(outcome, Outcome::Fetched(_)), "{bad}: {outcome:?}");
        }
        assert!(matches!(say(302, &[]), Outcome::Fetched(_)));
    }

    #[test]
    fn retry_after_is_read_in_both_forms() {
        let wait = |value: &str| match say(503, &[("retry-after", value)]) {
            Outcome::Failed(failure) => failure.retry_after.map(|wait| wait.as_secs()),
            other => panic!("{other:?}"),
        };
        assert_eq!(wait("120"), Some(120));
        assert_eq!(wait("Sun, 15 Nov 2026 20:21:30 GMT"), Some(90));
        assert_eq!(wait("Sun, 15 Nov 2020 20:21:30 GMT"), Some(0));
        assert_eq!(wait("soon"), None);
        assert_eq!(wait("99999999999"), Some(30 * 86_400));
    }

    #[test]
    fn an_answer_about_the_page_is_told_from_one_about_the_server() {
        assert!(matches!(say(200, &[]), Outcome::Fetched(_)));
        assert!(matches!(say(404, &[]), Outcome::Fetched(_)));
        assert!(matches!(say(304, &[]), Outcome::Unchanged(_)));
        for status in [408, 429, 500, 503, 599] {
            assert!(matches!(say(status, &[]), Outcome::Failed(_)), "{status}");
        }
        let Outcome::Fetched(answer) = say(200, &[("content-type", "Text/HTML; charset=x")]) else {
            panic!()
        };
        assert_eq!((answer.content_type.as_deref(), answer.body_bytes), (Some("text/html"), 4));
    }
}
