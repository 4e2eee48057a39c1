//! Subscriptions to the partitions, on connections of their own: one to each server.
//!
//! The client library's own reconnection is not used: it loses subscriptions without an error. When
//! this connection ends, the node opens another one, subscribes again and compares all channels with
//! the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use futures_util::future::{join_all, try_join_all};
use redis::aio::{MultiplexedConnection, SendError};
use redis::{ErrorKind, PushInfo, PushKind, RedisError, RedisResult, Value};
use tokio::sync::mpsc;
use weir_redis::cluster::ClusterRouter;
use weir_redis::cluster_slots::{NodeAddress, Redirect};

use crate::keys::Keys;
use crate::metrics::{LogQueue, RedisLogMetrics};
use crate::partition::Partition;
use crate::queue_limit::{QueueFull, QueueLimit, QueueRoom};
use crate::record::{self, ShardPayload};
use crate::settings::RedisLogSettings;

/// What arrived on the connection.
#[derive(Debug)]
pub(crate) enum Push {
    Payload(ShardPayload),
    /// A message that can't be read: of a later version, or not of Weir.
    Unreadable,
    /// The subscription to a partition ended: a Redis Cluster has moved its slot.
    Ended(Partition),
    /// A connection ended, or a subscription that is not known.
    Lost,
    /// Something else, such as the confirmation of a subscription.
    Other,
}

/// A push that waits, and its room.
type WaitingPush = (PushInfo, QueueRoom);

/// The sending half: the connection's reader puts pushes in.
#[derive(Clone, Debug)]
pub(crate) struct PushQueue {
    sender: mpsc::Sender<WaitingPush>,
    limit: QueueLimit,
    metrics: RedisLogMetrics,
    dropped: Arc<DroppedPushes>,
}

/// What was dropped, because there was no room.
#[derive(Debug, Default)]
struct DroppedPushes {
    /// Events: all channels must be compared with the log.
    events: AtomicBool,
    /// The end of a subscription.
    ends: AtomicBool,
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Pushes {
    receiver: mpsc::Receiver<WaitingPush>,
    dropped: Arc<DroppedPushes>,
}

/// Returns both halves of a queue.
pub(crate) fn queue(settings: &RedisLogSettings, metrics: &RedisLogMetrics) -> (PushQueue, Pushes) {
    let (waiting_max, bytes_max) = (settings.deliveries_max, settings.delivery_bytes_max);
    let (sender, receiver) = mpsc::channel(waiting_max);
    let limit = QueueLimit::new(metrics.gauges(LogQueue::Deliveries), waiting_max, bytes_max);
    let (metrics, dropped) = (metrics.clone(), Arc::<DroppedPushes>::default());
    let queue = PushQueue { sender, limit, metrics, dropped: Arc::clone(&dropped) };
    (queue, Pushes { receiver, dropped })
}

impl PushQueue {
    /// Adds a push. Never waits: the reader also receives the replies to commands.
    pub(crate) fn offer(&self, push: PushInfo) -> Result<(), SendError> {
        let is_end = is_end(&push.kind);
        let room = self.limit.reserve(push.data.iter().map(bytes_of).sum());
        let sent =
            room.and_then(|room| self.sender.try_send((push, room)).map_err(|_| QueueFull::Items));
        let Err(full) = sent else { return Ok(()) };
        self.metrics.limit_hit(LogQueue::Deliveries, full);
        let dropped = if is_end { &self.dropped.ends } else { &self.dropped.events };
        dropped.store(true, Ordering::SeqCst);
        Ok(())
    }
}

impl Pushes {
    /// Waits for the next push. Its room is free once the room is dropped.
    pub(crate) async fn next(&mut self) -> (Push, Option<QueueRoom>) {
        match self.receiver.recv().await {
            Some(_) if self.dropped.ends.load(Ordering::SeqCst) => (Push::Lost, None),
            Some((push, room)) => (read(push), Some(room)),
            None => (Push::Lost, None),
        }
    }

    /// Returns the next push if it is there.
    pub(crate) fn next_now(&mut self) -> Option<(Push, Option<QueueRoom>)> {
        self.next().now_or_never()
    }

