//! What can go wrong in a world, and how often?
//!
//! Every kind has a name, a place (a whole host, or one page) and a usual share. A world takes
//! the kinds it is given; hosts and pages from which others hang stay healthy, so that a fault
//! never hides its neighbours and every kind can be reached.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a fault sits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Host,
    Page,
}

macro_rules! fault_kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $name:literal, $place:ident, $share:literal;)+) => {
        /// One thing that servers do to crawlers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum FaultKind { $($(#[doc = $doc])+ $kind,)+ }

        impl FaultKind {
            pub const ALL: &[Self] = &[$(Self::$kind,)+];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            pub const fn place(self) -> Place {
                match self { $(Self::$kind => Place::$place,)+ }
            }

            /// Share of the hosts or pages that can have it, in a world with every fault.
            pub const fn usual_share(self) -> f64 {
                match self { $(Self::$kind => $share,)+ }
            }
        }
    };
}

fault_kinds! {
    /// The name does not exist.
    NoSuchName = "no-such-name", Host, 0.02;
    /// The name server fails.
    DnsFailure = "dns-failure", Host, 0.02;
    /// The name leads to 10.0.0.1, which is nobody's business.
    PrivateAddress = "private-address", Host, 0.02;
    /// Nobody listens there.
    Refused = "refused", Host, 0.02;
    /// The certificate is for another name.
    BadCertificate = "bad-certificate", Host, 0.02;
    /// Every answer ends the connection.
    ClosingServer = "closing-server", Host, 0.06;
    /// Bodies are compressed.
    GzipServer = "gzip-server", Host, 0.06;
    /// Bodies are chunked.
    ChunkedServer = "chunked-server", Host, 0.06;
    /// robots.txt answers 403: everything is allowed.
    RobotsDenied = "robots-denied", Host, 0.02;
    /// robots.txt answers 500 for ever: nothing may be fetched.
    RobotsError = "robots-error", Host, 0.02;
    /// robots.txt answers 503 once or twice, then with rules.
    RobotsErrorThenFine = "robots-error-then-fine", Host, 0.02;
    /// robots.txt answers 429 for ever.
    RobotsBusy = "robots-busy", Host, 0.02;
    /// robots.txt never answers.
    RobotsMute = "robots-mute", Host, 0.02;
    /// The connection breaks on robots.txt.
    RobotsReset = "robots-reset", Host, 0.02;
    /// robots.txt lies behind one to five redirects.
    RobotsMoved = "robots-moved", Host, 0.03;
    /// robots.txt is another host's.
    RobotsElsewhere = "robots-elsewhere", Host, 0.03;
    /// robots.txt lies behind more redirects than anyone follows: as if there were none.
    RobotsFar = "robots-far", Host, 0.02;
    /// robots.txt redirects in a circle.
    RobotsLoop = "robots-loop", Host, 0.02;
    /// robots.txt is a web page that says "not found" with status 200.
    RobotsHtml = "robots-html", Host, 0.02;
    /// robots.txt has 600 KiB, and a rule after 500 KiB that does not count.
    RobotsLarge = "robots-large", Host, 0.02;
    /// robots.txt starts with a byte order mark.
    RobotsBom = "robots-bom", Host, 0.02;
    /// robots.txt ends its lines with a bare CR.
    RobotsCr = "robots-cr", Host, 0.02;

    /// 301, 302, 307 or 308, relative or absolute, to a page of the same host, or to nothing behind
    /// a path that its robots.txt may forbid.
    Redirect = "redirect", Page, 0.02;
    /// The same to another host.
    RedirectAway = "redirect-away", Page, 0.01;
    /// Two to five redirects in a row.
    RedirectChain = "redirect-chain", Page, 0.01;
    /// Six to eight redirects in a row.
    RedirectFar = "redirect-far", Page, 0.01;
    /// Redirects in a circle of three.
    RedirectLoop = "redirect-loop", Page, 0.01;
    /// 404.
    NotFound = "not-found", Page, 0.02;
    /// 410.
    Gone = "gone", Page, 0.01;
    /// 403.
    Denied = "denied", Page, 0.01;
    /// 500 for ever.
    Error = "error", Page, 0.005;
    /// 500 once or twice, then the page.
    ErrorThenFine = "error-then-fine", Page, 0.01;
    /// 429 with `Retry-After` in seconds once, then the page.
    Busy = "busy", Page, 0.005;
    /// 503 with `Retry-After` in seconds once, then the page.
    Unavailable = "unavailable", Page, 0.005;
    /// 503 with `Retry-After` as a date once, then the page.
    UnavailableUntil = "unavailable-until", Page, 0.005;
    /// Two to eight seconds before the first byte.
    Slow = "slow", Page, 0.005;
    /// Never answers.
    Mute = "mute", Page, 0.002;
    /// A few bytes a second.
    Drip = "drip", Page, 0.002;
    /// Promises more than it sends, then closes.
    Cut = "cut", Page, 0.005;
    /// Chunked, and torn down in the middle.
    Torn = "torn", Page, 0.005;
    /// Torn down before the first byte.
    Reset = "reset", Page, 0.002;
    /// Answers, but not in HTTP.
    NotHttp = "not-http", Page, 0.002;
    /// Sixteen MiB, and says so.
    Huge = "huge", Page, 0.001;
    /// Chunked without end (48 MiB).
    Endless = "endless", Page, 0.001;
    /// The header names one charset, the bytes are in another.
    WrongCharset = "wrong-charset", Page, 0.01;
    /// Compressed, and the compression is damaged.
    BrokenGzip = "broken-gzip", Page, 0.005;
    /// The same bytes as another page of the host.
    Copy = "copy", Page, 0.03;
    /// A calendar whose next month never ends.
    Calendar = "calendar", Page, 0.002;
    /// A relative link that makes the path longer each time.
    DeepPath = "deep-path", Page, 0.002;
    /// `noindex` in a meta tag.
    Noindex = "noindex", Page, 0.01;
    /// `nofollow` in a meta tag.
    Nofollow = "nofollow", Page, 0.01;
    /// `X-Robots-Tag: nofollow`.
    NofollowHeader = "nofollow-header", Page, 0.01;
    /// Every link has `rel=nofollow`.
    RelNofollow = "rel-nofollow", Page, 0.01;
    /// An image.
    Png = "png", Page, 0.02;
    /// A document.
    Pdf = "pdf", Page, 0.01;
    /// An archive.
    Zip = "zip", Page, 0.005;
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FaultKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|kind| kind.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("`{text}` is no fault; write all, none, or some of: {}", names.join(", "))
        })
    }
}

