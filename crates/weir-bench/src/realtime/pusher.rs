//! Pusher Channels protocol 7, as a client speaks it.

use serde_json::json;

use super::members::{MemberChange, MemberNews, MembersPage, PageWish, user_id};
use super::signature;
use super::speech::{Epoch, Heard, Position, Recovery, Wish, excerpt, number_after, value_after};
use super::target::App;

pub(crate) const PONG: &str = r#"{"event":"pusher:pong","data":{}}"#;
const EVENT_NAME: &str = "weir-bench";

pub(crate) fn path(app: &App) -> String {
    format!("/app/{}?protocol=7&client=weir-bench&version=1", app.key)
}

pub(crate) fn subscribe(app: &App, wish: &Wish<'_>) -> String {
    let mut data = json!({ "channel": wish.channel });
    if let Some(member) = wish.member {
        let channel_data = json!({ "user_id": user_id(member) }).to_string();
        let auth = signature::channel_auth(app, wish.socket_id, wish.channel, Some(&channel_data));
        data["auth"] = auth.into();
        data["channel_data"] = channel_data.into();
    }
    if wish.member_changes {
        data["member_changes"] = true.into();
    }
    if let Some(Position { epoch, offset }) = wish.recover {
        data["recover"] = json!({ "epoch": epoch.as_str(), "offset": offset });
    }
    json!({ "event": "pusher:subscribe", "data": data }).to_string()
}

/// Weir's extension, as the differences of the members are.
pub(crate) fn members(channel: &str, PageWish { version, start }: PageWish) -> String {
    let data = json!({ "channel": channel, "version": version, "start": start });
    json!({ "event": "weir:members", "data": data }).to_string()
}

pub(crate) fn publish(app: &App, host: &str, channel: &str, data: &str, at: u64) -> Vec<u8> {
    let body = json!({ "name": EVENT_NAME, "channel": channel, "data": data }).to_string();
    let path = format!("/apps/{}/events", app.id);
    let query = signature::request_query(app, "POST", &path, body.as_bytes(), at);
    let bytes = body.len();
    let request = format!(
        "POST {path}?{query} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: {bytes}\r\n\r\n{body}"
    );
    request.into_bytes()
}

