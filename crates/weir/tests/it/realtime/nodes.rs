//! Two Weirs that share a realtime broker in one Redis.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::client::{Api, Socket};
use super::{BASE, SECRET, TOKEN, admin, api, app, start};
use crate::alert_rules::assert_metrics_exist;
use crate::doctor::redis_server::RedisServer;
use crate::http::get;
use crate::process::{TEST_TIMEOUT, wait_until};
use crate::weir::{Site, Weir};

const RULES: &str = include_str!("../../../../../deploy/prometheus/weir-realtime.rules.yml");
/// Events that each node publishes.
const EVENTS: u64 = 100;

/// A Redis that keeps what it has acknowledged.
pub(super) fn redis() -> Option<RedisServer> {
    RedisServer::start_with(|_, _| {
        ["--appendonly", "yes", "--appendfsync", "always"].map(str::to_owned).to_vec()
    })
}

pub(super) fn node(redis: &RedisServer) -> Weir {
    node_with(redis, "")
}

/// Starts a node with more settings of its app.
pub(super) fn node_with(redis: &RedisServer, of_app: &str) -> Weir {
    let broker =
        format!("broker = {{ redis = [{{ url = \"redis://127.0.0.1:{}\" }}] }}", redis.port);
    let app = app("1", "demo-key");
    let app = format!("{app}client_events = true\n{of_app}");
    let weir = start(&format!("{BASE}[realtime]\n{broker}\n{app}"));
    wait_until("the node is connected", || publish(&weir, "first", "0").0 == "HTTP/1.1 200 OK");
    weir
}

pub(super) fn publish(weir: &Weir, channel: &str, data: &str) -> (String, String) {
    publish_with(&api(weir), channel, data)
}

/// Publishes an event whose data is also its idempotency key.
fn publish_with(api: &Api<'_>, channel: &str, data: &str) -> (String, String) {
    let body = json!({"name": "e", "channel": channel, "data": data, "idempotency_key": data});
    api.post("events", &body)
}

fn subscriber(weir: &Weir) -> Socket {
    let mut socket = Socket::connect(weir.front(), "demo-key");
    socket.subscribe("news");
    socket
}

/// Returns the epoch, the offset and the data of the next event.
fn next(socket: &mut Socket) -> (Value, u64, Value) {
    let event = socket.next().expect("the connection stays open");
    assert_eq!(event["event"], "e", "{event}");
    (event["epoch"].clone(), event["offset"].as_u64().expect("an offset"), event["data"].clone())
}

#[test]
fn events_of_both_nodes_reach_the_subscribers_of_both_in_one_order() {
    let Some(redis) = redis() else { return };
    let (one, other) = (node(&redis), node(&redis));
    let mut sockets = [&one, &one, &other, &other].map(subscriber);
    std::thread::scope(|scope| {
        for (name, api) in [("one", api(&one)), ("other", api(&other))] {
            scope.spawn(move || {
                for number in 0..EVENTS {
                    let data = format!("{name}-{number}");
                    let (status, body) = publish_with(&api, "news", &data);
                    assert_eq!(status, "HTTP/1.1 200 OK", "{body}");
                }
            });
        }
    });
    for offset in 1..=2 * EVENTS {
        let seen = sockets.each_mut().map(next);
        assert_eq!(seen[0].1, offset);
        assert!(seen.iter().all(|event| *event == seen[0]), "{seen:?}");
    }
    let events = admin(&other, "/v1/realtime/channel?app=1&name=news");
    assert_eq!(events["offset"], 2 * EVENTS);
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_metrics_exist(RULES, "weir_realtime_", 2, &get(other.console(), "/metrics", &token).1);
    assert!(one.stop().success() && other.stop().success());
}

#[test]
fn events_of_clients_reach_the_clients_of_both_nodes_but_not_their_sender() {
    let Some(redis) = redis() else { return };
    let (one, other) = (node(&redis), node(&redis));
    let mut sockets = [&one, &one, &other].map(|weir| {
        let mut socket = Socket::connect(weir.front(), "demo-key");
        socket.subscribe_privately("private-room", "demo-key", SECRET);
        socket
    });
    sockets[0].send_client_event("private-room", "client-typing", "yes");
    publish(&one, "private-room", "end");
    for socket in &mut sockets[1..] {
        let event = socket.event("client-typing");
        assert_eq!((&event["data"], &event["offset"]), (&json!("yes"), &Value::Null));
    }
    assert_eq!(next(&mut sockets[0]).2, "end", "the sender receives only this");
    assert!(one.stop().success() && other.stop().success());
}

