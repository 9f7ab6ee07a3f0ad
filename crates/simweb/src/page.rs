//! What does a page of the world say, and where does it lead?
//!
//! A page's path tells nothing of its fault: a crawler must find out. Links are worked out first
//! and written second, and the oracle takes the same list, so what the world knows of itself and
//! what it sends cannot differ.

use bytes::Bytes;
use types::Timestamp;

use crate::chance::{Chance, mix, scale, unit};
use crate::faults::FaultKind;
use crate::robots_txt::garbage;
use crate::text;
use crate::web::{Ask, Body, Drip, Fate, Framing, Plan};
use crate::world::{About, HOST_BRANCHES, Host, PAGE_BRANCHES, World, ascii};
use std::time::Duration;

/// The form of a page's path; what robots.txt rules are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `/`
    Home,
    /// `/news/some-words-17`
    Plain,
    /// `/news/list?item=17`
    Query,
    /// `/private/word-17`
    Private,
    /// `/private/open/word-17`
    PrivateOpen,
    /// `/tmp/word-17.bak`
    Bak,
    /// `/tmp/word-17.bak?v=17`
    BakQuery,
}

const SECTIONS: [&str; 8] =
    ["news", "articles", "guide", "people", "places", "archive", "science", "notes"];

/// Larger than what a crawler stores of a page (15 MiB), and than it stores of anything.
const HUGE_BYTES: u64 = 16 * 1024 * 1024;
const ENDLESS_BYTES: u64 = 48 * 1024 * 1024;
const DRIP: Drip = Drip { bytes: 64, every: Duration::from_secs(1) };
const HTML: &str = "text/html; charset=utf-8";

/// Where a link leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) host: u64,
    pub(crate) page: u64,
}

/// What a path means on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Robots {
        hop: u64,
    },
    SharedRobots,
    Sitemap,
    Page(u64),
    /// A redirect on the way from `page`, with this many more to come.
    Hop {
        page: u64,
        left: u64,
    },
    LoopHop {
        page: u64,
        at: u64,
    },
    Month {
        year: u64,
        month: u64,
    },
    Deep {
        level: u64,
    },
    Unknown,
}

impl World {
    // ── paths ──

    pub(crate) fn shape(&self, host: &Host, page: u64) -> Shape {
        if page == 0 {
            return Shape::Home;
        }
        let hash = self.hash(About::Shape, host.index, page);
        if !self.is_leaf(host, page) {
            return if hash % 8 == 0 { Shape::Query } else { Shape::Plain };
        }
        match hash % 40 {
            0..=4 => Shape::Query,
            5..=6 => Shape::Private,
            7 => Shape::PrivateOpen,
            8 => Shape::Bak,
            9 => Shape::BakQuery,
            _ => Shape::Plain,
        }
    }

    pub(crate) fn push_path(&self, host: &Host, page: u64, out: &mut Vec<u8>) {
        self.push_path_of(host.index, self.shape(host, page), page, out);
    }

    fn push_path_of(&self, host: u64, shape: Shape, page: u64, out: &mut Vec<u8>) {
        let hash = self.hash(About::Slug, host, page);
        let word = |n: u64| text::pool().word(mix(hash, n)).as_bytes();
        let section = SECTIONS[(hash % 8) as usize].as_bytes();
        match shape {
            Shape::Home => return out.push(b'/'),
            Shape::Plain => {
                out.push(b'/');
                out.extend_from_slice(section);
                out.push(b'/');
                out.extend_from_slice(word(1));
                out.push(b'-');
                out.extend_from_slice(word(2));
                out.push(b'-');
            }
            Shape::Query => {
                out.push(b'/');
                out.extend_from_slice(section);
                out.extend_from_slice(b"/list?item=");
            }
            Shape::Private | Shape::PrivateOpen => {
                let folder: &[u8] =
                    if shape == Shape::Private { b"/private/" } else { b"/private/open/" };
                out.extend_from_slice(folder);
                out.extend_from_slice(word(1));
                out.push(b'-');
            }
            Shape::Bak | Shape::BakQuery => {
                out.extend_from_slice(b"/tmp/");
                out.extend_from_slice(word(1));
                out.push(b'-');
            }
        }
        text::push_decimal(out, page);
        if matches!(shape, Shape::Bak | Shape::BakQuery) {
            out.extend_from_slice(b".bak");
        }
        if shape == Shape::BakQuery {
            out.extend_from_slice(b"?v=");
            text::push_decimal(out, page);
        }
    }

    pub(crate) fn path(&self, host: &Host, page: u64) -> String {
        ascii(|out| self.push_path(host, page, out))
    }

