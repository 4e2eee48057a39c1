//! Determines the client of a request: the peer of the connection, or the client that a trusted
//! proxy forwards.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use ipnet::IpNet;

use crate::server::{HttpRequestHead, Peer};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// A trusted proxy: `10.0.0.0/8`, `192.0.2.7`, or `unix` for all connections over a unix
/// socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedProxy {
    Network(IpNet),
    Unix,
}

/// The error for text that is no address, network or `unix`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no address or network; write for example \"10.0.0.0/8\", \"192.0.2.7\" or \"unix\""
)]
pub struct TrustedProxyError(String);

impl FromStr for TrustedProxy {
    type Err = TrustedProxyError;

    fn from_str(text: &str) -> Result<Self, TrustedProxyError> {
        if text == "unix" {
            return Ok(Self::Unix);
        }
        let address = || text.parse::<IpAddr>().map(IpNet::from);
        let network = text.parse::<IpNet>().or_else(|_| address());
        network.map(Self::Network).map_err(|_| TrustedProxyError(text.to_owned()))
    }
}

impl fmt::Display for TrustedProxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) => network.fmt(formatter),
            Self::Unix => formatter.write_str("unix"),
        }
    }
}

/// The trusted proxies. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Arc<[TrustedProxy]>);

impl From<Vec<TrustedProxy>> for TrustedProxies {
    fn from(proxies: Vec<TrustedProxy>) -> Self {
        Self(proxies.into())
    }
}

impl TrustedProxies {
    /// Returns whether the address is a trusted proxy's. None: a unix socket.
    #[must_use]
    pub fn trusts(&self, address: Option<IpAddr>) -> bool {
        let address = address.map(|address| address.to_canonical());
        self.0.iter().any(|proxy| match (proxy, address) {
            (TrustedProxy::Network(network), Some(address)) => network.contains(&address),
            (TrustedProxy::Unix, None) => true,
            _ => false,
        })
    }

    /// Returns the client of a request. The chain of addresses is read from its end for as long as
    /// its authors are trusted proxies: entries before that may be forged.
    #[must_use]
    pub fn origin(&self, peer: Peer, headers: &HeaderMap) -> Origin {
        if !self.trusts(peer.address) {
            return Origin { address: peer.address, is_tls: peer.is_tls };
        }
        let protocol = headers.get(X_FORWARDED_PROTO).map(HeaderValue::as_bytes);
        let chain = headers.get_all(X_FORWARDED_FOR).iter().rev().map(HeaderValue::as_bytes);
        self.behind_proxy(peer, protocol, chain)
    }

    /// Returns the client of a request whose head was not parsed by hyper.
    #[must_use]
    pub fn origin_of_head(&self, peer: Peer, head: &HttpRequestHead<'_>) -> Origin {
        if !self.trusts(peer.address) {
            return Origin { address: peer.address, is_tls: peer.is_tls };
        }
        let protocol = head.value(X_FORWARDED_PROTO.as_str());
        let chain: Vec<&[u8]> = head.values(X_FORWARDED_FOR.as_str()).collect();
        self.behind_proxy(peer, protocol, chain.into_iter().rev())
    }

    /// Reads the chain of a trusted proxy. `chain`: the fields, the last one first.
    fn behind_proxy<'a>(
        &self,
        peer: Peer,
        protocol: Option<&[u8]>,
        chain: impl Iterator<Item = &'a [u8]>,
    ) -> Origin {
        let mut origin = Origin { address: peer.address, is_tls: peer.is_tls };
        if let Some(protocol) = protocol {
            origin.is_tls = protocol.eq_ignore_ascii_case(b"https");
        }
        for value in chain {
            for hop in std::str::from_utf8(value).unwrap_or_default().rsplit(',') {
                let Some(address) = address(hop.trim()) else { return origin };
                origin.address = Some(address);
                if !self.trusts(Some(address)) {
                    return origin;
                }
            }
        }
        origin
    }
}

