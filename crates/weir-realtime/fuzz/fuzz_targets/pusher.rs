//! Whatever a client or a caller of the HTTP API sends: an error in one bounded line, or words that
//! keep their limits and arrive unchanged at the other end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use weir_base::clock::Timestamp;
use weir_base::secret::Secret;
use weir_realtime::pusher::api::{self, InfoRequest, ListRequest};
use weir_realtime::pusher::channel::ChannelName;
use weir_realtime::pusher::client_message::{ClientEvent, ClientMessage};
use weir_realtime::pusher::event;
use weir_realtime::pusher::limits::PusherLimits;
use weir_realtime::pusher::payload::Payload;
use weir_realtime::pusher::position::ChannelPosition;
use weir_realtime::pusher::presence_data::PresenceData;
use weir_realtime::pusher::server_message::{self, ChannelEvent, MemberData};
use weir_realtime::pusher::signature::{
    RequestError, SignedQuery, SignedRequest, Token, request_text,
};
use weir_realtime::pusher::socket_id::SocketId;
use weir_realtime::pusher::user_data::UserData;

const SECRET: &str = "a-secret";
const SOCKET: SocketId = SocketId { first: 1, second: 2 };

fuzz_target!(|bytes: &[u8]| {
    let limits = PusherLimits {
        event_data_bytes_max: 64,
        event_channels_max: 3,
        batch_events_max: 2,
        api_query_parameters_max: 8,
        json_depth_max: 6,
        watchlist_users_max: 2,
        ..PusherLimits::default()
    };
    bodies(bytes, &limits);
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    client_message(text, &limits);
    signed_data(text, &limits);
    query(text, &limits);
    request(text, &limits);
    names(text);
});

fn check_error(error: &impl std::fmt::Display) {
    let text = error.to_string();
    assert!(!text.contains(char::is_control) && text.len() < 5_000, "{text:?}");
}

fn bodies(bytes: &[u8], limits: &PusherLimits) {
    match api::parse_publish(bytes, limits) {
        Ok(event) => {
            assert!((1..=limits.event_channels_max).contains(&event.channels.len()));
            check_published(event.name.as_str(), event.channels[0].as_str(), &event.data, limits);
        }
        Err(error) => {
            assert!([400, 413].contains(&error.status()));
            check_error(&error);
        }
    }
    match api::parse_batch(bytes, limits) {
        Ok(events) => {
            assert!(events.len() <= limits.batch_events_max);
            for event in events {
                let (name, channel) = (event.name.as_str(), event.channel.as_str());
                check_published(name, channel, &event.data, limits);
            }
        }
        Err(error) => check_error(&error),
    }
    match api::parse_user_event(bytes, limits) {
        Ok(event) => check_published(event.name.as_str(), "#server-to-user-1", &event.data, limits),
        Err(error) => check_error(&error),
    }
}

fn check_published(name: &str, channel: &str, data: &Payload<'_>, limits: &PusherLimits) {
    assert!(!event::is_reserved(name) && !name.is_empty());
    ChannelName::parse(channel, limits).expect("a channel's name stays one");
    check_passed_on(name, channel, Some(data), limits);
}

/// What is passed on says the same to the one who gets it.
fn check_passed_on(name: &str, channel: &str, data: Option<&Payload<'_>>, limits: &PusherLimits) {
    let data = data.map(Payload::as_str);
    assert!(data.is_none_or(|data| data.len() <= limits.event_data_bytes_max));
    let event = ChannelEvent { event: name, channel, data, user_id: None, position: None };
    let mut out = Vec::new();
    server_message::channel_event(&mut out, &event);
    let message: Value = serde_json::from_slice(&out).expect("the server sends JSON");
    assert_eq!(message["event"].as_str(), Some(name));
    assert_eq!(message["channel"].as_str(), Some(channel));
    assert_eq!(message.get("data").and_then(Value::as_str), data);
}

