//! The server under load: its address, its protocol and the app.

use std::fmt;
use std::net::{SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::process_usage::{self, Usage};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// Pusher Channels protocol 7, and its HTTP API.
    Pusher,
    /// Centrifugo's JSON protocol, and its HTTP API (the app's secret is the API key).
    Centrifugo,
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pusher => "pusher",
            Self::Centrifugo => "centrifugo",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) url: ServerUrl,
    pub(crate) app: App,
    pub(crate) protocol: Protocol,
    pub(crate) pids: Vec<u32>,
}

impl Target {
    pub(crate) fn usage(&self) -> Result<Option<Usage>> {
        if self.pids.is_empty() {
            return Ok(None);
        }
        process_usage::read(&self.pids).map(Some)
    }
}

/// `ws://host:port`, or `ws://host:port+host:port` for the nodes of one deployment, over which clients and publishers are
/// spread evenly. IPv4: clients come from 127.0.0.x.
#[derive(Debug, Clone)]
pub(crate) struct ServerUrl {
    addresses: Vec<SocketAddrV4>,
}

impl ServerUrl {
    /// Returns the node of a connection.
    pub(crate) fn address(&self, index: usize) -> SocketAddrV4 {
        self.addresses[index % self.addresses.len()]
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        write!(formatter, "ws://{}", addresses.join("+"))
    }
}

impl FromStr for ServerUrl {
    type Err = anyhow::Error;

    fn from_str(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("ws://");
        let rest = rest.context("a server is given as ws://host:port (TLS is not supported)")?;
        let addresses =
            rest.trim_end_matches('/').split('+').map(resolve).collect::<Result<_>>()?;
        Ok(Self { addresses })
    }
}

fn resolve(host: &str) -> Result<SocketAddrV4> {
    let addresses = host.to_socket_addrs().with_context(|| format!("resolving {host}"))?;
    let mut usable = addresses.filter_map(|address| match address {
        SocketAddr::V4(address) => Some(address),
        SocketAddr::V6(_) => None,
    });
    usable.next().with_context(|| format!("{host} has no IPv4 address"))
}

/// `id:key:secret`. The secret is never shown.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) secret: String,
}

impl fmt::Debug for App {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:***", self.id, self.key)
    }
}

impl FromStr for App {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.splitn(3, ':').map(str::to_owned);
        let (Some(id), Some(key), Some(secret)) = (parts.next(), parts.next(), parts.next()) else {
            anyhow::bail!("an app is given as id:key:secret");
        };
        let plain = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        ensure!(
            plain(&id) && plain(&key),
            "id and key of an app are made of a-z, A-Z, 0-9, '-', '_'"
        );
        Ok(Self { id, key, secret })
    }
}

#[cfg(test)]
impl Target {
    /// Creates a target with a placeholder app.
    pub(crate) fn of(url: &str, protocol: Protocol) -> Self {
        let app = "app:key:secret".parse().expect("an app");
        Self { url: url.parse().expect("a URL"), app, protocol, pids: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_may_contain_colons_and_is_redacted() {
        let app: App = "7:the-key:hunter2:x".parse().expect("valid");
        assert_eq!(
            (app.id.as_str(), app.key.as_str(), app.secret.as_str()),
            ("7", "the-key", "hunter2:x")
        );
        assert!(!format!("{app:?}").contains("hunter2"));
    }

    #[test]
    fn connections_are_spread_over_the_nodes() {
        let text = "ws://127.0.0.1:1+127.0.0.1:2+127.0.0.1:3";
        let url: ServerUrl = text.parse().expect("valid");
        let ports: Vec<u16> = (0..6).map(|index| url.address(index).port()).collect();
        assert_eq!((ports, url.to_string().as_str()), (vec![1, 2, 3, 1, 2, 3], text));
        assert!("ws://127.0.0.1:1+".parse::<ServerUrl>().is_err());
    }

    #[test]
    fn incomplete_apps_and_other_schemes_are_rejected() {
        for app in ["7", "7:key", "a/b:key:secret"] {
            assert!(app.parse::<App>().is_err(), "{app}");
        }
        for url in ["wss://127.0.0.1:1", "127.0.0.1:1", "ws://127.0.0.1", "ws://[::1]:1"] {
            assert!(url.parse::<ServerUrl>().is_err(), "{url}");
        }
    }
}
