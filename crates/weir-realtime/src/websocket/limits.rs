//! Limits of incoming messages.

use weir_settings::Section;

/// The side of the connection that reads. Decides whether incoming frames must be masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This side accepted the connection: every incoming frame is masked.
    Server,
    /// This side opened the connection: no incoming frame is masked.
    Client,
}

/// How much one message may be. A message that passes a limit ends the connection with code 1009.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "realtime.limits")]
pub struct WebsocketLimits {
    /// Bytes of one WebSocket message, all fragments together; a longer one ends the connection
    /// with 1009.
    // 64 KiB hold Pusher's largest event (10 KB of data) even if each of its bytes is an escape of six.
    #[setting(size, range = 256..=64 << 20, default = 64 << 10)]
    pub message_bytes_max: usize,
    /// Bytes of one WebSocket frame; a longer one ends the connection with 1009.
    #[setting(advanced, size, range = 256..=64 << 20, default = 64 << 10)]
    pub frame_bytes_max: usize,
    /// Frames of one message; more end the connection with 1009.
    // No client library sends fragments of less than 64 bytes.
    #[setting(advanced, range = 1..=1_000_000, default = 1_024)]
    pub message_fragments_max: u32,
}
