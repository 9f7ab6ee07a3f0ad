//! What can be set about the network, about names, and about fetching?
//!
//! The doc comment of a field is its manual. Durations, sizes and rates carry their units.
//!
//! Not here: the text of the user agent, which comes finished from `[identity]`, and politeness,
//! which is the frontier's.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use types::{ByteRate, ByteSize, HumanDuration};

use crate::proxy::ProxyUrl;

/// Where we connect, and how long we wait there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkSettings {
    /// Address ranges opened beyond the public ones, such as `"127.0.0.0/8"`. They are exempt
    /// from the port list.
    pub allow: Vec<Network>,
    /// Ports that may be connected, as numbers or `"a-b"`. By default 80, 443 and all from 1024,
    /// less those that browsers refuse because other protocols live there.
    pub ports: Vec<PortRange>,
    /// PEM files with certificates trusted beside the built-in roots.
    pub tls_ca: Vec<PathBuf>,
    /// Whether a server must prove its name. Off takes any certificate.
    pub tls_verify: bool,
    /// Longest wait for a connection, TLS included.
    pub timeout_connect: HumanDuration,
    /// Longest wait for the first byte of an answer, from the request's first.
    pub timeout_first_byte: HumanDuration,
    /// Longest silence in the middle of an answer.
    pub timeout_idle: HumanDuration,
    /// Longest time for a whole visit to a page.
    pub timeout_total: HumanDuration,
    /// The same for PDF and other types that are large by nature.
    pub timeout_total_large: HumanDuration,
    /// Least rate of an answer, measured over `rate_window`; `"0"` takes any.
    pub rate_min: ByteRate,
    /// Over which time the rate is measured.
    pub rate_window: HumanDuration,
    /// Most that all answers together take of the line, on average, such as `"10MiB/s"`; `"0"` is no
    /// limit. Visits wait for their share before they begin, five minutes at most, then their hosts come
    /// later; one that is under way is not slowed down.
    pub bandwidth_max: ByteRate,
    /// Our own addresses that connections to servers and proxies leave from, one of IPv4, one of IPv6, or both; of a
    /// kind that is not named nobody is connected. With none, the system chooses. Name servers are
    /// asked from where the system likes.
    pub source_address: Vec<IpAddr>,
    /// How long an open connection waits for its host's next visit. A server that names a
    /// shorter time (`Keep-Alive: timeout=5`) gets its way.
    pub keep_alive: HumanDuration,
    /// How many connections wait so; the one that waited longest makes room.
    pub keep_alive_max: usize,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            ports: PortRange::usual(),
            tls_ca: Vec::new(),
            tls_verify: true,
            timeout_connect: HumanDuration::from_secs(10),
            timeout_first_byte: HumanDuration::from_secs(20),
            timeout_idle: HumanDuration::from_secs(20),
            timeout_total: HumanDuration::from_secs(30),
            timeout_total_large: HumanDuration::from_secs(300),
            rate_min: ByteRate(1 << 10),
            rate_window: HumanDuration::from_secs(10),
            bandwidth_max: ByteRate(0),
            source_address: Vec::new(),
            // A host is visited every second or so; 30 s covers a Crawl-delay of that order.
            keep_alive: HumanDuration::from_secs(30),
            // A process may hold some 20,000 files; the rest is for visits under way and stores.
            keep_alive_max: 4096,
        }
    }
}

/// How names become addresses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DnsSettings {
    /// Servers to ask, as `"ip:port"`. With none, the system's are asked and its hosts file
    /// counts.
    pub upstreams: Vec<Upstream>,
    /// An answer is kept at least so long, whatever its own time to live.
    pub ttl_min: HumanDuration,
    /// An answer is kept at most so long.
    pub ttl_max: HumanDuration,
    /// How long we remember that a name does not exist.
    pub negative_ttl: HumanDuration,
    /// How long we remember that nobody could tell.
    pub failure_ttl: HumanDuration,
    /// How many names are remembered; the one unused for longest makes room. They take 256 bytes each at
    /// most, on average: fewer are remembered where they are very long.
    pub cache_entries_max: usize,
    /// Longest wait for one server's answer. Within it a lost datagram is sent again, twice at
    /// most.
    pub timeout: HumanDuration,
    /// How often each server is asked before we give up.
    pub attempts: u32,
}

