//! What was counted, read back: for who looks at it without a scraper.

use super::{
    Closed, ClosedLabel, Limit, LimitLabel, RealtimeMetrics, RecoveryLabel, RecoveryOutcome,
};
use crate::view::{ClosedView, LimitHit, Totals};

impl Closed {
    const ALL: [Self; 9] = [
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

    /// The label's value.
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

impl Limit {
    const ALL: [Self; 14] = [
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
    ];

    /// The name of its setting.
    pub(crate) const fn setting(self) -> &'static str {
        match self {
            Self::ApiBodyTimeout => "realtime.limits.api_body_timeout",
            Self::CoreQueue => "realtime.limits.core_queue_events_max",
            Self::HistoryBytes => "realtime.limits.history_bytes_max",
            Self::CacheBytes => "realtime.apps.cache_bytes_max",
            Self::Channels => "realtime.limits.channels_max",
            Self::ChannelsPerConnection => "realtime.limits.channels_per_connection_max",
            Self::Connections => "realtime.apps.connections_max",
            Self::ConnectionsTotal => "realtime.limits.connections_total_max",
            Self::SubscribeTimeout => "realtime.limits.subscribe_timeout",
            Self::AuthorizationTimeout => "realtime.apps.authorization_timeout",
            Self::ClientEventRate => "realtime.apps.client_events_per_second",
            Self::SubscribeRate => "realtime.limits.subscribes_per_second",
            Self::Members => "realtime.apps.presence.members_max",
            Self::Watchers => "realtime.limits.watchers_max",
        }
    }

    /// The label's value: the setting without its section.
    pub(super) fn name(self) -> &'static str {
        let setting = self.setting();
        setting.rsplit('.').next().unwrap_or(setting)
    }
}

impl RecoveryOutcome {
    /// The label's value.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Recovered => "recovered",
            Self::Gap => "gap",
        }
    }
}

impl RealtimeMetrics {
    /// Everything counted so far.
    pub(crate) fn totals(&self) -> Totals {
        let counted = &self.0;
        let recoveries = |outcome: RecoveryOutcome| {
            counted.recoveries.get_or_create(&RecoveryLabel { outcome: outcome.name() }).get()
        };
        Totals {
            connections: unsigned(counted.connections.get()),
            subscriptions: unsigned(counted.subscriptions.get()),
            slow_clients: unsigned(counted.slow_clients.get()),
            client_queue_bytes: unsigned(counted.queued_bytes.get()),
            opened: counted.opened.get(),
            closed: Closed::ALL.map(|reason| self.closed_view(reason)).to_vec(),
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

    /// How often each limit was met.
    pub(crate) fn limits_hit(&self) -> Vec<LimitHit> {
        let hits = |limit: Limit| LimitHit {
            limit: limit.setting().to_owned(),
            hits: self.0.limits.get_or_create(&LimitLabel { limit: limit.name() }).get(),
        };
        Limit::ALL.map(hits).to_vec()
    }
}

/// A gauge that several cores change may be below zero for a moment.
fn unsigned(gauge: i64) -> u64 {
    gauge.try_into().unwrap_or_default()
}
