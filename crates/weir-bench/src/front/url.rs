//! Where the app is.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use anyhow::{Context, Result, ensure};

/// Asked for where the URL has no path.
const PATH: &str = "/sleep";

/// `http://host:port[/path]`.
#[derive(Debug, Clone)]
pub(crate) struct AppUrl {
    pub(crate) address: SocketAddr,
    /// As the Host header says it.
    pub(crate) host: String,
    pub(crate) path: String,
}

impl AppUrl {
    /// Of an address without a path.
    pub(crate) fn of(address: SocketAddr) -> Self {
        Self { address, host: address.to_string(), path: PATH.to_owned() }
    }
}

impl fmt::Display for AppUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "http://{}{}", self.host, self.path)
    }
}

impl FromStr for AppUrl {
    type Err = anyhow::Error;

    fn from_str(url: &str) -> Result<Self> {
        let shape = "an app is given as http://host:port[/path] (TLS is not supported)";
        let rest = url.strip_prefix("http://").context(shape)?;
        let path_at = rest.find('/').unwrap_or(rest.len());
        let (host, path) = rest.split_at(path_at);
        let path = if path.len() <= 1 { PATH } else { path };
        let plain = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte));
        ensure!(plain, "{url}: a path without spaces, '?' and '#'");
        let mut addresses = host.to_socket_addrs().with_context(|| format!("resolving {host}"))?;
        let address = addresses.next().with_context(|| format!("{host} has no address"))?;
        Ok(Self { address, host: host.to_owned(), path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_kept_and_no_path_is_the_usual_one() {
        let url: AppUrl = "http://127.0.0.1:8080/app/x".parse().expect("valid");
        assert_eq!((url.host.as_str(), url.path.as_str()), ("127.0.0.1:8080", "/app/x"));
        for text in ["http://127.0.0.1:8080", "http://127.0.0.1:8080/"] {
            assert_eq!(text.parse::<AppUrl>().expect("valid").path, PATH);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["https://127.0.0.1:1", "127.0.0.1:1", "http://127.0.0.1", "http://h:1/?x"] {
            assert!(text.parse::<AppUrl>().is_err(), "{text}");
        }
    }
}
