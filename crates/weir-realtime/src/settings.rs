//! What can be set: for the whole of realtime, and for each app. Plain data.

use std::sync::Arc;
use std::time::Duration;

use weir_base::secret::Secret;
use weir_base::token_bucket::Rate;

use crate::origin::OriginPattern;
use crate::webhooks::AppHooks;
use crate::{pusher, websocket};

/// Realtime's settings. Field names are the names of the settings under `realtime`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `realtime.activity_timeout`: after that much silence a client pings. Each client is told a
    /// little less or more (`activity_jitter`), so that those who came together don't ping together.
    pub activity_timeout: Duration,
    /// `realtime.activity_jitter`: by how much, in thousandths.
    pub activity_jitter_thousandths: u32,
    /// `realtime.drain_window`: over that much time connections are closed when Weir ends.
    pub drain_window: Duration,
    /// `realtime.limits`.
    pub limits: Limits,
    /// Also under `realtime.limits`: what one message may be.
    pub websocket: websocket::Limits,
    /// Also under `realtime.limits`: what clients and callers may send.
    pub pusher: pusher::limits::Limits,
}

/// Bounds of sessions, channels and queues. Field names are the names under `realtime.limits`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of all apps together. One more is closed with 4100.
    pub connections_total_max: usize,
    /// A connection that has neither subscribed nor signed in by then is closed with 4100.
    pub subscribe_timeout: Duration,
    /// Channels of one connection.
    pub channels_per_connection_max: usize,
    /// Channels of one app, those included that are kept for their history only.
    pub channels_max: usize,
    /// Events that wait for one core to deliver them; more are refused.
    pub core_queue_events_max: usize,
    /// Their bytes.
    pub core_queue_bytes_max: usize,
    /// Sockets written to before others on the core have their turn. 64 writes take some 0.3 ms.
    pub writes_per_turn_max: usize,
    /// Bytes of events of one channel that are joined into one write.
    pub write_bytes_max: usize,
    /// Bytes that the kernel takes for one client before it has sent them; beyond that they wait in
    /// the client's queue, where the app's policy sees them.
    pub unsent_bytes_max: u32,
    /// How long a client has to answer a ping.
    pub pong_timeout: Duration,
    /// How long a client has to take what is left for it and to close.
    pub close_timeout: Duration,
    /// How long the body of a request to the HTTP API may take to arrive.
    pub api_body_timeout: Duration,
    /// Bytes of all channels' histories together; beyond that a channel that is published to loses
    /// its own.
    pub history_bytes_max: usize,
    /// Subscriptions on one core, per second and at once; more wait for their turn.
    pub subscribe_rate: Rate,
    /// Live views of channels at a time, of all people and programs together.
    pub watchers_max: usize,
    /// Events that wait for one live view; beyond that the oldest are left out.
    pub watch_events_max: usize,
}

/// One app. Replaced as a whole when settings are reloaded.
#[derive(Clone, Debug)]
pub struct AppSettings {
    /// In the paths of the HTTP API.
    pub id: Arc<str>,
    /// In every client's settings.
    pub key: Arc<str>,
    /// Signs.
    pub secret: Secret,
    /// Switched off: connections are refused with 4003, the HTTP API answers 403.
    pub is_enabled: bool,
    /// Connections without TLS are refused with 4000.
    pub requires_tls: bool,
    /// Pages from which browsers may connect; none: all.
    pub origins: Vec<OriginPattern>,
    /// Connections at a time; more are refused with 4004.
    pub connections_max: usize,
    /// A connection that has not shown by then that the application's server knows it, by signing in
    /// or by subscribing to a channel that needs a signature, is closed with 4009. None: it need not.
    pub authorization_timeout: Option<Duration>,
    /// Whether clients may send `client-` events.
    pub has_client_events: bool,
    /// How many of them a connection may send.
    pub client_event_rate: Rate,
    /// Whether channels tell their subscribers how many they are: at once up to
    /// [`COUNTED_AT_ONCE_MAX`], and every [`COUNT_INTERVAL`] beyond that, as with the original.
    pub has_subscription_counts: bool,
    /// What happens to a client that reads slower than its channels speak.
    pub slow_clients: SlowClients,
    /// Bytes that wait for one client before that happens.
    pub client_queue_bytes_max: usize,
    /// What is kept of each channel.
    pub history: HistoryLimits,
    /// Of presence channels.
    pub presence: PresenceLimits,
    /// How long a cache channel keeps its last event.
    pub cache_age_max: Duration,
    /// Bytes of the last events of all cache channels, with what keeping costs; beyond that the
    /// oldest is dropped.
    pub cache_bytes_max: usize,
    /// Who is told.
    pub hooks: Arc<AppHooks>,
}

