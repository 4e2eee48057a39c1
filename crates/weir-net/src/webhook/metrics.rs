//! What is counted of a part's webhooks.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::failure::FailureReason;

/// Attempts, and events by what became of them. Clones count together.
#[derive(Clone, Debug)]
pub struct DeliveryMetrics {
    /// Requests begun.
    pub attempts: Counter,
    failed: Family<DeliveryLabel, Counter>,
    /// Events that a receiver took.
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
    /// By the reasons for which events are dropped, and the buckets of the time to a delivery.
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

    /// Registers them with the prefix of `registry`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("attempts", "Requests begun", self.attempts.clone());
        registry.register("attempts_failed", "Requests that failed", self.failed.clone());
        registry.register("events_sent", "Events that an endpoint took", self.sent.clone());
        let help = "Events not delivered, by the setting that was reached or what ended them";
        registry.register("events_dropped", help, self.dropped.clone());
        let help = "Time from an event to its delivery";
        registry.register("delivery_seconds", help, self.delivery.clone());
    }

    /// Events not delivered.
    #[must_use]
    pub fn dropped(&self, reason: &'static str) -> Counter {
        self.dropped.get_or_create_owned(&DeliveryLabel { reason })
    }

    /// Attempts that failed.
    #[must_use]
    pub fn failed(&self, reason: FailureReason) -> Counter {
        self.failed.get_or_create_owned(&DeliveryLabel { reason: reason.name() })
    }
}
