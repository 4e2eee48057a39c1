//! Nodes beside those of earlier and later versions.

use std::time::Duration;

use weir_realtime::settings::AppSettings;
use weir_realtime_redis::{RedisLogSettings, check_server};

use crate::client::Client;
use crate::redis_server::RedisServer;
use crate::rig::{Node, app, key, loop_until, settings, until_suspended};

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

    // It is started again: what it does not know is removed, and no event of a channel is lost.
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

/// Nobody takes the changes of signed-in users, so they must not collect.
#[tokio::test]
async fn users_who_come_and_go_beside_an_earlier_node_leave_nothing() {
    const USERS: usize = 100;
    let redis = RedisServer::start();
    add_earlier_node(&redis);
    let one = node(&redis);
    wait_for_layout(&one, "1").await;
    for number in 0..USERS {
        let client = Client::connect(&one);
        client.sign_in(&format!("user-{number}"), &[]).await;
        client.end();
    }
    one.heartbeats(2).await;
    let parts = (0..USERS).map(|part| key(&format!("#users-{part}")));
    let left = parts.map(|part| one.hub.take_member_changes(&part, usize::MAX).0.len());
    assert_eq!(left.sum::<usize>(), 0);
}

/// Makes Redis reject what concerns leases, and nothing else.
fn suspend(redis: &RedisServer) {
    redis.run(&["SET", &format!("{STEM}:leases"), "x"]);
}

/// Connects as often as the node allows, and ends these connections. Returns their number.
pub(crate) fn connections(node: &Node) -> usize {
    let clients: Vec<Client<'_>> = (0..12).map_while(|_| Client::try_connect(node)).collect();
    clients.iter().for_each(Client::end);
    clients.len()
}

/// The layout of a session changes with the session, also if that could store no members for a while.
#[tokio::test]
async fn a_layout_that_changes_while_members_are_rejected_begins_another_session() {
    let redis = RedisServer::start();
    let nodes = [node(&redis), node(&redis)];
    for node in &nodes {
        wait_for_layout(node, "2").await;
    }
    // A part of the limit is granted to each.
    loop_until(async || nodes.iter().all(|node| connections(node) < 10).then_some(())).await;
    suspend(&redis);
    for node in &nodes {
        until_suspended(node, true).await;
        loop_until(async || (connections(node) == 10).then_some(())).await;
        node.publish("room", 1).await;
        assert_eq!(node.totals().disconnects, 0);
    }
    redis.run(&["DEL", &format!("{STEM}:leases")]);
    add_earlier_node(&redis);
    for node in &nodes {
        wait_for_layout(node, "1").await;
        until_suspended(node, false).await;
        assert_eq!((node.totals().disconnects, connections(node)), (1, 10));
    }
}

#[tokio::test]
async fn a_later_layout_ends_also_a_session_without_members() {
    let redis = RedisServer::start();
    let one = node(&redis);
    one.publish("room", 1).await;
    suspend(&redis);
    until_suspended(&one, true).await;
    one.publish("room", 2).await;
    redis.run(&["SET", &format!("{STEM}:layout"), "3"]);
    let named = |problem: &String| problem.contains("layout in Redis is 3");
    loop_until(async || one.log_problem().filter(named)).await;
    assert!(one.try_publish("room", 3).await.is_err());
}

/// The layout that nodes must know, as a later version may write it.
#[tokio::test]
async fn a_layout_that_can_not_be_read_is_named_and_nothing_is_written() {
    let redis = RedisServer::start();
    let name = format!("{STEM}:layout");
    let set_text: &[&str] = &["SET", &name, "3 meta"];
    let set_hash: &[&str] = &["HSET", &name, "layout", "3"];
    for (words, shown) in [(set_text, "\"3 meta\""), (set_hash, "\"of another type\"")] {
        let expected = format!("{name} in Redis is {shown}, which is no number");
        let named = |problem: &String| problem.contains(&expected);
        let running = node(&redis);
        running.publish("room", 1).await;
        redis.run(words);
        loop_until(async || running.log_problem().filter(named)).await;
        assert!(running.try_publish("room", 2).await.is_err());
        let starting = node(&redis);
        loop_until(async || starting.log_problem().filter(named)).await;
        assert!(named(&check_server(&redis.endpoint(), &settings()).await.problem.unwrap()));
        redis.run(&["DEL", &name]);
        running.publish("room", 3).await;
    }
}

#[tokio::test]
async fn a_layout_that_nodes_must_know_is_written_again_where_it_is_lost() {
    let redis = RedisServer::start();
    let name = format!("{STEM}:layout");
    redis.run(&["SET", &name, "2"]);
    let one = node(&redis);
    one.publish("room", 1).await;
    redis.run(&["FLUSHALL"]);
    loop_until(async || {
        let stored: Option<String> = redis::from_redis_value(redis.run(&["GET", &name])).unwrap();
        (stored.as_deref() == Some("2")).then_some(())
    })
    .await;
    one.publish("room", 2).await;
}

/// Keys that somebody else, or a later version, has written.
#[tokio::test]
async fn leases_and_parts_of_limits_that_can_not_be_read_end_no_session() {
    let redis = RedisServer::start();
    let one = node(&redis);
    one.publish("room", 1).await;
    redis.run(&["HSET", &format!("{STEM}:leases"), "later", "5 meta"]);
    one.heartbeats(2).await;
    assert!((1..10).contains(&connections(&one)), "its part: all but a reserve");
    let parts = format!("{STEM}:connections-of:1");
    redis.run(&["DEL", &parts]);
    redis.run(&["SET", &parts, "x"]);
    loop_until(async || (connections(&one) == 10).then_some(())).await;
    one.heartbeats(2).await;
    one.publish("room", 2).await;
    redis.run(&["DEL", &parts]);
    loop_until(async || (connections(&one) < 10).then_some(())).await;

    // A layout that can't be stored leaves no lease, which would stand for a node of layout 1.
    let layouts = format!("{STEM}:layouts");
    redis.run(&["SET", &layouts, "x"]);
    until_suspended(&one, true).await;
    one.heartbeats(3).await;
    let leases = redis.run(&["HLEN", &format!("{STEM}:leases")]);
    assert_eq!(redis::from_redis_value::<usize>(leases).unwrap(), 2);
    assert_eq!(one.totals().disconnects, 0);
    redis.run(&["DEL", &layouts]);
    until_suspended(&one, false).await;
    one.publish("room", 3).await;
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
