//! A shard that is added while nodes run.

use std::collections::HashSet;

use weir_realtime::shared_log::{AppendError, SharedLog as _};
use weir_realtime_redis::{ShardJoining, ShardOptions};

use crate::redis_server::RedisServer;
use crate::rig::{Node, Viewer, key, loop_until, settings};
use crate::shards::options;

/// Channels, of which about half move to the new one of two shards.
const CHANNELS: usize = 12;
/// Events of each channel in each step.
const EVENTS: u64 = 5;

struct Rolling {
    old: RedisServer,
    new: RedisServer,
}

impl Rolling {
    fn start() -> Self {
        Self { old: RedisServer::start(), new: RedisServer::start() }
    }

    fn node(&self, joining: ShardJoining) -> Node {
        let new = ShardOptions { joining, ..options("new", &self.new) };
        Node::start_on(vec![options("old", &self.old), new], settings())
    }

    /// Returns the channels that a server has, and that were not moved to the other one.
    fn channels_of(redis: &RedisServer) -> HashSet<String> {
        let found = redis.run(&["KEYS", "*:channel:1:*"]);
        let names: Vec<String> = redis::from_redis_value(found).unwrap();
        let is_here = |name: &&String| {
            let moved = redis.run(&["HEXISTS", name, "moved"]);
            moved == redis::Value::Int(0)
        };
        let channel = |name: &String| name.rsplit(':').next().unwrap().to_owned();
        names.iter().filter(is_here).map(channel).collect()
    }
}

fn names() -> Vec<String> {
    (0..CHANNELS).map(|number| format!("c{number}")).collect()
}

async fn watch_all(node: &Node) -> Vec<Viewer> {
    let mut views = Vec::new();
    for name in names() {
        views.push(node.watch(&name).await);
    }
    views
}

/// Publishes the next events on all channels, through the nodes in turn.
async fn publish_on_all(nodes: &[&Node], first: u64) {
    for number in first..first + EVENTS {
        for (place, name) in names().iter().enumerate() {
            nodes[(place + usize::try_from(number).unwrap()) % nodes.len()]
                .publish(name, number)
                .await;
        }
    }
}

/// Reads events up to this one, each of which must be there once, in order and without a gap.
async fn read_all(views: &mut [Viewer], numbers: std::ops::Range<u64>) {
    for view in views {
        for number in numbers.clone() {
            assert_eq!(view.next_data().await, number.to_string());
        }
    }
}

/// Nodes in every step, one after the other, with publishers on all of them.
#[tokio::test]
async fn channels_move_to_a_new_shard_without_a_lost_event_or_a_gap() {
    use ShardJoining::{Move, No, Prepare};
    let rolling = Rolling::start();
    let (one, two) = (rolling.node(Prepare), rolling.node(Prepare));
    let (mut on_one, mut on_two) = (watch_all(&one).await, watch_all(&two).await);
    publish_on_all(&[&one, &two], 0).await;
    read_all(&mut on_one, 0..EVENTS).await;
    read_all(&mut on_two, 0..EVENTS).await;
    assert!(Rolling::channels_of(&rolling.new).is_empty(), "it is prepared only");
    let before = one.hub.held_channel(&key("c0")).unwrap().position.unwrap();

    // One node moves channels, and another one still prepares.
    drop((on_two, two));
    let two = rolling.node(Move);
    let mut on_two = watch_all(&two).await;
    publish_on_all(&[&one, &two], EVENTS).await;
    read_all(&mut on_one, EVENTS..2 * EVENTS).await;
    read_all(&mut on_two, EVENTS..2 * EVENTS).await;
    let (old, new) = (Rolling::channels_of(&rolling.old), Rolling::channels_of(&rolling.new));
    assert!(!new.is_empty() && !old.is_empty() && old.is_disjoint(&new), "{old:?} {new:?}");
    assert_eq!(old.len() + new.len(), CHANNELS);

    // All nodes move channels, and one has ended the change.
    drop((on_one, one));
    let one = rolling.node(No);
    let mut on_one = watch_all(&one).await;
    publish_on_all(&[&one, &two], 2 * EVENTS).await;
    read_all(&mut on_one, 2 * EVENTS..3 * EVENTS).await;
    read_all(&mut on_two, 2 * EVENTS..3 * EVENTS).await;
    for name in names() {
        let position = one.hub.held_channel(&key(&name)).unwrap().position.unwrap();
        assert_eq!(position.offset, 3 * EVENTS, "{name} has its history");
    }
    let after = one.hub.held_channel(&key("c0")).unwrap().position.unwrap();
    assert_eq!(after.epoch, before.epoch, "it goes on in its epoch");
}

/// The key of an event whose publisher got no reply is known in the previous shard only.
#[tokio::test]
async fn an_event_that_is_repeated_after_its_channel_moved_is_not_appended_again() {
    let rolling = Rolling::start();
    let before = rolling.node(ShardJoining::Prepare);
    let mut positions = Vec::new();
    for name in names() {
        positions.push(before.publish(&name, 7).await);
    }
    let after = rolling.node(ShardJoining::Move);
    let _views = watch_all(&after).await;
    assert!(!Rolling::channels_of(&rolling.new).is_empty());
    for (name, position) in names().iter().zip(&positions) {
        assert_eq!(
            (&after.publish(name, 7).await, &before.publish(name, 7).await),
            (position, position)
        );
    }
}

#[tokio::test]
async fn a_previous_shard_that_does_not_respond_leaves_no_doubt_that_nothing_was_published() {
    let rolling = Rolling::start();
    let node = rolling.node(ShardJoining::Move);
    for name in names() {
        node.publish(&name, 7).await;
    }
    let moved = Rolling::channels_of(&rolling.new);
    let name = moved.iter().min().expect("a channel");
    rolling.old.signal("STOP");
    assert_eq!(node.try_append_all(&[name], 8).await, Err(AppendError::Away));
    assert_eq!(node.log.counts(vec![key(name)]).await, Err(AppendError::Away));
    rolling.old.signal("CONT");
    node.publish(name, 8).await;
}

/// The new shard loses a channel after others have received its events from there.
#[tokio::test]
async fn a_new_shard_that_is_emptied_does_not_give_offsets_twice() {
    let mut rolling = Rolling::start();
    publish_on_all(&[&rolling.node(ShardJoining::Prepare)], 0).await;
    let node = rolling.node(ShardJoining::Move);
    let mut views = watch_all(&node).await;
    publish_on_all(&[&node], EVENTS).await;
    read_all(&mut views, EVENTS..2 * EVENTS).await;
    let moved = Rolling::channels_of(&rolling.new);
    let name = moved.iter().min().expect("a channel");
    let place = names().iter().position(|it| it == name).unwrap();
    let before = node.hub.held_channel(&key(name)).unwrap().position.unwrap();
    rolling.new.kill();
    rolling.new.start_again();
    // The node finds by itself that the previous shard has less than it has delivered.
    loop_until(async || {
        let now = node.hub.held_channel(&key(name))?.position?;
        (now.epoch != before.epoch).then_some(())
    })
    .await;
    node.publish(name, 100).await;
    let mut seen = Vec::new();
    while seen.last().map(String::as_str) != Some("100") {
        let event = views[place].next().await;
        seen.push(if event.event == "e" { event.data } else { "gap".to_owned() });
    }
    assert_eq!(seen, ["gap", "100"]);
}
