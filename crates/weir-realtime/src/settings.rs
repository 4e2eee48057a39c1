//! Settings of the realtime server and of each app, as plain data.

mod endpoint;

use std::sync::Arc;
use std::time::Duration;

use weir_base::secret::Secret;
use weir_base::token_bucket::Rate;
use weir_settings::{COUNT, Choice, DAY, HOUR, MILLISECOND, Section, TableReader, WAIT};

use crate::origin::OriginPattern;
use crate::webhooks::AppHooks;
use crate::{pusher, websocket};

/// Realtime's settings. Field names are the names of the settings under `realtime`.
#[derive(Clone, Debug, Section)]
#[section(reload, path = "realtime")]
pub struct Settings {
    /// After this much silence the client sends a ping; if it does not, Weir sends one.
    #[setting(range = Duration::from_secs(5)..=HOUR, default = Duration::from_secs(120))]
    pub activity_timeout: Duration,
    /// Random variation of the activity timeout of each client, so that clients that connected
    /// together do not ping together.
    #[setting(advanced, percent, key = "activity_jitter", range = 0..=50, default = 100)]
    pub activity_jitter_thousandths: u32,
    /// When Weir ends, or a reload removes or disables an app, connections are closed spread
    /// over this time, so that not all clients reconnect at once. Keep it below
    /// shutdown_deadline.
    #[setting(range = Duration::ZERO..=HOUR, default = Duration::from_secs(3))]
    pub drain_window: Duration,
    /// `realtime.limits`.
    #[setting(section)]
    pub limits: HubLimits,
}

/// Bounds of sessions, channels and queues. Field names are the names under `realtime.limits`.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "realtime.limits")]
pub struct HubLimits {
    /// Connections of all apps together; more are closed with 4100, and pusher-js reconnects
    /// after a second. None: three quarters of front.limits.connections_max if there is also
    /// something under [[front.apps]] or [gems], otherwise all.
    #[setting(number_or_all, range = COUNT, default = usize::MAX)]
    pub connections_total_max: usize,
    /// A connection that has neither subscribed nor signed in within this time is closed with
    /// 4100, and pusher-js reconnects after a second.
    // A page may connect when it loads and subscribe on a user's action. A connection that is idle
    // for longer reconnects a second later, and clients that only hold connections open must open
    // each of them again.
    #[setting(range = WAIT, default = Duration::from_secs(10 * 60))]
    pub subscribe_timeout: Duration,
    /// Channels of one connection.
    #[setting(advanced, range = COUNT, default = 256)]
    pub channels_per_connection_max: usize,
    /// Channels of one app, those included that are kept for their history only.
    #[setting(range = COUNT, default = 100_000)]
    pub channels_max: usize,
    /// Events that wait for one core to deliver them; publishing one more is refused with 503.
    #[setting(range = COUNT, default = 16_384)]
    pub core_queue_events_max: usize,
    /// Bytes of the events that wait for one core.
    #[setting(size, range = 1 << 16..=1 << 40, default = 64 << 20)]
    pub core_queue_bytes_max: usize,
    /// Sockets that a core writes to before it continues with other work.
    #[setting(advanced, range = COUNT, default = 64)]
    pub writes_per_turn_max: usize,
    /// Bytes of events of one channel that are joined into one write.
    #[setting(advanced, size, range = 1 << 10..=1 << 24, default = 16 << 10)]
    pub write_bytes_max: usize,
    /// Bytes that the kernel takes for one client before it has sent them; beyond that they wait in
    /// the client's queue. Holds for new connections.
    #[setting(size, range = 1 << 12..=1 << 30, default = 64 << 10)]
    pub unsent_bytes_max: u32,
    /// How long a client may take to respond to a ping.
    #[setting(range = WAIT, default = Duration::from_secs(30))]
    pub pong_timeout: Duration,
    /// How long a client may take to read its remaining messages and to close.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(5))]
    pub close_timeout: Duration,
    /// The body of a request to the HTTP API must arrive within this long, or it gets 408.
    #[setting(advanced, range = WAIT, default = Duration::from_secs(10))]
    pub api_body_timeout: Duration,
    /// Bytes of all channels' histories together; beyond that a channel that is published to loses
    /// its own.
    #[setting(size, range = 0..=1 << 40, default = 256 << 20)]
    pub history_bytes_max: usize,
    /// Bytes of events that wait to be written to the log of durable histories (history.durable), with 1 KiB
    /// for each event; publishing one more is refused with 503.
    #[setting(size, range = 1 << 16..=1 << 40, default = 64 << 20)]
    pub durable_queue_bytes_max: usize,
    /// Subscriptions that each core accepts per second; further ones wait.
    // A subscription takes some 20 µs. At this rate, reconnecting clients use half of the core, and
    // the other half is left for connected ones.
    #[setting(key = "subscribes", burst = "Subscriptions that each core takes at once after a quiet time.", default = Rate::new(2_000, Duration::from_micros(40)))]
    pub subscribe_rate: Rate,
    /// Live views of channels that operators may have open.
    #[setting(range = COUNT, default = 64)]
    pub watchers_max: usize,
    /// Events that wait for one live view; the view shows how many more it missed.
    // A hundred events of 10 KiB are a megabyte, more than people can read at once.
    #[setting(advanced, range = COUNT, default = 100)]
    pub watch_events_max: usize,
    /// Requests of webhooks in progress at once, over all endpoints; others wait
    /// webhooks.permit_delay.
    // Each holds a connection and one batch: 4 MiB in all.
    #[setting(range = 1..=100_000, default = 64)]
    pub webhooks_in_flight_max: u32,
    #[setting(flatten)]
    pub websocket: websocket::WebsocketLimits,
    #[setting(flatten)]
    pub pusher: pusher::limits::PusherLimits,
}

