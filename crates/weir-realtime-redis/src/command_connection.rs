//! The connection for commands: to one server, or to all nodes of a Redis Cluster. It stores the scripts again on a server that
//! has lost them (`SCRIPT FLUSH`).

use std::sync::Arc;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisFuture, RedisResult, Value};
use weir_redis::RedisErrorKind;
use weir_redis::cluster::{ClusterRouter, SlotWait};

use crate::scripts;

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

    async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Server(server) => server.req_packed_command(command).await,
            Self::Cluster(router, wait) => router.send(command, *wait).await,
        }
    }

    async fn send_all(
        &mut self,
        pipeline: &Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        match self {
            Self::Server(server) => server.req_packed_commands(pipeline, offset, count).await,
            Self::Cluster(router, wait) => {
                unless_away(router.send_pipeline(pipeline, *wait).await?)
            }
        }
    }
}

impl ConnectionLike for CommandConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let reply = self.send(command).await.and_then(Value::extract_error);
            if !reply.as_ref().is_err_and(scripts::is_lacking) {
                return reply;
            }
            scripts::load(self).await?;
            self.send(command).await
        })
    }

    /// As [`ConnectionLike`] says. Commands of a transaction are not sent again.
    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let mut replies = self.send_all(pipeline, offset, count).await?;
            let again: Vec<usize> =
                (0..replies.len()).filter(|it| lacks_script(&replies[*it])).collect();
            if again.is_empty() || pipeline.is_transaction() {
                return Ok(replies);
            }
            scripts::load(self).await?;
            let commands: Vec<&Cmd> = pipeline.cmd_iter().collect();
            let mut repeated = Pipeline::with_capacity(again.len());
            for index in &again {
                repeated.add_command(commands[*index].clone());
            }
            let repeated = self.send_all(&repeated, 0, again.len()).await?;
            for (index, reply) in again.into_iter().zip(repeated) {
                replies[index] = reply;
            }
            Ok(replies)
        })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

/// Returns whether the command was not executed because the server does not know its script.
fn lacks_script(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.code() == "NOSCRIPT")
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
