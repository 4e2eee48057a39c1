//! Server-sent events (the HTML standard, "Server-sent events"): a channel for clients without
//! WebSockets.
//!
//! The data of each event is the message as a WebSocket would carry it, on one line. Its id is the
//! channel's position, which browsers send as `Last-Event-ID` when they reconnect.

use std::fmt::Write as _;

use serde::Deserialize;

use crate::pusher::position::{ChannelPosition, Epoch};
use crate::websocket::{FrameHeader, Opcode, Role};

/// A comment, which clients ignore.
const KEEP_ALIVE: &str = ": keep-alive\n\n";

/// Appends an event for each of the server's frames in `wire`.
pub(crate) fn write_events(out: &mut String, mut wire: &[u8]) {
    while let Ok(Some((header, start))) = FrameHeader::parse(wire, Role::Client) {
        let Ok(bytes) = usize::try_from(header.payload_bytes) else { return };
        let (frame, rest) = wire.split_at(wire.len().min(start + bytes));
        wire = rest;
        match header.opcode {
            // A ping only keeps proxies from closing the stream, so pages must not see it.
            Opcode::Ping => out.push_str(KEEP_ALIVE),
            // Event streams have no close frames; the response just ends.
            opcode if opcode.is_control() => {}
            _ => {
                if let Ok(json) = std::str::from_utf8(&frame[start..]) {
                    write_event(out, json);
                }
            }
        }
    }
}

fn write_event(out: &mut String, json: &str) {
    if let Some(position) = position(json) {
        let _ = writeln!(out, "id: {position}");
    }
    debug_assert!(!json.contains(['\n', '\r']), "JSON of this server is one line");
    let _ = write!(out, "data: {json}\n\n");
}

/// Appends the time that a browser waits before it reconnects.
pub(crate) fn write_retry(out: &mut String, retry_ms: u64) {
    let _ = write!(out, "retry: {retry_ms}\n\n");
}

fn position(json: &str) -> Option<ChannelPosition> {
    #[derive(Deserialize)]
    struct Fields {
        epoch: Epoch,
        offset: u64,
        #[serde(default)]
        recovery: Option<Recovery>,
    }
    #[derive(Deserialize)]
    struct Recovery {
        #[serde(default)]
        events: u64,
    }
    let Fields { epoch, offset, recovery } = serde_json::from_str(json).ok()?;
    // If missed events follow, they may never arrive, so their position must not be the id yet.
    let follows = recovery.is_some_and(|recovery| recovery.events > 0);
    (!follows).then_some(ChannelPosition { epoch, offset })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, append_text};
    use crate::websocket::Message;

    #[test]
    fn each_frame_becomes_an_event_with_its_position_as_id() {
        let mut wire = Vec::new();
        let positioned = r#"{"event":"e","data":"a\\nb","epoch":"00000000000000ab","offset":7}"#;
        append_text(&mut wire, |out| out.extend_from_slice(positioned.as_bytes()));
        append_text(&mut wire, |out| out.extend_from_slice(br#"{"event":"plain"}"#));
        let large = format!(r#"{{"data":"{}"}}"#, "x".repeat(70_000));
        wire.extend_from_slice(Frame::text(|out| out.extend_from_slice(large.as_bytes())).wire());
        Message::Ping(b"").encode(&mut wire, None);
        Message::Close(None).encode(&mut wire, None);
        let mut text = String::new();
        write_events(&mut text, &wire);
        let events: Vec<&str> = text.split_terminator("\n\n").collect();
        assert_eq!(events[0], format!("id: 00000000000000ab:7\ndata: {positioned}"));
        assert_eq!(events[1], r#"data: {"event":"plain"}"#);
        assert_eq!(events[2], format!("data: {large}"));
        assert_eq!(events[3], ": keep-alive");
        assert_eq!(events.len(), 4, "a close frame is no event");
    }
}
