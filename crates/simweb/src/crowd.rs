//! A few honest hosts among many that do harm.
//!
//! `good0.test`, `good1.test`, … have as many pages as anyone asks for, and link to nobody else. Each
//! of `bad0.test`, `bad1.test`, … does one thing of [`HARMS`] to whoever comes, some of them already
//! to whoever asks for robots.txt; where a reader can make anything of it, there are links to more.
//! What the honest ones are given by a crawler must not depend on how many others there are.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytes::Bytes;

use crate::answer::gzip;
use crate::web::{Ask, Body, Dns, Drip, Fate, Framing, Plan, Web};

/// How many there are of each kind.
#[derive(Debug, Clone)]
pub struct Crowd {
    honest: u64,
    hostile: u64,
    /// Where they are served.
    port: u16,
    /// 64 MiB of nothing, twice compressed.
    bomb: Bytes,
}

/// What a hostile host does. Each takes another part of a crawler: slots, time, memory, sockets, CPU.
pub const HARMS: [&str; 20] = [
    "never answers",
    "closes at once",
    "tears the connection down",
    "drips a head",
    "drips a body",
    "a head without end",
    "informational answers without end",
    "not HTTP at all",
    "a body without end",
    "a body of a gigabyte",
    "tiny chunks without end",
    "a bomb",
    "promises more than it sends",
    "tears it down in the middle",
    "redirects for ever",
    "redirects to addresses that are nobody's business",
    "errors with a long Retry-After",
    "ten thousand links to itself",
    "markup that never closes",
    "slow, then nothing",
];

const GIGABYTE: u64 = 1 << 30;

impl Crowd {
    pub fn new(honest: u64, hostile: u64) -> Self {
        let bomb = gzip(&gzip(&vec![0; 64 << 20])).into();
        Self { honest, hostile, port: 80, bomb }
    }

    pub fn with_port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// The home pages of all of them.
    pub fn seeds(&self) -> Vec<String> {
        let url = |kind: &str, n: u64| format!("http://{kind}{n}.test:{}/", self.port);
        let good = (0..self.honest).map(|n| url("good", n));
        good.chain((0..self.hostile).map(|n| url("bad", n))).collect()
    }

    /// Which of the honest, or of the hostile.
    fn place(host: &str) -> Option<(bool, u64)> {
        let name = host.strip_suffix(".test")?;
        let (honest, number) = match (name.strip_prefix("good"), name.strip_prefix("bad")) {
            (Some(number), _) => (true, number),
            (_, Some(number)) => (false, number),
            _ => return None,
        };
        Some((honest, number.parse().ok()?))
    }

    fn harm(&self, n: u64, ask: &Ask<'_>) -> Plan {
        let page = |body: String| Plan::new(200, "text/html", body);
        let body = |plan: Plan, body: Body, framing| Plan { body, framing, ..plan };
        let endless = |unit: &'static str| Body::Repeat {
            unit: Bytes::from(unit.repeat(1024)),
            bytes: 64 * GIGABYTE,
        };
        let raw = |text: &'static str| body(Plan::brief(200), endless(text), Framing::Raw);
        let drip = Some(Drip { bytes: 1, every: Duration::from_millis(500) });
        let home = |path: &str| format!("http://{}:{}{path}", ask.host, self.port);
        match HARMS[(n % HARMS.len() as u64) as usize] {
            "never answers" => Plan { fate: Fate::Mute, ..Plan::brief(200) },
            "closes at once" => Plan { fate: Fate::Cut(None), ..Plan::brief(200) },
            "tears the connection down" => Plan { fate: Fate::Reset(None), ..Plan::brief(200) },
            "drips a head" => Plan { drip, ..raw("HTTP/1.1 200 OK\r\nX: y") },
            "drips a body" => Plan { drip, ..page("<p>word".repeat(9_000)) },
            "a head without end" => raw("HTTP/1.1 200 OK\r\nX-Filler: 01234567890123456789\r\n"),
            "informational answers without end" => raw("HTTP/1.1 103 Early Hints\r\n\r\n"),
            "not HTTP at all" => raw("220 mail.test ESMTP\r\n"),
            "a body without end" => {
                body(page(String::new()), endless("<p>more "), Framing::Chunked)
            }
            "a body of a gigabyte" => {
                let unit = Bytes::from_static(&[0x5a; 64 << 10]);
                let plan = Plan::new(200, "application/octet-stream", "");
                body(plan, Body::Repeat { unit, bytes: GIGABYTE }, Framing::Length)
            }
            "tiny chunks without end" => {
                let plan = body(page(String::new()), endless("1\r\na\r\n"), Framing::UntilClose);
                plan.with("transfer-encoding", "chunked")
            }
            "a bomb" => {
                let plan = Plan::new(200, "text/html", self.bomb.clone());
                plan.with("content-encoding", "gzip, gzip")
            }
            "promises more than it sends" => {
                Plan { fate: Fate::Cut(Some(100)), ..page("<p>word".repeat(9_000)) }
            }
            "tears it down in the middle" => {
                Plan { fate: Fate::Reset(Some(9_000)), ..page("<p>word".repeat(9_000)) }
            }
            "redirects for ever" => {
                let next: u64 = ask.target.trim_start_matches('/').parse().unwrap_or(0) + 1;
                Plan::redirect(302, home(&format!("/{next}")))
            }
            "redirects to addresses that are nobody's business" => {
                Plan::redirect(301, "http://169.254.169.254/latest/meta-data/")
            }
            "errors with a long Retry-After" => Plan::brief(503).with("retry-after", "86400"),
            "ten thousand links to itself" => {
                let links = (0..10_000).map(|n| format!("<a href={}x{n}>", ask.target));
                page(links.collect())
            }
            "markup that never closes" => page("<div><a href=/a b='<script>".repeat(60_000)),
            _ => Plan { delay: Duration::from_secs(5), fate: Fate::Cut(None), ..Plan::brief(200) },
        }
    }
}

