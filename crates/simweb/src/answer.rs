//! How does a host of the world answer for a path?
//!
//! A healthy page with its text, a faulty one as its fault says. Faults that end (errors at first,
//! busy servers) go by how often the URL was asked.
//!
//! Not here: the text and links of a page (`page`), robots.txt (`robots_txt`).

use std::time::Duration;

use bytes::Bytes;
use types::Timestamp;

use crate::chance::{Chance, mix, scale, unit};
use crate::faults::FaultKind;
use crate::page::{Extra, parent};
use crate::path::Target;
use crate::text;
use crate::web::{Ask, Body, Drip, Fate, Framing, Plan};
use crate::world::{About, HOST_BRANCHES, Host, World};

/// Larger than what a crawler stores of a page (15 MiB), and than it stores of anything.
pub(crate) const HUGE_BYTES: u64 = 16 * 1024 * 1024;
/// Links further down may be beyond what a crawler reads of a page (2 MiB).
pub(crate) const LINKS_CERTAIN_BYTES: usize = 2 * 1024 * 1024;
const ENDLESS_BYTES: u64 = 48 * 1024 * 1024;
const DRIP: Drip = Drip { bytes: 64, every: Duration::from_secs(1) };
const HTML: &str = "text/html; charset=utf-8";

/// 2026-01-01, when everything in a world was last changed before it began.
const FIRST_DAY: u64 = 1_767_225_600;

impl World {
    pub(crate) fn answer_for(&self, host: &Host, ask: &Ask<'_>) -> Plan {
        let mut plan = match self.target(host, ask.target) {
            Target::Robots { hop } => self.robots_plan(host, hop, ask),
            Target::SharedRobots => Self::shared_robots_plan(),
            Target::Sitemap => self.sitemap_plan(host),
            Target::Page(page) => self.page_plan(host, page, ask),
            Target::Hop { page, left } => self.hop_plan(host, page, left),
            Target::LoopHop { page, at } => self.loop_plan(host, page, at),
            Target::Month { year, month } => month_plan(year, month),
            Target::Deep { level } => deep_plan(level),
            Target::Unknown => Plan::brief(404),
        };
        match host.fault {
            Some(FaultKind::ClosingServer) => plan.close = true,
            Some(FaultKind::ChunkedServer) if plan.framing == Framing::Length => {
                plan.framing = Framing::Chunked;
            }
            Some(FaultKind::GzipServer) => compress(&mut plan, ask),
            _ => {}
        }
        plan
    }

