//! `[front.limits]`: every wait and every buffer of the server side.

use std::time::Duration;

use weir_base::token_bucket::Rate;

use weir_settings::{COUNT, Section, WAIT};

use crate::client::ClientLimits;

/// The name of a setting, for errors and responses.
pub(super) const CONNECTIONS_MAX: &str = "front.limits.connections_max";

/// The largest flow-control window of HTTP/2 (RFC 9113, section 6.9.1).
const WINDOW_MAX: u64 = (1 << 31) - 1;

/// How many header fields fit into the array on the stack; the same as in hyper.
pub(super) const HEADERS_USUAL: usize = 100;

/// What an HTTP/2 connection may cost; each connection keeps those of its beginning.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "front.limits")]
pub struct Http2Limits {
    /// Requests that an HTTP/2 connection may have open at once, which the client is informed
    /// of; one more is rejected. All `http2_` limits apply to new connections.
    // The minimum that RFC 9113 (section 5.1.2) recommends, and browsers expect.
    #[setting(key = "http2_streams_max", range = COUNT, default = 100)]
    pub streams_max: u32,
    /// Bytes of a request's body that an HTTP/2 client may send before the app reads them.
    #[setting(advanced, size, key = "http2_stream_window", range = 1..=WINDOW_MAX, default = 128 << 10)]
    pub stream_window_bytes: u32,
    /// The same over all requests of a connection. Bodies that wait for a worker hold up the others
    /// of their client when it is used up.
    // Eight uploads may wait for a worker before a ninth of the same client is blocked.
    #[setting(advanced, size, key = "http2_connection_window", range = 65_535..=WINDOW_MAX, default = 1 << 20)]
    pub connection_window_bytes: u32,
    /// Bytes of a response that are buffered for an HTTP/2 client that does not read them.
    #[setting(advanced, size, key = "http2_send_buffer", range = 1 << 10..=WINDOW_MAX, default = 64 << 10)]
    pub send_buffer_bytes: usize,
    /// Requests of an HTTP/2 connection that the client resets before they are processed, or
    /// that are reset because of the client's protocol errors. One more of either ends the
    /// connection.
    #[setting(advanced, key = "http2_resets_max", range = COUNT, default = 200)]
    pub resets_max: u32,
    /// Frames other than requests, bodies and window updates that an HTTP/2 client may send per
    /// second: PING, SETTINGS, RST_STREAM and so on. More end the connection.
    // A browser that leaves a page resets all of its open requests at once.
    #[setting(advanced, key = "http2_control_frames", burst = "The same at once, after a quiet time.", default = Rate::per_second(100, 1_000))]
    pub control_frames: Rate,
    /// How often an HTTP/2 client is pinged.
    #[setting(advanced, key = "http2_ping_interval", range = WAIT, default = Duration::from_secs(30))]
    pub ping_interval: Duration,
    /// How long it may take to respond; then the connection is closed.
    #[setting(advanced, key = "http2_ping_timeout", range = WAIT, default = Duration::from_secs(20))]
    pub ping_timeout: Duration,
}

/// Replaced as a whole when the settings are reloaded; running connections see it at their next
/// step.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "front.limits")]
pub struct HttpServerLimits {
    /// Connections open at once, over all cores, WebSockets included. One more gets 503.
    #[setting(range = COUNT, default = 65_536)]
    pub connections_max: u32,
    /// Rejected connections, on each core, that wait for their client to read why. Further ones
    /// are closed immediately.
    #[setting(advanced, range = COUNT, default = 256)]
    pub refusals_max: u32,
    /// How long a rejected client may take to read why and to close the connection.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(1))]
    pub linger_timeout: Duration,
    /// How long a client may continue to send a body that is no longer read (after a 413, for
    /// example), so that it receives the response; linger_timeout after its last byte the
    /// connection is closed.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(30))]
    pub discard_timeout: Duration,
    /// Connections accepted per second, over all cores; 0: no limit. The others wait in the
    /// kernel's backlog.
    #[setting(advanced, range = 0..=100_000_000)]
    pub accepts_per_second: u32,
    /// Connections accepted at once after a quiet time, when accepts_per_second is set.
    #[setting(advanced, range = COUNT, default = 1_000)]
    pub accepts_burst: u32,
    /// Bytes of a request's head; a longer one gets 431. Not below 8KiB for later requests of a
    /// connection.
    #[setting(size, range = 256..=1 << 20, default = 16 << 10)]
    pub head_bytes_max: usize,
    /// Header fields of a request; one with more gets 431.
    #[setting(range = 1..=10_000, default = 1_000)]
    pub headers_max: usize,
    /// A request's head must arrive within this long, or it gets 408.
    #[setting(range = WAIT, default = Duration::from_secs(10))]
    pub head_timeout: Duration,
    /// How long a connection may wait for its next request.
    #[setting(range = WAIT, default = Duration::from_secs(75))]
    pub idle_timeout: Duration,
    /// When Weir stops, an idle connection stays open for this long, so that a request that is
    /// already on its way is served as the last one. When the service process is replaced, idle
    /// connections have idle_timeout instead.
    // Longer than a request takes between any two places.
    #[setting(advanced, range = WAIT, default = Duration::from_millis(500))]
    pub last_request_timeout: Duration,
    /// How long a client may leave a response unread before the connection is cut.
    #[setting(range = WAIT, default = Duration::from_secs(30))]
    pub write_timeout: Duration,
    /// TLS handshakes at once, on each core; further ones wait.
    // A handshake holds about 30 KiB: 8 MiB on each core.
    #[setting(advanced, range = COUNT, default = 256)]
    pub tls_handshakes_max: u32,
    /// A TLS handshake must be done within this long.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(10))]
    pub tls_handshake_timeout: Duration,
    /// What HTTP/2 adds.
    #[setting(flatten)]
    pub http2: Http2Limits,
    /// What one client may have of all that.
    #[setting(skip)]
    pub clients: ClientLimits,
}

impl HttpServerLimits {
    /// Returns the limit of accepted connections. None: no limit.
    pub(super) fn accept_rate(&self) -> Option<Rate> {
        let interval = Duration::from_secs(1).checked_div(self.accepts_per_second)?;
        Some(Rate::new(self.accepts_burst, interval))
    }
}
