//! What did one visit come to; whose fault was it; try again?
//!
//! A 404, a timeout, a refusal by robots.txt is the web on a normal day: data that flows on and
//! is stored. Errors, in the sense of Rust, are for faults of ours and are not here.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::record::Validators;
use crate::text::{Reading, TextFacts};
use crate::url::CrawlUrl;

/// What one visit came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// An answer of its own: the page, or a plain "no" such as 404.
    Fetched(Answer),
    /// The copy we have is still good (304).
    Unchanged(Answer),
    /// Another address is named. The target is a URL like any other.
    Moved { to: Option<CrawlUrl>, lasting: bool, answer: Answer },
    /// We did not ask, and this is why.
    Refused(Refusal),
    /// No answer, or one that speaks of the server's health and not of the page.
    Failed(Failure),
}

impl Outcome {
    /// The facts of the answer, when there was one.
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Fetched(answer) | Self::Unchanged(answer) | Self::Moved { answer, .. } => {
                Some(answer)
            }
            Self::Failed(failure) => failure.answer.as_ref(),
            Self::Refused(_) => None,
        }
    }

    /// A fixed name for logs and counters.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fetched(_) => "fetched",
            Self::Unchanged(_) => "unchanged",
            Self::Moved { .. } => "moved",
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
        }
    }
}

/// The facts of one HTTP answer that outlive its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Answer {
    pub status: u16,
    /// The media type without parameters, in lower case.
    pub content_type: Option<Box<str>>,
    /// Bytes of the body as received, before any decoding.
    pub body_bytes: u64,
    /// From the request's first byte to the answer's last.
    pub took_ms: u32,
    /// SHA-1 of the payload, as the WARC record names it.
    pub digest: Option<[u8; 20]>,
    pub validators: Validators,
    pub title: Option<Box<str>>,
    /// Links on the page, before scope and seen.
    pub links: u32,
    pub truncated: Option<Truncated>,
    /// `noindex`, `nofollow`, `noarchive` as the page or its headers asked.
    pub noindex: bool,
    pub nofollow: bool,
    pub noarchive: bool,
    /// Of its text, where that was read. The serde form of an answer is that of an old layout of
    /// rows, which does not know it.
    #[serde(skip)]
    pub text: Option<Box<TextFacts>>,
    /// By which a text is compared with others that are nearly the same, as the reader stores it.
    /// For the sinks: no row has it.
    #[serde(skip)]
    pub sketch: Option<Box<[u8]>>,
    /// What the page says, if a sink wants it. No row and no log has it.
    #[serde(skip)]
    pub reading: Option<Arc<Reading>>,
}

impl Answer {
    /// A page, and all of it. The validators of anything else (an error, half a page) would have the
    /// server tell us to keep that.
    pub fn is_whole(&self) -> bool {
        (200..300).contains(&self.status) && self.truncated.is_none()
    }

    /// What a row keeps of it.
    pub(crate) fn kept(&self) -> Self {
        Self { sketch: None, reading: None, ..self.clone() }
    }
}

/// Why a body is shorter than what the server had to say; the words of the WARC standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Truncated {
    Length,
    Time,
    Disconnect,
    /// The compressed body was broken or grew beyond all bounds.
    Unspecified,
}

impl Truncated {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Time => "time",
            Self::Disconnect => "disconnect",
            Self::Unspecified => "unspecified",
        }
    }
}

/// Why a URL that we accepted is not requested. Each names the rule and the value that decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// A line of the host's robots.txt.
    Robots {
        rule: Box<str>,
        line: u32,
    },
    /// A setting of ours: its key, its value, and what was found.
    Setting {
        key: Box<str>,
        value: Box<str>,
        found: Box<str>,
    },
    /// The host's address is not one we talk to.
    Address {
        address: IpAddr,
        range: Box<str>,
    },
    /// A redirect chain longer than the limit, or one that bites its tail.
    Hops {
        hops_max: u8,
    },
    Loop,
}

impl Refusal {
    /// A fixed name for counters: who refused.
    pub fn class(&self) -> &str {
        match self {
            Self::Robots { .. } => "robots",
            Self::Setting { key, .. } => key,
            Self::Address { .. } => "address",
            Self::Hops { .. } => "redirects",
            Self::Loop => "redirect-loop",
        }
    }

    /// Whether changed settings or rules could change the verdict (see U2: such URLs are judged
    /// again on resume).
    pub const fn follows_settings(&self) -> bool {
        matches!(self, Self::Setting { .. } | Self::Address { .. } | Self::Robots { .. })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Robots { rule, line } => write!(f, "robots.txt line {line}: `{rule}`"),
            Self::Setting { key, value, found } => write!(f, "{key} = {value}: {found}"),
            Self::Address { address, range } => write!(f, "address {address} is in {range}"),
            Self::Hops { hops_max } => {
                write!(f, "fetch.redirects_max = {hops_max}: the chain is longer")
            }
            Self::Loop => write!(f, "the redirects lead back to themselves"),
        }
    }
}

/// A visit that brought no answer about the page.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub fault: Fault,
    /// What the server itself asked for (`Retry-After`).
    pub retry_after: Option<Duration>,
    /// A 5xx or 429 is an answer all the same, and archived.
    pub answer: Option<Answer>,
}

