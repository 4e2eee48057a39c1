//! Nodes beside those of earlier and later versions.

use std::time::Duration;

use weir_realtime::settings::AppSettings;
use weir_realtime_redis::{RedisLogSettings, check_server};

use crate::client::Client;
use crate::redis_server::RedisServer;
use crate::rig::{Node, app, loop_until, settings};

/// The first letters of all keys of a deployment, with the tag of the first partition.
const STEM: &str = "weir:realtime:{afj}";

/// Starts a node whose app has a limit of connections. Its leases last longer than the test.
fn node(redis: &RedisServer) -> Node {
    let app = AppSettings { connections_max: 10, ..app() };
    let settings = RedisLogSettings { presence_lease: Duration::from_secs(60), ..settings() };
    Node::start_with_app(redis.endpoint(), settings, app)
}

/// Adds a node that stores no layout, as those before layout 2.
fn add_earlier_node(redis: &RedisServer) {
    redis.run(&["HSET", &format!("{STEM}:leases"), "earlier", "1"]);
}

fn remove_earlier_node(redis: &RedisServer) {
    redis.run(&["HDEL", &format!("{STEM}:leases"), "earlier"]);
}

/// Returns the number of keys with what nodes before layout 2 do not know.
fn keys_of_layout_2(redis: &RedisServer) -> [usize; 2] {
    ["*:users:1:#users-*", "*:connections-of:1"].map(|pattern| {
        let found = redis.run(&["KEYS", pattern]);
        redis::from_redis_value::<Vec<String>>(found).unwrap().len()
    })
}

async fn wait_for_layout(node: &Node, layout: &str) {
    let name = format!("weir_realtime_redis_layout{{shard=\"{}\"}}", node.log_name());
    loop_until(async || (node.metric(&name).as_deref() == Some(layout)).then_some(())).await;
}

#[tokio::test]
async fn a_node_beside_an_earlier_one_stores_only_what_that_knows() {
    let redis = RedisServer::start();
    add_earlier_node(&redis);
    let one = node(&redis);
    wait_for_layout(&one, "1").await;
    let ada = Client::connect(&one);
    ada.sign_in("ada", &["grace"]).await;
    ada.subscribe("room").await;
    one.publish("room", 1).await;
    assert_eq!(ada.event("e").await, 1);
    one.heartbeats(3).await;
    assert_eq!(keys_of_layout_2(&redis), [0, 0]);
    assert_eq!(one.totals().disconnects, 0);

    // The earlier node has ended in order: now all nodes know layout 2.
    remove_earlier_node(&redis);
    wait_for_layout(&one, "2").await;
    loop_until(async || (keys_of_layout_2(&redis) == [1, 1]).then_some(())).await;
    one.publish("room", 2).await;
    assert_eq!(ada.event("e").await, 2);

    // It is started again: what it does not know is removed, and nothing else is lost.
    add_earlier_node(&redis);
    wait_for_layout(&one, "1").await;
    loop_until(async || (keys_of_layout_2(&redis)[0] == 0).then_some(())).await;
    one.publish("room", 3).await;
    assert_eq!(ada.event("e").await, 3);
    let grace = Client::connect(&one);
    grace.sign_in("grace", &[]).await;
    let online = ada.event("pusher_internal:watchlist_events").await;
    assert_eq!(online["events"][0]["user_ids"][0], "grace", "users of the same node are known");
    one.heartbeats(2).await;
    assert_eq!(keys_of_layout_2(&redis)[0], 0);
}

#[tokio::test]
async fn a_node_changes_nothing_in_a_layout_that_it_does_not_know() {
    let redis = RedisServer::start();
    let key = format!("{STEM}:layout");
    redis.run(&["SET", &key, "3"]);
    let one = node(&redis);
    let named = |problem: &str| problem.contains(&format!("{key} in Redis is 3"));
    let problem = async || one.log_problem().filter(|problem| named(problem));
    loop_until(problem).await;
    assert!(named(&check_server(&redis.endpoint(), &settings()).await.problem.unwrap()));
    assert!(one.try_publish("room", 1).await.is_err());
    let keys: Vec<String> = redis::from_redis_value(redis.run(&["KEYS", "*"])).unwrap();
    assert_eq!(keys, std::slice::from_ref(&key));
    redis.run(&["DEL", &key]);
    one.publish("room", 1).await;

    // A later version changes the layout while this one runs.
    redis.run(&["SET", &key, "3"]);
    loop_until(problem).await;
    loop_until(async || one.try_publish("room", 2).await.is_err().then_some(())).await;
}
