//! Subscribing, publishing, being told.

use serde_json::json;

use super::client::sign;
use super::*;

#[test]
fn all_subscribers_get_events_in_the_same_order() {
    const PUBLISHERS: u64 = 4;
    const EVENTS: u64 = 100;
    let server = Server::start();
    let mut clients: Vec<Client> = (0..10).map(|_| server.subscriber("news")).collect();
    std::thread::scope(|scope| {
        for publisher in 0..PUBLISHERS {
            let server = &server;
            scope.spawn(move || {
                for number in 0..EVENTS {
                    server.publish("news", &json!([publisher, number]));
                }
            });
        }
    });
    let mut orders = Vec::new();
    for client in &mut clients {
        let events: Vec<_> = (0..PUBLISHERS * EVENTS).map(|_| client.event()).collect();
        let offsets: Vec<u64> = events.iter().map(super::client::Event::offset).collect();
        assert_eq!(offsets, (1..=PUBLISHERS * EVENTS).collect::<Vec<_>>());
        orders.push(events.into_iter().map(|event| event.data).collect::<Vec<_>>());
    }
    assert!(orders.iter().all(|order| *order == orders[0]), "all see the same order");
    for publisher in 0..PUBLISHERS {
        let own: Vec<u64> = orders[0]
            .iter()
            .filter(|data| data[0] == publisher)
            .map(|data| data[1].as_u64().unwrap())
            .collect();
        assert_eq!(own, (0..EVENTS).collect::<Vec<_>>(), "each publisher's own order");
    }
}

#[test]
fn private_channels_need_a_valid_signature() {
    let server = Server::start();
    let mut client = server.connect();
    for auth in [json!(null), json!(""), json!("demo-key:00"), json!("other:00")] {
        client.send_event("pusher:subscribe", &json!({ "channel": "private-x", "auth": auth }));
        let error = client.event();
        assert_eq!(error.name, "pusher:subscription_error");
        assert_eq!(error.data["status"], 401);
        assert_eq!(error.data["type"], "AuthError");
    }
    client.subscribe("private-x");
    client.subscribe("private-encrypted-x");
}

#[test]
fn an_unsubscribed_client_gets_no_events_and_can_subscribe_again() {
    let server = Server::start();
    let mut client = server.subscriber("news");
    client.send_event("pusher:unsubscribe", &json!({ "channel": "news" }));
    client.flush();
    server.publish("news", &json!(1));
    assert_eq!(client.flush(), []);
    client.subscribe("news");
    server.publish("news", &json!(2));
    assert_eq!(client.event().data, 2);
}

#[test]
fn a_second_subscription_to_a_channel_is_rejected() {
    let server = Server::start();
    let mut client = server.subscriber("news");
    client.send_event("pusher:subscribe", &json!({ "channel": "news" }));
    assert_eq!(client.event().name, "pusher:error");
    server.publish("news", &json!(1));
    assert_eq!(client.event().data, 1);
    assert_eq!(client.flush(), []);
}

#[test]
fn channels_per_connection_are_limited() {
    let server = Server::with(|settings, _| settings.limits.channels_per_connection_max = 2);
    let mut client = server.subscriber("a");
    client.subscribe("b");
    client.send_event("pusher:subscribe", &json!({ "channel": "c" }));
    let error = client.event();
    assert_eq!(error.name, "pusher:subscription_error");
    assert!(error.data["error"].as_str().unwrap().contains("channels_per_connection_max"));
    client.send_event("pusher:unsubscribe", &json!({ "channel": "a" }));
    client.subscribe("c");
}

#[test]
fn the_sender_of_a_request_does_not_get_its_event() {
    let server = Server::start();
    let (mut sender, mut other) = (server.subscriber("news"), server.subscriber("news"));
    let body = json!({
        "name": "e", "channel": "news", "data": "1", "socket_id": sender.socket_id
    });
    assert_eq!(server.post("/apps/1/events", &body).0, 200);
    server.publish("news", &json!(2));
    assert_eq!((other.event().data, other.event().data), (json!(1), json!(2)));
    assert_eq!(sender.event().data, 2);
}

