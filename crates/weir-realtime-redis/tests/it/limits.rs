//! Limits of what waits for Redis.

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use weir_realtime::shared_log::{AppendError, SharedLog as _};
use weir_realtime_redis::RedisLogSettings;

use crate::redis_server::RedisServer;
use crate::rig::{Node, client_event, loop_until, new_event, settings};

const BYTES: usize = 60 << 10;

#[tokio::test]
async fn publications_that_wait_for_redis_are_limited_in_bytes() {
    let redis = RedisServer::start();
    let settings = RedisLogSettings { append_bytes_max: 2 * BYTES + 1_000, ..settings() };
    let node = Node::start_with(redis.endpoint(), settings);
    node.publish("room", 1).await;
    let large = || new_event("room", "x".repeat(BYTES));
    redis.signal("STOP");
    let mut waiting: Vec<_> = (0..2).map(|_| node.log.append(vec![large()])).collect();
    for append in &mut waiting {
        assert!(append.now_or_never().is_none());
    }
    let third = node.log.append(vec![large()]).now_or_never();
    assert_eq!(third, Some(Err(AppendError::Busy)));
    redis.signal("CONT");
    for outcome in join_all(waiting).await {
        assert!(matches!(outcome, Ok(_) | Err(AppendError::Unknown)), "{outcome:?}");
    }
    node.publish("room", 2).await;
}

#[tokio::test]
async fn events_of_clients_that_get_no_reply_or_have_no_room_are_counted() {
    let redis = RedisServer::start();
    let settings = RedisLogSettings { client_events_max: 2, ..settings() };
    let node = Node::start_with(redis.endpoint(), settings);
    node.publish("room", 1).await;
    redis.signal("STOP");
    for _ in 0..8 {
        node.log.broadcast(client_event("room", "typing"));
    }
    assert_eq!(node.totals().lost_client_events, 6, "there is room for two");
    loop_until(async || (node.totals().disconnects > 0).then_some(())).await;
    let lost = node.totals().lost_client_events;
    assert!((7..=8).contains(&lost), "those that were sent got no reply: {lost}");
    redis.signal("CONT");
    node.publish("room", 2).await;
}
