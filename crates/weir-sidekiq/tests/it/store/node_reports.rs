//! What nodes report about themselves, and when a node is forgotten.

use std::time::Duration;

use redis::Commands as _;
use weir_base::node::{NodeCondition, NodeProcess};
use weir_jobs::node::{NodeFigures, NodeReport, NodeState};
use weir_jobs::store::Store;
use weir_sidekiq::RedisEndpoint;

use super::rig::{LEASE, Node, run, run_alone};
use super::sharded_rig::ShardedNode;
use crate::redis_server::RedisServer;
use crate::shared_redis::client;

const MINUTE: Duration = Duration::from_secs(60);

fn report(hostname: &str) -> NodeReport {
    let process = NodeProcess { hostname: hostname.to_owned(), ..NodeProcess::default() };
    NodeReport { process, figures: NodeFigures { busy: 3, ..NodeFigures::default() } }
}

/// Reports a node. Returns the nodes that it knows then.
async fn exchange(node: &Node, hostname: &str) -> Vec<NodeState> {
    node.store.exchange_reports(report(hostname), Vec::new()).await;
    node.store.storage().await.nodes
}

fn hostnames(nodes: &[NodeState]) -> Vec<&str> {
    nodes.iter().map(|node| node.report.as_ref().map_or("", |it| &it.process.hostname)).collect()
}

/// Opens a node with a lease that outlives the test.
fn lasting(redis: &RedisEndpoint) -> Node {
    Node::open_in(tempfile::tempdir().unwrap(), redis, MINUTE)
}

#[test]
fn each_node_knows_all_nodes() {
    run(async |redis| {
        let (one, other) = (lasting(&redis), lasting(&redis));
        assert_eq!(hostnames(&exchange(&one, "one").await), ["one"]);
        assert_eq!(hostnames(&exchange(&other, "other").await), ["one", "other"]);
        let nodes = exchange(&one, "one").await;
        assert_eq!(hostnames(&nodes), ["one", "other"]);
        assert_eq!(nodes.iter().map(|node| node.is_self).collect::<Vec<_>>(), [true, false]);
        assert_eq!(nodes[1].report.as_ref().unwrap().figures.busy, 3);
        assert!(nodes[1].age < Duration::from_secs(5) && nodes[1].id != nodes[0].id);
        other.store.close().await.unwrap();
        let nodes = exchange(&one, "one").await;
        assert_eq!(nodes[1].condition(), NodeCondition::Stopped);
        assert_eq!(nodes[0].condition(), NodeCondition::Up);
    });
}

#[test]
fn a_node_that_reports_nothing_is_listed_while_it_has_a_lease() {
    run(async |redis| {
        let (old, new) = (Node::open(&redis), lasting(&redis));
        assert_eq!(old.fetch_now("q").await, None);
        let nodes = exchange(&new, "new").await;
        assert_eq!(hostnames(&nodes), ["", "new"], "an older version has only a lease");
        drop(old.crash());
        new.until(async || exchange(&new, "new").await.len() == 1).await;
    });
}

