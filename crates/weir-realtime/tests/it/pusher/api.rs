use proptest::prelude::*;
use serde_json::{Value, json};
use weir_realtime::pusher::api::{
    self, CachedEvent, ChannelInfo, InfoRequest, ListRequest, parse_batch, parse_publish,
    parse_user_event,
};
use weir_realtime::pusher::limits::PusherLimits;
use weir_realtime::pusher::signature::SignedQuery;
use weir_realtime::pusher::socket_id::SocketId;

const NOTHING: InfoRequest =
    InfoRequest { user_count: false, subscription_count: false, cache: false };

#[test]
fn an_event_of_a_server_library_is_parsed() {
    let body = br#"{"name":"foo","data":"{\"some\":\"d\u00e4ta\"}","channels":["b","a","b"],"socket_id":"1234.5678","info":"user_count, subscription_count"}"#;
    let event = parse_publish(body, &PusherLimits::default()).unwrap();
    assert_eq!(event.name.as_str(), "foo");
    assert_eq!(event.data.as_str(), r#"{"some":"däta"}"#);
    let channels: Vec<_> = event.channels.iter().map(|channel| channel.as_str()).collect();
    assert_eq!(channels, ["b", "a"]);
    assert_eq!(event.socket_id, Some(SocketId { first: 1234, second: 5678 }));
    let info = InfoRequest { user_count: true, subscription_count: true, cache: false };
    assert_eq!(event.info, Some(info));
}

#[test]
fn an_event_for_one_channel_can_have_non_string_data() {
    let body = br##"{"name":"foo","data":{ "a" : 1.0 },"channel":"#server-to-user-7","socket_id":null,"more":{}}"##;
    let event = parse_publish(body, &PusherLimits::default()).unwrap();
    assert_eq!(event.data.as_str(), r#"{ "a" : 1.0 }"#);
    assert_eq!(event.channels[0].server_to_user(), Some("7"));
    assert_eq!((event.socket_id, event.info), (None, None));
}

#[test]
fn an_event_for_a_user_is_parsed() {
    let event =
        parse_user_event(br#"{"name":"foo","data":"bar"}"#, &PusherLimits::default()).unwrap();
    assert_eq!((event.name.as_str(), event.data.as_str()), ("foo", "bar"));
    let error =
        parse_user_event(br#"{"name":"","data":"bar"}"#, &PusherLimits::default()).unwrap_err();
    assert_eq!((error.status(), error.to_string().as_str()), (400, "the event name is empty"));
}

/// The status and the sentence of a refusal.
fn refusal(body: &str) -> (u16, String) {
    let error = parse_publish(body.as_bytes(), &PusherLimits::default()).unwrap_err();
    (error.status(), error.to_string())
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("c{index}")).collect()
}

#[test]
fn each_invalid_event_has_an_error_and_a_status() {
    for (changes, status, message) in [
        (json!({}), 400, "an event needs channels, an array of names, or channel, one name"),
        (
            json!({"channels": []}),
            400,
            "an event needs channels, an array of names, or channel, one name",
        ),
        (
            json!({"channels": ["a"], "channel": "a"}),
            400,
            "an event has either channels or channel, not both",
        ),
        (
            json!({"channels": names(101)}),
            400,
            "the event is for 101 channels; at most 100 are allowed",
        ),
        (
            json!({"channel": "a b"}),
            400,
            "channel 'a b' has ' ' at byte 1; a name may have A-Z a-z 0-9 _ - = @ , . ;",
        ),
        (json!({"name": "", "channel": "a"}), 400, "the event name is empty"),
        (
            json!({"name": "pusher:x", "channel": "a"}),
            400,
            "event 'pusher:x' can't be published: names beginning with pusher: or pusher_internal: are the protocol's own",
        ),
        (
            json!({"data": "x".repeat(10_241), "channel": "a"}),
            413,
            "the event's data has 10241 bytes; at most 10240 are allowed",
        ),
        (
            json!({"channel": "a", "socket_id": "undefined"}),
            400,
            "socket_id 'undefined' is not one: it is two numbers with a dot, as the client got it when it connected",
        ),
        (
            json!({"channel": "a", "info": "user_counts"}),
            400,
            "info has 'user_counts'; it is a list, with commas, of user_count, subscription_count, cache",
        ),
    ] {
        let mut body = json!({"name": "a", "data": ""});
        let fields = changes.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(fields);
        assert_eq!(refusal(&body.to_string()), (status, message.to_owned()));
    }
    let most = json!({"name": "a", "data": "x".repeat(10_240), "channels": names(100)}).to_string();
    assert!(parse_publish(most.as_bytes(), &PusherLimits::default()).is_ok());
}

#[test]
fn a_body_of_other_json_is_rejected() {
    for (body, reason) in [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("{", "EOF while parsing an object at line 1 column 1"),
        (r#"{"name":"a","channel":"b"}"#, "missing field `data` at line 1 column 26"),
        (r#"{"name":"a","name":"a"}"#, "duplicate field `name` at line 1 column 18"),
        (r#"{"name":7}"#, "found number `7`, expected a string at line 1 column 9"),
    ] {
        let message = format!("the body is not the JSON that this needs: {reason}");
        assert_eq!(refusal(body), (400, message));
    }
    let deep =
        format!(r#"{{"name":"a","channel":"a","data":{}{}}}"#, "[".repeat(64), "]".repeat(64));
    assert_eq!(refusal(&deep), (400, "the body is nested deeper than 64 levels".to_owned()));
    let large = "x".repeat(262_145);
    let message = "the body has 262145 bytes; at most 262144 are allowed".to_owned();
    assert_eq!(refusal(&large), (413, message));
    let error = parse_publish(b"\"\xff\"", &PusherLimits::default()).unwrap_err();
    assert_eq!(error.status(), 400);
    assert!(error.to_string().starts_with("the body is not UTF-8: "), "{error}");
}

/// The channels of a batch's events.
fn batch(events: Vec<Value>) -> Result<Vec<String>, (u16, String)> {
    let body = json!({"batch": events}).to_string();
    parse_batch(body.as_bytes(), &PusherLimits::default())
        .map(|events| events.iter().map(|event| event.channel.to_string()).collect())
        .map_err(|error| (error.status(), error.to_string()))
}

#[test]
fn a_batch_is_parsed_completely_or_rejected() {
    let event = |channel: &str| json!({"name": "n", "data": "d", "channel": channel});
    let refused = |status, message: &str| Err((status, message.to_owned()));
    let three = vec![event("b"), event("a"), event("b")];
    assert_eq!(batch(three), Ok(vec!["b".to_owned(), "a".to_owned(), "b".to_owned()]));
    assert_eq!(batch(vec![]), Ok(vec![]));
    assert!(batch(vec![event("a"); 10]).is_ok());
    assert_eq!(
        batch(vec![event("a"); 11]),
        refused(400, "the batch has 11 events; at most 10 are allowed")
    );
    assert_eq!(
        batch(vec![event("a"), event("")]),
        refused(400, "event 1 of the batch: the channel name is empty")
    );
    assert_eq!(
        batch(vec![json!({"name": "n", "data": "x".repeat(10_241), "channel": "a"})]),
        refused(
            413,
            "event 0 of the batch: the event's data has 10241 bytes; at most 10240 are allowed"
        )
    );
    assert_eq!(
        batch(vec![json!({"name": "n", "data": "d", "channels": ["a", "b"]})]),
        refused(400, "event 0 of the batch: the event is for 2 channels; at most 1 are allowed")
    );
}

fn query(text: &str) -> SignedQuery<'_> {
    SignedQuery::parse(text, &PusherLimits::default()).unwrap()
}

#[test]
fn info_attributes_are_a_comma_separated_list() {
    let info =
        |text: &str| InfoRequest::parse(query(text).get("info")).map_err(|error| error.to_string());
    let count = InfoRequest { subscription_count: true, ..NOTHING };
    assert_eq!(info(""), Ok(NOTHING));
    assert_eq!(info("info="), Ok(NOTHING));
    assert_eq!(info("info=subscription_count"), Ok(count));
    assert_eq!(info("info=cache"), Ok(InfoRequest { cache: true, ..NOTHING }));
    let both = InfoRequest { user_count: true, cache: true, ..NOTHING };
    assert_eq!(info("info=user_count,cache"), Ok(both));
    assert!(info("info=users").is_err());
}

#[test]
fn attributes_of_many_channels_need_a_prefix() {
    let list = |text: &str| {
        ListRequest::parse(&query(text))
            .map(|list| (list.filter_by_prefix.to_owned(), list.info))
            .map_err(|error| error.to_string())
    };
    let users = InfoRequest { user_count: true, ..NOTHING };
    assert_eq!(list("filter_by_prefix=a"), Ok(("a".to_owned(), NOTHING)));
    assert_eq!(
        list("filter_by_prefix=presence-x&info=user_count"),
        Ok(("presence-x".to_owned(), users))
    );
    assert_eq!(list("info=user_count"), Ok((String::new(), users)));
}

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn responses_have_the_documented_shapes() {
    let users = ChannelInfo { user_count: Some(42), subscription_count: Some(51), cache: None };
    let nothing = ChannelInfo::default();
    let cached = CachedEvent { data: "event \"data\"", ttl_seconds: 60 };
    let cached = ChannelInfo { cache: Some(Some(cached)), ..nothing.clone() };
    let uncached = ChannelInfo { cache: Some(None), ..nothing.clone() };
    let channels = [("presence-a", users.clone()), ("b", nothing.clone())];
    assert_eq!(text(api::write_nothing), "{}");
    assert_eq!(
        text(|out| api::write_channels(out, channels.into_iter())),
        r#"{"channels":{"presence-a":{"user_count":42,"subscription_count":51},"b":{}}}"#
    );
    assert_eq!(
        text(|out| api::write_batch(out, [users.clone(), nothing].into_iter())),
        r#"{"batch":[{"user_count":42,"subscription_count":51},{}]}"#
    );
    assert_eq!(
        text(|out| api::write_channel(out, true, &users)),
        r#"{"occupied":true,"user_count":42,"subscription_count":51}"#
    );
    assert_eq!(
        text(|out| api::write_channel(out, false, &cached)),
        r#"{"occupied":false,"cache":{"data":"event \"data\"","ttl":60}}"#
    );
    assert_eq!(
        text(|out| api::write_channel(out, true, &uncached)),
        r#"{"occupied":true,"cache":null}"#
    );
    assert_eq!(
        text(|out| api::write_users(out, ["1", "\"2\""].into_iter())),
        r#"{"users":[{"id":"1"},{"id":"\"2\""}]}"#
    );
}

proptest! {
    #[test]
    fn the_data_of_any_event_arrives(
        data in "(\\PC|[\u{0}-\u{20}\"\\\\]){0,60}",
        ascii: bool,
    ) {
        let mut body = json!({"name": "a", "channel": "b", "data": data}).to_string();
        if ascii {
            // As Python's json.dumps sends it.
            body = body.chars().map(escape).collect();
        }
        let event = parse_publish(body.as_bytes(), &PusherLimits::default()).unwrap();
        prop_assert_eq!(event.data.as_str(), data);
    }
}

fn escape(character: char) -> String {
    if character.is_ascii() {
        return character.to_string();
    }
    character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}
