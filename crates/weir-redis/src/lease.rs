//! A lease that one process of many holds: a key that expires unless its holder renews it.

use std::time::Duration;

use redis::{RedisError, RedisResult};

use crate::connection::{ConnectOptions, ServerConnection};
use crate::endpoint::RedisEndpoint;
use crate::error::{ConnectError, RedisConnectionError};
use crate::error_kind::{self, RedisErrorKind};
use crate::grant;

/// Renews the lease if it has this value. Returns the value in force.
const RENEW: &str = "local held = redis.call('GET', KEYS[1]) \
    if held == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end \
    return held";
/// Ends the lease if it has this value.
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end \
    return 0";
/// What a user needs on the key.
const RULES: &str = "+set +get +pexpire +del +eval";

/// A lease in a Redis.
#[derive(Debug)]
pub struct RedisLease {
    endpoint: RedisEndpoint,
    options: ConnectOptions,
    key: &'static str,
    connection: Option<ServerConnection>,
}

impl RedisLease {
    /// Creates a lease under this key, without connecting. One request takes at most twice `timeout`.
    #[must_use]
    pub fn new(endpoint: RedisEndpoint, key: &'static str, timeout: Duration) -> Self {
        let acl_rules = format!("~{key} {RULES}");
        let options =
            ConnectOptions { connect_timeout: timeout, reply_timeout: timeout, acl_rules };
        Self { endpoint, options, key, connection: None }
    }

    /// Returns the address of the Redis.
    #[must_use]
    pub const fn endpoint(&self) -> &RedisEndpoint {
        &self.endpoint
    }

    /// Takes the lease if it is free, renews it if `value` holds it, and returns the value in force. `None`: it expired
    /// between the two. If the future is dropped, the connection is closed.
    ///
    /// # Errors
    /// Redis cannot be reached or rejects the commands; with the remedy.
    pub async fn take(
        &mut self,
        value: &str,
        lifetime: Duration,
    ) -> Result<Option<String>, ConnectError> {
        let mut connection = self.connected().await?;
        let milliseconds = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        let mut pipeline = redis::pipe();
        pipeline.cmd("SET").arg(self.key).arg(value).arg("NX").arg("PX").arg(milliseconds).ignore();
        pipeline.cmd("EVAL").arg(RENEW).arg(1).arg(self.key).arg(value).arg(milliseconds);
        let taken: RedisResult<(Option<String>,)> = pipeline.query_async(connection.inner()).await;
        match taken {
            Ok((held,)) => {
                self.connection = Some(connection);
                Ok(held)
            }
            Err(error) => Err(self.explain(&connection, &error).await.into()),
        }
    }

    /// Ends the lease if `value` holds it, and closes the connection.
    ///
    /// # Errors
    /// As [`take`](Self::take). It ends by itself then.
    pub async fn release(&mut self, value: &str) -> Result<(), ConnectError> {
        // Without a connection it is not held.
        let Some(mut connection) = self.connection.take() else { return Ok(()) };
        let mut command = redis::cmd("EVAL");
        command.arg(RELEASE).arg(1).arg(self.key).arg(value);
        match command.exec_async(connection.inner()).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.explain(&connection, &error).await.into()),
        }
    }

    async fn connected(&mut self) -> Result<ServerConnection, ConnectError> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => ServerConnection::open(&self.endpoint, &self.options).await,
        }
    }

    async fn explain(
        &self,
        connection: &ServerConnection,
        error: &RedisError,
    ) -> RedisConnectionError {
        let kind = RedisErrorKind::of(error, "the commands of the lease");
        let RedisErrorKind::NoPermission { command } = kind else {
            return connection.unusable(error, true).await;
        };
        // A selector (Redis 7): the commands are permitted for this key only.
        let rules = format!("\"(~{} {RULES})\"", self.key);
        let grant = grant::line(connection.user(), &rules);
        let message = error_kind::message(error);
        RedisConnectionError::no_permission(connection.name(), command, message, grant)
    }
}