impl Default for DnsSettings {
    fn default() -> Self {
        Self {
            upstreams: Vec::new(),
            ttl_min: HumanDuration::from_secs(300),
            ttl_max: HumanDuration::from_secs(86_400),
            negative_ttl: HumanDuration::from_secs(300),
            failure_ttl: HumanDuration::from_secs(30),
            cache_entries_max: 100_000,
            timeout: HumanDuration::from_secs(3),
            attempts: 2,
        }
    }
}

/// What we take from a server, and how we ask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FetchSettings {
    /// How much of an HTML page is read, after decompression. What is stored is not cut by it.
    pub html_bytes_max: ByteSize,
    /// How much of an answer's body is stored, as it came over the wire.
    pub stored_bytes_max: ByteSize,
    /// The same for PDF.
    pub pdf_bytes_max: ByteSize,
    /// How much of one answer is held in memory, as it came over the wire; only that can be read.
    /// What goes beyond it lies on the disk (`state/spool`) until it is archived. Of HTML at least
    /// `html_bytes_max` is held. Where answers in flight take more than a quarter of `memory_max`, less
    /// is held while one comes, and the rest of this when it is read.
    pub held_bytes_max: ByteSize,
    /// Largest head of an answer: status line and header fields.
    pub header_bytes_max: ByteSize,
    /// Most header fields in an answer.
    pub headers_max: usize,
    /// How many times larger than its compressed form a body may be read; more is a bomb.
    pub decoded_ratio_max: u32,
    /// Longest chain of redirects that is followed.
    pub redirects_max: u8,
    /// How often a URL is tried before it goes to the dead letters.
    pub attempts_max: u32,
    /// Least pause before a failed URL is tried again. It is four times as long after each attempt,
    /// and up to a quarter longer by chance.
    pub retry_delay: HumanDuration,
    /// Retries that one host may cost, beside one for every four good answers. What fails beyond that
    /// goes to the dead letters at once; `0` sets no limit.
    pub host_retries_max: u32,
    /// How often in a row a server is believed that a page has not changed (304). Then the page is
    /// asked for whole once; `0` believes for ever.
    pub not_modified_max: u32,
    /// Bytes of all answers in flight together, as far as they are in memory; when they are used up,
    /// requests wait.
    pub memory_max: ByteSize,
    /// Proxies to go through, `http://host:port` (by CONNECT, which they must allow to every port that is
    /// crawled) or `socks5://host:port`, with `user:password@` before the host where needed. A host
    /// stays with one of them as long as that works.
    pub proxies: Vec<ProxyUrl>,
    /// Header fields added to every request, or put in the place of ours. They go to every
    /// host: not the place for a password.
    pub headers: BTreeMap<String, String>,
    /// Whether HTTP/2 may be spoken where a server offers it. The archive then holds request and
    /// answer in the shape of HTTP/1.1 and says so; over HTTP/1.1 it holds the bytes of the wire.
    pub http2: bool,
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self {
            html_bytes_max: ByteSize::mib(2),
            stored_bytes_max: ByteSize::mib(15),
            pdf_bytes_max: ByteSize::mib(64),
            // Twice what is read of a page, so that the sizes between its chunks do not matter. Fewer
            // than one answer in a thousand is longer, so the disk has little to do.
            held_bytes_max: ByteSize::mib(4),
            header_bytes_max: ByteSize::kib(64),
            headers_max: 100,
            // The most repetitive honest pages reach some 50; deflate alone can do 1,000, brotli far more.
            decoded_ratio_max: 200,
            redirects_max: 5,
            attempts_max: 3,
            retry_delay: HumanDuration::from_secs(10),
            host_retries_max: 50,
            // One page in eleven moves as a whole: a lie comes to light, and a re-crawl stays cheap.
            not_modified_max: 10,
            memory_max: ByteSize::gib(1),
            proxies: Vec::new(),
            headers: BTreeMap::new(),
            http2: true,
        }
    }
}

/// An address range: `10.0.0.0/8`, `::1/128`, or a single address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Network(pub IpNet);

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        text.parse::<IpNet>()
            .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
            .map(|net| Self(net.trunc()))
            .map_err(|_| format!("`{text}` is not an address range: write it as 127.0.0.0/8"))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A name server: `9.9.9.9:53`, or an address alone for port 53.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Upstream(pub SocketAddr);

