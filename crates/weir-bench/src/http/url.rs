//! The URL of a server.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use anyhow::{Context, Result, ensure};

/// `http://host:port[/path]`.
#[derive(Debug, Clone)]
pub(crate) struct HttpUrl {
    pub(crate) address: SocketAddr,
    /// Value of the Host header.
    pub(crate) host: String,
    /// Without a trailing slash; may be empty.
    pub(crate) path: String,
}

impl HttpUrl {
    /// Creates a URL without a path.
    pub(crate) fn from_address(address: SocketAddr) -> Self {
        Self { address, host: address.to_string(), path: String::new() }
    }

    /// Sets `path` if the URL has none.
    pub(crate) fn with_default_path(self, path: &str) -> Self {
        let path = if self.path.is_empty() { path.to_owned() } else { self.path };
        Self { path, ..self }
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "http://{}{}", self.host, self.path)
    }
}

impl FromStr for HttpUrl {
    type Err = anyhow::Error;

    fn from_str(url: &str) -> Result<Self> {
        let shape = "a server is given as http://host:port[/path] (TLS is not supported)";
        let rest = url.strip_prefix("http://").context(shape)?;
        let path_at = rest.find('/').unwrap_or(rest.len());
        let (host, path) = rest.split_at(path_at);
        let path = path.trim_end_matches('/');
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
    fn default_path_applies_only_without_a_path() {
        let url: HttpUrl = "http://127.0.0.1:8080/app/x/".parse().expect("valid");
        assert_eq!((url.host.as_str(), url.path.as_str()), ("127.0.0.1:8080", "/app/x"));
        assert_eq!(url.with_default_path("/y").path, "/app/x");
        for text in ["http://127.0.0.1:8080", "http://127.0.0.1:8080/"] {
            let url: HttpUrl = text.parse().expect("valid");
            assert_eq!(
                (url.path.as_str(), url.clone().with_default_path("/y").path.as_str()),
                ("", "/y")
            );
        }
    }

    #[test]
    fn invalid_addresses_are_rejected() {
        for text in ["https://127.0.0.1:1", "127.0.0.1:1", "http://127.0.0.1", "http://h:1/?x"] {
            assert!(text.parse::<HttpUrl>().is_err(), "{text}");
        }
    }
}
