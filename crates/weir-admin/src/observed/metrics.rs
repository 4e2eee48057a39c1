//! Metrics of observed systems, generated at each scrape; none before the first snapshot.

use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use weir_advisor::figures::metric::{Metric, MetricKind, PREFIX};
use weir_advisor::figures::{Admitted, Figure, LabelLimits, SampleSummary, figures};

use super::Observed;

/// Collects the metrics.
#[derive(Debug)]
pub struct ObservedMetrics {
    observed: Observed,
    admitted: Mutex<Admitted>,
}

impl ObservedMetrics {
    pub fn new(observed: Observed, limits: LabelLimits) -> Self {
        Self { observed, admitted: Mutex::new(Admitted::new(limits)) }
    }

    fn figures(&self) -> Vec<Figure> {
        let Some(snapshot) = self.observed.latest() else { return Vec::new() };
        let mut admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        let summary =
            SampleSummary { at: snapshot.at, took: snapshot.took, sources: &snapshot.sources };
        figures(&snapshot.observation, &snapshot.advice, summary, &mut admitted)
    }
}

impl Collector for ObservedMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        // Group the values of a metric.
        for group in self.figures().chunk_by(|one, other| one.metric.name == other.metric.name) {
            encode(&mut encoder, group[0].metric, group)?;
        }
        Ok(())
    }
}

fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &Metric,
    figures: &[Figure],
) -> Result<(), std::fmt::Error> {
    let name = format!("{PREFIX}{}", metric.name);
    let kind = match metric.kind {
        MetricKind::Gauge => ConstGauge::new(0.0).metric_type(),
        MetricKind::Counter => ConstCounter::new(0.0).metric_type(),
    };
    let mut family = encoder.encode_descriptor(&name, metric.help, None, kind)?;
    if let [figure] = figures
        && figure.labels.is_empty()
    {
        return write(family, figure);
    }
    for figure in figures {
        write(family.encode_family(&figure.labels)?, figure)?;
    }
    Ok(())
}

fn write(encoder: MetricEncoder<'_>, figure: &Figure) -> Result<(), std::fmt::Error> {
    match figure.metric.kind {
        MetricKind::Gauge => ConstGauge::new(figure.value).encode(encoder),
        MetricKind::Counter => ConstCounter::new(figure.value).encode(encoder),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use weir_advisor::Observation;
    use weir_advisor::observation::{Fact, ObservedQueue, ShardJobs, SidekiqObservation};
    use weir_base::clock::Timestamp;
    use weir_observe::Round;

    use super::*;

    fn scraped(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).expect("written to memory");
        text
    }

    #[test]
    fn no_metrics_before_the_first_snapshot_and_names_are_escaped() {
        let (observed, mut registry) = (Observed::default(), Registry::default());
        let limits = LabelLimits { metrics_queues_max: 2, metrics_services_max: 2 };
        let metrics = ObservedMetrics::new(observed.clone(), limits);
        registry.register_collector(Box::new(metrics));
        assert_eq!(scraped(&registry), "# EOF\n");
        let names = ["a\"b\\c\nweir_observe_threads 9", "push", "late"];
        let queue = |name: &str| ObservedQueue {
            name: name.to_owned(),
            length: 7,
            ..ObservedQueue::default()
        };
        let (queues, processed) = (names.map(queue).into(), Fact::Known(5));
        let jobs = SidekiqObservation { queues, processed, ..SidekiqObservation::default() };
        observed.publish(Round {
            at: Timestamp::from_millis(7_000),
            took: Duration::from_millis(9),
            observation: Observation { jobs: Fact::Known(jobs), ..Observation::default() },
            sources: Vec::new(),
        });
        let text = scraped(&registry);
        for line in [
            r#"weir_observe_queue_size{queue="a\"b\\c\nweir_observe_threads 9"} 7.0"#,
            r#"weir_observe_queue_size{queue="late"} 7.0"#,
            r#"weir_observe_queue_size{queue="other"} 7.0"#,
            r#"weir_observe_left_out{limit="metrics_queues_max"} 1.0"#,
            "weir_observe_threads 0.0",
            "weir_observe_jobs_processed_total 5.0",
            "weir_observe_look_timestamp_seconds 7.0",
        ] {
            assert_eq!(text.lines().filter(|it| *it == line).count(), 1, "{line}\n{text}");
        }
        let heads = text.lines().filter(|line| line.starts_with("# TYPE weir_observe_queue_size "));
        assert_eq!(heads.count(), 1, "the values of a metric stand together");
    }

    #[test]
    fn each_redis_server_has_its_own_series() {
        let (observed, mut registry) = (Observed::default(), Registry::default());
        let metrics = ObservedMetrics::new(observed.clone(), LabelLimits::default());
        registry.register_collector(Box::new(metrics));
        let shard = |name: &str, length| {
            let queue =
                ObservedQueue { name: "push".to_owned(), length, ..ObservedQueue::default() };
            let jobs = SidekiqObservation { queues: vec![queue], ..SidekiqObservation::default() };
            ShardJobs { name: name.to_owned(), jobs: Fact::Known(jobs) }
        };
        let shards = vec![shard("a:1", 7), shard("b:2", 9)];
        observed.publish(Round {
            at: Timestamp::from_millis(7_000),
            took: Duration::from_millis(9),
            observation: Observation { shards, ..Observation::default() },
            sources: Vec::new(),
        });
        let text = scraped(&registry);
        for line in [
            r#"weir_observe_queue_size{queue="push",redis="a:1"} 7.0"#,
            r#"weir_observe_queue_size{queue="push",redis="b:2"} 9.0"#,
            r#"weir_observe_threads{redis="a:1"} 0.0"#,
            r#"weir_observe_threads{redis="b:2"} 0.0"#,
        ] {
            assert_eq!(text.lines().filter(|it| *it == line).count(), 1, "{line}\n{text}");
        }
    }
}
