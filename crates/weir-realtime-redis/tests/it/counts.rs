//! Subscriptions of several nodes.

use std::time::Duration;

use serde_json::json;
use weir_realtime::shared_log::{AppendError, SharedCounts, SharedLog as _};
use weir_realtime_redis::RedisLogSettings;

use crate::client::Client;
use crate::redis_server::RedisServer;
use crate::rig::{HOOKED, Node, key, loop_until, settings};

const COUNT: &str = "pusher_internal:subscription_count";

async fn connected(redis: &RedisServer) -> Node {
    let node = Node::start(redis.port);
    node.publish("first", 0).await;
    node
}

/// Waits until a node finds this number of subscriptions.
async fn wait_for(node: &Node, channel: &str, subscriptions: usize) {
    loop_until(async || {
        let counts = node.log.counts(vec![key(channel)]).await.ok()?;
        (counts[0].subscriptions == subscriptions).then_some(())
    })
    .await;
}

async fn list(node: &Node, prefix: &str, counts_users: bool) -> Vec<(String, usize, usize)> {
    let listed = node.log.channels("1".into(), prefix.into(), counts_users).await.unwrap();
    let counts = |(name, SharedCounts { subscriptions, users })| (name, subscriptions, users);
    listed.into_iter().map(counts).collect()
}

fn names(redis: &RedisServer, pattern: &str) -> Vec<String> {
    redis::from_redis_value(redis.run(&["KEYS", pattern])).unwrap()
}

#[tokio::test]
async fn subscriptions_of_all_nodes_are_counted_and_announced_to_all_subscribers() {
    let redis = RedisServer::start();
    let (one, two) = (connected(&redis).await, connected(&redis).await);
    let clients = [&one, &one, &two].map(Client::connect);
    for client in &clients {
        client.subscribe("room").await;
    }
    for client in &clients {
        while client.event(COUNT).await != json!({"subscription_count": 3}) {}
    }
    wait_for(&two, "room", 3).await;
    clients[0].leave("room");
    for client in &clients[1..] {
        assert_eq!(client.event(COUNT).await, json!({"subscription_count": 2}));
    }
    let member = Client::connect(&two);
    member.join("presence-room", "ada", &json!({})).await;
    member.subscribe("rooms").await;
    wait_for(&one, "presence-room", 1).await;
    wait_for(&one, "rooms", 1).await;
    let room = |name: &str, subscriptions, users| (name.to_owned(), subscriptions, users);
    let all = [room("presence-room", 1, 1), room("room", 2, 0), room("rooms", 1, 0)];
    loop_until(async || (list(&one, "", true).await == all).then_some(())).await;
    assert_eq!(list(&one, "room", false).await, all[1..]);
    assert_eq!(list(&two, "room*", false).await, [], "a star is no pattern");
    for client in &clients[1..] {
        client.leave("room");
    }
    wait_for(&one, "room", 0).await;
    assert_eq!(list(&one, "roo", false).await, all[2..]);
}

/// Also if more clients come and go than are sent in one round trip.
#[tokio::test]
async fn nothing_of_a_node_that_stopped_is_left() {
    let redis = RedisServer::start();
    let (one, two) = (connected(&redis).await, connected(&redis).await);
    let client = Client::connect(&one);
    client.subscribe("room").await;
    for number in 0..50 {
        client.subscribe(&format!("room-{number}")).await;
    }
    wait_for(&two, "room-49", 1).await;
    one.stop().await;
    loop_until(async || list(&two, "", false).await.is_empty().then_some(())).await;
    assert!(names(&redis, "*counts-of*").is_empty() && names(&redis, "*occupied*").is_empty());
    assert_eq!(one.log.counts(vec![key("room")]).await, Err(AppendError::Away));
}

