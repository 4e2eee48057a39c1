//! The connection to a Redis that comes and goes.
//!
//! All commands share one connection, which sends them in the order in which they were given. After
//! an error of the connection the next command opens another one. While that fails, commands fail
//! at once, and only one command after each wait tries again.
//!
//! A server is used only after it was checked: its version, its role, and the permissions of its
//! user. A connection ends when its server becomes a replica or denies a command, so that the next
//! one finds the primary, or names what is missing.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use redis::RedisError;
use redis::aio::MultiplexedConnection;
use tokio::sync::Mutex;
use weir_jobs::metrics::JobsMetrics;
use weir_jobs::store::StoreError;

use super::link_connection::{CommandLimit, LinkConnection, reason_of};
use super::link_state::LinkState;
use super::permissions::Permissions;
use super::server_state;
use super::settings::RedisStoreSettings;
use crate::address::RedisAddress;
use crate::client;
use crate::connection::RedisConnection;
use crate::endpoint::RedisEndpoint;
use crate::error::{RedisConnectionError, SidekiqError};
use crate::error_kind::{self, RedisErrorKind};
use crate::limits::SampleLimits;
use crate::sentinel;

/// Connecting takes up to `connect_timeout` for each of: the Sentinels, if there are any; the
/// connection with its login; the checks.
const CONNECT_STEPS: u32 = 2;

/// The connection, or since when there is none.
#[derive(Debug)]
pub(super) struct RedisLink {
    endpoint: RedisEndpoint,
    limits: SampleLimits,
    state: Arc<LinkState>,
    /// What a server must allow. `None`: servers are not checked.
    permissions: Option<Permissions>,
    command_limit: Option<CommandLimit>,
    /// Held while a connection is opened, so that many commands open one. Across awaits, so tokio's.
    opening: Mutex<()>,
}

impl RedisLink {
    pub(super) fn new(
        endpoint: RedisEndpoint,
        connect_timeout: Duration,
        command_timeout: Duration,
        retry_wait_max: Duration,
    ) -> Self {
        let limits = SampleLimits {
            connect_timeout,
            answer_timeout: command_timeout,
            ..SampleLimits::default()
        };
        let state = LinkState::new(endpoint.to_string(), command_timeout, retry_wait_max);
        Self {
            endpoint,
            limits,
            state: Arc::new(state),
            permissions: None,
            command_limit: None,
            opening: Mutex::default(),
        }
    }

    /// Returns a link of a job store, which checks its server before it uses it.
    pub(super) fn of_store(endpoint: &RedisEndpoint, settings: &RedisStoreSettings) -> Self {
        let RedisStoreSettings { connect_timeout, command_timeout, retry_wait_max, .. } = *settings;
        let link = Self::new(endpoint.clone(), connect_timeout, command_timeout, retry_wait_max);
        let permissions = Permissions::of_store(endpoint, settings);
        Self { permissions: Some(permissions), ..link }
    }

    /// Limits the commands that are in flight.
    #[must_use]
    pub(super) fn with_command_limit(self, max: usize, metrics: JobsMetrics) -> Self {
        let in_flight = Arc::<AtomicUsize>::default();
        Self { command_limit: Some(CommandLimit { max, in_flight, metrics }), ..self }
    }

    /// Returns the connection, opening one if there is none and it is time for another attempt.
    pub(super) async fn connection(&self) -> Result<LinkConnection, StoreError> {
        if let Some(connection) = self.present() {
            return Ok(connection);
        }
        let _guard = match self.opening.try_lock() {
            Ok(guard) => guard,
            // Another command connects. While Redis is known to be away, this one fails at once.
            Err(_) => match self.state.absence_text() {
                Some(text) => return Err(StoreError::Unavailable(text)),
                None => self.opening.lock().await,
            },
        };
        if let Some(connection) = self.present() {
            return Ok(connection);
        }
        if let Some(text) = self.state.absence_text_before_retry() {
            return Err(StoreError::Unavailable(text));
        }
        match self.open().await {
            Ok(mut opened) => {
                let primary = opened.primary().cloned();
                let inner = opened.inner().clone();
                let generation = self.state.opened(inner.clone(), primary);
                Ok(self.usable(inner, generation))
            }
            Err(reason) => Err(StoreError::Unavailable(self.state.not_opened(reason))),
        }
    }

    fn present(&self) -> Option<LinkConnection> {
        self.state.present().map(|(inner, generation)| self.usable(inner, generation))
    }

    fn usable(&self, inner: MultiplexedConnection, generation: u64) -> LinkConnection {
        let (state, limit) = (Arc::clone(&self.state), self.command_limit.clone());
        LinkConnection::new(inner, generation, state, limit)
    }

    async fn open(&self) -> Result<RedisConnection, String> {
        let opening = async {
            let opened = RedisConnection::open(&self.endpoint, &self.limits).await;
            let mut opened = opened.map_err(|error| self.describe(&error))?;
            self.check(opened.inner()).await?;
            Ok(opened)
        };
        let steps = CONNECT_STEPS + u32::from(self.uses_sentinels());
        let timeout = self.limits.connect_timeout.saturating_mul(steps);
        tokio::time::timeout(timeout, opening).await.unwrap_or_else(|_| {
            let setting = RedisStoreSettings::CONNECT_TIMEOUT;
            Err(format!("it does not respond within {timeout:?} ({steps} times {setting})"))
        })
    }

