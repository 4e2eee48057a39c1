//! A message to many sockets, encoded once and shared.

use bytes::Bytes;

use crate::pusher::position::ChannelPosition;
use crate::pusher::server_message::{self, ChannelEvent};
use crate::websocket::{FrameHeader, HEADER_BYTES_MAX, Opcode};

/// One complete WebSocket text frame of the server: header and JSON. Clones share the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    bytes: Bytes,
    header_bytes: u8,
}

impl Frame {
    /// Builds a frame around the payload that `write` appends.
    pub(crate) fn text(write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut buffer = vec![0; HEADER_BYTES_MAX];
        write(&mut buffer);
        Self::from_buffer(buffer)
    }

    /// Builds a frame from `buffer`, which has room for the longest header, then the payload.
    fn from_buffer(mut buffer: Vec<u8>) -> Self {
        let payload_bytes = (buffer.len() - HEADER_BYTES_MAX) as u64;
        let header =
            FrameHeader { is_final: true, opcode: Opcode::Text, payload_bytes, mask: None }
                .encode();
        let start = HEADER_BYTES_MAX - header.len();
        buffer[start..HEADER_BYTES_MAX].copy_from_slice(&header);
        let header_bytes = u8::try_from(header.len()).expect("a header has at most 14 bytes");
        // Frames are stored in histories and queues, where spare capacity would waste memory.
        buffer.shrink_to_fit();
        Self { bytes: Bytes::from(buffer).slice(start..), header_bytes }
    }

    /// Returns the bytes to write to a WebSocket.
    #[must_use]
    pub(crate) const fn wire(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the JSON alone.
    #[must_use]
    pub(crate) fn json(&self) -> &[u8] {
        &self.bytes[usize::from(self.header_bytes)..]
    }
}

/// Appends a text frame around the payload that `write` appends, for messages to one client.
pub(crate) fn append_text(output: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    /// Bytes of the header that most messages need: those of 126 - 65,535 bytes.
    const USUAL_HEADER_BYTES: usize = 4;
    let start = output.len();
    output.extend_from_slice(&[0; USUAL_HEADER_BYTES]);
    write(output);
    let payload_bytes = (output.len() - start - USUAL_HEADER_BYTES) as u64;
    let header =
        FrameHeader { is_final: true, opcode: Opcode::Text, payload_bytes, mask: None }.encode();
    output.splice(start..start + USUAL_HEADER_BYTES, header.iter().copied());
}

/// An event's frame without its position: the part that can be encoded before the channel is
/// locked.
#[derive(Debug)]
pub(crate) struct Draft(Vec<u8>);

/// Bytes of `,"epoch":"0123456789abcdef","offset":18446744073709551615`.
const POSITION_BYTES_MAX: usize = 58;

impl Draft {
    /// Encodes `event`.
    pub(crate) fn new(event: &ChannelEvent<'_>) -> Self {
        debug_assert!(event.position.is_none(), "the channel gives the position");
        let data_bytes = event.data.map_or(0, str::len);
        // Data is usually JSON, whose quotes must be escaped.
        let guess = HEADER_BYTES_MAX + POSITION_BYTES_MAX + 64 + data_bytes + data_bytes / 4;
        let mut buffer = Vec::with_capacity(guess);
        buffer.resize(HEADER_BYTES_MAX, 0);
        server_message::channel_event(&mut buffer, event);
        Self(buffer)
    }

    /// Returns the most bytes that the frame can have with a position.
    pub(crate) fn bytes_max(&self) -> usize {
        self.0.len() + POSITION_BYTES_MAX
    }

    /// Returns the frame, with the event's position in the channel's history if it has one.
    pub(crate) fn finish(mut self, position: Option<ChannelPosition>) -> Frame {
        if let Some(position) = position {
            let closing = self.0.pop();
            debug_assert_eq!(closing, Some(b'}'), "an event is an object");
            server_message::write_position_fields(&mut self.0, position);
            self.0.push(b'}');
        }
        Frame::from_buffer(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pusher::position::Epoch;
    use crate::websocket::Message;

    fn event<'a>(data: &'a str, position: Option<ChannelPosition>) -> ChannelEvent<'a> {
        ChannelEvent { event: "e", channel: "c", data: Some(data), user_id: None, position }
    }

    #[test]
    fn an_appended_frame_equals_the_frame() {
        for bytes in [0, 125, 126, 65_535, 65_536] {
            let write = |out: &mut Vec<u8>| out.resize(out.len() + bytes, b'x');
            let mut output = b"before".to_vec();
            append_text(&mut output, write);
            assert_eq!(&output[6..], &Frame::text(write).wire()[..]);
        }
    }

    #[test]
    fn a_draft_with_a_position_equals_the_encoded_event() {
        let position = ChannelPosition { epoch: Epoch(0xab), offset: u64::MAX };
        for length in [0, 10, 100, 126, 70_000] {
            let data = "\"".repeat(length);
            for position in [None, Some(position)] {
                let draft = Draft::new(&event(&data, None));
                let bytes_max = draft.bytes_max();
                let frame = draft.finish(position);
                let mut json = Vec::new();
                server_message::channel_event(&mut json, &event(&data, position));
                assert_eq!(frame.json(), json);
                let mut wire = Vec::new();
                Message::Text(str::from_utf8(&json).unwrap()).encode(&mut wire, None);
                assert_eq!(frame.wire(), &wire);
                assert!(wire.len() <= bytes_max);
            }
        }
    }
}
