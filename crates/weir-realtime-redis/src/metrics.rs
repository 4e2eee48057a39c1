//! The metrics of the log, named `weir_realtime_redis_*`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::layout::Layout;
use crate::queue_limit::{QueueFull, QueueGauges};
use crate::settings::RedisLogSettings;

/// The metrics of a node's log. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RedisLogMetrics {
    counters: Arc<Counters>,
    shard: ShardGauges,
}

/// The gauges of one shard. The others are those of all shards.
#[derive(Clone, Debug, Default)]
struct ShardGauges {
    connected: Gauge<i64, AtomicI64>,
    nodes: Gauge<i64, AtomicI64>,
    presence_suspended: Gauge<i64, AtomicI64>,
    layout: Gauge<i64, AtomicI64>,
    appends: QueueGauges,
    deliveries: QueueGauges,
    client_events: QueueGauges,
}

type ShardFamily = Family<ShardLabel, Gauge<i64, AtomicI64>>;

/// The gauges of a queue, by shard.
#[derive(Debug, Default)]
struct QueueFamilies {
    waiting: ShardFamily,
    bytes: ShardFamily,
}

#[derive(Debug, Default)]
struct Counters {
    connected: ShardFamily,
    messages: Counter<u64, AtomicU64>,
    message_bytes: Counter<u64, AtomicU64>,
    holes: Counter<u64, AtomicU64>,
    reads: Counter<u64, AtomicU64>,
    heartbeats: Counter<u64, AtomicU64>,
    late: Counter<u64, AtomicU64>,
    unreadable: Counter<u64, AtomicU64>,
    rejected: Counter<u64, AtomicU64>,
    disconnects: Counter<u64, AtomicU64>,
    lost_broadcasts: Counter<u64, AtomicU64>,
    terminations: Counter<u64, AtomicU64>,
    nodes: ShardFamily,
    presence_suspended: ShardFamily,
    layout: ShardFamily,
    lapsed_nodes: Counter<u64, AtomicU64>,
    member_changes: Counter<u64, AtomicU64>,
    appends: QueueFamilies,
    deliveries: QueueFamilies,
    client_events: QueueFamilies,
    limits: Family<LimitLabel, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShardLabel {
    shard: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabel {
    limit: &'static str,
}

/// What waits, each with a limit of its number and of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogQueue {
    Appends,
    Deliveries,
    ClientEvents,
}

impl LogQueue {
    const ALL: [Self; 3] = [Self::Appends, Self::Deliveries, Self::ClientEvents];

    /// Returns the name of the limit's setting.
    const fn limit(self, full: QueueFull) -> &'static str {
        use RedisLogSettings as Settings;
        let setting = match (self, full) {
            (Self::Appends, QueueFull::Items) => Settings::APPENDS_MAX,
            (Self::Appends, QueueFull::Bytes) => Settings::APPEND_BYTES_MAX,
            (Self::Deliveries, QueueFull::Items) => Settings::DELIVERIES_MAX,
            (Self::Deliveries, QueueFull::Bytes) => Settings::DELIVERY_BYTES_MAX,
            (Self::ClientEvents, QueueFull::Items) => Settings::CLIENT_EVENTS_MAX,
            (Self::ClientEvents, QueueFull::Bytes) => Settings::CLIENT_EVENT_BYTES_MAX,
        };
        setting.name
    }

    /// Returns the part of the names of its gauges.
    const fn name(self) -> &'static str {
        match self {
            Self::Appends => "appends",
            Self::Deliveries => "deliveries",
            Self::ClientEvents => "client_events",
        }
    }
}

/// The values of the counters, for tests and operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogTotals {
    /// Messages received.
    pub messages: u64,
    /// Holes found.
    pub holes: u64,
    /// Heartbeats that Redis has replied to.
    pub heartbeats: u64,
    /// Events delivered after a comparison with the log.
    pub late: u64,
    /// Connections that ended.
    pub disconnects: u64,
    /// Messages and stored events that can't be read.
    pub unreadable: u64,
    /// Events of clients that may not have reached other nodes.
    pub lost_client_events: u64,
    /// Requests of other nodes to terminate a user that were carried out.
    pub terminations: u64,
    /// Nodes whose members this node began to remove.
    pub lapsed_nodes: u64,
}

impl Counters {
    const fn families(&self, queue: LogQueue) -> &QueueFamilies {
        match queue {
            LogQueue::Appends => &self.appends,
            LogQueue::Deliveries => &self.deliveries,
            LogQueue::ClientEvents => &self.client_events,
        }
    }

    /// Returns the gauges of a shard.
    fn shard(&self, name: &str) -> ShardGauges {
        let label = ShardLabel { shard: name.to_owned() };
        let gauge = |family: &ShardFamily| family.get_or_create(&label).clone();
        let queue = |queue| {
            let QueueFamilies { waiting, bytes } = self.families(queue);
            QueueGauges { waiting: gauge(waiting), bytes: gauge(bytes) }
        };
        ShardGauges {
            connected: gauge(&self.connected),
            nodes: gauge(&self.nodes),
            presence_suspended: gauge(&self.presence_suspended),
            layout: gauge(&self.layout),
            appends: queue(LogQueue::Appends),
            deliveries: queue(LogQueue::Deliveries),
            client_events: queue(LogQueue::ClientEvents),
        }
    }
}

