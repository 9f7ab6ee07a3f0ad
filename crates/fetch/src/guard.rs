//! May we talk to this address?
//!
//! Only to one that is globally routable: neither in a range that the IANA special-purpose
//! registries set aside, nor multicast, nor, for IPv6, outside of global unicast. An IPv4 address
//! inside an IPv6 one is looked through, in every form that a router on the way might unwrap.
//! `network.allow` opens ranges by name; nothing else does.
//!
//! Always: the verdict is about the address that will be connected, after resolution. It is
//! asked when a name is resolved and again right before the connection.
//!
//! Not here: who asks (`dns`, `http`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use types::Refusal;

use crate::settings::{NetworkSettings, PortRange};

/// The addresses and ports that we talk to.
#[derive(Debug, Clone)]
pub struct Guard {
    allow: Vec<IpNet>,
    ports: Vec<PortRange>,
    public: bool,
}

/// Why we do not go there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The address lies in this range.
    Address { address: IpAddr, range: &'static str },
    /// The address would do, the port would not.
    Port { port: u16 },
}

/// What is said of public addresses while nobody has given a contact.
const NO_CONTACT: &str = "the public internet: public addresses need identity.contact";

impl Guard {
    /// With `public` false only what `network.allow` names is open: nobody goes out into the
    /// world without saying who he is.
    pub fn new(settings: &NetworkSettings, public: bool) -> Self {
        let allow = settings.allow.iter().map(|network| network.0).collect();
        Self { allow, ports: settings.ports.clone(), public }
    }

    /// May we connect to this address and port?
    pub fn check(&self, address: IpAddr, port: u16) -> Result<(), Refused> {
        if self.allows(address) {
            return Ok(());
        }
        self.check_address(address)?;
        match self.ports.iter().any(|range| range.contains(port)) {
            true => Ok(()),
            false => Err(Refused::Port { port }),
        }
    }

    /// May we connect to this address, on some port?
    pub fn check_address(&self, address: IpAddr) -> Result<(), Refused> {
        if self.allows(address) {
            return Ok(());
        }
        match special_range(address) {
            Some(range) => Err(Refused::Address { address, range }),
            None if !self.public => Err(Refused::Address { address, range: NO_CONTACT }),
            None => Ok(()),
        }
    }

    /// The refusal as the engine records it.
    pub fn refusal(&self, refused: Refused) -> Refusal {
        match refused {
            Refused::Address { address, range } => {
                Refusal::Address { address, range: range.into() }
            }
            Refused::Port { port } => {
                let ports: Vec<_> = self.ports.iter().map(ToString::to_string).collect();
                Refusal::Setting {
                    key: "network.ports".into(),
                    value: ports.join(", ").into(),
                    found: format!("port {port}").into(),
                }
            }
        }
    }

    fn allows(&self, address: IpAddr) -> bool {
        // A v4-mapped address is connected as IPv4, so it is in an IPv4 range.
        let canonical = address.to_canonical();
        self.allow.iter().any(|net| net.contains(&address) || net.contains(&canonical))
    }
}

/// The range that keeps this address from being globally routable, if one does.
fn special_range(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => special_v4(v4),
        IpAddr::V6(v6) => special_v6(v6),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    // The narrowest entry decides: some small blocks are reachable inside one that is not.
    let entries = SPECIAL_V4.iter().filter(|(net, ..)| net.contains(&address));
    let (_, global, range) = entries.max_by_key(|(net, ..)| net.prefix_len())?;
    (!global).then_some(range)
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    let s = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match s {
        // `::` and `::1` have entries of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => {}
        [0, 0, 0, 0, 0, 0xffff, high, low] => return special_v4(v4(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] => {
            return special_v4(v4(high, low)).or(Some("::/96 (IPv4-compatible, deprecated)"));
        }
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => return special_v4(v4(high, low)),
        [0x2002, high, low, ..] => return special_v4(v4(high, low)),
        [0x2001, 0, server_high, server_low, _, _, client_high, client_low] => {
            // The client's address is stored with every bit turned round. Where both are public
            // the tunnel itself is still no place for a web server.
            return special_v4(v4(server_high, server_low))
                .or_else(|| special_v4(v4(!client_high, !client_low)))
                .or(Some("2001::/32 (Teredo)"));
        }
        // ISATAP: an IPv4 address behind a marker in the interface part.
        [.., 0 | 0x200, 0x5efe, high, low] => {
            if let Some(range) = special_v4(v4(high, low)) {
                return Some(range);
            }
        }
        _ => {}
    }
    let entries = SPECIAL_V6.iter().filter(|(net, ..)| net.contains(&address));
    match entries.max_by_key(|(net, ..)| net.prefix_len()) {
        Some((_, global, range)) => (!global).then_some(range),
        None if s[0] & 0xe000 == 0x2000 => None,
        None => Some("outside 2000::/3 (not global unicast)"),
    }
}

type Entry<Net> = (Net, bool, &'static str);

const fn v4(
    a: u8,
    b: u8,
    c: u8,
    d: u8,
    bits: u8,
    global: bool,
    range: &'static str,
) -> Entry<Ipv4Net> {
    (Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits), global, range)
}

const fn v6(s: [u16; 8], bits: u8, global: bool, range: &'static str) -> Entry<Ipv6Net> {
    let address = Ipv6Addr::new(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]);
    (Ipv6Net::new_assert(address, bits), global, range)
}

