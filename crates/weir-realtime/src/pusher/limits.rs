//! Limits of the protocol. The defaults are Pusher's, where it documents them.

use std::time::Duration;

use weir_settings::{DAY, SECOND, Section};

/// What clients and callers of the HTTP API may send. Field names are the names of the settings.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "realtime.limits")]
pub struct PusherLimits {
    /// Bytes of a channel's name, prefixes included.
    #[setting(advanced, size, range = 16..=1 << 12, default = 164)]
    pub channel_name_bytes_max: usize,
    /// Characters of an event's name.
    #[setting(advanced, range = 1..=10_000, default = 200)]
    pub event_name_characters_max: usize,
    /// Bytes of an event's data.
    #[setting(size, range = 256..=1 << 26, default = 10_240)]
    pub event_data_bytes_max: usize,
    /// Channels of one event published over HTTP.
    #[setting(advanced, range = 1..=100_000, default = 100)]
    pub event_channels_max: usize,
    /// Events of one batch published over HTTP.
    #[setting(advanced, range = 1..=100_000, default = 10)]
    pub batch_events_max: usize,
    /// Bytes of the body of a request to the HTTP API.
    #[setting(advanced, size, range = 1 << 10..=1 << 30, default = 262_144)]
    pub api_body_bytes_max: usize,
    /// Parameters in the query of a request to the HTTP API.
    #[setting(advanced, range = 1..=10_000, default = 64)]
    pub api_query_parameters_max: usize,
    /// How far the auth_timestamp of a request may be from the server's time, either way.
    #[setting(advanced, range = SECOND..=DAY, default = Duration::from_secs(600))]
    pub api_timestamp_tolerance: Duration,
    /// Bytes of one message of a client; a longer one gets an error.
    #[setting(advanced, size, range = 256..=1 << 26, default = 65_536)]
    pub client_message_bytes_max: usize,
    /// How deep the JSON of clients and callers may nest.
    #[setting(advanced, range = 1..=1_000, default = 64)]
    pub json_depth_max: usize,
    /// Characters of a user's id.
    #[setting(advanced, range = 1..=10_000, default = 128)]
    pub user_id_characters_max: usize,
    /// Bytes of a user's data for other members (user_info).
    #[setting(advanced, size, range = 16..=1 << 20, default = 1_024)]
    pub user_info_bytes_max: usize,
    /// Users on one watchlist; the ones after that are not watched.
    #[setting(advanced, range = 1..=1_000_000, default = 100)]
    pub watchlist_users_max: usize,
}
