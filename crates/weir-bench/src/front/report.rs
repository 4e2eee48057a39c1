//! Turns a run into the common envelope.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::scenario::{Run, Target};
use super::settings::LoadSettings;
use super::tally::FrontTally;
use crate::envelope::Envelope;
use crate::process_usage::{Usage, cpu_resolution};

pub(crate) fn envelope(run: &Run, target: &Target, settings: &LoadSettings) -> Envelope {
    let tally = &run.tally;
    let seconds = settings.duration.as_secs_f64();
    let spent = run.server.map(|(before, after)| Spent::between(before, after));
    let quantile = |quantile| rounded(tally.latencies.quantile_us(quantile));
    Envelope {
        bench: "front",
        scenario: settings.scenario.name(),
        settings: settings_json(target, settings),
        seconds,
        operations_per_second: rounded(as_number(tally.in_time) / seconds),
        p50_us: quantile(0.50),
        p95_us: quantile(0.95),
        p99_us: quantile(0.99),
        errors: tally.faults.count + unnamed(tally, settings),
        client_cpu_seconds: run.client_cpu.as_secs_f64(),
        server_cpu_seconds: spent.map(|spent| spent.cpu.as_secs_f64()),
        server_cpu_us_per_operation: spent.map(|spent| each_us(spent.cpu, tally.answered)),
        server_rss_bytes: run.server.map(|(_, after)| after.rss_bytes),
        extra: extra(run, settings),
    }
}

#[derive(Debug, Clone, Copy)]
struct Spent {
    cpu: Duration,
    system_cpu: Duration,
}

impl Spent {
    fn between(before: Usage, after: Usage) -> Self {
        Self {
            cpu: after.cpu.saturating_sub(before.cpu),
            system_cpu: after.system_cpu.saturating_sub(before.system_cpu),
        }
    }
}

/// Who says how many workers there are wants to know how they share.
fn unnamed(tally: &FrontTally, settings: &LoadSettings) -> u64 {
    if settings.workers.is_some() { tally.unnamed } else { 0 }
}

fn extra(run: &Run, settings: &LoadSettings) -> Map<String, Value> {
    let tally = &run.tally;
    let mut extra = Map::new();
    let mut add = |key: &str, value: Value| extra.insert(key.to_owned(), value);
    add("requests", tally.requests.into());
    add("timeouts", tally.timeouts.into());
    let fairness = tally.shares.fairness(settings.workers);
    add("jain", fairness.map(|fairness| decimals(fairness.jain, 1e4)).into());
    add("min", fairness.map(|fairness| fairness.min).into());
    add("max", fairness.map(|fairness| fairness.max).into());
    add("idle_workers", fairness.and_then(|fairness| fairness.idle_workers).into());
    add("workers_seen", fairness.map_or(0, |fairness| fairness.workers_seen).into());
    add("max_us", rounded(tally.latencies.longest_us()).into());
    add("mean_service_us", each_us(tally.service_asked, tally.requests).into());
    match (settings.requests_per_second, settings.workers) {
        (None, _) => add_ceiling(tally, settings, &mut add),
        (Some(_), Some(workers)) => {
            let possible = settings.duration.as_secs_f64() * as_number(workers as u64);
            let offered = tally.service_asked.as_secs_f64() / possible;
            add("offered_load", decimals(offered, 1e4).into());
        }
        (Some(_), None) => {}
    }
    add("waited_for_connection", tally.waited_for_connection.into());
    add("reconnects", tally.reconnects.into());
    if !tally.refusals.is_empty() {
        add("refusals", json!(tally.refusals));
    }
    if let Some((before, after)) = run.server {
        let spent = Spent::between(before, after);
        let user = spent.cpu.saturating_sub(spent.system_cpu);
        add("server_user_cpu_us_per_operation", each_us(user, tally.answered).into());
        add("server_system_cpu_us_per_operation", each_us(spent.system_cpu, tally.answered).into());
        add("server_processes", after.processes.into());
        add("server_cpu_resolution_seconds", cpu_resolution().as_secs_f64().into());
    }
    let nameless = (unnamed(tally, settings) > 0).then(|| "an answer without X-Worker".to_owned());
    if let Some(text) = tally.faults.first.clone().or(nameless) {
        add("first_error", text.into());
    }
    extra
}

/// In a closed loop the workers' times alone bound the rate: connections / mean service time. `of_ceiling` is how
/// much of it was reached: service time over latency, which has no edges where a run begins and ends.
fn add_ceiling(
    tally: &FrontTally,
    settings: &LoadSettings,
    add: &mut impl FnMut(&str, Value) -> Option<Value>,
) {
    if tally.service.is_zero() {
        return;
    }
    let mean_seconds = tally.service_asked.as_secs_f64() / as_number(tally.requests);
    let connections = as_number(settings.connections as u64);
    add("ceiling_operations_per_second", rounded(connections / mean_seconds).into());
    let reached = tally.service.as_secs_f64() / tally.waited.as_secs_f64();
    add("of_ceiling", decimals(reached, 1e4).into());
}

fn settings_json(target: &Target, settings: &LoadSettings) -> Value {
    let mut json = serde_json::to_value(settings).expect("settings have only string keys");
    json["target"] = target.url.to_string().into();
    json
}

fn each_us(spent: Duration, operations: u64) -> f64 {
    rounded(spent.as_secs_f64() * 1e6 / as_number(operations.max(1)))
}

#[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 operations")]
fn as_number(count: u64) -> f64 {
    count as f64
}

/// More than any of these figures means.
fn rounded(value: f64) -> f64 {
    decimals(value, 1e3)
}

fn decimals(value: f64, scale: f64) -> f64 {
    (value * scale).round() / scale
}
