//! A connection of a link: counts the commands in flight, and ends when its server is of no use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult, Value};
use weir_jobs::metrics::{JobServerLimit, JobsMetrics};
use weir_redis::cluster::{ClusterRouter, NamedReply, SlotWait};
use weir_redis::error_kind::{self, RedisErrorKind};

use super::link_state::LinkState;
use super::settings::RedisStoreSettings;

/// A connection of a link. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct LinkConnection {
    target: LinkTarget,
    state: Arc<LinkState>,
    limit: Option<CommandLimit>,
}

/// Where commands go.
#[derive(Clone, Debug)]
enum LinkTarget {
    Server {
        inner: MultiplexedConnection,
        /// The connection's number in the link.
        generation: u64,
    },
    /// The nodes of a cluster, which each have some of the keys.
    Many(Arc<ClusterRouter>),
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
        Self { target: LinkTarget::Server { inner, generation }, state, limit }
    }

    /// A connection to several servers.
    pub(super) const fn of_many(
        servers: Arc<ClusterRouter>,
        state: Arc<LinkState>,
        limit: Option<CommandLimit>,
    ) -> Self {
        Self { target: LinkTarget::Many(servers), state, limit }
    }

    /// Sends a command without keys to each server. Returns the replies that are no errors, by address.
    pub(super) async fn send_to_all(&self, command: &Cmd) -> Vec<(String, Value)> {
        let replies = match &self.target {
            LinkTarget::Server { .. } => {
                vec![(self.state.name().to_owned(), self.send_to_server(command).await)]
            }
            LinkTarget::Many(servers) => servers.send_to_all(command).await,
        };
        let named = |(name, reply): NamedReply| {
            reply.ok().filter(|value| !matches!(value, Value::ServerError(_))).map(|it| (name, it))
        };
        replies.into_iter().filter_map(named).collect()
    }

    /// Sends a command to the one server of this connection.
    pub(super) async fn send_to_server(&self, command: &Cmd) -> RedisResult<Value> {
        let (mut inner, generation) = self.server()?;
        let reply = inner.send_packed_command(command).await;
        self.note(generation, &reply, |value| reason_in(value, &self.state));
        reply
    }

    /// Sends a pipeline to the one server of this connection.
    pub(super) async fn send_pipeline_to_server(
        &self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        let (mut inner, generation) = self.server()?;
        let reply = inner.send_packed_commands(pipeline, offset, count).await;
        self.note(generation, &reply, |values| {
            values.iter().find_map(|value| reason_in_transaction(value, &self.state))
        });
        reply
    }

    fn server(&self) -> RedisResult<(MultiplexedConnection, u64)> {
        match &self.target {
            LinkTarget::Server { inner, generation } => Ok((inner.clone(), *generation)),
            LinkTarget::Many(_) => Err(RedisError::from((
                ErrorKind::Client,
                "a node of a cluster is itself a cluster",
            ))),
        }
    }

    /// Ends the connection in the link if the reply shows that it is of no use any more.
    fn note<T>(
        &self,
        generation: u64,
        reply: &RedisResult<T>,
        find: impl Fn(&T) -> Option<String>,
    ) {
        let reason = match reply {
            Ok(value) => find(value),
            Err(error) => reason_of(error, &self.state),
        };
        if let Some(reason) = reason {
            self.state.broke(generation, reason);
        }
    }
}

impl ConnectionLike for LinkConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let limit = self.limit.clone();
            let _in_flight = limit.as_ref().map(CommandLimit::enter).transpose()?;
            match &self.target {
                LinkTarget::Server { .. } => self.send_to_server(command).await,
                LinkTarget::Many(servers) => servers.send(command, SlotWait::Retry).await,
            }
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
            match &self.target {
                LinkTarget::Server { .. } => {
                    self.send_pipeline_to_server(pipeline, offset, count).await
                }
                LinkTarget::Many(servers) => servers.send_pipeline(pipeline, SlotWait::Retry).await,
            }
        })
    }

    fn get_db(&self) -> i64 {
        match &self.target {
            LinkTarget::Server { inner, .. } => inner.get_db(),
            LinkTarget::Many(_) => 0,
        }
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
    reason_of_reply(&code, &text, state)
}

fn reason_in(value: &Value, state: &LinkState) -> Option<String> {
    let Value::ServerError(error) = value else { return None };
    reason_of_reply(error.code(), error.details().unwrap_or_default(), state)
}

/// Like [`reason_in`], also for the replies in that of `EXEC`.
fn reason_in_transaction(value: &Value, state: &LinkState) -> Option<String> {
    match value {
        Value::Array(values) => values.iter().find_map(|value| reason_in(value, state)),
        value => reason_in(value, state),
    }
}

fn reason_of_reply(code: &str, text: &str, state: &LinkState) -> Option<String> {
    use RedisErrorKind::{
        AuthRequired, ClusterRedirect, CrossSlot, MasterDown, NoPermission, ReadOnly,
    };
    match RedisErrorKind::of_reply(code, text, "") {
        ReadOnly | MasterDown => Some(format!("it became a replica ({code} {text})")),
        NoPermission { .. } | AuthRequired => {
            Some(format!("its user lost a permission ({code} {text})"))
        }
        ClusterRedirect if !state.is_split() => {
            Some(format!("it became a node of a cluster ({code} {text})"))
        }
        CrossSlot if !state.is_split() => {
            Some(format!("it rejects steps over several slots ({code} {text})"))
        }
        _ => None,
    }
}