    /// Returns whether events were dropped since the last call.
    pub(crate) fn take_overflow(&self) -> bool {
        self.dropped.events.swap(false, Ordering::SeqCst)
    }
}

fn read(push: PushInfo) -> Push {
    match push.kind {
        PushKind::SMessage => match push.data.get(1) {
            Some(Value::BulkString(payload)) => {
                record::parse_message(payload).map_or(Push::Unreadable, Push::Payload)
            }
            _ => Push::Unreadable,
        },
        PushKind::SUnsubscribe => partition_of(&push).map_or(Push::Lost, Push::Ended),
        kind if is_end(&kind) => Push::Lost,
        _ => Push::Other,
    }
}

/// Returns whether a subscription has ended, or all of them.
const fn is_end(kind: &PushKind) -> bool {
    matches!(kind, PushKind::Disconnection | PushKind::SUnsubscribe)
}

/// Returns the partition of a subscription that ended: the tag is the last part of its channel.
fn partition_of(push: &PushInfo) -> Option<Partition> {
    let Some(Value::BulkString(channel)) = push.data.first() else { return None };
    let (_, tag) = str::from_utf8(channel).ok()?.rsplit_once('{')?;
    Partition::of_tag(tag.strip_suffix('}')?)
}

fn bytes_of(value: &Value) -> usize {
    match value {
        Value::BulkString(text) => text.len(),
        _ => 0,
    }
}

/// The connections for subscriptions.
#[derive(Clone, Debug)]
pub(crate) enum Subscriptions {
    Server(MultiplexedConnection),
    /// To each node, and which of them has a slot.
    Cluster(BTreeMap<NodeAddress, MultiplexedConnection>, Arc<ClusterRouter>),
}

impl Subscriptions {
    /// Subscribes to partitions: one command each, as they may be in different slots. Returns those whose
    /// slots can't be used now.
    pub(crate) async fn subscribe(
        &self,
        keys: &Keys,
        partitions: impl Iterator<Item = Partition>,
    ) -> RedisResult<Vec<Partition>> {
        let subscribing = partitions.map(|partition| async move {
            self.subscribe_one(keys, partition).await.map(|is_done| (partition, is_done))
        });
        let mut left = Vec::new();
        for result in join_all(subscribing).await {
            let (partition, is_done) = result?;
            if !is_done {
                left.push(partition);
            }
        }
        Ok(left)
    }

    /// Subscribes to a partition where its slot is. Returns false if no node has it now.
    async fn subscribe_one(&self, keys: &Keys, partition: Partition) -> RedisResult<bool> {
        let channel = keys.shard_channel(partition);
        let (nodes, cluster) = match self {
            Self::Server(server) => return subscribe_at(server, &channel).await.map(|()| true),
            Self::Cluster(nodes, cluster) => (nodes, cluster),
        };
        for _ in 0..OWNERS_MAX {
            let Some(owner) = cluster.owner_of(partition.slot()) else { return Ok(false) };
            let no_owner = || RedisError::from((ErrorKind::Client, NO_OWNER));
            let connection = nodes.get(&owner).ok_or_else(no_owner)?;
            let result = subscribe_at(connection, &channel).await;
            match Redirect::of(&result.clone().map(|()| Value::Nil), &owner.0) {
                None => return result.map(|()| true),
                Some(Redirect::Moved(owner)) => cluster.note_owner(partition.slot(), &owner),
                Some(Redirect::Ask(_) | Redirect::Wait) => return Ok(false),
            }
        }
        // The former owner knows of the move before the new one does.
        Ok(false)
    }

    /// Checks that each server responds.
    pub(crate) async fn ping(&self) -> RedisResult<()> {
        let ping = |connection: &MultiplexedConnection| {
            let mut connection = connection.clone();
            async move { redis::cmd("PING").exec_async(&mut connection).await }
        };
        match self {
            Self::Server(server) => ping(server).await,
            Self::Cluster(nodes, _) => try_join_all(nodes.values().map(ping)).await.map(|_| ()),
        }
    }
}

/// Nodes that may name each other as the owner of a slot, until another attempt is made later.
const OWNERS_MAX: usize = 3;
const NO_OWNER: &str = "the slot of a partition is on a node that is not connected yet";

async fn subscribe_at(connection: &MultiplexedConnection, channel: &str) -> RedisResult<()> {
    redis::cmd("SSUBSCRIBE").arg(channel).exec_async(&mut connection.clone()).await
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    const BYTES: usize = 40 << 10;

    fn push(kind: PushKind) -> PushInfo {
        let text = |bytes| Value::BulkString(vec![b'x'; bytes]);
        PushInfo { kind, data: vec![text(1), text(BYTES)] }
    }

    fn small_queue() -> (PushQueue, Pushes, RedisLogMetrics) {
        let settings = RedisLogSettings {
            deliveries_max: 8,
            delivery_bytes_max: 2 * BYTES + 2,
            ..RedisLogSettings::default()
        };
        let metrics = RedisLogMetrics::register(&mut Registry::default());
        let (queue, pushes) = queue(&settings, &metrics);
        (queue, pushes, metrics)
    }

    fn next(pushes: &mut Pushes) -> Push {
        pushes.next_now().expect("a push").0
    }

    #[test]
    fn events_beyond_the_bytes_are_dropped_and_reported_once() {
        let (queue, mut pushes, metrics) = small_queue();
        for _ in 0..3 {
            queue.offer(push(PushKind::SMessage)).unwrap();
        }
        assert_eq!(metrics.gauges(LogQueue::Deliveries).bytes.get(), 2 * (1 + BYTES as i64));
        assert!(pushes.take_overflow() && !pushes.take_overflow());
        for _ in 0..2 {
            assert!(matches!(next(&mut pushes), Push::Unreadable));
        }
        assert!(pushes.next_now().is_none(), "two were kept");
        assert_eq!(metrics.gauges(LogQueue::Deliveries).waiting.get(), 0);
        queue.offer(push(PushKind::SMessage)).unwrap();
        assert!(matches!(next(&mut pushes), Push::Unreadable));
    }

    #[test]
    fn the_end_of_a_subscription_is_known_also_if_there_is_no_room_for_it() {
        let (queue, mut pushes, _) = small_queue();
        for kind in [PushKind::SMessage, PushKind::SMessage, PushKind::SUnsubscribe] {
            queue.offer(push(kind)).unwrap();
        }
        assert!(matches!(next(&mut pushes), Push::Lost));
    }
}