#[test]
fn a_users_connections_to_all_nodes_are_closed_through_any_of_them() {
    let Some(redis) = redis() else { return };
    let (one, other) = (node(&redis), node(&redis));
    let mut sockets = [(&one, "7"), (&other, "7"), (&other, "8")].map(|(weir, user)| {
        let mut socket = subscriber(weir);
        socket.sign_in(user, "demo-key", SECRET);
        socket
    });
    let (status, body) = api(&one).post("users/7/terminate_connections", &json!({}));
    assert_eq!((&*status, &*body), ("HTTP/1.1 200 OK", "{}"));
    for socket in &mut sockets[..2] {
        assert_eq!(socket.close_code(), 4009);
    }
    publish(&one, "news", "end");
    assert_eq!(next(&mut sockets[2]).2, "end", "the other user stays");
    assert!(one.stop().success() && other.stop().success());
}

/// Also if the history no longer has it.
#[test]
fn the_last_event_of_a_cache_channel_is_known_to_all_nodes() {
    let Some(redis) = redis() else { return };
    let (one, other) = (node(&redis), node(&redis));
    publish(&one, "cache-news", "old");
    publish(&one, "cache-news", "new");
    let names: Vec<String> =
        redis::cmd("KEYS").arg("*:events:1:cache-news").query(&mut redis.client()).expect("keys");
    redis.run(&[&["DEL", &names[0]]]);
    let info = api(&other).get("channels/cache-news", "info=cache");
    assert_eq!(info["cache"]["data"], "new", "{info}");
    let mut socket = Socket::connect(other.front(), "demo-key");
    socket.subscribe("cache-news");
    assert_eq!(socket.event("e")["data"], "new");
    assert!(one.stop().success() && other.stop().success());
}

#[test]
fn a_client_of_a_killed_node_recovers_at_the_other() {
    let Some(redis) = redis() else { return };
    let (one, other) = (node(&redis), node(&redis));
    let mut socket = subscriber(&one);
    for data in ["1", "2", "3"] {
        publish(&one, "news", data);
    }
    let (epoch, offset, _) = (next(&mut socket), next(&mut socket)).1;
    for pid in [one.pid(), one.service()] {
        kill_process(pid, Signal::KILL).expect("killed");
    }
    for data in ["4", "5"] {
        assert_eq!(publish(&other, "news", data).0, "HTTP/1.1 200 OK");
    }
    let position = json!({"epoch": epoch, "offset": offset});
    let resumed = Socket::resume(other.front(), "demo-key", "news", Some(&position));
    let (mut socket, reply) = resumed.expect("subscribed");
    assert_eq!(reply["recovery"], json!({"outcome": "recovered", "events": 3}), "{reply}");
    publish(&other, "news", "6");
    for expected in 3..=6 {
        assert_eq!(next(&mut socket), (epoch.clone(), expected, json!(expected.to_string())));
    }
    let after = format!("after={}:2", epoch.as_str().expect("text"));
    let history = api(&other).get("channels/news/history", &after);
    assert_eq!((&history["complete"], &history["offset"]), (&json!(true), &json!(6)));
    assert_eq!(history["events"].as_array().map(Vec::len), Some(4), "{history}");
    assert!(other.stop().success());
}

#[test]
fn an_event_stream_continues_at_another_node() {
    let Some(redis) = redis() else { return };
    let (one, other) = (node(&redis), node(&redis));
    for data in ["1", "2", "3"] {
        publish(&one, "news", data);
    }
    let history = api(&other).get("channels/news/history", "limit=10");
    let epoch = history["epoch"].as_str().expect("text");
    let mut stream = TcpStream::connect(other.front()).expect("accepted");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a socket");
    let head = "GET /app/demo-key/channels/news/events HTTP/1.1\r\nHost: x\r\n";
    write!(stream, "{head}Last-Event-ID: {epoch}:1\r\n\r\n").expect("sent");
    let mut lines = BufReader::new(stream).lines().map(|line| line.expect("a line"));
    let mut next = || {
        let mut messages = lines.by_ref().filter_map(|line| {
            let text = line.strip_prefix("data: ")?;
            Some(serde_json::from_str::<Value>(text).expect("JSON"))
        });
        let event = messages.find(|message| message["event"] == "e").expect("an event");
        (event["offset"].clone(), event["data"].clone())
    };
    assert_eq!([next(), next()], [(json!(2), json!("2")), (json!(3), json!("3"))]);
    publish(&one, "news", "4");
    assert_eq!(next(), (json!(4), json!("4")));
    assert!(one.stop().success() && other.stop().success());
}

#[test]
fn an_event_stream_may_be_the_first_use_of_a_channel() {
    let Some(redis) = redis() else { return };
    let (one, other) = (node(&redis), node(&redis));
    let mut streams = [&one, &other].map(|weir| {
        let mut stream = TcpStream::connect(weir.front()).expect("accepted");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a socket");
        let head = "GET /app/demo-key/channels/fresh/events HTTP/1.1\r\nHost: x\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("sent");
        BufReader::new(stream).lines().map(|line| line.expect("a line"))
    });
    let mut read_until = |text: &str| {
        for lines in &mut streams {
            let line = lines.find(|line| line.starts_with("data: ")).expect("a message");
            assert!(line.contains(text), "{line}");
        }
    };
    read_until("subscription_succeeded");
    publish(&one, "fresh", "1");
    read_until(r#""event":"e""#);
    assert!(one.stop().success() && other.stop().success());
}

#[test]
fn publications_are_accepted_while_a_node_is_restarted() {
    let Some(redis) = redis() else { return };
    let weir = node(&redis);
    let (api, is_over) = (api(&weir), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let publishing = scope.spawn(|| {
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                let (status, body) = publish_with(&api, "news", &number.to_string());
                assert_eq!(status, "HTTP/1.1 200 OK", "{body}");
            }
        });
        for how in ["restart", "upgrade", "restart"] {
            weir.site.ok(&[how]);
        }
        is_over.store(true, Ordering::Relaxed);
        publishing.join().expect("each was accepted");
    });
    assert!(weir.stop().success());
}

