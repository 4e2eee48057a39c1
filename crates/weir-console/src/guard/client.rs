//! The address that a login attempt counts against.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request};

/// The part of a client's address that one person cannot change at will: all of an IPv4 address,
/// the /64 of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LoginClient {
    V4([u8; 4]),
    V6Network([u8; 8]),
    /// The address is unknown; all such clients share one count.
    Unknown,
}

impl LoginClient {
    pub(crate) fn new(request: &Request) -> Self {
        let info = request.extensions().get::<ConnectInfo<SocketAddr>>();
        info.map_or(Self::Unknown, |ConnectInfo(address)| Self::from(address.ip()))
    }
}

impl From<IpAddr> for LoginClient {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6Network([a, b, c, d, e, f, g, h])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_counts_as_one_client() {
        let client = |text: &str| LoginClient::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(client("2001:db8:1:2::1"), client("2001:db8:1:2:ffff::9"));
        assert_ne!(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
        assert_eq!(client("::ffff:10.0.0.1"), client("10.0.0.1"));
    }
}
