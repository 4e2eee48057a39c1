//! Metrics of query times, by query.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

/// Buckets from 0.1 ms to 5 s.
const SECONDS: [f64; 7] = [0.0001, 0.0005, 0.002, 0.01, 0.1, 1.0, 5.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueryLabel {
    query: &'static str,
}

/// The histogram of query times, equal for each store. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct QueryMetrics(Family<QueryLabel, Histogram, fn() -> Histogram>);

impl Default for QueryMetrics {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| Histogram::new(SECONDS)))
    }
}

impl QueryMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "weir_gems_query_seconds",
            "How long queries of the gem store took, waiting for a connection or a lock included, by query",
            self.0.clone(),
        );
    }

    /// Starts to measure until the timer is dropped. `query` is the name of a store's method.
    pub(super) fn start(&self, query: &'static str) -> QueryTimer<'_> {
        QueryTimer { metrics: self, query, start: Instant::now() }
    }
}

/// Timer of a query in progress.
#[derive(Debug)]
pub(super) struct QueryTimer<'a> {
    metrics: &'a QueryMetrics,
    query: &'static str,
    start: Instant,
}

impl Drop for QueryTimer<'_> {
    fn drop(&mut self) {
        let histogram = self.metrics.0.get_or_create(&QueryLabel { query: self.query });
        histogram.observe(self.start.elapsed().as_secs_f64());
    }
}