/// IANA IPv4 Special-Purpose Address Registry, and multicast. `true`: globally reachable.
#[rustfmt::skip]
const SPECIAL_V4: [Entry<Ipv4Net>; 21] = [
    v4(0, 0, 0, 0, 8, false, "0.0.0.0/8 (this network)"),
    v4(10, 0, 0, 0, 8, false, "10.0.0.0/8 (private use)"),
    v4(100, 64, 0, 0, 10, false, "100.64.0.0/10 (shared address space)"),
    v4(127, 0, 0, 0, 8, false, "127.0.0.0/8 (loopback)"),
    v4(169, 254, 0, 0, 16, false, "169.254.0.0/16 (link local)"),
    v4(172, 16, 0, 0, 12, false, "172.16.0.0/12 (private use)"),
    v4(192, 0, 0, 0, 24, false, "192.0.0.0/24 (IETF protocol assignments)"),
    v4(192, 0, 0, 9, 32, true, "192.0.0.9/32 (port control protocol anycast)"),
    v4(192, 0, 0, 10, 32, true, "192.0.0.10/32 (TURN anycast)"),
    v4(192, 0, 2, 0, 24, false, "192.0.2.0/24 (documentation)"),
    v4(192, 31, 196, 0, 24, true, "192.31.196.0/24 (AS112)"),
    v4(192, 52, 193, 0, 24, true, "192.52.193.0/24 (AMT)"),
    v4(192, 88, 99, 0, 24, false, "192.88.99.0/24 (6to4 relay anycast, deprecated)"),
    v4(192, 168, 0, 0, 16, false, "192.168.0.0/16 (private use)"),
    v4(192, 175, 48, 0, 24, true, "192.175.48.0/24 (direct delegation AS112)"),
    v4(198, 18, 0, 0, 15, false, "198.18.0.0/15 (benchmarking)"),
    v4(198, 51, 100, 0, 24, false, "198.51.100.0/24 (documentation)"),
    v4(203, 0, 113, 0, 24, false, "203.0.113.0/24 (documentation)"),
    v4(224, 0, 0, 0, 4, false, "224.0.0.0/4 (multicast)"),
    v4(240, 0, 0, 0, 4, false, "240.0.0.0/4 (reserved)"),
    v4(255, 255, 255, 255, 32, false, "255.255.255.255/32 (limited broadcast)"),
];

