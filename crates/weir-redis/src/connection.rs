//! A connection to the server that an endpoint names.

use std::time::Duration;

use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::{AsyncConnectionConfig, ConnectionAddr, ProtocolVersion, RedisError, TlsCertificates};

use crate::address::RedisAddress;
use crate::client::{self, Login};
use crate::endpoint::RedisEndpoint;
use crate::error::{ConnectError, RedisConnectionError};
use crate::error_kind::{self, RedisErrorKind};
use crate::explanation::Explanation;
use crate::grant;
use crate::greeting;
use crate::network_error::NetworkErrorKind;
use crate::sentinel::{self, NamedPrimary};

/// How connections are opened.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The time to connect, also to the Sentinels.
    pub connect_timeout: Duration,
    /// The time for a reply.
    pub reply_timeout: Duration,
    /// The rules that a user needs: `~* +get`. For the message if the user may not select a database.
    pub acl_rules: String,
}

/// A connection that is logged in. Of a service that Sentinels watch, to its primary.
#[derive(Debug)]
pub struct ServerConnection {
    inner: MultiplexedConnection,
    name: String,
    address: RedisAddress,
    /// The primary, if Sentinels named it.
    primary: Option<NamedPrimary>,
    user: Option<String>,
}

impl ServerConnection {
    /// Connects within both times together.
    ///
    /// # Errors
    /// Returns an error if a certificate or the password cannot be read, the server does not
    /// respond, or the login fails.
    pub async fn open(
        endpoint: &RedisEndpoint,
        options: &ConnectOptions,
    ) -> Result<Self, ConnectError> {
        Self::open_with(endpoint, options, ProtocolVersion::RESP2, config(options)).await
    }

    /// Opens a connection whose pushes go to `sender`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_for_pushes(
        endpoint: &RedisEndpoint,
        options: &ConnectOptions,
        sender: impl AsyncPushSender,
    ) -> Result<Self, ConnectError> {
        let config = config(options).set_push_sender(sender);
        Self::open_with(endpoint, options, ProtocolVersion::RESP3, config).await
    }

    async fn open_with(
        endpoint: &RedisEndpoint,
        options: &ConnectOptions,
        protocol: ProtocolVersion,
        config: AsyncConnectionConfig,
    ) -> Result<Self, ConnectError> {
        let name = endpoint.to_string();
        let certificates = client::certificates(&endpoint.tls)?;
        let (address, primary) =
            server_of(endpoint, certificates.as_ref(), options.connect_timeout).await?;
        let login = Login::of(endpoint.username.as_deref(), endpoint.password.as_ref());
        let login = login.map_err(|problem| ConnectError::Password { name: name.clone(), problem });
        let timeout = options.connect_timeout.saturating_add(options.reply_timeout);
        let connecting = client::connect(target(&address), login?, certificates, protocol, &config);
        let inner = match tokio::time::timeout(timeout, connecting).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => return Err(unusable(&name, &address, &error, false).await.into()),
            Err(_) => return Err(ConnectError::Deadline { name, after: timeout }),
        };
        let mut connection =
            Self { inner, name, address, primary, user: endpoint.username.clone() };
        if connection.primary.is_some() {
            connection.reject_replica().await?;
        }
        if endpoint.database != 0 {
            connection.select(endpoint.database, &options.acl_rules).await?;
        }
        Ok(connection)
    }

    /// Rejects a server that Sentinels name although it is a replica. A user without permission for
    /// `INFO` gets the server that they name.
    async fn reject_replica(&mut self) -> Result<(), RedisConnectionError> {
        let info = redis::cmd("INFO").arg("replication").query_async(&mut self.inner).await;
        let info: String = match info {
            Ok(info) => info,
            Err(error) if error.is_io_error() => return Err(self.unusable(&error, false).await),
            Err(_) => return Ok(()),
        };
        if !info.lines().any(|line| line == "role:slave") {
            return Ok(());
        }
        let primary = self.primary.as_ref().map(NamedPrimary::address).unwrap_or_default();
        let message = format!("{primary} has role:slave");
        let explanation = Some(Explanation::of_failover());
        let (name, kind) = (self.name.clone(), RedisErrorKind::ReadOnly);
        Err(RedisConnectionError { name, kind, message, explanation })
    }

    /// Selects the database. The client library does so as well, but hides the code of an error.
    async fn select(&mut self, database: i64, rules: &str) -> Result<(), RedisConnectionError> {
        const COMMAND: &str = "SELECT";
        let selected = redis::cmd(COMMAND).arg(database).exec_async(&mut self.inner).await;
        let Err(error) = selected else { return Ok(()) };
        let RedisErrorKind::NoPermission { command } = RedisErrorKind::of(&error, COMMAND) else {
            return Err(self.unusable(&error, false).await);
        };
        // Without `SELECT`, missing permissions cannot be determined, so all are listed.
        let grant = grant::line(self.user.as_deref(), &format!("{rules} +select"));
        let message = error_kind::message(&error);
        Err(RedisConnectionError::no_permission(&self.name, command, message, grant))
    }

    /// Returns the name used in errors and reports.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the user name, or `None` for Redis' `default`.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the primary that Sentinels named.
    #[must_use]
    pub const fn primary(&self) -> Option<&NamedPrimary> {
        self.primary.as_ref()
    }

    /// Returns the connection of the client library.
    pub const fn inner(&mut self) -> &mut MultiplexedConnection {
        &mut self.inner
    }

    /// Returns the connection of the client library.
    #[must_use]
    pub fn into_inner(self) -> MultiplexedConnection {
        self.inner
    }

    /// Returns why no command gets a reply. A failure before the first reply may mean that the port
    /// uses another protocol.
    pub async fn unusable(&self, error: &RedisError, has_replied: bool) -> RedisConnectionError {
        unusable(&self.name, &self.address, error, has_replied).await
    }

    /// Returns the error of a Redis that replies to all commands with this error.
    #[must_use]
    pub fn unusable_by_reply(&self, code: &str, text: &str) -> Option<RedisConnectionError> {
        unusable_by_reply(&self.name, code, text)
    }
}

