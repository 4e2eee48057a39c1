//! Subscriptions to the partitions, on a connection of its own.
//!
//! The client library's own reconnection is not used: it loses subscriptions without an error. When
//! this connection ends, the node opens another one, subscribes again and compares all channels with
//! the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::try_join_all;
use redis::aio::{MultiplexedConnection, SendError};
use redis::{PushInfo, PushKind, RedisResult, Value};
use tokio::sync::mpsc;

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
    /// A subscription ended, or the connection.
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
        kind if is_end(&kind) => Push::Lost,
        _ => Push::Other,
    }
}

/// Returns whether a subscription has ended, or all of them.
const fn is_end(kind: &PushKind) -> bool {
    matches!(kind, PushKind::Disconnection | PushKind::SUnsubscribe)
}

fn bytes_of(value: &Value) -> usize {
    match value {
        Value::BulkString(text) => text.len(),
        _ => 0,
    }
}

/// Subscribes to all partitions: one command each, as partitions may be in different slots.
pub(crate) async fn subscribe(connection: &MultiplexedConnection, keys: &Keys) -> RedisResult<()> {
    let subscribe = |partition| {
        let (mut connection, channel) = (connection.clone(), keys.shard_channel(partition));
        async move { redis::cmd("SSUBSCRIBE").arg(channel).exec_async(&mut connection).await }
    };
    try_join_all(Partition::all().map(subscribe)).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
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
        pushes.next().now_or_never().expect("a push").0
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
        assert!(pushes.next().now_or_never().is_none(), "two were kept");
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
