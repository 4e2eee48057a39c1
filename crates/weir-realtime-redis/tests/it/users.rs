//! Signed-in users of several nodes.

use std::time::Duration;

use serde_json::{Value, json};
use weir_realtime_redis::RedisLogSettings;

use crate::client::Client;
use crate::redis_server::RedisServer;
use crate::rig::{Node, loop_until, settings};

const WATCHLIST: &str = "pusher_internal:watchlist_events";

async fn two_nodes(redis: &RedisServer) -> [Node; 2] {
    let lease = Duration::from_secs(3);
    let settings = || RedisLogSettings { presence_lease: lease, ..settings() };
    let nodes = [(); 2].map(|()| Node::start_with(redis.endpoint(), settings()));
    for node in &nodes {
        node.publish("other", 0).await;
    }
    nodes
}

fn change(name: &str, user: &str) -> Value {
    json!({"events": [{"name": name, "user_ids": [user]}]})
}

/// Returns how many users Redis has.
fn stored_users(redis: &RedisServer) -> usize {
    let count = "
        local count = 0
        for _, key in ipairs(redis.call('KEYS', '*:users:1:#users-*')) do
          count = count + redis.call('HLEN', key)
        end
        return count";
    redis::from_redis_value(redis.run(&["EVAL", count, "0"])).unwrap()
}

#[tokio::test]
async fn watchers_learn_of_users_who_are_online_on_other_nodes() {
    let redis = RedisServer::start();
    let [one, two] = two_nodes(&redis).await;
    let ada = Client::connect(&two);
    ada.sign_in("ada", &[]).await;
    loop_until(async || (stored_users(&redis) == 1).then_some(())).await;
    let grace = Client::connect(&one);
    grace.sign_in("grace", &["ada", "bob"]).await;
    assert_eq!(grace.event(WATCHLIST).await, change("online", "ada"), "she came before");
    let bob = [&one, &two].map(Client::connect);
    bob[1].sign_in("bob", &[]).await;
    assert_eq!(grace.event(WATCHLIST).await, change("online", "bob"));
    bob[0].sign_in("bob", &[]).await;
    bob[1].end();
    ada.end();
    assert_eq!(grace.event(WATCHLIST).await, change("offline", "ada"), "bob is here as well");
    bob[0].end();
    assert_eq!(grace.event(WATCHLIST).await, change("offline", "bob"));
    let dora = Client::connect(&two);
    dora.sign_in("dora", &["grace"]).await;
    assert_eq!(dora.event(WATCHLIST).await, change("online", "grace"));
    grace.end();
    assert_eq!(dora.event(WATCHLIST).await, change("offline", "grace"));
    dora.end();
    loop_until(async || (stored_users(&redis) == 0).then_some(())).await;
    let page = one.hub.channels("1", "", 10).unwrap();
    let names: Vec<&str> = page.channels.iter().map(|channel| &*channel.name).collect();
    assert!(names.iter().all(|name| !name.contains("users")), "{names:?}");
}

/// Stores a user of a node that has a lease and never renews it, in the part of the directory that is followed.
fn add_foreign_node(redis: &RedisServer, user: &str) {
    let script = "
        local channel = redis.call('KEYS', '*:channel:1:#users-*')[1]
        local stem, entry = string.match(channel, '^(.*):channel:(1:.*)$')
        redis.call('HSET', stem .. ':members-of:foreign:' .. entry, ARGV[1], '')
        redis.call('HINCRBY', stem .. ':users:' .. entry, ARGV[1], 1)
        redis.call('SADD', stem .. ':nodes:' .. entry, 'foreign')
        redis.call('SADD', stem .. ':channels-of:foreign', entry)
        redis.call('HSET', stem .. ':version:' .. entry, 'epoch', '00000000000000ab')
        redis.call('HINCRBY', stem .. ':version:' .. entry, 'number', 1)
        redis.call('INCR', stem .. ':sequence')
        local leases = redis.call('KEYS', '*:leases')[1]
        redis.call('HSET', leases, 'foreign', 1)
        redis.call('HSET', (string.gsub(leases, 'leases$', 'layouts')), 'foreign', 2)";
    redis.run(&["EVAL", script, "0", user]);
}

#[tokio::test]
async fn users_of_a_node_that_ended_go_offline() {
    let redis = RedisServer::start();
    let [one, two] = two_nodes(&redis).await;
    let grace = Client::connect(&one);
    grace.sign_in("grace", &["ada"]).await;
    loop_until(async || (stored_users(&redis) == 1).then_some(())).await;
    add_foreign_node(&redis, "ada");
    assert_eq!(grace.event(WATCHLIST).await, change("online", "ada"));
    assert_eq!(grace.event(WATCHLIST).await, change("offline", "ada"));
    let ada = Client::connect(&two);
    ada.sign_in("ada", &[]).await;
    assert_eq!(grace.event(WATCHLIST).await, change("online", "ada"));
    two.stop().await;
    assert_eq!(grace.event(WATCHLIST).await, change("offline", "ada"));
    let hooks = ["*leaving*", "*hooks-of*"].map(|name| redis.run(&["KEYS", name]));
    assert!(hooks.iter().all(|keys| *keys == redis::Value::Array(Vec::new())), "{hooks:?}");
}

/// Each node stores its users again, and watchers notice nothing.
#[tokio::test]
async fn users_stay_online_while_nodes_connect_again() {
    let redis = RedisServer::start();
    let [one, two] = two_nodes(&redis).await;
    let grace = Client::connect(&one);
    grace.sign_in("grace", &["ada"]).await;
    let ada = Client::connect(&two);
    ada.sign_in("ada", &[]).await;
    assert_eq!(grace.event(WATCHLIST).await, change("online", "ada"));
    redis.run(&["FLUSHALL"]);
    redis.run(&["CLIENT", "KILL", "TYPE", "normal"]);
    loop_until(async || (stored_users(&redis) == 2).then_some(())).await;
    one.heartbeats(8).await;
    ada.end();
    assert_eq!(grace.event(WATCHLIST).await, change("offline", "ada"), "the next event");
}

#[tokio::test]
async fn events_to_a_user_and_terminations_reach_connections_to_all_nodes() {
    let redis = RedisServer::start();
    let [one, two] = two_nodes(&redis).await;
    let clients = [&one, &two].map(Client::connect);
    for client in &clients {
        client.sign_in("7", &[]).await;
        client.subscribe("#server-to-user-7").await;
    }
    one.publish("#server-to-user-7", 5).await;
    for client in &clients {
        assert_eq!(client.event("e").await, 5);
    }
    one.hub.disconnect_user("1", "7").await.unwrap();
    for client in &clients {
        assert_eq!(client.event("pusher:error").await["code"], 4009);
        loop_until(async || (!client.is_open()).then_some(())).await;
    }
}