fn config(options: &ConnectOptions) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(options.connect_timeout))
        .set_response_timeout(Some(options.reply_timeout))
}

/// Returns the address of the server, and what Sentinels named.
async fn server_of(
    endpoint: &RedisEndpoint,
    certificates: Option<&TlsCertificates>,
    connect_timeout: Duration,
) -> Result<(RedisAddress, Option<NamedPrimary>), RedisConnectionError> {
    let RedisAddress::Sentinel(sentinel) = &endpoint.address else {
        return Ok((endpoint.address.clone(), None));
    };
    let named = sentinel::primary(sentinel, certificates, connect_timeout).await;
    let named = named.map_err(|error| RedisConnectionError {
        name: endpoint.to_string(),
        explanation: Some(Explanation::of_sentinels(&error.kind)),
        kind: error.kind,
        message: error.message,
    })?;
    let (host, port) = (named.host.clone(), named.port);
    Ok((RedisAddress::Tcp { host, port, tls: sentinel.tls }, Some(named)))
}

fn target(address: &RedisAddress) -> ConnectionAddr {
    match address {
        RedisAddress::Tcp { host, port, tls } => client::tcp(host, *port, *tls),
        RedisAddress::Unix(path) => ConnectionAddr::Unix(path.clone()),
        RedisAddress::Sentinel(_) => unreachable!("it was replaced by the server that it names"),
    }
}

/// Returns why no command gets a reply. A broken connection or a rejected password may be due to a
/// server that rejects every client; a new connection gets the error that it sends to them.
async fn unusable(
    name: &str,
    address: &RedisAddress,
    error: &RedisError,
    has_replied: bool,
) -> RedisConnectionError {
    use RedisErrorKind::{Network, Other, WrongPassword};
    let kind = RedisErrorKind::of(error, "");
    if matches!(kind, WrongPassword | Network(NetworkErrorKind::Closed) | Other) {
        let greeting = greeting::of(address).await;
        let reply = greeting.as_deref().and_then(|greeting| greeting.split_once(' '));
        if let Some(error) = reply.and_then(|(code, text)| unusable_by_reply(name, code, text)) {
            return error;
        }
    }
    let explanation = match kind {
        Network(kind) if !has_replied => Explanation::of_connecting(address, kind),
        _ => Explanation::of_state(&kind),
    };
    let message = error_kind::message(error);
    RedisConnectionError { name: name.to_owned(), kind, message, explanation }
}

/// Returns the error of a Redis that replies to all commands with this error.
fn unusable_by_reply(name: &str, code: &str, text: &str) -> Option<RedisConnectionError> {
    let kind = RedisErrorKind::of_reply(code, text, "");
    let error = RedisConnectionError::new(name, kind, format!("{code} {text}"));
    error.remedy().is_some().then_some(error)
}
