//! Coming and going.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::json;
use tungstenite::Message;
use weir_base::clock::{Clock, Timestamp};
use weir_net::client::ClientLimits;

use super::client::{Client, sign};
use super::*;

#[test]
fn a_connection_gets_its_socket_id_and_activity_timeout() {
    let server = Server::start();
    let mut ids = HashSet::new();
    let mut timeouts = HashSet::new();
    for _ in 0..20 {
        let mut client = server.open("protocol=7&client=js&version=8.6");
        let event = client.event();
        assert_eq!(event.name, "pusher:connection_established");
        let timeout = event.data["activity_timeout"].as_u64().unwrap();
        assert!((108..=132).contains(&timeout), "{timeout}");
        timeouts.insert(timeout);
        ids.insert(event.data["socket_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids.len(), 20);
    assert!(timeouts.len() > 1, "those who come together are not to ping together");
}

#[test]
fn older_protocol_versions_are_served() {
    let server = Server::start();
    // Java's library, pysher, pusher-js.
    for version in [5, 6, 7] {
        server.open(&format!("protocol={version}")).expect_established();
    }
}

#[test]
fn a_rejected_connection_gets_a_close_code_over_the_websocket() {
    let server = Server::with(|_, app| app.connections_max = 1);
    for (target, code) in [
        ("/app/unknown?protocol=7", 4001),
        ("/app/demo-key", 4008),
        ("/app/demo-key?protocol=4", 4007),
        ("/app/demo-key?protocol=8", 4007),
        ("/app/demo-key?protocol=x", 4006),
        ("/app/?protocol=7", 4005),
    ] {
        let mut client = Client::open(server.address, target);
        let error = client.event();
        assert_eq!((error.name.as_str(), &error.data["code"]), ("pusher:error", &json!(code)));
        assert_eq!(client.read_close().unwrap().0, code, "{target}");
    }
    let first = server.connect();
    assert_eq!(server.open("protocol=7").read_close().unwrap().0, 4004);
    drop(first);
}

#[test]
fn a_browser_of_another_origin_is_rejected() {
    let server = Server::with(|_, app| app.origins = vec!["https://example.org".parse().unwrap()]);
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                   sec-websocket-key: AQIDBAUGBwgJCgsMDQ4PEA==\r\norigin: https://evil.net\r\n";
    let target = "/app/demo-key?protocol=7";
    let (status, text) = http(server.address, "GET", target, upgrade, "");
    assert_eq!(status, 403, "{text}");
}

#[test]
fn protocol_and_websocket_pings_are_answered() {
    let server = Server::start();
    let mut client = server.connect();
    client.socket.send(Message::Ping(b"12"[..].into())).unwrap();
    assert_eq!(client.socket.read().unwrap(), Message::Pong(b"12"[..].into()));
    client.send_event("pusher:ping", &json!({}));
    assert_eq!(client.event().name, "pusher:pong");
}

#[test]
fn a_client_close_is_answered_with_its_code() {
    let server = Server::start();
    let mut client = server.connect();
    client.socket.close(None).unwrap();
    assert_eq!(client.read_close(), None);
    let mut client = server.connect();
    let frame = tungstenite::protocol::CloseFrame { code: 4321.into(), reason: "bye".into() };
    client.socket.close(Some(frame)).unwrap();
    assert_eq!(client.read_close(), Some((4321, "bye".to_owned())));
}

#[test]
fn invalid_messages_are_answered_and_keep_the_connection() {
    let server = Server::start();
    let mut client = server.connect();
    for text in ["", "{", "[]", r#"{"event":"pusher:nonsense"}"#, r#"{"event":"client-x"}"#] {
        client.socket.send(Message::text(text)).unwrap();
        let error = client.event();
        assert_eq!(error.name, "pusher:error", "{text}");
        assert!(error.data["code"].is_null(), "a code would end some clients");
    }
    client.socket.send(Message::Binary(b"\xff"[..].into())).unwrap();
    assert_eq!(client.event().name, "pusher:error");
    client.flush();
}

#[test]
fn broken_frames_close_the_connection_with_their_code() {
    use std::io::Write;
    let server = Server::start();
    for (bytes, code) in [
        (&b"\x81\x02hi"[..], 1002),
        (b"\xc1\x80\0\0\0\0", 1002),
        (b"\x81\x82\0\0\0\0\xff\xff", 1007),
        (b"\x81\xff\0\0\0\0\0\x10\0\0\0\0\0\0", 1009),
    ] {
        let mut client = server.connect();
        client.socket.get_mut().write_all(bytes).unwrap();
        assert_eq!(client.read_close().unwrap().0, code);
    }
}

/// Waits until the server has gone round once more.
fn skip_until(condition: impl Fn() -> bool) {
    let deadline = Clock::system().now() + TIMEOUT;
    while !condition() {
        assert!(Clock::system().now() < deadline, "it never happened");
        std::thread::yield_now();
    }
}

#[test]
fn a_silent_client_is_pinged_and_then_closed() {
    let clock = Clock::manual(Timestamp::from_millis(1_000_000));
    let server = Server::with_clock(clock.clone(), |_, _| {});
    let (mut silent, mut alive) = (server.connect(), server.connect());
    clock.advance(Duration::from_secs(200));
    assert_eq!(silent.event().name, "pusher:ping");
    assert_eq!(alive.event().name, "pusher:ping");
    alive.send_event("pusher:pong", &json!({}));
    alive.flush();
    clock.advance(Duration::from_secs(31));
    assert_eq!(silent.read_close().unwrap().0, 4201);
    alive.flush();
}

#[test]
fn a_client_that_does_not_answer_the_close_is_cut() {
    let clock = Clock::manual(Timestamp::from_millis(1_000_000));
    let server = Server::with_clock(clock.clone(), |_, _| {});
    let mut silent = server.connect();
    clock.advance(Duration::from_secs(200));
    assert_eq!(silent.event().name, "pusher:ping");
    clock.advance(Duration::from_secs(31));
    skip_until(|| {
        server.metric("weir_realtime_connections_closed_total{reason=\"no_pong\"}") == 1.0
    });
    assert_eq!(server.metric("weir_realtime_connections"), 1.0, "it may still say farewell");
    clock.advance(Duration::from_secs(6));
    skip_until(|| server.metric("weir_realtime_connections") == 0.0);
    drop(silent);
}

fn sign_in(client: &mut Client, user: &str) {
    let data = json!({ "id": user }).to_string();
    let auth = format!("{KEY}:{}", sign(&format!("{}::user::{data}", client.socket_id)));
    client.send_event("pusher:signin", &json!({ "auth": auth, "user_data": data }));
    assert_eq!(client.event().name, "pusher:signin_success");
}

#[test]
fn an_unused_connection_is_closed_and_can_reconnect() {
    let clock = Clock::manual(Timestamp::from_millis(1_000_000));
    let server = Server::with_clock(clock.clone(), |settings, _| {
        settings.limits.subscribe_timeout = Duration::from_secs(60);
    });
    let (mut unused, mut known) = (server.connect(), server.connect());
    let (mut subscriber, mut left) = (server.subscriber("news"), server.subscriber("news"));
    sign_in(&mut known, "me");
    left.send_event("pusher:unsubscribe", &json!({ "channel": "news" }));
    left.flush();
    clock.advance(Duration::from_secs(59));
    assert_eq!(unused.flush(), []);
    clock.advance(Duration::from_secs(2));
    // pusher-js comes back after a second.
    assert_eq!(unused.read_close().unwrap().0, 4100);
    for one in [&mut known, &mut subscriber, &mut left] {
        assert_eq!(one.flush(), []);
    }
    assert_eq!(server.metric("weir_realtime_connections_closed_total{reason=\"unused\"}"), 1.0);
    let hits = "weir_realtime_limit_hits_total{limit=\"subscribe_timeout\"}";
    assert_eq!(server.metric(hits), 1.0);
}

#[test]
fn an_app_can_require_authorized_connections() {
    let clock = Clock::manual(Timestamp::from_millis(1_000_000));
    let server = Server::with_clock(clock.clone(), |_, app| {
        app.authorization_timeout = Some(Duration::from_secs(30));
    });
    let (mut unused, mut stranger) = (server.connect(), server.subscriber("news"));
    let (mut subscriber, mut known) = (server.subscriber("private-x"), server.connect());
    let mut member = server.connect();
    member.subscribe_as("presence-x", "ada");
    sign_in(&mut known, "me");
    clock.advance(Duration::from_secs(31));
    for one in [&mut unused, &mut stranger] {
        let error = one.skip_until("pusher:error");
        assert_eq!(error.data["code"], 4009);
        assert_eq!(error.data["message"], "Connection not authorized within timeout.");
        assert_eq!(one.read_close().unwrap().0, 4009);
    }
    for one in [&mut subscriber, &mut known, &mut member] {
        assert_eq!(one.flush(), []);
    }
}

#[test]
fn the_total_number_of_connections_is_limited() {
    let server = Server::with(|settings, _| settings.limits.connections_total_max = 2);
    let held = [server.connect(), server.connect()];
    // They may come back, where 4004 would keep pusher-js away.
    assert_eq!(server.open("protocol=7").read_close().unwrap().0, 4100);
    let hits = "weir_realtime_limit_hits_total{limit=\"connections_total_max\"}";
    assert_eq!(server.metric(hits), 1.0);
    drop(held);
    skip_until(|| server.hub.overview().totals.connections == 0);
    server.connect();
}

#[test]
fn the_connection_limit_per_client_leaves_room_for_others() {
    let clients = ClientLimits { streams_max: 2, ..ClientLimits::default() };
    let limits = server::HttpServerLimits { clients, ..server::HttpServerLimits::default() };
    let server = Server::within(limits, Clock::system(), |_, _| {});
    let target = format!("/app/{KEY}?protocol=7");
    let open = |client: &str| Client::open_for(server.address, &target, client);
    let mut held = [open("192.0.2.7"), open("192.0.2.7")];
    held.iter_mut().for_each(Client::expect_established);
    let mut refused = open("192.0.2.7");
    let error = refused.event();
    assert_eq!((error.name.as_str(), &error.data["code"]), ("pusher:error", &json!(4100)));
    let text = error.data["message"].as_str().unwrap();
    assert!(text.contains("front.clients.streams_max"), "{text}");
    assert_eq!(refused.read_close().unwrap().0, 4100);
    // Event streams count with them.
    let stream = |client: &str| {
        let target = format!("/app/{KEY}/channels/news/events");
        let headers = format!("x-forwarded-for: {client}\r\n");
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nhost: x\r\n{headers}\r\n").unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        (stream, String::from_utf8_lossy(&status[9..]).into_owned())
    };
    assert_eq!(stream("192.0.2.7").1, "503");
    let (_other, status) = stream("192.0.2.8");
    assert_eq!(status, "200");
    open("2001:db8::1").expect_established();
    drop(held);
    skip_until(|| stream("192.0.2.7").1 == "200");
}

#[test]
fn a_shutdown_asks_all_clients_to_reconnect_later() {
    let server = Server::with(|settings, _| settings.drain_window = Duration::from_millis(200));
    let mut clients: Vec<Client> = (0..20).map(|_| server.subscriber("news")).collect();
    server.draining.cancel();
    for client in &mut clients {
        assert_eq!(client.read_close().unwrap().0, 4100);
    }
    assert_eq!(server.open("protocol=7").read_close().unwrap().0, 4100, "nobody new");
    drop(clients);
    skip_until(|| server.metric("weir_realtime_connections") == 0.0);
    assert_eq!(server.metric("weir_realtime_subscriptions"), 0.0);
}

#[test]
fn ending_a_users_connections_keeps_those_of_others() {
    let server = Server::start();
    let (mut mine, mut other) = (server.connect(), server.connect());
    for (client, user) in [(&mut mine, "me"), (&mut other, "you")] {
        let data = json!({ "id": user }).to_string();
        let auth = format!("{KEY}:{}", sign(&format!("{}::user::{data}", client.socket_id)));
        client.send_event("pusher:signin", &json!({ "auth": auth, "user_data": data }));
        assert_eq!(client.event().name, "pusher:signin_success");
    }
    let (status, _) = server.post("/apps/1/users/me/terminate_connections", &json!({}));
    assert_eq!(status, 200);
    assert_eq!(mine.read_close().unwrap().0, 4009);
    other.flush();
}

#[test]
fn an_app_that_is_removed_or_disabled_loses_its_connections() {
    let server = Server::start();
    let mut client = server.connect();
    let mut off = app();
    off.is_enabled = false;
    server.hub.reload(Settings::default(), vec![off]);
    assert_eq!(client.read_close().unwrap().0, 4003);
    assert_eq!(server.open("protocol=7").read_close().unwrap().0, 4003);
    let (status, _) = server.post("/apps/1/events", &json!({}));
    assert_eq!(status, 403);
    server.hub.reload(Settings::default(), vec![app()]);
    let mut client = server.connect();
    server.hub.reload(Settings::default(), vec![]);
    assert_eq!(client.read_close().unwrap().0, 4001);
}

#[test]
fn a_burst_of_subscriptions_is_admitted_at_the_configured_rate() {
    use weir_base::token_bucket::Rate;
    let server = Server::with(|settings, _| {
        settings.limits.subscribe_rate = Rate::new(1, Duration::from_millis(1));
    });
    let mut clients: Vec<Client> = (0..60).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send_event("pusher:subscribe", &json!({ "channel": "news" }));
    }
    for client in &mut clients {
        client.skip_until("pusher_internal:subscription_succeeded");
    }
    let waited = server.metric("weir_realtime_limit_hits_total{limit=\"subscribes_per_second\"}");
    assert!(waited > 0.0, "nobody had to wait");
}
