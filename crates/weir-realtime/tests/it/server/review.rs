//! What a hostile reader asks: ends in the middle of a frame, answers that nobody reads, figures
//! that have to come back to nothing.

use std::io::Write;

use serde_json::json;
use socket2::SockRef;
use weir_base::clock::Timestamp;
use weir_base::token_bucket::Rate;
use weir_realtime::settings::Settings;

use super::*;

const QUEUED: &str = "weir_realtime_client_queue_bytes";

fn skip_until(condition: impl Fn() -> bool) {
    let deadline = Clock::system().now() + TIMEOUT;
    while !condition() {
        assert!(Clock::system().now() < deadline, "it never happened");
        std::thread::yield_now();
    }
}

/// Where a channel is that nobody has published on since.
fn position(server: &Server, channel: &str) -> Value {
    let history = server.get(&format!("/apps/1/channels/{channel}/history"), "limit=0");
    json!({ "epoch": history["epoch"], "offset": history["offset"] })
}

/// Most of what it does not read waits in the server.
fn connect_with_small_window(server: &Server) -> Client {
    let stream = TcpStream::connect(server.address).unwrap();
    SockRef::from(&stream).set_recv_buffer_size(16 << 10).unwrap();
    let target = format!("/app/{KEY}?protocol=7");
    let mut client = Client::over(stream, server.address, &target).unwrap();
    client.expect_established();
    client
}

/// A long answer is written in part when the client turns out to be too slow: what is begun is
/// written to its end, and the reason comes behind it.
#[test]
fn a_client_too_slow_for_its_responses_is_disconnected_after_its_last_frame() {
    const EVENTS: u64 = 150;
    let server = Server::with(|_, app| {
        app.history.bytes_max = 4 << 20;
        app.client_queue_bytes_max = 100_000;
    });
    for _ in 0..EVENTS {
        server.publish("news", &json!("x".repeat(10_000)));
    }
    let mut slow = connect_with_small_window(&server);
    let mut from = position(&server, "news");
    from["offset"] = json!(0);
    slow.send_event("pusher:subscribe", &json!({ "channel": "news", "recover": from }));
    skip_until(|| server.metric(QUEUED) > 0.0);
    let closed = "weir_realtime_connections_closed_total{reason=\"slow\"}";
    while server.metric(closed) == 0.0 {
        server.publish("news", &json!(1));
    }
    assert_eq!(slow.skip_until("pusher_internal:subscription_succeeded").json["offset"], EVENTS);
    for offset in 1..=EVENTS {
        assert_eq!(slow.event().offset(), offset);
    }
    assert_eq!(slow.read_close().map(|(code, _)| code), Some(4100));
}

/// The socket breaks while an event is written that some don't get.
#[test]
fn bytes_for_a_broken_socket_are_not_counted() {
    let server = Server::with(|settings, _| {
        // Who has subscribed is not read from any more: only writing finds out.
        settings.limits.subscribe_rate = Rate::new(1, Duration::from_secs(3_600));
    });
    let client = server.subscriber("news");
    SockRef::from(client.socket.get_ref()).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    let body = json!({ "name": "e", "channel": "news", "data": "1", "socket_id": "1.2" });
    assert_eq!(server.post("/apps/1/events", &body).0, 200);
    skip_until(|| server.metric("weir_realtime_connections") == 0.0);
    assert_eq!(server.metric(QUEUED), 0.0);
}

/// While there is no history, events have no place in it: who comes back later must not be told
/// that there were none.
#[test]
fn events_published_without_history_are_a_gap() {
    let server = Server::start();
    server.publish("news", &json!(1));
    let last = position(&server, "news");
    let mut without = app();
    without.history.events_max = 0;
    server.hub.reload(Settings::default(), vec![without]);
    server.publish("news", &json!(2));
    server.hub.reload(Settings::default(), vec![app()]);
    let mut client = server.connect();
    let answer = client.subscribe_with("news", None, json!({ "recover": last }));
    assert_eq!(answer.json["recovery"], json!({ "outcome": "gap" }));
    server.publish("news", &json!(3));
    assert_eq!(client.event().offset(), 1, "another history");
    assert_eq!(server.hub.overview().history_bytes, history_bytes(&server, "news"));
}

fn history_bytes(server: &Server, channel: &str) -> usize {
    server.hub.channel_view("1", channel).map_or(0, |channel| channel.history_bytes)
}

#[test]
fn histories_of_a_removed_app_are_not_counted() {
    let server = Server::start();
    server.publish("news", &json!(1));
    assert_eq!(server.hub.overview().history_bytes, history_bytes(&server, "news"));
    server.hub.reload(Settings::default(), vec![]);
    assert_eq!(server.hub.overview().history_bytes, 0);
}

/// Whoever finds old events first: a subscriber, or the round that looks for them.
#[test]
fn expired_events_are_not_counted() {
    let clock = Clock::manual(Timestamp::from_millis(1_000_000));
    let server = Server::with_clock(clock.clone(), |_, _| {});
    server.publish("news", &json!(1));
    clock.advance(Duration::from_secs(121));
    let _client = server.subscriber("news");
    assert_eq!(history_bytes(&server, "news"), 0);
    assert_eq!(server.hub.overview().history_bytes, 0);
}

#[test]
fn an_event_stream_without_permission_gets_an_error_and_ends() {
    let server = Server::with(|settings, _| settings.limits.channels_max = 1);
    server.publish("news", &json!(1));
    let target = format!("/app/{KEY}/channels/other/events");
    let (status, text) = http(server.address, "GET", &target, "", "");
    assert_eq!(status, 200);
    assert!(text.contains("pusher:subscription_error"), "{text}");
    skip_until(|| server.metric("weir_realtime_connections") == 0.0);
}

