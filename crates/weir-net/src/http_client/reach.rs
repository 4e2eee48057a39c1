//! Classifies addresses by how near they are. A request that a remote party asks for must not reach
//! addresses of this machine or its network. Free of I/O.
//!
//! Source: IANA's registries of special-purpose addresses (RFC 6890).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How near an address is, from far to near.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// The public internet.
    Public,
    /// A private network.
    Private,
    /// This machine.
    Loopback,
    /// Not for ordinary servers: link-local (where clouds serve a machine's secrets), multicast and
    /// reserved addresses.
    Special,
}

impl Reach {
    /// Classifies `address`.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => classify_v4(address),
            IpAddr::V6(address) => match carried(address) {
                Some(address) => classify_v4(address),
                None => classify_v6(address),
            },
        }
    }
}

fn classify_v4(address: Ipv4Addr) -> Reach {
    match address.octets() {
        [127, ..] => Reach::Loopback,
        [0 | 224..=255, ..] | [169, 254, ..] => Reach::Special,
        [100, 64..=127, ..] | [192, 0, 0, _] | [198, 18 | 19, ..] => Reach::Private,
        _ if address.is_private() => Reach::Private,
        _ => Reach::Public,
    }
}

fn classify_v6(address: Ipv6Addr) -> Reach {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Reach::Loopback,
        // Unspecified, link-local, multicast, Teredo.
        [0, 0, 0, 0, 0, 0, 0, 0]
        | [0xfe80..=0xfebf, ..]
        | [0xff00..=0xffff, ..]
        | [0x2001, 0, ..] => Reach::Special,
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] | [0x64, 0xff9b, 1, ..] => Reach::Private,
        _ => Reach::Public,
    }
}

/// Returns the IPv4 address that an IPv6 address embeds: mapped, NAT64 or 6to4.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => v4(high, low),
        _ => None,
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Public => "public",
            Self::Private => "in a private network",
            Self::Loopback => "this machine",
            Self::Special => "link-local or reserved",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_address_is_classified() {
        for (reach, addresses) in [
            (Reach::Public, "151.101.1.1 172.32.0.1 100.128.0.1 2a04:4e42::1 64:ff9b::9765:101"),
            (
                Reach::Private,
                "10.0.0.1 172.16.9.9 192.168.1.1 100.64.0.1 198.19.0.1 fd00::1 fec0::1",
            ),
            (
                Reach::Private,
                "::ffff:10.0.0.1 64:ff9b::a00:1 2002:a00:1::1 ::10.0.0.1 64:ff9b:1::1",
            ),
            (Reach::Loopback, "127.0.0.1 127.9.9.9 ::1 ::ffff:127.0.0.1 2002:7f00:1::"),
            (Reach::Special, "169.254.169.254 0.0.0.0 0.1.2.3 224.0.0.1 255.255.255.255 240.0.0.1"),
            (Reach::Special, ":: fe80::1 ff02::1 ::ffff:169.254.1.1 64:ff9b::a9fe:a9fe 2001::1"),
        ] {
            for address in addresses.split(' ') {
                assert_eq!(Reach::of(address.parse().unwrap()), reach, "{address}");
            }
        }
        assert!(Reach::Public < Reach::Private && Reach::Private < Reach::Loopback);
        assert!(Reach::Loopback < Reach::Special);
    }
}
