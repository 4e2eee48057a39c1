//! Metrics of webhooks, named `weir_gems_webhook_*`.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use weir_base::clock::Timestamp;
use weir_net::webhook::DeliveryMetrics;

use crate::store::webhooks::EndpointState;

/// Buckets from a receiver on the same network to the last retries.
const SECONDS: [f64; 10] = [0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0, 3_600.0, 86_400.0];

/// There are at most as many label sets as endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndpointLabel {
    endpoint: String,
}

/// Reasons why an event was dropped, named after the setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DropReason {
    RetryFor,
    EventsMax,
}

impl DropReason {
    const ALL: [Self; 2] = [Self::RetryFor, Self::EventsMax];

    const fn name(self) -> &'static str {
        match self {
            Self::RetryFor => "retry_for",
            Self::EventsMax => "events_max",
        }
    }
}

/// The metrics. Clones share them.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    pub(super) delivery: DeliveryMetrics,
    pub(super) unwanted: Counter,
    waiting: Family<EndpointLabel, Gauge>,
    oldest: Family<EndpointLabel, Gauge>,
}

impl WebhookMetrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            delivery: DeliveryMetrics::new(&DropReason::ALL.map(DropReason::name), &SECONDS),
            unwanted: Counter::default(),
            waiting: Family::default(),
            oldest: Family::default(),
        };
        metrics.register_in(registry.sub_registry_with_prefix("weir_gems_webhook"));
        metrics
    }

    fn register_in(&self, registry: &mut Registry) {
        self.delivery.register(registry);
        let help = "Events that were not delivered to an endpoint";
        registry.register("events_unwanted", help, self.unwanted.clone());
        let help = "Events that an endpoint has not got";
        registry.register("events_waiting", help, self.waiting.clone());
        let help = "Age of the oldest event that an endpoint has not got";
        registry.register("oldest_event_seconds", help, self.oldest.clone());
    }

    pub(super) fn sent(&self, took: Duration) {
        self.delivery.sent.inc();
        self.delivery.delivery.observe(took.as_secs_f64());
    }

    pub(super) fn dropped(&self, reason: DropReason, events: u64) {
        self.delivery.dropped(reason.name()).inc_by(events);
    }

    pub(super) fn shows(&self, state: &EndpointState, now: Timestamp) {
        let gauge = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let label = EndpointLabel { endpoint: state.name.clone() };
        self.waiting.get_or_create(&label).set(gauge(state.waiting));
        let age = state.oldest_at.map_or(0, |at| now.since(at).as_secs());
        self.oldest.get_or_create(&label).set(gauge(age));
    }
}
