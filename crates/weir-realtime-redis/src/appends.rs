//! Publications on their way to one server. Those that arrive while it works on others are sent together: one
//! write and one reply for all, and one of each for every node that receives them.
//!
//! Each is a command of its own with its own reply, so that none depends on the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};
use tokio::sync::{mpsc, oneshot};

use crate::command_connection::CommandConnection;
use crate::queue_limit::QueueRoom;

/// Publications that are sent in one round trip.
const BATCH_MAX: usize = 256;

/// The way to a server, over one connection.
#[derive(Clone, Debug)]
pub(crate) struct Appends {
    sender: mpsc::Sender<WaitingAppend>,
    is_ended: Arc<AtomicBool>,
    /// Identifies the process of the server.
    server: Arc<str>,
}

type AppendReply = Result<Value, AppendFailure>;

/// A publication that waits, and its room.
#[derive(Debug)]
struct WaitingAppend {
    command: Cmd,
    reply: oneshot::Sender<AppendReply>,
    room: QueueRoom,
}

/// Why a publication has no position.
#[derive(Clone, Debug)]
pub(crate) enum AppendFailure {
    /// The connection failed before, or has no use any more.
    NotSent,
    /// This process ends.
    NoReply,
    Redis(RedisError),
}

impl Appends {
    /// Returns a way over a connection, and its task, which ends when the connection fails, or when nobody can add
    /// anything any more. `server` identifies the process of the server.
    pub(crate) fn begin(
        connection: CommandConnection,
        server: &str,
        waiting_max: usize,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, receiver) = mpsc::channel(waiting_max);
        let is_ended = Arc::new(AtomicBool::new(false));
        let sending = send_all(connection, receiver, Arc::clone(&is_ended));
        (Self { sender, is_ended, server: server.into() }, sending)
    }

    #[cfg(test)]
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::SeqCst)
    }

    /// Returns whether both lead to the same server.
    pub(crate) fn has_server_of(&self, other: &Self) -> bool {
        self.server == other.server
    }

    /// Sends nothing more: what waits gets [`AppendFailure::NotSent`]. For a server that another one has replaced, which
    /// would accept events that are lost with it.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::SeqCst);
    }

    /// Sends a command, also if the caller is gone before the reply.
    pub(crate) async fn send(&self, command: Cmd, room: QueueRoom) -> AppendReply {
        let (reply, replied) = oneshot::channel();
        // At most `waiting_max` have room, so there is a place.
        let added = self.sender.send(WaitingAppend { command, reply, room }).await;
        added.map_err(|_| AppendFailure::NotSent)?;
        replied.await.unwrap_or(Err(AppendFailure::NoReply))
    }
}

async fn send_all(
    mut connection: CommandConnection,
    mut receiver: mpsc::Receiver<WaitingAppend>,
    is_ended: Arc<AtomicBool>,
) {
    let mut batch = Vec::new();
    while receiver.recv_many(&mut batch, BATCH_MAX).await > 0 {
        if is_ended.load(Ordering::SeqCst) {
            break;
        }
        let (mut pipeline, mut waiting) = (Pipeline::with_capacity(batch.len()), Vec::new());
        for WaitingAppend { command, reply, room } in batch.drain(..) {
            pipeline.add_command(command);
            waiting.push((reply, room));
        }
        let results = send(&mut connection, &mut pipeline).await;
        let has_failed = results.iter().any(|it| it.as_ref().is_err_and(ends_connection));
        for ((reply, room), result) in waiting.into_iter().zip(results) {
            drop(room);
            // The caller may be gone.
            let _ = reply.send(result.map_err(AppendFailure::Redis));
        }
        if has_failed {
            break;
        }
    }
    receiver.close();
    while receiver.recv_many(&mut batch, BATCH_MAX).await > 0 {}
    for WaitingAppend { reply, .. } in batch {
        let _ = reply.send(Err(AppendFailure::NotSent));
    }
}

/// Sends all commands and returns their results.
async fn send(
    connection: &mut CommandConnection,
    pipeline: &mut Pipeline,
) -> Vec<RedisResult<Value>> {
    let count = pipeline.len();
    let replies: RedisResult<Vec<Value>> = pipeline.ignore_errors().query_async(connection).await;
    match replies {
        Ok(replies) => replies.into_iter().map(Value::extract_error).collect(),
        Err(error) => vec![Err(error); count],
    }
}

/// Returns whether nothing else can be sent after such an error.
pub(crate) fn ends_connection(error: &RedisError) -> bool {
    error.is_io_error() || error.is_timeout() || error.is_unrecoverable_error()
}
