//! Nodes that share a Redis Cluster.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weir_realtime::pusher::server_message::GAP;
use weir_realtime::shared_log::{AppendError, SharedCounts, SharedLog as _};
use weir_realtime_redis::{acl_line, check_server, cluster_acl_words};
use weir_redis::RedisEndpoint;
use weir_redis::slots::slot_of;

use crate::authority::Authority;
use crate::client::Client;
use crate::redis_cluster::{ClusterOptions, RedisCluster};
use crate::redis_server::RedisServer;
use crate::rig::{Node, Viewer, client_event, key, loop_until, settings};

/// Channels, which are on all masters.
const CHANNELS: [&str; 8] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"];
const PASSWORD: &str = "hunter2";

/// Returns a key of a channel, whose slot has the whole partition.
pub(crate) fn key_of(cluster: &RedisCluster, channel: &str) -> (String, usize) {
    let name = format!(":channel:1:{channel}");
    let find = |place| cluster.keys_of(place).into_iter().find(|key| key.ends_with(&name));
    let found = (0..3).find_map(|place| find(place).map(|key| (key, place)));
    found.expect("the channel exists")
}

async fn watch_all(node: &Node) -> Vec<Viewer> {
    let mut views = Vec::new();
    for channel in CHANNELS {
        views.push(node.watch(channel).await);
    }
    views
}

/// Reads events up to this one without a gap.
async fn read_all(views: &mut [Viewer], numbers: std::ops::Range<u64>) {
    for view in views {
        for number in numbers.clone() {
            assert_eq!(view.next_data().await, number.to_string());
        }
    }
}

#[tokio::test]
async fn events_of_all_slots_reach_all_nodes_in_one_order() {
    let cluster = RedisCluster::start();
    let (one, two) = (Node::start_at(cluster.endpoint()), Node::start_at(cluster.endpoint()));
    let (mut on_one, mut on_two) = (watch_all(&one).await, watch_all(&two).await);
    for number in 0..20 {
        let node = if number % 2 == 0 { &one } else { &two };
        // Of several slots: some may be published without the others, and are repeated then.
        node.publish_all(&CHANNELS, number).await;
    }
    read_all(&mut on_one, 0..20).await;
    read_all(&mut on_two, 0..20).await;
    for place in 0..3 {
        assert!(!cluster.keys_of(place).is_empty(), "each master has a part");
    }
    one.log.broadcast(client_event("c3", "c"));
    assert_eq!(on_two[3].next().await.data, "c");
    one.log.terminate("1".into(), "7".into()).await.unwrap();
    loop_until(async || (two.totals().terminations == 1).then_some(())).await;
    assert_eq!((one.totals().holes, one.totals().disconnects), (0, 0));
}

