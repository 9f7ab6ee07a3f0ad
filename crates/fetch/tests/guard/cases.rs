//! Which addresses are not for us, and in which forms do they come?
//!
//! Written down a second time, from the registries and not from the guard: a judge must not ask
//! the accused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// An address, and why it is denied.
pub(crate) struct Case {
    pub(crate) address: IpAddr,
    pub(crate) what: String,
}

/// IANA IPv4 Special-Purpose Address Registry, "globally reachable" false or not said; multicast.
const V4: [&str; 21] = [
    "0.0.0.0/8",
    "0.0.0.0/32",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/29",
    "192.0.0.8/32",
    "192.0.0.170/31",
    "192.0.0.128/25",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "255.255.255.255/32",
    // Where clouds keep the keys of their machines.
    "169.254.169.254/32",
];

/// The same for IPv6, with what was taken out of use and what was never given out.
const V6: [&str; 26] = [
    "::/128",
    "::1/128",
    "::ffff:0:0:0/96",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/32",
    "2001:1::/64",
    "2001:2::/48",
    "2001:10::/28",
    "2001:100::/24",
    "2001:db8::/32",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fd00:ec2::254/128",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
    "200::/7",
    "400::/6",
    "1000::/4",
    "4000::/3",
    "8000::/2",
    "e000::/4",
    "fe00::/9",
];

type Embedding = (&'static str, fn(Ipv4Addr) -> IpAddr);

/// The ways in which an IPv6 address can carry an IPv4 one.
const EMBEDDINGS: [Embedding; 12] = [
    ("itself", IpAddr::V4),
    ("mapped", |v4| v4.to_ipv6_mapped().into()),
    ("compatible", |v4| low(0, v4)),
    ("translated", |v4| low(0xffff_0000 << 32, v4)),
    ("6to4", |v4| (0x2002 << 112 | wide(v4) << 80 | 1).ip()),
    ("NAT64", |v4| low(0x64_ff9b << 96, v4)),
    ("NAT64, local, whole", |v4| low(0x64_ff9b_0001 << 80, v4)),
    // RFC 6052 leaves out the eight bits from 64 on.
    ("NAT64, local, /48", |v4| {
        let (high, rest) = (wide(v4) >> 16, wide(v4) & 0xffff);
        (0x64_ff9b_0001 << 80 | high << 64 | rest << 40).ip()
    }),
    ("Teredo server", |v4| (0x2001 << 112 | wide(v4) << 64 | 0xf7f7_f7f7).ip()),
    ("Teredo client", |v4| (0x2001 << 112 | 0x0808_0808 << 64 | wide(v4) ^ 0xffff_ffff).ip()),
    ("ISATAP", |v4| low(0x2606_2800_0220_0001 << 64 | 0x5efe << 32, v4)),
    ("ISATAP, public", |v4| low(0x2606_2800_0220_0001 << 64 | 0x0200_5efe << 32, v4)),
];

fn wide(v4: Ipv4Addr) -> u128 {
    u32::from(v4).into()
}

fn low(high: u128, v4: Ipv4Addr) -> IpAddr {
    (high | wide(v4)).ip()
}

trait Bits {
    fn ip(self) -> IpAddr;
}

impl Bits for u128 {
    fn ip(self) -> IpAddr {
        Ipv6Addr::from(self).into()
    }
}

/// First, middle and last of every range, IPv4 ones in every embedding.
pub(crate) fn denied() -> Vec<Case> {
    let mut cases = Vec::new();
    for range in V4 {
        for v4 in ends_v4(range.parse().unwrap()) {
            for (how, embed) in EMBEDDINGS {
                cases.push(Case { address: embed(v4), what: format!("{v4} of {range}, {how}") });
            }
        }
    }
    for range in V6 {
        for v6 in ends_v6(range.parse().unwrap()) {
            cases.push(Case { address: v6.into(), what: range.to_owned() });
        }
    }
    cases
}

fn ends_v4(range: Ipv4Net) -> [Ipv4Addr; 3] {
    let (first, last) = (u32::from(range.network()), u32::from(range.broadcast()));
    [first, first + (last - first) / 2 + (last - first) % 2, last].map(Ipv4Addr::from)
}

fn ends_v6(range: Ipv6Net) -> [Ipv6Addr; 3] {
    let (first, last) = (u128::from(range.network()), u128::from(range.broadcast()));
    [first, first + (last - first) / 2, last].map(Ipv6Addr::from)
}

/// Addresses that anybody may visit, some of them special and reachable all the same.
pub(crate) fn public() -> Vec<IpAddr> {
    let text = [
        "1.0.0.1",
        "8.8.8.8",
        "100.63.255.255",
        "172.32.0.1",
        "192.0.0.9",
        "192.31.196.1",
        "192.175.48.1",
        "223.255.255.255",
        "2001:4:112::1",
        "2001:20::1",
        "2606:4700::1111",
        "2620:4f:8000::1",
        "2002:808:808::1",
        "64:ff9b::8.8.8.8",
        "2606:2800:220:1:0:5efe:8.8.8.8",
    ];
    text.iter().map(|address| address.parse().unwrap()).collect()
}

/// Everything, for a guard that is not one.
pub(crate) fn all() -> [IpNet; 2] {
    ["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()]
}
