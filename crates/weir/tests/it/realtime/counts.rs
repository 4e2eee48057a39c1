//! Subscriptions, and webhooks about them, of two Weirs that share a broker in Redis.

use std::collections::HashSet;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::SECRET;
use super::api;
use super::client::Socket;
use super::nodes::{node, node_with, redis};
use super::webhook::Receiver;
use crate::doctor::redis_server::RedisServer;
use crate::process::wait_until;
use crate::weir::Weir;

const ROOM: &str = "presence-room";

fn subscriber(weir: &Weir, channel: &str) -> Socket {
    let mut socket = Socket::connect(weir.front(), "demo-key");
    socket.subscribe(channel);
    socket
}

/// A node that sends webhooks to `receiver`.
fn hooked_node(redis: &RedisServer, receiver: &Receiver) -> Weir {
    let hook = format!(
        "[[realtime.apps.webhooks]]\nurl = \"http://{}/hook\"\nchannel_prefix = \"presence-\"\n",
        receiver.address()
    );
    node_with(redis, &hook)
}

/// The events that a receiver gets. One that is repeated, because its node ended before it had noted the
/// response, has the same id.
struct Events<'a> {
    receiver: &'a Receiver,
    ids: HashSet<String>,
}

impl<'a> Events<'a> {
    fn of(receiver: &'a Receiver) -> Self {
        Self { receiver, ids: HashSet::new() }
    }

    /// Returns the next events without repeated ones: names and users, sorted.
    fn next(&mut self, count: usize) -> Vec<(String, String)> {
        let mut found = Vec::new();
        while found.len() < count {
            for event in self.receiver.request().body["events"].as_array().expect("a list") {
                let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
                assert!(!text("id").is_empty() && text("channel") == ROOM, "{event}");
                if self.ids.insert(text("id")) {
                    found.push((text("name"), text("user_id")));
                }
            }
        }
        assert_eq!(found.len(), count, "{found:?}");
        found.sort();
        found
    }
}

fn event(name: &str, user: &str) -> (String, String) {
    (name.to_owned(), user.to_owned())
}

#[test]
fn the_http_api_of_any_node_counts_the_subscriptions_of_all() {
    let Some(redis) = redis() else { return };
    let (one, other) = (node(&redis), node(&redis));
    let sockets = [&one, &one, &other].map(|weir| subscriber(weir, "news"));
    let mut member = Socket::connect(other.front(), "demo-key");
    member.join(ROOM, "ada", "demo-key", SECRET);
    let _sport = subscriber(&other, "sport");
    let news = |count: usize| json!({"subscription_count": count});
    let channels = || api(&one).get("channels", "info=subscription_count")["channels"].clone();
    let expected = json!({"news": news(3), (ROOM): news(1), "sport": news(1)});
    wait_until("all are counted", || channels() == expected);
    for weir in [&one, &other] {
        let channel = api(weir).get("channels/news", "info=subscription_count");
        assert_eq!(channel, json!({"occupied": true, "subscription_count": 3}));
        let found = api(weir).get("channels", "filter_by_prefix=presence-&info=user_count");
        assert_eq!(found, json!({"channels": {(ROOM): {"user_count": 1}}}));
    }
    let body = json!({"name": "e", "channels": ["news", "none"], "data": "1", "info": "subscription_count"});
    let (_, published) = api(&one).post("events", &body);
    let published: Value = serde_json::from_str(&published).expect("JSON");
    assert_eq!(published["channels"], json!({"news": news(3), "none": news(0)}));
    drop(sockets);
    wait_until("the channel is vacated", || {
        api(&other).get("channels/news", "info=user_count") == json!({"occupied": false})
    });
    assert!(one.stop().success() && other.stop().success());
}

#[test]
fn one_node_reports_the_first_and_the_last_subscriber_of_all_nodes() {
    let Some(redis) = redis() else { return };
    let receiver = Receiver::start();
    let mut events = Events::of(&receiver);
    let (one, other) = (hooked_node(&redis, &receiver), hooked_node(&redis, &receiver));
    let join = |weir: &Weir, user: &str| {
        let mut socket = Socket::connect(weir.front(), "demo-key");
        socket.join(ROOM, user, "demo-key", SECRET);
        socket
    };
    let ada = join(&one, "ada");
    assert_eq!(events.next(2), [event("channel_occupied", ""), event("member_added", "ada")]);
    let bob = join(&other, "bob");
    assert_eq!(events.next(1), [event("member_added", "bob")]);
    // The user moves to the other node: neither leaves nor joins.
    drop(ada);
    let ada = join(&other, "ada");
    let cy = join(&one, "cy");
    assert_eq!(events.next(1), [event("member_added", "cy")]);
    // A node that ended is reported by the other one.
    for pid in [one.pid(), one.service()] {
        kill_process(pid, Signal::KILL).expect("killed");
    }
    drop((ada, cy));
    assert_eq!(events.next(2), [event("member_removed", "ada"), event("member_removed", "cy")]);
    drop(bob);
    assert_eq!(events.next(2), [event("channel_vacated", ""), event("member_removed", "bob")]);
    assert!(other.stop().success());
    let names: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut redis.client()).expect("keys");
    let kinds = ["hooks-of", "leaving", "counts-of", "occupied", "members-of"];
    assert!(!names.iter().any(|name| kinds.iter().any(|kind| name.contains(kind))), "{names:?}");
}