/// Every step of counts, members, webhooks and switches uses keys of one slot only.
#[tokio::test]
async fn subscriptions_members_and_switches_are_those_of_all_nodes() {
    let cluster = RedisCluster::start();
    let (one, two) = (Node::start_at(cluster.endpoint()), Node::start_at(cluster.endpoint()));
    for node in [&one, &two] {
        node.publish("c0", 0).await;
    }
    let clients = [&one, &two].map(Client::connect);
    for client in &clients {
        for channel in CHANNELS {
            client.subscribe(channel).await;
        }
    }
    clients[0].join("presence-room", "ada", &json!({})).await;
    clients[1].join("presence-room", "bob", &json!({})).await;
    let list = async |node: &Node| node.log.channels("1".into(), "".into(), true).await.unwrap();
    let expected = |subscriptions| {
        let all = CHANNELS.into_iter().chain(["presence-room"]);
        let counts = |name: &str| SharedCounts {
            subscriptions,
            users: if name == "presence-room" { subscriptions } else { 0 },
        };
        all.map(|name| (name.to_owned(), counts(name))).collect::<Vec<_>>()
    };
    loop_until(async || (list(&two).await == expected(2)).then_some(())).await;
    one.switches.turn_off("typing*".parse().unwrap(), None).unwrap();
    loop_until(async || (two.switches.all_off().len() == 1).then_some(())).await;
    one.stop().await;
    loop_until(async || (list(&two).await == expected(1)).then_some(())).await;
    loop_until(async || {
        let page = two.hub.members("1", "presence-room", None, 9)?;
        (page.total == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn slots_that_move_while_events_are_published_lose_nothing() {
    let cluster = Arc::new(RedisCluster::start());
    let (one, two) = (Node::start_at(cluster.endpoint()), Node::start_at(cluster.endpoint()));
    let (mut on_one, mut on_two) = (watch_all(&one).await, watch_all(&two).await);
    one.publish_all(&CHANNELS, 0).await;
    let publishing = async {
        for number in 1..150 {
            let node = if number % 2 == 0 { &one } else { &two };
            for channel in CHANNELS {
                node.publish(channel, number).await;
            }
        }
    };
    let moving = async {
        for channel in CHANNELS.into_iter().take(4) {
            let moving = Arc::clone(&cluster);
            let moved = tokio::task::spawn_blocking(move || {
                let (key, from) = key_of(&moving, channel);
                moving.move_slot(&key, from, (from + 1) % 3);
            });
            moved.await.unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::join!(publishing, moving);
    // The last events of their channels: no later ones show that they are missing.
    read_all(&mut on_one, 0..150).await;
    read_all(&mut on_two, 0..150).await;
    for channel in &CHANNELS[..4] {
        let (key, place) = key_of(&cluster, channel);
        assert_ne!(place, RedisCluster::first_owner_of(slot_of(key.as_bytes())), "it moved");
    }
}

/// Redis rejects steps with several keys of a slot that is being moved, for as long as that takes.
#[tokio::test]
async fn a_slot_that_is_being_moved_for_long_concerns_only_its_own_channels() {
    const ROOM: &str = "presence-room";
    let cluster = RedisCluster::start();
    let (one, two) = (Node::start_at(cluster.endpoint()), Node::start_at(cluster.endpoint()));
    one.publish(ROOM, 0).await;
    let (key, from) = key_of(&cluster, ROOM);
    let (mut in_room, mut on_two) = (two.watch(ROOM).await, watch_all(&two).await);
    let bob = Client::connect(&two);
    bob.join(ROOM, "bob", &json!({})).await;
    let to = (from + 1) % 3;
    cluster.begin_move(&key, from, to);
    let ada = Client::connect(&one);
    ada.join(ROOM, "ada", &json!({})).await;
    let target = one.totals().heartbeats + 4;
    let mut number = 0;
    while one.totals().heartbeats < target {
        let moving = one.try_append_all(&[ROOM], 1).await;
        assert_eq!(moving, Err(AppendError::Moving));
        for channel in CHANNELS {
            one.publish(channel, number).await;
        }
        number += 1;
    }
    read_all(&mut on_two, 0..number).await;
    assert_eq!([&one, &two].map(|node| node.totals().disconnects), [0, 0]);
    cluster.end_move(&key, from, to);
    one.publish(ROOM, 1).await;
    // Between changes of members.
    while in_room.next().await.data != "1" {}
    assert_eq!(bob.event("pusher_internal:member_added").await["user_id"], "ada");
    loop_until(async || {
        let counts = two.log.counts(vec![crate::rig::key(ROOM)]).await.ok()?;
        (counts[0] == SharedCounts { subscriptions: 2, users: 2 }).then_some(())
    })
    .await;
    assert_eq!([&one, &two].map(|node| node.totals().disconnects), [0, 0]);
}

/// Returns two channels of one slot, a key of it, and the master that has it.
async fn two_channels_of_one_slot(
    cluster: &RedisCluster,
    node: &Node,
) -> ([String; 2], String, usize) {
    let mut by_slot = HashMap::new();
    for number in 0_u32.. {
        let channel = format!("pair-{number}");
        node.publish(&channel, 0).await;
        let (key, place) = key_of(cluster, &channel);
        if let Some(other) = by_slot.insert(slot_of(key.as_bytes()), channel.clone()) {
            return ([other, channel], key, place);
        }
    }
    unreachable!("there are fewer slots with channels than names")
}

#[tokio::test]
async fn a_transaction_for_a_slot_that_has_just_moved_is_sent_to_its_new_owner() {
    let cluster = RedisCluster::start();
    let node = Node::start_at(cluster.endpoint());
    let (channels, key, from) = two_channels_of_one_slot(&cluster, &node).await;
    let mut views = [node.watch(&channels[0]).await, node.watch(&channels[1]).await];
    // Blocking: the node does not learn of the move before it publishes.
    cluster.move_slot(&key, from, (from + 1) % 3);
    let both = channels.each_ref().map(String::as_str);
    node.try_append_all(&both, 1).await.expect("appended at once");
    for view in &mut views {
        assert_eq!(view.next_data().await, "1");
    }
    assert_eq!(node.totals().disconnects, 0);
}

#[tokio::test]
async fn a_node_that_was_removed_from_the_cluster_does_not_hide_the_others() {
    let cluster = RedisCluster::start();
    let node = Node::start_at(cluster.endpoint());
    node.publish_all(&CHANNELS, 0).await;
    cluster.isolate_first();
    cluster.masters[1].run(&["CLIENT", "KILL", "TYPE", "normal"]);
    loop_until(async || (node.totals().disconnects > 0).then_some(())).await;
    let mut views = watch_all(&node).await;
    node.publish_all(&CHANNELS, 1).await;
    read_all(&mut views, 1..2).await;
}

/// Returns how many scripts a server has not executed, because it has not their slots.
fn rejected_scripts(server: &RedisServer) -> usize {
    let stats = server.info("commandstats");
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
    let count = line.and_then(|line| line.split("rejected_calls=").nth(1)?.split(',').next());
    count.and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// A master that was restarted rejects commands for a while, and may lack the last events.
#[tokio::test]
async fn no_session_begins_without_the_term_of_a_slot_that_can_not_be_used_yet() {
    let cluster = RedisCluster::start();
    let node = Node::start_at(cluster.endpoint());
    node.publish_all(&CHANNELS, 0).await;
    let on_second = |channel: &&&str| key_of(&cluster, channel).1 == 1;
    let channel = CHANNELS.iter().find(on_second).expect("one of them");
    let (key, _) = key_of(&cluster, channel);
    let (slot, server) = (slot_of(key.as_bytes()).to_string(), &cluster.masters[1]);
    let fence = format!("{}fence", key.split("channel").next().unwrap());
    server.run(&["HSET", &fence, "server", "another"]);
    server.run(&["CONFIG", "RESETSTAT"]);
    server.run(&["CLUSTER", "DELSLOTS", &slot]);
    server.run(&["CLIENT", "KILL", "TYPE", "normal"]);
    // Until the next session has tried to begin the terms of all partitions.
    loop_until(async || (rejected_scripts(server) >= 150).then_some(())).await;
    server.run(&["CLUSTER", "ADDSLOTS", &slot]);
    node.publish(channel, 1).await;
    let found = redis::from_redis_value::<String>(server.run(&["HGET", &fence, "server"]));
    assert_ne!(found.unwrap(), "another");
}

/// Reads up to the event with this number. Returns the numbers, without those before a gap.
async fn read_until(view: &mut Viewer, last: u64) -> (Vec<u64>, usize) {
    let (mut seen, mut gaps) = (Vec::new(), 0);
    while seen.last() != Some(&last) {
        let event = view.next().await;
        match event.event == GAP {
            true => gaps += 1,
            false => seen.push(event.data.parse().unwrap()),
        }
    }
    (seen, gaps)
}

#[tokio::test]
async fn a_replica_takes_over_and_what_it_lacks_is_reported_as_a_gap() {
    let mut cluster = RedisCluster::start_with_replicas();
    // Also of the node whose address they have.
    let (one, two) = (Node::start_at(cluster.endpoint()), Node::start_at(cluster.endpoint()));
    let (mut on_one, mut on_two) = (watch_all(&one).await, watch_all(&two).await);
    for number in 0..10 {
        one.publish_all(&CHANNELS, number).await;
    }
    read_all(&mut on_one, 0..10).await;
    read_all(&mut on_two, 0..10).await;
    cluster.masters[0].kill();
    for number in 10..30 {
        let node = if number % 2 == 0 { &one } else { &two };
        node.publish_all(&CHANNELS, number).await;
    }
    for views in [&mut on_one, &mut on_two] {
        for view in views {
            let (seen, gaps) = read_until(view, 29).await;
            assert!(seen.is_sorted(), "one order: {seen:?}");
            assert!(seen.len() == 20 || gaps > 0, "no silent loss: {seen:?}");
        }
    }
    for channel in CHANNELS {
        let position = |node: &Node| node.hub.held_channel(&key(channel)).unwrap().position;
        assert_eq!(position(&one), position(&two));
    }
}

#[tokio::test]
async fn a_cluster_is_reached_with_tls_and_client_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::write(folder.path());
    let arguments = authority.arguments();
    let options = ClusterOptions { has_tls: true, arguments, ..ClusterOptions::default() };
    let cluster = RedisCluster::start_with(&options);
    let endpoint = RedisEndpoint { tls: authority.client_files(), ..cluster.tls_endpoint() };
    let (one, two) = (Node::start_at(endpoint.clone()), Node::start_at(endpoint));
    let mut views = watch_all(&two).await;
    one.publish_all(&CHANNELS, 0).await;
    read_all(&mut views, 0..1).await;
}

fn grant<'w>(server: &RedisServer, words: impl Iterator<Item = &'w String>) {
    let password = format!(">{PASSWORD}");
    let start = ["ACL", "SETUSER", "weir", "reset", "on", &password];
    let words: Vec<&str> = words.map(String::as_str).collect();
    server.run(&[&start[..], &words].concat());
}

#[tokio::test]
async fn the_acl_line_suffices_for_a_cluster_and_no_word_can_be_left_out() {
    let cluster = RedisCluster::start();
    let url = format!("redis://weir@127.0.0.1:{}", cluster.masters[0].port);
    let password = Some(weir_base::secret::Secret::new(PASSWORD));
    let endpoint = RedisEndpoint { password, ..RedisEndpoint::parse(&url).unwrap() };
    let plain = acl_line(&endpoint, &settings());
    let words = |line: &str| -> Vec<String> {
        let line = line.strip_prefix("ACL SETUSER weir ").unwrap();
        line.split(' ').map(str::to_owned).collect()
    };
    let mut all = words(&plain);
    all.extend(cluster_acl_words().split(' ').map(str::to_owned));
    cluster.masters.iter().for_each(|server| grant(server, all.iter()));
    let found = check_server(&endpoint, &settings()).await;
    assert_eq!((found.problem, found.is_mode_known), (None, true));
    let mut printed = words(&found.acl_line);
    printed.sort();
    all.sort();
    assert_eq!(printed, all, "weir check prints both");
    let (one, two) = (Node::start_at(endpoint.clone()), Node::start_at(endpoint.clone()));
    let mut views = watch_all(&two).await;
    one.publish_all(&CHANNELS, 0).await;
    read_all(&mut views, 0..1).await;
    let (key, from) = key_of(&cluster, "c0");
    cluster.move_slot(&key, from, (from + 1) % 3);
    one.publish_all(&CHANNELS, 1).await;
    read_all(&mut views, 1..2).await;
    drop((one, two));
    for word in &all {
        // One node is enough: each has its own users.
        grant(&cluster.masters[1], all.iter().filter(|it| *it != word));
        let error = check_server(&endpoint, &settings()).await.problem;
        let error = error.unwrap_or_else(|| panic!("{word} is not needed"));
        let named = format!("its user weir lacks permissions: {word}; to grant");
        assert!(error.contains(&named), "without {word}: {error}");
    }
}

#[tokio::test]
async fn a_cluster_that_lacks_slots_is_named() {
    let server = RedisServer::start_with(&["--cluster-enabled", "yes"]);
    let error = check_server(&server.endpoint(), &settings()).await.problem.expect("a problem");
    assert!(error.contains("a Redis Cluster in which no node has the slot"), "{error}");
}
