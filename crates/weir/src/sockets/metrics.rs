//! Metrics of apps whose workers accept connections themselves, named `weir_front_worker_*` and
//! `weir_front_sockets_*`.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AppLabel {
    app: String,
}

/// The metrics of all apps.
#[derive(Clone, Debug, Default)]
pub(crate) struct SocketMetrics {
    busy: Family<AppLabel, Gauge>,
    oldest: Family<AppLabel, Gauge<f64, AtomicU64>>,
    waiting: Family<AppLabel, Gauge>,
    repairs: Family<AppLabel, Counter>,
}

/// The metrics of one app.
#[derive(Clone, Debug)]
pub(super) struct AppMetrics {
    busy: Gauge,
    oldest: Gauge<f64, AtomicU64>,
    waiting: Gauge,
    repairs: Counter,
}

impl SocketMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "weir_front_worker_busy",
            "Workers with shared sockets that report a request in progress",
            metrics.busy.clone(),
        );
        registry.register(
            "weir_front_worker_oldest_request_seconds",
            "Age of the oldest request of workers with shared sockets, as they report it",
            metrics.oldest.clone(),
        );
        registry.register(
            "weir_front_sockets_waiting",
            "Connections waiting to be accepted from the app's shared sockets",
            metrics.waiting.clone(),
        );
        registry.register(
            "weir_front_worker_words_repaired",
            "Workers that were chosen for a connection, did not accept it, and were set to idle",
            metrics.repairs.clone(),
        );
        metrics
    }

    pub(super) fn for_app(&self, app: &str) -> AppMetrics {
        let app = AppLabel { app: app.to_owned() };
        AppMetrics {
            busy: self.busy.get_or_create(&app).clone(),
            oldest: self.oldest.get_or_create(&app).clone(),
            waiting: self.waiting.get_or_create(&app).clone(),
            repairs: self.repairs.get_or_create(&app).clone(),
        }
    }
}

impl AppMetrics {
    /// Updates the ages of requests in busy workers, and the number of waiting connections.
    pub(super) fn update(&self, ages: &[Duration], waiting: usize) {
        self.busy.set(i64::try_from(ages.len()).unwrap_or(i64::MAX));
        let oldest = ages.iter().max().copied().unwrap_or_default();
        self.oldest.set(oldest.as_secs_f64());
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    pub(super) fn repaired(&self) {
        self.repairs.inc();
    }
}
