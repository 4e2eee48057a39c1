//! Events of two nodes without faults.

use weir_realtime::pusher::position::ChannelPosition;
use weir_realtime::shared_log::SharedLog as _;

use crate::redis_server::RedisServer;
use crate::rig::{Node, client_event, loop_until};

#[tokio::test]
async fn events_of_both_nodes_reach_both_in_one_order() {
    let redis = RedisServer::start();
    let (one, two) = (Node::start(redis.port), Node::start(redis.port));
    let (mut on_one, mut on_two) = (one.watch("room").await, two.watch("room").await);
    for number in 0..200 {
        let (a, b) = (number * 2, number * 2 + 1);
        tokio::join!(one.publish("room", a), two.publish("room", b));
    }
    for offset in 1..=400 {
        let (seen_on_one, seen_on_two) = (on_one.next().await, on_two.next().await);
        assert_eq!(seen_on_one.offset, Some(offset));
        assert_eq!(seen_on_one.data, seen_on_two.data);
        assert_eq!(seen_on_two.offset, Some(offset));
    }
    assert_eq!(one.totals().messages, 400, "one message for each event");
    assert_eq!((one.totals().holes, two.totals().holes), (0, 0));
}

#[tokio::test]
async fn a_node_that_starts_later_has_the_history() {
    let redis = RedisServer::start();
    let one = Node::start(redis.port);
    for number in 0..5 {
        one.publish("room", number).await;
    }
    let two = Node::start(redis.port);
    let _view = two.watch("room").await;
    let history = two.hub.history("1", "room", 10);
    let data: Vec<&str> = history.iter().map(|event| &*event.data).collect();
    assert_eq!(data, ["4", "3", "2", "1", "0"], "the newest first");
    assert_eq!(history[0].offset, Some(5));
}

/// Anybody may subscribe to any name.
#[tokio::test]
async fn a_channel_that_was_only_read_is_forgotten_soon() {
    let redis = RedisServer::start();
    let node = Node::start(redis.port);
    let _view = node.watch("room").await;
    let age = || {
        let script = "return redis.call('PTTL', redis.call('KEYS', '*:channel:1:room')[1])";
        redis::from_redis_value::<u64>(redis.run(&["EVAL", script, "0"])).unwrap()
    };
    assert!(age() <= 1_800_000, "{}", age());
    node.publish("room", 1).await;
    assert!(age() > 23 * 3_600_000, "{}", age());
}

#[tokio::test]
async fn a_repeated_publication_is_appended_once() {
    let redis = RedisServer::start();
    let (one, two) = (Node::start(redis.port), Node::start(redis.port));
    let mut view = one.watch("room").await;
    let first = one.publish("room", 1).await;
    assert_eq!(two.publish("room", 1).await, first, "also through another node");
    let second: ChannelPosition = one.publish("room", 2).await.parse().unwrap();
    assert_eq!(second.offset, 2);
    assert_eq!((view.next_data().await, view.next_data().await), ("1".into(), "2".into()));
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_stored_again() {
    let redis = RedisServer::start();
    let node = Node::start(redis.port);
    let mut view = node.watch("room").await;
    redis.run(&["SCRIPT", "FLUSH"]);
    let published = loop_until(async || node.try_publish("room", 1).await.ok()).await;
    assert_eq!(published.offset, Some(1));
    assert_eq!(view.next_data().await, "1");
}

#[tokio::test]
async fn an_event_of_a_client_reaches_the_other_nodes_once() {
    let redis = RedisServer::start();
    let (one, two) = (Node::start(redis.port), Node::start(redis.port));
    let (mut on_one, mut on_two) = (one.watch("room").await, two.watch("room").await);
    one.log.broadcast(client_event("room", "typing"));
    let event = on_two.next().await;
    assert_eq!((&*event.event, &*event.data, event.offset), ("client-e", "typing", None));
    one.publish("room", 1).await;
    assert_eq!(on_two.next_data().await, "1");
    assert_eq!(on_one.next_data().await, "1", "its own subscribers have it from the broker");
}