/// What is written behind an event: the stream may be cut before the events that were missed.
#[test]
fn an_event_streams_position_is_that_of_its_last_sent_event() {
    let server = Server::start();
    server.publish("news", &json!(1));
    let first = position(&server, "news");
    server.publish("news", &json!(2));
    let epoch = first["epoch"].as_str().unwrap();
    let headers = format!("last-event-id: {epoch}:1\r\n");
    let mut stream = TcpStream::connect(server.address).unwrap();
    let target = format!("/app/{KEY}/channels/news/events");
    write!(stream, "GET {target} HTTP/1.1\r\nhost: x\r\n{headers}\r\n").unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut text = String::new();
    while !text.contains("\"offset\":2}\n") {
        let mut bytes = [0; 1_000];
        let read = stream.read(&mut bytes).unwrap();
        text.push_str(str::from_utf8(&bytes[..read]).unwrap());
    }
    let answer = text.find("pusher_internal:subscription_succeeded").unwrap();
    let ids: Vec<usize> = text.match_indices("id: ").map(|(at, _)| at).collect();
    assert_eq!(ids.len(), 1, "{text}");
    assert!(ids[0] > answer, "the answer is not the place of what follows it: {text}");
}

/// A masked frame; the mask changes nothing.
fn frame(message: &Value) -> Vec<u8> {
    let text = message.to_string();
    let bytes = u8::try_from(text.len()).unwrap();
    let mut frame = vec![0x81];
    match bytes {
        0..126 => frame.push(0x80 | bytes),
        _ => frame.extend_from_slice(&[0x80 | 126, 0, bytes]),
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(text.as_bytes());
    frame
}

/// Short questions with long answers: who does not read the answers is not listened to, and what
/// waits for it stays bounded; who reads gets all of them.
#[test]
fn unread_responses_are_bounded_and_delivered_later() {
    const TIMES: usize = 6;
    let server = Server::with(|_, app| app.client_queue_bytes_max = 100_000);
    for _ in 0..20 {
        server.publish("news", &json!("x".repeat(10_000)));
    }
    let mut from = position(&server, "news");
    from["offset"] = json!(0);
    let request = json!({ "channel": "news", "recover": from });
    let subscribe = frame(&json!({ "event": "pusher:subscribe", "data": request }));
    let leave = json!({ "event": "pusher:unsubscribe", "data": { "channel": "news" } });
    let questions = [subscribe, frame(&leave)].concat().repeat(TIMES);
    let mut client = connect_with_small_window(&server);
    client.socket.get_mut().write_all(&questions).unwrap();
    skip_until(|| server.metric(QUEUED) > 0.0);
    let queued = server.metric(QUEUED);
    assert!(queued < 400_000.0, "{queued}: an answer has 200,000 bytes");
    for _ in 0..TIMES {
        let answer = client.skip_until("pusher_internal:subscription_succeeded");
        assert_eq!(answer.json["recovery"]["events"], 20);
    }
    let last: Vec<_> = client.flush();
    assert_eq!(last.len(), 20);
    assert_eq!(server.metric("weir_realtime_subscriptions"), 0.0);
}

#[test]
fn a_closed_connection_frees_its_quota() {
    let server = Server::with(|_, app| app.connections_max = 1);
    let target = format!("/app/{KEY}/channels/news/events");
    for _ in 0..2 {
        let client = server.connect();
        assert_eq!(http(server.address, "GET", &target, "", "").0, 503);
        drop(client);
        skip_until(|| server.metric("weir_realtime_connections") == 0.0);
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        skip_until(|| server.metric("weir_realtime_connections") == 1.0);
        drop(stream);
        skip_until(|| server.metric("weir_realtime_connections") == 0.0);
    }
}

#[test]
fn recovery_on_a_cache_channel_delivers_the_last_event_once() {
    let server = Server::start();
    server.publish("cache-x", &json!(1));
    let mut from = position(&server, "cache-x");
    let recover = |from: &Value| {
        let mut client = server.connect();
        client.subscribe_with("cache-x", None, json!({ "recover": from }));
        client.flush().iter().map(|event| event.data.clone()).collect::<Vec<_>>()
    };
    assert!(recover(&from).is_empty(), "it had it before");
    from["offset"] = json!(0);
    assert_eq!(recover(&from), [json!(1)], "it is among what was missed");
    from["epoch"] = json!("0123456789abcdef");
    assert_eq!(recover(&from), [json!(1)], "after a gap it is what there is");
}

#[test]
fn beyond_the_total_history_bytes_the_publishing_channel_loses_its_own() {
    let server = Server::with(|settings, _| settings.limits.history_bytes_max = 20_000);
    server.publish("a", &json!("x".repeat(9_000)));
    server.publish("b", &json!("x".repeat(9_000)));
    assert_eq!(server.metric("weir_realtime_limit_hits_total{limit=\"history_bytes_max\"}"), 0.0);
    let before = position(&server, "b");
    server.publish("b", &json!("x".repeat(9_000)));
    assert_eq!(server.metric("weir_realtime_limit_hits_total{limit=\"history_bytes_max\"}"), 1.0);
    assert!(history_bytes(&server, "a") > 9_000);
    assert_eq!(history_bytes(&server, "b"), 0);
    assert_eq!(server.hub.overview().history_bytes, history_bytes(&server, "a"));
    let mut client = server.connect();
    let answer = client.subscribe_with("b", None, json!({ "recover": before }));
    assert_eq!(answer.json["recovery"], json!({ "outcome": "gap" }));
}
