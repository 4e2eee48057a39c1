//! A listening address: `127.0.0.1:7419`, `[::1]:7419`, `localhost:7419` or `unix:/run/weir.sock`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The address that a service listens on. Port 0 lets the system choose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Why a text is not a listening address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The port is missing, as in `127.0.0.1` or `[::1]`.
    #[error("{0:?} has no port")]
    NoPort(String),
    /// The host is a name, not an IP address.
    #[error("{0:?} is not an IP address")]
    NotAnAddress(String),
    /// The port is not a number from 0 to 65535.
    #[error("{0:?} is not a port; ports go from 0 (the system chooses) to 65535")]
    Port(String),
    /// The path after `unix:` is missing.
    #[error("a unix socket needs a path; write for example \"unix:/run/weir/jobs.sock\"")]
    NoPath,
}

impl ListenAddress {
    /// Returns whether only this machine can connect.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl FromStr for ListenAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() {
                Err(AddressError::NoPath)
            } else {
                Ok(Self::Unix(PathBuf::from(path)))
            };
        }
        parse_tcp(text).map(Self::Tcp)
    }
}

fn parse_tcp(text: &str) -> Result<SocketAddr, AddressError> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let is_bare_address = text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let (host, port) = match text.rsplit_once(':') {
        Some(parts) if !is_bare_address => parts,
        _ => return Err(AddressError::NoPort(text.to_owned())),
    };
    let port: u16 = port.parse().map_err(|_| AddressError::Port(port.to_owned()))?;
    match host {
        "localhost" => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        _ => Err(AddressError::NotAnAddress(host.to_owned())),
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(formatter),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip_through_text() {
        for text in ["127.0.0.1:7419", "[::1]:0", "0.0.0.0:7420", "unix:/run/weir.sock"] {
            assert_eq!(text.parse::<ListenAddress>().expect(text).to_string(), text);
        }
        let named: ListenAddress = "localhost:7419".parse().expect("localhost");
        assert_eq!(named.to_string(), "127.0.0.1:7419");
    }

    #[test]
    fn address_errors_have_hints() {
        let error = |text: &str| text.parse::<ListenAddress>().expect_err(text);
        assert_eq!(error("127.0.0.1"), AddressError::NoPort("127.0.0.1".into()));
        assert_eq!(error("::1"), AddressError::NoPort("::1".into()));
        assert_eq!(error("7419"), AddressError::NoPort("7419".into()));
        assert_eq!(error("127.0.0.1:74190"), AddressError::Port("74190".into()));
        assert_eq!(error("example.org:80"), AddressError::NotAnAddress("example.org".into()));
        assert_eq!(error("unix:"), AddressError::NoPath);
    }

    #[test]
    fn only_loopback_and_unix_sockets_are_local() {
        for (text, local) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("unix:/x", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("10.0.0.1:1", false),
        ] {
            assert_eq!(text.parse::<ListenAddress>().expect(text).is_local(), local, "{text}");
        }
    }
}
