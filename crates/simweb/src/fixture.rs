//! How does one write a tiny web as a string?
//!
//! ```text
//! --- a.test/robots.txt
//! User-agent: *
//! Disallow: /secret
//! --- a.test/                                    an answer begins; its body is below
//! <a href=/slow>s</a> <a href=https://b.test/>b</a>
//! --- a.test/slow slow=2s
//! --- a.test/busy 503 Retry-After: 5             the first answer,
//! --- a.test/busy then 200                       and the next; the last one stays
//! --- https://b.test/ 302 Location: /x
//! !dns c.test nxdomain
//! !address b.test 127.0.0.9
//! ```
//!
//! After the URL, in any order: a status; `Header: value` pairs, whose values have at least a
//! word and end at the next header or word of this list; `then`; `slow=2s` before the head; `cut=100` and `reset=100` after
//! so many bytes of the body, `cut` and `reset` before any; `drip=64/1s`; `type=text/plain`;
//! `filler=20000` bytes of text as body; `mute`, `gzip`, `chunked`, `until-close`, `close`,
//! `not-http`. Lines that begin with `!`: `!dns HOST nxdomain|servfail|silent|large`,
//! `!dns HOST alias NAME`,
//! `!address HOST ADDRESS…`, `!door HOST refused|silent|bad-certificate`.
//!
//! Unknown paths are 404, so a host without a robots.txt section has none. Hosts that are named
//! nowhere do not exist. Addresses are 127.0.1.1 and upward in the order of the hosts.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use types::HumanDuration;

use crate::answer::gzip;
use crate::text;
use crate::truth::Place;
use crate::web::{Ask, Body, Dns, Door, Drip, Fate, Framing, Plan, Web};

/// A tiny web, written down.
#[derive(Debug, Clone, Default)]
pub struct Fixture {
    /// By scheme, host, port if one was written, path and query: the answers in their order.
    pages: BTreeMap<Key, Vec<Plan>>,
    hosts: BTreeMap<String, HostLines>,
    /// Where URLs without a port are served, if not where they usually are.
    ports: Option<(u16, u16)>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) tls: bool,
    pub(crate) host: String,
    /// Only where the URL names one; otherwise any port will do, as real sockets have free ones.
    pub(crate) port: Option<u16>,
    pub(crate) target: String,
}

#[derive(Debug, Clone)]
struct HostLines {
    dns: Dns,
    door: Door,
}

impl HostLines {
    fn is_refused(&self) -> bool {
        self.door == Door::Refused
    }
}

/// What is wrong with a fixture's text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("fixture, line {line}: {what}")]
pub struct FixtureError {
    pub line: usize,
    pub what: String,
}

impl Fixture {
    pub fn parse(text: &str) -> Result<Self, FixtureError> {
        let mut fixture = Self::default();
        let mut section: Option<Section> = None;
        for (number, line) in (1..).zip(text.lines()) {
            let trimmed = line.trim();
            let fail = |what: String| FixtureError { line: number, what };
            if let Some(header) = trimmed.strip_prefix("--- ") {
                fixture.close(section.take());
                section = Some(Section::open(header).map_err(fail)?);
            } else if let Some(directive) = trimmed.strip_prefix('!').filter(|d| is_directive(d)) {
                fixture.close(section.take());
                fixture.direct(directive).map_err(fail)?;
            } else if let Some(section) = &mut section {
                section.lines.push(line.trim_end().to_owned());
            } else if !trimmed.is_empty() {
                return Err(fail(format!(
                    "`{trimmed}` belongs to no answer; begin one with `--- a.test/`"
                )));
            }
        }
        fixture.close(section);
        Ok(fixture)
    }

    fn close(&mut self, section: Option<Section>) {
        let Some(section) = section else { return };
        self.host(&section.key.host);
        let key = section.key.clone();
        self.pages.entry(key).or_default().push(section.finish());
    }

