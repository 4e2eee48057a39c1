//! Clients' events on their way to the other nodes.

use redis::{Pipeline, RedisError, RedisResult, Value};
use tokio::sync::{Mutex, mpsc};
use weir_realtime::shared_log::ClientBroadcast;

use crate::command_connection::CommandConnection;
use crate::keys::Keys;
use crate::metrics::RedisLogMetrics;
use crate::partition::Partition;
use crate::queue_limit::QueueRoom;
use crate::record;
use crate::rejections::accepted;

/// Events that are sent in one round trip.
const BATCH_MAX: usize = 256;

/// A queue of events, and the sending of them.
#[derive(Debug)]
pub(crate) struct Broadcasts {
    sender: mpsc::Sender<WaitingBroadcast>,
    /// A lock of tokio, held by the one session of the node.
    receiver: Mutex<mpsc::Receiver<WaitingBroadcast>>,
}

/// An event that waits, and its room.
#[derive(Debug)]
struct WaitingBroadcast {
    event: ClientBroadcast,
    _room: QueueRoom,
}

/// Events that Redis has not replied to. Dropped with its session, they count as lost.
struct UnansweredBroadcasts<'a> {
    events: usize,
    metrics: &'a RedisLogMetrics,
}

impl Drop for UnansweredBroadcasts<'_> {
    fn drop(&mut self) {
        self.metrics.broadcasts_lost(self.events);
    }
}

impl Broadcasts {
    pub(crate) fn new(waiting_max: usize) -> Self {
        let (sender, receiver) = mpsc::channel(waiting_max);
        Self { sender, receiver: Mutex::new(receiver) }
    }

    /// Adds an event. Returns false if there is no place for it.
    pub(crate) fn add(&self, event: ClientBroadcast, room: QueueRoom) -> bool {
        self.sender.try_send(WaitingBroadcast { event, _room: room }).is_ok()
    }

    /// Sends events until the connection fails.
    pub(crate) async fn send_all(
        &self,
        keys: &Keys,
        node: &str,
        metrics: &RedisLogMetrics,
        mut connection: CommandConnection,
    ) -> RedisError {
        let mut receiver = self.receiver.lock().await;
        loop {
            let mut batch = Vec::new();
            receiver.recv_many(&mut batch, BATCH_MAX).await;
            let mut pipeline = Pipeline::with_capacity(batch.len());
            for WaitingBroadcast { event, .. } in &batch {
                let channel = keys.shard_channel(Partition::of(&event.key));
                let message = record::encode_client_event(node, event);
                pipeline.cmd("SPUBLISH").arg(channel).arg(message);
            }
            let mut unanswered = UnansweredBroadcasts { events: batch.len(), metrics };
            let replies = pipeline.ignore_errors().query_async(&mut connection).await;
            match replies.and_then(count_rejected) {
                Ok(rejected) => unanswered.events = rejected,
                Err(error) => return error,
            }
        }
    }
}

/// Returns the number of events that Redis has rejected for now, which are lost.
fn count_rejected(replies: Vec<Value>) -> RedisResult<usize> {
    let mut rejected = 0;
    for reply in replies {
        rejected += usize::from(accepted::<Value>(reply)?.is_none());
    }
    Ok(rejected)
}
