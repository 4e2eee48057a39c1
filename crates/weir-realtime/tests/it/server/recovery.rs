//! Coming back: nothing missed, nothing twice, or told of a gap.

use std::io::{BufRead, BufReader, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::*;

/// Where a client is: the last message's epoch and offset.
fn position(event: &client::Event) -> Value {
    json!({ "epoch": event.json["epoch"], "offset": event.json["offset"] })
}

#[test]
fn missed_events_follow_the_subscription_response() {
    let server = Server::start();
    let mut client = server.subscriber("news");
    server.publish("news", &json!(1));
    let last = position(&client.event());
    drop(client);
    server.publish("news", &json!(2));
    server.publish("news", &json!(3));
    let mut client = server.connect();
    let answer = client.subscribe_with("news", None, json!({ "recover": last }));
    assert_eq!(answer.json["recovery"], json!({ "outcome": "recovered", "events": 2 }));
    assert_eq!(answer.json["offset"], 3);
    assert_eq!((client.event().data, client.event().data), (json!(2), json!(3)));
    server.publish("news", &json!(4));
    assert_eq!(client.event().data, 4);
    assert_eq!(client.flush(), []);
}

#[test]
fn a_quiet_channel_recovers_without_missed_events() {
    let server = Server::start();
    let mut client = server.connect();
    let joined = client.subscribe("news");
    client.send_event("pusher:unsubscribe", &json!({ "channel": "news" }));
    client.flush();
    let recover = json!({ "recover": position(&joined) });
    let answer = client.subscribe_with("news", None, recover);
    assert_eq!(answer.json["recovery"], json!({ "outcome": "recovered", "events": 0 }));
}

#[test]
fn a_position_beyond_history_or_of_another_epoch_is_a_gap() {
    let server = Server::with(|_, app| app.history.events_max = 3);
    let mut client = server.subscriber("news");
    server.publish("news", &json!(0));
    let last = position(&client.event());
    for number in 1..=4 {
        server.publish("news", &json!(number));
    }
    let recover = |from: Value| {
        let mut client = server.connect();
        let answer = client.subscribe_with("news", None, json!({ "recover": from }));
        (answer.json["recovery"].clone(), client.flush().len())
    };
    assert_eq!(recover(last.clone()), (json!({ "outcome": "gap" }), 0));
    let later = json!({ "epoch": last["epoch"], "offset": 2 });
    assert_eq!(recover(later), (json!({ "outcome": "recovered", "events": 3 }), 3));
    let other = json!({ "epoch": "0123456789abcdef", "offset": 2 });
    assert_eq!(recover(other), (json!({ "outcome": "gap" }), 0));
    let future = json!({ "epoch": last["epoch"], "offset": 99 });
    assert_eq!(recover(future), (json!({ "outcome": "gap" }), 0));
}

#[test]
fn without_history_there_are_no_offsets_and_recovery_is_a_gap() {
    let server = Server::with(|_, app| app.history.events_max = 0);
    let mut client = server.connect();
    let recover = json!({ "recover": { "epoch": "0123456789abcdef", "offset": 0 } });
    let answer = client.subscribe_with("news", None, recover);
    assert_eq!(answer.json["recovery"], json!({ "outcome": "gap" }));
    server.publish("news", &json!(1));
    let event = client.event();
    assert!(event.json["offset"].is_null() && event.json["epoch"].is_null());
}

/// History and live events are joined under one offset, while events are published all the time.
#[test]
fn recovery_during_a_stream_of_events_delivers_each_once() {
    let server = Server::with(|_, app| {
        app.history.events_max = 100_000;
        app.history.bytes_max = 64 << 20;
    });
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                server.publish("news", &json!(number));
            }
        });
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| come_and_go(&server))).collect();
        let read: Vec<_> = readers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        for read in read {
            read.unwrap();
        }
    });
}

fn come_and_go(server: &Server) {
    let mut client = server.subscriber("news");
    let mut last = client.event();
    for round in 0..40 {
        drop(client);
        client = server.connect();
        let recover = json!({ "recover": position(&last) });
        let answer = client.subscribe_with("news", None, recover);
        assert_eq!(answer.json["recovery"]["outcome"], "recovered", "round {round}");
        for _ in 0..30 {
            let event = client.event();
            assert_eq!(event.offset(), last.offset() + 1, "round {round}");
            last = event;
        }
    }
}

