//! Asks Sentinels for the primary of a service.
//!
//! All of them are asked at once. A majority decides as soon as it has replied, and of its replies
//! the one with the highest epoch: a Sentinel that was cut off from the others names the primary of
//! an earlier epoch. If a majority can't be reached, those that reply decide.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisError, TlsCertificates};

use crate::address::{RedisAddress, Sentinel};
use crate::client::{self, Login};
use crate::endpoint::RedisEndpoint;
use crate::error_kind::{self, RedisErrorKind};
use crate::network_error::NetworkErrorKind;

/// The server that Sentinels name as the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPrimary {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Each failover has a higher one.
    epoch: u64,
}

impl NamedPrimary {
    /// Returns `HOST:PORT`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Returns whether this is another server, which was not named before `other`.
    #[must_use]
    pub fn replaces(&self, other: &Self) -> bool {
        (&self.host, self.port) != (&other.host, other.port) && self.epoch >= other.epoch
    }
}

/// Why no Sentinel has named a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentinelError {
    pub(crate) kind: RedisErrorKind,
    /// The error of each Sentinel, with its address.
    pub(crate) message: String,
}

/// No reply of a Sentinel needs another.
const PROTOCOL: ProtocolVersion = ProtocolVersion::RESP2;

/// Why one Sentinel has not named the primary.
#[derive(Debug)]
struct SentinelFailure {
    index: usize,
    kind: RedisErrorKind,
    message: String,
}

/// Asks the Sentinels of an endpoint for the primary. Returns `None` if it has none, or if none of
/// them names one within `timeout`.
pub async fn named_primary(endpoint: &RedisEndpoint, timeout: Duration) -> Option<NamedPrimary> {
    let RedisAddress::Sentinel(sentinel) = &endpoint.address else { return None };
    let certificates = client::certificates(&endpoint.tls).ok()?;
    primary(sentinel, certificates.as_ref(), timeout).await.ok()
}

/// Returns the primary of the service. Each Sentinel has `timeout` to reply.
pub(crate) async fn primary(
    sentinel: &Sentinel,
    certificates: Option<&TlsCertificates>,
    timeout: Duration,
) -> Result<NamedPrimary, SentinelError> {
    let login = Login::of(sentinel.username.as_deref(), sentinel.password.as_ref());
    let login = login.map_err(|error| {
        let message = format!("sentinel_password: {error}");
        SentinelError { kind: RedisErrorKind::AuthRequired, message }
    })?;
    let asking = sentinel.addresses.iter().enumerate().map(|(index, address)| {
        let (login, certificates) = (login.clone(), certificates.cloned());
        ask(index, address, sentinel, login, certificates, timeout)
    });
    let mut replies: FuturesUnordered<_> = asking.collect();
    let majority = sentinel.addresses.len() / 2 + 1;
    let (mut named, mut failures) = (Vec::new(), Vec::new());
    while let Some(reply) = replies.next().await {
        match reply {
            Ok(primary) => named.push(primary),
            Err(failure) => failures.push(failure),
        }
        if named.len() >= majority {
            break;
        }
    }
    let latest = named.into_iter().max_by_key(|primary| primary.epoch);
    latest.ok_or_else(|| joined(sentinel, failures))
}

async fn ask(
    index: usize,
    (host, port): &(String, u16),
    sentinel: &Sentinel,
    login: Login,
    certificates: Option<TlsCertificates>,
    timeout: Duration,
) -> Result<NamedPrimary, SentinelFailure> {
    let asking = async {
        let client =
            client::build(client::tcp(host, *port, sentinel.tls), login, certificates, PROTOCOL)?;
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(timeout));
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut command = redis::cmd("SENTINEL");
        command.arg("MASTER").arg(&sentinel.service);
        let reply: BTreeMap<String, String> = command.query_async(&mut connection).await?;
        Ok::<_, RedisError>(reply)
    };
    let failure = |kind, message| SentinelFailure { index, kind, message };
    match tokio::time::timeout(timeout, asking).await {
        Ok(Ok(reply)) => parse(&reply)
            .ok_or_else(|| failure(RedisErrorKind::Other, "its reply names no primary".to_owned())),
        Ok(Err(error)) => {
            let kind = RedisErrorKind::of(&error, "SENTINEL MASTER");
            Err(failure(kind, error_kind::message(&error)))
        }
        Err(_) => {
            let kind = RedisErrorKind::Network(NetworkErrorKind::TimedOut);
            Err(failure(kind, format!("no reply within {timeout:?}")))
        }
    }
}

fn parse(reply: &BTreeMap<String, String>) -> Option<NamedPrimary> {
    let host = reply.get("ip").filter(|host| !host.is_empty())?.clone();
    let port = reply.get("port")?.parse().ok()?;
    let epoch = reply.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
    Some(NamedPrimary { host, port, epoch })
}

/// Joins the failures of all Sentinels in the order of their addresses. The kind is that of one that
/// replied, if there is one: it says more than those that are down.
fn joined(sentinel: &Sentinel, mut failures: Vec<SentinelFailure>) -> SentinelError {
    failures.sort_by_key(|failure| failure.index);
    let has_replied = |it: &&SentinelFailure| !matches!(it.kind, RedisErrorKind::Network(_));
    let telling = failures.iter().find(has_replied).or(failures.first());
    let kind = telling.map_or(RedisErrorKind::Other, |failure| failure.kind.clone());
    let text = |failure: &SentinelFailure| {
        let (host, port) = &sentinel.addresses[failure.index];
        format!("Sentinel {host}:{port}: {}", failure.message)
    };
    let message = failures.iter().map(text).collect::<Vec<_>>().join("; ");
    SentinelError { kind, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_primary_is_read_with_its_epoch() {
        let reply = [("ip", "10.0.0.1"), ("port", "6380"), ("config-epoch", "7"), ("flags", "x")];
        let reply = reply.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut reply = BTreeMap::from(reply);
        let expected = NamedPrimary { host: "10.0.0.1".to_owned(), port: 6380, epoch: 7 };
        assert_eq!(parse(&reply), Some(expected));
        reply.remove("port");
        assert_eq!(parse(&reply), None);
    }
}