#[test]
fn reports_of_any_form_stop_nothing() {
    run(async |redis| {
        let node = lasting(&redis);
        let mut client = client(&redis);
        let old = format!("1 {}", r#"{"hostname":"gone"}"#);
        let now: (u64, u64) = redis::cmd("TIME").query(&mut client).unwrap();
        let shouting = format!("{} {}", now.0, r#"{"hostname":"<b>\u0007","version":7}"#);
        let large = format!("{} {}", now.0, "x".repeat(10 << 20));
        let fields = [
            ("a", old.as_str()),
            ("b", &shouting),
            ("c", &large),
            ("d", "FLUSHALL"),
            ("e", "99999999999999999999999 {}"),
            ("\u{1b}[2J", "1 {}"),
        ];
        let _: () = client.hset_multiple("weir:reports", &fields).unwrap();
        let _: u64 = client.hset("weir:reports", b"\xff\xfe", b"\xff").unwrap();
        assert_eq!(hostnames(&exchange(&node, "one").await), ["one"]);
        let many = "for n = 1, 100000 do redis.call('HSET', KEYS[1], n, ARGV[1] .. ' {}') end";
        redis::Script::new(many).key("weir:reports").arg(now.0).invoke::<()>(&mut client).unwrap();
        assert!(exchange(&node, "one").await.len() <= 2_000);
        let _: u64 = client.del("weir:reports").unwrap();
        let _: () = client.set("weir:reports", "a text").unwrap();
        assert_eq!(hostnames(&exchange(&node, "one").await), [""], "only its lease is known");
    });
}

#[test]
fn a_node_that_was_gone_for_long_is_forgotten_and_repeats_no_epoch() {
    run(async |redis| {
        let mut client = client(&redis);
        let _: u64 = client.hset("weir:epochs", "0123456789ab", 41).unwrap();
        let _: u64 = client.hset("weir:clean", "0123456789ab", 41).unwrap();
        let node = Node::open(&redis);
        assert_eq!(node.fetch_now("q").await, None);
        let cell = std::cell::RefCell::new(client);
        // An older version has stopped. Its time begins when it is seen first.
        let is_in = |key: &str| -> bool {
            cell.borrow_mut().hexists(format!("weir:{key}"), "0123456789ab").unwrap()
        };
        node.until(async || is_in("reports")).await;
        assert!(is_in("epochs"), "it may come back");
        let _: u64 = cell.borrow_mut().hset("weir:reports", "0123456789ab", "1 {}").unwrap();
        node.until(async || !is_in("epochs")).await;
        assert!(!is_in("clean") && !is_in("reports"));
        let forgotten: u64 = cell.borrow_mut().hget("weir:epochs", "forgotten").unwrap();
        assert_eq!(forgotten, 41);
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("node_id"), "0123456789ab").unwrap();
        let back = Node::open_in(directory, &redis, LEASE);
        assert_eq!(back.fetch_now("q").await, None);
        let epoch: u64 = cell.borrow_mut().hget("weir:epochs", "0123456789ab").unwrap();
        assert_eq!(epoch, 42);
    });
}

#[test]
fn too_many_nodes_are_not_kept() {
    run(async |redis| {
        let mut client = client(&redis);
        let many = "for n = 1, 12000 do redis.call('HSET', 'weir:epochs', 'n' .. n, 1) end";
        redis::Script::new(many).invoke::<()>(&mut client).unwrap();
        let node = Node::open(&redis);
        assert_eq!(node.fetch_now("q").await, None);
        let cell = std::cell::RefCell::new(client);
        node.until(async || cell.borrow_mut().hlen::<_, usize>("weir:epochs").unwrap() <= 10_001)
            .await;
        let kept: usize = cell.borrow_mut().hlen("weir:epochs").unwrap();
        assert!(kept >= 9_900, "{kept}");
    });
}

#[test]
fn a_node_is_known_as_long_as_one_shard_can_be_used() {
    run_alone(async {
        let [Some(first), Some(second)] = [RedisServer::start(), RedisServer::start()] else {
            return;
        };
        let nodes = [ShardedNode::open(&[&first, &second]), ShardedNode::open(&[&first, &second])];
        let exchange = async |node: usize, hostname: &str| {
            nodes[node].store.exchange_reports(report(hostname), Vec::new()).await;
            nodes[node].store.storage().await.nodes
        };
        exchange(0, "one").await;
        assert_eq!(hostnames(&exchange(1, "other").await), ["one", "other"], "each is listed once");
        drop(second);
        exchange(0, "one again").await;
        assert_eq!(hostnames(&exchange(1, "other").await), ["one again", "other"]);
    });
}

/// Writes the heartbeat of a process as Sidekiq does.
fn beat(redis: &RedisEndpoint, identity: &str, info: &str, quiet: bool) {
    let mut client = client(redis);
    let _: () = client.sadd("processes", identity).unwrap();
    let fields = [("info", info), ("quiet", if quiet { "true" } else { "false" })];
    let _: () = client.hset_multiple(identity, &fields).unwrap();
}

#[test]
fn queues_of_running_sidekiq_processes_are_known() {
    run(async |redis| {
        beat(&redis, "box:1:a", r#"{"queues":["mailers","default"],"tag":"shop"}"#, false);
        beat(&redis, "box:2:b", r#"{"queues":["quiet"],"tag":"shop"}"#, true);
        beat(&redis, "box:3:c", r#"{"queues":["weirs"],"tag":"weir"}"#, false);
        let mut other = client(&redis);
        let _: () = other.sadd("processes", &["gone:4:d", "odd:5:e"]).unwrap();
        let _: () = other.set("odd:5:e", "no hash").unwrap();
        let node = lasting(&redis);
        assert_eq!(node.store.storage().await.sidekiq_queues, ["default", "mailers"]);
    });
}
