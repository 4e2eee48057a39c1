//! Members of presence channels of several nodes.

use std::time::Duration;

use serde_json::{Value, json};
use weir_realtime_redis::RedisLogSettings;

use crate::client::Client;
use crate::redis_server::RedisServer;
use crate::rig::{DEADLINE, Node, app, loop_until, settings};

const ROOM: &str = "presence-room";
const ADDED: &str = "pusher_internal:member_added";
/// Members of a node that is none: more than one reply has, and one step removes.
const MANY: usize = 2_500;

fn users(node: &Node) -> usize {
    node.hub.members("1", ROOM, None, 1).map_or(0, |page| page.total)
}

/// Stores members of a node that has a lease and never renews it.
fn add_foreign_node(redis: &RedisServer) {
    let script = "
        local channel = redis.call('KEYS', '*:channel:1:presence-room')[1]
        local stem = string.match(channel, '^(.*):channel:1:')
        local entry, own = '1:presence-room', ':members-of:foreign:1:presence-room'
        for i = 1, tonumber(ARGV[1]) do
          redis.call('HSET', stem .. own, 'user-' .. i, '')
          redis.call('HINCRBY', stem .. ':users:' .. entry, 'user-' .. i, 1)
        end
        redis.call('SADD', stem .. ':nodes:' .. entry, 'foreign')
        redis.call('SADD', stem .. ':channels-of:foreign', entry)
        redis.call('HINCRBY', stem .. ':version:' .. entry, 'number', 1)
        redis.call('INCR', stem .. ':sequence')
        local leases = redis.call('KEYS', '*:leases')[1]
        redis.call('HSET', leases, 'foreign', 1)
        redis.call('HSET', (string.gsub(leases, 'leases$', 'layouts')), 'foreign', 2)";
    redis.run(&["EVAL", script, "0", &MANY.to_string()]);
}

/// Returns how often Redis has executed a command.
fn calls(redis: &RedisServer, command: &str) -> usize {
    let stats = redis.info("commandstats");
    let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
    let calls = line.and_then(|line| line.split("calls=").nth(1)?.split(',').next()?.parse().ok());
    calls.unwrap_or_default()
}

#[tokio::test]
async fn a_lease_is_renewed_after_a_loss_of_the_scripts_also_without_publications() {
    let redis = RedisServer::start();
    let _node = Node::start(redis.port);
    // Of all identities of the node; -1 is that of one that has ended.
    let renewals = || -> Option<i64> {
        let script = "return redis.call('HVALS', redis.call('KEYS', '*:leases')[1] or 'none')";
        let leases: Vec<i64> = redis::from_redis_value(redis.run(&["EVAL", script, "0"])).unwrap();
        leases.into_iter().max()
    };
    let before = loop_until(async || renewals()).await;
    redis.run(&["SCRIPT", "FLUSH"]);
    loop_until(async || renewals().filter(|now| *now > before + 1)).await;
}

#[tokio::test]
async fn long_member_lists_are_read_in_parts_and_removed_in_parts() {
    let redis = RedisServer::start();
    let lease = Duration::from_secs(3);
    let settings = || RedisLogSettings { presence_lease: lease, ..settings() };
    let one = Node::start_with(redis.endpoint(), settings());
    one.publish("other", 0).await;
    let ada = Client::connect(&one);
    ada.join(ROOM, "ada", &json!({})).await;
    loop_until(async || (calls(&redis, "spublish") >= 2).then_some(())).await;
    add_foreign_node(&redis);
    loop_until(async || (users(&one) == MANY + 1).then_some(())).await;
    let two = Node::start_with(redis.endpoint(), settings());
    two.publish("other", 1).await;
    let before = calls(&redis, "hscan");
    let bob = Client::connect(&two);
    let joined = bob.join(ROOM, "bob", &json!({})).await;
    assert_eq!(joined["presence"]["count"], MANY + 2);
    assert!(calls(&redis, "hscan") >= before + MANY / 1_000, "in parts");
    loop_until(async || (users(&one) == 2 && users(&two) == 2).then_some(())).await;
    // Both, if the first one takes longer than a lease.
    assert!(one.totals().lapsed_nodes + two.totals().lapsed_nodes >= 1);
    let names: Vec<String> = redis::from_redis_value(redis.run(&["KEYS", "*foreign*"])).unwrap();
    assert!(names.is_empty(), "{names:?}");
}

/// The user left and returned before the other node was notified of either.
#[tokio::test]
async fn other_nodes_learn_new_information_of_a_user_that_left_and_returned() {
    let redis = RedisServer::start();
    let (one, two) = (Node::start(redis.port), Node::start(redis.port));
    one.publish("other", 0).await;
    two.publish("other", 1).await;
    let bob = Client::connect(&two);
    bob.join(ROOM, "bob", &json!({})).await;
    let ada = Client::connect(&one);
    ada.join(ROOM, "ada", &json!({"name": "old"})).await;
    assert_eq!(bob.event(ADDED).await["user_info"], json!({"name": "old"}));
    // The node's task does not run in between.
    ada.leave(ROOM);
    let _joined: Value = ada.join(ROOM, "ada", &json!({"name": "new"})).await;
    assert_eq!(bob.event(ADDED).await["user_info"], json!({"name": "new"}));
}

/// Users join at both nodes at the same moment, before either node knows those of the other.
#[tokio::test]
async fn the_limit_of_users_holds_over_all_nodes() {
    const USERS_MAX: usize = 5;
    const SUCCEEDED: &str = "pusher_internal:subscription_succeeded";
    let redis = RedisServer::start();
    let start = || {
        let mut app = app();
        app.presence.members_max = USERS_MAX;
        Node::start_with_app(redis.endpoint(), settings(), app)
    };
    let (one, two) = (start(), start());
    one.publish("other", 0).await;
    two.publish("other", 1).await;
    let client = |number| Client::connect(if number % 2 == 0 { &one } else { &two });
    // The channel is known to both nodes, so that nothing delays the others.
    for number in 0..2 {
        client(number).join(ROOM, &format!("first-{number}"), &json!({})).await;
    }
    loop_until(async || (users(&one) == 2 && users(&two) == 2).then_some(())).await;
    let clients: Vec<Client<'_>> = (0..20).map(client).collect();
    for (number, client) in clients.iter().enumerate() {
        client.begin_join(ROOM, &format!("user-{number}"), &json!({}));
    }
    let mut joined = 0;
    for client in &clients {
        let outcome = client.any_of(&[SUCCEEDED, "pusher:subscription_error"]).await;
        joined += usize::from(outcome == SUCCEEDED);
    }
    assert_eq!(joined, USERS_MAX - 2);
    loop_until(async || (users(&one) == USERS_MAX && users(&two) == USERS_MAX).then_some(())).await;
}

/// A Redis that does not reply does not delay the end of a node.
#[tokio::test]
async fn a_node_ends_without_a_reply_of_redis() {
    let redis = RedisServer::start();
    let timeout = DEADLINE * 3;
    let settings = RedisLogSettings { timeout, ..settings() };
    let node = Node::start_with(redis.endpoint(), settings);
    node.publish("other", 0).await;
    redis.signal("STOP");
    node.stop().await;
    redis.signal("CONT");
}