#[tokio::test]
async fn subscriptions_of_a_node_that_ended_are_removed_and_announced() {
    let redis = RedisServer::start();
    let lease = Duration::from_secs(3);
    let settings = RedisLogSettings { presence_lease: lease, ..settings() };
    let node = Node::start_with(redis.endpoint(), settings);
    node.publish("room", 0).await;
    let client = Client::connect(&node);
    client.subscribe("room").await;
    wait_for(&node, "room", 1).await;
    let script = "
        local stem = string.match(redis.call('KEYS', '*:occupied:1')[1], '^(.*):occupied:1')
        redis.call('HSET', stem .. ':counts-of:foreign', '1:room', '5a')
        redis.call('HINCRBY', stem .. ':occupied:1', 'room', 5)
        local leases = redis.call('KEYS', '*:leases')[1]
        redis.call('HSET', leases, 'foreign', 1)
        redis.call('HSET', (string.gsub(leases, 'leases$', 'layouts')), 'foreign', 2)";
    redis.run(&["EVAL", script, "0"]);
    wait_for(&node, "room", 6).await;
    wait_for(&node, "room", 1).await;
    while client.event(COUNT).await != json!({"subscription_count": 1}) {}
    assert!(names(&redis, "*foreign*").is_empty());
}

/// A node stores its subscriptions again under another identity, which replaces the earlier one.
#[tokio::test]
async fn subscriptions_are_counted_once_while_nodes_connect_again() {
    let redis = RedisServer::start();
    let (one, two) = (connected(&redis).await, connected(&redis).await);
    let clients = [&one, &two].map(Client::connect);
    for client in &clients {
        client.subscribe("room").await;
    }
    wait_for(&one, "room", 2).await;
    redis.signal("STOP");
    loop_until(async || {
        (one.totals().disconnects > 0 && two.totals().disconnects > 0).then_some(())
    })
    .await;
    redis.signal("CONT");
    let number = || {
        let script = "return redis.call('HGET', redis.call('KEYS', '*:occupied:1')[1], 'room')";
        redis::from_redis_value::<Option<usize>>(redis.run(&["EVAL", script, "0"])).unwrap()
    };
    loop_until(async || {
        assert_eq!(number(), Some(2), "never more and never less");
        let are_removed = names(&redis, "*counts-of*").len() == 2;
        let is_settled = [&one, &two].iter().all(|node| node.totals().heartbeats > 3);
        (are_removed && is_settled).then_some(())
    })
    .await;
}

/// The webhooks that Redis has noted, of which the first letter says what they are.
fn hooks(redis: &RedisServer) -> Vec<String> {
    let script = "
        local found = {}
        for _, key in ipairs(redis.call('KEYS', '*hooks-of*')) do
          for _, hook in ipairs(redis.call('HVALS', key)) do found[#found + 1] = hook end
        end
        return found";
    redis::from_redis_value(redis.run(&["EVAL", script, "0"])).unwrap()
}

/// What another node does with a node that has not renewed its lease.
const END: &str = "
    local leases = redis.call('KEYS', '*:leases')[1]
    for _, node in ipairs(redis.call('HKEYS', leases)) do redis.call('HSET', leases, node, -1) end
    for _, kind in ipairs({'counts-of', 'occupied', 'hooks-of'}) do
      for _, key in ipairs(redis.call('KEYS', '*' .. kind .. '*')) do redis.call('DEL', key) end
    end";

#[tokio::test]
async fn channels_of_a_node_whose_lease_has_lapsed_are_occupied_again() {
    let redis = RedisServer::start();
    let node = connected(&redis).await;
    let client = Client::connect(&node);
    let channel = format!("{HOOKED}-room");
    client.subscribe(&channel).await;
    let occupied = [format!("o1:{channel}\n")];
    loop_until(async || (hooks(&redis) == occupied).then_some(())).await;
    redis.run(&["EVAL", END, "0"]);
    wait_for(&node, &channel, 1).await;
    node.heartbeats(3).await;
    assert_eq!(hooks(&redis), occupied, "it was vacated for the others");
    assert!(node.totals().disconnects > 0);

    // Redis loses its data, and with it that the channel is occupied. No receiver is to learn of that.
    redis.run(&["FLUSHALL"]);
    wait_for(&node, &channel, 1).await;
    node.heartbeats(3).await;
    assert!(hooks(&redis).is_empty(), "{:?}", hooks(&redis));
}