    fn page_plan(&self, host: &Host, page: u64, ask: &Ask<'_>) -> Plan {
        use FaultKind as F;
        let Some(fault) = self.page_fault(host, page) else {
            return self.html_plan(host, page, ask, &Extra::default());
        };
        let hash = self.hash(About::Detail, host.index, page);
        let html = |extra: Extra| self.html_plan(host, page, ask, &extra);
        let first = u64::from(ask.nth) <= hash % 2;
        let once = |status: u16, wait: String| match ask.nth {
            0 => Plan::brief(status).with("retry-after", wait),
            _ => html(Extra::default()),
        };
        let wait_secs = 1 + hash % self.spec.retry_after_secs;
        match fault {
            F::Redirect | F::RedirectAway | F::RedirectChain | F::RedirectFar | F::RedirectLoop => {
                self.redirect_plan(host, page, fault)
            }
            F::NotFound => Plan::brief(404),
            F::Gone => Plan::brief(410),
            F::Denied => Plan::brief(403),
            F::Error => Plan::brief(500),
            F::ErrorThenFine if first => Plan::brief(500),
            F::Busy => once(429, wait_secs.to_string()),
            F::Unavailable => once(503, wait_secs.to_string()),
            F::UnavailableUntil => once(503, http_date(ask.at.secs() + 1 + wait_secs)),
            F::Slow => Plan {
                delay: Duration::from_millis(2_000 + hash % 6_000),
                ..html(Extra::default())
            },
            F::Mute => Plan { fate: Fate::Mute, ..Plan::brief(200) },
            F::Drip => Plan { drip: Some(DRIP), ..html(Extra::default()) },
            F::Cut | F::Torn => {
                let mut plan = self.html_plan(host, page, &plainly(ask), &Extra::default());
                let after = Some(plan.body.len() / 2);
                plan.fate = if fault == F::Cut { Fate::Cut(after) } else { Fate::Reset(after) };
                if fault == F::Torn {
                    plan.framing = Framing::Chunked;
                }
                plan
            }
            F::Reset => Plan { fate: Fate::Reset(None), ..Plan::brief(200) },
            F::NotHttp => garbage(),
            F::Huge => filler(HUGE_BYTES, Framing::Length),
            F::Endless => filler(ENDLESS_BYTES, Framing::Chunked),
            F::WrongCharset => wrong_charset(html(Extra::default()), hash),
            F::BrokenGzip => broken_gzip(&self.html(host, page, 0, &Extra::default())),
            F::Copy => self.html_plan(host, parent(page), &plainly(ask), &Extra::default()),
            F::Calendar => html(Extra { link: Some("/calendar/2001/1"), ..Extra::default() }),
            F::DeepPath => html(Extra { link: Some("/deep/"), ..Extra::default() }),
            F::Noindex => html(Extra { meta: Some("noindex"), ..Extra::default() }),
            F::Nofollow => html(Extra { meta: Some("nofollow"), ..Extra::default() }),
            F::NofollowHeader => html(Extra::default()).with("x-robots-tag", "nofollow"),
            F::RelNofollow => html(Extra { rel_nofollow: true, ..Extra::default() }),
            F::Png => binary(host, page, "image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
            F::Pdf => binary(host, page, "application/pdf", b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"),
            F::Zip => binary(host, page, "application/zip", b"PK\x03\x04\x14\0\0\0\x08\0"),
            _ => html(Extra::default()),
        }
    }

    fn html_plan(&self, host: &Host, page: u64, ask: &Ask<'_>, extra: &Extra) -> Plan {
        let version = self.version(host, page, ask.at);
        let mut validators = None;
        if unit(self.hash(About::Validators, host.index, page)) < self.spec.validators {
            let etag = format!("\"{}-{page}-{version}\"", host.index);
            let changed = http_date(FIRST_DAY + version * self.spec.change_secs);
            let same = match ask.header("if-none-match") {
                Some(known) => known == etag,
                None => ask.header("if-modified-since") == Some(changed.as_str()),
            };
            if same {
                return Plan::new(304, HTML, "").with("etag", etag);
            }
            validators = Some((etag, changed));
        }
        let mut plan = Plan::new(200, HTML, self.html(host, page, version, extra));
        if let Some((etag, changed)) = validators {
            plan = plan.with("etag", etag).with("last-modified", changed);
        }
        plan
    }

    fn version(&self, host: &Host, page: u64, at: Timestamp) -> u64 {
        let hash = self.hash(About::Change, host.index, page);
        if unit(hash) < self.spec.changing { at.secs() / self.spec.change_secs } else { 0 }
    }

    // ── redirects ──

    /// How many redirects follow after this page's own.
    fn hops_after(&self, host: &Host, page: u64, fault: FaultKind) -> u64 {
        let hash = mix(self.hash(About::Detail, host.index, page), 3);
        match fault {
            FaultKind::RedirectChain => 1 + hash % 4,
            FaultKind::RedirectFar => 5 + hash % 3,
            _ => 0,
        }
    }

    fn redirect_plan(&self, host: &Host, page: u64, fault: FaultKind) -> Plan {
        let hash = self.hash(About::Detail, host.index, page);
        let status = [301, 302, 307, 308][(hash % 4) as usize];
        Plan::redirect(status, self.redirect_target(host, page, fault, hash))
    }

    fn redirect_target(&self, host: &Host, page: u64, fault: FaultKind, hash: u64) -> String {
        match fault {
            FaultKind::RedirectLoop => format!("/loop/{page}/1"),
            // Nothing is there and no link leads there, but many a robots.txt forbids the way.
            FaultKind::Redirect if mix(hash, 5).is_multiple_of(4) => {
                format!("/private/moved/{page}")
            }
            FaultKind::RedirectAway => {
                // A host from which others hang is well.
                let healthy = (self.spec.hosts / HOST_BRANCHES).max(1);
                self.url(&self.host(scale(mix(hash, 1), healthy)), 0)
            }
            _ => match self.hops_after(host, page, fault) {
                0 if hash.is_multiple_of(3) => self.url(host, parent(page)),
                0 => self.path(host, parent(page)),
                left => format!("/go/{page}/{left}"),
            },
        }
    }

    fn hop_plan(&self, host: &Host, page: u64, left: u64) -> Plan {
        let fault = (page < host.pages).then(|| self.page_fault(host, page)).flatten();
        let Some(fault @ (FaultKind::RedirectChain | FaultKind::RedirectFar)) = fault else {
            return Plan::brief(404);
        };
        match left {
            _ if left == 0 || left > self.hops_after(host, page, fault) => Plan::brief(404),
            1 => Plan::redirect(302, self.path(host, parent(page))),
            // Relative to the folder of this hop.
            _ if left.is_multiple_of(2) => Plan::redirect(302, (left - 1).to_string()),
            _ => Plan::redirect(307, format!("/go/{page}/{}", left - 1)),
        }
    }

    fn loop_plan(&self, host: &Host, page: u64, at: u64) -> Plan {
        let is_loop = page < host.pages
            && self.page_fault(host, page) == Some(FaultKind::RedirectLoop)
            && matches!(at, 1 | 2);
        match at {
            _ if !is_loop => Plan::brief(404),
            1 => Plan::redirect(302, format!("/loop/{page}/2")),
            _ => Plan::redirect(302, self.path(host, page)),
        }
    }
}

fn http_date(secs: u64) -> String {
    httpdate::fmt_http_date(std::time::UNIX_EPOCH + Duration::from_secs(secs))
}

/// The same question without conditions, for answers that are never 304.
fn plainly<'a>(ask: &Ask<'a>) -> Ask<'a> {
    Ask { headers: &[], ..*ask }
}

