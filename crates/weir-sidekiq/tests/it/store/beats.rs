//! The latest BEAT of a worker to any node is known to all nodes.

use std::time::Duration;

use redis::Commands as _;
use weir_jobs::model::Wid;
use weir_jobs::store::Store;

use super::rig::{Node, run};
use super::sharded_rig::{self, ShardedNode};
use crate::redis_server::RedisServer;
use crate::shared_redis::client;

const SECOND: Duration = Duration::from_secs(1);

fn wids<const N: usize>(wids: [&str; N]) -> [Wid; N] {
    wids.map(Wid::new)
}

/// Returns the wids of `known` whose age is between two others, sorted.
fn between(known: &[(Wid, Duration)], least: Duration, most: Duration) -> Vec<&str> {
    let inside = known.iter().filter(|(_, age)| (least..most).contains(age));
    let mut wids: Vec<_> = inside.map(|(wid, _)| wid.as_str()).collect();
    wids.sort_unstable();
    wids
}

#[test]
fn every_node_knows_the_last_beat_to_any_node() {
    run(async |redis| {
        let (one, other) = (Node::open(&redis), Node::open(&redis));
        let [a, b, unknown] = wids(["a", "b", "unknown"]);
        one.store
            .exchange_beats(&[(a.clone(), 50 * SECOND), (b.clone(), 500 * SECOND)], &[])
            .await
            .unwrap();
        let known =
            other.store.exchange_beats(&[], &[a.clone(), b.clone(), unknown]).await.unwrap();
        assert_eq!(between(&known, 50 * SECOND, 400 * SECOND), ["a"]);
        assert_eq!(between(&known, 500 * SECOND, 900 * SECOND), ["b"]);
        assert_eq!(known.len(), 2);
        // An earlier beat does not replace a later one.
        other
            .store
            .exchange_beats(&[(a.clone(), 500 * SECOND), (b.clone(), SECOND)], &[])
            .await
            .unwrap();
        let known = one.store.exchange_beats(&[], &[a, b]).await.unwrap();
        assert_eq!(between(&known, SECOND, 400 * SECOND), ["a", "b"]);
    });
}

#[test]
fn beats_of_many_workers_are_stored_in_several_calls_and_forgotten_after_a_day() {
    run(async |redis| {
        let node = Node::open(&redis);
        let many: Vec<Wid> =
            (0..1_234).map(|number| Wid::new(&format!("worker-{number}"))).collect();
        let received: Vec<_> = many.iter().map(|wid| (wid.clone(), SECOND)).collect();
        node.store.exchange_beats(&received, &[]).await.unwrap();
        assert_eq!(node.store.exchange_beats(&[], &many).await.unwrap().len(), 1_234);
        let [old] = wids(["old"]);
        node.store.exchange_beats(&[(old.clone(), 25 * 3_600 * SECOND)], &[]).await.unwrap();
        assert_eq!(node.store.exchange_beats(&[], &[old]).await.unwrap(), []);
        let left: i64 = client(&redis).ttl("weir:beats").unwrap();
        assert!(left > 0, "{left}");
    });
}

#[test]
fn a_key_of_another_type_hides_beats_and_stops_nothing() {
    run(async |redis| {
        let node = Node::open(&redis);
        let _: () = client(&redis).set("weir:beats", "a text").unwrap();
        let [a] = wids(["a"]);
        let known = node.store.exchange_beats(&[(a.clone(), SECOND)], &[a]).await.unwrap();
        assert_eq!(known, []);
    });
}

#[test]
fn the_latest_beat_that_any_shard_knows_counts() {
    sharded_rig::run(async |[one, two]: [RedisServer; 2]| {
        let node = ShardedNode::open(&[&one, &two]);
        let [a] = wids(["a"]);
        node.store.exchange_beats(&[(a.clone(), SECOND)], &[]).await.unwrap();
        one.run(&[&["ZADD", "weir:beats", "1000", "a"]]);
        let known = node.store.exchange_beats(&[], std::slice::from_ref(&a)).await.unwrap();
        assert_eq!(between(&known, SECOND, 100 * SECOND), ["a"]);
        drop(two);
        // Beats are stored on all shards, so one of them is enough.
        let known = node.store.exchange_beats(&[], &[a]).await.unwrap();
        assert_eq!(between(&known, 100 * SECOND, Duration::MAX), ["a"]);
    });
}
