//! Metrics of the apps' workers, read when somebody scrapes.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::workers_admin::{AppRow, Front};

/// Reads them.
#[derive(Debug)]
pub(crate) struct WorkersMetrics(pub(crate) Front);

/// Where a worker can be.
const STATES: [&str; 8] =
    ["serving", "starting", "unreachable", "draining", "evicting", "waiting", "stopped", "failed"];

impl Collector for WorkersMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let apps: Vec<AppRow> = self.0.rows().into_iter().map(|(row, _)| row).collect();
        states(&mut encoder, &apps)?;
        let help = "Workers that serve and have no request";
        gauge(&mut encoder, "weir_front_workers_idle", help, &apps, idle)?;
        let help = "1 while requests wait because somebody wants it";
        gauge(&mut encoder, "weir_front_app_paused", help, &apps, |app| i64::from(app.is_paused))?;
        let help = "Workers killed for they were stuck";
        counter(&mut encoder, "weir_front_worker_evictions", help, &apps, |app| app.evictions)?;
        let help = "Successors started in workers' places";
        let restarts = |app: &AppRow| app.restarts;
        counter(&mut encoder, "weir_front_worker_restarts", help, &apps, restarts)
    }
}

fn idle(app: &AppRow) -> i64 {
    let idle = app.workers.iter().filter(|it| it.state == "serving" && it.requests == 0);
    i64::try_from(idle.count()).unwrap_or(i64::MAX)
}

fn states(encoder: &mut DescriptorEncoder<'_>, apps: &[AppRow]) -> Result<(), std::fmt::Error> {
    let none = ConstGauge::new(0_i64);
    let help = "Workers, by what they do";
    let mut family =
        encoder.encode_descriptor("weir_front_workers", help, None, none.metric_type())?;
    for app in apps {
        for state in STATES {
            let there = app.workers.iter().filter(|worker| worker.state == state).count();
            let gauge = ConstGauge::new(i64::try_from(there).unwrap_or(i64::MAX));
            let labels = [("app", app.name.as_str()), ("state", state)];
            gauge.encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    apps: &[AppRow],
    value: impl Fn(&AppRow) -> i64,
) -> Result<(), std::fmt::Error> {
    let none = ConstGauge::new(0_i64);
    let mut family = encoder.encode_descriptor(name, help, None, none.metric_type())?;
    for app in apps {
        let labels = [("app", app.name.as_str())];
        ConstGauge::new(value(app)).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    apps: &[AppRow],
    value: impl Fn(&AppRow) -> u64,
) -> Result<(), std::fmt::Error> {
    let none = ConstCounter::new(0_u64);
    let mut family = encoder.encode_descriptor(name, help, None, none.metric_type())?;
    for app in apps {
        let labels = [("app", app.name.as_str())];
        ConstCounter::new(value(app)).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
