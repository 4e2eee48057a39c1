//! Metrics of the workers that Weir runs.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::recycling::Limit;

/// The kind of a group of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Processes an app's requests.
    App,
    Jobs,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AppLabel {
    app: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabel {
    app: String,
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabel {
    group: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLimitLabel {
    group: String,
    limit: &'static str,
}

/// The metrics of recycling.
#[derive(Clone, Debug)]
pub(in crate::compose) struct RecyclingMetrics {
    of_apps: Family<LimitLabel, Counter>,
    memory_of_apps: Family<AppLabel, Gauge>,
    job_groups: Family<GroupLimitLabel, Counter>,
    memory_of_jobs: Family<GroupLabel, Gauge>,
}

impl RecyclingMetrics {
    pub(in crate::compose) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            of_apps: Family::default(),
            memory_of_apps: Family::default(),
            job_groups: Family::default(),
            memory_of_jobs: Family::default(),
        };
        let recycled = "Workers that were replaced, by the limit that they had exceeded";
        let memory = "Memory of all workers, counting shared memory once";
        registry.register("weir_front_app_recycled_workers", recycled, metrics.of_apps.clone());
        registry.register(
            "weir_front_app_workers_pss_bytes",
            memory,
            metrics.memory_of_apps.clone(),
        );
        registry.register("weir_workers_recycled", recycled, metrics.job_groups.clone());
        registry.register("weir_workers_pss_bytes", memory, metrics.memory_of_jobs.clone());
        metrics
    }

    /// Creates the metrics of a group with their initial values.
    pub(super) fn initialize(&self, kind: Kind, group: &str) {
        for limit in Limit::ALL {
            drop(self.count(kind, group, limit));
        }
    }

    pub(super) fn recycled(&self, kind: Kind, group: &str, limit: Limit) {
        self.count(kind, group, limit).inc();
    }

    pub(super) fn memory(&self, kind: Kind, group: &str, bytes: u64) {
        let name = group.to_owned();
        let gauge = match kind {
            Kind::App => self.memory_of_apps.get_or_create(&AppLabel { app: name }),
            Kind::Jobs => self.memory_of_jobs.get_or_create(&GroupLabel { group: name }),
        };
        gauge.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn count(&self, kind: Kind, group: &str, limit: Limit) -> Counter {
        let (name, limit) = (group.to_owned(), limit.name());
        match kind {
            Kind::App => self.of_apps.get_or_create_owned(&LimitLabel { app: name, limit }),
            Kind::Jobs => {
                self.job_groups.get_or_create_owned(&GroupLimitLabel { group: name, limit })
            }
        }
    }
}