    fn host(&mut self, name: &str) -> &mut HostLines {
        let next = self.hosts.len() as u32;
        self.hosts.entry(name.to_owned()).or_insert_with(|| {
            let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 0, 1, 1)) + next);
            HostLines { dns: addresses(vec![address.into()]), door: Door::Open }
        })
    }

    fn direct(&mut self, directive: &str) -> Result<(), String> {
        let mut words = directive.split_whitespace();
        let (Some(verb), Some(host)) = (words.next(), words.next()) else {
            return Err(format!("`!{directive}` names no host; write `!dns a.test nxdomain`"));
        };
        let rest: Vec<_> = words.collect();
        match (verb, rest.as_slice()) {
            ("dns", ["nxdomain"]) => self.host(host).dns = Dns::NoSuchName,
            ("dns", ["servfail"]) => self.host(host).dns = Dns::ServerFailure,
            ("dns", ["silent"]) => self.host(host).dns = Dns::Silence,
            ("dns", ["large"]) => match &mut self.host(host).dns {
                Dns::Addresses { large, .. } => *large = true,
                _ => return Err("a name that does not resolve cannot be large".into()),
            },
            ("dns", ["alias", name]) => match &mut self.host(host).dns {
                Dns::Addresses { alias, .. } => *alias = Some((*name).to_owned()),
                _ => return Err("a name that does not resolve has no alias".into()),
            },
            ("dns", _) => {
                return Err(
                    "after `!dns HOST` comes nxdomain, servfail, silent, large or alias NAME"
                        .into(),
                );
            }
            ("door", ["refused"]) => self.host(host).door = Door::Refused,
            ("door", ["silent"]) => self.host(host).door = Door::Silent,
            ("door", ["bad-certificate"]) => self.host(host).door = Door::BadCertificate,
            ("door", _) => {
                return Err("after `!door HOST` comes refused, silent or bad-certificate".into());
            }
            (_, []) => return Err("after `!address HOST` comes at least one address".into()),
            (_, texts) => {
                let parsed: Result<Vec<IpAddr>, _> =
                    texts.iter().map(|text| text.parse().map_err(|_| text)).collect();
                let parsed = parsed.map_err(|text| format!("`{text}` is no address"))?;
                self.host(host).dns = addresses(parsed);
            }
        }
        Ok(())
    }

    /// Writes the ports of real sockets into absolute links between the fixture's hosts; hosts
    /// that refuse connections live on a port where nobody listens. Compressed bodies stay as
    /// they are.
    pub fn with_ports(mut self, http: u16, https: u16, closed: u16) -> Self {
        self.ports = Some((http, https));
        let hosts: Vec<(String, bool)> =
            self.hosts.iter().map(|(name, host)| (name.clone(), host.is_refused())).collect();
        let rewrite = |text: &str| {
            hosts.iter().fold(text.to_owned(), |text, (host, refused)| {
                let (http, https) = if *refused { (closed, closed) } else { (http, https) };
                add_port(&add_port(&text, "http", host, http), "https", host, https)
            })
        };
        for plan in self.pages.values_mut().flatten() {
            if let Body::Bytes(body) = &plan.body
                && let Ok(text) = std::str::from_utf8(body)
            {
                plan.body = Body::Bytes(rewrite(text).into());
            }
            for (name, value) in &mut plan.headers {
                if name.eq_ignore_ascii_case("location") {
                    *value = rewrite(value).into();
                }
            }
        }
        self
    }

    /// Home pages of all hosts that have one, in order.
    pub fn seeds(&self) -> Vec<String> {
        let homes = self.pages.keys().filter(|key| key.target == "/");
        homes.map(|key| self.place(key).to_string()).collect()
    }

    /// One place on each origin.
    pub(crate) fn origins(&self) -> Vec<Place> {
        let mut origins: Vec<_> = self.pages.keys().map(|key| self.place(key).robots()).collect();
        origins.dedup();
        origins
    }

    fn place(&self, key: &Key) -> Place {
        let (http, https) = self.ports.unwrap_or((80, 443));
        Place {
            tls: key.tls,
            host: key.host.clone(),
            port: key.port.unwrap_or(if key.tls { https } else { http }),
            target: key.target.clone(),
        }
    }

    pub(crate) fn find(&self, tls: bool, host: &str, port: u16, target: &str) -> Option<&[Plan]> {
        let get = |port| {
            let key = Key { tls, host: host.to_owned(), port, target: target.to_owned() };
            self.pages.get(&key).map(Vec::as_slice)
        };
        get(Some(port)).or_else(|| get(None))
    }
}

