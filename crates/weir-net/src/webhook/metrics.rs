//! The metrics of webhooks.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::failure::FailureReason;

/// Attempts, and delivered or dropped events. Clones share the counters.
#[derive(Clone, Debug)]
pub struct DeliveryMetrics {
    /// Requests that were begun.
    pub attempts: Counter,
    failed: Family<DeliveryLabel, Counter>,
    /// Events that a receiver accepted.
    pub sent: Counter,
    dropped: Family<DeliveryLabel, Counter>,
    /// Seconds from an event to its delivery.
    pub delivery: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeliveryLabel {
    reason: &'static str,
}

impl DeliveryMetrics {
    /// Creates the metrics from the reasons for dropping events and the buckets of delivery times.
    #[must_use]
    pub fn new(drop_reasons: &[&'static str], buckets: &[f64]) -> Self {
        let metrics = Self {
            attempts: Counter::default(),
            failed: Family::default(),
            sent: Counter::default(),
            dropped: Family::default(),
            delivery: Histogram::new(buckets.iter().copied()),
        };
        drop_reasons.iter().for_each(|reason| drop(metrics.dropped(reason)));
        FailureReason::ALL.into_iter().for_each(|reason| drop(metrics.failed(reason)));
        metrics
    }

    /// Registers the metrics with the prefix of `registry`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("attempts", "Requests begun", self.attempts.clone());
        registry.register("attempts_failed", "Requests that failed", self.failed.clone());
        registry.register("events_sent", "Events that an endpoint took", self.sent.clone());
        let help = "Events not delivered, by the setting that was reached or what ended them";
        registry.register("events_dropped", help, self.dropped.clone());
        let help = "Time from an event to its delivery";
        registry.register("delivery_seconds", help, self.delivery.clone());
    }

    /// Returns the counter of events that were dropped for `reason`.
    #[must_use]
    pub fn dropped(&self, reason: &'static str) -> Counter {
        self.dropped.get_or_create_owned(&DeliveryLabel { reason })
    }

    /// Returns the counter of attempts that failed for `reason`.
    #[must_use]
    pub fn failed(&self, reason: FailureReason) -> Counter {
        self.failed.get_or_create_owned(&DeliveryLabel { reason: reason.name() })
    }
}
