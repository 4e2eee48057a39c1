//! The metrics of the realtime server, named `weir_realtime_*`. Cores count in batches, so that a
//! single delivery costs nothing.

mod totals;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub use self::totals::{ClosedView, HubTotals, LimitHit};

/// Buckets in seconds, from an immediate delivery to a very late one.
const DELIVERY_BUCKETS: [f64; 13] =
    [0.000_1, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// The metrics of the realtime server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RealtimeMetrics(Arc<MetricFamilies>);

#[derive(Debug, Default)]
struct MetricFamilies {
    connections: Gauge<i64, AtomicI64>,
    opened: Counter<u64, AtomicU64>,
    closed: Family<ClosedLabel, Counter>,
    subscriptions: Gauge<i64, AtomicI64>,
    published: Counter<u64, AtomicU64>,
    client_events: Counter<u64, AtomicU64>,
    deliveries: Counter<u64, AtomicU64>,
    delivered_bytes: Counter<u64, AtomicU64>,
    dropped: Counter<u64, AtomicU64>,
    switched_off: Counter<u64, AtomicU64>,
    queued_bytes: Gauge<i64, AtomicI64>,
    slow_clients: Gauge<i64, AtomicI64>,
    recoveries: Family<RecoveryLabel, Counter>,
    limits: Family<LimitHitLabel, Counter>,
    gaps: Counter<u64, AtomicU64>,
    durable_queue_bytes: Gauge<i64, AtomicI64>,
    durable_log_bytes: Gauge<i64, AtomicI64>,
    durable_log_damages: Gauge<i64, AtomicI64>,
    publish_to_socket: Option<Histogram>,
}

/// The counts of one turn of a core.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TurnCounts {
    pub(crate) deliveries: u64,
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
    pub(crate) queued_bytes: i64,
    /// The change of the number of clients with queued bytes.
    pub(crate) slow_clients: i64,
}

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The client or the network closed it.
    Client,
    /// The client read too slowly.
    Slow,
    /// The client did not respond to a ping.
    NoPong,
    /// The client neither subscribed nor signed in in time.
    Unused,
    /// The application's server did not authorize the connection in time.
    Unauthorized,
    /// The client violated the WebSocket protocol.
    Protocol,
    /// Weir shut down.
    Drain,
    /// The HTTP API or an operator closed the user's connections.
    Terminated,
    /// The app was removed or disabled.
    App,
}

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitKind {
    CoreQueue,
    HistoryBytes,
    CacheBytes,
    Channels,
    ChannelsPerConnection,
    Connections,
    ConnectionsTotal,
    SubscribeTimeout,
    AuthorizationTimeout,
    ClientEventRate,
    SubscribeRate,
    Members,
    ApiBodyTimeout,
    Watchers,
    DurableQueue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClosedLabel {
    reason: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitHitLabel {
    limit: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RecoveryLabel {
    outcome: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecoveryOutcome {
    Recovered,
    Gap,
}

impl MetricFamilies {
    fn register_durable(&self, registry: &mut Registry) {
        registry.register(
            "durable_queue_bytes",
            "Bytes of events that wait for the log of durable histories, with 1 KiB for each",
            self.durable_queue_bytes.clone(),
        );
        registry.register(
            "durable_log_bytes",
            "Bytes of the log of durable histories",
            self.durable_log_bytes.clone(),
        );
        registry.register(
            "durable_log_damages",
            "Damaged records and ranges of the log of durable histories that was set aside at the start",
            self.durable_log_damages.clone(),
        );
    }
}

impl RealtimeMetrics {
    /// Creates the metrics and registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let histogram = Histogram::new(DELIVERY_BUCKETS);
        let inner = MetricFamilies {
            publish_to_socket: Some(histogram.clone()),
            ..MetricFamilies::default()
        };
        let registry = registry.sub_registry_with_prefix("weir_realtime");
        let i = &inner;
        registry.register("connections", "Connections that are open", i.connections.clone());
        registry.register("connections_opened", "Connections that were opened", i.opened.clone());
        registry.register("connections_closed", "Connections that ended", i.closed.clone());
        registry.register("subscriptions", "Subscriptions that hold", i.subscriptions.clone());
        registry.register("events_published", "Events of servers", i.published.clone());
        registry.register("client_events", "Events of clients", i.client_events.clone());
        registry.register("deliveries", "Events handed to sockets", i.deliveries.clone());
        registry.register("delivered_bytes", "Bytes of them", i.delivered_bytes.clone());
        registry.register("dropped_events", "Events dropped for slow clients", i.dropped.clone());
        registry.register(
            "switched_off_events",
            "Events not sent because a switch is off",
            i.switched_off.clone(),
        );
        registry.register(
            "client_queue_bytes",
            "Bytes that wait for slow clients",
            i.queued_bytes.clone(),
        );
        registry.register(
            "slow_clients",
            "Clients for which something waits",
            i.slow_clients.clone(),
        );
        registry.register("recoveries", "Answers to clients that recover", i.recoveries.clone());
        registry.register(
            "gaps",
            "Times that subscribers of a channel were notified of lost events",
            i.gaps.clone(),
        );
        i.register_durable(registry);
        registry.register("limit_hits", "Times that a limit was met", i.limits.clone());
        registry.register(
            "publish_to_socket_seconds",
            "From publishing to the last socket of a core",
            histogram,
        );
        Self(Arc::new(inner))
    }

    pub(crate) fn opened(&self) {
        self.0.connections.inc();
        self.0.opened.inc();
    }

    pub(crate) fn closed(&self, reason: Closed) {
        self.0.closed.get_or_create(&ClosedLabel { reason: reason.name() }).inc();
    }

    pub(crate) fn removed(&self, queued_bytes: usize) {
        self.0.connections.dec();
        self.queue_changed(queued_bytes, 0);
    }

    pub(crate) fn subscriptions(&self, change: i64) {
        self.0.subscriptions.inc_by(change);
    }

    pub(crate) fn published(&self) {
        self.0.published.inc();
    }

    pub(crate) fn switched_off(&self) {
        self.0.switched_off.inc();
    }

    pub(crate) fn client_event(&self) {
        self.0.client_events.inc();
    }

    pub(crate) fn record_turn(&self, counts: &TurnCounts) {
        self.0.deliveries.inc_by(counts.deliveries);
        self.0.delivered_bytes.inc_by(counts.bytes);
        if counts.dropped > 0 {
            self.0.dropped.inc_by(counts.dropped);
        }
        if counts.queued_bytes != 0 {
            self.0.queued_bytes.inc_by(counts.queued_bytes);
        }
        if counts.slow_clients != 0 {
            self.0.slow_clients.inc_by(counts.slow_clients);
        }
    }

    /// Updates the gauges when the bytes queued for a client change from `before` to `after`.
    pub(crate) fn queue_changed(&self, before: usize, after: usize) {
        if before != after {
            let change = after.cast_signed() - before.cast_signed();
            self.0.queued_bytes.inc_by(change as i64);
            let slow = i64::from(after > 0) - i64::from(before > 0);
            if slow != 0 {
                self.0.slow_clients.inc_by(slow);
            }
        }
    }

    pub(crate) fn delivered_after(&self, seconds: f64) {
        if let Some(histogram) = &self.0.publish_to_socket {
            histogram.observe(seconds);
        }
    }

    pub(crate) fn recovery(&self, outcome: RecoveryOutcome) {
        self.0.recoveries.get_or_create(&RecoveryLabel { outcome: outcome.name() }).inc();
    }

    pub(crate) fn gaps_sent(&self, gaps: u64) {
        self.0.gaps.inc_by(gaps);
    }

    /// Returns the number of gaps.
    #[cfg(test)]
    pub(crate) fn gaps(&self) -> u64 {
        self.0.gaps.get()
    }

    /// Returns the gauge of the bytes that wait for the log of durable histories.
    pub(crate) fn durable_queue(&self) -> &Gauge<i64, AtomicI64> {
        &self.0.durable_queue_bytes
    }

    pub(crate) fn durable_log_bytes(&self, bytes: u64) {
        self.0.durable_log_bytes.set(bytes.cast_signed());
    }

    pub(crate) fn durable_log_damages(&self, damages: u64) {
        self.0.durable_log_damages.set(damages.cast_signed());
    }

    pub(crate) fn limit_hit(&self, limit: LimitKind) {
        self.0.limits.get_or_create(&LimitHitLabel { limit: limit.name() }).inc();
    }
}