impl Web for Crowd {
    fn resolve(&self, host: &str) -> Dns {
        let base = match Self::place(host) {
            Some((true, n)) if n < self.honest => 0x7f02_0001 + n,
            Some((false, n)) if n < self.hostile => 0x7f10_0001 + n,
            _ => return Dns::NoSuchName,
        };
        let address = IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(base).unwrap_or(0x7f01_0001)));
        let ttl = Duration::from_secs(3_600);
        Dns::Addresses { addresses: vec![address], ttl, alias: None, large: false }
    }

    fn answer(&self, ask: &Ask<'_>) -> Plan {
        match (Self::place(ask.host), ask.target) {
            // One in five is hostile before anybody has asked for a page.
            (Some((false, n)), "/robots.txt") if n / HARMS.len() as u64 % 5 == 4 => {
                self.harm(n, ask)
            }
            (Some(_), "/robots.txt") => Plan::brief(404),
            (Some((true, _)), target) => {
                let page: u64 = target.trim_start_matches('/').parse().unwrap_or(0);
                let links = [2 * page + 1, 2 * page + 2];
                let links = links.map(|n| format!("<a href=/{n}>next</a>")).concat();
                let text = crate::text::pool().sentences(crate::chance::mix(page, 1), 8_000);
                let body = [b"<!doctype html><title>page</title>", text, links.as_bytes()];
                Plan::new(200, "text/html; charset=utf-8", body.concat())
            }
            (Some((false, n)), _) => self.harm(n, ask),
            (None, _) => Plan::brief(421),
        }
    }
}

#[cfg(test)]
mod tests {
    use types::Timestamp;

    use super::*;

    #[test]
    fn every_harm_is_done_by_somebody_and_the_honest_do_none() {
        let crowd = Crowd::new(2, 200).with_port(8080);
        assert_eq!(crowd.seeds().len(), 202);
        let ask = |host: &str, target: &str| {
            let (tls, at) = (false, Timestamp::ZERO);
            crowd.answer(&Ask { host, port: 8080, tls, target, headers: &[], nth: 0, at })
        };
        let honest = ask("good1.test", "/7");
        assert_eq!((honest.status, honest.fate, honest.drip), (200, Fate::Whole, None));
        let Body::Bytes(body) = &honest.body else { panic!("it is small") };
        let text = String::from_utf8_lossy(body);
        assert!(text.contains("href=/15") && text.contains("href=/16"));
        for (n, harm) in HARMS.iter().enumerate() {
            let plan = ask(&format!("bad{n}.test"), "/");
            let harmless = plan.status == 200
                && plan.fate == Fate::Whole
                && plan.drip.is_none()
                && plan.body.len() < 100_000
                && plan.header("content-encoding").is_none();
            assert!(!harmless, "{harm}");
            assert_eq!(ask(&format!("bad{n}.test"), "/robots.txt").status, 404);
        }
        assert_ne!(ask("bad96.test", "/robots.txt").status, 404);
        assert_eq!(crowd.resolve("good2.test"), Dns::NoSuchName);
        assert!(matches!(crowd.resolve("bad199.test"), Dns::Addresses { .. }));
    }
}