fn client_message(text: &str, limits: &PusherLimits) {
    match ClientMessage::parse(text, limits) {
        Ok(ClientMessage::ClientEvent(ClientEvent { event, channel, data })) => {
            assert!(event::is_client_event(event.as_str()));
            check_passed_on(event.as_str(), &channel, data.as_ref(), limits);
        }
        Ok(ClientMessage::Subscribe(subscribe)) => {
            let secret = Secret::new(SECRET);
            let token = Token { key: "key", secret: &secret };
            let (auth, data) = (subscribe.auth.as_deref(), subscribe.channel_data.as_deref());
            let verdict = token.verify_subscription(auth, SOCKET, &subscribe.channel, data);
            check_error(&verdict.expect_err("nobody guesses a signature"));
        }
        Ok(_) => {}
        Err(error) => {
            check_error(&error);
            let mut out = Vec::new();
            server_message::error(&mut out, None, &error.to_string());
            serde_json::from_slice::<Value>(&out).expect("the server sends JSON");
        }
    }
}

fn signed_data(text: &str, limits: &PusherLimits) {
    match PresenceData::parse(text, limits) {
        Ok(data) => check_member(&data.user_id, data.user_info.map(ToOwned::to_owned), limits),
        Err(error) => check_error(&error),
    }
    match UserData::parse(text, limits) {
        Ok(data) => {
            assert!(data.watchlist.accepted.len() <= limits.watchlist_users_max);
            check_member(&data.id, data.user_info.map(ToOwned::to_owned), limits);
        }
        Err(error) => check_error(&error),
    }
}

fn check_member(
    user_id: &str,
    info: Option<Box<serde_json::value::RawValue>>,
    limits: &PusherLimits,
) {
    assert!((1..=limits.user_id_characters_max).contains(&user_id.chars().count()));
    let mut out = Vec::new();
    let member = MemberData { user_id, user_info: info.as_deref() };
    server_message::member_added(&mut out, "presence-a", member);
    let message: Value = serde_json::from_slice(&out).expect("the server sends JSON");
    let data = message["data"].as_str().expect("data is a string");
    assert!(info.as_ref().is_none_or(|info| data.contains(info.get())));
}

fn query(text: &str, limits: &PusherLimits) {
    let parsed = match SignedQuery::parse(text, limits) {
        Ok(parsed) => parsed,
        Err(error) => return check_error(&error),
    };
    // The canonical text says all of the query: read back, it is the same query.
    let canonical = parsed.canonical();
    let pairs = canonical.split('&').filter_map(|pair| pair.split_once('='));
    let again = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    let again = SignedQuery::parse(&again, limits).expect("a query without its signature is one");
    assert_eq!(again.canonical(), canonical);
    let _ = InfoRequest::parse(parsed.get("info")).map_err(|error| check_error(&error));
    let _ = ListRequest::parse(&parsed).map_err(|error| check_error(&error));
}

/// The input is path and query; signed as it is, it holds, and with anything more it doesn't.
fn request(text: &str, limits: &PusherLimits) {
    let (path, query) = text.split_once('?').unwrap_or(("/apps/1/channels", text));
    let secret = Secret::new(SECRET);
    let token = Token { key: "key", secret: &secret };
    let query = format!("{query}&auth_key=key&auth_version=1.0&auth_timestamp=5");
    let Ok(parsed) = SignedQuery::parse(&query, limits) else {
        return;
    };
    let signature = token.sign(request_text("GET", path, &parsed).as_bytes());
    let signed = format!("{query}&auth_signature={signature}");
    let verify = |path: &str, query: &str| {
        let request = SignedRequest { method: "GET", path, query, body: b"" };
        token.verify_request(&request, Timestamp::from_millis(5_000), limits).map(drop)
    };
    match verify(path, &signed) {
        Ok(()) | Err(RequestError::Body { .. } | RequestError::Query(_)) => {}
        Err(RequestError::Missing { name: "body_md5" }) => {}
        Err(error) => panic!("a right signature is refused: {error}"),
    }
    for error in [verify(path, &format!("{signed}&x")), verify(&format!("{path}/"), &signed)] {
        let error = error.expect_err("another request with the same signature");
        check_error(&error);
        assert!(
            !error.to_string().contains(&signature)
                || matches!(error, RequestError::Mismatch { .. })
        );
    }
}

fn names(text: &str) {
    if let Ok(id) = text.parse::<SocketId>() {
        assert_eq!(id.to_string(), text);
    }
    if let Ok(position) = text.parse::<ChannelPosition>() {
        assert_eq!(position.to_string().parse(), Ok(position));
    }
}