#[test]
fn client_events_reach_the_other_members_at_a_limited_rate() {
    let server = Server::start();
    let mut clients: Vec<Client> = (0..3).map(|_| server.subscriber("private-x")).collect();
    for number in 0..10 {
        clients[0].send(&json!({ "event": "client-e", "channel": "private-x", "data": number }));
    }
    for client in &mut clients[1..] {
        for number in 0..10 {
            let event = client.event();
            assert_eq!((event.name.as_str(), &event.data), ("client-e", &json!(number)));
            assert!(event.json["offset"].is_null(), "they are not kept");
        }
    }
    assert_eq!(clients[0].flush(), [], "not echoed");
    for _ in 0..30 {
        clients[0].send(&json!({ "event": "client-e", "channel": "private-x" }));
    }
    assert_eq!(clients[0].skip_until("pusher:error").data["code"], 4301);
    let mut public = server.subscriber("news");
    public.send(&json!({ "event": "client-e", "channel": "news", "data": 1 }));
    assert_eq!(public.event().name, "pusher:error");
}

/// No library encrypts them: their data would travel in clear text.
#[test]
fn client_events_on_encrypted_channels_are_rejected() {
    let server = Server::start();
    let channel = "private-encrypted-x";
    let (mut sender, mut other) = (server.subscriber(channel), server.subscriber(channel));
    sender.send(&json!({ "event": "client-e", "channel": channel, "data": "secret" }));
    let error = sender.event();
    assert_eq!(error.name, "pusher:error");
    let text = error.data["message"].as_str().unwrap();
    assert!(text.contains("only private and presence channels do"), "{text}");
    assert_eq!(other.flush(), []);
}

#[test]
fn cache_channels_send_their_last_event() {
    let server = Server::start();
    let mut first = server.subscriber("cache-x");
    assert_eq!(first.event().name, "pusher:cache_miss");
    server.publish("cache-x", &json!(1));
    server.publish("cache-x", &json!(2));
    let mut second = server.subscriber("cache-x");
    assert_eq!(second.event().data, 2);
    assert_eq!(second.flush(), []);
}

#[test]
fn a_user_gets_events_on_every_connection() {
    let server = Server::start();
    let mut clients = [server.connect(), server.connect()];
    for client in &mut clients {
        let data = json!({ "id": "me" }).to_string();
        let auth = format!("{KEY}:{}", sign(&format!("{}::user::{data}", client.socket_id)));
        client.send_event("pusher:subscribe", &json!({ "channel": "#server-to-user-me" }));
        assert_eq!(client.event().name, "pusher:subscription_error", "not signed in yet");
        client.send_event("pusher:signin", &json!({ "auth": auth, "user_data": data }));
        client.skip_until("pusher:signin_success");
        client.subscribe("#server-to-user-me");
    }
    server.post("/apps/1/users/me/events", &json!({ "name": "e", "data": "1" }));
    for client in &mut clients {
        assert_eq!(client.event().data, 1);
    }
}

#[test]
fn small_channels_send_their_subscription_count_at_once() {
    let server = Server::with(|_, app| app.has_subscription_counts = true);
    let mut first = server.subscriber("news");
    assert_eq!(
        first.skip_until("pusher_internal:subscription_count").data["subscription_count"],
        1
    );
    let second = server.subscriber("news");
    assert_eq!(
        first.skip_until("pusher_internal:subscription_count").data["subscription_count"],
        2
    );
    drop(second);
    assert_eq!(
        first.skip_until("pusher_internal:subscription_count").data["subscription_count"],
        1
    );
}

#[test]
fn a_switched_off_event_class_is_not_sent() {
    use weir_base::switch::Off;
    let server = Server::start();
    let mut client = server.subscriber("news");
    let now = server.clock.now();
    let pattern: weir_base::switch::Pattern = "typing*".parse().unwrap();
    let off = Off { pattern: pattern.clone(), since_us: now.as_micros(), until_us: None };
    server.hub.switches().turn_off(off, now).unwrap();
    let typing = json!({ "name": "typing-start", "channel": "news", "data": "0" });
    assert_eq!(server.post("/apps/1/events", &typing).0, 200);
    server.publish("news", &json!(1));
    let event = client.event();
    assert_eq!((&event.data, event.offset()), (&json!(1), 1));
    server.hub.switches().turn_on(&pattern, now);
    server.post("/apps/1/events", &typing);
    assert_eq!(client.event().name, "typing-start");
}