/// IANA IPv6 Special-Purpose Address Registry, and what was taken out of use. The forms that
/// carry an IPv4 address are judged in code, before this.
#[rustfmt::skip]
const SPECIAL_V6: [Entry<Ipv6Net>; 23] = [
    v6([0, 0, 0, 0, 0, 0, 0, 0], 128, false, "::/128 (unspecified)"),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, false, "::1/128 (loopback)"),
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, false, "64:ff9b:1::/48 (local translation)"),
    v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64, false, "100::/64 (discard only)"),
    v6([0x100, 0, 0, 1, 0, 0, 0, 0], 64, false, "100:0:0:1::/64 (dummy prefix)"),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, false, "2001::/23 (IETF protocol assignments)"),
    v6([0x2001, 1, 0, 0, 0, 0, 0, 1], 128, true, "2001:1::1/128 (port control protocol anycast)"),
    v6([0x2001, 1, 0, 0, 0, 0, 0, 2], 128, true, "2001:1::2/128 (TURN anycast)"),
    v6([0x2001, 1, 0, 0, 0, 0, 0, 3], 128, true, "2001:1::3/128 (DNS-SD registration anycast)"),
    v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, false, "2001:2::/48 (benchmarking)"),
    v6([0x2001, 3, 0, 0, 0, 0, 0, 0], 32, true, "2001:3::/32 (AMT)"),
    v6([0x2001, 4, 0x112, 0, 0, 0, 0, 0], 48, true, "2001:4:112::/48 (AS112)"),
    v6([0x2001, 0x10, 0, 0, 0, 0, 0, 0], 28, false, "2001:10::/28 (ORCHID, deprecated)"),
    v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28, true, "2001:20::/28 (ORCHIDv2)"),
    v6([0x2001, 0x30, 0, 0, 0, 0, 0, 0], 28, true, "2001:30::/28 (drone remote identification)"),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, false, "2001:db8::/32 (documentation)"),
    v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48, true, "2620:4f:8000::/48 (direct delegation AS112)"),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, false, "3fff::/20 (documentation)"),
    v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, false, "5f00::/16 (segment routing)"),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, false, "fc00::/7 (unique local)"),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, false, "fe80::/10 (link local)"),
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, false, "fec0::/10 (site local, deprecated)"),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, false, "ff00::/8 (multicast)"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(allow: &[&str], public: bool) -> Guard {
        let allow = allow.iter().map(|net| net.parse().unwrap()).collect();
        Guard::new(&NetworkSettings { allow, ..NetworkSettings::default() }, public)
    }

    fn verdict(guard: &Guard, address: &str, port: u16) -> String {
        match guard.check(address.parse().unwrap(), port) {
            Ok(()) => "ok".to_owned(),
            Err(Refused::Address { range, .. }) => range.to_owned(),
            Err(Refused::Port { port }) => format!("port {port}"),
        }
    }

    #[test]
    fn every_entry_of_the_registries_is_judged_as_they_say() {
        let guard = guard(&[], true);
        let check = |address: &str, want: &str| {
            let got = verdict(&guard, address, 80);
            let got = got.split(' ').next().unwrap();
            assert_eq!(got, want, "{address}");
        };
        // IPv4: first and last of each range, and its neighbours.
        check("0.0.0.0", "0.0.0.0/8");
        check("0.255.255.255", "0.0.0.0/8");
        check("1.0.0.0", "ok");
        check("9.255.255.255", "ok");
        check("10.0.0.0", "10.0.0.0/8");
        check("10.255.255.255", "10.0.0.0/8");
        check("11.0.0.0", "ok");
        check("100.63.255.255", "ok");
        check("100.64.0.0", "100.64.0.0/10");
        check("100.127.255.255", "100.64.0.0/10");
        check("100.128.0.0", "ok");
        check("126.255.255.255", "ok");
        check("127.0.0.1", "127.0.0.0/8");
        check("127.255.255.255", "127.0.0.0/8");
        check("128.0.0.0", "ok");
        check("169.253.255.255", "ok");
        check("169.254.169.254", "169.254.0.0/16");
        check("169.255.0.0", "ok");
        check("172.15.255.255", "ok");
        check("172.16.0.0", "172.16.0.0/12");
        check("172.31.255.255", "172.16.0.0/12");
        check("172.32.0.0", "ok");
        check("192.0.0.0", "192.0.0.0/24");
        check("192.0.0.8", "192.0.0.0/24");
        check("192.0.0.9", "ok");
        check("192.0.0.10", "ok");
        check("192.0.0.170", "192.0.0.0/24");
        check("192.0.0.255", "192.0.0.0/24");
        check("192.0.1.0", "ok");
        check("192.0.2.1", "192.0.2.0/24");
        check("192.0.3.0", "ok");
        check("192.31.196.1", "ok");
        check("192.52.193.1", "ok");
        check("192.88.99.1", "192.88.99.0/24");
        check("192.88.98.255", "ok");
        check("192.167.255.255", "ok");
        check("192.168.0.1", "192.168.0.0/16");
        check("192.169.0.0", "ok");
        check("192.175.48.1", "ok");
        check("198.17.255.255", "ok");
        check("198.18.0.0", "198.18.0.0/15");
        check("198.19.255.255", "198.18.0.0/15");
        check("198.20.0.0", "ok");
        check("198.51.100.7", "198.51.100.0/24");
        check("203.0.113.7", "203.0.113.0/24");
        check("203.0.114.0", "ok");
        check("223.255.255.255", "ok");
        check("224.0.0.1", "224.0.0.0/4");
        check("239.255.255.255", "224.0.0.0/4");
        check("240.0.0.1", "240.0.0.0/4");
        check("255.255.255.254", "240.0.0.0/4");
        check("255.255.255.255", "255.255.255.255/32");
        // IPv6.
        check("::", "::/128");
        check("::1", "::1/128");
        check("64:ff9b:1::1", "64:ff9b:1::/48");
        check("64:ff9b:1:ffff::", "64:ff9b:1::/48");
        check("64:ff9b:2::1", "outside");
        check("100::1", "100::/64");
        check("100:0:0:1::1", "100:0:0:1::/64");
        check("100:0:0:2::1", "outside");
        check("2001:1::1", "ok");
        check("2001:1::2", "ok");
        check("2001:1::3", "ok");
        check("2001:1::4", "2001::/23");
        check("2001:2::1", "2001:2::/48");
        check("2001:2:1::1", "2001::/23");
        check("2001:3::1", "ok");
        check("2001:4:112::1", "ok");
        check("2001:4:113::1", "2001::/23");
        check("2001:10::1", "2001:10::/28");
        check("2001:20::1", "ok");
        check("2001:30::1", "ok");
        check("2001:40::1", "2001::/23");
        check("2001:1ff:ffff::1", "2001::/23");
        check("2001:200::1", "ok");
        check("2001:db8::1", "2001:db8::/32");
        check("2001:db9::1", "ok");
        check("2606:2800:220:1::1", "ok");
        check("2620:4f:8000::1", "ok");
        check("3ffe::1", "ok");
        check("3fff::1", "3fff::/20");
        check("3fff:fff:ffff::1", "3fff::/20");
        check("3fff:1000::1", "ok");
        check("4000::1", "outside");
        check("1fff::1", "outside");
        check("5f00::1", "5f00::/16");
        check("fbff::1", "outside");
        check("fc00::1", "fc00::/7");
        check("fdff::1", "fc00::/7");
        check("fe00::1", "outside");
        check("fe80::1", "fe80::/10");
        check("febf::1", "fe80::/10");
        check("fec0::1", "fec0::/10");
        check("ff02::1", "ff00::/8");
        check("ffff::1", "ff00::/8");
    }

    #[test]
    fn an_ipv4_address_inside_an_ipv6_one_is_looked_through() {
        let guard = guard(&[], true);
        let check = |address: &str, want: &str| {
            let got = verdict(&guard, address, 80);
            assert_eq!(got.split(' ').next().unwrap(), want, "{address}");
        };
        check("::ffff:127.0.0.1", "127.0.0.0/8"); // mapped
        check("::ffff:169.254.169.254", "169.254.0.0/16");
        check("::ffff:8.8.8.8", "ok");
        check("::10.0.0.1", "10.0.0.0/8"); // compatible
        check("::8.8.8.8", "::/96");
        check("2002:7f00:1::1", "127.0.0.0/8"); // 6to4
        check("2002:a9fe:a9fe::", "169.254.0.0/16");
        check("2002:808:808::1", "ok");
        check("64:ff9b::10.0.0.1", "10.0.0.0/8"); // NAT64
        check("64:ff9b::8.8.8.8", "ok");
        check("64:ff9b:1::8.8.8.8", "64:ff9b:1::/48");
        check("2001:0:a00:1::1", "10.0.0.0/8"); // Teredo server
        check("2001:0:808:808::f5ff:fffe", "10.0.0.0/8"); // Teredo client 10.0.0.1, inverted
        check("2001:0:808:808::f7f7:f7f7", "2001::/32");
        check("2606:2800:220:1:0:5efe:192.168.0.1", "192.168.0.0/16"); // ISATAP
        check("2606:2800:220:1:200:5efe:10.0.0.1", "10.0.0.0/8");
        check("2606:2800:220:1:0:5efe:8.8.8.8", "ok");
    }

    #[test]
    fn an_allowed_range_is_open_on_every_port_and_nothing_else_is() {
        let guard = guard(&["127.0.0.0/8", "fd00::/8"], true);
        assert_eq!(verdict(&guard, "127.1.2.3", 22), "ok");
        assert_eq!(verdict(&guard, "::ffff:127.0.0.1", 22), "ok");
        assert_eq!(verdict(&guard, "fd12::1", 1), "ok");
        assert_eq!(verdict(&guard, "10.0.0.1", 80), "10.0.0.0/8 (private use)");
        // What a translator would unwrap is not what was allowed.
        assert_eq!(verdict(&guard, "64:ff9b::127.0.0.1", 80), "127.0.0.0/8 (loopback)");
        assert_eq!(verdict(&guard, "8.8.8.8", 22), "port 22");
        assert_eq!(verdict(&guard, "8.8.8.8", 6667), "port 6667");
        assert_eq!(verdict(&guard, "8.8.8.8", 8080), "ok");
    }

    #[test]
    fn without_a_contact_only_allowed_ranges_are_open() {
        let guard = guard(&["127.0.0.0/8"], false);
        assert_eq!(verdict(&guard, "127.0.0.1", 8080), "ok");
        assert_eq!(verdict(&guard, "8.8.8.8", 80), NO_CONTACT);
        // Where a contact would not help, we say what is in the way.
        assert_eq!(verdict(&guard, "10.0.0.1", 80), "10.0.0.0/8 (private use)");
    }

    #[test]
    fn a_refusal_names_the_setting_or_the_range() {
        let guard = guard(&[], true);
        let say = |address: &str, port| {
            let refused = guard.check(address.parse().unwrap(), port).unwrap_err();
            guard.refusal(refused).to_string()
        };
        assert_eq!(say("10.1.2.3", 80), "address 10.1.2.3 is in 10.0.0.0/8 (private use)");
        let text = say("8.8.8.8", 22);
        assert!(text.starts_with("network.ports = 80, 443, 1024-1718, "), "{text}");
        assert!(text.ends_with(": port 22"), "{text}");
    }
}