impl Web for Fixture {
    fn resolve(&self, host: &str) -> Dns {
        self.hosts.get(host).map_or(Dns::NoSuchName, |lines| lines.dns.clone())
    }

    fn door(&self, host: &str, _port: u16, _tls: bool) -> Door {
        self.hosts.get(host).map_or(Door::Open, |lines| lines.door)
    }

    fn answer(&self, ask: &Ask<'_>) -> Plan {
        let Some(plans) = self.find(ask.tls, ask.host, ask.port, ask.target) else {
            return Plan::brief(404);
        };
        let nth = (ask.nth as usize).min(plans.len() - 1);
        let mut plan = plans[nth].clone();
        if plan.header("etag").is_some() && ask.header("if-none-match") == plan.header("etag") {
            plan.status = 304;
        }
        plan
    }
}

fn addresses(addresses: Vec<IpAddr>) -> Dns {
    Dns::Addresses { addresses, ttl: Duration::from_secs(3_600), alias: None, large: false }
}

fn is_directive(text: &str) -> bool {
    ["dns ", "address ", "door "].iter().any(|verb| text.starts_with(verb))
        || ["dns", "address", "door"].contains(&text)
}

fn add_port(text: &str, scheme: &str, host: &str, port: u16) -> String {
    let plain = format!("{scheme}://{host}");
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(&plain) {
        let (before, after) = rest.split_at(at + plain.len());
        out.push_str(before);
        // `http://a.test.example` and `http://a.test:81` are something else.
        if !after.starts_with([':', '.', '-']) && !after.starts_with(char::is_alphanumeric) {
            out.push_str(&format!(":{port}"));
        }
        rest = after;
    }
    out + rest
}

/// An answer while its lines are read.
struct Section {
    key: Key,
    plan: Plan,
    has_type: bool,
    filler: Option<usize>,
    coded: bool,
    lines: Vec<String>,
}

impl Section {
    fn open(header: &str) -> Result<Self, String> {
        let mut words = header.split_whitespace();
        let url = words.next().ok_or("after `---` comes a URL, such as a.test/")?;
        let mut section = Self {
            key: parse_key(url)?,
            plan: Plan { headers: Vec::new(), ..Plan::brief(200) },
            has_type: false,
            filler: None,
            coded: false,
            lines: Vec::new(),
        };
        let mut header: Option<(String, Vec<&str>)> = None;
        for word in words {
            // The first word after a header's name is its value, whatever it looks like.
            if let Some((_, value)) = &mut header
                && value.is_empty()
            {
                value.push(word);
            } else if section.take(word)? {
                section.add_header(header.take());
            } else if let Some(name) = word.strip_suffix(':').filter(|name| is_token(name)) {
                section.add_header(header.replace((name.to_owned(), Vec::new())));
            } else if let Some((_, value)) = &mut header {
                value.push(word);
            } else {
                return Err(format!(
                    "`{word}` is no status, header or behaviour; headers look like `Location: /x`, \
                     behaviours like slow=2s, cut=100, reset, mute, gzip, chunked, then"
                ));
            }
        }
        section.add_header(header);
        Ok(section)
    }

