use proptest::prelude::*;
use serde_json::{Value, json};
use weir_realtime::pusher::client_message::{ClientMessage, SignIn, Subscribe};
use weir_realtime::pusher::limits::PusherLimits;
use weir_realtime::pusher::position::{ChannelPosition, Epoch};

fn parse(text: &str) -> Result<ClientMessage<'_>, String> {
    ClientMessage::parse(text, &PusherLimits::default()).map_err(|error| error.to_string())
}

fn subscribe(text: &str) -> Subscribe {
    match parse(text) {
        Ok(ClientMessage::Subscribe(subscribe)) => subscribe,
        other => panic!("{text}: {other:?}"),
    }
}

/// Event, channel and data.
fn client_event(text: &str) -> (String, String, Option<String>) {
    match parse(text) {
        Ok(ClientMessage::ClientEvent(event)) => (
            event.event.as_str().to_owned(),
            event.channel.into_owned(),
            event.data.map(|data| data.as_str().to_owned()),
        ),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_subscription_of_pusher_js_is_parsed() {
    let found = subscribe(r#"{"event":"pusher:subscribe","data":{"auth":"","channel":"news"}}"#);
    assert_eq!((found.channel.as_str(), found.auth.as_deref()), ("news", Some("")));
    assert_eq!((found.channel_data, found.recover), (None, None));
    let found = subscribe(
        r#"{"event":"pusher:subscribe","data":{"auth":"k:s","channel_data":"{\"user_id\":\"1\"}","channel":"presence-a"}}"#,
    );
    assert_eq!(found.auth.as_deref(), Some("k:s"));
    assert_eq!(found.channel_data.as_deref(), Some(r#"{"user_id":"1"}"#));
}

#[test]
fn data_can_be_encoded_twice() {
    let inner =
        r#"{"channel":"presence-é","auth":"k:s","channel_data":"{\"user_id\":\"\\u00e9\"}"}"#
            .replace('é', "e");
    let once = format!(r#"{{"event":"pusher:subscribe","data":{inner}}}"#);
    let twice = json!({"event": "pusher:subscribe", "data": inner}).to_string();
    assert_eq!(subscribe(&once), subscribe(&twice));
    let sign_in = SignIn { auth: "k:s".to_owned(), user_data: r#"{"id":"1"}"#.to_owned() };
    let inner = json!({"auth": "k:s", "user_data": r#"{"id":"1"}"#});
    for data in [inner.clone(), Value::String(inner.to_string())] {
        let text = json!({"event": "pusher:signin", "data": data}).to_string();
        assert_eq!(parse(&text), Ok(ClientMessage::SignIn(sign_in.clone())));
    }
}

#[test]
fn the_recovery_position_is_parsed() {
    let with = |recover: &str| {
        format!(r#"{{"event":"pusher:subscribe","data":{{"channel":"a","recover":{recover}}}}}"#)
    };
    let found = subscribe(&with(r#"{"epoch":"00000000000000ff","offset":7}"#)).recover;
    assert_eq!(found, Some(ChannelPosition { epoch: Epoch(255), offset: 7 }));
    assert_eq!(subscribe(&with("null")).recover, None);
    for wrong in [
        "7",
        "{}",
        r#"{"epoch":255,"offset":7}"#,
        r#"{"epoch":"ff","offset":7}"#,
        r#"{"epoch":"00000000000000ff","offset":-1}"#,
        r#"{"epoch":"00000000000000ff","offset":1.5}"#,
        r#"{"epoch":"00000000000000ff","offset":1,"more":1}"#,
    ] {
        let error = parse(&with(wrong)).unwrap_err();
        assert!(error.starts_with("data of pusher:subscribe: "), "{error}");
    }
}

#[test]
fn other_client_messages_are_parsed() {
    for (text, message) in [
        (r#"{"event":"pusher:ping","data":{}}"#, ClientMessage::Ping),
        (r#"{"event":"pusher:ping","data":""}"#, ClientMessage::Ping),
        (r#"{"event":"pusher:ping"}"#, ClientMessage::Ping),
        (r#"{"data":null,"event":"pusher:pong","more":[1]}"#, ClientMessage::Pong),
        (
            r#"{"event":"pusher:unsubscribe","data":{"channel":"not a name"}}"#,
            ClientMessage::Unsubscribe { channel: "not a name".to_owned() },
        ),
    ] {
        assert_eq!(parse(text), Ok(message), "{text}");
    }
}

#[test]
fn the_data_of_a_client_event_is_unchanged() {
    for (data, text) in [
        (r#""plain""#, "plain"),
        (r#""{\"a\":1}""#, r#"{"a":1}"#),
        (r#"{ "a" : 1.0, "b":"\u00e9" }"#, r#"{ "a" : 1.0, "b":"\u00e9" }"#),
        ("null", "null"),
        ("12345678901234567890.10", "12345678901234567890.10"),
    ] {
        let message = format!(r#"{{"event":"client-a","channel":"private-b","data":{data}}}"#);
        let expected = ("client-a".to_owned(), "private-b".to_owned(), Some(text.to_owned()));
        assert_eq!(client_event(&message), expected);
    }
    let none = client_event(r#"{"event":"client-a","channel":"private-b"}"#);
    assert_eq!(none.2, None);
}

#[test]
fn each_invalid_message_has_its_own_error() {
    for (text, message) in [
        (
            "hello",
            r#"the message is not {"event": "..", "data": ..}: expected value at line 1 column 1"#,
        ),
        (
            r#"{"data":{}}"#,
            r#"the message is not {"event": "..", "data": ..}: missing field `event` at line 1 column 11"#,
        ),
        (
            r#"{"event":"pusher:ping","event":"pusher:pong"}"#,
            r#"the message is not {"event": "..", "data": ..}: duplicate field `event` at line 1 column 30"#,
        ),
        (
            r#"{"event":"pusher:ping"} {}"#,
            r#"the message is not {"event": "..", "data": ..}: trailing characters at line 1 column 25"#,
        ),
        (
            r#"["pusher:ping",null,{}]"#,
            r#"the message is not {"event": "..", "data": ..}: found an array, expected an object at line 1 column 0"#,
        ),
        (
            r#"{"event":"pusher:subscribe","data":["a"]}"#,
            "data of pusher:subscribe: found an array, expected an object at line 1 column 0",
        ),
        (
            r#"{"event":"pusher:subscribe","data":{"channel":"a","recover":["00000000000000ab",1]}}"#,
            "data of pusher:subscribe: found an array, expected an object at line 1 column 25",
        ),
        (
            r#"{"event":"weir:members","data":{"channel":"presence-a","start":"0"}}"#,
            r#"data of weir:members: found string "0", expected a whole number, not negative at line 1 column 35"#,
        ),
        (r#"{"event":"pusher:subscribe"}"#, "pusher:subscribe needs data"),
        (
            r#"{"event":"pusher:subscribe","data":{}}"#,
            "data of pusher:subscribe: missing field `channel` at line 1 column 2",
        ),
        (
            r#"{"event":"pusher:subscribe","data":{"channel":"a","channel":"b"}}"#,
            "data of pusher:subscribe: duplicate field `channel` at line 1 column 24",
        ),
        (
            r#"{"event":"pusher:subscribe","data":{"channel":"a b"}}"#,
            "channel 'a b' has ' ' at byte 1; a name may have A-Z a-z 0-9 _ - = @ , . ;",
        ),
        (
            r#"{"event":"pusher:signin","data":{"auth":"a"}}"#,
            "data of pusher:signin: missing field `user_data` at line 1 column 12",
        ),
        (r#"{"event":"client-a","data":1}"#, "event 'client-a' needs a channel"),
        (
            r#"{"event":"client-a","channel":"b","data":"\ud800"}"#,
            "the event's data is not a valid string: unexpected end of hex escape at line 1 column 8",
        ),
        (
            r#"{"event":"pusher:shutdown"}"#,
            "unknown event 'pusher:shutdown': a client sends pusher:subscribe, pusher:unsubscribe, pusher:signin, pusher:ping, pusher:pong, and events whose names begin with client-",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err(), message);
    }
}

#[test]
fn client_messages_are_limited_in_size() {
    let event = |data: &str| format!(r#"{{"event":"client-a","channel":"b","data":{data}}}"#);
    let text = |bytes: usize| event(&format!("\"{}\"", "x".repeat(bytes)));
    assert!(parse(&text(10_240)).is_ok());
    assert_eq!(
        parse(&text(10_241)),
        Err("the event's data has 10241 bytes; at most 10240 are allowed".to_owned())
    );
    let bytes = text(65_536).len();
    assert_eq!(
        parse(&text(65_536)),
        Err(format!("the message has {bytes} bytes; at most 65536 are allowed"))
    );
    // One level is the message itself.
    let nested = |levels: usize| event(&format!("{}{}", "[".repeat(levels), "]".repeat(levels)));
    assert!(parse(&nested(63)).is_ok());
    assert_eq!(parse(&nested(64)), Err("the message is nested deeper than 64 levels".to_owned()));
    assert!(parse(&"[".repeat(60_000)).is_err());
    let name = format!(r#"{{"event":"client-{}","channel":"b"}}"#, "x".repeat(194));
    assert_eq!(parse(&name), Err("the event name is longer than 200 characters".to_owned()));
}

#[test]
fn an_error_repeats_only_the_beginning_of_the_message() {
    for text in [
        json!({"event": "x".repeat(60_000)}).to_string(),
        json!({"event": "client-a", "channel": {"x": 1}, "y": "x".repeat(60_000)}).to_string(),
        json!({"event": "pusher:subscribe", "data": "x".repeat(60_000)}).to_string(),
        json!({"event": "pusher:subscribe", "data": {"channel": "a", "recover": "x".repeat(60_000)}})
            .to_string(),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.len() < 1_000 && !error.contains('\n'), "{error}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(".{0,4}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// What a client sends is what the others' `JSON.parse` of `data` gives.
    #[test]
    fn the_data_of_any_client_event_arrives(data in any_json(), channel in ".{0,9}") {
        let text = json!({"event": "client-é\n", "channel": channel, "data": data}).to_string();
        let (event, found_channel, found) = client_event(&text);
        prop_assert_eq!((event.as_str(), found_channel), ("client-é\n", channel));
        let found = found.unwrap();
        match data {
            Value::String(text) => prop_assert_eq!(found, text),
            other => prop_assert_eq!(serde_json::from_str::<Value>(&found).unwrap(), other),
        }
    }

    #[test]
    fn any_message_parses_or_gives_an_error(text in "\\PC{0,60}", event in "(pusher:(subscribe|unsubscribe|signin|ping)|client-a)", data in any_json()) {
        let _ = parse(&text);
        let _ = parse(&json!({"event": event, "data": data}).to_string());
    }
}
