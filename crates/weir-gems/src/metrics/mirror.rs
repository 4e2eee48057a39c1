//! Metrics of a mirror, named `weir_gems_mirror_*`. Upstream names are safe as labels: they come
//! from the settings and are few.

mod outcome;
mod upstream;

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub(crate) use self::outcome::{FetchFailure, Outcome};
pub(crate) use self::upstream::UpstreamMetrics;

/// Buckets from 10 ms to an hour.
const SECONDS: [f64; 11] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3_600.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpstreamLabel {
    upstream: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabel {
    upstream: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

/// The metrics of a mirror.
#[derive(Clone, Debug)]
pub struct MirrorMetrics {
    requests: Family<UpstreamLabel, Counter>,
    bytes: Family<UpstreamLabel, Counter>,
    failures: Family<FailureLabel, Counter>,
    seconds: Family<UpstreamLabel, Histogram, fn() -> Histogram>,
    last_success: Family<UpstreamLabel, Gauge>,
    lag: Family<UpstreamLabel, Gauge<f64, std::sync::atomic::AtomicU64>>,
    names: Family<UpstreamLabel, Gauge>,
    pending: Family<UpstreamLabel, Gauge>,
    refused: Family<UpstreamLabel, Gauge>,
    replaced: Family<UpstreamLabel, Gauge>,
    gems: Family<UpstreamLabel, Counter>,
    left_out: Family<UpstreamLabel, Counter>,
    hooks: Family<OutcomeLabel, Counter>,
    hook_seconds: Histogram,
    hooks_waiting: Gauge,
    files: Family<OutcomeLabel, Counter>,
}

impl MirrorMetrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            bytes: Family::default(),
            failures: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            last_success: Family::default(),
            lag: Family::default(),
            names: Family::default(),
            pending: Family::default(),
            refused: Family::default(),
            replaced: Family::default(),
            gems: Family::default(),
            left_out: Family::default(),
            hooks: Family::default(),
            hook_seconds: Histogram::new(SECONDS),
            hooks_waiting: Gauge::default(),
            files: Family::default(),
        };
        metrics.register_upstreams(registry);
        registry.register(
            "weir_gems_mirror_hooks",
            "Webhooks that came, and what became of them",
            metrics.hooks.clone(),
        );
        registry.register(
            "weir_gems_mirror_hook_seconds",
            "From a webhook's arrival to what it tells being served",
            metrics.hook_seconds.clone(),
        );
        registry.register(
            "weir_gems_mirror_hooks_waiting",
            "Webhooks in the inbox",
            metrics.hooks_waiting.clone(),
        );
        registry.register(
            "weir_gems_mirror_files",
            "Files that were fetched from upstreams, by outcome",
            metrics.files.clone(),
        );
        metrics
    }

    fn register_upstreams(&self, registry: &mut Registry) {
        let mut counter = |name, help, family: &Family<UpstreamLabel, Counter>| {
            registry.register(name, help, family.clone());
        };
        counter("weir_gems_mirror_requests", "Requests to an upstream", &self.requests);
        counter("weir_gems_mirror_received_bytes", "Bytes of an upstream's answers", &self.bytes);
        counter("weir_gems_mirror_gems", "Gems that were brought up to date", &self.gems);
        counter(
            "weir_gems_mirror_left_out",
            "Lines of an upstream that could not be kept",
            &self.left_out,
        );
        let mut gauge = |name, help, family: &Family<UpstreamLabel, Gauge>| {
            registry.register(name, help, family.clone());
        };
        gauge("weir_gems_mirror_names", "Names that an upstream lists", &self.names);
        gauge("weir_gems_mirror_pending", "Names that are not up to date", &self.pending);
        gauge(
            "weir_gems_mirror_refused",
            "Names that an upstream lists and that are not taken from it",
            &self.refused,
        );
        gauge(
            "weir_gems_mirror_replaced_releases",
            "Releases whose file an upstream has replaced; kept out until an operator accepts them",
            &self.replaced,
        );
        gauge(
            "weir_gems_mirror_last_success_timestamp_seconds",
            "When all that an upstream had was here",
            &self.last_success,
        );
        registry.register(
            "weir_gems_mirror_lag_seconds",
            "How long ago that was, as of the last look",
            self.lag.clone(),
        );
        registry.register(
            "weir_gems_mirror_failures",
            "Requests to an upstream that came to nothing",
            self.failures.clone(),
        );
        registry.register(
            "weir_gems_mirror_look_seconds",
            "Duration of synchronizations with an upstream",
            self.seconds.clone(),
        );
    }

    pub(crate) fn of(&self, upstream: &str) -> UpstreamMetrics {
        let label = UpstreamLabel { upstream: upstream.to_owned() };
        // Created at the start, because a counter that appears with its first error does not show
        // an increase.
        for reason in FetchFailure::ALL {
            let (upstream, reason) = (upstream.to_owned(), reason.name());
            drop(self.failures.get_or_create(&FailureLabel { upstream, reason }));
        }
        UpstreamMetrics {
            requests: self.requests.get_or_create(&label).clone(),
            bytes: self.bytes.get_or_create(&label).clone(),
            seconds: self.seconds.get_or_create(&label).clone(),
            last_success: self.last_success.get_or_create(&label).clone(),
            lag: self.lag.get_or_create(&label).clone(),
            names: self.names.get_or_create(&label).clone(),
            pending: self.pending.get_or_create(&label).clone(),
            refused: self.refused.get_or_create(&label).clone(),
            replaced: self.replaced.get_or_create(&label).clone(),
            gems: self.gems.get_or_create(&label).clone(),
            left_out: self.left_out.get_or_create(&label).clone(),
            failures: self.failures.clone(),
            label,
        }
    }

    pub(crate) fn hook(&self, outcome: Outcome) {
        self.hooks.get_or_create(&OutcomeLabel { outcome: outcome.name() }).inc();
    }

    pub(crate) fn hook_done(&self, took: Duration) {
        self.hook(Outcome::Done);
        self.hook_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn hooks_waiting(&self, waiting: u64) {
        self.hooks_waiting.set(signed(waiting));
    }

    pub(crate) fn file(&self, outcome: Outcome) {
        self.files.get_or_create(&OutcomeLabel { outcome: outcome.name() }).inc();
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