/// One app. Replaced as a whole when settings are reloaded.
#[derive(Clone, Debug, Section)]
#[section(reload, path = "realtime.apps", own_default, check = Self::finish)]
pub struct AppSettings {
    /// Required. Part of the paths of the HTTP API: /apps/ID/events.
    #[setting(required_text)]
    pub id: Arc<str>,
    /// Required. Names the app in every client: /app/KEY. Not a secret.
    #[setting(required_text)]
    pub key: Arc<str>,
    /// Required. Signs the requests of the application's server and Weir's webhooks.
    #[setting(required_secret)]
    pub secret: Secret,
    /// false: connections are closed or rejected with 4003, and the HTTP API responds with 403.
    #[setting(key = "enabled")]
    pub is_enabled: bool,
    /// Connections without TLS are refused with 4000.
    #[setting(key = "require_tls")]
    pub requires_tls: bool,
    /// Pages from which browsers may connect, like "https://example.org" or "*.example.org". Empty:
    /// all.
    #[setting(parsed_texts)]
    pub origins: Vec<OriginPattern>,
    /// Connections at a time, to all nodes that share a Redis; more are refused with 4004. None: as
    /// many as realtime.limits.connections_total_max of each node.
    #[setting(number_or_all, range = 0..=100_000_000)]
    pub connections_max: usize,
    /// A connection that has neither signed in nor subscribed to a channel that needs a signature
    /// (private, presence, encrypted) within this long is closed with 4009, and pusher-js stays
    /// away: Pusher's authorized connections, where it is 30s. None: public channels are for
    /// everybody.
    #[setting(range = WAIT)]
    pub authorization_timeout: Option<Duration>,
    /// Clients may send `client-` events to private and presence channels.
    #[setting(key = "client_events")]
    pub has_client_events: bool,
    /// Client events that a connection may send per second; more get error 4301.
    #[setting(
        key = "client_events",
        burst = "Client events that a connection may send at once after a quiet time."
    )]
    pub client_event_rate: Rate,
    /// Send subscribers the number of subscriptions of their channel.
    #[setting(key = "subscription_counts")]
    pub has_subscription_counts: bool,
    /// What happens to a client that reads slower than its channels send: "disconnect" closes it
    /// with 4100, and it recovers what it missed when it reconnects; "drop_oldest" drops its oldest
    /// waiting events; "conflate" keeps only the newest event of each name and channel.
    #[setting(choice)]
    pub slow_clients: SlowClients,
    /// Bytes that wait for one client before slow_clients applies.
    #[setting(size, range = 1 << 10..=1 << 30)]
    pub client_queue_bytes_max: usize,
    /// What is kept of each channel.
    #[setting(section)]
    pub history: HistoryLimits,
    /// Of presence channels.
    #[setting(section)]
    pub presence: PresenceLimits,
    /// How long a cache channel keeps its last event.
    #[setting(range = WAIT)]
    pub cache_age_max: Duration,
    /// Bytes of the last events of all cache channels together; beyond that the oldest is
    /// dropped, and new subscribers of its channel get a cache_miss.
    #[setting(size, range = 0..=1 << 40)]
    pub cache_bytes_max: usize,
    /// Endpoints that receive webhooks.
    #[setting(skip)]
    pub hooks: Arc<AppHooks>,
}

/// The most bytes of the history of a channel, and of an event, that durable histories have: one record of their
/// log has a whole channel.
pub const DURABLE_BYTES_MAX: usize = 1 << 20;

/// A channel with more subscribers announces the count at intervals.
pub const COUNTED_AT_ONCE_MAX: usize = 100;
/// The interval at which a large channel announces its count.
pub const COUNT_INTERVAL: Duration = Duration::from_secs(5);

