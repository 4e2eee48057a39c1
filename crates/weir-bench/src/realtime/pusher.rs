//! Pusher Channels protocol 7, as a client speaks it.

use serde_json::json;

use super::codec::{
    Epoch, Position, Recovery, ServerMessage, SubscribeRequest, excerpt, number_after, value_after,
};
use super::members::{MemberChange, MemberMessage, MembersPage, PageRequest, user_id};
use super::signature;
use super::target::App;

pub(crate) const PONG: &str = r#"{"event":"pusher:pong","data":{}}"#;
const EVENT_NAME: &str = "weir-bench";

pub(crate) fn websocket_path(app: &App) -> String {
    format!("/app/{}?protocol=7&client=weir-bench&version=1", app.key)
}

pub(crate) fn subscribe_message(app: &App, request: &SubscribeRequest<'_>) -> String {
    let mut data = json!({ "channel": request.channel });
    if let Some(member) = request.member {
        let channel_data = json!({ "user_id": user_id(member) }).to_string();
        let auth =
            signature::channel_auth(app, request.socket_id, request.channel, Some(&channel_data));
        data["auth"] = auth.into();
        data["channel_data"] = channel_data.into();
    }
    if request.member_changes {
        data["member_changes"] = true.into();
    }
    if let Some(Position { epoch, offset }) = request.recover {
        data["recover"] = json!({ "epoch": epoch.as_str(), "offset": offset });
    }
    json!({ "event": "pusher:subscribe", "data": data }).to_string()
}

/// Requests a page of a channel's members (an extension of Weir).
pub(crate) fn members_request(
    channel: &str,
    PageRequest { version, start }: PageRequest,
) -> String {
    let data = json!({ "channel": channel, "version": version, "start": start });
    json!({ "event": "weir:members", "data": data }).to_string()
}

