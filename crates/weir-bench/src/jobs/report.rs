//! Turns a run into the common envelope: its figures are those of the scenario's main phase; all phases are listed.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::phase::{Phase, Target};
use super::scenario::Run;
use super::settings::{LoadSettings, Scenario};
use crate::envelope::Envelope;
use crate::process_usage::cpu_resolution;
use crate::tally::Tally;

/// Figures of one phase.
struct Figures {
    operations: u64,
    seconds: f64,
    rate: f64,
    latencies_us: [f64; 4],
    client_cpu_seconds: f64,
    server_cpu_seconds: Option<f64>,
    server_cpu_us_per_operation: Option<f64>,
}

pub(crate) fn envelope(run: &Run, target: &Target, settings: &LoadSettings) -> Envelope {
    let phase = run.phases.last().expect("a run that succeeded has a phase");
    let figures = figures(phase, main_tally(phase, settings.scenario));
    let usage_after = phase.server.map(|(_, after)| after);
    let [p50_us, p95_us, p99_us, _] = figures.latencies_us;
    Envelope {
        bench: "jobs",
        scenario: settings.scenario.name(),
        settings: settings_json(target, settings),
        seconds: figures.seconds,
        operations_per_second: figures.rate,
        p50_us,
        p95_us,
        p99_us,
        errors: run.faults.count
            + run.phases.iter().map(|phase| phase.tallies.errors()).sum::<u64>(),
        client_cpu_seconds: figures.client_cpu_seconds,
        server_cpu_seconds: figures.server_cpu_seconds,
        server_cpu_us_per_operation: figures.server_cpu_us_per_operation,
        server_rss_bytes: usage_after.map(|usage| usage.rss_bytes),
        extra: extra(run, settings),
    }
}

/// Returns the tally of a phase's operations: pushed jobs while filling, otherwise drained jobs.
fn main_tally(phase: &Phase, scenario: Scenario) -> &Tally {
    match (scenario, phase.name) {
        (Scenario::Push | Scenario::Pushb, _) | (_, "fill") => &phase.tallies.pushed,
        _ => &phase.tallies.drained,
    }
}

#[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 operations")]
fn figures(phase: &Phase, tally: &Tally) -> Figures {
    let operations = tally.operations as f64;
    let seconds = phase.elapsed.as_secs_f64();
    let server_cpu = phase.server.map(|(before, after)| after.cpu.saturating_sub(before.cpu));
    let latencies = &tally.latencies;
    let quantile = |quantile| rounded(latencies.quantile_us(quantile));
    let longest = rounded(latencies.longest_us());
    Figures {
        operations: tally.operations,
        seconds,
        rate: rounded(operations / seconds.max(1e-9)),
        latencies_us: [quantile(0.50), quantile(0.95), quantile(0.99), longest],
        client_cpu_seconds: phase.client_cpu.as_secs_f64(),
        server_cpu_seconds: server_cpu.map(|cpu| cpu.as_secs_f64()),
        server_cpu_us_per_operation: server_cpu.map(|cpu| per_operation_us(cpu, operations)),
    }
}

fn per_operation_us(cpu: Duration, operations: f64) -> f64 {
    rounded(cpu.as_secs_f64() * 1e6 / operations.max(1.0))
}

/// Rounds to three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn settings_json(target: &Target, settings: &LoadSettings) -> Value {
    let mut json = serde_json::to_value(settings).expect("settings have only string keys");
    json["url"] = target.url.to_string().into();
    json
}

fn extra(run: &Run, settings: &LoadSettings) -> Map<String, Value> {
    let mut extra = Map::new();
    let mut add = |key: &str, value: Value| extra.insert(key.to_owned(), value);
    add("server_version", run.server_version.clone().into());
    let last_usage = run.phases.iter().rev().find_map(|phase| phase.server);
    if let Some((_, usage)) = last_usage {
        add("server_peak_rss_bytes", usage.peak_rss_bytes.into());
        add("server_processes", usage.processes.into());
        add("server_cpu_resolution_seconds", cpu_resolution().as_secs_f64().into());
    }
    if let Some((top, before)) = run.backlog_rss_bytes {
        add("backlog_rss_bytes", top.into());
        add("backlog_rss_bytes_per_job", (top.saturating_sub(before) / settings.jobs).into());
    }
    let total: Duration = run.phases.iter().map(|phase| phase.elapsed).sum();
    add("total_seconds", total.as_secs_f64().into());
    add("phases", run.phases.iter().map(|phase| phase_json(phase, settings.scenario)).collect());
    if settings.scenario == Scenario::Mixed {
        let pushes = run.phases.iter().map(|phase| tally_json(phase, &phase.tallies.pushed));
        add("pushes", pushes.collect());
    }
    let in_phases = run.phases.iter().find_map(|phase| phase.tallies.first_error());
    if let Some(text) = run.faults.first.as_deref().or(in_phases) {
        add("first_error", text.into());
    }
    extra
}

fn phase_json(phase: &Phase, scenario: Scenario) -> Value {
    let mut json = tally_json(phase, main_tally(phase, scenario));
    json["phase"] = phase.name.into();
    if let Some((_, after)) = phase.server {
        json["server_rss_bytes"] = after.rss_bytes.into();
    }
    json
}

fn tally_json(phase: &Phase, tally: &Tally) -> Value {
    let figures = figures(phase, tally);
    let [p50_us, p95_us, p99_us, max_us] = figures.latencies_us;
    json!({
        "operations": figures.operations,
        "seconds": figures.seconds,
        "operations_per_second": figures.rate,
        "p50_us": p50_us,
        "p95_us": p95_us,
        "p99_us": p99_us,
        "max_us": max_us,
        "client_cpu_seconds": figures.client_cpu_seconds,
        "server_cpu_seconds": figures.server_cpu_seconds,
        "server_cpu_us_per_operation": figures.server_cpu_us_per_operation,
    })
}