#[test]
fn channel_queries_return_counts_and_users() {
    let server = Server::start();
    let _one = server.subscriber("news");
    let mut member = server.connect();
    member.subscribe_as("presence-x", "ada");
    let channels = server.get("/apps/1/channels", "");
    assert_eq!(channels, json!({ "channels": { "news": {}, "presence-x": {} } }));
    let some = server.get("/apps/1/channels", "filter_by_prefix=presence-&info=user_count");
    assert_eq!(some, json!({ "channels": { "presence-x": { "user_count": 1 } } }));
    let users = server.get("/apps/1/channels/presence-x/users", "");
    assert_eq!(users, json!({ "users": [{ "id": "ada" }] }));
    assert_eq!(server.get("/apps/1/channels/nobody", ""), json!({ "occupied": false }));
}

/// What a channel doesn't have is left out, whether one asks or publishes.
#[test]
fn channel_attributes_are_the_same_on_every_core() {
    let server = Server::start();
    let _one = server.subscriber("news");
    let info = "user_count,subscription_count";
    let query = format!("info={info}");
    let one = server.get("/apps/1/channels/news", &query);
    assert_eq!(one, json!({ "occupied": true, "subscription_count": 1 }));
    let listed = server.get("/apps/1/channels", &query);
    let expected = json!({ "channels": { "news": { "subscription_count": 1 } } });
    assert_eq!(listed, expected);
    let event = json!({ "name": "e", "channel": "news", "data": "1", "info": info });
    let (status, published) = server.post("/apps/1/events", &event);
    assert_eq!(status, 200, "{published}");
    assert_eq!(serde_json::from_str::<Value>(&published).unwrap(), expected);
}

#[test]
fn an_invalid_signature_or_an_oversized_body_is_rejected() {
    let server = Server::start();
    let target =
        "/apps/1/channels?auth_key=demo-key&auth_timestamp=1&auth_version=1.0&auth_signature=00";
    assert_eq!(http(server.address, "GET", target, "", "").0, 401);
    assert_eq!(server.request("GET", "/apps/2/channels", "", "").0, 404);
    let large = json!({ "name": "e", "channel": "news", "data": "x".repeat(300_000) });
    assert_eq!(server.post("/apps/1/events", &large).0, 413);
    let long = json!({ "name": "e", "channel": "news", "data": "x".repeat(10_241) });
    assert_eq!(server.post("/apps/1/events", &long).0, 413);
}

/// The oldest event goes; who subscribes there is told that there is none.
#[test]
fn the_cache_of_all_channels_has_a_byte_limit() {
    const LIMIT: &str = "weir_realtime_limit_hits_total{limit=\"cache_bytes_max\"}";
    // Frame and data of two events, and what keeping costs.
    let server = Server::with(|_, app| app.cache_bytes_max = 40_000);
    let publish = |channel: &str| server.publish(channel, &json!("x".repeat(9_000)));
    let last = |channel: &str| {
        let mut client = server.subscriber(channel);
        client.flush().pop().map(|event| event.name)
    };
    publish("cache-a");
    publish("cache-b");
    publish("cache-a");
    assert_eq!(server.metric(LIMIT), 0.0, "an event takes the place of its channel's last one");
    publish("cache-c");
    assert_eq!(server.metric(LIMIT), 1.0);
    assert_eq!(last("cache-b").as_deref(), Some("pusher:cache_miss"), "it was the oldest");
    assert_eq!(last("cache-a").as_deref(), Some("e"));
    assert_eq!(last("cache-c").as_deref(), Some("e"));
    let mut less = app();
    less.cache_bytes_max = 0;
    server.hub.reload(Settings::default(), vec![less]);
    publish("cache-d");
    assert_eq!(last("cache-c").as_deref(), Some("pusher:cache_miss"), "a limit that was lowered");
    assert_eq!(last("cache-d").as_deref(), Some("pusher:cache_miss"));
}