impl FromStr for Upstream {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        text.parse()
            .or_else(|_| text.parse().map(|ip| SocketAddr::new(ip, 53)))
            .map(Self)
            .map_err(|_| format!("`{text}` is not a name server: write it as 192.0.2.1:53"))
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// One port or a range of them: `80`, `"1024-65535"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "PortForm", into = "PortForm")]
pub struct PortRange {
    pub first: u16,
    pub last: u16,
}

/// Ports from 1024 up on which the Fetch standard refuses to speak HTTP ("bad ports").
const BAD_PORTS: [u16; 19] = [
    1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669,
    6679, 6697, 10080,
];

impl PortRange {
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }

    /// 80, 443, and everything from 1024 up that is not a bad port.
    fn usual() -> Vec<Self> {
        let mut ranges = vec![Self { first: 80, last: 80 }, Self { first: 443, last: 443 }];
        let mut first = 1024;
        for bad in BAD_PORTS {
            if bad > first {
                ranges.push(Self { first, last: bad - 1 });
            }
            first = bad + 1;
        }
        ranges.push(Self { first, last: u16::MAX });
        ranges
    }
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hint = || format!("`{text}` is not a port: write 8080 or 8000-8999");
        let port = |part: &str| part.trim().parse::<u16>().map_err(|_| hint());
        let (first, last) = match text.split_once('-') {
            None => (port(text)?, port(text)?),
            Some((first, last)) => (port(first)?, port(last)?),
        };
        if first > last {
            return Err(hint());
        }
        Ok(Self { first, last })
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

/// A port as a file may write it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum PortForm {
    Number(u16),
    Text(String),
}

impl TryFrom<PortForm> for PortRange {
    type Error = String;

    fn try_from(form: PortForm) -> Result<Self, String> {
        match form {
            PortForm::Number(port) => Ok(Self { first: port, last: port }),
            PortForm::Text(text) => text.parse(),
        }
    }
}

impl From<PortRange> for PortForm {
    fn from(range: PortRange) -> Self {
        match range.first == range.last {
            true => Self::Number(range.first),
            false => Self::Text(range.to_string()),
        }
    }
}

impl JsonSchema for PortRange {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "port".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"], "format": "port" })
    }
}

impl fmt::Debug for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The string form is the only form.
macro_rules! as_text {
    ($type:ident, $format:literal) => {
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $format.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "format": $format })
            }
        }
    };
}

as_text!(Network, "network");
as_text!(Upstream, "upstream");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_read_back_as_they_are_written() {
        let text = toml::to_string(&NetworkSettings::default()).unwrap();
        assert_eq!(toml::from_str::<NetworkSettings>(&text).unwrap(), NetworkSettings::default());
        let text = toml::to_string(&DnsSettings::default()).unwrap();
        assert_eq!(toml::from_str::<DnsSettings>(&text).unwrap(), DnsSettings::default());
        let text = toml::to_string(&FetchSettings::default()).unwrap();
        assert_eq!(toml::from_str::<FetchSettings>(&text).unwrap(), FetchSettings::default());
    }

    #[test]
    fn ports_are_numbers_or_ranges() {
        let network: NetworkSettings =
            toml::from_str(r#"ports = [80, "8000-8002", "443"]"#).unwrap();
        let ports: Vec<_> = network.ports.iter().map(ToString::to_string).collect();
        assert_eq!(ports, ["80", "8000-8002", "443"]);
        for bad in [r#"ports = ["9-8"]"#, r#"ports = ["x"]"#, "ports = [70000]", "port = [80]"] {
            assert!(toml::from_str::<NetworkSettings>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_usual_ports_leave_out_those_of_other_protocols() {
        let usual = PortRange::usual();
        let open = |port| usual.iter().any(|range| range.contains(port));
        for port in [80, 443, 1024, 8080, 8443, 10081, 65535] {
            assert!(open(port), "{port}");
        }
        for port in BAD_PORTS.into_iter().chain([0, 1, 22, 25, 79, 81, 442, 444, 1023]) {
            assert!(!open(port), "{port}");
        }
    }

    #[test]
    fn ranges_and_name_servers_may_be_bare_addresses() {
        assert_eq!("10.1.2.3/8".parse::<Network>().unwrap().to_string(), "10.0.0.0/8");
        assert_eq!("::1".parse::<Network>().unwrap().to_string(), "::1/128");
        assert_eq!("192.0.2.1".parse::<Upstream>().unwrap().to_string(), "192.0.2.1:53");
        assert_eq!("[2001:db8::1]:5353".parse::<Upstream>().unwrap().0.port(), 5353);
        assert!("everything".parse::<Network>().unwrap_err().contains("127.0.0.0/8"));
        assert!("dns.example".parse::<Upstream>().unwrap_err().contains("192.0.2.1:53"));
    }
}