    /// Whether the word was one of ours.
    fn take(&mut self, word: &str) -> Result<bool, String> {
        if word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit()) {
            self.plan.status = word.parse().map_err(|_| format!("`{word}` is no status"))?;
            return Ok(true);
        }
        if let Some((key, value)) = word.split_once('=') {
            return self.take_pair(key, value);
        }
        match word {
            // It only says that this is no mistake: an answer for a URL that has one already.
            "then" => {}
            "cut" => self.plan.fate = Fate::Cut(None),
            "reset" => self.plan.fate = Fate::Reset(None),
            "mute" => self.plan.fate = Fate::Mute,
            "gzip" => self.coded = true,
            "chunked" => self.plan.framing = Framing::Chunked,
            "until-close" => self.plan.framing = Framing::UntilClose,
            "not-http" => self.plan.framing = Framing::Raw,
            "close" => self.plan.close = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take_pair(&mut self, key: &str, value: &str) -> Result<bool, String> {
        let number = || -> Result<u64, String> {
            value.parse().map_err(|_| format!("`{key}={value}`: write a number of bytes"))
        };
        let span = |text: &str| text.parse::<HumanDuration>().map(HumanDuration::get);
        match key {
            "slow" => self.plan.delay = span(value)?,
            "cut" => self.plan.fate = Fate::Cut(Some(number()?)),
            "reset" => self.plan.fate = Fate::Reset(Some(number()?)),
            "drip" => {
                let (bytes, every) = value.split_once('/').unwrap_or((value, "1s"));
                let bytes = bytes.parse().ok().filter(|&bytes| bytes > 0);
                let bytes = bytes.ok_or_else(|| format!("`drip={value}`: write drip=64/1s"))?;
                let every = span(every)?.max(Duration::from_millis(1));
                self.plan.drip = Some(Drip { bytes, every });
            }
            "filler" => {
                let bytes = number()?;
                self.filler = Some(usize::try_from(bytes).map_err(|error| error.to_string())?);
            }
            "type" => self.add_header(Some(("Content-Type".to_owned(), vec![value]))),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn add_header(&mut self, header: Option<(String, Vec<&str>)>) {
        let Some((name, value)) = header else { return };
        self.has_type |= name.eq_ignore_ascii_case("content-type");
        self.plan.headers.push((name.into(), value.join(" ").into()));
    }

    fn finish(mut self) -> Plan {
        if !self.has_type {
            let content_type = match self.key.target.rsplit('.').next() {
                Some("txt") => "text/plain; charset=utf-8",
                Some("xml") => "application/xml",
                _ => "text/html; charset=utf-8",
            };
            self.plan.headers.insert(0, ("Content-Type".into(), content_type.into()));
        }
        let mut body = dedent(&self.lines).into_bytes();
        if let Some(bytes) = self.filler {
            let unit = text::pool().sentences(1, 4_096);
            body.extend(unit.iter().cycle().take(bytes));
        }
        if self.coded {
            body = gzip(&body);
            self.plan.headers.push(("Content-Encoding".into(), "gzip".into()));
        }
        self.plan.body = Body::Bytes(Bytes::from(body));
        self.plan
    }
}

/// `a.test/x`, `http://a.test:8080/x` or `https://a.test/x`.
fn parse_key(url: &str) -> Result<Key, String> {
    let (tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => (false, url),
    };
    let slash = rest
        .find('/')
        .ok_or_else(|| format!("`{url}` has no path; write `{url}/` for the home page"))?;
    let (authority, target) = rest.split_at(slash);
    let (host, port) = match authority.split_once(':') {
        None => (authority, None),
        Some((host, port)) => {
            let port = port.parse().map_err(|_| format!("`{port}` is no port"))?;
            (host, Some(port))
        }
    };
    if host.is_empty() || host != host.to_ascii_lowercase() {
        return Err(format!("`{url}`: a host is written in lower case, such as a.test"));
    }
    Ok(Key { tls, host: host.to_owned(), port, target: target.to_owned() })
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The lines without their common indentation and without empty ones at the end.
fn dedent(lines: &[String]) -> String {
    let end = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |at| at + 1);
    let lines = &lines[..end];
    let indent = |line: &String| line.len() - line.trim_start().len();
    let common = lines.iter().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or(0);
    lines.iter().map(|line| format!("{}\n", line.get(common..).unwrap_or(""))).collect()
}
