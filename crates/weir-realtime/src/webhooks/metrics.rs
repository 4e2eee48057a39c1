//! The metrics of webhooks, named `weir_realtime_webhook_*`.
//!
//! `events_queued` = `events_sent` + those of `events_dropped` that were queued + `events_waiting`,
//! each counted once per endpoint. Events dropped before they were queued have the reasons
//! `queue_events_max`, `queue_bytes_max` and `ended`.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_net::webhook::{DeliveryMetrics, FailureReason};

/// Buckets from a nearby receiver to the last retry.
const DELIVERY_BUCKETS: [f64; 13] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 100.0, 300.0];

/// Why events were not delivered. Limits have the names of their settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// Too many events waited to be sorted by endpoint.
    QueueEvents,
    /// Too many bytes waited to be sorted by endpoint.
    QueueBytes,
    /// Too many events waited for this endpoint.
    EndpointEvents,
    /// Too many bytes waited for this endpoint.
    EndpointBytes,
    /// The endpoint failed for longer than `retry_for`.
    RetryFor,
    /// The last attempt failed, or `drain_timeout` had passed.
    Shutdown,
    /// The event arrived after the shutdown.
    Ended,
}

/// Totals of webhooks since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WebhookTotals {
    /// Number of requests begun.
    pub attempts: u64,
    /// Number of requests that failed.
    pub failed: u64,
    /// Number of delivered events.
    pub sent: u64,
    /// Number of dropped events.
    pub dropped: u64,
    /// Number of events that wait now.
    pub waiting: u64,
}

/// The metrics. Cheap to clone; clones share their counters.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    pub(super) delivery: DeliveryMetrics,
    pub(super) queued: Counter,
    pub(super) cancelled: Counter,
    pub(super) coalesced: Counter,
    pub(super) released_early: Counter,
    pub(super) waiting: Gauge,
    pub(super) held: Gauge,
    pub(super) without_permit: Counter,
}

impl Default for WebhookMetrics {
    fn default() -> Self {
        Self {
            delivery: DeliveryMetrics::new(
                &DropReason::ALL.map(DropReason::name),
                &DELIVERY_BUCKETS,
            ),
            queued: Counter::default(),
            cancelled: Counter::default(),
            coalesced: Counter::default(),
            released_early: Counter::default(),
            waiting: Gauge::default(),
            held: Gauge::default(),
            without_permit: Counter::default(),
        }
    }
}

impl DropReason {
    const ALL: [Self; 7] = [
        Self::QueueEvents,
        Self::QueueBytes,
        Self::EndpointEvents,
        Self::EndpointBytes,
        Self::RetryFor,
        Self::Shutdown,
        Self::Ended,
    ];

    /// Returns the value of the label `reason`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::QueueEvents => "queue_events_max",
            Self::QueueBytes => "queue_bytes_max",
            Self::EndpointEvents => "endpoint_events_max",
            Self::EndpointBytes => "endpoint_bytes_max",
            Self::RetryFor => "retry_for",
            Self::Shutdown => "shutdown",
            Self::Ended => "ended",
        }
    }
}

impl WebhookMetrics {
    /// Creates the metrics and registers them with the prefix `weir_realtime_webhook_`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        metrics.register_in(registry.sub_registry_with_prefix("weir_realtime_webhook"));
        metrics
    }

    fn register_in(&self, registry: &mut Registry) {
        self.delivery.register(registry);
        for (name, help, counter) in [
            ("events_queued", "Events queued, once per endpoint", &self.queued),
            (
                "events_cancelled",
                "Events taken back by their opposite, both counted",
                &self.cancelled,
            ),
            ("events_coalesced", "Subscription counts replaced by newer ones", &self.coalesced),
            (
                "events_released_early",
                "Events sent before vacated_delay, because held_events_max or held_bytes_max were reached",
                &self.released_early,
            ),
            (
                "attempts_without_permit",
                "Requests put off because realtime.limits.webhooks_in_flight_max was reached",
                &self.without_permit,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        registry.register(
            "events_waiting",
            "Events queued and neither sent nor dropped, once per endpoint",
            self.waiting.clone(),
        );
        registry.register("events_held", "Events that wait for vacated_delay", self.held.clone());
    }

    /// Returns the totals so far.
    pub(crate) fn totals(&self) -> WebhookTotals {
        WebhookTotals {
            attempts: self.delivery.attempts.get(),
            failed: FailureReason::ALL.into_iter().map(|reason| self.failed(reason).get()).sum(),
            sent: self.delivery.sent.get(),
            dropped: DropReason::ALL.into_iter().map(|reason| self.dropped(reason).get()).sum(),
            waiting: self.waiting.get().try_into().unwrap_or_default(),
        }
    }

    /// Returns the counter of events dropped for this reason.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> Counter {
        self.delivery.dropped(reason.name())
    }

    /// Returns the counter of attempts that failed for this reason.
    #[must_use]
    pub fn failed(&self, reason: FailureReason) -> Counter {
        self.delivery.failed(reason)
    }
}
