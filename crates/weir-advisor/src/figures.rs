//! An observation as figures with names and labels: what Prometheus is told of it.
//!
//! - [`metric`]: every metric, with its meaning; the dashboard is made from the same table;
//! - [`figures`]: their values. What is not known has none, which is not the same as zero;
//! - [`Admitted`]: which names get series of their own: labels are bounded, and what was left out is a
//!   figure, too.

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

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Of what.
    pub metric: &'static Metric,
    /// By the names of [`Metric::labels`], in their order; behind them the Redis, where there are several.
    pub labels: Vec<(&'static str, String)>,
    /// Infinite for what never ends.
    pub value: f64,
}

/// The look itself.
#[derive(Clone, Copy, Debug)]
pub struct SampleSummary<'a> {
    /// When it ended.
    pub at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// How each source has answered.
    pub sources: &'a [SourceState],
}

/// All figures of an observation, metric by metric.
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
    // All values of a metric must stand together.
    let place = |figure: &Figure| METRICS.iter().position(|it| it.name == figure.metric.name);
    figures.0.sort_by_key(place);
    figures.0
}

/// Those that were collected.
#[derive(Debug, Default)]
struct CollectedFigures(Vec<Figure>);

impl CollectedFigures {
    /// `name` is one of [`METRICS`], with as many labels.
    fn add(&mut self, name: &str, labels: &[&str], value: f64) {
        self.add_of(None, name, labels, value);
    }

    /// The same of one Sidekiq, by its Redis; none: there is no other.
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
