//! `[realtime.limits]`: every limit of sessions, channels, queues and messages.

use std::ops::RangeInclusive;
use std::time::Duration;

use weir_realtime::settings::Limits;
use weir_realtime::{pusher, websocket};

use super::super::keys::{Key, Keys, WAIT};
use weir_settings::{DAY, SECOND};

/// More of anything than a machine holds.
const COUNT: RangeInclusive<u64> = 1..=100_000_000;
/// What one message may have.
const MESSAGE: RangeInclusive<u64> = 256..=64 << 20;

/// Those of connections and channels.
pub(super) fn read(keys: &mut Keys<'_>, limits: &mut Limits) {
    read_counts(keys, limits);
    read_sizes(keys, limits);
    read_waits(keys, limits);
    keys.rate(
        Key::live(
            "subscribes_per_second",
            "Subscriptions that each core takes in a second; more wait for their turn.",
        ),
        Key::live(
            "subscribes_burst",
            "Subscriptions that each core takes at once after a quiet time.",
        ),
        &mut limits.subscribe_rate,
    );
}

/// That of all connections.
pub(super) fn read_total(keys: &mut Keys<'_>, total_max: &mut Option<u32>) {
    keys.optional_number(
        Key::live("connections_total_max", "Connections of all apps together; more are closed with 4100, and pusher-js comes back after a second. None: three quarters of front.limits.connections_max where there is also something under [[front.apps]] or [gems], and otherwise all."),
        COUNT,
        total_max,
    );
}

fn read_counts(keys: &mut Keys<'_>, limits: &mut Limits) {
    let mut count = |name, field: &mut usize, doc| keys.number(Key::live(name, doc), COUNT, field);
    count(
        "channels_per_connection_max",
        &mut limits.channels_per_connection_max,
        "Channels of one connection.",
    );
    count(
        "channels_max",
        &mut limits.channels_max,
        "Channels of one app, those included that are kept for their history only.",
    );
    count(
        "core_queue_events_max",
        &mut limits.core_queue_events_max,
        "Events that wait for one core to deliver them; publishing one more is refused with 503.",
    );
    count(
        "writes_per_turn_max",
        &mut limits.writes_per_turn_max,
        "Sockets that a core writes to before others have their turn.",
    );
    count(
        "watchers_max",
        &mut limits.watchers_max,
        "Live views of channels that operators may have open.",
    );
    count(
        "watch_events_max",
        &mut limits.watch_events_max,
        "Events that wait for one live view; it is told how many more it missed.",
    );
}

fn read_sizes(keys: &mut Keys<'_>, limits: &mut Limits) {
    let mut size =
        |name, range, field: &mut usize, doc| keys.size(Key::live(name, doc), range, field);
    size(
        "core_queue_bytes_max",
        64 << 10..=1 << 40,
        &mut limits.core_queue_bytes_max,
        "Bytes of the events that wait for one core.",
    );
    size(
        "write_bytes_max",
        1 << 10..=16 << 20,
        &mut limits.write_bytes_max,
        "Bytes of events of one channel that are joined into one write.",
    );
    keys.size(
        Key::live("unsent_bytes_max", "Bytes that the kernel takes for one client before it has sent them; beyond that they wait in the client's queue. Holds for new connections."),
        4 << 10..=1 << 30,
        &mut limits.unsent_bytes_max,
    );
    let mut size =
        |name, range, field: &mut usize, doc| keys.size(Key::live(name, doc), range, field);
    size(
        "history_bytes_max",
        0..=1 << 40,
        &mut limits.history_bytes_max,
        "Bytes of all channels' histories together; beyond that a channel that is published to loses its own.",
    );
}

fn read_waits(keys: &mut Keys<'_>, limits: &mut Limits) {
    let mut wait =
        |name, field: &mut Duration, doc| keys.duration(Key::live(name, doc), WAIT, field);
    wait(
        "subscribe_timeout",
        &mut limits.subscribe_timeout,
        "A connection that has neither subscribed nor signed in within this long is closed with 4100, and pusher-js comes back after a second.",
    );
    wait("pong_timeout", &mut limits.pong_timeout, "How long a client has to answer a ping.");
    wait(
        "close_timeout",
        &mut limits.close_timeout,
        "How long a client has to take what is left for it and to close.",
    );
    wait(
        "api_body_timeout",
        &mut limits.api_body_timeout,
        "The body of a request to the HTTP API must arrive within this long, or it gets 408.",
    );
}