/// A channel with more subscribers tells their number at intervals.
pub const COUNTED_AT_ONCE_MAX: usize = 100;
/// Between two tellings of a large channel's number.
pub const COUNT_INTERVAL: Duration = Duration::from_secs(5);

/// For whom the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Events; 0: no history, no offsets, no recovery.
    pub events_max: usize,
    /// Bytes, with what keeping costs.
    pub bytes_max: usize,
    /// How old an event may become; also how long an empty channel is kept.
    pub age_max: Duration,
}

/// What a presence channel may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresenceLimits {
    /// Users of one channel.
    pub members_max: usize,
    /// Above that, a subscriber gets no list of the members but their number, and changes come
    /// together.
    pub list_max: usize,
    /// How long changes are gathered above `list_max`; also how old a list may be there.
    pub gather: Duration,
    /// Members of one page of the list.
    pub page_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            activity_timeout: Duration::from_secs(120),
            activity_jitter_thousandths: 100,
            drain_window: Duration::from_secs(3),
            limits: Limits::default(),
            websocket: websocket::Limits::default(),
            pusher: pusher::limits::Limits::default(),
        }
    }
}

impl Settings {
    /// The longest silence that a client is told to allow itself.
    pub(crate) fn activity_timeout_max(&self) -> Duration {
        self.activity_timeout.saturating_mul(1_000 + self.activity_jitter_thousandths) / 1_000
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // As many as the server side has.
            connections_total_max: 65_536,
            // A page may connect at its start and subscribe when its user does something. One that is
            // open for longer comes back a second later; whoever holds connections only to hold them
            // has to make each anew.
            subscribe_timeout: Duration::from_secs(10 * 60),
            channels_per_connection_max: 256,
            channels_max: 100_000,
            core_queue_events_max: 16_384,
            core_queue_bytes_max: 64 << 20,
            writes_per_turn_max: 64,
            write_bytes_max: 16 << 10,
            unsent_bytes_max: 64 << 10,
            pong_timeout: Duration::from_secs(30),
            close_timeout: Duration::from_secs(5),
            api_body_timeout: Duration::from_secs(10),
            history_bytes_max: 256 << 20,
            // A subscription costs some 20 us: half a core for those who come back, half for those
            // who are there.
            subscribe_rate: Rate::new(2_000, Duration::from_micros(40)),
            watchers_max: 64,
            // A hundred events of 10 KiB are a megabyte; nobody reads more at once.
            watch_events_max: 100,
        }
    }
}

impl AppSettings {
    /// An app with Pusher's limits and Weir's defaults.
    #[must_use]
    pub fn new(id: &str, key: &str, secret: Secret) -> Self {
        let (id, key) = (Arc::from(id), Arc::from(key));
        let hooks = AppHooks::none(Arc::clone(&id), Arc::clone(&key), secret.clone());
        Self {
            id,
            key,
            hooks: Arc::new(hooks),
            secret,
            is_enabled: true,
            requires_tls: false,
            origins: Vec::new(),
            connections_max: Limits::default().connections_total_max,
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

impl Default for HistoryLimits {
    fn default() -> Self {
        Self { events_max: 200, bytes_max: 256 << 10, age_max: Duration::from_secs(120) }
    }
}

impl PresenceLimits {
    /// How old a list of so many members may be: a large one is not made anew for each change.
    pub(crate) fn list_age_max(&self, members: usize) -> Duration {
        if members > self.list_max { self.gather } else { Duration::ZERO }
    }
}

impl Default for PresenceLimits {
    fn default() -> Self {
        Self {
            members_max: 100_000,
            list_max: 1_000,
            gather: Duration::from_millis(500),
            page_max: 1_000,
        }
    }
}