/// The text of an event as a server sends it, for a floor that has no server.
pub(crate) fn event_text(channel: &str, data: &str) -> String {
    let position = r#""epoch":"0123456789abcdef","offset":1234567"#;
    format!(r#"{{"event":"{EVENT_NAME}","channel":"{channel}","data":"{data}",{position}}}"#)
}

pub(crate) fn hear(message: &[u8]) -> Heard {
    match value_after(message, r#""event""#).and_then(event_name) {
        Some("connection_established") => greeted(message),
        Some("subscription_succeeded") => subscribed(message),
        Some("member_added") => Heard::Members(MemberNews::Came),
        Some("member_removed") => Heard::Members(MemberNews::Went),
        Some("members") => news(MembersPage::parse(message).map(MemberNews::Page), message),
        Some("members_changed") => {
            news(MemberChange::parse(message).map(MemberNews::Changed), message)
        }
        Some("subscription_count") => {
            let count = number_after(message, r#""subscription_count\""#);
            count.map_or(Heard::Other, |count| Heard::Members(MemberNews::Count(count)))
        }
        Some("ping") => Heard::Ping,
        Some("error" | "subscription_error") => Heard::Refused(excerpt(message)),
        _ => Heard::Other,
    }
}

/// Without its prefix; `None` for events of the application.
fn event_name(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    let prefixes = ["pusher:", "pusher_internal:", "weir:"];
    prefixes.iter().find_map(|prefix| name.strip_prefix(prefix))
}

fn news(parsed: serde_json::Result<MemberNews>, message: &[u8]) -> Heard {
    match parsed {
        Ok(news) => Heard::Members(news),
        Err(error) => Heard::Refused(format!("{error}: {}", excerpt(message))),
    }
}

fn greeted(message: &[u8]) -> Heard {
    let socket_id = value_after(message, "socket_id").unwrap_or_default();
    Heard::Greeted { socket_id: String::from_utf8_lossy(socket_id).into_owned() }
}

fn subscribed(message: &[u8]) -> Heard {
    let epoch = value_after(message, "epoch").and_then(Epoch::new);
    let position = epoch.zip(number_after(message, "offset"));
    let recovery = match value_after(message, "outcome") {
        Some(b"recovered") => Some(Recovery::Recovered),
        Some(_) => Some(Recovery::Gap),
        None => None,
    };
    Heard::Subscribed {
        position: position.map(|(epoch, offset)| Position { epoch, offset }),
        recovery,
        // The list of members comes before it, and may be long: none of them is called "count".
        members: number_after(message, r#"\"count\""#),
        has_member_changes: value_after(message, r#""members_version""#).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscribed_with(epoch: &str, offset: u64, recovery: Option<Recovery>) -> Heard {
        let epoch = Epoch::new(epoch.as_bytes()).expect("short");
        Heard::Subscribed {
            position: Some(Position { epoch, offset }),
            recovery,
            members: None,
            has_member_changes: false,
        }
    }

    #[test]
    fn messages_of_a_server_are_understood() {
        let check = |message: &str, expected: Heard| {
            assert_eq!(hear(message.as_bytes()), expected, "{message}")
        };
        check(
            r#"{"event":"pusher:connection_established","data":"{\"socket_id\":\"12.34\",\"activity_timeout\":120}"}"#,
            Heard::Greeted { socket_id: "12.34".to_owned() },
        );
        check(
            r#"{"event":"pusher_internal:subscription_succeeded","channel":"a","data":"{}"}"#,
            Heard::Subscribed {
                position: None,
                recovery: None,
                members: None,
                has_member_changes: false,
            },
        );
        check(
            r#"{"event":"pusher_internal:subscription_succeeded","channel":"a","data":"{}","epoch":"00000000000000ab","offset":7,"recovery":{"outcome":"recovered","events":3}}"#,
            subscribed_with("00000000000000ab", 7, Some(Recovery::Recovered)),
        );
        check(
            r#"{"event":"pusher_internal:subscription_succeeded","channel":"a","data":"{\"epoch\":\"00000000000000ab\",\"offset\":7,\"recovery\":{\"outcome\":\"gap\"}}"}"#,
            subscribed_with("00000000000000ab", 7, Some(Recovery::Gap)),
        );
        check(
            r#"{"event":"pusher_internal:subscription_succeeded","channel":"presence-a","data":"{\"presence\":{\"ids\":[\"u1\"],\"hash\":{\"u1\":null},\"count\":1}}","members_version":3}"#,
            Heard::Subscribed {
                position: None,
                recovery: None,
                members: Some(1),
                has_member_changes: true,
            },
        );
        check(
            r#"{"event":"pusher_internal:subscription_count","channel":"a","data":"{\"subscription_count\":12}"}"#,
            Heard::Members(MemberNews::Count(12)),
        );
        check(
            r#"{"event":"pusher_internal:member_added","channel":"a","data":"{\"user_id\":\"1\"}"}"#,
            Heard::Members(MemberNews::Came),
        );
        check(r#"{"event":"pusher:ping","data":"{}"}"#, Heard::Ping);
        let error = r#"{"event":"pusher:error","data":{"code":4100,"message":"Over capacity"}}"#;
        check(error, Heard::Refused(error.to_owned()));
        check(r#"{"event":"ping","channel":"a","data":"pusher:ping"}"#, Heard::Other);
    }

    #[test]
    fn a_wish_to_recover_says_from_where() {
        let epoch = Epoch::new(b"00000000000000ab").expect("short");
        let recover = Some(Position { epoch, offset: 7 });
        let wish =
            Wish { channel: "a", socket_id: "1.2", member: None, member_changes: false, recover };
        let app = "1:key:secret".parse().expect("valid");
        let text: serde_json::Value = serde_json::from_str(&subscribe(&app, &wish)).expect("JSON");
        assert_eq!(text["data"]["recover"], json!({ "epoch": "00000000000000ab", "offset": 7 }));
        assert!(text["data"].get("auth").is_none());
    }

    #[test]
    fn a_member_is_signed() {
        let wish = Wish {
            channel: "presence-a",
            socket_id: "1.2",
            member: Some(5),
            member_changes: true,
            recover: None,
        };
        let app: App = "1:key:secret".parse().expect("valid");
        let text: serde_json::Value = serde_json::from_str(&subscribe(&app, &wish)).expect("JSON");
        let channel_data = text["data"]["channel_data"].as_str().expect("text");
        assert_eq!(channel_data, r#"{"user_id":"u5"}"#);
        assert_eq!(text["data"]["member_changes"], true);
        let auth = signature::channel_auth(&app, "1.2", "presence-a", Some(channel_data));
        assert_eq!(text["data"]["auth"], auth);
    }
}
