//! `[front.limits]`: every wait and every buffer of the server side.

use std::time::Duration;

use weir_base::token_bucket::Rate;

use crate::client::ClientLimits;

/// The section of its settings, for errors and answers.
pub(super) const CONNECTIONS_MAX: &str = "front.limits.connections_max";

/// Header fields for which there is room without asking for memory; it is hyper's number, too.
pub(super) const HEADERS_USUAL: usize = 100;

/// What an HTTP/2 connection may cost; each connection keeps those of its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http2Limits {
    /// Streams open at once on a connection; a client is told, and one more is refused.
    pub streams_max: u32,
    /// Bytes of a request's body that a client may send before they are asked for.
    pub stream_window_bytes: u32,
    /// The same over all streams of a connection. Bodies that nobody reads yet hold up the others
    /// when it is used up.
    pub connection_window_bytes: u32,
    /// Bytes of an answer that are kept for a client that does not take them.
    pub send_buffer_bytes: usize,
    /// Streams that a client has reset before they were looked at, and streams that were reset
    /// because of the client's mistakes; one more of either ends the connection.
    pub resets_max: u32,
    /// Frames that carry no request or body, and change no window: PING, SETTINGS, `RST_STREAM` and
    /// so on. One more ends the connection.
    pub control_frames: Rate,
    /// How often a client is asked for a sign of life.
    pub ping_interval: Duration,
    /// How long the client may take to give it.
    pub ping_timeout: Duration,
}

impl Default for Http2Limits {
    fn default() -> Self {
        Self {
            // What RFC 9113 (section 5.1.2) and browsers take for a sensible least.
            streams_max: 100,
            stream_window_bytes: 128 << 10,
            // Eight uploads may wait for a worker before a ninth of the same client stands still.
            connection_window_bytes: 1 << 20,
            send_buffer_bytes: 64 << 10,
            resets_max: 200,
            // A browser that leaves a page resets what it has open at once.
            control_frames: Rate::per_second(100, 1_000),
            ping_interval: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(20),
        }
    }
}

/// Replaced as a whole when the settings are reloaded; running connections see it at their next
/// step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at once, over all cores, upgraded ones included. One more gets 503.
    /// The default is what the ports of one client machine allow.
    pub connections_max: u32,
    /// Refused connections, on each core, that wait for their client to read why. One more is
    /// closed without waiting.
    pub refusals_max: u32,
    /// How long a refused client may take to read why and to hang up.
    pub linger_timeout: Duration,
    /// How long a client may go on with a body that nobody wants any more, so that it gets to read
    /// the answer; `linger_timeout` after its last byte it is closed. Counts for `refusals_max`.
    pub discard_timeout: Duration,
    /// Connections accepted per second, over all cores; 0: no limit. The others wait in the
    /// kernel's backlog.
    pub accepts_per_second: u32,
    /// Connections accepted at once after a quiet time, when `accepts_per_second` is set.
    pub accepts_burst: u32,
    /// Bytes of a request's head. A longer one gets 431. Not below 8 KiB for later requests of a
    /// connection (hyper's smallest buffer).
    pub head_bytes_max: usize,
    /// Header fields of a request. One more: 431. hyper has room for a hundred; an HTTP/1 connection
    /// gets room for all of them with the first request that has more, because to ask for it with each
    /// head takes as long as all else that hyper does with one.
    pub headers_max: usize,
    /// From a connection's start, or a later request's first byte, to the end of the head. 408.
    pub head_timeout: Duration,
    /// How long a connection may wait for its next request.
    pub idle_timeout: Duration,
    /// How long a connection without a request in hand is kept when the core is told to end: what its
    /// client has sent meanwhile is answered, as the last request.
    pub last_request_timeout: Duration,
    /// How long a client may leave an answer unread before the connection is cut.
    pub write_timeout: Duration,
    /// TLS handshakes at once, on each core. The others wait their turn, within their timeout.
    pub tls_handshakes_max: u32,
    /// From accepting a connection to the end of its TLS handshake.
    pub tls_handshake_timeout: Duration,
    /// What HTTP/2 adds.
    pub http2: Http2Limits,
    /// What one client may have of all that.
    pub clients: ClientLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 65_536,
            refusals_max: 256,
            linger_timeout: Duration::from_secs(1),
            discard_timeout: Duration::from_secs(30),
            accepts_per_second: 0,
            accepts_burst: 1_000,
            head_bytes_max: 16 << 10,
            headers_max: 1_000,
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            // Longer than a request is on its way between any two places.
            last_request_timeout: Duration::from_millis(500),
            write_timeout: Duration::from_secs(30),
            // A handshake holds about 30 KiB: 8 MiB on each core.
            tls_handshakes_max: 256,
            tls_handshake_timeout: Duration::from_secs(10),
            http2: Http2Limits::default(),
            clients: ClientLimits::default(),
        }
    }
}

impl Limits {
    /// None: no limit.
    pub(super) fn accept_rate(&self) -> Option<Rate> {
        let interval = Duration::from_secs(1).checked_div(self.accepts_per_second)?;
        Some(Rate::new(self.accepts_burst, interval))
    }
}
