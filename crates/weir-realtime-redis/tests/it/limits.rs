//! Limits of what waits for Redis.

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use weir_realtime::shared_log::{AppendError, SharedLog as _};
use weir_realtime_redis::RedisLogSettings;

use crate::redis_server::RedisServer;
use crate::rig::{Node, new_event, settings};

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
