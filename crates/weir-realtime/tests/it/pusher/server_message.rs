use std::time::Duration;

use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use weir_realtime::pusher::close_code::CloseCode;
use weir_realtime::pusher::position::{ChannelPosition, Epoch};
use weir_realtime::pusher::server_message::{
    self as message, ChannelEvent, Joined, MemberData, Recovery, WatchlistChange,
};
use weir_realtime::pusher::socket_id::SocketId;

const POSITION: ChannelPosition = ChannelPosition { epoch: Epoch(0xfedc), offset: 12 };

/// What is appended to a buffer that is in use.
fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = b"before".to_vec();
    write(&mut out);
    String::from_utf8(out).unwrap().strip_prefix("before").unwrap().to_owned()
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

#[test]
fn connection_messages_have_the_protocols_form() {
    let socket_id = SocketId { first: 123, second: 456 };
    let established = |millis| {
        let timeout = Duration::from_millis(millis);
        text(|out| message::connection_established(out, socket_id, timeout))
    };
    assert_eq!(
        established(120_000),
        r#"{"event":"pusher:connection_established","data":"{\"socket_id\":\"123.456\",\"activity_timeout\":120}"}"#
    );
    assert!(established(999).contains(r#"\"activity_timeout\":1}"#));
    assert_eq!(text(message::ping), r#"{"event":"pusher:ping","data":"{}"}"#);
    assert_eq!(text(message::pong), r#"{"event":"pusher:pong","data":"{}"}"#);
    assert_eq!(
        text(|out| message::error(out, None, "wrong: \"a\"\n")),
        r#"{"event":"pusher:error","data":{"code":null,"message":"wrong: \"a\"\n"}}"#
    );
    assert_eq!(
        text(|out| message::error(out, Some(CloseCode::ClientEventRate), "slow down")),
        r#"{"event":"pusher:error","data":{"code":4301,"message":"slow down"}}"#
    );
    assert_eq!(
        text(|out| message::signin_success(out, r#"{"id":"1"}"#)),
        r#"{"event":"pusher:signin_success","data":"{\"user_data\":\"{\\\"id\\\":\\\"1\\\"}\"}"}"#
    );
}

#[test]
fn subscription_messages_have_the_protocols_form() {
    let succeeded = |joined: Joined| text(|out| message::subscription_succeeded(out, "a", &joined));
    assert_eq!(
        succeeded(Joined::default()),
        r#"{"event":"pusher_internal:subscription_succeeded","channel":"a","data":"{}"}"#
    );
    let recovery = Some(Recovery::Recovered { events: 3 });
    assert_eq!(
        succeeded(Joined { position: Some(POSITION), recovery, ..Joined::default() }),
        r#"{"event":"pusher_internal:subscription_succeeded","channel":"a","data":"{}","epoch":"000000000000fedc","offset":12,"recovery":{"outcome":"recovered","events":3}}"#
    );
    assert_eq!(
        succeeded(Joined { recovery: Some(Recovery::Gap), ..Joined::default() }),
        r#"{"event":"pusher_internal:subscription_succeeded","channel":"a","data":"{}","recovery":{"outcome":"gap"}}"#
    );
    assert_eq!(
        text(|out| message::subscription_error(out, "private-a", "AuthError", "no \"auth\"", 401)),
        r#"{"event":"pusher:subscription_error","channel":"private-a","data":"{\"type\":\"AuthError\",\"error\":\"no \\\"auth\\\"\",\"status\":401}"}"#
    );
    assert_eq!(
        text(|out| message::subscription_count(out, "a", 7)),
        r#"{"event":"pusher_internal:subscription_count","channel":"a","data":"{\"subscription_count\":7}"}"#
    );
    assert_eq!(
        text(|out| message::cache_miss(out, "cache-a")),
        r#"{"event":"pusher:cache_miss","channel":"cache-a","data":"{}"}"#
    );
}

#[test]
fn presence_messages_have_the_protocols_form() {
    let info = raw(r#"{ "name":"\u00e9" }"#);
    let one = MemberData { user_id: "1", user_info: Some(&info) };
    let two = MemberData { user_id: "\"2\"", user_info: None };
    let list = |joined: Joined, count, members: &[MemberData<'_>]| {
        let members = members.iter().copied();
        text(|out| {
            message::presence_subscription_succeeded(out, "presence-a", &joined, count, members);
        })
    };
    assert_eq!(
        list(Joined { position: Some(POSITION), ..Joined::default() }, 2, &[one, two]),
        r#"{"event":"pusher_internal:subscription_succeeded","channel":"presence-a","data":"{\"presence\":{\"ids\":[\"1\",\"\\\"2\\\"\"],\"hash\":{\"1\":{ \"name\":\"\\u00e9\" },\"\\\"2\\\"\":null},\"count\":2}}","epoch":"000000000000fedc","offset":12}"#
    );
    assert_eq!(
        list(Joined::default(), 9_000, &[]),
        r#"{"event":"pusher_internal:subscription_succeeded","channel":"presence-a","data":"{\"presence\":{\"ids\":[],\"hash\":{},\"count\":9000}}"}"#
    );
    assert_eq!(
        text(|out| message::member_added(out, "presence-a", one)),
        r#"{"event":"pusher_internal:member_added","channel":"presence-a","data":"{\"user_id\":\"1\",\"user_info\":{ \"name\":\"\\u00e9\" }}"}"#
    );
    assert_eq!(
        text(|out| message::member_added(out, "presence-a", two)),
        r#"{"event":"pusher_internal:member_added","channel":"presence-a","data":"{\"user_id\":\"\\\"2\\\"\"}"}"#
    );
    assert_eq!(
        text(|out| message::member_removed(out, "presence-a", "1")),
        r#"{"event":"pusher_internal:member_removed","channel":"presence-a","data":"{\"user_id\":\"1\"}"}"#
    );
}

#[test]
fn watchlist_messages_have_the_protocols_form() {
    let online = (WatchlistChange::Online, vec!["1", "2"]);
    let offline = (WatchlistChange::Offline, vec!["3"]);
    assert_eq!(
        text(|out| message::watchlist_events(out, [online, offline].into_iter())),
        r#"{"event":"pusher_internal:watchlist_events","data":"{\"events\":[{\"name\":\"online\",\"user_ids\":[\"1\",\"2\"]},{\"name\":\"offline\",\"user_ids\":[\"3\"]}]}"}"#
    );
}

#[test]
fn an_event_has_its_data_as_a_string_and_our_fields_last() {
    let data = Some(r#"{ "x" : 1.0 }"#);
    let event = ChannelEvent { event: "e", channel: "a", data, user_id: None, position: None };
    let written = |event: &ChannelEvent<'_>| text(|out| message::channel_event(out, event));
    assert_eq!(written(&event), r#"{"event":"e","channel":"a","data":"{ \"x\" : 1.0 }"}"#);
    assert_eq!(
        written(&ChannelEvent { position: Some(POSITION), ..event }),
        r#"{"event":"e","channel":"a","data":"{ \"x\" : 1.0 }","epoch":"000000000000fedc","offset":12}"#
    );
    assert_eq!(
        written(&ChannelEvent { user_id: Some("7"), data: None, ..event }),
        r#"{"event":"e","channel":"a","user_id":"7"}"#
    );
}

fn read(message: &str) -> Value {
    serde_json::from_str(message).unwrap()
}

/// What a client library makes of `data`.
fn data_of(message: &str) -> Value {
    read(read(message)["data"].as_str().unwrap())
}

/// Text with whatever needs escaping.
fn any_text() -> impl Strategy<Value = String> {
    "(\\PC|[\u{0}-\u{20}\"\\\\\u{7f}\u{2028}]){0,30}"
}

proptest! {
    #[test]
    fn every_event_round_trips(
        event in any_text(),
        channel in any_text(),
        data in prop::option::of(any_text()),
        user_id in prop::option::of(any_text()),
        place in prop::option::of((any::<u64>(), any::<u64>())),
    ) {
        let position = place.map(|(epoch, offset)| ChannelPosition { epoch: Epoch(epoch), offset });
        let mut expected = json!({"event": event, "channel": channel});
        if let Some(data) = &data {
            expected["data"] = json!(data);
        }
        if let Some(user_id) = &user_id {
            expected["user_id"] = json!(user_id);
        }
        if let Some(ChannelPosition { epoch, offset }) = position {
            expected["epoch"] = json!(epoch.to_string());
            expected["offset"] = json!(offset);
        }
        let (data, user_id) = (data.as_deref(), user_id.as_deref());
        let event = ChannelEvent { event: &event, channel: &channel, data, user_id, position };
        prop_assert_eq!(read(&text(|out| message::channel_event(out, &event))), expected);
    }

    #[test]
    fn every_member_list_round_trips(
        members in prop::collection::btree_map(any_text(), prop::option::of(any_text()), 0..5),
    ) {
        let infos: Vec<_> = members
            .iter()
            .map(|(id, info)| (id, info.as_ref().map(|info| raw(&json!({"i": info}).to_string()))))
            .collect();
        let list = infos.iter().map(|(id, info)| MemberData { user_id: id, user_info: info.as_deref() });
        let count = members.len();
        let found = text(|out| message::presence_subscription_succeeded(
            out, "presence-a", &Joined::default(), count, list,
        ));
        let ids: Vec<_> = members.keys().collect();
        let hash: serde_json::Map<_, _> = members
            .iter()
            .map(|(id, info)| (id.clone(), info.as_ref().map_or(Value::Null, |info| json!({"i": info}))))
            .collect();
        prop_assert_eq!(data_of(&found), json!({"presence": {"ids": ids, "hash": hash, "count": count}}));
    }

    #[test]
    fn every_other_message_round_trips(one in any_text(), other in any_text()) {
        let member = MemberData { user_id: &one, user_info: None };
        let online = [(WatchlistChange::Online, [one.as_str(), other.as_str()])];
        for (found, data) in [
            (text(|out| message::member_added(out, &other, member)), json!({"user_id": one})),
            (text(|out| message::member_removed(out, &other, &one)), json!({"user_id": one})),
            (text(|out| message::subscription_count(out, &other, 7)), json!({"subscription_count": 7})),
            (text(|out| message::cache_miss(out, &other)), json!({})),
            (text(|out| message::subscription_succeeded(out, &other, &Joined::default())), json!({})),
            (
                text(|out| message::subscription_error(out, &other, "AuthError", &one, 401)),
                json!({"type": "AuthError", "error": one, "status": 401}),
            ),
        ] {
            prop_assert_eq!(&read(&found)["channel"], &json!(other));
            prop_assert_eq!(data_of(&found), data);
        }
        let found = text(|out| message::signin_success(out, &one));
        prop_assert_eq!(data_of(&found), json!({"user_data": one}));
        let found = text(|out| message::watchlist_events(out, online.into_iter()));
        prop_assert_eq!(data_of(&found), json!({"events": [{"name": "online", "user_ids": [one, other]}]}));
        let found = read(&text(|out| message::error(out, None, &one)));
        prop_assert_eq!(&found["data"], &json!({"code": null, "message": one}));
    }
}
