//! Metrics of what is observed, made when somebody scrapes; before the first look there are none.

use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use weir_advisor::figures::metric::{Kind, Metric, PREFIX};
use weir_advisor::figures::{Admitted, Figure, LabelLimits, Look, figures};

use super::Observed;

/// Reads them.
#[derive(Debug)]
pub(crate) struct ObservedMetrics {
    observed: Observed,
    admitted: Mutex<Admitted>,
}

impl ObservedMetrics {
    pub(crate) fn new(observed: Observed, limits: LabelLimits) -> Self {
        Self { observed, admitted: Mutex::new(Admitted::new(limits)) }
    }

    fn figures(&self) -> Vec<Figure> {
        let Some(looked) = self.observed.latest() else { return Vec::new() };
        let mut admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        let look = Look { at: looked.at, took: looked.took, sources: &looked.sources };
        figures(&looked.observation, &looked.advice, look, &mut admitted)
    }
}

impl Collector for ObservedMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        // The values of a metric stand together.
        for of_metric in self.figures().chunk_by(|one, other| one.metric.name == other.metric.name)
        {
            encode(&mut encoder, of_metric[0].metric, of_metric)?;
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
        Kind::Gauge => ConstGauge::new(0.0).metric_type(),
        Kind::Counter => ConstCounter::new(0.0).metric_type(),
    };
    let mut family = encoder.encode_descriptor(&name, metric.help, None, kind)?;
    if metric.labels.is_empty() {
        return figures.first().map_or(Ok(()), |figure| write(family, figure));
    }
    for figure in figures {
        write(family.encode_family(&figure.labels)?, figure)?;
    }
    Ok(())
}

fn write(encoder: MetricEncoder<'_>, figure: &Figure) -> Result<(), std::fmt::Error> {
    match figure.metric.kind {
        Kind::Gauge => ConstGauge::new(figure.value).encode(encoder),
        Kind::Counter => ConstCounter::new(figure.value).encode(encoder),
    }
}