impl RedisLogMetrics {
    /// Creates the metrics and registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let counters = Counters::default();
        let c = &counters;
        let registry = registry.sub_registry_with_prefix("weir_realtime_redis");
        registry.register(
            "connected",
            "Whether events of other nodes arrive through this shard",
            c.connected.clone(),
        );
        registry.register("messages", "Events received from Redis", c.messages.clone());
        registry.register("message_bytes", "Bytes of their data", c.message_bytes.clone());
        registry.register("holes", "Times that events from Redis were missing", c.holes.clone());
        registry.register("reads", "Channels compared with Redis", c.reads.clone());
        registry.register("heartbeats", "Checks that Redis has replied to", c.heartbeats.clone());
        registry.register("late_events", "Missing events that were found in Redis", c.late.clone());
        registry.register(
            "unreadable",
            "Messages and stored events that can't be read",
            c.unreadable.clone(),
        );
        registry.register("rejected_appends", "Publications without a reply", c.rejected.clone());
        registry.register("disconnects", "Connections that ended", c.disconnects.clone());
        registry.register(
            "lost_client_events",
            "Events of clients that may not have reached other nodes",
            c.lost_broadcasts.clone(),
        );
        registry.register(
            "terminations",
            "Requests of other nodes to terminate a user",
            c.terminations.clone(),
        );
        registry.register(
            "presence_suspended",
            "Whether Redis rejects subscriptions and members, so that this node goes on without",
            c.presence_suspended.clone(),
        );
        registry.register("nodes", "Nodes with a lease in this shard", c.nodes.clone());
        registry.register(
            "layout",
            "The layout of this shard that all nodes know, which this node uses",
            c.layout.clone(),
        );
        registry.register(
            "lapsed_nodes",
            "Nodes whose members this node began to remove",
            c.lapsed_nodes.clone(),
        );
        registry.register(
            "member_changes",
            "Changes of this node's members that Redis has",
            c.member_changes.clone(),
        );
        for queue in LogQueue::ALL {
            let (name, QueueFamilies { waiting, bytes }) = (queue.name(), c.families(queue));
            let help = format!("The {name} that wait: for Redis, or for this node");
            registry.register(format!("{name}_waiting"), help, waiting.clone());
            registry.register(format!("{name}_waiting_bytes"), "Their bytes", bytes.clone());
            for full in [QueueFull::Items, QueueFull::Bytes] {
                // From 0 on, so that the first hit is an increase.
                drop(c.limits.get_or_create(&LimitLabel { limit: queue.limit(full) }));
            }
        }
        registry.register("limit_hits", "Times that a limit was met", c.limits.clone());
        Self { counters: Arc::new(counters), shard: ShardGauges::default() }
    }

    /// Returns the metrics of a shard, whose gauges are its own.
    pub(crate) fn of_shard(&self, name: &str) -> Self {
        Self { counters: Arc::clone(&self.counters), shard: self.counters.shard(name) }
    }

    pub(crate) const fn gauges(&self, queue: LogQueue) -> &QueueGauges {
        match queue {
            LogQueue::Appends => &self.shard.appends,
            LogQueue::Deliveries => &self.shard.deliveries,
            LogQueue::ClientEvents => &self.shard.client_events,
        }
    }

    pub(crate) fn limit_hit(&self, queue: LogQueue, full: QueueFull) {
        self.counters.limits.get_or_create(&LimitLabel { limit: queue.limit(full) }).inc();
    }

    /// Returns the values of the counters.
    #[must_use]
    pub fn totals(&self) -> LogTotals {
        let c = &self.counters;
        LogTotals {
            messages: c.messages.get(),
            holes: c.holes.get(),
            heartbeats: c.heartbeats.get(),
            late: c.late.get(),
            disconnects: c.disconnects.get(),
            unreadable: c.unreadable.get(),
            lost_client_events: c.lost_broadcasts.get(),
            terminations: c.terminations.get(),
            lapsed_nodes: c.lapsed_nodes.get(),
        }
    }

    pub(crate) fn connected(&self, is_connected: bool) {
        self.shard.connected.set(i64::from(is_connected));
    }

    /// Returns the number of nodes that have a lease in this shard.
    pub(crate) fn node_count(&self) -> u64 {
        u64::try_from(self.shard.nodes.get()).unwrap_or_default()
    }

    pub(crate) fn disconnected(&self) {
        self.counters.disconnects.inc();
    }

    pub(crate) fn message(&self, bytes: usize) {
        self.counters.messages.inc();
        self.counters.message_bytes.inc_by(bytes as u64);
    }

    pub(crate) fn broadcasts_lost(&self, events: usize) {
        self.counters.lost_broadcasts.inc_by(events as u64);
    }

    pub(crate) fn nodes(&self, count: usize) {
        self.shard.nodes.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn presence_suspended(&self, is_suspended: bool) {
        self.shard.presence_suspended.set(i64::from(is_suspended));
    }

    /// Notes the layout of this session.
    pub(crate) fn layout(&self, layout: Layout) {
        self.shard.layout.set(layout.0.into());
    }

    pub(crate) fn node_lapsed(&self) {
        self.counters.lapsed_nodes.inc();
    }

    pub(crate) fn members_changed(&self, count: usize) {
        self.counters.member_changes.inc_by(count as u64);
    }

    pub(crate) fn termination(&self) {
        self.counters.terminations.inc();
    }

    pub(crate) fn heartbeat(&self) {
        self.counters.heartbeats.inc();
    }

    pub(crate) fn hole(&self) {
        self.counters.holes.inc();
    }

    pub(crate) fn read(&self, late: u64) {
        self.counters.reads.inc();
        self.counters.late.inc_by(late);
    }

    pub(crate) fn unreadable(&self, count: u64) {
        self.counters.unreadable.inc_by(count);
    }

    pub(crate) fn rejected(&self) {
        self.counters.rejected.inc();
    }
}
