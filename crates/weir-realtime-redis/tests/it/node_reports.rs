//! What nodes report about themselves.

use redis::Commands as _;
use weir_base::node::NodeCondition;
use weir_realtime::shared_log::{NodeState, SharedLog as _};

use crate::redis_server::RedisServer;
use crate::rig::{Node, loop_until};

/// Waits until a node knows `count` nodes.
async fn nodes(node: &Node, count: usize) -> Vec<NodeState> {
    loop_until(async || Some(node.log.node_states()).filter(|nodes| nodes.len() == count)).await
}

/// Waits until a node knows another one in this condition.
async fn wait_for(node: &Node, condition: NodeCondition) {
    loop_until(async || {
        let nodes = node.log.node_states();
        nodes.iter().any(|it| !it.is_self && it.condition() == condition).then_some(())
    })
    .await;
}

/// Returns the key of the reports.
fn key(client: &mut redis::Client) -> String {
    let keys: Vec<String> = client.keys("*:reports").unwrap();
    keys.into_iter().next().expect("there are reports")
}

#[tokio::test]
async fn each_node_knows_all_nodes_and_which_of_them_have_stopped() {
    let redis = RedisServer::start();
    let one = Node::start(redis.port);
    one.publish("first", 0).await;
    let _viewer = one.watch("news").await;
    let other = Node::start(redis.port);
    // The second node reads the report of the first one with its own; the first one reads that with its next.
    let known = nodes(&other, 2).await;
    assert_eq!(known.iter().filter(|node| node.is_self).count(), 1);
    let first = known.iter().find(|node| !node.is_self).unwrap();
    let report = first.report.as_ref().unwrap();
    assert!(report.figures.log_seconds > 0.0 && report.figures.channels >= 1, "{report:?}");
    assert_eq!(report.process.console, "http://weir-1:7420");
    assert!(report.process.cores > 0 && !report.process.version.is_empty());
    nodes(&one, 2).await;
    other.stop().await;
    wait_for(&one, NodeCondition::Stopped).await;
}

#[tokio::test]
async fn a_process_that_ends_does_not_replace_the_report_of_its_successor() {
    let redis = RedisServer::start();
    let (one, other) = (Node::start(redis.port), Node::start(redis.port));
    let known = nodes(&other, 2).await;
    let own = known.iter().find(|node| node.is_self).unwrap();
    let mut client = redis::Client::open(format!("redis://127.0.0.1:{}", redis.port)).unwrap();
    let key = key(&mut client);
    let now: (u64, u64) = redis::cmd("TIME").query(&mut client).unwrap();
    let successor = format!(r#"{} {{"hostname":"b","pid":7}}"#, now.0);
    let _: u64 = client.hset(&key, &own.id, &successor).unwrap();
    other.stop().await;
    let stored: String = client.hget(&key, &own.id).unwrap();
    assert_eq!(stored, successor);
    one.stop().await;
    let stopped: Vec<String> = client.hvals(&key).unwrap();
    assert!(stopped.iter().any(|report| report.contains(r#""stopped":true"#)), "{stopped:?}");
}

#[tokio::test]
async fn reports_of_any_form_stop_nothing_and_are_removed() {
    let redis = RedisServer::start();
    let one = Node::start(redis.port);
    nodes(&one, 1).await;
    let mut client = redis::Client::open(format!("redis://127.0.0.1:{}", redis.port)).unwrap();
    let key = key(&mut client);
    let now: (u64, u64) = redis::cmd("TIME").query(&mut client).unwrap();
    let shouting = format!("{} {}", now.0, r#"{"hostname":"<b>\u0007","version":7}"#);
    let fields = [
        ("old", "1 {}".to_owned()),
        ("large", format!("{} {}", now.0, "x".repeat(1 << 20))),
        ("form", "FLUSHALL".to_owned()),
        ("number", "99999999999999999999999 {}".to_owned()),
        ("types", shouting),
    ];
    let _: () = client.hset_multiple(&key, &fields).unwrap();
    let other = Node::start(redis.port);
    assert!(nodes(&other, 2).await.iter().all(|node| node.report.is_some()));
    let mut kept: Vec<String> = client.hkeys(&key).unwrap();
    kept.retain(|field| fields.iter().any(|(name, _)| name == field));
    assert_eq!(kept, ["types"], "it is recent, and no report to those who read it");
    let _: u64 = client.del(&key).unwrap();
    let _: () = client.set(&key, "a text").unwrap();
    // Another type of key takes away what is shown, and stops no node.
    let third = Node::start(redis.port);
    third.publish("news", 1).await;
    assert_eq!(third.log.node_states(), []);
}