fn month_plan(year: u64, month: u64) -> Plan {
    let (next_year, next_month) = if month >= 12 { (year + 1, 1) } else { (year, month + 1) };
    let body = format!(
        "<!doctype html><title>{year}/{month}</title>\
         <p>Nothing happened.</p><a href=\"/calendar/{next_year}/{next_month}\">next month</a>\n"
    );
    Plan::new(200, HTML, body)
}

fn deep_plan(level: u64) -> Plan {
    let body =
        format!("<!doctype html><title>level {level}</title><a href=\"more/\">further down</a>\n");
    Plan::new(200, HTML, body)
}

fn filler(bytes: u64, framing: Framing) -> Plan {
    let unit = text::pool().sentences(7, 48 * 1024);
    let mut plan = Plan::new(200, HTML, "");
    plan.body = Body::Repeat { unit: Bytes::from_static(unit), bytes };
    plan.framing = framing;
    plan
}

fn binary(host: &Host, page: u64, content_type: &'static str, magic: &[u8]) -> Plan {
    let mut body = magic.to_vec();
    let mut chance = Chance::new(mix(host.index, page));
    for _ in 0..256 + page % 1_024 {
        body.extend_from_slice(&chance.next().to_le_bytes());
    }
    Plan::new(200, content_type, body)
}

/// Latin-1 that claims to be UTF-8, or the other way round.
fn wrong_charset(mut plan: Plan, hash: u64) -> Plan {
    let Body::Bytes(html) = &plan.body else { return plan };
    if html.is_empty() {
        return plan;
    }
    let mut html = html.to_vec();
    let (claim, bytes): (_, &[u8]) = if hash.is_multiple_of(2) {
        ("text/html; charset=utf-8", b"<p>caf\xe9 cr\xe8me br\xfbl\xe9e</p>\n")
    } else {
        ("text/html; charset=iso-8859-1", "<p>café crème brûlée</p>\n".as_bytes())
    };
    html.extend_from_slice(bytes);
    plan.body = Body::Bytes(html.into());
    plan.headers[0].1 = claim.into();
    plan
}

/// In the language of `Accept-Encoding`: only for those who ask for it.
fn compress(plan: &mut Plan, ask: &Ask<'_>) {
    let wanted = ask.header("accept-encoding").is_some_and(|wanted| wanted.contains("gzip"));
    let Body::Bytes(body) = &plan.body else { return };
    let is_coded = plan.header("content-encoding").is_some();
    if !wanted || is_coded || body.is_empty() || plan.framing == Framing::Raw {
        return;
    }
    plan.body = Body::Bytes(gzip(body).into());
    plan.headers.push(("content-encoding".into(), "gzip".into()));
}

pub(crate) fn gzip(body: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(
        Vec::with_capacity(body.len() / 3),
        flate2::Compression::fast(),
    );
    encoder.write_all(body).expect("memory takes every byte");
    encoder.finish().expect("memory takes every byte")
}

fn broken_gzip(html: &[u8]) -> Plan {
    let mut body = gzip(html);
    let middle = body.len() / 2;
    body[middle..].fill(0xff);
    Plan::new(200, HTML, body).with("content-encoding", "gzip")
}

/// Something that is not HTTP, for `not-http` pages.
fn garbage() -> Plan {
    Plan {
        framing: Framing::Raw,
        ..Plan::new(0, "", Bytes::from_static(b"SSH-2.0-OpenSSH_9.6\r\n\0\x01\x02garbage\r\n"))
    }
}
