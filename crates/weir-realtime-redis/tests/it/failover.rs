//! A server that takes over from another one, with or without its last events.

use weir_realtime::pusher::server_message::GAP;
use weir_redis::RedisEndpoint;

use crate::redis_server::RedisServer;
use crate::rig::{Node, Viewer, key, loop_until};

/// A primary, a replica that is promoted by hand, and a Sentinel that is told who the primary is.
pub(crate) struct Watched {
    pub(crate) primary: RedisServer,
    pub(crate) replica: RedisServer,
    sentinel: RedisServer,
}

impl Watched {
    pub(crate) fn start() -> Self {
        let primary = RedisServer::start();
        let replica = RedisServer::start_replica(&primary);
        let sentinel = RedisServer::start_sentinel(primary.port);
        Self { primary, replica, sentinel }
    }

    pub(crate) fn endpoint(&self) -> RedisEndpoint {
        let url = format!("redis+sentinel://127.0.0.1:{}/mymaster", self.sentinel.port);
        RedisEndpoint::parse(&url).unwrap()
    }

    fn node(&self) -> Node {
        Node::start_at(self.endpoint())
    }

    /// Ends replication, once the replica has `offset` events of the channel. What comes later is lost
    /// at the failover.
    async fn cut_replication(&self, channel: &str, offset: u64) {
        let name = self.primary.run(&["KEYS", &format!("*:channel:1:{channel}")]);
        let names: Vec<String> = redis::from_redis_value(name).unwrap();
        let offset = offset.to_string();
        loop_until(async || {
            let stored = self.replica.run(&["HGET", &names[0], "offset"]);
            let stored: Option<String> = redis::from_redis_value(stored).unwrap();
            (stored.as_deref() == Some(offset.as_str())).then_some(())
        })
        .await;
        self.replica.run(&["REPLICAOF", "NO", "ONE"]);
    }

    /// Ends the primary and names the replica instead.
    pub(crate) fn fail_over(&mut self) {
        self.primary.kill();
        let port = self.replica.port.to_string();
        self.sentinel.run(&["SENTINEL", "REMOVE", "mymaster"]);
        self.sentinel.run(&["SENTINEL", "MONITOR", "mymaster", "127.0.0.1", &port, "1"]);
    }
}

async fn publish(node: &Node, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        node.publish("room", number).await;
    }
}

/// Reads events without a gap.
async fn read(view: &mut Viewer, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        assert_eq!(view.next_data().await, number.to_string());
    }
}

/// Reads up to an event with this data. Returns the data of the events and `gap` for each gap.
async fn read_until(view: &mut Viewer, last: u64) -> Vec<String> {
    let mut seen = Vec::new();
    while seen.last() != Some(&last.to_string()) {
        let event = view.next().await;
        seen.push(if event.event == GAP { "gap".to_owned() } else { event.data });
    }
    seen
}

fn position(node: &Node) -> Option<(String, u64)> {
    let position = node.hub.held_channel(&key("room"))?.position?;
    Some((position.epoch.to_string(), position.offset))
}

#[tokio::test]
async fn a_promoted_replica_that_lacks_the_tail_gives_all_nodes_one_new_epoch() {
    let mut watched = Watched::start();
    let (one, two) = (watched.node(), watched.node());
    let (mut on_one, mut on_two) = (one.watch("room").await, two.watch("room").await);
    publish(&one, 1..=3).await;
    watched.cut_replication("room", 3).await;
    publish(&two, 4..=6).await;
    tokio::join!(read(&mut on_one, 1..=6), read(&mut on_two, 1..=6));
    let before = position(&one).unwrap();
    assert_eq!(Some(&before), position(&two).as_ref());
    watched.fail_over();
    // Without a publication: the nodes find it by themselves.
    for view in [&mut on_one, &mut on_two] {
        assert_eq!(view.next().await.event, GAP);
    }
    let after = position(&one).unwrap();
    assert_ne!(after.0, before.0);
    assert_eq!((after.1, Some(&after)), (0, position(&two).as_ref()));
    publish(&one, 7..=7).await;
    tokio::join!(read(&mut on_one, 7..=7), read(&mut on_two, 7..=7));
    assert_eq!(position(&two), Some((after.0, 1)));
}

/// The promoted server gives new events the offsets of lost ones before the nodes have compared.
#[tokio::test]
async fn events_with_the_offsets_of_lost_ones_are_not_taken_for_them() {
    let mut watched = Watched::start();
    let (one, two) = (watched.node(), watched.node());
    let (mut on_one, mut on_two) = (one.watch("room").await, two.watch("room").await);
    publish(&one, 1..=3).await;
    watched.cut_replication("room", 3).await;
    publish(&one, 4..=6).await;
    tokio::join!(read(&mut on_one, 1..=6), read(&mut on_two, 1..=6));
    let early = Node::start_at(watched.replica.endpoint());
    let mut on_early = early.watch("room").await;
    publish(&early, 14..=18).await;
    read(&mut on_early, 14..=18).await;
    watched.fail_over();
    assert_eq!((on_one.next().await.event, on_two.next().await.event), (GAP.into(), GAP.into()));
    publish(&two, 19..=19).await;
    for view in [&mut on_one, &mut on_two, &mut on_early] {
        let seen = read_until(view, 19).await;
        assert!(seen.iter().all(|data| ["gap", "19"].contains(&data.as_str())), "{seen:?}");
    }
    assert_eq!(position(&one), position(&two));
    assert_eq!(position(&one), position(&early));
}

#[tokio::test]
async fn a_promoted_replica_with_all_events_is_no_gap_for_subscribers() {
    let mut watched = Watched::start();
    let (one, two) = (watched.node(), watched.node());
    let (mut on_one, mut on_two) = (one.watch("room").await, two.watch("room").await);
    publish(&one, 1..=3).await;
    tokio::join!(read(&mut on_one, 1..=3), read(&mut on_two, 1..=3));
    let before = position(&one).unwrap();
    watched.cut_replication("room", 3).await;
    watched.fail_over();
    loop_until(async || (one.totals().disconnects > 0).then_some(())).await;
    publish(&two, 4..=6).await;
    tokio::join!(read(&mut on_one, 4..=6), read(&mut on_two, 4..=6));
    let after = position(&one).unwrap();
    assert_eq!((after.1, Some(&after)), (3, position(&two).as_ref()));
    assert_ne!(after.0, before.0, "another server began another epoch");
}

/// Events that Redis had before it restarted, and that had not arrived at a node yet.
#[tokio::test]
async fn a_node_that_lacks_the_last_events_before_a_takeover_still_receives_them() {
    let redis = RedisServer::start();
    let node = Node::start(redis.port);
    let mut view = node.watch("room").await;
    publish(&node, 1..=1).await;
    read(&mut view, 1..=1).await;
    // Another node's event, whose message was lost, and then a new term.
    let script = "
        local channel = redis.call('KEYS', '*:channel:1:room')[1]
        local stem = string.match(channel, '^(.*):channel:1:')
        local epoch = redis.call('HGET', channel, 'epoch')
        redis.call('HSET', channel, 'offset', 2)
        local record = epoch .. ' 2 4000000000000\\n[\"1\",\"room\",\"e\",\"2\",null]'
        redis.call('XADD', stem .. ':events:1:room', '2-0', 'r', record)
        redis.call('INCR', stem .. ':sequence')
        redis.call('HSET', stem .. ':fence', 'term', 'later')";
    redis.run(&["EVAL", script, "0"]);
    publish(&node, 3..=4).await;
    read(&mut view, 2..=4).await;
}
