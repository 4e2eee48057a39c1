//! The metrics of the audit log.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::audit::ChangeOutcome;

/// The counters. Cheap to clone; clones share them.
#[derive(Clone, Debug, Default)]
pub struct AuditMetrics {
    entries: Family<OutcomeLabels, Counter>,
    write_failures: Counter,
    unwritten: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

impl AuditMetrics {
    /// Adds the counters to `registry`, under `weir_audit_`.
    pub fn register(&self, registry: &mut Registry) {
        let audit = registry.sub_registry_with_prefix("weir_audit");
        let help = "Changes that operators requested, by outcome";
        audit.register("entries", help, self.entries.clone());
        let help = "Failed attempts to write the audit log";
        audit.register("write_failures", help, self.write_failures.clone());
        let help = "Entries of the audit log that are in memory only, because it cannot be written";
        audit.register("unwritten_entries", help, self.unwritten.clone());
    }

    pub(crate) fn entry(&self, outcome: ChangeOutcome) {
        self.entries.get_or_create(&OutcomeLabels { outcome: outcome.name() }).inc();
    }

    pub(crate) fn write_failed(&self) {
        self.write_failures.inc();
    }

    pub(crate) fn set_unwritten(&self, count: usize) {
        self.unwritten.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
