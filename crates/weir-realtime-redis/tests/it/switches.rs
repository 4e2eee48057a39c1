//! Switches of several nodes.

use std::time::Duration;

use weir_base::clock::Clock;
use weir_base::switch::Pattern;

use crate::redis_server::RedisServer;
use crate::rig::{Node, loop_until};

async fn connected(redis: &RedisServer) -> Node {
    let node = Node::start(redis.port);
    node.publish("first", 0).await;
    node
}

fn pattern(text: &str) -> Pattern {
    text.parse().unwrap()
}

/// Waits until a node has these patterns off.
async fn wait_for(node: &Node, expected: &[&str]) {
    loop_until(async || {
        let mut off: Vec<String> = node.switches.list().into_iter().map(|it| it.pattern).collect();
        off.sort();
        (off == expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_switch_holds_on_all_nodes_with_its_expiry_also_on_later_ones() {
    let redis = RedisServer::start();
    let (one, two) = (connected(&redis).await, connected(&redis).await);
    one.switches.turn_off(pattern("typing*"), Some(Duration::from_secs(600))).unwrap();
    two.switches.turn_off(pattern("cursor"), None).unwrap();
    for node in [&one, &two] {
        wait_for(node, &["cursor", "typing*"]).await;
    }
    assert!(two.hub.switches().is_off("typing-start", Clock::system().now()));
    let expiries = |node: &Node| {
        let mut all: Vec<_> = node.switches.all_off().into_iter().map(|off| off.until_us).collect();
        all.sort();
        all
    };
    assert_eq!(expiries(&one), expiries(&two));
    let three = connected(&redis).await;
    wait_for(&three, &["cursor", "typing*"]).await;
    assert!(three.switches.turn_on(&pattern("cursor")).unwrap());
    for node in [&one, &two] {
        wait_for(node, &["typing*"]).await;
    }
}

#[tokio::test]
async fn a_switch_that_is_changed_while_redis_is_away_is_shared_later() {
    let mut redis = RedisServer::start();
    let (one, two) = (connected(&redis).await, connected(&redis).await);
    one.switches.turn_off(pattern("before"), None).unwrap();
    wait_for(&two, &["before"]).await;
    redis.kill();
    loop_until(async || (one.totals().disconnects > 0).then_some(())).await;
    one.switches.turn_off(pattern("away"), None).unwrap();
    two.switches.turn_on(&pattern("before")).unwrap();
    // It has lost its data: the nodes store what they have.
    redis.start_again();
    for node in [&one, &two] {
        wait_for(node, &["away"]).await;
    }
}

#[tokio::test]
async fn switches_that_have_expired_are_forgotten() {
    let redis = RedisServer::start();
    let node = connected(&redis).await;
    let stored = || {
        let script = "return redis.call('HKEYS', redis.call('KEYS', '*:switches')[1])";
        redis::from_redis_value::<Vec<String>>(redis.run(&["EVAL", script, "0"])).unwrap()
    };
    node.switches.turn_off(pattern("short"), Some(Duration::from_micros(1))).unwrap();
    loop_until(async || {
        // Redis compares whole seconds.
        node.switches.turn_off(pattern("long"), None).unwrap();
        let names: Vec<String> =
            redis::from_redis_value(redis.run(&["KEYS", "*:switches"])).unwrap();
        (!names.is_empty() && stored() == ["long"]).then_some(())
    })
    .await;
}
