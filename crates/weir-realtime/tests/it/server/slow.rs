//! Clients that do not read.

use std::sync::mpsc;

use serde_json::json;
use weir_realtime::settings::SlowClients;

use super::*;

/// Some events as large as they may be: much more than the kernel's buffers take is published.
fn publish_large(server: &Server, number: usize) {
    let body = json!({
        "name": if number.is_multiple_of(2) { "even" } else { "odd" },
        "channel": "news",
        "data": format!("{number} {}", "x".repeat(10_000)),
    });
    assert_eq!(server.post("/apps/1/events", &body).0, 200);
}

/// The numbers of the events that a slow client gets in the end, and how its connection ends.
fn numbers(client: &mut Client, last: usize) -> (Vec<usize>, Option<u16>) {
    let mut numbers = Vec::new();
    loop {
        match client.next() {
            Ok(event) if event.name == "pusher:error" => {}
            Ok(event) => {
                let text = event.data.as_str().unwrap().to_owned();
                numbers.push(text.split(' ').next().unwrap().parse().unwrap());
                if numbers.last() == Some(&last) {
                    return (numbers, None);
                }
            }
            Err(end) => return (numbers, end.map(|(code, _)| code)),
        }
    }
}

/// Publishes until the server has dropped an event or closed a connection.
fn publish_until(server: &Server, metric: &str) -> usize {
    publish_in_step_until(server, metric, || {})
}

/// Calls `after_each` after each event, before it reads the metric.
fn publish_in_step_until(server: &Server, metric: &str, after_each: impl Fn()) -> usize {
    for number in 0..20_000 {
        publish_large(server, number);
        after_each();
        if server.metric(metric) > 0.0 {
            return number;
        }
    }
    panic!("{metric} stays 0");
}

fn server(policy: SlowClients) -> Server {
    Server::with(|_, app| {
        app.slow_clients = policy;
        app.client_queue_bytes_max = 100_000;
    })
}

#[test]
fn a_slow_client_is_disconnected_and_others_miss_nothing() {
    let server = server(SlowClients::Disconnect);
    let mut slow = server.subscriber("news");
    let mut quick = server.subscriber("news");
    let closed = "weir_realtime_connections_closed_total{reason=\"slow\"}";
    let (read, was_read) = mpsc::channel();
    let last = std::thread::scope(|scope| {
        let quick = &mut quick;
        let reader = scope.spawn(move || {
            let mut expected = 0;
            loop {
                let event = quick.event();
                if event.name == "end" {
                    return expected;
                }
                let text = event.data.as_str().unwrap();
                assert!(text.starts_with(&format!("{expected} ")));
                expected += 1;
                read.send(()).unwrap();
            }
        });
        // On a busy machine the quick client would be slow, too, if the publisher did not wait for
        // it.
        let in_step = || was_read.recv().unwrap();
        let last = publish_in_step_until(&server, closed, in_step);
        let end = json!({ "name": "end", "channel": "news", "data": "0" });
        server.post("/apps/1/events", &end);
        assert_eq!(reader.join().unwrap(), last + 1, "the quick one has all");
        last
    });
    let (got, code) = numbers(&mut slow, last);
    assert_eq!(code, Some(4100));
    assert_eq!(got, (0..got.len()).collect::<Vec<_>>(), "without a hole up to its end");
}

#[test]
fn drop_oldest_drops_the_oldest_waiting_events() {
    let server = server(SlowClients::DropOldest);
    let mut slow = server.subscriber("news");
    let last = publish_until(&server, "weir_realtime_dropped_events_total");
    let queued = server.metric("weir_realtime_client_queue_bytes");
    assert!((1.0..=100_000.0).contains(&queued), "{queued}");
    let (got, _) = numbers(&mut slow, last);
    assert!(got.windows(2).all(|pair| pair[0] < pair[1]), "in order: {got:?}");
    assert!(got.len() < last + 1, "some are missing");
    assert!(got.ends_with(&[last - 1, last]), "the newest are there: {got:?}");
    slow.flush();
    assert_eq!(server.metric("weir_realtime_client_queue_bytes"), 0.0);
}

#[test]
fn conflate_keeps_the_newest_event_of_each_name() {
    let server = server(SlowClients::Conflate);
    let mut slow = server.subscriber("news");
    publish_until(&server, "weir_realtime_dropped_events_total");
    let queued = server.metric("weir_realtime_client_queue_bytes");
    // One that is written in part, and the newest of each name.
    assert!(queued < 32_000.0, "{queued}");
    for number in [1_000_000, 1_000_001] {
        publish_large(&server, number);
    }
    let (got, _) = numbers(&mut slow, 1_000_001);
    assert!(got.ends_with(&[1_000_000, 1_000_001]), "{got:?}");
}
