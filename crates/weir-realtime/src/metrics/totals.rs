//! Totals read from the metrics, for operators without a scraper.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_settings::Setting;

use super::{
    Closed, ClosedLabel, LimitHitLabel, LimitKind, RealtimeMetrics, RecoveryLabel, RecoveryOutcome,
};
use crate::settings::{AppSettings, HubLimits, PresenceLimits};

/// Figures of all apps: totals since the start, and present values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HubTotals {
    /// Number of open connections, including those that are closing.
    pub connections: u64,
    /// Number of present subscriptions.
    pub subscriptions: u64,
    /// Number of clients with queued bytes.
    pub slow_clients: u64,
    /// Bytes queued for clients.
    pub client_queue_bytes: u64,
    /// Number of connections opened.
    pub opened: u64,
    /// Number of connections closed, by reason.
    pub closed: Vec<ClosedView>,
    /// Number of events from servers.
    pub published: u64,
    /// Number of events from clients.
    pub client_events: u64,
    /// Number of events written to sockets or queued for them.
    pub deliveries: u64,
    /// Bytes of these events.
    pub delivered_bytes: u64,
    /// Number of events dropped for slow clients.
    pub dropped: u64,
    /// Number of events not sent because their name is switched off.
    pub switched_off: u64,
    /// Number of reconnected clients that received all events that they missed.
    pub recovered: u64,
    /// Number of reconnected clients whose missed events were no longer stored.
    pub gaps: u64,
}

/// Number of connections closed for one reason: `client`, `slow`, `no_pong`, `unused`,
/// `unauthorized`, `protocol`, `drain`, `terminated` or `app`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClosedView {
    /// The reason.
    pub reason: String,
    /// Number of connections.
    pub count: u64,
}

/// How often a limit was reached since the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitHit {
    /// The name of the limit's setting.
    pub limit: String,
    /// How often it was reached.
    pub hits: u64,
}

impl Closed {
    const ALL: &[Self] = &[
        Self::Client,
        Self::Slow,
        Self::NoPong,
        Self::Unused,
        Self::Unauthorized,
        Self::Protocol,
        Self::Drain,
        Self::Terminated,
        Self::App,
    ];

    /// Returns the value of the label `reason`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Slow => "slow",
            Self::NoPong => "no_pong",
            Self::Unused => "unused",
            Self::Unauthorized => "unauthorized",
            Self::Protocol => "protocol",
            Self::Drain => "drain",
            Self::Terminated => "terminated",
            Self::App => "app",
        }
    }
}

impl LimitKind {
    const ALL: &[Self] = &[
        Self::CoreQueue,
        Self::HistoryBytes,
        Self::CacheBytes,
        Self::Channels,
        Self::ChannelsPerConnection,
        Self::Connections,
        Self::ConnectionsTotal,
        Self::SubscribeTimeout,
        Self::AuthorizationTimeout,
        Self::ClientEventRate,
        Self::SubscribeRate,
        Self::Members,
        Self::ApiBodyTimeout,
        Self::Watchers,
        Self::DurableQueue,
    ];

    pub(crate) const fn setting(self) -> Setting {
        match self {
            Self::ApiBodyTimeout => HubLimits::API_BODY_TIMEOUT,
            Self::CoreQueue => HubLimits::CORE_QUEUE_EVENTS_MAX,
            Self::DurableQueue => HubLimits::DURABLE_QUEUE_BYTES_MAX,
            Self::HistoryBytes => HubLimits::HISTORY_BYTES_MAX,
            Self::CacheBytes => AppSettings::CACHE_BYTES_MAX,
            Self::Channels => HubLimits::CHANNELS_MAX,
            Self::ChannelsPerConnection => HubLimits::CHANNELS_PER_CONNECTION_MAX,
            Self::Connections => AppSettings::CONNECTIONS_MAX,
            Self::ConnectionsTotal => HubLimits::CONNECTIONS_TOTAL_MAX,
            Self::SubscribeTimeout => HubLimits::SUBSCRIBE_TIMEOUT,
            Self::AuthorizationTimeout => AppSettings::AUTHORIZATION_TIMEOUT,
            Self::ClientEventRate => AppSettings::CLIENT_EVENTS_PER_SECOND,
            Self::SubscribeRate => HubLimits::SUBSCRIBES_PER_SECOND,
            Self::Members => PresenceLimits::MEMBERS_MAX,
            Self::Watchers => HubLimits::WATCHERS_MAX,
        }
    }

    /// Returns the value of the label `limit`: the setting without its section.
    pub(super) fn name(self) -> &'static str {
        self.setting().name
    }
}

impl RecoveryOutcome {
    /// Returns the value of the label `outcome`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Recovered => "recovered",
            Self::Gap => "gap",
        }
    }
}

impl RealtimeMetrics {
    /// Returns all totals so far.
    pub(crate) fn totals(&self) -> HubTotals {
        let counted = &self.0;
        let recoveries = |outcome: RecoveryOutcome| {
            counted.recoveries.get_or_create(&RecoveryLabel { outcome: outcome.name() }).get()
        };
        HubTotals {
            connections: unsigned(counted.connections.get()),
            subscriptions: unsigned(counted.subscriptions.get()),
            slow_clients: unsigned(counted.slow_clients.get()),
            client_queue_bytes: unsigned(counted.queued_bytes.get()),
            opened: counted.opened.get(),
            closed: Closed::ALL.iter().map(|reason| self.closed_view(*reason)).collect(),
            published: counted.published.get(),
            client_events: counted.client_events.get(),
            deliveries: counted.deliveries.get(),
            delivered_bytes: counted.delivered_bytes.get(),
            dropped: counted.dropped.get(),
            switched_off: counted.switched_off.get(),
            recovered: recoveries(RecoveryOutcome::Recovered),
            gaps: recoveries(RecoveryOutcome::Gap),
        }
    }

    fn closed_view(&self, reason: Closed) -> ClosedView {
        let count = self.0.closed.get_or_create(&ClosedLabel { reason: reason.name() }).get();
        ClosedView { reason: reason.name().to_owned(), count }
    }

    /// Returns how often each limit was reached.
    pub(crate) fn limits_hit(&self) -> Vec<LimitHit> {
        let hits = |limit: LimitKind| LimitHit {
            limit: limit.setting().to_string(),
            hits: self.0.limits.get_or_create(&LimitHitLabel { limit: limit.name() }).get(),
        };
        LimitKind::ALL.iter().copied().map(hits).collect()
    }
}

/// Converts a gauge. As several cores change it, it may be below zero for a moment.
fn unsigned(gauge: i64) -> u64 {
    gauge.try_into().unwrap_or_default()
}
