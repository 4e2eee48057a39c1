//! A connection of a link: counts the commands in flight, and ends when its server is of no use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult, Value};
use weir_jobs::metrics::{JobServerLimit, JobsMetrics};

use super::link_state::LinkState;
use super::settings::RedisStoreSettings;
use crate::error_kind::{self, RedisErrorKind};

/// A connection of a link. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct LinkConnection {
    inner: MultiplexedConnection,
    /// Its number in the link.
    generation: u64,
    state: Arc<LinkState>,
    limit: Option<CommandLimit>,
}

/// The maximum number of commands that were sent, or wait to be sent, and have no reply yet.
#[derive(Clone, Debug)]
pub(super) struct CommandLimit {
    pub(super) max: usize,
    pub(super) in_flight: Arc<AtomicUsize>,
    pub(super) metrics: JobsMetrics,
}

/// A command in flight.
#[derive(Debug)]
struct InFlight<'a>(&'a AtomicUsize);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The description of errors that are from here, not from Redis.
const TOO_MANY: &str = "too many commands";

impl CommandLimit {
    fn enter(&self) -> Result<InFlight<'_>, RedisError> {
        let is_free = |count| (count < self.max).then_some(count + 1);
        let entered = self.in_flight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_free);
        if entered.is_ok() {
            return Ok(InFlight(&self.in_flight));
        }
        let limit = JobServerLimit::StoreCommandsMax;
        self.metrics.limit_hit(limit);
        let text = format!("too many commands wait for Redis: at most {} ({limit})", self.max);
        Err(RedisError::from((ErrorKind::Client, TOO_MANY, text)))
    }

    /// Returns the text of an error of the limit.
    pub(super) fn text_of(error: &RedisError) -> Option<&str> {
        let is_limit = error.kind() == ErrorKind::Client && error.to_string().starts_with(TOO_MANY);
        error.detail().filter(|_| is_limit)
    }
}

impl LinkConnection {
    pub(super) const fn new(
        inner: MultiplexedConnection,
        generation: u64,
        state: Arc<LinkState>,
        limit: Option<CommandLimit>,
    ) -> Self {
        Self { inner, generation, state, limit }
    }

    /// Ends the connection in the link if the reply shows that it is of no use any more.
    fn note<T>(&self, reply: &RedisResult<T>, find: impl Fn(&T) -> Option<String>) {
        let reason = match reply {
            Ok(value) => find(value),
            Err(error) => reason_of(error, &self.state),
        };
        if let Some(reason) = reason {
            self.state.broke(self.generation, reason);
        }
    }
}

impl ConnectionLike for LinkConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let limit = self.limit.clone();
            let _in_flight = limit.as_ref().map(CommandLimit::enter).transpose()?;
            let reply = self.inner.send_packed_command(command).await;
            self.note(&reply, reason_in);
            reply
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let limit = self.limit.clone();
            let _in_flight = limit.as_ref().map(CommandLimit::enter).transpose()?;
            let reply = self.inner.send_packed_commands(pipeline, offset, count).await;
            self.note(&reply, |values| values.iter().find_map(reason_in_transaction));
            reply
        })
    }

    fn get_db(&self) -> i64 {
        self.inner.get_db()
    }
}

/// Returns why an error ends the connection, or `None` if it concerns only its command.
pub(super) fn reason_of(error: &RedisError, state: &LinkState) -> Option<String> {
    if error.is_timeout() {
        let (timeout, setting) = (state.command_timeout(), RedisStoreSettings::COMMAND_TIMEOUT);
        return Some(format!("no reply within {timeout:?} ({setting})"));
    }
    if error.is_io_error() || error.is_unrecoverable_error() {
        return Some(format!("the connection broke ({error})"));
    }
    let (code, text) = error_kind::server_error(error)?;
    reason_of_reply(&code, &text)
}

fn reason_in(value: &Value) -> Option<String> {
    let Value::ServerError(error) = value else { return None };
    reason_of_reply(error.code(), error.details().unwrap_or_default())
}

/// Like [`reason_in`], also for the replies in that of `EXEC`.
fn reason_in_transaction(value: &Value) -> Option<String> {
    match value {
        Value::Array(values) => values.iter().find_map(reason_in),
        value => reason_in(value),
    }
}

fn reason_of_reply(code: &str, text: &str) -> Option<String> {
    use RedisErrorKind::{AuthRequired, ClusterRedirect, MasterDown, NoPermission, ReadOnly};
    match RedisErrorKind::of_reply(code, text, "") {
        ReadOnly | MasterDown => Some(format!("it became a replica ({code} {text})")),
        NoPermission { .. } | AuthRequired => {
            Some(format!("its user lost a permission ({code} {text})"))
        }
        ClusterRedirect => Some(format!("it became a node of a cluster ({code} {text})")),
        _ => None,
    }
}
