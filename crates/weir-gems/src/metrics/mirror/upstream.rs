//! Metrics of one upstream.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use weir_base::clock::Timestamp;

use super::{FailureLabel, FetchFailure, UpstreamLabel, signed};
use crate::store::mirror::{Applied, MirrorCounts};

/// The metrics of one upstream.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamMetrics {
    pub(super) requests: Counter,
    pub(super) bytes: Counter,
    pub(super) seconds: Histogram,
    pub(super) last_success: Gauge,
    pub(super) lag: Gauge<f64, std::sync::atomic::AtomicU64>,
    pub(super) names: Gauge,
    pub(super) pending: Gauge,
    pub(super) refused: Gauge,
    pub(super) replaced: Gauge,
    pub(super) gems: Counter,
    pub(super) left_out: Counter,
    pub(super) failures: Family<FailureLabel, Counter>,
    pub(super) label: UpstreamLabel,
}

impl UpstreamMetrics {
    pub(crate) fn asked(&self) {
        self.requests.inc();
    }

    pub(crate) fn received(&self, bytes: u64) {
        self.bytes.inc_by(bytes);
    }

    pub(crate) fn failed(&self, reason: FetchFailure) {
        let upstream = self.label.upstream.clone();
        self.failures.get_or_create(&FailureLabel { upstream, reason: reason.name() }).inc();
    }

    pub(crate) fn left_out(&self, lines: u64) {
        self.left_out.inc_by(lines);
    }

    pub(crate) fn applied(&self, applied: &Applied) {
        self.gems.inc_by(applied.gems);
        self.left_out.inc_by(applied.clashing);
    }

    pub(crate) fn counted(&self, counts: &MirrorCounts) {
        self.names.set(signed(counts.names));
        self.pending.set(signed(counts.pending));
        self.refused.set(signed(counts.refused));
        self.replaced.set(signed(counts.replaced));
    }

    pub(crate) fn looked(&self, took: Duration, last_success: Option<Timestamp>, now: Timestamp) {
        self.seconds.observe(took.as_secs_f64());
        self.succeeded(last_success, now);
    }

    pub(crate) fn succeeded(&self, last_success: Option<Timestamp>, now: Timestamp) {
        if let Some(at) = last_success {
            self.last_success.set(signed(at.as_millis() / 1_000));
            self.lag.set(now.since(at).as_secs_f64());
        }
    }

    /// Returns the number of unusable lines so far.
    pub(crate) fn lines_left_out(&self) -> u64 {
        self.left_out.get()
    }

    /// Returns the numbers of requests and bytes so far.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        (self.requests.get(), self.bytes.get())
    }
}
