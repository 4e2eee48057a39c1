//! The definition of a client, shared by all limits and queues per client.
//!
//! A client is an IPv4 address or the /64 network of an IPv6 address. Behind a trusted proxy it is
//! the address that the proxy forwards. Loopback addresses are no particular client and have no
//! limits, because a local process may act for many clients.

mod proxies;
mod usage;

use std::net::{IpAddr, Ipv6Addr};

pub use self::proxies::{Origin, TrustedProxies, TrustedProxy, TrustedProxyError};
pub use self::usage::{ClientFull, ClientLimits, ClientRequest, ClientUse};
pub(crate) use self::usage::{Clients, UsageShare};

/// The network bits of an IPv6 address: a client can choose the others freely.
const V6_BITS: u32 = 64;

/// The address, or the IPv6 network, of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress(IpAddr);

impl ClientAddress {
    /// Returns the address, or the first one of the network.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.0
    }

    /// Returns the client of an address. None for loopback, where a proxy may act for many clients.
    #[must_use]
    pub fn from_ip(address: IpAddr) -> Option<Self> {
        match address.to_canonical() {
            address if address.is_loopback() => None,
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
        ClientAddress::from_ip(text.parse().expect("an address"))
    }

    #[test]
    fn a_client_is_one_ipv4_address_or_one_ipv6_network() {
        assert_eq!(client("192.0.2.7"), client("::ffff:192.0.2.7"));
        assert_ne!(client("192.0.2.7"), client("192.0.2.8"));
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:0:0:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!([client("127.0.0.1"), client("::1"), client("::ffff:127.0.0.1")], [None; 3]);
    }

    #[test]
    fn ipv6_clients_are_displayed_as_a_network() {
        let shown = |text| client(text).expect("a client").to_string();
        assert_eq!(shown("192.0.2.7"), "192.0.2.7");
        assert_eq!(shown("2001:db8::ffff:0:0:2"), "2001:db8::/64");
    }
}
