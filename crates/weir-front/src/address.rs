//! The address of a worker's listening socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a worker: `unix:/run/app/0.sock` or `127.0.0.1:3000`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamAddress {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// The error for text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither unix:/PATH nor IP:PORT")]
pub struct AddressError(String);

impl FromStr for UpstreamAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = || AddressError(text.to_owned());
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(_) => Err(error()),
            None => text.parse().map(Self::Tcp).map_err(|_| error()),
        }
    }
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
            Self::Tcp(address) => address.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip_through_text() {
        for text in ["unix:/run/app/0.sock", "127.0.0.1:3000", "[::1]:3000"] {
            assert_eq!(
                text.parse::<UpstreamAddress>().map(|address| address.to_string()),
                Ok(text.into())
            );
        }
        for text in ["", "unix:run/app.sock", "localhost:3000", "127.0.0.1", "/run/app.sock"] {
            assert_eq!(text.parse::<UpstreamAddress>(), Err(AddressError(text.to_owned())));
        }
    }
}
