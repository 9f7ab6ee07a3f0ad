//! `lycosa fetch`: one polite visit, to see what a server says.
//!
//! The way of every visit, without a crawl around it: name, guard, robots.txt, pause, request.
//! A redirect is shown, not followed.

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use engine::SteadyClock;
use ports::{Clock as _, Ended, Exchange, Fetcher as _, MemorySpool, Purpose, Request, Resolution};
use robots::{Access, Group, Reply, Robots};
use serde::Serialize;
use types::{Base, Canon, CrawlUrl, Timestamp, Validators};

use super::flags::{SettingFlags, resolve};
use crate::exit::{Exit, Fail, Outcome};
use crate::seeds::preflight;
use crate::settings::Settings;
use crate::telemetry::{self, Loudness, Stderr};
use crate::wiring::{self, Net};

#[derive(Debug, Args)]
pub struct FetchArgs {
    url: String,
    /// Print the body, decoded, and nothing else on stdout
    #[arg(long)]
    body: bool,
    /// JSON
    #[arg(long, conflicts_with = "body")]
    json: bool,
    #[command(flatten)]
    settings: SettingFlags,
}

pub fn run(args: &FetchArgs) -> Outcome {
    let resolved = resolve(None, &args.settings, None)?;
    super::block_on(fetch(args, &resolved.settings))
}

#[derive(Debug, Serialize)]
struct Fetched {
    url: String,
    address: IpAddr,
    robots: String,
    status: u16,
    headers: Vec<(String, String)>,
    protocol: &'static str,
    tls: Option<&'static str>,
    first_byte_ms: Option<u128>,
    total_ms: u128,
    wire_bytes: u64,
    body_bytes: usize,
    truncated: Option<&'static str>,
}

async fn fetch(args: &FetchArgs, settings: &Settings) -> Outcome {
    telemetry::start(Loudness { quiet: false, verbose: 0 }, None, &Stderr::default())?;
    let url = Canon::new(&settings.url).parse(&args.url).map_err(Fail::usage)?;
    let clock = SteadyClock::start(Timestamp::ZERO);
    let net = wiring::net(settings, clock, Arc::new(MemorySpool))?;
    preflight(std::slice::from_ref(&url), net.resolver.clone(), settings).await.verdict()?;
    let visitor = Visitor { net, clock, settings };

    let rules = visitor.robots(&url).await?;
    let group = rules.group();
    let verdict = group.judge(url.path_and_query());
    if let Some(rule) =
        verdict.rule.filter(|_| !verdict.allowed && settings.obeys_robots(url.host()))
    {
        return Err(Fail::failure(format!(
            "robots.txt forbids {url}, line {}: `{}`; --ignore-robots is for your own sites",
            rule.line, rule.text
        )));
    }
    let robots = rules.verdict(verdict);
    let sheets = crate::settings::sheet::for_hosts(&settings.sheet);
    let pause = sheets.delay(url.host(), &settings.politeness);
    let asked = group.crawl_delay().map_or(Duration::ZERO, Duration::from_secs_f64);
    if asked > pause {
        eprintln!("lycosa: waiting {} s, the Crawl-delay of {}", asked.as_secs_f64(), url.origin());
    }
    tokio::time::sleep(pause.max(asked)).await;

    let (address, exchange) = visitor.get(&url, Purpose::Page).await?;
    tell(args, &url, address, robots, &exchange)
}

fn tell(
    args: &FetchArgs,
    url: &CrawlUrl,
    address: IpAddr,
    robots: String,
    exchange: &Exchange,
) -> Outcome {
    let response = match (&exchange.end, &exchange.response) {
        (Ended::Answered, Some(response)) => response,
        (Ended::Broken(fault), _) => return Err(Fail::failure(format!("{url}: {fault}"))),
        (Ended::Refused(refusal), _) => return Err(Fail::failure(format!("{url}: {refusal}"))),
        (Ended::Answered, None) => return Err(Fail::failure(format!("{url}: no answer"))),
        (Ended::NoTurn, _) => return Err(Fail::failure(format!("{url}: no turn on the line"))),
    };
    let sent = exchange.times.sent.unwrap_or(exchange.times.started);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = response.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
    let fetched = Fetched {
        url: url.to_string(),
        address,
        robots,
        status: response.status,
        headers: headers.collect(),
        protocol: exchange.protocol.as_str(),
        tls: exchange.tls,
        first_byte_ms: exchange.times.first_byte.map(|at| at.since(sent).as_millis()),
        total_ms: exchange.times.ended.since(sent).as_millis(),
        wire_bytes: response.head_bytes as u64 + response.body_wire_bytes(),
        body_bytes: response.body.len(),
        truncated: response.truncated.map(types::outcome::Truncated::as_str),
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &fetched)?;
        writeln!(out)?;
    } else if args.body {
        fetched.say(&mut std::io::stderr().lock())?;
        out.write_all(&response.body)?;
    } else {
        fetched.say(&mut out)?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

impl Fetched {
    fn say(&self, out: &mut impl Write) -> std::io::Result<()> {
        let tls = self.tls.map(|tls| format!(", {tls}")).unwrap_or_default();
        writeln!(out, "{}", self.url)?;
        writeln!(out, "  address  {} ({}{tls})", self.address, self.protocol)?;
        writeln!(out, "  robots   {}", self.robots)?;
        let first = self.first_byte_ms.unwrap_or_default();
        writeln!(out, "  time     first byte after {first} ms, last after {} ms", self.total_ms)?;
        let truncated = self.truncated.map(|why| format!(", truncated ({why})"));
        let truncated = truncated.unwrap_or_default();
        writeln!(
            out,
            "  bytes    {} received, {} of body decoded{truncated}",
            self.wire_bytes, self.body_bytes
        )?;
        writeln!(out, "  status   {}", self.status)?;
        for (name, value) in &self.headers {
            writeln!(out, "  {name}: {value}")?;
        }
        Ok(())
    }
}

struct Visitor<'a> {
    net: Net,
    clock: SteadyClock,
    settings: &'a Settings,
}

