//! `[realtime.redis]`.

use std::time::Duration;

use weir_settings::{COUNT, Section, TableReader};

/// How realtime uses the Redis that nodes share. Field names are the names under `realtime.redis`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(restart, path = "realtime.redis", check = Self::check)]
pub struct RedisLogSettings {
    /// Prefix of all keys. Nodes that share channels have the same; each deployment in one Redis has
    /// its own.
    #[setting(default = "weir".to_owned())]
    pub prefix: String,
    /// How long Redis may take to connect, and to reply to a command. A publication without a reply
    /// gets 503.
    #[setting(range = Duration::from_millis(10)..=Duration::from_secs(60), default = Duration::from_secs(2))]
    pub timeout: Duration,
    /// Publications that wait for Redis at once; more are rejected with 503.
    #[setting(range = COUNT, default = 4_096)]
    pub appends_max: usize,
    /// Bytes of the publications that wait for Redis; more are rejected with 503.
    #[setting(size, range = 1 << 16..=1 << 40, default = 64 << 20)]
    pub append_bytes_max: usize,
    /// Events from Redis that wait for delivery by this node. More are dropped, and read from Redis
    /// later.
    #[setting(range = COUNT, default = 16_384)]
    pub deliveries_max: usize,
    /// Bytes of the events from Redis that wait for delivery. More are dropped, and read from Redis
    /// later.
    #[setting(size, range = 1 << 16..=1 << 40, default = 64 << 20)]
    pub delivery_bytes_max: usize,
    /// Events of clients that wait to be sent to the other nodes. More are not sent there.
    #[setting(range = COUNT, default = 4_096)]
    pub client_events_max: usize,
    /// Bytes of the events of clients that wait to be sent. More are not sent to the other nodes.
    #[setting(size, range = 1 << 16..=1 << 40, default = 16 << 20)]
    pub client_event_bytes_max: usize,
    /// How long a node may not renew the lease of its members of presence channels before the other
    /// nodes remove them.
    #[setting(range = Duration::from_secs(3)..=Duration::from_secs(60), default = Duration::from_secs(8))]
    pub presence_lease: Duration,
    /// How long the key of a published event is remembered (idempotency_key).
    #[setting(range = Duration::from_secs(1)..=Duration::from_secs(86_400), default = Duration::from_secs(300))]
    pub idempotency_age: Duration,
}

impl RedisLogSettings {
    fn check(&mut self, table: &mut TableReader<'_>) {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if self.prefix.is_empty() || !self.prefix.bytes().all(is_plain) {
            table.error_at("prefix", "write letters, digits, - _ and . only");
        }
    }
}
