//! Who asks: what one client holds of a memory that all share is bounded.

use std::net::{IpAddr, Ipv6Addr};

/// Bits of an address of the newer kind that one client has: the others are its own to choose.
const V6_BITS: u32 = 64;

/// Whoever is at an address, or in a network that one client has. The binary puts it into a request's
/// extensions; without it a request is nobody's in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Client(IpAddr);

impl Client {
    /// The address, or the first one of the network.
    pub(super) const fn address(self) -> IpAddr {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> Option<Client> {
        Client::of(text.parse().unwrap())
    }

    #[test]
    fn one_client_has_one_address_or_one_network() {
        assert_eq!(client("192.0.2.7"), client("::ffff:192.0.2.7"));
        assert_ne!(client("192.0.2.7"), client("192.0.2.8"));
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:0:0:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!([client("127.0.0.1"), client("::1"), client("::ffff:127.0.0.1")], [None; 3]);
    }
}
