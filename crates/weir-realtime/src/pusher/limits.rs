//! Every bound of the protocol, with Pusher's own figures as defaults where it names one.

use std::time::Duration;

/// What clients and callers of the HTTP API may send. Field names are the names of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a channel's name, prefixes included.
    pub channel_name_bytes_max: usize,
    /// Characters of an event's name.
    pub event_name_characters_max: usize,
    /// Bytes of an event's data, as the text that subscribers get.
    pub event_data_bytes_max: usize,
    /// Channels of one event published over HTTP.
    pub event_channels_max: usize,
    /// Events of one batch published over HTTP.
    pub batch_events_max: usize,
    /// Bytes of a request's body. The default holds a full batch, data escaped to twice its size.
    pub api_body_bytes_max: usize,
    /// Parameters in a request's query.
    pub api_query_parameters_max: usize,
    /// How far a request's `auth_timestamp` may be from the server's time, either way.
    pub api_timestamp_tolerance: Duration,
    /// Bytes of one message of a client. The default holds a sign-in with a full watchlist.
    pub client_message_bytes_max: usize,
    /// How deep arrays and objects may be nested in what clients and callers send. Parsers of
    /// subscribers recurse; 128 is where common ones give up.
    pub json_depth_max: usize,
    /// Characters of a user's id.
    pub user_id_characters_max: usize,
    /// Bytes of `user_info`, as JSON.
    pub user_info_bytes_max: usize,
    /// Users on one watchlist; the ones after that are not watched.
    pub watchlist_users_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            channel_name_bytes_max: 164,
            event_name_characters_max: 200,
            event_data_bytes_max: 10_240,
            event_channels_max: 100,
            batch_events_max: 10,
            api_body_bytes_max: 262_144,
            api_query_parameters_max: 64,
            api_timestamp_tolerance: Duration::from_secs(600),
            client_message_bytes_max: 65_536,
            json_depth_max: 64,
            user_id_characters_max: 128,
            user_info_bytes_max: 1_024,
            watchlist_users_max: 100,
        }
    }
}
