//! Connections that end, and a Redis that is away or empty.

use std::time::Duration;

use futures_util::FutureExt as _;
use weir_realtime::pusher::server_message::GAP;

use crate::redis_server::RedisServer;
use crate::rig::{Node, loop_until};

const EVENTS: u64 = 300;

/// The measured fault of client libraries: subscriptions are gone after a cut, without an error.
#[tokio::test]
async fn cut_subscriptions_lose_nothing() {
    let redis = RedisServer::start();
    let (one, two) = (Node::start(redis.port), Node::start(redis.port));
    let (mut on_one, mut on_two) = (one.watch("room").await, two.watch("room").await);
    let mut quiet = two.watch("quiet").await;
    for number in 0..EVENTS {
        if number % 50 == 10 {
            redis.run(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        }
        if number % 50 == 15 {
            // The last event of its channel: no later one shows that it is missing.
            one.publish("quiet", number).await;
        }
        let node = if number % 2 == 0 { &one } else { &two };
        node.publish("room", number).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for number in 0..EVENTS {
        assert_eq!(on_one.next_data().await, number.to_string());
        assert_eq!(on_two.next_data().await, number.to_string());
    }
    for number in (0..EVENTS).filter(|number| number % 50 == 15) {
        assert_eq!(quiet.next_data().await, number.to_string());
    }
    assert!(one.totals().disconnects > 0 && one.totals().late > 0, "{:?}", one.totals());
}

/// A subscription that Redis ended, or an event that never arrived, on a connection that works.
#[tokio::test]
async fn an_event_that_does_not_arrive_is_found_without_a_later_one() {
    let redis = RedisServer::start();
    let node = Node::start(redis.port);
    let mut view = node.watch("room").await;
    node.publish("room", 0).await;
    assert_eq!(view.next_data().await, "0");
    // Forge an appended event whose message was lost.
    append_silently(&redis, "room", 2);
    assert_eq!(view.next_data().await, "silent");
    assert_eq!(node.totals().late, 1);
}

#[tokio::test]
async fn a_redis_that_is_away_rejects_publications_at_once() {
    let mut redis = RedisServer::start();
    let node = Node::start(redis.port);
    let mut view = node.watch("room").await;
    node.publish("room", 0).await;
    assert_eq!(view.next_data().await, "0");
    redis.kill();
    let text = loop_until(async || {
        let error = node.try_publish("room", 1).await.err()?.to_string();
        error.contains("does not respond").then_some(error)
    });
    assert!(text.await.contains("realtime.broker"));
    let outcome = node.try_publish("room", 1).now_or_never();
    assert!(outcome.expect("it does not wait").is_err());
}

#[tokio::test]
async fn an_emptied_redis_starts_a_new_epoch_that_subscribers_learn_of() {
    let mut redis = RedisServer::start();
    let (one, two) = (Node::start(redis.port), Node::start(redis.port));
    let (mut on_one, mut on_two) = (one.watch("room").await, two.watch("room").await);
    let before = one.publish("room", 0).await;
    assert_eq!((on_one.next_data().await, on_two.next_data().await), ("0".into(), "0".into()));
    redis.kill();
    redis.start_again();
    let after = two.publish("room", 7).await;
    let (epoch, offset) = after.split_once(':').unwrap();
    assert_eq!(offset, "1");
    assert!(!before.starts_with(epoch));
    for view in [&mut on_one, &mut on_two] {
        let gap = view.next().await;
        assert_eq!(gap.event, GAP);
        assert!(gap.data.contains(epoch) && gap.data.contains("\"offset\":0"), "{}", gap.data);
        assert_eq!(view.next_data().await, "7");
    }
}

#[tokio::test]
async fn events_that_the_log_no_longer_has_are_reported_as_a_gap() {
    let redis = RedisServer::start();
    let node = Node::start(redis.port);
    let mut view = node.watch("room").await;
    node.publish("room", 0).await;
    assert_eq!(view.next_data().await, "0");
    append_silently(&redis, "room", 2);
    let stream = redis.run(&["KEYS", "*:events:1:room"]);
    let redis::Value::Array(streams) = stream else { panic!("{stream:?}") };
    let name: String = redis::from_redis_value(streams[0].clone()).unwrap();
    redis.run(&["DEL", &name]);
    let gap = view.next().await;
    assert_eq!((&*gap.event, gap.data.contains("\"offset\":2")), (GAP, true), "{}", gap.data);
}

/// More than the script reads in one step.
#[tokio::test]
async fn many_missing_events_are_read_in_order() {
    let redis = RedisServer::start();
    let node = Node::start(redis.port);
    let mut view = node.watch("room").await;
    node.publish("room", 0).await;
    assert_eq!(view.next_data().await, "0");
    for offset in 2..=200 {
        append_data_silently(&redis, "room", offset, &offset.to_string(), 1);
    }
    for offset in 2..=200 {
        assert_eq!(view.next_data().await, offset.to_string());
    }
}

#[tokio::test]
async fn an_unreadable_event_is_a_gap_and_does_not_end_the_session() {
    let redis = RedisServer::start();
    let node = Node::start(redis.port);
    let mut view = node.watch("room").await;
    node.publish("room", 0).await;
    assert_eq!(view.next_data().await, "0");
    append_silently(&redis, "room", 2);
    let damage = "
        local stream = redis.call('KEYS', '*:events:1:room')[1]
        redis.call('DEL', stream)
        redis.call('XADD', stream, '2-0', 'r', '\\255 no event')";
    redis.run(&["EVAL", damage, "0"]);
    let gap = view.next().await;
    assert_eq!((&*gap.event, gap.data.contains("\"offset\":2")), (GAP, true), "{}", gap.data);
    node.publish("room", 3).await;
    assert_eq!(view.next_data().await, "3");
    let totals = node.totals();
    assert_eq!((totals.unreadable, totals.disconnects), (1, 0), "{totals:?}");
}

/// So that many large channels need a bounded amount of memory.
#[tokio::test]
async fn of_large_missing_events_the_newest_are_read_and_the_others_are_a_gap() {
    let redis = RedisServer::start();
    let node = Node::start(redis.port);
    let mut view = node.watch("room").await;
    node.publish("room", 0).await;
    assert_eq!(view.next_data().await, "0");
    append_large_silently(&redis, "room", 2..=4);
    let gap = view.next().await;
    assert_eq!((&*gap.event, gap.data.contains("\"offset\":2")), (GAP, true), "{}", gap.data);
    for offset in 3..=4 {
        assert_eq!(view.next().await.offset, Some(offset));
    }
}

#[tokio::test]
async fn a_paused_redis_loses_nothing() {
    let redis = RedisServer::start();
    let (one, two) = (Node::start(redis.port), Node::start(redis.port));
    let mut view = two.watch("room").await;
    one.publish("room", 0).await;
    redis.signal("STOP");
    assert!(one.try_publish("room", 99).await.is_err());
    loop_until(async || (two.totals().disconnects > 0).then_some(())).await;
    redis.signal("CONT");
    one.publish("room", 1).await;
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "1") {
        seen.push(view.next_data().await);
    }
    // The publication without a reply may have been executed.
    assert!(seen == ["0", "1"] || seen == ["0", "99", "1"], "{seen:?}");
}

/// Does what `append.lua` does, without publishing.
fn append_silently(redis: &RedisServer, channel: &str, offset: u64) {
    append_data_silently(redis, channel, offset, "silent", 1);
}

/// Appends events of 500 kB.
fn append_large_silently(
    redis: &RedisServer,
    channel: &str,
    offsets: std::ops::RangeInclusive<u64>,
) {
    for offset in offsets {
        append_data_silently(redis, channel, offset, "x", 500_000);
    }
}

fn append_data_silently(redis: &RedisServer, channel: &str, offset: u64, data: &str, times: usize) {
    let script = "
        local channel = redis.call('KEYS', '*:channel:1:' .. ARGV[1])[1]
        local stem = string.match(channel, '^(.*):channel:1:')
        local epoch = redis.call('HGET', channel, 'epoch')
        redis.call('HSET', channel, 'offset', ARGV[2])
        local event = cjson.encode({'1', ARGV[1], 'e', string.rep(ARGV[3], ARGV[4]), cjson.null})
        local record = epoch .. ' ' .. ARGV[2] .. ' 4000000000000\\n' .. event
        redis.call('XADD', stem .. ':events:1:' .. ARGV[1], ARGV[2] .. '-0', 'r', record)
        redis.call('INCR', stem .. ':sequence')";
    let (offset, times) = (offset.to_string(), times.to_string());
    redis.run(&["EVAL", script, "0", channel, &offset, data, &times]);
}
