//! The metrics of traces, named `weir_traces_*`.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Why a span was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// `queue_max` spans were waiting.
    QueueFull,
    /// The collector could not be reached, or was busy, for `attempts_max` attempts.
    Unavailable,
    /// The collector rejected it.
    Rejected,
    /// `jobs_max` traced jobs were in progress.
    JobsFull,
    /// The process ended before it was sent.
    Stopped,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [Self; 5] =
        [Self::QueueFull, Self::Unavailable, Self::Rejected, Self::JobsFull, Self::Stopped];

    const fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_max",
            Self::Unavailable => "unavailable",
            Self::Rejected => "rejected",
            Self::JobsFull => "jobs_max",
            Self::Stopped => "stopped",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// Spans that were sent or dropped. Clones share the counters.
#[derive(Clone, Debug, Default)]
pub struct TraceMetrics {
    /// Spans that the collector accepted.
    pub exported: Counter,
    /// Requests to the collector that failed, repeated ones included.
    pub failures: Counter,
    dropped: Family<ReasonLabel, Counter>,
}

impl TraceMetrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        DropReason::ALL.into_iter().for_each(|reason| metrics.dropped(reason, 0));
        registry.register(
            "weir_traces_spans_exported",
            "Spans that the collector accepted",
            metrics.exported.clone(),
        );
        registry.register(
            "weir_traces_spans_dropped",
            "Spans that were not exported, by the limit that was reached or what ended them",
            metrics.dropped.clone(),
        );
        registry.register(
            "weir_traces_export_failures",
            "Requests to the collector that failed, those that were repeated included",
            metrics.failures.clone(),
        );
        metrics
    }

    /// Counts dropped spans.
    pub fn dropped(&self, reason: DropReason, spans: u64) {
        self.dropped.get_or_create(&ReasonLabel { reason: reason.name() }).inc_by(spans);
    }

    /// Returns the number of spans that were dropped for `reason`.
    #[must_use]
    pub fn dropped_total(&self, reason: DropReason) -> u64 {
        self.dropped.get_or_create(&ReasonLabel { reason: reason.name() }).get()
    }
}