/// Parses an address; some proxies add a port.
fn address(text: &str) -> Option<IpAddr> {
    let with_port = || text.parse().map(|address: std::net::SocketAddr| address.ip());
    text.parse().or_else(|_| with_port()).ok().map(|address: IpAddr| address.to_canonical())
}

/// The client of a request and its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// None: a unix socket without a forwarded address.
    pub address: Option<IpAddr>,
    /// Whether the client's connection was encrypted.
    pub is_tls: bool,
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn trusted(texts: &[&str]) -> TrustedProxies {
        let proxies = texts.iter().map(|text| text.parse().expect("a network"));
        proxies.collect::<Vec<TrustedProxy>>().into()
    }

    fn origin(trusted: &TrustedProxies, peer: Option<&str>, chain: &[&str]) -> String {
        let address = peer.map(|peer| peer.parse().expect("an address"));
        let mut headers = HeaderMap::new();
        for value in chain {
            headers.append(X_FORWARDED_FOR, HeaderValue::from_str(value).expect("a value"));
        }
        let peer = Peer { address, is_tls: false, listener: 0 };
        let address = trusted.origin(peer, &headers).address;
        address.map_or_else(|| "nobody".to_owned(), |address| address.to_string())
    }

    #[test]
    fn forwarded_fields_of_untrusted_peers_are_ignored() {
        let trusted = trusted(&["10.0.0.0/8", "::1"]);
        assert_eq!(origin(&trusted, Some("192.0.2.1"), &["198.51.100.7"]), "192.0.2.1");
        assert_eq!(origin(&trusted, None, &["198.51.100.7"]), "nobody");
        assert_eq!(origin(&TrustedProxies::default(), Some("::1"), &["198.51.100.7"]), "::1");
    }

    #[test]
    fn a_forwarded_chain_is_trusted_from_its_end() {
        let trusted = trusted(&["10.0.0.0/8", "unix"]);
        let from = |chain: &[&str]| origin(&trusted, Some("10.1.2.3"), chain);
        assert_eq!(from(&[]), "10.1.2.3");
        assert_eq!(from(&["198.51.100.7"]), "198.51.100.7");
        assert_eq!(
            from(&["6.6.6.6, 198.51.100.7, 10.0.0.1"]),
            "198.51.100.7",
            "6.6.6.6 is made up"
        );
        assert_eq!(from(&["6.6.6.6", "198.51.100.7:4711"]), "198.51.100.7", "fields are one list");
        assert_eq!(from(&["10.0.0.9, 10.0.0.1"]), "10.0.0.9", "all of them are trusted");
        assert_eq!(from(&["198.51.100.7, unknown, 10.0.0.1"]), "10.0.0.1", "as far as it is read");
        assert_eq!(origin(&trusted, None, &["2001:db8::7"]), "2001:db8::7");
        assert_eq!(from(&["::ffff:198.51.100.7"]), "198.51.100.7", "one client, however written");
        assert_eq!(origin(&trusted, Some("::ffff:10.1.2.3"), &["198.51.100.7"]), "198.51.100.7");
    }

    #[test]
    fn a_trusted_proxy_reports_the_scheme() {
        let trusted = trusted(&["10.0.0.0/8"]);
        let mut headers = HeaderMap::new();
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("https"));
        let is_tls = |peer: &str| {
            let peer = Peer { address: peer.parse().ok(), is_tls: false, listener: 0 };
            trusted.origin(peer, &headers).is_tls
        };
        assert!(is_tls("10.0.0.1") && !is_tls("192.0.2.1"));
    }

    #[test]
    fn an_invalid_network_is_an_error() {
        let error = "10.0.0.0/33".parse::<TrustedProxy>().expect_err("no network");
        assert!(error.to_string().starts_with("\"10.0.0.0/33\" is no address or network"));
    }
}
