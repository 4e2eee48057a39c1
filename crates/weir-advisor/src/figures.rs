//! An observation as metrics with labels, for Prometheus.
//!
//! - [`metric`]: all metrics with their help texts. The dashboard is generated from the same table;
//! - [`figures`]: their values. Unknown facts have no value, rather than zero;
//! - [`Admitted`]: limits the number of label values. A metric counts the names that were left out.

mod admitted;
mod jobs;
pub mod metric;
mod pooler;
mod servers;
mod sources;

use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::advice::Advice;
use crate::observation::{Observation, SourceState};

pub use self::admitted::{Admitted, LabelLimits};
use self::metric::{METRICS, Metric, SHARD};

/// A value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The metric.
    pub metric: &'static Metric,
    /// Label names and values in the order of [`Metric::labels`], followed by the Redis if there
    /// are several.
    pub labels: Vec<(&'static str, String)>,
    /// The value. Infinite for queues that never drain.
    pub value: f64,
}

/// Data about the sampling itself.
#[derive(Clone, Copy, Debug)]
pub struct SampleSummary<'a> {
    /// When sampling ended.
    pub at: Timestamp,
    /// How long sampling took.
    pub took: Duration,
    /// The state of each source.
    pub sources: &'a [SourceState],
}

/// Returns all values of an observation, grouped by metric.
#[must_use]
pub fn figures(
    observation: &Observation,
    advice: &Advice,
    look: SampleSummary<'_>,
    admitted: &mut Admitted,
) -> Vec<Figure> {
    let mut figures = CollectedFigures::default();
    jobs::add(&mut figures, observation, &mut admitted.queues);
    servers::add(&mut figures, observation, &mut admitted.services);
    pooler::add(&mut figures, observation);
    sources::add(&mut figures, advice, look);
    for names in [&admitted.queues, &admitted.services] {
        figures.add("left_out", &[names.limit()], names.left_out() as f64);
    }
    // Prometheus requires the values of a metric to be contiguous.
    let place = |figure: &Figure| METRICS.iter().position(|it| it.name == figure.metric.name);
    figures.0.sort_by_key(place);
    figures.0
}

/// The values collected so far.
#[derive(Debug, Default)]
struct CollectedFigures(Vec<Figure>);

impl CollectedFigures {
    /// Adds a value. `name` must be in [`METRICS`], with the same number of labels.
    fn add(&mut self, name: &str, labels: &[&str], value: f64) {
        self.add_of(None, name, labels, value);
    }

    /// Adds a value for one Sidekiq, identified by its Redis; `None` if there is only one.
    fn add_of(&mut self, shard: Option<&str>, name: &str, labels: &[&str], value: f64) {
        let metric = METRICS.iter().find(|metric| metric.name == name);
        let metric = metric.unwrap_or_else(|| panic!("{name} is in the table"));
        assert_eq!(metric.labels.len(), labels.len(), "{name}: as many labels as in the table");
        assert!(shard.is_none() || metric.of_each_sidekiq, "{name}: as the table says");
        let own = metric.labels.iter().copied().zip(labels.iter().copied());
        let labels = own.chain(shard.map(|shard| (SHARD, shard)));
        let labels = labels.map(|(name, label)| (name, label.to_owned())).collect();
        self.0.push(Figure { metric, labels, value });
    }
}

#[cfg(test)]
mod tests;