/// What went wrong. The table in [`Fault::blame`] and [`Fault::retry`] is the whole policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// The name has no address, or nobody could tell.
    Dns(Box<str>),
    Connect(Box<str>),
    Tls(Box<str>),
    /// Which limit ran out: `connect`, `first byte`, `total`.
    Timeout(Box<str>),
    /// The connection broke before an answer was there.
    Reset(Box<str>),
    /// What came was not HTTP.
    BadHttp(Box<str>),
    /// 429, 5xx and 408: the server is not well, or wants less of us. 421: another connection may
    /// lead to one that knows the host.
    Status(u16),
    /// The lease was lost with the process that held it.
    Lost,
    /// Our own fault, such as a page that broke a reader.
    Ours(Box<str>),
    /// The proxy could not be reached, or did not connect us.
    Proxy(Box<str>),
}

/// Whom a failure speaks about; decides who waits: the URL, its whole host, or we.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Blame {
    Url,
    Host,
    Us,
}

/// Whether another attempt may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Retry {
    Never,
    Later,
}

impl Fault {
    pub const fn blame(&self) -> Blame {
        match self {
            Self::Dns(_)
            | Self::Connect(_)
            | Self::Tls(_)
            | Self::Timeout(_)
            | Self::Reset(_)
            | Self::Status(_) => Blame::Host,
            Self::BadHttp(_) => Blame::Url,
            Self::Lost | Self::Ours(_) | Self::Proxy(_) => Blame::Us,
        }
    }

    pub const fn retry(&self) -> Retry {
        match self {
            // 501 and 505 say "never"; the other 5xx say "not now".
            Self::Status(501 | 505) => Retry::Never,
            Self::Ours(_) => Retry::Never,
            _ => Retry::Later,
        }
    }

    /// All the names there are.
    pub const NAMES: [&str; 10] = [
        "dns", "connect", "tls", "timeout", "reset", "bad-http", "status", "lost", "ours", "proxy",
    ];

    /// A fixed name for counters, one of [`Fault::NAMES`].
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Dns(_) => "dns",
            Self::Connect(_) => "connect",
            Self::Tls(_) => "tls",
            Self::Timeout(_) => "timeout",
            Self::Reset(_) => "reset",
            Self::BadHttp(_) => "bad-http",
            Self::Status(_) => "status",
            Self::Lost => "lost",
            Self::Ours(_) => "ours",
            Self::Proxy(_) => "proxy",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(what) => write!(f, "name not resolved: {what}"),
            Self::Connect(what) => write!(f, "no connection: {what}"),
            Self::Tls(what) => write!(f, "TLS failed: {what}"),
            Self::Timeout(what) => write!(f, "time limit reached: {what}"),
            Self::Reset(what) => write!(f, "connection broken: {what}"),
            Self::BadHttp(what) => write!(f, "not HTTP: {what}"),
            Self::Status(status) => write!(f, "the server answered {status}"),
            Self::Lost => write!(f, "the visit was lost with the process that made it"),
            Self::Ours(what) => write!(f, "our own fault: {what}"),
            Self::Proxy(what) => write!(f, "no way through the proxy: {what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_rule_and_the_value() {
        let refusal = Refusal::Setting {
            key: "crawl.max_depth".into(),
            value: "15".into(),
            found: "found at depth 16".into(),
        };
        assert_eq!(refusal.to_string(), "crawl.max_depth = 15: found at depth 16");
        assert_eq!(refusal.class(), "crawl.max_depth");
        let refusal = Refusal::Robots { rule: "Disallow: /p".into(), line: 3 };
        assert_eq!(refusal.to_string(), "robots.txt line 3: `Disallow: /p`");
    }

    #[test]
    fn only_our_own_faults_and_final_answers_are_not_tried_again() {
        let say = |fault: Fault| (fault.blame(), fault.retry());
        assert_eq!(say(Fault::Status(503)), (Blame::Host, Retry::Later));
        assert_eq!(say(Fault::Status(501)), (Blame::Host, Retry::Never));
        assert_eq!(say(Fault::Timeout("total".into())), (Blame::Host, Retry::Later));
        assert_eq!(say(Fault::BadHttp("x".into())), (Blame::Url, Retry::Later));
        assert_eq!(say(Fault::Lost), (Blame::Us, Retry::Later));
        assert_eq!(say(Fault::Ours("x".into())), (Blame::Us, Retry::Never));
    }

    #[test]
    fn the_manual_says_of_every_class_what_the_code_does() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md");
        let page = std::fs::read_to_string(page).unwrap();
        let text = || Box::<str>::from("x");
        let faults = [
            Fault::Dns(text()),
            Fault::Connect(text()),
            Fault::Tls(text()),
            Fault::Timeout(text()),
            Fault::Reset(text()),
            Fault::BadHttp(text()),
            Fault::Status(503),
            Fault::Lost,
            Fault::Ours(text()),
            Fault::Proxy(text()),
        ];
        assert_eq!(faults.each_ref().map(Fault::name), Fault::NAMES);
        for fault in faults {
            let start = format!("| `{}` | ", fault.name());
            let line = page.lines().find(|line| line.starts_with(&start)).unwrap();
            let whose = match fault.blame() {
                Blame::Url => "URL",
                Blame::Host => "host",
                Blame::Us => "us",
            };
            let again = if fault.retry() == Retry::Later { "yes" } else { "no" };
            assert!(line.ends_with(&format!("| {whose} | {again} |")), "{line}");
        }
    }
}