#[test]
fn history_can_be_read_as_json() {
    let server = Server::start();
    for number in 1..=3 {
        server.publish("news", &json!(number));
    }
    let history = server.get("/apps/1/channels/news/history", "");
    assert_eq!((&history["offset"], &history["complete"]), (&json!(3), &json!(true)));
    let data: Vec<_> = history["events"].as_array().unwrap().iter().map(|e| &e["data"]).collect();
    assert_eq!(data, ["1", "2", "3"]);
    let epoch = history["epoch"].as_str().unwrap();
    let some = server.get("/apps/1/channels/news/history", "limit=1");
    assert_eq!((&some["complete"], &some["events"][0]["offset"]), (&json!(false), &json!(3)));
    let after = format!("after={epoch}:2");
    let rest = server.get("/apps/1/channels/news/history", &after);
    assert_eq!((&rest["complete"], rest["events"].as_array().unwrap().len()), (&json!(true), 1));
    let other = server.get("/apps/1/channels/news/history", "after=0123456789abcdef:2");
    assert_eq!(other["complete"], false);
}

/// The next event of a stream: its id and its message.
fn read_event(stream: &mut impl BufRead) -> (String, Value) {
    let (mut id, mut line) = (String::new(), String::new());
    loop {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended");
        if let Some(text) = line.strip_prefix("id: ") {
            text.trim_end().clone_into(&mut id);
        }
        if let Some(data) = line.strip_prefix("data: ") {
            return (id, serde_json::from_str(data).unwrap());
        }
    }
}

fn open_stream(server: &Server, target: &str, headers: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "GET {target} HTTP/1.1\r\nhost: x\r\n{headers}\r\n").unwrap();
    BufReader::new(stream)
}

#[test]
fn an_event_stream_continues_after_a_reconnect() {
    let server = Server::start();
    let target = "/app/demo-key/channels/news/events";
    let mut stream = open_stream(&server, target, "");
    assert_eq!(read_event(&mut stream).1["event"], "pusher_internal:subscription_succeeded");
    server.publish("news", &json!(1));
    let (id, event) = read_event(&mut stream);
    assert_eq!(event["data"], "1");
    drop(stream);
    server.publish("news", &json!(2));
    let mut stream = open_stream(&server, target, &format!("last-event-id: {id}\r\n"));
    let (_, answer) = read_event(&mut stream);
    assert_eq!(answer["recovery"]["outcome"], "recovered");
    assert_eq!(read_event(&mut stream).1["data"], "2");
    server.publish("news", &json!(3));
    assert_eq!(read_event(&mut stream).1["data"], "3");
}

#[test]
fn private_event_streams_need_a_signed_address_and_presence_a_websocket() {
    let server = Server::start();
    let status = |target: &str| http(server.address, "GET", target, "", "").0;
    assert_eq!(status("/app/demo-key/channels/private-x/events"), 401);
    assert_eq!(status("/app/demo-key/channels/presence-x/events"), 400);
    assert_eq!(status("/app/other/channels/news/events"), 404);
    assert_eq!(status("/app/demo-key/channels/a%20b/events"), 400);
    assert_eq!(status("/app/demo-key/nothing"), 404);
    let path = "/app/demo-key/channels/private-x/events";
    let now = server.clock.now().as_millis() / 1_000;
    let query = format!("auth_key={KEY}&auth_timestamp={now}&auth_version=1.0");
    let signature = client::sign(&format!("GET\n{path}\n{query}"));
    let target = format!("{path}?{query}&auth_signature={signature}");
    let mut stream = open_stream(&server, &target, "");
    assert_eq!(read_event(&mut stream).1["event"], "pusher_internal:subscription_succeeded");
}

#[test]
fn an_event_stream_counts_as_a_connection_and_ends_on_shutdown() {
    use std::io::Read;
    let server = Server::with(|settings, _| settings.drain_window = Duration::ZERO);
    let mut stream = open_stream(&server, "/app/demo-key/channels/news/events", "");
    read_event(&mut stream);
    assert_eq!(server.metric("weir_realtime_connections"), 1.0);
    server.draining.cancel();
    server.stop.graceful.cancel();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("4100"), "{rest}");
    assert!(rest.ends_with("0\r\n\r\n"), "a whole answer");
    assert_eq!(server.metric("weir_realtime_connections"), 0.0);
}
