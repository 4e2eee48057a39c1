//! What is sent to one node at a time: a command, or a transaction with the keys of one slot.

use redis::{Cmd, Pipeline, RedisResult, Value};

use super::links::NodeLink;
use crate::node_away::away;

/// A command or a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) enum SlotRequest<'a> {
    Command(&'a Cmd),
    Transaction(&'a Pipeline),
}

impl SlotRequest<'_> {
    /// Sends this to a node. The reply to a transaction that was not executed is the first error of its
    /// commands. A node that is away is probed by a task of its own, so that no command waits for it.
    pub(super) async fn send_to(self, link: &dyn NodeLink, is_asking: bool) -> RedisResult<Value> {
        if let Some(text) = link.absence_text() {
            return Ok(away(&text));
        }
        let mut connection = match link.connection().await {
            Ok(connection) => connection,
            Err(text) => return Ok(away(&text)),
        };
        match self {
            Self::Command(command) if !is_asking => connection.req_packed_command(command).await,
            _ => {
                let pipeline = self.pipeline(is_asking);
                let replies = connection.req_packed_commands(&pipeline, 0, pipeline.len()).await?;
                Ok(self.reply(replies))
            }
        }
    }

    /// Returns all that is sent, so that no command of others comes in between. `ASKING` holds for the
    /// next command, and before `MULTI` until `EXEC`.
    fn pipeline(self, is_asking: bool) -> Pipeline {
        let mut pipeline = Pipeline::new();
        if is_asking {
            pipeline.cmd("ASKING");
        }
        match self {
            Self::Command(command) => pipeline.add_command(command.clone()),
            Self::Transaction(transaction) => {
                pipeline.cmd("MULTI");
                for command in transaction.cmd_iter() {
                    pipeline.add_command(command.clone());
                }
                pipeline.cmd("EXEC")
            }
        };
        pipeline
    }

    fn reply(self, mut replies: Vec<Value>) -> Value {
        let last = replies.pop().unwrap_or(Value::Nil);
        let is_error = |reply: &Value| matches!(reply, Value::ServerError(_));
        match self {
            Self::Command(_) => last,
            // `EXEC` says only that there was one.
            Self::Transaction(_) => replies.into_iter().find(is_error).unwrap_or(last),
        }
    }
}
