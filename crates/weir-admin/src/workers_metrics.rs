//! Metrics of the workers of apps and of jobs, read at each scrape.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::workers::{AppRow, Front, JOBS};

/// Collects the metrics.
#[derive(Debug)]
pub struct WorkersMetrics(pub Front);

/// States in which a worker does not do its work.
const STATES: [&str; 8] =
    ["starting", "unreachable", "stuck", "draining", "evicting", "waiting", "stopped", "failed"];

impl Collector for WorkersMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let old = ConstGauge::new(i64::from(self.0.old_processes()));
        let help = "Replaced service processes that still have connections";
        let name = "weir_old_service_processes";
        old.encode(encoder.encode_descriptor(name, help, None, old.metric_type())?)?;
        let rows = self.0.rows().into_iter().map(|(row, _)| row);
        let (job_groups, apps): (Vec<AppRow>, Vec<AppRow>) = rows.partition(|row| row.mode == JOBS);
        let (encoder, apps) = (&mut encoder, Rows { label: "app", rows: &apps });
        states(encoder, "weir_front_workers", &apps, "serving")?;
        let help = "Idle workers";
        gauge(encoder, "weir_front_workers_idle", help, &apps, idle)?;
        let help = "1 while the app is paused: its requests wait";
        gauge(encoder, "weir_front_app_paused", help, &apps, |app| i64::from(app.is_paused))?;
        let evicted = "Workers killed because they were stuck";
        let evictions = |row: &AppRow| row.evictions;
        counter(encoder, "weir_front_worker_evictions", evicted, &apps, evictions)?;
        let died = "Workers that ended unexpectedly or were never ready";
        let deaths = |row: &AppRow| row.deaths;
        counter(encoder, "weir_front_worker_deaths", died, &apps, deaths)?;
        let restarted = "Workers started to replace others";
        let restarts = |row: &AppRow| row.restarts;
        counter(encoder, "weir_front_worker_restarts", restarted, &apps, restarts)?;
        let help = "Evenness of the request counts of the present workers: 1 is even, which is not a goal in itself";
        ratio(encoder, "weir_front_app_jain_index", help, &apps, |app| app.jain_index)?;
        let help = "Age of the oldest request in progress; 0 if there is none";
        ratio(encoder, "weir_front_app_oldest_request_seconds", help, &apps, oldest)?;
        let job_groups = Rows { label: "group", rows: &job_groups };
        states(encoder, "weir_workers", &job_groups, "running")?;
        counter(encoder, "weir_workers_evictions", evicted, &job_groups, evictions)?;
        counter(encoder, "weir_workers_deaths", died, &job_groups, deaths)?;
        counter(encoder, "weir_workers_restarts", restarted, &job_groups, restarts)?;
        overrides(encoder, &job_groups)
    }
}

/// Rows, and the label of their name.
struct Rows<'a> {
    label: &'static str,
    rows: &'a [AppRow],
}

fn idle(app: &AppRow) -> i64 {
    let idle = app.workers.iter().filter(|it| it.state == "serving" && it.requests == 0);
    i64::try_from(idle.count()).unwrap_or(i64::MAX)
}

/// Encodes the values that operators have overridden, and database connections.
fn overrides(encoder: &mut DescriptorEncoder<'_>, rows: &Rows<'_>) -> Result<(), std::fmt::Error> {
    let none = ConstGauge::new(0_i64);
    let help = "1 while an operator has overridden the value: processes, threads or queues";
    let name = "weir_workers_override";
    {
        let mut family = encoder.encode_descriptor(name, help, None, none.metric_type())?;
        for app in rows.rows {
            let set = app.values.as_ref().and_then(|values| values.set.as_ref());
            for key in set.into_iter().flat_map(|set| set.keys()) {
                let labels = [(rows.label, app.name.as_str()), ("key", key)];
                ConstGauge::new(1_i64).encode(family.encode_family(&labels)?)?;
            }
        }
    }
    let help =
        "Database connections that the processes of a group may open, counted against [budget]";
    let connections = |app: &AppRow| app.values.as_ref().map_or(0, |values| values.connections);
    gauge(encoder, "weir_workers_database_connections", help, rows, |app| {
        i64::try_from(connections(app)).unwrap_or(i64::MAX)
    })
}

/// Encodes the number of workers by state. `working_state` is the name of the working state.
fn states(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    rows: &Rows<'_>,
    working_state: &str,
) -> Result<(), std::fmt::Error> {
    let none = ConstGauge::new(0_i64);
    let help = "Workers, by state";
    let mut family = encoder.encode_descriptor(name, help, None, none.metric_type())?;
    for app in rows.rows {
        for state in [working_state].into_iter().chain(STATES) {
            let count = app.workers.iter().filter(|worker| worker.state == state).count();
            let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
            let labels = [(rows.label, app.name.as_str()), ("state", state)];
            gauge.encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: &Rows<'_>,
    value: impl Fn(&AppRow) -> i64,
) -> Result<(), std::fmt::Error> {
    let none = ConstGauge::new(0_i64);
    let mut family = encoder.encode_descriptor(name, help, None, none.metric_type())?;
    for app in rows.rows {
        let labels = [(rows.label, app.name.as_str())];
        ConstGauge::new(value(app)).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Encodes a ratio of the rows that have one.
fn ratio(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: &Rows<'_>,
    value: impl Fn(&AppRow) -> Option<f64>,
) -> Result<(), std::fmt::Error> {
    let none = ConstGauge::new(0.0);
    let mut family = encoder.encode_descriptor(name, help, None, none.metric_type())?;
    for app in rows.rows {
        let Some(value) = value(app) else { continue };
        let labels = [(rows.label, app.name.as_str())];
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn oldest(app: &AppRow) -> Option<f64> {
    let ages = app.workers.iter().filter_map(|worker| worker.oldest_request_seconds);
    Some(ages.fold(0.0, f64::max))
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: &Rows<'_>,
    value: impl Fn(&AppRow) -> u64,
) -> Result<(), std::fmt::Error> {
    let none = ConstCounter::new(0_u64);
    let mut family = encoder.encode_descriptor(name, help, None, none.metric_type())?;
    for app in rows.rows {
        let labels = [(rows.label, app.name.as_str())];
        ConstCounter::new(value(app)).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
