//! Encodes the statistics by type of job for a scrape.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::job_types::{JobTypes, TypeTotals};
use crate::view::DurationsView;

/// Encodes the figures of all types.
#[derive(Debug)]
pub(super) struct TypeCollector(pub(super) JobTypes);

impl Collector for TypeCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let types = self.0.totals();
        if types.is_empty() {
            return Ok(());
        }
        encode_ended(&mut encoder, &types)?;
        encode_counts(&mut encoder, &types)?;
        encode_seconds(&mut encoder, &types)?;
        encode_quantiles(&mut encoder, &types)
    }
}

fn encode_ended(encoder: &mut DescriptorEncoder<'_>, types: &[TypeTotals]) -> Result<(), Error> {
    let help = "Jobs that ended, by type and result";
    let mut family = encoder.encode_descriptor("type_ended", help, None, MetricType::Counter)?;
    for it in types {
        let succeeded = it.total.ended - it.total.failed;
        for (result, value) in [("ok", succeeded), ("failed", it.total.failed)] {
            let label = [("jobtype", it.jobtype.as_str()), ("result", result)];
            ConstCounter::new(value).encode(family.encode_family(&label)?)?;
        }
    }
    Ok(())
}

fn encode_counts(encoder: &mut DescriptorEncoder<'_>, types: &[TypeTotals]) -> Result<(), Error> {
    type Value = fn(&TypeTotals) -> u64;
    let counters: [(&str, &str, Value); 2] = [
        ("type_started", "Jobs that workers have reserved, by type", |it| it.total.started),
        (
            "type_returned",
            "Reserved jobs whose worker ended first, or that were not delivered, by type",
            |it| it.total.returned,
        ),
    ];
    for (name, help, value) in counters {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for it in types {
            let label = [("jobtype", it.jobtype.as_str())];
            ConstCounter::new(value(it)).encode(family.encode_family(&label)?)?;
        }
    }
    let help = "Jobs in progress, by type";
    let mut family = encoder.encode_descriptor("type_running", help, None, MetricType::Gauge)?;
    for it in types {
        let label = [("jobtype", it.jobtype.as_str())];
        ConstGauge::new(it.running).encode(family.encode_family(&label)?)?;
    }
    Ok(())
}

fn encode_seconds(encoder: &mut DescriptorEncoder<'_>, types: &[TypeTotals]) -> Result<(), Error> {
    type Value = fn(&TypeTotals) -> f64;
    let sums: [(&str, &str, Value); 2] = [
        ("type_wait_seconds", "Sum of the waits of jobs that started, by type", |it| {
            it.total.wait_seconds
        }),
        ("type_run_seconds", "Sum of the runs of jobs that ended, by type", |it| {
            it.total.run_seconds
        }),
    ];
    for (name, help, value) in sums {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for it in types {
            let label = [("jobtype", it.jobtype.as_str())];
            ConstCounter::new(value(it)).encode(family.encode_family(&label)?)?;
        }
    }
    Ok(())
}

fn encode_quantiles(
    encoder: &mut DescriptorEncoder<'_>,
    types: &[TypeTotals],
) -> Result<(), Error> {
    type Value = fn(&TypeTotals) -> Option<DurationsView>;
    let quantiles: [(&str, &str, Value); 2] = [
        ("type_wait_quantile_seconds", "Waits of jobs over the last hour, by type", |it| it.wait),
        ("type_run_quantile_seconds", "Runs of jobs over the last hour, by type", |it| it.run),
    ];
    for (name, help, value) in quantiles {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for it in types {
            let Some(DurationsView { p50, p95, p99, .. }) = value(it) else { continue };
            for (quantile, seconds) in [("0.5", p50), ("0.95", p95), ("0.99", p99)] {
                let label = [("jobtype", it.jobtype.as_str()), ("quantile", quantile)];
                ConstGauge::new(seconds).encode(family.encode_family(&label)?)?;
            }
        }
    }
    Ok(())
}
