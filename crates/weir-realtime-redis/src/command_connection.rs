//! The connection for commands: to one server, or to all nodes of a Redis Cluster.

use std::sync::Arc;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisFuture, RedisResult, Value};
use weir_redis::RedisErrorKind;
use weir_redis::cluster::{ClusterRouter, SlotWait};

/// A connection for commands. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum CommandConnection {
    Server(MultiplexedConnection),
    Cluster(Arc<ClusterRouter>, SlotWait),
}

impl CommandConnection {
    /// Returns the connection for a task that must not wait for a slot that can't be used.
    #[must_use]
    pub(crate) fn without_waits(&self) -> Self {
        match self {
            Self::Server(server) => Self::Server(server.clone()),
            Self::Cluster(router, _) => Self::Cluster(Arc::clone(router), SlotWait::Fail),
        }
    }
}

impl ConnectionLike for CommandConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Server(server) => server.req_packed_command(command),
            Self::Cluster(router, wait) => Box::pin(router.send(command, *wait)),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Server(server) => server.req_packed_commands(pipeline, offset, count),
            Self::Cluster(router, wait) => {
                Box::pin(async { unless_away(router.send_pipeline(pipeline, *wait).await?) })
            }
        }
    }

    fn get_db(&self) -> i64 {
        0
    }
}

/// Returns the replies, or the error of a node that can't be used: the session ends with it.
fn unless_away(replies: Vec<Value>) -> RedisResult<Vec<Value>> {
    let is_away = |reply: &&Value| match reply {
        Value::ServerError(error) => {
            RedisErrorKind::of_reply(error.code(), "", "") == RedisErrorKind::NodeAway
        }
        _ => false,
    };
    if let Some(away) = replies.iter().find(is_away) {
        away.clone().extract_error()?;
    }
    Ok(replies)
}