impl Visitor<'_> {
    /// One request.
    async fn get(&self, url: &CrawlUrl, purpose: Purpose) -> Result<(IpAddr, Exchange), Fail> {
        let address = match self.net.resolver.resolve(&url.host_key()).await {
            Resolution::Addresses { addresses, .. } => addresses.first().copied(),
            Resolution::Forbidden { address, range, .. } => {
                return Err(Fail::failure(format!(
                    "{url}: {address} is in {range}; open it with --allow-net {address} if it is \
                     yours"
                )));
            }
            Resolution::Failed { why, .. } => {
                return Err(Fail::failure(format!("cannot resolve {}: {why}", url.host())));
            }
        };
        let address = address.ok_or_else(|| Fail::failure("the name has no address"))?;
        let request =
            Request { url: url.clone(), address, purpose, validators: Validators::default() };
        tracing::debug!(%url, at = %self.clock.now(), "request");
        Ok((address, self.net.fetcher.fetch(request, &mut |_| ()).await))
    }

    /// The rules for us at this URL's origin.
    async fn robots(&self, url: &CrawlUrl) -> Result<Rules, Fail> {
        let canon = Canon::new(&self.settings.url);
        let parse = |text: &str| canon.parse(text).map_err(Fail::failure);
        let mut at = parse(&format!("{}/robots.txt", url.origin()))?;
        for _ in 0..=robots::REDIRECTS_MAX {
            let (_, exchange) = self.get(&at, Purpose::Robots).await?;
            let response = exchange.response.as_ref().filter(|_| exchange.end == Ended::Answered);
            let Some(response) = response else {
                return self.judge(Reply::Silence, &[], &at);
            };
            let location =
                response.header("location").filter(|_| (300..400).contains(&response.status));
            match location.and_then(|to| canon.join(&Base::from(&at), to).ok()) {
                Some(to) => {
                    at = to;
                    tokio::time::sleep(self.settings.politeness.delay.get()).await;
                }
                // Half a file may lack the half that forbids.
                None if !response.is_whole(self.settings.robots.bytes_max.as_len()) => {
                    return self.judge(Reply::Silence, &[], &at);
                }
                None => return self.judge(Reply::Status(response.status), &response.body, &at),
            }
        }
        self.judge(Reply::TooManyRedirects, &[], &at)
    }

    fn judge(&self, reply: Reply, body: &[u8], at: &CrawlUrl) -> Result<Rules, Fail> {
        match Access::of(reply) {
            Access::Parse => {
                let bytes_max = self.settings.robots.bytes_max.as_len();
                let robots = Robots::parse_limited(body, bytes_max);
                let group = robots.group(&self.settings.identity.product);
                Ok(Rules::Read { group, at: at.clone() })
            }
            Access::AllowAll => Ok(Rules::Absent { at: at.clone() }),
            Access::Unreachable if !self.settings.robots.obey => {
                Ok(Rules::Unreachable { at: at.clone() })
            }
            Access::Unreachable => Err(Fail::failure(format!(
                "{at} is unreachable, so nothing may be fetched there; try again later"
            ))),
        }
    }
}

/// What an origin's robots.txt came to, and where it was asked for last.
enum Rules {
    Read {
        group: Group,
        at: CrawlUrl,
    },
    Absent {
        at: CrawlUrl,
    },
    /// Only met where robots.txt is not obeyed.
    Unreachable {
        at: CrawlUrl,
    },
}

impl Rules {
    fn group(&self) -> Group {
        match self {
            Self::Read { group, .. } => group.clone(),
            Self::Absent { .. } | Self::Unreachable { .. } => Group::default(),
        }
    }

    /// The verdict that let the visit happen, in words.
    fn verdict(&self, verdict: robots::Verdict<'_>) -> String {
        match (self, verdict.rule) {
            (Self::Read { at, .. }, Some(rule)) => {
                let robots::RuleText { line, text } = rule;
                if verdict.allowed {
                    format!("allowed by {at}, line {line}: `{text}`")
                } else {
                    format!(
                        "forbidden by {at}, line {line}: `{text}`; ignored (robots.obey = false)"
                    )
                }
            }
            (Self::Read { at, .. }, None) => format!("allowed by {at}, no rule matches"),
            (Self::Absent { at }, _) => format!("allowed: there is no {at}"),
            (Self::Unreachable { at }, _) => {
                format!("unreachable at {at}; ignored (robots.obey = false)")
            }
        }
    }
}