/// Which faults a world has, with their shares.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Faults(BTreeMap<FaultKind, f64>);

impl Faults {
    pub fn none() -> Self {
        Self::default()
    }

    pub fn all() -> Self {
        Self(FaultKind::ALL.iter().map(|&kind| (kind, kind.usual_share())).collect())
    }

    /// This kind as well, or with another share.
    pub fn with(mut self, kind: FaultKind, share: f64) -> Self {
        self.0.insert(kind, share.clamp(0.0, 1.0));
        self
    }

    pub fn without(mut self, kind: FaultKind) -> Self {
        self.0.remove(&kind);
        self
    }

    pub fn share(&self, kind: FaultKind) -> f64 {
        self.0.get(&kind).copied().unwrap_or(0.0)
    }

    /// The kinds of a place with the upper ends of their shares, for a draw from [0, 1).
    pub(crate) fn ladder(&self, place: Place) -> Vec<(f64, FaultKind)> {
        let mut top = 0.0;
        let of_place = self.0.iter().filter(|(kind, _)| kind.place() == place);
        of_place
            .map(|(&kind, share)| {
                top += share;
                (top, kind)
            })
            .collect()
    }
}

/// `all`, `none`, or `slow,reset=0.1`: names with their usual or their own shares.
impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut faults = Self::none();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            faults = match (word, word.split_once('=')) {
                ("all", _) => Self::all(),
                ("none", _) => Self::none(),
                (_, Some((name, share))) => {
                    let number: f64 = share.parse().map_err(|_| {
                        format!("`{share}` is no share; write a number such as 0.1")
                    })?;
                    faults.with(name.parse()?, number)
                }
                (name, None) => {
                    let kind: FaultKind = name.parse()?;
                    faults.with(kind, kind.usual_share())
                }
            };
        }
        Ok(faults)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (n, (kind, share)) in self.0.iter().enumerate() {
            write!(f, "{}{kind}={share}", if n > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl TryFrom<String> for Faults {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Faults> for String {
    fn from(faults: Faults) -> Self {
        faults.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_read_back_as_they_were_written() {
        for text in ["none", "slow=0.1", "refused=0.02,slow=1"] {
            assert_eq!(text.parse::<Faults>().unwrap().to_string(), text);
        }
        let all: Faults = "all".parse().unwrap();
        assert_eq!(all.to_string().parse::<Faults>().unwrap(), all);
        assert_eq!("all,slow=0".parse::<Faults>().unwrap().share(FaultKind::Slow), 0.0);
        let error = "slwo".parse::<Faults>().unwrap_err();
        assert!(error.contains("`slwo` is no fault") && error.contains("slow"), "{error}");
    }

    #[test]
    fn half_the_hosts_and_most_pages_of_a_faulty_world_are_well() {
        let faults = Faults::all();
        assert!(faults.ladder(Place::Host).last().unwrap().0 < 0.7);
        assert!(faults.ladder(Place::Page).last().unwrap().0 < 0.35);
    }
}
