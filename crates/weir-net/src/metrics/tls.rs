//! The metrics of certificates, named `weir_tls_*`.

use std::path::Path;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use weir_base::clock::Timestamp;

/// The outcome of reloading a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadOutcome {
    /// The new certificate is in use.
    Replaced,
    /// The new one is unusable; the previous one stays in use.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CertificateLabel {
    setting: &'static str,
    file: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabel {
    setting: &'static str,
    outcome: &'static str,
}

/// The metrics of one listener's certificates. Cheap to clone; clones share them.
#[derive(Clone, Debug)]
pub struct TlsMetrics {
    setting: &'static str,
    expiry: Family<CertificateLabel, Gauge>,
    reloads: Family<ReloadLabel, Counter>,
}

impl TlsMetrics {
    /// Creates and registers the metrics of all listeners; [`TlsMetrics::for_listener`] returns
    /// those of one.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("weir_tls");
        let all = Self { setting: "", expiry: Family::default(), reloads: Family::default() };
        registry.register(
            "certificate_expiry_timestamp_seconds",
            "Expiry of the certificate in use, in seconds since the epoch",
            all.expiry.clone(),
        );
        registry.register("reloads", "Certificates that were reloaded", all.reloads.clone());
        all
    }

    /// Returns the metrics of a listener, named by its section of the settings.
    #[must_use]
    pub fn for_listener(&self, setting: &'static str) -> Self {
        Self { setting, ..self.clone() }
    }

    /// Creates unregistered metrics, for tests and tools.
    #[must_use]
    pub fn detached() -> Self {
        Self::register(&mut Registry::default())
    }

    /// Returns how many certificates were reloaded with this outcome since the start.
    #[must_use]
    pub fn reloads(&self, outcome: ReloadOutcome) -> u64 {
        self.of_outcome(outcome).get()
    }

    pub(crate) fn reloaded(&self, outcome: ReloadOutcome) {
        self.of_outcome(outcome).inc();
    }

    pub(crate) fn expires(&self, file: &Path, expiry: Timestamp) {
        let label = CertificateLabel { setting: self.setting, file: file.display().to_string() };
        let seconds = i64::try_from(expiry.as_millis() / 1_000).unwrap_or(i64::MAX);
        self.expiry.get_or_create(&label).set(seconds);
    }

    fn of_outcome(&self, outcome: ReloadOutcome) -> Counter {
        let outcome = match outcome {
            ReloadOutcome::Replaced => "replaced",
            ReloadOutcome::Failed => "failed",
        };
        self.reloads.get_or_create_owned(&ReloadLabel { setting: self.setting, outcome })
    }
}
