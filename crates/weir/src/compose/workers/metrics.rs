//! Figures of the workers that Weir runs itself.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::recycling::Limit;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AppLabel {
    app: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabel {
    app: String,
    limit: &'static str,
}

/// They.
#[derive(Clone, Debug)]
pub(in crate::compose) struct RecyclingMetrics {
    recycled: Family<LimitLabel, Counter>,
    memory: Family<AppLabel, Gauge>,
}

impl RecyclingMetrics {
    pub(in crate::compose) fn register(registry: &mut Registry) -> Self {
        let metrics = Self { recycled: Family::default(), memory: Family::default() };
        registry.register(
            "weir_front_app_recycled_workers",
            "Workers that were replaced by a fresh one, by the limit that they had passed",
            metrics.recycled.clone(),
        );
        registry.register(
            "weir_front_app_workers_pss_bytes",
            "Memory of all workers, what they share counted once",
            metrics.memory.clone(),
        );
        metrics
    }

    /// Shows an app before anything has happened.
    pub(super) fn announce(&self, app: &str) {
        for limit in Limit::ALL {
            drop(self.recycled.get_or_create(&label(app, limit)));
        }
    }

    pub(super) fn recycled(&self, app: &str, limit: Limit) {
        self.recycled.get_or_create(&label(app, limit)).inc();
    }

    pub(super) fn memory(&self, app: &str, bytes: u64) {
        let gauge = self.memory.get_or_create(&AppLabel { app: app.to_owned() });
        gauge.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

fn label(app: &str, limit: Limit) -> LimitLabel {
    LimitLabel { app: app.to_owned(), limit: limit.name() }
}