    /// Checks that the server can store jobs, and that its user may do so.
    async fn check(&self, connection: &mut MultiplexedConnection) -> Result<(), String> {
        let Some(permissions) = &self.permissions else { return Ok(()) };
        let info: Result<String, _> = redis::cmd("INFO").query_async(connection).await;
        match info {
            Ok(info) => server_state::check(&info).map_err(|error| format!("it {error}"))?,
            Err(error) if is_no_permission(&error) => {}
            Err(error) => return Err(self.describe_unanswered(&error)),
        }
        let missing = permissions.missing(connection).await;
        let missing = missing.map_err(|error| self.describe_unanswered(&error))?;
        match missing.is_empty() {
            true => Ok(()),
            false => Err(permissions.error(&missing)),
        }
    }

    /// Returns the error for clients.
    pub(super) fn failed(&self, error: &RedisError) -> StoreError {
        if let Some(text) = CommandLimit::text_of(error) {
            return StoreError::Limit(text.to_owned());
        }
        if RedisErrorKind::of(error, "") == RedisErrorKind::OutOfMemory {
            return StoreError::Full(format!(
                "Redis {} is full (maxmemory): job not stored; free memory there, pushes resume \
                 by themselves",
                self.endpoint
            ));
        }
        let ended = reason_of(error, &self.state);
        let absence = ended.and_then(|_| self.state.absence_text());
        let text = absence.unwrap_or_else(|| self.error_of(error).to_string());
        StoreError::Unavailable(text)
    }

    /// Ends the connection to a server that is of no use. Returns the error for clients.
    pub(super) fn rejected(&self, reason: String) -> StoreError {
        if let Some((_, generation)) = self.state.present() {
            self.state.broke(generation, reason.clone());
        }
        StoreError::Unavailable(self.state.absence_text().unwrap_or(reason))
    }

    /// Returns why there is no connection, or `None` if there is one or none was needed yet.
    pub(super) fn absence_text(&self) -> Option<String> {
        self.state.absence_text()
    }

    /// Returns whether Sentinels name the server.
    pub(super) const fn uses_sentinels(&self) -> bool {
        matches!(self.endpoint.address, RedisAddress::Sentinel(_))
    }

    /// Asks the Sentinels whether the connected server is still the primary, and ends the connection
    /// if they name another one: a primary that was cut off or stopped accepts writes until it
    /// learns of its successor, and loses them then.
    pub(super) async fn check_primary(&self) {
        let RedisAddress::Sentinel(sentinel) = &self.endpoint.address else { return };
        let Some((used, generation)) = self.state.primary() else { return };
        let Ok(certificates) = client::certificates(&self.endpoint.tls) else { return };
        let timeout = self.limits.connect_timeout;
        let named = sentinel::primary(sentinel, certificates.as_ref(), timeout).await;
        if let Ok(named) = named
            && named.replaces(&used)
        {
            let (named, used) = (named.address(), used.address());
            let reason = format!("its Sentinels name {named} as the primary instead of {used}");
            self.state.broke(generation, reason);
        }
    }

    /// Ends the connection if `other` uses a primary that Sentinels have named later.
    pub(super) fn follow(&self, other: &Self) {
        let (used, latest) = (self.state.primary(), other.state.primary());
        if let (Some((used, generation)), Some((latest, _))) = (used, latest)
            && latest.replaces(&used)
        {
            let (latest, used) = (latest.address(), used.address());
            let reason = format!("its Sentinels name {latest} as the primary instead of {used}");
            self.state.broke(generation, reason);
        }
    }

    /// Returns the reason that follows the name of the Redis and a colon.
    fn describe(&self, error: &SidekiqError) -> String {
        if let (SidekiqError::Redis(error), Some(permissions)) = (error, &self.permissions)
            && let RedisErrorKind::NoPermission { command } = &error.kind
        {
            return permissions.error(&[format!("+{}", command.to_ascii_lowercase())]);
        }
        let text = error.to_string();
        let rest = text.strip_prefix("Redis ").and_then(|it| it.strip_prefix(self.state.name()));
        match rest.and_then(|rest| rest.split_at_checked(1)) {
            Some((":", rest)) => rest.trim_start().to_owned(),
            Some((" ", rest)) => format!("it {rest}"),
            _ => text,
        }
    }

    /// Returns the reason of an error of a command that checks the server.
    fn describe_unanswered(&self, error: &RedisError) -> String {
        let timeout = error.is_timeout().then(|| reason_of(error, &self.state)).flatten();
        timeout.unwrap_or_else(|| self.describe(&self.error_of(error).into()))
    }

    fn error_of(&self, error: &RedisError) -> RedisConnectionError {
        let kind = RedisErrorKind::of(error, "");
        RedisConnectionError::new(self.state.name(), kind, error_kind::message(error))
    }
}

fn is_no_permission(error: &RedisError) -> bool {
    matches!(RedisErrorKind::of(error, "INFO"), RedisErrorKind::NoPermission { .. })
}