#[test]
fn a_watchlist_has_the_users_of_the_other_node() {
    let Some(redis) = redis() else { return };
    let (one, other) = (node(&redis), node(&redis));
    let mut watcher = Socket::connect(one.front(), "demo-key");
    watcher.sign_in_watching("1", &["2"], "demo-key", SECRET);
    let mut watched = Socket::connect(other.front(), "demo-key");
    watched.sign_in("2", "demo-key", SECRET);
    let mut changes = || {
        let event = watcher.event("pusher_internal:watchlist_events");
        let data: Value =
            serde_json::from_str(event["data"].as_str().expect("text")).expect("JSON");
        data["events"][0].clone()
    };
    assert_eq!(changes(), json!({"name": "online", "user_ids": ["2"]}));
    drop(watched);
    assert_eq!(changes(), json!({"name": "offline", "user_ids": ["2"]}));
    assert!(one.stop().success() && other.stop().success());
}

/// Redis has them.
#[test]
fn a_node_that_stops_writes_no_histories() {
    let Some(redis) = redis() else { return };
    let node = node(&redis);
    let data = node.data_dir();
    let site = node.end();
    let names = std::fs::read_dir(&data).expect("a folder").flatten();
    let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
    assert!(!names.is_empty() && !names.contains(&"realtime-histories".into()), "{names:?}");
    drop(site);
}

#[test]
fn a_restarted_redis_loses_no_event_and_no_connection() {
    let Some(mut redis) = redis() else { return };
    let (one, other) = (node(&redis), node(&redis));
    let mut sockets = [&one, &other].map(subscriber);
    publish(&one, "news", "1");
    redis.kill();
    wait_until("publications are rejected", || {
        let (status, body) = publish(&one, "news", "2");
        status == "HTTP/1.1 503 Service Unavailable" && body.contains("does not respond")
    });
    redis.start_again();
    for (node, data) in [(&other, "2"), (&one, "3"), (&other, "4")] {
        wait_until("events are published again", || {
            publish(node, "news", data).0 == "HTTP/1.1 200 OK"
        });
    }
    for data in 1..=4 {
        let seen = sockets.each_mut().map(next);
        assert_eq!((&seen[0], &seen[0].2), (&seen[1], &json!(data.to_string())));
        // The restarted server begins an epoch of its own, which is no gap: no event was lost.
        assert_eq!(seen[0].1, if data == 1 { 1 } else { data - 1 });
    }
    assert!(one.stop().success() && other.stop().success());
}

#[test]
fn check_prints_the_permissions_and_says_whether_redis_can_be_used() {
    let Some(redis) = redis() else { return };
    let site = Site::new("");
    site.write_file("secret", SECRET.as_bytes());
    site.write(&format!(
        "[realtime]\nbroker = {{ redis = [{{ url = \"redis://weir@127.0.0.1:{}\", \
         password = {{ file = \"secret\" }} }}] }}\n\
         [[realtime.apps]]\nid = \"1\"\nkey = \"k\"\nsecret = {{ file = \"secret\" }}\n\
         [jobs]\nlisten = \"off\"\n[console]\nlisten = \"off\"\n",
        redis.port
    ));
    let line = "its user needs: ACL SETUSER weir ~weir:realtime:* &weir:realtime:* +ping";
    let printed = site.shown(&["check"]);
    assert!(printed.starts_with("exit: 1\n") && printed.contains(line), "{printed}");
    assert!(printed.contains("problem: realtime.broker: Redis 127.0.0.1:"), "{printed}");
    assert!(printed.contains("rejects that user") && !printed.contains(SECRET), "{printed}");
    let report = site.run(&["check", "--offline", "--json"]).stdout;
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let line = report["realtime_broker"][0]["acl_line"].as_str().expect("a line");
    let (mut words, password) = (line.split(' ').collect::<Vec<_>>(), format!(">{SECRET}"));
    words.splice(3..3, ["on", &password]);
    redis.run(&[&words]);
    let printed = site.shown(&["check"]);
    assert!(printed.starts_with("exit: 0\n") && !printed.contains("problem"), "{printed}");
    redis.run(&[&["ACL", "SETUSER", "weir", "-spublish"]]);
    let printed = site.shown(&["check"]);
    assert!(printed.contains("lacks permissions: +spublish;"), "{printed}");
}
