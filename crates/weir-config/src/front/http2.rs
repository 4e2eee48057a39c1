//! What `[front.limits]` says of HTTP/2.

use weir_net::server::Http2Limits;

use super::super::keys::{Key, Keys, WAIT};
use super::COUNT_MAX;

/// The largest window that HTTP/2 knows (RFC 9113, section 6.9.1).
const WINDOW_MAX: u64 = (1 << 31) - 1;

pub(super) fn read(keys: &mut Keys<'_>, limits: &mut Http2Limits) {
    keys.number(
        Key::live("http2_streams_max", "Requests that an HTTP/2 connection may have open at once; its client is told, and one more is refused. All `http2_` limits hold for new connections."),
        1..=COUNT_MAX,
        &mut limits.streams_max,
    );
    read_sizes(keys, limits);
    keys.number(
        Key::live("http2_resets_max", "Requests of an HTTP/2 connection that its client has reset before they were looked at, or that were reset because of its mistakes. One more of either ends the connection."),
        1..=COUNT_MAX,
        &mut limits.resets_max,
    );
    keys.rate(
        Key::live("http2_control_frames_per_second", "Frames that an HTTP/2 client may send each second beside requests, bodies and window updates: PING, SETTINGS, RST_STREAM and so on. More end the connection."),
        Key::live("http2_control_frames_burst", "The same at once, after a quiet time."),
        &mut limits.control_frames,
    );
    keys.duration(
        Key::live("http2_ping_interval", "How often an HTTP/2 client is asked for a sign of life."),
        WAIT,
        &mut limits.ping_interval,
    );
    keys.duration(
        Key::live("http2_ping_timeout", "How long it may take to give it; then the connection is closed, whatever it waits for."),
        WAIT,
        &mut limits.ping_timeout,
    );
}

fn read_sizes(keys: &mut Keys<'_>, limits: &mut Http2Limits) {
    keys.size(
        Key::live(
            "http2_stream_window",
            "Bytes of a request's body that an HTTP/2 client may send before they are asked for.",
        ),
        1..=WINDOW_MAX,
        &mut limits.stream_window_bytes,
    );
    keys.size(
        Key::live("http2_connection_window", "The same over all requests of a connection. Bodies that wait for a worker hold up the others of their client when it is used up."),
        65_535..=WINDOW_MAX,
        &mut limits.connection_window_bytes,
    );
    keys.size(
        Key::live(
            "http2_send_buffer",
            "Bytes of an answer that are kept for an HTTP/2 client which does not take them.",
        ),
        1 << 10..=WINDOW_MAX,
        &mut limits.send_buffer_bytes,
    );
}
