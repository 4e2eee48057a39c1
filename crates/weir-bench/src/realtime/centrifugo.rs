//! Centrifugo's bidirectional JSON protocol, as a client speaks it: JSON objects, several to a frame, one a line.

use serde_json::{Value, json};

use super::codec::{Epoch, Position, Recovery, ServerMessage, SubscribeRequest, excerpt};
use super::target::App;

pub(crate) const PATH: &str = "/connection/websocket";
pub(crate) const CONNECT: &str = r#"{"id":1,"connect":{}}"#;
pub(crate) const PONG: &str = "{}";

pub(crate) fn subscribe_message(request: &SubscribeRequest<'_>) -> String {
    let mut subscribe = json!({ "channel": request.channel });
    if let Some(Position { epoch, offset }) = request.recover {
        subscribe["recover"] = true.into();
        subscribe["epoch"] = epoch.as_str().into();
        subscribe["offset"] = offset.into();
    }
    json!({ "id": 2, "subscribe": subscribe }).to_string()
}

pub(crate) fn publish_request(app: &App, host: &str, channel: &str, data: &str) -> Vec<u8> {
    let body = json!({ "channel": channel, "data": data }).to_string();
    let (key, bytes) = (&app.secret, body.len());
    let request = format!(
        "POST /api/publish HTTP/1.1\r\nHost: {host}\r\nX-API-Key: {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {bytes}\r\n\r\n{body}"
    );
    request.into_bytes()
}

pub(crate) fn parse_message(message: &[u8]) -> ServerMessage {
    if message == b"{}" {
        return ServerMessage::Ping;
    }
    // Pushes are events; only replies to the two commands are read as a whole.
    if !message.starts_with(br#"{"id":"#) {
        return ServerMessage::Other;
    }
    let reply: Value = serde_json::from_slice(message).unwrap_or_default();
    if reply.get("error").is_some() {
        return ServerMessage::Rejected(excerpt(message));
    }
    if reply.get("connect").is_some() {
        return ServerMessage::Connected { socket_id: String::new() };
    }
    reply.get("subscribe").map_or(ServerMessage::Other, parse_subscribe_reply)
}

fn parse_subscribe_reply(reply: &Value) -> ServerMessage {
    let epoch = reply["epoch"].as_str().and_then(|epoch| Epoch::new(epoch.as_bytes()));
    // The server omits zeros.
    let offset = reply["offset"].as_u64().unwrap_or(0);
    let was_recovering = reply["was_recovering"].as_bool().unwrap_or(false);
    let recovered = reply["recovered"].as_bool().unwrap_or(false);
    let recovery = if recovered { Recovery::Recovered } else { Recovery::Gap };
    ServerMessage::Subscribed {
        position: epoch.map(|epoch| Position { epoch, offset }),
        recovery: was_recovering.then_some(recovery),
        members: None,
        has_member_changes: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_parsed() {
        let check = |message: &str, expected: ServerMessage| {
            assert_eq!(parse_message(message.as_bytes()), expected, "{message}")
        };
        check("{}", ServerMessage::Ping);
        check(
            r#"{"id":1,"connect":{"client":"a-b","ping":25,"pong":true}}"#,
            ServerMessage::Connected { socket_id: String::new() },
        );
        check(
            r#"{"id":2,"subscribe":{}}"#,
            ServerMessage::Subscribed {
                position: None,
                recovery: None,
                members: None,
                has_member_changes: false,
            },
        );
        let error = r#"{"id":2,"error":{"code":103,"message":"permission denied"}}"#;
        check(error, ServerMessage::Rejected(error.to_owned()));
        check(r#"{"push":{"channel":"a","pub":{"data":{}}}}"#, ServerMessage::Other);
        let epoch = Epoch::new(b"xyZw").expect("short");
        let position = Some(Position { epoch, offset: 3 });
        check(
            r#"{"id":2,"subscribe":{"recoverable":true,"epoch":"xyZw","publications":[{"data":1,"offset":3}],"recovered":true,"offset":3,"was_recovering":true}}"#,
            ServerMessage::Subscribed {
                position,
                recovery: Some(Recovery::Recovered),
                members: None,
                has_member_changes: false,
            },
        );
    }
}
