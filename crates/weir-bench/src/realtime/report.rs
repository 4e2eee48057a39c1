//! Turns a run into the common envelope.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::ledger::Deliveries;
use super::meter::Spent;
use super::scenario::Run;
use super::settings::{LoadSettings, Scenario};
use super::target::Target;
use crate::envelope::Envelope;
use crate::latency::Latencies;
use crate::process_usage::cpu_resolution;

pub(crate) fn envelope(run: &Run, target: &Target, settings: &LoadSettings) -> Envelope {
    let main = Main::from_run(run, settings);
    let server_cpu = main.spent.and_then(Spent::server_cpu);
    let usage_after = main.spent.and_then(|spent| spent.server).map(|(_, after)| after);
    let quantile = |quantile| main.latencies.map_or(0.0, |all| rounded(all.quantile_us(quantile)));
    let elapsed = main.spent.map_or(0.0, |spent| spent.elapsed.as_secs_f64());
    Envelope {
        bench: "realtime",
        scenario: settings.scenario.name(),
        settings: settings_json(target, settings),
        seconds: elapsed,
        operations_per_second: rounded(main.operations / elapsed.max(1e-9)),
        p50_us: quantile(0.50),
        p95_us: quantile(0.95),
        p99_us: quantile(0.99),
        errors: errors(run),
        client_cpu_seconds: main.spent.map_or(0.0, |spent| spent.client_cpu.as_secs_f64()),
        server_cpu_seconds: server_cpu.map(|cpu| cpu.as_secs_f64()),
        server_cpu_us_per_operation: server_cpu.map(|cpu| us_per_operation(cpu, main.operations)),
        server_rss_bytes: usage_after.map(|usage| usage.rss_bytes).filter(|bytes| *bytes > 0),
        extra: extra(run, settings),
    }
}

/// The operations that the scenario measures, and the source of their figures.
struct Main<'a> {
    operations: f64,
    spent: Option<&'a Spent>,
    latencies: Option<&'a Latencies>,
}

impl<'a> Main<'a> {
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 operations")]
    fn from_run(run: &'a Run, settings: &LoadSettings) -> Self {
        match (settings.scenario, &run.load) {
            (Scenario::Connect | Scenario::Presence, _) | (_, None) => Self {
                operations: run.connections.as_ref().map_or(0, |all| all.connect_latencies.count())
                    as f64,
                spent: run.arrival.as_ref(),
                latencies: run.connections.as_ref().map(|all| &all.connect_latencies),
            },
            (_, Some((spent, deliveries))) => Self {
                operations: deliveries.received.operations as f64,
                spent: Some(spent),
                latencies: Some(&deliveries.received.latencies),
            },
        }
    }
}

fn errors(run: &Run) -> u64 {
    let received = run.load.as_ref().map_or(0, |(_, all)| count_delivery_faults(all));
    run.lost + received + run.faults.count
}

/// Returns how many deliveries were wrong.
pub(crate) fn count_delivery_faults(deliveries: &Deliveries) -> u64 {
    deliveries.reordered + deliveries.duplicated + deliveries.received.faults.count
}

fn extra(run: &Run, settings: &LoadSettings) -> Map<String, Value> {
    let has_server = settings.scenario != Scenario::Floor;
    let mut extra = Map::new();
    let mut add = |key: &str, value: Value| {
        extra.insert(key.to_owned(), value);
    };
    if let Some((_, deliveries)) = run.load.as_ref().filter(|_| has_server) {
        add_delivery_figures(deliveries, &mut add);
    }
    if has_server {
        add("lost", run.lost.into());
        add("bytes_received", run.counts.bytes.into());
    }
    add_connect_figures(run, settings, &mut add);
    if settings.scenario == Scenario::Storm {
        let counts = &run.counts;
        add("recovered", counts.recovered.into());
        add("gaps", counts.gaps.into());
        add("offset_jumps", counts.offset_jumps.into());
        add("publishes_unknown", counts.publishes_unknown.into());
    }
    let last = run.load.as_ref().map(|(spent, _)| spent).or(run.arrival.as_ref());
    let last = last.filter(|_| has_server);
    if let Some((_, usage)) = last.and_then(|spent| spent.server) {
        add("server_peak_rss_bytes", usage.peak_rss_bytes.into());
        add("server_cpu_resolution_seconds", cpu_resolution().as_secs_f64().into());
    }
    let in_load = run.load.as_ref().and_then(|(_, all)| all.received.faults.first.as_deref());
    let first = run.faults.first.as_deref().or(in_load).map(str::to_owned);
    let lost = || format!("{} deliveries of accepted events never came", run.lost);
    if let Some(text) = first.or_else(|| (run.lost > 0).then(lost)) {
        add("first_error", text.into());
    }
    extra.extend(run.extra.clone());
    extra
}

fn add_delivery_figures(deliveries: &Deliveries, add: &mut impl FnMut(&str, Value)) {
    let Deliveries { last_client, publish, .. } = deliveries;
    add("deliveries", deliveries.received.operations.into());
    add("events", publish.count().into());
    for (name, latencies) in [("last_client", last_client), ("publish", publish)] {
        add(&format!("{name}_p50_us"), rounded(latencies.quantile_us(0.50)).into());
        add(&format!("{name}_p99_us"), rounded(latencies.quantile_us(0.99)).into());
    }
    add("reordered", deliveries.reordered.into());
    add("duplicated", deliveries.duplicated.into());
}

#[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 of anything")]
fn add_connect_figures(run: &Run, settings: &LoadSettings, add: &mut impl FnMut(&str, Value)) {
    let clients = settings.clients as f64;
    if let Some(arrival) = &run.arrival {
        let rate = clients / arrival.elapsed.as_secs_f64().max(1e-9);
        add("connects_per_second", rounded(rate).into());
        let cpu = arrival.server_cpu().map(|cpu| us_per_operation(cpu, clients));
        add("connect_server_cpu_us", cpu.into());
    }
    if let Some((before, after)) = run.rss {
        let grown = after.rss_bytes.saturating_sub(before.rss_bytes) as f64;
        add("rss_bytes_per_connection", (grown / clients).round().into());
    }
    if let Some(connections) = &run.connections {
        add("refused", connections.rejected.into());
        add("refused_for_good", connections.rejected_permanently.into());
        add("closed", connections.closed.into());
    }
}

pub(crate) fn us_per_operation(cpu: Duration, operations: f64) -> f64 {
    rounded(cpu.as_secs_f64() * 1e6 / operations.max(1.0))
}

/// Rounds to three decimals.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn settings_json(target: &Target, settings: &LoadSettings) -> Value {
    let mut json = serde_json::to_value(settings).expect("settings have only string keys");
    json["url"] = target.url.to_string().into();
    json["protocol"] = json!(target.protocol.name());
    json
}