/// For whom the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Choice)]
pub enum SlowClients {
    /// Closed with 4100; it comes back and recovers what it missed.
    Disconnect,
    /// Its oldest waiting events are dropped.
    DropOldest,
    /// Of waiting events with the same name on the same channel only the newest is kept; if that
    /// is not enough, the oldest are dropped.
    Conflate,
}

/// What one channel keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "realtime.apps.history")]
pub struct HistoryLimits {
    /// Events that a channel keeps for clients that reconnect. 0: none, so no client can
    /// recover.
    #[setting(range = 0..=1_000_000, default = 200)]
    pub events_max: usize,
    /// Bytes that a channel keeps.
    #[setting(size, range = 0..=1 << 30, default = 256 << 10)]
    pub bytes_max: usize,
    /// How old an event may become, and how long an empty channel is kept.
    #[setting(range = Duration::ZERO..=DAY.saturating_mul(7), default = Duration::from_secs(120))]
    pub age_max: Duration,
    /// Events are written to a log under data_dir before they are delivered, so that channels keep their
    /// histories when Weir is killed. Needs bytes_max and realtime.limits.event_data_bytes_max of at most 1 MiB.
    /// Without effect with a broker in Redis, which keeps them anyway.
    #[setting(restart, key = "durable", default = false)]
    pub is_durable: bool,
}

/// What a presence channel may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Section)]
#[section(reload, path = "realtime.apps.presence")]
pub struct PresenceLimits {
    /// Users of one presence channel, on all nodes that share a Redis.
    #[setting(range = COUNT, default = 100_000)]
    pub members_max: usize,
    /// Above this number of users, subscribers receive the number instead of the list, and
    /// changes are batched.
    #[setting(range = 0..=100_000_000, default = 1_000)]
    pub list_max: usize,
    /// Interval of batched changes above list_max; also the maximum age of a list there.
    #[setting(advanced, range = MILLISECOND..=Duration::from_secs(60), default = Duration::from_millis(500))]
    pub gather: Duration,
    /// Members on one page of the list.
    #[setting(advanced, range = 1..=1_000_000, default = 1_000)]
    pub page_max: usize,
}

impl Settings {
    /// Returns the longest activity timeout that clients receive, jitter included.
    pub(crate) fn activity_timeout_max(&self) -> Duration {
        self.activity_timeout.saturating_mul(1_000 + self.activity_jitter_thousandths) / 1_000
    }
}

impl AppSettings {
    /// Checks the names, and reads the webhook endpoints.
    fn finish(&mut self, table: &mut TableReader<'_>) {
        for (name, value) in [("id", &self.id), ("key", &self.key)] {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            if !value.bytes().all(is_plain) {
                table.error_at(name, "it is part of paths: write letters, digits, - _ and . only");
            }
        }
        let (id, key) = (Arc::clone(&self.id), Arc::clone(&self.key));
        let mut hooks = AppHooks::without_endpoints(id, key, self.secret.clone());
        table.each("webhooks", |table| hooks.endpoints.extend(endpoint::read(table)));
        self.hooks = Arc::new(hooks);
    }

    /// Returns an app with Pusher's limits and Weir's defaults.
    #[must_use]
    pub fn new(id: &str, key: &str, secret: Secret) -> Self {
        let (id, key) = (Arc::from(id), Arc::from(key));
        let hooks = AppHooks::without_endpoints(Arc::clone(&id), Arc::clone(&key), secret.clone());
        Self {
            id,
            key,
            hooks: Arc::new(hooks),
            secret,
            is_enabled: true,
            requires_tls: false,
            origins: Vec::new(),
            connections_max: usize::MAX,
            authorization_timeout: None,
            has_client_events: false,
            client_event_rate: Rate::new(10, Duration::from_millis(100)),
            has_subscription_counts: false,
            slow_clients: SlowClients::Disconnect,
            client_queue_bytes_max: 256 << 10,
            history: HistoryLimits::default(),
            presence: PresenceLimits::default(),
            cache_age_max: Duration::from_secs(30 * 60),
            // 50,000 channels with events of 500 bytes, or 3,000 with the largest.
            cache_bytes_max: 64 << 20,
        }
    }
}

impl HistoryLimits {
    /// No limits: all that there is.
    pub(crate) const NONE: Self = Self {
        events_max: usize::MAX,
        bytes_max: usize::MAX,
        age_max: Duration::MAX,
        is_durable: true,
    };
}

impl PresenceLimits {
    /// Returns the maximum age of a list of this many members: a large list is not created again
    /// for each change.
    pub(crate) fn list_age_max(&self, members: usize) -> Duration {
        if members > self.list_max { self.gather } else { Duration::ZERO }
    }
}