    /// The page behind a path, if the world has written that path.
    pub(crate) fn find_page(&self, host: &Host, target: &str) -> Option<u64> {
        if target == "/" {
            return Some(0);
        }
        let digits_end = target.rfind(|c: char| c.is_ascii_digit())? + 1;
        let digits_start =
            target[..digits_end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
        let page: u64 = target[digits_start..digits_end].parse().ok()?;
        let mut path = Vec::with_capacity(64);
        (page > 0 && page < host.pages).then(|| self.push_path(host, page, &mut path))?;
        (path == target.as_bytes()).then_some(page)
    }

    pub(crate) fn target(&self, host: &Host, target: &str) -> Target {
        if let Some(page) = self.find_page(host, target) {
            return Target::Page(page);
        }
        let two = |rest: &str| -> Option<(u64, u64)> {
            let (first, second) = rest.split_once('/')?;
            Some((first.parse().ok()?, second.parse().ok()?))
        };
        let special = || -> Option<Target> {
            Some(match target {
                "/robots.txt" => Target::Robots { hop: 0 },
                "/robots-shared.txt" => Target::SharedRobots,
                "/sitemap.xml" => Target::Sitemap,
                _ => {
                    if let Some(rest) = target.strip_prefix("/go/") {
                        let (page, left) = two(rest)?;
                        Target::Hop { page, left }
                    } else if let Some(rest) = target.strip_prefix("/loop/") {
                        let (page, at) = two(rest)?;
                        Target::LoopHop { page, at }
                    } else if let Some(rest) = target.strip_prefix("/calendar/") {
                        let (year, month) = two(rest)?;
                        Target::Month { year, month }
                    } else if let Some(rest) = target.strip_prefix("/deep/") {
                        Target::Deep { level: rest.matches("more/").count() as u64 }
                    } else {
                        let hop = target.strip_prefix("/robots-")?.strip_suffix(".txt")?;
                        Target::Robots { hop: hop.parse().ok()? }
                    }
                }
            })
        };
        special().unwrap_or(Target::Unknown)
    }

    // ── answers ──

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
        let wait_secs = 1 + hash % 3;
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
            F::BrokenGzip => broken_gzip(self.html(host, page, 0, &Extra::default())),
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
        if self.hash(About::Validators, host.index, page) % 2 == 0 {
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
            FaultKind::RedirectAway => {
                // A host from which others hang is well.
                let healthy = (self.spec.hosts / HOST_BRANCHES).max(1);
                self.url(&self.host(scale(mix(hash, 1), healthy)), 0)
            }
            _ => match self.hops_after(host, page, fault) {
                0 if hash % 3 == 0 => self.url(host, parent(page)),
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
            _ if left % 2 == 0 => Plan::redirect(302, (left - 1).to_string()),
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

    // ── links and text ──

    pub(crate) fn links(&self, host: &Host, page: u64, links: &mut Vec<Link>) {
        links.clear();
        let own = |page| Link { host: host.index, page };
        if page != 0 {
            links.push(own(0));
        }
        let first = page.saturating_mul(PAGE_BRANCHES).saturating_add(1);
        links.extend((first..first + PAGE_BRANCHES).take_while(|&p| p < host.pages).map(own));
        if page == 0 {
            let first = host.index * HOST_BRANCHES + 1;
            let hosts = (first..first + HOST_BRANCHES).take_while(|&h| h < self.spec.hosts);
            links.extend(hosts.map(|host| Link { host, page: 0 }));
        }
        let mut chance = Chance::new(self.hash(About::Links, host.index, page));
        // From half to one and a half of the average.
        let total = u64::from(self.spec.links) / 2 + chance.below(u64::from(self.spec.links) + 1);
        let reach = if self.spec.endless { first + PAGE_BRANCHES } else { host.pages };
        while (links.len() as u64) < total {
            let draw = chance.unit();
            let link = if draw < self.spec.links_repeated && !links.is_empty() {
                links[chance.below(links.len() as u64) as usize]
            } else if draw < self.spec.links_repeated + self.spec.links_away {
                let other = popular(self.spec.hosts, &mut chance);
                let pages = if self.spec.endless { 1_000 } else { self.pages_of(other) };
                Link { host: other, page: popular(pages, &mut chance) }
            } else {
                own(popular(reach, &mut chance))
            };
            links.push(link);
        }
    }

    /// The page in HTML: links with text between them, until the page has its size.
    pub(crate) fn html(&self, host: &Host, page: u64, version: u64, extra: &Extra) -> Vec<u8> {
        let pool = text::pool();
        let size = self.body_bytes(host, page);
        let mut out = Vec::with_capacity(size + 1_024);
        let text_seed = mix(self.hash(About::Text, host.index, page), version);
        self.push_top(host, page, version, extra, &mut out);
        let mut links = Vec::with_capacity(self.spec.links as usize * 2);
        self.links(host, page, &mut links);
        // What the links themselves take, markup included, measured on worlds of all sizes.
        const LINK_BYTES: usize = 62;
        let text_bytes = size.saturating_sub(out.len() + links.len() * LINK_BYTES);
        let each = text_bytes / links.len().max(1);
        let least = if self.spec.tiny_bodies { 60 } else { 300 };
        let mut owed = 0;
        for (n, link) in links.iter().enumerate() {
            owed += each;
            let hash = mix(text_seed, n as u64);
            if owed >= least {
                out.extend_from_slice(b"<p class=\"text\">");
                let sentences = pool.sentences(hash, owed.saturating_sub(60));
                out.extend_from_slice(sentences);
                out.extend_from_slice(b"</p>\n");
                owed = owed.saturating_sub(sentences.len() + 21);
            }
            out.extend_from_slice(b"<li><a href=\"");
            self.push_link(host, link, hash, &mut out);
            out.extend_from_slice(if extra.rel_nofollow {
                b"\" rel=\"nofollow\">"
            } else {
                b"\">"
            });
            out.extend_from_slice(pool.word(hash).as_bytes());
            out.extend_from_slice(b"</a></li>\n");
        }
        if let Some(link) = extra.link {
            out.extend_from_slice(b"<p class=\"text\"><a href=\"");
            out.extend_from_slice(link.as_bytes());
            out.extend_from_slice(b"\">next</a></p>\n");
        }
        out.extend_from_slice(b"</main></body></html>\n");
        out
    }

    fn push_top(&self, host: &Host, page: u64, version: u64, extra: &Extra, out: &mut Vec<u8>) {
        let hash = self.hash(About::Slug, host.index, page);
        out.extend_from_slice(
            b"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>",
        );
        out.extend_from_slice(text::pool().word(mix(hash, 1)).as_bytes());
        out.push(b' ');
        out.extend_from_slice(text::pool().word(mix(hash, 2)).as_bytes());
        out.push(b' ');
        text::push_decimal(out, page);
        out.extend_from_slice(b" - ");
        self.push_host_name(host.index, out);
        out.extend_from_slice(b"</title>\n");
        if let Some(directive) = extra.meta {
            out.extend_from_slice(b"<meta name=\"robots\" content=\"");
            out.extend_from_slice(directive.as_bytes());
            out.extend_from_slice(b"\">\n");
        }
        out.extend_from_slice(b"</head><body><main><h1>");
        out.extend_from_slice(text::pool().word(mix(hash, 1)).as_bytes());
        out.extend_from_slice(b", edition ");
        text::push_decimal(out, version);
        out.extend_from_slice(b"</h1>\n");
    }

    /// Mostly as short as it can be, sometimes with all there is to say.
    fn push_link(&self, from: &Host, link: &Link, hash: u64, out: &mut Vec<u8>) {
        if link.host == from.index {
            if hash % 8 == 0 {
                self.push_origin(from, out);
            }
            return self.push_path(from, link.page, out);
        }
        let host = self.host(link.host);
        self.push_origin(&host, out);
        self.push_path(&host, link.page, out);
    }

    /// Between the bounds on a logarithmic scale, more often in the middle.
    fn body_bytes(&self, host: &Host, page: u64) -> usize {
        let hash = self.hash(About::Size, host.index, page);
        let (least, most) = self.spec.page_bytes;
        let middle = (unit(hash) + unit(mix(hash, 1))) / 2.0;
        let skewed = 1.0 - (1.0 - middle).powf(1.17);
        (f64::from(least) * (f64::from(most) / f64::from(least)).powf(skewed)) as usize
    }
}

/// What a page has beside its text and its usual links.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extra {
    meta: Option<&'static str>,
    rel_nofollow: bool,
    link: Option<&'static str>,
}

/// 2026-01-01, when everything in a world was last changed before it began.
const FIRST_DAY: u64 = 1_767_225_600;

pub(crate) fn parent(page: u64) -> u64 {
    (page - 1) / PAGE_BRANCHES
}

/// Below `bound`, small numbers more often: each order of magnitude is as likely as the next.
fn popular(bound: u64, chance: &mut Chance) -> u64 {
    ((bound as f64 + 1.0).powf(chance.unit()) as u64 - 1).min(bound - 1)
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
    let (claim, bytes): (_, &[u8]) = if hash % 2 == 0 {
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

fn broken_gzip(html: Vec<u8>) -> Plan {
    let mut body = gzip(&html);
    let middle = body.len() / 2;
    body[middle..].fill(0xff);
    Plan::new(200, HTML, body).with("content-encoding", "gzip")
}
