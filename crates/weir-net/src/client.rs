//! What a client is: one definition for all limits and queues per client.
//!
//! A client is an address, or the /64 of an IPv6 address. Behind a proxy that is trusted it is the address
//! that the proxy speaks for. This machine itself is nobody in particular: whatever runs here may speak
//! for many, so it has no limit of a client.

mod proxies;
mod usage;

use std::net::{IpAddr, Ipv6Addr};

pub use self::proxies::{Origin, TrustedProxies, TrustedProxy, TrustedProxyError};
pub use self::usage::{ClientFull, ClientLimits, ClientRequest, ClientUse};
pub(crate) use self::usage::{Clients, UsageShare};

/// Bits of an IPv6 address that name a client: the others are its own to choose.
const V6_BITS: u32 = 64;

/// An address, or a network that belongs to one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress(IpAddr);

impl ClientAddress {
    /// The address, or the first one of the network.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.0
    }

    /// None: this machine itself, where a proxy may speak for many.
    #[must_use]
    pub fn of(address: IpAddr) -> Option<Self> {
        match address.to_canonical() {
            own if own.is_loopback() => None,
            IpAddr::V6(address) => {
                let network = address.to_bits() >> (128 - V6_BITS) << (128 - V6_BITS);
                Some(Self(Ipv6Addr::from_bits(network).into()))
            }
            address => Some(Self(address)),
        }
    }
}

impl std::fmt::Display for ClientAddress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            IpAddr::V4(address) => address.fmt(formatter),
            IpAddr::V6(network) => write!(formatter, "{network}/{V6_BITS}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> Option<ClientAddress> {
        ClientAddress::of(text.parse().expect("an address"))
    }

    #[test]
    fn one_client_has_one_address_or_one_network() {
        assert_eq!(client("192.0.2.7"), client("::ffff:192.0.2.7"));
        assert_ne!(client("192.0.2.7"), client("192.0.2.8"));
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:0:0:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!([client("127.0.0.1"), client("::1"), client("::ffff:127.0.0.1")], [None; 3]);
    }

    #[test]
    fn a_network_is_shown_as_one() {
        let shown = |text| client(text).expect("a client").to_string();
        assert_eq!(shown("192.0.2.7"), "192.0.2.7");
        assert_eq!(shown("2001:db8::ffff:0:0:2"), "2001:db8::/64");
    }
}
