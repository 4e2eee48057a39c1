//! What an endpoint accepts.

/// Which side of the connection reads. It decides whether frames have to be masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This side accepted the connection: every frame that comes in is masked.
    Server,
    /// This side opened the connection: no frame that comes in is masked.
    Client,
}

/// How much one message may be. A message that passes a limit ends the connection with code 1009.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `realtime.limits.message_bytes_max`: payload of one message, all fragments together. It also
    /// bounds what a [`Decoder`](super::Decoder) holds.
    pub message_bytes_max: usize,
    /// `realtime.limits.frame_bytes_max`: payload of one frame of a text or binary message.
    pub frame_bytes_max: usize,
    /// `realtime.limits.message_fragments_max`: frames that one message may come in, empty ones too.
    pub message_fragments_max: u32,
}

impl Default for Limits {
    /// 64 KiB hold Pusher's largest event (10 KB of data) even if each of its bytes comes as an
    /// escape of six; no client library sends fragments of less than 64 bytes.
    fn default() -> Self {
        Self {
            message_bytes_max: 64 << 10,
            frame_bytes_max: 64 << 10,
            message_fragments_max: 1_024,
        }
    }
}
