//! Presence channels of two Weirs that share a broker in Redis.

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::client::Socket;
use super::nodes::{node, publish, redis};
use super::{SECRET, TOKEN, api};
use crate::http::get;
use crate::process::wait_until;
use crate::weir::Weir;

const ROOM: &str = "presence-room";
const ADDED: &str = "pusher_internal:member_added";
const REMOVED: &str = "pusher_internal:member_removed";

/// A client of a node, and the members that it received.
fn join(weir: &Weir, user: &str) -> (Socket, Vec<String>) {
    let mut socket = Socket::connect(weir.front(), "demo-key");
    let members = socket.join(ROOM, user, "demo-key", SECRET);
    (socket, members)
}

/// Returns the name of the next event, and its user or data. Skips reports of lost events.
fn next(socket: &mut Socket) -> (String, String) {
    let events = std::iter::repeat_with(|| socket.next().expect("the connection stays open"));
    let event = { events }.find(|event| event["event"] != "weir:gap").expect("without end");
    let data = event["data"].as_str().expect("text").to_owned();
    let parsed: Value = serde_json::from_str(&data).unwrap_or_default();
    let user = parsed["user_id"].as_str().map(str::to_owned);
    (event["event"].as_str().expect("a name").to_owned(), user.unwrap_or(data))
}

fn event(name: &str, user: &str) -> (String, String) {
    (name.to_owned(), user.to_owned())
}

/// Returns the users as the HTTP API lists them.
fn users(weir: &Weir) -> Vec<String> {
    let list = api(weir).get(&format!("channels/{ROOM}/users"), "info=user_count");
    let users = list["users"].as_array().expect("a list").iter();
    let mut users: Vec<String> =
        users.map(|user| user["id"].as_str().expect("an id").to_owned()).collect();
    users.sort();
    users
}

fn wait_for_users(weir: &Weir, expected: &[&str]) {
    wait_until("the members are those", || users(weir) == expected);
}

#[test]
fn members_of_all_nodes_are_one_list_and_are_added_and_removed_once() {
    let Some(redis) = redis() else { return };
    let (one, other) = (node(&redis), node(&redis));
    let (mut ada, members) = join(&one, "ada");
    assert_eq!(members, ["ada"]);
    wait_for_users(&other, &["ada"]);
    let (mut bob, members) = join(&other, "bob");
    assert_eq!(members, ["ada", "bob"]);
    assert_eq!(next(&mut ada), event(ADDED, "bob"));
    // One user with connections to both nodes.
    let (mut bob_again, members) = join(&one, "bob");
    assert_eq!(members, ["ada", "bob"]);
    bob.leave(ROOM);
    drop(bob);
    let (cy, _) = join(&other, "cy");
    assert_eq!(next(&mut ada), event(ADDED, "cy"), "bob is still there");
    assert_eq!(next(&mut bob_again), event(ADDED, "cy"));
    // The other node may still be reading the members of this one.
    wait_for_users(&other, &["ada", "bob", "cy"]);
    let count = api(&other).get(&format!("channels/{ROOM}"), "info=user_count");
    assert_eq!((&count["user_count"], &count["occupied"]), (&json!(3), &json!(true)));
    drop(bob_again);
    assert_eq!(next(&mut ada), event(REMOVED, "bob"));
    drop(cy);
    assert_eq!(next(&mut ada), event(REMOVED, "cy"));
    wait_for_users(&other, &["ada"]);
    publish(&one, ROOM, "end");
    assert_eq!(next(&mut ada), event("e", "end"));
    assert!(one.stop().success() && other.stop().success());
    let names: Vec<String> =
        redis::cmd("KEYS").arg("*presence-room").query(&mut redis.client()).expect("keys");
    let kinds = ["version", "users", "nodes", "members-of"];
    assert!(!names.iter().any(|name| kinds.iter().any(|kind| name.contains(kind))), "{names:?}");
}

#[test]
fn members_of_a_killed_node_are_removed_once_by_the_others() {
    let Some(redis) = redis() else { return };
    let nodes = [node(&redis), node(&redis), node(&redis)];
    let (mut ada, _) = join(&nodes[0], "ada");
    wait_for_users(&nodes[1], &["ada"]);
    let (mut bob, _) = join(&nodes[1], "bob");
    assert_eq!(next(&mut ada), event(ADDED, "bob"));
    let _lost = ["cy", "ada", "dan"].map(|user| join(&nodes[2], user).0);
    for socket in [&mut ada, &mut bob] {
        let mut added = [next(socket), next(socket)];
        added.sort();
        assert_eq!(added, [event(ADDED, "cy"), event(ADDED, "dan")]);
    }
    for pid in [nodes[2].pid(), nodes[2].service()] {
        kill_process(pid, Signal::KILL).expect("killed");
    }
    for socket in [&mut ada, &mut bob] {
        let mut removed = [next(socket), next(socket)];
        removed.sort();
        assert_eq!(removed, [event(REMOVED, "cy"), event(REMOVED, "dan")]);
    }
    wait_for_users(&nodes[0], &["ada", "bob"]);
    publish(&nodes[0], ROOM, "end");
    for socket in [&mut ada, &mut bob] {
        assert_eq!(next(socket), event("e", "end"), "each was removed once");
    }
    let [one, other, _] = nodes;
    assert!(one.stop().success() && other.stop().success());
}

/// Until the nodes have stored them again, under new leases.
#[test]
fn members_stay_if_redis_is_emptied_or_away() {
    let Some(mut redis) = redis() else { return };
    let (one, other) = (node(&redis), node(&redis));
    let (mut ada, _) = join(&one, "ada");
    wait_for_users(&other, &["ada"]);
    let (mut bob, _) = join(&other, "bob");
    assert_eq!(next(&mut ada), event(ADDED, "bob"));
    redis.run(&[&["FLUSHALL"]]);
    wait_until("both nodes store their members again", || {
        let count = redis::cmd("EVAL")
            .arg(
                "local keys = redis.call('KEYS', '*:users:1:presence-room') \
                  return keys[1] and redis.call('HLEN', keys[1]) or 0",
            )
            .arg(0)
            .query::<u64>(&mut redis.client());
        count == Ok(2)
    });
    redis.kill();
    let (_cy, members) = join(&one, "cy");
    assert_eq!(members, ["ada", "bob", "cy"], "this node knows them");
    redis.start_again();
    assert_eq!(next(&mut bob), event(ADDED, "cy"));
    assert_eq!(next(&mut ada), event(ADDED, "cy"));
    wait_for_users(&other, &["ada", "bob", "cy"]);
    wait_until("only the new leases are left", || {
        let token = format!("Authorization: Bearer {TOKEN}\r\n");
        let metrics = get(other.console(), "/metrics", &token).1;
        let is_two =
            |line: &str| line.starts_with("weir_realtime_redis_nodes{") && line.ends_with(" 2");
        metrics.lines().any(is_two)
    });
    wait_until("events are published", || publish(&one, ROOM, "end").0 == "HTTP/1.1 200 OK");
    for socket in [&mut ada, &mut bob] {
        let last = std::iter::repeat_with(|| next(socket)).find(|(name, _)| {
            assert!(name != ADDED && name != REMOVED, "{name}");
            name == "e"
        });
        assert_eq!(last, Some(event("e", "end")));
    }
    assert!(one.stop().success() && other.stop().success());
}
