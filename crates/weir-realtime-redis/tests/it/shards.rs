//! Several Redis servers that each have a part of the channels.

use std::collections::HashSet;

use futures_util::future::join_all;
use weir_realtime::shared_log::{AppendError, SharedLog as _};
use weir_realtime_redis::{RedisLogSettings, ShardJoining, ShardOptions};

use crate::client::Client;
use crate::redis_server::RedisServer;
use crate::rig::{DEADLINE, Node, client_event, key, loop_until, settings};

pub(crate) fn options(name: &str, redis: &RedisServer) -> ShardOptions {
    let (name, endpoint) = (name.to_owned(), redis.endpoint());
    ShardOptions { name, endpoint, joining: ShardJoining::No }
}

/// Two shards, `a` and `b`, and nodes on both.
struct Pair {
    a: RedisServer,
    b: RedisServer,
}

impl Pair {
    fn start() -> Self {
        Self { a: RedisServer::start(), b: RedisServer::start() }
    }

    fn node(&self) -> Node {
        self.node_with(settings())
    }

    fn node_with(&self, settings: RedisLogSettings) -> Node {
        Node::start_on(vec![options("a", &self.a), options("b", &self.b)], settings)
    }
}

/// Returns the names of channels that have been published to, by the keys of a shard.
fn channels(redis: &RedisServer) -> HashSet<String> {
    let names: Vec<String> =
        redis::from_redis_value(redis.run(&["KEYS", "*:channel:1:*"])).unwrap();
    names.iter().filter_map(|name| name.rsplit(':').next()).map(str::to_owned).collect()
}

/// Names of channels, of which some are on each of two shards.
const CHANNELS: [&str; 8] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"];

/// Returns a channel of each shard.
async fn one_channel_of_each(pair: &Pair, node: &Node) -> (String, String) {
    for channel in CHANNELS {
        node.publish(channel, 0).await;
    }
    let (on_a, on_b) = (channels(&pair.a), channels(&pair.b));
    assert!(on_a.is_disjoint(&on_b) && on_a.len() + on_b.len() == CHANNELS.len());
    let first = |on: &HashSet<String>| on.iter().min().expect("a channel").clone();
    (first(&on_a), first(&on_b))
}

#[tokio::test]
async fn events_of_all_shards_reach_all_nodes_in_the_order_of_each_channel() {
    let pair = Pair::start();
    let (one, two) = (pair.node(), pair.node());
    let (on_a, on_b) = one_channel_of_each(&pair, &one).await;
    let mut views = Vec::new();
    for node in [&one, &two] {
        for channel in [&on_a, &on_b] {
            views.push(node.watch(channel).await);
        }
    }
    for number in 1..=50 {
        let node = if number % 2 == 0 { &one } else { &two };
        node.publish_all(&[&on_a, &on_b], number).await;
    }
    for view in &mut views {
        for number in 1..=50 {
            assert_eq!(view.next_data().await, number.to_string());
        }
    }
    one.log.broadcast(client_event(&on_b, "c"));
    assert_eq!(views[3].next().await.data, "c");
    for channel in [&on_a, &on_b] {
        let offset = |node: &Node| node.hub.held_channel(&key(channel)).unwrap().position;
        assert_eq!(offset(&one), offset(&two));
    }
}

/// The other shard's channels work, and do not wait for it.
#[tokio::test]
async fn a_shard_that_is_away_or_stalled_fails_only_its_own_channels() {
    let mut pair = Pair::start();
    // Long enough that what waits for the stalled shard ends after all others.
    let node = pair.node_with(RedisLogSettings { timeout: DEADLINE, ..settings() });
    let (on_a, on_b) = one_channel_of_each(&pair, &node).await;
    let mut view = node.watch(&on_b).await;
    pair.a.signal("STOP");
    let stalled = join_all((1..20).map(|number| node.try_publish(&on_a, number)));
    let working = async {
        for number in 1..=100 {
            node.try_publish(&on_b, number).await.expect("the other shard is used");
        }
    };
    tokio::select! {
        () = working => {}
        results = stalled => panic!("the other shard waited: {results:?}"),
    }
    pair.a.signal("CONT");
    pair.a.kill();
    loop_until(async || node.try_publish(&on_a, 1).await.is_err().then_some(())).await;
    let both = [&*on_a, &*on_b];
    let rejected = node.try_append_all(&both, 1_000).await;
    assert_eq!(rejected.unwrap_err(), AppendError::Away, "nothing is published");
    for number in 101..=110 {
        node.try_publish(&on_b, number).await.expect("the other shard is used");
    }
    for number in 1..=110 {
        assert_eq!(view.next_data().await, number.to_string());
    }
    let connected =
        |shard: &str| node.metric(&format!("weir_realtime_redis_connected{{shard=\"{shard}\"}}"));
    assert_eq!((connected("a"), connected("b")), (Some("0".into()), Some("1".into())));
    loop_until(async || (node.log.shards()[1].nodes == 1).then_some(())).await;
    let shards = node.log.shards();
    let problem = |place: usize| shards[place].problem.as_deref();
    assert!(problem(0).is_some() && !shards[0].is_connected, "{shards:?}");
    assert!(problem(1).is_none() && shards[1].is_connected, "{shards:?}");
    pair.a.start_again();
    node.publish(&on_a, 2_000).await;
}

#[tokio::test]
async fn a_termination_reaches_all_nodes_while_one_shard_is_away() {
    let mut pair = Pair::start();
    let (one, two) = (pair.node(), pair.node());
    one_channel_of_each(&pair, &one).await;
    two.heartbeats(2).await;
    one.log.terminate("1".into(), "7".into()).await.unwrap();
    loop_until(async || (two.totals().terminations == 1).then_some(())).await;
    pair.a.kill();
    for user in ["1", "2", "3", "4"] {
        loop_until(async || one.log.terminate("1".into(), user.into()).await.ok()).await;
    }
    loop_until(async || (two.totals().terminations >= 5).then_some(())).await;
}

#[tokio::test]
async fn subscriptions_of_all_shards_are_counted_and_switches_are_shared() {
    let mut pair = Pair::start();
    let (one, two) = (pair.node(), pair.node());
    let (on_a, on_b) = one_channel_of_each(&pair, &one).await;
    two.publish(&on_a, 1).await;
    let clients = [&one, &two].map(Client::connect);
    for client in &clients {
        for channel in [&on_a, &on_b] {
            client.subscribe(channel).await;
        }
    }
    let list = async || {
        let listed = two.log.channels("1".into(), "".into(), false).await.ok()?;
        Some(listed.into_iter().map(|(name, it)| (name, it.subscriptions)).collect::<Vec<_>>())
    };
    let mut expected = [(on_a.clone(), 2), (on_b.clone(), 2)];
    expected.sort();
    loop_until(async || (list().await? == expected).then_some(())).await;
    let counts = one.log.counts(vec![key(&on_b), key("none"), key(&on_a)]).await.unwrap();
    let counts: Vec<usize> = counts.iter().map(|it| it.subscriptions).collect();
    assert_eq!(counts, [2, 0, 2]);
    one.switches.turn_off("typing*".parse().unwrap(), None).unwrap();
    loop_until(async || (two.switches.all_off().len() == 1).then_some(())).await;
    pair.b.kill();
    loop_until(async || list().await.is_none().then_some(())).await;
    assert_eq!(one.log.counts(vec![key(&on_a)]).await.unwrap()[0].subscriptions, 2);
    assert_eq!(one.log.counts(vec![key(&on_b)]).await, Err(AppendError::Away));
}