pub(crate) fn publish_request(
    app: &App,
    host: &str,
    channel: &str,
    data: &str,
    at: u64,
) -> Vec<u8> {
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

/// Returns an event as a server sends it, for the scenario floor, which has no server.
pub(crate) fn event_text(channel: &str, data: &str) -> String {
    let position = r#""epoch":"0123456789abcdef","offset":1234567"#;
    format!(r#"{{"event":"{EVENT_NAME}","channel":"{channel}","data":"{data}",{position}}}"#)
}

pub(crate) fn parse_message(message: &[u8]) -> ServerMessage {
    match value_after(message, r#""event""#).and_then(event_name) {
        Some("connection_established") => parse_connection_established(message),
        Some("subscription_succeeded") => parse_subscription_succeeded(message),
        Some("member_added") => ServerMessage::Members(MemberMessage::Joined),
        Some("member_removed") => ServerMessage::Members(MemberMessage::Left),
        Some("members") => {
            member_message(MembersPage::parse(message).map(MemberMessage::Page), message)
        }
        Some("members_changed") => {
            member_message(MemberChange::parse(message).map(MemberMessage::Changed), message)
        }
        Some("subscription_count") => {
            let count = number_after(message, r#""subscription_count\""#);
            count.map_or(ServerMessage::Other, |count| {
                ServerMessage::Members(MemberMessage::Count(count))
            })
        }
        Some("ping") => ServerMessage::Ping,
        Some("error" | "subscription_error") => ServerMessage::Rejected(excerpt(message)),
        _ => ServerMessage::Other,
    }
}

/// Returns the name without its prefix, or `None` for an event of the application.
fn event_name(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    let prefixes = ["pusher:", "pusher_internal:", "weir:"];
    prefixes.iter().find_map(|prefix| name.strip_prefix(prefix))
}

fn member_message(parsed: serde_json::Result<MemberMessage>, message: &[u8]) -> ServerMessage {
    match parsed {
        Ok(message) => ServerMessage::Members(message),
        Err(error) => ServerMessage::Rejected(format!("{error}: {}", excerpt(message))),
    }
}

fn parse_connection_established(message: &[u8]) -> ServerMessage {
    let socket_id = value_after(message, "socket_id").unwrap_or_default();
    ServerMessage::Connected { socket_id: String::from_utf8_lossy(socket_id).into_owned() }
}

fn parse_subscription_succeeded(message: &[u8]) -> ServerMessage {
    let epoch = value_after(message, "epoch").and_then(Epoch::new);
    let position = epoch.zip(number_after(message, "offset"));
    let recovery = match value_after(message, "outcome") {
        Some(b"recovered") => Some(Recovery::Recovered),
        Some(_) => Some(Recovery::Gap),
        None => None,
    };
    ServerMessage::Subscribed {
        position: position.map(|(epoch, offset)| Position { epoch, offset }),
        recovery,
        // The list of members precedes the count; no member is called "count".
        members: number_after(message, r#"\"count\""#),
        has_member_changes: value_after(message, r#""members_version""#).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscribed_message(epoch: &str, offset: u64, recovery: Option<Recovery>) -> ServerMessage {
        let epoch = Epoch::new(epoch.as_bytes()).expect("short");
        ServerMessage::Subscribed {
            position: Some(Position { epoch, offset }),
            recovery,
            members: None,
            has_member_changes: false,
        }
    }

    #[test]
    fn server_messages_are_parsed() {
        let check = |message: &str, expected: ServerMessage| {
            assert_eq!(parse_message(message.as_bytes()), expected, "{message}")
        };
        check(
            r#"{"event":"pusher:connection_established","data":"{\"socket_id\":\"12.34\",\"activity_timeout\":120}"}"#,
            ServerMessage::Connected { socket_id: "12.34".to_owned() },
        );
        check(
            r#"{"event":"pusher_internal:subscription_succeeded","channel":"a","data":"{}"}"#,
            ServerMessage::Subscribed {
                position: None,
                recovery: None,
                members: None,
                has_member_changes: false,
            },
        );
        check(
            r#"{"event":"pusher_internal:subscription_succeeded","channel":"a","data":"{}","epoch":"00000000000000ab","offset":7,"recovery":{"outcome":"recovered","events":3}}"#,
            subscribed_message("00000000000000ab", 7, Some(Recovery::Recovered)),
        );
        check(
            r#"{"event":"pusher_internal:subscription_succeeded","channel":"a","data":"{\"epoch\":\"00000000000000ab\",\"offset\":7,\"recovery\":{\"outcome\":\"gap\"}}"}"#,
            subscribed_message("00000000000000ab", 7, Some(Recovery::Gap)),
        );
        check(
            r#"{"event":"pusher_internal:subscription_succeeded","channel":"presence-a","data":"{\"presence\":{\"ids\":[\"u1\"],\"hash\":{\"u1\":null},\"count\":1}}","members_version":3}"#,
            ServerMessage::Subscribed {
                position: None,
                recovery: None,
                members: Some(1),
                has_member_changes: true,
            },
        );
        check(
            r#"{"event":"pusher_internal:subscription_count","channel":"a","data":"{\"subscription_count\":12}"}"#,
            ServerMessage::Members(MemberMessage::Count(12)),
        );
        check(
            r#"{"event":"pusher_internal:member_added","channel":"a","data":"{\"user_id\":\"1\"}"}"#,
            ServerMessage::Members(MemberMessage::Joined),
        );
        check(r#"{"event":"pusher:ping","data":"{}"}"#, ServerMessage::Ping);
        let error = r#"{"event":"pusher:error","data":{"code":4100,"message":"Over capacity"}}"#;
        check(error, ServerMessage::Rejected(error.to_owned()));
        check(r#"{"event":"ping","channel":"a","data":"pusher:ping"}"#, ServerMessage::Other);
    }

    #[test]
    fn recovery_request_contains_the_position() {
        let epoch = Epoch::new(b"00000000000000ab").expect("short");
        let recover = Some(Position { epoch, offset: 7 });
        let request = SubscribeRequest {
            channel: "a",
            socket_id: "1.2",
            member: None,
            member_changes: false,
            recover,
        };
        let app = "1:key:secret".parse().expect("valid");
        let text: serde_json::Value =
            serde_json::from_str(&subscribe_message(&app, &request)).expect("JSON");
        assert_eq!(text["data"]["recover"], json!({ "epoch": "00000000000000ab", "offset": 7 }));
        assert!(text["data"].get("auth").is_none());
    }

    #[test]
    fn member_subscription_is_signed() {
        let request = SubscribeRequest {
            channel: "presence-a",
            socket_id: "1.2",
            member: Some(5),
            member_changes: true,
            recover: None,
        };
        let app: App = "1:key:secret".parse().expect("valid");
        let text: serde_json::Value =
            serde_json::from_str(&subscribe_message(&app, &request)).expect("JSON");
        let channel_data = text["data"]["channel_data"].as_str().expect("text");
        assert_eq!(channel_data, r#"{"user_id":"u5"}"#);
        assert_eq!(text["data"]["member_changes"], true);
        let auth = signature::channel_auth(&app, "1.2", "presence-a", Some(channel_data));
        assert_eq!(text["data"]["auth"], auth);
    }
}