/// Those of WebSocket messages.
pub(super) fn read_websocket(keys: &mut Keys<'_>, limits: &mut websocket::Limits) {
    let websocket::Limits { message_bytes_max, frame_bytes_max, message_fragments_max } = limits;
    keys.size(
        Key::live("message_bytes_max", "Bytes of one WebSocket message, all fragments together; a longer one ends the connection with 1009."),
        MESSAGE,
        message_bytes_max,
    );
    keys.size(
        Key::live(
            "frame_bytes_max",
            "Bytes of one WebSocket frame; a longer one ends the connection with 1009.",
        ),
        MESSAGE,
        frame_bytes_max,
    );
    keys.number(
        Key::live(
            "message_fragments_max",
            "Frames that one message may come in; more end the connection with 1009.",
        ),
        1..=1_000_000,
        message_fragments_max,
    );
}

/// Those of Pusher's protocol.
pub(super) fn read_pusher(keys: &mut Keys<'_>, limits: &mut pusher::limits::Limits) {
    read_pusher_counts(keys, limits);
    read_pusher_sizes(keys, limits);
    keys.duration(
        Key::live(
            "api_timestamp_tolerance",
            "How far the auth_timestamp of a request may be from the server's time, either way.",
        ),
        SECOND..=DAY,
        &mut limits.api_timestamp_tolerance,
    );
}

fn read_pusher_counts(keys: &mut Keys<'_>, limits: &mut pusher::limits::Limits) {
    let mut count =
        |name, max, field: &mut usize, doc| keys.number(Key::live(name, doc), 1..=max, field);
    count(
        "event_name_characters_max",
        10_000,
        &mut limits.event_name_characters_max,
        "Characters of an event's name.",
    );
    count(
        "event_channels_max",
        100_000,
        &mut limits.event_channels_max,
        "Channels of one event published over HTTP.",
    );
    count(
        "batch_events_max",
        100_000,
        &mut limits.batch_events_max,
        "Events of one batch published over HTTP.",
    );
    count(
        "api_query_parameters_max",
        10_000,
        &mut limits.api_query_parameters_max,
        "Parameters in the query of a request to the HTTP API.",
    );
    count(
        "json_depth_max",
        1_000,
        &mut limits.json_depth_max,
        "How deep the JSON of clients and callers may nest.",
    );
    count(
        "user_id_characters_max",
        10_000,
        &mut limits.user_id_characters_max,
        "Characters of a user's id.",
    );
    count(
        "watchlist_users_max",
        1_000_000,
        &mut limits.watchlist_users_max,
        "Users on one watchlist; the ones after that are not watched.",
    );
}

fn read_pusher_sizes(keys: &mut Keys<'_>, limits: &mut pusher::limits::Limits) {
    let mut size =
        |name, range, field: &mut usize, doc| keys.size(Key::live(name, doc), range, field);
    size(
        "channel_name_bytes_max",
        16..=4_096,
        &mut limits.channel_name_bytes_max,
        "Bytes of a channel's name, prefixes included.",
    );
    size(
        "event_data_bytes_max",
        MESSAGE,
        &mut limits.event_data_bytes_max,
        "Bytes of an event's data.",
    );
    size(
        "api_body_bytes_max",
        1 << 10..=1 << 30,
        &mut limits.api_body_bytes_max,
        "Bytes of the body of a request to the HTTP API.",
    );
    size(
        "client_message_bytes_max",
        MESSAGE,
        &mut limits.client_message_bytes_max,
        "Bytes of one message of a client; a longer one is answered with an error.",
    );
    size(
        "user_info_bytes_max",
        16..=1 << 20,
        &mut limits.user_info_bytes_max,
        "Bytes of what a user tells the others (user_info).",
    );
}
